"""`beam team`: the agent teams of Claude Code that belong to this user. Only the commands of this module change a
team."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam import BeamError, UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.text import safe, write, write_json_lines, write_line

if TYPE_CHECKING:
    from beam import TeamActions

app = App("Look at the agent teams of Claude Code, and act on them.")

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
        write_json_lines(lines)
    elif lines:
        render.print_teams(lines)
    else:
        call.note("there are no teams; Claude Code makes them with CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1")


@app.verb()
def show(call: Context, team: str = _TEAM, claude_home: list[str] | None = _HOME, as_json: bool = _JSON) -> None:
    """Show a team: its members, what each does and said last, tokens and cost, who waits."""
    from beam import TeamsHere
    from beam.cli.render import team as render

    found = TeamsHere(call.environ, claude_homes=claude_home or ()).show(team)
    if as_json:
        write_json_lines([found])
    else:
        render.print_team(found)


@app.verb()
def tasks(call: Context, team: str = _TEAM, claude_home: list[str] | None = _HOME, as_json: bool = _JSON) -> None:
    """Show a team's tasks: in progress, ready, blocked, done."""
    from beam import TeamsHere
    from beam.cli.render import team as render

    lines = TeamsHere(call.environ, claude_homes=claude_home or ()).tasks(team)
    if as_json:
        write_json_lines(lines)
    elif lines:
        render.print_tasks(lines)
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
    """Show a team's mail: the messages that wait, and the delivered ones that its transcripts still have."""
    from beam import TeamsHere
    from beam.cli.render import team as render

    lines = TeamsHere(call.environ, claude_homes=claude_home or ()).mail(team, by_thread=thread)
    if as_json:
        write_json_lines(lines)
    elif lines:
        render.print_mail(lines, by_thread=thread)
    else:
        call.note(f"{team} has no mail on record")


@app.verb()
def send(
    call: Context,
    team: str = _TEAM,
    member: str = argument(..., metavar="MEMBER", help="Who gets it; team-lead is the lead."),
    text: list[str] = argument(..., metavar="TEXT...", help="The message; - reads it from stdin."),
    sender: str | None = option(None, "--from", metavar="NAME", help="The sender's name; default: human."),
    claude_home: list[str] | None = _HOME,
    as_json: bool = _JSON,
) -> None:
    """Put a message into a member's inbox. Its program reads it when it waits, or after its next tool call.

    Who a message is from is only written in it: Claude Code does not check that, and takes it as an agent's.
    """
    from beam.cli import prompt

    whole = prompt.read_stdin(call) if list(text) == ["-"] else " ".join(text)
    posted = _actions(call, team, claude_home).send(member, whole, sender=sender or "human")
    if as_json:
        write_json_lines([posted])
    else:
        _print_line(f"{posted.mail_id} lies in {posted.to}'s inbox, from {posted.sender} (not authenticated)")
    if posted.unread_because:
        call.note(f"nobody reads it: {posted.unread_because}")


@app.verb()
def task(
    call: Context,
    action: str = argument(..., metavar="ACTION", help="add, claim, start, done or block."),
    team: str = _TEAM,
    what: str = argument(..., metavar="WHAT", help="The task's id; for add its subject."),
    description: str = option("", "--description", metavar="TEXT", help="The task in detail (add)."),
    after: list[str] | None = option(None, "--after", metavar="ID", help="The task that it waits for (add, block)."),
    member: str | None = option(None, "--as", metavar="MEMBER", help="The new owner, a member who is told (claim)."),
    claude_home: list[str] | None = _HOME,
    as_json: bool = _JSON,
) -> None:
    """Add, claim, start, finish or block a task of a team, under Claude Code's own locks.

    If several claim a task at the same time, one gets it. A task that waits for others can't be claimed, and no two
    tasks can wait for each other.
    """
    if action not in ("add", "claim", "start", "done", "block"):
        raise UsageError(f"{action!r} is no action", "add, claim, start, done or block", subject=action)
    if (action == "block") != bool(after) and action != "add":
        raise UsageError("--after goes with add and block, and block needs it", "beam team task block T 2 --after 1")
    actions = _actions(call, team, claude_home)
    match action:
        case "add":
            changed = actions.add_task(what, description=description, after=after or ())
        case "claim":
            changed = actions.claim_task(what, member or "human")
        case "start":
            changed = actions.start_task(what)
        case "done":
            changed = actions.finish_task(what)
        case _:
            for other in after or ():
                changed = actions.block_task(what, other)
    if as_json:
        write_json_lines([changed])
    else:
        from beam.cli.render import team as render

        _print_line(render.task_line(changed))


@app.verb()
def shutdown(
    call: Context,
    team: str = _TEAM,
    member: str | None = argument(None, metavar="[MEMBER]", help="Only this member."),
    reason: str = option("", "--reason", metavar="TEXT", help="A reason, which the member reads."),
    claude_home: list[str] | None = _HOME,
    as_json: bool = _JSON,
) -> None:
    """Ask a member, or all members but the lead, to end. Each member decides for itself; nothing is killed."""
    posted = _actions(call, team, claude_home).shut_down(member or "", reason=reason)
    if as_json:
        write_json_lines(posted)
    elif posted:
        _print_line(f"asked: {', '.join(one.to for one in posted)}")
    else:
        call.note(f"{team} has no members but its lead")


@app.verb()
def approve(
    call: Context,
    team: str = _TEAM,
    member: str = argument(..., metavar="MEMBER", help="Who asks."),
    request: str = argument(..., metavar="REQUEST", help="The request's id, as beam watch shows it: perm-…"),
    deny: str | None = option(None, "--deny", metavar="TEXT", help="Deny it, and say why."),
    claude_home: list[str] | None = _HOME,
    as_json: bool = _JSON,
) -> None:
    """Answer a member's request for a permission in the lead's name, as the lead's own dialog would.

    The request stays on the lead's screen. Only members with panes of their own ask like this.
    """
    posted = _actions(call, team, claude_home).approve(member, request, deny=deny)
    if as_json:
        write_json_lines([posted])
    else:
        _print_line(f"{'denied' if deny is not None else 'allowed'}: {request} of {posted.to}")


@app.verb()
def create(
    call: Context,
    team: str = argument(..., metavar="TEAM", help="Its name: lower-case letters, digits and -."),
    claude_home: list[str] | None = _HOME,
) -> None:
    """Make a team without Claude Code: the same files, for agents of any vendor, led by you or by one of them."""
    from beam import create_team

    call.beam.check_person("makes a team")
    create_team(call.environ, team, claude_homes=claude_home or (), cwd=str(call.cwd))
    write_line(f"made the team {team}; to add an agent, such as codex: beam team join {team} codex")


@app.verb()
def join(
    call: Context,
    team: str = _TEAM,
    agent: str = argument(..., metavar="AGENT", help="An agent of this root."),
    name: str | None = option(None, "--name", metavar="NAME", help="Its name in the team; default: the agent's."),
    access: str = option(
        "read", "--access", metavar="A", help="What its turns may do: read, edit, full, or own: as its settings say."
    ),
    take: bool = option(False, "--take", help="Take free tasks without being asked."),
    lead: bool = option(False, "--lead", help="Lead the team, which beam made."),
    idle: str | None = option(None, "--idle", metavar="D", help="Leave after D without mail or tasks."),
    claude_home: list[str] | None = _HOME,
) -> None:
    """Make an agent a member of a team, until the lead asks it to end or you press ^C.

    It reads its inbox, answers the senders, does its tasks and reports them to the lead. Mail counts as an agent's
    message: turns have the access read unless you say otherwise.
    """
    from beam import Joining, Membership, durations
    from beam.cli import prompt

    actions = _actions(call, team, claude_home)
    joining = Joining(
        agent=call.beam.agent(agent).agent,
        name=name or agent.replace("@", "-"),
        access=None if access == "own" else prompt.parse_word("--access", access, prompt.ACCESSES),
        takes_tasks=take,
        leads=lead,
        idle_s=durations.parse(idle) if idle is not None else None,
    )
    call.note(Membership(call.beam, actions, joining, call.note).run())


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

        team_hook.main(_environ_bytes(call))
        if veto is not None:
            write(sys.stderr, veto + "\n")
        return 0 if veto is None else 2
    if veto is not None:
        raise UsageError("--veto is for a hook's call", "write the command with it into Claude Code's settings")
    from beam import install_hooks

    call.beam.check_person("changes Claude Code's settings")
    scope = "project" if project else "user"
    done = install_hooks(scope, environ=call.environ, project=call.cwd, remove=uninstall)
    what = ", ".join(done.changed) if done.changed else "nothing to do"
    write_line(f"{done.action}: {what} ({done.path})")
    return 0


def _actions(call: Context, team: str, claude_home: Sequence[str] | None) -> TeamActions:
    """Return the object that acts on the team. Raises UsageError if the caller is an agent: only a person may act on a
    team."""
    from beam import TeamActions

    call.beam.check_person("acts on a team")
    return TeamActions(call.environ, team, claude_homes=claude_home or ())


def _environ_bytes(call: Context) -> dict[bytes, bytes]:
    """Return the environment as bytes, which the hook needs. An invalid configuration is ignored, because it is not a
    reason for a veto."""
    try:
        environ = call.environ
    except BeamError:
        environ = dict(os.environ)
    return {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}


def _print_line(text: str) -> None:
    write_line(safe(text, sys.stdout))
