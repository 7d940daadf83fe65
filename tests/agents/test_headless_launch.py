"""How a turn becomes a command line of each headless CLI."""

from __future__ import annotations

from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import Host, Launch, Turn
from beam.base.errors import UnsupportedError
from beam.model.settings import AgentSettings
from tests.support.clis import HEADLESS, IN_ARGV, RESUMES

UUID = "9a9d17cd-e1a5-4554-a76b-ae7b3837ccce"
SESSIONS = {
    "opencode": "ses_e0033d0d5ffeGjmYr1QO4vE0G9",
    "kilo": "ses_e0033d0d5ffeGjmYr1QO4vE0G9",
    "kimi": f"session_{UUID}",
}
MODELS = tuple(name for name in HEADLESS if registry.adapter(name).card.faces["exec"].model)
DANGEROUS = ("--auto", "yolo", "--allow-all", "--yolo")


def launch(name: str, text: str = "hi there", **fields: Any) -> Launch:
    adapter = registry.adapter(name)
    assert adapter.exec is not None
    first = adapter.card.faces["exec"].access[0]
    turn = Turn(text=text, message_id="m", agent=name, **{"access": first, "cwd": "/w", "scratch": "/s", **fields})
    return adapter.exec.launch(turn, Host(executable=f"/x/{name}"))


@pytest.mark.parametrize("name", HEADLESS)
def test_the_face_takes_what_it_claims_and_refuses_other_access(name: str) -> None:
    face = registry.adapter(name).card.faces["exec"]
    asked: dict[str, tuple[bool, Any]] = {
        "schema": (face.schema, "{}"),
        "budget_usd": (face.budget, 1.0),
        "max_turns": (face.max_turns, 2),
        "attach": (face.attach is not None, ("/w/f",)),
        "session_id": (face.resume, SESSIONS.get(name, UUID)),
        "model": (face.model, "p/m"),
    }
    for field, (claimed, value) in asked.items():
        if claimed:
            assert launch(name, **{field: value}) != launch(name)
    for access in {"read", "edit", "full", "ask"} - set(face.access):
        with pytest.raises(UnsupportedError, match=r"can't (enforce|ask).*access"):
            launch(name, access=access)


@pytest.mark.parametrize("name", HEADLESS)
def test_the_prompt_stays_out_of_argv_or_is_marked_there(name: str) -> None:
    made = launch(name, "a private prompt")
    held = [index for index, word in enumerate(made.argv) if "private" in word]
    if name in IN_ARGV:
        assert held == list(made.prompt_in_argv) == [len(made.argv) - 1]
    else:
        assert held == list(made.prompt_in_argv) == []
        assert b"a private prompt" in (made.stdin or made.files["prompt"])


@pytest.mark.parametrize("name", HEADLESS)
def test_only_access_full_has_a_dangerous_flag(name: str) -> None:
    for access in registry.adapter(name).card.faces["exec"].access:
        if access != "full":
            assert not set(launch(name, access=access).argv) & set(DANGEROUS)


@pytest.mark.parametrize("name", RESUMES)
@pytest.mark.parametrize("session_id", ["", "--yolo", "../x", "a title", "\n"])
def test_only_an_id_of_the_clis_own_kind_is_taken_for_a_session(name: str, session_id: str) -> None:
    with pytest.raises(UnsupportedError, match="is not a session id of"):
        launch(name, session_id=session_id)


@pytest.mark.parametrize("name", RESUMES)
def test_a_known_session_is_named_and_gets_no_other_id(name: str) -> None:
    made = launch(name, session_id=SESSIONS.get(name, UUID), fresh_session_id="00000000-e1a5-4554-a76b-ae7b3837ccce")
    assert any(SESSIONS.get(name, UUID) in word for word in made.argv)
    assert not any("00000000" in word for word in made.argv)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("model", ["-p", "a\0b"])
def test_a_model_that_could_be_a_flag_is_refused(name: str, model: str) -> None:
    with pytest.raises(UnsupportedError):
        launch(name, model=model)


@pytest.mark.parametrize("name", IN_ARGV)
def test_a_prompt_too_long_for_an_argument_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match="takes its prompt as an argument"):
        launch(name, "x" * 130_000)


def test_opencode_reads_its_prompt_from_stdin_since_an_argument_would_reach_the_model_in_quotes() -> None:
    made = launch("opencode", 'say "hi"')
    assert made.stdin == b'say "hi"'
    assert made.argv[:4] == ("/x/opencode", "run", "--format", "json")


@pytest.mark.parametrize(("name", "prefix"), [("opencode", "OPENCODE"), ("kilo", "KILO")])
def test_opencode_gets_a_profile_of_beams_own_and_nothing_of_the_folder_below_full(name: str, prefix: str) -> None:
    for access in ("read", "edit"):
        made = launch(name, access=access)
        assert made.argv[-3:] == ("--pure", "--agent", f"beam-{access}")
        assert made.env == {f"{prefix}_CONFIG_DIR": "/s/config", f"{prefix}_DISABLE_PROJECT_CONFIG": "1"}
        rules = made.files[f"config/agents/beam-{access}.md"].decode()
        assert '  "*": deny\n' in rules
        assert '  "external_directory": deny\n' in rules
        assert ('  "edit": allow\n' in rules) == (access == "edit")
        assert "bash" not in rules
        assert "config/node_modules/.keep" in made.files  # or it would install its library of plugins in every turn
        assert b"/plugin" in made.files["config/package-lock.json"]
    full = launch(name, access="full")
    assert (full.argv[-1], full.env, full.files) == ("--auto", {}, {})


def test_a_kilo_session_which_keeps_its_last_profile_gets_its_usual_one_back_with_full() -> None:
    session_id = SESSIONS["kilo"]
    assert launch("kilo", access="full", session_id=session_id).argv[-3:] == ("--auto", "--agent", "code")
    assert launch("opencode", access="full", session_id=session_id).argv[-1] == "--auto"


@pytest.mark.parametrize("name", ["opencode", "kilo"])
def test_opencodes_stdout_is_no_pipe_for_it_ends_before_a_full_one_was_read(name: str) -> None:
    assert launch(name).drops_output


def test_opencode_wants_a_model_with_its_provider() -> None:
    assert launch("opencode", model="fake/scripted").argv[7:9] == ("-m", "fake/scripted")
    with pytest.raises(UnsupportedError, match="PROVIDER/MODEL"):
        launch("opencode", model="scripted")


def test_opencode_gets_each_file_by_its_path() -> None:
    assert launch("opencode", attach=("/a b", "/c")).argv[7:11] == ("-f", "/a b", "-f", "/c")


def test_qwens_slash_commands_are_kept_off_by_a_space() -> None:
    assert launch("qwen", "/stats").stdin == b" /stats"
    assert launch("qwen", "no /stats").stdin == b"no /stats"


def test_qwen_logs_its_requests_since_it_tries_a_failing_api_for_up_to_an_hour_in_silence() -> None:
    assert launch("qwen").env == {"OPENAI_LOG": "info"}


def test_qwen_has_its_options_as_flags() -> None:
    made = launch("qwen", model="m", max_turns=3, settings=AgentSettings(system="Be brief."), fresh_session_id=UUID)
    assert made.argv[4:6] == ("--session-id", UUID)
    assert made.argv[-6:] == (
        "--model",
        "m",
        "--max-session-turns",
        "3",
        "--append-system-prompt",
        "Be brief.",
    )


@pytest.mark.parametrize("text", ["/run rm -rf x", "!rm -rf x"])
def test_aiders_commands_are_kept_off_by_a_space(text: str) -> None:
    assert launch("aider", text).files["prompt"] == f" {text}".encode()


def test_aiders_session_is_a_history_file_in_the_folder() -> None:
    file = f"--chat-history-file=/w/.aider.chat.history.{UUID}.md"
    assert file in launch("aider", fresh_session_id=UUID).argv
    assert "--restore-chat-history" not in launch("aider", fresh_session_id=UUID).argv
    resumed = launch("aider", session_id=UUID).argv
    assert resumed[resumed.index(file) + 1] == "--restore-chat-history"
    assert "--chat-history-file=/s/history.md" in launch("aider", fresh_session_id=UUID, once=True).argv


def test_an_aider_session_whose_history_file_is_gone_is_not_begun_anew_in_silence() -> None:
    assert launch("aider", session_id=UUID).session_file == f"/w/.aider.chat.history.{UUID}.md"
    assert launch("aider", fresh_session_id=UUID).session_file is None


def test_aider_under_access_read_is_asked_only_and_runs_nothing_of_the_folder() -> None:
    argv = launch("aider", access="read").argv
    assert {"--dry-run", "--chat-mode=ask", "--no-git", "--no-auto-test", "--load=/dev/null"} <= set(argv)


def test_pi_under_access_read_has_only_tools_that_look() -> None:
    argv = launch("pi", access="read").argv
    assert argv[-3:] == ("--tools", "read,grep,find,ls", "--no-extensions")
    assert "--tools" not in launch("pi", access="full").argv


def test_pis_throw_away_session_is_not_kept() -> None:
    assert "--no-session" in launch("pi", once=True).argv


def test_copilot_resumes_by_a_flag_that_never_begins_a_new_session() -> None:
    assert f"--resume={UUID}" in launch("copilot", session_id=UUID).argv
    assert f"--session-id={UUID}" in launch("copilot", fresh_session_id=UUID).argv


def test_copilot_is_given_images_and_told_the_paths_of_other_files_which_it_would_refuse() -> None:
    found = launch("copilot", attach=("/w/a.PNG", "/w/notes.txt"))
    assert [word for word in found.argv if word.startswith("--attachment")] == ["--attachment=/w/a.PNG"]
    assert found.stdin == b"hi there\n\nAttached file: /w/notes.txt"


def test_a_single_word_for_cline_gets_a_space_since_it_would_be_a_command() -> None:
    assert launch("cline", "history").argv[-2:] == ("--", " history")
    assert launch("cline", "-x two words").argv[-2:] == ("--", "-x two words")


def test_cline_keeps_its_sessions_in_its_own_process_so_that_no_hub_daemon_starts() -> None:
    assert launch("cline").env == {"CLINE_SESSION_BACKEND_MODE": "local"}


@pytest.mark.parametrize("name", ["opencode", "kilo", "qwen", "pi", "copilot", "aider"])
def test_retries_are_capped_at_three_unless_the_settings_say_otherwise(name: str) -> None:
    assert launch(name).retries == 3
    assert launch(name, settings=AgentSettings(retries=0)).retries == 0
