"""The lines of gemini's stream-json, typed: only what beam reads of them.

Does not depend on events.
"""

from typing import Any

from msgspec import Struct

from beam.agents.typed import Count, reader


class Error(Struct, frozen=True):
    """Why a call or the turn failed. `type` is set for a call only."""

    type: str = ""
    message: str = ""


class Stats(Struct, frozen=True):
    """Tokens of this process; None for a figure that is missing.

    `input` does not include tokens from a cache; `models` has an object per model that was asked.
    """

    input: Count | None = None
    output_tokens: Count | None = None
    cached: Count | None = None
    models: Any = None


NO_ERROR, NO_STATS = Error(), Stats()


class Line(Struct, frozen=True):
    """One line of output.

    A field that a type of line does not have is at its default; `parameters` is an object; `delta` is true or missing.
    """

    type: str = ""
    session_id: str = ""
    model: str = ""
    role: str = ""
    content: str = ""
    delta: Any = None
    tool_id: str = ""
    tool_name: str = ""
    parameters: Any = None
    status: str = ""
    output: str = ""
    severity: str = ""
    message: str = ""
    error: Error = NO_ERROR
    stats: Stats = NO_STATS


read = reader(Line)
