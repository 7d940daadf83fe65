"""The reason why a scenario could not run (a bad file, a missing agent, no trust), as a value for reports of CI."""

from __future__ import annotations

import re

from msgspec import Struct

from beam.base.errors import BeamError
from beam.secrets.shown import blanked

_PLACE = re.compile(r"(\d+):(\d+): ")


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a scenario could not run. `line` and `column` are the place of the error in the file; null if the error has
    no place in it."""

    file: str
    kind: str
    text: str
    exit_code: int
    line: int | None = None
    column: int | None = None


def refusal_of(file: str, error: BeamError) -> Refusal:
    """Return the refusal for an error. The place is read from the beginning of the error's message, if that has the
    form `FILE:LINE:COLUMN: `."""
    text = blanked(str(error))
    place = _PLACE.match(text, len(file) + 1) if text.startswith(f"{file}:") else None
    return Refusal(
        file=file,
        kind=error.kind,
        text=text[place.end() :] if place else text,
        exit_code=int(error.exit_code),
        line=int(place[1]) if place else None,
        column=int(place[2]) if place else None,
    )
