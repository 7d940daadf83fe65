"""`notify:`: commands and webhooks are told what happens, with the real beam, whatever they do with it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from beam.config.file import parse
from tests.support import asking
from tests.support.cli import Cli, eventually, processes_with

pytestmark = pytest.mark.acceptance
EXAMPLES = Path(__file__).parents[2] / "examples" / "notify"
AGENTS = "agents:\n  echo: {command: [cat]}\n  bad: {command: ['false']}\n"


@dataclass
class Hook:
    """A webhook on loopback. `answers` are the codes of the next requests, then 204."""

    port: int
    answers: list[int] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def events(self) -> list[str]:
        return [json.loads(body)["event"] for _, body in self.got]


@pytest.fixture
def hook() -> Iterator[Hook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.got.append((dict(self.headers), body))
            code = found.answers.pop(0) if found.answers else 204
            self.send_response(code)
            if code == 307:
                self.send_header("Location", f"http://127.0.0.1:{found.port}/other")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Hook(server.server_port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


def own(beam: Cli, *targets: str) -> None:
    """Writes the user's own configuration with these targets, and agents."""
    folder = beam.base / "home" / ".config" / "beam"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text("notify:\n" + "".join(f"- {target}\n" for target in targets) + AGENTS)


def writes(beam: Cli) -> tuple[str, Path]:
    """A command that appends each notification to a file, as YAML, and the file."""
    file = beam.base / "told"
    script = beam.base / "tell.sh"
    script.write_text(f'cat >> {file}; echo "$@" >> {beam.base / "words"}; pwd >> {beam.base / "where"}\n')
    return f"[sh, {script}, one]", file


def told(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def delivering(beam: Cli) -> set[int]:
    """The processes that deliver here; another test may have its own."""
    return {*processes_with("beam.notify.deliver")} & {*processes_with(str(beam.base))}


def delivered(beam: Cli) -> None:
    """Waits until nothing waits for delivery, and nobody delivers."""
    new = beam.root / "notify" / "new"
    eventually(lambda: not new.is_dir() or not list(new.glob("*.json")), 60, "a notification was not delivered")
    eventually(lambda: not delivering(beam), 20, "somebody delivers")


def test_a_command_gets_each_end_as_json_on_stdin_and_no_text_in_its_arguments(beam: Cli) -> None:
    command, file = writes(beam)
    own(beam, f"{{command: {command}, on: [finished, failed, idle]}}")
    assert beam("send", "echo", "hello").code == 0
    failed = beam("send", "bad", "hello", "--json").json
    delivered(beam)
    found = told(file)
    assert sorted((each["event"], each["agent"]) for each in found) == [
        ("failed", "bad"),
        ("finished", "echo"),
        ("idle", "bad"),
        ("idle", "echo"),
    ]
    (failure,) = [each for each in found if each["event"] == "failed"]
    assert (failure["message_id"], failure["status"], failure["class"]) == (failed["message_id"], "failed", "crashed")
    assert failure["project"] == str(beam.project)
    assert all("hello" not in json.dumps(each) for each in found)
    assert set((beam.base / "words").read_text().split()) == {"one"}
    assert set((beam.base / "where").read_text().split()) == {str(beam.base / "home")}


def test_a_run_tells_when_its_budget_is_nearly_used_up_and_when_it_is(beam: Cli) -> None:
    command, file = writes(beam)
    own(beam, f"{{command: {command}, on: [budget]}}", f"{{command: {command}, on: [budget], agents: [other]}}")
    (beam.project / "spends.yaml").write_text("replies: [[{usage: {output_tokens: 45}}, Spent.]]\n")
    beam.config("agents:\n  spends: {adapter: scripted, script: spends.yaml}\n")
    (beam.project / "s.yaml").write_text("beam: 1\nsteps:\n" + "- {send: spends, prompt: go}\n" * 4)
    assert beam("run", "s.yaml", "--max-tokens", "100").code == 7
    delivered(beam)
    found = [each for each in told(file) if each["status"] is None]
    assert sorted((each["event"], each["agent"], each["text"]) for each in found) == [
        ("budget", "spends", "s: the run has used 90 of 100 tokens"),
        ("budget", "spends", "s: the run used 135 of 100 tokens, its budget; it is stopped"),
    ]
    assert len({each["id"] for each in found}) == 2


def test_a_webhook_is_signed_tried_again_with_the_same_id_and_delivered_once(beam: Cli, hook: Hook) -> None:
    own(
        beam,
        f"{{webhook: 'http://127.0.0.1:{hook.port}/x', on: [finished], secret: {{env: WORD}}, reply: true}}",
    )
    hook.answers = [500]
    assert beam("send", "echo", "hello", env={"WORD": "s3cret-of-the-hook"}).code == 0
    delivered(beam)
    (first, body), (second, again) = hook.got
    assert first["Idempotency-Key"] == second["Idempotency-Key"] == json.loads(body)["id"]
    assert body == again
    assert json.loads(body)["reply"] == "hello"
    import hmac

    stamp = second["Beam-Timestamp"].encode()
    assert (
        second["Beam-Signature"]
        == "sha256=" + hmac.new(b"s3cret-of-the-hook", stamp + b"." + body, "sha256").hexdigest()
    )
    kept = [path.read_bytes() for path in beam.root.rglob("*") if path.is_file()]
    assert not any(b"s3cret-of-the-hook" in data for data in kept)


def test_a_redirect_is_not_followed(beam: Cli, hook: Hook) -> None:
    own(beam, f"{{webhook: 'http://127.0.0.1:{hook.port}/x', on: [finished]}}")
    hook.answers = [307]
    assert beam("send", "echo", "hello").code == 0
    delivered(beam)
    assert len(hook.got) == 1
    (line,) = beam("notify", "list", "--json").lines
    assert (line["given_up"], line["error"]) == (1, "it answers 307, and beam follows no redirect")


def test_a_target_that_hangs_or_is_not_there_delays_and_fails_no_turn(beam: Cli) -> None:
    own(
        beam,
        "{command: [sleep, '20'], on: [finished]}",
        "{command: [/nonexistent], on: [finished]}",
        "{webhook: 'http://127.0.0.1:9/', on: [finished]}",
    )
    done = beam("send", "echo", "hello", "--json").json
    assert (done["status"], done["exit_code"]) == ("completed", 0)
    assert [event["type"] for event in beam.journal("echo")][-1] == "turn.closed"
    assert delivering(beam)
    end(beam)


def end(beam: Cli) -> None:
    """Ends whoever delivers, and what it runs."""
    for name in ("beam.notify.deliver", "sleep\x0020"):
        for pid in {*processes_with(name)} & {*processes_with(str(beam.base))}:
            subprocess.run(["kill", "-9", str(pid)], check=False)


def test_a_spool_that_can_not_be_written_fails_no_turn(beam: Cli) -> None:
    command, file = writes(beam)
    own(beam, f"{{command: {command}, on: [finished]}}")
    assert beam("send", "echo", "one").code == 0
    delivered(beam)
    for path in (beam.root / "notify").rglob("*"):
        if path.is_file():
            path.unlink()
    for name in ("new", "done", "dead"):
        (beam.root / "notify" / name).rmdir()
    (beam.root / "notify" / "new").write_text("a file\n")
    assert beam("send", "echo", "two").code == 0
    assert len(told(file)) == 1


@pytest.mark.parametrize(
    "point", ["finish.recorded", "route.before", "close.before", "close.recorded", "remove.before"]
)
def test_a_holder_that_is_killed_after_the_turn_is_followed_by_one_that_tells_of_it_once(beam: Cli, point: str) -> None:
    command, file = writes(beam)
    own(beam, f"{{command: {command}, on: [finished, failed]}}")
    assert beam("send", "echo", "hello", env={"BEAM_CRASH_AT": point}).code == 137
    message = beam("send", "echo", "two", "--json").json["message_id"]
    delivered(beam)
    ids = [each["message_id"] for each in told(file)]
    assert len(ids) == len(set(ids)) == 2
    assert message in ids


def test_a_delivery_that_is_killed_is_done_by_the_next_one(beam: Cli, hook: Hook) -> None:
    own(beam, f"{{webhook: 'http://127.0.0.1:{hook.port}/x', on: [finished]}}")
    hook.answers = [503] * 3
    assert beam("send", "echo", "hello").code == 0
    eventually(lambda: bool(hook.got), 20)
    end(beam)
    eventually(lambda: not delivering(beam))
    hook.answers = []
    assert beam("send", "bad", "hello").code == 1  # nobody wants to be told of it
    assert beam("send", "echo", "two").code == 0
    delivered(beam)
    assert len({headers["Beam-Id"] for headers, _ in hook.got}) == 2


def test_a_turn_that_ends_at_a_limit_is_about_a_budget(beam: Cli) -> None:
    command, file = writes(beam)
    own(beam, f"{{command: {command}, on: [budget]}}")
    beam.config("agents:\n  dear: {adapter: scripted, script: dear.yaml}\n")
    (beam.project / "dear.yaml").write_text("replies: [one, {limit: the budget is used up}]\n")
    assert beam("send", "dear", "hello").code == 0
    limited = beam("send", "dear", "hello", "--json").json
    delivered(beam)
    assert [(each["event"], each["message_id"]) for each in told(file)] == [("budget", limited["message_id"])]


def test_an_ask_that_waits_is_told_with_the_command_that_decides_it(beam: Cli) -> None:
    asking.place(beam, adapter="claude")
    command, file = writes(beam)
    own(beam, f"{{command: {command}, on: [ask]}}")
    process, ask = asking.started(beam)
    eventually(lambda: bool(told(file)), 30)
    (found,) = told(file)
    assert (found["event"], found["ask_id"], found["agent"]) == ("ask", ask["id"], "tui")
    assert f"beam approve {ask['id']}" in found["text"]
    assert beam("approve", ask["id"]).code == 0
    process.communicate(timeout=60)
    delivered(beam)


def test_a_folders_own_command_runs_after_beam_trust_alone(beam: Cli) -> None:
    marker = beam.base / "ran"
    (beam.project / "told.sh").write_text(f"touch {marker}\n")
    beam.config(f"notify:\n- {{command: [sh, told.sh], on: [finished]}}\n{AGENTS}", trusted=False)
    refused = beam("send", "echo", "hello")
    assert (refused.code, "to notify" in refused.err) == (2, True)
    tried = beam("notify", "test")
    assert (tried.code, "not trusted" in tried.out, marker.exists()) == (1, True, False)
    assert beam("trust", "--yes").code == 0
    assert beam("send", "echo", "hello").code == 0
    delivered(beam)
    assert marker.exists()


def test_an_agent_that_changes_what_the_folder_runs_in_its_turn_has_it_not_run(beam: Cli) -> None:
    marker = beam.base / "ran"
    script = beam.project / "told.sh"
    script.write_text("true\n")
    change = f"echo touch {marker} > told.sh"
    beam.config(
        "notify:\n- {command: [sh, told.sh], on: [finished]}\n"
        f"agents:\n  bad: {{command: [sh, -c, {json.dumps(change)}], access: full}}\n",
        trusted=False,
    )
    assert beam("trust", "--yes").code == 0
    assert beam("send", "bad", "hello").code == 0
    delivered(beam)
    (line,) = beam("notify", "list", "--json").lines
    assert (marker.exists(), line["given_up"], line["error"]) == (False, 1, "the folder is not trusted")


def test_notify_test_reaches_every_target_and_says_which_it_could_not(beam: Cli, hook: Hook) -> None:
    command, file = writes(beam)
    own(
        beam,
        f"{{command: {command}, on: [ask]}}",
        f"{{webhook: 'http://127.0.0.1:{hook.port}/x', on: [ask]}}",
        "{webhook: {env: NOT_SET}, on: [ask]}",
    )
    done = beam("notify", "test")
    assert done.code == 1
    assert [line.partition(": ")[2] for line in done.out.splitlines()][1:] == [
        "delivered",
        "$NOT_SET is empty, or holds more than one line",
    ]
    assert (told(file)[0]["event"], hook.events) == ("test", ["test"])


def test_without_targets_nothing_is_made_and_the_commands_say_how(beam: Cli) -> None:
    beam.config(AGENTS)
    assert beam("send", "echo", "hello").code == 0
    assert not (beam.root / "notify").exists()
    assert "notify:" in beam("notify", "list").err
    assert beam("notify", "test").code == 4


def test_the_example_of_a_configuration_is_one(beam: Cli) -> None:
    found = parse((EXAMPLES / "config.yaml").read_bytes(), EXAMPLES / "config.yaml", adapters=())
    assert [target.body for target in found.notify] == ["json", "text", "slack", "json"]


def test_the_example_for_the_desktop_escapes_what_an_agent_wrote(beam: Cli) -> None:
    folder = beam.base / "bin"
    folder.mkdir()
    (folder / "notify-send").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {beam.base / "shown"}\n')
    (folder / "notify-send").chmod(0o755)
    text = "a asks: <b>$(touch x)</b> `id`"
    subprocess.run(
        ["sh", str(EXAMPLES / "desktop.sh")],
        input=json.dumps({"text": text}).encode(),
        env={"PATH": f"{folder}:/usr/bin:/bin"},
        cwd=beam.project,
        check=True,
    )
    shown = (beam.base / "shown").read_text().splitlines()
    assert shown == ["--app-name", "beam", "--", "beam", "a asks: &lt;b&gt;$(touch x)&lt;/b&gt; `id`"]


def test_the_example_of_a_receiver_takes_what_beam_signs_and_nothing_else(beam: Cli) -> None:
    receiver = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "receive.py"), "0"],
        stdout=subprocess.PIPE,
        env={**beam.env, "BEAM_HOOK_SECRET": "right"},
    )
    assert receiver.stdout is not None
    try:
        port = int(receiver.stdout.readline())
        own(beam, f"{{webhook: 'http://127.0.0.1:{port}/', on: [finished], secret: {{env: WORD}}}}")
        wrong = beam("notify", "test", env={"WORD": "wrong"})
        assert (wrong.code, "it answers 401" in wrong.out) == (1, True)
        assert beam("notify", "test", env={"WORD": "right"}).code == 0
        assert receiver.stdout.readline() == b"test human this is a test of beam's notifications\n"
    finally:
        receiver.kill()
        receiver.wait()
        receiver.stdout.close()
