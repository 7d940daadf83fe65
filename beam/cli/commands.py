"""The commands of the command line, and the quick way to run one: a plain command line has only global options, a
command, and its valid parameters. Everything else is left to Typer."""

from __future__ import annotations

from importlib import import_module

from beam.cli.context import Context
from beam.cli.parameters import Declaration, Parameter, parameters_of, parse_options, parse_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")
    from collections.abc import Sequence


# name -> (section of the help, module, one line). A module's `app` holds the command, or is the group.
COMMANDS = {
    "send": ("Talk", "beam.cli.send", "Send a message to an agent and print its answer."),
    "chat": ("Talk", "beam.cli.chat", "Talk with an agent, or have several talk with each other."),
    "run": ("Talk", "beam.cli.run", "Run a scenario: several agents, in one file, with checks."),
    "wait": ("Talk", "beam.cli.wait", "Wait for messages and print the answers."),
    "show": ("Talk", "beam.cli.talk", "Show what is known of a message now."),
    "recv": ("Talk", "beam.cli.talk", "Take the next message of a mailbox agent."),
    "reply": ("Talk", "beam.cli.talk", "Answer a message that `recv` took."),
    "asks": ("Decide", "beam.cli.decide", "List the permission requests that wait for a decision."),
    "approve": ("Decide", "beam.cli.decide", "Allow what an agent asks for."),
    "deny": ("Decide", "beam.cli.decide", "Deny what an agent asks for; its turn continues without it."),
    "rules": ("Decide", "beam.cli.rules", "List, test, add and remove the rules of agents."),
    "interrupt": ("Decide", "beam.cli.decide", "End the turn of a message, or withdraw it."),
    "attach": ("Decide", "beam.cli.attach", "Connect your terminal to an agent's terminal."),
    "watch": ("See", "beam.cli.see", "Print what all agents of this folder do, as it happens."),
    "board": (
        "See",
        "beam.board.command",
        "Show all agents, sessions and teams on the whole terminal, and act on them.",
    ),
    "log": ("See", "beam.cli.log", "Print the journal of an agent, or of one message."),
    "search": ("See", "beam.cli.search", "Find words in what agents and people said."),
    "diff": ("See", "beam.cli.diff", "Print what changed in an agent's work tree since its turn began."),
    "undo": ("See", "beam.cli.undo", "Take back what changed in an agent's work tree during its last turn."),
    "status": ("See", "beam.cli.see", "Show the current state of each agent."),
    "report": ("See", "beam.cli.report", "Print what agents did, cost and waited for."),
    "team": ("See", "beam.cli.team", "Look at the agent teams of Claude Code, and act on them."),
    "agent": ("Set up", "beam.cli.agent", "List, show, add, fork, rename, archive, change, release and remove agents."),
    "queue": ("Set up", "beam.cli.queue", "List, retry, drop and edit messages; pause and resume agents."),
    "broker": ("Set up", "beam.cli.broker", "Serve all agents of this root, in the foreground or detached."),
    "proxy": ("Set up", "beam.cli.proxy", "Record an agent's model calls, or answer them from a recording."),
    "notify": ("Set up", "beam.cli.notify", "List and test the commands and webhooks of `notify:`."),
    "secret": ("Set up", "beam.cli.secret", "Keep API keys in the system's keyring."),
    "trust": ("Set up", "beam.cli.setup", "Let this folder's files run code, as they are now."),
    "root": ("Set up", "beam.cli.setup", "Print the directory of this folder's state, or list all roots."),
    "doctor": ("Set up", "beam.cli.setup", "Check the root, its journals and the agents' CLIs."),
    "completion": ("Set up", "beam.cli.completion", "Print the script that completes commands in your shell."),
    "dev": ("Set up", "beam.cli.dev", "Tools for adapter authors and tests."),
}
GROUPS = frozenset({"agent", "broker", "queue", "completion", "dev", "rules", "team", "proxy", "secret", "notify"})
SECTIONS = ("Talk", "See", "Decide", "Set up")


class Verb:
    """One command: its name, its function, and whether options may follow its first argument."""

    __slots__ = ("function", "interspersed", "name")

    def __init__(self, name: str, function: Callable[..., Any], *, interspersed: bool) -> None:
        self.name = name
        self.function = function
        self.interspersed = interspersed


class App:
    """The commands of one module. `help` is the help text of the group, if the module is a group."""

    def __init__(self, help: str | None = None) -> None:
        self.help = help
        self.verbs: dict[str, Verb] = {}
        self.bare: Callable[..., Any] | None = None

    def verb(self, name: str | None = None, *, interspersed: bool = True) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Return a decorator that turns a function into a command.

        Without `interspersed`, everything after the first argument is an argument, not an option.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            called = name or function.__name__.replace("_", "-")
            self.verbs[called] = Verb(called, function, interspersed=interspersed)
            return function

        return decorate

    def without_command(self, function: Callable[P, R]) -> Callable[P, R]:
        """Store this function, which will run when the group is called without a command. Return it unchanged, so that
        this method can be used as a decorator."""
        self.bare = function
        return function


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
