"""Replaces the folders in recorded answers by the folders of the replay.

A model's tool call contains absolute paths. Without the replacement, a replayed agent would work in the folder of the
recording if that folder still exists. Does not depend on files or sockets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from beam.proxy import private
from beam.proxy.canonical import whole_path

_PLACEHOLDER = re.compile(r"\0([0-9]{1,9})\0")  # a piece of a text in several events


class FolderReplacer:
    """Replaces each folder of a recording (`then`) by the current folder with the same name (`now`)."""

    def __init__(self, then: Mapping[str, str], now: Mapping[str, str]) -> None:
        pairs = [(path, now[name]) for name, path in then.items() if name in now and now[name] != path]
        self._to = dict(pairs)
        paths = sorted(self._to, key=lambda path: -len(path))
        self._pattern = whole_path(paths) if paths else None
        self._marks = tuple(path.encode() for path in paths)

    def data(self, data: bytes) -> bytes:
        """Return the body of an answer that is not a stream, with its folders replaced."""
        if self._pattern is None or not any(mark in data for mark in self._marks):
            return data
        value = private.json_of(data)
        if value is None:
            return data
        return json.dumps(private.map_strings(value, self._text), ensure_ascii=False).encode("utf-8", "surrogatepass")

    def events(self, events: Sequence[bytes]) -> Sequence[bytes]:
        """Return the events of a stream, with their folders replaced. A path that is spread over several events is
        replaced in the event where it begins.

        The pieces of such texts are put aside while the other texts are changed: a new folder may contain the name of a
        recorded one, and must not be replaced again.
        """
        pattern = self._pattern
        if pattern is None:
            return events
        moved: list[str] = []

        def put_aside(pieces: list[str]) -> list[str]:
            whole = "".join(pieces)
            if not any(path in whole for path in self._to):
                return pieces
            first = len(moved)
            moved.extend(replace_in_pieces(pieces, pattern, self._to))
            return [f"\0{number}\0" for number in range(first, len(moved))]

        def put_back(text: str) -> str:
            found = _PLACEHOLDER.fullmatch(text)
            return moved[int(found[1])] if found is not None and int(found[1]) < len(moved) else text

        aside = private.rewrite(events, put_aside) or events
        changed = [self._event(event) for event in aside]
        if moved:
            changed = [private.map_event(event, put_back) for event in changed]
        return [_same_or(after, before) for after, before in zip(changed, events, strict=True)]

    def _event(self, event: bytes) -> bytes:
        if not any(mark in event for mark in self._marks):
            return event
        return private.map_event(event, self._text)

    def _text(self, text: str) -> str:
        assert self._pattern is not None
        return self._pattern.sub(lambda found: self._to[found[0]], text)


def _same_or(after: bytes, before: bytes) -> bytes:
    """Return the event as it was if it means the same, else the changed one."""
    return before if private.split_event(after) == private.split_event(before) else after


def replace_in_pieces(pieces: Sequence[str], pattern: re.Pattern[str], to: Mapping[str, str]) -> list[str]:
    """Return the pieces of one text with each match of the pattern replaced, in the piece where the match begins."""
    whole, shown, at = "".join(pieces), [], 0
    found = [(match.start(), match.end(), to[match[0]]) for match in pattern.finditer(whole)]
    for piece in pieces:
        end, seen, text = at + len(piece), at, ""
        for start, stop, new in found:
            if stop > at and start < end:
                text += whole[seen : max(start, at)] + (new if start >= at else "")
                seen = min(stop, end)
        shown.append(text + whole[seen:end])
        at = end
    return shown
