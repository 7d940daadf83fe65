"""`${NAME}` in `env:` is filled in or refused, and never passed on as text."""

from __future__ import annotations

import json

import pytest

from beam.base.errors import ConfigError
from beam.config.fields import filled_env, names_in, problem_in, setting_from_text, settings_fields
from beam.config.source import Source
from tests.support.cli import Cli

ENVIRON = {"KEY": "k", "EMPTY": "", "HOME": "/home/me"}


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ("plain", "plain"),
        ("${KEY}", "k"),
        ("a${KEY}b${HOME}c", "akb/home/mec"),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", "other"),
        ("${NONE:-other words}", "other words"),
        ("${NONE:-}", ""),
        ("$${KEY}", "${KEY}"),
        ("$KEY and $", "$KEY and $"),
        ("$$KEY", "$$KEY"),
    ],
)
def test_a_reference_is_filled_in(value: str, filled: str) -> None:
    assert problem_in(value) == ""
    assert filled_env({"A": value}, ENVIRON, "x") == {"A": filled}


def test_what_a_variable_holds_is_not_filled_in_again() -> None:
    assert filled_env({"A": "${KEY}"}, {"KEY": "${HOME}"}, "x") == {"A": "${HOME}"}


def test_a_variable_that_is_not_set_is_refused_by_name() -> None:
    with pytest.raises(ConfigError) as refused:
        filled_env({"A": "x${NONE}"}, ENVIRON, "planner")
    assert refused.value.message == "NONE is not set, and `env.A` of planner asks for it"
    assert "${NONE:-…}" in refused.value.hint


@pytest.mark.parametrize("value", ["${", "${}", "${1A}", "${KEY", "${KEY-x}", "${KEY:?}", "${A B}", "a ${KEY} ${"])
def test_what_is_no_reference_is_refused_where_it_is_written(value: str) -> None:
    with pytest.raises(ConfigError, match=r"f\.yaml: env\.A: holds \$\{ without the name of a variable"):
        settings_fields({"env": {"A": value}}, (), Source("f.yaml"))


def test_the_names_in_a_value_are_those_that_are_read() -> None:
    assert names_in("${A} ${B:-${} $${C} $D") == ["A"]


@pytest.mark.acceptance
def test_a_program_gets_the_value_and_never_the_text(beam: Cli) -> None:
    beam.config(
        "env_profiles: {work: {TEAM: '${MY_TEAM}'}}\n"
        "agents:\n  x: {command: [sh, -c, 'echo $A-$TEAM'], env: {A: '${MY_A}'}, env_profile: work}\n"
    )
    assert beam("send", "x", "hi", env={"MY_A": "1", "MY_TEAM": "2"}).out == "1-2\n"
    refused = beam("send", "x", "hi", env={"MY_TEAM": "2"})
    assert (refused.code, refused.out) == (2, "")
    assert "MY_A is not set, and `env.A` of x asks for it" in refused.err
    assert "${MY_A" not in json.dumps(beam.journal("x"))
    queued = beam("send", "x", "hi", "--no-wait", env={"MY_TEAM": "2"})
    assert queued.code == 2


@pytest.mark.acceptance
def test_a_strangers_file_reads_no_variable_and_trust_names_it(beam: Cli) -> None:
    beam.config("agents: {x: {adapter: scripted, env: {A: '${MY_SECRET}'}}}\n", trusted=False)
    done = beam("send", "x", "hi", env={"MY_SECRET": "sesame"})
    assert done.code == 2
    assert "beam.yaml sets A in the environment of x, from $MY_SECRET" in done.err and "sesame" not in done.err


SOURCE = Source("the command line")


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("runner", '["sh", "-c", "{command}"]', ("sh", "-c", "{command}")),
        ("runner", "ssh host '{command}'", ("ssh", "host", "{command}")),
        ("command", '["a b", "c"]', ("a b", "c")),
        ("command", "[ -f x ]", ("[", "-f", "x", "]")),
        ("command", "echo '{text}'", ("echo", "{text}")),
        ("env", '{"A": "b"}', {"A": "b"}),
    ],
)
def test_a_list_in_text_is_json_or_a_command_line(field: str, text: str, value: object) -> None:
    assert setting_from_text(field, text, (field,), SOURCE) == value


@pytest.mark.parametrize("field", ["runner", "command", "env", "rules", "screen"])
@pytest.mark.parametrize("text", ["[sh, -c]", '["sh",', "{a: b}", '["sh"] x', "[1]"])
def test_what_only_begins_like_a_list_is_refused(field: str, text: str) -> None:
    with pytest.raises(ConfigError):
        setting_from_text(field, text, (field,), SOURCE)
