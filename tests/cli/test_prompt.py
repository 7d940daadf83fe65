"""The prompt of a command line: order, parting, and what is left alone."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from beam.base.errors import NotFoundError, UsageError
from beam.cli import prompt
from beam.cli.context import Context


@pytest.fixture
def call(tmp_path: Path) -> Context:
    return Context(directory=str(tmp_path))


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_the_value_of_an_option_is_one_of_its_words() -> None:
    assert [prompt.parse_word("--access", word, prompt.ACCESSES) for word in ("ask", None)] == ["ask", None]
    for word in ("root", ""):
        with pytest.raises(UsageError, match=rf"--access {word}: unknown word .--access read\|edit\|full\|ask"):
            prompt.parse_word("--access", word, prompt.ACCESSES)


def test_words_are_joined_by_spaces(call: Context) -> None:
    assert prompt.read(["a", "b c"], [], call) == "a b c"


def test_files_follow_parted_by_blank_lines(call: Context, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1\n")
    (tmp_path / "two").write_text("2\n\n")
    assert prompt.read(["say"], ["one", "two"], call) == "say\n\n1\n\n2"


def test_a_dash_stands_for_stdin_where_it_stands(call: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"piped\n")
    assert prompt.read(["before", "-", "after"], [], call) == "before\n\npiped\n\nafter"


def test_a_dash_stands_for_stdin_as_a_file_too(call: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"piped\n")
    assert prompt.read(["say"], ["-"], call) == "say\n\npiped"
    stdin(monkeypatch, b'{"type": "object"}')
    assert prompt.read(["say"], [], call, "-") == "say"
    assert prompt.read_schema("-", call) == '{"type": "object"}'


@pytest.mark.parametrize(
    ("words", "paths", "schema"), [(["-", "-"], [], None), (["-"], ["-"], None), (["-"], [], "-"), ([], ["-"], "-")]
)
def test_stdin_is_read_once(words: list[str], paths: list[str], schema: str | None, call: Context) -> None:
    with pytest.raises(UsageError, match="given twice"):
        prompt.read(words, paths, call, schema)


def test_a_schema_on_stdin_is_no_prompt(call: Context) -> None:
    with pytest.raises(UsageError, match="there is no prompt"):
        prompt.read([], [], call, "-")


def test_stdin_alone_is_taken_as_it_is(call: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"  line\n\n")
    assert prompt.read([], [], call) == "  line\n\n"


def test_bytes_that_are_no_text_are_replaced_with_a_note(
    call: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin(monkeypatch, b"a\xffb")
    assert prompt.read([], [], call) == "a\ufffdb"
    assert prompt.read([os.fsdecode(b"c\xff")], [], call) == "c\ufffd"
    assert capsys.readouterr().err.count("U+FFFD") == 2


def test_a_missing_file_is_not_found(call: Context) -> None:
    with pytest.raises(NotFoundError, match="absent"):
        prompt.read([], ["absent"], call)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("name, age int", {"name": {"type": "string"}, "age": {"type": "integer"}}),
        ("ok bool,score float", {"ok": {"type": "boolean"}, "score": {"type": "number"}}),
        ("why: in a few words", {"why": {"type": "string", "description": "in a few words"}}),
        ("a int: one, or two\nb\n", {"a": {"type": "integer", "description": "one, or two"}, "b": {"type": "string"}}),
    ],
)
def test_a_schema_may_be_in_short_form(call: Context, text: str, fields: dict[str, object]) -> None:
    made = json.loads(prompt.read_schema(text, call) or "")
    whole = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    assert made == whole


@pytest.mark.parametrize("text", ["name string", "1st int", ", ", "a b c", "x" * 5000 + " y"])
def test_a_schema_that_is_neither_a_file_nor_in_short_form_is_refused(call: Context, text: str) -> None:
    with pytest.raises(UsageError, match="--schema"):
        prompt.read_schema(text, call)


def test_a_file_with_a_space_in_its_name_is_a_schemas_file(call: Context, tmp_path: Path) -> None:
    (tmp_path / "name str").write_text('{"type": "object"}')
    assert prompt.read_schema("name str", call) == '{"type": "object"}'


def test_a_schema_is_a_json_object(call: Context, tmp_path: Path) -> None:
    (tmp_path / "good").write_text('{"type": "object"}')
    (tmp_path / "list").write_text("[]")
    (tmp_path / "bad").write_text("{")
    assert prompt.read_schema(None, call) is None
    assert prompt.read_schema("good", call) == '{"type": "object"}'
    for name in ("list", "bad"):
        with pytest.raises(UsageError, match=name):
            prompt.read_schema(name, call)
