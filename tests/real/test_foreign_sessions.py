"""Real agent CLIs that beam did not start, as `beam watch --all` tells of them, each prompt, call and answer once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.foreign.places import places
from beam.foreign.tail import Tail
from beam.testing.fake_model import FakeModel
from tests.conformance.adapters import ADAPTERS
from tests.support.cli import BEAM, Cli, eventually, processes_with
from tests.support.repository import make_repository

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
WAIT = 120
LEGACY = Path(__file__).parents[1] / "recordings/sessions/codex-0.144.4/legacy.jsonl"

COMMANDS = {  # as a person starts them, with full rights: what they are given is the last word, or stdin
    "claude": ("claude", "-p", "--dangerously-skip-permissions"),
    "codex": ("codex", "exec", "--dangerously-bypass-approvals-and-sandbox"),
    "gemini": ("gemini", "--yolo", "-p"),
    "qwen": ("qwen", "--auth-type", "openai", "-y"),
    "copilot": ("copilot", "--allow-all-tools", "-p"),
    "pi": ("pi", "-p"),
    "kimi": ("kimi", "-p"),
    "cn": ("cn", "--auto", "-p"),
    "cline": ("cline", "--json", "--auto-approve", "true"),
    "vibe": ("vibe", "--trust", "--auto-approve", "-p"),
    "opencode": ("opencode", "run", "--auto"),
    "kilo": ("kilo", "run", "--auto"),
    "aider": ("aider", "--yes-always", "--no-pretty", "--no-stream", "--no-git", "--message"),
}
BY_STDIN = ("opencode", "kilo")
TURN = ["session.prompted", "tool.called", "tool.returned", "text", "session.idle"]


class Place:
    """A repository, a HOME, a model, and the CLIs that a person starts there; `beam watch --all` runs beside them."""

    def __init__(self, directory: Path, path: str, model: FakeModel) -> None:
        self.model = model
        self.cli = Cli(directory)
        make_repository(self.cli.project, directory / "home")
        (self.cli.project / "hello.txt").write_text("the content of hello\n")
        self.home = directory / "home"
        self.env = {**self.cli.env, "PATH": path, "HOME": str(self.home)}
        self.out = directory / "watch.jsonl"
        self.watcher: subprocess.Popen[bytes] | None = None

    def watch(self) -> None:
        with self.out.open("wb") as file:
            self.watcher = subprocess.Popen(
                [*BEAM, "watch", "--all", "--json"],
                cwd=self.cli.project,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.DEVNULL,
            )
        # It watches once a session that begins now is told of.
        marker = self.home / ".pi" / "agent" / "sessions" / "-p"
        marker.mkdir(parents=True)
        number = 0

        def is_told() -> bool:
            nonlocal number
            number += 1
            message = {"role": "user", "content": [{"type": "text", "text": "ready?"}]}
            entry = {"type": "message", "id": f"ready-{number}", "message": message}
            with (marker / "x_ready.jsonl").open("a") as file:
                file.write(json.dumps(entry) + "\n")
            return self.out.stat().st_size > 0

        eventually(is_told, what="beam watch does not begin")

    def start(self, name: str, prompt: str) -> subprocess.Popen[bytes]:
        env = {**self.env, **ADAPTERS[name].env, **self.model.env(name, self.home), "PATH": self.env["PATH"]}
        words = COMMANDS[name] if name in BY_STDIN else (*COMMANDS[name], prompt)
        process = subprocess.Popen(
            words,
            cwd=self.cli.project,
            env=env,
            stdin=subprocess.PIPE if name in BY_STDIN else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if process.stdin is not None:
            process.stdin.write(prompt.encode())
            process.stdin.close()
        return process

    def told(self, cli: str) -> list[dict[str, Any]]:
        """The events of this CLI's foreign sessions so far."""
        lines = self.out.read_bytes().split(b"\n")[:-1]
        found = [json.loads(line) for line in lines]
        return [event for event in found if event.get("cli") == cli and event["session_id"] != "ready"]

    def close(self) -> None:
        if self.watcher is not None:
            self.watcher.terminate()
            self.watcher.wait(10)
        for pid in processes_with(str(self.cli.base)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def place(tmp_path: Path, agents_path: str) -> Iterator[Place]:
    with FakeModel({"directives": True}) as model:
        here = Place(tmp_path, agents_path, model)
        yield here
        here.close()


def prompt_of(name: str) -> str:
    shell, look = ADAPTERS[name].shell, ADAPTERS[name].look
    if shell is not None:
        return shell.prompt(command="cat hello.txt")
    return look.prompt(path="hello.txt") if look is not None else "only words"


def whole_turn(place: Place, name: str) -> list[dict[str, Any]]:
    eventually(lambda: any(one["type"] == "session.idle" for one in place.told(name)), WAIT, what=f"{name} is not told")
    return place.told(name)


def test_two_clis_at_work_in_one_folder_are_told_once_each_with_their_tokens(place: Place) -> None:
    place.watch()
    running = [place.start(name, prompt_of(name)) for name in ("claude", "codex")]
    for name in ("claude", "codex"):
        found = whole_turn(place, name)
        assert [one["type"] for one in found] == TURN, name
        assert {one["folder"] for one in found} == {str(place.cli.project)}
        assert found[-1]["usage"]["input_tokens"] > 0
        assert found[-1]["usage"]["calls"] == 2
    assert [process.wait(WAIT) for process in running] == [0, 0]


@pytest.mark.conformance
def test_what_beam_runs_itself_is_not_told_a_second_time(place: Place) -> None:
    place.watch()
    env = {**ADAPTERS["claude"].env, **place.model.env("claude", place.home), "PATH": place.env["PATH"]}
    done = place.cli.cold("send", "claude", "--access", "full", "hello there", env=env, timeout=WAIT)
    assert done.code == 0, done
    place.start("claude", "another one").wait(WAIT)
    found = whole_turn(place, "claude")
    prompts = [one["text"] for one in found if one["type"] == "session.prompted"]
    assert prompts == ["another one"]
    texts = Counter(
        event["text"] for event in map(json.loads, place.out.read_text().splitlines()) if event["type"] == "text"
    )
    assert texts == {"ECHO[hello there] turns=1": 1, "ECHO[another one] turns=1": 1}


def test_status_says_who_works_and_where_by_process(place: Place) -> None:
    process = place.start("claude", "!slow 20")
    cli = place.cli.with_env({"PATH": place.env["PATH"]})

    def lines() -> list[dict[str, Any]]:
        found = [json.loads(line) for line in cli("status", "--all", "--json").out.splitlines()]
        return [line for line in found if line.get("pid") == process.pid]

    eventually(lambda: [line["prompt"] for line in lines()] == ["!slow 20"], 30, what="claude is not at work")
    (line,) = lines()
    assert (line["cli"], line["folder"], line["state"]) == ("claude", str(place.cli.project), "working")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
    assert lines() == []


@pytest.mark.conformance
@pytest.mark.parametrize("name", COMMANDS)
def test_each_prompt_call_and_answer_of_a_cli_is_told_once_and_live(place: Place, name: str) -> None:
    place.watch()
    process = place.start(name, prompt_of(name))
    found = whole_turn(place, name)
    process.wait(WAIT)
    expected = TURN if ADAPTERS[name].shell or ADAPTERS[name].look else [TURN[0], TURN[3], TURN[4]]
    assert [one["type"] for one in place.told(name)] == expected, found
    assert found[-1]["usage"]["input_tokens"] > 0
    assert found[0]["folder"] == str(place.cli.project)


@pytest.mark.soak
def test_eight_clis_at_work_in_one_folder_are_told_in_one_stream(place: Place) -> None:
    place.watch()
    names = ("claude", "codex", "gemini", "qwen", "copilot", "pi", "opencode", "vibe")
    for pair in zip(names[::2], names[1::2], strict=True):
        running = [place.start(name, prompt_of(name)) for name in pair]
        for name in pair:
            whole_turn(place, name)
        for process in running:
            process.wait(WAIT)
    for name in names:
        found = place.told(name)
        assert [one["type"] for one in found] == TURN, name
        assert found[-1]["usage"]["input_tokens"] > 0, name
        assert {one["folder"] for one in found} <= {str(place.cli.project), ""}, name


@pytest.mark.conformance
def test_what_a_subagent_of_claude_does_is_told_under_its_session(place: Place) -> None:
    place.watch()
    given = {
        "description": "look",
        "prompt": '!tool Bash {"command": "cat hello.txt"}',
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }
    process = place.start("claude", f"!tool Agent {json.dumps(given)}")
    process.wait(WAIT)
    eventually(lambda: len([e for e in place.told("claude") if e["type"] == "session.idle"]) == 2, 30, what="no ends")
    found = place.told("claude")
    assert len({one["agent"] for one in found}) == 1
    below = [one for one in found if one["agent"] != f"claude~{one['session_id']}"]
    assert [one["type"] for one in below] == TURN
    assert below[1]["parent"] == below[0]["session_id"]
    assert [one["name"] for one in found if one["type"] == "tool.called"] == ["Agent", "Bash"]


@pytest.mark.conformance
def test_what_a_subagent_of_codex_does_is_told_under_its_session(place: Place) -> None:
    place.watch()
    nap = {"name": "exec_command", "input": {"cmd": "sleep 6", "yield_time_ms": 8000}}
    look = {"name": "exec_command", "input": {"cmd": "cat hello.txt"}}
    spawn = {"name": "multi_agent_v1.spawn_agent", "input": {"message": "BELOW"}}
    rules = [
        {"match": "ABOVE", "tools": [spawn], "then": {"tools": [nap], "then": "all is done"}},
        {"match": "BELOW", "tools": [look], "then": "looked"},
    ]
    with FakeModel({"rules": rules, "otherwise": "all is done"}) as model:
        place.model = model
        process = place.start("codex", "ABOVE")
        status = [json.loads(line) for line in _status_while_below(place)]
        process.wait(WAIT)
    eventually(lambda: len([e for e in place.told("codex") if e["type"] == "session.idle"]) == 2, 30, what="no ends")
    found = place.told("codex")
    assert len({one["agent"] for one in found}) == 1
    below = [one for one in found if one["agent"] != f"codex~{one['session_id']}"]
    assert [one["type"] for one in below] == TURN
    assert below[0]["text"] == "BELOW" and below[1]["parent"] == below[0]["session_id"]
    assert Counter(one["text"] for one in found if one["type"] == "text") == {"looked": 1, "all is done": 1}
    assert [line["session_id"] for line in status] == [found[0]["agent"].removeprefix("codex~")]


def _status_while_below(place: Place) -> list[str]:
    """The lines of `beam status --all` for the place's own sessions, once a subagent has begun."""
    eventually(lambda: any(one.get("text") == "BELOW" for one in place.told("codex")), WAIT, what="no subagent began")
    lines = place.cli.with_env({"PATH": place.env["PATH"]})("status", "--all", "--json").out.splitlines()
    return [line for line in lines if json.loads(line).get("folder") == str(place.cli.project)]


@pytest.mark.conformance
def test_a_background_job_of_claude_is_told_once_and_stands_once_while_it_lives(place: Place) -> None:
    place.watch()
    env = {**place.env, **ADAPTERS["claude"].env, **place.model.env("claude", place.home), "PATH": place.env["PATH"]}
    (place.home / ".claude").mkdir()
    (place.home / ".claude" / "settings.json").write_text('{"skipDangerousModePermissionPrompt": true}')
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [env["ANTHROPIC_API_KEY"][-20:]], "rejected": []},
        "projects": {str(place.cli.project): {"hasTrustDialogAccepted": True}},
    }
    (place.home / ".claude.json").write_text(json.dumps(known))
    words = ["claude", "--bg", "--dangerously-skip-permissions", prompt_of("claude")]
    started = subprocess.run(words, cwd=place.cli.project, env=env, capture_output=True, check=False, timeout=WAIT)
    assert started.returncode == 0, started
    found = whole_turn(place, "claude")
    assert [one["type"] for one in found] == TURN
    assert {one["folder"] for one in found} == {str(place.cli.project)}
    cli = place.cli.with_env({"PATH": place.env["PATH"]})

    def lines() -> list[tuple[str, str]]:
        known = [json.loads(line) for line in cli("status", "--all", "--json").out.splitlines()]
        return [(line["session_id"], line["state"]) for line in known if line.get("folder") == str(place.cli.project)]

    eventually(lambda: lines() == [(found[0]["session_id"], "idle")], WAIT, what="it does not rest after its turn")
    stopped = subprocess.run(["claude", "stop", found[0]["session_id"][:8]], env=env, capture_output=True, check=False)
    assert stopped.returncode == 0, stopped
    eventually(lambda: lines() == [], 30, what="it stands after its end")


@pytest.mark.conformance
@pytest.mark.parametrize("name", ["codex", "claude", "gemini", "opencode"])
def test_an_adopted_session_has_its_history_in_the_journal_and_goes_on(place: Place, name: str) -> None:
    place.start(name, prompt_of(name)).wait(WAIT)
    env = {**ADAPTERS[name].env, **place.model.env(name, place.home), "PATH": place.env["PATH"]}
    done = place.cli.cold("agent", "add", "mine", "--session", f"{name}:{session_of(place, name)}", env=env)
    assert done.code == 0 and "5 events of it are in the journal" in done.err, done
    imported = [event for event in place.cli.journal("mine") if event.get("imported")]
    assert [event["type"] for event in imported] == TURN
    assert "hello.txt" in json.dumps(imported[1]["input"]) and "the content of hello" in imported[2]["output"]
    done = place.cli.cold("send", "mine", "--access", "full", "and now", env=env, timeout=WAIT)
    assert done.code == 0 and "turns=2" in done.out, done
    assert [event["text"] for event in place.cli.journal("mine") if event["type"] == "message.queued"] == ["and now"]


@pytest.mark.conformance
def test_a_thread_from_before_items_is_told_and_adopted_where_a_codex_of_today_goes_on_in_it(place: Place) -> None:
    thread = "019f0000-0000-7000-8000-00000000000a"
    recorded = LEGACY.read_text().replace("/srv/shop", str(place.cli.project))
    path = place.home / f".codex/sessions/2026/03/02/rollout-2026-03-02T10-00-00-{thread}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(recorded.replace('"model_provider": "openai"', '"model_provider": "scripted"'))
    place.watch()
    env = {**ADAPTERS["codex"].env, **place.model.env("codex", place.home), "PATH": place.env["PATH"]}
    words = [*COMMANDS["codex"], "resume", thread, prompt_of("codex")]
    done = subprocess.run(
        words, cwd=place.cli.project, env={**place.env, **env}, stdin=subprocess.DEVNULL, check=False, timeout=WAIT
    )
    assert done.returncode == 0
    assert [one["type"] for one in whole_turn(place, "codex")] == TURN
    assert '"user_message"' in path.read_text() and '"UserMessage"' not in path.read_text()
    added = place.cli.cold("agent", "add", "old", "--session", f"codex:{thread}", env=env)
    assert added.code == 0 and "1 record was left out: type event from_the_future" in added.err, added
    imported = [event["type"] for event in place.cli.journal("old") if event.get("imported")]
    assert imported[-5:] == TURN and imported.count("session.prompted") == 4
    words = ["send", "old", "--via", "terminal", "--access", "full", "--json", "and now"]
    outcome = json.loads(place.cli.cold(*words, env=env | {"BEAM_TRUST": "1"}, timeout=WAIT).out)
    assert (outcome["status"], outcome["evidence"]) == ("completed", "history"), outcome["reason"]
    assert "and now" in outcome["reply"] and outcome["usage"]["calls"] == 1


def session_of(place: Place, name: str) -> str:
    """The id of the only session that the CLI keeps here."""
    environ = {"HOME": str(place.home)}
    *_, one = places(environ, [name])
    ((path, _),) = one.paths()
    tail = Tail(one, path)
    return tail.session_of_file().id or next(session.id for session, _ in tail.read())
