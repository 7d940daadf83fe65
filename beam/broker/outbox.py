"""What a turn's holder does with the requests of its agent: who speaks, and what that one may do, is the holder's own
knowledge, never what a request says.

A request is carried out once: the id of a message follows from the turn and the request's name, so a holder that died
between putting it and removing the request is followed exactly.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from beam.base.errors import BeamError, CorruptError, LimitError, NotFoundError, RefusedFileError, UsageError
from beam.base.faults import crash_point
from beam.base.steps import Steps
from beam.broker.sender import Sender
from beam.model import events
from beam.model.message import Message, agent_of, sent_id
from beam.store.outbox import Answer, Folder, OpenTurn, Request, left_in, refusal_of

if TYPE_CHECKING:
    from beam.broker.context import RootContext
    from beam.broker.hold import Holder
    from beam.root.paths import AgentPaths

_AT_ONCE = 20  # requests that are taken in one look: ten looks a second
_MOST_NOTICES = 20
_LAST_LOOKS, _LAST_LOOK_S = 50, 0.01
_MORE_BYTES = 64 * 1024  # of a request, beside its text
_ESCAPED = 6  # bytes that JSON may need for one


class _Asked(Struct):
    """A request that is being carried out."""

    folder: Folder
    name: str
    steps: Steps[Answer]
    is_short: bool  # it waits only for a lock that others have for a moment


class Outboxes:
    """The outboxes of one holder: that of the turn that runs, and that of a process that is kept between turns."""

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self._folders: dict[str, Folder] = {}
        self._asked: list[_Asked] = []
        self._stuck: set[tuple[str, str]] = set()
        self._count = 0
        self._notices = 0

    def make(self, turn_key: str) -> Path:
        """Makes the outbox of a turn; where it is. Raises DiskError."""
        path = self.holder.context.home.turns_of(self.holder.place) / turn_key / "outbox"
        self._folders[turn_key] = Folder.make(path)
        return path

    def begin(self, sender: Sender) -> None:
        """From now on requests are carried out, as this sender's."""
        self._count = self._notices = 0
        for folder in self._folders.values():
            folder.open_turn(OpenTurn(agent=sender.agent, message_id=sender.message.id))

    def look(self, sender: Sender) -> None:
        """Takes in what was asked since, and goes on with what takes its time. Never waits."""
        for key, folder in self._folders.items():
            stuck = {name for at, name in self._stuck if at == key}
            for name in folder.names(besides=stuck)[:_AT_ONCE]:
                self._take(key, folder, name, sender)
        self._asked = [asked for asked in self._asked if not self._step(asked)]

    def end(self, sender: Sender) -> Steps[None]:
        """Takes in the last requests, and waits a moment for what takes no longer; nothing is carried out after this.
        An outbox that is gone is forgotten."""
        before = -1
        while self._count != before:  # twenty at a time
            before = self._count
            self.look(sender)
        for _ in range(_LAST_LOOKS):
            self._asked = [asked for asked in self._asked if asked.is_short and not self._step(asked)]
            if not self._asked:
                break
            yield _LAST_LOOK_S
        self._asked.clear()
        for folder in self._folders.values():
            folder.close_turn()

    def forget_gone(self) -> None:
        """Closes the outboxes whose folders were removed."""
        for key in [key for key, folder in self._folders.items() if folder.is_gone]:
            self._folders.pop(key).close()

    def close(self) -> None:
        """Looks at none any more."""
        for folder in self._folders.values():
            folder.close()
        self._folders.clear()

    def drain_left(self, sender: Sender) -> None:
        """Takes in what the agent of a dead holder's turn had asked for; may wait a moment."""
        self._folders = dict(left_in(self.holder.context.home.turns_of(self.holder.place)))
        try:
            for pause in self.end(sender):
                time.sleep(pause)
        finally:
            self.close()

    # -- one request -----------------------------------------------------------------------------------------------

    def _take(self, key: str, folder: Folder, name: str, sender: Sender) -> None:
        limits = self.holder.context.limits
        try:
            if self._count >= limits.sends:
                raise LimitError(
                    f"{sender.agent} asked for {self._count} things in this turn: the limit is {limits.sends}",
                    "send fewer messages; `limits: sends:` in beam.yaml has the bound",
                    subject=sender.agent,
                )
            request = folder.read(name, _ESCAPED * limits.text_bytes + _MORE_BYTES)
            if request is None:
                return
            self._count += 1
            steps = self._carry_out(request, name, key, sender)
            asked = _Asked(folder, name, steps, request.verb == "reply")
            if not self._step(asked):
                self._asked.append(asked)
            crash_point("outbox.taken")
        except BeamError as error:
            if isinstance(error, RefusedFileError):
                self._notice(f"{sender.agent}'s outbox: {error.message}")
            folder.answer(name, Answer(refused=refusal_of(error)))
        if not folder.remove(name):
            self._stuck.add((key, name))
        crash_point("outbox.removed")

    def _step(self, asked: _Asked) -> bool:
        """Goes on with a request; whether it is answered."""
        try:
            next(asked.steps)
        except StopIteration as done:
            asked.folder.answer(asked.name, done.value)
        except BeamError as error:
            asked.folder.answer(asked.name, Answer(refused=refusal_of(error)))
        else:
            return False
        return True

    def _notice(self, text: str) -> None:
        self._notices += 1
        if self._notices <= _MOST_NOTICES:
            self.holder.record(events.Notice(code="bad_request", text=text))

    def _carry_out(self, request: Request, name: str, key: str, sender: Sender) -> Steps[Answer]:
        verbs: dict[str, Callable[[], Steps[Answer]]] = {
            "send": lambda: self._send(request, name, key, sender),
            "reply": lambda: self._reply(request),
            "interrupt": lambda: self._interrupt(request, sender),
            "deny": lambda: self._deny(request, sender),
        }
        return verbs[request.verb]()

    def _send(self, request: Request, name: str, key: str, sender: Sender) -> Steps[Answer]:
        from beam.broker import launch
        from beam.broker.follow import follow
        from beam.broker.put import check_receiver, put

        context = self.holder.context
        message = self._message(request, name, sender)
        check_receiver(context, message.to, context.access_for(context.resolve(message.to), message))
        lane = message.id.rpartition("-")[2] if message.options.once else None
        place = context.place(message.to, lane)
        put(context, place, message, once=True)
        crash_point("outbox.put")
        launch.ensure(context, place)
        if not request.wait:
            return Answer(accepted=message.id)
        folder = self._folders[key]
        folder.answer(name, Answer(accepted=message.id))
        outcome = yield from follow(context, place, message.id, seen=lambda event: None)
        return Answer(accepted=message.id, outcome=outcome)

    def _message(self, request: Request, name: str, sender: Sender) -> Message:
        from beam.broker.compose import Caller, compose

        context, before = self.holder.context, sender.message
        message = compose(
            request.to,
            request.text,
            caller=Caller(
                name=sender.agent,
                thread=before.thread or before.id,
                hops=before.hops,
                chain=sender.chain,
                spent=msgspec.structs.replace(before.spent, turns=before.spent.turns + 1),
            ),
            wait=request.wait,
            clock=context.clock,
            limits=context.limits,
            attach=[_inside(sender.folder, path) for path in request.attach],
            options=request.options,
            key=request.key,
            deadline=request.deadline,
            replies=request.replies,
            session_context=sender.context,
        )
        if request.key is None:
            message = msgspec.structs.replace(message, id=sent_id(request.to, sender.turn_key, name))
        return msgspec.structs.replace(message, at_most=sender.at_most)

    def _reply(self, request: Request) -> Steps[Answer]:
        from beam.broker.mailbox import replying

        context, target = self.holder.context, request.target
        outcome = yield from replying(context, _place_of(context, target), target, request.text, failed=request.failed)
        return Answer(outcome=outcome)

    def _interrupt(self, request: Request, sender: Sender) -> Steps[Answer]:
        from beam.broker.requests import request as ask
        from beam.store.queue import Queue

        place = _place_of(self.holder.context, request.target)
        queue = Queue(place.queue, place.put_lock)
        entry = queue.find(request.target)
        if entry is None:
            raise NotFoundError(f"{request.target} is over, or never was", "beam show ID", subject=request.target)
        try:
            said_by = queue.read(entry).sender
        except (FileNotFoundError, CorruptError) as error:
            raise NotFoundError(f"{request.target} is over", "", subject=request.target) from error
        if said_by != sender.agent:
            raise UsageError(
                f"{request.target} is {said_by}'s message: an agent ends only what it sent itself",
                f"a person can: beam interrupt {request.target}",
                subject=request.target,
            )
        said = yield from ask(self.holder.context, place, "interrupt", request.target, by=sender.agent)
        return Answer(said=said)

    def _deny(self, request: Request, sender: Sender) -> Steps[Answer]:
        from beam.broker.requests import request as ask

        place = _place_of(self.holder.context, request.target)
        said = yield from ask(
            self.holder.context,
            place,
            "deny",
            request.target,
            by=sender.agent,
            text=request.text or None,
            stop=request.stop,
        )
        return Answer(said=said)


def _place_of(context: RootContext, whole_id: str) -> AgentPaths:
    """Where the message or ask with that id belongs. Raises NotFoundError for an id of no agent of this root."""
    name = agent_of(whole_id)
    if name not in context.home.agents():
        raise NotFoundError(f"{whole_id[:120]!r} is nothing of this root", "give the whole id", subject=whole_id[:120])
    place = context.place(name)
    lane = whole_id.rpartition("-")[2]
    return next((each for each in place.lanes() if each.lane == lane), place)


def _inside(folder: Path, named: str) -> Path:
    """The path of a file that an agent attaches. Raises UsageError where it lies outside the agent's own folder."""
    path = Path(os.path.realpath(folder / named)) if "\0" not in named else folder.parent
    if not path.is_relative_to(os.path.realpath(folder)):
        raise UsageError(
            f"{named[:200]!r} lies outside {folder}: an agent attaches only files of its own folder",
            "say what it holds, or copy it there",
            subject=named[:200],
        )
    return path
