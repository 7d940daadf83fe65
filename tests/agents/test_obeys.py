"""What each CLI obeys in a folder is declared, and its launch keeps it from that where the declaration says so."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import HasTerminal, Host, Launch, Turn
from beam.agents.link import HasDialogue

HOST = Host(home="/home/me", python="python3")
FACES = [
    (name, face)
    for name in registry.ADAPTERS
    for face in registry.adapter(name).card.faces
    if registry.adapter(name).card.obeys.get(face)
]


def launch(name: str, face: str, **fields: Any) -> Launch:
    adapter = registry.adapter(name)
    turn = Turn(text="hi", message_id="x-1", agent=name, cwd="/work", scratch="/scratch", **fields)
    if face == "terminal":
        assert isinstance(adapter, HasTerminal)
        return adapter.terminal.launch(turn, HOST)
    if face == "dialogue":
        assert isinstance(adapter, HasDialogue)
        return adapter.dialogue.launch(turn, HOST)
    assert adapter.exec is not None
    return adapter.exec.launch(turn, HOST)


@pytest.mark.parametrize("name", registry.ADAPTERS)
def test_a_declaration_names_paths_below_the_folder_and_ignores_only_what_is_obeyed(name: str) -> None:
    for obeyed in registry.adapter(name).card.obeys.values():
        for one in obeyed:
            path = PurePath(one.path)
            assert not path.is_absolute() and ".." not in path.parts
            assert set(one.ignored) <= set(one.at)


@pytest.mark.parametrize("name", registry.ADAPTERS)
def test_each_mode_of_a_cli_says_what_it_obeys(name: str) -> None:
    card = registry.adapter(name).card
    is_cli = card.install and not card.runs_text and not card.unverified
    assert set(card.obeys) == (set(card.faces) if is_cli else set())


@pytest.mark.parametrize(("name", "face"), FACES)
def test_a_launch_is_another_one_where_files_are_left_out_that_it_would_obey(name: str, face: str) -> None:
    card = registry.adapter(name).card
    for access in card.faces[face].access:  # type: ignore[index]
        if not any(access in one.ignored for one in card.obeys[face]):  # type: ignore[index]
            continue
        plain, without = (
            launch(name, face, access=access, leave_out=out, folder_trusted=not out) for out in (False, True)
        )
        assert plain != without, access


@pytest.mark.parametrize("face", ["exec", "terminal"])
def test_qwen_is_told_by_settings_over_all_others_not_to_trust_the_folder(face: str) -> None:
    made = launch("qwen", face, access="read", leave_out=True)
    settings, folders = (
        made.files[PurePath(made.env[name]).name]
        for name in ("QWEN_CODE_SYSTEM_SETTINGS_PATH", "QWEN_CODE_TRUSTED_FOLDERS_PATH")
    )
    assert json.loads(settings) == {"security": {"folderTrust": {"enabled": True}}}
    assert json.loads(folders) == {"/work": "DO_NOT_TRUST"}
    assert launch("qwen", face, access="read").files == {}


@pytest.mark.parametrize("face", ["exec", "terminal"])
def test_gemini_is_told_not_to_trust_the_folder_whatever_its_settings_say(face: str) -> None:
    def told(**fields: Any) -> str | None:
        return launch("gemini", face, **fields).env.get("GEMINI_CLI_TRUST_WORKSPACE")

    assert told(access="read", leave_out=True) == "false"
    assert told(access="read") is None
    assert told(access="read", folder_trusted=True) == told(access="full") == "true"


@pytest.mark.parametrize("face", ["exec", "terminal"])
def test_claude_loads_the_folders_settings_with_full_access_unless_they_are_left_out(face: str) -> None:
    assert "--setting-sources" in launch("claude", face, access="full", leave_out=True).argv
    assert "--setting-sources" not in launch("claude", face, access="full").argv


def test_vibe_trusts_the_folder_with_full_access_unless_its_files_are_left_out() -> None:
    assert "--trust" not in launch("vibe", "exec", access="full", leave_out=True).argv
    assert "--trust" in launch("vibe", "exec", access="full").argv


def test_pi_is_told_by_beam_whether_it_loads_a_folders_extensions_and_not_by_its_own_default() -> None:
    assert "--no-approve" in launch("pi", "exec", access="full", leave_out=True).argv
    assert "--approve" in launch("pi", "exec", access="full", folder_trusted=True).argv
    assert "--approve" not in launch("pi", "exec", access="read", folder_trusted=True).argv
