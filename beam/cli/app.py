"""The command table and the global options. A command's module is imported only when that command is called."""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.main import get_command, get_group

from beam.cli.context import Context
from beam.cli.group import App, Group, NoCommandError

# name -> (section of the help, module, one line). A module's `app` holds the command, or is the group.
COMMANDS = {
    "send": ("Talk", "beam.cli.send", "Send a message to an agent and print its answer."),
    "wait": ("Talk", "beam.cli.wait", "Wait for messages and print the answers."),
    "show": ("Talk", "beam.cli.talk", "Show what is known of a message now."),
    "recv": ("Talk", "beam.cli.talk", "Take the next message of a mailbox agent."),
    "reply": ("Talk", "beam.cli.talk", "Answer a message that `recv` took."),
    "asks": ("Decide", "beam.cli.decide", "Show what agents ask and nobody decided yet."),
    "approve": ("Decide", "beam.cli.decide", "Allow what an agent asks for."),
    "deny": ("Decide", "beam.cli.decide", "Deny what an agent asks for; its turn goes on without."),
    "rules": ("Decide", "beam.cli.rules", "List, test, add and remove the rules of agents."),
    "interrupt": ("Decide", "beam.cli.decide", "End the turn of a message, or withdraw it."),
    "attach": ("Decide", "beam.cli.attach", "Put your terminal on an agent's."),
    "watch": ("See", "beam.cli.see", "Print what all agents of this root do, as it happens."),
    "log": ("See", "beam.cli.log", "Print the journal of an agent, or of one message."),
    "status": ("See", "beam.cli.see", "Show where each agent stands."),
    "team": ("See", "beam.cli.team", "Look at the agent teams of Claude Code."),
    "agent": ("Set up", "beam.cli.agent", "List, show, add, fork, rename, archive, change, release and remove agents."),
    "queue": ("Set up", "beam.cli.queue", "List, retry, drop and edit messages; pause and resume agents."),
    "broker": ("Set up", "beam.cli.broker", "Serve all agents of this root, in the foreground or detached."),
    "trust": ("Set up", "beam.cli.setup", "Let this folder's files run code, as they are now."),
    "root": ("Set up", "beam.cli.setup", "Print where this folder's state lies, or list all roots."),
    "doctor": ("Set up", "beam.cli.setup", "Check the root, its journals and the agents' CLIs."),
    "completion": ("Set up", "beam.cli.completion", "Print the script that completes commands in your shell."),
    "dev": ("Set up", "beam.cli.dev", "Tools for adapter authors and tests."),
}
GROUPS = frozenset({"agent", "broker", "queue", "completion", "dev", "rules", "team"})
SECTIONS = ("Talk", "See", "Decide", "Set up")


class Commands(Group):
    """The top-level command group, which imports a command when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name == "agents":
            return get_group(importlib.import_module("beam.cli.agent").app).commands["list"]
        if cmd_name not in COMMANDS:
            return None
        app = importlib.import_module(COMMANDS[cmd_name][1]).app
        if cmd_name in GROUPS:
            return get_command(app)
        return get_group(app).commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and _is_agent(ctx, args[0]):
            import shlex

            words = [word for word in args if word not in ("-p", "--print", "--prompt")]
            raise NoCommandError(
                f"{args[0]!r} is an agent, and no command", ctx, f"to send it a message: beam send {shlex.join(words)}"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for section in SECTIONS:
            rows = [(name, line) for name, (where, _, line) in COMMANDS.items() if where == section]
            with formatter.section(section):
                formatter.write_dl(rows)


def _is_agent(ctx: Any, name: str) -> bool:
    """Return whether an agent has that name here; False where the configuration can't be understood."""
    from beam import BeamError

    try:
        call = Context(directory=ctx.params.get("directory"), root=ctx.params.get("root"))
        return any(line.agent == name for line in call.beam.agents(all=True))
    except BeamError:
        return False


app = App(cls=Commands)


def _version(wanted: bool) -> None:
    if wanted:
        from beam import __version__

        typer.echo(f"beam {__version__}")
        raise typer.Exit


@app.callback()
def beam(
    ctx: typer.Context,
    directory: str | None = typer.Option(None, "-C", metavar="DIR", help="Run as if beam was started in DIR."),
    root: str | None = typer.Option(
        None, "--root", metavar="DIR", help="Use this root instead of the project folder's own."
    ),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="Print no notes on stderr, only errors."),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="Print more notes on stderr."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, where the command can."),
    version: bool = typer.Option(False, "--version", is_eager=True, callback=_version, help="Print the version."),
) -> None:
    """Use every coding agent through one command.

    Send an agent a message; it takes a turn; you get its answer, an exit code that tells the truth, and a journal of
    everything that happened. The answer goes to stdout; everything else (progress, notes, errors) goes to stderr.
    """
    ctx.obj = Context(directory=directory, root=root, quiet=quiet, verbose=verbose, as_json=as_json)


def run(argv: list[str]) -> int:
    """Run one command line and return its exit code. Raises whatever stopped it."""
    command = get_command(app)
    with command.make_context("beam", list(argv)) as ctx:
        result: object = command.invoke(ctx)
    return result if isinstance(result, int) else 0
