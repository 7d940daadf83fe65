"""Files of teams as values: today's shapes, February's, and everything that is neither."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from beam.teams import model
from tests.teams.teams_replay import ALL, RECORDINGS, lines

TODAY = {
    "name": "session-c7b5231e",
    "createdAt": 1795293561380,
    "leadAgentId": "team-lead@session-c7b5231e",
    "leadSessionId": "c7b5231e-7e31-4756-9ebd-26edd280bfd2",
    "members": [
        {"agentId": "team-lead@session-c7b5231e", "name": "team-lead", "tmuxPaneId": "leader", "cwd": "/p"},
        {
            "agentId": "bob@x",
            "name": "bob",
            "tmuxPaneId": "%2",
            "backendType": "tmux",
            "isActive": True,
            "model": "haiku",
        },
    ],
}
FEBRUARY = {
    "name": "my team",
    "description": "old",
    "createdAt": 1770000000000,
    "leadAgentId": "team-lead@my team",
    "leadSessionId": "s",
    "members": [{"agentId": "a@my team", "name": "a", "model": "opus", "joinedAt": 1, "tmuxPaneId": "", "cwd": "/p"}],
}


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.slow
def test_every_file_of_every_recording_is_understood_or_known_to_be_half_written() -> None:
    parsers = {"config": model.roster, "inboxes": model.inbox, "tasks": model.task, "sessions": model.session}
    half = 0
    for name in ALL:
        for line in lines(RECORDINGS / name / "versions.jsonl"):
            parts = line["path"].split("/")
            kind = "config" if parts[-1] == "config.json" else parts[2] if len(parts) == 4 else parts[0]
            if (
                line["op"] != "write"
                or not parts[-1].endswith(".json")
                or parts[-1].startswith(".")
                or kind == "projects"
            ):
                continue
            found = parsers[kind](line["content"].encode())
            assert (found is None) == (line["content"] == ""), line
            half += found is None
    assert half > 0


def test_todays_configuration_has_a_lead_without_a_model_and_members_with_panes() -> None:
    roster = model.roster(dumped(TODAY))
    assert roster is not None and roster.lead is not None
    assert (roster.lead.name, roster.lead.model, roster.lead.has_own_process) == ("team-lead", None, False)
    bob = roster.member("bob")
    assert bob is not None and (bob.has_own_process, bob.pane, bob.active, bob.model) == (True, "%2", True, "haiku")


def test_februarys_configuration_and_inbox_are_read_too() -> None:
    roster = model.roster(dumped(FEBRUARY))
    assert roster is not None and [member.name for member in roster.members] == ["a"]
    mails = model.inbox(dumped([{"from": "a", "text": "hi", "timestamp": "2026-02-03T04:05:06.000Z", "read": True}]))
    assert mails is not None and mails[0].is_read and mails[0].id.startswith("~")


def test_new_content_over_the_end_of_a_longer_old_one_is_read_as_the_new_one() -> None:
    task = model.task(b'{"id": "1", "status": "completed"}\n  }\n}')
    assert task is not None and task.status == "completed"


@pytest.mark.parametrize("data", [b"", b"{", b"[", b"nonsense", b'"text"', b"[1,2", b"\xff\xfe", b"[" * 100_000])
def test_half_a_file_gives_nothing_so_that_the_last_good_value_stays(data: bytes) -> None:
    assert model.roster(data) is None
    assert model.task(data) is None
    assert model.session(data) is None
    assert model.inbox(data) is None


@pytest.mark.parametrize(
    "value",
    [{}, {"members": "no"}, {"members": [1, {}, {"name": 3}]}, {"name": {"a": 1}, "createdAt": "x", "members": None}],
)
def test_a_configuration_of_another_shape_has_no_members_and_breaks_nothing(value: Any) -> None:
    roster = model.roster(dumped(value))
    assert roster is not None and roster.members == ()


def test_unknown_message_kinds_keep_their_text() -> None:
    mails = model.inbox(dumped([{"from": "a", "text": '{"type":"brand_new","x":1}'}, {"text": {"odd": 1}}, "junk", 7]))
    assert mails is not None and [(mail.kind, mail.text) for mail in mails] == [
        ("brand_new", '{"type":"brand_new","x":1}'),
        ("message", '{"odd": 1}'),
    ]


@pytest.mark.slow
def test_a_2_mb_inbox_of_1000_messages_is_read() -> None:
    mails = model.inbox(dumped([{"from": "a", "text": f"{n}" + "x" * 2000, "msg_id": str(n)} for n in range(1000)]))
    assert mails is not None and len({mail.id for mail in mails}) == 1000


def test_a_task_keeps_what_it_carries_beyond_the_known_fields() -> None:
    one = model.task(b'{"id": 7, "metadata": {"b": 1, "a": 2}, "status": "odd"}')
    assert one is not None and (one.id, one.status, one.rest) == ("7", "odd", '{"metadata":{"a":2,"b":1}}')


def test_a_session_has_its_processs_start() -> None:
    session = model.session(b'{"pid": 12, "procStart": "257714", "sessionId": "s", "startedAt": 5}')
    assert session is not None and (session.pid, session.start, session.started_ns) == (12, 257714, 5_000_000)


def test_a_hook_call_without_an_agent_has_no_member() -> None:
    call = model.hook_call(b'{"at_ns": 1, "payload": {"hook_event_name": "Stop", "agent_type": "x"}}')
    assert call is not None and (call.event, call.member) == ("Stop", "")
    assert model.hook_call(b"{}") is None


@pytest.mark.slow
def test_a_file_of_millions_of_values_is_not_taken_apart() -> None:
    assert model.inbox(b"[" + b"{}," * 1_500_000 + b"{}]") is None
    assert model.inbox(b"[" + b"{}," * 1000 + b"{}]") is not None


def test_what_follows_a_whole_value_is_left_out_and_half_a_pair_is_no_text() -> None:
    task = model.task(b'{"id": "1", "more": {"\\ud800": "\\udfff"}} and an older end')
    assert task is not None
    assert task.rest.encode()


def test_a_process_that_began_at_no_number_began_at_none() -> None:
    session = model.session(b'{"pid": 7, "procStart": "' + b"9" * 5000 + b'"}')
    assert session is not None
    assert session.start == 0


def test_a_configuration_is_read_whole() -> None:
    bob = {
        "name": "bob",
        "agentId": "bob@t",
        "agentType": "tester",
        "model": "haiku",
        "color": "blue",
        "backendType": "iterm",
        "tmuxPaneId": "%2",
        "cwd": "/p",
        "prompt": "go",
        "joinedAt": 2,
        "isActive": False,
    }
    panes = [
        {"name": str(number), "tmuxPaneId": pane} for number, pane in enumerate(("%1", "in-process", "leader", "x"))
    ]
    value = {"name": "t", "createdAt": 1, "leadAgentId": "bob@t", "leadSessionId": "s", "madeBy": "beam"}
    assert model.roster(dumped({**value, "members": [bob, *panes, {"name": "", "cwd": "/q"}]})) == model.Roster(
        name="t",
        created_ns=1_000_000,
        lead_id="bob@t",
        session_id="s",
        made_by="beam",
        members=(
            model.Member(
                name="bob",
                agent_id="bob@t",
                kind="tester",
                model="haiku",
                colour="blue",
                backend="iterm",
                pane="%2",
                cwd="/p",
                prompt="go",
                joined_ns=2_000_000,
                active=False,
            ),
            model.Member(name="0", backend="tmux", pane="%1"),
            model.Member(name="1", backend="in-process"),
            model.Member(name="2", backend="in-process"),
            model.Member(name="3"),
        ),
    )


def test_the_lead_is_the_member_that_the_configuration_names_or_has_the_leads_name() -> None:
    ann, lead = model.Member(name="ann", agent_id="a"), model.Member(name="team-lead", agent_id="l")
    assert model.Roster(name="t", lead_id="a", members=(lead, ann)).lead == ann
    assert model.Roster(name="t", lead_id="x", members=(ann, lead)).lead == lead
    assert model.Roster(name="t", lead_id="x", members=(ann,)).lead is None
    own = [model.Member(name="m", backend=one).has_own_process for one in ("", "in-process", "tmux", "iterm")]
    assert own == [False, False, True, True]


def test_an_inbox_is_read_whole() -> None:
    frame = '{"type": "idle_notification", "summary": "x"}'
    value = {"msg_id": "m", "from": "bob", "text": "hi", "summary": "s", "timestamp": "1970-01-01T00:00:01Z"}
    letters = [
        {**value, "color": "red", "read": True, "inReplyTo": "q"},
        {**value, "read": 1},
        {"from": "bob", "text": frame, "timestamp": "soon"},
        {"text": '{"type": ""}'},
        {"text": '["type"]'},
        {"text": "{half"},
        {},
    ]
    mail = model.Mail(id="m", sender="bob", text="hi", summary="s", sent_ns=1_000_000_000)
    assert model.inbox(dumped(letters)) == (
        msgspec.structs.replace(mail, colour="red", is_read=True, is_reply=True),
        mail,
        model.Mail(
            id=model.digest("bob", "soon", frame),
            sender="bob",
            text=frame,
            kind="idle_notification",
            frame={"type": "idle_notification", "summary": "x"},
        ),
        model.Mail(id=model.digest("", "", '{"type": ""}'), text='{"type": ""}'),
        model.Mail(id=model.digest("", "", '["type"]'), text='["type"]'),
        model.Mail(id=model.digest("", "", "{half"), text="{half"),
        model.Mail(id=model.digest("", "", "")),
    )
    assert model.digest("bob", "soon", "hi \ud800") == "~f0506cb259492046"
    assert model.frame_of('{"type": "x", "y": "\ud800"}') == {"type": "x", "y": "?"}


def test_a_task_is_read_whole() -> None:
    value = {
        "id": "1",
        "subject": "s",
        "description": "d",
        "activeForm": "Doing",
        "owner": "bob",
        "status": "held",
        "blocks": ["2"],
        "blockedBy": ["3"],
        "metadata": {},
        "more": None,
        "b": 0,
        "a": "x",
    }
    assert model.task(dumped(value)) == model.Task(
        id="1",
        subject="s",
        description="d",
        active_form="Doing",
        owner="bob",
        status="held",
        blocks=("2",),
        blocked_by=("3",),
        rest='{"a":"x","b":0}',
    )
    assert model.task(b'{"id": 1, "owner": ""}') == model.Task(id="1")
    assert [model.task(one) for one in (b'{"id": true}', b'{"id": 1.5}', b'{"subject": "s"}')] == [None] * 3


@pytest.mark.parametrize(
    ("start", "ticks"), [("9" * 19, int("9" * 19)), ("9" * 20, 0), ("²", 0), ("", 0), (12, 12), (None, 0)]
)
def test_a_session_is_read_whole(start: object, ticks: int) -> None:
    value = {"pid": 7, "sessionId": "s", "cwd": "/p", "startedAt": 5, "status": "idle", "statusUpdatedAt": 6}
    session = model.Session(
        pid=7, start=ticks, session_id="s", cwd="/p", started_ns=5_000_000, status="idle", status_ns=6_000_000
    )
    assert model.session(dumped({**value, "procStart": start})) == session
    assert [model.session(dumped({**value, "pid": pid})) for pid in (0, -1, None, "7")] == [None] * 4


def test_a_call_of_a_hook_is_read_whole() -> None:
    payload = {
        "hook_event_name": "PostToolUse",
        "session_id": "s",
        "team_name": "t",
        "teammate_name": "bob",
        "agent_id": "abob",
        "agent_type": "tester",
        "tool_name": "Bash",
        "tool_use_id": "c",
        "tool_input": {"command": "ls"},
        "tool_response": {"stdout": ""},
    }
    call = model.hook_call(dumped({"at_ns": 5, "payload": payload}))
    assert call == model.HookCall(
        at_ns=5,
        event="PostToolUse",
        session_id="s",
        team="t",
        member="bob",
        agent_id="abob",
        tool="Bash",
        call_id="c",
        input={"command": "ls"},
        response={"stdout": ""},
        payload=payload,
    )
    del payload["teammate_name"]
    call = model.hook_call(dumped({"at_ns": 0, "payload": payload}))
    assert call is not None and (call.at_ns, call.member) == (0, "tester")
    assert model.hook_call(b'{"at_ns": "5", "payload": {}}') is None


def test_a_time_that_is_none_is_0() -> None:
    assert [model.when_ns(one) for one in ("", "soon", "1970-01-01T00:00:02Z")] == [0, 0, 2_000_000_000]


def test_a_name_is_safe_in_a_path() -> None:
    assert model.inbox_name("../a b.c_d-E9/ü") == "---a-b-c_d-E9--"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_a_file_in_another_encoding_of_json_is_read(encoding: str) -> None:
    found = model.roster('{"name": "t", "members": [{"name": "ånn", "agentId": "a@t"}]}'.encode(encoding))
    assert found is not None and [member.name for member in found.members] == ["ånn"]
