"""A conversation of several agents: whose turn it is, what is shown, and how a person steps in; without a terminal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam import LiveChat
from beam.base.errors import NotFoundError, SignalledError, UnsupportedError
from beam.cli.chatting import composer
from beam.cli.chatting.together import TogetherChat
from beam.cli.chatting.words import TOGETHER_COMMANDS, help_lines
from beam.conversations.scenario import Until
from beam.model import events
from beam.model.message import Options
from beam.model.outcome import Status, Usage
from tests.support.chatting import Library, Terminal, Turn, outcome, settled

ANN, BOB = Options(model="m1"), Options(model="m2")
WHO = "ann and bob talk; beam log ann@chat"


class Together:
    """A conversation of Ann and Bob, whose library and whose terminal are stand-ins."""

    def __init__(self, folder: Path, *, is_watched: bool, **until: Any) -> None:
        self.beam = Library()
        self.live = LiveChat(["ann", "bob"], "tea?", until=Until(**until))
        call: Any = SimpleNamespace(beam=self.beam, cwd=folder)
        self.chat = TogetherChat(call, self.live, "chat", {"ann": ANN, "bob": BOB}, is_watched=is_watched)
        self.terminal: Any = self.chat._composer
        if is_watched:
            self.enter: Callable[[str], None] = self.terminal.given["submit"]
            self.interrupt: Callable[[], bool] = self.terminal.given["interrupt"]
            self.leave: Callable[[], None] = self.terminal.given["leave"]

    def rows(self) -> list[str]:
        """What stands below all that was printed, without the time of a turn."""
        found: list[str] = self.terminal.given["live"](60)
        return [row for row in found if not row.startswith("…")]

    def next_turn(self) -> Turn:
        """The next turn, which goes on until it is told how it ends."""
        turn = Turn()
        self.beam.deliver.answers.append(turn)
        return turn


def said(reply: str, **more: Any) -> Any:
    """A turn's end."""
    return outcome(reply=reply, **more)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Has the test take part in a conversation; its exit code."""
    monkeypatch.setattr(composer, "Composer", Terminal)

    def played(
        test: Callable[[Together], Coroutine[Any, Any, None]], *answers: Any, is_watched: bool = True, **until: Any
    ) -> int:
        async def run() -> int:
            chat = Together(tmp_path, is_watched=is_watched, **until)
            chat.beam.deliver.answers = list(answers)
            running = asyncio.ensure_future(chat.chat.run())
            try:
                await test(chat)
                return await asyncio.wait_for(running, 5)
            finally:
                running.cancel()

        return asyncio.run(run())

    return played


async def nothing(_: Together) -> None:
    """Lets them talk."""


def test_they_talk_in_turns_until_the_limit(play: Any, capsys: pytest.CaptureFixture[str]) -> None:
    used = Usage(input_tokens=1000, output_tokens=200)
    talks: list[Together] = []

    async def test(chat: Together) -> None:
        talks.append(chat)

    replies = [said("with milk", usage=used, cost_usd=0.25), said("no", cost_usd=0.25), said("well")]
    assert play(test, *replies, is_watched=False, turns=3) == 0
    (chat,) = talks
    assert capsys.readouterr().out.splitlines() == [
        WHO,
        "",
        "── ann (1 of 3)",
        "with milk",
        "  turn 1 · 1,200 tokens · $0.2500",
        "",
        "── bob (2 of 3)",
        "no",
        "  turn 1 · $0.2500",
        "",
        "── ann (3 of 3)",
        "well",
        "  turn 1",
        f"ended: {chat.live.why} (3 of 3 turns · 1,200 tokens · $0.5000)",
    ]
    assert [(made[0], made[3]) for made in chat.beam.made] == [
        ("ann@chat", Options(model="m1", new=True)),
        ("bob@chat", Options(model="m2", new=True)),
        ("ann@chat", Options(model="m1", new=True)),
    ]
    assert "tea?" in chat.beam.made[0][1] and "with milk" in chat.beam.made[1][1]


def test_a_session_is_new_until_its_agent_has_had_a_turn(play: Any) -> None:
    talks: list[Together] = []

    async def test(chat: Together) -> None:
        talks.append(chat)
        turns = [chat.next_turn() for _ in range(3)]
        for turn in turns:
            await settled()
            turn.begin()
            turn.end.set_result(said("well"))

    assert play(test, turns=3) == 0
    assert [made[3].new for made in talks[0].beam.made] == [True, True, False]


@pytest.mark.parametrize(
    ("ended", "code", "why"),
    [
        (said("", status=Status.FAILED, exit_code=3), 3, "ann failed (failed) (1 of 20 turns)"),
        (said("", status=Status.CANCELLED, exit_code=9), 9, "ann was interrupted (0 of 20 turns)"),
        (NotFoundError("no such\nmodel"), 4, "ann: no such model (0 of 20 turns)"),
        (said(" "), 0, "ann fell silent (1 of 20 turns)"),
    ],
)
def test_a_turn_that_fails_ends_the_conversation_with_its_code(
    play: Any, capsys: pytest.CaptureFixture[str], ended: Any, code: int, why: str
) -> None:
    assert play(nothing, ended, is_watched=False) == code
    assert capsys.readouterr().out.splitlines()[-1] == f"ended: {why}"


def test_a_budget_that_is_used_up_in_a_turn_ends_that_turn(play: Any) -> None:
    async def test(chat: Together) -> None:
        turn = chat.next_turn()
        await settled()
        turn.begin()
        turn.event(events.UsageSeen(usage=Usage(output_tokens=99), turn=1))
        await settled()
        assert chat.beam.interrupt.calls == []
        turn.event(events.UsageSeen(usage=Usage(output_tokens=100), turn=1))
        turn.event(events.UsageSeen(usage=Usage(output_tokens=101), turn=1))
        await settled()
        assert chat.beam.interrupt.calls == [(("bot-1",), {})], "once"
        turn.end.set_result(said("", status=Status.CANCELLED, exit_code=9))

    assert play(test, is_watched=False, tokens=100) == 7


def test_a_person_watches_and_steps_in_as_anyone(play: Any) -> None:
    talks: list[Together] = []

    async def test(chat: Together) -> None:
        talks.append(chat)
        first, second = chat.next_turn(), chat.next_turn()
        await settled()
        assert chat.terminal.taken() == [f"{WHO}; /help lists the commands, ^D ends it", "", "── ann (1 of 20)"]
        assert (chat.terminal.given["history"], chat.rows()) == ((), ["0 of 20 turns"])
        chat.enter("hear\nme")
        chat.enter("/as bob  I like tea ")
        chat.enter("/as eve hi")
        chat.enter("/as bob")
        assert chat.terminal.taken() == [
            "  eve does not take part; ann, bob do",
            "  /as bob needs a text after it",
        ]
        assert chat.rows() == ["  waits: hear me", "  waits: I like tea", "0 of 20 turns"]
        first.end.set_result(said("milk?"))
        await settled()
        assert chat.terminal.taken() == [
            *("milk?", "  turn 1", "", "you: hear", "     me", "", "you (as bob): I like tea", "", "── ann (2 of 20)"),
        ]
        assert chat.beam.made[1][1] == "human:\n| hear\n| me\n\nbob:\n| I like tea"
        chat.leave()
        await settled()
        second.end.set_result(said("", status=Status.CANCELLED, exit_code=9))

    play(test)
    assert talks[0].live.why == "a person ended it"
    assert talks[0].beam.interrupt.calls == [(("bot-2",), {})]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/help", [f"  {line}" for line in help_lines(TOGETHER_COMMANDS)]),
        ("/next bob", ["  bob speaks next"]),
        ("/next eve", ["  eve does not take part; ann, bob do"]),
        ("/pause", ["  it stops after the running turn; /go goes on"]),
        ("/go", []),
        ("/drop", []),
        ("/usage", ["  0 of 20 turns"]),
        ("/nxt", ["  /nxt is no command of this chat; did you mean /next?"]),
        ("/steer look", ["  no turn runs that could take a text; without /steer everybody hears it"]),
        ("", []),
    ],
)
def test_a_command_says_what_it_does(play: Any, line: str, told: list[str]) -> None:
    async def test(chat: Together) -> None:
        turn = chat.next_turn()
        await settled()
        chat.terminal.taken()
        chat.enter(line)
        assert (chat.terminal.taken(), chat.terminal.back) == (told, [])
        chat.leave()
        await settled()
        turn.end.set_result(said(""))

    play(test)


def test_who_is_given_the_floor_speaks_next(play: Any) -> None:
    async def test(chat: Together) -> None:
        first, second = chat.next_turn(), chat.next_turn()
        await settled()
        chat.enter("/next ann")
        first.end.set_result(said("one"))
        await settled()
        assert [made[0] for made in chat.beam.made] == ["ann@chat", "ann@chat"]
        chat.enter("/quit")
        await settled()
        second.end.set_result(said("two"))

    play(test)


@pytest.mark.parametrize("line", ["/go", "", "what now?"])
def test_a_pause_is_after_the_running_turn_and_lasts_until_it_goes_on(play: Any, line: str) -> None:
    async def test(chat: Together) -> None:
        first, second = chat.next_turn(), chat.next_turn()
        await settled()
        chat.enter("/pause")
        chat.terminal.taken()
        assert chat.rows() == ["0 of 20 turns"]
        first.end.set_result(said("one"))
        await settled()
        assert chat.terminal.taken() == ["one", "  turn 1", "  paused: say something, or /go; ^D ends it"]
        assert (chat.rows(), len(chat.beam.made)) == (["paused; /go goes on · 1 of 20 turns"], 1)
        chat.enter(line)
        await settled()
        assert len(chat.beam.made) == 2
        chat.leave()
        await settled()
        second.end.set_result(said("two"))

    play(test)


def test_a_turn_that_a_person_interrupts_pauses_the_conversation(play: Any) -> None:
    async def test(chat: Together) -> None:
        first = chat.next_turn()
        await settled()
        assert chat.interrupt()
        await settled()
        first.end.set_result(said("", status=Status.CANCELLED, reason="interrupted", exit_code=9))
        await settled()
        assert chat.rows() == ["paused; /go goes on · 0 of 20 turns"]
        chat.terminal.taken()
        assert not chat.interrupt()
        assert chat.terminal.taken() == ["  ^D ends the conversation; /go goes on"]
        chat.terminal.text = "half"
        assert not chat.interrupt()
        assert chat.terminal.taken() == []
        chat.leave()

    assert play(test) == 0


def test_a_turn_that_somebody_else_interrupts_pauses_the_conversation_too(play: Any) -> None:
    async def test(chat: Together) -> None:
        await settled()
        assert chat.terminal.taken()[-1] == "  paused: say something, or /go; ^D ends it"
        assert len(chat.beam.made) == 1
        chat.leave()

    assert play(test, said("", status=Status.CANCELLED, reason="by ann", exit_code=9)) == 0


def test_a_text_for_the_running_turn_is_given_to_its_speaker_or_heard_by_everybody(play: Any) -> None:
    async def test(chat: Together) -> None:
        first, second = chat.next_turn(), chat.next_turn()
        await settled()
        first.begin()
        chat.terminal.taken()
        chat.beam.steer.answers = [None, UnsupportedError("it takes\nnone"), NotFoundError("over")]
        chat.enter("/steer look")
        await settled()
        assert chat.beam.steer.calls == [(("ann@chat", "look"), {})]
        assert chat.terminal.taken() == ["→ look"]
        chat.enter("/pause")
        chat.enter("/steer there")
        chat.enter("/steer here")
        await settled()
        assert chat.terminal.taken() == [
            "  it stops after the running turn; /go goes on",
            "  it takes none; everybody hears it instead",
            "  the turn was over before it read that; everybody hears it instead",
        ]
        assert chat.rows()[:-1] == ["  waits: there", "  waits: here"]
        chat.enter("/drop")
        assert (chat.terminal.back, chat.rows()) == (["there\nhere"], ["0 of 20 turns"])
        chat.beam.steer.answers = [NotFoundError("over")]
        chat.enter("/pause")
        chat.enter("/steer late")
        chat.interrupt()
        await settled()
        first.end.set_result(said("", status=Status.CANCELLED, exit_code=9))
        await settled()
        assert len(chat.beam.made) == 1, "who interrupts decides what is said next"
        chat.enter("/go")
        await settled()
        assert "late" in chat.beam.made[1][1]
        chat.leave()
        await settled()
        second.end.set_result(said("two"))

    play(test)


def test_a_terminal_that_is_gone_ends_the_conversation_and_its_turn(play: Any) -> None:
    talks: list[Together] = []

    async def test(chat: Together) -> None:
        talks.append(chat)
        turn = chat.next_turn()
        await settled()
        chat.terminal.close()
        await settled()
        assert chat.beam.interrupt.calls == [(("bot-1",), {})]
        turn.end.set_result(said("", status=Status.CANCELLED, exit_code=9))

    assert play(test) == 0
    assert talks[0].live.why == "a person ended it"


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_signal_ends_the_conversation(play: Any, is_watched: bool) -> None:
    talks: list[Together] = []

    async def test(chat: Together) -> None:
        talks.append(chat)
        turn = chat.next_turn()
        await settled()
        chat.beam.came.append(signal.SIGTERM)
        assert chat.beam.end is not None
        chat.beam.end()
        await settled()
        assert chat.beam.interrupt.calls == [(("bot-1",), {})]
        turn.end.set_result(said("", status=Status.CANCELLED, exit_code=9))

    with pytest.raises(SignalledError, match="the conversation was ended") as raised:
        play(test, is_watched=is_watched)
    assert (raised.value.number, raised.value.hint) == (signal.SIGTERM, "beam log")
    assert talks[0].live.why == "a signal ended it"


def test_a_signal_in_a_turn_is_the_end_of_the_conversation(play: Any) -> None:
    with pytest.raises(SignalledError, match="ended by signal 2"):
        play(nothing, SignalledError(2), is_watched=False)


def test_names_are_completed(play: Any) -> None:
    async def left(chat: Together) -> None:
        turn = chat.next_turn()
        await settled()
        assert [word for word, *_ in chat.terminal.given["words"]("/as b")] == ["bob"]
        chat.leave()
        await settled()
        turn.end.set_result(said("x"))

    play(left)


def test_an_ask_is_answered_by_the_person_who_watches(play: Any) -> None:
    async def test(chat: Together) -> None:
        turn = chat.next_turn()
        await settled()
        turn.event(events.PermissionAsked(agent="ann", ask_id="one", tool="Bash", expires="2999-01-01T00:00:00Z"))
        assert chat.terminal.asked == ["Allow it? [yes / no, and why / stop]"]
        chat.terminal.given["answer"]("no")
        await settled()
        assert chat.beam.deny.calls == [(("one",), {"message": None, "stop": False})]
        chat.leave()
        await settled()
        turn.end.set_result(said("x"))

    play(test)
