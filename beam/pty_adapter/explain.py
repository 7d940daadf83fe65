"""Explains, for authors of profiles, which rows of a screen decide how it is read, and by which field of the profile.
Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from beam.model.screen_profile import Profile
from beam.pty_adapter import profile as profiles
from beam.pty_adapter.block import pattern
from beam.pty_adapter.profile import Reading
from beam.pty_adapter.screen import View

_FIELDS_NEAR_PROMPT = ("busy_rows", "ready_rows")
_FIELDS_ANYWHERE = ("resumed_rows", "done_rows", "error_rows")


class DecidingRow(Struct, frozen=True, kw_only=True):
    """A row (from 0) that matches a field of the profile, with its text. `field` is the name of the field; for a dialog
    it is `dialogs` with the name of the dialog."""

    field: str
    row: int
    text: str


def deciding_rows(profile: Profile, view: View, reading: Reading) -> tuple[DecidingRow, ...]:
    """Return the rows that decided this reading of the screen, from top to bottom; an empty tuple if no row matches the
    profile."""
    return tuple(sorted(_find_deciding_rows(profile, view, reading), key=lambda found: found.row))


def is_unknown_screen(profile: Profile, view: View, reading: Reading) -> bool:
    """Return whether the screen shows text, but nothing that the profile describes."""
    if reading.block is not None or reading.busy or (reading.prompt is not None and not reading.question):
        return False
    shown = pattern(profile.warning).sub("", view.text) if profile.warning else view.text
    return bool(shown.strip())


def _find_deciding_rows(profile: Profile, view: View, reading: Reading) -> Iterator[DecidingRow]:
    begin, rest = 0, 0
    if reading.prompt is not None:
        row = reading.prompt - view.scrolled
        yield DecidingRow(field="prompt", row=row, text=view.rows[row])
        begin, rest = profiles.zone_start(profile, view, row), row
        patterns = [pattern(text) for text in profile.waits_rows]
        for waits in profiles.lowest_rows(view, row):
            if any(found.search(view.rows[waits]) for found in patterns):
                yield DecidingRow(field="waits_rows", row=waits, text=view.rows[waits])
    if reading.block is not None:
        name = f"dialogs: {reading.block.dialog.name}"
        for row in sorted({reading.block.row, view.last_row}):
            yield DecidingRow(field=name, row=row, text=view.rows[row])
    for field, first in (*((each, begin) for each in _FIELDS_NEAR_PROMPT), *((each, 0) for each in _FIELDS_ANYWHERE)):
        patterns = [pattern(text) for text in getattr(profile, field)]
        for row in range(rest if field == "ready_rows" else first, len(view.rows)):
            if any(found.search(view.rows[row]) for found in patterns):
                yield DecidingRow(field=field, row=row, text=view.rows[row])
    if reading.question and reading.block is None:
        row = profiles.question_row(view)
        yield DecidingRow(field="(a question that no dialog describes)", row=row, text=view.rows[row])
