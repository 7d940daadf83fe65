"""The terminal driver: one turn of an agent on its screen, from start to verdict.

The process is new or kept from the turn before. `TerminalSession` reads the screen and types, `conversation` gives the
agent the message, `reading` reads its transcript, `dialogs` answers its dialogs, and `verdict` gives the verdict.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct, structs

from beam.agents.base import History, Terminal, Verdict
from beam.base import files
from beam.base.errors import DiskError
from beam.base.faults import crash_point
from beam.model import events
from beam.model.outcome import SCREEN
from beam.model.screen_profile import Profile, override_fields
from beam.process import spawn
from beam.pty_adapter import profile as profiles
from beam.pty_adapter import typing
from beam.pty_adapter.terminal import typable
from beam.pty_adapter.turn_end import State, TurnEnd
from beam.turns.engine import Engine, lost_session_event
from beam.turns.handle import TurnHandle, TurnServices
from beam.turns.input import TurnInput, as_new_session
from beam.turns.process import ProcessKeeper, ReuseKey, write_scratch
from beam.turns.terminal.conversation import Conversation, is_command
from beam.turns.terminal.dialogs import Dialogs
from beam.turns.terminal.process import TerminalProcess
from beam.turns.terminal.reading import TranscriptReader
from beam.turns.terminal.session import TICK_S, TerminalSession
from beam.turns.terminal.verdict import TurnEvidence, informative_rows, verdict_of

INTERRUPT_INTERVAL_S = 1.0  # between two requests to stop
STOP_TYPING_S = 2.0  # how long beam's typing may go on after a stop: a program that reads no keys blocks it
_FOR_EVER_S = 1e9
_UNKNOWN_SCREEN = (
    "it shows what beam does not know: look at it (beam attach), or describe it under `screen:` (docs/terminals.md; "
    "beam dev decode terminal --explain says what beam sees); its screen:"
)


async def run_turn(
    terminal: Terminal, history: History | None, input: TurnInput, services: TurnServices, handle: TurnHandle
) -> Verdict:
    """Run the turn; return its verdict.

    The agent's process is gone afterwards, unless the keeper has it. If the file of the session is gone, that is
    recorded, and the turn begins in a new session. If the agent ends right after beam confirmed a dialog at its start,
    and nothing was typed yet, the agent is started once more: a busy machine can be too slow for an agent's own start.

    Raises UnsupportedError for a text that can't be sent on this screen, and the exceptions of `Engine.run`.
    """
    input = input.with_text(typable(input.turn.text))  # this is typed, and compared with the screen and the transcript
    face = TerminalFace(terminal, history, input)
    text = input.turn.text
    is_own = input.commands and is_command(face.profile, text)
    typing.check_message(input.turn.agent, face.profile, text, command=is_own)
    engine = Engine(input, services, handle)
    kept = None
    if services.keeper is not None:
        kept = await services.keeper.take_process(ReuseKey.of(input, "terminal", input.turn.session_id))
    if isinstance(kept, TerminalProcess):
        verdict = await engine.run(TerminalTurn(face.with_fresh_id(kept.fresh_session_id), engine, kept=kept))
        if verdict is not None:
            return verdict
    gone = lost_session_event(terminal.launch(input.turn, input.host), input.turn)
    if gone is not None:
        services.record(gone)
        face = structs.replace(face, input=input.in_new_session())
    verdict = await engine.run(TerminalTurn(face, engine))
    if verdict is None:
        # Use another session id, because the first process may have taken this one.
        another = face.with_fresh_id(as_new_session(face.input.turn).fresh_session_id)
        verdict = await engine.run_to_end(TerminalTurn(another, engine, is_last=True))
    return verdict if gone is None else structs.replace(verdict, session="lost")


class TerminalFace(Struct, frozen=True):
    """An agent's terminal face, its transcripts, and the turn for it."""

    terminal: Terminal
    history: History | None
    input: TurnInput

    @property
    def profile(self) -> Profile:
        """Return the profile of the agent's screen, with the changes that the settings make."""
        return override_fields(self.terminal.profile, self.input.turn.settings.screen)

    def with_fresh_id(self, fresh_session_id: str) -> TerminalFace:
        """Return this face with another id for a new session."""
        return structs.replace(self, input=self.input.with_fresh_id(fresh_session_id))


class TerminalTurn:
    """One turn of an agent on its terminal, with one process."""

    tick_s = TICK_S
    reports_tool_ends = False  # a transcript may end before its tools do

    def __init__(
        self, face: TerminalFace, engine: Engine, *, kept: TerminalProcess | None = None, is_last: bool = False
    ) -> None:
        self.face = face
        self.input = face.input
        self.turn = face.input.turn
        self.profile = face.profile
        self.engine = engine
        self.stop = engine.stop
        self.clock = engine.clock
        self.keeper = engine.keeper
        self.is_kept = kept is not None
        self.is_last = is_last
        self.ended_itself = False  # whether the agent's process ended on its own
        self.interrupted = False
        self.reported: set[str] = set()  # unknown screens
        self.not_ready = ""  # why another process must get the message
        self.process: TerminalProcess
        self.session: TerminalSession
        self.dialogs: Dialogs
        self.conversation: Conversation
        self._kept = kept
        self._talking: asyncio.Task[None] | None = None

    # -- the start -----------------------------------------------------------------------------------------------------

    async def start(self) -> TerminalProcess:
        self.process = process = self._kept or await self._open_process()
        profile, history = self.profile, self.face.history
        self.end = TurnEnd(
            structs.replace(profile, start_seconds=_FOR_EVER_S) if self.is_kept else profile,
            now=self.clock.monotonic(),
            has_history=history is not None and history.tells_end,
            resumes=self.turn.session_id is not None and not self.is_kept,
            marks_prompt=process.marks_prompt,
        )
        self.session = TerminalSession(self.engine, process, self.end)
        self.dialogs = Dialogs(
            self.turn,
            self.engine.record,
            self.session,
            self.end,
            self.engine.asks,
            self.stop,
            has_history=history is not None,
        )
        self.conversation = Conversation(self.input, self.engine, process, self.session, self.dialogs)
        process.notice = lambda text: self._record_notice(text)
        process.viewers.new_turn()
        process.screen.take_signals()
        if history is not None:
            self.session.reader = TranscriptReader(history, self.turn, self.input.host, self.dialogs.record)
        return process

    async def _open_process(self) -> TerminalProcess:
        launch = self.face.terminal.launch(self.turn, self.input.host)
        files.make_directory(self.input.scratch)
        write_scratch(self.input.scratch, launch.files)
        process = await TerminalProcess.open(launch, self.profile, self.input)
        crash_point("agent.spawned")
        return process

    async def begin(self) -> None:
        if not self.is_kept:
            self.process.child.go()
        if self.keeper is not None:
            await self.process.open_to_viewers(self.keeper.socket_path)
            self._start_recording(self.keeper)

    def _start_recording(self, keeper: ProcessKeeper) -> None:
        """Begin the recording if one is wanted. A recording that can't be written is reported, and does not fail the
        turn."""
        if not self.turn.settings.record:
            return
        agent, number = self.turn.agent, self.input.number
        try:
            self.process.start_recording(keeper.cast_path(number), title=f"{agent}, turn {number}", clock=self.clock)
        except DiskError as error:
            self._record_notice(f"no recording of this turn: {error.message}")

    def _record_notice(self, text: str) -> None:
        self.engine.record(events.Notice(code="terminal", text=text))

    # -- the conversation ----------------------------------------------------------------------------------------------

    async def talk(self) -> None:
        self._talking = asyncio.current_task()
        if self.is_kept and not await self.conversation.is_ready_again():
            self.not_ready = "" if self.session.is_stopped else "it accepted no more messages"
            return
        await self.conversation.run()

    def tick(self) -> None:
        self.session.tick()
        self._report_unknown_screen()

    def _report_unknown_screen(self) -> None:
        """Report each unknown screen once; the turn may still continue."""
        if self.interrupted or not self.end.is_strange(self.clock.monotonic()):
            return
        screen = informative_rows(self.session.seen.rows)
        if screen not in self.reported:
            self.reported.add(screen)
            self.engine.record(events.Notice(code="unknown_screen", text=f"{_UNKNOWN_SCREEN}\n{screen}"))

    def process_gone(self) -> None:
        self.session.read()  # its last lines may say that the turn was over
        self.end.on_exited(self.clock.monotonic())

    # -- the end -------------------------------------------------------------------------------------------------------

    async def interrupt(self) -> None:
        """Interrupt the agent, after beam itself has stopped typing. Some agents need the key twice."""
        if self._talking is not None:
            await asyncio.wait({self._talking}, timeout=STOP_TYPING_S)
            self._talking.cancel()
            await asyncio.wait({self._talking})
        if self.end.ended or self.stop.hard or self.process.is_gone:
            return

        def is_free() -> bool:
            return self.end.ended or self.end.reading.idle or self.engine.must_end_now()

        self.interrupted = True
        grace = self.input.limits.grace
        await self.process.press(self.profile.interrupt)
        if await self.session.wait_for(is_free, min(INTERRUPT_INTERVAL_S, grace)):
            return
        if self.end.reading.busy:
            await self.process.press(self.profile.interrupt)
        await self.session.wait_for(is_free, grace - INTERRUPT_INTERVAL_S)

    async def leave(self) -> spawn.ProcessEnd | None:
        self.ended_itself = self.process.is_gone and not self.interrupted
        self._check_early_exit()
        return None if self._may_stay() else await self.process.quit(hard=self.engine.must_end_now)

    def _check_early_exit(self) -> None:
        """Set why another process must be started, if this one ended on its own before anything was typed."""
        if not self.ended_itself or self.conversation.typed or self.session.is_stopped:
            return
        if self.is_kept:
            if self.not_ready:
                self._record_notice(self.not_ready)
            return
        dialog = self.dialogs.recently_confirmed()
        if dialog and not (self.is_last or self.dialogs.failed or self.process.viewers.typed_at is not None):
            self.not_ready = f"it ended right after its dialog ({dialog})"
            self._record_notice(
                f"{self.not_ready} and is started once more{SCREEN}{informative_rows(self.session.seen.rows)}"
            )

    def _may_stay(self) -> bool:
        """Return whether the agent may be kept for the next message.

        After a command of its own screen (`/clear`) its session is unknown. An agent that shows its session's id only
        when it quits is not kept after its first turn.
        """
        if self.keeper is None or not self.keeper.keeps or self.input.keep <= 0:
            return False
        known = self.turn.session_id or self._given_session_id()
        if self.profile.session and self.face.history is None and known is None:
            return False
        is_well = self.end.state in (State.DONE, State.ERROR) and not self.session.is_stopped
        failed = self.conversation.failed or self.dialogs.failed
        return is_well and failed is None and not (self.conversation.command or self.process.is_gone)

    def stopped_by(self) -> str | None:
        return None if self.ended_itself else self.not_ready or self.stop.reason or "quit"

    def reuse_key(self, session_id: str | None) -> ReuseKey:
        return ReuseKey.of(self.input, "terminal", session_id or self.turn.session_id)

    # -- the result ----------------------------------------------------------------------------------------------------

    def finish(self, ended: spawn.ProcessEnd | None) -> Verdict | None:
        self.process.stop_recording()
        self.process.marks_prompt = self.end.marks_prompt
        self.session.read()
        self.dialogs.report_differences()
        if self.end.state in (State.DONE, State.ERROR):
            self.engine.record(events.StatusChanged(state="idle", detail=f"by {self.end.via}"))
        if self.not_ready:
            return None
        verdict = self._verdict(ended)
        if verdict.session_id is None:
            verdict = structs.replace(verdict, session_id=self._record_session_id(has_quit=ended is not None))
        if verdict.lossy is True and verdict.reply:
            self.engine.record(events.Text(text=verdict.reply))
        return verdict

    def _record_session_id(self, *, has_quit: bool) -> str | None:
        """Return the session's id, and record it: the agent printed it when it quit, or got it for this turn.

        Return None if the id is unknown.
        """
        printed_id, screen = None, self.process.screen
        if has_quit:
            printed_id = profiles.session_in(self.profile, [line.text for line in screen.lines()[-screen.rows :]])
        found = printed_id or (self._given_session_id() if self.end.state is State.DONE else None)
        if found is None:
            return None
        resumed = self.turn.session_id == found
        self.engine.record(events.SessionStarted(session_id=found, resumed=resumed, cwd=self.turn.cwd))
        return found

    def _given_session_id(self) -> str | None:
        """Return the session id that the agent was started with, if the agent accepts one; None otherwise.

        Also None for an agent with a transcript, because the transcript is more reliable.
        """
        given = self.turn.session_id or self.turn.fresh_session_id
        is_said = bool(given) and any(word.endswith(given) for word in self.process.launch.argv)
        return (
            given
            if is_said and self.profile.session and self.face.history is None and not self.conversation.command
            else None
        )

    def _verdict(self, ended: spawn.ProcessEnd | None) -> Verdict:
        reader = self.session.reader
        verdict = self.session.transcript_verdict or (reader.verdict() if reader is not None else None)
        return verdict_of(
            TurnEvidence(
                end=self.end,
                view=self.session.seen,
                reply=self.conversation.reply,
                transcript=verdict if reader is not None and reader.state else None,
                failed=self.conversation.failed or self.dialogs.failed,
                stopped=self.session.is_stopped,
                cut_short=self.dialogs.cut_short,
                session_id=verdict.session_id if verdict is not None else None,
                command=self.conversation.command,
                denials=tuple(self.engine.asks.denials),
                ended=ended,
            )
        )
