"""Outboxes: folders through which an agent makes requests in its turn. The requests are read, limited in size and
number, and answered.

Does not depend on what a request does: `RootContext.carry_out` carries it out.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from beam.base.clock import Steps
from beam.base.errors import BeamError, ExitCode, LimitError, RefusedFileError, UnfinishedError
from beam.base.faults import crash_point
from beam.model import events
from beam.store.outbox import Answer, OpenTurn, OutboxFolder, abandoned_outboxes, refusal_of, sent_but_over

if TYPE_CHECKING:
    from beam.broker.inbox.context import Sender
    from beam.broker.inbox.log import AgentLog

_MAX_PER_POLL = 20  # requests that one poll takes; there are ten polls a second
_MAX_NOTICES = 20
_LAST_LOOKS, _LAST_LOOK_S = 50, 0.01
_OVERHEAD_BYTES = 64 * 1024  # of a request, beside its text
_ERROR_CHARS = 300  # characters of an exception
_ESCAPE_BYTES = 6  # bytes that JSON may need for one character


class _OpenRequest(Struct):
    """A request that is being carried out."""

    folder: OutboxFolder
    name: str
    steps: Steps[Answer]
    is_short: bool  # it waits only for a lock that others have for a moment
    accepted: list[Answer]  # the interim answer that was given, if any


class Outboxes:
    """The outboxes of one agent: that of the running turn, and that of a process that is kept between turns."""

    def __init__(self, log: AgentLog) -> None:
        self.log = log
        self._folders: dict[str, OutboxFolder] = {}
        self._asked: list[_OpenRequest] = []
        self._stuck: set[tuple[str, str]] = set()
        self._count = 0
        self._notices = 0

    def make(self, scratch: Path) -> Path:
        """Create the outbox of the turn with this directory; return its path. Raises DiskError."""
        path = scratch / "outbox"
        self._folders[scratch.name] = OutboxFolder.make(path)
        return path

    def begin(self, sender: Sender) -> None:
        """Begin to carry out requests in the name of this sender."""
        self._count = self._notices = 0
        for folder in self._folders.values():
            folder.open_turn(OpenTurn(agent=sender.agent, message_id=sender.message.id))

    def poll(self, sender: Sender) -> None:
        """Take new requests, and continue the requests in progress. Never blocks."""
        for key, folder in self._folders.items():
            stuck = {name for at, name in self._stuck if at == key}
            for name in folder.names(besides=stuck)[:_MAX_PER_POLL]:
                self._take_request(key, folder, name, sender)
        self._asked = [asked for asked in self._asked if not self._continue_request(asked)]

    def end(self, sender: Sender) -> Steps[None]:
        """Take the last requests of the turn, and wait briefly for those that need only a short lock. The others are
        refused, because a kept process may still wait for their answers. No request is carried out after this."""
        before = -1
        while self._count != before:  # twenty at a time
            before = self._count
            self.poll(sender)
        unfinished = [asked for asked in self._asked if not asked.is_short]
        self._asked = [asked for asked in self._asked if asked.is_short]
        for _ in range(_LAST_LOOKS):
            self._asked = [asked for asked in self._asked if not self._continue_request(asked)]
            if not self._asked:
                break
            yield _LAST_LOOK_S
        for asked in (*unfinished, *self._asked):
            _refuse_unfinished(asked, sender.agent)
        self._asked.clear()
        for folder in self._folders.values():
            folder.close_turn()

    def forget_removed(self) -> None:
        """Close the outboxes whose folders were removed."""
        for key in [key for key, folder in self._folders.items() if folder.is_gone]:
            self._folders.pop(key).close()

    def close(self) -> None:
        """Close all outboxes."""
        for folder in self._folders.values():
            folder.close()
        self._folders.clear()

    def drain_leftovers(self, sender: Sender) -> None:
        """Carry out the requests that are left from the turn of a dead holder. May block briefly."""
        self._folders = dict(abandoned_outboxes(self.log.context.home.turns_of(self.log.paths)))
        try:
            for pause in self.end(sender):
                time.sleep(pause)
        finally:
            self.close()

    # -- one request -----------------------------------------------------------------------------------------------

    def _take_request(self, key: str, folder: OutboxFolder, name: str, sender: Sender) -> None:
        limits = self.log.context.config.limits
        noted = ""
        try:
            self._check_count(sender.agent, limits.sends)
            request = folder.read(name, _ESCAPE_BYTES * limits.text_bytes + _OVERHEAD_BYTES)
            if request is None:
                return
            self._count += 1
            accepted: list[Answer] = []

            def accept(answer: Answer) -> None:
                accepted.append(answer)
                folder.answer(name, answer)

            steps = self.log.context.carry_out(self.log.context, request, name, sender, accept)
            asked = _OpenRequest(folder, name, steps, request.verb == "reply", accepted)
            if not self._continue_request(asked):
                self._asked.append(asked)
            crash_point("outbox.taken")
        except Exception as error:  # noqa: BLE001 - a request that is not removed would be taken again forever
            refused = _refusal_error(error)
            if isinstance(error, RefusedFileError) or refused is not error:
                noted = f"{sender.agent}'s outbox: {refused.message}"
            folder.answer(name, Answer(refused=refusal_of(refused)))
        if not folder.remove(name):
            self._stuck.add((key, name))
        if noted:
            self._record_notice(noted)
        crash_point("outbox.removed")

    def _check_count(self, agent: str, most: int) -> None:
        if self._count >= most:
            raise LimitError(
                f"{agent} made {self._count} requests in this turn; the limit is {most}",
                "send fewer messages; `limits: sends:` in beam.yaml has the bound",
                subject=agent,
            )

    def _continue_request(self, asked: _OpenRequest) -> bool:
        """Continue a request; return whether it is answered."""
        try:
            next(asked.steps)
        except StopIteration as done:
            asked.folder.answer(asked.name, done.value)
        except Exception as error:  # noqa: BLE001 - as in `_take_request`
            refused = _refusal_error(error)
            asked.folder.answer(asked.name, Answer(refused=refusal_of(refused)))
            if refused is not error:
                self._record_notice(f"{self.log.paths.agent}'s outbox: {refused.message}")
        else:
            return False
        return True

    def _record_notice(self, text: str) -> None:
        self._notices += 1
        if self._notices <= _MAX_NOTICES:
            self.log.record(events.Notice(code="bad_request", text=text))


def _refuse_unfinished(asked: _OpenRequest, agent: str) -> None:
    """Refuse a request that was not finished when its turn ended."""
    sent = asked.accepted[-1].accepted if asked.accepted else None
    error = UnfinishedError(
        f"{agent}'s turn ended before this request was answered",
        "check whether it was carried out before you repeat it",
        subject=agent,
    )
    if sent is not None:
        error = sent_but_over(sent)
    asked.folder.answer(asked.name, Answer(refused=refusal_of(error)))


def _refusal_error(error: Exception) -> BeamError:
    """Return the error with which a request is refused. An exception that is no BeamError is a bug of beam: it must not
    end the holder, because the same request would end the next one."""
    if isinstance(error, BeamError):
        return error
    said = f"{type(error).__name__}: {error}"[:_ERROR_CHARS]
    said = said.encode("utf-8", "backslashreplace").decode()
    return BeamError(
        f"a request could not be carried out, which is a bug of beam ({said})",
        "ask for something else",
        kind="bug",
        exit_code=ExitCode.BUG,
    )
