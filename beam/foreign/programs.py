"""Finds the running processes of agent CLIs that beam did not start.

A process is recognised by the name of its program. A process whose environment has the marker of a beam turn was
started by beam.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from beam.agents import registry
from beam.process import table

_INTERPRETERS = ("node", "bun", "deno", "python")
_TURN_MARKER = b"BEAM_TURN_"
_MAX_WORDS = 8  # of a command line, in which the program's name stands


class Program(Struct, frozen=True, kw_only=True):
    """A running process of an agent CLI. `since_ns` is when the process began, and `start_ticks` is the same time in
    clock ticks since boot; `argv` is its command line. `is_spare`: the process has a session only if the CLI's register
    names one."""

    adapter: str
    pid: int
    parent: int
    folder: str
    since_ns: int
    start_ticks: int
    argv: tuple[str, ...]
    is_spare: bool = False


def programs() -> list[Program]:
    """Return this user's agent CLI processes that beam did not start. A process whose parent is a process of the same
    CLI is left out."""
    names = known_names()
    found: dict[int, Program] = {}
    uid = os.geteuid()
    for pid in table.pids() if table.LINUX else ():
        words = table.read_file(f"/proc/{pid}/cmdline").split(b"\0")
        adapter = _adapter(words, names)
        row = table.stat_of(pid) if adapter else None
        if not adapter or row is None or not row[3] or _owner(pid) != uid or _is_started_by_beam(pid):
            continue
        found[pid] = Program(
            adapter=adapter,
            pid=pid,
            parent=row[0],
            folder=_folder(pid),
            since_ns=_began_ns(row[2]),
            start_ticks=row[2],
            is_spare=_begins_with(_arguments(words)[1], registry.sessions_of(adapter).files.spares),
            argv=tuple(word.decode("utf-8", "replace") for word in words[:-1]),
        )
    return [one for one in found.values() if not _has_parent_of_same_cli(one, found)]


def known_names() -> dict[str, str]:
    """Return a mapping from the names of programs to the adapters of their CLIs."""
    names = {_executable(name): name for name in registry.WITH_SESSIONS}
    return names | {other: name for name in names.values() for other in registry.sessions_of(name).files.programs}


def working_folders() -> dict[str, set[str]]:
    """Return the working folders of the processes that `programs` finds, by adapter."""
    found = defaultdict(set)
    for one in programs():
        if one.folder:
            found[one.adapter].add(one.folder)
    return found


def _has_parent_of_same_cli(one: Program, found: dict[int, Program]) -> bool:
    parent = found.get(one.parent)
    return parent is not None and parent.adapter == one.adapter


def _executable(name: str) -> str:
    return registry.adapter(name).card.executable or name


def _adapter(words: list[bytes], names: dict[str, str]) -> str:
    """Return the adapter whose program the command line runs; "" if there is none."""
    name, rest = _arguments(words)
    if name in names or name.rstrip("0123456789.") not in _INTERPRETERS:
        adapter = names.get(name, "")
        return "" if adapter and _begins_with(rest, registry.sessions_of(adapter).files.helpers) else adapter
    script = next((word for word in rest if not word.startswith("-")), "")
    name = os.path.basename(script).removesuffix(".js").removesuffix(".mjs")  # noqa: PTH119 - a text
    return names.get(name, "")


def _arguments(words: list[bytes]) -> tuple[str, list[str]]:
    """Return the program's name and its first arguments. Arguments that the program wrote into its name, as Claude Code
    does, are split off."""
    first, *rest = [word.decode("utf-8", "replace") for word in words[:_MAX_WORDS]] or [""]
    name, *said = os.path.basename(first).split(" ")  # noqa: PTH119 - a text
    return name.removesuffix(".exe"), [*said, *rest]


def _begins_with(arguments: list[str], beginnings: Sequence[str]) -> bool:
    return any(arguments[: len(each.split())] == each.split() for each in beginnings)


def _owner(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116
    except OSError:
        return -1


def _is_started_by_beam(pid: int) -> bool:
    return any(entry.startswith(_TURN_MARKER) for entry in table.environment_of(pid))


def _folder(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115
    except OSError:
        return ""


def _began_ns(ticks: int) -> int:
    words = table.read_file("/proc/uptime").split()
    if not words:
        return 0
    uptime = float(words[0])
    return int((time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")) * 1e9)
