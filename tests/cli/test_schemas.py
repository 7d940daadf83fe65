from __future__ import annotations

import json
from typing import Any

import pytest

from beam.agents.base import Exit
from beam.base.errors import UsageError
from beam.cli import schemas
from beam.config import file
from beam.model import events
from beam.model.events import Event
from beam.testing.replay import replay


def refs(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*(refs(item) for item in value.values()))
    return set().union(*(refs(item) for item in value)) if isinstance(value, list) else set()


def properties(name: str) -> dict[str, Any]:
    made = schemas.schema(name)
    found: dict[str, Any] = made["$defs"][made["$ref"].rpartition("/")[2]]["properties"]
    return found


@pytest.mark.parametrize("name", schemas.names())
def test_each_schema_is_json_whose_references_lead_somewhere(name: str):
    made = json.loads(json.dumps(schemas.schema(name)))

    assert made["$schema"].startswith("https://json-schema.org/")
    assert refs(made)
    assert refs(made) <= {f"#/$defs/{part}" for part in made["$defs"]}


def test_there_is_a_schema_for_each_value_and_each_type_of_event():
    assert schemas.names() == [
        "outcome",
        "error",
        "ask",
        "message",
        "beam.yaml",
        "scenario",
        "run",
        "event",
        *events.types(),
    ]


def test_the_schema_of_an_event_has_the_fields_that_are_written():
    lines = [b'{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"s"}']
    found: list[Event] = list(replay("claude", lines, exit=Exit(code=0)))

    for event in found:
        written = json.loads(events.encode(event))
        assert written.keys() <= properties(written["type"]).keys()
    assert properties("turn.finished")["type"] == {"enum": ["turn.finished"]}
    assert "class" in properties("turn.finished")


def test_a_message_has_only_what_its_file_has():
    assert "from" in properties("message")
    assert "original" not in properties("message")


def test_durations_of_beam_yaml_may_be_text_and_nothing_else_of_that_kind():
    schema = schemas.schema("beam.yaml")["$defs"]
    agent = schema["AgentSettings"]["properties"]

    assert schema["BeamYaml"]["properties"].keys() == set(file._KEYS)
    assert {"type": "string"} in schema["Policy"]["properties"]["backoff"]["anyOf"]
    assert agent["timeout"]["anyOf"] == [{"type": "number"}, {"type": "null"}, {"type": "string"}]
    assert agent["budget_usd"]["anyOf"] == [{"type": "number"}, {"type": "null"}]


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"did you mean outcome\?"):
        schemas.schema("outcom")


def test_the_schema_of_an_error_is_what_is_printed_of_one():
    text = {"type": "string", "default": ""}
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/ErrorObject",
        "$defs": {
            "ErrorObject": {
                "title": "ErrorObject",
                "description": "The one object on stdout with `--json` if there is no outcome.",
                "type": "object",
                "properties": {"v": {"type": "integer", "default": 1}, "error": {"$ref": "#/$defs/ErrorBody"}},
                "required": ["error"],
            },
            "ErrorBody": {
                "title": "ErrorBody",
                "description": "What went wrong. `kind` is a stable identifier; `subject` names the thing; "
                "`hint` is the next step.",
                "type": "object",
                "properties": {
                    "exit_code": {"type": "integer"},
                    "kind": {"type": "string"},
                    "message": {"type": "string"},
                    "hint": text,
                    "subject": text,
                },
                "required": ["exit_code", "kind", "message"],
            },
        },
    }
    assert schemas.schema("error") == whole


def test_what_is_any_json_has_its_default_and_no_type():
    asked = schemas.schema("permission.asked")["$defs"]["PermissionAsked"]
    assert asked["required"] == ["type", "ask_id", "tool"]
    assert (asked["properties"]["input"], asked["properties"]["suggestions"]) == ({"default": None}, {"default": []})
    assert asked["description"].startswith("The agent waits for a decision.")


def test_a_duration_keeps_its_default_and_unknown_keys_are_refused():
    schema = schemas.schema("beam.yaml")["$defs"]
    number, text = {"type": "number"}, {"type": "string"}
    assert schema["Policy"]["properties"]["backoff"] == {"anyOf": [number, text], "default": 2.0}
    assert schema["AgentSettings"]["properties"]["timeout"]["default"] is None
    assert [schema[name]["additionalProperties"] for name in ("BeamYaml", "AgentSettings")] == [False, False]
    assert {"AgentSettings", "RuleLists"} < set(schemas.schema("scenario")["$defs"])


@pytest.mark.parametrize(
    ("name", "hint"), [("outcom", "did you mean outcome?"), ("zzzzzzzz", "`beam dev schema` lists them")]
)
def test_a_name_that_is_near_nothing_is_told_where_all_stand(name: str, hint: str):
    with pytest.raises(UsageError) as raised:
        schemas.schema(name)
    assert str(raised.value) == f"there is no schema called {name!r} ({hint})"
