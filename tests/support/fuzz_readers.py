"""Every reader of beam, as the fuzz feeds it. Seeds are recordings of real CLIs, and files that beam made.

A reader that opens a file gets the input in that file's place, in a root of its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from beam.agents import registry
from beam.agents.base import ErrorReader, Exit, HasHistory, Turn
from beam.agents.claude import history as claude_history
from beam.api.attach import Attached
from beam.api.cursor import Cursor
from beam.api.messages import queue_items
from beam.api.status import status_of
from beam.api.teams import TeamsHere
from beam.api.verify import find_damage
from beam.base.errors import BeamError, CorruptError
from beam.base.typed_values import escape_surrogates
from beam.broker.holder import registry as broker_registry
from beam.broker.holder.control import answer_requests
from beam.broker.holder.lease import AgentLease
from beam.cli.render.stream import EventLine, Stream
from beam.config import file
from beam.config.resolve import load, parse_agent_json
from beam.model import events
from beam.model.autoloaded import Finding
from beam.model.message import Message, Payload
from beam.model.message import decode as decode_message
from beam.model.message import encode as encode_message
from beam.model.screen_profile import GENERIC_PROFILE
from beam.model.settings import DEFAULT_LIMITS
from beam.process import tree
from beam.process.pipes import LineSplitter as Split
from beam.pty_adapter import replay
from beam.pty_adapter.cast import NoCastError
from beam.pty_adapter.picture import Painter, repaint
from beam.pty_adapter.screen import Screen
from beam.root import directories, discovery, paths
from beam.secrets.redact import redact_event
from beam.store import control
from beam.store.journal import Journal
from beam.store.reader import Reader as JournalReader
from beam.store.segment import LineDecoder, read_state
from beam.store.thread import ThreadUsage
from beam.teams import hook, hooks_install, model
from beam.teams.spool import Spool
from beam.teams.tails import Tail
from beam.testing import script as scripts
from beam.testing.fake_model import script as fake_scripts
from beam.trust import ledger
from beam.trust.declarations import AdapterFacts, findings_of_agent
from beam.turns.request import find_executable
from beam.turns.terminal.reading import _TranscriptFile
from tests.support.context import FakeClock, Root
from tests.support.fuzz import Reader
from tests.support.fuzz_root import Made, folder_in, folders, names, outboxes, whose
from tests.support.trusted import trusted_folders

RECORDINGS = Path(__file__).parents[1] / "recordings"
SEEDS = 10
_TIMES = re.compile(rb"(?m)^ *\d+\.\d+ (?:[<>] )?(?=\{)")  # before each line of a recording that has them
SEED_BYTES = 60_000
PLAYED_S = 60.0  # a recording that is longer takes long to play, as it should
TURN = Turn(text="hello", message_id="x-1", agent="x", cwd="/tmp/x", session_id="11111111-2222-4333-8444-555555555555")
TURNS = {  # whose transcript the recording has
    "codex": Turn(text="hello", message_id="x-1", agent="x", cwd="/tmp/proft-kpfs_irl/project"),
    "gemini": Turn(text="SLOW hello\nsecond line !slow 8", message_id="x-1", agent="x", session_id="s-1"),
    "aider": Turn(text="SLOW hello\nsecond line !slow 8", message_id="x-1", agent="x", fresh_session_id="u"),
}
OURS = (BeamError, FileNotFoundError)


def readers() -> list[Reader]:
    """All of them, each with its own scratch."""
    base = Path(tempfile.mkdtemp(prefix="beam-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        in_files = (_journals, _places, _settings, _user_files, _teams, _terminals, outboxes, names, whose, folders)
        return [*_messages(), *_agents(), *(reader for made in in_files for reader in made(base))]
    finally:
        _removed_at_exit(base)


def _removed_at_exit(base: Path) -> None:
    import atexit

    atexit.register(shutil.rmtree, base, ignore_errors=True)


# -- what lies in a root -----------------------------------------------------------------------------------------------


def _messages() -> list[Reader]:
    message = encode_message(Message(id="box-1", timestamp="", sender="human", to="box", payload=Payload(text="a\n")))
    nested = message[:-2] + b',"color":{"deep":[1,{"a":null}]}}\n'

    def read(data: bytes) -> str:
        found = decode_message(data)
        again = encode_message(found)
        assert decode_message(again).payload == found.payload
        return "a message"

    def event(data: bytes) -> str:
        found = events.decode(data)
        Stream(io.StringIO(), as_json=False).batch([EventLine(found)])
        return type(events.decode(events.encode(found))).__name__

    return [
        Reader("message", [message, nested], read, (CorruptError,)),
        Reader("event", _event_lines(), event, (CorruptError,)),
    ]


def _event_lines() -> list[bytes]:
    """One of each type that has no field without a default, and what the recordings of Claude Code became."""
    found = []
    for kind in events.types().values():
        with contextlib.suppress(TypeError):
            found.append(events.encode(kind()))
    for data in _recorded("claude", ".out"):
        decoder = registry.adapter("claude").exec.decoder(TURN)  # type: ignore[union-attr]
        found += [events.encode(body) for line in data.split(b"\n") for body in decoder.line(line)][:5]
    return found


def _journals(base: Path) -> list[Reader]:
    made = Made(base, "journal")
    segment = made.segment
    whole = segment.read_bytes()
    torn = whole[:-20]
    zeros = whole + bytes(300) + b"\n" + whole.splitlines(keepends=True)[-1]

    def pieces(data: bytes) -> int:
        lines = LineDecoder(Path("/agents/box/journal/1.jsonl"))
        size = 1 + len(data) // 3
        return sum(1 for at in range(0, len(data), size) for _ in lines.feed(data[at : at + size]))

    def look_at(data: bytes) -> str:
        segment.write_bytes(data[: len(data) // 2])
        reader = JournalReader(made.place.journal)
        for part in (data[: len(data) // 2], data):
            segment.write_bytes(part)
            try:
                _shown(reader.poll())
            except CorruptError:
                break
        find_damage(made.place.journal)
        for status in (status_of(made.root.context, made.place),):
            msgspec.json.encode(status)
        list(queue_items(made.root.context, ["box"]))
        return type(read_state(made.place.journal)).__name__

    def hold(data: bytes) -> int:
        segment.write_bytes(data)
        for other in made.place.journal.iterdir():
            if other != segment:
                other.unlink()
        journal = Journal.open(made.place.journal, "box", FakeClock(), DEFAULT_LIMITS)
        try:
            journal.append(events.Notice(text="one more", code="fuzz"), sync=False)
        finally:
            journal.close()
        assert read_state(made.place.journal).seq == journal.state.seq
        return len(journal.state.known)

    return [
        Reader("journal lines", [whole, torn, zeros], pieces, OURS),
        Reader("journal", [whole, torn, zeros], look_at, OURS),
        Reader("journal, by its holder", [whole, torn, zeros], hold, OURS),
    ]


def _shown(found: Iterable[Any]) -> None:
    """What is told reaches a person and a program."""
    Stream(io.StringIO(), as_json=True).batch([EventLine(event) for event in found])


def _places(base: Path) -> list[Reader]:
    made = Made(base, "place")
    new = made.place.queue / "new"
    waiting = next(new.iterdir())
    message = waiting.read_bytes()
    now = made.root.clock.now_ns()
    request = control.ControlRequest(
        id="box-c1",
        verb="edit",
        timestamp="2026-01-01T00:00:00Z",
        expires="2099-01-01T00:00:00Z",
        target=waiting.name[21:-5],
        text="another",
    )
    requests = [
        msgspec.json.encode(msgspec.structs.replace(request, verb=verb))
        for verb in ("edit", "drop", "interrupt", "retry", "pause", "approve", "reset", "resume")
    ]
    thread = b"turn box-1 1\ncost box-1 1 0.500000000\nturn box-2 1\n"

    def queued(data: bytes) -> str:
        made.again()
        (new / waiting.name).write_bytes(data)
        lease = AgentLease.acquire(made.root.context, made.place)
        assert lease is not None
        try:
            lease.waiting.scan()
            lease.waiting.expire()
        finally:
            lease.close()
        items = list(queue_items(made.root.context, ["box"]))
        msgspec.json.encode(items)
        return " ".join(item.box for item in items)

    def asked(data: bytes) -> str:
        made.again()
        (made.place.control / "new" / "box-c1.json").write_bytes(data)
        lease = AgentLease.acquire(made.root.context, made.place)
        assert lease is not None
        try:
            answer_requests(lease)
            assert not control.waiting_names(made.place.control)
        finally:
            lease.close()
        return "answered"

    def counted(data: bytes) -> int:
        path = made.root.context.home.threads / "t"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        ThreadUsage(path.parent, "t").begin("box-3", 1)
        return ThreadUsage(path.parent, "t").spent().turns > 1

    def positioned(data: bytes) -> str:
        made.again()
        made.place.put_lock.write_bytes(data)
        made.root.put("box", f"at {now}")
        return "put"

    owner = broker_registry.BrokerFile(
        owner=tree.this_process(), version="1", started_at="2026-01-01T00:00:00Z", poll=1.0, cap=4
    )

    def broker(data: bytes) -> str:
        broker_registry.broker_file_path(made.root.context.home).write_bytes(data)
        return type(broker_registry.running_broker(made.root.context.home)).__name__

    return [
        Reader("queue", [message], queued, OURS),
        Reader("control", requests, asked, OURS),
        Reader("thread", [thread], counted, OURS),
        Reader("put.lock", [b"0" * 20, b"9" * 20, b"%020d" % now], positioned, OURS),
        Reader("broker.json", [msgspec.json.encode(owner)], broker, OURS),
    ]


# -- settings ----------------------------------------------------------------------------------------------------------

YAML = b"""\
defaults: {timeout: 20m, env: {A: "1"}}
agents:
  planner: {adapter: claude, model: opus, access: read, description: "x"}
  linter:
    command: [./lint.sh, [--json, "{text}"]]
    format: json
    reply_path: a.b.0
  desk: {adapter: mailbox, lease: 5m}
  shown:
    adapter: command
    command: [x]
    screen: {prompt: "^> (.*)", dialogs: [{name: a, match: "b", allow: [y], deny: [n]}]}
  base: &base {adapter: scripted, script: demo, cwd: ./x, executable: ~/bin/x}
  like: {<<: *base, keep: 1h30m}
limits: {waiting: 500, segment_bytes: 1000}
policy: {attempts: 3, retry: [overloaded], backoff: 500ms}
allow_fs: [nfs4]
"""


def _settings(base: Path) -> list[Reader]:
    root = Root(folder_in(base, "settings"))
    adapters = tuple(registry.ADAPTERS)
    agent_json = root.context.home.agent("mine").dir / "agent.json"
    agent_json.parent.mkdir(parents=True)
    tokens = [
        b"  ",
        b"\n",
        b": ",
        b"agents:\n",
        b"screen: {prompt: '(a+)+$'}",
        b"!!binary aGk=",
        b"|\n ",
        b">-\n",
        b"---\n",
    ]

    def declared(data: bytes) -> str:
        (root.base / "beam.yaml").write_bytes(data)
        config = load(root.context.home, environ=root.environ, adapters=adapters)
        for name in config.names()[:20]:
            with contextlib.suppress(BeamError):
                found = config.resolve(name)
                findings_of_agent(config, found, AdapterFacts(adapters=adapters, runs_text=True))
                find_executable(registry.adapter(found.settings.adapter), found.settings, root.environ, root.base)
        return "settings"

    def own(data: bytes) -> str:
        path = root.base / "config.yaml"
        path.write_bytes(data)
        return type(file.read(path, adapters=adapters)).__name__

    def added(data: bytes) -> str:
        agent_json.write_bytes(data)
        parse_agent_json(data, agent_json)
        root.context.config.resolve("mine")
        return "settings"

    def claude_settings(data: bytes) -> str:
        path = root.base / "settings.json"
        path.write_bytes(data)
        hooks_install.install(path, kept=root.base / "kept")
        hooks_install.uninstall(path, kept=root.base / "kept")
        assert path.read_bytes() == data
        return "settings"

    def kept(data: bytes) -> str:
        path = root.base / "other.json"
        path.write_bytes(b"{}")
        hooks_install.install(path, kept=root.base / "kept")
        for record in (root.base / "kept").iterdir():
            record.write_bytes(data)
        hooks_install.uninstall(path, kept=root.base / "kept")
        return "settings"

    shipped = [path.read_bytes() for path in sorted(scripts.SHIPPED_SCRIPTS.glob("*.yaml"))]
    fakes = [b"rules: [{match: a, text: b}, {regex: c, error: {status: 500}}]\nreplies: [x]\notherwise: {text: y}\n"]

    def scripted(data: bytes) -> str:
        path = root.base / "script.yaml"
        path.write_bytes(data)
        return type(scripts.load(path)).__name__

    def fake(data: bytes) -> str:
        path = root.base / "fake.yaml"
        path.write_bytes(data)
        return type(fake_scripts.load(path)).__name__

    json_settings = b'{"adapter": "scripted", "model": "x", "timeout": 30.0, "env": {"A": "b"}, "screen": {"rows": 40}}'
    hooks = b'{"model": "x", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}'
    before = b'{"path":"/x/settings.json","before":"e30=","after":"99914b932bd37a50b983c5e7c90ae93b","v":1}'
    return [
        Reader("beam.yaml", [YAML], declared, OURS, tokens),
        Reader("config.yaml", [YAML], own, OURS, tokens),
        Reader("agent.json", [json_settings], added, OURS),
        Reader("Claude Code's settings", [hooks, b"{}"], claude_settings, OURS),
        Reader("settings that were kept", [before], kept, OURS),
        Reader("script", shipped, scripted, (scripts.ScriptError,), tokens),
        Reader("script of the fake model", fakes, fake, OURS, tokens),
        Reader("mounts", [Path("/proc/self/mountinfo").read_bytes()], _mounts),
    ]


def _mounts(data: bytes) -> str:
    return directories.filesystem_of(Path("/tmp/x"), data.decode("utf-8", "surrogateescape"))


# -- what beam remembers for a user ------------------------------------------------------------------------------------


def _user_files(base: Path) -> list[Reader]:
    folder = folder_in(base, "user")
    environ = {"HOME": str(folder)}
    obeyed = Finding(name=".env", digest="aa", text="A=1\nB=2\n")
    ledger.trust(folder, [obeyed], environ)
    ledger.remember_file(folder / "agent.json", "0" * 64, environ)
    stored = paths.state_dir(environ) / "trust.json"
    discovery.remember_root(paths.RootPaths(folder_in(folder, "named"), folder), environ)
    known = next((paths.state_dir(environ) / "roots").iterdir())
    place = folder / "c.json"
    said = events.Text(text="hi")
    said = structs.replace(said, seq=3, ts="2026-01-01T00:00:00.000000Z", agent="box", turn=1, message_id="box-1")
    with (folder / "out").open("w") as output:
        cursor = Cursor(place, now_ns=FakeClock().now_ns())
        for _ in range(3):
            cursor.record_before_print([said], output, lines=True)
            output.write("a line\n")
            output.flush()
            cursor.record_after_print()
    cursors = [place.read_bytes(), place.read_bytes()[:-9]]
    spool = folder_in(folder, "hooks")
    where = b'"session_id":"s","transcript_path":"/projects/p/s"'
    payload = b'{"hook_event_name":"PostToolUse",%s,"tool_name":"SendMessage","tool_input":{"to":"bob"}}' % where
    hook.write(payload, os.fsencode(spool), FakeClock().now_ns())
    called = next(spool.iterdir())

    def trusted(data: bytes) -> int:
        stored.write_bytes(data)
        for change in ledger.standing_of(folder, [obeyed], environ).changes:
            ledger.new_lines(change)
        ledger.is_remembered(folder / "agent.json", "0" * 64, environ)
        return len(trusted_folders(environ))

    def rooted(data: bytes) -> int:
        known.write_bytes(data)
        return len(discovery.known_roots(environ))

    def watched(data: bytes) -> str:
        place.write_bytes(data)
        found = Cursor(place, now_ns=FakeClock().now_ns())
        found.passes(said)
        found.record_before_print([said], io.StringIO(), lines=True)
        found.record_after_print()
        if found._log is not None:
            os.close(found._log)
        return "a cursor"

    def spooled(data: bytes) -> int:
        called.write_bytes(data)
        read = Spool(spool)
        read.begin(0)
        return len(list(read.calls("")))

    def heard(data: bytes) -> str:
        day = folder_in(folder, f"spool-{random.random()}")
        try:
            hook.write(data, os.fsencode(day), FakeClock().now_ns())
            return str(sum(path.read_bytes().count(b"\n") for path in day.iterdir()))
        finally:
            shutil.rmtree(day)

    return [
        Reader("trust.json", [stored.read_bytes()], trusted, OURS),
        Reader("roots", [known.read_bytes()], rooted, OURS),
        Reader("cursor", cursors, watched, OURS),
        Reader("spool of hooks", [called.read_bytes()], spooled),
        Reader("a hook's call", [payload], heard),
    ]


# -- teams -------------------------------------------------------------------------------------------------------------


def _versions() -> dict[str, list[bytes]]:
    """What files of each kind held, in the recordings of teams."""
    found: dict[str, list[bytes]] = {"config": [], "inbox": [], "task": [], "session": []}
    for path in sorted((RECORDINGS / "claude-teams" / "2.1.197").glob("*/versions.jsonl")):
        for line in path.read_text().splitlines():
            version = json.loads(line)
            parts, content = version["path"].split("/"), version.get("content")
            kind = (
                "inbox"
                if "inboxes" in parts
                else {"teams": "config", "tasks": "task", "sessions": "session"}.get(parts[0])
            )
            if content and kind and version["path"].endswith(".json"):
                found[kind].append(content.encode())
    return {kind: sorted(set(each), key=len)[-SEEDS:] for kind, each in found.items()}


def _transcripts() -> list[bytes]:
    """What the members' transcripts were, in the recordings that have them."""
    found: dict[str, str] = {}
    for path in sorted((RECORDINGS / "claude-teams" / "2.1.197").glob("*/versions.jsonl")):
        for line in path.read_text().splitlines():
            version = json.loads(line)
            if version["path"].startswith("projects/") and version["path"].endswith(".jsonl"):
                found[version["path"]] = found.get(version["path"], "") + (version.get("content") or "")
    return [text.encode()[:SEED_BYTES] for text in found.values()][:SEEDS]


def _teams(base: Path) -> list[Reader]:
    versions, transcripts = _versions(), _transcripts()
    folder = folder_in(base, "teams")
    paths = {
        "config": folder / "teams/t/config.json",
        "inbox": folder / "teams/t/inboxes/bob.json",
        "task": folder / "tasks/t/1.json",
        "session": folder / "sessions/7.json",
    }
    for kind, path in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(versions[kind][-1])
    transcript = folder / "projects/p/s.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_bytes(transcripts[0] if transcripts else b"")

    def here(kind: str, data: bytes) -> str:
        kept = paths[kind].read_bytes()
        try:
            paths[kind].write_bytes(data)
            teams = TeamsHere({}, claude_homes=[str(folder)])
            for team in {line.team for line in teams.teams()}:
                msgspec.json.encode(escape_surrogates((teams.show(team), teams.tasks(team), teams.mail(team))))
            teams.stuck(0)
        finally:
            paths[kind].write_bytes(kept)
        return "teams"

    def tailed(data: bytes) -> int:
        transcript.write_bytes(data)
        tail = Tail(str(transcript), str(folder), "t", "bob")
        tail.begin(1)
        count = 0
        while lines := tail.read():
            count += sum(claude_history.read(line) is not None for line in lines)
        return count > 0

    parsers: dict[str, Callable[[bytes], object]] = {
        "config": model.roster,
        "inbox": model.inbox,
        "task": model.task,
        "session": model.session,
    }
    return [
        *(Reader(f"teams: {kind}", versions[kind], parsers[kind]) for kind in paths),
        *(Reader(f"teams: a home's {kind}", versions[kind], partial(here, kind), (BeamError,)) for kind in paths),
        Reader("teams: a transcript", transcripts, tailed),
        Reader("a line of Claude Code's", _lines_of(transcripts), claude_history.decode),
    ]


def _lines_of(files: Sequence[bytes]) -> list[bytes]:
    lines = {line for data in files for line in data.split(b"\n")}
    return sorted(lines, key=len)[-4 * SEEDS :: 4]


# -- agent CLIs --------------------------------------------------------------------------------------------------------


def _recorded(adapter: str, *suffixes: str) -> list[bytes]:
    """What the CLI wrote, in some of its recordings."""
    files = [path for path in sorted((RECORDINGS / adapter).glob("*/*")) if path.suffix in suffixes]
    step = max(1, len(files) // SEEDS)
    return [_TIMES.sub(b"", path.read_bytes())[:SEED_BYTES] for path in files[::step]]


def _agents() -> list[Reader]:
    found = []
    for name in registry.ADAPTERS:
        adapter = registry.adapter(name)
        if adapter.exec is not None:
            seeds = _recorded(name, ".out", ".rec") or [b'{"frame":"text","text":"hi"}\n{"type":"text","text":"hi"}\n']
            found.append(Reader(f"decoder of {name}", seeds, partial(_decoded, name)))
        if isinstance(adapter, HasHistory) and hasattr(adapter.history, "transcript"):
            files = sorted((RECORDINGS / name).glob("*/*screen*")) or sorted((RECORDINGS / name).glob("*/*.jsonl"))
            seeds = [path.read_bytes()[:SEED_BYTES] for path in files[:SEEDS]]
            found.append(Reader(f"transcript of {name}", seeds, partial(_transcript, name)))
    return found


def _decoded(name: str, data: bytes) -> str:
    face = registry.adapter(name).exec
    assert face is not None
    decoder, split = face.decoder(TURN), Split(1 << 20)
    bodies: list[events.Event] = []
    for line in (*split.feed(data), *split.end()):
        bodies += decoder.line(line)
    if isinstance(decoder, ErrorReader):
        for line in data[:20_000].split(b"\n"):
            bodies += decoder.error_line(line)
    last, verdict = decoder.end(Exit(code=0, stderr_tail=data[-2000:].decode("utf-8", "replace")))
    _journaled([*bodies, *last])
    msgspec.json.encode(verdict)
    return str(verdict.status)


def _journaled(bodies: Sequence[events.Event]) -> None:
    """The events can stand in a journal, their secrets blanked, and be read from it."""
    for body in bodies[:200]:
        clean, _ = redact_event(body)
        events.decode(events.encode(clean))


def _transcript(name: str, data: bytes) -> str:
    adapter = registry.adapter(name)
    assert isinstance(adapter, HasHistory)
    read = adapter.history.transcript(TURNS.get(name, TURN))
    bodies = [body for line in data.split(b"\n") for body in read.line(line)]
    _journaled(bodies)
    msgspec.json.encode(read.verdict())
    return read.state


# -- terminals ---------------------------------------------------------------------------------------------------------

CAST = b"""\
{"version": 2, "width": 80, "height": 24, "title": "x"}
[0.1, "o", "> "]
[0.5, "i", "hello"]
[0.6, "i", "\\r"]
[0.7, "o", "hello\\r\\nan answer\\r\\n\\u001b[1m> \\u001b[0m"]
[0.9, "m", "typing"]
"""


def _terminals(base: Path) -> list[Reader]:
    raws = [path.read_bytes()[:SEED_BYTES] for path in sorted((RECORDINGS / "pty").glob("*.raw"))[:SEEDS]]
    timelines = [path.read_bytes() for path in sorted((RECORDINGS / "pty").glob("*.timeline.jsonl"))[:SEEDS]]
    tokens = [
        b"\x1b[",
        b"\x1b]8;;",
        b"\x1b[999999999;999999999H",
        b"\x1b[?1049h",
        b"\x1b[99999X",
        b"\x1b[2J",
        b"\x1bP",
        b";",
    ]
    path = base / "transcript"

    def cast(data: bytes) -> int:
        recording = replay.read(data)
        until = recording.moments[-1].seconds if recording.moments else 0.0
        if max((moment.seconds for moment in recording.moments), default=until) > PLAYED_S:
            return 0
        return len(list(replay.replay(recording, GENERIC_PROFILE)))

    def timed(data: bytes) -> int:
        return len(replay.read(raws[0], data).moments)

    def screen(data: bytes) -> str:
        shown = Screen(80, 24)
        shown.feed(data[:SEED_BYTES])
        repaint(Painter(shown).picture())
        return shown.view().text[:0]

    def followed(data: bytes) -> int:
        adapter = registry.adapter("codex")
        assert isinstance(adapter, HasHistory)
        path.write_bytes(data)
        return len(_TranscriptFile(path, adapter.history.transcript(TURNS["codex"]), 0).read())

    def pictured(data: bytes) -> str:
        attached = Attached.__new__(Attached)
        attached.agent, attached.why, attached.picture, attached._rows, attached._nonce = "x", None, None, [], ""
        for line in data.split(b"\n"):
            attached._handle(line)
        return str(attached.why)

    frame = (
        b'{"type":"frame","height":2,"changed":{"0":[]},"picture":{"columns":80,"rows":[]}}\n{"type":"bye","why":"x"}'
    )
    return [
        Reader("asciicast", [CAST], cast, (NoCastError,)),
        Reader("timeline of a recording", timelines, timed, (NoCastError,)),
        Reader("screen", raws, screen, tokens=tokens),
        Reader("a followed transcript", _recorded("codex", ".jsonl"), followed),
        Reader("a terminal that is looked at", [frame], pictured, (BeamError,)),
    ]
