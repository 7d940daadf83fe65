"""The shapes of values in a scenario file. A shape reads a value or says what is wrong with it, and it has a JSON
Schema.

Both come from one declaration, so that an editor refuses the same values as `beam run`. Does not depend on what a value
is for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from beam.agents.schema import REFERENCE_HINT, references
from beam.base import durations, patterns
from beam.base.errors import UsageError
from beam.config.source import Source, nearest_hint, nearest_or_all_hint

At = tuple[str, ...]
Schema = dict[str, object]
_LARGEST_NUMBER = 10**12


class Shape(Protocol):
    """A description of what a value must look like."""

    def read(self, value: object, at: At, source: Source) -> object:
        """Check the value and return it in its usual form. Raises ConfigError if it is wrong."""

    def schema(self) -> Schema:
        """Return the JSON Schema of the values that `read` accepts."""


def kind_of(value: object) -> str:
    """Return the kind of a value in words, for error messages."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "keys and values"
    return "a date"


def wrong_kind_error(what: str, value: object, at: At, source: Source, hint: str = "") -> Exception:
    """Return the error about a value of the wrong kind."""
    if not hint and isinstance(value, (bool, int, float)) and ("text" in what or "prompt" in what or "command" in what):
        hint = "write it in quotes if it is meant as text"
    return source.error(at, f"expected {what}, got {kind_of(value)}", hint)


class Text(Struct, frozen=True):
    """A text that is not empty. With a `pattern`, the whole text must match it; `rule` says in words what the pattern
    means."""

    pattern: str = ""
    rule: str = ""

    def read(self, value: object, at: At, source: Source) -> str:
        if not isinstance(value, str):
            raise wrong_kind_error("text", value, at, source)
        if not value.strip():
            raise source.error(at, "is empty", "write a text, or leave the key out")
        if "\0" in value:
            raise source.error(at, "holds a NUL character, which no program can be given", "take it out")
        if self.pattern and re.fullmatch(self.pattern, value) is None:
            raise source.error(at, f"{value[:60]!r} is not {self.rule}", f"it must match {self.pattern}")
        return value

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^(?:{self.pattern})$" if self.pattern else r"\S"}


class Regex(Struct, frozen=True):
    """A regular expression, as a text."""

    def read(self, value: object, at: At, source: Source) -> str:
        text = Text().read(value, at, source)
        try:
            re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            raise source.error(at, f"not a regular expression: {error}", "for plain text use `contains`") from error
        problem = patterns.find_problem(text, whole_screen=False)
        if problem:
            raise source.error(at, problem, "for plain text use `contains`")
        return text

    def schema(self) -> Schema:
        return {"type": "string", "format": "regex", "pattern": r"\S"}


class Number(Struct, frozen=True):
    """A number in a range. `whole`: without a fraction."""

    least: float = 0
    most: float = _LARGEST_NUMBER
    whole: bool = False

    def read(self, value: object, at: At, source: Source) -> int | float:
        what = "a whole number" if self.whole else "a number"
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or (self.whole and not isinstance(value, int))
        ):
            raise wrong_kind_error(what, value, at, source, f"write {what} without quotes")
        if not math.isfinite(value) or not self.least <= value <= self.most:
            raise source.error(at, f"{value} is out of range", f"give a number from {self.least:g} to {self.most:g}")
        return value

    def schema(self) -> Schema:
        return {"type": "integer" if self.whole else "number", "minimum": self.least, "maximum": self.most}


class Flag(Struct, frozen=True):
    """A value that is true or false."""

    def read(self, value: object, at: At, source: Source) -> bool:
        if not isinstance(value, bool):
            raise wrong_kind_error("true or false", value, at, source, "write true or false, without quotes")
        return value

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Seconds(Struct, frozen=True):
    """A duration: seconds, or a text like 90s or 5m."""

    def read(self, value: object, at: At, source: Source) -> float:
        if isinstance(value, str):
            try:
                value = durations.parse(value)
            except UsageError as error:
                raise source.error(at, error.message, error.hint) from error
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise wrong_kind_error("a duration", value, at, source, "write it like 90s, 5m or 1h30m")
        if not 0 < value <= durations.LONGEST:
            raise source.error(at, f"{value} seconds are out of range", "write it like 90s, 5m or 1h30m")
        return float(value)

    def schema(self) -> Schema:
        units = "".join(rf"(\d+(\.\d+)? ?{unit})? ?" for unit in ("d", "h", "m", "s", "ms"))
        text = rf"^ *(?=.*\d)(\d+(\.\d+)?|{units}) *$"
        return {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": durations.LONGEST},
                {"type": "string", "pattern": text},
            ]
        }


class Choice(Struct, frozen=True):
    """A text that is one of `words`."""

    words: tuple[str, ...]

    def read(self, value: object, at: At, source: Source) -> str:
        if not isinstance(value, str):
            raise wrong_kind_error(
                f"one of {', '.join(self.words)}", value, at, source, nearest_hint(str(value), self.words)
            )
        if value not in self.words:
            words = ", ".join(self.words)
            raise source.error(at, f"{value[:60]!r} is not one of {words}", nearest_hint(value, self.words))
        return value

    def schema(self) -> Schema:
        return {"enum": list(self.words)}


class OneOrMore(Struct, frozen=True):
    """One value of the shape `each`, or a list of such values. `read` returns a tuple."""

    each: Shape
    alone: bool = True  # whether a single value may be written without a list
    most: int = 10_000

    def read(self, value: object, at: At, source: Source) -> tuple[object, ...]:
        if not isinstance(value, list):
            if not self.alone:
                raise wrong_kind_error("a list", value, at, source, "begin each item on a line of its own, with a dash")
            return (self.each.read(value, at, source),)
        if not value:
            raise source.error(at, "the list is empty", "write at least one item, or leave the key out")
        if len(value) > self.most:
            raise source.error((*at, str(self.most)), f"more than {self.most} items", "split the list")
        return tuple(self.each.read(item, (*at, str(number)), source) for number, item in enumerate(value))

    def schema(self) -> Schema:
        several: Schema = {"type": "array", "items": self.each.schema(), "minItems": 1, "maxItems": self.most}
        return {"anyOf": [self.each.schema(), several]} if self.alone else several


class Table(Struct, frozen=True):
    """Keys and values, each key at most once. All `required` keys must be there, and exactly one of the `one_of` keys.
    `needs` maps a key to another key that must be there with it."""

    fields: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    needs: Mapping[str, str] = {}
    description: str = ""

    def read(self, value: object, at: At, source: Source) -> dict[str, object]:
        if not isinstance(value, dict):
            raise wrong_kind_error("keys and values", value, at, source, f"the keys are {', '.join(self.fields)}")
        for key in value:
            if key not in self.fields:
                raise source.error((*at, key), "unknown key", nearest_or_all_hint(key, tuple(self.fields)))
        for key in self.required:
            if key not in value:
                raise source.error(at, f"has no `{key}`", f"write `{key}:`")
        for key, other in self.needs.items():
            if key in value and other not in value:
                raise source.error((*at, key), f"means nothing without `{other}`", f"write `{other}:` beside it")
        if self.one_of:
            there = [key for key in self.one_of if key in value]
            if len(there) != 1:
                what = f"has {' and '.join(f'`{key}`' for key in there)}" if there else "has none of its keys"
                raise source.error((*at, *there[1:2]), what, f"write exactly one of {', '.join(self.one_of)}")
        return {key: self.fields[key].read(given, (*at, key), source) for key, given in value.items()}

    def schema(self) -> Schema:
        made: Schema = {"type": "object", "additionalProperties": False}
        if self.description:
            made["description"] = self.description
        made["properties"] = {key: shape.schema() for key, shape in self.fields.items()}
        if self.required:
            made["required"] = list(self.required)
        if self.needs:
            made["dependentRequired"] = {key: [other] for key, other in self.needs.items()}
        if self.one_of:
            made["oneOf"] = [{"required": [key]} for key in self.one_of]
        return made


class NamedValues(Struct, frozen=True):
    """A table whose keys are names that match `pattern`, and whose values have the shape `each`. `rule` says in words
    what the pattern means."""

    each: Shape
    pattern: str
    rule: str

    def read(self, value: object, at: At, source: Source) -> dict[str, object]:
        if not isinstance(value, dict):
            raise wrong_kind_error("names and values", value, at, source, "write `NAME: VALUE`, a line each")
        for name in value:
            if re.fullmatch(self.pattern, name) is None:
                raise source.error((*at, name), f"{name[:60]!r} is not {self.rule}", f"it must match {self.pattern}")
        return {name: self.each.read(given, (*at, name), source) for name, given in value.items()}

    def schema(self) -> Schema:
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^(?:{self.pattern})$"},
            "additionalProperties": self.each.schema(),
        }


class EitherKind(Struct, frozen=True):
    """A value of one of several kinds, with a shape for each. The keys of `shapes` are the kinds: str, bool, number,
    list, dict and none. `what` names the value in errors."""

    what: str
    shapes: Mapping[str, Shape]

    def read(self, value: object, at: At, source: Source) -> object:
        shape = self.shapes.get(_KINDS.get(type(value), ""))
        if shape is None:
            raise wrong_kind_error(self.what, value, at, source)
        return shape.read(value, at, source)

    def schema(self) -> Schema:
        return {"anyOf": [shape.schema() for shape in self.shapes.values()]}


_KINDS: dict[type, str] = {
    str: "str", bool: "bool", int: "number", float: "number", list: "list", dict: "dict", type(None): "none"
}  # fmt: skip


class Nothing(Struct, frozen=True):
    """An empty value: the key is written without a value."""

    def read(self, value: object, at: At, source: Source) -> None:
        if value is not None:
            raise wrong_kind_error("nothing", value, at, source, "leave the value out")

    def schema(self) -> Schema:
        return {"type": "null"}


class OneOfTables(Struct, frozen=True):
    """One of several tables. Each of the tables has a key that no other has: its key in `cases`. `read` returns this
    key and the table. `what` names the value in errors."""

    what: str
    cases: Mapping[str, Table]

    def read(self, value: object, at: At, source: Source) -> tuple[str, dict[str, object]]:
        keys = ", ".join(self.cases)
        if not isinstance(value, dict):
            raise wrong_kind_error(self.what, value, at, source, f"it begins with one of {keys}")
        there = [key for key in self.cases if key in value]
        if len(there) > 1:
            raise source.error(
                (*at, there[1]), f"has `{there[0]}` and `{there[1]}`", f"make two of it: one of {keys} each"
            )
        if not there:
            wrong = next(iter(value), None)
            if wrong is None:
                raise source.error(at, "is empty", f"it begins with one of {keys}")
            raise source.error(
                (*at, str(wrong)),
                f"no {self.what} begins with `{wrong}`",
                nearest_or_all_hint(str(wrong), tuple(self.cases)),
            )
        return there[0], self.cases[there[0]].read(value, at, source)

    def schema(self) -> Schema:
        return {"oneOf": [case.schema() for case in self.cases.values()]}


class ShapeReference(Struct, frozen=True):
    """A reference to the shape `name` in `shapes`. The shape is looked up only when a value is read, so that a shape
    can contain itself."""

    name: str
    shapes: Mapping[str, Shape]

    def read(self, value: object, at: At, source: Source) -> object:
        return self.shapes[self.name].read(value, at, source)

    def schema(self) -> Schema:
        return {"$ref": f"#/$defs/{self.name}"}


class Settings(Struct, frozen=True):
    """The settings of an agent, as in beam.yaml."""

    def read(self, value: object, at: At, source: Source) -> dict[str, object]:
        from beam.config.fields import settings_fields

        if not isinstance(value, dict) or not value:
            raise wrong_kind_error("an agent's settings", value, at, source, "write at least `adapter:` or `model:`")
        return settings_fields(value, at, source)

    def schema(self) -> Schema:
        return {"$ref": "#/$defs/AgentSettings"}


class JsonSchema(Struct, frozen=True):
    """A JSON Schema, given as keys and values."""

    def read(self, value: object, at: At, source: Source) -> object:
        import jsonschema

        if not isinstance(value, dict):
            raise wrong_kind_error("a JSON Schema", value, at, source, "a schema is keys and values")
        try:
            jsonschema.Draft202012Validator.check_schema(value)
            unresolved = _unresolved_reference(value)
        except jsonschema.SchemaError as error:
            raise source.error(
                at, f"not a JSON Schema: {error.message[:120]}", "look it up at json-schema.org"
            ) from error
        except RecursionError as error:
            raise source.error(at, "not a JSON Schema: it is nested too deeply", "make it flatter") from error
        except (AttributeError, TypeError) as error:  # such a part is read by the rules of its own `$schema`
            raise source.error(
                at, "not a JSON Schema: a part does not follow the `$schema` that it names", "leave that `$schema` out"
            ) from error
        if unresolved:
            raise source.error(at, f"not a JSON Schema: {unresolved[:120]!r} is no place in it", REFERENCE_HINT)
        return value

    def schema(self) -> Schema:
        return {"type": "object"}


def _unresolved_reference(schema: dict[str, object]) -> str:
    """Return the first reference of a JSON Schema that leads to no place in it or in a standard; "" if there is none.
    Raises SchemaError if a reference leads to something that is no schema. Nothing is fetched."""
    import jsonschema

    for reference, found in references(schema):
        if found is None:
            return reference
        jsonschema.Draft202012Validator.check_schema(found)
    return ""
