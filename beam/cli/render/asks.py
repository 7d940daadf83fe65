"""Open asks for people: a table, and the one line that says what is asked and how to answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam import clock, durations
from beam.cli.context import is_terminal
from beam.cli.render.tables import ago, columns
from beam.cli.render.text import flat, one_line

if TYPE_CHECKING:
    from beam import AskLine, events

_SHORT = 6  # the letters of an id that were drawn by lot


def table(found: Sequence[AskLine]) -> None:
    """One line an ask."""
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
    """What is asked for, on one line: as the agent shows it, else what the tool would get."""
    return flat(description) or ("" if input == b"null" else flat(input.decode("utf-8", "replace")))


def time_left(expires: str | None) -> str:
    """How long until it is denied."""
    if expires is None:
        return ""
    return durations.show(max(0, round(clock.recorded_ns(expires) / 1e9 - time.time())))


def short_id(ask_id: str) -> str:
    """As much of its end as names it."""
    return ask_id[-_SHORT:]


def question(asked: events.PermissionAsked) -> str:
    """Who asks for what."""
    return f"{asked.agent} asks for {asked.tool}: {one_line(what(asked.description, bytes(asked.input)), 160)}"


def line(asked: events.PermissionAsked) -> str:
    """The same, and how to answer."""
    short = short_id(asked.ask_id)
    rest = f" ({time_left(asked.expires)} left)" if asked.expires is not None else ""
    return f"{question(asked)}; beam approve {short}, or beam deny {short}{rest}"
