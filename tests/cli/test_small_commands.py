"""What is left of the small commands: the prompt's options, rules, MCP servers, search, habits of other tools."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from beam.base.errors import BeamError, LimitError, UsageError
from beam.cli import completion, habits, parameters, prompt
from beam.cli.context import Context
from tests.support.inside import Inside, Told


def test_a_text_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr(prompt, "MAX_BYTES", 4)
    assert prompt.read_bounded(io.BytesIO(b"1234"), "x") == b"1234"
    with pytest.raises(LimitError) as raised:
        prompt.read_bounded(io.BytesIO(b"12345"), "x")
    hint = "write the text to a file and name the file in the prompt"
    assert str(raised.value) == f"x holds more than 4 bytes ({hint})"


def test_a_closed_stdin_is_empty_and_a_folder_is_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert prompt._read_stdin(Context(directory=str(tmp_path))) == b""
    (tmp_path / "x").mkdir()
    with pytest.raises(UsageError) as raised:
        prompt.read_file("x", Context(directory=str(tmp_path)))
    assert raised.value.message == "can't read x: Is a directory"


def test_rules_are_tried_as_the_options_say(inside: Inside, told: Told) -> None:
    found = SimpleNamespace(decision=None, why="its access decides", faces=[], face="exec")
    told.replace("try_rules", found, found)
    told.replace("rules", [])
    assert inside("rules", "test", "bot", "Bash(ls)").out == "no rule: its access decides\n"
    inside("rules", "test", "bot", "Bash(ls)", "--access", "read", "--via", "exec", "--ask", "A", "--allow", "B")
    (words, first), (_, second) = told.taken()
    assert words == ("bot", "Bash(ls)") and first == {"access": None, "via": None, "more": None}
    assert (second["access"], second["via"]) == ("read", "exec")
    assert (second["more"].ask, second["more"].allow, second["more"].deny) == (("A",), ("B",), ())
    assert inside("rules", "list", "bot").err == "beam: bot has no rules; its access decides\n"


# -- search ------------------------------------------------------------------------------------------------------------


def test_a_search_is_told_its_options_and_what_could_not_be_searched(inside: Inside, told: Told) -> None:
    found = SimpleNamespace(found=[], problems=["a is torn"])
    told.replace("search", found, found)
    searched = inside("search", "two", "words")
    assert searched.err == "beam: not searched: a is torn\nbeam: nothing was found\n"
    inside("search", "x", "--agent", "box", "--since", "2026-01-02T03:04:05Z", "--all")
    (words, first), (_, second) = told.taken()
    assert words == ("two words", []) and (first["since"], first["until"], first["every_root"]) == (None, None, False)
    assert second["since"].startswith("2026-01-02T03:04:05") and second["every_root"] is True


# -- habits of other tools ---------------------------------------------------------------------------------------------


def test_a_prompt_in_a_commands_place_and_a_command_of_another_tool_are_told_beams_own() -> None:
    assert habits.suggest_command("beam", ["fix it", "x"]) == "type: beam send claude 'fix it'"
    assert habits.suggest_command("beam agent", ["fix it"]) is None
    assert habits.suggest_command("beam", ["nonsense"]) is None
    for path, table in habits.COMMAND_HINTS.items():
        for word, instead in table.items():
            said = habits.suggest_command(path, [word, "a b"])
            instead = instead.replace("{agent}", "claude")
            if instead.startswith("beam "):
                assert said == f"type: {instead.replace('{rest}', repr('a b'))}"
                bare = habits.suggest_command(path, [word])
                rest = "claude TEXT" if "send" in instead else ""
                assert bare == f"type: {instead.replace('{rest}', rest)}".rstrip()
            else:
                assert said == instead


def test_an_option_of_another_tool_is_told_where_it_is_known() -> None:
    for name, instead in habits.OPTION_HINTS.items():
        instead = instead.replace("{agent}", "claude")
        assert habits.suggest_option("beam send", name) == habits.suggest_option("beam", f"{name}=x") == instead
        assert habits.suggest_option("beam log", name) is None
    assert habits.suggest_option("beam agent set", "--set=x") == "type: beam agent set claude KEY=VALUE"
    assert habits.suggest_option("beam agent set", "--model") is None
    assert habits.suggest_option("beam send", "--nonsense") is None


@pytest.mark.parametrize(
    ("given", "instead"),
    [
        ({"file": "claude"}, "type: beam send claude 'a b'"),
        ({"file": "plan.yaml"}, None),
        ({"file": "a/claude"}, None),
        ({}, None),
    ],
)
def test_a_prompt_behind_run_is_told_to_be_sent(given: dict[str, object], instead: str | None) -> None:
    assert habits.suggest_for_extra_words("beam run", given, "a b") == instead
    assert habits.suggest_for_extra_words("beam log", given, "a b") is None


# -- the fast parser ---------------------------------------------------------------------------------------------------


def sample(
    call: Any,
    name: str = parameters.argument(..., metavar="NAME"),
    rest: list[str] | None = parameters.argument(None, metavar="[REST]..."),
    count: int | None = parameters.option(None, "-n", "--count", min=1, max=3),
    limit: float | None = parameters.option(None, min=0),
    many: list[str] = parameters.option([], "--many"),
    new: bool = parameters.option(False, "--new"),
) -> None:
    """Has each kind of parameter."""


def parsed(*words: str, interspersed: bool = True) -> Any:
    """The values, and what is left; nothing where it is no plain command line."""
    found = parameters.parameters_of(sample)
    assert found is not None
    split = parameters.parse_options(found, words, interspersed=interspersed)
    return None if split is None else parameters.parse_values(found, *split)


NOTHING = {"rest": None, "count": None, "limit": None, "many": [], "new": False}


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("a",), {"name": "a"}),
        (("a", "b", "c"), {"name": "a", "rest": ["b", "c"]}),
        (("a", "-"), {"name": "a", "rest": ["-"]}),
        (("a", "--", "-n", "--"), {"name": "a", "rest": ["-n", "--"]}),
        (("-n", "2", "a"), {"name": "a", "count": 2}),
        (("a", "--count=3"), {"name": "a", "count": 3}),
        (("a", "--count=1", "-n", "2"), {"name": "a", "count": 2}),
        (("a", "--limit", "0"), {"name": "a", "limit": 0.0}),
        (("a", "--many", "x", "--many=y"), {"name": "a", "many": ["x", "y"]}),
        (("a", "--many="), {"name": "a", "many": [""]}),
        (("--new", "a", "--new"), {"name": "a", "new": True}),
        ((), None),
        (("a", "-n"), None),
        (("a", "-n", "-1"), None),
        (("a", "-n", "0"), None),
        (("a", "-n", "4"), None),
        (("a", "-n", "x"), None),
        (("a", "-n=2"), None),
        (("a", "--new=x"), None),
        (("a", "--limit", "nan"), None),
        (("a", "--limit", "inf"), None),
        (("a", "--none"), None),
    ],
)
def test_a_plain_command_line_is_read_as_typer_would(words: tuple[str, ...], values: Any) -> None:
    assert parsed(*words) == (None if values is None else {**NOTHING, **values})


def test_options_end_at_the_first_word_where_a_command_follows() -> None:
    found = parameters.parameters_of(sample)
    assert found is not None
    assert parameters.parse_options(found, ["--new", "a", "--new"], interspersed=False) == (
        {"new": [""]},
        ["a", "--new"],
    )
    assert parameters.parse_options(found, ["--new", "--", "a"], interspersed=False) is None


def plain(call: Any, name: str = "x") -> None:
    """Was declared for Typer alone."""


def keyword(call: Any, *, name: str = parameters.option("x", "--name")) -> None:
    """Has a parameter that Typer alone can give."""


def test_what_was_declared_for_typer_alone_is_not_read() -> None:
    assert parameters.parameters_of(plain) is None
    assert parameters.parameters_of(keyword) is None
    found = parameters.parameters_of(sample)
    assert found is not None
    assert [(each.name, each.names, each.is_flag, each.is_list) for each in found] == [
        ("name", (), False, False),
        ("rest", (), False, True),
        ("count", ("-n", "--count"), False, False),
        ("limit", ("--limit",), False, False),
        ("many", ("--many",), False, True),
        ("new", ("--new",), True, False),
    ]


# -- completion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("beam send", ["beam", "send"]),
        ("beam send ", ["beam", "send", ""]),
        ("beam 'a b", ["beam", "a b"]),
        ('beam "a b ', ["beam", "a b "]),
        ("beam a\\", ["beam", "a"]),
        ("", []),
        ("beam 'a\" b", ["beam", 'a" b']),
    ],
)
def test_an_unfinished_line_has_words_too(line: str, words: list[str]) -> None:
    assert completion._split_line(line) == words


def test_what_fails_while_one_types_is_nothing() -> None:
    def fail(error: Exception) -> Any:
        def look() -> Any:
            raise error

        return look

    assert completion._try_lookup(lambda: iter("ab")) == ["a", "b"]
    assert completion._try_lookup(fail(BeamError("x"))) == completion._try_lookup(fail(OSError())) == []
    with pytest.raises(ValueError, match="x"):
        completion._try_lookup(fail(ValueError("x")))


@pytest.mark.parametrize(
    "words",
    [
        ("agent", "add", "new", "--command", "a\udcff"),
        ("agent", "set", "box", "description=a\udcff"),
        ("rules", "add", "worker", "--allow", "Bash(a\udcff)"),
        ("send", "box", "hi", "--no-wait", "--allow", "Bash(a\udcff)"),
    ],
)
def test_an_argument_that_is_no_text_is_refused_where_text_is_stored(inside: Inside, words: tuple[str, ...]) -> None:
    refused = inside(*words)
    said = f"{words[-1]!r} is not valid UTF-8, and only text can be used here; use plain text"
    assert (refused.code, refused.out, refused.err) == (2, "", f"beam: {said}\n")
