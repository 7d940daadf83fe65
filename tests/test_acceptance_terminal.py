"""beam on a terminal: the answer streams, once, and nothing an agent says is obeyed; in a pipe every byte arrives."""

from __future__ import annotations

import re

import pytest

from tests.support.cli import Cli
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance

NASTY = "\x1b]0;owned\x07\x1b[2Jhello\x9b31m \u202ereversed\rover"


@pytest.fixture
def tester(beam: Cli) -> Cli:
    (beam.project / "tester.yaml").write_text(r"""
rules:
  - match: stream
    reply:
      - tool: {name: Bash, input: {command: ls -la}, output: files}
      - stream: {text: "one two three four five\n\nsix", chunk: 3}
  - match: two texts
    reply: [first text, {tool: {name: Read, input: {}}}, "second text\n"]
  - match: fail
    reply: [so far, {fail: {class: auth, reason: "no key \u001b[2J"}}]
  - match: nasty
    reply:
      - tool: {name: "B\u001b[2Jsh", input: {command: "\u001b]0;owned\u0007"}, output: "\u001b[2J"}
      - "\u001b]0;owned\u0007\u001b[2Jhello\u009b31m \u202ereversed\rover"
default: plain
""")
    beam.config("agents:\n  tester: {adapter: scripted, script: ./tester.yaml}\n  echo: {command: [cat]}\n")
    return beam


def shown(text: str) -> str:
    """What is seen, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_an_answer_streams_once_with_its_tools_aside(tester: Cli) -> None:
    terminal = Terminal(tester, "send", "tester", "stream", stderr_apart=True)
    assert terminal.end() == 0
    assert shown(terminal.seen) == "one two three four five\n\nsix\n"
    assert "Bash" in terminal.err
    assert "ls -la" in terminal.err


def test_tool_lines_are_dim_where_colour_is_welcome(tester: Cli) -> None:
    coloured = Terminal(tester, "send", "tester", "stream")
    assert coloured.end() == 0
    assert "\x1b[2m· Bash" in coloured.seen
    plain = Terminal(tester, "send", "tester", "stream", env={"NO_COLOR": "1"})
    assert plain.end() == 0
    assert "\x1b" not in plain.seen


def test_two_texts_are_two_lines_and_none_is_printed_again(tester: Cli) -> None:
    terminal = Terminal(tester, "send", "tester", "two texts", stderr_apart=True)
    assert terminal.end() == 0
    assert shown(terminal.seen) == "first text\nsecond text\n"


def test_quiet_has_no_tool_lines(tester: Cli) -> None:
    terminal = Terminal(tester, "-q", "send", "tester", "stream", stderr_apart=True)
    assert (terminal.end(), terminal.err) == (0, "")


def test_escape_sequences_of_an_agent_are_shown_not_obeyed(tester: Cli) -> None:
    terminal = Terminal(tester, "send", "tester", "nasty")
    assert terminal.end() == 0
    for control in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\u202e", "\r"):
        assert control not in terminal.seen, repr(terminal.seen)
    assert "␛]0;owned␇␛[2Jhello" in terminal.seen
    for args in (["log", "tester"], ["show", "tester"], ["status"], ["watch", "--now"], ["log", "tester", "--raw"]):
        look = Terminal(tester, *args)
        look.end()
        for control in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\u202e"):
            assert control not in look.seen, (args, look.seen)


def test_an_error_of_an_agent_is_no_escape_sequence_either(tester: Cli) -> None:
    terminal = Terminal(tester, "send", "tester", "fail", stderr_apart=False)
    assert terminal.end() == 1
    assert "\x1b[2J" not in terminal.seen
    assert "auth" in terminal.seen


def test_a_pipe_gets_every_byte_as_it_was_said(tester: Cli) -> None:
    assert tester("send", "tester", "nasty").out == NASTY + "\n"
    assert tester("send", "echo", NASTY).out == NASTY + "\n"
    assert tester("send", "tester", "stream").out == "one two three four five\n\nsix\n"


def test_a_reply_that_was_not_streamed_is_printed(tester: Cli) -> None:
    terminal = Terminal(tester, "send", "echo", "quiet one", stderr_apart=True)
    assert terminal.end() == 0
    assert shown(terminal.seen) == "quiet one\n"


def test_on_a_terminal_nobody_is_asked_for_a_prompt(tester: Cli) -> None:
    terminal = Terminal(tester, "send", "tester")
    assert terminal.end() == 2
    assert "there is no prompt" in terminal.seen


def test_an_interrupt_on_a_terminal_says_what_became_of_the_turn(tester: Cli) -> None:
    tester.config("agents:\n  slow: {command: [sleep, '30']}\n")
    terminal = Terminal(tester, "send", "slow", "hi")
    tester.shell('until beam status --json | grep -q \'"state":"running"\'; do sleep 0.1; done', timeout=20)
    terminal.interrupt()
    assert terminal.end() == 130
    assert "cancelled" in terminal.seen
    assert "Traceback" not in terminal.seen


@pytest.mark.parametrize(
    "args", [["status"], ["agent", "list", "--all"], ["queue", "list"], ["doctor"], ["log", "echo"], ["watch", "--now"]]
)
def test_tables_fit_the_terminal(tester: Cli, args: list[str]) -> None:
    tester("send", "echo", "a long text " * 30)
    tester.config("agents:\n  box: {mailbox: true}\n  echo: {command: [cat]}\n")
    tester("send", "box", "--no-wait", "another long text " * 30)
    terminal = Terminal(tester, *args)
    assert terminal.end() in (0, 13)
    lines = shown(terminal.seen).splitlines()
    assert len(lines) >= 2, lines
    assert max(map(len, lines)) <= 80, "\n".join(lines)


@pytest.mark.parametrize("args", [["status"], ["agent", "list", "--all"], ["doctor"]])
def test_no_colour_is_obeyed(tester: Cli, args: list[str]) -> None:
    tester("send", "echo", "hi")
    terminal = Terminal(tester, *args, env={"NO_COLOR": "1"})
    terminal.end()
    assert "\x1b" not in terminal.seen
