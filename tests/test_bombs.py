"""What unfolds or refers: every reader of what somebody else wrote, each with a small file that would unfold to more
than any machine has.

Each reader runs in a process of its own with little memory and little time, because Python can't interrupt itself in
the middle of an encoder, and a test that hangs proves nothing.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from email.message import Message as Headers
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytestmark = pytest.mark.slow

CPU_S, MEMORY = 20, 1 << 30
REFUSED = "refused: "
DEPTHS = (100, 480, 600, 900, 990, 5_000, 200_000)
SECRET = "ghp_" + "a" * 36


def nested(depth: int, inside: str = "1") -> bytes:
    return ("[" * depth + inside + "]" * depth).encode()


# -- recordings of model calls -----------------------------------------------------------------------------------------


class Calls:
    """A recording of model calls as a stranger makes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[dict[str, Any]] = []
        (folder / "answers").mkdir(parents=True)
        (folder / "recording.json").write_text('{"v":1,"agent":"claude"}')

    def blob(self, value: Any, *, is_text: bool = False) -> dict[str, str]:
        from beam.proxy.packing import blob_name

        data = value.encode() if is_text else json.dumps(value).encode()
        name = blob_name(data, is_text=is_text)
        path = self.folder / "blobs" / name[:2] / f"{name}.{'txt' if is_text else 'json'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return {"$blob": name}

    def ask(self, body: Any) -> None:
        line = {"line": "request", "n": len(self.lines) + 1, "at": "", "format": "anthropic", "kind": "ask"}
        self.lines.append({**line, "method": "POST", "path": "/v1/messages", "body": body})

    def read(self) -> str:
        from beam.proxy.options import ProxyOptions
        from beam.proxy.shared import ProxyState

        text = "".join(json.dumps(line) + "\n" for line in self.lines)
        (self.folder / "model.exchanges.jsonl").write_text(text)
        assert sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) < 1_500_000
        ProxyState(ProxyOptions(replay=str(self.folder)), None, None)
        return "a recording"


def blobs_that_name_each_other(base: Path) -> str:
    calls = Calls(base / "calls")
    blob = calls.blob(["x"] * 10)
    for _ in range(11):
        blob = calls.blob([blob] * 10)
    calls.ask({"messages": [{"role": "user", "content": blob}]})
    return calls.read()


def texts_that_are_named_often(base: Path) -> str:
    calls = Calls(base / "calls")
    calls.ask({"messages": [calls.blob("x" * 1_000_000, is_text=True)] * 10_000})
    return calls.read()


def requests_that_go_on_from_each_other(base: Path) -> str:
    calls = Calls(base / "calls")
    calls.ask({"messages": [1] * 20_000})
    for number in range(1, 3_000):
        calls.ask({"messages": {"$after": number, "keep": 10**9, "then": [2]}})
    return calls.read()


def blobs_in_each_other(base: Path) -> str:
    calls = Calls(base / "calls")
    blob = calls.blob([1])
    for _ in range(100):
        for _ in range(20):
            blob = calls.blob([[blob]])
        calls.ask({"messages": blob})
    return calls.read()


# -- YAML --------------------------------------------------------------------------------------------------------------


def aliases(last: str) -> str:
    lists = "".join(f"  a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(12))
    return f"x:\n  a0: &a0 [1]\n{lists}{last}: *a12\n"


def merges(last: str) -> str:
    maps = "".join(f"  a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 10)}]}}\n" for n in range(12))
    return f"x:\n  a0: &a0 {{k: 1}}\n{maps}{last}: *a12\n"


def texts(last: str) -> str:
    return f"x: &a {'y' * 50_000}\n{last}: [{', '.join(['*a'] * 5_000)}]\n"


def yaml_of(make: Callable[[str], str], read: Callable[[bytes, Path], object], key: str) -> Callable[[Path], str]:
    def run(base: Path) -> str:
        path = base / "file.yaml"
        path.write_text(make(key))
        read(path.read_bytes(), path)
        return "YAML"

    return run


def settings(data: bytes, path: Path) -> object:
    from beam.config import file

    return file.parse(data, path, adapters=("claude",))


def scenario(data: bytes, path: Path) -> object:
    from beam.conversations import read

    return read.read(path, {})


def script(data: bytes, path: Path) -> object:
    from beam.testing import script as scripts

    return scripts.load(path)


def fake_script(data: bytes, path: Path) -> object:
    from beam.testing.fake_model import script as scripts

    return scripts.load(path)


# -- JSON --------------------------------------------------------------------------------------------------------------


def in_every_depth(read: Callable[[bytes], object]) -> Callable[[Path], str]:
    """Refused or read, but never a traceback, and never for ever."""

    def run(base: Path) -> str:
        from beam.base.errors import BeamError

        for depth in DEPTHS:
            with contextlib.suppress(BeamError):
                read(nested(depth, f'"{SECRET}"'))
        return "read"

    return run


def decoders(data: bytes) -> None:
    from beam.agents import registry
    from beam.agents.base import Exit, HasHistory, Turn
    from beam.model import events
    from beam.secrets.redact import redact_event

    turn = Turn(text="hello", message_id="x-1", agent="x", cwd="/tmp/x", fresh_session_id="u")
    heads = (
        b'{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"x","input":{"a":%s}}]}}',
        b'{"type":"item.completed","item":{"id":"i","type":"mcp_tool_call","arguments":%s}}',
        b'{"type":"tool_use","part":{"type":"tool","callID":"c","state":{"input":{"a":%s}}}}',
        b'{"jsonrpc":"2.0","method":"session/update","params":%s}',
        b'{"type":"tool_called","call_id":"1","name":"x","input":{"a":%s}}',
        b"%s",
    )
    for name in registry.ADAPTERS:
        adapter = registry.adapter(name)
        faces = [adapter.exec.decoder(turn)] if adapter.exec is not None else []
        for head in heads:
            line = head % data
            found = [event for decoder in faces for event in decoder.line(line)]
            if isinstance(adapter, HasHistory) and hasattr(adapter.history, "transcript"):
                found += adapter.history.transcript(turn).line(line)
            for event in found:
                clean, _ = redact_event(event)
                assert SECRET.encode() not in events.encode(clean), name
        for decoder in faces:
            msgspec.json.encode(decoder.end(Exit(code=0))[1])


def events_of_a_journal(data: bytes) -> None:
    from beam.board import decision, stream
    from beam.model import events

    event = events.decode(b'{"v":1,"type":"tool.called","seq":1,"call_id":"1","name":"x","input":{"a":%s}}' % data)
    assert isinstance(event, events.ToolCalled)
    list(stream.detail_lines(stream.StreamEvent(event=event, key="", name="x", sign="", text="")))
    decision._input_lines(b'{"a":%s}' % data, 80)


def teams(data: bytes) -> None:
    from beam.teams import model

    for parse in (model.roster, model.inbox, model.task, model.session):
        parse(data)
        parse(b'{"members":%s,"status":%s}' % (data, data))
        parse(b'[{"from":"a","text":%s}]' % json.dumps(data.decode()).encode())


def proxied(data: bytes) -> None:
    from beam.proxy.call import call_of
    from beam.proxy.shared import FolderReplacer
    from beam.proxy.wire import dialects

    moved = FolderReplacer({"cwd": "/then"}, {"cwd": "/now"})
    moved.data(b'{"a":"/then","b":%s}' % data)
    moved.events([b'data: {"delta":{"text":"/then"},"b":%s}\n\n' % data])
    for body in (data, b'{"model":"m","messages":%s}' % data):
        call_of(body, "/v1/messages", Headers(), dialects.by_name("anthropic"), "ask")


def messages(data: bytes) -> None:
    from beam.model.message import decode

    decode(data)
    decode(b'{"v":1,"id":"a-1","to":"a","payload":{"text":"x"},"extra":%s}' % data)


# -- other files -------------------------------------------------------------------------------------------------------


def compressed_request(base: Path) -> str:
    from beam.proxy.call import call_of
    from beam.proxy.wire import dialects

    headers: Headers[str, str] = Headers()
    headers["content-encoding"] = "gzip"
    bomb = gzip.compress(gzip.compress(b"0" * (1 << 20)) * 2000)
    call_of(bomb, "/v1/messages", headers, dialects.by_name("anthropic"), "ask")
    return "read"


def compressed_answer(base: Path) -> str:
    from beam.proxy.upstream import Answer

    class Response:
        status, length, will_close = 200, None, False
        data = gzip.compress(b"0" * (1 << 26))

        def getheader(self, name: str) -> str:
            return "gzip"

        def getheaders(self) -> list[tuple[str, str]]:
            return []

        def read1(self, size: int) -> bytes:
            piece, self.data = self.data[:size], self.data[size:]
            return piece

        def close(self) -> None:
            pass

    class Upstream:
        def close(self) -> None:
            pass

    largest = max(map(len, Answer(Response(), Upstream()).pieces()))  # type: ignore[arg-type]
    assert largest <= 128 << 20
    return "read"


def database(view: str) -> Callable[[Path], str]:
    def run(base: Path) -> str:
        from beam.foreign import database as databases
        from beam.foreign.unreadable import UnreadableError

        path = base / "other.db"
        with contextlib.closing(sqlite3.connect(path)) as made:
            made.execute(f"CREATE VIEW told AS {view}")
            made.commit()
        try:
            found = databases.rows(str(path), ["SELECT at, row FROM told"], since_ms=0)
        except UnreadableError as error:
            return f"{error}"
        return f"{len(found)} rows"

    return run


def compressed_thread(base: Path) -> str:
    import zstandard

    from beam.foreign.past import past_events

    path = base / ".codex/archived_sessions/rollout-2026-01-01T00-00-00-019f0000-0000-7000-8000-00000000000a.jsonl.zst"
    path.parent.mkdir(parents=True)
    path.write_bytes(zstandard.ZstdCompressor().compress(b"\0" * (64 << 20)) * 200)
    past = past_events("codex", path.name[-46:-10], folder="/", environ={"HOME": str(base)})
    assert past is not None and path.stat().st_size < 1 << 20
    return ", ".join(reversed(past.unread))


ENDLESS = "WITH RECURSIVE n(at) AS (VALUES(1) UNION ALL SELECT at + 1 FROM n) SELECT at, {row} AS row FROM n"


def cast_without_end(base: Path) -> str:
    from beam.model.screen_profile import GENERIC_PROFILE
    from beam.pty_adapter import replay
    from beam.pty_adapter.cast import NoCastError

    head = b'{"version": 2, "width": 1000, "height": 1000}\n'
    moves = b"".join(b"\\u001b[999999999" + each for each in (b"b", b"L", b"S", b"T", b"@", b"P", b"X", b"I", b"H"))
    played = replay.read(head + b'[1, "o", "x%s"]\n' % moves)
    assert list(replay.replay(played, GENERIC_PROFILE))
    for line in (b'[1e300, "o", "x"]\n\n', b'[1, "o", %s]\n\n' % nested(200_000), nested(200_000) + b"\n\n"):
        with contextlib.suppress(NoCastError):
            replay.read(head + line)
    return "played"


def recorded_turns(base: Path) -> str:
    from beam.conversations.recording import Replay
    from beam.model import events
    from beam.model.message import Message, Payload
    from beam.model.outcome import Status

    header = {"seq": 1, "ts": "2026-01-01T00:00:00Z", "agent": "a", "message_id": "a-1"}
    kinds = [
        events.MessageQueued(sender="human", text="y" * 200_000, **header),
        *[events.Text(text="x", **header)] * 10_000,
        *[events.TurnFinished(status=Status.COMPLETED, **header)] * 10_000,
    ]
    (base / "a.jsonl").write_bytes(b"".join(events.encode(each) + b"\n" for each in kinds))
    message = Message(id="a-2", timestamp="", sender="human", to="a", payload=Payload(text="y" * 199_999))
    Replay(base, "strict").take(message)
    return "read"


CASES: dict[str, tuple[Callable[[Path], str], str]] = {
    "model calls: blobs that name each other": (blobs_that_name_each_other, f"{REFUSED}.*unfold to more"),
    "model calls: one text, named often": (texts_that_are_named_often, f"{REFUSED}.*unfold to more"),
    "model calls: requests that go on": (requests_that_go_on_from_each_other, f"{REFUSED}.*unfold to more"),
    "model calls: blobs in each other": (blobs_in_each_other, f"{REFUSED}.*nested too deeply"),
    **{
        f"{name}: {make.__name__}": (yaml_of(make, read, key), f"{REFUSED}.*too (?:deeply|large)")
        for name, read, key in (
            ("settings", settings, "agents"),
            ("a scenario", scenario, "steps"),
            ("a script", script, "replies"),
            ("a script of the fake model", fake_script, "replies"),
        )
        for make in (aliases, merges, texts)
    },
    "JSON: what agents write": (in_every_depth(decoders), "read"),
    "JSON: events of a journal": (in_every_depth(events_of_a_journal), "read"),
    "JSON: files of teams": (in_every_depth(teams), "read"),
    "JSON: model calls": (in_every_depth(proxied), "read"),
    "JSON: messages": (in_every_depth(messages), "read"),
    "gzip: a request": (compressed_request, "read"),
    "gzip: an answer": (compressed_answer, "read"),
    "SQLite: rows without end": (database(ENDLESS.format(row="CAST('x' AS BLOB)")), "5\\d{5} rows"),
    "SQLite: large rows": (database(ENDLESS.format(row="zeroblob(10000000)")), "2\\d rows"),
    "SQLite: a row as large as may be": (
        database("SELECT 1 AS at, zeroblob(900000000) AS row"),
        "a row of more than 16 MiB",
    ),
    "SQLite: slow steps": (database(ENDLESS.format(row="CAST(hex(zeroblob(7000000)) AS BLOB)")), "2\\d rows"),
    "zstd: an old thread of Codex": (compressed_thread, "what is behind the first 512 MiB of a compressed file.*"),
    "a cast": (cast_without_end, "played"),
    "recorded turns": (recorded_turns, f"{REFUSED}no recorded turn of a has this prompt.*"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_small_file_can_not_unfold_to_more_than_its_reader_holds(name: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tests.test_bombs", name, str(tmp_path)]
    root = Path(__file__).parents[1]
    ran = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    import re

    assert re.match(CASES[name][1], ran.stdout), ran.stdout


def main() -> None:
    from beam.base.errors import BeamError
    from beam.testing.script import ScriptError

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    read, _ = CASES[sys.argv[1]]
    try:
        print(read(Path(sys.argv[2])))
    except (BeamError, ScriptError) as error:
        print(f"{REFUSED}{error}")


if __name__ == "__main__":
    main()
