"""Returns messages as values to display: the messages of a queue, and the state of one message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

from beam.api.find import BOXES, all_paths, queue_of
from beam.api.strays import WRONG_NAME, misplaced, stray_names
from beam.api.turns_now import is_worked_on
from beam.base.errors import BeamError, DiskError, NotFoundError
from beam.broker.asking.follow import forgotten_error, outcome_in
from beam.broker.inbox.context import RootContext
from beam.model.outcome import Outcome
from beam.model.state import State
from beam.root.paths import AgentPaths
from beam.store.queue import Entry
from beam.store.segment import read_state


class QueueItem(Struct, frozen=True, kw_only=True):
    """One message of a queue. `box`: waiting, running, died (its holder died, and no other holder took over yet), dead
    (a dead letter), or stray (a file among the waiting messages whose name is none of a message; `id` is that name).
    `error` says why nothing will run the file: it is damaged, holds a message to another agent, or its agent is
    unknown."""

    id: str
    agent: str
    box: Literal["waiting", "running", "died", "dead", "stray"]
    sender: str = field(name="from", default="")
    timestamp: str = ""
    attempt: int = 1
    hops: int = 0
    text: str = ""
    reason: str | None = None
    error: str | None = None


class PendingMessage(Struct, frozen=True, kw_only=True):
    """The state of a message that has no outcome yet, as `beam show` prints it. `position` is the number of messages
    that wait before it. `turn` is the number of its turn, null while it waits."""

    v: int = 1
    message_id: str
    agent: str
    turn: int | None = None
    status: Literal["waiting", "running", "died"]
    attempt: int
    position: int
    text: str


def _box(entry: Entry, paths: AgentPaths, state: State) -> Literal["waiting", "running", "died", "dead"]:
    return "died" if entry.box == "cur" and not is_worked_on(paths, state) else BOXES[entry.box]


def queue_items(context: RootContext, agents: list[str]) -> Iterator[QueueItem]:
    """Yield the messages in the queues of these agents: first the running, then the waiting, then the dead ones of each
    queue, and last the strays."""
    for paths in all_paths(context, agents):
        queue, state, unknown = queue_of(paths), read_state(paths.journal), _why_unknown(context, paths)
        for box in ("cur", "new", "dead"):
            for entry in queue.entries(box):
                known = state.known.get(entry.id)
                reason = str(known.status) if box == "dead" and known is not None and known.status else None
                try:
                    message = queue.read(entry)
                except FileNotFoundError:
                    continue
                except DiskError as error:
                    where = _box(entry, paths, state)
                    yield QueueItem(id=entry.id, agent=paths.agent, box=where, error=error.message)
                    continue
                yield QueueItem(
                    id=entry.id,
                    agent=paths.agent,
                    box=_box(entry, paths, state),
                    sender=message.sender,
                    timestamp=message.timestamp,
                    attempt=message.attempt,
                    hops=message.hops,
                    text=message.text,
                    reason=reason,
                    error=(misplaced(paths, entry, message) or unknown) if box == "new" else None,
                )
        for name in stray_names(paths):
            yield QueueItem(id=name, agent=paths.agent, box="stray", error=WRONG_NAME)


def _why_unknown(context: RootContext, paths: AgentPaths) -> str | None:
    """Return that no agent has this name; None if one has it, or if it is a session, which may be that of a
    scenario."""
    try:
        context.config.resolve(paths.agent)
    except NotFoundError as error:
        return error.message if "@" not in paths.agent else None
    except BeamError:
        pass  # its settings are invalid, and it is known
    return None


def find_outcome(paths: AgentPaths, message_id: str) -> Outcome | PendingMessage:
    """Return the message's outcome, or its state so far. The queue and the journal are read twice, because the message
    may move between the two reads. Raises NotFoundError if it is in neither."""
    for _ in range(2):
        entry = queue_of(paths).find(message_id)
        outcome = outcome_in(paths, read_state(paths.journal), message_id)
        if outcome is not None and (entry is None or entry.box != "new"):
            return outcome
        if entry is not None and entry.box != "dead":
            return _pending(paths, message_id)
    if entry is not None:
        raise forgotten_error(message_id)
    raise NotFoundError(f"{message_id} is not in the queue and has no outcome", "", subject=message_id)


def _pending(paths: AgentPaths, message_id: str) -> PendingMessage:
    queue = queue_of(paths)
    entry = queue.find(message_id)
    attempt, text, box, ahead = 1, "", "cur", 0
    if entry is not None:
        box = entry.box
        ahead = queue.count_ahead(entry)
        try:
            message = queue.read(entry)
            attempt, text = message.attempt, message.text
        except (FileNotFoundError, DiskError):
            box = "cur"
    state = read_state(paths.journal)
    has_died = box != "new" and not is_worked_on(paths, state)
    turn = state.open_turn
    return PendingMessage(
        message_id=message_id,
        agent=paths.agent,
        turn=turn.turn if turn is not None and turn.message_id == message_id else None,
        status="waiting" if box == "new" else "died" if has_died else "running",
        attempt=attempt,
        position=ahead,
        text=text,
    )
