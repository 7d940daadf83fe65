"""Team events as people read them."""

from __future__ import annotations

import io
from typing import Any

import pytest

from beam.cli.render.stream import Stream
from beam.cli.render.team import ASCII, mail, render, waits
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Usage
from beam.teams.board import MailLine
from beam.teams.stuck import Wait

OF_TEAM = [cls for tag, cls in events.types().items() if tag.partition(".")[0] in ("team", "member", "task", "mail")]
FIELDS: dict[str, Any] = {
    "team": "session-1",
    "ts": "2026-11-21T22:30:14.000000Z",
    "agent": "bob@session-1",
    "member": "bob",
    "what": "plan",
    "request_id": "r",
    "sender": "bob",
    "approved": True,
    "task_id": "1",
    "mail_id": "m",
    "to": "amy",
    "text": "hello \x1b[31mred\x07",
    "subject": "\x1b]0;owned\x07parser",
    "prompt": "\x9b31m",
    "reason": "\x1b[2J",
    "waited_s": 90.0,
    "usage": Usage(input_tokens=1),
    "unpriced": ("\x1b[2Jmodel",),
}


def made(cls: type[Event]) -> Any:
    return cls(**{name: FIELDS[name] for name in cls.__struct_fields__ if name in FIELDS})


@pytest.mark.parametrize("cls", OF_TEAM, ids=lambda cls: cls.__struct_config__.tag)
def test_every_event_of_a_team_is_one_line_in_which_no_escape_sequence_works(cls: type[Event]) -> None:
    out = io.StringIO()
    stream = Stream(out, as_json=False)
    stream.event(made(cls))
    line = out.getvalue()
    assert line.count("\n") == 1 and "bob@1" in line
    assert not [char for char in line if char != "\n" and (char < " " or "\x7f" <= char <= "\x9f")]


@pytest.mark.parametrize("cls", OF_TEAM, ids=lambda cls: cls.__struct_config__.tag)
def test_plain_marks_are_ascii(cls: type[Event]) -> None:
    said = render(made(cls))
    assert said is not None and said[0].translate(ASCII).isascii()


def test_mail_of_the_teams_own_protocol_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {
        "task_assignment": '{"taskId": "1", "subject": "Write parser", "type": "task_assignment"}',
        "idle_notification": '{"idleReason": "available", "summary": "[to bob] ready"}',
        "shutdown_approved": '{"type": "shutdown_approved"}',
        "message": '{"reason": "x"}',
    }
    at = "2026-11-21T22:30:14.000000Z"
    head = {"team": "t", "mail_id": "m", "at": at, "sender": "a", "to": "b", "summary": "", "state": "sent"}
    mail([MailLine(**head, kind=kind, text=text, thread="a · b") for kind, text in texts.items()], by_thread=False)
    assert [line.partition(" (sent) ")[2].rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "[task_assignment] #1 Write parser",
        "[idle_notification] [to bob] ready",
        "[shutdown_approved]",
        '{"reason": "x"}',
    ]


def test_mail_of_a_kind_that_no_other_event_tells_is_shown_and_of_an_unknown_one_all_that_it_carries() -> None:
    head = {"team": "t", "mail_id": "m", "sender": "a", "to": "b"}
    texts = {
        "mode_set_request": ('{"type": "mode_set_request", "mode": "plan", "from": "a"}', '{"mode":"plan"}'),
        "brand_new": ('{"type": "brand_new", "x": [1]}', '{"x":[1]}'),
        "team_permission_update": ('{"type": "team_permission_update", "description": "all may"}', "all may"),
    }
    for kind, (text, words) in texts.items():
        assert render(events.MailSent(**head, kind=kind, text=text)) == ("→", f"b: [{kind}] {words}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"type": "plan_approval_response", "approved": true, "permissionMode": "default"}', "yes"),
        ('{"type": "plan_approval_response", "approved": false, "feedback": "too long"}', "no too long"),
        ('{"type": "permission_response", "request_id": "p", "subtype": "error", "error": "denied"}', "no denied"),
        ('{"type": "sandbox_permission_response", "requestId": "s", "host": "x.org", "allow": true}', "yes"),
    ],
)
def test_an_answer_among_the_mail_says_yes_or_no(capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    head = {"team": "t", "mail_id": "m", "at": FIELDS["ts"], "sender": "a", "to": "b", "summary": "", "state": "sent"}
    mail([MailLine(**head, kind="answer", text=text, thread="a · b")], by_thread=False)
    assert capsys.readouterr().out.endswith(f"[answer] {words}\n")


def test_lost_mail_is_said_in_words_too() -> None:
    frame = '{"type": "task_assignment", "taskId": "1", "subject": "Write parser"}'
    for text, words in ((frame, "[task_assignment] #1 Write parser"), ("hello", "hello"), ('{"x": 1}', '{"x": 1}')):
        lost = events.MailLost(team="t", mail_id="m", sender="a", to="b", why="its inbox was deleted", text=text)
        assert render(lost) == ("†", f"mail to b lost: its inbox was deleted: {words}")


def test_protocol_mail_and_quick_deliveries_are_not_for_people() -> None:
    assert render(events.MailSent(team="t", mail_id="m", sender="a", to="b", kind="idle_notification")) is None
    assert render(events.MailDelivered(team="t", mail_id="m", sender="a", to="b", waited_s=1.0)) is None


def test_a_members_calls_of_the_teams_tools_are_told_by_what_came_of_them() -> None:
    out = io.StringIO()
    stream = Stream(out, as_json=False)
    stream.event(events.ToolCalled(call_id="1", name="SendMessage", agent="bob@t"))
    stream.event(events.ToolReturned(call_id="1", output="ok", agent="bob@t"))
    assert out.getvalue() == ""
    stream.event(events.ToolCalled(call_id="2", name="SendMessage", agent="bob"))
    stream.end()
    assert "SendMessage" in out.getvalue()


def test_a_wait_is_a_row_with_who_waits_for_whom(capsys: pytest.CaptureFixture[str]) -> None:
    since = "2026-11-21T22:30:14.000000Z"
    waits(
        [
            Wait(team="t", who="bob", on="eve", what="an answer", since=since, seconds=700),
            Wait(team="t", who="", on="", what="task #3", since=since, seconds=700),
        ]
    )
    out = capsys.readouterr().out
    assert "bob" in out and "waits for eve" in out and "an answer" in out
    assert "anyone" in out and "task #3" in out
