"""An outcome on stdout and stderr: what is printed for which status, and the one diagnostic."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from beam.cli.context import Context
from beam.cli.printer import Printer, diagnosis, summary
from beam.model import events
from beam.model.outcome import SCREEN, Class, Denial, Outcome, Status, Unfinished, Usage, exit_code


def outcome(status: Status, class_: Class | None = None, **fields: object) -> Outcome:
    code = int(exit_code(status, class_))
    values = {"message_id": "a-1", "agent": "a", "turn": 1, "attempt": 1, "exit_code": code, **fields}
    return Outcome(status=status, class_=class_, **values)  # type: ignore[arg-type]


def printed(value: Outcome, capsys: pytest.CaptureFixture[str], **options: bool) -> tuple[int, str, str]:
    printer = Printer(as_json=options.get("as_json", False), as_events=False, call=Context())
    code = printer.outcome(value)
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.TRUNCATED, Status.REFUSED, Status.DENIED])
def test_an_answer_is_printed(status: Status, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(outcome(status, reply="said"), capsys)
    assert (code, out) == (int(exit_code(status, None)), "said\n")
    assert err.count("\n") == (code != 0)


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED, Status.LIMIT, Status.UNKNOWN])
def test_what_is_no_answer_never_gets_on_stdout(status: Status, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(outcome(status, reply="partial", reason="why"), capsys)
    assert (code != 0, out, err.count("\n")) == (True, "", 1)
    assert err.startswith("beam: a: ")
    assert "why" in err


def test_a_screen_is_printed_as_rows_below_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    reason = f"nothing changed for 8 s{SCREEN}Welcome\n  > 1. Sign in"
    _, _, err = printed(outcome(Status.FAILED, Class.AUTH, reason=reason), capsys)
    first, *rows = err.splitlines()
    assert first.startswith("beam: a: failed (auth): nothing changed for 8 s; ")
    assert rows == ["    | Welcome", "    |   > 1. Sign in"]


def test_as_json_it_is_one_object_and_a_failure_has_its_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(outcome(Status.FAILED, Class.AUTH, reason="no key"), capsys, as_json=True)
    assert (code, json.loads(out)["class"], err.count("\n")) == (1, "auth", 1)


def test_what_a_rule_or_a_person_denied_is_reported_below_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    denials = tuple(Denial(tool="Bash", input=Raw(b'{"command":"make"}'), by=by) for by in ("rule", "ann"))
    code, out, err = printed(outcome(Status.COMPLETED, reply="done", denials=denials), capsys)
    assert (code, out) == (0, "done\n")
    assert "Bash (make) was denied by a rule" in err and "Bash (make) was denied by ann" in err


def test_a_reply_ends_with_one_newline(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(outcome(Status.COMPLETED, reply="x\n"), capsys)[1] == "x\n"
    assert printed(outcome(Status.COMPLETED, reply=""), capsys)[1] == ""


def test_what_a_turn_said_before_it_ran_out_of_time_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(outcome(Status.TIMEOUT, Class.STALLED, reply="All."), capsys)
    assert (code, out) == (3, "All.\n")
    assert "run it again" not in err


def test_a_lost_session_and_blanked_secrets_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = printed(outcome(Status.COMPLETED, reply="x", session="lost", redacted=2), capsys)
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize("options", [{}, {"as_json": True}, {"quiet": True}])
def test_what_an_answer_leaves_undone_is_reported_on_stderr_whatever_is_printed(
    options: dict[str, bool], capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = options.pop("quiet", False)
    left = Unfinished(tool="Bash", call_id="c", input=Raw(b'{"command":"make serve","x":1}'), how="killed")
    printer = Printer(as_json=options.get("as_json", False), as_events=False, call=Context(quiet=quiet))
    assert printer.outcome(outcome(Status.COMPLETED, reply="x", unfinished=(left,))) == 0
    said = capsys.readouterr()
    assert said.err == "beam: a: unfinished when its turn ended: Bash make serve (killed)\n"
    assert not options or json.loads(said.out)["unfinished"] == [
        {"tool": "Bash", "call_id": "c", "input": {"command": "make serve", "x": 1}, "how": "killed"}
    ]


def test_a_diagnosis_names_the_agent_the_class_and_the_next_step() -> None:
    assert diagnosis(outcome(Status.FAILED, Class.AUTH, reason="no key")).startswith("a: failed (auth): no key; log in")
    assert "beam queue retry a-1" in diagnosis(outcome(Status.UNKNOWN))
    assert diagnosis(outcome(Status.TIMEOUT)).endswith("--timeout")
    assert diagnosis(outcome(Status.TIMEOUT, turn=None)).endswith("--deadline")
    assert diagnosis(outcome(Status.CANCELLED, reason="stopped by x")) == "a: cancelled: stopped by x [a-1]"


def test_a_summary_leaves_out_what_nobody_knows() -> None:
    assert summary(outcome(Status.COMPLETED)) == "a turn 1"
    full = outcome(
        Status.COMPLETED, duration_s=1.25, cost_usd=0.5, model="m", usage=Usage(input_tokens=3, output_tokens=0)
    )
    assert summary(full) == "a turn 1 · 1.2 s · 3 in · 0 out · $0.5000 · m"


def test_events_leave_out_what_follows_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer(as_json=False, as_events=True, call=Context())
    finished = events.TurnFinished(attempt=1, status=Status.FAILED, exit_code=1)
    for body in (events.Text(text="t"), finished, events.TurnClosed(attempt=1), events.MessageDead(reason="failed")):
        printer.event(body)
    types = [json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()]
    assert types == ["text", "turn.finished"]
    Printer(as_json=False, as_events=True, call=Context()).event(events.MessageDead(reason="expired"))
    assert json.loads(capsys.readouterr().out)["type"] == "message.dead"


def test_how_to_answer_is_printed_only_for_asks_that_a_person_may_decide(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer(as_json=False, as_events=False, call=Context())
    printer.event(events.PermissionAsked(agent="a", ask_id="a-0abc4k2xyz", tool="Bash", description="ls"))
    assert capsys.readouterr().err == ""
    expires = "2030-01-01T00:00:00Z"
    printer.event(events.PermissionAsked(agent="a", ask_id="a-0abc4k2xyz", tool="Bash", expires=expires))
    assert "beam approve 4k2xyz" in capsys.readouterr().err


@pytest.mark.parametrize("redacted", [0, 2])
def test_removed_secrets_are_counted_only_where_there_were_any(
    redacted: int, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, err = printed(outcome(Status.COMPLETED, reply="done", redacted=redacted), capsys)
    assert ("2 secret(s) were removed" in err, "secret" in err) == (bool(redacted), bool(redacted))
