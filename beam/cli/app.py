"""The Typer application: beam's commands, each imported when it is called, and the global options."""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.main import get_command, get_group

from beam.cli.commands import COMMANDS, GROUPS, SECTIONS
from beam.cli.context import Context
from beam.cli.group import Group, NoCommandError, empty_typer, typer_of


class Commands(Group):
    """The top-level command group. It imports a command's module when that command is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        app = typer_of(importlib.import_module(COMMANDS[cmd_name][1]).app)
        if cmd_name in GROUPS:
            return get_command(app)
        return get_group(app).commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS:
            return self._resolve_unknown(ctx, args)
        return super().resolve_command(ctx, args)

    def _resolve_unknown(self, ctx: Any, args: list[str]) -> Any:
        import shlex

        from beam.cli.habits import known_agents

        if args[0] in known_agents(ctx):
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


app = empty_typer(Commands)


def _print_version(is_set: bool) -> None:
    if is_set:
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
    version: bool = typer.Option(False, "--version", is_eager=True, callback=_print_version, help="Print the version."),
) -> None:
    """Use every coding agent through one command.

    Send an agent a message; it takes a turn; you get its answer, an exit code that tells the truth, and a journal of
    everything that happened. The answer goes to stdout; everything else (progress, notes, errors) goes to stderr.
    """
    ctx.obj = Context(directory=directory, root=root, quiet=quiet, verbose=verbose, as_json=as_json)


def run(argv: list[str]) -> int:
    """Run one command line and return its exit code. Raises the exception that stopped the command, unchanged."""
    command = get_command(app)
    with command.make_context("beam", list(argv)) as ctx:
        result: object = command.invoke(ctx)
    return result if isinstance(result, int) else 0
