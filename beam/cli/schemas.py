"""The JSON Schemas of the files and values that beam reads and writes. They are generated from beam's types."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct

from beam import (
    DURATIONS,
    AgentSettings,
    AskLine,
    Limits,
    Message,
    NotifyTarget,
    Outcome,
    Policy,
    RunResult,
    UsageError,
    events,
    nearest,
    scenario_language,
)
from beam.cli.errors import ErrorObject

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class BeamYaml(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file beam.yaml. `agents` maps names to the settings of agents, and `defaults` contains settings for all
    agents. Durations are seconds or text like 1h30m."""

    defaults: AgentSettings = AgentSettings()
    agents: dict[str, AgentSettings] = {}
    limits: Limits = Limits()
    policy: Policy = Policy()
    notify: tuple[NotifyTarget, ...] = ()
    env_profiles: dict[str, dict[str, str]] = {}
    allow_fs: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()


def names() -> list[str]:
    """Return the names of all schemas: the values first, then each type of event."""
    return [*_SCHEMAS, *events.types()]


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema with this name. Raises UsageError for an unknown name, with the most similar name as its
    hint."""
    if name in _SCHEMAS:
        return {"$schema": _DIALECT, **_SCHEMAS[name]()}
    if name in events.types():
        return {"$schema": _DIALECT, **_generate_schema(events.types()[name])}
    closest = nearest(name, names())
    hint = f"did you mean {closest}?" if closest else "`beam dev schema` lists them"
    raise UsageError(f"there is no schema called {name!r}", hint, subject=name)


def _message_schema() -> dict[str, Any]:
    made = _generate_schema(Message)
    del made["$defs"]["Message"]["properties"]["original"]  # held in memory only
    return made


def _beam_yaml_schema() -> dict[str, Any]:
    made = _generate_schema(BeamYaml)
    for kind in (AgentSettings, Limits, Policy):
        properties = made["$defs"][kind.__name__]["properties"]
        for field in DURATIONS & properties.keys():
            default = {key: properties[field].pop(key) for key in ("default",) if key in properties[field]}
            choices = properties[field].get("anyOf", [properties[field]])
            properties[field] = {"anyOf": [*choices, {"type": "string"}], **default}
    return made


def _scenario_schema() -> dict[str, Any]:
    made = scenario_language.json_schema()
    settings = _beam_yaml_schema()["$defs"]
    names = ("AgentSettings", "RuleLists")
    return {**made, "$defs": {**made["$defs"], **{name: settings[name] for name in names}}}  # type: ignore[dict-item]


_SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "outcome": lambda: _generate_schema(Outcome),
    "error": lambda: _generate_schema(ErrorObject),
    "ask": lambda: _generate_schema(AskLine),
    "message": _message_schema,
    "beam.yaml": _beam_yaml_schema,
    "scenario": _scenario_schema,
    "run": lambda: _generate_schema(RunResult),
    "event": lambda: _generate_schema(events.AnyEvent),
}


def _generate_schema(type_: object) -> dict[str, Any]:
    return msgspec.json.schema(_type_without_raw(type_))


def _type_without_raw(type_: Any) -> Any:
    """Return the type with plain JSON values in place of `Raw`, whose defaults msgspec can't write into a schema."""
    if type_ is Raw:
        return Any
    if isinstance(type_, type) and issubclass(type_, Struct):
        return _struct_without_raw(type_)
    origin, args = get_origin(type_), get_args(type_)
    if not args or origin is Literal:
        return type_
    parts = tuple(_type_without_raw(part) for part in args)
    return Union[parts] if origin in (Union, UnionType) else origin[parts]  # noqa: UP007 - the parts are made here


@functools.cache
def _struct_without_raw(kind: type[Struct]) -> type[Struct]:
    fields: list[Any] = []
    for field in msgspec.structs.fields(kind):
        defaults: dict[str, Any] = {"default": field.default, "default_factory": field.default_factory}
        if isinstance(field.default, Raw):
            defaults["default"] = msgspec.json.decode(field.default)
        fields.append((field.name, _type_without_raw(field.type), msgspec.field(name=field.encode_name, **defaults)))
    config = kind.__struct_config__
    return msgspec.defstruct(
        kind.__name__,
        fields,
        namespace={"__doc__": inspect.cleandoc(kind.__doc__ or "")},
        tag=config.tag,
        tag_field=config.tag_field,
        forbid_unknown_fields=config.forbid_unknown_fields,
        kw_only=True,
    )
