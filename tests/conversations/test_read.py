"""Scenario files: what is read, and that each mistake has its line, its column and a hint."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from beam.base.errors import BeamError, ConfigError, UsageError
from beam.cli import schemas
from beam.conversations.read import parse
from beam.conversations.scenario import CheckStep, Parallel, Scenario, Send
from tests.conversations.malformed import MALFORMED, ONLY_BEAM, Wrong

SCHEMA = jsonschema.Draft202012Validator(schemas.schema("scenario"))
EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.yaml"))


def read(text: str, folder: Path = Path("/nowhere"), **variables: str) -> Scenario:
    return parse(text.encode(), folder / "s.yaml", variables, name="s.yaml")


def plain(text: str) -> Any:
    """What an editor makes of the file: YAML without beam."""
    return yaml.safe_load(text)


@pytest.mark.parametrize("wrong", MALFORMED, ids=lambda wrong: wrong.name)
def test_a_malformed_file_is_refused_with_line_column_and_hint(wrong: Wrong) -> None:
    with pytest.raises(ConfigError) as caught:
        read(wrong.text)
    error = caught.value
    assert error.message.startswith(f"s.yaml:{wrong.line}:{wrong.column}: "), error
    assert re.search(wrong.says, str(error)), error
    assert error.hint, error
    assert error.exit_code == 2


def test_there_are_sixty_and_each_is_another_one() -> None:
    assert len(MALFORMED) >= 60
    assert len({wrong.text for wrong in MALFORMED}) == len(MALFORMED) == len({wrong.name for wrong in MALFORMED})


@pytest.mark.parametrize(
    "wrong", [each for each in MALFORMED if each.name not in ONLY_BEAM], ids=lambda wrong: wrong.name
)
def test_the_schema_for_editors_refuses_what_beam_refuses(wrong: Wrong) -> None:
    try:
        value = plain(wrong.text)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        return  # an editor says so itself
    assert not SCHEMA.is_valid(value)


@pytest.mark.parametrize("name", sorted(ONLY_BEAM))
def test_what_no_schema_can_say_is_taken_by_the_schema(name: str) -> None:
    (wrong,) = [each for each in MALFORMED if each.name == name]
    assert list(SCHEMA.iter_errors(plain(wrong.text))) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_schema_takes_every_example_and_so_does_beam(path: Path) -> None:
    assert list(SCHEMA.iter_errors(plain(path.read_text()))) == []
    parse(path.read_bytes(), path, {}, name=path.name)


@pytest.mark.slow
def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schemas.schema("scenario"))


def test_a_template_is_filled_and_a_text_is_not() -> None:
    scenario = read(
        "beam: 1\nvariables: {topic: ducks, n: 3}\nsteps:\n"
        "- send: a\n  prompt: ['Say {x} ${topic} {{y}}', {template: 'On ${topic}, $${topic}, {n} of ${ n }'}]\n"
        "- run: [echo, '${topic}', '$HOME']\n- run: 'echo ${topic}'\n",
        topic="geese",
    )
    first, words, shell = scenario.steps
    assert isinstance(first, Send)
    assert [part.value for part in first.prompt] == ["Say {x} ${topic} {{y}}", "On geese, ${topic}, {n} of 3"]
    assert getattr(words, "command", None) == ("echo", "geese", "$HOME")
    assert getattr(shell, "command", None) == "echo ${topic}"


def test_a_block_text_is_taken_verbatim() -> None:
    text = "  keep {this} and ${that}\n\n  # no comment\n"
    scenario = read(f"beam: 1\nsteps:\n- send: a\n  prompt: |\n    x\n{text.replace('  ', '    ', 1)}")
    first = scenario.steps[0]
    assert isinstance(first, Send)
    assert "{this} and ${that}" in first.prompt[0].value


def test_a_check_without_a_step_is_about_the_last_one_that_said_something() -> None:
    scenario = read(
        "beam: 1\nsteps:\n- send: a\n  id: one\n  prompt: x\n- check: {contains: y}\n"
        "- parallel:\n  - send: b\n    id: two\n    prompt: x\n- check: {contains: y}\n"
    )
    of = [step.of for step in scenario.steps if isinstance(step, CheckStep)]
    assert of == ["one", "two"]
    assert isinstance(scenario.steps[2], Parallel)


def test_a_check_of_the_folder_needs_no_step() -> None:
    scenario = read("beam: 1\nsteps:\n- check: {file_exists: a, files_changed: false, command: [true-of-it]}\n")
    assert [step.of for step in scenario.steps if isinstance(step, CheckStep)] == [""]


def test_options_of_a_step_are_over_those_of_all() -> None:
    scenario = read("beam: 1\ndefaults: {model: small, timeout: 2m}\nsteps:\n- send: a\n  prompt: x\n  model: large\n")
    first = scenario.steps[0]
    assert isinstance(first, Send)
    assert (first.options.model, first.options.timeout) == ("large", 120.0)


def test_a_step_may_quote_an_agent_of_an_earlier_step_also_of_one_that_ran_at_the_same_time() -> None:
    scenario = read(
        "beam: 1\nsteps:\n- parallel:\n  - send: a\n    prompt: x\n  - chat: [b, c]\n    prompt: x\n"
        "- send: d\n  prompt: x\n  context_from: c\n  context: summary\n- send: e\n  prompt: x\n  context_from: d\n"
    )
    asked = [(step.context_from, step.context) for step in scenario.steps if isinstance(step, Send)]
    assert asked == [("c", "summary"), ("d", "recent")]
    assert scenario.handed_over() == {"c", "d"}


def test_a_variable_that_is_not_declared_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean topic"):
        read("beam: 1\nvariables: {topic: x}\nsteps: [{send: a, prompt: x}]\n", topik="y")


def test_a_schema_in_a_file_is_one_that_can_be_applied(tmp_path: Path) -> None:
    text = "beam: 1\nsteps:\n- send: a\n  prompt: x\n  schema: s.json\n"
    file = tmp_path / "s.json"
    for schema, says in (
        ('{"$ref": "other.json"}', "'other.json' is no place in it"),
        ('{"not":' * 300 + "{}" + "}" * 300, "nested too deeply"),
    ):
        file.write_text(schema)
        with pytest.raises(ConfigError, match=rf"s.yaml:5:3: .*not a JSON Schema: .*{says}"):
            read(text, tmp_path)


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"$ref": "#/$defs/one"}, "$defs": {"one": {"$ref": "#/$defs/two"}, "two": {"type": "number"}}},
        {"$id": "https://example.com/s", "not": {"$ref": "https://example.com/s#/$defs/x"}, "$defs": {"x": True}},
        {"not": {"$ref": "part.json"}, "$defs": {"x": {"$id": "part.json"}}},
        {"not": {"$ref": "#part"}, "$defs": {"x": {"$anchor": "part"}}},
        {"properties": {"a": {"$ref": "#"}, "$ref": {"type": "string"}}, "enum": [{"$ref": "http://127.0.0.1:1/"}]},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    ],
)
def test_a_schema_may_refer_to_its_own_parts_and_to_the_standard(schema: dict[str, object]) -> None:
    text = yaml.safe_dump({"beam": 1, "steps": [{"send": "a", "prompt": "x", "expect": {"schema": schema}}]})
    assert len(read(text).steps) == 1


def test_a_file_of_a_prompt_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("x")
    text = "beam: 1\nsteps:\n- send: a\n  prompt: {file: note.md}\n"
    with pytest.raises(BeamError, match=r"s.yaml:4:12: .*there is no file note.md.*did you mean notes.md"):
        read(text, tmp_path)


@pytest.mark.slow
def test_a_thousand_steps_are_read_in_little_time() -> None:
    step = "  - send: claude\n    id: s{0}\n    prompt: do thing {0}\n    expect: {{contains: x, tokens: 100}}\n"
    data = "beam: 1\nsteps:\n" + "".join(step.format(number) for number in range(1000))
    began = time.process_time()
    assert len(read(data).steps) == 1000
    assert time.process_time() - began < 1.5  # `make bench` measures it; this is against a square


@pytest.mark.parametrize("value", [True, [], {}])
def test_a_duration_is_a_number_or_a_text(value: object) -> None:
    text = yaml.safe_dump({"beam": 1, "steps": [{"send": "a", "prompt": "hi", "timeout": value}]})
    with pytest.raises(ConfigError, match="expected a duration"):
        parse(text.encode(), Path("a.yaml"), {}, name="a.yaml")
