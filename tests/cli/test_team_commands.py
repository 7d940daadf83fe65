"""`beam team` over a recorded team, called in this process: what it prints of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.inside import Inside
from tests.teams.teams_replay import Scratch, proved


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    """The in-process team, a moment before its lead leaves and its files go."""
    found = Scratch(tmp_path / "team", "in-process")
    end = next(at for at, one, _ in found.steps() if one and one["op"] == "delete" and one["path"][:9] == "sessions/")
    found.replay(None, until=end - 0.001, with_hooks=False)
    return found


@pytest.mark.slow
def test_the_mail_of_a_team_is_shown_as_its_files_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scratch: Scratch
) -> None:
    inside = Inside(tmp_path, monkeypatch)
    home = ("--claude-home", str(scratch.home))
    mails = inside("team", "mail", "session", "--json", *home).lines
    assert len(mails) == len(proved("in-process").mails) > 0
    shown = inside("team", "mail", "session", *home).out
    grouped = inside("team", "mail", "session", "--thread", *home).out
    assert shown and sorted(shown.split()) != sorted(grouped.split()), "a conversation has a heading"
    assert inside("team", "mail", "session", "--json", "--thread", *home).lines
