"""The look of beam's commands: plain help, `-h` everywhere, and help for a group called without a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

P = ParamSpec("P")
R = TypeVar("R")
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class NoCommandError(typer.BadParameter):
    """A group has no command of that name."""

    def format_message(self) -> str:
        """Return the message alone."""
        return self.message


class Command(TyperCommand):
    """One command, whose usage line names arguments without braces."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class Group(TyperGroup):
    """Commands under one name. Without a command it prints its help; for an unknown one it suggests the nearest."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        names = self.list_commands(ctx)
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            import difflib

            near = difflib.get_close_matches(args[0], names, 1)
            hint = f"did you mean `{ctx.command_path} {near[0]}`?" if near else f"there are: {', '.join(names)}"
            raise NoCommandError(f"no command of {ctx.command_path} is called {args[0]!r} ({hint})", ctx)
        return super().resolve_command(ctx, args)


class App(typer.Typer):
    """The commands of one module."""

    def __init__(self, help: str | None = None, *, cls: type[TyperGroup] = Group) -> None:
        super().__init__(
            cls=cls,
            help=typer.models.Default(None) if help is None else help,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            add_completion=False,
            context_settings=SETTINGS,
        )

    def verb(self, name: str | None = None, *, interspersed: bool = True) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Return a decorator that makes a command of a function.

        Without `interspersed`, everything after the first argument is an argument, not an option.
        """
        settings = {**SETTINGS, "allow_interspersed_args": interspersed}
        plain: Any = self.command(name, cls=Command, context_settings=settings)

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            plain(function)
            return function

        return decorate
