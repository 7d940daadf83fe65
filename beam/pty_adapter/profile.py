"""Reads a screen by means of an agent's profile: whether the agent is ready, busy or asking, and the text in the
composer.

Pure: a view goes in, a reading comes out. Does not depend on time, on earlier screens, or on the message that was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec import Struct, structs
from wcwidth import wcwidth

from beam.model.screen_profile import Dialog, Profile
from beam.pty_adapter.block import Block, lowest_dialog, pattern
from beam.pty_adapter.screen import View

_LOWEST_ROWS = 3
_SIGN = re.compile(r"^[^\w\s\[({\"'`]\s+")  # a bullet or a cross
_QUESTION = re.compile(
    r"^\W*[❯›>●▶→*]\s*(?:1[.)]\s|yes\b)|[(\[]\s*y(?:es)?\s*/\s*n(?:o)?\b|press (?:enter|any key|return) to",
    re.IGNORECASE | re.MULTILINE,
)


class Reading(Struct, frozen=True):
    """The reading of one screen. `prompt` is the line of the composer, counted from the first line ever shown (None:
    there is no composer). `typed` is the text in the composer, without white space. `block` is the open dialog.
    `question`: the screen shows something that looks like a question. `more`: the prompt of an unfinished input is
    shown. `ready`: the agent's start-up is complete."""

    prompt: int | None = None
    typed: str = ""
    busy: bool = False
    block: Block | None = None
    question: bool = False
    more: bool = False
    ready: bool = False

    @property
    def dialog(self) -> Dialog | None:
        """Return the profile's entry for the dialog on the screen; None if the screen shows no dialog."""
        return self.block.dialog if self.block is not None else None

    @property
    def idle(self) -> bool:
        """Return whether the agent could take a message now, according to this screen alone."""
        return self.prompt is not None and not self.typed and not self.busy and self.block is None


def read(profile: Profile, view: View) -> Reading:
    """Return the reading of this screen by means of the profile."""
    place = _prompt_at_cursor(profile, view) if profile.at_cursor else _composer(profile, view)
    block = _dialog(profile, view, place[0] if place is not None else None)
    if place is None:
        question = bool(_QUESTION.search(_last_rows(view)))
        more = bool(profile.more and pattern(profile.more).search(_row(view, view.row)))
        busy = not profile.at_cursor and _matches(profile.busy_rows, view.rows)
        return Reading(busy=busy, block=block, question=question, more=more)
    row, end, typed = place
    if any(pattern(text).fullmatch(typed) for text in profile.placeholders):
        typed = ""
    below = view.rows[row:] if typed.strip() and block is None and not profile.at_cursor else ()
    near = (*view.rows[zone_start(profile, view, row) : row], *view.rows[end:])
    waits = bool(profile.waits_rows) and _matches(profile.waits_rows, (view.rows[n] for n in lowest_rows(view, row)))
    return Reading(
        prompt=view.scrolled + row,
        typed=without_white_space(typed),
        busy=waits or _matches(profile.busy_rows, near),
        block=block,
        question=bool(_QUESTION.search("\n".join(below))),
        ready=not profile.ready_rows or _matches(profile.ready_rows, view.rows[end:]),
    )


def zone_start(profile: Profile, view: View, prompt: int) -> int:
    """Return the first of the rows above the prompt in which the profile expects signs that the agent works."""
    row, left = prompt, profile.zone
    while row > 0 and left:
        row -= 1
        left -= not _matches(profile.between_rows, (view.rows[row],))
    return row


def lowest_rows(view: View, prompt: int) -> list[int]:
    """Return the lowest three non-blank rows above the prompt. They show the latest output, even if blank rows separate
    them from the prompt."""
    return list(islice((row for row in range(prompt - 1, -1, -1) if view.rows[row].strip()), _LOWEST_ROWS))


def _dialog(profile: Profile, view: View, composer: int | None) -> Block | None:
    if not profile.dialogs or (profile.at_cursor and profile.bracketed and not view.takes_pastes):
        return None  # its line editor reads no answer now
    return lowest_dialog(profile.dialogs, view.rows, view.scrolled, composer)


def learn_prompt(profile: Profile, view: View) -> Profile | None:
    """Return the profile with a prompt learned from the text before the cursor; None if that text can't be used as a
    prompt."""
    before = _row(view, view.row)[: view.column]
    if view.alternate or not before.strip() or view.last_row != view.row:
        return None
    return structs.replace(profile, prompt=rf"^{re.escape(before.rstrip())}[ \t]*(.*)$", at_cursor=True)


def has_prompt_at(profile: Profile, view: View, line: int, column: int) -> bool:
    """Return whether an empty prompt begins in this cell of the line and ends at the cursor, at the end of the
    screen."""
    row = line - view.scrolled
    if not profile.prompt or not 0 <= row <= view.row < len(view.rows) or view.last_row > view.row:
        return False
    text = view.rows[row]
    rest = text[len(_text_before_column(text, column)) :] + "".join(view.rows[row + 1 : view.row + 1])
    found = pattern(profile.prompt).search(rest)
    return found is not None and not without_white_space(found[1] or "")


def count_echoes(profile: Profile, view: View, text: str) -> int:
    """Return the number of rows above the prompt that echo this text (its first line, as far as it fits into the
    row)."""
    place = None if profile.at_cursor else _composer(profile, view)
    if place is None or not profile.echo_rows:
        return 0
    wanted = without_white_space(text)
    return sum(bool(echoed_text(profile, row, wanted)) for row in view.rows[: place[0]])


def shows_text(profile: Profile, view: View, reading: Reading, text: str) -> bool:
    """Return whether this text is in the composer. Its beginning or its end must be visible, or the placeholder of a
    long paste."""
    wanted = without_white_space(text)
    if profile.pasted and pattern(profile.pasted).search(reading.typed):
        return True
    if profile.at_cursor:
        before = "".join(view.rows[: view.row])
        last_line = without_white_space(text.rstrip().rsplit("\n", 1)[-1])
        last = last_line[-60:]  # a line editor shows no more of a long text
        return any(
            without_white_space(before + row).endswith(last)
            for row in (_row(view, view.row), _text_before_cursor(view))
        )
    if not profile.prompt:
        return wanted[-60:] in without_white_space("".join(view.rows))
    return bool(reading.typed) and (wanted.startswith(reading.typed[:40]) or wanted.endswith(reading.typed[-40:]))


def without_white_space(text: str) -> str:
    """Return the text without white space and zero-width spaces.

    Texts are compared in this form, because a terminal breaks and pads lines, and some composers end the text with a
    zero-width space.
    """
    return "".join(text.split()).replace("\u200b", "")


def without_frame(profile: Profile, text: str) -> str:
    """Return the text without the frame that the agent draws around it."""
    return pattern(profile.frame).sub("", text) if profile.frame else text


def error_in(profile: Profile, rows: Sequence[str]) -> str | None:
    """Return the reason why the turn failed, as these rows report it, without the sign before it; None if they report
    no error."""
    if profile.failed and (found := pattern(profile.failed).search("\n".join(rows))):
        return " ".join(found[1].split())
    return next((_SIGN.sub("", row.strip()) for row in rows if _matches(profile.error_rows, (row,))), None)


def session_in(profile: Profile, rows: Sequence[str]) -> str | None:
    """Return the id that resumes the session, as the agent printed it when it quit; None if the agent did not print
    it."""
    if not profile.session:
        return None
    return next((found[1] for row in reversed(rows) if (found := pattern(profile.session).search(row))), None)


def has_resumed(profile: Profile, view: View) -> bool:
    """Return whether the screen shows that the agent is loading, or has loaded, the session that it resumes."""
    return _matches(profile.resumed_rows, view.rows)


def has_finished(profile: Profile, rows: Sequence[str]) -> bool:
    """Return whether one of these rows says that a turn is over."""
    return _matches(profile.done_rows, rows)


def answer_rows(profile: Profile, view: View, text: str) -> tuple[str, ...]:
    """Return the rows between the last echo of the text and the prompt. If no echo is visible, return all rows above
    the prompt."""
    place = None if profile.at_cursor else _composer(profile, view)
    end = len(view.rows) if place is None else place[0]
    if profile.echo_rows:
        for row in range(end - 1, -1, -1):
            if echoed_text(profile, view.rows[row], without_white_space(text)):
                return view.rows[row + 1 : end]
    return view.rows[:end]


def echoed_text(profile: Profile, row: str, wanted: str) -> str:
    """Return the text of a prompt that the row echoes, without white space; "" if the row is no echo of `wanted`, which
    has no white space either."""
    found = pattern(profile.echo_rows).search(row)
    shown = without_white_space(found[1] or "") if found else ""
    return shown if wanted.startswith(shown) or shown.startswith(wanted) else ""


def _prompt_at_cursor(profile: Profile, view: View) -> tuple[int, int, str] | None:
    """Return the row of the prompt, the row after its end, and the typed text, for a prompt that ends at the cursor at
    the end of the screen; None if there is no such prompt."""
    if view.last_row > view.row or not profile.prompt or (profile.bracketed and not view.takes_pastes):
        return None
    for row in range(view.row, max(-1, view.row - 400), -1):
        found = pattern(profile.prompt).search(_row(view, row))
        if found:
            return row, view.row + 1, (found[1] or "") + "".join(view.rows[row + 1 : view.row + 1])
        if len(_row(view, row - 1)) < view.columns - 1:
            return None
    return None


def _composer(profile: Profile, view: View) -> tuple[int, int, str] | None:
    """Return the row of the prompt, the row after the composer's end, and the composer's text; None if there is no
    composer. The prompt is the lowest matching row whose neighbours match the profile, too."""
    if not profile.prompt:
        return None
    for row in range(len(view.rows) - 1, -1, -1):
        found = pattern(profile.prompt).search(view.rows[row])
        if found is None or (profile.above and not (row and pattern(profile.above).search(view.rows[row - 1]))):
            continue
        end, typed = row + 1, [found[1] or ""]
        if profile.below:
            while end < len(view.rows) and not pattern(profile.below).search(view.rows[end]):
                typed.append(view.rows[end])
                end += 1
            if end == len(view.rows):
                continue
        else:
            while end < len(view.rows) and view.rows[end].strip():
                typed.append(view.rows[end])
                end += 1
        return row, end, without_frame(profile, "\n".join(typed)).strip()
    return None


def _matches(patterns: Iterable[str], rows: Iterable[str]) -> bool:
    compiled = [pattern(text) for text in patterns]
    return bool(compiled) and any(found.search(row) for row in rows for found in compiled)


def _row(view: View, row: int) -> str:
    return view.rows[row] if 0 <= row < len(view.rows) else ""


def _text_before_cursor(view: View) -> str:
    """Return the text of the cursor's row before the cursor."""
    return _text_before_column(_row(view, view.row), view.column)


def _text_before_column(row: str, column: int) -> str:
    """Return the text of the row before the column, which counts cells, not characters."""
    cells = 0
    for index, char in enumerate(row):
        if cells >= column:
            return row[:index]
        cells += max(0, wcwidth(char))
    return row


def asks_something_else(profile: Profile, view: View, answered: Block) -> bool:
    """Return whether the screen asks something apart from this answered dialog. Rows of the dialog that are still in
    their old place are ignored, with any text typed after them."""
    rows = list(view.rows)
    for row, asked in enumerate(answered.text.split("\n"), answered.line - view.scrolled):
        if 0 <= row < len(rows) and asked.strip() and rows[row].startswith(asked.rstrip()):
            rows[row] = ""
    return read(profile, structs.replace(view, rows=tuple(rows))).question


def question_row(view: View) -> int:
    """Return the row that looks like a question; the last non-blank row if no row does. Use it for a screen whose
    `question` is true."""
    found = next((row for row in range(view.last_row, -1, -1) if _QUESTION.search(view.rows[row])), None)
    return view.last_row if found is None else found


def _last_rows(view: View) -> str:
    last = view.last_row
    return "\n".join(view.rows[max(0, last - 15) : last + 1])
