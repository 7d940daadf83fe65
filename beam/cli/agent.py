"""`beam agent`: the agents of this root."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from beam import BeamError, UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.text import write_json, write_json_lines
from beam.cli.streams import is_terminal

_SHELL_OPERATORS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1"})

app = App("List, show, add, fork, rename, archive, change, release and remove agents.")


@app.verb("list")
def list_(
    call: Context,
    every: bool = option(False, "--all", help="Also list the agents of scenarios, and all adapters, used or not."),
    matrix: bool = option(False, "--matrix", help="Show instead what each agent CLI could do in tests."),
    as_json: bool = option(False, "--json", help="Print JSON Lines, one object per agent or cell."),
) -> None:
    """List the agents of this root.

    If the project has none, list the agents that it could use.
    """
    from beam.cli.render.tables import print_columns

    if matrix:
        _print_matrix(as_json)
        return
    declared = call.beam.agents(all=every)
    found = declared or [line for line in call.beam.agents(all=True) if not line.of_run]
    if as_json:
        write_json_lines(found)
        return
    missing, unverified = [], []
    if not declared:
        missing = [line.agent for line in found if line.installed is None]
        unverified = [line.agent for line in found if line.face == "unverified"]
        found = [line for line in found if line.agent not in (*missing, *unverified)]
    rows = []
    for line in found:
        where = {None: "not installed", "": "-"}.get(line.installed, line.installed or "")
        rows.append(
            (
                line.agent,
                line.adapter,
                line.face,
                line.model or "",
                line.access or "",
                line.declared_in,
                line.error or where,
            )
        )
    print_columns(("AGENT", "ADAPTER", "MODE", "MODEL", "ACCESS", "DECLARED IN", "INSTALLED"), rows, drops_empty=True)
    sys.stdout.flush()
    if not declared:
        call.note(
            f"this project has no agents; you can send to any of these. Not installed: {', '.join(missing) or 'none'}"
        )
        call.note(f"untested, so listed only by beam agent list --all: {', '.join(unverified)}")


def _print_matrix(as_json: bool) -> None:
    from beam import conformance
    from beam.cli.render.matrix import print_table, print_tabs

    table = conformance.matrix()
    if as_json:
        write_json_lines(conformance.lines(table))
    elif is_terminal(sys.stdout):
        print_table(table)
    else:
        print_tabs(table)


@app.verb()
def show(
    call: Context,
    agent: str = argument(..., metavar="AGENT"),
    origin: bool = option(False, "--origin", help="Show where each setting comes from."),
    live: bool = option(
        False, "--live", help="Show what the running or kept process says of itself instead; exit 10 if it can't."
    ),
    as_json: bool = option(False, "--json", help="Print one JSON object."),
) -> None:
    """Show an agent's settings, capabilities and current state."""
    from beam.cli.render.tables import print_pairs

    if live:
        answers = call.beam.ask_live(agent)
        if as_json:
            write_json(answers)
        else:
            print_pairs([(name, _value_text(value)) for name, value in answers.items()])
        return
    details = call.beam.agent(agent)
    if as_json:
        write_json(details)
        return
    default = msgspec.structs.replace(type(details.settings)())
    rows = [("agent", details.agent), ("adapter", f"{details.adapter} ({details.card.summary})")]
    for name in details.settings.__struct_fields__:
        value = getattr(details.settings, name)
        if name != "adapter" and (
            value != getattr(default, name) or (origin and details.origin.get(name) != "default")
        ):
            text = msgspec.json.encode(value).decode() if not isinstance(value, str) else value
            rows.append((name, f"{text}   [{details.origin.get(name)}]" if origin else text))
    rows += [
        ("declared in", details.declared_in),
        (
            "installed",
            {None: f"no; {details.card.install}", "": "needs no program"}.get(
                details.installed, details.installed or ""
            ),
        ),
        ("next mode", f"{details.face or '-'}{f': {details.why}' if details.why else ''}"),
        ("folder", details.cwd),
        ("environment", details.environment),
        ("trust", details.untrusted or _without(details.left_out) or "nothing here needs it, or it was given"),
    ]
    for face, can in details.card.faces.items():
        words = [name for name in can.__struct_fields__ if getattr(can, name) is True]
        rows.append((f"mode {face}", ", ".join([*words, *(f"access {word}" for word in can.access)]) or "-"))
    status = details.status
    rows += [("state", f"{status.state}, {status.waiting} waiting, {status.dead} dead, {status.totals.turns} turns")]
    if status.session_id:
        rows.append(("session", status.session_id))
    elif details.fork:
        rows.append(("session", f"none yet; its first turn continues in a copy of {details.fork}"))
    print_pairs(rows)


def _without(files: Sequence[str]) -> str:
    return f"not given; it runs without {', '.join(files)} (beam trust shows them)" if files else ""


def _value_text(value: object) -> str:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value) or "-"
    return "-" if value is None else msgspec.json.encode(value).decode()


@app.verb()
def add(
    call: Context,
    agent: str = argument(..., metavar="NAME", help="A new name."),
    adapter: str | None = argument(None, metavar="[ADAPTER]", help="claude, scripted, mailbox, …"),
    setting: list[str] = option(
        [], "--set", metavar="KEY=VALUE", help="Any setting of beam.yaml (docs/beam-yaml.md); env.NAME is a variable."
    ),
    model: str | None = option(None, "-m", "--model", metavar="NAME", help="Its model."),
    access: str | None = option(None, "--access", metavar="WORD", help="read, edit, full or ask."),
    command: str | None = option(
        None, "--command", metavar="PROGRAM", help="Use this program as the agent: prompt on stdin, reply on stdout."
    ),
    session: str | None = option(
        None, "--session", metavar="ADAPTER:ID", help="Continue in this session of the agent's CLI."
    ),
) -> None:
    """Declare an agent for this root only (in agent.json)."""
    from beam import AgentSettings, settings_of_flags

    given = {"adapter": adapter, "model": model, "access": access, "command": command, **dict(_split_settings(setting))}
    values = settings_of_flags({key: text for key, text in given.items() if text is not None})
    _warn_of_shell(call, values.get("command"))
    settings = AgentSettings(**values)  # type: ignore[arg-type]
    if session is not None:
        call.note(call.beam.adopt_session(agent, session, settings))
        return
    call.note(f"wrote {call.beam.add_agent(agent, settings)}")


@app.verb("set")
def set_(
    call: Context,
    agent: str = argument(..., metavar="AGENT"),
    setting: list[str] = argument(..., metavar="KEY=VALUE...", help="`KEY=` removes a setting."),
    live: bool = option(
        False, "--live", help="Change only the process that runs a turn or is kept; exit 10 if it can't."
    ),
) -> None:
    """Change an agent's settings for this root only (in agent.json).

    A new model is also given to the agent's process, if a turn runs in one or one is kept in dialogue mode.
    """
    changes = dict(_split_settings(setting))
    if live:
        for key, value in changes.items():
            answer = call.beam.set_live(agent, key, value)
            call.note(f"{key}={value} in the running process{f': {answer}' if answer else ''}")
        return
    call.note(f"wrote {call.beam.set_agent(agent, {key: value or None for key, value in changes.items()})}")
    if changes.get("model") and call.beam.is_live(agent):
        try:
            answer = call.beam.set_live(agent, "model", changes["model"], is_declared=True)
            call.note(f"the running process has it{f' {answer}' if answer else ''}")
        except BeamError as error:
            call.note(f"the next turn has it, in a new process: {error.message}")


def _warn_of_shell(call: Context, command: object) -> None:
    """Print a warning that no shell runs the command, if one of its arguments is a shell operator such as `|` or `>`. A
    command that is itself a shell gets no warning."""
    words = [word for word in command if isinstance(word, str)] if isinstance(command, Sequence) else []
    signs = [word for word in words[1:] if word in _SHELL_OPERATORS]
    if signs and not words[0].endswith("sh"):
        call.note(
            f"warning: no shell runs this command, so {signs[0]!r} is one of its arguments; "
            "for a shell: --command \"bash -c '…'\""
        )


def _split_settings(given: list[str]) -> list[tuple[str, str]]:
    for pair in given:
        if "=" not in pair:
            raise UsageError(f"{pair!r} is not KEY=VALUE", "for example: model=opus", subject=pair)
    return [(key, value) for key, _, value in (pair.partition("=") for pair in given)]


@app.verb()
def mcp(
    call: Context,
    agent: str = argument(..., metavar="AGENT"),
    action: str = argument("list", metavar="[ACTION]", help="list, reconnect, enable, disable, set or call."),
    words: list[str] | None = argument(
        None, metavar="[WORD]...", help="The server; `set` takes JSON or a file, `call` also the tool and its input."
    ),
    as_json: bool = option(False, "--json", help="Print JSON."),
) -> int:
    """List or control the MCP servers of an agent's running or kept process.

    `reconnect SERVER`, `enable SERVER` and `disable SERVER` change one; `set JSON|FILE` replaces those that were set
    while it runs ({"docs": {"command": "docs-server"}}); `call SERVER TOOL [JSON]` calls a tool yourself. Nothing is
    stored: the next process begins with the CLI's own configuration. Exits 10 for what the agent's CLI can't do.
    """
    from beam.cli import mcp as actions

    return actions.run(call, agent, action, words or [], as_json=as_json)


@app.verb()
def sessions(
    call: Context,
    agent: list[str] | None = argument(None, metavar="[AGENT]...", help="Only these and their sessions."),
    as_json: bool = option(False, "--json", help="Print JSON Lines, one object per session."),
) -> None:
    """List the sessions of agents: named ones, earlier ones and archived ones.

    An agent returns to an earlier session with `beam agent resume`.
    """
    from beam.cli.render.tables import ago, print_columns

    found = call.beam.sessions(agent or [])
    if as_json:
        write_json_lines(found)
        return
    rows = [
        (
            line.agent,
            f"{line.state}, archived" if line.archived else line.state,
            line.session_id or "",
            f"{ago(last)} ago" if (last := line.last_at or line.started_at) else "",
            str(line.turns),
            line.error or line.first,
        )
        for line in found
    ]
    print_columns(("AGENT", "STATE", "SESSION", "LAST TURN", "TURNS", "FIRST PROMPT"), rows)


@app.verb()
def resume(
    call: Context,
    agent: str = argument(..., metavar="AGENT", help="The agent."),
    session: str = argument(..., metavar="SESSION", help="An id of `beam agent sessions`, or how it begins."),
) -> None:
    """Return to an earlier session of an agent: its next turn continues there.

    The session that it is in now stays among its earlier ones.
    """
    call.note(f"the next turn of {agent} continues in session {call.beam.resume_session(agent, session)}")


@app.verb()
def rename(
    call: Context,
    agent: str = argument(..., metavar="AGENT", help="The agent, or a session like claude@review."),
    new: str = argument(..., metavar="NEW", help="Its new name."),
) -> None:
    """Give an agent another name; its sessions, events and dead letters stay with it."""
    call.note(call.beam.rename_agent(agent, new))


@app.verb()
def archive(
    call: Context,
    agent: str = argument(..., metavar="AGENT", help="The agent, or a session like claude@review."),
    restore: bool = option(False, "--restore", help="Bring it back instead."),
) -> None:
    """Archive an agent: it accepts no messages and is no longer listed. All its files stay."""
    call.note(call.beam.archive_agent(agent, restore=restore))


@app.verb()
def fork(
    call: Context,
    agent: str = argument(..., metavar="AGENT", help="The agent whose session is copied."),
    new: str = argument(..., metavar="NEW", help="A new name."),
    at: str | None = option(
        None, "--at", metavar="TURN", help="The copy ends after this turn: its number, or its message's id."
    ),
) -> None:
    """Declare an agent that continues in a copy of another agent's session.

    The new agent exists in this root only and takes over the other's settings. Its first turn makes the copy, of the
    session as it is at that moment; the original session stays unchanged. Exits 10 if the agent's CLI can't copy a
    session.
    """
    session_id = call.beam.fork_agent(agent, new, at=at)
    upto = f", up to {at}," if at is not None else ""
    call.note(
        f"the first turn of {new} copies session {session_id} of {agent}{upto} and continues there: beam send {new} …"
    )


@app.verb()
def rewind(
    call: Context,
    agent: str = argument(..., metavar="AGENT"),
    to: str | None = option(
        None, "--to", metavar="TURN", help="The last turn that stays: its number, or its message's id."
    ),
    what: str = option("conversation", "--what", metavar="WORD", help="conversation, files or both."),
    dry_run: bool = option(False, "--dry-run", help="Only say what would be taken back."),
    as_json: bool = option(False, "--json", help="Print one JSON object."),
) -> None:
    """Take back the last turns of an agent's session, so that its next turn does not know of them.

    Without --to it takes back one turn. `--what files` restores the files that the agent's own tools changed in those
    turns; for this the agent's process must be kept. The journal keeps everything. Exits 10 if the agent's CLI can't do
    this.
    """
    from beam.cli.render.text import escape_controls, write_line

    found = call.beam.rewind_agent(agent, to, what=what, dry_run=dry_run)
    if as_json:
        write_json(found)
        return
    for path in found.files or ():
        write_line(escape_controls(path))
    sys.stdout.flush()
    what_is_lost = f"know of turn {', '.join(map(str, found.turns))}" if found.turns else "know less"
    would = "would go back" if dry_run else "goes back"
    if found.conversation:
        call.note(f"{agent} {would} to the end of turn {found.to}; its next turn will not {what_is_lost}")
    if found.files is not None:
        call.note(
            f"{len(found.files)} files {'would be' if dry_run else 'are'} as they were before turn {found.to + 1}"
        )


@app.verb()
def rm(
    call: Context,
    agent: str = argument(..., metavar="AGENT"),
    purge: bool = option(False, "--purge", help="Also delete its queue and journal, permanently."),
) -> None:
    """Remove an agent's declaration."""
    call.note(call.beam.remove_agent(agent, purge=purge))


@app.verb()
def reset(call: Context, agent: str = argument(..., metavar="AGENT")) -> None:
    """Forget the agent's current session; the next message starts a new one."""
    call.note(f"{agent}: {call.beam.reset(agent)}")


@app.verb()
def release(call: Context, agent: str = argument(..., metavar="AGENT")) -> None:
    """Close the process that is kept for the agent's next message.

    Its session can be used elsewhere then, such as by `codex resume`. Exits 12 while a turn runs.
    """
    call.note(call.beam.release_agent(agent))


@app.verb()
def unblock(call: Context, agent: str = argument(..., metavar="AGENT")) -> None:
    """Confirm that no process of a blocked agent's last turn is still running.

    An agent is blocked when its last turn ran where beam can't look: on another host, or in a container that is gone.
    """
    call.note(call.beam.unblock(agent))
