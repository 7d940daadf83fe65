"""What stands for a field that a value of this package does not have."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.defaults import given, structs_in


@pytest.mark.parametrize("kind", structs_in("beam.teams"), ids=lambda kind: kind.__name__)
def test_a_value_without_a_field_is_as_if_it_said_this(kind: type[msgspec.Struct]) -> None:
    assert given(kind) == _GIVEN[kind.__name__]


_GIVEN = {
    "LastActivity": {"doing": "", "last_words": "", "state": "", "since": "", "at": ""},
    "MemberLine": {"unpriced": ()},
    "TaskLine": {"description": ""},
    "TeamLine": {
        "lead": "",
        "lead_pid": None,
        "session_id": "",
        "cwd": "",
        "created": None,
        "members": None,
        "working": None,
        "tasks": {},
        "waiting_mail": 0,
        "orphan_inboxes": (),
    },
    "TeamShown": {"prices_as_of": "2026-11-21"},
    "FileSnapshot": {"is_large": False},
    "InstallResult": {"changed": ()},
    "_SavedSettings": {"has_folder": True, "v": 1},
    "Letter": {"in_inbox": False, "ended_ns": 0, "is_lost": False},
    "Ask": {"tool": ""},
    "MemberState": {"activity": "", "since_ns": 0, "said_ns": 0, "summary": ""},
    "HookCall": {
        "session_id": "",
        "team": "",
        "member": "",
        "agent_id": "",
        "tool": "",
        "call_id": "",
        "input": {},
        "response": {},
        "payload": {},
    },
    "Mail": {
        "sender": "",
        "text": "",
        "summary": "",
        "sent_ns": 0,
        "colour": None,
        "is_read": False,
        "kind": "message",
        "frame": {},
        "is_reply": False,
    },
    "Member": {
        "agent_id": "",
        "kind": "",
        "model": None,
        "colour": None,
        "backend": "",
        "pane": "",
        "cwd": "",
        "prompt": "",
        "joined_ns": 0,
        "active": None,
    },
    "Roster": {"created_ns": 0, "lead_id": "", "session_id": "", "made_by": "", "members": ()},
    "Session": {"session_id": "", "cwd": "", "started_ns": 0, "status": "", "status_ns": 0},
    "Task": {
        "subject": "",
        "description": "",
        "active_form": "",
        "owner": None,
        "status": "pending",
        "blocks": (),
        "blocked_by": (),
        "rest": "",
    },
    "Proof": {"change": None, "spawned": None, "mail": None, "to": "", "failed": ""},
    "Tail": {
        "is_member": True,
        "parent": None,
        "offset": 0,
        "rest": b"",
        "skips": False,
        "since": "",
        "callers": {},
        "lost": 0,
        "is_loss_told": False,
        "at": "",
    },
    "Change": {"created": False, "status": None, "owner": None, "subject": "", "description": "", "fields": ()},
    "_Retry": {"times": 0},
}
