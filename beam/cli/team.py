"""`beam team`: Claude Code's agent teams of this user, read-only."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import msgspec

from beam import BeamError, UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.text import write, write_json, write_line

app = App("Look at the agent teams of Claude Code.")

_HOME = option(None, "--claude-home", metavar="DIR", help="Claude Code's directory; repeatable.")
_JSON = option(False, "--json", help="Print JSON Lines, one object per line.")
_TEAM = argument(..., metavar="TEAM", help="The team's name, or an unambiguous part of it.")


@app.verb("list")
def list_(call: Context, claude_home: list[str] | None = _HOME, as_json: bool = _JSON) -> None:
    """List teams: live, stale, and inboxes that nobody reads."""
    from beam import TeamsHere
    from beam.cli.render import team as render

    lines = TeamsHere(call.environ, claude_homes=claude_home or ()).teams()
    if as_json:
        _json(lines)
    elif lines:
        render.teams(lines)
    else:
        call.note("there are no teams; Claude Code makes them with CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1")


@app.verb()
def show(call: Context, team: str = _TEAM, claude_home: list[str] | None = _HOME, as_json: bool = _JSON) -> None:
    """Show a team: its members, what each does and said last, tokens and cost, who waits."""
    from beam import TeamsHere
    from beam.cli.render import team as render

    found = TeamsHere(call.environ, claude_homes=claude_home or ()).show(team)
    if as_json:
        _json([found])
    else:
        render.shown(found)


@app.verb()
def tasks(call: Context, team: str = _TEAM, claude_home: list[str] | None = _HOME, as_json: bool = _JSON) -> None:
    """Show a team's tasks: in progress, ready, blocked, done."""
    from beam import TeamsHere
    from beam.cli.render import team as render

    lines = TeamsHere(call.environ, claude_homes=claude_home or ()).tasks(team)
    if as_json:
        _json(lines)
    elif lines:
        render.tasks(lines)
    else:
        call.note(f"{team} has no tasks")


@app.verb()
def mail(
    call: Context,
    team: str = _TEAM,
    thread: bool = option(False, "--thread", help="Group the mail by conversation."),
    claude_home: list[str] | None = _HOME,
    as_json: bool = _JSON,
) -> None:
    """Show a team's mail: what waits, and what its transcripts still have."""
    from beam import TeamsHere
    from beam.cli.render import team as render

    lines = TeamsHere(call.environ, claude_homes=claude_home or ()).mail(team, by_thread=thread)
    if as_json:
        _json(lines)
    elif lines:
        render.mail(lines, by_thread=thread)
    else:
        call.note(f"{team} has no mail on record")


@app.verb()
def hook(
    call: Context,
    install: bool = option(False, "--install", help="Add the hook to Claude Code's settings."),
    uninstall: bool = option(False, "--uninstall", help="Remove the hook from the settings."),
    user: bool = option(False, "--user", help="Use your own settings (the default)."),
    project: bool = option(False, "--project", help="Use this project's settings."),
    veto: str | None = option(None, "--veto", metavar="TEXT", help="Veto: pass TEXT to the agent and exit 2."),
) -> int:
    """Record the call of a Claude Code hook (on stdin) for `beam watch`; veto it only if --veto says so.

    With --install, Claude Code calls it automatically from its next start on.
    """
    if (install and uninstall) or (user and project):
        raise UsageError("choose one of --install and --uninstall, and one of --user and --project")
    if not install and not uninstall:
        from beam import team_hook

        team_hook.main(_bytes(call))
        if veto is not None:
            write(sys.stderr, veto + "\n")
        return 0 if veto is None else 2
    if veto is not None:
        raise UsageError("--veto is for a hook's call", "write the command with it into Claude Code's settings")
    from beam import install_hooks

    scope = "project" if project else "user"
    done = install_hooks(scope, environ=call.environ, project=call.cwd, remove=uninstall)
    what = ", ".join(done.changed) if done.changed else "nothing to do"
    write_line(f"{done.action}: {what} ({done.path})")
    return 0


def _bytes(call: Context) -> dict[bytes, bytes]:
    """Return the environment as the hook wants it. A configuration that is wrong is no reason to veto anything."""
    try:
        environ = call.environ
    except BeamError:
        environ = dict(os.environ)
    return {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}


def _json(values: Sequence[msgspec.Struct]) -> None:
    for value in values:
        write_json(value)
