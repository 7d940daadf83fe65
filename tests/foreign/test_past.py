"""What a session contained before an agent of beam's adopted it, as its CLI's own files say."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from msgspec import UNSET

from beam.foreign import past as reading
from beam.foreign.past import PastEvents, past_events
from beam.model import events

PLACE = Path(__file__).parents[1] / "recordings" / "sessions"
TURN = ["session.prompted", "tool.called", "tool.returned", "text", "session.idle"]
WHERE = {  # the session's id, and its file below HOME, as the CLI names it
    "claude": ("0a1b2c3d-1", ".claude/projects/-tmp-rec-claude/0a1b2c3d-1.jsonl"),
    "codex": (
        "01a20d3e-b924-7641-a892-5e0345b450b2",
        ".codex/sessions/2026/11/24/rollout-2026-11-24T10-47-45-01a20d3e-b924-7641-a892-5e0345b450b2.jsonl",
    ),
    "gemini": (
        "21ecc2df-cfc3-4464-a346-7a4ae2d3e262",
        ".gemini/tmp/project/chats/session-2026-11-24T11-09-21ecc2df.jsonl",
    ),
    "copilot": ("0a1b2c3d-2", ".copilot/session-state/0a1b2c3d-2/events.jsonl"),
    "kimi": ("0a1b2c3d-3", ".kimi-code/sessions/wd/0a1b2c3d-3/agents/main/wire.jsonl"),
    "vibe": ("0a1b2c3d-4", ".vibe/logs/session/unified/0a1b2c3d-4/journal/1.jsonl"),
    "cline": ("0a1b2c3d-5", ".cline/data/sessions/0a1b2c3d-5/0a1b2c3d-5.messages.json"),
}
ID = "0b0e6f9c-4d5e-4f6a-8b7c-9d0e1f2a3b4c"
END = {"model": "claude-opus-4-8", "stop_reason": "end_turn", "usage": {"input_tokens": 5, "output_tokens": 2}}


def kept(home: Path, cli: str) -> str:
    """Put the recorded session where its CLI keeps it; return its id."""
    session_id, path = WHERE[cli]
    (recording,) = PLACE.glob(f"{cli}-*/session.json*")
    (home / path).parent.mkdir(parents=True)
    (home / path).write_bytes(recording.read_bytes())
    return session_id


def line(kind: str, text: str, *, key: str, cwd: str = "/p") -> bytes:
    said = {"type": "text", "text": text}
    message = {"content": text} if kind == "user" else {"id": f"m{key}", "content": [said], **END}
    at = "2026-11-24T10:00:00.000Z"
    return json.dumps({"type": kind, "uuid": key, "timestamp": at, "cwd": cwd, "message": message}).encode() + b"\n"


def transcript(home: Path, lines: list[bytes], folder: str = "-p") -> Path:
    path = home / ".claude/projects" / folder / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(lines))
    return path


def of(home: Path, adapter: str = "claude", session_id: str = ID, folder: str = "/p") -> PastEvents | None:
    return past_events(adapter, session_id, folder=folder, environ={"HOME": str(home)})


def tags(found: PastEvents | None) -> list[str]:
    assert found is not None
    return [str(event.__struct_config__.tag) for event in found.events]


def texts(found: PastEvents | None) -> list[str]:
    assert found is not None
    return [event.text for event in found.events if isinstance(event, events.SessionPrompted | events.Text)]


@pytest.mark.parametrize("cli", WHERE)
def test_a_session_is_found_by_its_id_and_told_with_the_times_when_it_happened(tmp_path: Path, cli: str) -> None:
    session_id = kept(tmp_path, cli)
    found = of(tmp_path, cli, session_id)
    assert tags(found) == TURN
    assert found is not None and found.left_out == 0
    assert all(event.ts == "" and str(event.imported).startswith("2026-11-24T") for event in found.events)


@pytest.mark.parametrize("session_id", ["0b0e6f9c-another", "0b0e6f9c", "*", "none"])
def test_another_sessions_id_finds_nothing(tmp_path: Path, session_id: str) -> None:
    transcript(tmp_path, [line("user", "hello", key="1")])
    assert of(tmp_path, session_id=session_id) is None
    assert of(tmp_path, adapter="codex") is None
    assert of(tmp_path, adapter="scripted") is None


def test_of_two_sessions_with_one_id_the_one_of_the_folder_is_taken(tmp_path: Path) -> None:
    for name in ("a", "p", "z"):
        transcript(tmp_path, [line("user", f"in {name}", key="1", cwd=f"/{name}")], folder=f"-{name}")
    assert texts(of(tmp_path)) == ["in p"]


def test_of_a_long_session_the_last_events_are_kept_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript(tmp_path, [line("user", f"prompt {number}", key=str(number)) for number in range(30)])
    monkeypatch.setattr(reading, "MAX_EVENTS", 10)
    found = of(tmp_path)
    assert texts(found) == [f"prompt {number}" for number in range(20, 30)]
    assert found is not None and found.left_out == 20
    monkeypatch.setattr(reading, "MAX_CHARACTERS", 25)
    assert texts(of(tmp_path)) == ["prompt 28", "prompt 29"]


def test_a_long_text_and_a_long_call_are_cut_and_say_so(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Write", "input": {"content": "y" * 50_000}}
    message = {"id": "m2", "content": [call], "model": "m", "stop_reason": "tool_use"}
    value = {"type": "assistant", "uuid": "2", "timestamp": "2026-11-24T10:00:00Z", "message": message}
    transcript(tmp_path, [line("user", "x" * 50_000, key="1"), json.dumps(value).encode() + b"\n"])
    found = of(tmp_path)
    assert texts(found) == ["x" * 20_000 + "… [30000 more characters]"]
    assert found is not None
    called = found.events[1]
    assert isinstance(called, events.ToolCalled) and len(bytes(called.input)) < 20_100
    assert list(json.loads(bytes(called.input))) == ["beam_cut"]


def test_a_key_in_the_session_is_not_reported(tmp_path: Path) -> None:
    key = "sk-ant-" + "api03-" + "A" * 40
    transcript(tmp_path, [line("user", f"my key is {key}", key="1")])
    (text,) = texts(of(tmp_path))
    assert key not in text and "[redacted:" in text


def test_a_link_in_the_place_of_a_session_is_not_read(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(line("user", "of another", key="1"))
    path = transcript(tmp_path, [])
    path.unlink()
    path.symlink_to(other)
    assert of(tmp_path) is None


def test_a_session_of_a_database_is_reported_alone_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    made = sqlite3.connect(path)
    made.execute("CREATE TABLE session (id, parent_id, directory, time_updated)")
    made.execute("CREATE TABLE message (id, session_id, data)")
    made.execute("CREATE TABLE part (id, message_id, session_id, time_created, time_updated, data)")
    for session in ("ses_one00", "ses_two00"):
        made.execute("INSERT INTO session VALUES (?, NULL, '/p', 5000)", (session,))
        made.execute("INSERT INTO message VALUES (?, ?, ?)", (f"m{session}", session, json.dumps({"role": "user"})))
        for number in range(3):
            part = json.dumps({"type": "text", "text": f"{session} {number}"})
            row = (f"p{session}{number}", f"m{session}", session, 1000 + number, 1000 + number, part)
            made.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
    made.commit()
    made.close()
    found = of(tmp_path, "opencode", "ses_two00")
    assert texts(found) == [f"ses_two00 {number}" for number in range(3)]
    assert found is not None and found.events[0].imported is not UNSET
    assert of(tmp_path, "opencode", "ses_three") is None
