"""Extracts the agent's answer from the lines of its screen, without composer, spinner and frame, and with wrapped lines
joined. Information is lost: Markdown is rendered already, and the terminal's line breaks can't always be distinguished
from the agent's. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wcwidth import wcwidth

from beam.model.screen_profile import Profile
from beam.pty_adapter.block import pattern
from beam.pty_adapter.grid import Line
from beam.pty_adapter.profile import echoed_text, without_frame, without_white_space

_ITEM = re.compile(r"\s*(?:[-*•◦▪+]|\d+[.)])\s")
_FRAME = re.compile(r"^[\s─━═╌┄_╭╮╰╯┌┐└┘│┃]*$")
_FILLED_SHARE = 0.75  # of the width: a shorter row was ended by the agent


def unwrapped_text(lines: Sequence[Line], *, columns: int) -> str:
    """Return the lines as the program wrote them: only the line breaks that the terminal inserted are removed."""
    text = ""
    for line in lines:
        text += line.text.ljust(columns) if line.wrapped else line.text + "\n"
    return "\n".join(row.rstrip() for row in text.split("\n")).rstrip("\n")


def agent_answer(profile: Profile, lines: Sequence[Line], text: str, *, columns: int) -> str:
    """Return the text between the echo of the prompt `text` and the composer; "" if there is no echo."""
    rows = [_without_scrollbar(profile, line.text, columns) for line in lines]
    end = _composer_row(profile, rows)
    start = _after_echo(profile, rows[:end], text)
    if start is None:
        return ""
    body = [row for row in rows[start:end] if not any(pattern(noise).search(row) for noise in profile.noise_rows)]
    return "\n".join(_join_wrapped([_without_bullet(profile, row) for row in body], columns - profile.indent)).strip(
        "\n"
    )


def _without_scrollbar(profile: Profile, row: str, columns: int) -> str:
    """Return the row without the scroll bar in its last column, if it has one."""
    if not row or row[-1] not in profile.scrollbar or sum(max(0, wcwidth(char)) for char in row) != columns:
        return row
    return row[:-1].rstrip(" ")


def _composer_row(profile: Profile, rows: Sequence[str]) -> int:
    for row in range(len(rows) - 1, -1, -1):
        if pattern(profile.prompt).search(rows[row]):
            if not profile.above:
                return row
            if row and pattern(profile.above).search(rows[row - 1]):
                return row - 1
    return len(rows)


def _after_echo(profile: Profile, rows: Sequence[str], text: str) -> int | None:
    """Return the row after the last echo of the text; None if there is no echo."""
    wanted = without_white_space(text)
    for row in range(len(rows) - 1, -1, -1):
        shown = echoed_text(profile, rows[row], wanted) if profile.echo_rows else ""
        if not shown:
            continue
        after = row + 1
        while len(shown) < len(wanted) and after < len(rows):
            more = without_white_space(without_frame(profile, rows[after]))
            if not wanted.startswith(shown + more):
                break
            shown += more
            after += 1
        return after
    return None


def _without_bullet(profile: Profile, row: str) -> str:
    if profile.bullet and (found := pattern(profile.bullet).match(row)):
        return row[found.end() :]
    return row[profile.indent :] if not row[: profile.indent].strip() else row


def _join_wrapped(rows: Sequence[str], width: int) -> list[str]:
    """Return the rows with wrapped lines joined. A row is joined to the previous row if that row had no space for its
    first word."""
    found: list[str] = []
    length = 0
    for row in rows:
        first = row.split(" ", 1)[0]
        broken = (
            bool(found)
            and bool(row.strip())
            and not row.startswith(" ")
            and length >= width * _FILLED_SHARE
            and length + 1 + len(first) > width - 4
            and not _ITEM.match(row)
            and not _FRAME.match(found[-1])
        )
        if broken:
            found[-1] += " " + row
        else:
            found.append(row)
        length = len(row)
    return found
