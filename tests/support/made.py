"""The generated parts of the docs, made from the code that they speak of."""

from __future__ import annotations

import importlib.util
import inspect
import re
import types
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, UnsetType

from beam.base import errors
from beam.base.errors import BeamError, ExitCode
from beam.broker.inbox.closing import GIVEN_UP_STATUSES
from beam.config.resolve import VARIABLES
from beam.model import events
from beam.model.message import RuleLists
from beam.model.outcome import Class, Denial, ModelUsage, Outcome, Status, Total, Unfinished, Usage, exit_code
from beam.model.settings import AgentSettings, Limits, Policy
from beam.secrets.kinds import KINDS, SECRET_FORMS

HEADER = ("v", "seq", "ts", "agent", "turn", "message_id", "imported")
_SIZES = {"text_bytes", "argv_text_bytes", "line_bytes", "segment_bytes"}
_PAUSES = {"backoff", "backoff_max", "circuit_window", "circuit_open"}
_TIMES = {"timeout", "idle_timeout", "ask_timeout", "grace", "lease", "keep"}


def table(head: Sequence[str], lines: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    rule = f"|{'---|' * len(head)}"
    body = [" | ".join(cell.replace("|", "\\|") for cell in line) for line in lines]
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {line} |" for line in body), ""])


def words(thing: object) -> str:
    """A docstring as one paragraph."""
    return " ".join(inspect.cleandoc(getattr(thing, "__doc__", None) or "").split())


# -- types -------------------------------------------------------------------------------------------------------------


def kind(type_: Any) -> str:
    """A field's type as JSON has it."""
    if type_ is Any:
        return "any"
    origin, args = get_origin(type_), get_args(type_)
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(kind(arg) for arg in args if arg is not UnsetType))
    if origin is Literal:
        return " | ".join(f"`{arg}`" for arg in args)
    if origin is tuple:
        return (
            f"[{', '.join(kind(arg) for arg in args)}]" if Ellipsis not in args else f"list of {_within(kind(args[0]))}"
        )
    if origin is dict:
        return f"object of {kind(args[1])}"
    if type_ is RuleLists:
        return "object: `deny`, `ask` and `allow`, lists of text"
    if isinstance(type_, type) and issubclass(type_, Enum | Struct):
        return type_.__name__
    named = {str: "text", int: "integer", float: "number", bool: "true | false", Raw: "JSON", type(None): "null"}
    return named[type_]


def _within(shown: str) -> str:
    return f"({shown})" if " | " in shown else shown


def default(field: msgspec.structs.FieldInfo) -> str:
    """What a field is when it is left out; "" where it can't be, "absent" where it then is not there."""
    if field.required:
        return ""
    value = field.default
    if value is msgspec.NODEFAULT:
        assert callable(field.default_factory)
        value = field.default_factory()
    if value is msgspec.UNSET:
        return "absent"
    if isinstance(value, Struct):
        return "`{}`"
    return f"`{bytes(value).decode() if isinstance(value, Raw) else msgspec.json.encode(value).decode()}`"


def fields(struct: type[Struct], *, without: tuple[str, ...] = ()) -> str:
    """A struct's fields as a table; "" where it has none of its own."""
    found = [field for field in msgspec.structs.fields(struct) if field.encode_name not in without]
    lines = [(f"`{field.encode_name}`", kind(field.type), default(field)) for field in found]
    return table(("field", "type", "default"), lines) if lines else ""


# -- the parts ---------------------------------------------------------------------------------------------------------


def event_types() -> str:
    """Every event type, under the headings that beam/model/events.py has."""
    by_name = {cls.__name__: (tag, cls) for tag, cls in events.types().items()}
    text = ""
    for heading, name in re.findall(r"^# -- (.+?) -+$|^class (\w+)\(", inspect.getsource(events), re.MULTILINE):
        if heading:
            text += f"\n## {heading[0].upper()}{heading[1:]}\n"
        elif name in by_name:
            tag, cls = by_name[name]
            own = fields(cls, without=(*HEADER, "raw"))
            raw = "" if "raw" not in cls.__struct_fields__ else " May have `raw`."
            text += f"\n### {tag}\n\n{words(cls)}{raw}\n" + (f"\n{own}" if own else "")
    return text


def event_header() -> str:
    """The header of every event."""
    return f"{words(events.Event)}\n\n{fields(events.Event)}"


def event_values() -> str:
    """The values inside events."""
    return "\n".join(f"### {cls.__name__}\n\n{words(cls)}\n\n{fields(cls)}" for cls in (events.Owner, events.PlanStep))


def exit_codes() -> str:
    """Every exit code."""
    return table(("code", "meaning"), [(str(int(code)), code.meaning) for code in ExitCode])


def exit_codes_short() -> str:
    """The same in two columns."""
    lines = [(str(int(code)), code.meaning) for code in ExitCode]
    half = (len(lines) + 1) // 2
    right = [*lines[half:], ("", "")]
    return table(("code", "meaning", "code", "meaning"), [(*lines[n], *right[n]) for n in range(half)])


def statuses() -> str:
    """Status to exit code, and what becomes of the message."""
    return table(
        ("status", "exit code", "the message"),
        [
            (
                f"`{status}`",
                str(int(exit_code(status, None))),
                "is kept in `dead/`" if status in GIVEN_UP_STATUSES else "is done",
            )
            for status in Status
        ],
    )


def classes() -> str:
    """The exit code of a failed turn, by class."""
    return table(("class", "exit code"), [(f"`{c}`", str(int(exit_code(Status.FAILED, c)))) for c in Class])


def outcome() -> str:
    """The outcome's fields."""
    shown = (Usage, ModelUsage, Total, Denial, Unfinished)
    values = "\n".join(f"### {cls.__name__}\n\n{words(cls)}\n\n{fields(cls)}" for cls in shown)
    return f"{words(Outcome)}\n\n{fields(Outcome)}\n{values}"


def error_kinds() -> str:
    """What beam says when it can't go on."""
    found = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, BeamError)]
    lines = [
        (f"`{c.kind}`", str(int(c.exit_code)), words(c)) for c in found if c not in (BeamError, errors.SignalledError)
    ]
    return table(("kind", "exit code", "when"), lines)


def settings() -> str:
    """The settings of an agent."""
    variables = {field: name for name, field in VARIABLES.items()}
    lines = [
        (
            f"`{f.encode_name}`",
            _setting(f.encode_name, kind(f.type)),
            f"`{variables[f.name]}`" if f.name in variables else "",
        )
        for f in msgspec.structs.fields(AgentSettings)
    ]
    return f"{words(AgentSettings)}\n\n{table(('key', 'type', 'variable'), lines)}"


def limits() -> str:
    """The limits and their defaults."""
    lines = [(f"`{f.encode_name}`", _limit(f.name, f.default)) for f in msgspec.structs.fields(Limits)]
    return table(("key", "default"), lines)


def policy() -> str:
    """What the policy of failure says, and its defaults."""
    lines = [(f"`{f.encode_name}`", _rule(f.name, f.default)) for f in msgspec.structs.fields(Policy)]
    return f"{words(Policy).removeprefix('`policy:` of beam.yaml. ')}\n\n{table(('key', 'default'), lines)}"


def _rule(name: str, value: Any) -> str:
    from beam.base import durations

    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    if value is None:
        return "no bound"
    return durations.show(value) if name in _PAUSES else str(value)


def _setting(name: str, shown: str) -> str:
    return (shown.replace("number", "duration") if name in _TIMES else shown).removesuffix(" | null")


def _limit(name: str, value: Any) -> str:
    from beam.base import durations

    if name in _SIZES:
        return f"{value // 2**20} MiB" if value % 2**20 == 0 else f"{value // 2**10} KiB"
    if value == float("inf"):
        return "no bound"
    return durations.show(value) if name in _TIMES else str(value)


def secrets() -> str:
    """The kinds of secrets, and what each begins with."""
    found = {
        name: ", ".join(dict.fromkeys(f"`{row.prefix}`" for row in SECRET_FORMS if row.kind == name)) for name in KINDS
    }  # fmt: skip
    return table(("kind", "found by"), [(f"`{name}`", prefixes) for name, prefixes in found.items()])


def access() -> str:
    """What each word of access means to each agent CLI that has one."""
    from beam.agents import registry

    faces, flags = [], []
    for name in registry.ADAPTERS:
        adapter = registry.adapter(name)
        for face, can in adapter.card.faces.items():
            faces.append((f"`{name}`", face, ", ".join(f"`{word}`" for word in can.access) or "none of its own"))
        for word, argv in getattr(adapter.exec, "ACCESS", {}).items():
            flags.append((f"`{name}`", f"`{word}`", f"`{' '.join(argv)}`" if argv else "none"))
    head = ("adapter", "face", "access it can enforce")
    return f"{table(head, faces)}\n{table(('adapter', 'access', 'flags'), flags)}"


def held() -> str:
    """What holds each agent CLI below full access, where the system has it."""
    from beam.agents import registry
    from beam.turns.confine import confinement_means

    rows = []
    for name in registry.ADAPTERS:
        card = registry.adapter(name).card
        by = confinement_means(card, 1).partition(" (")[0]
        if by:
            open_to_it = "all but beam's files" if card.writes is None else ", ".join(f"`{one}`" for one in card.writes)
            makes = ", ".join(f"`{made}`" for made in card.makes) or "nothing"
            rows.append((f"`{name}`", by, "by its sandbox" if card.own_sandbox else open_to_it, makes))
    head = (
        "adapter",
        "held below `full` by",
        "what is open to it besides its folder",
        "what beam makes for it beforehand",
    )
    return table(head, rows)


def obeyed() -> str:
    """Which files of a folder each agent CLI obeys in each of its modes, and what becomes of a turn where nobody
    trusted them. Modes that obey the same files are one row."""
    from beam.agents import registry

    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for name in registry.ADAPTERS:
        card = registry.adapter(name).card
        can = {word for face in card.faces.values() for word in face.access}
        for face, obeys in card.obeys.items():
            files: dict[tuple[str, str], list[str]] = {}
            for one in obeys:
                there = {"here": "", "upward": ", also above", "worktree": ", also up to the git root"}[one.reach]
                says = f" with `{one.says[0]}` in it" if one.says else ""
                for is_ignored, what in ((True, "kept from it"), (False, "refused")):
                    words = [word for word in one.at if word in can and (word in one.ignored) is is_ignored]
                    if words:
                        key = (", ".join(f"`{word}`" for word in words), what)
                        files.setdefault(key, []).append(f"`{one.path}`{says}{there}")
            for (access, what), paths in files.items():
                rows.setdefault((name, "; ".join(paths), access, what), []).append(f"`{face}`")
    return table(
        ("adapter", "mode", "files", "with", "untrusted"),
        [(f"`{name}`", ", ".join(modes), *rest) for (name, *rest), modes in rows.items()],
    )


def strangers() -> str:
    """What each field of a beam.yaml may do that nobody trusted."""
    from beam.trust import effects

    return _effects(
        {
            "an agent's settings": effects.SETTINGS,
            "`rules`": effects.RULES,
            "`limits`": effects.LIMITS,
            "`policy`": effects.POLICY,
            "the file": effects.SECTIONS,
        }
    )


def strangers_scenario() -> str:
    """What each key of a scenario may do that nobody trusted."""
    from beam.conversations.trusted import KEYS

    return _effects({"the file": KEYS}, has_places=False)


def _effects(tables: dict[str, dict[str, Any]], *, has_places: bool = True) -> str:
    """Rows of effects, one for all keys of a table with the same words."""
    found: dict[tuple[str, Any], list[str]] = {}
    for where, effects in tables.items():
        for name, effect in effects.items():
            found.setdefault((where, effect), []).append(f"`{name}`")
    lines = []
    for (where, effect), names in found.items():
        what = effect.kind + (f": {effect.when}" if effect.when else "")
        lines.append((", ".join(names), *([where] if has_places else []), what, effect.because))
    return table(("key", *(["of"] if has_places else []), "without trust", "because"), lines)


def denied_variables() -> str:
    """What a child does not inherit."""
    from beam.process.program import DENIED_VARIABLES, LOADER_VARIABLES

    return (
        f"Not inherited: {', '.join(f'`{name}`' for name in sorted(DENIED_VARIABLES))}.\n\n"
        f"Not even from `env:` in a trusted file: {', '.join(f'`{name}`' for name in sorted(LOADER_VARIABLES))}.\n"
    )


def layers() -> str:
    """The layers of the import contract, the outermost first."""
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    contract = next(c for c in project["tool"]["importlinter"]["contracts"] if c.get("containers") == ["beam"])
    parts = [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]
    there = [[n.strip("()") for n in names if importlib.util.find_spec(f"beam.{n.strip('()')}")] for names in parts]
    return "```\n" + "\n  ↓\n".join("   ".join(names) for names in there if names) + "\n```\n"


def _commands() -> Iterator[Any]:
    """A context for every command, groups first."""
    from typer import _click as click
    from typer.main import get_command

    from beam.cli.app import app

    def walk(command: Any, name: str, parent: Any) -> Iterator[Any]:
        context = click.Context(
            command, info_name=name, parent=parent, terminal_width=88, help_option_names=["-h", "--help"]
        )
        yield context
        if hasattr(command, "list_commands"):
            for each in command.list_commands(context):
                yield from walk(command.get_command(context, each), each, context)

    yield from walk(get_command(app), "beam", None)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command's path and the options that its help shows."""
    for context in _commands():
        shown = [each for each in context.command.get_params(context) if not getattr(each, "hidden", False)]
        found = [name for each in shown for name in (*each.opts, *each.secondary_opts)]
        yield context.command_path, [name for name in found if name.startswith("-")]


def cli() -> str:
    """The help of every command."""
    found = [(context.command_path, context.command.get_help(context)) for context in _commands()]
    return "".join(f"\n## {path}\n\n```\n{text.rstrip()}\n```\n" for path, text in found)


def reliability() -> str:
    """What beam promises, and the tests that show it."""
    from tests.support.reliability import lines

    return table(("promise", "how it is tried", "test"), lines())


def exactness() -> str:
    """How exactly each CLI is replayed, as it was measured."""
    import json

    from tests.proxy.exactness import RESULTS

    rows = []
    for name, found in json.loads(RESULTS.read_text()).items():
        figures = [str(found[step]) for step in ("calls", "exact", "minor", "major", "unmatched")]
        files = f"{found['files']}, the same" if found["same_files"] else "others"
        rows.append((f"`{name}`", found["version"], *figures, files, "; ".join(found["first"]).replace("|", "\\|")))
    return table(("CLI", "version", "calls", "exact", "minor", "major", "unmatched", "files", "first difference"), rows)


def python_api() -> str:
    """Every public method of `Beam`, by the class that holds it, with its docstring."""
    from beam import Allow, Conversation, Deny, Stream
    from beam.api.beam import Beam

    text = f"{_code(inspect.cleandoc(Beam.__doc__ or ''))}\n"
    for part in Beam.__mro__[1:]:
        own = {name: each for name, each in vars(part).items() if not name.startswith("_") and _is_shown(each)}
        if not own or not part.__module__.startswith("beam.api."):
            continue
        text += f"\n## {part.__doc__.splitlines()[0].rstrip('.') if part.__doc__ else part.__name__}\n"
        for name, each in own.items():
            found = each.func if hasattr(each, "func") and not callable(each) else getattr(each, "fget", None) or each
            text += f"\n### {name}\n\n"
            if callable(each):
                waits = ", also `.aio`" if hasattr(getattr(Beam, name), "aio") or hasattr(each, "aio") else ""
                text += f"```python\n{name}{_signature(each)}\n```\n\n"
                text += f"Waits{waits}.\n\n" if waits else ""
            text += f"{_code(inspect.cleandoc(found.__doc__ or ''))}\n"
    return text + "".join(_api_of(each) for each in (Conversation, Stream, Allow, Deny))


def _api_of(kind: type) -> str:
    """A class beside `Beam` that programs use: how it is made, and its public methods."""
    text = f"\n## {kind.__name__}\n\n```python\n{kind.__name__}{_signature(kind).removesuffix(' -> None')}\n```\n\n"
    text += f"{_code(inspect.cleandoc(kind.__doc__ or ''))}\n"
    for name, each in vars(kind).items():
        if name.startswith("_") or not (
            isinstance(each, property) or hasattr(each, "__wrapped__") or inspect.isfunction(each)
        ):
            continue
        text += f"\n### {kind.__name__}.{name}\n\n"
        if not isinstance(each, property):
            text += f"```python\n{name}{_signature(each)}\n```\n\n"
            text += "Waits, also `.aio`.\n\n" if hasattr(each, "aio") else ""
        text += f"{_code(inspect.cleandoc(each.__doc__ or ''))}\n"
    return text


def _is_shown(each: object) -> bool:
    return callable(each) or isinstance(each, property) or type(each).__name__ in ("cached_property", "Both")


def _signature(each: object) -> str:
    """A method's parameters as they were written, without `self`; one a line where they are too long for one."""
    found = inspect.signature(each)  # type: ignore[arg-type]
    rest = [parameter for name, parameter in found.parameters.items() if name != "self"]
    text = _unquoted(str(found.replace(parameters=rest)))
    if len(text) <= 100:
        return text
    returns = text.rpartition(") -> ")[2] if ") -> " in text else ""
    lines = [f"    {_unquoted(str(each))}," for each in rest]
    kinds = [parameter.kind for parameter in rest]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        lines.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "    *,")
    return "(\n" + "\n".join(lines) + "\n)" + (f" -> {returns}" if returns else "")


def _unquoted(text: str) -> str:
    """The text with its annotations as they were written."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _code(text: str) -> str:
    return text.replace("<", "\\<")


def llms_txt(readme: str) -> str:
    """llms.txt: what beam is, and where each page is, for a model that reads about it."""
    lines = [
        "# beam",
        "",
        "> One command for every coding agent: send a message, get an answer, an exit code and a journal.",
        "",
    ]
    for head, rows_text in re.findall(r"^\| (to [\w ]+) \| \|\n\|---\|---\|\n((?:\|.*\n)+)", readme, re.MULTILINE):
        lines += [f"## {head[0].upper()}{head[1:]}", ""]
        for cells, what in re.findall(r"^\| (.+?) \| (.+?) \|$", rows_text, re.MULTILINE):
            for name, path in re.findall(r"\[([^\]]+)\]\((docs/[^)]+)\)", cells):
                lines.append(f"- [{name.removeprefix('docs/').removesuffix('.md')}]({path}): {what.replace('`', '')}")
        lines.append("")
    lines += ["## For agents", "", "- `beam dev skill`: the text that teaches an agent to use beam", ""]
    return "\n".join(lines)


PARTS: dict[str, Callable[[], str]] = {
    "python-api": python_api,
    "events": event_types,
    "event-header": event_header,
    "event-values": event_values,
    "exit-codes": exit_codes,
    "exit-codes-short": exit_codes_short,
    "statuses": statuses,
    "classes": classes,
    "outcome": outcome,
    "errors": error_kinds,
    "settings": settings,
    "limits": limits,
    "policy": policy,
    "secrets": secrets,
    "access": access,
    "held": held,
    "obeyed": obeyed,
    "strangers": strangers,
    "strangers-scenario": strangers_scenario,
    "environment": denied_variables,
    "layers": layers,
    "cli": cli,
    "reliability": reliability,
    "exactness": exactness,
}
