"""Replay: an agent CLI's recorded output -> beam's events, through the same decoder that a live turn uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from beam.agents import registry
from beam.agents.base import Exit, Turn
from beam.agents.images import without_image_data
from beam.base.errors import UnsupportedError
from beam.model.events import Event, turn_finished


def replay(name: str, lines: Iterable[bytes], *, session_id: str | None = None, exit: Exit) -> Iterator[Event]:
    """Yield the events of one recorded process of this adapter's CLI, numbered from 1; the last event is
    `turn.finished`.

    `lines` are the lines that the process wrote, with or without a newline at the end; `session_id` is the resume id
    that the turn asked for; `exit` is how the process ended. The events' `ts` is empty, because the recording has no
    times. Raises NotFoundError for an unknown adapter, UnsupportedError for an adapter without an exec mode.
    """
    face = registry.adapter(name).exec
    if face is None:
        raise UnsupportedError(f"{name} has no headless output to decode", subject=name)
    turn = Turn(text="", message_id="", agent=name, session_id=session_id)
    decoder = face.decoder(turn)
    seq = 0
    for line in lines:
        for event in map(without_image_data, decoder.line(line.removesuffix(b"\n"))):
            yield msgspec.structs.replace(event, seq=(seq := seq + 1), agent=name, turn=1)
    events, verdict = decoder.end(exit)
    finished = turn_finished(verdict, attempt=1, via="exec")
    for event in (*events, finished):
        yield msgspec.structs.replace(event, seq=(seq := seq + 1), agent=name, turn=1)


def without_raw(event: Event) -> Event:
    """Return the event without its field `raw`, the CLI's own line."""
    return msgspec.structs.replace(event, raw=msgspec.UNSET) if "raw" in event.__struct_fields__ else event
