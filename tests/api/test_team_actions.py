"""A team that beam makes without Claude Code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam.api.team_actions import create_team
from beam.base.errors import UsageError


def test_a_team_is_made_once_in_claude_codes_own_place_with_a_lead_in_that_folder(tmp_path: Path) -> None:
    create_team({"HOME": str(tmp_path)}, "review", cwd="/work")
    made = json.loads((tmp_path / ".claude/teams/review/config.json").read_text())
    assert made["name"] == "review" and made["leadSessionId"]
    assert [member["cwd"] for member in made["members"]] == ["/work"]
    with pytest.raises(UsageError, match="review"):
        create_team({"HOME": str(tmp_path)}, "review")


def test_another_home_of_claude_code_can_be_named(tmp_path: Path) -> None:
    create_team({"HOME": str(tmp_path)}, "review", claude_homes=[str(tmp_path / "other")])
    assert (tmp_path / "other/teams/review").is_dir() and not (tmp_path / ".claude").exists()
