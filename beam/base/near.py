"""The known word that a mistyped one most likely means."""

from __future__ import annotations

from collections.abc import Iterable

_NEAR = 0.7  # of difflib's ratio: one letter in four may differ; at its own 0.6 `resume` means `remove`


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is nearest to this one in any case, None where none is near."""
    import difflib

    words = {str(each).lower(): str(each) for each in known}
    near = difflib.get_close_matches(word.lower(), words, 1, _NEAR)
    return words[near[0]] if near else None
