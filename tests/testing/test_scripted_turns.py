"""The scripted program, called in this process: the frames that each step writes, and the result of a turn."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from beam.testing import scripted
from beam.testing.player import fill_templates


class Stdout(io.TextIOWrapper):
    """A stdout that keeps what is written."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), write_through=True)

    def frames(self) -> list[dict[str, Any]]:
        """The frames that were written since the last call."""
        data = self.buffer.getvalue()  # type: ignore[attr-defined]
        self.buffer.seek(0)
        self.buffer.truncate()
        return [json.loads(line) for line in data.splitlines()]


class Program:
    """Scripts and sessions in a scratch folder."""

    def __init__(self, base: Path, out: Stdout, patch: pytest.MonkeyPatch) -> None:
        self.base, self.out, self._patch = base, out, patch
        self.environ = {"HOME": str(base), "BEAM_PROJECT": str(base), "WHO": "Ann"}

    def script(self, text: str) -> None:
        (self.base / "play.yaml").write_text(text)

    def __call__(self, prompt: str = "hi", *argv: str) -> tuple[int, list[dict[str, Any]]]:
        """Runs one turn; the exit code and the frames."""
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(prompt.encode())))
        return self.main("play.yaml", *argv)

    def main(self, *argv: str) -> tuple[int, list[dict[str, Any]]]:
        """Runs the program with these arguments; the exit code and the frames."""
        self._patch.setattr(sys, "stdout", self.out)
        code = scripted.main(list(argv), self.environ)
        return code, self.out.frames()

    def steps(self, text: str) -> list[dict[str, Any]]:
        """The frames of a reply of these steps, without the first and the last one."""
        self.script(f"default: [{text}]")
        return self()[1][1:-1]

    def result(self, text: str) -> tuple[int, dict[str, Any]]:
        """The exit code and the last frame of a reply of these steps."""
        self.script(f"default: [{text}]")
        code, frames = self()
        assert frames[-1].pop("frame") == "result"
        return code, frames[-1]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(tmp_path, Stdout(), monkeypatch)


def test_a_turn_begins_with_its_session_and_ends_with_its_result(program: Program) -> None:
    program.script("default: [text: 'you said {prompt} in turn {turn}, {env.WHO}']")
    code, (init, text, result) = program("hello", "--session-id", "s1", "--model", "m1")
    assert code == 0
    assert (init["frame"], init["session_id"], init["resumed"], init["turn"], init["model"]) == (
        "init",
        "s1",
        False,
        1,
        "m1",
    )
    assert text["text"] == "you said hello in turn 1, Ann"
    assert (result["status"], result["reply"]) == ("completed", text["text"])


def test_a_session_goes_on_and_an_unknown_one_is_lost(program: Program) -> None:
    program.script("replies: [[text: one], [text: two]]")
    program("hi", "--session-id", "s1")
    code, frames = program("hi", "--resume", "s1")
    assert (code, frames[0]["resumed"], frames[0]["turn"], frames[-1]["reply"]) == (0, True, 2, "two")
    code, (lost,) = program("hi", "--resume", "other")
    assert (code, lost) == (1, {"frame": "lost", "session_id": "other"})


def test_a_once_turn_keeps_no_session(program: Program) -> None:
    program.script("default: [text: one]")
    assert program("hi", "--session-id", "s1", "--once")[0] == 0
    assert program("hi", "--resume", "s1")[0] == 1


def test_a_prompt_without_a_reply_fails_the_turn(program: Program) -> None:
    program.script("rules: [{match: one, reply: [text: first]}]")
    assert program("one")[1][-1]["reply"] == "first"
    code, frames = program("two")
    assert (code, frames[-1]["status"], frames[-1]["class"]) == (1, "failed", "bad_request")
    assert "no rule of play.yaml matches the prompt" in frames[-1]["reason"]


def test_bad_arguments_and_missing_scripts_fail_the_turn(program: Program) -> None:
    for argv in (["--nonsense"], ["a", "b"], [], ["missing.yaml"]):
        code, (result,) = program.main(*argv)
        assert code == 1 and (result["status"], result["class"]) == ("failed", "bad_request")


def test_a_forgotten_session_is_lost_in_the_next_turn(program: Program) -> None:
    program.script("default:\n- lose_session: true\n- text: bye\n")
    assert program("hi", "--session-id", "s1")[0] == 0
    assert program("hi", "--resume", "s1")[1][0]["frame"] == "lost"


def test_texts_come_whole_in_pieces_and_at_length(program: Program) -> None:
    assert program.steps("text: all") == [{"frame": "text", "text": "all"}]
    assert program.steps("delta: some") == [{"frame": "delta", "text": "some"}]
    assert program.steps("stream: {text: abcde, chunk: 2}") == [
        *({"frame": "delta", "text": piece} for piece in ("ab", "cd", "e")),
        {"frame": "text", "text": "abcde"},
    ]
    assert program.steps("big: 5") == [{"frame": "text", "text": "xxxxx"}]
    assert program.steps("think: hm") == [{"frame": "thinking", "text": "hm"}]


def test_calls_are_numbered_and_return_unless_they_are_unfinished(program: Program) -> None:
    call, progress, result = program.steps("tool: {name: Bash, input: {a: 1}, progress: half, output: done}")
    assert call == {"frame": "tool_call", "id": "call-1", "name": "Bash", "input": {"a": 1}}
    assert progress == {"frame": "tool_progress", "id": "call-1", "text": "half"}
    assert result == {"frame": "tool_result", "id": "call-1", "output": "done", "is_error": False}
    calls = program.steps("{tool: {name: A, unfinished: true}}, {tool: {name: B, is_error: true}}")
    assert [(each["frame"], each["id"]) for each in calls] == [
        ("tool_call", "call-1"),
        ("tool_call", "call-2"),
        ("tool_result", "call-2"),
    ]
    assert calls[-1]["is_error"] is True


def test_figures_are_told_with_what_was_told_before(program: Program) -> None:
    usage, cost = program.steps("{usage: {input_tokens: 3}}, {cost_usd: 0.5}")
    assert (usage["usage"], usage["cost_usd"]) == ({"input_tokens": 3}, None)
    assert (cost["usage"], cost["cost_usd"]) == ({"input_tokens": 3}, 0.5)


@pytest.mark.parametrize(
    ("step", "code", "expected"),
    [
        ("silent: true", 0, {"status": "completed", "reply": ""}),
        ("truncate: true", 1, {"status": "truncated", "reason": "the answer was cut off at the output limit"}),
        ("refuse: never", 1, {"status": "refused", "reason": "never"}),
        ("limit: too much", 1, {"status": "limit", "reason": "too much"}),
        ("fail: {class: auth, reason: bad key}", 1, {"status": "failed", "class": "auth", "reason": "bad key"}),
        ("deny: {tool: Bash}", 1, {"status": "denied", "reason": "Bash was denied"}),
        ("deny: {tool: Bash, by: Ann}", 0, {"status": "completed"}),
    ],
)
def test_a_turn_ends_as_its_step_says(program: Program, step: str, code: int, expected: dict[str, Any]) -> None:
    found, result = program.result("{" + step + "}, {text: after}")
    assert found == code
    assert {key: result[key] for key in expected} == expected
    is_over = expected["status"] != "completed" or step.startswith("silent")
    assert (result["reply"] == "after") is not is_over


def test_a_denial_is_in_the_result(program: Program) -> None:
    _, result = program.result("{deny: {tool: Bash, input: {a: 1}, by: Ann}}")
    assert result["denials"] == [{"tool": "Bash", "input": {"a": 1}, "by": "Ann"}]


def test_templates_are_filled_everywhere_and_unknown_variables_are_empty() -> None:
    value = {"a": ["{prompt}", 1], "b": "{env.A}{env.B}"}
    assert fill_templates(value, {"prompt": "hi"}, {"A": "x"}) == {"a": ["hi", 1], "b": "x"}


def test_a_damaged_session_file_is_no_session(program: Program) -> None:
    program.script("default: [text: one]")
    program("hi", "--session-id", "s1")
    scripted.session_file("s1", program.environ).write_text("{")
    code, frames = program("hi", "--resume", "s1")
    assert (code, frames[-1]["frame"]) == (1, "lost")
