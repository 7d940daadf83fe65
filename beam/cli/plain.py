"""Runs a plain command line: global options, a command, and its valid parameters. Everything else is left to Typer."""

from __future__ import annotations

from importlib import import_module

from beam.cli.commands import COMMANDS, GROUPS, Verb
from beam.cli.context import Context
from beam.cli.parameters import Declared, Parameter, options, parameters_of, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_QUIET = Parameter("quiet", "bool", Declared(False, ("-q", "--quiet"), {}))
_VERBOSE = Parameter("verbose", "bool", Declared(False, ("-v", "--verbose"), {}))
_JSON = Parameter("as_json", "bool", Declared(False, ("--json",), {}))
_DIRECTORY = Parameter("directory", "str | None", Declared(None, ("-C",), {}))
_ROOT = Parameter("root", "str | None", Declared(None, ("--root",), {}))
_BEAM = (_DIRECTORY, _ROOT, _QUIET, _VERBOSE, _JSON)
_GROUP = (_QUIET, _VERBOSE, _JSON)


def command(words: Sequence[str]) -> Callable[[], object] | None:
    """Return a function that runs the command line; None if Typer must parse the command line."""
    found = options(_BEAM, words, interspersed=False)
    if found is None:
        return None
    given, left = found
    whole = values(_BEAM, given, [])
    if whole is None or not left or left[0] not in COMMANDS:
        return None
    call = Context(**whole)
    name, *left = left
    app = import_module(COMMANDS[name][1]).app
    if name in GROUPS:
        own = () if app.bare is None else parameters_of(app.bare) or ()
        found = options([*own, *_GROUP], left, interspersed=False)
        if found is None:
            return None
        given, rest = found
        if not rest and app.bare is not None:
            return _bound(Verb(name, app.bare, interspersed=False), call, left)
        if not rest or any(each.name in given for each in own):
            return None
        _take(call, given)
        name, *left = rest
    verb = app.verbs.get(name)
    return None if verb is None else _bound(verb, call, left)


def _bound(verb: Verb, call: Context, words: list[str]) -> Callable[[], object] | None:
    parameters = parameters_of(verb.function)
    if parameters is None:
        return None
    own = {name for parameter in parameters for name in parameter.names}
    shared = [each for each in (_QUIET, _VERBOSE) if not own.intersection(each.names)]
    if call.as_json:
        if "--json" not in own:
            return None
        words = ["--json", *words]
    found = options([*parameters, *shared], words, interspersed=verb.interspersed)
    if found is None:
        return None
    given, left = found
    fitting = values(parameters, given, left)
    if fitting is None:
        return None
    _take(call, {each.name: given[each.name] for each in shared if each.name in given})
    if len(parameters) == verb.function.__code__.co_argcount:
        return lambda: verb.function(**fitting)
    return lambda: verb.function(call, **fitting)


def _take(call: Context, given: dict[str, list[str]]) -> None:
    """Set beam's own flags (-q, -v, --json) that stand after the command's name."""
    for name in given:
        setattr(call, name, True)
