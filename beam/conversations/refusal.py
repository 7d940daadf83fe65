"""What kept a scenario from running: a bad file, a missing agent, no trust. Values for the reports of CI."""

from __future__ import annotations

import re

from msgspec import Struct

from beam.base.errors import BeamError

_PLACE = re.compile(r"(\d+):(\d+): ")


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a scenario could not run. `line` and `column` are the place in the file, null if the reason is not in it."""

    file: str
    kind: str
    text: str
    exit_code: int
    line: int | None = None
    column: int | None = None


def refusal_of(file: str, error: BeamError) -> Refusal:
    """Return the error as a report shows it. Its place is read from the beginning of its message, `FILE:LINE:COLUMN: `,
    which compilers write, too."""
    text = str(error)
    place = _PLACE.match(text, len(file) + 1) if text.startswith(f"{file}:") else None
    return Refusal(
        file=file,
        kind=error.kind,
        text=text[place.end() :] if place else text,
        exit_code=int(error.exit_code),
        line=int(place[1]) if place else None,
        column=int(place[2]) if place else None,
    )
