"""Which processes are agent CLIs, by what they run."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from beam.foreign import programs
from beam.foreign.programs import _adapter, known_names
from tests.support.cli import Cli

NAMES = {"claude": "claude", "codex": "codex", "gemini": "gemini"}


@pytest.mark.parametrize(
    ("words", "adapter"),
    [
        ([b"/usr/bin/claude", b"-p", b""], "claude"),
        ([b"node", b"--no-warnings", b"/usr/bin/gemini", b"x"], "gemini"),
        ([b"/usr/bin/node22", b"/lib/codex.js", b"x"], "codex"),
        ([b"python3.11", b"tool.py", b"claude"], ""),
        ([b"/lib/claude.exe", b"--session-id", b"x"], "claude"),
        ([b"/lib/claude.exe", b"daemon", b"run"], ""),
        ([b"claude bg-pty-host", b"--bg-pty-host", b"x"], ""),
        ([b"claude bg-spare", b"--bg-spare", b"x"], "claude"),  # a background job may have taken it
        ([b"/home/a b/claude", b"-p", b"daemon"], "claude"),
        ([b"codex", b"app-server", b"--listen", b"unix://"], ""),
        ([b"codex", b"app-server", b"daemon", b"pid-update-loop"], ""),
        ([b"codex", b"app-server"], "codex"),
        ([b"vim", b"claude"], ""),
        ([b"grep", b"-r", b"gemini"], ""),
        ([b"\xff\xfe"], ""),
        ([b""], ""),
        ([], ""),
    ],
)
def test_a_process_is_known_by_the_program_that_it_runs(words: list[bytes], adapter: str) -> None:
    assert _adapter(words, NAMES) == adapter


def test_a_cli_is_known_by_the_other_names_of_its_program_too() -> None:
    assert _adapter([b"/lib/vibe/_bin/vibe-rs"], known_names()) == "vibe"
    assert _adapter([b"/usr/bin/claude"], known_names()) == "claude"


@pytest.mark.slow
def test_a_message_to_a_session_that_beam_did_not_start_is_refused_with_the_reason(beam: Cli) -> None:
    done = beam("send", "codex~e5a4", "hello")
    assert done.code == 10
    assert "is a session that beam did not start" in done.err


# -- a table of processes that the test makes -------------------------------------------------------------------------


class Table:
    """Stands in for the kernel's table: command lines, parents, environments and owners."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: dict[int, tuple[bytes, int, bytes]] = {}
        self.owner = os.geteuid()
        monkeypatch.setattr(programs.table, "LINUX", True)
        monkeypatch.setattr(programs.table, "pids", lambda: list(self.rows))
        monkeypatch.setattr(programs.table, "read_file", self._read)
        monkeypatch.setattr(programs.table, "stat_of", lambda pid: (self.rows[pid][1], 0, 500, True))
        monkeypatch.setattr(programs.table, "environment_of", lambda pid: self.rows[pid][2].split(b"\0"))
        monkeypatch.setattr(programs, "_owner", lambda pid: self.owner)
        monkeypatch.setattr(programs, "_folder", lambda pid: f"/p{pid}")
        monkeypatch.setattr(programs, "time", SimpleNamespace(time=lambda: 1000.0))
        monkeypatch.setattr(programs.os, "sysconf", lambda name: 100)

    def _read(self, path: str) -> bytes:
        return b"15.5 3" if path == "/proc/uptime" else self.rows[int(path.split("/")[2])][0]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Table:
    return Table(monkeypatch)


def test_processes_of_agent_clis_are_reported_but_beams_own_and_nested_ones(processes: Table) -> None:
    processes.rows = {
        1: (b"/usr/bin/claude\0--resume\0", 0, b"PATH=/bin"),
        2: (b"claude\0", 1, b""),
        3: (b"codex\0", 1, b""),
        4: (b"claude\0", 0, b"X=1\0BEAM_TURN_k=1"),
        5: (b"bash\0", 0, b""),
    }
    assert programs.programs() == [
        programs.Program(
            adapter="claude",
            pid=1,
            parent=0,
            folder="/p1",
            since_ns=989_500_000_000,
            start_ticks=500,
            argv=("/usr/bin/claude", "--resume"),
        ),
        programs.Program(
            adapter="codex", pid=3, parent=1, folder="/p3", since_ns=989_500_000_000, start_ticks=500, argv=("codex",)
        ),
    ]
    assert programs.working_folders() == {"claude": {"/p1"}, "codex": {"/p3"}}
    processes.owner += 1
    assert programs.programs() == []


@pytest.mark.parametrize(
    ("words", "name", "rest"),
    [
        ([], "", []),
        ([b"/usr/bin/claude.exe", b"a"], "claude", ["a"]),
        ([b"claude bg-spare", b"a"], "claude", ["bg-spare", "a"]),
        ([b"x"] * 12, "x", ["x"] * 7),
    ],
)
def test_the_name_of_a_program_and_its_first_arguments(words: list[bytes], name: str, rest: list[str]) -> None:
    assert programs._arguments(words) == (name, rest)


def test_arguments_begin_with_whole_words() -> None:
    assert programs._begins_with(["a", "b"], ["a b"]) and programs._begins_with(["a", "b"], ["x", "a"])
    assert not programs._begins_with(["a"], ["a b"]) and not programs._begins_with(["ab"], ["a"])


def test_what_is_no_process_has_no_owner_and_no_folder() -> None:
    assert (programs._owner(-1), programs._folder(-1)) == (-1, "")
    assert programs._owner(os.getpid()) == os.geteuid() and programs._folder(os.getpid()) == str(Path.cwd())
