"""Each reader of each CLI × each odd line or file: what can be read is told, and nothing is dropped without a count."""

from __future__ import annotations

import gzip
import itertools
import json
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from beam.agents import registry
from beam.agents.session_files import NOT_JSON
from beam.foreign import compressed, tail
from beam.foreign.past import past_events
from beam.foreign.places import place, places
from beam.foreign.tail import Tail
from beam.foreign.watch import ForeignWatcher
from beam.model import events
from tests.foreign.test_past import PLACE, TURN, WHERE

OF_LINES = ("claude", "codex", "gemini", "copilot", "kimi", "vibe", "pi", "qwen")
WHERE_MORE = WHERE | {
    "pi": ("0a1b2c3d-6", ".pi/agent/sessions/p/2026-11-24_0a1b2c3d-6.jsonl"),
    "qwen": ("0a1b2c3d-7", ".qwen/projects/p/chats/0a1b2c3d-7.jsonl"),
    "cn": ("0a1b2c3d-0000-4000-8000-000000000000", ".continue/sessions/0a1b2c3d-0000-4000-8000-000000000000.json"),
}
NUMBERS = itertools.count()
FUTURE = {"type": "from-the-future", "timestamp": "2026-11-24T11:09:05Z", "payload": {}}
ODD: dict[str, Callable[[bytes], bytes]] = {  # the lines in the place of a line that says nothing of the conversation
    "two records on one line": lambda line: line + line,
    "a record that the next one cut off": lambda line: line[: len(line) // 2] + line,
    "NUL bytes": lambda line: b"\0" * 64 + line,
    "NUL bytes alone": lambda line: b"\0" * 64,
    "torn": lambda line: line[: len(line) // 2],
    "UTF-16": lambda line: '{"type":"user"}'.encode("utf-16-be").replace(b"\n", b""),
    "not JSON": lambda line: b"a line of another program",
    "a list": lambda line: b"[1, 2]",
    "a number": lambda line: b"7",
    "null": lambda line: b"null",
    "an unknown type": lambda line: json.dumps(
        FUTURE | {"id": str(next(NUMBERS)), "uuid": str(next(NUMBERS))}
    ).encode(),
    "9 MiB": lambda line: b'{"type":"user","x":"' + b"x" * (9 << 20) + b'"}',
}


def lines_of(cli: str) -> list[bytes]:
    (recording,) = PLACE.glob(f"{cli}-*/session.json*")
    return recording.read_bytes().splitlines()


def path_of(home: Path, cli: str) -> Path:
    path = home / WHERE_MORE[cli][1]
    path.parent.mkdir(parents=True, exist_ok=True)
    if cli == "gemini":
        (path.parents[1] / ".project_root").write_text("/tmp/rec/gemini/project")
    return path


def opened(home: Path, cli: str, path: Path) -> Tail:
    where = next(one for one in places({"HOME": str(home)}, [cli]) if one.fits(str(path)))
    return Tail(where, str(path))


def told(one: Tail) -> tuple[list[str], list[events.Notice]]:
    found = [event for _, event in one.read_to_end()]
    notices = [event for event in found if isinstance(event, events.Notice)]
    return [str(event.__struct_config__.tag) for event in found if not isinstance(event, events.Notice)], notices


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("cli", OF_LINES)
def test_an_odd_line_is_counted_said_once_and_the_others_are_told(cli: str, odd: str, tmp_path: Path) -> None:
    path, lines = path_of(tmp_path, cli), lines_of(cli)
    path.write_bytes(b"\n".join([*lines, ODD[odd](lines[0]), lines[-1], ODD[odd](lines[0]), b""]))
    one = opened(tmp_path, cli, path)
    found, notices = told(one)
    assert found == TURN
    counted = sum(one.left_out.counts.values())
    assert counted >= 2, one.left_out.counts
    if odd == "9 MiB":
        assert [one.code for one in notices] == ["too_large"] * 2
        return
    assert [one.code for one in notices] == ["unknown_records" if odd == "an unknown type" else "unreadable"]
    assert str(path) in notices[0].text and "left out" in notices[0].text
    with path.open("ab") as file:
        file.write(ODD[odd](lines[0]) + b"\n")
    assert told(one)[1] == [] and sum(one.left_out.counts.values()) > counted


def test_of_an_answer_of_aider_what_is_behind_its_limit_is_counted(tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    path.write_text("#### go\n\n" + ("x" * 999 + "\n") * 103 + "> Tokens: 5 sent, 2 received.\n")
    one = Tail(place("aider", registry.sessions_of("aider"), str(tmp_path)), str(path))
    found, notices = told(one)
    assert found == ["session.prompted", "text", "session.idle"] and len(notices) == 1
    assert one.left_out.counts == {"behind the first 100,000 characters of an answer": 2}


def test_reasons_that_a_file_names_do_not_fill_memory(tmp_path: Path) -> None:
    path = path_of(tmp_path, "pi")
    path.write_bytes(b"\n".join(b'{"type":"t%d"}' % number for number in range(1000)) + b"\n")
    one = opened(tmp_path, "pi", path)
    assert [notice.code for notice in told(one)[1]] == ["unknown_records"]
    assert len(one.left_out.counts) == 21 and sum(one.left_out.counts.values()) == 1000


@pytest.mark.parametrize("cli", OF_LINES)
def test_a_byte_order_mark_costs_no_line(cli: str, tmp_path: Path) -> None:
    path = path_of(tmp_path, cli)
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join([*lines_of(cli), b""]))
    one = opened(tmp_path, cli, path)
    assert told(one) == (TURN, []) and not one.left_out.counts


@pytest.mark.parametrize("cli", [cli for cli in OF_LINES if cli in WHERE])
def test_of_a_file_at_rest_the_last_line_without_a_break_is_told_or_counted(cli: str, tmp_path: Path) -> None:
    session_id, home = WHERE_MORE[cli][0], {"HOME": str(tmp_path)}
    path, lines = path_of(tmp_path, cli), lines_of(cli)
    path.write_bytes(b"\n".join(lines))
    whole = past_events(cli, session_id, folder="/", environ=home)
    path.write_bytes(b"\n".join([*lines, lines[-1][:-9]]))
    torn = past_events(cli, session_id, folder="/", environ=home)
    assert whole is not None and torn is not None and not whole.unread and torn.unread == {NOT_JSON: 1}
    assert (
        [event.__struct_config__.tag for event in whole.events]
        == TURN
        == [event.__struct_config__.tag for event in torn.events]
    )


@pytest.mark.parametrize("cli", ["cline", "cn", "gemini"])
@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"\xff\xfe{\0}\0", b"null", b'{"of":"another form"}', b'{"messages":7,"history":7}'],
)
def test_a_document_that_is_none_is_counted(cli: str, content: bytes, tmp_path: Path) -> None:
    path = path_of(tmp_path, cli)
    path = path.with_suffix(".json")
    path.write_bytes(content)
    one = opened(tmp_path, cli, path)
    found, notices = told(one)
    assert found == [] and len(notices) == 1 and sum(one.left_out.counts.values()) == 1


def test_a_document_over_the_limit_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "LARGEST", 8)
    path = path_of(tmp_path, "cline")
    path.write_bytes(b'{"messages":[]}')
    assert [one.code for one in told(opened(tmp_path, "cline", path))[1]] == ["unreadable"]


@pytest.mark.parametrize("cli", [name for name in registry.WITH_SESSIONS if registry.sessions_of(name).files.like])
def test_a_file_with_a_sessions_name_in_an_unknown_form_is_named(cli: str, tmp_path: Path) -> None:
    named = {"opencode": ".local/share/opencode/opencode-9.db", "kilo": ".local/share/kilo/kilo-9.db"}
    path = tmp_path / (named.get(cli) or f"{WHERE_MORE[cli][1]}.gz")
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(b"{}"))
    found = watched(tmp_path, cli)
    assert [(one.code, "unknown form" in one.text and str(path) in one.text) for one in found] == [("unreadable", True)]


def watched(home: Path, cli: str) -> list[events.Notice]:
    foreign = ForeignWatcher({"HOME": str(home)}, wake=threading.Event(), since_ns=0, only=[cli], poll_only=True)
    try:
        return [one.event for _ in range(2) for one in foreign.poll() if isinstance(one.event, events.Notice)]
    finally:
        foreign.close()


def test_all_clis_with_sessions_are_walked() -> None:
    assert {*WHERE_MORE, "opencode", "kilo", "aider"} == {*registry.WITH_SESSIONS}
    shapes = {name: registry.sessions_of(name).files for name in registry.WITH_SESSIONS}
    assert {name for name, files in shapes.items() if files.shape == "lines" and files.folder != "CWD"} == {*OF_LINES}


# -- databases ---------------------------------------------------------------------------------------------------------

TABLES = """
CREATE TABLE session (id, parent_id, directory, time_updated);
CREATE TABLE message (id, data);
CREATE TABLE part (id, session_id, message_id, data, time_created, time_updated);
INSERT INTO session VALUES ('ses_1', NULL, '/p', 5);
INSERT INTO message VALUES ('m', '{"role":"user"}');
"""


@pytest.fixture
def database(tmp_path: Path) -> sqlite3.Connection:
    path = tmp_path / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    made = sqlite3.connect(path)
    made.executescript(TABLES)
    return made


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("{", NOT_JSON),
        ('{"type":"from-the-future"}', "type from-the-future"),
        (json.dumps({"type": "text", "text": "x" * 1_000_000}), "longer than 1,000,000 characters"),
    ],
)
def test_a_row_that_is_not_understood_is_counted_and_the_others_are_told(
    data: str, why: str, database: sqlite3.Connection, tmp_path: Path
) -> None:
    for key, text in (("p1", '{"type":"text","text":"one"}'), ("p2", data), ("p3", '{"type":"text","text":"two"}')):
        database.execute("INSERT INTO part VALUES (?, 'ses_1', 'm', ?, 5, 5)", (key, text))
    database.commit()
    past = past_events("opencode", "ses_1", folder="/p", environ={"HOME": str(tmp_path)})
    assert past is not None and past.unread == {why: 1}
    assert [getattr(event, "text", "") for event in past.events] == ["one", "two"]
    one = opened(tmp_path, "opencode", tmp_path / ".local/share/opencode/opencode.db")
    assert len(told(one)[1]) == 1 and told(one)[1] == [] and one.left_out.counts == {why: 1}


@pytest.mark.parametrize(
    ("content", "why"), [(b"no database" * 100, "no SQLite database"), (None, "a database of an unknown form")]
)
def test_a_database_that_can_not_be_read_is_named(content: bytes | None, why: str, tmp_path: Path) -> None:
    path = tmp_path / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    if content is None:
        made = sqlite3.connect(path)
        made.execute("CREATE TABLE session_v9 (id)")
        made.commit()
    else:
        path.write_bytes(content)
    assert [why in one.text for one in watched(tmp_path, "opencode")] == [True]
    past = past_events("opencode", "ses_1", folder="/p", environ={"HOME": str(tmp_path)})
    assert past is not None and past.unread == {why: 1} and past.events == ()


def test_more_rows_than_one_page_are_all_told(
    database: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(f"p{n:05}", json.dumps({"type": "text", "text": f"{n}"}), 9_001 - n, n) for n in range(9_000)]
    database.executemany("INSERT INTO part VALUES (?, 'ses_1', 'm', ?, ?, ?)", rows)
    database.commit()
    assert (
        told(opened(tmp_path, "opencode", tmp_path / ".local/share/opencode/opencode.db"))[0]
        == ["session.prompted"] * 9_000
    )


SECOND = """
CREATE TABLE session_v2 (id, parent_id, directory, time_updated);
CREATE TABLE session_message (id, session_id, type, data, time_created, time_updated);
INSERT INTO session_v2 VALUES ('ses_1', NULL, '/p', 100), ('ses_2', 'ses_1', '/p', 100);
"""
CALL = {"type": "tool", "id": "c1", "name": "read", "state": {"status": "completed", "input": {"path": "a"}}}
STEPS: list[tuple[str, str, dict[str, object]]] = [
    ("ses_2", "user", {"text": "Why is checkout slow?"}),
    ("ses_2", "synthetic", {"text": "from OpenCode itself"}),
    (
        *("ses_2", "assistant"),
        {
            "content": [
                {"type": "reasoning", "text": "Look"},
                CALL | {"state": CALL["state"] | {"content": [{"type": "text", "text": "SELECT"}]}},
            ],  # type: ignore[operator]
            "model": {"id": "gpt-5.6"},
            "finish": "tool-calls",
            "tokens": {"input": 100, "output": 5, "reasoning": 0, "cache": {"read": 10, "write": 0}},
            "time": {"created": 20, "completed": 30},
        },
    ),
    ("ses_2", "shell", {"command": "ls", "output": "a", "time": {"created": 30, "completed": 31}}),
    (
        *("ses_2", "assistant"),
        {
            "content": [{"type": "text", "text": "An index is missing."}, {"type": "from-the-future"}],
            "tokens": {"input": 200, "output": 7},
            "time": {"created": 40, "completed": 50},
        },
    ),
    ("ses_2", "assistant", {"content": [], "error": {"message": "rate limit"}, "time": {"created": 60}}),
    ("ses_1", "user", {"text": "told by the first tables"}),
    ("ses_2", "from-the-future", {}),
]


def test_an_index_over_json_keeps_no_database_from_being_read(database: sqlite3.Connection, tmp_path: Path) -> None:
    database.execute("INSERT INTO part VALUES ('p1', 'ses_1', 'm', '{\"type\":\"text\",\"text\":\"one\"}', 5, 5)")
    database.execute("CREATE INDEX role ON message (json_extract(data, '$.role'))")
    database.commit()
    path = tmp_path / ".local/share/opencode/opencode.db"
    assert told(opened(tmp_path, "opencode", path)) == (["session.prompted"], [])


@pytest.mark.parametrize("sessions", ["session", "session_v2"])
def test_the_tables_of_opencode_2_are_read_and_no_message_is_told_twice(
    sessions: str, database: sqlite3.Connection, tmp_path: Path
) -> None:
    database.executescript(SECOND.replace("session_v2", "newer") if sessions == "session" else SECOND)
    if sessions == "session":
        database.execute("INSERT INTO session VALUES ('ses_2', 'ses_1', '/p', 100)")
    database.execute("INSERT INTO part VALUES ('p1', 'ses_1', 'm', '{\"type\":\"text\",\"text\":\"one\"}', 80, 80)")
    for number, (session, kind, data) in enumerate(STEPS):
        row = (f"m{number}", session, kind, json.dumps(data), 10 * number + 10, 10 * number + 10)
        database.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", row)
    database.commit()
    one = opened(tmp_path, "opencode", tmp_path / ".local/share/opencode/opencode.db")
    found = [(session, event) for session, event in one.read() if not isinstance(event, events.Notice)]
    own = [event for session, event in found if session.id == "ses_2"]
    assert [str(event.__struct_config__.tag) for event in own] == [
        *("session.prompted", "thinking", "tool.called", "tool.returned", "tool.called", "tool.returned"),
        *("text", "session.idle"),
    ]
    assert [getattr(event, "output", None) for event in own if isinstance(event, events.ToolReturned)] == [
        "SELECT",
        "a",
    ]
    idle = own[-1]
    assert isinstance(idle, events.SessionIdle) and (idle.usage.output_tokens, idle.usage.calls) == (12, 2)
    assert [getattr(event, "text", "") for session, event in found if session.id == "ses_1"] == ["one"]
    assert one.left_out.counts == {"type block from-the-future": 1, "type from-the-future": 1}
    past = past_events("opencode", "ses_2", folder="/p", environ={"HOME": str(tmp_path)})
    assert past is not None and len(past.events) == 8 and sum(past.unread.values()) == 2


@pytest.mark.parametrize("below", ["subagents/agent-a1.jsonl", "subagents/workflows/wf_1/agent-a1.jsonl"])
def test_a_subagent_of_claude_code_is_told_with_its_session(below: str, tmp_path: Path) -> None:
    path = path_of(tmp_path, "claude").with_suffix("") / below
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\n".join([*lines_of("claude"), b""]))
    path.with_name("journal.jsonl").write_text('{"type":"started"}\n')
    one = opened(tmp_path, "claude", path)
    assert told(one) == (TURN, []) and one.session.root_id == WHERE["claude"][0]
    assert watched(tmp_path, "claude") == [], "a journal of a workflow is no session"
    assert adopted(tmp_path, "claude") is None


# -- compressed files --------------------------------------------------------------------------------------------------


def packed(home: Path, data: bytes) -> Path:
    path = path_of(home, "codex")
    path = path.with_name(path.name + ".zst")
    path.write_bytes(zstandard.ZstdCompressor().compress(data))
    return path


def adopted(home: Path, cli: str = "codex") -> tuple[int, dict[str, int]] | None:
    past = past_events(cli, WHERE_MORE[cli][0], folder="/", environ={"HOME": str(home)})
    return None if past is None else (len(past.events), past.unread)


def test_a_compressed_thread_is_read_like_another(tmp_path: Path) -> None:
    path = packed(tmp_path, b"\n".join([*lines_of("codex"), b""]))
    assert told(opened(tmp_path, "codex", path)) == (TURN, [])
    assert adopted(tmp_path) == (5, {})
    (path_of(tmp_path, "codex")).write_bytes(b"\n".join(lines_of("codex")[:9]))
    assert adopted(tmp_path) == (1, {}), "the file that was unfolded replaces it"


def test_without_the_extra_a_compressed_thread_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed(tmp_path, b"")
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    why = "compressed with zstd; to read it: pip install 'beam-agents[zstd]'"
    assert adopted(tmp_path) == (0, {why: 1})
    assert [why in one.text for one in watched(tmp_path, "codex")] == [True]


@pytest.mark.parametrize("damage", [lambda data: data[:-200], lambda data: b"no zstd", lambda data: data[:60]])
def test_a_damaged_compressed_thread_is_counted(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = packed(tmp_path, b"\n".join([*lines_of("codex"), b""]))
    path.write_bytes(damage(path.read_bytes()))
    found = adopted(tmp_path)
    assert found is not None and sum(found[1].values()) == 1


def test_what_unfolds_to_too_much_is_left_behind_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "MAX_UNFOLDED", 24 << 20)
    lines = b"\n".join([*lines_of("codex"), b""])
    path = packed(tmp_path, lines + b"x" * (48 << 20) + b"\n" + lines)
    assert path.stat().st_size < 1 << 20
    found = adopted(tmp_path)
    assert found == (5, {"longer than 8 MiB": 1, "what is behind the first 24 MiB of a compressed file": 1})


def test_a_window_of_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path, b"")
    wide = zstandard.ZstdCompressionParameters(window_log=27)
    whole = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    path.write_bytes(whole.compress(b"x\n" * 4096) + whole.flush())
    assert adopted(tmp_path) == (0, {"damaged zstd": 1})


def test_an_archived_thread_is_read_and_goes_on_where_it_was(tmp_path: Path) -> None:
    path, lines = path_of(tmp_path, "codex"), lines_of("codex")
    archive = tmp_path / ".codex/archived_sessions"
    archive.mkdir()
    path.write_bytes(b"\n".join([*lines[:-2], b""]))
    foreign = ForeignWatcher(
        {"HOME": str(tmp_path)}, wake=threading.Event(), since_ns=0, only=["codex"], poll_only=True
    )
    try:
        assert len(foreign.poll()) == 4
        moved = archive / path.name
        path.rename(moved)
        with moved.open("ab") as file:
            file.write(b"\n".join([*lines[-2:], b""]))
        foreign._full_s = 0
        assert [one.event.__struct_config__.tag for one in foreign.poll()] == ["session.idle"]
        packed_path = moved.with_name(moved.name + ".zst")
        packed_path.write_bytes(zstandard.ZstdCompressor().compress(moved.read_bytes()))
        moved.unlink()
        foreign._full_s = 0
        assert foreign.poll() == []
    finally:
        foreign.close()
    assert adopted(tmp_path) == (5, {})


def test_a_copy_of_a_session_is_told_and_priced_once(tmp_path: Path) -> None:
    path = path_of(tmp_path, "claude")
    data = b"\n".join([*lines_of("claude"), b""])
    path.write_bytes(data)
    copy = path.with_name("0a1b2c3d-2.jsonl")
    copy.write_bytes(data)
    other = path.with_name("0a1b2c3d-3.jsonl")  # new ids of the lines, the same answers of the model
    other.write_bytes(data.replace(b'"uuid":"', b'"uuid":"0'))
    foreign = ForeignWatcher(
        {"HOME": str(tmp_path)}, wake=threading.Event(), since_ns=0, only=["claude"], poll_only=True
    )
    try:
        found = [one.event for one in foreign.poll()]
    finally:
        foreign.close()
    assert sum(isinstance(event, events.SessionIdle) for event in found) == 1
    assert sum(isinstance(event, events.Text) for event in found) == 1
    assert adopted(tmp_path, "claude") == (5, {}), "the copy is a session of its own"
