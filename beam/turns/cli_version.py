"""The version of the agent's CLI, and whether `--via auto` uses its protocol in that version.

If beam was not tested with a version, its protocol is used if the handshake works, and a notice says so once. The CLI
is run headless if the protocol is known to be broken in its version, or if the handshake with an untested version
failed within the last day. The version is taken from the CLI's npm package, or from the text that the CLI prints. It is
stored in a file beside the agent's journal until the CLI's own file changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from beam.agents.base import BrokenVersion, Card
from beam.base import files, own_program, typed_values
from beam.base.clock import Clock, parse_rfc3339, rfc3339
from beam.base.errors import BeamError
from beam.model import events
from beam.process import spawn
from beam.process.program import environment
from beam.secrets.redact import redact
from beam.turns.choice import AUTO_MODES, choose_face
from beam.turns.request import TurnRequest, find_executable

_VERSION_NUMBER = r"\d{1,9}(?:\.\d{1,9})+"
_OLDEST = re.compile(r">=\s*v?(\d{1,9}(?:\.\d{1,9})*)")


def untested_note(version: str, tested: Sequence[str]) -> str:
    """Return a note about a version that beam was not tested with; "" for a tested or an unknown version."""
    if (
        not tested
        or not version
        or version in tested
        or _number_parts(version) in [_number_parts(each) or None for each in tested]
    ):
        return ""
    newest = max(tested, key=_number_parts)
    found = re.search(_VERSION_NUMBER, version)
    if found is None:
        return f"not the tested {newest}"
    than = "newer" if _number_parts(found[0]) > _number_parts(newest) else "older"
    return f"{than} than the tested {newest}"


def version_number(version: str) -> str:
    """Return the version number in the text that a CLI prints, "" if there is none."""
    found = re.search(_VERSION_NUMBER, version)
    return found[0] if found else ""


def what_is_broken(version: str, known: Sequence[BrokenVersion]) -> str:
    """Return what does not work in the protocol of this version, "" if no such problem is known."""
    number = _number_parts(version)
    for each in known:
        if number and _number_parts(each.first) <= number <= _number_parts(each.last or each.first):
            return each.what
    return ""


def is_older(version: str, than: str) -> bool:
    """Return whether the version number in the text `version` is lower than the number `than`, such as 22 or 22.19."""
    number = _number_parts(version)
    return bool(number) and number < tuple(map(int, than.split(".")))


def _number_parts(version: str) -> tuple[int, ...]:
    number = version_number(version)
    return tuple(int(part) for part in number.split(".")) if number else ()


_TIMEOUT_S = 10.0
_GRACE_S = 1.0
_MAX_LINES = 20
_RETRY_AFTER_NS = 24 * 3600 * 1_000_000_000  # after which a protocol that did not work is tried again
_MAX_BYTES = 64 * 1024
_MAX_PACKAGE_JSON_BYTES = 1024 * 1024
_MAX_PARENT_FOLDERS = 4


class CliRecord(Struct, frozen=True, kw_only=True):
    """The CLI as a turn last saw it. `stamp` changes with the CLI's file. `version` is its number, "" if it is unknown.
    `told`: a person was told that beam was not tested with this version. `failed` says why its protocol did not work at
    the time `failed_at`; both are "" if it did not fail."""

    v: int = 1
    stamp: str
    version: str = ""
    told: bool = False
    failed: str = ""
    failed_at: str = ""


class CliVersion:
    """The version of one turn's CLI, and what is stored about it. `unfit` says why its protocol is used only if the
    message names that mode, "" if there is no reason. `is_broken`: the reason is that the protocol is known to be
    broken."""

    def __init__(self, name: str, card: Card, file: Path, seen: CliRecord, clock: Clock) -> None:
        self._name = name
        self._file = file
        self._clock = clock
        self._seen = seen
        self._note = untested_note(seen.version, card.versions)
        defect = what_is_broken(seen.version, card.broken)
        self.is_broken = bool(defect)
        self.unfit = f"its protocol is broken in version {seen.version}: {defect}" if defect else self._recent_failure()

    def _recent_failure(self) -> str:
        try:
            since = self._clock.now_ns() - parse_rfc3339(self._seen.failed_at)
        except ValueError:
            return ""
        is_lately = self._note and 0 <= since < _RETRY_AFTER_NS
        return f"its protocol did not work in version {self._seen.version}: {self._seen.failed}" if is_lately else ""

    def record_success(self) -> events.Notice | None:
        """Record that the handshake worked. Return the notice for a person about an untested version; None if none is
        needed."""
        if not self._note or self._seen.told:
            return None
        self._store_record(told=True, failed="", failed_at="")
        text = f"{self._name} {self._seen.version} is {self._note}: its protocol works so far, and is used"
        return events.Notice(code="untested_version", text=text)

    def record_failure(self, why: str) -> None:
        """Record that the handshake failed, and why."""
        if self._note:
            self._store_record(failed=redact(why)[0], failed_at=rfc3339(self._clock.now_ns()))

    def _store_record(self, **changes: str | bool) -> None:
        self._seen = structs.replace(self._seen, **changes)
        _write(self._file, self._seen)


def last_seen_version(file: Path, card: Card, clock: Clock) -> CliVersion | None:
    """Return the CLI's version that a turn stored last in `file`; None if no turn has stored one."""
    seen = _read(file)
    return None if seen is None else CliVersion(card.name, card, file, seen, clock)


async def version_for_turn(order: TurnRequest, clock: Clock) -> CliVersion | None:
    """Return the version of the turn's CLI, if `auto` would choose the CLI's protocol; None if not, or if there is no
    CLI."""
    card = order.adapter.card
    if order.cli_file is None or order.recorded is not None or order.untrusted is not None or order.settings.runner:
        return None
    if not card.versions or not card.version_argv or order.message.options.via not in AUTO_MODES:
        return None
    try:
        if choose_face(order).face != "dialogue":
            return None
        executable = find_executable(order.adapter, order.settings, order.environ, order.base)
        stamp = _stamp(executable)
    except (BeamError, OSError):
        return None  # the turn says what is wrong
    seen = _read(order.cli_file)
    if seen is None or seen.stamp != stamp:
        package = npm_package(executable)
        version = package.version if package is not None else ""
        if not version and not own_program.leads_through(executable, _folders_of(order)):
            said = await version_output(
                (executable, *card.version_argv), environment(order.environ, {}), order.turn_key
            )
            version = version_number(said)
        seen = CliRecord(stamp=stamp, version=version)
        if version:  # else it is asked again: a busy machine may have been too slow
            _write(order.cli_file, seen)
    return CliVersion(order.adapter_name, card, order.cli_file, seen, clock)


def _folders_of(order: TurnRequest) -> tuple[str, str]:
    """Return the folders in which the agent may have changed its own program, which then isn't asked for its version:
    nothing holds it there."""
    return os.path.realpath(order.base), os.path.realpath(order.base / (order.settings.cwd or ""))


class NpmPackage(Struct, frozen=True):
    """The npm package of a program: its version ("" if it has none), and the oldest version of Node.js that it wants,
    "" if it says none."""

    version: str
    node: str


def npm_package(executable: str) -> NpmPackage | None:
    """Return the npm package that contains this program; None if no package does.

    This is quicker than asking the program: some CLIs take seconds to print their version.
    """
    real = Path(os.path.realpath(executable))
    for folder in real.parents[:_MAX_PARENT_FOLDERS]:
        try:
            named = msgspec.json.decode(files.read(folder / "package.json", _MAX_PACKAGE_JSON_BYTES))
        except (OSError, BeamError, ValueError, RecursionError):
            continue
        programs = named.get("bin") if isinstance(named, dict) else None
        paths = programs.values() if isinstance(programs, dict) else (programs,)
        if any(isinstance(path, str) and os.path.realpath(folder / path) == str(real) for path in paths):
            engines = named.get("engines")
            wanted = _OLDEST.fullmatch(str(engines.get("node") if isinstance(engines, dict) else ""))
            return NpmPackage(version_number(str(named.get("version"))), wanted[1] if wanted else "")
    return None


def _stamp(executable: str) -> str:
    path = os.path.realpath(executable)
    found = os.stat(path)  # noqa: PTH116 - any text may be a path here
    return f"{path} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _read(file: Path) -> CliRecord | None:
    try:
        return typed_values.decode(files.read(file, _MAX_BYTES), CliRecord)
    except (OSError, BeamError, msgspec.MsgspecError, RecursionError):
        return None


def _write(file: Path, seen: CliRecord) -> None:
    with contextlib.suppress(OSError, BeamError):  # without it the CLI is asked again
        files.replace(file, msgspec.json.encode(seen) + b"\n")


async def version_output(argv: tuple[str, ...], env: Mapping[str, str], turn_key: str) -> str:
    """Return the first lines that the command prints; "" if it does not end within 10 s.

    The command does not run in the project folder, because some CLIs always obey files there.
    """
    said: list[bytes] = []

    def line(text: bytes) -> None:
        if len(said) < _MAX_LINES:
            said.append(text)

    child = None
    try:
        child = await spawn.start(
            argv, env=env, cwd="/", turn_key=turn_key, on_line=line, on_error_line=line, line_bytes=_MAX_BYTES
        )
        child.go()
        async with asyncio.timeout(_TIMEOUT_S):
            await child.wait()
    except (BeamError, TimeoutError):
        return ""
    finally:
        if child is not None:
            child.end(_GRACE_S)
            with contextlib.suppress(BeamError):
                await child.wait()
    return b"\n".join(said).decode("utf-8", "replace")
