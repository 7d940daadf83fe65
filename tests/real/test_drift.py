"""What `make drift` tells of two versions of a CLI."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.real import drift, newest
from tests.real.drift import Seen

HELP = """Usage: oracle [options] [prompt]

Options:
  --json              print JSON
  --model <name>      the model that answers
                      the prompt
  -h, --help          display help
"""


def of_help(after: str) -> list[str]:
    return drift.changes(Seen(help={"oracle --help": HELP}), Seen(help={"oracle --help": after}))


def of_schema(before: object, after: object) -> list[str]:
    return drift.changes(Seen(schemas={"turn.json": before}), Seen(schemas={"turn.json": after}))


def test_two_that_show_the_same_changed_nothing() -> None:
    assert of_help(HELP) == []
    assert of_schema({"a": [1, 2]}, {"a": [1, 2]}) == []


def test_flags_that_are_gone_and_new_are_told_first_and_then_the_words_that_changed() -> None:
    told = of_help(HELP.replace("--json ", "--output").replace("display", "show"))
    assert told[:2] == ["oracle --help: the flag --json is gone", "oracle --help: the flag --output is new"]
    assert told[2:] == [
        "oracle --help: - --json print JSON",
        "oracle --help: + --output print JSON",
        "oracle --help: - -h, --help display help",
        "oracle --help: + -h, --help show help",
    ]


def test_a_help_that_is_only_wrapped_in_another_way_is_the_same() -> None:
    assert (
        of_help(HELP.replace("that answers\n                      the", "that\n                      answers the"))
        == []
    )


def test_a_command_that_prints_no_help_any_more_loses_its_flags() -> None:
    assert "oracle --help: the flag --model is gone" in drift.changes(Seen(help={"oracle --help": HELP}), Seen())


def test_a_schemas_parts_are_told_by_their_path_and_a_whole_part_as_one() -> None:
    before = {"properties": {"id": {"type": "string"}, "old": {"type": "object", "of": {"deep": 1}}}}
    after = {"properties": {"id": {"type": "integer"}, "new": {"type": "object", "of": {"deep": 1}}}}
    assert of_schema(before, after) == [
        "schema turn.json: /properties/old is gone",
        "schema turn.json: /properties/new is new",
        'schema turn.json: /properties/id/type: "string" is "integer" now',
    ]


def test_words_of_an_enumeration_and_variants_in_another_order_are_the_same_and_one_more_is_told() -> None:
    variants = [{"title": "Sent", "type": "object"}, {"title": "Taken", "type": "object"}]
    assert of_schema({"enum": ["a", "b"], "oneOf": variants}, {"enum": ["b", "a"], "oneOf": variants[::-1]}) == []
    assert of_schema({"enum": ["a"]}, {"enum": ["a", "c"]}) == ["schema turn.json: /enum/c is new"]
    told = of_schema({"oneOf": variants[:1]}, {"oneOf": variants})
    assert told == ["schema turn.json: /oneOf/Taken+object is new"]


def test_prose_in_a_schema_is_no_change_but_a_property_called_description_is() -> None:
    assert of_schema({"description": "old words"}, {"description": "new words"}) == []
    told = of_schema({"properties": {"description": {"type": "string"}}}, {"properties": {}})
    assert told == ["schema turn.json: /properties/description is gone"]


def test_schemas_that_came_and_went_are_named() -> None:
    told = drift.changes(Seen(schemas={"a.json": {}}), Seen(schemas={"b.json": {}}))
    assert told == ["schema a.json is gone", "schema b.json is new"]


def test_a_long_list_ends_and_says_how_many_more_there_are() -> None:
    told = of_schema({"enum": ["a"]}, {"enum": ["a", *map(str, range(50))]})
    assert len(told) == drift.MAX + 1 and told[-1] == "schema turn.json: and 10 more"


REPORT = """<testsuites><testsuite><testcase name="test_first_turn[oracle]"/>
<testcase name="test_resume[oracle]"><failure message="assert 1 == 2&#10;more">trace</failure></testcase>
</testsuite></testsuites>"""


def test_cells_that_failed_are_told_with_their_reason_and_those_that_never_ran_are_not_counted_as_good() -> None:
    assert drift.of_cells(REPORT, ran=3) == [
        "cells: 1 of 3 are as the table says",
        "cell test_resume[oracle]: failure: assert 1 == 2",
    ]
    assert drift.of_cells("", ran=3) == ["cells: 0 of 3 are as the table says"]


FAILURES = [
    newest.NotHereError("9 does not install here: no wheel"),
    FileNotFoundError(2, "No such file or directory", "/lab/oracle"),
    PermissionError(13, "Permission denied"),
    subprocess.TimeoutExpired(["oracle", "--help"], 120),
    subprocess.CalledProcessError(1, ["node", "install.cjs"]),
    json.JSONDecodeError("Expecting value", "no schema", 0),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_a_cli_that_can_not_be_tried_is_named_and_the_others_are_compared(
    failure: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compared(name: str, now: str, other: str) -> list[str]:
        if name == "oracle":
            raise failure
        return [f"no changes in {other}"]

    monkeypatch.setattr(newest, "_pinned", lambda: {"before": "1", "oracle": "2", "behind": "3"})
    monkeypatch.setattr(newest, "bin_directories", lambda: [Path("/lab")])
    monkeypatch.setattr(newest, "_newest", lambda name: "9")
    monkeypatch.setattr(newest, "_compared", compared)
    assert newest.main([]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert (first, third) == ("before 1: no changes in 9", "behind 3: no changes in 9")
    assert second.startswith("oracle 2: ") and str(failure) in second


def test_every_cli_from_the_index_of_python_has_an_interpreter_to_ask_with() -> None:
    assert {Path(newest._python(name)).name for name in newest._PYPI} == {"python"}
