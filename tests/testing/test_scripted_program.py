"""The program of scripted agents, run as a process and read through the adapter's decoder."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from beam.agents.base import Exit, Host, Turn, Verdict
from beam.agents.scripted import exec as headless
from beam.agents.scripted.frames import decoder as decoder_of
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Denial, Status, Usage
from beam.model.settings import AgentSettings

pytestmark = pytest.mark.acceptance
HOST = Host(python=sys.executable)


class Program:
    """Runs turns of one agent in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        self.environ.pop("BEAM_PROJECT", None)

    def start(self, text: str = "hi", *, script: str = "s.yaml", **fields: Any) -> subprocess.Popen[bytes]:
        settings = AgentSettings(adapter="scripted", script=script)
        launch = headless.launch(Turn(text=text, message_id="m", agent="tester", settings=settings, **fields), HOST)
        pipe = subprocess.PIPE
        process = subprocess.Popen(launch.argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self.folder, env=self.environ)
        assert process.stdin is not None
        process.stdin.write(launch.stdin or b"")
        process.stdin.close()
        process.stdin = None
        return process

    def finish(self, process: subprocess.Popen[bytes]) -> tuple[list[Event], Verdict, int, str]:
        out, err = process.communicate(timeout=20)
        code = process.returncode
        exit = Exit(signal=signal.Signals(-code).name) if code < 0 else Exit(code=code)
        bodies, verdict = decoded(out.splitlines(), exit)
        return bodies, verdict, code, err.decode()

    def play(self, reply: str, text: str = "hi", **fields: Any) -> tuple[list[Event], Verdict, int, str]:
        """One turn of a script whose only reply is this YAML."""
        (self.folder / "s.yaml").write_text(f"replies:\n  - {reply}\n")
        return self.finish(self.start(text, **fields))

    def turn(self, text: str = "hi", **fields: Any) -> tuple[list[Event], Verdict]:
        bodies, verdict, _, _ = self.finish(self.start(text, **fields))
        return bodies, verdict


def decoded(lines: Sequence[bytes], exit: Exit) -> tuple[list[Event], Verdict]:
    decoder = decoder_of(Turn(text="", message_id="m", agent="tester"))
    bodies = [body for line in lines for body in decoder.line(line)]
    last, verdict = decoder.end(exit)
    return [*bodies, *last], verdict


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def bare(bodies: list[Event]) -> list[Event]:
    """The events after the first, without their raw lines."""
    import msgspec

    return [
        msgspec.structs.replace(body, raw=msgspec.UNSET) if "raw" in body.__struct_fields__ else body
        for body in bodies[1:]
    ]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("hello", [events.Text(text="hello")]),
        ("{delta: he}", [events.TextDelta(text="he")]),
        (
            "{stream: {text: abcde, chunk: 2, delay: 0.001}}",
            [*(events.TextDelta(text=text) for text in ("ab", "cd", "e")), events.Text(text="abcde")],
        ),
        ("{think: hm}", [events.Thinking(text="hm")]),
        ("{delay: 0.001}", []),
        (
            "{tool: {name: ls, input: [1], output: a, progress: half, is_error: true}}",
            [
                events.ToolCalled(call_id="call-1", name="ls", input=events.Raw(b"[1]")),
                events.ToolProgress(call_id="call-1", text="half"),
                events.ToolReturned(call_id="call-1", output="a", is_error=True),
            ],
        ),
        ("{tool: {name: ls, unfinished: true}}", [events.ToolCalled(call_id="call-1", name="ls")]),
        (
            "{run: [sh, -c, 'echo $0 $BEAM_X; exit 3', '{prompt}']}",
            [
                events.ToolCalled(
                    call_id="call-1",
                    name="run",
                    input=events.Raw(b'{"argv":["sh","-c","echo $0 $BEAM_X; exit 3","hi"]}'),
                ),
                events.ToolReturned(call_id="call-1", output="hi there\n", is_error=True),
            ],
        ),
        ("{plan: [a]}", [events.PlanUpdated(steps=(events.PlanStep(text="a"),))]),
        ("{file: {path: a.py, kind: add}}", [events.FileChanged(path="a.py", kind="add")]),
        (
            "{status: {state: retrying, attempt: 1, of: 2, class: network}}",
            [events.StatusChanged(state="retrying", attempt=1, of=2, class_=Class.NETWORK)],
        ),
        ("{usage: {input_tokens: 3}}", [events.UsageSeen(usage=Usage(input_tokens=3))]),
        ("{cost_usd: 0.5}", [events.UsageSeen(usage=Usage(), cost_usd=0.5)]),
        ("{garbage: [a, !!binary /w==]}", [events.Unknown(what="not JSON"), events.Unknown(what="not JSON")]),
        ("{big: 1000000}", [events.Text(text="x" * 1_000_000)]),
        ("[]", []),
    ],
)
def test_each_step_says_what_it_should_and_the_turn_completes(
    program: Program, reply: str, expected: list[Event]
) -> None:
    program.environ["BEAM_X"] = "there"
    bodies, verdict, code, err = program.play(reply)
    assert bare(bodies) == expected
    assert (verdict.status, code, err) == (Status.COMPLETED, 0, "")
    texts = [body.text for body in expected if isinstance(body, events.Text)]
    assert verdict.reply == (texts[-1] if texts else "")


@pytest.mark.parametrize(
    ("reply", "status", "class_", "reason", "said"),
    [
        ("[a, {silent: true}, b]", Status.COMPLETED, None, None, ""),
        ("[a, {refuse: never}, b]", Status.REFUSED, None, "never", "a"),
        ("[a, {truncate: true}]", Status.TRUNCATED, None, "the answer was cut off at the output limit", "a"),
        ("[a, {limit: 3 turns}]", Status.LIMIT, None, "3 turns", "a"),
        ("[a, {fail: why}]", Status.FAILED, Class.UNKNOWN, "why", None),
        ("[{fail: {class: auth, reason: no key}}]", Status.FAILED, Class.AUTH, "no key", None),
        ("[a, {deny: rm}, b]", Status.DENIED, None, "rm was denied", "a"),
        ("[a, {deny: {tool: rm, by: rule}}, b]", Status.COMPLETED, None, None, "b"),
    ],
)
def test_a_turn_ends_as_the_script_says(
    program: Program, reply: str, status: Status, class_: Class | None, reason: str | None, said: str | None
) -> None:
    _, verdict, code, _ = program.play(reply)
    assert (verdict.status, verdict.class_, verdict.reason, verdict.reply) == (status, class_, reason, said)
    assert code == (0 if status is Status.COMPLETED else 1)


def test_denials_are_listed(program: Program) -> None:
    _, verdict, _, _ = program.play("{deny: {tool: rm, input: {path: a}}}")
    assert verdict.denials == (Denial(tool="rm", input=events.Raw(b'{"path":"a"}')),)


@pytest.mark.parametrize(("how", "code"), [("SIGKILL", -9), ("SIGINT", -2), ("SIGTERM", -15), ("3", 3), ("0", 0)])
def test_a_crash_leaves_no_result(program: Program, how: str, code: int) -> None:
    _, verdict, got, _ = program.play(f"[a, {{stderr: ouch}}, {{crash: {how}}}]")
    assert (verdict.status, verdict.class_, got) == (Status.FAILED, Class.CRASHED, code)


def test_stderr_is_written_there(program: Program) -> None:
    assert program.play("{stderr: ouch}")[3] == "ouch\n"


def test_lines_that_are_no_frames_are_written_as_they_are(program: Program) -> None:
    (program.folder / "s.yaml").write_text("replies: [{garbage: [a, !!binary /w==]}]\n")
    out, _ = program.start().communicate(timeout=20)
    assert out.splitlines()[1:3] == [b"a", b"\xff"]


def test_a_program_left_in_the_background_does_not_hold_the_turn(program: Program) -> None:
    bodies, verdict, _, _ = program.play("{run: [sh, -c, 'sleep 20 & echo $!']}")
    returned = bodies[-1]
    assert isinstance(returned, events.ToolReturned)
    os.kill(int(returned.output), signal.SIGKILL)
    assert verdict.status is Status.COMPLETED


def hang(program: Program, reply: str, until: bytes) -> tuple[subprocess.Popen[bytes], bytes]:
    """The program once it wrote a line with `until`, and what it wrote so far."""
    (program.folder / "s.yaml").write_text(f"replies: [{reply}]\n")
    process = program.start()
    assert process.stdout is not None
    lines = b""
    while until not in lines:
        line = process.stdout.readline()
        assert line, process.communicate()[1].decode()
        lines += line
    return process, lines


@pytest.mark.parametrize("step", ["hang: true", "delay: 60", "tool: {name: ls, delay: 60}"])
def test_an_interrupt_ends_it_politely_with_what_it_said(program: Program, step: str) -> None:
    process, lines = hang(program, f"[half, {{{step}}}]", b"half")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    _, verdict = decoded((lines + out).splitlines(), Exit(code=process.returncode))
    assert (verdict.status, verdict.reply, process.returncode, err) == (Status.CANCELLED, "half", 130, b"")


def test_a_stubborn_one_lives_through_signals_until_it_is_killed(program: Program) -> None:
    process, _ = hang(program, "[{hang: true, stubborn: true}]", b"hanging")
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert not select.select([process.stdout], [], [], 0.1)[0]
    assert process.poll() is None
    process.kill()
    process.communicate(timeout=20)


def test_a_resumed_session_goes_on_where_it_was(program: Program) -> None:
    (program.folder / "s.yaml").write_text("replies: ['{turn} {session}', 'second {turn} {session}']\n")
    _, first = program.turn(fresh_session_id="f-1")
    assert (first.reply, first.session_id, first.session) == ("1 f-1", "f-1", "new")
    bodies, second = program.turn(session_id="f-1")
    assert (second.reply, second.session_id, second.session) == ("second 2 f-1", "f-1", "resumed")
    assert isinstance(bodies[0], events.SessionStarted) and bodies[0].resumed


def test_a_turn_that_crashed_counts(program: Program) -> None:
    (program.folder / "s.yaml").write_text("replies: [{crash: SIGKILL}, better]\n")
    _, first = program.turn(fresh_session_id="f-1")
    assert (first.class_, first.session_id) == (Class.CRASHED, "f-1")
    assert program.turn(session_id="f-1")[1].reply == "better"


@pytest.mark.parametrize("gone", ["never-was", "../../etc/passwd", "a\nb"])
def test_a_session_that_is_not_there_is_lost_and_nothing_is_played(program: Program, gone: str) -> None:
    bodies, verdict, code, _ = program.play("hello", session_id=gone)
    assert [type(body) for body in bodies] == [events.SessionLost]
    assert (verdict.session, code) == ("lost", 1)


def test_a_script_can_lose_its_session(program: Program) -> None:
    (program.folder / "s.yaml").write_text("replies: [[a, {lose_session: true}]]\n")
    assert program.turn(fresh_session_id="f-1")[1].reply == "a"
    assert program.turn(session_id="f-1")[1].session == "lost"


def test_a_throw_away_session_leaves_nothing(program: Program) -> None:
    assert program.play("hello", once=True)[1].reply == "hello"
    assert not (program.folder / "state").exists()


@pytest.mark.parametrize("fields", [{"fresh_session_id": "f-1"}, {"session_id": "f-1"}])
def test_a_session_that_cannot_be_kept_is_a_failure_not_a_lost_session(
    program: Program, fields: dict[str, Any]
) -> None:
    (program.folder / "state").write_text("a file where a directory should be\n")
    _, verdict, _, err = program.play("hello", **fields)
    assert (verdict.status, verdict.session, err) == (Status.FAILED, None, "")
    assert verdict.reason is not None
    assert verdict.reason.startswith("the session can't be kept: ")


def test_the_model_is_the_senders_the_scripts_or_scripted(program: Program) -> None:
    (program.folder / "s.yaml").write_text("model: tiny\nreplies: ['{model} {agent} {from}']\n")
    assert program.turn(model="big", sender="me")[1].reply == "big tester me"
    assert program.turn()[1].model == "tiny"
    assert program.play("a")[1].model == "scripted"


def test_the_prompt_comes_through_whole_bytes_that_are_not_utf8_aside(program: Program) -> None:
    text = "-x {turn}\0ü\n" + "y" * 200_000
    assert program.play('"{prompt}"', text)[1].reply == text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("replies: [{tex: a}]", "s.yaml: replies[0]: unknown key 'tex' (did you mean 'text'?)"),
        ("replies: [", "s.yaml is not YAML"),
        ("rules: [{match: '^x', reply: a}]", "no rule of s.yaml matches the prompt"),
        (None, "no script "),
    ],
)
def test_a_wrong_script_is_a_bad_request_that_says_where(program: Program, content: str | None, said: str) -> None:
    if content is not None:
        (program.folder / "s.yaml").write_text(content)
    _, verdict = program.turn()
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.BAD_REQUEST)
    assert verdict.reason is not None
    assert said in verdict.reason


def test_a_path_is_relative_to_the_project_folder(program: Program, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("replies: [found]\n")
    program.folder = tmp_path / "elsewhere"
    program.folder.mkdir()
    program.environ["BEAM_PROJECT"] = str(tmp_path)
    assert program.turn()[1].reply == "found"


def test_modules_that_lie_in_the_agents_folder_are_not_run(program: Program) -> None:
    (program.folder / "yaml.py").write_text("raise SystemExit('taken over')\n")
    assert program.play("fine")[1].reply == "fine"


def test_the_demo_answers_with_what_it_was_told(program: Program) -> None:
    bodies, verdict = program.turn("hello there", script="demo")
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "You said: hello there")
    assert {type(body) for body in bodies} >= {
        events.Thinking,
        events.ToolCalled,
        events.ToolReturned,
        events.TextDelta,
    }


def test_planner_and_reviewer_settle_it_in_three_exchanges_and_fall_silent(program: Program) -> None:
    sessions: dict[str, str | None] = {"planner": None, "reviewer": None}
    said, prompt, names = list[str](), "How should our client retry?", ["planner", "reviewer"] * 4
    for name in names:
        fields = {"session_id": sessions[name]} if sessions[name] else {"fresh_session_id": f"{name}-1"}
        _, verdict = program.turn(prompt, script=name, **fields)
        sessions[name] = verdict.session_id
        assert verdict.status is Status.COMPLETED
        assert verdict.reply is not None
        if not verdict.reply:
            break
        said.append(verdict.reply)
        prompt = verdict.reply
    assert len(said) == 6
    assert "done" in said[-1]
    assert name == "planner"


def test_the_example_of_the_docs_does_what_the_docs_say(program: Program) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "scripted.md").read_text()
    example = re.search(r"<!-- example -->\n```yaml\n(.*?)```", docs, re.DOTALL)
    assert example is not None
    (program.folder / "s.yaml").write_text(example[1])
    bodies, first = program.turn(fresh_session_id="f-1")
    assert (first.reply, first.model) == ("Turn 1: one test fails.", "tiny-1")
    assert first.usage == Usage(input_tokens=120, output_tokens=9)
    assert [body.is_error for body in bodies if isinstance(body, events.ToolReturned)] == [True]
    assert program.turn("again", session_id="f-1")[1].reply == "Turn 2: all green. You said: again"
    refused = program.turn("please DEPLOY", session_id="f-1")[1]
    assert (refused.status, refused.reason) == (Status.REFUSED, "I do not deploy on Fridays.")


# -- it stays ----------------------------------------------------------------------------------------------------------


class Served:
    """The program as it stays: orders in, frames out."""

    def __init__(self, place: Path, reply: str, *options: str) -> None:
        (place / "s.yaml").write_text(reply)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "beam.testing.scripted", "./s.yaml", *options, "--serve"],
            cwd=place, env={"PATH": os.environ["PATH"], "HOME": str(place)}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.until("ready")

    def order(self, do: str, **fields: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
        self.process.stdin.flush()

    def until(self, frame: str) -> dict[str, Any]:
        """Return the next frame of that kind."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found: dict[str, Any] = json.loads(line)
            if found["frame"] == frame:
                return found
        raise AssertionError(f"no {frame}")

    def turn(self, text: str) -> str:
        self.order("prompt", text=text)
        return str(self.until("result")["reply"])

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err


def test_one_that_stays_plays_turn_after_turn_of_one_session(tmp_path: Path) -> None:
    served = Served(tmp_path, "replies: ['{turn} {prompt} {from}']", "--session-id", "s1")
    assert [served.turn(word) for word in ("one", "two")] == ["1 one ", "2 two "]
    assert served.end() == (0, "")
    again = Served(tmp_path, "replies: ['{turn} {prompt}']", "--resume", "s1")
    assert again.turn("three") == "3 three"
    assert again.end() == (0, "")


def test_one_that_stays_says_that_it_has_no_such_session_and_ends(tmp_path: Path) -> None:
    served = Served(tmp_path, "replies: [hi]", "--resume", "s2")
    served.order("prompt", text="x")
    assert served.until("lost")["session_id"] == "s2"
    assert served.process.wait(30) == 1, "it ends by itself: the end of its stdin would interrupt the turn"
    assert served.end() == (1, "")


def test_one_that_stays_takes_interrupts_and_goes_on(tmp_path: Path) -> None:
    served = Served(tmp_path, "rules: [{match: wait, reply: [so far, {hang: true}]}]\ndefault: 'turn {turn}'")
    for _ in range(2):
        served.order("prompt", text="wait")
        assert served.until("status")["state"] == "hanging"
        served.order("interrupt")
        result = served.until("result")
        assert (result["status"], result["reply"]) == ("cancelled", "so far")
    served.order("interrupt")
    assert served.turn("hi") == "turn 3"
    assert served.end() == (0, "")


def test_one_that_stays_is_told_more_while_it_works(tmp_path: Path) -> None:
    served = Served(tmp_path, "rules: [{match: hang, reply: [{hang: true}]}]\ndefault: [{listen: true}, '{steered}!']")
    served.order("steer", id="a", text="too early")
    assert served.until("answer") == {
        "frame": "answer", "id": "a", "ok": False, "code": "failed", "message": "no turn runs that could take a text",
    }  # fmt: skip
    served.order("prompt", text="x")
    served.until("init")
    served.order("steer", id="b", text="left")
    assert served.until("answer") == {"frame": "answer", "id": "b", "ok": True}
    assert served.until("result")["reply"] == "left!"
    served.order("prompt", text="hang")
    served.until("status")
    served.order("steer", id="c", text="never")
    served.order("interrupt")
    assert (answer := served.until("answer"))["ok"] is False and answer["code"] == "unfinished"
    assert served.end() == (0, "")


def test_one_that_stays_takes_another_model_and_tells_it(tmp_path: Path) -> None:
    served = Served(tmp_path, "replies: ['{model}']", "--model", "small")
    assert served.turn("x") == "small"
    served.order("set", id="a", name="model", value="big")
    assert served.until("answer")["ok"] is True
    assert served.turn("x") == "big"
    served.order("query", id="b", name="models")
    assert served.until("answer")["result"] == ["big"]
    for do in ("set", "query"):
        served.order(do, id="c", name="colour")
        assert served.until("answer")["code"] == "unsupported"
    assert served.end() == (0, "")
