"""Claude Code's transcripts: those of the recorded teams, line by line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from beam.agents.claude.history import ReceivedMessage, TranscriptLine, decode, read, transcript_paths
from beam.model import events

TEAMS = Path(__file__).parents[2] / "recordings" / "claude-teams" / "2.1.197"
SAMPLE = Path(__file__).parents[2] / "recordings" / "claude" / "2.1.197" / "sample-transcript.jsonl"


def recorded(name: str) -> dict[str, list[bytes]]:
    """Every line of every transcript of a recorded team, by path."""
    found: dict[str, bytes] = {}
    for line in (TEAMS / name / "versions.jsonl").read_text().splitlines():
        version = json.loads(line)
        if version["op"] == "append":
            found[version["path"]] = found.get(version["path"], b"") + version["content"].encode()
    return {path: data.splitlines() for path, data in found.items()}


def everything(name: str) -> list[TranscriptLine]:
    found = [read(line) for data in recorded(name).values() for line in data]
    return [line for line in found if line is not None]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["in-process", "tmux"])
def test_no_line_of_a_recorded_team_is_unknown(name: str) -> None:
    unknown = [body for line in everything(name) for body in line.bodies if isinstance(body, events.Unknown)]
    assert unknown == []
    assert len(everything(name)) > 80


@pytest.mark.skipif(not SAMPLE.exists(), reason="left out: the sample is not in this checkout")
def test_no_line_of_a_headless_session_is_unknown() -> None:
    found = [body for line in SAMPLE.read_bytes().splitlines() for body in decode(line)]
    assert {type(body) for body in found} == {events.Text}
    assert next(body.text for body in found if isinstance(body, events.Text)).startswith("ECHO[first AAA]")


@pytest.mark.parametrize("name", ["in-process", "tmux"])
def test_every_call_has_its_result_and_records_say_what_tools_did(name: str) -> None:
    lines = everything(name)
    called = {call.call_id: call.name for line in lines for call in line.called}
    returned = {back.call_id: back.record for line in lines for back in line.returned}
    assert set(returned) <= set(called)
    records = [returned[one] for one, tool in called.items() if tool == "SendMessage" and one in returned]
    assert sum(1 for record in records if "msg_id" in record) == 3
    assert sum(1 for record in records if "request_id" in record) >= 2


def test_teammates_with_a_process_of_their_own_say_who_they_are() -> None:
    names = Counter(line.member for line in everything("tmux") if line.kind == "assistant")
    assert set(names) == {"", "alice", "bob"}


def test_one_api_message_of_several_lines_has_one_reply_id() -> None:
    replies = Counter(line.reply_id for line in everything("in-process") if line.usage is not None)
    assert max(replies.values()) == 2


def test_messages_of_teammates_are_heard_alone_and_in_bundles() -> None:
    letter = (
        '<teammate-message teammate_id="bob" color="green" summary="a &quot;b&quot;">\ntwo\nlines\n</teammate-message>'
    )
    text = f"Another Claude session sent a message:\n{letter}\n\n{letter}\n\nThis came from another session"
    line = read(json.dumps({"type": "user", "message": {"content": text}}).encode())
    assert (
        line is not None and line.received == (ReceivedMessage(sender="bob", text="two\nlines", summary='a "b"'),) * 2
    )


def test_an_api_error_is_a_notice_and_uses_no_tokens() -> None:
    message = {
        "model": "<synthetic>",
        "content": [{"type": "text", "text": "API Error: 400"}],
        "usage": {"input_tokens": 0},
    }
    line = read(json.dumps({"type": "assistant", "isApiErrorMessage": True, "message": message}).encode())
    assert line is not None and line.error == "API Error: 400" and line.usage is None
    assert [type(body) for body in line.bodies] == [events.Notice]


def test_a_compacted_conversation_is_compacted_in_its_transcript_too() -> None:
    line = {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto", "preTokens": 9}}
    assert decode(json.dumps(line).encode()) == (events.StatusChanged(state="compacted", detail="auto"),)


@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff", b"7", b'{"type": "new"}', b'{"message": 3, "type": {}}'])
def test_what_nobody_understands_is_kept_as_unknown(data: bytes) -> None:
    (body,) = decode(data)
    assert isinstance(body, events.Unknown) and body.raw
    assert decode(b"  ") == ()


def test_a_transcript_lies_where_its_directory_and_session_say() -> None:
    assert transcript_paths("/h/.claude", "/a/b.c_d", "0-1") == (
        "/h/.claude/projects/-a-b-c-d/0-1.jsonl",
        "/h/.claude/projects/-a-b-c-d/0-1/subagents",
    )
    assert transcript_paths("/h", "/a", "../../etc/passwd") == ()
