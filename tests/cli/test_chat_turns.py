"""The turns of a chat: what is printed, asked, told to the agent and taken back while one runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec import Raw

from beam.api.progress import Progress
from beam.base.errors import BeamError, NotFoundError, SignalledError, UnfinishedError, UnsupportedError
from beam.cli.chatting import turns
from beam.cli.chatting.transcript import Style
from beam.cli.chatting.turns import Turns, UnreadText, typed_lines
from beam.model import events
from tests.support.chatting import Library, Turn, going, message, outcome, settled

FAR = "2999-01-01T00:00:00Z"
MESSAGE = message("bot-1")
YES_OR_NO = "Allow it? [yes / no, and why / stop]"
ALWAYS = "Allow it? [yes / no, and why / always / stop]"


class Chat:
    """Turns whose library and whose terminal are stand-ins."""

    def __init__(self, *, asks: bool = True) -> None:
        self.beam = Library()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.seen: list[events.Event] = []
        ask = self.asked.append if asks else None
        self.turns = Turns(self.beam, Style(is_colourful=False), self.said.extend, ask, seen=self.seen.append)  # type: ignore[arg-type]
        self.turn = Turn()
        self.beam.deliver.answers = [self.turn]

    def taken(self) -> list[str]:
        said, self.said[:] = list(self.said), []
        return said


def play(test: Callable[[Chat], Coroutine[Any, Any, None]], **more: Any) -> None:
    async def played() -> None:
        await test(Chat(**more))

    asyncio.run(played())


def asked(ask_id: str = "bot-ask-1", **more: Any) -> events.PermissionAsked:
    given: dict[str, Any] = {
        "agent": "bot",
        "ask_id": ask_id,
        "tool": "Bash",
        "description": "ls",
        "expires": FAR,
        **more,
    }
    return events.PermissionAsked(**given)


def test_a_turn_is_printed_as_it_goes_and_its_figures_when_it_is_over() -> None:
    async def test(chat: Chat) -> None:
        async with going(chat.turns.run(MESSAGE)) as run:
            assert chat.turns.message is MESSAGE and not chat.turns.has_begun
            chat.turn.begin()
            assert chat.turns.has_begun
            chat.turn.event(events.Text(text="hello"))
            image = events.ImageSeen(agent="bot", path="images/x.png", media_type="image/png")
            chat.turn.event(image)
            assert chat.taken() == ["hello", "  image png /root/bot/images/x.png"]
            assert chat.seen[-1] is image
            chat.turn.end.set_result(outcome(reply="hello"))
            assert await run == outcome(reply="hello")
        assert chat.taken() == ["  turn 1"]
        assert (chat.turns.message, chat.turns.live_rows(80), chat.asked) == (None, [], [""])
        assert chat.beam.deliver.calls[0][0][0] is MESSAGE

    play(test)


def test_a_turn_that_a_signal_ended_is_reported_before_the_chat_ends() -> None:
    async def test(chat: Chat) -> None:
        ended = SignalledError(2)
        ended.outcome = outcome(turn=4)
        chat.beam.deliver.answers = [ended, SignalledError(15)]
        with pytest.raises(SignalledError):
            await chat.turns.run(MESSAGE)
        assert chat.taken() == ["  turn 4"]
        with pytest.raises(SignalledError):
            await chat.turns.run(MESSAGE)
        assert (chat.taken(), chat.turns.message) == ([], None)

    play(test)


def test_the_rows_below_say_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(turns.time, "monotonic", lambda: now[0])

    async def test(chat: Chat) -> None:
        async with going(chat.turns.run(MESSAGE)):
            now[0] = 100.9
            assert chat.turns.live_rows(80) == ["…"]
            now[0] = 101.0
            assert chat.turns.live_rows(80) == ["… bot-1 waits, 1s"]
            chat.beam.shown = Progress(message_id="other-1", seconds=7.0)
            now[0] = 108.0
            assert chat.turns.live_rows(80) == ["… behind other-1 (7s)"]
            assert chat.turns.live_rows(12) == ["… behind o…"]
            chat.turn.begin()
            chat.turn.event(events.TextDelta(text="hel"))
            chat.turns.unread = ["look\nhere"]
            now[0] = 110.0
            assert chat.turns.live_rows(80) == ["hel", "  → look here (not read yet)", "… 2s"]
            assert chat.turns.live_rows(20)[1] == "  → look here (not…"

    play(test)


def test_an_ask_is_a_question_until_it_is_answered_and_the_next_one_comes_after_it() -> None:
    async def test(chat: Chat) -> None:
        async with going(chat.turns.run(MESSAGE)):
            chat.turn.begin()
            chat.turn.event(asked("a", expires=None))
            assert (chat.taken(), chat.asked) == ([], [])
            chat.turn.event(asked("one"))
            offer = Raw(b'[{"destination":"session","rules":[{"toolName":"Bash","ruleContent":"ls"}]}]')
            chat.turn.event(asked("two", description="ps " + "x" * 200, suggestions=offer))
            assert (chat.taken(), chat.asked) == (["? bot asks for Bash: ls"], [YES_OR_NO])
            chat.turns.answer("perhaps")
            chat.turns.answer("  ")
            assert chat.taken() == ["  that is no answer to the question"]
            chat.turns.answer("yes")
            await settled()
            assert chat.beam.approve.calls == [(("one",), {"always": False})]
            chat.turn.event(events.PermissionDecided(ask_id="one", decision="allow", by="you"))
            first, question, whole, always = chat.taken()
            assert (first, always) == ("  allowed by you", "  always: Bash(ls), in this session")
            assert question.startswith("? bot asks for Bash: ps xx") and question.endswith("…")
            assert whole == f"  | ps {'x' * 200}"
            assert chat.asked == [YES_OR_NO, "", ALWAYS]
            chat.turns.answer("always")
            await settled()
            assert chat.beam.approve.calls[1] == (("two",), {"always": True})
            chat.turn.event(events.PermissionDecided(ask_id="two", decision="cancelled", why="over"))
            assert (chat.taken(), chat.asked[3:]) == (["  request withdrawn: over"], [""])
            chat.turns.answer("yes")
            await settled()
            assert len(chat.beam.approve.calls) == 2

    play(test)


def test_an_ask_that_takes_the_place_of_another_is_a_new_question_also_with_the_same_words() -> None:
    async def test(chat: Chat) -> None:
        async with going(chat.turns.run(MESSAGE)):
            chat.turn.event(asked("one"))
            chat.turn.event(asked("two"))
            chat.turn.event(asked("three"))
            chat.turn.event(events.PermissionDecided(ask_id="three", decision="deny", by="a rule"))
            assert chat.asked == [YES_OR_NO] * 2
            chat.turn.event(events.PermissionDecided(ask_id="one", decision="allow", by="you"))
            assert chat.asked[2:] == ["", YES_OR_NO]

    play(test)


def test_where_nobody_can_type_an_ask_is_printed_with_the_commands_that_answer_it() -> None:
    async def test(chat: Chat) -> None:
        async with going(chat.turns.run(MESSAGE)):
            chat.turn.event(asked("bot-0abc4k2xyz"))
            (line,) = chat.taken()
            assert line.startswith("  bot asks for Bash: ls; beam approve 4k2xyz, or beam deny 4k2xyz (")
            chat.turns.answer("yes")
            await settled()
            assert (chat.beam.approve.calls, chat.asked) == ([], [])

    play(test, asks=False)


@pytest.mark.parametrize(
    ("line", "errors", "denied", "said"),
    [
        ("no", [], [{"message": None, "stop": False}], []),
        ("stop", [], [{"message": None, "stop": True}], []),
        ("no too late", [], [{"message": "too late", "stop": False}], []),
        (
            *("no too late", [UnsupportedError("it takes none")]),
            [{"message": "too late", "stop": False}, {"stop": False}],
            ["  bot can't be told why; it is denied all the same"],
        ),
        ("no", [UnsupportedError("gone")], [{"message": None, "stop": False}], ["  ! gone"]),
        ("no late", [NotFoundError("no ask")], [{"message": "late", "stop": False}], ["  ! no ask"]),
    ],
)
def test_a_denial_is_reported_with_its_reason_where_the_agent_takes_one(
    line: str, errors: list[BeamError], denied: list[dict[str, Any]], said: list[str]
) -> None:
    async def test(chat: Chat) -> None:
        chat.beam.deny.answers = [*errors]
        async with going(chat.turns.run(MESSAGE)):
            chat.turn.event(asked("one"))
            chat.taken()
            chat.turns.answer(line)
            await settled()
            assert chat.beam.deny.calls == [(("one",), named) for named in denied]
            assert chat.taken() == said

    play(test)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, []),
        (NotFoundError("x"), []),
        (UnfinishedError("x"), []),
        (BeamError("no disk", "free it"), ["  ! no disk (free it)"]),
    ],
)
def test_an_interrupt_ends_the_turn_that_runs(error: BeamError | None, said: list[str]) -> None:
    async def test(chat: Chat) -> None:
        assert not chat.turns.interrupt()
        chat.beam.interrupt.answers = [error]
        async with going(chat.turns.run(MESSAGE)):
            assert not chat.turns.is_interrupted("bot-1")
            assert chat.turns.interrupt()
            assert chat.turns.is_interrupted("bot-1") and not chat.turns.is_interrupted("bot-2")
            await settled()
            assert chat.beam.interrupt.calls == [(("bot-1",), {})]
            assert chat.taken() == said

    play(test)


@pytest.mark.parametrize(
    ("error", "why", "steers"),
    [
        (UnsupportedError("it takes none"), "it takes none", False),
        (NotFoundError("x"), "", True),
        (UnfinishedError("x"), "", True),
        (BeamError("no disk"), "no disk", True),
    ],
)
def test_a_text_that_the_turn_does_not_read_comes_back_with_the_reason(
    error: BeamError, why: str, steers: bool
) -> None:
    async def test(chat: Chat) -> None:
        chat.beam.steer.answers = [error]
        back: list[UnreadText] = []
        async with going(chat.turns.run(MESSAGE)):
            chat.turns.steer("bot", "look", back.append)
            assert chat.turns.unread == ["look"]
            await settled()
            assert back == [UnreadText(text="look", why=why, is_interrupted=False)]
            assert (chat.turns.takes_steering, chat.turns.unread, chat.taken()) == (steers, [], [])
            chat.turns.interrupt()
            chat.beam.steer.answers = [error]
            chat.turns.steer("bot", "there", back.append)
            await settled()
            assert back[1] == UnreadText(text="there", why=why, is_interrupted=True)

    play(test)


def test_a_text_that_the_turn_read_is_printed() -> None:
    async def test(chat: Chat) -> None:
        async with going(chat.turns.run(MESSAGE)):
            chat.turns.steer("bot@x", "look\n\x1bhere", lambda _: pytest.fail("it was read"))
            await settled()
            assert chat.beam.steer.calls == [(("bot@x", "look\n\x1bhere"), {})]
            assert (chat.taken(), chat.turns.unread) == (["→ look", "→ ␛here"], [])

    play(test)


def test_what_runs_beside_the_turns_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(chat: Chat) -> None:
        await chat.turns.wait_for_tasks()
        done: list[str] = []

        async def work() -> None:
            await settled()
            done.append("work")

        chat.turns.start_task(work())
        await chat.turns.wait_for_tasks()
        assert done == ["work"]
        wait, limits = asyncio.wait, list[float]()

        async def soon(tasks: Any, timeout: float) -> Any:
            limits.append(timeout)
            return await wait(tasks, timeout=0)

        monkeypatch.setattr(asyncio, "wait", soon)
        chat.turns.start_task(asyncio.Event().wait())
        (task,) = chat.turns._tasks
        await chat.turns.wait_for_tasks()
        await settled()
        assert task.cancelled() and limits == [5] and not chat.turns._tasks

    play(test)


def test_what_a_person_sent_is_shown_under_its_mark() -> None:
    assert typed_lines("one\ntwo\x1b", Style(is_colourful=False)) == ["> one", "  two␛"]
    assert typed_lines("one\ntwo", Style(is_colourful=True), "you: ") == [
        "\x1b[1myou: one\x1b[0m",
        "\x1b[1m     two\x1b[0m",
    ]
