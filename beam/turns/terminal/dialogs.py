"""What is done about a dialog on an agent's screen: what beam may answer itself, and what somebody is asked.

With access `ask` a request for permission becomes an ask, and so does a question that nobody described, which can only
be answered on the screen itself. With any other access what still asks is denied at once.
"""

from __future__ import annotations

from beam.agents.base import Turn, Verdict
from beam.events import Event, ToolCalled, ToolReturned
from beam.outcome import Class, Status
from beam.profile import Dialog
from beam.pty_adapter import profile as profiles
from beam.pty_adapter.screen import View
from beam.pty_adapter.turn_end import State, TurnEnd
from beam.pty_adapter.typing import Claim, Hands
from beam.turns.asks import Ask, Asks, Decision, Takes
from beam.turns.order import Record
from beam.turns.stop import Stop
from beam.turns.terminal.question import Question, question_of, suggestions
from beam.turns.terminal.verdict import shown, stalled

KEY_S = 0.15  # between two keys of an answer
GONE_S = 1.0  # so long must a dialog be gone before its ask is: a screen is drawn anew piece by piece
_SIGNALLED_S = 2.0  # a signal may come before the dialog is drawn
_CHANGES_S = 10.0  # a busy machine draws late, and a key that is pressed again lands in what follows
_TOLD_S = 5.0  # the transcript is written a moment after the dialog is drawn
_SAME_DIALOG = 3
_SOON_S = 3.0  # after a yes of beam's own: what ends then ended over it
_FOR_EVER_S = 1e9
_UNKNOWN = "it asks something that beam does not know"


class Dialogs:
    """The dialogs of one turn. `hands` types; their `until` ends early once the turn is over."""

    def __init__(
        self,
        turn: Turn,
        record: Record,
        hands: Hands,
        end: TurnEnd,
        asks: Asks,
        stop: Stop,
        *,
        has_history: bool,
    ) -> None:
        self.failed: Verdict | None = None  # why the turn can't go on
        self._agreed = ("", -_FOR_EVER_S)  # the last dialog that beam said yes to by itself, and when
        self._turn = turn
        self._record = record
        self._hands = hands
        self._end = end
        self._asks = asks
        self._stop = stop
        self._has_history = has_history
        self._answers: dict[str, int] = {}
        self._calls: dict[str, ToolCalled] = {}

    def record(self, body: Event, *, sync: bool = False) -> Event:
        """Records what the transcript says; a dialog may be about one of its tool calls."""
        if isinstance(body, ToolCalled):
            self._calls[body.call_id] = body
        elif isinstance(body, ToolReturned):
            self._calls.pop(body.call_id, None)
        return self._record(body, sync=sync)

    async def answer(self) -> bool:
        """Answers the open dialog, or has somebody asked; False where the turn can't go on."""
        dialog = self._end.reading.dialog
        if dialog is None:
            await self._hands.until(lambda: self._end.reading.dialog is not None, _SIGNALLED_S)
            dialog = self._end.reading.dialog
        if dialog is None:
            return self._end.state is not State.WAITING or await self._ask_what_nobody_knows()
        if dialog.kind == "permission":
            return await self._permission(dialog)
        keys = self._keys(dialog)
        if keys is None:
            return False
        await self._press(keys, lambda: self._end.reading.dialog is dialog)
        if keys == dialog.allow:
            self._agreed = (dialog.name, self._hands.now())
        return True

    def agreed_just_now(self) -> str:
        """The name of the dialog that beam said yes to by itself a moment ago; "" without one."""
        name, at = self._agreed
        return name if self._hands.now() - at < _SOON_S else ""

    def _keys(self, dialog: Dialog) -> tuple[str, ...] | None:
        """The keys that answer a dialog which is no request; None where the turn can't go on."""
        self._answers[dialog.name] = self._answers.get(dialog.name, 0) + 1
        if self._answers[dialog.name] > _SAME_DIALOG:
            self.failed = stalled(f"it goes on asking ({dialog.name})", self._hands.view())
            return None
        if dialog.kind == "login" or (dialog.kind == "trust" and not self._turn.folder_trusted):
            hint = "beam trust" if dialog.kind == "trust" else "log in with the agent itself first"
            self.failed = Verdict(
                status=Status.FAILED,
                class_=Class.AUTH if dialog.kind == "login" else Class.BAD_REQUEST,
                reason=f"the agent asks a person ({dialog.name}): {hint}\n{shown(self._hands.view())}",
            )
            return None
        if dialog.kind == "full" and self._turn.access != "full":
            return dialog.deny
        return dialog.allow

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _permission(self, dialog: Dialog) -> bool:
        self._agreed = ("", -_FOR_EVER_S)
        if self._has_history:  # which may tell of the tool call a moment later
            await self._hands.until(lambda: self._question(dialog).call_id is not None, _TOLD_S)
        question = self._question(dialog)
        ask = self._asks.ask(
            question.tool,
            input=question.input,
            description=question.description,
            call_id=question.call_id,
            suggestions=suggestions(question),
            takes=Takes(always=bool(question.always), message=bool(dialog.amend)),
        )
        if self._turn.access != "ask":
            self._asks.deny_by_default(ask, f"nobody is asked with access {self._turn.access}")
        decision = await self._decided(ask, lambda: self._stands(question))
        if decision is None or not await self._hands.until(lambda: self._stands(question), GONE_S):
            return True
        if question.call_id is not None:
            self._calls.pop(question.call_id, None)
        await self._answer(question, decision)
        return True

    def _question(self, dialog: Dialog) -> Question:
        return question_of(dialog, self._hands.view(), self._calls.values())

    def _stands(self, question: Question) -> bool:
        """Whether that very request is on the screen."""
        dialog = self._end.reading.dialog
        return dialog is question.dialog and self._question(dialog).request == question.request

    def _is_open(self, question: Question) -> bool:
        """Whether its dialog still is, whatever moves beside it."""
        dialog = self._end.reading.dialog
        return dialog is question.dialog and self._question(dialog).own == question.own

    async def _decided(self, ask: Ask, stands: Claim) -> Decision | None:
        """The decision, or by whomever nobody needs it any more: the turn is over, or the agent went on without."""
        gone: list[float] = []

        def is_over() -> bool:
            if stands():
                gone.clear()
            elif not gone:
                gone.append(self._hands.now())
            return ask.is_settled or (bool(gone) and self._hands.now() - gone[0] >= GONE_S)

        await self._hands.until(is_over, _FOR_EVER_S)
        if not ask.is_settled:
            stopped = f"the turn was stopped ({self._stop.reason})" if self._stop.reason else ""
            ended = "the agent ended" if self._end.ended else ""
            self._asks.cancel(ask, stopped or ended or "it was answered on the agent's own screen")
        return ask.decision

    async def _answer(self, question: Question, decision: Decision) -> None:
        dialog = question.dialog
        if decision.decision == "allow":
            await self._press(dialog.always if decision.always else dialog.allow, lambda: self._is_open(question))
        elif not (decision.message and await self._amended(question, decision.message)):
            await self._press(dialog.deny, lambda: self._is_open(question))
        if decision.stop:
            self._stop.ask("cancelled", by=decision.by)

    async def _amended(self, question: Question, message: str) -> bool:
        """Whether it was denied with a text. Nothing is entered before the screen shows that it belongs to a no."""
        dialog = question.dialog
        row = profiles.pattern(dialog.amend_row)
        is_shown = await self._take(dialog.amend) and row.search(self._hands.view().text) is not None
        if not is_shown or not await self._take((_typed(message),)):
            return False
        await self._press(("\r",), lambda: self._is_open(question))
        return True

    async def _press(self, keys: tuple[str, ...], stands: Claim) -> None:
        """Gives an answer. The dialog stands as it did where one of its keys was not taken. After the last one it must
        be seen to go: much may move on the screen meanwhile, and a key too many would land in what follows."""
        if not await self._take(keys[:-1]):
            return
        for key in keys[-1:]:
            await self._hands.press(key)
            if not await self._hands.until(lambda: not stands(), _CHANGES_S):
                return
        self._end.answered(self._hands.now())

    async def _take(self, keys: tuple[str, ...]) -> bool:
        """Presses keys one by one; False at the first that changed nothing: the next one might mean something else."""
        for key in keys:
            before = self._hands.view()
            await self._hands.press(key)
            await self._hands.until(lambda: False, KEY_S)
            if not await self._changed(before):
                return False
        return True

    async def _changed(self, before: View) -> bool:
        return await self._hands.until(lambda: self._hands.view().rows != before.rows, _CHANGES_S)

    # -- what nobody described -----------------------------------------------------------------------------------------

    async def _ask_what_nobody_knows(self) -> bool:
        """Waits until somebody answered it on the screen, or the ask's time is over; False where nobody did."""
        self.failed = stalled(_UNKNOWN, self._hands.view())
        if self._turn.access != "ask":
            return False
        ask = self._asks.ask(
            "a question on its screen", description=shown(self._hands.view()), takes=Takes(allow=False)
        )
        await self._decided(ask, lambda: self._end.state is State.WAITING and self._end.reading.dialog is None)
        if ask.decision is not None or self._stop.reason is not None or self._end.ended:
            return False
        self.failed = None
        return True


def _typed(text: str) -> str:
    """The text as it can be typed into a row: no key of it means anything else."""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())
