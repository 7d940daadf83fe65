"""The input line of a chat: keys, questions, completion, and what is printed above it; keys come from a pipe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from beam.cli.chatting import composer
from beam.cli.chatting.composer import Composer
from beam.cli.chatting.transcript import Style
from beam.cli.chatting.turns import Turns
from beam.model import events
from tests.support.chatting import Library

pytestmark = pytest.mark.slow

UP, LEFT = "\x1b[A", "\x1b[D"
PATIENCE_S = 10.0


async def until(claim: Callable[[], bool]) -> None:
    """Waits until the claim holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.001)


class Typed:
    """A composer that runs, whose keys are `type`d."""

    def __init__(self, keys: Any) -> None:
        self.keys = keys
        self.rows = ["one", "two"]
        self.widths: set[int] = set()
        self.submitted: list[str] = []
        self.answered: list[str] = []
        self.heard: list[str] = []
        self.ends = False
        self.found: dict[str, list[tuple[str, int, str]]] = {}
        self.composer = Composer(
            live=self.live,
            words=lambda before: self.found.get(before, []),
            history=["first", "second"],
            submit=self.submitted.append,
            answer=self.answered.append,
            interrupt=self.interrupt,
            leave=lambda: self.heard.append("leave"),
        )

    def live(self, columns: int) -> list[str]:
        self.widths.add(columns)
        return list(self.rows)

    def interrupt(self) -> bool:
        self.heard.append("interrupt")
        return self.ends

    def remembered(self) -> list[str]:
        """What ^R and the up key find."""
        return list(self.composer._session.history.get_strings())

    async def type(self, text: str, shown: str | None = None) -> None:
        """Types, and waits until the input is as `shown`."""
        self.keys.send_text(text)
        if shown is not None:
            await until(lambda: self.composer.text == shown)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Typed], Coroutine[Any, Any, None]]], None]:
    monkeypatch.setattr(composer, "_GREETING_S", 0.001)
    monkeypatch.setattr(composer, "_REFRESH_S", 0.005)
    monkeypatch.setattr(composer, "_QUESTION_S", 0.0)
    monkeypatch.setattr(composer, "_terminal_output", DummyOutput)

    def played(test: Callable[[Typed], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            with create_pipe_input() as keys:
                monkeypatch.setattr(composer, "create_input", lambda _: keys)
                typed = Typed(keys)
                running = asyncio.ensure_future(typed.composer.run("hello"))
                await until(lambda: typed.composer._session.app.is_running)
                await test(typed)
                typed.composer.close()
                await asyncio.wait_for(running, PATIENCE_S)
                typed.composer.close()

        asyncio.run(run())

    return played


def test_the_greeting_is_printed_once_keys_are_read(play: Any, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    async def test(typed: Typed) -> None:
        while not seen or not seen[-1]:
            seen.append(capsys.readouterr().out)
            await asyncio.sleep(0.001)

    play(test)
    assert (seen[-1], capsys.readouterr().out) == ("hello\n", "")


def test_enter_sends_what_is_typed_and_remembers_it_unless_it_is_blank(play: Any) -> None:
    async def test(typed: Typed) -> None:
        await typed.type("hi", "hi")
        await typed.type("\r", "")
        await typed.type("  \r", "")
        await until(lambda: typed.submitted == ["hi", "  "])
        assert typed.remembered() == ["first", "second", "hi"]

    play(test)


@pytest.mark.parametrize("key", ["\\\r", "\x1b\r", "\n"])
def test_a_line_break_is_typed_in_three_ways(play: Any, key: str) -> None:
    async def test(typed: Typed) -> None:
        await typed.type(f"one{key}two\r")
        await until(lambda: typed.submitted == ["one\ntwo"])

    play(test)


def test_a_backslash_before_the_end_of_the_text_is_sent(play: Any) -> None:
    async def test(typed: Typed) -> None:
        await typed.type("a\\", "a\\")
        await typed.type(f"b{LEFT}\r", "")
        assert typed.submitted == ["a\\b"]
        await typed.type("c\\\nd", "c\\\nd")
        await typed.type(f"{UP}\r", "")
        assert typed.submitted[1] == "c\\\nd", "the cursor was not at its end"

    play(test)


def test_an_interrupt_clears_the_input_unless_it_ended_a_turn(play: Any) -> None:
    async def test(typed: Typed) -> None:
        await typed.type("half", "half")
        typed.ends = True
        await typed.type("\x03")
        await until(lambda: typed.heard == ["interrupt"])
        assert typed.composer.text == "half"
        typed.ends = False
        await typed.type("\x03", "")
        await typed.type("\x03")
        await until(lambda: len(typed.heard) == 3)
        assert typed.remembered() == ["first", "second", "half"]

    play(test)


def test_the_end_of_input_leaves_an_empty_line_and_deletes_in_another(play: Any) -> None:
    async def test(typed: Typed) -> None:
        await typed.type("abc", "abc")
        await typed.type("\x01\x04", "bc")
        assert typed.heard == []
        await typed.type("\x0b", "")
        await typed.type("\x04")
        await until(lambda: typed.heard == ["leave"])

    play(test)


def test_tab_completes_one_word_and_offers_several(play: Any) -> None:
    async def test(typed: Typed) -> None:
        typed.found = {"to he": [("here", -2, "a place")], "to b": [("bay", -1, "water"), ("box", -1, "wood")]}
        await typed.type("to he", "to he")
        await typed.type("\t", "to here")
        await typed.type("\r", "")
        assert typed.submitted == ["to here"]
        await typed.type("x\t", "x")
        await typed.type("\x03", "")
        await typed.type("to b", "to b")
        await typed.type("\t")
        await until(lambda: typed.composer._buffer.complete_state is not None)
        state = typed.composer._buffer.complete_state
        assert state is not None
        offered = [(each.text, each.start_position, each.display_meta_text) for each in state.completions]
        assert offered == [("bay", -1, "water"), ("box", -1, "wood")]
        await typed.type("\t", "to bay")
        await typed.type("\t", "to box")
        await typed.type("\r")
        await until(lambda: typed.composer._buffer.complete_state is None)
        assert (typed.composer.text, len(typed.submitted)) == ("to box", 1), "the first Enter takes the word"
        await typed.type("\r", "")
        assert typed.submitted[1] == "to box"

    play(test)


def test_a_question_takes_the_input_and_gives_the_draft_back(play: Any) -> None:
    async def test(typed: Typed) -> None:
        line = typed.composer
        await typed.type("draft", "draft")
        line.ask("Sure?")
        assert line.text == ""
        assert line._prompt_text()[-1] == ("bold", "Sure? ")
        await typed.type("yes\r", "")
        await until(lambda: typed.answered == ["yes"])
        assert typed.submitted == []
        line.put_back("before")
        assert line.text == ""
        await typed.type("half", "half")
        typed.ends = False
        await typed.type("\x03")
        await until(lambda: typed.heard == ["interrupt"])
        assert line.text == "half", "an answer is not cleared"
        line.ask("Really?")
        assert line.text == "half"
        line.ask("")
        assert line.text == "before\ndraft"
        assert line._prompt_text()[-1] == ("bold", "> ")
        line.ask("")
        assert line.text == "before\ndraft"

    play(test)


def test_what_is_typed_as_a_question_appears_is_no_answer_to_it(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(typed: Typed) -> None:
        monkeypatch.setattr(composer, "_QUESTION_S", 3600.0)
        typed.composer.ask("Sure?")
        await typed.type("yes", "yes")
        await typed.type("\r", "")
        assert (typed.answered, typed.submitted) == ([], [])
        typed.composer._asked_at -= 3600.0
        typed.composer.ask("Sure?")
        await typed.type("yes\r", "")
        await until(lambda: typed.answered == ["yes"])

    play(test)


def test_what_was_typed_for_an_ask_is_no_answer_to_the_next_one(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(typed: Typed) -> None:
        turns = Turns(Library(), Style(is_colourful=False), lambda _: None, typed.composer.ask)  # type: ignore[arg-type]
        await typed.type("draft", "draft")
        for ask_id in ("one", "two"):
            turns._on_event(events.PermissionAsked(agent="bot", ask_id=ask_id, tool="Bash", expires="2999"))
        await typed.type("yes", "yes")
        monkeypatch.setattr(composer, "_QUESTION_S", 60.0)
        typed.composer._asked_at -= 60.0
        turns._on_event(events.PermissionDecided(ask_id="one", decision="allow", by="you"))
        assert typed.composer.text == ""
        await typed.type("yes", "yes")
        await typed.type("\r", "")
        assert typed.answered == []
        turns._on_event(events.PermissionDecided(ask_id="two", decision="allow", by="you"))
        assert typed.composer.text == "draft"

    play(test)


def test_what_is_put_back_stands_before_what_is_typed(play: Any) -> None:
    async def test(typed: Typed) -> None:
        typed.composer.put_back("one")
        assert typed.composer.text == "one"
        typed.composer.put_back("zero")
        assert typed.composer.text == "zero\none"

    play(test)


def test_the_rows_above_the_input_are_drawn_anew_when_they_change(
    play: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(typed: Typed) -> None:
        assert typed.composer._prompt_text() == [("", "one\n"), ("fg:ansibrightblack", "two\n"), ("bold", "> ")]
        assert typed.widths == {DummyOutput().get_size().columns}
        await until(lambda: "hello" in capsys.readouterr().out)
        await until(lambda: typed.composer._drawn == ["one", "two"])
        refreshed: list[int] = []
        refresh = typed.composer.refresh
        monkeypatch.setattr(typed.composer, "refresh", lambda: refreshed.append(1) or refresh())

        def changed() -> bool:
            typed.rows = [*typed.rows, "more"]
            return bool(refreshed)

        await until(changed)
        typed.rows = ["three →"]
        await until(lambda: typed.composer._drawn == ["three →"])
        typed.composer._ascii = True
        assert typed.composer._prompt_text()[0] == ("fg:ansibrightblack", "three ->\n")

    play(test)


def test_lines_are_printed_above_the_input_and_below_all_else_without_one(
    play: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[Composer] = []

    async def test(typed: Typed) -> None:
        lines.append(typed.composer)
        await until(lambda: capsys.readouterr().out == "hello\n")
        typed.composer.say([])
        typed.composer.say(line for line in ("one", "two"))
        assert capsys.readouterr().out == "one\ntwo\n"

    play(test)
    lines[0].say(["three"])
    lines[0].refresh()
    assert capsys.readouterr().out == "three\n"


def test_a_chat_that_is_over_before_it_began_reads_nothing(
    play: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run() -> None:
        with create_pipe_input() as keys:
            monkeypatch.setattr(composer, "create_input", lambda _: keys)
            typed = Typed(keys)
            typed.composer.close()
            await asyncio.wait_for(typed.composer.run("hello"), PATIENCE_S)
            await asyncio.sleep(0.01)

    asyncio.run(run())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "completes"),
    [("@a", True), ("see @a", True), ("/he", True), ("see /he", False), ("word", False), ("", False)],
)
def test_while_one_types_commands_and_files_are_completed(text: str, completes: bool) -> None:
    assert composer._may_complete(Document(text)) is completes


def test_a_terminal_without_a_size_has_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([OSError(), (0, 0), (33, 7)])

    def size(number: int) -> Any:
        assert number == 1
        found = next(sizes)
        if isinstance(found, OSError):
            raise found
        import os

        return os.terminal_size(found)

    monkeypatch.setattr(composer.os, "get_terminal_size", size)
    found = [composer._terminal_size() for _ in range(3)]
    assert [(each.rows, each.columns) for each in found] == [(24, 80), (24, 80), (7, 33)]
