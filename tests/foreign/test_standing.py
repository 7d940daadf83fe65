"""The living processes and their sessions, from made places and processes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec import Raw, structs

from beam.foreign import standing as module
from beam.foreign.programs import Program
from beam.foreign.standing import ForeignStatus, running_sessions
from beam.model import events
from beam.model.outcome import Usage

RECORDINGS = Path(__file__).parents[1] / "recordings" / "sessions"
SPARE = Program(
    adapter="claude", pid=4_000_001, parent=1, folder="/p", since_ns=1, start_ticks=77, argv=("claude",), is_spare=True
)


def stands(monkeypatch: pytest.MonkeyPatch, home: Path, *running: Program) -> list[ForeignStatus]:
    monkeypatch.setattr(module, "programs", lambda: list(running))
    return running_sessions({"HOME": str(home)})


def register(home: Path, *, start: str = "77", status: str = "busy") -> None:
    path = home / ".claude" / "sessions" / f"{SPARE.pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"pid": SPARE.pid, "sessionId": "5e55", "procStart": start, "status": status, "statusUpdatedAt": 1_000}
    path.write_text(json.dumps(said))


def test_a_spare_process_of_claude_stands_once_a_background_job_has_taken_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    assert stands(monkeypatch, tmp_path, SPARE) == []
    register(tmp_path)
    (line,) = stands(monkeypatch, tmp_path, SPARE)
    assert (line.session_id, line.state, line.is_asking) == ("5e55", "working", False)
    register(tmp_path, status="waiting")
    (line,) = stands(monkeypatch, tmp_path, SPARE)
    assert (line.state, line.is_asking) == ("asking", True)


@pytest.mark.parametrize("start", ["78", "0"])
def test_a_register_of_an_earlier_process_with_the_same_id_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: str
) -> None:
    register(tmp_path, start=start)
    assert stands(monkeypatch, tmp_path, SPARE) == []


@pytest.mark.parametrize("start", ["", "-1", "9" * 40, "77x"])
def test_a_register_that_names_no_time_is_believed_by_its_process_id(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: str
) -> None:
    register(tmp_path, start=start)
    assert [line.session_id for line in stands(monkeypatch, tmp_path, SPARE)] == ["5e55"]


@pytest.mark.slow
@pytest.mark.parametrize(("cli", "path"), [("copilot", ".copilot/session-state/s1/events.jsonl")])
def test_a_session_asks_from_its_request_until_its_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cli: str, path: str
) -> None:
    lines = (RECORDINGS / "copilot-1.0.102" / "approved.jsonl").read_bytes().splitlines(keepends=True)
    asked = next(at for at, line in enumerate(lines) if b'"permission.requested"' in line)
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    one = structs.replace(SPARE, adapter=cli, folder="/tmp/rec/copilot/project", is_spare=False)

    def line_after(count: int) -> ForeignStatus:
        file.write_bytes(b"".join(lines[:count]))
        (line,) = stands(monkeypatch, tmp_path, one)
        return line

    assert (line_after(asked).state, line_after(asked).is_asking) == ("working", False)
    asking = line_after(asked + 1)
    assert (asking.state, asking.is_asking) == ("asking", True) and "touch made" in asking.doing
    assert (line_after(asked + 2).state, line_after(asked + 2).is_asking) == ("working", False)
    assert line_after(len(lines)).state == "idle"


def test_of_a_cli_whose_files_never_say_that_it_asks_nobody_knows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert [
        line.is_asking for line in stands(monkeypatch, tmp_path, structs.replace(SPARE, adapter="pi", is_spare=False))
    ] == [None]


def test_an_answer_after_the_end_of_a_turn_begins_no_work() -> None:
    line = ForeignStatus(cli="copilot", pid=os.getpid(), folder="/p", since="1970")
    line.apply_event(events.PermissionAsked(ts="1", ask_id="a", tool="shell"))
    line.apply_event(events.SessionIdle(ts="2"))
    line.apply_event(events.PermissionDecided(ts="3", ask_id="a", decision="cancelled"))
    assert line.state == "idle"


@pytest.mark.parametrize(
    ("event", "state", "doing", "prompt"),
    [
        (events.SessionPrompted(text="do\n it"), "working", "", "do it"),
        (events.ToolCalled(call_id="c", name="Bash", input=Raw(b'{"a":1}')), "working", 'Bash {"a":1}', "before"),
        (events.ToolReturned(call_id="c"), "working", "did", "before"),
        (events.Thinking(text="x"), "working", "did", "before"),
        (events.Text(text="x" * 300), "working", "x" * 200, "before"),
        (events.PermissionAsked(ask_id="a", tool="Bash", input=Raw(b"{}")), "asking", "Bash {}", "before"),
        (events.PermissionDecided(ask_id="a", decision="deny"), "idle", "did", "before"),
        (events.SessionIdle(), "idle", "did", "before"),
        (events.Notice(text="x"), "idle", "did", "before"),
    ],
)
def test_each_event_of_a_session_says_what_its_process_does(
    event: events.Event, state: str, doing: str, prompt: str
) -> None:
    line = ForeignStatus(cli="x", pid=1, folder="/", since="", state="idle", doing="did", prompt="before")
    line.apply_event(structs.replace(event, ts="t1"))
    assert (line.state, line.doing, line.prompt) == (state, doing, prompt)
    assert line.state_since == ("" if state == "idle" else "t1")
    line.apply_event(structs.replace(event, ts="t2"))
    assert line.state_since == ("" if state == "idle" else "t1")


@pytest.mark.parametrize(
    ("usage", "cost_usd", "model", "expected"),
    [
        (Usage(input_tokens=1, cached_tokens=2, cache_write_tokens=3, output_tokens=4), 0.5, "m", (10, 0.5, False)),
        (Usage(input_tokens=1), None, None, (1, None, False)),
        (Usage(), None, "no-such-model", (None, None, False)),
        (Usage(input_tokens=1), None, "priced", (1, 0.25, True)),
    ],
)
def test_a_turn_that_ended_says_what_it_used(
    usage: Usage, cost_usd: float | None, model: str | None, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "estimated_usd", lambda name, _: 0.25 if name == "priced" else None)
    line = ForeignStatus(cli="x", pid=1, folder="/", since="", is_estimate=True, cost_usd=9.0)
    line.apply_event(events.SessionIdle(usage=usage, cost_usd=cost_usd, model=model))
    assert (line.tokens, line.cost_usd, line.is_estimate) == expected
