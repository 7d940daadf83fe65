"""Runs a plain command line: global options, a command, and its valid parameters. Everything else is left to Typer."""

from __future__ import annotations

from importlib import import_module

from beam.cli.commands import COMMANDS, GROUPS, Verb
from beam.cli.context import Context
from beam.cli.parameters import Declaration, Parameter, parameters_of, parse_options, parse_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_QUIET = Parameter("quiet", "bool", Declaration(False, ("-q", "--quiet"), {}))
_VERBOSE = Parameter("verbose", "bool", Declaration(False, ("-v", "--verbose"), {}))
_JSON = Parameter("as_json", "bool", Declaration(False, ("--json",), {}))
_DIRECTORY = Parameter("directory", "str | None", Declaration(None, ("-C",), {}))
_ROOT = Parameter("root", "str | None", Declaration(None, ("--root",), {}))
_BEAM_OPTIONS = (_DIRECTORY, _ROOT, _QUIET, _VERBOSE, _JSON)
_GROUP_OPTIONS = (_QUIET, _VERBOSE, _JSON)


def command(words: Sequence[str]) -> Callable[[], object] | None:
    """Return a function that runs the command line; None if Typer must parse the command line."""
    found = parse_options(_BEAM_OPTIONS, words, interspersed=False)
    if found is None:
        return None
    given, left = found
    whole = parse_values(_BEAM_OPTIONS, given, [])
    if whole is None or not left or left[0] not in COMMANDS:
        return None
    call = Context(**whole)
    name, *left = left
    app = import_module(COMMANDS[name][1]).app
    if name in GROUPS:
        own = () if app.bare is None else parameters_of(app.bare) or ()
        found = parse_options([*own, *_GROUP_OPTIONS], left, interspersed=False)
        if found is None:
            return None
        given, rest = found
        if not rest and app.bare is not None:
            return _bind_parameters(Verb(name, app.bare, interspersed=False), call, left)
        if not rest or any(each.name in given for each in own):
            return None
        _set_global_flags(call, given)
        name, *left = rest
    verb = app.verbs.get(name)
    return None if verb is None else _bind_parameters(verb, call, left)


def _bind_parameters(verb: Verb, call: Context, words: list[str]) -> Callable[[], object] | None:
    parameters = parameters_of(verb.function)
    if parameters is None:
        return None
    own = {name for parameter in parameters for name in parameter.names}
    shared = [each for each in (_QUIET, _VERBOSE) if not own.intersection(each.names)]
    if call.as_json:
        if "--json" not in own:
            return None
        words = ["--json", *words]
    found = parse_options([*parameters, *shared], words, interspersed=verb.interspersed)
    if found is None:
        return None
    given, left = found
    fitting = parse_values(parameters, given, left)
    if fitting is None:
        return None
    _set_global_flags(call, {each.name: given[each.name] for each in shared if each.name in given})
    if len(parameters) == verb.function.__code__.co_argcount:
        return lambda: verb.function(**fitting)
    return lambda: verb.function(call, **fitting)


def _set_global_flags(call: Context, given: dict[str, list[str]]) -> None:
    """Set beam's own flags (-q, -v, --json) that stand after the command's name."""
    for name in given:
        setattr(call, name, True)
