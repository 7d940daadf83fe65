"""A conversation of several agents, shown while it goes on. At a terminal, a person can say something in it, also in
the name of one of the agents."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from beam import BeamError, Options, SignalledError, Status, since
from beam.cli.chatting import completing
from beam.cli.chatting.transcript import Style, money
from beam.cli.chatting.turns import Turns, UnreadText, dated_lines, typed_lines
from beam.cli.chatting.words import TOGETHER_COMMANDS, AgentCommand, Command, InvalidLine, Text, help_lines, parse_line
from beam.cli.render.days import Days
from beam.cli.render.text import collapse_to_line, one_line, write
from beam.cli.streams import is_colourful

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beam import Event, LiveChat, NextTurn
    from beam.cli.chatting.composer import Composer
    from beam.cli.context import Context

_HUMAN = "human"


class Interjection(Struct, frozen=True):
    """A text that a person wants to say in the conversation. `name` is the speaker's name: `human`, or the agent in
    whose name the person speaks."""

    text: str
    name: str = _HUMAN


class TogetherChat:
    """One conversation of several agents. `run` returns its exit code once the conversation is over. Each agent speaks
    in its session AGENT@`name`. `options` maps the name of each agent to the options of its messages. With
    `is_watched`, a person at the terminal can step in."""

    def __init__(
        self, call: Context, chat: LiveChat, name: str, options: dict[str, Options], *, is_watched: bool
    ) -> None:
        self._call = call
        self._beam = call.beam
        self._chat = chat
        self._name = name
        self._options = options
        self._style = Style(is_colourful=is_colourful(sys.stdout))
        self._days = Days(since(0))
        self._waiting: list[Interjection] = []
        self._is_paused = False
        self._may_go = asyncio.Event()
        self._code = 0
        self._composer = self._make_composer() if is_watched else None
        self._turns = Turns(
            self._beam, self._style, self._say, self._composer.ask if self._composer else None, seen=self._on_event
        )
        self._speaker = ""

    def _make_composer(self) -> Composer:
        from beam.cli.chatting.composer import Composer

        return Composer(
            live=self._live_rows,
            words=self._completions,
            history=(),
            submit=self._submit,
            answer=lambda line: self._turns.answer(line),
            interrupt=self._interrupt,
            leave=self._leave,
        )

    async def run(self) -> int:
        """Run the conversation until it is over, and return its exit code. After a signal, raises SignalledError once
        the running turn is over."""
        signalled: SignalledError | None = None
        *others, last = self._chat.agents
        who = f"{', '.join(others)} and {last} talk; beam log {others[0]}@{self._name}"
        if self._composer is None:
            self._print([self._style.dim(who)])
        async with self._beam:
            work = asyncio.ensure_future(self._run_conversation())
            with self._beam.ending_signals(self._on_signal) as came:
                if self._composer is not None:
                    work.add_done_callback(lambda _: self._end())
                    await self._composer.run(self._style.dim(f"{who}; /help lists the commands, ^D ends it"))
                    self._leave_now()
                try:
                    await work
                except SignalledError as error:
                    signalled = error
                await self._turns.wait_for_tasks()
        if signalled is None and came:
            signalled = SignalledError(came[0], message="the conversation was ended", hint="beam log")
        if signalled is not None:
            raise signalled
        why = self._style.bold(f"ended: {collapse_to_line(self._chat.why)}")
        self._print([why + self._style.dim(self._figures_in_brackets())])
        return self._code or self._chat.code

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def _run_conversation(self) -> None:
        began = time.monotonic()
        while not self._chat.why:
            self._step_in()
            if self._is_paused and not self._chat.why:
                self._may_go.clear()
                await self._may_go.wait()
                continue
            turn = self._chat.next()
            if turn is None:
                return
            await self._run_turn(turn, began)

    async def _run_turn(self, turn: NextTurn, began: float) -> None:
        self._speaker = turn.agent
        options = replace(self._options[turn.agent], new=turn.is_first)
        mark = "asks who speaks next" if turn.is_choice else f"{self._chat.hops + 1} of {self._chat.until.turns}"
        self._say(["", self._style.bold(f"── {turn.agent} ") + self._style.dim(f"({mark})")])
        try:
            message = self._beam.message(f"{turn.agent}@{self._name}", turn.prompt, options=options)
            outcome = await self._turns.run(message)
        except SignalledError:
            raise
        except BeamError as error:
            self._chat.stop(f"{turn.agent}: {error.message}")
            self._code = int(error.exit_code)
            return
        self._chat.on_ended(outcome, time.monotonic() - began)
        if outcome.status is Status.CANCELLED and not self._turns.is_interrupted(message.id):
            self._is_paused = self._composer is not None
            if not self._is_paused:
                self._chat.stop(f"{turn.agent} was interrupted")
                self._code = outcome.exit_code
        if self._is_paused and not self._chat.why:
            self._note("paused: say something, or /go; ^D ends it")

    def _on_event(self, event: Event) -> None:
        self._chat.event(event)
        message = self._turns.message
        if self._chat.must_stop and message is not None and not self._turns.is_interrupted(message.id):
            self._turns.interrupt()

    def _step_in(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            as_ = "" if each.name == _HUMAN else f" (as {each.name})"
            self._say(["", *typed_lines(each.text, self._style, f"you{as_}: ")])
            self._chat.step_in(each.text, each.name)

    # -- a person ------------------------------------------------------------------------------------------------------

    def _submit(self, line: str) -> None:
        if not line.strip():
            self._continue()
            return
        match parse_line(line, TOGETHER_COMMANDS, passes_on=False):
            case Text(text) | AgentCommand(text):
                self._queue_text(Interjection(text))
            case InvalidLine(why):
                self._note(why)
            case Command() as command:
                self._run_command(command)

    def _queue_text(self, said: Interjection) -> None:
        self._waiting.append(said)
        self._continue()

    def _continue(self) -> None:
        self._is_paused = False
        self._may_go.set()

    def _run_command(self, command: Command) -> None:
        name, _, text = command.argument.partition(" ")
        match command.name:
            case "help":
                self._say(self._style.dim(f"  {line}") for line in help_lines(TOGETHER_COMMANDS))
            case "quit":
                self._leave()
            case "as" if self._check_participant(name):
                if text.strip():
                    self._queue_text(Interjection(text.strip(), name))
                else:
                    self._note(f"/as {name} needs a text after it")
            case "next" if self._check_participant(name):
                self._chat.give_floor(name)
                self._note(f"{name} speaks next")
            case "pause":
                self._is_paused = True
                self._note("it stops after the running turn; /go goes on")
            case "go":
                self._continue()
            case "drop":
                waiting, self._waiting = self._waiting, []
                if waiting and self._composer is not None:
                    self._composer.put_back("\n".join(each.text for each in waiting))
            case "usage":
                self._note(self._figures())
            case "steer":
                self._steer(command.argument)

    def _check_participant(self, name: str) -> bool:
        if name not in self._chat.agents:
            self._note(f"{name} does not take part; {', '.join(self._chat.agents)} do")
        return name in self._chat.agents

    def _steer(self, text: str) -> None:
        if self._turns.message is None or not self._turns.has_begun:
            self._note("no turn runs that could take a text; without /steer everybody hears it")
            return

        def otherwise(unread: UnreadText) -> None:
            self._note(f"{unread.why or 'the turn was over before it read that'}; everybody hears it instead")
            self._waiting.append(Interjection(unread.text))
            if not unread.is_interrupted:
                self._continue()

        self._turns.steer(f"{self._speaker}@{self._name}", text, otherwise)

    def _interrupt(self) -> bool:
        if self._turns.interrupt():
            self._is_paused = True
            return True
        if self._composer is not None and not self._composer.text:
            self._note("^D ends the conversation; /go goes on")
        return False

    def _leave(self) -> None:
        self._chat.stop("a person ended it")
        self._end()

    def _leave_now(self) -> None:
        """End the conversation and the running turn, because the input line was closed."""
        self._chat.stop("a person ended it")
        self._may_go.set()
        self._turns.interrupt()

    def _on_signal(self) -> None:
        self._chat.stop("a signal ended it")
        self._end()

    def _end(self) -> None:
        self._may_go.set()
        if self._composer is not None:
            self._composer.close()
        else:
            self._turns.interrupt()

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _say(self, lines: Iterable[str]) -> None:
        if self._composer is not None:
            self._composer.say(dated_lines(lines, self._days, self._style))
        else:
            self._print(lines)

    def _print(self, lines: Iterable[str]) -> None:
        for line in dated_lines(lines, self._days, self._style):
            write(sys.stdout, f"{line}\n")
        sys.stdout.flush()

    def _note(self, text: str) -> None:
        self._say([self._style.dim(f"  {collapse_to_line(text)}")])

    def _live_rows(self, columns: int) -> list[str]:
        waits = [f"  {one_line(f'waits: {each.text}', columns - 3)}" for each in self._waiting[:3]]
        rows = self._turns.live_rows(columns)
        state = "paused; /go goes on · " if self._is_paused and not rows else ""
        return [*rows, *waits, one_line(f"{state}{self._figures()}", columns - 1)]

    def _figures(self) -> str:
        chat = self._chat
        tokens = chat.tokens
        return " · ".join(
            filter(
                None,
                [
                    f"{chat.hops} of {chat.until.turns} turns",
                    f"{tokens:,} tokens" if tokens else "",
                    money(chat.cost_usd),
                ],
            )
        )

    def _figures_in_brackets(self) -> str:
        return f" ({self._figures()})"

    def _completions(self, before: str) -> Iterator[tuple[str, int, str]]:
        return completing.completions(before, TOGETHER_COMMANDS, folder=self._call.cwd, names=self._chat.agents)
