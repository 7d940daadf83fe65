"""What is read as plain YAML, PyYAML reads to the same values and lines; all else is left to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam.base.errors import ConfigError
from beam.config import plain_yaml
from beam.config.yaml_lines import parse_with_yaml

KEYS = ("agents", "a", "env", "A_b", "x-1", "a@b", "yes", "null", "on", "1a", "<<", "a.b", "a b")
SCALARS = (
    *(
        "b",
        "cat",
        "./x.sh",
        "/bin/sh",
        "a/b.c",
        "--flag",
        "-x",
        "-",
        "---",
        "a.",
        ".a",
        "_",
        "x_1",
        "a:b",
        "a: b",
        "a#b",
    ),
    *("0", "7", "10", "010", "0x1f", "1_000", "1.5", "1e3", "-1", "+1", "1:30", "30m", "5s", "2d", "1h", "10ms", "1y"),
    *("true", "True", "false", "yes", "No", "on", "OFF", "null", "~", "Null", "y", "n", ".inf", "-.inf", "2020-01-01"),
    *(
        '"x y"',
        '"a\\n"',
        '"it\'s"',
        "'x # y'",
        "'it''s'",
        '""',
        "''",
        "' a '",
        '"',
        "'",
        "a b",
        "*a",
        "&a b",
        "!x",
        "|",
        ">",
    ),
    *(
        "a ",
        "@x",
        "`x`",
        "%x",
        "a,b",
        "a, b",
        "a]",
        "[",
        "{",
        "}",
        "]",
        "",
        "é",
        "a\t",
        "=",
        "<<",
        "?",
        "? a",
        "- a",
        "#",
    ),
)
scalar = st.sampled_from(SCALARS)
key = st.sampled_from(KEYS)
value = st.recursive(
    scalar,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(key, inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{name}: {held}" for name, held in pairs) + "}"
        ),
    ),
    max_leaves=5,
)
line = st.one_of(
    st.tuples(st.sampled_from(("", "  ", "   ", "    ")), key, value, st.sampled_from(("", " # why", "#", " "))).map(
        lambda parts: f"{parts[0]}{parts[1]}: {parts[2]}{parts[3]}"
    ),
    st.tuples(st.sampled_from(("", "  ", "    ")), key).map(lambda parts: f"{parts[0]}{parts[1]}:"),
    st.sampled_from(("", "# a comment", "  # another", "- a", "---", "...", "\t", "  ", "a", "  b c")),
)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@example("agents:\n  echo:\n    command: [cat]\n")
@example("agents:\n  a: {adapter: scripted, env: {A: 1, B: true, C: x}}\nlimits: {waiting: 4000}\n")
@given(st.lists(line, max_size=6).map("\n".join))
def test_plain_yaml_is_read_as_pyyaml_reads_it(text: str) -> None:
    found = plain_yaml.read(text.encode())
    if found is None:
        return
    try:
        wanted = parse_with_yaml(text.encode(), Path("beam.yaml"))
    except ConfigError as error:
        raise AssertionError(f"PyYAML refuses it: {error}") from error
    assert (repr(found[0]), found[1]) == (repr(wanted[0]), wanted[1])  # 1 is not True


@pytest.mark.parametrize(
    "text",
    [
        "agents:\n  echo:\n    command: [cat]\n",
        '# mine\nagents:\n  e: {command: [./run.sh, --quick, "a b"], timeout: 30m}  # x\n\n  b:\n    access: edit\n',
        "agents:\n  a:\n    env:\n      KEY: 1\n      ON: true\ndefaults: {access: read}\nlimits:\n  waiting: 100\n",
    ],
)
def test_what_people_write_is_plain(text: str) -> None:
    found = plain_yaml.read(text.encode())
    assert found is not None
    assert found == parse_with_yaml(text.encode(), Path("beam.yaml"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a: b\na: c",
        "a: {b: 1, b: 2}",
        "a:\n\tb: c",
        "a: *b",
        "a: yes",
        "a: é",
        "a: '\x7f'",
        "a: '\x01'",
        "a: b\r",
        "a: |\n  text",
        "a: b\n   c: d",
        "- a",
        "a: [b",
        "a: b: c",
        "a: 010",
        "a: 1.5",
        "a: b c",
        "a: " + "[" * 20 + "]" * 20,
        "a: " + "b" * (1 << 14),
        "\n".join(f"{' ' * deep}a:" for deep in range(40)),
    ],
)
def test_all_else_is_left_to_pyyaml(text: str) -> None:
    assert plain_yaml.read(text.encode()) is None
