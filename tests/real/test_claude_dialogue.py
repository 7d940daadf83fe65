"""The real Claude Code over its own protocol, through the real `beam`, against the scripted model.

What every CLI must do is in the cells of `tests/conformance/dialogue.py`. What only Claude Code could get wrong is
tried by `make test`; the rest by `make soak`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.agents.base import Host, Turn, Verdict
from beam.agents.claude import dialogue
from beam.agents.link import AnsweredIntent, Query, Set, Steer
from beam.model.events import TextDelta, ToolCalled
from beam.testing.fake_model import FakeModel
from beam.turns.asks import CallAnswer
from beam.turns.choice import REASON_KEPT, REASON_NOT_KEPT
from beam.turns.dialogue import run_turn
from tests.support.asking import first_ask
from tests.support.cli import Cli, Ended, eventually, processes_with
from tests.support.repository import files
from tests.support.turns import Recorded, handle, services, turn_input

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
SANDBOX = {"IS_SANDBOX": "1"}  # else full access is refused to root
PNG = (
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301"
    "0100c9fe92ef0000000049454e44ae426082"
)


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def claude(beam: Cli, agents_path: str, model: FakeModel) -> Iterator[Cli]:
    """beam in a place where `claude` is the pinned one and talks to the scripted model only."""
    yield beam.with_env({"PATH": agents_path, **model.env("claude"), **SANDBOX})
    beam("broker", "stop", "--grace", "0s")


def send(cli: Cli, text: str, *words: str, access: str = "read", **more: Any) -> Ended:
    return cli("send", "claude", "--via", "dialogue", "--access", access, "--json", *words, text, timeout=120, **more)


def bash(command: str, **more: object) -> str:
    return f"!tool Bash {json.dumps({'command': command, 'description': 'Look around', **more})}"


def write(path: Path) -> str:
    return f"!tool Write {json.dumps({'file_path': str(path), 'content': 'x'})}"


def delegate(prompt: str) -> str:
    return f"!tool Agent {json.dumps({'description': 'd', 'subagent_type': 'general-purpose', 'prompt': prompt})}"


def events(cli: Cli, kind: str) -> list[dict[str, Any]]:
    return [event for event in cli.journal("claude") if event["type"] == kind]


def sent(model: FakeModel) -> list[Any]:
    """The bodies of what the model was asked to answer."""
    return [request.body for request in model.requests if request.asked is not None]


def asked(cli: Cli, prompt: str, *answer: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ask of that prompt's turn, and the outcome after the answer (`approve` or `deny`, and its options)."""
    running = cli.start("send", "claude", "--via", "dialogue", "--json", "--access", "ask", prompt)
    ask = first_ask(cli)
    decided = cli(answer[0], ask["id"], *answer[1:])
    assert decided.code == 0, decided
    out, _ = running.communicate(timeout=120)
    return ask, json.loads(out)


@pytest.mark.soak
def test_a_first_turn_prints_only_the_answer_and_streams_it(claude: Cli) -> None:
    done = claude("send", "claude", "--via", "dialogue", "hello")
    assert (done.code, done.out, done.err) == (0, "ECHO[hello] turns=1\n", "")
    assert events(claude, "unknown") == [] and events(claude, "notice") == []
    assert events(claude, "text.delta")
    (exited,) = events(claude, "agent.exited")
    assert (exited["code"], exited["stopped_by"], exited["swept"]) == (0, "quit", 0)


@pytest.mark.soak
@pytest.mark.parametrize("via", ["exec", "dialogue"])
def test_what_a_subagent_did_and_said_is_printed(claude: Cli, via: str) -> None:
    done = claude("send", "claude", "--via", via, "--access", "full", delegate(bash("echo from below")))
    assert done.code == 0, done
    below = claude("log", "claude", "--subagent", "all", "--json").lines
    first = below[0]
    assert (first["type"], first["name"]) == ("tool.called", "Agent")
    inner = [event for event in below if event["parent"] == first["call_id"]]
    assert [event["type"] for event in below if event not in inner and event["type"] != "tool.progress"] == [
        "tool.called",
        "tool.returned",
    ]
    assert "from below" in json.dumps([event for event in inner if event["type"] == "tool.returned"])
    assert any(event["type"] == "text" for event in inner)
    shown = claude("log", "claude", "--subagent", first["call_id"][:-2])
    assert "✓ Bash echo from below" in shown.out and "│ RESULT" in shown.out


@pytest.mark.soak
def test_a_session_goes_on_between_both_faces_and_each_turn_counts_its_own_tokens(claude: Cli) -> None:
    first = send(claude, "plums !usage 100 7").json
    second = claude("send", "claude", "--via", "exec", "--json", "what? !usage 100 7").json
    third = send(claude, "and? !usage 100 7").json
    assert [outcome["session"] for outcome in (first, second, third)] == ["new", "resumed", "resumed"]
    assert len({outcome["session_id"] for outcome in (first, second, third)}) == 1
    assert third["reply"].endswith("turns=3")
    for outcome in (first, second, third):
        assert (outcome["usage"]["input_tokens"], outcome["usage"]["output_tokens"]) == (100, 7)
    assert first["cost_usd"] == second["cost_usd"] == third["cost_usd"] > 0


@pytest.mark.soak
def test_warm_the_second_turn_has_the_context_in_the_same_process(claude: Cli) -> None:
    assert claude("broker", "start").code == 0
    outcomes = [send(claude, f"{word} !usage 100 7").json for word in ("plums", "what?", "and?")]
    assert [outcome["reply"][-7:] for outcome in outcomes] == ["turns=1", "turns=2", "turns=3"]
    assert [outcome["usage"]["input_tokens"] for outcome in outcomes] == [100, 100, 100]
    assert len({outcome["cost_usd"] for outcome in outcomes}) == 1
    assert [outcome["session"] for outcome in outcomes] == ["new", "resumed", "resumed"]
    assert [event["since"] for event in events(claude, "agent.started")] == [None, 1, 1]


@pytest.mark.soak
def test_without_a_mode_named_it_is_warm_where_its_process_stays_and_headless_where_it_does_not(claude: Cli) -> None:
    words = ("send", "claude", "--access", "read", "--json")
    alone = claude(*words, "plums", timeout=120).json
    kept = claude(*words, "--keep", "5m", "what?", timeout=120).json
    warm = claude(*words, "and?", timeout=120).json
    assert [outcome["via"] for outcome in (alone, kept, warm)] == ["exec", "dialogue", "dialogue"]
    assert [outcome["reply"][-7:] for outcome in (alone, kept, warm)] == ["turns=1", "turns=2", "turns=3"]
    assert [event["since"] for event in events(claude, "agent.started")] == [None, None, 2]
    assert [event["why"] for event in events(claude, "turn.started")] == [REASON_NOT_KEPT, REASON_KEPT, REASON_KEPT]
    assert claude("agent", "release", "claude").code == 0


@pytest.mark.soak
def test_kept_without_a_broker_it_is_warm_controlled_from_any_shell_and_released(claude: Cli, model: FakeModel) -> None:
    first = send(claude, "plums", "--keep", "5m").json
    assert claude("agent", "set", "claude", "model=claude-haiku-4-5").code == 0
    told = claude("agent", "show", "claude", "--live", "--json").json
    assert told["models"] and told["context"]["used"] is not None
    second = send(claude, "what?").json
    assert (first["reply"][-7:], second["reply"][-7:]) == ("turns=1", "turns=2")
    assert sent(model)[-1]["model"] == "claude-haiku-4-5"
    assert [event["since"] for event in events(claude, "agent.started")] == [None, 1]
    released = claude("agent", "release", "claude")
    assert released.code == 0 and f"closed process {events(claude, 'agent.started')[0]['pid']}" in released.err
    eventually(lambda: not processes_with(str(claude.base)), what="a process is left")


# -- what it may do ----------------------------------------------------------------------------------------------------


def test_access_read_changes_nothing_against_the_persons_own_settings(claude: Cli) -> None:
    allowed = {"permissions": {"allow": ["Bash", "Write", "Edit"], "defaultMode": "bypassPermissions"}}
    settings = claude.base / "home" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(allowed))
    done = send(claude, f"{write(claude.project / 'made')} {bash('touch made2')}")
    assert (done.code, done.json["status"]) == (5, "denied"), done
    assert [denial["tool"] for denial in done.json["denials"]] == ["Write", "Bash"]
    assert files(claude.project) == [] and events(claude, "permission.asked") == []


@pytest.mark.soak
def test_access_edit_changes_files_of_the_folder_and_what_it_would_ask_for_is_denied(claude: Cli) -> None:
    made, outside = claude.project / "made", claude.base / "home" / "outside"
    done = send(claude, f"{write(made)} !then {write(outside)}", access="edit")
    assert (done.code, done.json["status"]) == (5, "denied"), done
    assert [(denial["tool"], denial["by"]) for denial in done.json["denials"]] == [("Write", "default")]
    assert made.read_text() == "x" and not outside.exists()


@pytest.mark.soak
def test_access_full_changes_files_anywhere_and_the_next_turn_that_reads_none(claude: Cli) -> None:
    outside = claude.base / "home" / "outside"
    assert send(claude, bash(f"touch {outside}"), access="full").code == 0
    assert outside.exists()
    done = send(claude, bash(f"touch {outside}2"))
    assert (done.json["session"], done.json["status"]) == ("resumed", "denied")
    assert not Path(f"{outside}2").exists()


@pytest.mark.soak
def test_at_edit_it_sends_from_its_outbox_in_each_turn_of_a_kept_process(claude: Cli, model: FakeModel) -> None:
    claude.config("agents:\n  box: {adapter: mailbox}\n  claude: {envelope: full}\n")
    assert claude("broker", "start").code == 0
    prompt = "hello"
    for number in (1, 2, 3):
        assert send(claude, prompt, access="edit").code == 0
        told = re.findall(r"as (/[^ ]+)/ANY-NAME.json", json.dumps(sent(model)[-1]))
        assert len(set(told)) == 1
        message = json.dumps({"to": "box", "text": f"hello{number}"})
        given = {"file_path": f"{told[0]}/{number}.json", "content": message}
        prompt = f"!tool Write {json.dumps(given)}"
    assert [event["since"] for event in events(claude, "agent.started")] == [None, 1, 1]
    waiting = "".join(file.read_text() for file in (claude.root / "agents" / "box").rglob("*.json"))
    assert [f'"hello{number}"' in waiting for number in (1, 2)] == [True, True]


@pytest.mark.soak
@pytest.mark.parametrize("access", ["read", "edit", "full"])
def test_its_model_has_the_same_tools_as_headless(claude: Cli, model: FakeModel, access: str) -> None:
    send(claude, "hello", access=access)
    claude("send", "claude", "--via", "exec", "--once", "--access", access, "hello")
    first, second = ({tool["name"] for tool in body["tools"]} for body in sent(model) if body.get("tools"))
    assert first == second


# -- rules -------------------------------------------------------------------------------------------------------------


def decisions(cli: Cli) -> list[tuple[str, str, str]]:
    return [(event["decision"], event["by"], event["rule"]) for event in events(cli, "permission.decided")]


def test_a_rule_lets_one_command_through_at_read_and_nothing_that_only_begins_like_it(claude: Cli) -> None:
    settings = claude.base / "home" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash", "Write", "Edit"]}}))
    calls = (bash("git init -q made"), bash("git --version > made2"), bash("git --version; touch made3"))
    prompt = " !then ".join((*calls, write(claude.project / "made4"), bash("git init -q made/denied")))
    done = send(claude, prompt, "--allow", "Bash(git *)", "--deny", "Bash(git init -q made/denied)")
    assert (done.code, done.json["status"]) == (5, "denied"), done
    assert sorted(path.name for path in claude.project.iterdir() if path.name.startswith("made")) == ["made"]
    assert not (claude.project / "made" / "denied").exists()
    assert decisions(claude) == [("allow", "rule", "Bash(git *)"), *[("deny", "default", "")] * 3]


@pytest.mark.soak
def test_a_rule_that_asks_waits_for_a_person_also_at_edit(claude: Cli) -> None:
    running = claude.start(
        *("send", "claude", "--via", "dialogue", "--json", "--access", "edit", "--ask", "Edit(made)"),
        f"{write(claude.project / 'other')} !then {write(claude.project / 'made')}",
    )
    ask = first_ask(claude)
    assert (ask["description"], files(claude.project)) == (str(claude.project / "made"), ["other"])
    assert claude("approve", ask["id"]).code == 0
    assert json.loads(running.communicate(timeout=120)[0])["status"] == "completed"
    assert files(claude.project) == ["made", "other"]


@pytest.mark.soak
@pytest.mark.parametrize("via", ["exec", "dialogue"])
def test_what_a_rule_denies_is_denied_with_full_access_too(claude: Cli, via: str) -> None:
    prompt = f"{bash('ls; touch made')} !then {write(claude.project / 'made2')} !then {bash('touch made3')}"
    words = ("--access", "full", "--deny", "Bash(touch *)", "--deny", "Edit(made2)", "--ask", "Bash(ls *)", "--json")
    done = claude("send", "claude", "--via", via, *words, prompt, timeout=120)
    assert files(claude.project) == [] and done.code == 0, done
    assert {denial["by"] for denial in done.json["denials"]} == {"rule"}


@pytest.mark.soak
def test_headless_an_allowed_command_runs_and_none_that_only_begins_like_it(claude: Cli) -> None:
    home = claude.base / "home"
    calls = (
        bash("git init -q made"),
        bash(f"git --version > {home}/made2"),
        bash(f"git --version; touch {home}/made3"),
    )
    calls = (*calls, bash(f"git --version $(touch {home}/made4)"), bash(f"X=1 git --version && touch {home}/made5"))
    words = ("--access", "edit", "--allow", "Bash(git *)", "--json")
    done = claude("send", "claude", "--via", "exec", *words, " !then ".join(calls), timeout=120)
    assert (claude.project / "made").is_dir() and done.code == 5, done
    assert [path.name for path in home.iterdir() if path.name.startswith("made")] == []


# -- asks --------------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_command_is_asked_for_word_by_word_and_runs_once_it_is_approved(claude: Cli) -> None:
    ask, outcome = asked(claude, bash("touch made"), "approve")
    assert (ask["tool"], ask["input"]) == ("Bash", {"command": "touch made", "description": "Look around"})
    assert ask["description"].splitlines()[0] == "touch made"
    assert ask["call_id"] == events(claude, "tool.called")[-1]["call_id"]
    assert (outcome["status"], outcome["exit_code"], outcome["denials"]) == ("completed", 0, []), outcome
    assert files(claude.project) == ["made"]


@pytest.mark.soak
def test_what_runs_is_the_changed_input_that_was_approved(claude: Cli) -> None:
    changed = {"command": "touch other", "description": "Look around"}
    ask, outcome = asked(claude, bash("touch made"), "approve", "--input", json.dumps(changed))
    assert (outcome["status"], files(claude.project)) == ("completed", ["other"])
    (decided,) = events(claude, "permission.decided")
    assert (decided["decision"], decided["by"], decided["input"]) == ("allow", "human", changed)
    again = claude("approve", ask["id"])
    assert again.code == 4 and "it was decided or cancelled" in again.err, again


@pytest.mark.soak
def test_an_answer_of_the_wrong_shape_runs_nothing(claude: Cli) -> None:
    running = claude.start("send", "claude", "--via", "dialogue", "--json", "--access", "ask", bash("touch made"))
    ask = first_ask(claude)
    for given in ("{", "/nowhere/at/all"):
        assert claude("approve", ask["id"], "--input", given).code in (2, 4)
    assert claude("approve", ask["id"], "--input", "-", stdin="[1]").code == 2
    assert claude("asks", "--json").lines[0]["id"] == ask["id"]
    assert claude("approve", ask["id"], "--input", '{"cmd": 1}').code == 0
    assert json.loads(running.communicate(timeout=120)[0])["status"] == "completed"
    assert files(claude.project) == []


@pytest.mark.soak
def test_a_rule_that_is_added_with_an_approval_decides_from_the_next_turn_on(claude: Cli) -> None:
    ask, outcome = asked(claude, bash("touch made"), "approve", "--rule", "Bash(touch *)")
    assert (outcome["status"], ask["tool"]) == ("completed", "Bash")
    assert claude("rules", "list", "claude", "--json").lines[0]["rule"] == "Bash(touch *)"
    assert send(claude, bash("touch made2"), access="ask").json["status"] == "completed"
    assert files(claude.project) == ["made", "made2"]
    assert decisions(claude) == [("allow", "human", ""), ("allow", "rule", "Bash(touch *)")]


@pytest.mark.soak
def test_a_change_of_files_is_asked_for_by_its_path(claude: Cli) -> None:
    ask, outcome = asked(claude, write(claude.project / "made"), "approve")
    assert (ask["tool"], ask["description"]) == ("Write", str(claude.project / "made"))
    assert (outcome["status"], (claude.project / "made").read_text()) == ("completed", "x")


@pytest.mark.soak
def test_what_is_denied_does_not_run_and_the_turn_goes_on_with_the_reason(claude: Cli) -> None:
    ask, outcome = asked(claude, bash("touch made"), "deny", "--message", "use a pen")
    assert (outcome["status"], outcome["exit_code"]) == ("completed", 0), outcome
    assert [(denial["by"], denial["call_id"]) for denial in outcome["denials"]] == [("human", ask["call_id"])]
    assert "use a pen" in outcome["reply"] and files(claude.project) == []


@pytest.mark.soak
def test_what_agents_of_its_own_ask_for_at_once_is_decided_one_by_one(claude: Cli) -> None:
    prompt = f"{delegate(bash('touch made1'))} {delegate(bash('touch made2'))} !then !say later"
    running = claude.start("send", "claude", "--via", "dialogue", "--json", "--access", "ask", prompt)
    eventually(lambda: len(events(claude, "permission.asked")) == 2, 60)
    ids = {event["input"]["command"]: event["ask_id"] for event in events(claude, "permission.asked")}
    assert claude("deny", ids["touch made1"]).code == 0
    assert claude("approve", ids["touch made2"]).code == 0
    out, _ = running.communicate(timeout=120)
    outcome = json.loads(out)
    assert outcome["status"] == "completed" and outcome["reply"] != "later", outcome
    assert [denial["by"] for denial in outcome["denials"]] == ["human"]
    assert files(claude.project) == ["made2"]


@pytest.mark.soak
def test_what_is_allowed_always_is_not_asked_again_and_is_written_nowhere(claude: Cli) -> None:
    _, outcome = asked(claude, f"{bash('touch made')} !then {bash('touch made')}", "approve", "--always")
    assert outcome["status"] == "completed", outcome
    assert len(events(claude, "permission.asked")) == 1 and len(events(claude, "tool.returned")) == 2
    assert files(claude.project) == ["made"]
    assert "touch" not in "".join(file.read_text() for file in (claude.base / "home" / ".claude").glob("*.json"))


# -- its end -----------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_one_that_is_killed_in_its_turn_leaves_nothing_and_its_session_goes_on(claude: Cli) -> None:
    prompt = f"!say begun !then {bash('touch made; tail -f /dev/null')}"
    send(claude, "hello")
    running = claude.start(
        "send", "claude", "--via", "dialogue", "--json", "--access", "full", prompt.partition("!then ")[2]
    )
    eventually(lambda: files(claude.project) == ["made"])
    key = events(claude, "turn.started")[-1]["turn_key"]
    os.kill(int(events(claude, "agent.started")[-1]["pid"]), 9)
    out, _ = running.communicate(timeout=60)
    outcome = json.loads(out)
    assert (running.returncode, outcome["status"], outcome["class"]) == (1, "failed", "crashed")
    assert processes_with(key) == []
    assert send(claude, "go on").json["session"] == "resumed"


@pytest.mark.soak
def test_a_session_that_is_gone_is_said_and_the_turn_begins_once_afresh(claude: Cli) -> None:
    first = send(claude, "remember plums").json
    shutil.rmtree(claude.base / "home" / ".claude" / "projects")
    second = send(claude, "what? !usage 100 7").json
    assert (second["session"], second["reply"]) == ("lost", "ECHO[what? !usage 100 7] turns=1")
    assert second["usage"]["input_tokens"] == 100
    assert [event["session_id"] for event in events(claude, "session.lost")] == [first["session_id"]]


@pytest.mark.soak
def test_the_answer_is_what_it_says_once_an_agent_of_its_own_in_the_background_is_done(claude: Cli) -> None:
    outcome = send(claude, f"{delegate('!slow 2')} !then !say later").json
    assert outcome["status"] == "completed" and outcome["unfinished"] == [], outcome
    assert outcome["reply"] != "later"
    assert len(events(claude, "prompt.sent")) == 1


@pytest.mark.soak
def test_an_interrupt_ends_an_agent_of_its_own_in_the_background(claude: Cli) -> None:
    running = claude.start("send", "claude", "--via", "dialogue", "--json", f"{delegate('!stall 60')} !then !say later")
    eventually(lambda: any(event["text"] == "later" for event in events(claude, "text")))
    assert claude("interrupt", "claude").code == 0
    out, _ = running.communicate(timeout=60)
    assert json.loads(out)["status"] == "cancelled", out


@pytest.mark.soak
def test_a_command_that_is_left_running_is_said(claude: Cli) -> None:
    prompt = f"{bash('tail -f /dev/null', run_in_background=True)} !then !say later"
    outcome = send(claude, prompt, access="full").json
    assert (outcome["status"], outcome["reply"]) == ("completed", "later"), outcome
    assert [(work["tool"], work["how"]) for work in outcome["unfinished"]] == [("Bash", "running")]


# -- control -----------------------------------------------------------------------------------------------------------


def controlled(
    cli: Cli, text: str, *calls: AnsweredIntent, once: type = ToolCalled
) -> tuple[list[CallAnswer], Verdict]:
    """A turn in which these calls are made while its command runs; their answers and its verdict."""
    journal, answers = Recorded(), list[CallAnswer]()
    held = handle(journal)
    scratch = cli.base / "scratch"
    turn = Turn(text=text, message_id="x-1", agent="x", cwd=str(cli.project), scratch=str(scratch), access="full")
    host = Host(executable=shutil.which("claude", path=cli.env["PATH"]) or "")

    async def play() -> Verdict:
        input = turn_input(turn, environ=cli.env, host=host)
        running = asyncio.create_task(run_turn(dialogue, input, services(journal), held))
        async with asyncio.timeout(60):
            while not journal.of(once):
                assert not running.done(), running.result()
                await asyncio.sleep(0.02)
        for call in calls:
            held.calls.add(call, answers.append)
        return await running

    return answers, asyncio.run(play())


@pytest.mark.soak
def test_a_text_for_the_turn_that_runs_is_read_in_it(claude: Cli, model: FakeModel) -> None:
    answers, verdict = controlled(claude, bash("sleep 2"), Steer(id="s-1", text="go left"))
    assert [answer.ok for answer in answers] == [True]
    assert verdict.status == "completed"
    assert "go left" in json.dumps(sent(model)[-1])


@pytest.mark.soak
def test_a_text_for_an_answer_that_streams_is_answered_in_the_same_turn(claude: Cli) -> None:
    answers, verdict = controlled(claude, "!slow 3", Steer(id="s-1", text="go left"), once=TextDelta)
    assert [answer.ok for answer in answers] == [True]
    assert (verdict.status, verdict.reply) == ("completed", "ECHO[go left] turns=2")


@pytest.mark.soak
def test_what_a_live_process_tells_and_can_and_can_not_change(claude: Cli, model: FakeModel) -> None:
    names = ("models", "commands", "account", "context", "mcp")
    calls = (
        *(Query(id=name, name=name) for name in names),
        Set(id="m", name="model", value="claude-haiku-4-5"),
        Set(id="a", name="access", value="read"),
    )
    answers, verdict = controlled(claude, bash("sleep 2"), *calls)
    assert sorted(answer.code for answer in answers) == ["", "", "", "", "", "", "unsupported"]
    assert verdict.status == "completed"
    assert sent(model)[-1]["model"] == "claude-haiku-4-5"


# -- what it is given --------------------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("via", ["exec", "dialogue"])
def test_an_image_that_it_reads_is_a_file_of_its_turn(claude: Cli, via: str) -> None:
    picture = claude.project / "dot.png"
    picture.write_bytes(bytes.fromhex(PNG))
    asked = f"!tool Read {json.dumps({'file_path': str(picture)})}"
    outcome = claude("send", "claude", "--via", via, "--access", "read", "--json", asked, timeout=120).json
    (path,) = outcome["images"]
    assert Path(path).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert f" {path}\n" in claude("log", "claude").out
    (image,) = events(claude, "image")
    assert image["media_type"] == "image/png" and image["call_id"]


@pytest.mark.soak
def test_the_model_and_a_system_text_reach_the_model(claude: Cli, model: FakeModel) -> None:
    claude.config("agents:\n  claude: {system: Speak like a pirate}\n")
    done = send(claude, "hello", "--model", "claude-haiku-4-5")
    assert done.json["model"].startswith("claude-haiku-4-5"), done
    assert "Speak like a pirate" in json.dumps(sent(model)[-1]["system"])


@pytest.mark.soak
def test_a_slash_at_the_beginning_is_no_command(claude: Cli) -> None:
    assert send(claude, "/clear").json["reply"] == "ECHO[ /clear] turns=1"


@pytest.mark.soak
def test_a_schema_and_limits_are_those_of_their_turn(claude: Cli) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    (claude.project / "schema.json").write_text(json.dumps(schema))
    assert claude("broker", "start").code == 0
    done = send(claude, '!tool StructuredOutput {"a": "b"}', "--schema", "schema.json")
    assert (done.code, done.json["structured"]) == (0, {"a": "b"}), done
    for number in range(2):
        done = send(claude, f"hello {number}")
        assert (done.code, done.json["session"]) == (0, "resumed") and "structured" not in done.json, done
    assert send(claude, "hello", "--budget", "0.0001").json["status"] == "limit"
    assert send(claude, "hello").code == 0
    looks = " !then ".join([f"!tool Read {json.dumps({'file_path': str(claude.project / 'schema.json')})}"] * 3)
    assert send(claude, looks, "--max-turns", "2").json["status"] == "limit"
    assert send(claude, "hello").code == 0
    assert [event["since"] for event in events(claude, "agent.started")] == [None, None, 2, None, None, None, None]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("prompt", "code", "status", "class_"),
    [
        ("!max_tokens", 11, "truncated", None),
        ("!refuse", 6, "refused", None),
        ("!error 400", 1, "failed", "bad_request"),
        ("!error 401", 1, "failed", "auth"),
    ],
)
def test_each_way_to_fail_has_its_own_status(
    claude: Cli, prompt: str, code: int, status: str, class_: str | None
) -> None:
    done = send(claude, prompt, env={"BEAM_RETRIES": "0"})
    assert (done.code, done.json["status"], done.json["class"]) == (code, status, class_), done


@pytest.mark.soak
def test_full_access_of_root_is_refused_as_headless(claude: Cli) -> None:
    done = send(claude, "hello", access="full", env={"IS_SANDBOX": ""})
    assert (done.code, done.json["class"]) == (1, "bad_request") and "IS_SANDBOX" in done.json["reason"], done


@pytest.mark.soak
def test_outside_of_a_repository_it_answers_and_changes_nothing(claude: Cli) -> None:
    shutil.rmtree(claude.project / ".git")
    done = send(claude, f"{write(claude.project / 'made')} !then hello")
    assert (done.code, done.json["status"]) == (5, "denied"), done
    assert files(claude.project) == []


@pytest.mark.soak
def test_four_megabytes_arrive_whole(claude: Cli, model: FakeModel) -> None:
    long = "".join(f"{number:07d} " for number in range(500_000)) + "the end"
    with FakeModel({"rules": [{"match": "hello there", "text": long, "chunk": 200_000}]}) as model:
        done = send(claude.with_env(model.env("claude")), "hello there")
    assert done.json["reply"] == long
