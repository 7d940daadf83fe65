"""The budget of a whole run: counts usage while turns run, warns at 80 %, and stops the run at 100 %."""

from __future__ import annotations

from collections.abc import Callable

from beam.conversations.facts import TurnFacts
from beam.conversations.scenario import Spending

_WARNING_SHARE = 0.8


class BudgetMeter:
    """Adds up the cost and the tokens of a run's turns, and compares them with the limits. `warn` is called with each
    warning that a figure is unknown. `near` (None: `warn`) is called with a warning, once for each limit of which 80 %
    are used. `over` is called once, when a limit is reached, with the reason."""

    def __init__(
        self,
        limits: Spending,
        warn: Callable[[str], None],
        over: Callable[[str], None],
        near: Callable[[str], None] | None = None,
    ) -> None:
        self._limits = limits
        self._warn = warn
        self._over = over
        self._near = near or warn
        self._turns: list[TurnFacts] = []
        self._warned: set[str] = set()
        self.reached = ""

    def add(self, turn: TurnFacts) -> None:
        """Count a turn that begins now."""
        self._turns.append(turn)

    def compare_with_limits(self) -> None:
        """Compare what the turns have used so far with the limits, and call `warn`, `near` or `over` if that is due."""
        if self._limits.cost_usd is None and self._limits.tokens is None:
            return
        cost = sum(turn.cost_usd or 0.0 for turn in self._turns)
        tokens = sum(turn.tokens or 0 for turn in self._turns)
        self._compare("cost", cost, self._limits.cost_usd, f"${cost:.4f} of ${self._limits.cost_usd or 0:g}")
        self._compare("tokens", tokens, self._limits.tokens, f"{tokens} of {self._limits.tokens} tokens")
        for turn in self._turns:
            if turn.outcome is not None:
                self._warn_if_unknown(turn)

    def _compare(self, what: str, used: float, most: float | None, said: str) -> None:
        if most is None or self.reached:
            return
        if used >= most and used > 0:
            self.reached = f"the run used {said}, its budget"
            self._over(self.reached)
        elif used >= _WARNING_SHARE * most and used > 0:
            self._warn_once(what, f"the run has used {said}", self._near)

    def _warn_if_unknown(self, turn: TurnFacts) -> None:
        if self._limits.cost_usd is not None and turn.cost_usd is None:
            text = f"the cost of {turn.agent} is unknown, so the budget does not count it"
            self._warn_once(f"{turn.agent} cost", text)
        if self._limits.tokens is not None and turn.tokens is None:
            text = f"{turn.agent} reports no tokens, so the budget does not count them"
            self._warn_once(f"{turn.agent} tokens", text)

    def _warn_once(self, key: str, text: str, tell: Callable[[str], None] | None = None) -> None:
        if key not in self._warned:
            self._warned.add(key)
            (tell or self._warn)(text)

    @property
    def speaker(self) -> str:
        """Return the agent of the turn that began last."""
        return self._turns[-1].agent if self._turns else ""
