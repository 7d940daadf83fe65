"""Checks an answer against a JSON Schema, for a CLI that does not do so itself.

No schema is fetched: a reference to another document is an error. Does not depend on how the agent got the schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, structs

from beam.agents.base import Turn, Verdict, document, raw_json
from beam.model.outcome import Class, Status

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_CODE_BLOCK = re.compile(r"^```(?:json)?[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MAX_CHARACTERS = 200
REFERENCE_HINT = "a `$ref` leads to a place in the same schema, as #/$defs/NAME does; no other schema is fetched"


def why_not_a_schema(schema: str | None) -> str:
    """Return why the text is not a JSON Schema that beam can apply; "" if it is one, or if it is None."""
    if schema is None:
        return ""
    try:
        _validator(schema)
    except ValueError as error:
        return str(error)
    reference = first_unresolved(schema)
    return f"{reference!r} is no place in the schema" if reference else ""


def first_unresolved(schema: str) -> str:
    """Return the beginning of the first reference of a JSON Schema that leads nowhere; "" if there is none.

    An invalid schema may have none: the agent's own CLI says what is wrong with it. Raises ValueError if the text is
    not a JSON object.
    """
    value = _parsed(schema)
    try:
        for reference, found in references(value, dialect=value.get("$schema")):
            if not isinstance(found, Mapping | bool):
                return reference[:_MAX_CHARACTERS]
    except (AttributeError, TypeError, RecursionError):
        return ""
    return ""


def references(schema: Mapping[str, Any], *, dialect: object = None) -> Iterator[tuple[str, Any]]:
    """Yield each reference that applies in a JSON Schema, and what stands at its place; None if there is no such place
    in the schema or in a standard. Nothing is fetched. `dialect` is the URI of the standard that the schema follows, by
    default 2020-12.

    For an invalid schema it may raise AttributeError, TypeError or RecursionError.
    """
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
    from referencing.exceptions import CannotDetermineSpecification, Unresolvable
    from referencing.jsonschema import DRAFT202012, specification_with

    rules = specification_with(dialect, default=DRAFT202012) if isinstance(dialect, str) else DRAFT202012
    top = rules.create_resource(schema)
    left = [(top, REGISTRY.resolver_with_root(top))]
    seen: set[int] = set()
    while left:
        resource, resolver = left.pop()
        if id(resource.contents) in seen or not isinstance(resource.contents, Mapping):
            continue
        seen.add(id(resource.contents))
        for key in ("$ref", "$dynamicRef"):
            reference = resource.contents.get(key)
            if not isinstance(reference, str):
                continue
            try:
                found = resolver.lookup(reference)
            except (Unresolvable, CannotDetermineSpecification, ValueError):
                yield reference, None
                continue
            yield reference, found.contents
            left.append((rules.create_resource(found.contents), found.resolver))
        left += [(each, resolver.in_subresource(each)) for each in resource.subresources()]


def apply_schema(turn: Turn, verdict: Verdict) -> Verdict:
    """Return the verdict with the JSON value of the answer, if the turn has a schema. If the answer does not follow the
    schema, return a failed verdict."""
    if turn.schema is None or verdict.status not in (Status.COMPLETED, Status.DENIED):
        return verdict
    why = "it is not JSON"
    for value in _json_values(verdict.reply or ""):
        why = _why_invalid(turn.schema, value)
        if not why:
            return structs.replace(verdict, structured=raw_json(value))
    reason = f"the answer does not follow the schema: {why}"
    return structs.replace(verdict, status=Status.FAILED, class_=Class.SCHEMA, reason=reason, structured=UNSET)


def _json_values(reply: str) -> Iterator[Any]:
    """Yield the JSON value of the whole answer. If the answer is not JSON, yield the value of each of its code blocks
    that is JSON."""
    for text in (reply, *(block[1] for block in _CODE_BLOCK.finditer(reply))):
        try:
            yield document(text.encode("utf-8", "replace"))
        except ValueError:
            continue
        if text == reply:
            return


def _why_invalid(schema: str, value: Any) -> str:
    """Return where and how the value violates the schema; "" if it follows the schema."""
    from jsonschema.exceptions import best_match

    try:
        wrong = best_match(_validator(schema).iter_errors(value))
    except Exception as error:  # noqa: BLE001 - a reference or a pattern in the schema can't be used
        return f"the schema can't be applied: {str(error)[:_MAX_CHARACTERS]}"
    if wrong is None:
        return ""
    where = "".join(f"[{part!r}]" for part in wrong.absolute_path)
    return f"{where or 'its value'}: {wrong.message[:_MAX_CHARACTERS]}"


def _validator(schema: str) -> Validator:
    """Return a validator for the schema. Raises ValueError if the text is not a JSON Schema."""
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    value = _parsed(schema)
    kind = validator_for(value, default=Draft202012Validator)
    try:
        kind.check_schema(value)
    except (SchemaError, RecursionError) as error:
        raise ValueError(f"it is no JSON Schema: {str(error).splitlines()[0][:_MAX_CHARACTERS]}") from error
    found: Validator = kind(value, registry=Registry())
    return found


def _parsed(schema: str) -> dict[str, Any]:
    """Return the schema as keys and values. Raises ValueError if the text is not a JSON object."""
    try:
        value = document(schema.encode("utf-8", "replace"))
    except ValueError as error:
        raise ValueError("the schema is no JSON") from error
    if not isinstance(value, dict):
        raise ValueError("the schema is no JSON object")  # noqa: TRY004 - the argument has the right type
    return value
