"""Reads the request in an agent's dialog, from its screen and its transcript. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from beam.agents.base import raw_json
from beam.model.events import ToolCalled
from beam.model.screen_profile import Dialog
from beam.pty_adapter import profile as profiles
from beam.pty_adapter.block import Block, pattern

_MIN_MATCH_CHARS = 3  # characters: a shorter value could occur anywhere by chance
_FRAME_EDGES = re.compile(r"^ *[│┃](?: │)?|(?: │){1,2}$")
_BLANK = " \t\u00a0─━╌╍┄┅┈┉═╭╮╰╯"  # the characters of a row that only separates two parts of a dialog
_SPINNERS_AND_TIMERS = re.compile(r"[⠀-⣿◐-◓✢✳✶✻✽]|\b\d+(?:\.\d+)? ?(?:ms|s|m)\b")
_FRAME_CHARACTERS = dict.fromkeys(map(ord, "│┃"))
_COMMAND_FIELDS = ("command", "cmd")
_MAIN_INPUT_FIELDS = (*_COMMAND_FIELDS, "file_path", "path", "filePath", "absolute_path")
_ARROWS = dict.fromkeys(map(ord, "❯›●"))
_MAX_MATCH_CHARS = 60  # characters that are compared: a dialog may cut a longer text


class Question(Struct, frozen=True, kw_only=True):
    """One permission request in a dialog on the screen.

    `input` and `call_id` are those of the request's tool call; if it is unknown, `input` is null and `call_id` is None.
    `always` is the agent's text of the "always allow" answer, "" if there is none. `request` is the text that a person
    sees: equal texts are the same request. `own` is the part of the text that belongs to the dialog alone: while it is
    visible, the dialog is open.
    """

    block: Block
    tool: str
    description: str
    input: Raw = Raw(b"null")
    call_id: str | None = None
    always: str = ""
    request: str = ""
    own: str = ""

    @property
    def dialog(self) -> Dialog:
        return self.block.dialog


def question_of(block: Block, calls: Iterable[ToolCalled] = ()) -> Question:
    """Return the request in this block. `calls` are the tool calls without a result and without an ask, oldest first.

    If nothing shows where the dialog begins, all rows are the request, and no details are read from them.
    """
    dialog = block.dialog
    subject = "" if block.is_doubtful else block.only_group(dialog.subject)
    detail = "" if block.is_doubtful else detail_of(block)
    request = _request_text(block)
    description = detail or "\n".join(row for row in request.split("\n") if row.strip())
    call = None if block.is_doubtful else _call_about(description, calls)
    return Question(
        block=block,
        tool=call.name if call is not None else subject or dialog.name,
        description=description,
        input=call.input if call is not None else Raw(b"null"),
        call_id=call.call_id if call is not None else None,
        always=_always_text(block),
        request=_without_arrows(_without_moving_parts(block)),
        own=_without_arrows(detail or block.found),
    )


def detail_of(block: Block) -> str:
    """Return the text in this block that says what is requested, without its frame; "" if that text is not drawn."""
    return _dedented(block.group(block.dialog.detail))


def _always_text(block: Block) -> str:
    """Return the agent's words for "always allow this"; "" if the agent does not offer that.

    Also return "" if another key than the known one stands for it, or if the words may only be quoted.
    """
    dialog = block.dialog
    if block.is_doubtful:
        return ""
    found = pattern(dialog.always_row).search(block.text) if dialog.always and dialog.always_row else None
    letters = [key for key in dialog.always if key.isalnum()]
    if found is None or not all(re.search(rf"(?i)(?<!\w){re.escape(key)}(?!\w)", found[0]) for key in letters):
        return ""
    return " ".join((found[1] or "").split())


def _request_text(block: Block) -> str:
    """Return the rows of the request; if nothing shows where it begins, also the rows right above it."""
    return "\n".join((*block.above, block.found)) if block.above else block.text


def _without_moving_parts(block: Block) -> str:
    """Return the rows of the request, without the spinners and timers that move above an open dialog."""
    above = (_SPINNERS_AND_TIMERS.sub("", row) for row in block.above)
    return "\n".join((*above, block.found)) if block.above else block.text


def _without_arrows(text: str) -> str:
    """Return the text without the marks of the selected answer, which move when another answer is selected."""
    return profiles.without_white_space(text.translate(_ARROWS))


def suggestions(question: Question) -> Raw:
    """Return the other possible answers, in the agent's own words, as JSON."""
    return raw_json([question.always] if question.always else [])


def _dedented(text: str) -> str:
    bare = (_FRAME_EDGES.sub("", row).rstrip() for row in text.split("\n"))
    rows = [row for row in bare if row.strip(_BLANK)]
    margin = min((len(row) - len(row.lstrip()) for row in rows), default=0)
    return "\n".join(row[margin:] for row in rows)


def _call_about(description: str, calls: Iterable[ToolCalled]) -> ToolCalled | None:
    """Return the call that the description of a request is about; None if it is about none of these calls.

    If it contains parts of several calls, the call with the longest part is returned, because a command may contain the
    path or the name of another call. Of equal calls the first is returned.
    """
    shared = [(_shared_characters(description, call), call) for call in calls]
    length, call = max(shared, key=lambda each: each[0], default=(0, None))
    return call if length else None


def _shared_characters(description: str, call: ToolCalled) -> int:
    """Return the length of the longest part of the call's input that the description of a request contains; 0 if it
    contains none.

    The whole screen is not searched, because it also shows the prompt and other calls. An input that is nested too
    deeply to be read is not in any description.
    """
    shown_there = profiles.without_white_space(description)
    try:
        texts = list(_searchable_texts(msgspec.json.decode(call.input)))
    except RecursionError:
        return 0
    return max((len(text) for text in texts if text in shown_there), default=0)


def agrees_with_call(question: Question, reported: Any) -> bool:
    """Return whether the request agrees with a call in the transcript, given by its input or a path.

    Compares the command or the path of an input; an input with neither agrees with everything. A path also agrees by
    its last part, because a dialog may show it relative to a folder.
    """
    is_path = True
    if isinstance(reported, dict):
        main = [
            (name, reported[name])
            for name in _MAIN_INPUT_FIELDS
            if isinstance(reported.get(name), str | list) and reported[name]
        ]
        if not main:
            return True
        is_path = main[0][0] not in _COMMAND_FIELDS
        reported = main[0][1]
    words = reported if isinstance(reported, list) else [reported]
    text = max((word for word in words if isinstance(word, str)), key=len, default="")
    there, subject = _plain(question.description), _plain(question.block.only_group(question.dialog.subject))
    row = _plain(text.strip().split("\n", 1)[0])
    name = row.rpartition("/")[2]
    return (
        not row
        or row[:_MAX_MATCH_CHARS] in there
        or (is_path and bool(name) and name[:_MAX_MATCH_CHARS] in there)
        or (len(subject) >= _MIN_MATCH_CHARS and subject in row)
    )


def _plain(text: str) -> str:
    """Return the text without white space and box-drawing characters."""
    return profiles.without_white_space(text.translate(_FRAME_CHARACTERS))


def _searchable_texts(value: Any) -> Iterator[str]:
    """Yield the beginnings of the strings in a JSON value, and the last parts of paths, without white space."""
    if isinstance(value, str):
        row = profiles.without_white_space(value.strip().split("\n", 1)[0])
        yield from (
            text
            for text in {row[:_MAX_MATCH_CHARS], row.rpartition("/")[2][:_MAX_MATCH_CHARS]}
            if len(text) >= _MIN_MATCH_CHARS
        )
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _searchable_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _searchable_texts(inner)
