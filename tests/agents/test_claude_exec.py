"""How a turn becomes a command line of Claude Code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import Host, Launch, Turn
from beam.agents.claude import exec
from beam.base.errors import UnsupportedError
from beam.model.settings import AgentSettings

ID = "9a9d17cd-e1a5-4554-a76b-ae7b3837ccce"
BASE = (
    "/x/claude",
    "-p",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--include-hook-events",
)
DANGEROUS = ("bypassPermissions", "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions")


def launch(text: str = "hi", *, settings: AgentSettings | None = None, **fields: Any) -> Launch:
    fields = {"access": "edit", "cwd": "/w", "folder_trusted": True, **fields}
    turn = Turn(text=text, message_id="claude-1", agent="claude", settings=settings or AgentSettings(), **fields)
    return exec.launch(turn, Host(executable="/x/claude"))


def after(made: Launch, flag: str) -> str:
    return made.argv[made.argv.index(flag) + 1]


def test_the_registry_finds_it_with_its_headless_face() -> None:
    adapter = registry.adapter("claude")
    assert adapter.exec is exec
    assert adapter.card.faces["exec"].access == tuple(exec.ACCESS)


def test_a_new_session_has_the_id_that_beam_chose() -> None:
    assert launch(fresh_session_id=ID).argv == (*BASE, "--session-id", ID, "--permission-mode", "acceptEdits")


def test_a_known_session_is_resumed_and_gets_no_other_id() -> None:
    made = launch(session_id=ID, fresh_session_id="00000000-e1a5-4554-a76b-ae7b3837ccce")
    assert made.argv == (*BASE, "--resume", ID, "--permission-mode", "acceptEdits")


def test_a_throw_away_session_leaves_no_transcript() -> None:
    assert "--no-session-persistence" in launch(fresh_session_id=ID, once=True).argv
    assert "--no-session-persistence" not in launch(fresh_session_id=ID).argv


@pytest.mark.parametrize("session_id", ["", "--dangerously-skip-permissions", "a title", ID + "\n", ID[:-1]])
def test_only_a_uuid_is_taken_for_a_session(session_id: str) -> None:
    with pytest.raises(UnsupportedError, match="is not a session id"):
        launch(session_id=session_id)


def test_every_option_becomes_its_flag() -> None:
    made = launch(
        settings=AgentSettings(system="Be brief."),
        model="haiku",
        schema='{"type":"object"}',
        max_turns=3,
        budget_usd=0.5,
    )
    assert made.argv[-12:] == (
        "--model",
        "haiku",
        "--json-schema",
        '{"type":"object"}',
        "--max-turns",
        "3",
        "--max-budget-usd",
        "0.5",
        "--append-system-prompt",
        "Be brief.",
        "--system-prompt-snapshot",
        "off",
    )


def test_a_system_text_of_beams_is_not_recorded_for_later_turns_and_without_one_an_older_claude_works() -> None:
    assert after(launch(access="read"), "--system-prompt-snapshot") == "off"
    assert "--system-prompt-snapshot" not in launch(access="full").argv


def test_retries_are_capped_at_three_unless_the_settings_say_otherwise() -> None:
    assert launch().env == {"CLAUDE_CODE_MAX_RETRIES": "3"}
    assert launch(settings=AgentSettings(retries=0)).env == {"CLAUDE_CODE_MAX_RETRIES": "0"}


@pytest.mark.parametrize("value", ["--dangerously-skip-permissions", "-p", "a\0b", "x" * 130_000])
def test_an_option_that_could_be_taken_for_a_flag_or_is_too_long_is_refused(value: str) -> None:
    for fields in ({"model": value}, {"schema": value}, {"settings": AgentSettings(system=value)}):
        with pytest.raises(UnsupportedError):
            launch(**fields)


# -- the prompt --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "stdin"),
    [
        ("hello", b"hello"),
        ("-p --model x", b"-p --model x"),
        ("/cost", b" /cost"),
        ("/etc/passwd is a file", b" /etc/passwd is a file"),
        ("\n/cost", b"\n/cost"),
        ("a\0b", b"a\0b"),
        ("\u00e9\U0001f389", "\u00e9\U0001f389".encode()),
        ("a\ud800b", "a\ufffdb".encode()),
        ("  spaces stay \n", b"  spaces stay \n"),
    ],
)
def test_the_prompt_goes_to_stdin_as_it_is_but_for_a_space_before_a_slash(text: str, stdin: bytes) -> None:
    made = launch(text)
    assert made.stdin == stdin
    assert made.prompt_in_argv == ()
    assert text not in made.argv


def test_attached_files_are_mentioned_after_the_text() -> None:
    made = launch("look", attach=("/w/a.txt", "/w/two words.png", '/w/q"uote'))
    assert made.stdin == b'look\n\n@"/w/a.txt"\n@"/w/two words.png"\n@/w/q"uote'


@pytest.mark.parametrize(
    "path", ["/w/new\nline", '/w/both " and space', "/w/bell\x07", "/w/notes#L5", "/w/a#b", "/w/x (agent)"]
)
def test_a_file_that_no_mention_can_name_is_refused(path: str) -> None:
    with pytest.raises(UnsupportedError, match="can't attach the file"):
        launch("look", attach=(path,))


# -- access ------------------------------------------------------------------------------------------------------------


def test_access_read_denies_every_tool_that_changes_something_and_loads_nothing_of_the_folder() -> None:
    made = launch(access="read")
    assert after(made, "--permission-mode") == "dontAsk"
    assert after(made, "--setting-sources") == "user"
    asks = json.loads(after(made, "--settings"))["permissions"]["ask"]
    assert asks == ["Bash", "Edit", "Write", "NotebookEdit", "mcp__*"]
    tools = after(made, "--tools").split(",")
    assert set(asks) - {"mcp__*"} <= set(tools)
    assert {"Read", "Glob", "Grep"} <= set(tools)


def test_access_read_still_gives_the_folders_claude_md() -> None:
    made = launch(access="read", cwd="/some/folder")
    assert after(made, "--add-dir") == "/some/folder"
    assert made.env["CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"] == "1"


def test_access_read_tells_the_model_what_it_may_do_beside_the_system_text_of_the_settings() -> None:
    system = after(launch(access="read", settings=AgentSettings(system="Be brief.")), "--append-system-prompt")
    assert system.startswith("Be brief.\n\n")
    assert "not change anything" in system


def test_access_edit_accepts_edits_and_access_full_bypasses_permissions() -> None:
    assert after(launch(access="edit"), "--permission-mode") == "acceptEdits"
    assert after(launch(access="full"), "--permission-mode") == "bypassPermissions"


def test_access_edit_loads_the_folders_own_settings_only_where_the_folder_is_trusted() -> None:
    untrusted = launch(access="edit", cwd="/some/folder", folder_trusted=False)
    assert after(untrusted, "--setting-sources") == "user"
    assert after(untrusted, "--add-dir") == "/some/folder"
    assert "--setting-sources" not in launch(access="edit", folder_trusted=True).argv


def test_only_access_full_has_a_dangerous_flag() -> None:
    for access in ("read", "edit"):
        assert not set(launch(access=access).argv) & set(DANGEROUS)


def test_access_ask_is_refused_with_the_words_there_are() -> None:
    with pytest.raises(UnsupportedError, match="can't ask") as caught:
        launch(access="ask")
    assert caught.value.hint == "use one of: read, edit, full"


def test_its_stdout_is_no_pipe_for_it_drops_what_a_full_one_does_not_take() -> None:
    assert launch().drops_output
