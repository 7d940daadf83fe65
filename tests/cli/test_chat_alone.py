"""A person's chat with one agent: what each line does, what is sent and what is shown; without a terminal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET

from beam.base.errors import BeamError, SignalledError, UnsupportedError
from beam.cli.chatting import alone
from beam.cli.chatting.alone import AloneChat
from beam.cli.chatting.words import ALONE_COMMANDS, help_lines
from beam.model import events
from beam.model.message import Options
from beam.model.outcome import Status, Usage
from tests.support.chatting import Library, Terminal, Turn, going, outcome, settled

GREETING = "chat with bot; /help lists the commands, ^D leaves"


class Chat:
    """A chat whose library and whose terminal are stand-ins."""

    def __init__(self, folder: Path, *, new: bool = False) -> None:
        self.beam = Library()
        self.call: Any = SimpleNamespace(beam=self.beam, cwd=folder, path=lambda given: folder / given)
        self.chat = AloneChat(self.call, "bot", Options(access="ask", model="m1"), new=new)
        self.terminal: Any = self.chat._composer
        self.enter: Callable[[str], None] = self.terminal.given["submit"]
        self.interrupt: Callable[[], bool] = self.terminal.given["interrupt"]
        self.leave: Callable[[], None] = self.terminal.given["leave"]

    def rows(self) -> list[str]:
        """What stands below all that was printed."""
        found: list[str] = self.terminal.given["live"](60)
        return found

    async def begun(self, text: str) -> Turn:
        """A turn that was sent and has begun; all that was printed so far is forgotten."""
        turn = Turn()
        self.beam.deliver.answers.append(turn)
        self.enter(text)
        await settled()
        turn.begin()
        self.terminal.taken()
        return turn


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has the test talk in a chat that runs."""
    monkeypatch.setattr(alone, "Composer", Terminal)

    def played(test: Callable[[Chat], Coroutine[Any, Any, None]], **more: Any) -> None:
        async def run() -> None:
            chat = Chat(tmp_path, **more)
            async with going(chat.chat.run()):
                assert chat.terminal.taken() == [GREETING]
                await test(chat)

        asyncio.run(run())

    return played


def test_what_is_typed_is_the_agents_next_turn(play: Any) -> None:
    async def test(chat: Chat) -> None:
        assert chat.terminal.given["history"] == ["said to bot before"]
        chat.beam.told = ["it is\nnew here"]
        chat.beam.deliver.answers = [
            outcome(reply="hello", usage=Usage(input_tokens=1000, output_tokens=200), cost_usd=0.5)
        ]
        chat.enter("say\nhello")
        await settled()
        assert chat.terminal.taken() == [
            *("", "> say", "  hello", "  it is new here", "hello"),
            "  turn 1 · 1,200 tokens · $0.5000",
        ]
        assert chat.beam.made == [("bot", "say\nhello", [], Options(access="ask", model="m1", new=True))]
        assert chat.rows() == ["bot · m1 · 1 turn · 1,200 tokens · $0.5000"]
        chat.beam.deliver.answers = [outcome(status=Status.CANCELLED, turn=None, reason="withdrawn", exit_code=9)]
        chat.enter("more")
        await settled()
        assert chat.beam.made[1] == ("bot", "more", [], Options(access="ask", model="m1"))
        assert chat.terminal.taken() == ["", "> more", "  it is new here", "  withdrawn", "  no turn"]
        assert chat.rows() == ["bot · m1 · 1 turn · 1,200 tokens · $0.5000"]
        chat.enter("  ")
        await settled()
        assert (chat.terminal.taken(), len(chat.beam.made)) == ([], 2)

    play(test, new=True)


def test_a_message_that_is_refused_is_reported_and_the_chat_goes_on(play: Any) -> None:
    async def test(chat: Chat) -> None:
        chat.beam.refused = [BeamError("no such\nmodel", "beam doctor")]
        chat.beam.deliver.answers = [outcome()]
        chat.enter("one")
        chat.enter("two")
        await settled()
        assert chat.terminal.taken() == ["", "> one", "  ✗ no such model (beam doctor)", "", "> two", "  turn 1"]

    play(test)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/model m2", "  model from the next message on: m2"),
        ("/model", "  model from the next message on: its own"),
        ("/access full", "  access from the next message on: full"),
        ("/access", "  access from the next message on: ask"),
        ("/new", "  the next message begins a new session"),
        ("/usage", "  bot · m1 · 0 turns"),
        ("/attach", "  /attach needs more: /attach PATH"),
        ("/steer look", "  no turn runs that could take a text"),
    ],
)
def test_a_command_says_what_it_changed(play: Any, line: str, said: str) -> None:
    async def test(chat: Chat) -> None:
        chat.enter(line)
        await settled()
        assert (chat.terminal.taken(), chat.beam.made) == ([said], [])
        assert chat.terminal.back == (["look"] if line.startswith("/steer") else [])

    play(test)


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("/model m2", Options(access="ask", model="m2")),
        ("/model", Options(access="ask")),
        ("/access full", Options(access="full", model="m1")),
        ("/new", Options(access="ask", model="m1", new=True)),
        ("hi", Options(access="ask", model="m1")),
    ],
)
def test_what_a_command_changed_is_in_the_next_message(play: Any, line: str, options: Options) -> None:
    async def test(chat: Chat) -> None:
        chat.beam.deliver.answers = [outcome(), outcome()]
        chat.enter(line)
        chat.enter("go")
        await settled()
        assert chat.beam.made[-1] == ("bot", "go", [], options)

    play(test)


def test_an_access_that_there_is_not_is_refused(play: Any) -> None:
    async def test(chat: Chat) -> None:
        chat.enter("/access all")
        (said,) = chat.terminal.taken()
        assert said.startswith("  ") and "all" in said and "from the next message" not in said
        chat.beam.deliver.answers = [outcome()]
        chat.enter("go")
        await settled()
        assert chat.beam.made[0][3].access == "ask"

    play(test)


def test_files_go_with_the_next_message_and_with_no_other(play: Any, tmp_path: Path) -> None:
    async def test(chat: Chat) -> None:
        chat.enter("/attach a.png")
        chat.enter("/attach b.png")
        assert chat.terminal.taken()[1] == f"  goes with the next message: {tmp_path}/a.png, {tmp_path}/b.png"
        chat.beam.deliver.answers = [outcome(), outcome()]
        chat.enter("look")
        chat.enter("again")
        await settled()
        assert [made[2] for made in chat.beam.made] == [[tmp_path / "a.png", tmp_path / "b.png"], []]

    play(test)


def test_help_lists_the_commands_and_those_of_the_agent_itself(play: Any) -> None:
    async def test(chat: Chat) -> None:
        chat.enter("/help")
        assert chat.terminal.taken() == [f"  {line}" for line in help_lines(ALONE_COMMANDS)]
        done = outcome(via="dialogue")
        named = [{"name": "/compact"}, {"name": "help"}, "two words", {"name": None}, {"x": 1}, "\x1b", "init"]
        chat.beam.ask_live.answers = [{"commands": named}]
        chat.beam.deliver.answers = [done, done]
        chat.enter("go")
        await settled()
        assert chat.beam.ask_live.calls == [(("bot",), {})]
        chat.terminal.taken()
        chat.enter("/help")
        own = ["/compact", "/help", "/init"]
        assert chat.terminal.taken() == [f"  {line}" for line in help_lines(ALONE_COMMANDS, own)]
        assert [word for word, *_ in chat.terminal.given["words"]("/c")] == ["/compact"]
        assert [word for word, *_ in chat.terminal.given["words"]("/he")] == ["/help"]
        chat.enter("more")
        await settled()
        assert len(chat.beam.ask_live.calls) == 1
        chat.enter("/compact now")
        chat.beam.deliver.answers = [done]
        await settled()
        assert chat.beam.made[-1] == ("bot", "/compact now", [], Options(access="ask", model="m1", slash=True))
        assert chat.beam.made[0][3].slash is UNSET

    play(test)


@pytest.mark.parametrize("told", [BeamError("no"), {}, {"commands": "all"}])
def test_an_agent_that_tells_no_commands_is_asked_once(play: Any, told: object) -> None:
    async def test(chat: Chat) -> None:
        chat.beam.ask_live.answers = [told]
        chat.beam.deliver.answers = [outcome(via="dialogue"), outcome(via="dialogue")]
        chat.enter("go")
        await settled()
        chat.enter("on")
        await settled()
        assert len(chat.beam.ask_live.calls) == 1 and len(chat.beam.made) == 2
        chat.terminal.taken()
        chat.enter("/help")
        assert chat.terminal.taken() == [f"  {line}" for line in help_lines(ALONE_COMMANDS)]

    play(test)


@pytest.mark.parametrize("ended", [outcome(via="exec"), outcome(via="dialogue", status=Status.FAILED, exit_code=1)])
def test_a_process_that_is_not_kept_is_asked_for_no_commands(play: Any, ended: Any) -> None:
    async def test(chat: Chat) -> None:
        chat.beam.deliver.answers = [ended]
        chat.enter("go")
        await settled()
        assert chat.beam.ask_live.calls == []

    play(test)


def test_a_text_while_a_turn_runs_is_given_to_it_and_what_it_does_not_read_is_sent_next(play: Any) -> None:
    async def test(chat: Chat) -> None:
        turn = await chat.begun("go")
        chat.enter("look")
        await settled()
        assert chat.beam.steer.calls == [(("bot", "look"), {})]
        assert chat.terminal.taken() == ["→ look"]
        chat.beam.steer.answers = [UnsupportedError("it takes none")]
        chat.enter("there")
        await settled()
        assert chat.rows()[-2] == "  waits: there"
        chat.enter("and here")
        await settled()
        assert len(chat.beam.steer.calls) == 2, "it said that it takes none"
        assert chat.rows()[-3:-1] == ["  waits: there", "  waits: and here"]
        chat.beam.deliver.answers = [outcome(), outcome()]
        turn.end.set_result(outcome())
        await settled()
        assert [made[1] for made in chat.beam.made] == ["go", "there", "and here"]

    play(test)


def test_a_new_session_that_is_asked_for_while_a_turn_runs_begins_with_the_next_message(play: Any) -> None:
    async def test(chat: Chat) -> None:
        turn = await chat.begun("go")
        chat.enter("/new")
        turn.end.set_result(outcome())
        await settled()
        chat.beam.deliver.answers = [outcome(turn=2), outcome(turn=3)]
        chat.enter("then")
        chat.enter("and then")
        await settled()
        assert [made[3].new for made in chat.beam.made] == [False, True, False]

    play(test)


@pytest.mark.parametrize("end", [BeamError("no disk"), outcome(status=Status.CANCELLED, turn=None, exit_code=9)])
def test_a_new_session_waits_for_a_message_that_has_a_turn(play: Any, end: object) -> None:
    async def test(chat: Chat) -> None:
        turn = await chat.begun("go")
        turn.end.set_result(outcome())
        await settled()
        chat.beam.deliver.answers = [end, outcome(turn=2), outcome(turn=3)]
        chat.enter("/new")
        for text in ("lost", "then", "and then"):
            chat.enter(text)
        await settled()
        assert [made[3].new for made in chat.beam.made] == [False, True, True, False]
        chat.beam.refused = [BeamError("no such model")]
        chat.beam.deliver.answers = [outcome(turn=4)]
        chat.enter("/new")
        chat.enter("refused")
        chat.enter("last")
        await settled()
        assert [made[3].new for made in chat.beam.made[4:]] == [True]

    play(test)


def test_a_turn_that_began_and_broke_off_has_used_up_the_new_session(play: Any) -> None:
    async def test(chat: Chat) -> None:
        chat.enter("/new")
        turn = await chat.begun("go")
        turn.end.set_exception(BeamError("no disk"))
        await settled()
        chat.beam.deliver.answers = [outcome(turn=2)]
        chat.enter("then")
        await settled()
        assert [made[3].new for made in chat.beam.made] == [True, False]

    play(test)


def test_a_text_before_the_turn_has_begun_and_one_after_its_interrupt_wait(play: Any) -> None:
    async def test(chat: Chat) -> None:
        turn = Turn()
        chat.beam.deliver.answers = [turn]
        chat.enter("go")
        await settled()
        chat.enter("early")
        turn.begin()
        assert chat.interrupt() and chat.terminal.back == ["early"]
        chat.enter("late")
        await settled()
        assert chat.beam.steer.calls == [] and chat.rows()[0] == "  waits: late"

    play(test)


def test_what_an_interrupted_turn_did_not_read_comes_back_to_the_person(play: Any) -> None:
    async def test(chat: Chat) -> None:
        await chat.begun("go")
        chat.beam.steer.answers = [UnsupportedError("over")]
        chat.enter("look")
        chat.interrupt()
        await settled()
        assert chat.terminal.back == ["look"] and len(chat.beam.made) == 1

    play(test)


def test_steer_gives_a_text_to_the_turn_or_gives_it_back(play: Any) -> None:
    async def test(chat: Chat) -> None:
        await chat.begun("go")
        chat.beam.steer.answers = [None, UnsupportedError("it takes\nnone"), BeamError("")]
        chat.enter("/steer look")
        await settled()
        assert chat.terminal.taken() == ["→ look"]
        chat.enter("/steer there")
        await settled()
        assert (chat.terminal.taken(), chat.terminal.back) == (["  it takes none"], ["there"])
        chat.enter("/steer here")
        await settled()
        assert chat.terminal.taken() == ["  the turn was over before it read that"]
        assert chat.terminal.back == ["there", "here"] and len(chat.beam.made) == 1

    play(test)


def test_what_waits_is_shown_and_taken_back(play: Any) -> None:
    async def test(chat: Chat) -> None:
        chat.enter("/drop")
        assert chat.terminal.back == []
        await chat.begun("go")
        for number in range(3):
            chat.enter(f"/queue {number}")
        assert chat.rows()[:-1] == ["  waits: 0", "  waits: 1", "  waits: 2"]
        chat.enter("/compact")
        chat.enter("/queue 4")
        assert chat.rows()[:-1] == ["  waits: 0", "  waits: 1", "  waits: 2", "  and 2 more"]
        assert chat.terminal.refreshed >= 5
        chat.enter("/drop")
        assert chat.terminal.back == ["0\n1\n2\n/compact\n4"] and len(chat.rows()) == 1
        chat.enter(f"/queue {'x' * 100}")
        assert len(chat.rows()[0]) == 59

    play(test)


def test_an_interrupt_without_a_turn_says_how_to_leave_unless_something_is_typed(play: Any) -> None:
    async def test(chat: Chat) -> None:
        assert not chat.interrupt()
        assert chat.terminal.taken() == ["  ^D leaves"]
        chat.terminal.text = "half"
        assert not chat.interrupt()
        assert chat.terminal.taken() == []

    play(test)


def test_who_leaves_while_a_turn_runs_is_asked_once(play: Any) -> None:
    async def test(chat: Chat) -> None:
        await chat.begun("go")
        chat.leave()
        assert chat.terminal.taken() == ["  a turn runs; ^D again ends it and leaves, ^C ends it alone"]
        chat.enter(" ")
        chat.leave()
        assert len(chat.terminal.taken()) == 1 and not chat.terminal.closed.is_set()
        chat.leave()
        assert chat.terminal.closed.is_set()

    play(test)


def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: Callable[[Chat], Coroutine[Any, Any, None]]) -> Chat:
    """The chat after it was over by itself. Raises what the chat raises."""
    monkeypatch.setattr(alone, "Composer", Terminal)

    async def run() -> Chat:
        chat = Chat(tmp_path)
        async with going(chat.chat.run()) as running:
            assert chat.beam.is_open
            await test(chat)
            await asyncio.wait_for(running, 5)
        assert not chat.beam.is_open
        return chat

    return asyncio.run(run())


def test_who_quits_ends_the_turn_that_runs_and_sees_what_the_chat_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def test(chat: Chat) -> None:
        turn = await chat.begun("go")
        chat.enter("/queue next")
        chat.enter("/quit")
        await settled()
        turn.end.set_result(outcome(status=Status.CANCELLED, reason="interrupted", exit_code=9))

    chat = left(tmp_path, monkeypatch, test)
    assert chat.beam.interrupt.calls == [(("bot-1",), {})] and len(chat.beam.made) == 1
    assert capsys.readouterr().out == "bot · m1 · 1 turn\n"


def test_a_signal_ends_the_chat_and_is_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def signalled(chat: Chat) -> None:
        chat.beam.came.append(signal.SIGTERM)
        assert chat.beam.end is not None
        chat.beam.end()

    with pytest.raises(SignalledError, match="the chat was ended") as raised:
        left(tmp_path, monkeypatch, signalled)
    assert (raised.value.number, raised.value.hint) == (signal.SIGTERM, "beam log has it")
    assert capsys.readouterr().out == "bot · m1 · 0 turns\n"

    async def in_a_turn(chat: Chat) -> None:
        chat.beam.deliver.answers = [SignalledError(2, message="the turn was ended")]
        chat.beam.came.append(signal.SIGINT)
        chat.enter("go")

    with pytest.raises(SignalledError, match="the turn was ended"):
        left(tmp_path, monkeypatch, in_a_turn)


def test_the_answer_to_a_question_is_the_turns(play: Any) -> None:
    async def test(chat: Chat) -> None:
        turn = await chat.begun("go")
        turn.event(events.PermissionAsked(agent="bot", ask_id="one", tool="Bash", expires="2999-01-01T00:00:00Z"))
        assert chat.terminal.asked == ["Allow it? [yes / no, and why / stop]"]
        chat.terminal.given["answer"]("yes")
        await settled()
        assert chat.beam.approve.calls == [(("one",), {"always": False})]

    play(test)
