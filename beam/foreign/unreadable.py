"""Counts what beam could not read in the files of others, and says it in words."""

from __future__ import annotations

from collections.abc import Mapping

_MAX_REASONS = 20  # whoever writes a file must not fill memory with reasons
_OTHER = "type: one of many others"


class UnreadableError(Exception):
    """A file, or the rest of it, can't be read. The text says why, in a few words. `is_lasting`: it will be so at the
    next attempt, too."""

    def __init__(self, why: str, *, is_lasting: bool = True) -> None:
        super().__init__(why)
        self.is_lasting = is_lasting


class LeftOut:
    """The number of records (lines, rows, files) that were left out, by the reason."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, why: str, count: int = 1) -> None:
        """Count records that were left out."""
        if why not in self.counts and len(self.counts) >= _MAX_REASONS:
            why = _OTHER
        self.counts[why] = self.counts.get(why, 0) + count

    def update(self, other: Mapping[str, int]) -> None:
        """Count what another one counted."""
        for why, count in other.items():
            self.add(why, count)

    def is_loss(self) -> bool:
        """Return whether something was left out that is no record of an unknown type."""
        return any(not why.startswith(("type", "no type")) for why in self.counts)


def left_out_text(counts: Mapping[str, int]) -> str:
    """Return what was left out, as text: `3 records were left out: 2 not JSON, 1 type x`."""
    number = sum(counts.values())
    reasons = ", ".join(f"{count} {why}" if len(counts) > 1 else why for why, count in counts.items())
    return f"{number} record{'s were' if number != 1 else ' was'} left out: {reasons}"
