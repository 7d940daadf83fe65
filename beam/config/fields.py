"""Checks the fields of settings: their types, their ranges, their allowed values, and whether they belong to the
agent's adapter; and fills in `${NAME}` in the values of `env:`, from the environment of the process that runs the turn.

Does not depend on where a field comes from, or on the effect of a setting: what a stranger wrote is refused before its
turn.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from beam.base import durations, typed_values
from beam.base.errors import ConfigError, UsageError
from beam.config.source import Source, as_mapping, nearest_hint, nearest_or_all_hint
from beam.model.message import RuleLists, base_of
from beam.model.settings import DURATIONS, ENVELOPES, AgentSettings, Limits

_OPENED = "${"
_REFERENCE = r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\})?"  # compiled where a value has one


def problem_in(value: str) -> str:
    """Return what is wrong with the references in the value of a variable; "" if nothing is."""
    if _OPENED in value and any(found[0] == _OPENED for found in re.finditer(_REFERENCE, value)):
        return "holds ${ without the name of a variable and }"
    return ""


def names_in(value: str) -> list[str]:
    """Return the names of the variables that the value refers to."""
    return [found[1] for found in re.finditer(_REFERENCE, value) if found[1]] if _OPENED in value else []


def filled_env(env: Mapping[str, str], environ: Mapping[str, str], agent: str) -> dict[str, str]:
    """Return the variables with each `${NAME}` replaced by that variable of `environ`, or by what follows `:-` if that
    is not set or empty. `$${` becomes `${`.

    Raises ConfigError for a variable that is not set and has no default.
    """

    def fill(key: str, value: str) -> str:
        def one(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if name is None:
                return _OPENED
            if default is not None:
                return environ.get(name) or default
            if name not in environ:
                hint = f"set {name}, or write ${{{name}:-…}} with a default, or $${{{name}}} for this text itself"
                raise ConfigError(f"{name} is not set, and `env.{key}` of {agent} asks for it", hint, subject=agent)
            return environ[name]

        return re.sub(_REFERENCE, one, value) if _OPENED in value else value

    return {key: fill(key, value) for key, value in env.items()}


def check_patterns(kind: type[Struct], name: str, value: object, at: tuple[str, ...], source: Source) -> None:
    from beam.base import patterns
    from beam.model.screen_profile import PATTERN_FIELDS, patterns_of

    for text in patterns_of(kind, name, value):
        known = PATTERN_FIELDS[kind][name]
        problem = patterns.find_problem(text, whole_screen=known.whole_screen)
        if not problem and known.group and text and patterns.count_groups(text) != 1:
            problem = "needs exactly one group ( ): what it is to find; (?: ) is none"
        if problem:
            raise source.error(at, f"{text[:60]!r}: {problem}", "see docs/terminals.md")


Fields = Mapping[str, object]
ENV_PREFIX = "env."  # begins the key that sets one variable of the field `env`


_MAY_BE_ZERO = frozenset(
    {"ask_timeout", "grace", "keep", "kept", "hops", "retries", "known_ids_days", "jitter", "retry_unknown"}
)


_LARGEST_NUMBER = 10**15


_SCREEN_SIZES = ("rows", "columns")


_LARGEST_SCREEN = 1000


def settings_fields(given: object, at: tuple[str, ...], source: Source) -> dict[str, object]:
    """Return the checked fields of one agent's settings. Fields with the value null are left out. Raises
    ConfigError."""
    return fields_of(given, AgentSettings, at, source)


def settings_from_text(given: Mapping[str, str], source: Source) -> dict[str, object]:
    """Return the checked fields of an agent's settings, each given as text. The key `env.NAME` gives one variable of
    the field `env`.

    Raises ConfigError; for an unknown key it suggests the most similar key.
    """
    types = _field_types(AgentSettings)
    fields: dict[str, object] = {}
    env: dict[str, str] = {}
    for key, text in given.items():
        if key.startswith(ENV_PREFIX):
            env[key.removeprefix(ENV_PREFIX)] = text
        elif key not in types:
            raise source.error((key,), "unknown key", nearest_or_all_hint(key, types))
        else:
            fields[key] = setting_from_text(key, text, (key,), source)
    return fields | (settings_fields({"env": env}, (), source) if env else {})


def setting_from_text(name: str, text: str, at: tuple[str, ...], source: Source) -> object:
    """Return the checked value of one field of an agent's settings, given as text. Raises ConfigError."""
    value: object = text
    kinds = [get_origin(each) or each for each in (_field_types(AgentSettings)[name],)]
    if not {tuple, dict, RuleLists}.isdisjoint(kinds) and re.match(r"\s*(?:\[(?!\s)|\{)", text):
        value = _from_json(text, at, source)
    elif name in ("command", "runner"):
        import shlex

        try:
            value = shlex.split(text)
        except ValueError as error:
            raise source.error(at, f"{text!r} is no command line: {error}", "close the quotation") from error
    elif _field_types(AgentSettings)[name] is bool:
        value = _BOOLEAN_WORDS.get(text.strip().lower(), text)
    return _check_value(name, value, _field_types(AgentSettings)[name], at, source, strict=False)


def _from_json(text: str, at: tuple[str, ...], source: Source) -> object:
    """Return the list, or the keys and values, that a text says as JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        hint = """write a list like '["ssh", "host", "{command}"]', or a command line without brackets"""
        raise source.error(at, f"{text[:80]!r} begins like JSON and is none: {error}", hint) from error


_BOOLEAN_WORDS = {"yes": "true", "on": "true", "no": "false", "off": "false"}  # besides the words that msgspec knows


_ADAPTER_OF_FIELD = {
    **dict.fromkeys(("command", "format", "reply_path", "session_path", "cost_path"), "command"),
    "protocol": "acp",
    "script": "scripted",
    "lease": "mailbox",
}


def adapter_of(name: str, fields: Fields, adapters: Collection[str]) -> str:
    """Return the adapter that these fields name or imply; "" if they neither name nor imply one."""
    if fields.get("adapter"):
        return str(fields["adapter"])
    implied = next((_ADAPTER_OF_FIELD[key] for key in ("protocol", "command", "script") if fields.get(key)), "")
    base = base_of(name)
    return implied or (base if base in adapters else "")


def check_adapter(name: str, fields: Fields, at: tuple[str, ...], *, source: Source, adapters: Collection[str]) -> None:
    """Raise ConfigError for an adapter that does not exist, and for fields that belong to another adapter than this
    agent's."""
    check_adapter_exists(fields, at, source, adapters)
    adapter = adapter_of(name, fields, adapters)
    for key in fields:
        owner = adapter if (key, adapter) == ("command", "acp") else _ADAPTER_OF_FIELD.get(key)
        if owner and adapter and owner != adapter and fields[key] not in (False, (), None):
            raise source.error(
                (*at, key), f"only `{owner}` agents have this, and {name} is `{adapter}`", "leave one out"
            )


# Fields that decide what runs, so a session can't set them.
_AGENT_ONLY_FIELDS = (
    "adapter",
    "command",
    "protocol",
    "executable",
    "runner",
    "script",
)


def check_session(name: str, fields: Fields, at: tuple[str, ...], source: Source) -> None:
    """Raise ConfigError for settings of a session (`claude@review`, say) that only its agent can have."""
    for key in _AGENT_ONLY_FIELDS if "@" in name else ():
        if fields.get(key):
            raise source.error(
                (*at, key), f"{name} is a session and runs what its agent runs", f"set it for {base_of(name)}"
            )


def check_adapter_exists(fields: Fields, at: tuple[str, ...], source: Source, adapters: Collection[str]) -> None:
    adapter = fields.get("adapter")
    if adapter and adapter not in adapters:
        raise source.error(
            (*at, "adapter"), f"there is no adapter {adapter!r}", nearest_or_all_hint(str(adapter), adapters)
        )


_OF_AGENTS = "it is a setting of agents: write it under defaults: or for one agent"
_FORMER_KEYS: dict[type[Struct], dict[str, str]] = {
    AgentSettings: {"mailbox": "write adapter: mailbox"},
    Limits: dict.fromkeys(("timeout", "idle_timeout", "lease", "keep"), _OF_AGENTS),
}


def fields_of(given: object, kind: type[Struct], at: tuple[str, ...], source: Source) -> dict[str, object]:
    types = _field_types(kind)
    fields: dict[str, object] = {}
    for key, value in as_mapping(given, at, source).items():
        if key not in types:
            hint = _FORMER_KEYS.get(kind, {}).get(key) or nearest_or_all_hint(key, types)
            raise source.error((*at, key), "unknown key", hint)
        if value is not None:
            fields[key] = _check_value(key, value, types[key], (*at, key), source)
    return fields


@functools.cache
def _field_types(kind: type[Struct]) -> dict[str, object]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def _check_value(
    key: str, value: object, type_: Any, at: tuple[str, ...], source: Source, *, strict: bool = True
) -> object:
    """Return the value of the field `key`, checked and converted to the type. Unless `strict`, a text may stand for a
    number or a boolean. Raises ConfigError."""
    if key in DURATIONS and isinstance(value, str):
        try:
            value = durations.parse(value)
        except UsageError as error:
            raise source.error(at, error.message, error.hint) from error
    if type_ is RuleLists:
        for word in as_mapping(value, at, source):
            if word not in RuleLists.__struct_fields__:
                raise source.error((*at, word), "unknown key", nearest_or_all_hint(word, RuleLists.__struct_fields__))
    choices = _choices(type_)
    if choices and value not in choices:
        raise source.error(at, f"{value!r} is not one of {', '.join(choices)}", nearest_hint(str(value), choices))
    try:
        checked: object = typed_values.convert(value, type_, strict=strict)
    except msgspec.ValidationError as error:
        expected = _describe_error(error)
        if not strict:
            raise source.error(at, expected.replace("got text", f"got {value!r}")) from error
        raise source.error(at, expected, _type_hint(key, value)) from error
    if isinstance(checked, (int, float)) and not isinstance(checked, bool):
        lowest_allowed = checked >= 0 if key in _MAY_BE_ZERO else checked > 0
        if not lowest_allowed or checked > _LARGEST_NUMBER or not math.isfinite(checked):
            raise source.error(
                at, f"{value} is out of range", "give a number above 0; leave the key out for the default"
            )
        if key in _SCREEN_SIZES and checked > _LARGEST_SCREEN:
            raise source.error(at, f"{value} is out of range", f"no terminal has more than {_LARGEST_SCREEN}")
        if key in DURATIONS and checked > durations.LONGEST:
            raise source.error(at, f"{value} seconds are longer than a year", "write it like 90s, 5m or 1h30m")
    _refuse_nul(checked, at, source)
    if key == "runner" and isinstance(checked, tuple):
        _check_runner(checked, at, source)
    if key == "screen":
        return screen_fields(value, at, source)
    if isinstance(checked, RuleLists):
        _check_rules(checked, at, source)
    if key == "envelope" and checked not in ENVELOPES and "{from}" not in str(checked):
        some = ", ".join(ENVELOPES)
        raise source.error(at, f"{str(checked)[:60]!r} is not one of {some}", "or write a text with {from} in it")
    if key == "env" and isinstance(checked, dict) and any(not name or "=" in name for name in checked):
        raise source.error(at, "a variable's name is not empty and has no =")
    for name, text in checked.items() if key == "env" and isinstance(checked, dict) else ():
        if problem := problem_in(text):
            raise source.error((*at, name), problem, "write ${NAME}, or $${ for the text ${")
    return checked


# Programs that join the words after them into one string for a shell.
_SHELL_PROGRAMS = ("ssh", "su", "sh", "bash", "dash", "zsh", "fish")


def _check_runner(words: tuple[str, ...], at: tuple[str, ...], source: Source) -> None:
    """Raise ConfigError for a runner whose shell would read a prompt as code."""
    if words and not words[0]:
        raise source.error(at, "names no program", "write it like [docker, exec, -i, box]")
    program = words[0].rpartition("/")[2] if words else ""
    if program in _SHELL_PROGRAMS and not any("{command}" in word for word in words):
        hint = f"write '{{command}}' where the agent's command line belongs, as in [{program}, …, '{{command}}']"
        raise source.error(at, f"{program} gives its words to a shell, which would read a prompt as code", hint)


def _check_rules(lists: RuleLists, at: tuple[str, ...], source: Source) -> None:
    from beam.rules.rule import BEHAVIOR_ORDER, parse

    for word in BEHAVIOR_ORDER:
        for number, text in enumerate(getattr(lists, word)):
            try:
                parse(text, word)
            except UsageError as error:
                raise source.error((*at, word, str(number)), error.message, error.hint) from error


def _choices(type_: object) -> tuple[str, ...]:
    for part in (type_, *get_args(type_)):
        if get_origin(part) is Literal:
            return get_args(part)
    return ()


def _describe_error(error: msgspec.ValidationError) -> str:
    text = str(error).replace(" | null", "").partition(" - at ")[0]
    text = re.sub(
        "`([^`]*)`", lambda found: " or ".join(_describe_type(type_) for type_ in found[1].split(" | ")), text
    )
    return text[:1].lower() + text[1:]


def _describe_type(type_: str) -> str:
    return _TYPES_IN_WORDS.get(type_, f"`{type_}`")


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
    if key in ("command", "runner") and isinstance(value, str):
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


def screen_fields(given: object, at: tuple[str, ...], source: Source) -> dict[str, object]:
    """Return the checked fields of a screen profile. Each pattern must compile and must not take long to match. Raises
    ConfigError."""
    from beam.model.screen_profile import Dialog, Profile

    values = dict(as_mapping(given, at, source))
    given_dialogs = values.pop("dialogs", None)
    fields = fields_of(values, Profile, at, source)
    for name in fields:
        check_patterns(Profile, name, fields[name], (*at, name), source)
    if given_dialogs is None:
        return fields
    if not isinstance(given_dialogs, list):
        raise source.error((*at, "dialogs"), "expected a list of dialogs", "each has `name`, `match`, `allow`, `deny`")
    dialogs = []
    for number, item in enumerate(given_dialogs):
        position = (*at, "dialogs", str(number))
        dialog = fields_of(item, Dialog, position, source)
        for name in ("name", "match"):
            if not dialog.get(name):
                raise source.error(position, f"a dialog needs {name!r}")
        for name in dialog:
            check_patterns(Dialog, name, dialog[name], (*position, name), source)
        dialogs.append(dialog)
    return {**fields, "dialogs": dialogs}
