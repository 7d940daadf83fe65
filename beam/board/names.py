"""Names and places of the rows, short enough for their column and still different from each other. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from beam.board.rows import Row
from beam.board.words import cut_middle
from beam.cli.render.text import display_width


class Names:
    """The names of everyone that the board has seen, by the key of the row."""

    def __init__(self) -> None:
        self._whole: dict[str, str] = {}
        self._short: dict[int, dict[str, str]] = {}  # by width

    def learn(self, names: Mapping[str, str]) -> None:
        """Use these names from now on."""
        if any(self._whole.get(key) != name for key, name in names.items()):
            self._whole.update(names)
            self._short.clear()

    def whole(self, key: str) -> str:
        """Return the name; the key if there is none."""
        return self._whole.get(key, key)

    def short(self, key: str, width: int) -> str:
        """Return the name in at most `width` columns, different from all other names."""
        if width not in self._short:
            self._short[width] = distinct(self._whole, width)
        return self._short[width].get(key, key)

    def __contains__(self, key: str) -> bool:
        return key in self._whole


def labels(rows: Sequence[Row], here: Path) -> dict[str, str]:
    """Return a name for each row's key that no other row has: the name of an agent or a session with its folder, unless
    that is `here`, and that of a member with its team."""
    known = short_places(rows)
    found = {}
    for row in rows:
        place = place_key(row)
        is_elsewhere = place not in ("", str(here))
        name = f"{known[place]}/{row.name}" if is_elsewhere else row.name
        found[row.key] = row.key if row.kind == "member" else name
    return found


def distinct(texts: Mapping[str, str], width: int) -> dict[str, str]:
    """Return a text of at most `width` columns for each key; no two keys have the same. A text that is too long is cut
    in its middle, and one that another key has already gets a number."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for key, text in sorted(texts.items(), key=lambda item: (display_width(item[1]) > width, item[1], item[0])):
        short, number = cut_middle(text, width), 1
        while short in taken:
            number += 1
            short = f"{cut_middle(text, width - 1 - len(str(number)))}~{number}"
        taken.add(short)
        found[key] = short
    return found


def place_key(row: Row) -> str:
    """Return what identifies the place of a row: a folder, or the team of a member."""
    if row.kind == "member":
        return f"team {row.place}"
    return str(row.project) if row.project is not None else row.place


def short_places(rows: Sequence[Row]) -> dict[str, str]:
    """Return a text for each `place_key`: for a folder its name and, if several have that name, the nearest folder
    above it in which they differ."""
    found = {place_key(row): f"team {row.place}" for row in rows if row.kind == "member"}
    folders = {
        place_key(row): tuple(row.place.rstrip("/").split("/")) for row in rows if row.kind != "member" and row.place
    }
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for parts in set(folders.values()):
        by_name.setdefault(parts[-1], []).append(parts)
    sizes = {parts: _needed_parts(parts, by_name[parts[-1]]) for parts in folders.values()}
    short = {parts: _short_path(parts, size) for parts, size in sizes.items()}
    is_known = Counter(short.values())
    found |= {place_key(row): "" for row in rows if not row.place}
    for place, parts in folders.items():
        found[place] = short[parts] if is_known[short[parts]] == 1 else "/".join(parts[-sizes[parts] :])
    return found


def _needed_parts(parts: tuple[str, ...], same_name: Sequence[tuple[str, ...]]) -> int:
    """Return how many of the last parts of a path are needed so that no other path of that name has the same."""
    size = 1
    while any(other[-size:] == parts[-size:] for other in same_name if other != parts):
        size += 1
    return size


def _short_path(parts: tuple[str, ...], size: int) -> str:
    """Return the first and the last of the last `size` parts of a path."""
    if size < 3:
        return "/".join(parts[-size:]) or "/"
    return f"{parts[-size]}/…/{parts[-1]}"
