"""What is said of a turn whose CLI ends too early: every recording is cut after every line, and ends there in each way.

The last event of a turn decides, not a line before it. `COMPLETED` lists where a cut turn is called completed all the
same, and why nothing of the turn can be missing there.
"""

from __future__ import annotations

import copy
import functools
import json

import pytest

from beam.agents import registry
from beam.agents.base import Exit
from beam.model.outcome import Status
from tests.agents.test_headless_recordings import NAMES, RECORDED, load
from tests.agents.test_headless_recordings import decoder as decoder_of

ENDS = {
    "0": Exit(code=0),
    "1": Exit(code=1),
    "signal": Exit(signal="SIGKILL"),
    "stopped": Exit(signal="SIGTERM", stopped_by="timeout"),
}
ANY = frozenset(ENDS)
ITSELF = frozenset({"0"})
_AFTER = "it came after the result, and no turn began since: the last result is the last word on a turn"
# Adapter -> the last line -> the ends with which it is completed, and why.
COMPLETED: dict[str, dict[str, tuple[frozenset[str], str]]] = {
    "claude": {
        "result/success": (ANY, "the result line is the last thing that claude says of a turn"),
        "control_response": (ANY, _AFTER + "; it answers a request of beam's"),
        "system/commands_changed": (ANY, _AFTER),
        "system/status": (ANY, _AFTER),
        "system/task_updated": (ANY, _AFTER + "; a task that ended with the turn is told as unfinished"),
        "system/task_notification": (ANY, _AFTER + "; a task that ended with the turn is told as unfinished"),
        "transcript_mirror": (ANY, _AFTER),
        "user/subagent": (ANY, _AFTER + "; it tells an agent of claude's own that it was stopped"),
        "user/replay": (ANY, _AFTER + "; it echoes what beam itself set"),
    },
    "codex": {"turn.completed": (ANY, "turn.completed is the last thing that codex says")},
    "gemini": {"result": (ANY, "the result line is the last thing that gemini says")},
    "qwen": {"result/success": (ANY, "the result line is the last thing that qwen says")},
    "copilot": {"result": (ANY, "the result line is the last thing that copilot says, and an answer came before it")},
    "cline": {"run_result": (ANY, "run_result is the last thing that cline says")},
    "kimi": {"session.resume_hint": (ANY, "the hint how to resume comes when the session is saved, as the last line")},
    "opencode": {"step_finish": (ANY, "a step that finished with `stop` is the last one: its tools are done")},
    "kilo": {"step_finish": (ANY, "a step that finished with `stop` is the last one: its tools are done")},
    "pi": {
        "agent_end": (ANY, "without willRetry (0.73) agent_end is the last thing that pi says"),
        "agent_settled": (ANY, "agent_settled says that neither a retry nor a queued message follows"),
    },
    "vibe": {"message": (ITSELF, "vibe has no last line; it says 0 after its last word, and another code if it fails")},
    "cn": {"text": (ITSELF, "cn prints its answer at once when it has it, and says 0 after that")},
    "aider": {"text": (ITSELF, "aider says 0 only once it has done what its answer says: it was not cut")},
}


@functools.cache
def completed_cuts(adapter: str, version: str, name: str) -> list[tuple[str, str, int]]:
    """Where a cut turn is completed: what its last line is, how it ended, and the number of that line."""
    recording = load(adapter, version, name)
    turn, decoder, found = recording.turn, decoder_of(adapter, recording.turn), []
    for number, line in enumerate([b"", *recording.stdout.removesuffix(b"\n").split(b"\n")]):
        if number:
            decoder.line(line)
        for word, exit in ENDS.items():
            _, verdict = copy.deepcopy(decoder, {id(turn): turn}).end(exit)
            if verdict.status is Status.COMPLETED:
                found.append((_kind(line), word, number))
    return found


def _kind(line: bytes) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return "text"
    if not isinstance(value, dict) or "type" not in value:
        return "text"
    marks = {"isReplay": "replay", "parent_tool_use_id": "subagent"}
    word = value.get("subtype") or next((mark for field, mark in marks.items() if value.get(field)), "")
    return f"{value.get('type')}/{word}" if word else str(value.get("type"))


@pytest.mark.slow
@pytest.mark.parametrize("adapter", RECORDED)
def test_a_turn_whose_cli_ended_early_is_called_completed_only_where_nothing_of_it_can_be_missing(
    adapter: str,
) -> None:
    cuts = [(row, *cut) for row in NAMES if row[0] == adapter for cut in completed_cuts(*row)]
    assert [cut for cut in cuts if cut[2] not in COMPLETED[adapter].get(cut[1], (frozenset(),))[0]] == []


@pytest.mark.slow
def test_each_reason_to_call_a_cut_turn_completed_is_one_that_a_recording_needs() -> None:
    needed = {(adapter, kind, end) for adapter, *rest in NAMES for kind, end, _ in completed_cuts(adapter, *rest)}
    listed = {
        (adapter, kind, end) for adapter, rows in COMPLETED.items() for kind, row in rows.items() for end in row[0]
    }
    assert listed == needed
    assert {adapter for adapter, *_ in NAMES} == set(COMPLETED)
    assert all(why for rows in COMPLETED.values() for _, why in rows.values())


def test_every_agent_with_a_cli_of_its_own_is_tried() -> None:
    cards = [registry.adapter(name).card for name in registry.ADAPTERS]
    assert {card.name for card in cards if card.versions and "exec" in card.faces} == set(COMPLETED)
