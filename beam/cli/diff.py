"""`beam diff`: what changed in an agent's work tree."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from beam import NotFoundError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.days import date_of, time_of_day
from beam.cli.render.text import safe, write_json, write_line

if TYPE_CHECKING:
    from beam import WorkTreeDiff

app = App()


@app.verb()
def diff(
    call: Context,
    agent: str | None = argument(
        None,
        metavar="[AGENT|ID]",
        help="The agent whose last turn is meant, or a message's id. Default: the last turn.",
    ),
    turn: int | None = option(None, "--turn", metavar="N", help="Since this turn of the agent began."),
    session: bool = option(False, "--session", help="Since the first turn of the agent's session began."),
    stat: bool = option(False, "--stat", help="Print only the files, with the lines added and removed."),
    as_json: bool = option(False, "--json", help="Print one JSON object, with files and the patch."),
) -> int:
    """Print what changed in the agent's work tree since its last turn began.

    It shows all changes, made by the agent, by you, or by another agent in the same folder. Files that git ignores are
    left out.
    """
    found = _find_diff(call, agent, turn, session=session)
    if as_json:
        write_json(_as_json(found))
        return 0
    since = f"turn {found.turn} of {found.agent} began ({date_of(found.ts)} {time_of_day(found.ts)})"
    if not found.changes.files:
        call.note(f"nothing changed in {safe(found.folder, sys.stderr)} since {since}")
        return 0
    if stat:
        for file in found.changes.files:
            lines = "binary" if file.added is None else f"+{file.added} -{file.removed}"
            write_line(safe(f"{lines}\t{file.path}", sys.stdout))
        return 0
    if sys.stdout.isatty():
        call.note(f"since {since}")
        for line in found.changes.patch.decode("utf-8", "replace").splitlines():
            write_line(safe(line, sys.stdout))
        return 0
    sys.stdout.flush()
    data = memoryview(found.changes.patch)
    while data:
        data = data[os.write(1, data) :]
    return 0


def _find_diff(call: Context, name: str | None, turn: int | None, *, session: bool) -> WorkTreeDiff:
    """Return the diff of the agent's work tree. If no agent is called `name`, return the diff for the message whose id
    is `name`."""
    if name is None:
        return call.beam.diff(turn=turn, session=session)
    try:
        agent = call.beam.agent_of(name)
    except NotFoundError:
        _, message_id = call.beam.find_message(name)
        return call.beam.diff(message_id=message_id, turn=turn, session=session)
    return call.beam.diff(agent, turn=turn, session=session)


def _as_json(found: WorkTreeDiff) -> dict[str, object]:
    files = [{"path": file.path, "added": file.added, "removed": file.removed} for file in found.changes.files]
    patch = found.changes.patch.decode("utf-8", "replace")
    named = {"agent": found.agent, "folder": found.folder, "turn": found.turn, "ts": found.ts}
    return {"v": 1, **named, "files": files, "patch": patch}
