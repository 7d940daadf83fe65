"""Checks whether the root is usable, whether every journal is intact, and whether every agent's CLI is installed."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from beam.agents import registry
from beam.agents.base import Adapter
from beam.api.find import agent_names, all_paths
from beam.api.root import check, path_text
from beam.api.verify import find_damage
from beam.base import own_program
from beam.base.errors import BeamError
from beam.broker.inbox import standing
from beam.broker.inbox.context import RootContext, path_note
from beam.model import events
from beam.model.outcome import Outcome
from beam.process.program import environment
from beam.root import directories
from beam.root.paths import AgentPaths
from beam.store.segment import Segment, segments
from beam.turns.choice import face_of
from beam.turns.cli_version import npm_package_version, untested_note, what_is_broken
from beam.turns.confine import OWN_MOVE, confinement_means
from beam.turns.request import find_executable

_DECLARED, _HERE, _MISSING = range(3)
_MODES_BEST_FIRST = ("dialogue", "exec", "terminal")  # the best first
_AT_ONCE = 4
_ERRORS = 10
_WEEK_NS = 7 * 86_400 * 1_000_000_000


class Check(Struct, frozen=True, kw_only=True):
    """One result of a check; `what` names the checked thing. With a result `bad`, `beam doctor` exits with code 13;
    with a `note`, it does not."""

    what: str
    result: Literal["ok", "note", "bad"]
    detail: str


def checks(context: RootContext, *, every: bool = False) -> Iterator[Check]:
    """Yield the results of all checks, in this order: the root, its journals, its declared agents, the other installed
    CLIs, the missing CLIs, sessions of CLIs that can't be read whole, the last errors of its agents.

    CLIs that beam was never tested with share one result; with `every`, each of them has its own.
    """
    root = context.home.root
    if not context.home.exists():
        yield Check(what="root", result="note", detail=f"{root} does not exist yet; the first message makes it")
    else:
        kind = directories.filesystem_of(root.resolve(), directories.read_mountinfo())
        yield Check(what="root", result="ok", detail=f"{root} ({kind or 'unknown file system'})")
    for note in (*check(context.home, context.environ), *map(path_note, context.untrusted_path)):
        yield Check(what="root", result="note", detail=note)
    if own := own_program.place_in(context.home.project):
        why = f"{own} lies in the folder where agents work: what they change there, you run with your next command"
        yield Check(what="program", result="note", detail=f"{why}; {OWN_MOVE}")
    for paths in all_paths(context):
        bad = find_damage(paths.journal)
        name = f"journal {paths.agent}" + (f" (once {paths.lane})" if paths.lane else "")
        yield Check(what=name, result="bad" if bad else "ok", detail=bad[0] if bad else "whole")
    yield from _agents(context, every=every)
    yield from _sessions(context)
    for error in last_errors(context, _ERRORS):
        yield Check(what=f"error {error.outcome.agent}", result="note", detail=error.text)


def _sessions(context: RootContext) -> Iterator[Check]:
    """Yield a note for each CLI with sessions of the last week in which beam can't read something."""
    from beam.foreign.survey import unread_sessions
    from beam.foreign.unreadable import left_out_text

    for one in unread_sessions(context.environ, since_ns=context.clock.now_ns() - _WEEK_NS):
        more = f" and {one.files - 1} more files" if one.files > 1 else ""
        detail = f"{left_out_text(one.counts)}; in {path_text(Path(one.path))}{more}"
        yield Check(what=f"sessions {one.adapter}", result="note", detail=detail)


def _agents(context: RootContext, *, every: bool) -> Iterator[Check]:
    from concurrent.futures import ThreadPoolExecutor

    declared = agent_names(context)
    others = [name for name in registry.NAMES if name not in declared]
    unverified = [name for name in others if name in registry.ADAPTERS and registry.adapter(name).card.unverified]
    checkable = [name for name in others if name not in unverified]
    # Not in threads: msgspec crashes where two use a type for the first time at once.
    found = [_find(context, name) for name in [*declared, *checkable]]
    with ThreadPoolExecutor(_AT_ONCE) as pool:  # each is asked for its version, which takes some of them seconds
        looked = list(pool.map(lambda each: _ask_version(context, each), found))
    for section in (_DECLARED, _HERE, _MISSING):
        yield from (check for found, check in looked if found == section)
    for name, why in registry.ignored_entries():
        yield Check(what=f"agent {name}", result="note", detail=f"left out: {why}")
    if every:
        yield from (_ask_version(context, _find(context, name))[1] for name in unverified)
    elif unverified:
        detail = f"beam was never tested with {', '.join(unverified)}; beam doctor --all says how to use each"
        yield Check(what="unverified", result="note", detail=detail)


class _InstalledCli(Struct, frozen=True):
    """An agent whose CLI can be asked for its version."""

    what: str
    section: int
    adapter: Adapter
    executable: str


def _find(context: RootContext, name: str) -> _InstalledCli | tuple[int, Check]:
    """Return the agent's installed CLI. If it can't be asked for its version, return the agent's section and its final
    check."""
    what = f"agent {name}"
    declared = name in agent_names(context)
    section = _DECLARED if declared else _HERE
    try:
        resolved = context.config.resolve(name)
        adapter = registry.adapter(resolved.settings.adapter)
        if adapter.card.unverified:
            return section, Check(what=what, result="note", detail=f"unverified: {adapter.card.unverified}")
        executable = find_executable(adapter, resolved.settings, context.environ, context.home.project)
    except BeamError as error:
        if name in context.home.agents() and not context.is_agent(name):
            note = f"it is not declared any more, and its files are kept; beam agent rm --purge {name} removes them"
            return section, Check(what=what, result="note", detail=note)
        if error.kind == "switched_off":
            return section, Check(what=what, result="note", detail=f"{error.message}; {error.hint}")
        missing = error.kind == "not_installed" and not declared
        detail = "; ".join(filter(None, (error.message, error.hint)))
        result: Literal["note", "bad"] = "note" if missing or not declared else "bad"
        return _MISSING if missing else section, Check(what=what, result=result, detail=detail)
    why = standing.check_folder(context, resolved).refusal
    if why is not None:
        return section, Check(what=what, result="note", detail=f"not trusted: {why}; beam trust")
    if not executable:
        return section, Check(what=what, result="ok", detail=adapter.card.summary)
    return _InstalledCli(what, section, adapter, executable)


def _ask_version(context: RootContext, found: _InstalledCli | tuple[int, Check]) -> tuple[int, Check]:
    """Return the agent's section and its check, which has the version that its CLI reports."""
    if not isinstance(found, _InstalledCli):
        return found
    adapter, executable = found.adapter, found.executable
    is_open = own_program.leads_through(executable, (os.path.realpath(context.home.project),))
    # Agents may have changed a program in their folder: it is not run outside of a turn.
    ask = npm_package_version if is_open else functools.partial(_version, adapter.card.version_argv, context)
    version = ask(executable)
    other = untested_note(version, adapter.card.versions)
    defect = what_is_broken(version, adapter.card.broken)
    other = "; ".join(filter(None, (other, defect and f"its protocol is broken in this version: {defect}")))
    held = confinement_means(adapter.card)
    confined = f"below full access: {held}" if held else ""
    place = "lies in the folder where agents work, which may change it" if is_open else ""
    details = (f"{executable} {version}".rstrip(), place, _mode_text(adapter), confined, other)
    text = "; ".join(filter(None, details))
    return found.section, Check(what=found.what, result="note" if other or is_open else "ok", detail=text)


def _mode_text(adapter: Adapter) -> str:
    """Return the mode in which a turn would run, and the better modes that beam does not have for this CLI."""
    face = face_of(adapter, None)
    better = _MODES_BEST_FIRST[: _MODES_BEST_FIRST.index(face)] if face in _MODES_BEST_FIRST else ()
    better = tuple(one for one in better if one not in adapter.card.by_name)
    return f"{face} mode" + (f" (beam has no {' and no '.join(better)} mode for it)" if better else "")


def _version(argv: tuple[str, ...], context: RootContext, executable: str) -> str:
    """Return the first line of the CLI's version output. The CLI does not run in the project folder, because some CLIs,
    and the git that they call, always obey files in their working directory."""
    if not argv:
        return ""
    try:
        ended = subprocess.run(
            [executable, *argv],
            cwd="/",
            capture_output=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment(context.environ, {}),
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"(does not say its version: {error})"
    output = ended.stdout.strip() or ended.stderr.strip()
    return output.splitlines()[0] if output else ""


# -- last errors -------------------------------------------------------------------------------------------------------
# Reads the last failures of a root's turns and messages from the newest segments of its journals.


_SEGMENTS = 2  # the newest of each journal; reading more would take too long
_LONGEST_REASON = 200  # characters of a reason


class LastError(Struct, frozen=True, kw_only=True):
    """One outcome with a failure; `at` is its time (RFC 3339)."""

    at: str
    outcome: Outcome

    @property
    def text(self) -> str:
        """Return the failure as one line: time, status, reason, and the message's id."""
        outcome = self.outcome
        status = f"{outcome.status} ({outcome.class_})" if outcome.class_ else str(outcome.status)
        reason = " ".join((outcome.reason or "").split())
        short = reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
        detail = f": {short}" if short else ""
        return f"{self.at[:10]} {self.at[11:19]} UTC {status}{detail} [{outcome.message_id}]"


def last_errors(context: RootContext, limit: int) -> list[LastError]:
    """Return the last failures of all agents, the newest first: at most `limit`, and at most one for each message."""
    found = [error for paths in all_paths(context) for error in _errors(paths)]
    by_message = {error.outcome.message_id: error for error in sorted(found, key=lambda error: error.at)}
    return sorted(by_message.values(), key=lambda error: error.at, reverse=True)[:limit]


def _errors(paths: AgentPaths) -> Iterator[LastError]:
    """Yield the failures in the newest segments of a journal. An unreadable journal is skipped, because another check
    reports it."""
    finished = set()
    try:
        for name in segments(paths.journal)[-_SEGMENTS:]:
            for event in Segment.read(paths.journal / name).events:
                attempt = (event.message_id, getattr(event, "attempt", 1))
                if isinstance(event, events.TurnFinished):
                    finished.add(attempt)
                elif not isinstance(event, events.MessageDead) or attempt in finished:
                    continue  # the outcome of the turn itself says more
                outcome = events.outcome_of(event)
                if outcome.exit_code:
                    yield LastError(at=event.ts, outcome=outcome)
    except (BeamError, OSError):
        return
