"""Suggestions: the word that was meant, or none."""

from __future__ import annotations

import pytest

from beam.base.errors import nearest

KNOWN = ("status", "send", "queue", "remove", "reply", "SIGKILL", "claude", "codex")


@pytest.mark.parametrize(
    ("word", "meant"),
    [("statsu", "status"), ("sned", "send"), ("Queue", "queue"), ("sigkil", "SIGKILL"), ("claud", "claude")],
)
def test_a_word_of_a_letter_or_two_beside_is_meant(word: str, meant: str) -> None:
    assert nearest(word, KNOWN) == meant


@pytest.mark.parametrize("word", ["resume", "run", "exec", "list", "", "x" * 1000])
def test_a_word_that_is_near_nothing_means_nothing(word: str) -> None:
    assert nearest(word, KNOWN) is None
