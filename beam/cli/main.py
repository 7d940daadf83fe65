"""The entrance: the command table, the global options, the one place where errors become lines and exit codes.

A command's module is imported only when the command is called: start-up is a feature.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from typer import _click as click  # typer carries its own click; the one on PyPI would be a second one
import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from beam.cli.context import Context

# name -> (section of the help, module, one line). A module's `app` holds the command, or is the group.
COMMANDS = {
    "send": ("Talk", "beam.cli.send", "Send a message to an agent and print its answer."),
    "wait": ("Talk", "beam.cli.talk", "Wait for a message's outcome and print the answer."),
    "show": ("Talk", "beam.cli.talk", "Show what is known of a message now."),
    "recv": ("Talk", "beam.cli.talk", "Take the next message of a mailbox agent."),
    "reply": ("Talk", "beam.cli.talk", "Answer a message that `recv` took."),
    "interrupt": ("Decide", "beam.cli.talk", "End the turn of a message, or withdraw it."),
    "watch": ("See", "beam.cli.see", "Print what all agents of this root do, as it happens."),
    "log": ("See", "beam.cli.see", "Print an agent's journal."),
    "status": ("See", "beam.cli.see", "Show where each agent stands."),
    "agent": ("Set up", "beam.cli.agent", "List, show, add, change, reset and remove agents."),
    "queue": ("Set up", "beam.cli.queue", "List, retry, drop and edit messages."),
    "trust": ("Set up", "beam.cli.setup", "Let this folder's beam.yaml run code."),
    "doctor": ("Set up", "beam.cli.setup", "Check the root, its journals and the agents' CLIs."),
    "dev": ("Set up", "beam.cli.dev", "Tools for adapter authors and tests."),
}
GROUPS = frozenset({"agent", "queue", "dev"})
SECTIONS = ("Talk", "See", "Decide", "Set up")


class Commands(TyperGroup):
    """The top of the command line; imports what it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "agents":
            return get_group(importlib.import_module("beam.cli.agent").app).commands["list"]
        if cmd_name not in COMMANDS:
            return None
        app = importlib.import_module(COMMANDS[cmd_name][1]).app
        if cmd_name in GROUPS:
            return get_command(app)
        return get_group(app).commands[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"did you mean `beam {near[0]}`?" if near else "beam --help lists them"
            raise click.exceptions.UsageError(f"no command is called {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in SECTIONS:
            rows = [(name, line) for name, (where, _, line) in COMMANDS.items() if where == section]
            with formatter.section(section):
                formatter.write_dl(rows)


app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from beam import __version__

        sys.stdout.write(f"beam {__version__}\n")
        raise typer.Exit


@app.callback()
def beam(
    ctx: typer.Context,
    directory: str | None = typer.Option(None, "-C", metavar="DIR", help="Run as if started in DIR."),
    root: str | None = typer.Option(None, "--root", metavar="DIR", help="The .beam directory to use."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No notes on stderr; errors still come."),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="More notes on stderr."),
    version: bool = typer.Option(False, "--version", is_eager=True, callback=_version, help="Print the version."),
) -> None:
    """One command for every coding agent.

    Send an agent a message; it takes a turn; you get its answer, an exit code that tells the truth, and a journal of
    everything that happened. stdout is the result, stderr is talk.
    """
    ctx.obj = Context(directory=directory, root=root, quiet=quiet, verbose=verbose)


def run(argv: list[str]) -> int:
    """Runs one command line; its exit code."""
    from beam.cli import errors

    command = get_command(app)
    try:
        result: Any = command.main(args=argv, prog_name="beam", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - the one handler; whatever it does not know is re-raised
        return errors.handle(error, argv)
    return result if isinstance(result, int) else 0


def main() -> None:
    """The console script."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        from beam.cli import errors

        code = errors.broken_pipe()
    raise SystemExit(code)
