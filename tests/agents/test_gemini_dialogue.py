"""How a turn becomes a process of Gemini CLI that speaks its protocol."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from beam.agents.base import Host, Launch, Turn
from beam.agents.gemini import dialogue
from beam.base.errors import UnsupportedError
from beam.rules.rule import parse
from beam.rules.ruleset import Ruleset


def launch(**fields: Any) -> Launch:
    fields = {"access": "edit", "cwd": "/w", "scratch": "/s", **fields}
    return dialogue.launch(
        Turn(text="hi", message_id="gemini-1", agent="gemini", **fields), Host(executable="/x/gemini")
    )


def test_access_edit_needs_no_policy() -> None:
    assert launch().argv == ("/x/gemini", "--acp", "--approval-mode", "auto_edit")
    assert launch().files == {}


def test_a_policy_that_was_written_is_named_on_the_command_line() -> None:
    made = launch(access="read")
    assert made.argv[-2:] == ("--admin-policy", "/s/policy.toml")
    ask, allow = tomllib.loads(made.files["policy.toml"].decode())["rule"]
    assert (ask["toolName"], ask["decision"]) == ("*", "ask_user")
    assert (allow["decision"], allow["priority"] > ask["priority"]) == ("allow", True)


def test_rules_of_the_turn_are_in_the_policy_of_any_access() -> None:
    made = launch(access="full", rules=Ruleset((parse("Bash(git push *)", "deny"),)))
    assert made.argv[-2:] == ("--admin-policy", "/s/policy.toml")
    assert {rule["decision"] for rule in tomllib.loads(made.files["policy.toml"].decode())["rule"]} == {"deny"}


def test_the_outbox_is_a_folder_of_a_turn_that_may_change_files() -> None:
    assert launch(outbox="/o").argv[-2:] == ("--include-directories", "/o")
    assert "/o" not in launch(outbox="/o", access="read").argv


def test_a_model_is_named_and_one_that_looks_like_a_flag_is_refused() -> None:
    assert launch(model="flash").argv[-2:] == ("--model", "flash")
    with pytest.raises(UnsupportedError):
        launch(model="--yolo")


def test_a_session_of_another_process_is_refused_with_the_way_that_resumes_it() -> None:
    with pytest.raises(UnsupportedError, match="that is gone") as caught:
        launch(session_id="0f8fad5b")
    assert "--via exec" in caught.value.hint
