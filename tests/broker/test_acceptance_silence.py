"""Nobody waits in silence: whose turn a message is behind, and on a terminal what goes on meanwhile."""

from __future__ import annotations

import re

import pytest

from beam.pty_adapter.screen import Screen
from tests.support.cli import BEAM_WORDS, Cli, eventually
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance

SLOW = """\
agents:
  slow:
    adapter: scripted
    script: slow.yaml
"""
SCRIPT = """\
rules:
  - match: quick
    reply: quick answer
default:
  - usage: {{input_tokens: 13000, output_tokens: 300}}
  - tool: {{name: Bash, input: {{command: make test}}, delay: {seconds}}}
  - slow answer
"""


@pytest.fixture
def busy(beam: Cli) -> Cli:
    """Its agent `slow` makes a call that lasts 6 s, but for a prompt with `quick`."""
    return with_calls_of(beam, 6)


def with_calls_of(beam: Cli, seconds: float) -> Cli:
    beam.config(SLOW)
    (beam.project / "slow.yaml").write_text(SCRIPT.format(seconds=seconds))
    return beam


def said(err: str) -> list[str]:
    """The lines, without what is said of the way in which tests trust their folder."""
    return [line for line in err.splitlines() if "BEAM_TRUST" not in line and line != "y are"]


def begun(beam: Cli) -> str:
    """The id of a message whose turn makes its call now."""
    first = beam("send", "slow", "--no-wait", "x").out.strip()
    eventually(lambda: "tool.called" in beam.types("slow"), what="its turn does not call the tool")
    return first


@pytest.mark.parametrize("option", ["", "--json", "--events"])
def test_who_waits_is_told_once_whose_turn_it_is_behind_and_what_that_does(busy: Cli, option: str) -> None:
    first = begun(busy)
    done = busy("send", "slow", "quick", *([option] if option else []))
    assert done.code == 0 and "quick answer" in done.out
    (line,) = said(done.err)
    assert re.fullmatch(rf"beam: behind {first} \(\d+m?s, Bash: make test, 13,300 tokens\)", line)
    assert "\r" not in done.err and "\x1b" not in done.err and "behind" not in done.out


def test_who_waits_later_is_told_it_too(busy: Cli) -> None:
    first = begun(busy)
    second = busy("send", "slow", "--no-wait", "quick").out.strip()
    done = busy("wait", second[-6:])
    assert (done.code, done.out) == (0, "quick answer\n")
    assert done.err.startswith(f"beam: behind {first} (") and done.err.count("\n") == 1


def test_with_q_nothing_is_said_and_of_ones_own_turn_nothing_in_a_pipe(busy: Cli) -> None:
    first = begun(busy)
    assert busy("-q", "send", "slow", "quick").err == ""
    assert busy("wait", first).err == ""
    done = busy("send", "slow", "x")
    assert (done.code, done.out, said(done.err)) == (0, "slow answer\n", [])


def test_an_agent_that_waits_for_another_is_told_nothing(busy: Cli) -> None:
    (busy.project / "turn.sh").write_text(f"{BEAM_WORDS} send slow quick 2>&1 </dev/null\n")
    busy.config(SLOW + "  asker: {command: [sh, turn.sh]}\n")
    begun(busy)
    done = busy("send", "asker", "go")
    assert (done.code, done.out) == (0, "quick answer\n")


def screen_of(seen: str) -> list[str]:
    """The rows of the terminal that got that, those without text left out."""
    screen = Screen(200, 24)  # wider than the terminal: a note that it wraps is one row here
    screen.feed(seen.replace("\n", "\r\n").encode())
    return [row for row in screen.view().rows if row]


def test_at_a_terminal_a_line_tells_the_time_the_call_and_the_tokens_and_is_gone_in_the_end(busy: Cli) -> None:
    terminal = Terminal(busy, "send", "slow", "x")
    seen = terminal.until("13,300 tokens", 30)
    assert "Bash: make test" in screen_of(seen)[-1] and screen_of(seen)[-1].startswith("slow-")
    terminal.until("slow answer", 30)
    assert terminal.end() == 0
    rows = screen_of(terminal.seen)
    assert rows[-1] == "slow answer" and not any("tokens" in row for row in rows[:-1]), rows
    times = re.findall(r"slow-\w+: (\d+)s, Bash", terminal.seen)
    assert len(set(times)) >= 2 and times == sorted(times, key=int), times


def test_at_a_terminal_the_line_tells_whose_turn_a_message_is_behind_and_then_its_own(beam: Cli) -> None:
    with_calls_of(beam, 8)
    first = begun(beam)
    terminal = Terminal(beam, "send", "slow", "quick")
    terminal.until(f"beam: behind {first} (", 30)
    terminal.until("\x1b[Kbehind ", 30)
    terminal.until("quick answer", 30)
    assert terminal.end() == 0
    rows = said("\n".join(screen_of(terminal.seen)))
    assert rows[0].startswith(f"beam: behind {first} (") and rows[-1] == "quick answer", rows
    assert sum("behind" in row for row in rows) == 1, rows


@pytest.mark.parametrize("options", [["-q", "send"], ["send", "--json"], ["send", "--events"]])
def test_at_a_terminal_no_line_is_drawn_with_q_or_for_programs(busy: Cli, options: list[str]) -> None:
    terminal = Terminal(busy, *options, "slow", "x")
    assert terminal.end() == 0
    assert "\x1b[K" not in terminal.seen and "make test," not in terminal.seen


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"CI": "true"}])
def test_where_nothing_can_be_rewritten_no_line_is_drawn(busy: Cli, env: dict[str, str]) -> None:
    terminal = Terminal(busy, "send", "slow", "x", env=env)
    assert terminal.end() == 0
    assert "\x1b[K" not in terminal.seen and "13,300" not in terminal.seen


def test_a_line_of_the_terminal_is_gone_when_who_waits_presses_c(busy: Cli) -> None:
    terminal = Terminal(busy, "send", "slow", "x")
    terminal.until("13,300 tokens", 30)
    terminal.interrupt()
    assert terminal.end() == 130
    assert not any("tokens" in row for row in screen_of(terminal.seen)), terminal.seen


def test_who_waits_for_a_mailbox_sees_for_how_long(beam: Cli) -> None:
    beam.config("agents:\n  desk: {adapter: mailbox}\n")
    terminal = Terminal(beam, "send", "desk", "Ship it?")
    terminal.until(" waits, 4s", 30)
    message = beam("recv", "desk", "--json").json["id"]
    terminal.until(f"{message}: ", 30)
    assert beam("reply", message, "yes").code == 0
    terminal.until("yes", 30)
    assert terminal.end() == 0
    assert screen_of(terminal.seen)[-1] == "yes"
