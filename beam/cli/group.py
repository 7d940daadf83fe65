"""beam's command classes for Typer: plain help, `-h` everywhere, and help for a group called without a command."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from beam import UsageError, nearest
from beam.cli.commands import App
from beam.cli.context import Context, context
from beam.cli.parameters import TYPES, parameters_of

_SHORT_HELP_LIMIT = 400  # characters: more than the first sentence of any command's help
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class NoCommandError(typer.BadParameter):
    """A group has no command with the typed name. `hint` says what to type instead."""

    def __init__(self, message: str, ctx: Any, hint: str) -> None:
        super().__init__(message, ctx)
        self.hint = hint

    def format_message(self) -> str:
        """Return the message, without the text that Typer would add."""
        return self.message


def _set_quiet(ctx: typer.Context, is_set: bool) -> None:
    if is_set and (call := ctx.find_object(Context)) is not None:
        call.quiet = True


def _set_verbose(ctx: typer.Context, is_set: bool) -> None:
    if is_set and (call := ctx.find_object(Context)) is not None:
        call.verbose = True


def _set_json(ctx: typer.Context, is_set: bool) -> None:
    if is_set and (call := ctx.find_object(Context)) is not None:
        call.as_json = True


def _declare_global_options(
    quiet: bool = typer.Option(False, "-q", "--quiet", hidden=True, expose_value=False, callback=_set_quiet),
    verbose: bool = typer.Option(False, "-v", "--verbose", hidden=True, expose_value=False, callback=_set_verbose),
    as_json: bool = typer.Option(False, "--json", hidden=True, expose_value=False, callback=_set_json),
) -> None:
    """Declare the global options of `beam` that every command accepts, too. Only the parameters of this function are
    used."""


@cache
def _global_options() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_declare_global_options)
    return [option for option in typer.main.get_command(app).params if "--help" not in option.opts]


def _with_global_options(own: list[Any], *left_out: str) -> list[Any]:
    """Return a command's own options, followed by the global options that the command also accepts. The help does not
    show those global options. Options whose names are in `left_out` are not added."""
    names = {name for each in own for name in each.opts}.union(left_out)
    return own + [option for option in _global_options() if not names.intersection(option.opts)]


def _write_examples(path: str, formatter: Any) -> None:
    from beam.cli.examples import EXAMPLES

    if path in EXAMPLES:
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in EXAMPLES[path]))


class Command(TyperCommand):
    """One command. Its usage line names arguments without braces. The command also accepts -q and -v, and a --json that
    stands before the command's name."""

    def get_short_help_str(self, limit: int = _SHORT_HELP_LIMIT) -> str:
        return super().get_short_help_str(_SHORT_HELP_LIMIT)

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_global_options(super().get_params(ctx), "--json")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        call = ctx.find_object(Context)
        if call is not None and call.as_json:
            if not any("--json" in each.opts for each in self.params):
                raise UsageError(f"{ctx.command_path} has no --json", f"{ctx.command_path} --help")
            args = ["--json", *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the usual options, and then the groups of the other options."""
        sections: dict[str, list[Any]] = {}
        for each in self.get_params(ctx):
            usual = "Arguments" if each.param_type_name == "argument" else "Options"
            if row := each.get_help_record(ctx):
                sections.setdefault(getattr(each, "rich_help_panel", None) or usual, []).append(row)
        for name, rows in sections.items():
            with formatter.section(name):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(ctx.command_path, formatter)


class Group(TyperGroup):
    """Commands under one name. Without a command, the group prints its help; for an unknown command, it suggests the
    most similar one."""

    def get_short_help_str(self, limit: int = _SHORT_HELP_LIMIT) -> str:
        return super().get_short_help_str(_SHORT_HELP_LIMIT)

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_global_options(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(ctx.command_path, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        names = self.list_commands(ctx)
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from beam.cli.habits import known_agents, suggest_command

            instead, near = suggest_command(ctx.command_path, args, known_agents(ctx)), nearest(args[0], names)
            if instead is None:
                instead = f"did you mean `{ctx.command_path} {near}`?" if near else f"there are: {', '.join(names)}"
            raise NoCommandError(f"no command of {ctx.command_path} is called {args[0]!r}", ctx, instead)
        return super().resolve_command(ctx, args)


class GroupWithDefault(Group):
    """A group that runs a function of its own when it is called without a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return TyperGroup.parse_args(self, ctx, args)


def empty_typer(cls: type[TyperGroup], help: str | None = None) -> typer.Typer:
    """Return a Typer app without commands."""
    return typer.Typer(
        cls=cls,
        help=typer.models.Default(None) if help is None else help,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings=CONTEXT_SETTINGS,
    )


def typer_of(app: App) -> typer.Typer:
    """Return the Typer app for the commands of a module."""
    made = empty_typer(Group if app.bare is None else GroupWithDefault, app.help)
    if app.bare is not None:
        made.callback(invoke_without_command=True)(_for_typer(app.bare))
    for verb in app.verbs.values():
        settings = {**CONTEXT_SETTINGS, "allow_interspersed_args": verb.interspersed}
        plain: Any = made.command(verb.name, cls=Command, context_settings=settings)
        plain(_for_typer(verb.function))
    return made


def _require_finite(value: float | None) -> float | None:
    """Raise BadParameter for `nan` and infinite values, because they would limit nothing. Return any other value."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


def _for_typer(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper of this function whose parameters are declared for Typer."""
    parameters = parameters_of(function)
    if parameters is None:
        return function

    def run(ctx: typer.Context, **given: Any) -> Any:
        if ctx.invoked_subcommand is not None:
            return None
        return function(context(ctx), **given) if takes_call else function(**given)

    takes_call = len(parameters) < function.__code__.co_argcount
    keyword = Parameter.KEYWORD_ONLY
    shown = [Parameter("ctx", keyword, annotation=typer.Context)]
    for each in parameters:
        declared, annotation = each.declared, TYPES[each.annotation]
        kind: Any = typer.Option if declared.is_option else typer.Argument
        finite = {"callback": _require_finite} if each.annotation.startswith("float") else {}
        default = kind(declared.default, *each.names, **finite, **declared.settings)
        shown.append(Parameter(each.name, keyword, default=default, annotation=annotation))
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {each.name: each.annotation for each in shown}
    run.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    return run
