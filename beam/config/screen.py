"""Checks the patterns in the settings of an agent's screen (`screen:`): each must compile, and must not take long to
match on any screen."""

from __future__ import annotations

from msgspec import Struct

from beam.config.source import Source
from beam.model.screen_profile import PATTERN_FIELDS, patterns_of


def check_patterns(kind: type[Struct], name: str, value: object, at: tuple[str, ...], source: Source) -> None:
    from beam.base import patterns

    for text in patterns_of(kind, name, value):
        known = PATTERN_FIELDS[kind][name]
        problem = patterns.find_problem(text, whole_screen=known.whole_screen)
        if not problem and known.group and text and patterns.count_groups(text) != 1:
            problem = "needs exactly one group ( ): what it is to find; (?: ) is none"
        if problem:
            raise source.error(at, f"{text[:60]!r}: {problem}", "see docs/terminals.md")
