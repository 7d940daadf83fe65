"""Handles dialogs on an agent's screen: beam answers some itself, the others become asks.

With access `ask`, a permission request becomes an ask. So does an unknown question, which can only be answered on the
screen itself. With any other access, requests are denied immediately.
"""

from __future__ import annotations

from typing import Any

import msgspec

from beam.agents.base import Turn, Verdict, raw_json
from beam.model.events import Event, FileChanged, Notice, ToolCalled, ToolReturned
from beam.model.outcome import SCREEN, Class, Status
from beam.model.screen_profile import Dialog
from beam.pty_adapter.block import Block, pattern
from beam.pty_adapter.screen import View
from beam.pty_adapter.turn_end import State, TurnEnd
from beam.pty_adapter.typing import Claim, KeyPort
from beam.turns.asks import AcceptedAnswers, Ask, Asks, Decision
from beam.turns.handle import Stop
from beam.turns.request import Record
from beam.turns.terminal.question import Question, agrees_with_call, detail_of, question_of, suggestions
from beam.turns.terminal.verdict import informative_rows, stalled_verdict

UNCHANGED_S = 0.5  # how long a dialog must stay unchanged: a starting agent may redraw it with another choice selected
DRAW_TIMEOUT_S = 5.0  # how long a request may have no text: on a busy machine its frame is drawn first
TAKES_KEYS_AFTER_S = 1.0  # an agent may draw a request before it takes keys, and would lose an early one
KEY_S = 0.15  # between two keys of an answer
GONE_S = 1.0  # how long a dialog must be gone before its ask is cancelled: a screen is redrawn in pieces
_DRAWN_AFTER_SIGNAL_S = 2.0  # a signal may come before the dialog is drawn
_KEY_EFFECT_S = 10.0  # a busy machine draws late, and a repeated key would reach the next dialog
_LAST_KEY_EFFECT_S = 30.0  # how long the effect of the last key may take to be visible
_TRANSCRIPT_DELAY_S = 5.0  # the transcript is written a moment after the dialog is drawn
_MAX_REPEATS = 3
_MAX_SHOWN_CHARS = 400  # characters of what was approved, and of what was done
_ENDED_SOON_S = 3.0  # an agent that ends this soon after beam confirmed a dialog ended because of that
_FOR_EVER_S = 1e9
_UNKNOWN_QUESTION = "it asks something that beam does not know (to describe it: docs/terminals.md)"


class Dialogs:
    """The dialogs of one turn. `port` types and waits: its `until` returns early once the turn is over."""

    def __init__(
        self,
        turn: Turn,
        record: Record,
        port: KeyPort,
        end: TurnEnd,
        asks: Asks,
        stop: Stop,
        *,
        has_history: bool,
    ) -> None:
        self.failed: Verdict | None = None  # why the turn can't go on
        self.cut_short = False  # a stop left a request undecided
        self._last_confirmed = ("", -_FOR_EVER_S)  # the last dialog that beam confirmed automatically, and when
        self._turn = turn
        self._record = record
        self._port = port
        self._end = end
        self._asks = asks
        self._stop = stop
        self._has_history = has_history
        self._answers: dict[str, int] = {}
        self._calls: dict[str, ToolCalled] = {}
        self._approved: list[Question] = []  # requests that no tool call in the transcript has matched yet
        self._other_calls: list[str] = []  # calls in the transcript since then that match none of them
        self._asked_for: dict[str, ToolCalled] = {}

    def record(self, body: Event, *, sync: bool = False) -> Event:
        """Record an event of the transcript, and remember its tool call, because a dialog may be about that call."""
        recorded = self._record(body, sync=sync)
        if isinstance(body, ToolCalled):
            self._calls[body.call_id] = body
        elif isinstance(body, ToolReturned):
            call = self._calls.pop(body.call_id, None) or self._asked_for.pop(body.call_id, None)
            if call is not None and not body.is_error:
                self._compare_with_approved(call.name, _input_of(call))
        elif isinstance(body, FileChanged):
            self._compare_with_approved("an edit", body.path)
        return recorded

    def _compare_with_approved(self, what: str, reported: Any) -> None:
        """Compare an executed call with the approved requests. `what` names the call; `reported` is its input or its
        path."""
        about = next((question for question in self._approved if agrees_with_call(question, reported)), None)
        if about is not None:
            self._approved.remove(about)
            self._other_calls.clear()
        elif self._approved:
            shown_there = reported if isinstance(reported, str) else bytes(raw_json(reported)).decode()
            self._other_calls.append(f"{what} {shown_there}")

    def report_differences(self) -> None:
        """Report the approved requests that differ from the calls in the transcript."""
        approved, done = self._approved, self._other_calls
        self._approved, self._other_calls = [], []
        if approved and done:
            asked = "; ".join(" ".join(question.description.split())[:_MAX_SHOWN_CHARS] for question in approved)
            text = f"what was approved is not what its transcript says was done: approved: {asked}; done: "
            self._record(Notice(code="approved_differs", text=text + "; ".join(done)[:_MAX_SHOWN_CHARS]), sync=True)

    async def answer(self) -> bool:
        """Answer the open dialog, or create an ask for it; return False if the turn can't continue."""
        block = self._end.reading.block
        if block is None:
            await self._port.until(lambda: self._end.reading.block is not None, _DRAWN_AFTER_SIGNAL_S)
            block = self._end.reading.block
        if block is None:
            return self._end.state is not State.WAITING or await self._ask_unknown_question()
        dialog = block.dialog
        if dialog.kind == "permission":
            return await self._handle_permission(block)
        if await self._port.until(lambda: self._end.reading.dialog is not dialog, UNCHANGED_S):
            return True
        keys = self._answer_keys(dialog)
        if keys is None:
            return False
        before, passed = self._port.view(), self._make_passed_check(block)

        def stands() -> bool:
            return self._end.reading.dialog is dialog and not passed()

        is_over = await self._press_answer(block, keys, stands)
        if not is_over and self._end.is_starting and self._port.view().rows == before.rows:
            is_over = await self._press_answer(block, keys, stands)  # the agent took no key: it may still be starting
        if not is_over and stands():
            return self._fail_unanswered(dialog)
        if keys == dialog.allow:
            self._last_confirmed = (dialog.name, self._port.now())
        return True

    def _fail_unanswered(self, dialog: Dialog) -> bool:
        """End the turn as stalled, because the dialog is still there after its answer. Return False."""
        if not self._stop.reason and not self._end.ended:
            self.failed = stalled_verdict(f"it was answered, and still asks ({dialog.name})", self._port.view())
        return False

    def _make_passed_check(self, block: Block) -> Claim:
        """Return a function that returns whether the agent has written below this dialog since now.

        A program that writes line by line leaves an answered dialog in its place.
        """
        view = self._port.view()
        floor = view.scrolled + max(view.row, view.last_row)

        def is_passed() -> bool:
            now = self._port.view()
            is_bound = block.dialog.first or block.dialog.body
            return not is_bound and now.scrolled + max(now.row, now.last_row) > floor

        return is_passed

    def recently_confirmed(self) -> str:
        """Return the name of the dialog that beam confirmed automatically a moment ago; "" if there was none."""
        name, at = self._last_confirmed
        return name if self._port.now() - at < _ENDED_SOON_S else ""

    def _answer_keys(self, dialog: Dialog) -> tuple[str, ...] | None:
        """Return the keys that answer a dialog which is not a permission request; None if the turn can't continue."""
        self._answers[dialog.name] = self._answers.get(dialog.name, 0) + 1
        if self._answers[dialog.name] > _MAX_REPEATS:
            self.failed = stalled_verdict(f"it goes on asking ({dialog.name})", self._port.view())
            return None
        if dialog.kind == "login" or (dialog.kind == "trust" and not self._turn.folder_trusted):
            hint = ": beam trust" if dialog.kind == "trust" else ""
            self.failed = Verdict(
                status=Status.FAILED,
                class_=Class.AUTH if dialog.kind == "login" else Class.BAD_REQUEST,
                reason=f"the agent shows a dialog that a person must answer ({dialog.name}){hint}{SCREEN}"
                f"{informative_rows(self._port.view().rows)}",
            )
            return None
        if dialog.kind == "full" and self._turn.access != "full":
            return dialog.deny
        return dialog.allow

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _handle_permission(self, block: Block) -> bool:
        self._last_confirmed = ("", -_FOR_EVER_S)
        drawn = await self._wait_until_drawn(block)
        if drawn is None:
            return True
        block = drawn
        dialog, seen_at = block.dialog, self._port.now()
        if self._has_history:  # the transcript may report the tool call a moment later
            await self._port.until(lambda: self._question(block).call_id is not None, _TRANSCRIPT_DELAY_S)
        question = self._question(block)
        ask = self._asks.ask(
            question.tool,
            input=question.input,
            description=question.description,
            call_id=question.call_id,
            suggestions=suggestions(question),
            takes=AcceptedAnswers(always=bool(question.always), message=bool(dialog.amend)),
            waits=self._turn.access == "ask",
        )
        if self._turn.access != "ask":
            self._asks.deny_by_default(ask, f"nobody is asked with access {self._turn.access}")
        decision = await self._wait_for_decision(ask, lambda: self._is_unchanged(question))
        young_s = seen_at + TAKES_KEYS_AFTER_S - self._port.now()
        if decision is not None and young_s > 0:
            await self._port.until(lambda: False, young_s)
        if decision is None or not await self._port.until(lambda: self._is_unchanged(question), GONE_S):
            return True
        if question.call_id is not None:
            self._asked_for[question.call_id] = self._calls.pop(question.call_id)
        if decision.decision == "allow":
            self._approved.append(question)
        is_over = await self._answer_request(question, decision)
        if not is_over and ask.id in self._asks.always:
            self._asks.always.remove(ask.id)  # the approval changed nothing
        return is_over or not self._is_open(question) or self._fail_unanswered(dialog)

    async def _wait_until_drawn(self, block: Block) -> Block | None:
        """Return the request once its text is drawn, or after a while even without text; None if the request
        disappears."""
        dialog = block.dialog

        def now() -> Block | None:
            found = self._end.reading.block
            return found if found is not None and found.dialog is dialog else None

        def says_something() -> bool:
            found = now()
            return found is None or not dialog.detail or bool(detail_of(found))

        if not says_something():
            await self._port.until(says_something, DRAW_TIMEOUT_S)
        return now()

    def _question(self, block: Block) -> Question:
        return question_of(block, self._calls.values())

    def _is_unchanged(self, question: Question) -> bool:
        """Return whether exactly this request is on the screen."""
        block = self._end.reading.block
        return (
            block is not None and block.dialog is question.dialog and self._question(block).request == question.request
        )

    def _is_open(self, question: Question) -> bool:
        """Return whether the dialog of this request is still on the screen, even if something beside it moves."""
        block = self._end.reading.block
        return block is not None and block.dialog is question.dialog and self._question(block).own == question.own

    async def _wait_for_decision(self, ask: Ask, stands: Claim) -> Decision | None:
        """Return the decision on the ask; None if it is no longer needed, because the turn is over or the request has
        disappeared."""
        gone: list[float] = []

        def is_over() -> bool:
            if stands():
                gone.clear()
            elif not gone:
                gone.append(self._port.now())
            return ask.is_settled or (bool(gone) and self._port.now() - gone[0] >= GONE_S)

        await self._port.until(is_over, _FOR_EVER_S)
        if not ask.is_settled:
            stopped = f"the turn was stopped ({self._stop.reason})" if self._stop.reason else ""
            ended = "the agent ended" if self._end.ended else ""
            self.cut_short = self.cut_short or bool(stopped)
            self._asks.cancel(ask, stopped or ended or "it was answered on the agent's own screen")
        return ask.decision

    async def _answer_request(self, question: Question, decision: Decision) -> bool:
        """Answer the request on the screen as decided; return whether its dialog then disappeared."""
        dialog, passed = question.dialog, self._make_passed_check(question.block)

        def stands() -> bool:
            is_done = decision.decision == "allow" and not any(each is question for each in self._approved)
            return self._is_open(question) and not passed() and not is_done  # the next request may look the same

        if decision.decision == "allow":
            is_over = await self._press_answer(
                question.block, dialog.always if decision.always else dialog.allow, stands
            )
        elif decision.message and await self._type_reason(question, decision.message):
            is_over = await self._press_answer(question.block, ("\r",), stands)
        else:
            is_over = await self._press_answer(question.block, dialog.deny, stands)
            if decision.message:
                text = f"{question.tool} was denied, but its screen took no reason: {decision.message}"
                self._record(Notice(code="reason_not_told", text=text))
        if decision.stop:
            self._stop.request("cancelled", by=decision.by)
        return is_over

    async def _type_reason(self, question: Question, message: str) -> bool:
        """Type the reason of a denial; return whether it is on the screen, so that only Enter is left to press.

        Nothing is typed before the screen shows that the text belongs to a denial.
        """
        dialog = question.dialog
        row = pattern(dialog.amend_row)

        def is_shown() -> bool:
            return row.search(self._answers_of(question)) is not None

        # Something else may have changed on the screen first, so the row itself is waited for.
        has_keys = bool(dialog.amend) and await self._press_keys(dialog.amend)
        return (
            has_keys
            and await self._port.until(is_shown, _KEY_EFFECT_S)
            and await self._press_keys((_as_one_row(message),))
        )

    def _answers_of(self, question: Question) -> str:
        """Return the rows of the screen with the answers of this request, without what may quote them above.

        If its dialog is not recognised any more, return all rows from where it began.
        """
        block, view = self._end.reading.block, self._port.view()
        if block is not None and block.dialog is question.dialog:
            return block.text[block.text.rindex(block.found) :]
        return "\n".join(view.rows[max(0, question.block.line - view.scrolled) :])

    async def _press_answer(self, block: Block, keys: tuple[str, ...], stands: Claim) -> bool:
        """Press the keys of an answer; return whether the dialog then disappeared.

        If a key has no effect, the remaining keys are not pressed, because they could reach the next dialog.
        """
        if not await self._press_keys(keys[:-1]):
            return False
        for key in keys[-1:]:
            await self._port.press(key)
            if not await self._port.until(lambda: not stands(), _LAST_KEY_EFFECT_S):
                return False
        is_bound = block.dialog.first or block.dialog.body
        self._end.on_answered(self._port.now(), None if is_bound else block)
        return True

    async def _press_keys(self, keys: tuple[str, ...]) -> bool:
        """Press the keys one by one, and return True. Stop at the first key that changes nothing on the screen; return
        False.

        The next key might have another meaning in that case.
        """
        for key in keys:
            before = self._port.view()
            await self._port.press(key)
            await self._port.until(lambda: False, KEY_S)
            if not await self._wait_for_change(before):
                return False
        return True

    async def _wait_for_change(self, before: View) -> bool:
        return await self._port.until(lambda: self._port.view().rows != before.rows, _KEY_EFFECT_S)

    # -- unknown questions ---------------------------------------------------------------------------------------------

    async def _ask_unknown_question(self) -> bool:
        """Wait until a viewer answers the question on the screen, or the ask expires; return False if nobody
        answered."""
        self.failed = stalled_verdict(_UNKNOWN_QUESTION, self._port.view())
        if self._turn.access != "ask":
            return False
        ask = self._asks.ask(
            "a question on its screen",
            description=informative_rows(self._port.view().rows),
            takes=AcceptedAnswers(allow=False),
        )
        await self._wait_for_decision(
            ask, lambda: self._end.state is State.WAITING and self._end.reading.dialog is None
        )
        if ask.decision is not None or self._stop.reason is not None or self._end.ended:
            return False
        self.failed = None
        return True


def _input_of(call: ToolCalled) -> Any:
    """Return the call's input, as its JSON text if it is nested too deeply to be read."""
    try:
        return msgspec.json.decode(call.input)
    except RecursionError:
        return bytes(call.input).decode()


def _as_one_row(text: str) -> str:
    """Return the text for typing into one row, without control characters."""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())
