"""What a typed line means in a chat, and what answers an ask. Pure."""

from __future__ import annotations

import pytest

from beam.cli.chatting.words import (
    ALONE_COMMANDS,
    TOGETHER_COMMANDS,
    AgentCommand,
    Answer,
    Command,
    InvalidLine,
    Text,
    help_lines,
    parse_answer,
    parse_line,
)


@pytest.mark.parametrize(
    ("line", "means"),
    [
        ("hello", Text("hello")),
        ("  two\nlines ", Text("two\nlines")),
        ("/help", Command("help")),
        ("/model opus", Command("model", "opus")),
        ("/model", Command("model")),
        ("/queue and\nthen", Command("queue", "and\nthen")),
        ("/queue\nfirst\n  word", Command("queue", "first\n  word")),
        ("/compact keep the names", AgentCommand("/compact keep the names")),
        ("//compact", Text("/compact")),
        ("/usr/bin is full", Text("/usr/bin is full")),
        ("/", Text("/")),
        ("a /help", Text("a /help")),
    ],
)
def test_a_line_is_a_text_a_command_of_the_chat_or_one_of_the_agents_own(line: str, means: object) -> None:
    assert parse_line(line, ALONE_COMMANDS, passes_on=True) == means


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/paus", "/paus is no command of this chat; did you mean /pause?"),
        ("/zzzzzz", "/zzzzzz is no command of this chat; /help lists them"),
        ("/as", "/as needs more: /as NAME TEXT"),
        ("/quit now", "/quit takes no text after it"),
    ],
)
def test_a_command_that_is_none_or_lacks_something_is_said_to_be_wrong(line: str, why: str) -> None:
    assert parse_line(line, TOGETHER_COMMANDS, passes_on=False) == InvalidLine(why)


@pytest.mark.parametrize("table", [ALONE_COMMANDS, TOGETHER_COMMANDS])
def test_the_help_names_each_command_and_fits_into_80_columns(table: dict[str, str]) -> None:
    lines = help_lines(table)
    assert all(any(line.startswith(name) for line in lines) for name in table)
    assert max(map(len, lines)) <= 77  # it is indented by two


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("y", Answer(allow=True)),
        ("Yes", Answer(allow=True)),
        ("always", Answer(allow=True, always=True)),
        ("no", Answer(allow=False)),
        ("No, use the test database", Answer(allow=False, reason="use the test database")),
        ("stop", Answer(allow=False, stop=True)),
        ("yes please do", None),
        ("yesterday", None),
        ("", None),
        ("allow", None),
    ],
)
def test_only_a_clear_word_is_an_answer(line: str, given: Answer | None) -> None:
    assert parse_answer(line, offers=True) == given


def test_always_is_no_answer_where_the_agent_does_not_offer_it() -> None:
    assert parse_answer("always", offers=False) is None
