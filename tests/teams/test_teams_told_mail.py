"""The complete events of a team's mail, and of the lines of its members' transcripts."""

from __future__ import annotations

from typing import Any

import pytest

from beam.agents.claude.history import read
from beam.teams import mail as mail_module
from beam.teams.model import Mail, Member
from tests.teams.teams_told import BOB, LEAD, H, S, T, hook, line, roster, started, tags, told


def test_a_message_is_told_whole_when_it_comes_and_when_it_is_taken() -> None:
    diff, team = started(BOB)
    mail = Mail(id="m", sender="ann", text="hello", summary="greets", sent_ns=3 * S, colour="red")
    assert told(diff.inbox(H, T, "bob", [mail], 4 * S)) == [
        (
            '00:03 mail.sent ann sent/bob/m files mail_id="m" from="ann" to="bob" text="hello" summary="greets" '
            'colour="red"'
        )
    ]
    assert [(one.mail.id, one.to, one.at_ns) for one in team.post.waiting] == [("m", "bob", 3 * S)]
    assert told(diff.inbox(H, T, "bob", [], 5 * S + 1_234_567)) == [
        '00:05.001234 mail.delivered bob delivered/bob/m files mail_id="m" from="ann" to="bob" waited_s=2.001',
        '00:05.001234 member.working bob working/bob/5001 files member="bob" why="mail"',
    ]
    assert (team.post.waiting, [one.mail.id for one in team.post.letters]) == ([], ["m"])
    assert team.post.inboxes() == ["bob"]


def test_a_message_without_a_time_was_sent_when_it_was_seen_and_taken_no_earlier() -> None:
    diff, _ = started(BOB)
    assert told(diff.inbox(H, T, "team-lead", [Mail(id="m", sender="ann", text="hello")], 4 * S)) == [
        '00:04 mail.sent ann sent/team-lead/m files mail_id="m" from="ann" to="team-lead" text="hello"'
    ]
    assert told(diff.inbox(H, T, "team-lead", [], 3 * S)) == [
        (
            '00:04 mail.delivered team-lead delivered/team-lead/m files mail_id="m" from="ann" to="team-lead" '
            "waited_s=0.0"
        )
    ]


def test_letters_are_listed_by_their_times() -> None:
    diff, team = started(BOB)
    diff.inbox(H, T, "bob", [Mail(id=f"m{at}", sender="ann", text=str(at), sent_ns=at * S) for at in (5, 3, 4)], 9 * S)
    assert [one.mail.id for one in team.post.letters] == ["m3", "m4", "m5"]
    assert [one.mail.id for one in team.post.waiting] == ["m3", "m4", "m5"]


def test_a_message_that_its_receivers_transcript_told_first_is_the_one_in_the_inbox() -> None:
    diff, team = started(BOB)
    text = '<teammate-message teammate_id="human" summary="s">\nhi\n</teammate-message>'
    assert told(diff.line(team, "bob", line(3, content=text))) == [
        '00:03 member.working bob working/bob/3000 transcript member="bob" why="transcript"',
        (
            '00:03 mail.sent human sent/bob/~08cafc3bbaab52fb transcript mail_id="~08cafc3bbaab52fb" '
            'from="human" to="bob" text="hi" summary="s"'
        ),
        (
            '00:03 mail.delivered bob delivered/bob/~08cafc3bbaab52fb transcript mail_id="~08cafc3bbaab52fb" '
            'from="human" to="bob" waited_s=0.0'
        ),
    ]
    inbox = [Mail(id="m", sender="human", text="hi\n", sent_ns=3 * S)]
    assert diff.inbox(H, T, "bob", inbox, 4 * S) == []
    assert [one.mail.id for one in team.post.letters] == ["m"]
    assert diff.inbox(H, T, "bob", [], 5 * S) == []
    again = [Mail(id="m2", sender="human", text="hi", sent_ns=6 * S)]
    assert tags(diff.inbox(H, T, "bob", again, 6 * S)) == ["mail.sent"]


def test_a_message_of_a_member_is_delivered_by_its_transcript_only_if_it_was_sent() -> None:
    diff, team = started(BOB)
    text = '<teammate-message teammate_id="team-lead">\ngo on\n</teammate-message>'
    assert told(diff.line(team, "bob", line(3, content=text))) == [
        '00:03 member.working bob working/bob/3000 transcript member="bob" why="transcript"'
    ]
    diff.inbox(H, T, "bob", [Mail(id="m", sender="team-lead", text="go on", sent_ns=4 * S)], 4 * S)
    assert told(diff.line(team, "bob", line(5, content=text))) == [
        '00:05 mail.delivered bob delivered/bob/m transcript mail_id="m" from="team-lead" to="bob" waited_s=1.0'
    ]


def test_the_prompt_of_a_member_with_a_process_of_its_own_is_a_message() -> None:
    ann = Member(name="ann", agent_id="ann@x", joined_ns=2 * S, prompt="test it")
    diff, team = started(BOB, ann)
    text = '<teammate-message teammate_id="team-lead">\ntest it\n</teammate-message>'
    assert tags(diff.line(team, "bob", line(3, content=text))) == ["member.working", "mail.sent", "mail.delivered"]
    assert tags(diff.line(team, "ann", line(3, content=text))) == ["member.working"]


def test_the_prompt_of_a_member_is_told_although_its_transcript_was_read_before_it_was_known() -> None:
    ann = Member(name="ann", agent_id="ann@x", joined_ns=2 * S, prompt="test it")
    diff, team = started()
    text = '<teammate-message teammate_id="team-lead">\ntest it\n</teammate-message>'
    for name in ("bob", "ann"):
        assert tags(diff.line(team, name, line(3, content=text))) == ["member.working"]
    seen = diff.config(H, T, roster(LEAD, BOB, ann), 4 * S)
    assert list(zip(tags(seen), [getattr(each, "to", None) for each in seen], strict=True)) == [
        ("member.joined", None),
        ("member.joined", None),
        ("mail.sent", "bob"),
        ("mail.delivered", "bob"),
    ], "ann has no process of its own: its prompt came in no message"
    assert tags(diff.config(H, T, roster(LEAD, BOB, ann), 5 * S)) == [], "and once"


def test_what_else_a_member_received_before_it_was_known_is_left_to_its_inbox() -> None:
    diff, team = started()
    text = '<teammate-message teammate_id="team-lead">\ngo on\n</teammate-message>'
    assert tags(diff.line(team, "bob", line(3, content=text))) == ["member.working"]
    again = Mail(id="m", sender="team-lead", text="go on", sent_ns=4 * S)
    assert tags(diff.inbox(H, T, "bob", [again], 4 * S)) == ["mail.sent"]
    assert tags(diff.config(H, T, roster(LEAD, BOB), 5 * S)) == ["member.joined"], "it waits in the inbox"


def tool(name: str, given: dict[str, Any], call_id: str = "c1") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(call_id: str = "c1") -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": call_id, "content": "ok"}]


def test_a_call_in_a_transcript_and_its_result_prove_what_was_done() -> None:
    diff, team = started(BOB)
    assert told(diff.line(team, "bob", line(3, "assistant", [tool("TaskCreate", {"subject": "parser"})]))) == [
        '00:03 tool.called bob@session-1 - - call_id="c1" name="TaskCreate" input={"subject": "parser"}',
        '00:03 member.working bob working/bob/3000 transcript member="bob" why="transcript"',
    ]
    record = {"task": {"id": "4", "subject": "parser"}}
    assert told(diff.line(team, "bob", line(4, content=result(), toolUseResult=record))) == [
        '00:04 tool.returned bob@session-1 - - call_id="c1" output="ok"',
        '00:04 task.created bob task/4/created/4000 transcript task_id="4" subject="parser" by="bob"',
    ]
    assert told(diff.line(team, "bob", line(5, content=result(), toolUseResult=record))) == [
        '00:05 tool.returned bob@session-1 - - call_id="c1" output="ok"'
    ]


def test_a_result_without_its_call_proves_nothing() -> None:
    diff, team = started(BOB)
    record = {"task": {"id": "4", "subject": "parser"}}
    assert told(diff.line(team, "team-lead", line(4, content=result(), toolUseResult=record))) == [
        '00:04 tool.returned team-lead@session-1 - - call_id="c1" output="ok"'
    ]
    assert team.tasks.known == {}


def test_a_message_that_a_transcript_shows_sent_is_told_once() -> None:
    diff, team = started(BOB)
    diff.line(team, "bob", line(3, "assistant", [tool("SendMessage", {"to": "team-lead", "message": "hi"})]))
    routing = {"sender": "bob", "target": "@team-lead", "content": "hi", "summary": "s", "senderColor": "blue"}
    record = {"success": True, "msg_id": "m", "routing": routing}
    assert told(diff.line(team, "bob", line(4, content=result(), toolUseResult=record))[1:]) == [
        (
            '00:04 mail.sent bob sent/team-lead/m transcript mail_id="m" from="bob" to="team-lead" text="hi" '
            'summary="s" colour="blue"'
        )
    ]
    assert diff.inbox(H, T, "team-lead", [Mail(id="m", sender="bob", text="hi", sent_ns=4 * S)], 5 * S) == []


def test_what_a_subagent_does_is_its_members_usage_and_nothing_else() -> None:
    diff, team = started(BOB)
    usage = {"input_tokens": 10, "output_tokens": 2}
    said = {"id": "r1", "model": "claude-haiku-4-5", "usage": usage, "stop_reason": "end_turn"}
    content = [{"type": "text", "text": "below"}, tool("TaskCreate", {"subject": "x"})]
    assert told(diff.line(team, "bob", line(3, "assistant", content, message=said), is_member=False)) == [
        '00:03 text bob@session-1 - - text="below"',
        '00:03 tool.called bob@session-1 - - call_id="c1" name="TaskCreate" input={"subject": "x"}',
    ]
    said["id"] = "r2"
    assert told(diff.line(team, "bob", line(4, "assistant", content[:1], message=said))) == [
        '00:04 text bob@session-1 - - text="below"',
        (
            '00:04 member.used bob used/r2 transcript member="bob" usage={"input_tokens": 20, "output_tokens": '
            '4, "cached_tokens": 0} cost_usd=4e-05'
        ),
        '00:04 member.working bob working/bob/4000 transcript member="bob" why="transcript"',
    ]


def test_a_line_without_a_time_says_nothing_of_its_own() -> None:
    diff, team = started(BOB)
    found = read(b'{"type": "assistant", "message": {"content": [{"type": "text", "text": "x"}]}}')
    assert found is not None and diff.line(team, "bob", found) == []


def test_the_leads_own_lines_do_not_make_it_work() -> None:
    diff, team = started(BOB)
    assert told(diff.line(team, "team-lead", line(3, "assistant", [{"type": "text", "text": "x"}]))) == [
        '00:03 text team-lead@session-1 - - text="x"'
    ]


def test_a_message_that_was_lost_is_lost_once_and_ends() -> None:
    diff, team = started(BOB)
    given = {"tool": "SendMessage", "input": {"to": "ann", "message": "hi"}, "response": {"success": False}}
    assert tags(diff.hook(H, hook("PostToolUse", call_id="c", **given)) or []) == ["mail.lost"]
    assert team.post.on_failed("ann", Mail(id="c", sender="team-lead", text="hi"), "why", "transcript") == []
    assert tags(diff.inbox(H, T, "ann", [Mail(id="c", sender="team-lead", text="hi")], 5 * S)) == ["mail.sent"]
    diff.inbox_gone(H, T, "ann", 6 * S)
    assert (team.post.waiting, [one.ended_ns for one in team.post.letters]) == ([], [6 * S])


def test_of_many_messages_the_first_that_ended_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail_module, "_KEPT_LETTERS", 8)
    diff, team = started(BOB)
    mails = [Mail(id=f"m{number}", sender="a", text=str(number), sent_ns=number) for number in range(9)]
    diff.inbox(H, T, "bob", mails[:8], S)
    assert len(team.post.letters) == 8
    diff.inbox(H, T, "bob", mails[2:3], 2 * S)
    diff.inbox(H, T, "bob", mails[2:3] + mails[8:], 3 * S)
    assert [one.mail.id for one in team.post.letters] == ["m2", "m3", "m4", "m5", "m6", "m7", "m8"]
    text = '<teammate-message teammate_id="a">\n0\n</teammate-message>'
    assert "mail.sent" in tags(diff.line(team, "bob", line(9, content=text)))


def test_a_frame_in_a_transcript_has_its_own_time_and_is_reported_for_what_it_says() -> None:
    diff, team = started(BOB)
    frame_text = '{"type": "idle_notification", "timestamp": "1970-01-01T00:00:03Z"}'
    text = f'<teammate-message teammate_id="bob">\n{frame_text}\n</teammate-message>'
    assert told(diff.line(team, "team-lead", line(9, content=text))) == [
        (
            '00:03 mail.sent bob sent/team-lead/~dadd5cba7d6bd255 transcript mail_id="~dadd5cba7d6bd255" '
            'from="bob" to="team-lead" text="{\\"type\\": \\"idle_notification\\", \\"timestamp\\": '
            '\\"1970-01-01T00:00:03Z\\"}" kind="idle_notification"'
        ),
        (
            "00:03 mail.delivered team-lead delivered/team-lead/~dadd5cba7d6bd255 transcript "
            'mail_id="~dadd5cba7d6bd255" from="bob" to="team-lead" waited_s=0.0'
        ),
        '00:03 member.idle bob idle/bob/3000 transcript member="bob"',
    ]


def test_a_call_that_began_before_the_watch_is_reported_by_its_hook() -> None:
    diff, team = started(BOB)
    record = {"success": True, "msg_id": "m1", "target": "@bob"}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "sent"}
    assert tags(diff.line(team, "team-lead", line(4, "user", [result], toolUseResult=record))) == ["tool.returned"]
    given = {"tool": "SendMessage", "call_id": "c1", "input": {"to": "bob", "message": "hi"}, "response": record}
    assert tags(diff.hook(H, hook("PostToolUse", **given)) or ()) == ["mail.sent"]
    assert diff.hook(H, hook("PostToolUse", **given)) == []


def test_read_messages_that_stay_in_an_inbox_are_told_once_however_many_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mail_module, "_KEPT_LETTERS", 8)
    diff, team = started(BOB)
    inbox = [Mail(id=f"m{n}", sender="ann", text="same", sent_ns=S, is_read=True) for n in range(12)]
    assert tags(diff.inbox(H, T, "bob", inbox, 4 * S)).count("mail.sent") == 12
    assert diff.inbox(H, T, "bob", inbox, 5 * S) == []
    more = [*inbox, Mail(id="new", sender="ann", text="same", sent_ns=6 * S)]
    assert tags(diff.inbox(H, T, "bob", more, 6 * S)) == ["mail.sent"]
    assert tags(diff.inbox(H, T, "bob", [], 7 * S))[:1] == ["mail.delivered"]
    assert len(team.post.letters) < 13  # those that ended are forgotten, a part at a time


def test_an_inbox_with_many_read_messages_may_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail_module, "_KEPT_LETTERS", 8)
    diff, _ = started(BOB)
    diff.inbox(H, T, "bob", [Mail(id=f"m{n}", sender="ann", text="x", sent_ns=S, is_read=True) for n in range(12)], S)
    diff.inbox(H, T, "eve", [Mail(id=f"e{n}", sender="ann", text="x", sent_ns=S) for n in range(12)], S)
    gone = tags(diff.inbox_gone(H, T, "bob", 2 * S)) + tags(diff.inbox_gone(H, T, "eve", 2 * S))
    assert gone.count("mail.lost") == 12
