"""Masks the parts in which two requests with the same meaning may differ: dates, paths, ids, versions. What is
masked are data (`beam.agents.masks`).

`Canonicalizer.canonical` returns a request in a form in which these parts are replaced and tool ids are numbered, so
that requests with the same meaning have equal forms. Does not depend on files, sockets or any CLI.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

from beam.agents.masks import Masks
from beam.base.digest import blake2b

_ID_FIELDS = frozenset(
    {"id", "tool_use_id", "tool_call_id", "call_id", "item_id", "response_id", "previous_response_id"}
    | {"parent_tool_use_id", "responseId"}
)


# A folder counts only where a path begins: not in `src/app`, `./app` or `${ROOT}/app`, but after a flag (`-I/app`), and
# after a line break that is escaped in the text of a JSON value. It ends with a whole name: not in `/app-2`, `/app.py`.
_PATH_BEGINS = r"(?:(?<![\w.~)}-])|(?<=\\[nrt])|(?<=\s-[A-Za-z]))"
_PATH_ENDS = r"(?![\w-]|\.\w)"


def whole_path(folders: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds each of these folders in a text, also at the beginning of a longer path. The first
    folder that matches is taken."""
    return re.compile(rf"{_PATH_BEGINS}(?:{'|'.join(re.escape(folder) for folder in folders)}){_PATH_ENDS}")


class Canonical:
    """The canonical form of a request, which is used for comparisons. `value` is the form as JSON, `digest` the digest
    of it."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.digest = blake2b(
            json.dumps(value, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogatepass"), digest_size=16
        ).hexdigest()

    @cached_property
    def fields(self) -> dict[str, str]:
        """Return each field by its path (`messages[2].content[0].text`), as text."""
        return dict(_leaves(self.value, ""))


class Canonicalizer:
    """Makes the canonical forms of requests. `places` maps names to folders ({"cwd": "/home/me/project"}); a folder in
    a request is replaced by its name."""

    def __init__(self, masks: Masks, places: Mapping[str, str]) -> None:
        self._drop = tuple(tuple(path.split(".")) for path in masks.drop)
        known = sorted(((path, name) for name, path in places.items() if len(path) > 1), key=lambda pair: -len(pair[0]))
        folders = [(whole_path([path]), f"<{name}>") for path, name in known]
        # Some CLIs name a folder after a path, with dashes in place of slashes.
        dashed = [
            (re.compile(re.escape(re.sub(r"[^A-Za-z0-9]", "-", path)) + r"(?![A-Za-z0-9])"), f"<{name}>")
            for path, name in known
            if path.count("/") > 1
        ]
        patterns = [(re.compile(pattern), shown) for pattern, shown in masks.patterns]
        rules = (*folders, *dashed, *patterns)

        @lru_cache(maxsize=8192)
        def masked(text: str) -> str:
            for pattern, shown in rules:
                text = pattern.sub(shown, text)
            return text

        self._masked = masked

    def text(self, text: str) -> str:
        """Return a text in its canonical form: folders and matches of patterns are replaced."""
        return self._masked(text)

    def canonical(self, method: str, path: str, body: Any) -> Canonical:
        """Return the canonical form of a request. The secrets must already be removed from the request."""
        ids: dict[str, str] = {}
        value = self._walk(body, ids, self._drop, "")
        return Canonical({"method": method, "path": path.partition("?")[0], "body": value})

    def _walk(self, value: Any, ids: dict[str, str], drop: tuple[tuple[str, ...], ...], key: str) -> Any:
        if isinstance(value, str):
            if key in _ID_FIELDS and value:
                return ids.setdefault(value, f"<id {len(ids) + 1}>")
            return ids.get(value) or self._masked(value)
        if isinstance(value, list):
            below = tuple(path[1:] for path in drop if path and path[0] == "*")
            return [self._walk(item, ids, below, key) for item in value]
        if isinstance(value, dict):
            gone = {path[0] for path in drop if len(path) == 1}
            found = {}
            for name, item in value.items():
                if name in gone:
                    continue
                below = tuple(path[1:] for path in drop if len(path) > 1 and path[0] == name)
                found[self._masked(name)] = self._walk(item, ids, below, name)
            return found
        return value


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)
