"""One file of settings, read and checked: YAML or JSON in, typed fields out, every complaint with its place.

The only YAML reader beside the scripted agent. Must not know: which file wins over which, or what a setting does.
"""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from beam import durations, files, yaml_text
from beam.errors import ConfigError, DiskError, RefusedFileError, UsageError
from beam.limits import Limits
from beam.message import NAME
from beam.policy import Policy
from beam.profile import PATTERNS, Dialog, Profile, patterns_of
from beam.settings import ENVELOPES, AgentSettings

if TYPE_CHECKING:
    import yaml

Fields = Mapping[str, object]
_KEYS = ("defaults", "agents", "limits", "policy", "allow_fs")
_USER_KEYS = ("state_dir",)  # the user's own configuration only
_DURATIONS = frozenset(
    {"timeout", "idle_timeout", "ask_timeout", "grace", "lease", "keep"}
    | {"backoff", "backoff_max", "circuit_window", "circuit_open"}
)
_MAY_BE_ZERO = frozenset(
    {"ask_timeout", "grace", "keep", "hops", "retries", "known_ids_days", "jitter", "retry_unknown"}
)
_LARGEST_FILE = 1 << 20
_LARGEST_NUMBER = 10**15
_SCREEN_SIZES = ("rows", "columns")
_LARGEST_SCREEN = 1000
_LONGEST_NUMBER = 100  # characters; what YAML takes for a number may be any text of digits and colons


class ConfigFile(Struct, frozen=True, kw_only=True):
    """What one file says, and nothing else: only the fields that are written in it, each with its checked value."""

    path: Path
    defaults: Fields = {}
    agents: Mapping[str, Fields] = {}
    limits: Fields = {}
    policy: Fields = {}
    allow_fs: tuple[str, ...] = ()
    state_dir: str | None = None


class Source(Struct, frozen=True):
    """Where values come from, for complaints: a file's or a variable's name, and the lines of its keys (from 1)."""

    name: str
    lines: Mapping[tuple[str, ...], int] = {}

    def error(self, keys: tuple[str, ...], what: str, hint: str = "") -> ConfigError:
        """The complaint about the value at `keys`."""
        line = next((self.lines[keys[:n]] for n in range(len(keys), 0, -1) if keys[:n] in self.lines), None)
        place = self.name + (f", line {line}" if line else "") + (f": {'.'.join(keys)}" if keys else "")
        return ConfigError(f"{place}: {what}", hint, subject=self.name)


def read(path: Path, *, adapters: Collection[str]) -> ConfigFile | None:
    """The settings in a YAML file; None where there is none.

    Raises ConfigError for whatever beam would not obey, DiskError where the file can't be read.
    """
    data = read_bytes(path, follow=True)
    return None if data is None else parse(data, path, adapters=adapters)


def read_bytes(path: Path, *, follow: bool = False) -> bytes | None:
    """A settings file's bytes; None where there is no such file. The person's own may be a link (`follow`)."""
    try:
        return files.read(path, _LARGEST_FILE, follow=follow)
    except FileNotFoundError:
        return None
    except RefusedFileError as error:
        raise ConfigError(
            error.message, "settings are a small file; is this the right one?", subject=str(path)
        ) from error
    except DiskError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            return None
        raise


def parse(data: bytes, path: Path, *, adapters: Collection[str]) -> ConfigFile:
    """The settings that the bytes of a YAML file stand for."""
    values, lines = _parse_yaml(data, path)
    source = Source(str(path), lines)
    top = _mapping(values, (), source)
    for key in top:
        if key not in (*_KEYS, *_USER_KEYS):
            raise source.error((key,), "unknown key", _nearest(key, _KEYS))
    agents: dict[str, Fields] = {}
    for name, given in _mapping(top.get("agents"), ("agents",), source).items():
        if not NAME.match(name):
            rule = "a name is up to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit"
            raise source.error(("agents", name), "not an agent's name", rule)
        agents[name] = settings_fields(given, ("agents", name), source)
        check_adapter(name, agents[name], ("agents", name), source=source, adapters=adapters)
    defaults = settings_fields(top.get("defaults"), ("defaults",), source)
    _check_adapter_exists(defaults, ("defaults",), source, adapters)
    return ConfigFile(
        path=path,
        defaults=defaults,
        agents=agents,
        limits=_fields(top.get("limits"), Limits, ("limits",), source),
        policy=_fields(top.get("policy"), Policy, ("policy",), source),
        allow_fs=_allow_fs(top.get("allow_fs"), source),
        state_dir=_state_dir(top.get("state_dir"), source),
    )


def state_dir_in(data: bytes, path: Path, *, home: Path) -> Path | None:
    """Returns the folder that a YAML file's bytes name in `state_dir:`, `~` as `home`; None where they don't."""
    values, lines = _parse_yaml(data, path)
    source = Source(str(path), lines)
    said = _state_dir(_mapping(values, (), source).get("state_dir"), source)
    if said is None:
        return None
    return home / said[2:] if said.startswith("~/") else Path(said)


def _state_dir(given: object, source: Source) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not given.startswith(("/", "~/")) or "\0" in given:
        raise source.error(("state_dir",), "expected an absolute path", "write it like /srv/beam or ~/beam-state")
    return given


def _allow_fs(given: object, source: Source) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(kind, str) for kind in given):
        raise source.error(("allow_fs",), "expected a list of file system types", "write it like [nfs4]")
    return tuple(given)


# -- fields ------------------------------------------------------------------------------------------------------------


def settings_fields(given: object, at: tuple[str, ...], source: Source) -> dict[str, object]:
    """The checked fields of one agent's settings; null fields are left out."""
    return _fields(given, AgentSettings, at, source)


def settings_field(name: str, given: object, at: tuple[str, ...], source: Source) -> object:
    """The checked value of one field of an agent's settings."""
    return _checked(name, given, _types(AgentSettings)[name], at, source)


_OWNERS = {
    **dict.fromkeys(("command", "format", "reply_path", "session_path", "cost_path"), "command"),
    "script": "scripted",
    "mailbox": "mailbox",
    "lease": "mailbox",
}


def adapter_of(name: str, fields: Fields, adapters: Collection[str]) -> str:
    """The adapter of an agent with these fields, also where they only imply it; "" where they don't."""
    if fields.get("adapter"):
        return str(fields["adapter"])
    implied = next((_OWNERS[key] for key in ("command", "script", "mailbox") if fields.get(key)), "")
    return implied or (name if name in adapters else "")


def check_adapter(name: str, fields: Fields, at: tuple[str, ...], *, source: Source, adapters: Collection[str]) -> None:
    """Refuses an adapter that does not exist, and fields that belong to another adapter than the one implied here."""
    _check_adapter_exists(fields, at, source, adapters)
    adapter = adapter_of(name, fields, adapters)
    for key in fields:
        owner = _OWNERS.get(key)
        if owner and adapter and owner != adapter and fields[key] not in (False, ()):
            raise source.error(
                (*at, key), f"only `{owner}` agents have this, and {name} is `{adapter}`", "leave one out"
            )


def _check_adapter_exists(fields: Fields, at: tuple[str, ...], source: Source, adapters: Collection[str]) -> None:
    adapter = fields.get("adapter")
    if adapter and adapter not in adapters:
        raise source.error((*at, "adapter"), f"there is no adapter {adapter!r}", _nearest(str(adapter), adapters))


def _fields(given: object, kind: type[Struct], at: tuple[str, ...], source: Source) -> dict[str, object]:
    types = _types(kind)
    fields: dict[str, object] = {}
    for key, value in _mapping(given, at, source).items():
        if key not in types:
            raise source.error((*at, key), "unknown key", _nearest(key, types))
        if value is not None:
            fields[key] = _checked(key, value, types[key], (*at, key), source)
    return fields


@functools.cache
def _types(kind: type[Struct]) -> dict[str, object]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def _checked(key: str, value: object, type_: object, at: tuple[str, ...], source: Source) -> object:
    if key in _DURATIONS and isinstance(value, str):
        try:
            value = durations.parse(value)
        except UsageError as error:
            raise source.error(at, error.message, error.hint) from error
    choices = _choices(type_)
    if choices and value not in choices:
        raise source.error(at, f"{value!r} is not one of {', '.join(choices)}", _nearest(str(value), choices))
    try:
        checked: object = msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise source.error(at, _in_words(error), _type_hint(key, value)) from error
    if isinstance(checked, (int, float)) and not isinstance(checked, bool):
        lowest_allowed = checked >= 0 if key in _MAY_BE_ZERO else checked > 0
        if not lowest_allowed or checked > _LARGEST_NUMBER or not math.isfinite(checked):
            raise source.error(
                at, f"{value} is out of range", "give a number above 0; leave the key out for the default"
            )
        if key in _SCREEN_SIZES and checked > _LARGEST_SCREEN:
            raise source.error(at, f"{value} is out of range", f"no terminal has more than {_LARGEST_SCREEN}")
        if key in _DURATIONS and checked > durations.LONGEST:
            raise source.error(at, f"{value} seconds are longer than a year", "write it like 90s, 5m or 1h30m")
    _refuse_nul(checked, at, source)
    if key == "screen":
        return screen_fields(value, at, source)
    if key == "envelope" and checked not in ENVELOPES and "{from}" not in str(checked):
        some = ", ".join(ENVELOPES)
        raise source.error(at, f"{str(checked)[:60]!r} is not one of {some}", "or write a text with {from} in it")
    if key == "env" and isinstance(checked, dict) and any(not name or "=" in name for name in checked):
        raise source.error(at, "a variable's name is not empty and has no =")
    return checked


def screen_fields(given: object, at: tuple[str, ...], source: Source) -> dict[str, object]:
    """The checked fields of a profile; each pattern compiles, and can't keep beam busy."""
    values = dict(_mapping(given, at, source))
    given_dialogs = values.pop("dialogs", None)
    if "name" in values:
        raise source.error((*at, "name"), "a screen's name can't be set", "leave it out")
    fields = _fields(values, Profile, at, source)
    for name in fields:
        _check_patterns(Profile, name, fields[name], (*at, name), source)
    if given_dialogs is None:
        return fields
    if not isinstance(given_dialogs, list):
        raise source.error((*at, "dialogs"), "expected a list of dialogs", "each has `name`, `match`, `allow`, `deny`")
    dialogs = []
    for number, item in enumerate(given_dialogs):
        place = (*at, "dialogs", str(number))
        dialog = _fields(item, Dialog, place, source)
        for name in ("name", "match"):
            if not dialog.get(name):
                raise source.error(place, f"a dialog needs {name!r}")
        for name in dialog:
            _check_patterns(Dialog, name, dialog[name], (*place, name), source)
        dialogs.append(dialog)
    return {**fields, "dialogs": dialogs}


def _check_patterns(kind: type[Struct], name: str, value: object, at: tuple[str, ...], source: Source) -> None:
    from beam import patterns

    for text in patterns_of(kind, name, value):
        known = PATTERNS[kind][name]
        wrong = patterns.problem(text, whole_screen=known.whole_screen)
        if not wrong and known.group and text and patterns.groups(text) != 1:
            wrong = "needs exactly one group ( ): what it is to find; (?: ) is none"
        if wrong:
            raise source.error(at, f"{text[:60]!r}: {wrong}", "see docs/terminals.md")


def _choices(type_: object) -> tuple[str, ...]:
    for part in (type_, *get_args(type_)):
        if get_origin(part) is Literal:
            return get_args(part)
    return ()


def _in_words(error: msgspec.ValidationError) -> str:
    text = str(error).replace(" | null", "").partition(" - at ")[0]
    for type_, words in _TYPES_IN_WORDS.items():
        text = text.replace(f"`{type_}`", words)
    return text[:1].lower() + text[1:]


_TYPES_IN_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "keys and values",
    "null": "nothing",
}


def _type_hint(key: str, value: object) -> str:
    if key == "command" and isinstance(value, str):
        return f"write a list, a word each: [{', '.join(value.split())}]"
    if key == "env":
        return "write names and values as text, numbers and yes/no in quotes"
    if isinstance(value, (int, float)):
        return "write it in quotes if it is meant as text"
    return ""


def _refuse_nul(value: object, at: tuple[str, ...], source: Source) -> None:
    if isinstance(value, str) and "\0" in value:
        raise source.error(at, "holds a NUL character, which no program can be given")
    if isinstance(value, dict):
        value = (*value, *value.values())
    if isinstance(value, tuple):
        for part in value:
            _refuse_nul(part, at, source)


def _mapping(value: object, at: tuple[str, ...], source: Source) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise source.error(at, f"expected keys and values, got {_kind(value)}")
    return value


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "a single value"


def _nearest(word: str, words: Collection[str]) -> str:
    near = difflib.get_close_matches(word.lower(), words, 1)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(words)}"


# -- YAML --------------------------------------------------------------------------------------------------------------


def _parse_yaml(data: bytes, path: Path) -> tuple[object, dict[tuple[str, ...], int]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    source = Source(str(path))
    try:
        text = data.decode("utf-8-sig")
        yaml_text.check(text)
        node = yaml.compose(text, Loader=loader)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8", "save the file as UTF-8", subject=str(path)) from error
    except yaml.MarkedYAMLError as error:
        raise _bad_yaml(error, data, path) from error
    except (yaml.YAMLError, RecursionError) as error:
        reason = getattr(error, "reason", "nested too deeply")
        raise ConfigError(f"{path}: not YAML: {reason}", subject=str(path)) from error
    except ValueError as error:
        raise ConfigError(
            f"{path}: {error}", "settings are small; is this the right file?", subject=str(path)
        ) from error
    walk = _Walk(source)
    value = walk.value(node, ()) if node is not None else None
    return value, walk.lines


def _bad_yaml(error: yaml.MarkedYAMLError, data: bytes, path: Path) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    number = mark.line + 1 if mark else 1
    lines = data.splitlines()
    line = lines[number - 1] if number <= len(lines) else b""
    hint = "YAML is indented with spaces, not tabs" if b"\t" in line[: len(line) - len(line.lstrip())] else ""
    problem = error.problem or error.context or "not YAML"
    return ConfigError(f"{path}, line {number}: {problem}", hint, subject=str(path))


class _Walk:
    """Nodes to plain values, with the line of every key; refuses what a plain YAML reader lets pass in silence."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines: dict[tuple[str, ...], int] = {}
        self.nodes = 0

    def value(self, node: yaml.Node, at: tuple[str, ...]) -> object:
        import yaml

        self.count(node, at)
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*at, str(n))) for n, item in enumerate(node.value)]
        if len(node.value) > _LONGEST_NUMBER and node.tag != "tag:yaml.org,2002:str":
            raise self.error(node, at, "not a value that beam reads")
        try:
            return yaml.constructor.SafeConstructor().construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise self.error(node, at, "not a value that beam reads") from error

    def count(self, node: yaml.Node, at: tuple[str, ...]) -> None:
        """One more node: a few lines of aliases may stand for any number of them."""
        self.nodes += 1
        if self.nodes > yaml_text.MOST_NODES or len(at) > yaml_text.DEEPEST:
            raise self.error(node, at, "nested too deeply, or made too large by its aliases")

    def mapping(self, node: yaml.MappingNode, at: tuple[str, ...]) -> dict[str, object]:
        import yaml

        own: dict[str, object] = {}
        merged: dict[str, object] = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                several = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for part in several:
                    if not isinstance(part, yaml.MappingNode):
                        raise self.error(part, at, "<< wants keys and values")
                    self.count(part, (*at, "<<"))
                    merged = {**self.mapping(part, (*at, "<<")), **merged}
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.error(key_node, at, "a key must be text")
            key = key_node.value
            if key in own:
                raise self.error(key_node, (*at, key), "said twice")
            self.lines[(*at, key)] = key_node.start_mark.line + 1
            own[key] = self.value(value_node, (*at, key))
        return {**merged, **own}

    def error(self, node: yaml.Node, at: tuple[str, ...], what: str) -> ConfigError:
        return Source(self.source.name, {at: node.start_mark.line + 1}).error(at, what)
