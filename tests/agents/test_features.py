"""The table of sixteen features: each follows from a card, and behind every yes stands a test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import Capabilities, Card
from beam.agents.features import Features, features
from beam.api import matrix
from tests.support import clis

TESTS = Path(__file__).parents[1]
NAMES = Features.__struct_fields__
COLUMNS = {column.adapter: column.cells for column in matrix.of_mode(matrix.matrix(), "exec")[1]}
# A case of the conformance table that tries the feature with the real CLI, headless.
CASES = {
    "streaming": "deltas",
    "interrupt": "interrupt",
    "session_resume": "resume",
    "model_switching": "model",
    "permission_modes": "access_read",
    "mode_switch_mid_session": "access_switch",
    "structured_output": "schema",
    "image_input": "image",
    "cost_tracking": "cost",
    "session_fork": "fork",
}
# The same over its own protocol, for what the headless mode of that CLI can't do.
OVER_PROTOCOL = {column.adapter: column.cells for column in matrix.of_mode(matrix.matrix(), "dialogue")[1]}
DIALOGUE_CASES = {"image_input": "warm_image", "streaming": "warm_deltas", "native_protocol": "warm_turn"}
# Other tests, where no case of that table does.
OTHERS = {
    ("claude", "file_checkpointing"): "real/test_rewind.py::test_claude_puts_back_the_files_that_it_changed_too",
    ("codex", "slash_commands"): "real/test_live_control.py::"
    "test_a_conversation_is_compacted_by_a_slash_command_and_a_text_is_none",
    ("claude", "slash_commands"): "real/test_terminal_turns.py::test_a_slash_command_of_claudes_runs_on_its_screen",
    ("claude", "agent_teams"): "teams/test_teams_real.py::test_a_real_team_is_seen_live_from_its_start_to_its_end",
    ("kimi", "session_fork"): "agents/acp/test_acp_conversation.py::test_a_copy_of_a_session_has_an_id_of_its_own",
}
# Over the Agent Client Protocol, for what the headless mode of that CLI can't do.
ACP = "real/test_acp_dialogue.py"
ACP_TESTS = {
    "structured_output": "test_a_system_prompt_and_a_schema_reach_the_model_and_the_answer_is_checked",
    "permission_modes": "test_with_edit_it_changes_files_of_the_folder_and_runs_nothing",
}
# beam's own, whatever the CLI.
ARCHIVE = "api/test_acceptance_sessions.py::test_an_archived_session_takes_no_messages_and_comes_back_as_it_was"


def card(name: str) -> Card:
    module: Any = registry.adapter(name)
    return module.card  # type: ignore[no-any-return]


CLAIMED = [(name, feature) for name in COLUMNS for feature in NAMES if getattr(features(card(name)), feature)]


@pytest.mark.slow
def test_there_are_sixteen_and_each_is_yes_or_no_for_every_adapter() -> None:
    assert len(NAMES) == 16
    for name in registry.NAMES:
        assert {type(getattr(features(card(name)), feature)) for feature in NAMES} == {bool}


@pytest.mark.parametrize(("name", "feature"), CLAIMED)
def test_behind_every_yes_of_a_cli_stands_a_test(name: str, feature: str) -> None:
    other = ARCHIVE if feature == "session_archive" else OTHERS.get((name, feature))
    headless = feature in CASES and COLUMNS[name][CASES[feature]].status == "works"
    if other is None and not headless and feature in DIALOGUE_CASES:
        assert OVER_PROTOCOL[name][DIALOGUE_CASES[feature]].status == "works"
        return
    if other is None and not headless:
        assert name in clis.ACP
        other = f"{ACP}::{ACP_TESTS[feature]}"
    if other is not None:
        path, _, test = other.partition("::")
        assert re.search(rf"^def {test}\(", (TESTS / path).read_text(), re.MULTILINE)
    else:
        assert COLUMNS[name][CASES[feature]].status == "works"


@pytest.mark.parametrize("feature", sorted(CASES))
def test_what_the_table_saw_working_is_a_yes(feature: str) -> None:
    seen = {name for name, cells in COLUMNS.items() if cells[CASES[feature]].status == "works"}
    assert seen <= {name for name, claimed in CLAIMED if claimed == feature}


def test_a_card_without_modes_can_nothing() -> None:
    assert not any(getattr(features(Card(name="x", summary="", faces={})), feature) for feature in NAMES)


def test_one_access_is_no_choice() -> None:
    one = features(Card(name="x", summary="", faces={"exec": Capabilities(resume=True, access=("full",))}))
    two = features(Card(name="x", summary="", faces={"exec": Capabilities(access=("read", "full"))}))
    assert (one.session_resume, one.permission_modes, one.mode_switch_mid_session) == (True, False, False)
    assert (two.permission_modes, two.mode_switch_mid_session) == (True, False)


def test_every_capability_is_a_row_of_the_table_of_modes() -> None:
    from tests.support.made_agents import _TITLES, UNTITLED

    assert set(_TITLES) | UNTITLED == set(Capabilities.__struct_fields__) and not set(_TITLES) & UNTITLED
