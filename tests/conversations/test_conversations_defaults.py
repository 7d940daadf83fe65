"""What stands for a field that a value of this package does not have."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from beam.conversations.expect import Subject
from tests.support.defaults import given, structs_in


@pytest.mark.parametrize("kind", structs_in("beam.conversations", besides={Subject}), ids=lambda kind: kind.__name__)
def test_a_value_without_a_field_is_as_if_it_said_this(kind: type[msgspec.Struct]) -> None:
    assert given(kind) == _GIVEN[kind.__name__]


_OPTIONS = {"model": None, "access": None, "via": None, "timeout": None, "max_turns": None, "budget_usd": None}
_LIMITS = {"cost_usd": None, "tokens": None, "time": None}
_MODEL_CALLS = {"record": None, "replay": None, "fill": False, "exact_at_least": None}
_UNTIL = {"phrase": None, "check": (), "turns": 20, "cost_usd": None, "tokens": None, "time": None}
_SPENT = {"turns": 0, "cost_usd": 0.0, "tokens": 0, "unpriced": 0}
_STEP: dict[str, object] = {"at": (), "expect": (), "allow": frozenset()}
_GIVEN: dict[str, Any] = {
    "ChatLine": {"is_of_person": False},
    "CommandEnd": {"why": "", "is_stopped": False},
    "Comparison": {"v": 1, "best": None, "scores": (), "reason": "", "message_id": "", "exit_code": 0},
    "Changes": {"paths": (), "added": 0, "removed": 0, "known": False, "why": "this is no git repository"},
    "ToolUse": {"call_id": "", "input": None, "word": "", "output": "", "is_error": False},
    "FoundFile": {"is_there": False, "is_inside": False, "text": None, "problem": ""},
    "Exchange": {"session_id": "", "texts": [], "reply": None, "calls": [], "changed": {}, "ending": ""},
    "NextTurn": {"is_choice": False},
    "PlanStep": {"agents": (), "checks": (), "parallel_in": None},
    "RunModelCalls": _MODEL_CALLS,
    "_Recorded": {"is_used": False},
    "Refusal": {"line": None, "column": None},
    "CheckResult": {"detail": "", "kind": "", "line": None},
    "ReplayCounts": {"exact": 0, "minor": 0, "major": 0, "unmatched": 0, "live": 0},
    "RunResult": {
        "v": 1,
        "why": "",
        "steps": (),
        "spent": _SPENT,
        "duration_s": 0.0,
        "repeats": 1,
        "passes": 0,
        "replay": None,
        "model_calls": None,
        "worktrees": (),
        "note": "",
    },
    "Spent": _SPENT,
    "StepResult": {
        "why": "",
        "exit_code": 0,
        "duration_s": 0.0,
        "turns": (),
        "checks": (),
        "output": "",
        "score": None,
        "judged": (),
        "repeat": 1,
    },
    "TurnResult": {"tools": (), "files": (), "cost_usd": None, "tokens": None, "replayed": None},
    "WorktreeResult": {"branch": "", "path": None, "diff": "", "files": ()},
    "RunOptions": {
        "ci": False,
        "fail_fast": False,
        "limits": _LIMITS,
        "repeat": None,
        "pass_rate": None,
        "record": None,
        "replay": None,
        "replay_mode": "strict",
        "model_calls": _MODEL_CALLS,
    },
    "StepBegan": {"agents": (), "repeat": 1},
    "Chat": {**_STEP, "order": "round_robin", "moderator": None, "until": _UNTIL, "options": _OPTIONS},
    "Check": {"at": ()},
    "CheckStep": {**_STEP, "of": ""},
    "Judge": {**_STEP},
    "Judging": {"score": 7.0, "options": _OPTIONS},
    "Parallel": {**_STEP},
    "Part": {"at": ()},
    "Run": {**_STEP, "timeout": 600.0},
    "Scenario": {
        "digest": "",
        "description": "",
        "variables": {},
        "agents": {},
        "worktree": None,
        "limits": _LIMITS,
        "allow": frozenset(),
        "times": 1,
        "pass_rate": 1.0,
        "steps": (),
        "schemas": (),
    },
    "Send": {**_STEP, "context_from": None, "context": "recent", "options": _OPTIONS, "schema": None},
    "Spending": _LIMITS,
    "Step": {**_STEP},
    "TurnOptions": _OPTIONS,
    "Until": _UNTIL,
    "Worktree": {"keep": False, "start": "HEAD", "branch": ""},
    "OneOrMore": {"alone": True, "most": 10000},
    "Number": {"least": 0, "most": 1000000000000, "whole": False},
    "Table": {"required": (), "one_of": (), "needs": {}, "description": ""},
    "Text": {"pattern": "", "rule": ""},
}
