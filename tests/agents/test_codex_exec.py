"""How a turn becomes a command line of Codex."""

from __future__ import annotations

from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import Host, Launch, Turn
from beam.agents.codex import exec
from beam.agents.codex.env import fake_model_env, fake_model_files
from beam.base.errors import UnsupportedError
from beam.model.settings import AgentSettings

ID = "01a1ffc9-bce8-7200-9c11-4d22ab4a9624"
BASE = (
    "/x/codex",
    "exec",
    "--json",
    "--skip-git-repo-check",
    "-c",
    "features.unbounded_connection_retries=false",
    "--sandbox",
    "workspace-write",
    "-c",
    "sandbox_workspace_write.exclude_slash_tmp=true",
)


def launch(text: str = "hi", *, settings: AgentSettings | None = None, **fields: Any) -> Launch:
    fields = {"access": "edit", "cwd": "/w", "scratch": "/s", **fields}
    turn = Turn(text=text, message_id="codex-1", agent="codex", settings=settings or AgentSettings(), **fields)
    return exec.launch(turn, Host(executable="/x/codex"))


def test_the_registry_finds_it_with_its_headless_face() -> None:
    adapter = registry.adapter("codex")
    assert adapter.exec is exec
    assert adapter.card.faces["exec"].access == tuple(exec.ACCESS)


def test_a_new_session_reads_its_prompt_from_stdin() -> None:
    made = launch(fresh_session_id=ID)
    assert (made.argv, made.stdin) == ((*BASE, "-"), b"hi")


def test_a_known_session_is_resumed_with_the_options_before_the_word() -> None:
    assert launch(session_id=ID, model="m").argv == (*BASE, "--model", "m", "resume", ID, "-")


def test_a_fork_goes_on_in_a_copy() -> None:
    assert launch(session_id=ID, fork=True).argv == (*BASE, "fork", ID, "-")


@pytest.mark.parametrize("session_id", ["", "--last", "a name", ID + "\n", ID[:-1]])
def test_a_name_is_no_session_because_an_unknown_one_would_silently_be_a_new_session(session_id: str) -> None:
    with pytest.raises(UnsupportedError, match="is not a session id"):
        launch(session_id=session_id)


def test_a_refused_connection_is_not_tried_again_for_ever() -> None:
    assert "features.unbounded_connection_retries=false" in launch().argv
    assert launch().retries is None
    assert launch(settings=AgentSettings(retries=2)).retries == 2


def test_every_option_becomes_its_flag() -> None:
    made = launch(schema='{"type":"object"}', once=True, settings=AgentSettings(system='Be "brief".\nü'))
    assert made.argv[len(BASE) : -1] == (
        "-c",
        'developer_instructions="Be \\"brief\\".\\nü"',
        "--output-schema",
        "/s/schema.json",
        "--ephemeral",
    )
    assert made.files == {"schema.json": b'{"type":"object"}'}


@pytest.mark.parametrize("model", ["--yolo", "a\0b", ""])
def test_a_model_that_could_be_taken_for_a_flag_is_refused(model: str) -> None:
    with pytest.raises(UnsupportedError):
        launch(model=model)


@pytest.mark.parametrize("text", ["-x", "/review", "resume", 'a "b"\n\n', "  "])
def test_the_prompt_goes_to_stdin_as_it_is(text: str) -> None:
    made = launch(text)
    assert made.stdin == text.encode()
    assert made.prompt_in_argv == ()
    assert made.argv[-1] == "-"


def test_a_lone_surrogate_becomes_a_character_that_codex_can_read() -> None:
    assert launch("a\ud800b").stdin == "a\ufffdb".encode()


def test_images_go_along_and_other_files_by_their_paths() -> None:
    made = launch("look", attach=("/w/a b.png", "/w/notes.txt", "/w/C.JPG"))
    assert [word for word in made.argv if word.startswith("--image")] == ["--image=/w/a b.png", "--image=/w/C.JPG"]
    assert made.stdin == b"look\n\nAttached file: /w/notes.txt"


def test_an_image_whose_name_codex_would_cut_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="comma"):
        launch(attach=("/w/a,b.png",))


def test_each_access_word_is_one_sandbox() -> None:
    assert launch(access="read").argv[6:9] == ("--sandbox", "read-only", "--ignore-rules")
    assert launch(access="edit").argv[6:8] == ("--sandbox", "workspace-write")
    assert launch(access="full").argv[6] == "--dangerously-bypass-approvals-and-sandbox"


def test_only_access_full_has_a_dangerous_flag() -> None:
    for access in ("read", "edit"):
        assert not any("danger" in word for word in launch(access=access).argv)


def test_access_ask_is_refused_with_the_words_there_are() -> None:
    with pytest.raises(UnsupportedError, match="can't ask") as caught:
        launch(access="ask")
    assert caught.value.hint == "use one of: read, edit, full"


def test_its_environment_names_one_model_and_switches_off_all_other_ways_out() -> None:
    env = fake_model_env("http://127.0.0.1:1234")
    config = fake_model_files("http://127.0.0.1:1234")[".codex/config.toml"].decode()
    assert 'base_url = "http://127.0.0.1:1234/v1"' in config
    assert {name for name, value in env.items() if value == ""} == {"CODEX_HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL"}
