"""Conversations over an agent's own protocol: a broker keeps one process of the CLI, and the cells go on in it.

A file a CLI makes the tests of these cases: each has a place, a broker and a kept process of its own.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beam.process import table
from beam.testing.conformance.subject import WAIT
from tests.conformance.adapters import MAIN, TWINS, columns
from tests.conformance.cases import Act, refused
from tests.conformance.cases import case as any_case
from tests.conformance.subject import Subject
from tests.conformance.test_cells_options import PIXEL
from tests.support.asking import first_ask
from tests.support.cli import Started, eventually, processes_with

FILE = "test_cells_dialogue_{cli}.py"
SLOW = "!slow 60 !say zebra " + " ".join(f"word{number}" for number in range(40))


EVERY = tuple(column.id for column in columns(("dialogue",)) if column.adapter not in TWINS)
MAIN_COLUMNS = tuple(column.id for column in columns(("dialogue",)) if column.adapter in MAIN)


def case(title: str, capability: str = "", *, quick_for: tuple[str, ...] = (), otherwise: Act | None = None) -> Any:
    """A case of this mode alone."""
    return any_case(title, capability, quick_for=quick_for, otherwise=otherwise, faces=("dialogue",), file=FILE)


# -- how a turn is begun -----------------------------------------------------------------------------------------------


def _access(subject: Subject) -> str:
    """The access of all cells, as another one would need another process: `ask`, or all where nothing is asked."""
    return "ask" if subject.can.ask else "full"


def _broker(subject: Subject, *, runs: bool = True) -> None:
    """Has a broker run, or none."""
    known: dict[str, Any] = subject.state
    if known.get("broker", False) != runs:
        done = subject.cli("broker", "start") if runs else subject.cli("broker", "stop", "--grace", "0s")
        assert done.code == 0, done
        known["broker"] = runs


def _words(subject: Subject, *options: str) -> tuple[str, ...]:
    """The words of `beam send`. Where no process of the session lives any more a new session is begun: a CLI may
    continue one only in the process that began it."""
    life = [event["type"] for event in subject.cli.journal(subject.name) if event["type"].startswith("agent.")]
    lives = [word for word in life if word in ("agent.started", "agent.exited")][-1:] == ["agent.started"]
    lives = lives and subject.state.get("broker", False)
    new = () if lives or "--new" in options else ("--new",)
    return subject.send_arguments(*options, *new, access=_access(subject))


def _send(subject: Subject, text: str, *options: str) -> Any:
    return subject.cli(*_words(subject, *options), stdin=text, timeout=WAIT)


def _completed(subject: Subject, text: str, *options: str) -> dict[str, Any]:
    done = _send(subject, text, *options)
    assert (done.code, done.json["status"]) == (0, "completed"), done
    found: dict[str, Any] = done.json
    return found


def _start(subject: Subject, text: str) -> Started:
    return subject.cli.start(*_words(subject), "--", text)


def _warm(subject: Subject) -> dict[str, Any]:
    """The outcome of a first turn, whose process is kept."""

    def first() -> dict[str, Any]:
        _broker(subject)
        return _completed(subject, "remember plums")

    found: dict[str, Any] = subject.run_once("warm", first)
    _broker(subject)
    return found


def _command(subject: Subject, command: str) -> str:
    """The prompt by which the model has the CLI run it, asking first at access `ask`."""
    tool = subject.data.asking if subject.can.ask and subject.data.asking else subject.data.shell
    assert tool is not None
    return tool.prompt(command=command)


def _touch(subject: Subject, name: str) -> tuple[Path, str]:
    """A file that is not there yet, and the prompt whose command makes it."""
    path = subject.cli.project / name
    return path, _command(subject, f"touch {path}")


def _asking(subject: Subject, name: str) -> tuple[Started, dict[str, Any], Path]:
    """A turn that waits for a decision: it, its ask, and the file that its command would make."""
    path, prompt = _touch(subject, name)
    running = _start(subject, prompt)
    return running, first_ask(subject.cli), path


def _answered(subject: Subject, name: str, *answer: str) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """The ask, the outcome after the answer (`approve` or `deny`, and its options), and the file."""
    _warm(subject)
    running, ask, path = _asking(subject, name)
    done = subject.cli(answer[0], ask["id"], *answer[1:])
    assert done.code == 0, done
    return ask, subject.outcome(running), path


def _running(subject: Subject, name: str, command: str) -> Started:
    """A turn whose command runs: it made the file."""
    path = subject.cli.project / name
    running = _start(subject, _command(subject, f"touch {path}; {command}"))
    if subject.can.ask:
        assert subject.cli("approve", first_ask(subject.cli)["id"]).code == 0
    eventually(path.exists, WAIT)
    return running


def _waits() -> tuple[str, Callable[[], list[int]]]:
    """A command that never ends by itself, and who runs it."""
    number = str(os.getpid() + 10_000_000)  # no other worker's

    def left() -> list[int]:
        return [pid for pid in table.pids() if f"-s\0{number}\0".encode() in table.read_file(f"/proc/{pid}/cmdline")]

    return f"tail -f -s {number} /dev/null", left


def _last(subject: Subject, kind: str) -> dict[str, Any]:
    return subject.events(kind)[-1]


def _interrupted(subject: Subject, running: Started) -> None:
    """Interrupts the turn; afterwards no process of it is left."""
    key = _last(subject, "turn.started")["turn_key"]
    done = subject.cli("interrupt", subject.name)
    assert done.code == 0, done
    outcome = subject.outcome(running)
    assert (running.returncode, outcome["status"]) == (9, "cancelled"), outcome
    eventually(lambda: processes_with(key) == [], what="the turn left processes")


def _no_ask(subject: Subject) -> str:
    return refused(access="ask")(subject)


# -- the cells ---------------------------------------------------------------------------------------------------------


@case("warm second turn", "resume", quick_for=EVERY)
def test_warm_turn(subject: Subject) -> str:
    before = _warm(subject)
    outcome = _completed(subject, "what did I say?")
    assert (outcome["session"], outcome["session_id"]) == ("resumed", before["session_id"]), outcome
    assert "remember plums" in subject.last_request()
    assert subject.events("agent.started", outcome["turn"])[0]["since"] is not None
    assert subject.events("unknown") == []
    return "the same process took the second turn, and the model was sent the first one with it"


@case("a warm answer in pieces", "deltas", quick_for=EVERY)
def test_warm_deltas(subject: Subject) -> str:
    _warm(subject)
    pieces = "".join(event["text"] for event in subject.events("text.delta"))
    assert "remember plums" in pieces
    return "`text.delta` events carry the answer"


@case("approve", "ask", quick_for=EVERY, otherwise=_no_ask)
def test_approve(subject: Subject) -> str:
    ask, outcome, path = _answered(subject, "approved", "approve")
    assert f"touch {path}" in ask["description"]
    assert (outcome["status"], outcome["exit_code"], outcome["denials"]) == ("completed", 0, []), outcome
    assert path.exists()
    assert ask["call_id"] in [event["call_id"] for event in subject.events("tool.returned", outcome["turn"])]
    return "the command was asked for word by word, and ran once it was approved"


def _same_input(subject: Subject) -> str:
    if not subject.can.ask:
        return _no_ask(subject)
    _warm(subject)
    running, ask, path = _asking(subject, "unchanged")
    refusal = subject.cli("approve", ask["id"], "--input", '{"command": "true"}')
    assert refusal.code == 10, refusal
    assert subject.cli("asks", "--json").lines[0]["id"] == ask["id"]
    assert subject.cli("deny", ask["id"]).code == 0
    assert (subject.outcome(running)["status"], path.exists()) == ("completed", False)
    return f"exit code 10, and the ask stays open: {refusal.err.splitlines()[0].removeprefix('beam: ')}"


@case("approve with changed input", "changes", otherwise=_same_input)
def test_approve_changed(subject: Subject) -> str:
    path = subject.cli.project / "changed"
    given = json.dumps({"command": f"touch {path}", "description": "x"})
    _, outcome, asked = _answered(subject, "as-asked", "approve", "--input", given)
    assert (outcome["status"], path.exists(), asked.exists()) == ("completed", True, False), outcome
    return "what ran is what was approved, not what was asked for"


@case("deny and go on", "ask", quick_for=EVERY, otherwise=_no_ask)
def test_deny(subject: Subject) -> str:
    ask, outcome, path = _answered(subject, "denied", "deny")
    assert (outcome["status"], outcome["exit_code"]) == ("completed", 0), outcome
    assert [(denial["by"], denial["call_id"]) for denial in outcome["denials"]] == [("human", ask["call_id"])]
    assert not path.exists()
    return "it did not run, and the turn went on to its answer"


@case("interrupt in a text", "interrupt", quick_for=MAIN_COLUMNS)
def test_interrupt_text(subject: Subject) -> str:
    _warm(subject)
    before = len(subject.events("text.delta"))
    running = _start(subject, SLOW)
    eventually(lambda: "zebra" in "".join(one["text"] for one in subject.events("text.delta")[before:]), WAIT)
    _interrupted(subject, running)
    return "cancelled (exit code 9), and nothing of the turn is left running"


@case("deny and stop", "ask", otherwise=_no_ask)
def test_deny_stop(subject: Subject) -> str:
    _, outcome, path = _answered(subject, "stopped", "deny", "--stop")
    assert (outcome["status"], path.exists()) == ("cancelled", False), outcome
    return "it did not run, and the turn ended as cancelled"


@case("interrupt in a tool", "interrupt")
def test_interrupt_tool(subject: Subject) -> str:
    _warm(subject)
    command, left = _waits()
    running = _running(subject, "in-a-tool", command)
    eventually(lambda: left() != [], WAIT)
    _interrupted(subject, running)
    eventually(lambda: left() == [], what="the command goes on")
    return "cancelled (exit code 9), and the command was ended"


@case("interrupt with an ask open", "interrupt+ask", otherwise=_no_ask)
def test_interrupt_ask(subject: Subject) -> str:
    _warm(subject)
    running, ask, path = _asking(subject, "interrupted")
    _interrupted(subject, running)
    decided = _last(subject, "permission.decided")
    assert (decided["ask_id"], decided["decision"]) == (ask["id"], "cancelled") and not path.exists()
    return "cancelled (exit code 9), the ask too; it did not run, and nothing of the turn is left running"


def _not_told(subject: Subject) -> str:
    _warm(subject)
    running = _running(subject, "not-told", "sleep 3")
    done = subject.cli("send", subject.name, "--steer", "go left", timeout=WAIT)
    assert done.code == 10, done
    assert subject.outcome(running)["status"] == "completed" and "go left" not in subject.last_request()
    return f"exit code 10, and the turn goes on: {done.err.splitlines()[0].removeprefix('beam: ')}"


@case("steer", "steer", otherwise=_not_told)
def test_steer(subject: Subject) -> str:
    _warm(subject)
    running = _running(subject, "told", "sleep 4")
    done = subject.cli("send", subject.name, "--steer", "go left", timeout=WAIT)
    assert done.code == 0 and "the agent has read the text" in done.err, done
    assert subject.outcome(running)["status"] == "completed" and "go left" in subject.last_request()
    return "the running turn was given the text, and it was told as read when the model had it"


@case("another model", "model", otherwise=refused("--model", "other"))
def test_another_model(subject: Subject) -> str:
    _warm(subject)
    other = subject.data.other_model
    new = ("--new",) if subject.name == "gemini" else ()  # its session can't go on in another process
    outcome = _completed(subject, "and now?", "--model", other, *new)
    named = [str(one.body.get("model") or one.path) for one in subject.model.requests if one.asked is not None]
    wanted = other.rpartition("/")[2]
    assert any(wanted in name for name in named[-2:]), named
    return f"the model `{wanted}` was asked" + (", in the same session" if outcome["session"] == "resumed" else "")


@case("image and text", "attach")
def test_warm_image(subject: Subject) -> str:
    _warm(subject)
    picture, note = subject.cli.project / "a pixel.png", subject.cli.project / "note.txt"
    picture.write_bytes(base64.b64decode(PIXEL))
    note.write_text("the text of the note\n")
    sees = ("--model", "qwen3-vl-plus") if subject.name == "qwen" else ()  # by the name it knows that this one does
    before = len(subject.model.requests)
    _completed(subject, "what is in it?", "--new", "--attach", str(picture), "--attach", str(note), *sees)
    sent = json.dumps([request.body for request in subject.model.requests[before:]])
    assert PIXEL[:24] in sent
    if "the text of the note" in sent:
        return "the model was sent the picture and the text"
    assert subject.can.attach == "path" and "note.txt" in sent
    return "the model was sent the picture, and the path of the text"


@case("a run that it began by itself")
def test_own_run(subject: Subject) -> str:
    """What it left running ends between two turns: Claude then begins to work, and no other CLI does."""
    _warm(subject)
    made, released = subject.cli.project / "made-later", subject.cli.project / "go"
    space = subject.cli.project / "pid-namespace"
    command = f"readlink /proc/self/ns/pid > {space}; while [ ! -e {released} ]; do sleep 0.1; done; touch {made}"
    tool = subject.data.background
    # In a session of its own, for some CLIs end the process group of a command once its shell has ended.
    left = f"setsid sh -c {shlex.quote(command)} >/dev/null 2>&1 & sleep 0.5"
    prompt = tool.prompt(command=command) if tool else _command(subject, left)
    running = _start(subject, f"{prompt} !then !say later")
    if subject.can.ask:
        assert subject.cli("approve", first_ask(subject.cli)["id"]).code == 0
    assert subject.outcome(running)["status"] == "completed"
    has_own_pids = not tool and space.read_text().strip() != str(Path("/proc/self/ns/pid").readlink())
    if has_own_pids and not processes_with(str(made)):
        assert "and what now?" in _completed(subject, "and what now?")["reply"]
        return "its sandbox ended what the command left; the next message got its own answer"
    exits = len(subject.events("agent.exited"))
    released.touch()
    eventually(made.exists, WAIT)
    with contextlib.suppress(AssertionError):
        eventually(lambda: len(subject.events("agent.exited")) > exits, 10 if tool else 1)
    ended = subject.events("agent.exited")[exits:]
    outcome = _completed(subject, "and what now?")
    assert "and what now?" in outcome["reply"], outcome
    if ended:
        assert "between two turns" in ended[0]["stopped_by"], ended
        return "its process was ended as soon as it began, and the next message got its own answer, from another one"
    return "it began nothing by itself; the next message got its own answer"


@case("killed in its turn")
def test_warm_kill(subject: Subject) -> str:
    _warm(subject)
    command, left = _waits()
    running = _running(subject, "before-the-kill", command)
    os.kill(int(_last(subject, "agent.started")["pid"]), signal.SIGKILL)
    outcome = subject.outcome(running)
    assert (outcome["status"], outcome["class"]) == ("failed", "crashed"), outcome
    eventually(lambda: left() == [], what="the command goes on")
    assert _completed(subject, "go on")["reply"]
    return "failed (crashed), nothing of it is left, and the next message gets another process"


def _cancelled(subject: Subject, ask: dict[str, Any], path: Path) -> None:
    """The ask is over: no answer reaches anybody, nothing ran, and nothing of the turn is left."""
    decided = _last(subject, "permission.decided")
    assert (decided["ask_id"], decided["decision"]) == (ask["id"], "cancelled")
    assert subject.cli("approve", ask["id"]).code == 4 and not path.exists()
    key = _last(subject, "turn.started")["turn_key"]
    eventually(lambda: processes_with(key) == [], what="the turn left processes")


@case("an ask whose process dies", "ask", otherwise=_no_ask)
def test_ask_process_dies(subject: Subject) -> str:
    _warm(subject)
    running, ask, path = _asking(subject, "process-dies")
    os.kill(int(_last(subject, "agent.started")["pid"]), signal.SIGKILL)
    outcome = subject.outcome(running)
    assert (outcome["status"], outcome["class"]) == ("failed", "crashed"), outcome
    _cancelled(subject, ask, path)
    return "failed (crashed); the ask was cancelled, and it did not run"


@case("an ask whose broker dies", "ask", otherwise=_no_ask)
def test_ask_broker_dies(subject: Subject) -> str:
    _warm(subject)
    running, ask, path = _asking(subject, "broker-dies")
    os.kill(int(_last(subject, "turn.started")["owner"]["pid"]), signal.SIGKILL)
    subject.state["broker"] = False
    outcome = subject.outcome(running)
    assert outcome["status"] == "unknown", outcome
    _cancelled(subject, ask, path)
    return f"{outcome['status']} (exit code {outcome['exit_code']}); the ask was cancelled, and it did not run"


@case("an ask whose holder dies", "ask", otherwise=_no_ask)
def test_ask_holder_dies(subject: Subject) -> str:
    _broker(subject, runs=False)
    running, ask, path = _asking(subject, "holder-dies")
    running.kill()
    running.communicate(timeout=WAIT)
    turn = _last(subject, "turn.started")["turn"]
    _send(subject, "and now?", "--new")
    assert [event["status"] for event in subject.events("turn.finished", turn)] == ["unknown"]
    decided = [(event["ask_id"], event["decision"]) for event in subject.events("permission.decided", turn)]
    assert decided == [(ask["id"], "cancelled")]
    assert subject.cli("approve", ask["id"]).code == 4 and not path.exists()
    return "unknown, said by the next holder; the ask was cancelled, and it did not run"


@case("unknown session id", "resume")
def test_warm_unknown_id(subject: Subject) -> str:
    """The CLI is asked for a session that it has not: in another HOME, where it was never used."""
    _broker(subject, runs=False)
    before = _completed(subject, "remember cherries", "--new")
    asked = len(subject.model.requests)
    words = subject.send_arguments(access=_access(subject))
    done = subject.at_home("elsewhere")(*words, stdin="who are you?", timeout=WAIT)
    outcome = done.json
    assert "cherries" not in str([request.body for request in subject.model.requests[asked:]])
    if outcome["status"] == "completed":
        assert (outcome["session"], outcome["session_id"] != before["session_id"]) == ("lost", True), outcome
        assert len([one for one in subject.model.prompts() if "who are you?" in one]) >= 1
        return "`session: lost`, and the turn ran once, in a new one"
    assert (done.code, outcome["reply"]) in ((1, None), (10, None)), outcome
    return f"exit code {done.code}, and the model was sent nothing of it: {outcome['reason']}"


@case("login required")
def test_login(subject: Subject) -> str:
    _broker(subject, runs=False)
    words = subject.send_arguments("--new", access=_access(subject))
    if subject.data.login:
        done = subject.logged_out()(*words, stdin="hello", timeout=WAIT)
    else:  # it works without a login; its model may want a key
        done = subject.cli(*words, stdin="!error 401", timeout=WAIT)
    outcome = done.json
    assert (done.code, outcome["status"], outcome["class"]) == (1, "failed", "auth"), outcome
    assert len(subject.events("turn.started", outcome["turn"])) == 1
    return f"failed (auth), and not tried again: {outcome['reason']}"
