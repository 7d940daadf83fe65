"""`beam send A --each`: each line of stdin is a message, one after the other, and nothing is sent twice or behind a
line that was stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any

import pytest

from tests.support import warm_agent
from tests.support.cli import Cli, asleep, eventually

pytestmark = pytest.mark.acceptance

GATED = 'read -r line; echo "$line" >> did; [ $line = b ] && while ! test -e gate; do sleep 0.02; done; echo "$line"'
AGENTS = f"""
agents:
  one: {{command: [sh, -c, 'read -r line; case $line in bad) exit 3;; esac; echo "$line" | tee -a did']}}
  two: {{command: [sh, -c, 'read -r line; echo "two: $line"']}}
  gated: {{command: [sh, -c, '{GATED}']}}
"""

SCRIPT = """
rules:
  - match: b
    reply: [{run: [sh, -c, "echo b >> did; while ! test -e gate; do sleep 0.02; done"]}, done]
default: "{turn} {prompt}"
"""


@pytest.fixture
def crew(beam: Cli) -> Cli:
    beam.config(AGENTS)
    return beam


def replies(lines: list[Any]) -> list[str]:
    """The answer of each line, or the error in place of it."""
    return [line["reply"] if "reply" in line else line["error"]["message"].partition(":")[0] for line in lines]


def did(beam: Cli) -> list[str]:
    path = beam.project / "did"
    return path.read_text().split() if path.exists() else []


def test_each_line_is_a_message_and_the_outcomes_come_in_order(crew: Cli) -> None:
    lines = ["first", "", '{"payload": {"text": "second"}, "from": "two", "mine": 1}', " third\r", "fourth"]
    done = crew("send", "one", "--each", stdin="\n".join(lines))
    assert (done.code, replies(done.lines)) == (0, ["first", "second", "third", "fourth"])
    assert [line["turn"] for line in done.lines] == [1, 2, 3, 4]
    assert "two" in [event.get("from") for event in crew.journal("one")]


def test_lines_that_name_their_agents_need_none(crew: Cli) -> None:
    lines = [json.dumps({"to": name, "payload": {"text": "x"}}) for name in ("one", "two")]
    done = crew("send", "--each", stdin="\n".join([*lines, "to nobody"]))
    assert (done.code, replies(done.lines)) == (2, ["x", "two: x", "line 3"])


@pytest.mark.parametrize("bad", ["bad", '{"payload"', '{"payload": {"text": "x"}, "to": "two"}', '{"type": "zork"}'])
@pytest.mark.parametrize("goes_on", [False, True])
def test_after_a_line_without_success_the_rest_is_sent_or_not(crew: Cli, bad: str, goes_on: bool) -> None:
    done = crew("send", "one", "--each", *(["--on-failure", "next"] if goes_on else []), stdin=f"a\n{bad}\nc\n")
    assert done.code == (1 if bad == "bad" else 2)
    assert did(crew) == (["a", "c"] if goes_on else ["a"])
    assert len(done.lines) == (3 if goes_on else 2)
    assert ("beam: nothing after line 2 was sent; --on-failure next goes on" in done.err) is not goes_on
    if bad != "bad":
        (said,) = [line for line in done.err.splitlines() if "line 2: " in line]
        assert done.lines[1]["error"]["message"].startswith("line 2: ") and said.startswith("beam: line 2: ")


@pytest.mark.parametrize("stdin", ["", "\n \n"])
def test_a_stdin_without_a_line_is_refused(crew: Cli, stdin: str) -> None:
    done = crew("send", "one", "--each", stdin=stdin)
    assert (done.code, done.out, did(crew)) == (2, "", [])
    assert "stdin ended without any line, so nothing was sent" in done.err


def test_an_unknown_agent_is_refused_before_a_line_is_read(crew: Cli) -> None:
    done = crew("send", "nobody", "--each", "--on-failure", "next", stdin="a\nb\n")
    assert (done.code, done.out, done.err.count("no agent is called 'nobody'")) == (4, "", 1)


def test_without_waiting_the_lines_are_queued_and_their_ids_printed(crew: Cli) -> None:
    ids = crew("send", "one", "--each", "--no-wait", stdin="a\nb\n").out.split()
    assert crew("wait", *ids).code == 0
    assert did(crew) == ["a", "b"]


def test_a_line_is_sent_as_soon_as_it_is_there(crew: Cli) -> None:
    process = crew.start("send", "one", "--each", stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    for text in ("a", "b"):
        process.stdin.write(f"{text}\n".encode())
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["reply"] == text
    process.send_signal(signal.SIGINT)  # it waits for a line
    _, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert b"beam: stopped at line 2; nothing after it was sent" in err


def test_c_ends_the_running_line_and_leaves_the_rest_unsent(crew: Cli) -> None:
    process = crew.start("send", "gated", "--each", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"a\nb\nc\n")
    process.stdin.close()
    eventually(lambda: did(crew) == ["a", "b"])
    asleep(process)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None and process.stderr is not None
    out, err = process.stdout.read(), process.stderr.read()
    assert process.wait(30) == -signal.SIGINT
    assert [json.loads(line)["status"] for line in out.splitlines()] == ["completed", "cancelled"]
    assert b"beam: stopped at line 2; nothing after it was sent" in err
    assert did(crew) == ["a", "b"] and not crew("queue", "list", "--json").lines


def killed_and_again(crew: Cli, *words: str) -> tuple[int, list[Any]]:
    """Kill the sender in its second line, let the agent go on, and send the same lines again."""
    process = crew.start_cold("send", *words, "--each", "--key", "night", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"a\nb\nc\n")
    process.stdin.flush()
    eventually(lambda: "b" in did(crew))
    os.kill(process.pid, signal.SIGKILL)
    process.wait(30)
    (crew.project / "gate").touch()
    done = crew("send", *words, "--each", "--key", "night", stdin="a\nb\nc\n")
    assert [line["attempt"] for line in done.lines] == [1] * len(done.lines)
    return done.code, [line["status"] for line in done.lines]


def test_with_a_key_a_sender_that_was_killed_is_sent_again_and_nothing_is_done_twice(crew: Cli) -> None:
    assert killed_and_again(crew, "gated") == (8, ["completed", "unknown"])
    assert did(crew) == ["a", "b"]


@pytest.fixture
def warm(beam: Cli) -> Cli:
    warm_agent.place(beam)
    (beam.project / "script.yaml").write_text(SCRIPT)
    return beam


def test_one_process_takes_all_lines_and_is_closed_after_them(warm: Cli) -> None:
    done = warm("send", "worker", "--via", "dialogue", "--each", stdin="a\nc\nd\n")
    assert (done.code, replies(done.lines)) == (0, ["1 a", "2 c", "3 d"])
    assert len({pid for pid, _ in warm_agent.started(warm)}) == 1
    eventually(lambda: len(warm_agent.exits(warm)) == 1)
    assert warm_agent.kept(warm) is None


def test_a_process_that_was_kept_before_stays(warm: Cli) -> None:
    assert warm_agent.send(warm, "a", "--keep", "5m").code == 0
    done = warm("send", "worker", "--via", "dialogue", "--each", stdin="c\nd\n")
    assert (done.code, replies(done.lines)) == (0, ["2 c", "3 d"])
    assert warm_agent.exits(warm) == []
    assert warm("agent", "release", "worker").code == 0


def test_a_turn_of_a_kept_process_outlives_its_sender_and_is_not_done_twice(warm: Cli) -> None:
    assert killed_and_again(warm, "worker", "--via", "dialogue") == (0, ["completed"] * 3)
    assert did(warm) == ["b"]


def test_a_broker_runs_the_lines_and_keeps_its_process(warm: Cli) -> None:
    assert warm("broker", "start").code == 0
    try:
        done = warm("send", "worker", "--via", "dialogue", "--each", stdin="a\nc\n")
        assert (done.code, replies(done.lines)) == (0, ["1 a", "2 c"])
        assert len({pid for pid, _ in warm_agent.started(warm)}) == 1
        assert warm_agent.kept(warm) is not None
    finally:
        warm("broker", "stop", "--grace", "0s")
