"""What an agent may not do inside its turn, verb by verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.api import Beam
from beam.api.team_actions import TeamActions, create_team
from beam.api.teams import install_hooks
from beam.base.errors import UsageError

VERBS = [  # and how many words each needs
    ("act_live", 3), ("add_agent", 2), ("add_rule", 3), ("adopt", 1), ("adopt_session", 3), ("archive_agent", 1),
    ("ask_live", 1), ("attach", 1), ("check_determinism", 2), ("drop", 1), ("drop_dead", 0), ("edit", 2),
    ("fork_agent", 2), ("gc", 0), ("history", 1), ("keep_secret", 2), ("mcp_servers", 1), ("pause", 1), ("recv", 1),
    ("release_agent", 1), ("remove_agent", 1), ("remove_root", 1), ("remove_rule", 3), ("remove_secret", 1),
    ("rename_agent", 2), ("reset", 1), ("resume", 1), ("resume_session", 2), ("retry", 1), ("rewind_agent", 1),
    ("run", 1), ("search", 1), ("set_agent", 2), ("set_live", 3), ("start_broker", 0), ("steer", 2), ("stop_broker", 0),
    ("test_notify", 0), ("trust", 0), ("trust_scenario", 1), ("unblock", 1), ("undo", 0), ("untrust", 0),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "words"), VERBS, ids=[verb for verb, _ in VERBS])
def test_an_agent_is_refused_what_only_a_person_may_do(tmp_path: Path, verb: str, words: int) -> None:
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "BEAM_TRUST": "1", "BEAM_AGENT": "planner"}
    (tmp_path / "project").mkdir()
    inside = Beam(cwd=tmp_path / "project", environ=environ)
    with pytest.raises(UsageError, match=r"^only a person .*; this is a process of planner"):
        getattr(inside, verb)(*["x"] * words)
    assert list((tmp_path / "project").iterdir()) == []


def test_an_agent_acts_on_no_team_and_changes_no_hooks_from_python_either(tmp_path: Path) -> None:
    person = {"HOME": str(tmp_path / "home")}
    create_team(person, "crew")
    before = sorted((tmp_path / "home").rglob("*"))
    agent = {**person, "BEAM_AGENT": "planner"}
    for act in (
        lambda: TeamActions(agent, "crew"),
        lambda: create_team(agent, "another"),
        lambda: install_hooks("user", environ=agent, project=tmp_path),
    ):
        with pytest.raises(UsageError, match=r"^only a person .*; this is a process of planner"):
            act()
    assert sorted((tmp_path / "home").rglob("*")) == before
