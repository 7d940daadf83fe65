"""Finds the known word that a mistyped word most likely means."""

from __future__ import annotations

from collections.abc import Iterable

_NEAR = 0.7  # ratio of difflib: one letter in four may differ; at its default 0.6, `resume` matches `remove`


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most similar to this one, ignoring case; None if none is similar enough."""
    import difflib

    words = {str(each).lower(): str(each) for each in known}
    near = difflib.get_close_matches(word.lower(), words, 1, _NEAR)
    return words[near[0]] if near else None
