"""The types of the lines of gemini's stream-json, with only the fields that beam reads.

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
    """The tokens of this process; a missing figure is None.

    `input_tokens` are those of the prompts, `input` those of them that did not come from a cache. `output_tokens` are
    without the thoughts, which only `total_tokens` includes. `models` has an object for each model that was asked.
    """

    total_tokens: Count | None = None
    input_tokens: Count | None = None
    input: Count | None = None
    output_tokens: Count | None = None
    cached: Count | None = None
    models: Any = None


NO_ERROR, NO_STATS = Error(), Stats()


class Line(Struct, frozen=True):
    """One line of output.

    A field that this type of line does not have keeps its default. `parameters` is an object; `delta` is true or
    missing.
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
