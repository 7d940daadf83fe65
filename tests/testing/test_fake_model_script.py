from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam.base.errors import ConfigError
from beam.proxy.wire.values import Error, ModelRequest
from beam.testing.fake_model.script import Rule, Script, expand, load, parse


def test_templates_are_filled_and_other_braces_stay():
    asked = ModelRequest(prompt="do {model}", turns=3, model="m-1", results=("a", "b"))

    text = expand('{prompt}|{turns}|{model}|{result}|{other}|{"json": {}}', asked)

    assert text == 'do {model}|3|m-1|a\nb|{other}|{"json": {}}'


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (Rule(), True),
        (Rule(match="ploy"), True),
        (Rule(match="Deploy"), False),
        (Rule(regex=r"^deploy \w+$"), True),
        (Rule(regex=r"^\w+$"), False),
        (Rule(turns=2), True),
        (Rule(turns=1), False),
        (Rule(model="haiku"), True),
        (Rule(model="opus"), False),
        (Rule(match="deploy", turns=2, model="opus"), False),
    ],
)
def test_a_rule_fits_when_all_that_it_says_holds(rule: Rule, fits: bool):
    assert rule.fits(ModelRequest(prompt="deploy it", turns=2, model="claude-haiku-4")) is fits


def test_yaml_and_json_files_give_the_same_script(tmp_path: Path):
    value = {"rules": [{"match": "x", "error": {"status": 529, "retry_after": 2}, "times": 3}], "replies": ["one"]}
    (tmp_path / "s.json").write_text(json.dumps(value))
    (tmp_path / "s.yaml").write_text(
        "rules:\n- {match: x, error: {status: 529, retry_after: 2}, times: 3}\nreplies: [one]\n"
    )

    script = load(tmp_path / "s.yaml")

    assert script == load(tmp_path / "s.json")
    assert script.rules == (
        Rule(match="x", error=Error(status=529, retry_after=2), times=3),
        Rule(text="one", times=1),
    )


def test_directives_are_on_without_rules_and_off_with_some_unless_the_script_says_so():
    assert parse({}) == Script(directives=True)
    assert parse({"replies": ["a"]}).directives is False
    assert parse({"replies": ["a"], "directives": True}).directives is True


def test_an_empty_file_is_the_default_script(tmp_path: Path):
    (tmp_path / "s.yaml").write_text("# nothing yet\n")

    assert load(tmp_path / "s.yaml") == Script()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rules: [{mtach: x}]", "unknown field `mtach` - at `$.rules[0]`"),
        ("rules: [{regex: '('}]", "unterminated subpattern"),
        ("rules: [{error: {status: 200}}]", "at `$.rules[0].error.status`"),
        ("replies: [{chunk: 0}]", "chunk"),
        ("[1]", "Expected `object`, got `array`"),
        ("a: [", "can't read the script"),
        ('"\\ud800"', "surrogates not allowed"),
    ],
)
def test_a_bad_script_is_refused_with_its_file_and_the_place(tmp_path: Path, text: str, says: str):
    path = tmp_path / "bad.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load(path)

    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_a_script_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        load(tmp_path / "none.yaml")
