"""What an agent's dialog asks for, as far as its screen and its transcript tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from beam.agents.base import raw_json
from beam.events import ToolCalled
from beam.profile import Dialog
from beam.pty_adapter import profile as profiles
from beam.pty_adapter.screen import View
from beam.turns.terminal.verdict import shown

_TELLING = 3  # characters: shorter values of an input stand anywhere
_BLANK = " \t\u00a0─━╌╍┄┅┈┉═"  # what a row between two parts of a dialog is made of
_ROWS_ABOVE = 12
_ARROWS = dict.fromkeys(map(ord, "❯›●"))
_MOST = 60  # characters: a dialog may cut a long one


class Question(Struct, frozen=True, kw_only=True):
    """One dialog as it stands on the screen. `input` and `call_id` are those of the tool call that it is about (null:
    not known); `always` is what the agent says of allowing it for good, "" where it does not offer that.

    `request` is all that somebody who answers has seen of it: two with the same are one request. `own` is the part of
    that which only the dialog itself changes: while it stands there, the dialog does.
    """

    dialog: Dialog
    tool: str
    description: str
    input: Raw = Raw(b"null")
    call_id: str | None = None
    always: str = ""
    request: str = ""
    own: str = ""


def question_of(dialog: Dialog, view: View, calls: Iterable[ToolCalled] = ()) -> Question:
    """What stands there. `calls` are the tool calls that did not return yet and were not asked for, oldest first."""
    subject = _group(dialog.subject, view)
    detail = _dedented(_group(dialog.detail, view))
    description = detail or shown(view)
    call = next((call for call in calls if _is_about(description, call)), None)
    return Question(
        dialog=dialog,
        tool=call.name if call is not None else subject or dialog.name,
        description=description,
        input=call.input if call is not None else Raw(b"null"),
        call_id=call.call_id if call is not None else None,
        always=" ".join(_group(dialog.always_row, view).split()) if dialog.always else "",
        request=_still(_request(dialog, view)),
        own=_still(detail or _found(dialog.match, view)),
    )


def _request(dialog: Dialog, view: View) -> str:
    """The rows from the request to the dialog's end; where the screen does not show which those are, also what stands
    right above it."""
    end = profiles.pattern(dialog.match).search(view.text)
    if end is None:
        return shown(view)
    begin = profiles.pattern(dialog.detail).search(view.text) if dialog.detail else None
    if begin is not None:
        return view.text[min(begin.start(), end.start()) : end.end()]
    above = [row for row in view.text[: end.start()].split("\n") if row.strip()]
    return "\n".join((*above[-_ROWS_ABOVE:], end[0]))


def _still(text: str) -> str:
    """The text without what moves with the choice between the answers."""
    return profiles.squeezed(text.translate(_ARROWS))


def _found(pattern: str, view: View) -> str:
    found = profiles.pattern(pattern).search(view.text)
    return found[0] if found else ""


def suggestions(question: Question) -> Raw:
    """What else could be answered, in the agent's own words."""
    return raw_json([question.always] if question.always else [])


def _group(pattern: str, view: View) -> str:
    found = profiles.pattern(pattern).search(view.text) if pattern else None
    return (found[1] or "").strip("\n") if found else ""


def _dedented(text: str) -> str:
    rows = [row.rstrip() for row in text.split("\n") if row.strip(_BLANK)]
    margin = min((len(row) - len(row.lstrip()) for row in rows), default=0)
    return "\n".join(row[margin:] for row in rows)


def _is_about(description: str, call: ToolCalled) -> bool:
    """Whether something of the call's input stands in the request. A screen shows more than that: what was sent, and
    other calls that run meanwhile."""
    shown_there = profiles.squeezed(description)
    return any(text in shown_there for text in _texts(msgspec.json.decode(call.input)))


def _texts(value: Any) -> Iterator[str]:
    """What tells of the strings of a JSON value, without white space: their beginnings, and the names that paths end
    with."""
    if isinstance(value, str):
        row = profiles.squeezed(value.strip().split("\n", 1)[0])
        yield from (text for text in {row[:_MOST], row.rpartition("/")[2][:_MOST]} if len(text) >= _TELLING)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
