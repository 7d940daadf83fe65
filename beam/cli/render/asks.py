"""Open asks for people: a table, and the one line that says what is asked and how to answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam import clock, durations
from beam.cli.render.tables import ago, columns
from beam.cli.render.text import collapse_to_line, one_line
from beam.cli.streams import is_terminal

if TYPE_CHECKING:
    from beam import AskLine, events

_SHORT = 6  # the letters of an id that were drawn by lot


def table(found: Sequence[AskLine]) -> None:
    """Print one line per ask."""
    rows = [
        (
            line.id,
            line.agent,
            ago(line.asked),
            time_left(line.expires),
            line.tool,
            what(line.description, bytes(line.input)),
        )
        for line in found
    ]
    columns(("ID", "AGENT", "AGE", "LEFT", "TOOL", "WHAT"), rows, wide=is_terminal(sys.stdout))


def what(description: str, input: bytes) -> str:
    """Return what is asked for, on one line: as the agent shows it, else the tool's input."""
    return collapse_to_line(description) or (
        "" if input == b"null" else collapse_to_line(input.decode("utf-8", "replace"))
    )


def time_left(expires: str | None) -> str:
    """Return how long it takes until the ask is denied."""
    if expires is None:
        return ""
    return durations.show(max(0, round(clock.recorded_ns(expires) / 1e9 - time.time())))


def short_id(ask_id: str) -> str:
    """Return the end of the id, as much as is needed to name it."""
    return ask_id[-_SHORT:]


def question(asked: events.PermissionAsked) -> str:
    """Return who asks for what."""
    return f"{asked.agent} asks for {asked.tool}: {one_line(what(asked.description, bytes(asked.input)), 160)}"


def line(asked: events.PermissionAsked) -> str:
    """Return who asks for what, and how to answer."""
    short = short_id(asked.ask_id)
    rest = f" ({time_left(asked.expires)} left)" if asked.expires is not None else ""
    return f"{question(asked)}; beam approve {short}, or beam deny {short}{rest}"
