"""A broker that is started, stopped and looked at from another process; here no broker runs."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from beam.api import broker
from beam.api.broker import BrokerStatus
from beam.base import __version__
from beam.base.errors import DiskError, NotFoundError, UnfinishedError, UnsupportedError, UsageError
from beam.broker.holder import registry
from beam.broker.holder.registry import BrokerFile
from beam.broker.serving import broker as serving
from beam.process import tree
from beam.root.paths import RootPaths
from beam.store.lock import try_lock
from tests.support.context import Root
from tests.support.refused import refused

OWNER = SimpleNamespace(pid=77, host="here")


class Machine:
    """Stands in for the system: the process that is started, the broker's file, the clock, and signals."""

    def __init__(self, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.argv: list[str] = []
        self.options: dict[str, Any] = {}
        self.signals: list[tuple[int, int]] = []
        self.file: Any = None  # of the broker that runs
        self.comes: Callable[[float], Any] = lambda now: self.file
        self.ends: Callable[[float], int | None] = lambda now: None
        self.lives: Callable[[float], bool | None] = lambda now: False
        self.claimed: list[Any] = []
        self.child: Any = None
        clock = SimpleNamespace(
            monotonic=lambda: self.now,
            sleep=self._sleep,
            strftime=lambda shape, at: f"{shape} {at}",
            gmtime=lambda: "now",
        )
        monkeypatch.setattr(broker, "time", clock)
        monkeypatch.setattr(broker.subprocess, "Popen", self._start)
        monkeypatch.setattr(broker.os, "kill", self._kill)
        monkeypatch.setattr(registry, "running_broker", lambda home: self.comes(self.now))
        monkeypatch.setattr(registry, "claim_root", self._claim)
        monkeypatch.setattr(tree, "is_alive", lambda owner: self.lives(self.now))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _start(self, argv: list[str], **options: Any) -> Any:
        self.argv, self.options = argv, options
        self.child = SimpleNamespace(pid=77, returncode=None, poll=lambda: self.ends(self.now))
        return self.child

    def _kill(self, pid: int, number: int) -> None:
        self.signals.append((pid, number))

    def _claim(self, home: Any, before: Any) -> Any:
        return SimpleNamespace(release=lambda: self.claimed.append(before))


def served(**fields: Any) -> Any:
    given = {"version": __version__, "started_at": "t", "poll": 1.0, "cap": 4, "idle": None, "owner": OWNER, **fields}
    return SimpleNamespace(**given)


@pytest.fixture
def machine(root: Root, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(root, monkeypatch)


def start(root: Root, **given: Any) -> BrokerFile:
    return broker.start(root.context, **{"cap": None, "poll": 1.0, "poll_only": False, **given})


def test_a_broker_is_started_apart_and_waited_for(root: Root, machine: Machine) -> None:
    machine.comes = lambda now: served() if now > 0.05 else None
    assert start(root).owner.pid == 77
    home = root.context.home
    assert machine.argv == [sys.executable, "-P", "-m", "beam", "--root", str(home.root), "broker", "--poll", "1"]
    handle = machine.options.pop("stderr")
    assert isinstance(handle, int)
    assert machine.options == {
        "stdin": -3,
        "stdout": -3,
        "cwd": root.base,
        "env": root.environ,
        "start_new_session": True,
    }
    assert machine.child.returncode == 0 and machine.now == pytest.approx(0.06)
    assert registry.log_path(home).exists() and machine.claimed == []


def test_a_broker_is_started_with_what_was_asked_for(root: Root, machine: Machine) -> None:
    machine.comes = lambda now: served()
    start(root, cap=2, poll=0.25, poll_only=True, idle=90.0)
    assert machine.argv[7:] == ["--poll", "0.25", "--cap", "2", "--poll-only", "--idle", "90s"]
    assert len(machine.claimed) == 1


def test_a_broker_that_ends_at_once_is_reported_with_its_last_words(root: Root, machine: Machine) -> None:
    machine.comes = lambda now: served(owner=SimpleNamespace(pid=78)) if now > 0 else None
    machine.ends = lambda now: 1 if now > 0.1 else None
    log = registry.log_path(root.context.home)
    log.parent.mkdir(parents=True)
    log.write_text("first\nlast words\n\n")
    with refused(UnfinishedError, "the broker did not start: last words", f"read its log: {log}", subject=str(log)):
        start(root)
    assert machine.now < 1
    machine.ends = lambda now: None
    with pytest.raises(UnfinishedError) as error:
        start(root)
    assert error.value.kind == "broker" and machine.now == pytest.approx(15.1, abs=0.1)


@pytest.mark.parametrize(
    ("content", "last"),
    [
        (b"", "it said nothing"),
        (b" \n", "it said nothing"),
        (b"one", "one"),
        (b"a\nb\xff\n", "b\ufffd"),
        (b"x" * 70_000, "x" * 65_536),
    ],
)
def test_the_last_line_of_a_log_is_what_it_said(content: bytes, last: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(content)
    assert broker._last_line(tmp_path / "log") == last
    assert broker._last_line(tmp_path / "none") == "it said nothing"


@pytest.mark.parametrize(("size", "is_moved"), [(1_048_576, False), (1_048_577, True)])
def test_a_log_that_is_large_is_put_aside(size: int, is_moved: bool, tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    broker._rotate(log)
    with log.open("wb") as file:
        file.truncate(size)
    broker._rotate(log)
    assert [path.name for path in tmp_path.iterdir()] == ["broker.log.1" if is_moved else "broker.log"]


def test_a_log_that_can_not_be_put_aside_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    with log.open("wb") as file:
        file.truncate(1_048_577)
    (tmp_path / "broker.log.1" / "x").mkdir(parents=True)
    with pytest.raises(DiskError, match=r"can't rotate .*broker\.log"):
        broker._rotate(log)


def test_where_no_broker_runs_none_is_stopped(root: Root, machine: Machine) -> None:
    where = str(root.context.home.root)
    with refused(NotFoundError, f"no broker serves {where}", "there is nothing to stop", subject=where):
        broker.stop(root.context, grace=1)


def test_a_broker_on_another_machine_is_stopped_there(root: Root, machine: Machine) -> None:
    machine.file, machine.lives = served(), lambda now: None
    said = f"the broker of {root.context.home.root} runs on here (pid 77)"
    with refused(UnsupportedError, said, "stop it there"):
        broker.stop(root.context, grace=1)
    assert machine.signals == []


@pytest.mark.parametrize(("ends_at", "signals"), [(0.5, 1), (1.2, 2), (2.0, 3)])
def test_a_broker_is_asked_to_stop_and_again_once_its_time_is_over(
    ends_at: float, signals: int, root: Root, machine: Machine
) -> None:
    machine.file, machine.lives = served(), lambda now: now < ends_at
    assert broker.stop(root.context, grace=1) is machine.file
    assert machine.signals == [(77, signal.SIGTERM)] * signals
    assert machine.now == pytest.approx(ends_at, abs=0.03)


def test_a_broker_that_does_not_end_is_reported_with_what_ends_it(root: Root, machine: Machine) -> None:
    machine.file, machine.lives = served(), lambda now: True
    with pytest.raises(UnfinishedError) as error:
        broker.stop(root.context, grace=1)
    assert (error.value.message, error.value.hint) == ("the broker (pid 77) did not end", "kill -9 77")
    assert error.value.kind == "broker" and machine.now == pytest.approx(21.2, abs=0.5)


@pytest.mark.parametrize(("alive", "rss"), [(True, 1.5), (False, None), (None, None)])
def test_a_broker_is_described(
    alive: bool | None, rss: float | None, root: Root, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broker.status(root.context) is None and broker.version_skew(root.context) is None
    machine.file, machine.lives = served(idle=3.0), lambda now: alive
    monkeypatch.setattr(broker, "rss_bytes", lambda pid: 1_572_864 if pid == 77 else 0)
    assert broker.status(root.context) == BrokerStatus(
        pid=77,
        host="here",
        version=__version__,
        skew=False,
        started_at="t",
        poll=1.0,
        cap=4,
        idle=3.0,
        kept=root.context.config.limits.kept,
        rss_mb=rss,
        log=str(registry.log_path(root.context.home)),
    )
    assert broker.version_skew(root.context) is None


def test_a_broker_of_another_version_is_reported(root: Root, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.file, machine.lives = served(version="0.0.1"), lambda now: True
    monkeypatch.setattr(broker, "rss_bytes", lambda pid: None)
    found = broker.status(root.context)
    assert found is not None and found.skew and found.rss_mb is None
    said = f"the broker runs beam 0.0.1, this is {__version__}; beam broker stop, then start"
    assert broker.version_skew(root.context) == said


@pytest.mark.parametrize("state", ["", "/elsewhere"])
def test_a_unit_for_systemd_serves_the_root(state: str, root: Root) -> None:
    root.environ["BEAM_STATE"] = state
    line = "Environment=BEAM_STATE=/elsewhere\n" if state else ""
    python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
    assert broker.systemd_unit(root.context) == (
        f"# ~/.config/systemd/user/beam-project.service\n[Unit]\nDescription=beam broker of {root.base}\n\n"
        f"[Service]\nExecStart={python} -P -m beam --root {root.context.home.root} broker\n"
        f"WorkingDirectory={root.base}\n{line}Restart=on-failure\nKillMode=mixed\nTimeoutStopSec=60\n\n"
        "[Install]\nWantedBy=default.target\n"
    )


@pytest.mark.parametrize(("platform", "program"), [("linux", "systemd-inhibit"), ("darwin", "caffeinate")])
def test_a_unit_that_keeps_the_machine_awake_still_ends_the_broker_by_itself(
    platform: str, program: str, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    lines = broker.systemd_unit(root.context, awake=True).splitlines()
    start = next(line for line in lines if line.startswith("ExecStart="))
    stop = next(line for line in lines if line.startswith("ExecStop="))
    assert f"/{program} " in start and start.endswith(stop.removeprefix("ExecStop=").removesuffix(" stop"))
    assert "ExecStop" not in broker.systemd_unit(root.context)


def _words_of(value: str) -> list[str]:
    """The words that systemd reads from the value of a setting: those in double quotes have escapes, and `%%` is `%`
    (systemd.syntax(7))."""
    found = []
    for quoted, plain in re.findall(rb'"((?:[^"\\]|\\.)*)"|(\S+)', os.fsencode(value)):
        assert not set(plain) & set(b"\"'\\"), plain
        each = re.sub(rb"\\(x..|.)", lambda one: bytes.fromhex(one[1][1:].decode()) if one[1][1:] else one[1], quoted)
        found.append(os.fsdecode((each or plain).replace(b"%%", b"%")))
    return found


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "50%h",
        "a${HOME}",
        "quo\"ted 'name'",
        "back\\slash",
        "ends in \\",
        " spaces around ",
        "a\nExecStartPre=touch PWNED\n#",
        "a\r\nb\tc\x1b",
        "not UTF-8 \udcff",
    ],
    ids=ascii,
)
def test_no_name_of_a_folder_adds_a_line_to_the_unit_or_is_split_or_filled_in(name: str, root: Root) -> None:
    home = RootPaths(Path("/state") / name, Path("/w") / name)
    unit = broker.systemd_unit(msgspec.structs.replace(root.context, home=home, environ={"BEAM_STATE": f"/s/{name}"}))
    lines = [line for line in unit.splitlines() if "=" in line and not line.startswith("#")]
    settings = dict(line.partition("=")[::2] for line in lines)
    folder = settings.pop("WorkingDirectory", None)
    assert list(settings) == [
        "Description",
        "ExecStart",
        "Environment",
        "Restart",
        "KillMode",
        "TimeoutStopSec",
        "WantedBy",
    ]
    assert all(line.isprintable() and not line.endswith("\\") for line in unit.splitlines())
    assert "%" not in unit.replace("%%", "")
    words = [word.replace("$$", "$") for word in _words_of(settings["ExecStart"])]
    assert words == [
        *(sys.executable, "-P", "-m", "beam"),
        *(["-C", f"/w/{name}"] if folder is None else []),
        *("--root", f"/state/{name}", "broker"),
    ]
    assert _words_of(settings["Environment"]) == [f"BEAM_STATE=/s/{name}"]
    assert folder is None or folder.replace("%%", "%") == f"/w/{name}" == folder.strip().replace("%%", "%")


@pytest.mark.parametrize("cap", [3, None])
def test_a_broker_serves_in_the_foreground_and_its_log_has_the_time(
    cap: int | None, root: Root, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    async def run(context: Any, **options: Any) -> None:
        options.pop("say")("hello")
        given.append((context, options))

    monkeypatch.setattr(serving, "run", run)
    monkeypatch.setattr(broker.os, "cpu_count", lambda: 3)
    written: list[str] = []
    broker.serve(root.context, cap=cap, poll=0.5, poll_only=True, idle=2.0, grace=3.0, write=written.append)
    options = {"cap": cap or 6, "poll": 0.5, "poll_only": True, "idle": 2.0, "grace": 3.0}
    assert given == [(root.context, options)]
    assert written == ["%Y-%m-%dT%H:%M:%SZ now beam broker: hello\n"] and root.context.home.root.is_dir()


@pytest.mark.parametrize(("cores", "cap"), [(None, 4), (1, 4), (2, 4), (3, 6), (8, 16)])
def test_a_broker_runs_two_turns_a_core_and_four_at_least(
    cores: int | None, cap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker.os, "cpu_count", lambda: cores)
    assert broker.default_cap() == cap


def test_a_broker_that_another_one_forestalled_is_told_of(root: Root, machine: Machine) -> None:
    machine.ends = lambda now: 2
    root.context.home.root.mkdir(parents=True, exist_ok=True)
    lock = try_lock(root.context.home.root / "broker.lock")
    assert lock is not None
    told = f"a broker already serves {root.context.home.root}"
    where = str(root.context.home.root)
    with lock, refused(UsageError, told, "beam broker status; beam broker stop", subject=where):
        start(root)
    with pytest.raises(UnfinishedError, match="the broker did not start"):  # it was something else
        start(root)
