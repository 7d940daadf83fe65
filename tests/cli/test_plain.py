"""A plain command line is read without typer, and to the same values as typer reads it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.main import get_command, get_group

from beam.cli import commands
from beam.cli.app import app as whole
from beam.cli.commands import COMMANDS, GROUPS, App, Verb
from beam.cli.context import Context
from beam.cli.group import typer_of
from beam.cli.parameters import Parameter, argument, option, parameters_of


def declared() -> Iterator[tuple[str, App, Verb]]:
    """Every command whose parameters both readers know."""
    for name, (_, module, _) in COMMANDS.items():
        app = importlib.import_module(module).app
        verbs = app.verbs.values() if name in GROUPS else [app.verbs[name]]
        for verb in verbs:
            if parameters_of(verb.function) is not None:
                yield (f"{name} {verb.name}" if name in GROUPS else name), app, verb


ALL = list(declared())
VALUES = ("a", "", "-", "7", "-3", "0", "1.5", "x=y", "ä b", "nan", "--", "--json", "-q", "-vq", "--nosuch", "--help")


class Seen(Exception):
    """What a command's function was called with."""


def words_of(parameters: tuple[Parameter, ...]) -> st.SearchStrategy[list[str]]:
    names = [name for each in parameters for name in each.names] or ["--json"]
    name = st.sampled_from(names)
    value = st.sampled_from(VALUES)
    pair = st.tuples(name, value)
    one = st.one_of(
        pair.map(list), name.map(lambda n: [n]), value.map(lambda v: [v]), pair.map(lambda both: ["=".join(both)])
    )
    return st.lists(one, max_size=5).map(lambda parts: [word for part in parts for word in part])


def by_typer(command: Any, name: str, call: Context, words: list[str]) -> dict[str, Any]:
    """What typer gives the function. Raises what typer raises."""
    with command.make_context(name, list(words), obj=call) as ctx, pytest.raises(Seen) as seen:
        command.invoke(ctx)
    found: dict[str, Any] = seen.value.args[0]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "app", "verb"), ALL, ids=[name for name, _, _ in ALL])
def test_what_is_read_plainly_typer_reads_to_the_same_values(name: str, app: App, verb: Verb) -> None:
    real = verb.function
    parameters = parameters_of(real)
    assert parameters is not None

    @settings(max_examples=60)
    @given(words_of(parameters))
    def same(words: list[str]) -> None:
        calls = [Context(), Context()]
        command = commands._bind_parameters(verb, calls[0], words)
        if command is None:
            return
        with pytest.raises(Seen) as seen:
            command()
        assert repr(seen.value.args[0]) == repr(by_typer(typed, verb.name, calls[1], words))  # nan is not itself
        assert [(call.quiet, call.verbose) for call in calls[:1]] == [(call.quiet, call.verbose) for call in calls[1:]]

    try:
        verb.function = recording(real)
        typed = get_group(typer_of(app)).commands[verb.name]
        same()
    finally:
        verb.function = real


def recording(function: Any) -> Any:
    """A function with the same parameters that raises what it got."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    source = f"def seen({', '.join(names)}): raise Seen({{{', '.join(f'{n!r}: {n}' for n in names if n != 'call')}}})"
    space: dict[str, Any] = {"Seen": Seen}
    exec(source, space)
    made = space["seen"]
    made.__defaults__, made.__annotations__ = function.__defaults__, function.__annotations__
    return made


def test_most_commands_can_be_read_plainly() -> None:
    assert {"send", "wait", "show", "log", "status", "watch", "asks", "queue list", "agent list", "recv"} <= {
        name for name, _, _ in ALL
    }


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--version",
        "--help",
        "send --help",
        "nosuch",
        "queue",
        "queue nosuch",
        "show",
        "status --nosuch",
        "status --js",
        "log a b",
        "log a -n x",
        "log a --after -1",
        "log a --after=-1",
        "wait -qv",
        "send a --json=1",
        "send a --model",
        "--json attach x",
        "agents",
        "broker --nosuch",
        "broker --poll 2s status",
        "-- status",
    ],
)
def test_all_other_command_lines_are_left_to_typer(line: str) -> None:
    assert commands.command(line.split()) is None


@pytest.mark.parametrize(
    "line", ["-q status", "status -q", "-q queue list", "queue -q list", "queue list -q", "--quiet status --json"]
)
def test_beams_own_options_are_taken_anywhere(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Context] = []
    bound = commands._bind_parameters

    def noted(verb: Verb, call: Context, words: list[str]) -> Any:
        seen.append(call)
        return bound(verb, call, words)

    monkeypatch.setattr(commands, "_bind_parameters", noted)
    assert commands.command(line.split()) is not None
    assert seen[0].quiet and not seen[0].verbose


def test_json_before_a_command_is_its_own() -> None:
    for words in (["--json", "queue", "list"], ["queue", "--json", "list"], ["queue", "list", "--json"]):
        command = commands.command(words)
        assert command is not None
        (fitting,) = [cell.cell_contents for cell in command.__closure__ or () if isinstance(cell.cell_contents, dict)]
        assert fitting["as_json"] is True


def test_a_list_that_is_a_default_is_never_the_same_twice() -> None:
    def each(names: list[str] = option([], "--name")) -> None:
        pass

    each.__annotations__["names"] = "list[str]"
    parameters = parameters_of(each)
    assert parameters is not None
    assert parameters[0].value([]) is not parameters[0].value([])


def test_what_was_declared_for_typer_alone_is_read_by_it() -> None:
    def odd(port: int = 0, name: str = argument("")) -> None:
        pass

    assert parameters_of(odd) is None
    assert get_command(whole) is not None
