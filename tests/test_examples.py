"""The scripts of examples/ do what they say, with the real beam and scripted agents."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import checkout
from tests.support.cli import Cli, Ended, processes_with
from tests.support.console import installed
from tests.support.markdown import blocks

pytestmark = pytest.mark.acceptance
EXAMPLES = Path(__file__).parents[1] / "examples"
COMMANDS = "NO\n::error::x\n ::error::y\n##[error]z"
AGENTS = """
agents:
  writer: {adapter: scripted, script: writer.yaml}
  reviewer: {adapter: scripted, script: reviewer.yaml}
  slow: {command: [sleep, "30"], idle_timeout: 200ms}
  broken: {command: ["false"]}
  counter: {adapter: mailbox}
"""
SCRIPTS = {
    "writer.yaml": "replies: [A first draft., A second draft.]\n",
    "reviewer.yaml": 'rules: [{match: second, reply: "OK, ship it."}]\ndefault: It lacks a second thought.\n',
}


@pytest.fixture
def place(beam: Cli) -> Cli:
    """A project with agents for the examples."""
    there = installed(beam)
    for name, text in SCRIPTS.items():
        (there.project / name).write_text(text)
    there.config(AGENTS)
    return there


def run(place: Cli, name: str, *args: str, folder: Path | None = None) -> Ended:
    """Runs an example to its end, in the project or in this folder."""
    program = [sys.executable] if name.endswith(".py") else ["bash"]
    done = subprocess.run(
        [*program, str(EXAMPLES / name), *args],
        cwd=folder or place.project,
        env=place.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_the_demo_shows_two_agents_talking_and_leaves_nothing(beam: Cli) -> None:
    done = run(installed(beam), "demo.sh")

    assert (done.code, done.err) == (0, "")
    parts = re.split(r"^== (.*)\n", done.out, flags=re.MULTILINE)
    shown = {head.rpartition(": ")[2]: text for head, text in zip(parts[1::2], parts[2::2], strict=True)}
    assert "reviewer: Approved." in shown["beam log planner"]
    assert {line.split()[1] for line in shown["beam watch --now"].splitlines() if line} == {"planner", "reviewer"}
    assert "\nplanner\tidle\t0\t0\t4\t" in shown["beam status"]
    assert [path.name for path in beam.base.iterdir() if path.name.startswith("tmp")] == []
    assert processes_with(str(beam.base)) == []


def test_the_demo_fails_where_an_agent_fails(beam: Cli) -> None:
    there = installed(beam)
    program = Path(there.env["PATH"].partition(":")[0]) / "beam"
    program.write_text(program.read_text().replace("exec ", "case $1 in wait) exit 8;; esac\nexec "))
    assert run(there, "demo.sh").code == 8


def gate(place: Cli, agent: str, *more: str, change: str = "+ new\n", is_deep: bool = True) -> Ended:
    """Runs the gate in a checkout of a branch with this change."""
    folder = checkout(place.base, {"beam.yaml": AGENTS, **SCRIPTS}, change=change, is_deep=is_deep)
    return run(place.with_env({"BEAM_TRUST": "1"}), "ci-gate.sh", agent, *more, folder=folder)


@pytest.mark.parametrize(
    ("agent", "code", "said"),
    [
        ("reviewer", 1, "It lacks a second thought."),
        ("slow", 2, "nobody reviewed the change: exit code 3"),
        ("broken", 2, "nobody reviewed the change: exit code 1"),
        ("nobody", 2, "nobody reviewed the change: exit code 4"),
    ],
)
def test_the_gate_ends_with_the_code_that_it_promises(place: Cli, agent: str, code: int, said: str) -> None:
    done = gate(place, agent)
    assert done.code == code, done
    assert said in done.out + done.err


@pytest.mark.parametrize("is_deep", [True, False], ids=["deep", "shallow"])
def test_the_gate_lets_an_approved_change_through_and_fetches_what_it_needs(place: Cli, is_deep: bool) -> None:
    done = gate(place, "reviewer", change="a second thought\n", is_deep=is_deep)
    assert (done.code, done.out) == (0, "| OK, ship it.\n"), done


@pytest.mark.parametrize(
    ("branch", "change", "said"),
    [("main", "", "nothing changed since origin/main"), ("none", "x", "origin has no none")],
)
def test_the_gate_is_red_and_asks_nobody_where_there_is_nothing_to_review(
    place: Cli, branch: str, change: str, said: str
) -> None:
    done = gate(place, "counter", branch, change=change)
    assert (done.code, done.out, said in done.err) == (2, "", True), done


def page_gate(agent: str) -> str:
    """The script of the page on CI, which asks this agent."""
    page = (EXAMPLES.parent / "docs" / "ci.md").read_text()
    script = page.partition("<!-- gate -->\n```sh\n")[2].partition("```")[0]
    assert "beam send claude" in script
    return script.replace("beam send claude", f"beam send {agent}")


def verdicts(place: Cli, reply: str) -> list[int]:
    """The exit codes of the three gates where the agent answers this: the script, that of the page, the scenario."""
    scenario = (EXAMPLES / "scenarios" / "review-gate.yaml").read_text().replace("send: claude", "send: reviewer")
    script = json.dumps({"default": reply})
    files = {"beam.yaml": AGENTS, **SCRIPTS, "reviewer.yaml": script, "review.yaml": scenario, "change.diff": "+ new\n"}
    folder = checkout(place.base, files)
    before = set(folder.iterdir())
    commands = (["bash", str(EXAMPLES / "ci-gate.sh"), "reviewer"], ["bash", "-c", page_gate("reviewer")])
    env = place.with_env({"BEAM_TRUST": "1"}).env
    codes = []
    for command in (*commands, ["beam", "run", "review.yaml"]):
        done = subprocess.run(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
        assert reply.strip().splitlines()[0].encode() in done.stdout + done.stderr or command[0] == "beam", done
        codes.append(done.returncode)
    assert set(folder.iterdir()) == before
    return codes


@pytest.mark.parametrize("reply", ["OK", "OK.", "OK, ship it", "OK\nNo more.", "OK: fine"])
def test_all_gates_are_green_where_the_first_line_begins_with_the_word_ok(place: Cli, reply: str) -> None:
    assert verdicts(place, reply) == [0, 0, 0]


@pytest.mark.parametrize(
    "reply", ["OKAY is not what I say.", "NO: it\nOK is returned", "OK_1", "ok", "**OK**", "NO OK"]
)
def test_all_gates_are_red_and_print_the_review_where_it_does_not(place: Cli, reply: str) -> None:
    assert verdicts(place, reply) == [1, 1, 13]


def test_an_answer_is_no_command_to_a_runner(place: Cli) -> None:
    folder = checkout(place.base, {"beam.yaml": AGENTS, **SCRIPTS, "reviewer.yaml": json.dumps({"default": COMMANDS})})
    for command in (["bash", str(EXAMPLES / "ci-gate.sh"), "reviewer"], ["bash", "-c", page_gate("reviewer")]):
        done = subprocess.run(
            command,
            cwd=folder,
            env=place.with_env({"BEAM_TRUST": "1"}).env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        lines = done.stdout.decode().splitlines()
        assert len(lines) == 4 and not [line for line in lines if line.strip().startswith("::") or "##[" in line]


@pytest.mark.parametrize("change", ["+ new\n", "a second thought\n"], ids=["red", "green"])
@pytest.mark.parametrize("what", ["the script", "nothing", "a text", "an open pipe"])
@pytest.mark.parametrize("which", ["example", "page"])
def test_a_gate_says_the_same_whatever_its_stdin_is(place: Cli, which: str, what: str, change: str) -> None:
    folder = checkout(place.base, {"beam.yaml": AGENTS, **SCRIPTS}, change=change)
    script = place.base / "gate.sh"
    script.write_text((EXAMPLES / "ci-gate.sh").read_text() if which == "example" else page_gate("reviewer"))
    text = {"the script": script.read_text(), "a text": "a second thought\n"}.get(what, "")
    command = ["bash", *(["-s"] if what == "the script" else [str(script)]), "reviewer"]
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stdin, os.fdopen(write, "wb") as into:
        into.write(text.encode())
        into.flush()
        if what != "an open pipe":
            into.close()
        env = place.with_env({"BEAM_TRUST": "1"}).env
        done = subprocess.run(command, cwd=folder, env=env, stdin=stdin, capture_output=True, timeout=60, check=False)
    wanted = (1, b"| It lacks a second thought.\n") if change == "+ new\n" else (0, b"| OK, ship it.\n")
    assert (done.returncode, done.stdout) == wanted, done


def scripts() -> list[tuple[str, str]]:
    """The shell scripts of examples/, and those of docs/ that begin with `set -e`."""
    found = [(path.name, path.read_text()) for path in EXAMPLES.rglob("*.sh")]
    for path in sorted((EXAMPLES.parent / "docs").glob("*.md")):
        texts = [block.text for block in blocks(path.read_text(), "sh")]
        found += [(path.name, text) for text in texts if text.startswith("set -e")]
    return found


def test_no_beam_of_a_script_takes_the_stdin_of_the_script() -> None:
    lines = [(name, line) for name, text in scripts() for line in text.splitlines() if "beam send " in line]
    assert len(lines) >= 7
    assert [each for each in lines if not re.search(r"< ?/dev/null|\| beam send|<<<", each[1])] == []


def test_the_gate_is_red_where_a_pipe_brings_it_no_change(place: Cli) -> None:
    (place.project / "beam.yaml").unlink()
    place("agent", "add", "ok", "--command", "sh -c 'cat >/dev/null; echo OK, nothing to mend.'")
    gate_at = EXAMPLES / "ci-gate.sh"
    done = place.shell(f"git init -q; git diff origin/main 2>/dev/null | bash '{gate_at}' ok; echo gate: $?")
    assert done.out == "gate: 2\n", done
    piped = 'git diff origin/main 2>/dev/null | beam send ok "Review this change." - --once; echo gate: $?'
    assert place.shell(piped).out == "gate: 2\n"


@pytest.mark.parametrize("name", ["ci-gate.sh", "mailbox.sh", "review-loop.sh"])
def test_an_example_without_its_arguments_says_what_it_takes_and_finds_nothing(place: Cli, name: str) -> None:
    done = run(place, name)
    assert (done.code, done.out) == (2, "") and done.err.startswith("usage: ") and f"{name} " in done.err


def test_writer_and_reviewer_go_on_until_they_agree(place: Cli) -> None:
    done = run(place, "review-loop.sh", "writer", "reviewer", "Write it.")
    assert (done.code, done.out) == (0, "A second draft.\n")
    assert done.err == "round 1: It lacks a second thought.\nround 2: OK, ship it.\n"


def test_a_loop_without_agreement_fails(place: Cli) -> None:
    done = run(place, "review-loop.sh", "reviewer", "writer", "Write it.")
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("no agreement in 3 rounds\n")


def test_the_mailbox_script_answers_each_message(place: Cli) -> None:
    ids = [place("send", "counter", text, "--no-wait").out.strip() for text in ("one two three", "four\nfive")]
    assert run(place, "mailbox.sh", "counter", "50ms").code == 0
    assert [place("wait", message_id).out for message_id in ids] == ["3 words\n", "2 words\n"]


def test_the_python_example_sends_one_after_the_other_and_all_at_once(place: Cli) -> None:
    done = run(place, "python_api.py", "hello", "scripted", "broken", "nobody")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:2] == ["scripted: completed: You said: hello", "broken: failed: false exited with 1"]
    assert re.fullmatch(r"nobody: no agent is called 'nobody' \(.*\) \[exit code 4\]", lines[2])
    assert lines[3:] == [
        "at once: scripted turn 2, broken turn 2",
        "scripted called: look, look",
        "broken called: nothing",
    ]


@pytest.mark.parametrize(
    ("change", "how", "is_green"),
    [
        ("a second thought\n", {}, True),
        ("a first draft\n", {}, False),
        ("", {}, False),
        ("a second thought\n", {"is_deep": False}, False),
    ],
    ids=["approved", "not approved", "nothing changed", "shallow"],
)
def test_the_gate_of_the_page_on_ci_is_green_for_an_approved_change_alone(
    place: Cli, change: str, how: dict[str, bool], is_green: bool
) -> None:
    script = page_gate("reviewer")
    folder = checkout(place.base, {"beam.yaml": AGENTS, **SCRIPTS}, change=change, **how)
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=place.env, capture_output=True, timeout=60)
    assert (done.returncode == 0) is is_green, done
    assert change or "nothing changed since origin/main" in done.stderr.decode()
