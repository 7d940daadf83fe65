"""Typing: pasted once, seen, Enter apart, and never more Enters than three."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from beam.agents import registry
from beam.agents.base import HasTerminal
from beam.agents.claude.screen import profile as CLAUDE
from beam.agents.python import profile as PYTHON
from beam.base.errors import UnsupportedError
from beam.model.screen_profile import Profile
from beam.pty_adapter import typing
from beam.pty_adapter.screen import View
from beam.pty_adapter.turn_end import State, TurnEnd

RULE = "─" * 60


class KeyPort:
    """An agent in a clock of its own: what is pasted stands in its composer, an Enter after `deaf` others takes it."""

    def __init__(self, profile: Profile, *, deaf: int = 0, blind: bool = False, pastes: bool = True) -> None:
        self.clock = 0.0
        self.typed = ""
        self.log: list[str] = []
        self.echo_s = 0.0  # until it shows what was pasted
        self.times: list[float] = []  # of a paste, its echo, and each key
        self.pasted: list[str] = []
        self.pressed: list[str] = []
        self.deaf, self.blind, self.pastes = deaf, blind, pastes
        self.end = TurnEnd(profile, now=0.0)
        self.shell = profile.at_cursor

    def view(self) -> View:
        if self.shell:
            lines = self.typed.split("\n")
            rows = (*self.log, *(f">>> {line}".rstrip() for line in lines))
            return View(rows=rows, columns=60, row=len(rows) - 1, column=4 + len(lines[-1]))
        shown = "" if self.blind else self.typed
        composer = ("❯ " + shown.replace("\n", "\n  ")).rstrip().split("\n")
        return View(rows=(*self.log, RULE, *composer, RULE, "  ? for shortcuts"), columns=60)

    def now(self) -> float:
        return self.clock

    def reads_keys(self) -> bool:
        return True

    def takes_pastes(self) -> bool:
        return self.pastes

    async def paste(self, text: str) -> None:
        self.pasted.append(text)
        self.times.append(self.clock)
        self.clock += self.echo_s
        self.times.append(self.clock)
        self.typed += text

    async def press(self, keys: str) -> None:
        self.pressed.append(keys)
        self.times.append(self.clock)
        if keys != "\r":
            self.typed += keys
        elif self.deaf:
            self.deaf -= 1
        else:
            self.log += [f"{'>>>' if self.shell else '❯'} {line}" for line in self.typed.split("\n")]
            self.typed = ""

    async def until(self, claim: typing.Claim, seconds: float) -> bool:
        last = self.clock + seconds
        while not claim():
            if self.clock >= last:
                return False
            self.clock += 0.05
            self.end.look(self.view(), self.clock)
        return True


def said(port: KeyPort, text: str, *, command: bool = False) -> list[typing.Segment]:
    async def scene() -> list[typing.Segment]:
        assert await port.until(lambda: port.end.state is State.READY, 5)
        return await typing.type_message(port, port.end, text, command=command)

    return asyncio.run(scene())


@pytest.mark.parametrize(("echo_s", "wanted"), [(0.0, 0.3), (0.6, 0.6), (5.0, 1.0)])
def test_enter_follows_a_paste_as_late_as_its_echo_came(echo_s: float, wanted: float) -> None:
    port = KeyPort(CLAUDE)
    port.echo_s = echo_s
    said(port, "hello")
    _, echoed, entered = port.times
    assert wanted <= entered - echoed < wanted + 0.2


def test_a_message_is_pasted_once_and_entered_once() -> None:
    port = KeyPort(CLAUDE)
    said(port, "hello\n  there")
    assert (port.pasted, port.pressed) == (["hello\n  there"], ["\r"])
    assert port.end.state is State.ACCEPTED


@pytest.mark.slow
@pytest.mark.parametrize("deaf", [1, 2])
def test_a_lost_enter_is_pressed_again_and_the_text_never_pasted_again(deaf: int) -> None:
    port = KeyPort(CLAUDE, deaf=deaf)
    said(port, "hello")
    assert (port.pasted, port.pressed) == (["hello"], ["\r"] * (deaf + 1))


@pytest.mark.slow
def test_enter_is_pressed_three_times_at_most() -> None:
    port = KeyPort(CLAUDE, deaf=10)
    said(port, "hello")
    assert (port.pasted, port.pressed) == (["hello"], ["\r"] * 3)


@pytest.mark.slow
def test_a_text_that_is_not_shown_is_not_entered() -> None:
    port = KeyPort(CLAUDE, blind=True)
    with pytest.raises(typing.NotTakenError, match="did not show"):
        said(port, "hello")
    assert port.pressed == []


def test_an_agent_without_pastes_that_should_have_them_gets_nothing() -> None:
    port = KeyPort(CLAUDE, pastes=False)
    with pytest.raises(typing.NotTakenError, match="pastes"):
        said(port, "hello")
    assert (port.pasted, port.pressed) == ([], [])


def test_an_agent_that_ends_while_it_is_waited_for_gets_nothing() -> None:
    class Dying(KeyPort):
        def reads_keys(self) -> bool:
            self.end.on_exited(self.clock)
            return True

    port = Dying(CLAUDE)
    with pytest.raises(typing.NotTakenError, match="ended"):
        said(port, "hello")
    assert (port.pasted, port.pressed) == ([], [])


@pytest.mark.parametrize("text", ["!rm -rf x", "/quit", "#note", "@file"])
def test_a_message_never_becomes_a_command(text: str) -> None:
    port = KeyPort(CLAUDE)
    said(port, text)
    assert port.pasted == [f" {text}"]


class Asks(KeyPort):
    """An agent that asks something after `asks_at` seconds; `after_paste`: so long after the paste was shown."""

    asks_at, asks_until, after_paste = 1.0, 1e9, False

    def view(self) -> View:
        since = self.times[1] if self.after_paste and self.times else 0.0
        if not self.asks_at <= self.clock - since < self.asks_until or (self.after_paste and not self.times):
            return super().view()
        self.pastes = True
        return View(rows=(RULE, " ❯ 1. Yes, I trust this folder", "   2. No, exit"), columns=60)


def test_an_agent_that_asks_something_while_it_is_waited_for_gets_nothing() -> None:
    port = Asks(CLAUDE, pastes=False)
    with pytest.raises(typing.NotTakenError, match="waiting"):
        said(port, "hello")
    assert not (port.pasted or port.pressed)


@pytest.mark.parametrize("until", [1e9, 0.26])
def test_no_enter_is_pressed_into_a_dialog_that_comes_after_the_text_nor_once_somebody_answered_it(
    until: float,
) -> None:
    port = Asks(CLAUDE)
    port.asks_at, port.asks_until, port.after_paste = 0.2, until, True
    with pytest.raises(typing.NotTakenError, match="asked something"):
        said(port, "hello")
    assert (port.pasted, port.pressed) == (["hello"], [])


def test_a_command_is_typed_plainly() -> None:
    port = KeyPort(CLAUDE)
    said(port, "/context", command=True)
    assert (port.pasted, port.pressed) == ([], ["/context", "\r"])


def test_a_text_that_ends_with_line_breaks_is_taken_by_a_line_editor() -> None:
    """It would show an empty row for each of them."""
    port = KeyPort(structs.replace(PYTHON, by_line=False))
    said(port, "a text\n\nwith a file\n\n")
    assert (port.pasted, port.pressed) == (["a text\n\nwith a file"], ["\r"])


def test_lines_are_typed_one_after_another_where_the_agent_reads_lines() -> None:
    port = KeyPort(PYTHON, pastes=False)
    segments = said(port, "a = 1\n\tb\n")
    assert port.pressed == ["a = 1", "\r", "\x16\tb", "\r"]
    assert [(segment.start, segment.end) for segment in segments] == [(1, 1), (2, None)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gemini", "/quit"),
        ("gemini", " ?"),
        ("qwen", "/x"),
        ("copilot", "!rm -rf x"),
        ("copilot", " !x"),
        ("opencode", "exit"),
    ],
)
def test_a_text_that_would_be_a_command_whatever_stands_before_it_is_refused(name: str, text: str) -> None:
    adapter = registry.adapter(name)
    assert isinstance(adapter, HasTerminal)
    with pytest.raises(UnsupportedError, match="command"):
        typing.check_message(name, adapter.terminal.profile, text)
    typing.check_message(name, adapter.terminal.profile, text, command=True)
    typing.check_message(name, adapter.terminal.profile, f"say {text}")
