"""Readers of what lies in a root and beside it: outboxes, names of files, project.json, roots of a moved folder."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from beam.api import adopt, gc
from beam.api import root as root_lines
from beam.api.doctor import find_damage
from beam.api.messages import queue_items
from beam.api.status import status_of
from beam.base.errors import BeamError
from beam.base.typed_values import escape_surrogates
from beam.broker.asking import mailbox
from beam.broker.holder.control import answer_requests
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import launch
from beam.broker.inbox.context import Sender
from beam.broker.inbox.outbox import Outboxes
from beam.cli.render.stream import EventLine, Stream
from beam.model.autoloaded import AutoloadedFile
from beam.model.message import Options, SessionContext
from beam.model.outcome import Outcome, Status
from beam.root import discovery, paths
from beam.store import outbox
from beam.store.outbox import Answer, OpenTurn, Refusal, Request
from beam.store.queue import Queue
from beam.store.reader import Reader as JournalReader
from beam.store.segment import segments
from beam.teams import hook
from beam.teams.spool import Spool
from beam.trust import git_config, ledger, scan
from tests.support.context import FakeClock, Root
from tests.support.fuzz import Reader
from tests.support.moved import moved_root

OURS = (BeamError, FileNotFoundError)
NAMES = 20  # of one input
ALL_ARE_MAILBOXES = "agents:\n  box: {adapter: mailbox}\n  asker: {adapter: mailbox}\n  other: {adapter: mailbox}\n"


class Made:
    """A root with a mailbox that has had a turn and has a message waiting, kept to be put back after each input."""

    def __init__(self, base: Path, name: str) -> None:
        (base / name).mkdir()
        self.root = Root(base / name)
        (self.root.base / "beam.yaml").write_text(ALL_ARE_MAILBOXES)  # no input starts a process
        self.root.environ["PATH"] = "/nowhere"
        self.root.reload()
        self.root.put("box", "first", reply="wait")
        mailbox.recv(self.root.context, self.root.place("box"), None)
        self.root.put("box", "second, that waits", sender="asker", reply="queue")
        self.place = self.root.context.agent_paths("box")
        self._kept = base / f"{name}.kept"
        shutil.copytree(self.root.context.home.root, self._kept)

    def again(self) -> None:
        """The root is as it was."""
        shutil.rmtree(self.root.context.home.root)
        shutil.copytree(self._kept, self.root.context.home.root)
        shutil.rmtree(self.root.context.home.turns, ignore_errors=True)

    @property
    def segment(self) -> Path:
        return self.place.journal / segments(self.place.journal)[-1]


def folder_in(base: Path, name: str) -> Path:
    """A new folder."""
    (base / name).mkdir()
    return base / name


# -- the outbox --------------------------------------------------------------------------------------------------------


def outboxes(base: Path) -> list[Reader]:
    """What an agent asks, as its holder reads it, and what it is answered."""
    made = Made(base, "outbox")
    context = made.root.context
    sender = Sender(
        agent="box",
        message=made.root.message("box"),
        turn_key="t1",
        at_most="read",
        context=SessionContext(),
        folder=made.root.base,
    )
    whole = Options(new=False, access="full")
    requests = [
        Request(to="other", text="hello\n", wait=True, options=whole, key="k", deadline=5.0, attach=("a", "../b")),
        Request(to="asker", text="hello", options=Options(once=True)),
        Request(verb="reply", target=made.place.agent + "-1", text="yes", failed=True),
        Request(verb="interrupt", target="box-1-2"),
        Request(verb="deny", target="asker-1", text="no", stop=True),
    ]

    def asked(data: bytes) -> str:
        made.again()
        lease = AgentLease.acquire(context, made.place)
        assert lease is not None
        try:
            boxes = Outboxes(lease.log)
            folder = boxes.make(context.home.turns_of(made.place) / "t1")
            boxes.begin(sender)
            (folder / "x.json").write_bytes(data)
            os.utime(folder / "x.json", ns=(0, 0))
            boxes.poll(sender)
            boxes.end(sender)
            assert not (folder / "x.json").exists()
            answer = outbox.read_answer(folder, "x")
            boxes.close()
        finally:
            lease.close()
        list(queue_items(context, ["box", "other", "asker"]))
        if answer is None:
            return "no answer"
        return answer.refused.kind if answer.refused is not None else "answered"

    place = folder_in(base, "answers")
    outcome = Outcome(
        message_id="box-1", agent="box", turn=1, attempt=1, status=Status.COMPLETED, reply="yes", exit_code=0
    )
    answers = [
        Answer(accepted="box-1", said="withdrawn", outcome=outcome),
        Answer(refused=Refusal(message="no", hint="never", subject="box-1", kind="limit", exit_code=5)),
    ]

    def answered(data: bytes) -> str:
        (place / "x.answer").write_bytes(data)
        found = outbox.read_answer(place, "x")
        assert found is not None
        msgspec.json.encode(found)
        return "an answer"

    def opened(data: bytes) -> bool:
        (place / outbox.TURN_JSON).write_bytes(data)
        return outbox.is_open(place)

    turn = OpenTurn(agent="box", message_id="box-1")
    return [
        Reader("outbox: a request", [msgspec.json.encode(each) for each in requests], asked, OURS),
        Reader("outbox: an answer", [msgspec.json.encode(each) for each in answers], answered, OURS),
        Reader("outbox: turn.json", [msgspec.json.encode(turn)], opened),
    ]


# -- names, and a dead holder's journal --------------------------------------------------------------------------------


def names(base: Path) -> list[Reader]:
    """Names of files where others may make some, among them lanes and the words of guards; and recovery."""
    made = Made(base, "names")
    context, environ = made.root.context, made.root.environ
    state = paths.state_dir(environ)
    waiting = next((made.place.queue / "new").iterdir()).name.encode()
    seeds = [
        b"\n".join((waiting, b"box-c1.json", b"t1.unstarted", b"lane1", b"box", b"000000000001.jsonl")),
        b"\n".join((b".hidden", b".x.tmp", b"9" * 20 + b"-box-2.json", b"-1-box.json", b"a.answer", b"project.json")),
    ]
    places = [
        *(made.place.dir, made.place.dir / "lanes", made.place.dir / "once", made.place.dir.parent),
        *(made.place.queue / box for box in ("new", "cur", "dead", "tmp")),
        *(made.place.control / "new", made.place.asks, made.place.journal, context.home.threads),
        *(context.home.turns_of(made.place), context.home.turns_of(made.place) / "t1/outbox"),
        *(state / "projects", state / "roots", state / "hooks", state / "cursors"),
    ]

    def named(data: bytes) -> str:
        made.again()
        shutil.rmtree(state, ignore_errors=True)
        for number, name in enumerate(data.split(b"\n")[:NAMES]):
            for at, place in enumerate(places):
                place.mkdir(parents=True, exist_ok=True)
                _make(place, name.replace(b"/", b"").replace(b"\0", b"")[:255], is_file=(number + at) % 3 > 0)
        told = [*context.home.agents(), *(line.root for line in root_lines.root_lines(environ))]
        for check in (
            lambda: told.extend(str(lane.dir) for lane in launch.stranded_lanes(made.place)),
            lambda: told.append(str(status_of(context, made.place))),
            lambda: told.append(str(list(queue_items(context, ["box"])))),
            lambda: told.append(str(find_damage(made.place.journal))),
            lambda: told.append(str(gc.collect(context, older_than=0.0, dead=True))),
            partial(_held, made),
            partial(_called, state / "hooks"),
        ):
            with contextlib.suppress(BeamError):
                check()
        msgspec.json.encode(escape_surrogates(told))
        return "names"

    recovery = Made(base, "recovery")
    journal = recovery.segment.read_bytes()

    def recovered(data: bytes) -> str:
        recovery.again()
        recovery.segment.write_bytes(data)
        lease = AgentLease.acquire(recovery.root.context, recovery.place)
        assert lease is not None
        try:
            for entry in lease.waiting.scan()[:1]:
                lease.waiting.pause_s(entry, None)
            lease.has_waiting_work()
        finally:
            lease.close()
        shown = Stream(io.StringIO(), as_json=False)
        shown.batch([EventLine(event) for event in JournalReader(recovery.place.journal).poll()])
        return "recovered"

    return [
        Reader("names of files", seeds, named, OURS),
        Reader("journal, by recovery", [journal, journal[:-20]], recovered, OURS),
    ]


def _make(place: Path, name: bytes, *, is_file: bool) -> None:
    path = os.path.join(os.fsencode(place), name)  # noqa: PTH118 - a name that may be no UTF-8
    with contextlib.suppress(OSError):
        if is_file:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        else:
            os.mkdir(path, 0o700)  # noqa: PTH102


def _held(made: Made) -> None:
    lease = AgentLease.acquire(made.root.context, made.place)
    assert lease is not None
    try:
        answer_requests(lease)
        lease.waiting.scan()
        message = made.root.message("box")
        sender = Sender(
            agent="box", message=message, turn_key="t1", at_most=None, context=SessionContext(), folder=made.root.base
        )
        Outboxes(lease.log).drain_leftovers(sender)
    finally:
        lease.close()


def _called(spool: Path) -> None:
    read = Spool(spool)
    read.begin(0)
    list(read.calls(""))
    with contextlib.suppress(OSError):  # whoever calls it takes no error for one
        hook.write(b'{"hook_event_name":"Stop","session_id":"s"}', os.fsencode(spool), FakeClock().now_ns())


# -- which root is whose -----------------------------------------------------------------------------------------------


def whose(base: Path) -> list[Reader]:
    """project.json of a root, and what `beam doctor --adopt` reads of the root of a moved folder."""
    folder = folder_in(base, "whose")
    project = folder_in(folder, "project")
    environ = {"HOME": str(folder)}
    own = discovery.root_of(project, environ)
    discovery.create(paths.RootPaths(own, project))
    project_json = own / discovery.PROJECT_JSON
    odd = folder / os.fsdecode(b"odd\xff")
    odd.mkdir()
    seeds = [project_json.read_bytes(), msgspec.json.encode(discovery.project_of(odd))]
    elsewhere = folder_in(folder, "elsewhere")
    discovery.create(paths.RootPaths(elsewhere, project))
    discovery.remember_root(paths.RootPaths(elsewhere, project), environ)

    def belongs(data: bytes) -> str:
        project_json.write_bytes(data)
        (elsewhere / discovery.PROJECT_JSON).write_bytes(data)
        here = discovery.find_root(None, cwd=project, environ=environ)
        told: list[str] = [line.project for line in root_lines.root_lines(environ)]
        told += root_lines.check(here, environ)
        told += [
            str(other.project)
            for other in discovery.roots_of_same_folder(paths.RootPaths(folder / "new", project), environ)
        ]
        msgspec.json.encode(escape_surrogates(told))
        named = discovery.find_root(str(elsewhere), cwd=project, environ=environ)
        discovery.exposing_folder(named, environ)
        discovery.check_folder(named, environ)
        return "a project"

    return [Reader("project.json", seeds, belongs, OURS), *_adopted(base)]


def _adopted(base: Path) -> list[Reader]:
    made = Made(base, "adopt")
    environ = made.root.environ
    old = moved_root(None, made.root.base, environ)
    own = paths.RootPaths(discovery.root_of(made.root.base, environ), made.root.base)
    message = next((made.place.queue / "new").iterdir()).relative_to(made.root.context.home.root)
    segment = made.segment.relative_to(made.root.context.home.root)
    agent = Path("agents/box/agent.json")
    (made.place.dir / "agent.json").write_bytes(b'{"adapter": "scripted", "model": "x"}')

    def adopted(path: Path, data: bytes) -> str:
        for each in (old, own.root):
            shutil.rmtree(each, ignore_errors=True)
        shutil.copytree(made.root.context.home.root, old)
        moved_root(None, made.root.base, environ)
        (old / path).write_bytes(data)
        found = adopt.candidates(own, made.root.base, environ)
        msgspec.json.encode(escape_surrogates([(each.agents, str(each.root)) for each in found]))
        done = [adopt.adopt(own, each, made.root.base, environ) for each in found]
        list(Queue(own.agent("box").queue, own.agent("box").put_lock).entries("new"))
        return " ".join(word.split()[0] for words in done for word in words)

    readers: dict[str, tuple[Path, Callable[[bytes], str]]] = {
        "message": (message, partial(adopted, message)),
        "journal": (segment, partial(adopted, segment)),
        "settings": (agent, partial(adopted, agent)),
    }
    return [
        Reader(f"adopted: {name}", [(made.root.context.home.root / path).read_bytes()], feed, OURS)
        for name, (path, feed) in readers.items()
    ]


# -- a folder that somebody else made ----------------------------------------------------------------------------------

GIT_CONFIG = b"""\
[core]
\tfsmonitor = "./run \\"x\\"" ; a comment
\thooksPath = ../hooks
[filter "a b"] clean = x %f \\
  more
[include] path = other
[includeIf "gitdir:~/"] path = ~/other
"""


def folders(base: Path) -> list[Reader]:
    """What git and the agent CLIs would obey in a folder."""
    made = folder_in(base, "folder")
    project = made / "project"
    (project / ".git/hooks").mkdir(parents=True)
    (project / ".git/hooks/post-index-change").write_bytes(b"#!/bin/sh\n")
    (project / ".git/hooks/post-index-change").chmod(0o755)
    worktree = folder_in(made, "worktree")
    environ = {"HOME": str(made)}
    obeyed = (
        AutoloadedFile(path=".env", says=("KEY",), reach="upward"),
        AutoloadedFile(path=".cli", ignored=("read",)),
    )

    def looked(cwd: Path) -> str:
        found = git_config.findings_of_git(project, cwd, access="read", home=made)
        git_config.override_variables(found.off, {"GIT_CONFIG_COUNT": "1"})
        seen = [*found.found, *scan.find_obeyed(project, cwd, obeyed, access="edit", by="x", home=made)]
        ledger.trust(project, seen, environ)
        assert ledger.standing_of(project, seen, environ).trusted or any(not each.digest for each in seen)
        return " ".join(sorted({str(each.says) for each in seen}))

    def configured(data: bytes) -> str:
        (project / ".git/config").write_bytes(data)
        (project / ".git/other").write_bytes(data)
        return looked(project)

    def pointed(data: bytes) -> str:
        (worktree / ".git").write_bytes(b"gitdir: " + data)
        (project / ".git/commondir").write_bytes(data)
        try:
            return looked(worktree)
        finally:
            (project / ".git/commondir").unlink()

    def obeys(data: bytes) -> str:
        (project / ".env").write_bytes(data)
        return looked(project)

    tokens = [
        b"[include]\npath = config\n",
        b'[filter "',
        b"\\\n",
        b"[core]",
        b"fsmonitor",
        b"= ",
        b"#",
        b"]",
        b"[a.b]",
    ]
    return [
        Reader("git's configuration", [GIT_CONFIG], configured, OURS, tokens),
        Reader("a .git that points elsewhere", [b"../project/.git", b"/nowhere"], pointed, OURS),
        Reader("a file that a CLI obeys", [b"KEY=1\nOTHER=2\n"], obeys, OURS),
    ]
