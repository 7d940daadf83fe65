"""A person's chat with one agent. Each text that the person types is given to the running turn or starts a new turn.
The agent's process is kept between the turns."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct
from msgspec.structs import replace

from beam import BeamError, Options, SignalledError, since
from beam.cli import prompt
from beam.cli.chatting import completing
from beam.cli.chatting.composer import Composer
from beam.cli.chatting.transcript import Style, cost_of, money
from beam.cli.chatting.turns import Turns, UnreadText, dated_lines, typed_lines
from beam.cli.chatting.words import ALONE_COMMANDS, AgentCommand, Command, InvalidLine, Text, help_lines, parse_line
from beam.cli.render.days import Days
from beam.cli.render.text import collapse_to_line, escape_controls, one_line
from beam.cli.streams import is_colourful

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from beam import Outcome
    from beam.cli.context import Context


class WaitingText(Struct, frozen=True):
    """A text that waits to be sent. With `is_slash`, the text is a slash command of the agent's CLI."""

    text: str
    is_slash: bool = False


class AloneChat:
    """A person's chat with one agent. `run` returns when the person leaves."""

    def __init__(self, call: Context, agent: str, options: Options, *, new: bool) -> None:
        self._call = call
        self._beam = call.beam
        self._agent = agent
        self._options = replace(options, new=new)
        self._given_access = options.access
        self._attach: list[Path] = []
        self._style = Style(is_colourful=is_colourful(sys.stdout))
        self._days = Days(since(0))
        self._waiting: list[WaitingText] = []
        self._has_work = asyncio.Event()
        self._cli_commands: list[str] = []  # slash commands of the agent's CLI
        self._is_leaving = False
        self._wants_to_leave = False
        self._turns_taken, self._tokens, self._cost = 0, 0, 0.0
        self._composer = Composer(
            live=self._live_rows,
            words=self._completions,
            history=self._beam.recalled(agent),
            submit=self._submit,
            answer=lambda line: self._turns.answer(line),
            interrupt=self._interrupt,
            leave=self._leave,
        )
        self._turns = Turns(self._beam, self._style, self._say, self._composer.ask)

    async def run(self) -> None:
        """Run the chat until the person leaves. After a signal, raises SignalledError once the running turn is over."""
        signalled: SignalledError | None = None
        async with self._beam:
            work = asyncio.ensure_future(self._run_queued_turns())
            work.add_done_callback(lambda _: self._composer.close())
            with self._beam.ending_signals(self._composer.close) as came:
                await self._composer.run(
                    self._style.dim(f"chat with {self._agent}; /help lists the commands, ^D leaves")
                )
                self._is_leaving = True
                self._has_work.set()
                self._turns.interrupt()
                try:
                    await work
                except SignalledError as error:
                    signalled = error
                await self._turns.wait_for_tasks()
        sys.stdout.write(f"{self._style.dim(escape_controls(self._summary()))}\n")
        if signalled is None and came:
            signalled = SignalledError(came[0], message="the chat was ended", hint="beam log has it")
        if signalled is not None:
            raise signalled

    # -- what is typed -------------------------------------------------------------------------------------------------

    def _submit(self, line: str) -> None:
        self._wants_to_leave = False
        if not line.strip():
            return
        match parse_line(line, ALONE_COMMANDS, passes_on=True):
            case Text(text):
                self._handle_text(text)
            case AgentCommand(text):
                self._queue(WaitingText(text, is_slash=True))
            case InvalidLine(why):
                self._note(why)
            case Command() as command:
                self._run_command(command)

    def _handle_text(self, text: str) -> None:
        turns = self._turns
        if (
            turns.message is not None
            and turns.has_begun
            and turns.takes_steering
            and not turns.is_interrupted(turns.message.id)
        ):
            turns.steer(self._agent, text, self._handle_unread)
        else:
            self._queue(WaitingText(text))

    def _handle_unread(self, unread: UnreadText) -> None:
        """Handle a text that the running turn did not read: queue the text as a message of its own. If the person
        interrupted the turn, put the text back into the input instead."""
        if unread.is_interrupted:
            self._composer.put_back(unread.text)
        else:
            self._queue(WaitingText(unread.text))

    def _queue(self, waiting: WaitingText) -> None:
        self._waiting.append(waiting)
        self._has_work.set()
        self._composer.refresh()

    def _run_command(self, command: Command) -> None:
        argument = command.argument
        match command.name:
            case "help":
                own = [each for each in self._cli_commands if each]
                self._say(self._style.dim(f"  {line}") for line in help_lines(ALONE_COMMANDS, own))
            case "quit":
                self._wants_to_leave = True
                self._leave()
            case "new":
                self._options = replace(self._options, new=True)
                self._note("the next message begins a new session")
            case "model":
                self._options = replace(self._options, model=argument or None)
                self._note(f"model from the next message on: {argument or 'its own'}")
            case "access":
                self._set_access(argument)
            case "attach":
                self._attach.append(self._call.path(argument))
                self._note(f"goes with the next message: {', '.join(map(str, self._attach))}")
            case "queue":
                self._queue(WaitingText(argument))
            case "steer":
                self._steer(argument)
            case "drop":
                self._put_back()
            case "usage":
                self._note(self._summary())

    def _set_access(self, word: str) -> None:
        try:
            access = prompt.parse_word("--access", word, prompt.ACCESSES) if word else self._given_access
        except BeamError as error:
            self._note(str(error))
            return
        self._options = replace(self._options, access=access)
        self._note(f"access from the next message on: {access or 'its own'}")

    def _steer(self, text: str) -> None:
        if self._turns.message is None or not self._turns.has_begun:
            self._note("no turn runs that could take a text")
            self._composer.put_back(text)
            return

        def otherwise(unread: UnreadText) -> None:
            self._note(unread.why or "the turn was over before it read that")
            self._composer.put_back(unread.text)

        self._turns.steer(self._agent, text, otherwise)

    def _interrupt(self) -> bool:
        if self._turns.interrupt():
            self._put_back()
            return True
        if not self._composer.text:
            self._note("^D leaves")
        return False

    def _put_back(self) -> None:
        """Move all waiting texts from the queue back into the input."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._composer.put_back("\n".join(each.text for each in waiting))

    def _leave(self) -> None:
        if self._turns.message is not None and not self._wants_to_leave:
            self._wants_to_leave = True
            self._note("a turn runs; ^D again ends it and leaves, ^C ends it alone")
            return
        self._composer.close()

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def _run_queued_turns(self) -> None:
        while True:
            while not self._waiting and not self._is_leaving:
                self._has_work.clear()
                await self._has_work.wait()
            if self._is_leaving:
                return
            await self._run_turn(self._waiting.pop(0))

    async def _run_turn(self, waiting: WaitingText) -> None:
        options = replace(self._options, slash=True if waiting.is_slash else UNSET)
        self._options = replace(self._options, new=False)
        attach, self._attach = self._attach, []
        has_turn = self._turns.has_begun = False
        self._say(["", *typed_lines(waiting.text, self._style)])
        try:
            message = self._beam.message(self._agent, waiting.text, attach=attach, options=options)
            for note in self._beam.notes(message):
                self._note(note)
            outcome = await self._turns.run(message)
            has_turn = outcome.turn is not None
        except SignalledError:
            raise
        except BeamError as error:
            self._say([self._style.red(f"  ✗ {collapse_to_line(str(error))}")])
            return
        finally:
            if options.new and not (has_turn or self._turns.has_begun):
                self._options = replace(self._options, new=True)
        self._add_usage(outcome)
        if not self._cli_commands and outcome.via == "dialogue" and not outcome.exit_code:
            self._turns.start_task(self._learn_commands())

    def _add_usage(self, outcome: Outcome) -> None:
        self._turns_taken += outcome.turn is not None
        usage = outcome.usage
        self._tokens += sum(each or 0 for each in (usage.input_tokens, usage.cached_tokens, usage.output_tokens))
        self._cost += cost_of(outcome) or 0.0

    async def _learn_commands(self) -> None:
        """Ask the agent's kept process for its slash commands, and store them. If there are none, store that too, so
        that the process is asked only once."""
        try:
            told = (await self._beam.ask_live.aio(self._agent)).get("commands")
        except BeamError:
            told = None
        names = [_command_name(each) for each in told] if isinstance(told, list) else []
        found = sorted({f"/{name}" for name in names if name.isprintable() and name and " " not in name})
        self._cli_commands = found[:100] or [""]

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _say(self, lines: Iterable[str]) -> None:
        self._composer.say(dated_lines(lines, self._days, self._style))

    def _note(self, text: str) -> None:
        self._say([self._style.dim(f"  {collapse_to_line(text)}")])

    def _live_rows(self, columns: int) -> list[str]:
        rows = self._turns.live_rows(columns)
        waits = [f"  {one_line(f'waits: {each.text}', columns - 3)}" for each in self._waiting[:3]]
        if len(self._waiting) > 3:
            waits.append(f"  and {len(self._waiting) - 3} more")
        if rows:
            return [*rows[:-1], *waits, rows[-1]]
        return [*waits, one_line(self._summary(), columns - 1)]

    def _summary(self) -> str:
        model = self._options.model
        words = [
            self._agent,
            model or "",
            f"{self._turns_taken} turn{'s' if self._turns_taken != 1 else ''}",
            f"{self._tokens:,} tokens" if self._tokens else "",
            money(self._cost or None),
        ]
        return " · ".join(filter(None, words))

    def _completions(self, before: str) -> Iterator[tuple[str, int, str]]:
        known = {each.partition(" ")[0] for each in ALONE_COMMANDS}
        own = [each for each in self._cli_commands if each and each not in known]
        return completing.completions(before, ALONE_COMMANDS, folder=self._call.cwd, own=own)


def _command_name(told: object) -> str:
    name = told.get("name") if isinstance(told, dict) else told
    return str(name or "").removeprefix("/")
