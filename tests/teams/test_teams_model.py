"""Files of teams as values: today's shapes, February's, and everything that is neither."""

from __future__ import annotations

import json
from typing import Any

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
