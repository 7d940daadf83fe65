"""Finds the whole records in a line of a transcript that is not one JSON object.

Two processes of Claude Code on one session append to one file without a lock: a record may follow another one on the
same line, or begin where another one was cut off; a crash leaves NUL bytes. A model writes much of the text in a
transcript, so a piece of JSON within a record must never be taken for a record. It can't be:

- A record begins at `{"`. Within a string, a quote is escaped, so these two bytes are there only if the string ends
  with the brace. What then follows is read with strings and structure exchanged: its keys are made of punctuation, and
  no key is `type`.
- An object within a record (the input of a tool, which a model chooses freely) follows a colon, a comma or a bracket. A
  record that does so is lost, and counted.
- A record has the shape of one: a known type, an id, a time, and the id of this session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from beam.agents.base import raw_json
from beam.agents.fields import Object, obj, string
from beam.agents.session_files import time_from_text

_KINDS = ("user", "assistant", "system", "attachment")  # lines with an id and a time
_ATTEMPTS = 64  # each may read the rest of the line
_BLANK = " \t\r\0"
_WITHIN = ("", ":", ",", "[")  # what an object within a record follows
_LOOK_BACK = 16  # characters


def records(line: bytes, session_ids: Collection[str]) -> tuple[list[bytes], int]:
    """Return the whole records of these sessions in a line that is not one JSON object, and the number of pieces that
    are lost."""
    found, lost = whole_records(line, lambda value: _is_record(value, session_ids))
    return [bytes(raw_json(record)) for record in found], lost


def _is_record(value: Object, session_ids: Collection[str]) -> bool:
    kind, session_id = string(value, "type"), string(value, "sessionId")
    return (
        kind in _KINDS
        and bool(session_id)
        and session_id in session_ids
        and bool(string(value, "uuid"))
        and bool(time_from_text(string(value, "timestamp")))
        and (kind not in ("user", "assistant") or bool(obj(value, "message")))
    )


def whole_records(line: bytes, is_record: Callable[[Object], bool]) -> tuple[list[Object], int]:
    """Return the whole records in the line for which `is_record` is true, and the number of pieces that are lost."""
    import json  # only needed for such lines

    text = line.decode("utf-8", "replace")
    decode = json.JSONDecoder().raw_decode
    found: list[Object] = []
    lost = at = attempts = 0
    begin = text.find('{"')
    while begin >= 0 and attempts < _ATTEMPTS:
        before = text[max(at, begin - _LOOK_BACK) : begin].rstrip(" \t")
        if begin == at or before[-1:] not in _WITHIN:
            attempts += 1
            try:
                value, end = decode(text, begin)
            except (ValueError, RecursionError):
                value, end = None, begin
            if isinstance(value, dict) and is_record(value) and _is_end(text, end):
                lost += bool(text[at:begin].strip(" \t\r"))
                found.append(value)
                at = end
                begin = text.find('{"', end)
                continue
        begin = text.find('{"', begin + 1)
    return found, lost + bool(text[at:].strip(" \t\r"))


def _is_end(text: str, end: int) -> bool:
    """Return whether a record may end here: at the end of the line, before NUL bytes, or before another record."""
    rest = text[end : end + 2].lstrip(_BLANK)
    return not rest or rest.startswith("{")
