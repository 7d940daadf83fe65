"""Recognises calls of beam from inside an agent's turn, and sends their requests through the turn's outbox.

A caller inside a turn is recognised by its ancestor processes: one of them is the turn's guard, whose environment the
agent can't change. If the ancestors are not visible (in a sandbox with its own process table), the caller's own
environment variables are used. The caller never accesses the root. The turn's holder acts for the caller, and
determines itself who the caller is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from beam.base.clock import Clock, Steps, rfc3339, run_async
from beam.base.errors import (
    BeamError,
    DiskError,
    ExitCode,
    LimitError,
    SignalledError,
    UnfinishedError,
    UnsupportedError,
    UsageError,
)
from beam.base.typed_values import replace_surrogates
from beam.broker.inbox.compose import check_replies, check_text, deadline_at
from beam.model.message import NAME, Message, Options, Payload, check_name, new_id
from beam.model.outcome import Outcome
from beam.model.settings import Limits
from beam.process import table
from beam.store import outbox
from beam.store.outbox import Answer, Request

_POLL_S = 0.02
_PATIENCE_S = 60.0  # until a holder takes a request: it looks ten times a second, and may be stopped for a while
_DEEPEST = 10_000  # ancestors: an agent could put many processes between itself and its guard
_MARKER = b"BEAM_TURN_"


class CallerTurn(Struct, frozen=True):
    """The turn that the calling process belongs to: its agent, and the directory of its outbox (`folder`)."""

    agent: str
    folder: Path

    def message(
        self,
        to: str,
        text: str,
        *,
        wait: bool,
        sender: str | None,
        attach: Sequence[Path],
        options: Options,
        key: str | None,
        deadline: float | None,
        replies: int | None,
        clock: Clock,
    ) -> Message:
        """Return the message that this turn's agent wants to send.

        The turn's holder checks the message later, and sets its id, thread and sender itself. Raises UsageError,
        LimitError.
        """
        if sender is not None and sender != self.agent:
            raise UsageError(
                f"{self.agent} can't send as {sender[:80]!r}: this is a process of its turn", "leave --from out"
            )
        text = replace_surrogates(text)
        check_text(text, Limits())
        if replies is not None:
            check_replies(replies, "wait" if wait else "queue")
        now = clock.now_ns()
        return Message(
            id=new_id(check_name(to), now, clock.random(4)),
            timestamp=rfc3339(now),
            sender=self.agent,
            to=to,
            payload=Payload(text=text, attach=tuple(str(path.absolute()) for path in attach)),
            reply="wait" if wait else "queue",
            replies=replies,
            key=key,
            deadline=deadline_at(deadline, now) if deadline is not None else None,
            options=options,
        )

    def put(self, message: Message, clock: Clock) -> Steps[str]:
        """Send a message without waiting for its answer. Return the id that the message got."""
        answer = yield from self._ask(_send_request(message, clock, wait=False), clock)
        return answer.accepted or message.id

    async def deliver(self, message: Message, clock: Clock) -> Outcome:
        """Send a message and return its outcome. A signal interrupts the message's turn, or withdraws the message if it
        waits. Raises UnfinishedError if this turn ends first."""
        import asyncio

        from beam.turns.handle import Stop, stop_on_signals

        stop = Stop()
        name, outcome = _name(), None
        with stop_on_signals(stop, by=f"{self.agent} (signal)") as came:
            first = await run_async(self._ask(_send_request(message, clock, wait=True), clock, name=name))
            while True:
                answer = outbox.read_answer(self.folder, name)
                if answer is not None and answer.outcome is not None:
                    outcome = answer.outcome
                    break
                _raise_refusal(answer)
                if stop.reason is not None and answer is not None:
                    outcome = await self._withdraw(name, answer.accepted or "", clock)
                    break
                if not self.folder.is_dir():
                    raise outbox.sent_but_over(first.accepted or message.id)
                await asyncio.sleep(_POLL_S)
        if came:
            raise SignalledError(came[0], outcome, message=f"{message.to} was asked to stop")
        assert outcome is not None
        return outcome

    async def _withdraw(self, name: str, message_id: str, clock: Clock) -> Outcome | None:
        import asyncio

        try:
            await run_async(self._ask(Request(verb="interrupt", target=message_id), clock))
        except BeamError:
            return None
        until = clock.monotonic() + _PATIENCE_S / 3
        while clock.monotonic() < until:
            answer = outbox.read_answer(self.folder, name)
            if answer is not None and answer.outcome is not None:
                return answer.outcome
            await asyncio.sleep(_POLL_S)
        return None

    def reply(self, message_id: str, text: str, clock: Clock, *, failed: bool) -> Steps[Outcome]:
        """Answer a message of a mailbox and return the message's outcome."""
        answer = yield from self._ask(Request(verb="reply", target=message_id, text=text, failed=failed), clock)
        if answer.outcome is None:
            raise UnfinishedError(f"{message_id} got no outcome", "beam show ID", subject=message_id)
        return answer.outcome

    def interrupt(self, message_id: str, clock: Clock) -> Steps[str]:
        """Interrupt or withdraw a message that this agent sent. Return what was done, as text."""
        return (yield from self._ask(Request(verb="interrupt", target=message_id), clock)).said

    def deny(self, ask_id: str, clock: Clock, *, message: str | None, stop: bool) -> Steps[str]:
        """Deny an ask. Return what was done, as text."""
        wish = Request(verb="deny", target=ask_id, text=message or "", stop=stop)
        return (yield from self._ask(wish, clock)).said

    def _ask(self, request: Request, clock: Clock, *, name: str = "") -> Steps[Answer]:
        """Write a request into the outbox and return the holder's first answer.

        Raises the error with which the holder refuses the request, UnsupportedError if the outbox can't be written,
        UnfinishedError if the holder does not read the outbox.
        """
        name = name or _name()
        if not outbox.is_open(self.folder):
            raise LimitError(
                f"{self.agent} is not in a turn; a process of its kept terminal can send only while one runs",
                "send from a shell of your own",
                subject=self.agent,
            )
        try:
            outbox.publish(self.folder, name, request)
        except DiskError as error:
            raise UnsupportedError(
                f"{self.agent} can't send from here: its sandbox forbids writing into its outbox "
                f"({self.folder}: {error.message})",
                "give it --access edit, or let a person send",
                subject=self.agent,
            ) from error
        until = clock.monotonic() + _PATIENCE_S
        while True:
            answer = outbox.read_answer(self.folder, name)
            if answer is not None:
                _raise_refusal(answer)
                return answer
            if not self.folder.is_dir() or (clock.monotonic() > until and outbox.take_back(self.folder, name)):
                raise UnfinishedError(
                    f"the process that runs {self.agent}'s turn did not read its outbox",
                    "nothing was sent; try again",
                    subject=self.agent,
                )
            yield _POLL_S


def caller_turn(environ: Mapping[str, str]) -> CallerTurn | None:
    """Return the turn that the calling process belongs to; None if a person started the process."""
    given = _guard_environment() or environ
    agent, folder = given.get("BEAM_AGENT", ""), given.get("BEAM_OUTBOX", "")
    if not NAME.match(agent) or not folder.startswith("/"):
        return None
    return CallerTurn(agent, Path(folder))


def check_person(environ: Mapping[str, str], what: str) -> None:
    """Raise UsageError if the calling process belongs to an agent. `what` completes "only a person …"."""
    turn = caller_turn(environ)
    me = turn.agent if turn is not None else environ.get("BEAM_AGENT")
    if me:
        raise UsageError(f"only a person {what}; this is a process of {me}", "use a shell of your own")


def _guard_environment() -> dict[str, str] | None:
    """Return the environment of the turn's guard, which is an ancestor of this process; None if no guard is visible."""
    for words in table.ancestor_environments(_DEEPEST):
        if any(word.startswith(_MARKER) and word.endswith(b"=" + table.GUARD_VALUE) for word in words):
            pairs = (os.fsdecode(word).partition("=") for word in words)
            return {name: value for name, _, value in pairs}
    return None


def _send_request(message: Message, clock: Clock, *, wait: bool) -> Request:
    from beam.base.clock import parse_rfc3339

    left = None if message.deadline is None else (parse_rfc3339(message.deadline) - clock.now_ns()) / 1e9
    return Request(
        verb="send",
        to=message.to,
        text=message.text,
        wait=wait,
        attach=message.payload.attach,
        options=message.options,
        key=message.key,
        deadline=left,
        replies=message.replies,
    )


def _name() -> str:
    return f"{os.getpid()}-{os.urandom(6).hex()}"


def _raise_refusal(answer: Answer | None) -> None:
    if answer is None or answer.refused is None:
        return
    refused = answer.refused
    raise BeamError(
        refused.message,
        refused.hint,
        subject=refused.subject or "",
        kind=refused.kind,
        exit_code=next((code for code in ExitCode if int(code) == refused.exit_code), ExitCode.FAILED),
    )
