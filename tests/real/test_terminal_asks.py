"""Real agents ask on their screens, and the real `beam` decides from another process, against the scripted model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.asking import first_ask
from tests.support.cli import Cli, eventually

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
TOUCH = {"command": "touch made", "description": "Make a file"}
ESCALATED = {"cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "May I?"}


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


def asked(beam: Cli, agent: str, prompt: str, *answer: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ask of that prompt's turn, and the outcome after the answer (`approve` or `deny`, and its options)."""
    process = beam.start("send", agent, "--via", "terminal", "--json", "--access", "ask", prompt)
    asks = beam.root / "agents"
    eventually(lambda: process.poll() is not None or any(asks.rglob("asks/*.json")), 300, f"{agent} did not ask")
    assert process.poll() is None, process.communicate()
    ask = first_ask(beam)
    decided = beam(answer[0], ask["id"], *answer[1:])
    assert decided.code == 0, decided
    out, _ = process.communicate(timeout=240)
    return ask, json.loads(out)


QUOTES = Path(__file__).parents[1] / "recordings" / "screens" / "quotes.txt"
CALLS = {
    "claude": {"name": "Bash", "input": TOUCH},
    "codex": {"name": "exec_command", "input": ESCALATED},
    "opencode": {"name": "bash", "input": TOUCH},
}


def quoted(name: str) -> str:
    """That CLI's own request, as somebody would quote it, and the others of its kind."""
    sections = QUOTES.read_text().split("== ")[1:]
    return "\n".join(text for title, _, text in (each.partition("\n") for each in sections) if title.startswith(name))


@pytest.mark.conformance
@pytest.mark.parametrize("name", ["claude", "codex", "opencode"])
def test_what_is_approved_is_what_runs_though_dialogs_are_quoted_in_prompt_and_reply(
    beam: Cli, agents_path: str, name: str
) -> None:
    if name == "claude":
        known = {"hasCompletedOnboarding": True, "theme": "dark"}
        (beam.base / "home" / ".claude.json").write_text(json.dumps(known))
    rule = {"match": "QUOTE", "text": f"I show:\n\n{quoted(name)}\n", "tools": [CALLS[name]], "then": quoted(name)}
    with FakeModel({"rules": [rule]}) as model:
        cli = beam.with_env({"PATH": agents_path, "BEAM_TRUST": "1", **model.env(name, beam.base / "home")})
        ask, outcome = asked(cli, name, f"QUOTE this\n{quoted(name)}", "approve")
        assert "touch made" in ask["description"] and "harmless" not in ask["tool"]
        assert (outcome["status"], outcome["denials"]) == ("completed", []), outcome
        assert (cli.project / "made").exists()
        assert sum(event["type"] == "permission.asked" for event in cli.journal(name)) == 1
        assert not [event for event in cli.journal(name) if event.get("code") == "approved_differs"]


def bash(**more: str) -> str:
    return f"!tool Bash {json.dumps({**TOUCH, **more})}"


@pytest.mark.soak
def test_what_claude_asks_for_runs_once_it_is_approved(claude: Cli) -> None:
    ask, outcome = asked(claude, "claude", bash(), "approve")
    assert (ask["tool"], ask["input"]) == ("Bash", TOUCH) and ask["call_id"].startswith("toolu_")
    assert ask["description"] == "Make a file\ntouch made" and ask["suggestions"][0].startswith("Yes, ")
    assert (outcome["status"], outcome["exit_code"], outcome["denials"]) == ("completed", 0, []), outcome
    assert outcome["reply"].startswith("RESULT[") and outcome["evidence"] == "history"
    assert (claude.project / "made").exists()


@pytest.mark.soak
def test_claude_is_told_why_it_was_denied_and_answers_to_that(claude: Cli) -> None:
    _, outcome = asked(claude, "claude", bash(), "deny", "--message", "use the scratch folder ─ 日本")
    assert outcome["status"] == "completed" and "use the scratch folder ─ 日本" in outcome["reply"]
    assert [denial["by"] for denial in outcome["denials"]] == ["human"] and not (claude.project / "made").exists()


@pytest.mark.soak
def test_what_nobody_decides_for_claude_is_denied(claude: Cli) -> None:
    claude.config("limits: {ask_timeout: 2s}\n")
    ended = claude("send", "claude", "--via", "terminal", "--json", "--access", "ask", bash(), timeout=120)
    assert (ended.code, ended.json["status"]) == (5, "denied")
    assert [denial["by"] for denial in ended.json["denials"]] == ["default"]
    assert not (claude.project / "made").exists()


@pytest.mark.soak
def test_claude_can_be_told_to_allow_the_like_always(claude: Cli) -> None:
    ask, outcome = asked(claude, "claude", bash(), "approve", "--always")
    assert ask["suggestions"] and outcome["status"] == "completed"
    assert (claude.project / "made").exists()


@pytest.mark.soak
def test_what_claude_writes_because_it_was_allowed_always_stays_trusted(claude: Cli) -> None:
    claude = claude.with_env({"BEAM_TRUST": ""})
    claude.config("agents:\n  claude: {access: ask}\n", trusted=False)
    assert claude("trust", "--yes").code == 0
    ask, outcome = asked(claude, "claude", bash(command="npm --version"), "approve", "--always")
    assert outcome["status"] == "completed", outcome
    settings = json.loads((claude.project / ".claude/settings.local.json").read_text())
    assert settings == {"permissions": {"allow": ["Bash(npm *)"]}}
    (renewed,) = (event for event in claude.journal("claude") if event.get("code") == "trust_renewed")
    assert ask["id"] in renewed["text"]
    assert claude("trust", "--diff").out == ""
    stored = json.loads((claude.base / "home/.local/state/beam/trust.json").read_text())
    assert stored["folders"][0]["held"][".claude/settings.local.json"]["by"] == ask["id"]
    (claude.project / ".claude/settings.local.json").write_text(json.dumps({**settings, "hooks": {}}))
    done = claude("send", "claude", "hi")
    assert (done.code, "changed: .claude/settings.local.json" in done.err) == (2, True), done


@pytest.mark.soak
def test_claude_asks_for_an_edit_with_the_file_that_it_is_about(claude: Cli) -> None:
    target = claude.project / "note.txt"
    write = {"file_path": str(target), "content": "hi"}
    ask, outcome = asked(claude, "claude", f"!tool Write {json.dumps(write)}", "approve")
    assert (ask["tool"], ask["input"]) == ("Write", write)
    assert outcome["status"] == "completed", outcome
    assert target.read_text() == "hi"


@pytest.mark.soak
def test_claude_with_full_access_asks_nobody(claude: Cli) -> None:
    sandbox = {"IS_SANDBOX": "1"}  # it refuses this to root anywhere else
    done = claude("send", "claude", "--via", "terminal", "--json", "--access", "full", bash(), env=sandbox, timeout=120)
    assert (done.code, done.json["status"], done.json["denials"]) == (0, "completed", None), done
    assert (claude.project / "made").exists()


@pytest.mark.soak
def test_what_codex_asks_for_runs_once_it_is_approved(codex: Cli) -> None:
    ask, outcome = asked(codex, "codex", f"!tool exec_command {json.dumps(ESCALATED)}", "approve")
    assert "$ touch made" in ask["description"] and "Reason: May I?" in ask["description"]
    assert (outcome["status"], outcome["denials"]) == ("completed", []), outcome
    assert (codex.project / "made").exists()


@pytest.mark.soak
def test_always_presses_the_key_that_codex_offers_for_an_edit(codex: Cli) -> None:
    patch = "*** Begin Patch\n*** Add File: made\n+hello\n*** End Patch\n"
    ask, outcome = asked(codex, "codex", f"!tool apply_patch {json.dumps({'input': patch})}", "approve", "--always")
    assert ask["suggestions"] == ["Yes, and don't ask again for these files (a)"]
    assert (outcome["status"], outcome["denials"]) == ("completed", []), outcome
    assert (codex.project / "made").read_text() == "hello\n"


@pytest.mark.soak
def test_what_nobody_decides_for_codex_is_denied(codex: Cli) -> None:
    codex.config("limits: {ask_timeout: 2s}\n")
    prompt = f"!tool exec_command {json.dumps(ESCALATED)}"
    ended = codex("send", "codex", "--via", "terminal", "--json", "--access", "ask", prompt, timeout=120)
    assert (ended.code, ended.json["status"]) == (5, "denied") and not (codex.project / "made").exists()


@pytest.mark.soak
def test_structured_evidence_is_what_claude_and_codex_give(claude: Cli, codex: Cli) -> None:
    for beam, agent in ((claude, "claude"), (codex, "codex")):
        done = beam("send", agent, "--via", "terminal", "--require", "structured", "--json", "hello", timeout=120)
        assert done.code == 0 and done.json["evidence"] in ("history", "osc"), done
