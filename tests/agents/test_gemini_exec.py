"""How a turn becomes a command line of Gemini CLI."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import Host, Launch, Turn
from beam.agents.gemini import exec
from beam.agents.gemini.env import fake_model_env, fake_model_files
from beam.agents.gemini.session import beam_session_id, is_beam_session_id
from beam.base.errors import UnsupportedError
from beam.model.settings import AgentSettings

UUID = "9a9d17cd-e1a5-4554-a76b-ae7b3837ccce"
OWN = "9a9d17c_d-e1a5-4554-a76b-ae7b3837ccce"
BASE = ("/x/gemini", "--output-format", "stream-json", "--debug")


def launch(text: str = "hi", *, settings: AgentSettings | None = None, **fields: Any) -> Launch:
    fields = {"access": "edit", "cwd": "/w", "scratch": "/s", **fields}
    turn = Turn(text=text, message_id="gemini-1", agent="gemini", settings=settings or AgentSettings(), **fields)
    return exec.launch(turn, Host(executable="/x/gemini"))


def test_the_registry_finds_it_with_its_headless_face() -> None:
    adapter = registry.adapter("gemini")
    assert adapter.exec is exec
    assert adapter.card.faces["exec"].access == tuple(exec.ACCESS)


def test_a_new_session_has_an_id_that_geminis_cleaning_up_leaves_alone() -> None:
    made = launch(fresh_session_id=UUID)
    assert made.argv == (*BASE, "--session-id", OWN, "--approval-mode", "auto_edit")
    assert not beam_session_id(UUID)[:8].isalnum()
    assert is_beam_session_id(OWN) and not is_beam_session_id(UUID)


def test_a_known_session_is_resumed_by_its_id() -> None:
    assert launch(session_id=OWN, fresh_session_id=UUID).argv[4:6] == ("--resume", OWN)
    assert launch(session_id=UUID).argv[4:6] == ("--resume", UUID)


@pytest.mark.parametrize("session_id", ["", "latest", "3", "--yolo", "a b", "x" * 65])
def test_a_word_that_names_whatever_session_is_there_is_refused(session_id: str) -> None:
    with pytest.raises(UnsupportedError, match="is not a session id"):
        launch(session_id=session_id)


def test_gemini_does_not_start_itself_a_second_time() -> None:
    assert launch().env["GEMINI_CLI_NO_RELAUNCH"] == "true"


def test_retries_are_beams_to_cap_because_gemini_takes_their_number_from_its_settings_only() -> None:
    assert launch().retries == 3
    assert launch(settings=AgentSettings(retries=0)).retries == 0


@pytest.mark.parametrize("model", ["--yolo", "a\0b", ""])
def test_a_model_that_could_be_taken_for_a_flag_is_refused(model: str) -> None:
    assert launch(model="gemini-x").argv[-2:] == ("--model", "gemini-x")
    with pytest.raises(UnsupportedError):
        launch(model=model)


@pytest.mark.parametrize("text", ["-x", "/help", 'a "b"\n\n', "  lead"])
def test_the_prompt_goes_to_stdin_as_it_is(text: str) -> None:
    made = launch(text)
    assert made.stdin == text.encode()
    assert made.prompt_in_argv == ()
    assert text not in made.argv


def test_attached_files_of_the_folder_are_mentioned_after_the_text_and_others_refused() -> None:
    made = launch("look", attach=("/w/a.txt", "/w/two words (1).png"))
    assert made.stdin == b"look\n\n@/w/a.txt\n@/w/two\\ words\\ \\(1\\).png"
    for path in ("/elsewhere/a.txt", "/w2/a.txt", "/w/new\nline"):
        with pytest.raises(UnsupportedError, match="can't attach the file"):
            launch("look", attach=(path,))


# -- access ------------------------------------------------------------------------------------------------------------


def test_access_read_allows_looking_only_whatever_the_persons_own_rules_say() -> None:
    made = launch(access="read")
    assert made.argv[-4:] == ("--approval-mode", "default", "--admin-policy", "/s/policy.toml")
    deny, allow = tomllib.loads(made.files["policy.toml"].decode())["rule"]
    assert (deny["toolName"], deny["decision"]) == ("*", "deny")
    assert allow["priority"] > deny["priority"]
    assert {"read_file", "glob", "grep_search"} <= set(allow["toolName"])
    assert not {"write_file", "replace", "run_shell_command"} & set(allow["toolName"])


def test_edit_and_full_are_geminis_own_modes() -> None:
    assert launch(access="edit").argv[-1] == "auto_edit"
    assert launch(access="full").argv[-1] == "yolo"
    assert "yolo" not in launch(access="read").argv


def test_a_folder_counts_as_trusted_only_where_a_person_trusted_it_or_gave_full_access() -> None:
    assert "GEMINI_CLI_TRUST_WORKSPACE" not in launch(access="read").env
    assert "GEMINI_CLI_TRUST_WORKSPACE" not in launch(access="edit").env
    for made in (launch(access="full"), launch(access="read", folder_trusted=True)):
        assert made.env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"


def test_access_ask_is_refused_with_the_words_there_are() -> None:
    with pytest.raises(UnsupportedError, match="can't ask") as caught:
        launch(access="ask")
    assert caught.value.hint == "use one of: read, edit, full"


def test_its_environment_names_one_model_and_switches_off_all_other_ways_out() -> None:
    env = fake_model_env("http://127.0.0.1:1234")
    assert env["GOOGLE_GEMINI_BASE_URL"] == "http://127.0.0.1:1234"
    assert {name for name, value in env.items() if value == ""} == {
        "GEMINI_CLI_HOME",
        "GOOGLE_API_KEY",
        "GOOGLE_GENAI_USE_GCA",
        "GOOGLE_GENAI_USE_VERTEXAI",
    }
    assert b'"gemini-api-key"' in fake_model_files("x")[".gemini/settings.json"]
