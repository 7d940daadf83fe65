"""`beam undo`: takes back what changed in an agent's work tree during a turn."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from beam import ExitCode, NotFoundError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.text import confirm, safe, write_json, write_line
from beam.cli.streams import is_interactive

if TYPE_CHECKING:
    from beam import UndoneFile, UndoResult

app = App()
_WHY = {
    "not_named": "{agent} did not name it as changed",
    "not_told": "{agent} does not say which files it changed",
    "other_turn": "a turn of {detail} was at it, too",
    "changed_since": "it changed since",
    "unknown_since": "nobody recorded how the turn left it",
    "kept": "{agent} keeps it for itself",
    "ignored": "git ignores it",
    "filter": "git converts it by a filter: git checkout",
    "repository": "it is in a repository of its own",
    "outside": "it is outside of the folder",
    "failed": "{detail}",
}
_REFUSED = ("changed_since", "unknown_since", "filter", "failed")
_WITH_MORE = ("other_turn", "changed_since", "unknown_since")  # somebody else's changes may be in it
_FORCED = ("not_named", "not_told", "other_turn", "changed_since", "unknown_since")


@app.verb()
def undo(
    call: Context,
    agent: str | None = argument(
        None,
        metavar="[AGENT|ID]",
        help="The agent whose last turn is meant, or a message's id. Default: the last turn.",
    ),
    dry_run: bool = option(False, "--dry-run", help="Only print what would be done with each file."),
    all_files: bool = option(False, "--all-files", help="Take back every file that changed, also those that are left."),
    redo: bool = option(False, "--redo", help="Take back the last undo."),
    as_json: bool = option(False, "--json", help="Print one JSON object, and ask nothing."),
) -> int:
    """Take back what changed in the agent's work tree during its last turn.

    It lists the files first, and asks on a terminal. It leaves a file that the agent's CLI did not name as changed
    (some never name one), that another turn was at, or that changed since: --all-files takes back these, too. It never
    touches files that git ignores, nor commits. The conversation stays: `beam agent rewind`. Exits 1 if a file was left
    because it changed since, or can't be written.
    """
    name, message_id = _target(call, agent)
    asks = not (dry_run or as_json) and is_interactive(sys.stdin, sys.stderr)
    if asks:
        would = call.beam.undo(name, message_id=message_id, redo=redo, all_files=all_files, dry_run=True)
        _print_files(would)
        if not _is_anything_done(would):
            return _end(call, would, agent)
        sys.stdout.flush()
        if not confirm(f"beam: {_summary(would)}. Go on?"):
            return int(ExitCode.USAGE)
    found = call.beam.undo(name, message_id=message_id, redo=redo, all_files=all_files, dry_run=dry_run)
    if as_json:
        write_json(found)
        return _exit_code(found)
    if not asks or found.files != would.files:
        _print_files(found)
    return _end(call, found, agent)


def _target(call: Context, name: str | None) -> tuple[str | None, str | None]:
    """Return the agent that is called `name`; if there is none, the message with this id."""
    if name is None:
        return None, None
    try:
        return call.beam.agent_of(name), None
    except NotFoundError:
        return None, call.beam.find_message(name)[1]


def _print_files(found: UndoResult) -> None:
    for file in found.files:
        why = f"\t{_why(found, file)}" if file.left is not None else ""
        write_line(safe(f"{file.action}\t{file.path}{why}", sys.stdout))


def _end(call: Context, found: UndoResult, target: str | None) -> int:
    """Print what was done, and how to go on: `target` is the agent or the message that was named. Return the exit
    code."""
    sys.stdout.flush()
    call.note(f"{_summary(found)}; ignored files and commits are never touched")
    if any(file.left in _FORCED for file in found.files):
        untold = any(file.left == "not_told" for file in found.files)
        why = f"{found.agent} does not say which files it changed: " if untold else ""
        again = f"beam undo {target or found.agent}{' --redo' if found.redo else ''} --all-files"
        since = ", with what was written since" if any(file.left in _WITH_MORE for file in found.files) else ""
        call.note(f"{why}{again} takes back those that were left, too{since}; an undo can be undone")
    if found.other_id:
        call.note(f"the last turn that changed files: beam undo {found.other_id}")
    if not found.dry_run and not found.redo and _is_anything_done(found):
        call.note(f"to undo this: beam undo {found.agent} --redo; the conversation stays (beam agent rewind)")
    return _exit_code(found)


def _summary(found: UndoResult) -> str:
    turn = f"turn {found.turn} of {found.agent}"
    done = sum(file.left is None for file in found.files)
    left = len(found.files) - done
    if not found.files and not found.back:
        return f"{turn} changed no file in {safe(found.folder, sys.stderr)}"
    when = f"before the undo of {turn}" if found.redo else f"before {turn}"
    parts = [_as_before(done, when, would=found.dry_run)] if done else []
    if found.back:
        parts.append(
            f"{found.back} {_be(found.back)} so already" if done else f"{_as_before(found.back, when)} already"
        )
    return ", ".join([*parts, *([f"{left} {_be(left)} left"] if left else [])])


def _as_before(count: int, when: str, *, would: bool = False) -> str:
    files, were = ("file", "it was") if count == 1 else ("files", "they were")
    return f"{count} {files} {'would be' if would else _be(count)} as {were} {when}"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _why(found: UndoResult, file: UndoneFile) -> str:
    return _WHY[file.left or ""].format(agent=found.agent, detail=file.detail)


def _is_anything_done(found: UndoResult) -> bool:
    return any(file.left is None for file in found.files)


def _exit_code(found: UndoResult) -> int:
    return int(ExitCode.FAILED) if any(file.left in _REFUSED for file in found.files) else 0
