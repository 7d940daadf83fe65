"""The commands `beam trust`, `beam root` and `beam doctor`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from beam import ExitCode, UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.text import collapse_to_line, confirm, escape_controls, write_json, write_json_lines
from beam.cli.streams import is_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from beam import Candidate, Finding, Waiting

app = App()

_CHECK_WIDTHS = (7, 16)  # `missing`, and the longest name of a CLI: then how to install it fits on a line


@app.verb()
def trust(
    call: Context,
    folder: str | None = argument(
        None, metavar="[PATH]", help="The folder, or a scenario; default: the project folder."
    ),
    diff: bool = option(False, "--diff", help="Only show what is new or changed since the folder was trusted."),
    no: bool = option(False, "--no", help="Revoke the trust."),
    set_: list[str] = option([], "--set", metavar="K=V", help="Of a scenario: a value for a variable that has none."),
    yes: bool = option(False, "--yes", help="Don't ask; needed without a terminal."),
) -> int:
    """Let this folder's files, or one scenario, run code, as they are now.

    Everything that could run code or raise rights takes effect only after this: commands, environment, scripts and
    access in beam.yaml, and files that an agent CLI obeys (.env, .claude/settings.json, .qwen/, .aider.conf.yml …). The
    command shows all of it first, and asks. If one of them changes, you are asked again.
    """
    beam = call.beam
    if folder is not None and call.path(folder).is_file():
        if no or diff:
            raise UsageError("--diff and --no are for folders", f"a changed file is not trusted any more: {folder}")
        from beam.cli.run import variables_of

        scenario = beam.scenario(folder, variables=variables_of(set_))
        if not _consents(call, scenario.path, beam.scenario_wants(scenario), sure=yes):
            return int(ExitCode.USAGE)
        beam.trust_scenario(scenario)
        call.note(f"trusted: {scenario.path}")
        return 0
    if folder is not None:
        from beam import Beam, NotFoundError

        if not call.path(folder).is_dir():  # else the project folder around that path would be trusted
            raise NotFoundError(f"there is no folder or scenario {folder}", "check the path", subject=folder)
        beam = Beam(cwd=call.path(folder))
    if no and diff:
        raise UsageError("--diff and --no don't go together", "beam trust --diff")
    if no:
        call.note(f"no longer trusted: {beam.untrust()}")
        return 0
    from beam import trusting

    looked = beam.look_at_folder()
    if diff:
        from beam.cli.render.text import safe, write_line

        for line in trusting.differences(looked):
            write_line(safe(line, sys.stdout))
        if not looked.standing.changes:
            call.note("nothing is new or changed")
        return 0
    beam.check_person("trusts a folder")
    if not _consents(call, beam.home.project, list(trusting.allowed(looked)), sure=yes):
        return int(ExitCode.USAGE)
    call.note(f"trusted: {beam.trust(looked)}")
    return 0


def _consents(call: Context, what: object, allowed: Sequence[str], *, sure: bool) -> bool:
    """Show what trust allows, and return whether the person wants it. Does not ask if nothing needs trust."""
    for line in allowed:
        call.note(line)
    return sure or not allowed or _confirm(call, f"Trust {what} with all of this?")


@app.verb()
def root(
    call: Context,
    what: str | None = argument(None, metavar="[list]", help="`list` shows all your roots."),
    as_json: bool = option(False, "--json", help="Print JSON Lines, one object per root."),
) -> None:
    """Print the directory of this folder's state: queues, journals, settings made by commands.

    The first command that writes creates it; `ls $(beam root)` works from then on. `beam root list` shows all your
    roots, their folders, and which folders are gone; `beam doctor --remove-root ROOT` removes one.
    """
    if what not in (None, "list"):
        raise UsageError(
            f"beam root: unknown argument {what[:80]!r}", "use beam root, or beam root list", subject=what[:80]
        )
    if what is None:
        home = call.beam.home
        if as_json:
            write_json({"root": _path_text(home.root), "project": _path_text(home.project), "exists": home.exists()})
        else:
            sys.stdout.buffer.write(os.fsencode(home.root) + b"\n")  # quoted, so that a shell gets exactly this name
        return
    from beam.cli.render.tables import print_columns

    found = call.beam.roots()
    if as_json:
        write_json_lines(found)
        return
    rows = [
        (line.root, line.project + ("" if line.exists else " (gone)"), ", ".join(line.agents), str(line.waiting))
        for line in found
    ]
    print_columns(("ROOT", "FOLDER", "AGENTS", "WAITING"), rows)


def _path_text(path: Path) -> str:
    return os.fsencode(path).decode(errors="backslashreplace")


@app.verb()
def doctor(
    call: Context,
    names: str | None = argument(None, metavar="[AGENT,...]", help="Check only these agents or CLIs, in detail."),
    smoke: bool = option(
        False, "--smoke", help="Run a real turn of each installed CLI against a scripted model, instead of checking."
    ),
    every: bool = option(False, "--all", help="All CLIs that beam knows, including those that were never tested."),
    gc: bool = option(False, "--gc", help="Remove what is no longer needed, instead of checking."),
    older_than: str | None = option(
        None, metavar="DURATION", help="With --gc: remove what is older than this. Default: 30d."
    ),
    keep_bytes: str | None = option(
        None, metavar="SIZE", help="With --gc: also remove newer data, oldest first, until the root fits (500M, 2G)."
    ),
    dead: bool = option(False, "--dead", help="With --gc: also remove dead letters."),
    dry_run: bool = option(False, "--dry-run", help="With --gc: only show what would be removed."),
    adopt: bool = option(
        False,
        "--adopt",
        help="Adopt other roots of this folder (the folder was moved, or mounted twice); asks first.",
    ),
    remove_root: str | None = option(None, metavar="ROOT", help="Remove a root and everything in it."),
    yes: bool = option(False, "--yes", help="With --adopt and --remove-root: don't ask."),
    as_json: bool = option(False, "--json", help="Print JSON Lines, one object per check or removed thing."),
) -> int:
    """Check the root, its journals and the agents' CLIs, and show the last ten errors.

    Exits 13 if a check failed. With --smoke, each CLI runs in a temporary HOME with a dummy key: it uses no account and
    leaves nothing behind. With --gc, it removes finished --once lanes, old journal segments, logs and what crashes left
    behind. It never removes messages that wait, run or are dead letters, and nothing of an agent that is in use.
    """
    if names is not None and (gc or adopt or remove_root is not None):
        raise UsageError("names don't go with --gc, --adopt and --remove-root", "beam doctor NAME", subject=names[:80])
    if smoke and gc:
        raise UsageError("--smoke and --gc don't go together", "beam doctor --smoke")
    if sum((smoke, gc, adopt, remove_root is not None)) > 1:
        raise UsageError("--smoke, --gc, --adopt and --remove-root don't go together", "use one of them")
    if yes and not adopt and remove_root is None:
        raise UsageError("--yes needs --adopt or --remove-root", "beam doctor --adopt")
    if not gc and (older_than is not None or keep_bytes is not None or dead or dry_run):
        raise UsageError(
            "--older-than, --keep-bytes, --dead and --dry-run belong to --gc", "beam doctor --gc --dry-run"
        )
    named = [] if names is None else names.split(",")
    if adopt:
        return _adopt_roots(call, sure=yes)
    if remove_root is not None:
        if not yes and not _confirm(call, f"Remove {remove_root} with all that it holds?"):
            return int(ExitCode.USAGE)
        call.note(call.beam.remove_root(call.path(remove_root), sure=yes))
        return 0
    if smoke:
        return _run_smoke_tests(call, named, as_json=as_json)
    if gc:
        _collect_garbage(call, older_than, keep_bytes, dead=dead, dry_run=dry_run, as_json=as_json)
        return 0
    return _run_checks(call, named, every=every, as_json=as_json)


def _adopt_roots(call: Context, *, sure: bool) -> int:
    """Show the content of the other roots of this folder, ask the person unless `sure`, and adopt these roots. Return
    the exit code."""
    from beam.cli.render.text import write_line

    found = call.beam.adoptable()
    if not found:
        call.note("there is no other root of this folder")
        return 0
    for candidate in found:
        for line in candidate_lines(candidate):
            write_line(line)
    if not sure and not _confirm(call, "Go on with these agents, and run what waits?"):
        return int(ExitCode.USAGE)
    for candidate in found:
        for line in call.beam.adopt(candidate):
            call.note(line)
    return 0


def _confirm(call: Context, question: str) -> bool:
    """Return whether the person at the terminal says yes. Without a terminal, print how to say yes and return False."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        from beam.cli.errors import complain

        complain("nothing was changed: there is no terminal to ask for consent; to agree beforehand, add --yes")
        return False
    return confirm(question)


def _run_checks(call: Context, names: list[str], *, every: bool, as_json: bool) -> int:
    from beam.cli.errors import complain
    from beam.cli.render.tables import GrowingTable

    table, bad = GrowingTable(("RESULT", "WHAT", "DETAIL"), _CHECK_WIDTHS), []
    with _clean_ends(), contextlib.closing(call.beam.doctor(names, all=every)) as each:
        for check in each:
            if check.result == "bad":
                bad.append(check.what)
            if as_json:
                write_json(check)
                sys.stdout.flush()
            else:
                text = check.detail if names or call.verbose else check.summary
                table.print((check.result, check.what.removeprefix("agent "), text))
    if bad:
        journal = next((what.split()[1] for what in bad if what.startswith("journal ")), None)
        more = f"; beam log {journal} --verify lists the damage of a journal" if journal is not None else ""
        complain(f"{len(bad)} check(s) failed: {', '.join(bad)}; see above{more}")
    elif not (names or call.verbose or as_json) and is_terminal(sys.stderr):
        call.note("more on each: beam doctor -v; a turn of each CLI: beam doctor --smoke")
    return int(ExitCode.CHECK_FAILED) if bad else 0


@contextlib.contextmanager
def _clean_ends() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SignalledError, so that the CLIs that were started are ended. A signal that was
    ignored before, as with nohup, stays ignored."""
    import signal

    from beam import SignalledError

    def end(number: int, frame: object) -> NoReturn:
        raise SignalledError(number)

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_smoke_tests(call: Context, names: list[str], *, as_json: bool) -> int:
    from beam.cli.errors import complain
    from beam.cli.render.tables import print_columns

    rows, failed = [], []
    with _clean_ends(), contextlib.closing(call.beam.smoke(names)) as each:
        for one in each:
            if one.result == "failed":
                failed.append(one.agent)
            if as_json:
                write_json(one)
                continue
            call.detail(f"{one.agent}: {one.result}")
            seconds = "" if one.seconds is None else f"{one.seconds:g}"
            detail = one.reason or one.hint or ("" if one.got is None else f"the model got: {one.got}")
            exit_code = f" (exit {one.exit_code})" if one.result == "failed" else ""
            outcome = one.result if one.result != "failed" else f"failed: {one.status or 'no outcome'}{exit_code}"
            rows.append((one.agent, one.version or "", one.face or "", outcome, seconds, detail))
    if rows:
        print_columns(("CLI", "VERSION", "MODE", "OUTCOME", "SECONDS", "MESSAGE"), rows)
    if failed:
        complain(f"{len(failed)} CLI(s) failed: {', '.join(failed)}; see above")
    return int(ExitCode.CHECK_FAILED) if failed else 0


def _collect_garbage(
    call: Context, older_than: str | None, keep_bytes: str | None, *, dead: bool, dry_run: bool, as_json: bool
) -> None:
    from beam import durations
    from beam.cli.render.tables import print_columns

    collected = call.beam.gc(
        older_than=durations.parse(older_than or "30d"),
        keep_bytes=None if keep_bytes is None else _parse_size(keep_bytes),
        dead=dead,
        dry_run=dry_run,
    )
    if as_json:
        write_json_lines(collected.removed)
    elif collected.removed:
        rows = [(each.what, str(each.bytes), durations.show(each.age_s), each.path) for each in collected.removed]
        print_columns(("WHAT", "BYTES", "AGE", "PATH"), rows)
    freed = sum(each.bytes for each in collected.removed)
    call.note(f"{'would remove' if dry_run else 'removed'} {freed} bytes; {collected.bytes} remain")
    for name in collected.held:
        call.note(f"{name} is in use and was left unchanged")


def _parse_size(text: str) -> int:
    """Return a size in bytes, given as a number with or without K, M, G (powers of 1024)."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in ("K", "M", "G") else (text, "")
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"{text[:80]!r} is not a size", "write it like 1000000, 500M or 2G", subject=text[:80])
    return int(number) << (10 * ("KMG".index(unit) + 1) if unit else 0)


# -- a root that may be adopted ----------------------------------------------------------------------------------------


def candidate_lines(candidate: Candidate) -> Iterator[str]:
    """Yield the lines that show a root which may be adopted."""
    yield collapse_to_line(f"{os.fsencode(candidate.root).decode(errors='backslashreplace')}: {candidate.why}")
    for agent in candidate.agents:
        yield from _agent_lines(agent)


def _agent_lines(found: Finding) -> Iterator[str]:
    yield f"  {found.agent}" + (": this folder has an agent of that name, so it stays there" if found.taken else "")
    for line in _safe_lines(found.settings or ""):
        yield f"    agent.json: {line}"
    if found.session is not None:
        yield f"    goes on in the session {collapse_to_line(found.session)}"
    for message in found.waiting:
        yield f"    {_message_head(message)}:"
        for name, value in message.more.items():
            yield f"      {collapse_to_line(name)}: {collapse_to_line(json.dumps(value, ensure_ascii=False))}"
        for line in _safe_lines(message.text):
            yield f"      | {line}"


def _message_head(message: Waiting) -> str:
    access = f", with access {message.access}" if message.access is not None else ""
    attach = f", attaching {', '.join(message.attach)}" if message.attach else ""
    return collapse_to_line(f"waits, from {message.sender}{access}{attach}")


def _safe_lines(text: str) -> list[str]:
    return [escape_controls(line) for line in text.splitlines()]
