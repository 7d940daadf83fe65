"""Checks whether the root is usable, whether every journal is intact, and whether every agent's CLI is installed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from beam.agents import registry
from beam.agents.base import Adapter
from beam.api.cli_answers import Answer, CliAnswers, Command
from beam.api.find import agent_names, all_paths, is_of_run, queue_of
from beam.api.root import check, path_text
from beam.api.strays import strays, strays_text
from beam.api.verify import find_damage
from beam.base import files, own_program
from beam.base.errors import BeamError
from beam.base.typed_values import one_line
from beam.broker.inbox import standing
from beam.broker.inbox.context import RootContext, path_note
from beam.model import events
from beam.model.outcome import Outcome
from beam.process.program import absolute_folders
from beam.root import directories
from beam.root.paths import AgentPaths
from beam.store.segment import Segment, segments
from beam.turns.choice import face_of
from beam.turns.cli_version import (
    NpmPackage,
    is_older,
    npm_package,
    untested_note,
    version_number,
    what_is_broken,
)
from beam.turns.confine import OWN_MOVE, confinement_means
from beam.turns.request import find_executable

_MODES_BEST_FIRST = ("dialogue", "exec", "terminal")  # the best first
_ERRORS = 10
_MOST_READ = 1000  # of the messages that wait for one agent
_WEEK_NS = 7 * 86_400 * 1_000_000_000
_LONGEST_VERSION = 16  # characters of one without a number
_LONGEST_SHEBANG = 256  # bytes
Result = Literal["ok", "note", "missing", "bad"]


class Check(Struct, frozen=True, kw_only=True):
    """One result of a check; `what` names the checked thing, `summary` is a short sentence, `detail` says all. With a
    result `bad`, `beam doctor` exits with code 13. A `note` is worth reading. `missing` is a CLI that is not installed,
    and that no declared agent needs."""

    what: str
    result: Result
    summary: str
    detail: str


def checks(context: RootContext, names: Sequence[str] = (), *, every: bool = False) -> Generator[Check, None, None]:
    """Yield the result of each check when it is known: the root, the declared agents and all other CLIs, the journals,
    sessions of CLIs that can't be read whole, the last errors. What a CLI itself must say comes when it has said it.

    With `names`, only these agents are checked. CLIs that beam was never tested with share one result; with `every`,
    each of them has its own. Raises NotFoundError for an unknown name.
    """
    for name in names:
        if name not in context.home.agents():
            context.config.resolve(name)
    with CliAnswers(context.environ) as answers:
        clis: dict[Command, list[_Cli]] = {}
        for check in _agents(context, answers, clis, names, every=every):
            yield check
            yield from _answered(clis, answers, wait=False)
        for check in () if names else _files(context):
            yield check
            yield from _answered(clis, answers, wait=False)
        yield from _answered(clis, answers, wait=True)


def _check(what: str, result: Result, detail: str, summary: str = "") -> Check:
    return Check(what=what, result=result, summary=summary or detail, detail=detail)


def _root(context: RootContext) -> Iterator[Check]:
    root = context.home.root
    if not context.home.exists():
        makes = "the first message makes it"
        yield _check("root", "note", f"{path_text(root)} does not exist yet; {makes}", f"none yet; {makes}")
    else:
        kind = directories.filesystem_of(root.resolve(), directories.read_mountinfo()) or "unknown file system"
        yield _check("root", "ok", f"{path_text(root)} ({kind})", f"it can be used ({kind})")
    for note in (*check(context.home, context.environ), *map(path_note, context.untrusted_path)):
        yield _check("root", "note", note)
    if own := own_program.place_in(context.home.project):
        why = f"{own} lies in the folder where agents work: what they change there, you run with your next command"
        yield _check("program", "note", f"{why}; {OWN_MOVE}", "agents can change beam itself: it lies in this folder")


def _files(context: RootContext) -> Iterator[Check]:
    """Yield the checks of the journals, of the CLIs' sessions, and the last errors."""
    for paths in all_paths(context):
        bad = find_damage(paths.journal)
        name = f"journal {paths.agent}" + (f" (once {paths.lane})" if paths.lane else "")
        yield _check(name, "bad" if bad else "ok", bad[0] if bad else "whole")
        yield from _strays(context, paths)
    yield from _sessions(context)
    for error in last_errors(context, _ERRORS):
        yield _check(f"error {error.outcome.agent}", "note", error.text, error.short_text)


def _strays(context: RootContext, paths: AgentPaths) -> Iterator[Check]:
    """Yield a note if files in the agent's queue are no messages for it, or if no agent has its name."""
    what, found = f"queue {paths.agent}", list(strays(paths, most=_MOST_READ))
    if found:
        named = "; ".join(f"{one.name}: {one.why}" for one in found[:_ERRORS])
        detail = f"{strays_text(len(found))}, in {path_text(paths.queue / 'new')}: {named}"
        yield _check(what, "note", detail, f"{strays_text(len(found))}: beam queue list {paths.agent}")
    if "@" not in paths.agent and not context.is_agent(paths.agent) and queue_of(paths).first("new") is not None:
        yield _check(what, "note", f"what waits there never runs: no agent is called {paths.agent}")


def _sessions(context: RootContext) -> Iterator[Check]:
    """Yield a note for each CLI with sessions of the last week in which beam can't read something."""
    from beam.foreign.survey import unread_sessions
    from beam.foreign.unreadable import left_out_text

    for one in unread_sessions(context.environ, since_ns=context.clock.now_ns() - _WEEK_NS):
        more = f" and {one.files - 1} more files" if one.files > 1 else ""
        detail = f"{left_out_text(one.counts)}; in {path_text(Path(one.path))}{more}"
        yield _check(f"sessions {one.adapter}", "note", detail, f"beam can't read {sum(one.counts.values())} records")


# -- agents and their CLIs ---------------------------------------------------------------------------------------------


class _Cli(Struct, frozen=True):
    """An agent whose CLI is installed. `is_open`: it lies where agents work, which may change it. `node` is the oldest
    version of Node.js that it wants; None if it needs no Node.js."""

    name: str
    is_declared: bool
    adapter: Adapter
    executable: str
    is_open: bool
    package: NpmPackage | None
    node: str | None


def _agents(
    context: RootContext,
    answers: CliAnswers,
    clis: dict[Command, list[_Cli]],
    names: Sequence[str],
    *,
    every: bool,
) -> Iterator[Check]:
    """Yield what is known at once, and ask the other CLIs. `clis` gets those, by what they were asked."""
    declared = agent_names(context, of_runs=every or bool(names))
    others = [name for name in registry.NAMES if name not in declared]
    unverified = [name for name in others if name in registry.ADAPTERS and registry.adapter(name).card.unverified]
    missing, built_in = list[Check](), list[str]()
    if not names:
        yield from _root(context)
    for name in names or [*declared, *(name for name in others if name not in unverified)]:
        if not names and name in others and _needs_no_cli(context, name):
            built_in.append(name)
            continue
        found = _find(context, name, is_declared=name in declared)
        if isinstance(found, Check):
            if found.result == "missing":
                missing.append(found)
            else:
                yield found
            continue
        argv = _question(found)
        if argv is None:
            yield _installed(found, found.package.version if found.package is not None else "")
        else:
            answers.ask(argv)
            clis.setdefault(argv, []).append(found)
            yield from _answered(clis, answers, wait=False)
    yield from missing
    if names:
        return
    if built_in:
        yield _check("built in", "ok", ", ".join(built_in))
    for name, why in registry.ignored_entries():
        yield _check(f"agent {name}", "note", f"left out: {why}")
    if every:
        yield from (_unverified(name) for name in unverified)
    elif unverified:
        detail = f"beam was never tested with {', '.join(unverified)}; beam doctor --all says how to use each"
        yield _check("unverified", "note", detail, f"{len(unverified)} more CLIs, never tested: beam doctor --all")


def _needs_no_cli(context: RootContext, name: str) -> bool:
    """Return whether this adapter of beam's own works here as it is: it has no CLI of somebody else."""
    if name not in registry.ADAPTERS or registry.adapter(name).card.versions or name in context.config.disabled:
        return False
    executable = registry.adapter(name).card.executable
    return (
        not executable or shutil.which(executable, path=absolute_folders(context.environ.get("PATH", ""))) is not None
    )


def _unverified(name: str) -> Check:
    why = registry.adapter(name).card.unverified
    return _check(f"agent {name}", "note", f"unverified: {why}", f"never tested; how to use it: beam doctor {name}")


def _find(context: RootContext, name: str, *, is_declared: bool) -> _Cli | Check:
    """Return the agent's installed CLI, or the agent's final check if there is none."""
    what = f"agent {name}"
    try:
        resolved = context.config.resolve(name)
        adapter = registry.adapter(resolved.settings.adapter)
        if adapter.card.unverified:
            return structs.replace(_unverified(adapter.card.name), what=what)
        executable = find_executable(adapter, resolved.settings, context.environ, context.home.project)
    except BeamError as error:
        if name in context.home.agents() and not context.is_agent(name):
            is_scenario_only = is_of_run(context, context.home.agent(name))
            state = "only a scenario declares it" if is_scenario_only else "it is not declared any more"
            note = f"{state}, and its files are kept; beam agent rm --purge {name} removes them"
            return _check(what, "note", note)
        detail = "; ".join(filter(None, (error.message, error.hint)))
        if error.kind == "switched_off":
            return _check(what, "note", detail, error.message)
        if error.kind == "not_installed":
            install = error.hint.partition(" (")[0]  # what it needs besides stands behind it
            if not is_declared:
                return _check(what, "missing", detail, install)
            return _check(what, "bad", detail, f"{error.message}; {install}")
        return _check(what, "bad" if is_declared else "note", detail)
    why = standing.check_folder(context, resolved).refusal
    if why is not None:
        return _check(what, "note", f"not trusted: {why}; beam trust")
    if not executable:
        return _check(what, "ok", adapter.card.summary, f"{adapter.card.name}: no CLI to install")
    if resolved.settings.runner:
        runner = resolved.settings.runner[0]
        return _check(what, "ok", f"{executable} is looked for where its runner {runner} runs it", f"run by {runner}")
    is_open = own_program.leads_through(executable, (os.path.realpath(context.home.project),))
    package = npm_package(executable)
    node = package.node if package is not None and _is_for_node(executable) else None
    return _Cli(name, is_declared, adapter, executable, is_open, package, node)


def _question(cli: _Cli) -> Command | None:
    """Return the command that says what is not known of the CLI yet: its version, or that of its Node.js. None if
    nothing may or need be asked."""
    if cli.is_open:  # agents may have changed a program in their folder: it is not run outside of a turn
        return None
    if cli.package is None:
        return (cli.executable, *cli.adapter.card.version_argv) if cli.adapter.card.version_argv else None
    return None if cli.node is None else ("node", "--version")


def _is_for_node(executable: str) -> bool:
    """Return whether this program is a script that Node.js runs."""
    with contextlib.suppress(OSError, BeamError), files.open_reader(executable, follow=True) as file:
        return re.match(rb"#!.*\bnode\b", file.readline(_LONGEST_SHEBANG)) is not None
    return False


def _answered(clis: dict[Command, list[_Cli]], answers: CliAnswers, *, wait: bool) -> Iterator[Check]:
    """Yield the checks of the CLIs about which an answer came. With `wait`, wait for all."""
    while came := answers.take(wait=wait):
        for cli, answer in [(cli, answer) for argv, answer in came.items() for cli in clis.pop(argv)]:
            if cli.package is None:
                yield _installed(cli, answer.text, answer.problem, is_bad=answer.is_stopped)
            else:
                problem = _node_problem(cli.node or "", answer)
                yield _installed(cli, cli.package.version, problem, is_bad=answer.is_stopped)


def _node_problem(wanted: str, answer: Answer) -> str:
    """Return why the Node.js that gave this answer may not run a program that wants at least this version."""
    if answer.is_stopped:
        return "needs Node.js, which is not installed here"
    if answer.problem:
        return f"its Node.js does not work: {answer.problem}"
    if wanted and is_older(answer.text, wanted):
        return f"needs Node.js {wanted}, and here is {version_number(answer.text)}"
    return ""


def _installed(cli: _Cli, version: str, problem: str = "", *, is_bad: bool = False) -> Check:
    """Return the check of an installed CLI of this version. `problem` says why it may not work."""
    card = cli.adapter.card
    untested = untested_note(version, card.versions)
    defect = what_is_broken(version, card.broken)
    held = confinement_means(card)
    details = (
        f"{cli.executable} {version}".rstrip(),
        problem,
        "lies in the folder where agents work, which may change it" if cli.is_open else "",
        _mode_text(cli.adapter),
        f"below full access: {held}" if held else "",
        untested,
        f"its protocol is broken in this version: {defect}" if defect else "",
    )
    number = version_number(version) or version[:_LONGEST_VERSION]
    tested = "tested" if version and card.versions and not untested else untested
    known = ", ".join(filter(None, (number, tested))) or "installed"
    summaries = (
        f"{card.name} {known}" if cli.name != card.name else known,
        "agents may change it" if cli.is_open else "",
        "its protocol is broken" if defect else "",
    )
    result: Result = (
        "bad" if is_bad and cli.is_declared else "note" if any((problem, cli.is_open, untested, defect)) else "ok"
    )
    return _check(
        f"agent {cli.name}", result, "; ".join(filter(None, details)), problem or "; ".join(filter(None, summaries))
    )


def _mode_text(adapter: Adapter) -> str:
    """Return the mode in which a turn would run, and the better modes that beam does not have for this CLI."""
    face = face_of(adapter, None)
    better = _MODES_BEST_FIRST[: _MODES_BEST_FIRST.index(face)] if face in _MODES_BEST_FIRST else ()
    better = tuple(one for one in better if one not in adapter.card.by_name)
    return f"{face} mode" + (f" (beam has no {' and no '.join(better)} mode for it)" if better else "")


# -- last errors -------------------------------------------------------------------------------------------------------
# Reads the last failures of a root's turns and messages from the newest segments of its journals.


_SEGMENTS = 2  # the newest of each journal; reading more would take too long
_LONGEST_REASON = 200  # characters of a reason
_SHORT_REASON = 36  # of a reason in a line of a terminal


class LastError(Struct, frozen=True, kw_only=True):
    """One outcome with a failure; `at` is its time (RFC 3339)."""

    at: str
    outcome: Outcome

    @property
    def text(self) -> str:
        """Return the failure as one line: time, status, reason, and the message's id."""
        outcome = self.outcome
        status = f"{outcome.status} ({outcome.class_})" if outcome.class_ else str(outcome.status)
        reason = one_line(outcome.reason or "", _LONGEST_REASON)
        detail = f": {reason}" if reason else ""
        return f"{self.at[:10]} {self.at[11:19]} UTC {status}{detail} [{outcome.message_id}]"

    @property
    def short_text(self) -> str:
        """Return the failure in a few words: day, time, and the beginning of the reason."""
        outcome = self.outcome
        said = one_line(outcome.reason or "", _SHORT_REASON) or outcome.class_ or outcome.status
        return f"{self.at[5:10]} {self.at[11:16]} UTC {said}"


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
