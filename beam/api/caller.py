"""Who calls beam from inside a process that outlives its turns: what its variables say would be of an older one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from beam import files
from beam.api.compose import Caller, caller_of
from beam.errors import CorruptError, LimitError, UsageError
from beam.home import Home
from beam.message import Spent, check_name, decode


def caller_now(environ: Mapping[str, str]) -> Caller:
    """The caller; of an agent on a kept terminal in its turn that is open now: its thread, hops and chain.

    Raises LimitError where no turn of it is open: how far it is from a person could not be said.
    """
    caller = caller_of(environ)
    if not caller.is_open:
        return caller
    from beam.store.journal import read_state
    from beam.store.queue import Queue

    if not caller.root.startswith("/"):
        raise UsageError(f"BEAM_ROOT is {caller.root!r}, not a path", "unset BEAM_AGENT if you are not inside an agent")
    place = Home(Path(caller.root)).agent(caller.name)
    lane = environ.get("BEAM_LANE")
    place = place.lane_of(check_name(lane, "lane")) if lane else place
    turn = read_state(place.journal).open_turn
    if turn is not None and turn.message_id is not None and turn.sent and not turn.finished:
        queue = Queue(place.queue, place.put_lock)
        entry = queue.find(turn.message_id)
        try:
            message = decode(files.read(queue.path(entry))) if entry is not None else None
        except (FileNotFoundError, CorruptError):
            message = None
        if message is not None:
            return structs.replace(
                caller,
                thread=message.thread,
                hops=message.hops,
                chain=(*message.chain, caller.name),
                spent=Spent(turns=message.spent.turns + 1, cost_usd=message.spent.cost_usd),
            )
    raise LimitError(
        f"{caller.name} is in no turn: what it starts on its kept terminal sends only while one of its turns runs",
        "send from a shell of your own",
        subject=caller.name,
    )
