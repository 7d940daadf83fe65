"""What changed between two versions of one agent CLI: its help, its generated schemas, and what its cells came to.

Takes what was seen of each version and returns lines for a person. Must not know how a CLI is installed or run.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Set
from xml.etree import ElementTree

from msgspec import Struct

MAX = 40  # lines of one kind that are listed; how many more there are is said
_FLAG = re.compile(r"(?<![\w-])--[a-zA-Z][\w-]*")
_WORDS = ("description", "title", "examples", "summary")  # of a schema: prose for people


class Seen(Struct, frozen=True, kw_only=True):
    """What one version shows: each help text by the words that print it, each generated schema by its file."""

    help: dict[str, str] = {}
    schemas: dict[str, object] = {}


def changes(before: Seen, after: Seen) -> list[str]:
    """What changed, as lines; none where nothing did."""
    return [*_of_help(before.help, after.help), *_of_schemas(before.schemas, after.schemas)]


def of_cells(report: str, *, ran: int) -> list[str]:
    """What pytest's JUnit report says of so many cells: how many passed, and each that failed or was left out."""
    cases = list(ElementTree.fromstring(report).iter("testcase")) if report else []
    found = [
        f"cell {case.get('name')}: {kind}: {word.get('message', '').partition(chr(10))[0]}"
        for case in cases
        for kind in ("failure", "error", "skipped")
        for word in case.iter(kind)
    ]
    return [f"cells: {len(cases) - len(found)} of {ran} are as the table says", *found]


def _of_help(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    found = []
    for words, text in before.items():
        then, now = _rows(text), _rows(after.get(words, ""))
        if then == now:
            continue
        flags, flags_now = set(_FLAG.findall(text)), set(_FLAG.findall(after.get(words, "")))
        found += [f"{words}: the flag {flag} is gone" for flag in sorted(flags - flags_now)]
        found += [f"{words}: the flag {flag} is new" for flag in sorted(flags_now - flags)]
        rows = [*difflib.unified_diff(then, now, n=0, lineterm="")][2:]
        found += _at_most(f"{words}: {row[0]} {row[1:]}" for row in rows if not row.startswith("@@"))
    return found


def _rows(text: str) -> list[str]:
    """The help as sentences and entries: how it is wrapped does not count, nor an empty line."""
    rows: list[str] = []
    for line in text.splitlines():
        row = " ".join(line.split())
        if row and rows and not row.startswith("-") and line.startswith(" " * 20):
            rows[-1] += f" {row}"
        elif row:
            rows.append(row)
    return rows


def _of_schemas(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    found = [f"schema {name} is gone" for name in sorted(before.keys() - after.keys())]
    found += [f"schema {name} is new" for name in sorted(after.keys() - before.keys())]
    for name in sorted(before.keys() & after.keys()):
        then, now = dict(_leaves(before[name])), dict(_leaves(after[name]))
        begun, begun_now = _beginnings(then), _beginnings(now)
        rows = [f"{_top(path, begun_now)} is gone" for path in then if path not in begun_now]
        rows += [f"{_top(path, begun)} is new" for path in now if path not in begun]
        rows += [f"{path}: {then[path]} is {now[path]} now" for path in then if path in now and then[path] != now[path]]
        found += _at_most(f"schema {name}: {row}" for row in dict.fromkeys(rows))
    return found


def _leaves(value: object, path: str = "") -> Iterable[tuple[str, str]]:
    """Each value that holds no other, by its path. The order of a list does not count, and prose neither."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            if key not in _WORDS or not isinstance(inner, str):
                yield from _leaves(inner, f"{path}/{key}")
    elif isinstance(value, list) and value:
        for inner in value:
            key = inner if isinstance(inner, str) else _name(inner)
            yield from _leaves(inner, f"{path}/{key}")
    else:
        yield path, json.dumps(value)


def _name(item: object) -> str:
    """What tells one entry of a list from the others: the names that it holds."""
    names = re.findall(r'"(?:\$ref|const|title|type|name|id)": "([^"]*)"', json.dumps(item))
    return "+".join(names[:3]) or json.dumps(item)[:40]


def _beginnings(paths: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return found


def _top(path: str, others: Set[str]) -> str:
    """The shortest beginning of the path that the others do not have; the path where they have all of it."""
    parts = path.split("/")
    begins = ("/".join(parts[:length]) for length in range(2, len(parts)))
    return next((begin for begin in begins if begin not in others), path)


def _at_most(rows: Iterable[str]) -> list[str]:
    found = list(rows)
    return found if len(found) <= MAX else [*found[:MAX], f"{found[0].split(':')[0]}: and {len(found) - MAX} more"]
