"""Real agents on their own screens, through the real `beam`, against the scripted model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli, eventually, is_held, processes_with
from tests.support.repository import is_in_repository
from tests.support.terminal import Terminal

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
SEND = ("--via", "terminal", "--json")
LOOKALIKE = "✻ Booping… (esc to interrupt)\n────────────────────────\n❯ \n────────────────────────\n  esc to interrupt"


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def claude(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    """beam in a trusted place where the pinned `claude` was set up once, and talks to the scripted model only."""
    known = {"hasCompletedOnboarding": True, "theme": "dark"}
    (beam.base / "home" / ".claude.json").write_text(json.dumps(known))
    return beam.with_env({"PATH": agents_path, "BEAM_TRUST": "1", **model.env("claude")})


@pytest.fixture
def codex(beam: Cli, agents_path: str, model: FakeModel) -> Cli:
    """The same with the pinned `codex`."""
    env = model.env("codex", beam.base / "home")
    return beam.with_env({"PATH": agents_path, "BEAM_TRUST": "1", **env})


def test_claude_turns_in_a_row_keep_their_context_and_answer_verbatim(claude: Cli) -> None:
    first = claude("send", "claude", *SEND, "hello").json
    assert (first["status"], first["reply"], first["session"]) == ("completed", "ECHO[hello] turns=1", "new")
    assert "lossy" not in first and first["usage"]["output_tokens"] > 0
    for number in range(2, 5):
        prompt = f"turn {number}\n{LOOKALIKE}"
        done = claude("send", "claude", *SEND, prompt).json
        assert (done["status"], done["reply"]) == ("completed", f"ECHO[{prompt}] turns={number}")
        assert (done["session"], done["session_id"]) == ("resumed", first["session_id"])


@pytest.mark.soak
def test_claude_is_not_done_while_a_slow_answer_pauses(claude: Cli) -> None:
    done = claude("send", "claude", *SEND, "!slow 20 a slow one").json
    assert done["reply"] == "ECHO[ !slow 20 a slow one] turns=1"
    assert done["duration_s"] > 20


@pytest.mark.soak
def test_claude_gets_fifty_lines_verbatim_and_200_kb_as_a_paste_which_is_said(claude: Cli) -> None:
    lines = "\n".join(f"line {number} of fifty ─ ❯ 日本" for number in range(50))
    assert claude("send", "claude", *SEND, lines).json["reply"] == f"ECHO[{lines}] turns=1"
    assert "prompt_changed" not in [event.get("code") for event in claude.journal("claude")]
    long = "\n".join(f"{number} " + "word " * 20 for number in range(2000))
    done = claude("send", "claude", *SEND, "-", stdin=f"{long}\n!say taken", timeout=120).json
    assert (done["status"], done["reply"]) == ("completed", "taken")
    assert "prompt_changed" in [event.get("code") for event in claude.journal("claude")]


@pytest.mark.soak
def test_claudes_question_is_denied_where_nobody_decides(claude: Cli) -> None:
    claude.config("limits: {ask_timeout: 2s}\n")
    prompt = f"!tool Bash {json.dumps({'command': 'touch made', 'description': 'Make a file'})}"
    ended = claude("send", "claude", *SEND, "--access", "ask", prompt)
    assert (ended.code, ended.json["status"]) == (5, "denied")
    assert ended.json["denials"] and not (claude.project / "made").exists()
    assert {"permission.asked", "permission.decided"} <= set(claude.types("claude"))


@pytest.mark.soak
def test_claude_may_edit_where_it_was_allowed(claude: Cli) -> None:
    target = claude.project / "note.txt"
    prompt = f"!tool Write {json.dumps({'file_path': str(target), 'content': 'hi'})}"
    assert claude("send", "claude", *SEND, "--access", "edit", prompt).json["status"] == "completed"
    assert target.read_text() == "hi"


@pytest.mark.soak
def test_claude_never_takes_a_message_for_a_command(claude: Cli) -> None:
    done = claude("send", "claude", *SEND, "!touch made").json
    assert done["reply"] == "ECHO[ !touch made] turns=1" and not (claude.project / "made").exists()


@pytest.mark.soak
def test_a_slash_command_of_claudes_runs_on_its_screen(claude: Cli) -> None:
    done = claude("send", "claude", *SEND, "/context").json
    assert done["status"] == "completed" and done["lossy"] is True
    assert "context usage" in done["reply"].lower() and "System prompt" in done["reply"]


@pytest.mark.soak
def test_an_api_error_of_claudes_is_a_failure_and_its_class(claude: Cli) -> None:
    ended = claude("send", "claude", *SEND, "!error 400")
    assert (ended.code, ended.json["status"], ended.json["reply"]) == (1, "failed", None)


def test_claude_in_a_folder_that_nobody_trusted_is_not_typed_to(claude: Cli, model: FakeModel) -> None:
    ended = claude("send", "claude", *SEND, "hello", env={"BEAM_TRUST": ""})
    assert ended.code == 1 and "beam trust" in ended.json["reason"]
    assert not model.prompts()


@pytest.mark.soak
def test_a_turn_of_claudes_that_takes_too_long_is_interrupted_and_the_next_one_works(claude: Cli) -> None:
    assert claude("send", "claude", *SEND, "--timeout", "8", "!stall").code == 3
    assert claude("send", "claude", *SEND, "again").json["reply"].startswith("ECHO[again]")


def test_codex_tells_its_end_itself_and_leaves_no_server(codex: Cli, tmp_path: Path) -> None:
    done = codex("send", "codex", *SEND, "!slow 8 a slow one").json
    assert (done["status"], done["reply"]) == ("completed", "ECHO[!slow 8 a slow one] turns=1")
    assert "lossy" not in done and done["session_id"]
    ended = codex("send", "codex", *SEND, "!error 400")
    assert (ended.code, ended.json["status"]) == (1, "failed")
    assert processes_with(str(tmp_path)) == []


@pytest.mark.soak
def test_codex_answers_in_a_repository_that_only_a_person_told_beam_to_trust(codex: Cli, model: FakeModel) -> None:
    """Codex asks about each repository that its own configuration does not name, with a dialog of its own."""
    alone = codex.with_env({"BEAM_TRUST": ""})
    assert is_in_repository(alone.project)
    assert "trust_level" not in (alone.base / "home" / ".codex" / "config.toml").read_text()
    before = alone("send", "codex", *SEND, "hello")
    assert before.code == 1 and "beam trust" in before.json["reason"] and not model.prompts()
    assert alone("trust", "--yes").code == 0
    done = alone("send", "codex", *SEND, "hello").json
    assert (done["status"], done["reply"]) == ("completed", "ECHO[hello] turns=1")


@pytest.fixture
def kept(claude: Cli) -> Iterator[Cli]:
    """`claude` in a broker, which has it already."""
    assert claude("queue", "pause", "claude").code == claude("queue", "resume", "claude").code == 0
    assert claude("broker", "start").code == 0
    eventually(lambda: is_held(claude, "claude"))
    yield claude
    claude("broker", "stop", "--grace", "0s")


@pytest.mark.soak
def test_a_kept_claude_goes_on_in_its_process_and_no_other_root_drives_its_session(claude: Cli) -> None:
    first = claude("send", "claude", *SEND, "hello").json
    shutil.copytree(claude.root / "agents", claude.project / "other" / "agents")
    assert claude("broker", "start").code == 0
    eventually(lambda: is_held(claude, "claude"))
    for number in (2, 3):
        again = claude("send", "claude", *SEND, f"turn {number}").json
        assert (again["reply"], again["session_id"]) == (f"ECHO[turn {number}] turns={number}", first["session_id"])
    started = [event for event in claude.journal("claude") if event["type"] == "agent.started"]
    assert [event["since"] for event in started] == [None, None, 2] and started[1]["pid"] == started[2]["pid"]
    refused = claude("--root", "other", "send", "claude", *SEND, "mine")
    assert refused.code == 7 and "another root" in refused.json["reason"]
    assert claude("broker", "stop").code == 0
    assert claude("--root", "other", "send", "claude", *SEND, "mine").json["reply"] == "ECHO[mine] turns=4"


@pytest.mark.soak
def test_a_person_attached_to_claude_sees_it_work_and_leaves_it_working(kept: Cli) -> None:
    kept("send", "claude", *SEND, "hello")
    mine = Terminal(kept, "attach", "claude", columns=140)
    mine.until("detaches")
    sending = kept.start("send", "claude", *SEND, "!slow 6 a slow one")
    mine.until("a slow one", timeout=60)
    mine.type("\x1c\x1c")
    mine.until("detached; claude continues")
    assert mine.end() == 0
    out, _ = sending.communicate(timeout=90)
    assert json.loads(out)["reply"] == "ECHO[ !slow 6 a slow one] turns=2"
