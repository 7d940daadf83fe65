"""The same happening told by several sources is one happening: by its key, or by what it is and when.

Files, transcripts and hooks tell of one change within a few seconds, each with its own time; the same source telling it
again means that it happened again. Must not know: what the happenings are.
"""

from __future__ import annotations

from collections.abc import Hashable

TOLERANCE_NS = 5_000_000_000
_KEPT_KEYS = 200_000
_KEPT_TIMES = 16


class Once:
    """What was told already."""

    def __init__(self, tolerance_ns: int = TOLERANCE_NS) -> None:
        self._tolerance_ns = tolerance_ns
        self._keys: dict[Hashable, None] = {}
        self._told: dict[Hashable, list[tuple[int, set[str]]]] = {}

    def first(self, key: Hashable) -> bool:
        """Whether this exact key was never given before."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > _KEPT_KEYS:
            del self._keys[next(iter(self._keys))]
        return True

    def new(self, what: Hashable, *, source: str, at_ns: int) -> bool:
        """Whether this is a happening that no other source told of at about that time."""
        told = self._told.setdefault(what, [])
        near = [one for one in told if abs(one[0] - at_ns) <= self._tolerance_ns and source not in one[1]]
        if near:
            min(near, key=lambda one: abs(one[0] - at_ns))[1].add(source)
            return False
        told.append((at_ns, {source}))
        del told[:-_KEPT_TIMES]
        return True
