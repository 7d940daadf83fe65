"""Sessions of other programs as they grow: what is told, once, and what is left alone."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam.agents.session_files import Session
from beam.base.clock import parse_rfc3339
from beam.foreign.unreadable import UnreadableError
from beam.foreign.watch import ForeignEvent, ForeignWatcher
from beam.model import events

AT = "2026-11-24T10:00:00.000Z"
WAIT_S = 10


def line(kind: str, text: str, *, at: str = "", key: str = "", cwd: str = "/p") -> bytes:
    stamp = at or time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time())) + ".999Z"  # without an argument it lags
    message = {"content": text} if kind == "user" else {"id": f"m{key}{text[:20]}", "content": [_block(text)], **_END}
    value = {"type": kind, "uuid": key or os.urandom(4).hex(), "timestamp": stamp, "cwd": cwd, "message": message}
    return json.dumps(value).encode() + b"\n"


def _block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


_END = {"model": "claude-opus-4-8", "stop_reason": "end_turn", "usage": {"input_tokens": 5, "output_tokens": 2}}


@pytest.fixture
def transcripts(tmp_path: Path) -> Path:
    folder = tmp_path / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Callable[..., ForeignWatcher]]:
    opened: list[ForeignWatcher] = []

    def start(**options: object) -> ForeignWatcher:
        only = options.pop("only", ["claude"])
        opened.append(ForeignWatcher({"HOME": str(tmp_path)}, wake=threading.Event(), only=only, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def told(foreign: ForeignWatcher, count: int) -> list[ForeignEvent]:
    """The next events: so many, and none more."""
    found: list[ForeignEvent] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        found += foreign.poll()
        time.sleep(0.005)
    time.sleep(0.05)
    return found + foreign.poll()


def texts(found: list[ForeignEvent]) -> list[str]:
    return [one.event.text for one in found if isinstance(one.event, events.SessionPrompted | events.Text)]


@pytest.mark.slow
def test_what_was_there_is_not_reported_and_what_comes_is_once(
    transcripts: Path, watching: Callable[..., ForeignWatcher]
) -> None:
    path = transcripts / "one.jsonl"
    path.write_bytes(line("user", "old"))
    foreign = watching()
    assert foreign.poll() == []
    with path.open("ab") as file:
        file.write(line("user", "new"))
        file.write(line("assistant", "answer"))
    found = told(foreign, 3)
    assert texts(found) == ["new", "answer"]
    assert [one.session.id for one in found] == ["one"] * 3
    assert found[0].session.cwd == "/p"
    idle = found[-1].event
    assert isinstance(idle, events.SessionIdle)
    assert (idle.usage.input_tokens, idle.usage.output_tokens, idle.usage.calls) == (5, 2, 1)


def test_since_tells_what_came_after_it(transcripts: Path, watching: Callable[..., ForeignWatcher]) -> None:
    before, after = "2026-11-24T09:00:00.000Z", "2026-11-24T11:00:00.000Z"
    (transcripts / "one.jsonl").write_bytes(line("user", "early", at=before) + line("user", "late", at=after))
    assert texts(told(watching(since_ns=parse_rfc3339(AT)), 1)) == ["late"]


def test_an_event_in_the_millisecond_of_since_is_told(
    transcripts: Path, watching: Callable[..., ForeignWatcher]
) -> None:
    (transcripts / "one.jsonl").write_bytes(line("user", "in the same one", at=AT))
    foreign = watching(since_ns=parse_rfc3339(AT) + 400_000)
    assert texts(told(foreign, 1)) == ["in the same one"]


def test_two_sessions_of_one_folder_are_told_apart(transcripts: Path, watching: Callable[..., ForeignWatcher]) -> None:
    foreign = watching()
    for name in ("one", "two"):
        (transcripts / f"{name}.jsonl").write_bytes(line("user", f"to {name}"))
    found = told(foreign, 2)
    assert sorted((one.session.id, text) for one, text in zip(found, texts(found), strict=True)) == [
        ("one", "to one"),
        ("two", "to two"),
    ]


@pytest.mark.slow
def test_a_folder_that_appears_later_is_watched(tmp_path: Path, watching: Callable[..., ForeignWatcher]) -> None:
    foreign = watching()
    folder = tmp_path / ".claude" / "projects" / "-new"
    folder.mkdir(parents=True)
    (folder / "one.jsonl").write_bytes(line("user", "hello"))
    assert texts(told(foreign, 1)) == ["hello"]


def test_half_a_line_waits_for_its_end(transcripts: Path, watching: Callable[..., ForeignWatcher]) -> None:
    foreign = watching()
    whole = line("user", "halves")
    path = transcripts / "one.jsonl"
    path.write_bytes(whole[:20])
    assert told(foreign, 0) == []
    with path.open("ab") as file:
        file.write(whole[20:])
    assert texts(told(foreign, 1)) == ["halves"]


def test_a_file_that_is_written_anew_is_not_reported_again(
    transcripts: Path, watching: Callable[..., ForeignWatcher]
) -> None:
    foreign = watching()
    path = transcripts / "one.jsonl"
    path.write_bytes(line("user", "first", key="a") + line("user", "second one", key="b"))
    assert len(told(foreign, 2)) == 2
    foreign._changes._wake.clear()
    path.write_bytes(line("user", "first", key="a"))
    assert foreign._changes._wake.wait(WAIT_S)
    foreign.poll()
    with path.open("ab") as file:
        file.write(line("user", "third", key="c"))
    assert texts(told(foreign, 1)) == ["third"]


@pytest.mark.slow
def test_a_line_without_an_end_takes_no_more_than_its_limit(
    transcripts: Path, watching: Callable[..., ForeignWatcher]
) -> None:
    foreign = watching()
    path = transcripts / "one.jsonl"
    with path.open("wb") as file:
        for _ in range(12):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + line("user", "after it"))
    found = told(foreign, 2)
    assert [one.event.code for one in found if isinstance(one.event, events.Notice)] == ["too_large"]
    assert texts(found) == ["after it"]


def test_links_pipes_and_folders_in_a_files_place_are_left_alone(
    transcripts: Path, tmp_path: Path, watching: Callable[..., ForeignWatcher]
) -> None:
    foreign = watching()
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(line("user", "outside"))
    (transcripts / "link.jsonl").symlink_to(outside)
    os.mkfifo(transcripts / "pipe.jsonl")
    (transcripts / "folder.jsonl").mkdir()
    (transcripts / "away").symlink_to(tmp_path)
    (transcripts / "real.jsonl").write_bytes(line("user", "real"))
    assert texts(told(foreign, 1)) == ["real"]


@pytest.mark.slow
def test_hostile_names_are_only_names(transcripts: Path, watching: Callable[..., ForeignWatcher]) -> None:
    foreign = watching()
    name = "\x1b]0;owned\x07$(touch x)`y`\n.jsonl"
    (transcripts / name).write_bytes(line("user", "x"))
    found = told(foreign, 1)
    assert [one.session.id for one in found] == [name.removesuffix(".jsonl")]


@pytest.mark.slow
def test_secrets_are_blanked(transcripts: Path, watching: Callable[..., ForeignWatcher]) -> None:
    foreign = watching()
    secret = "sk-ant-api03-" + "a1B2" * 20
    (transcripts / "one.jsonl").write_bytes(line("user", f"use {secret} now"))
    (text,) = texts(told(foreign, 1))
    assert secret not in text
    assert text.startswith("use ")


@pytest.mark.slow
def test_without_notifications_files_are_looked_at(transcripts: Path, watching: Callable[..., ForeignWatcher]) -> None:
    foreign = watching(poll_only=True)
    (transcripts / "one.jsonl").write_bytes(line("user", "polled"))
    assert texts(told(foreign, 1)) == ["polled"]


# -- documents and databases -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_document_tells_what_is_new_in_it(tmp_path: Path, watching: Callable[..., ForeignWatcher]) -> None:
    folder = tmp_path / ".continue" / "sessions"
    folder.mkdir(parents=True)
    path = folder / "00000000-0000-4000-8000-000000000000.json"

    def write(*said: tuple[str, str]) -> None:
        history = [{"message": {"role": role, "content": text}} for role, text in said]
        path.write_text(json.dumps({"workspaceDirectory": "/p", "history": history}))

    write(("user", "old"))
    foreign = watching(only=["cn"])
    write(("user", "old"), ("assistant", "answer"))
    assert texts(told(foreign, 1)) == ["answer"]
    write(("user", "old"), ("assistant", "answer"), ("user", "more"))
    found = told(foreign, 1)
    assert texts(found) == ["more"]
    assert found[0].session.cwd == "/p"


def database(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = sqlite3.connect(path)
    made.execute("PRAGMA journal_mode=WAL")
    made.execute("CREATE TABLE session (id, parent_id, directory, time_updated)")
    made.execute("CREATE TABLE message (id, session_id, data)")
    made.execute("CREATE TABLE part (id, message_id, session_id, time_created, time_updated, data)")
    return made


@pytest.mark.slow
def test_rows_of_a_database_are_reported_once(tmp_path: Path, watching: Callable[..., ForeignWatcher]) -> None:
    made = database(tmp_path / ".local/share/opencode/opencode.db")
    foreign = watching(only=["opencode"])
    now = time.time_ns() // 1_000_000 + 100
    made.execute("INSERT INTO session VALUES ('ses_1', NULL, '/p', ?)", (now,))
    made.execute("INSERT INTO message VALUES ('m1', 'ses_1', ?)", (json.dumps({"role": "user"}),))
    made.execute("INSERT INTO message VALUES ('m2', 'ses_1', ?)", (json.dumps({"role": "assistant", "modelID": "x"}),))
    parts = [
        ("p1", "m1", {"type": "text", "text": "hello"}),
        ("p2", "m2", {"type": "tool", "callID": "c", "tool": "bash", "state": {"status": "running", "input": {}}}),
    ]
    for name, message, data in parts:
        made.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?, ?, ?)", (name, message, now, now, json.dumps(data)))
    made.commit()
    first = told(foreign, 2)
    assert [str(one.event.__struct_config__.tag) for one in first] == ["session.prompted", "tool.called"]
    done = {"type": "tool", "callID": "c", "tool": "bash", "state": {"status": "completed", "input": {}, "output": "o"}}
    made.execute("UPDATE part SET data = ?, time_updated = ? WHERE id = 'p2'", (json.dumps(done), now + 5))
    made.commit()
    second = told(foreign, 1)
    assert [str(one.event.__struct_config__.tag) for one in second] == ["tool.returned"]
    assert {one.session.id for one in [*first, *second]} == {"ses_1"}


def test_a_database_that_nobody_has_open_is_read_and_gets_no_files_beside_it(tmp_path: Path) -> None:
    from beam.foreign.database import rows

    path = tmp_path / "x.db"
    made = database(path)
    made.execute("INSERT INTO part VALUES ('p', 'm', 's', 1, 7, X'41')")
    made.commit()
    query = ["SELECT time_updated, data FROM part WHERE time_updated > :since"]
    assert rows(str(path), query, since_ms=0) == [(7, b"A")]
    made.close()
    assert rows(str(path), query, since_ms=0) == [(7, b"A")]
    assert [each.name for each in tmp_path.iterdir()] == ["x.db"]


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + b"\xff" * 4096, b"no database" * 100])
def test_what_is_no_database_says_nothing(
    tmp_path: Path, watching: Callable[..., ForeignWatcher], content: bytes
) -> None:
    foreign = watching(only=["opencode"])
    folder = tmp_path / ".local/share/opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.db").write_bytes(content)
    assert told(foreign, 0) == []


def test_a_database_that_never_ends_a_query_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.foreign import database as readers

    path = tmp_path / "x.db"
    made = sqlite3.connect(path)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, i, i, i"
    made.execute(f"CREATE VIEW session AS {endless} AS time_updated FROM n")
    made.commit()
    monkeypatch.setattr(readers, "_MAX_CHECKS", 50)
    with pytest.raises(UnreadableError, match="takes too long"):
        readers.rows(str(path), ["SELECT id, id FROM session WHERE id < 0"], since_ms=0)


@pytest.mark.parametrize(
    ("ts", "is_told"),
    [("2026-01-01T00:00:00.000000Z", True), ("2025-12-31T23:59:59.999999Z", False), ("", True)],
)
def test_events_from_the_very_begin_on_are_reported(
    ts: str, is_told: bool, watching: Callable[..., ForeignWatcher]
) -> None:
    foreign = watching(since_ns=parse_rfc3339("2026-01-01T00:00:00Z"))
    session = Session(id="s")
    tail: Any = SimpleNamespace(
        read=lambda: iter([(session, events.Text(text="x", ts=ts))]),
        written="2026-01-02T00:00:00.000000Z",
        place=SimpleNamespace(adapter="claude"),
        path="/f",
    )
    found = foreign._read(tail)
    assert [(one.adapter, one.session, one.path) for one in found] == ([("claude", session, "/f")] if is_told else [])
    assert not is_told or found[0].event.ts == (ts or tail.written)
