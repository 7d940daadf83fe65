"""One turn of an agent on its terminal, from its start to what came of it.

The agent itself is a `Living`, new or kept from the turn before. It is seen and typed to at the turn's `Desk`; what it
says of itself is read in `reading`, its dialogs are answered in `dialogs`, and the verdict is found in `verdict`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from beam.agents.base import Launch, Verdict
from beam.base import files
from beam.base.clock import Awake, Clock
from beam.base.errors import DiskError
from beam.base.faults import crash_point
from beam.model import events
from beam.model.screen_profile import Profile
from beam.process import spawn
from beam.process.environment import environment
from beam.pty_adapter import profile as profiles
from beam.pty_adapter import typing
from beam.pty_adapter.turn_end import State, TurnEnd
from beam.turns.keeper import ProcessKeeper, ReuseKey
from beam.turns.request import Record, as_new_session, lost, write_scratch
from beam.turns.stop import Stop
from beam.turns.terminal.desk import TICK_S, Desk
from beam.turns.terminal.dialogs import Dialogs
from beam.turns.terminal.living import Living
from beam.turns.terminal.play import Play
from beam.turns.terminal.reading import Reader, reply_on_screen
from beam.turns.terminal.verdict import TurnEvidence, shown, stalled, verdict_of

LATE_S = 1.0  # the last paint may come after everything says that the turn is over
AGAIN_S = 1.0  # between two requests to stop
DEAF_S = 2.0  # after a stop: a program that reads no keys holds up whoever types
KEPT_S = 10.0  # until a kept agent shows that it takes a message; else a new one is started
TYPED_S = 0.3  # after a viewer's key, until its echo is seen
_FOR_EVER_S = 1e9
_STRANGE = (
    "it shows what beam does not know: look at it (beam attach), or describe it under `screen:` (docs/terminals.md; "
    "beam dev decode terminal --explain says what beam sees); its screen:"
)


async def play(
    play: Play,
    record: Record,
    stop: Stop,
    clock: Clock,
    look: Callable[[], None],
    keeper: ProcessKeeper | None = None,
) -> Verdict:
    """The verdict on the turn. The agent is gone when it is there, unless the keeper has it then. A session whose file
    is gone is said, and the turn begins afresh. One that ends right after beam said yes to a dialog at its start is
    started once more, with nothing typed yet: a busy machine can be too slow for an agent's own start.

    Raises UnsupportedError for a text that can't be sent on this screen.
    """
    clock = Awake(clock)
    text, began = play.turn.text, clock.monotonic()
    typing.check(play.profile, text, command=play.commands and _is_command(play.profile, text))
    kept = await keeper.take(_likeness(play, play.turn.session_id)) if keeper is not None else None
    if kept is not None:
        turn = structs.replace(play.turn, fresh_session_id=kept.fresh_session_id)
        again = structs.replace(play, turn=turn)
        verdict = await _Sitting(again, record, stop, clock, look, keeper, kept, began=began, is_kept=True).run()
        if verdict is not None:
            return verdict
    launch = play.terminal.launch(play.turn, play.host)
    gone = lost(launch, play.turn)
    if gone is not None:
        record(gone)
        play = structs.replace(play, turn=as_new_session(play.turn))
        launch = play.terminal.launch(play.turn, play.host)
    living = await _begin(play, launch)
    verdict = await _Sitting(play, record, stop, clock, look, keeper, living, began=began).run()
    if verdict is None:
        # Another id for a new session: the first one may have taken it.
        turn = structs.replace(play.turn, fresh_session_id=as_new_session(play.turn).fresh_session_id)
        play = structs.replace(play, turn=turn)
        living = await _begin(play, play.terminal.launch(turn, play.host))
        verdict = await _Sitting(play, record, stop, clock, look, keeper, living, began=began, is_last=True).run()
    assert verdict is not None
    return verdict if gone is None else structs.replace(verdict, session="lost")


async def _begin(play: Play, launch: Launch) -> Living:
    turn = play.turn
    files.make_directory(Path(turn.scratch))
    write_scratch(Path(turn.scratch), launch.files)
    env = environment(play.environ, {**play.child_env, **launch.env})
    living = await Living.open(
        launch,
        play.profile,
        env=play.confined.ready(env),
        cwd=turn.cwd,
        confinement=play.confined.within(env),
        turn=play.number,
        turn_key=play.turn_key,
        fresh_session_id=turn.fresh_session_id,
        scratch=Path(turn.scratch),
    )
    crash_point("agent.spawned")
    return living


def _likeness(play: Play, session_id: str | None) -> ReuseKey:
    turn = play.turn
    return ReuseKey(
        adapter=turn.settings.adapter,
        executable=play.host.executable,
        session_id=session_id,
        model=turn.model,
        access=turn.access,
        cwd=turn.cwd,
        settings=turn.settings,
        folder_trusted=turn.folder_trusted,
        leave_out=turn.leave_out,
        folder_env=play.folder_env,
    )


def _is_command(profile: Profile, text: str) -> bool:
    return bool(profile.special) and text.startswith("/") and "\n" not in text


class _Sitting:
    """One turn of an agent on its terminal."""

    def __init__(
        self,
        play: Play,
        record: Record,
        stop: Stop,
        clock: Clock,
        look: Callable[[], None],
        keeper: ProcessKeeper | None,
        living: Living,
        *,
        began: float,
        is_kept: bool = False,
        is_last: bool = False,
    ) -> None:
        self.play = play
        self.record = record
        self.stop = stop
        self.clock = clock
        self.keeper = keeper
        self.living = living
        self.is_kept = is_kept
        self.is_last = is_last
        self.profile: Profile = play.profile
        self.screen = living.screen
        machine = structs.replace(self.profile, start_seconds=_FOR_EVER_S) if is_kept else self.profile
        self.end = TurnEnd(
            machine,
            now=clock.monotonic(),
            has_history=play.history is not None and play.history.tells_end,
            resumes=play.turn.session_id is not None and not is_kept,
        )
        self.desk = Desk(play, living, self.end, stop, clock, look, began=began)
        self.dialogs = Dialogs(
            play.turn, record, self.desk, self.end, play.asks, stop, has_history=play.history is not None
        )
        self.stopped_at: float | None = None
        self.segments: list[typing.Segment] = []
        self.command = False
        self.typed = False
        self.reply = ""
        self.failed: Verdict | None = None
        self.by_itself = False  # whether the agent ended so
        self.reported: set[str] = set()  # screens
        self.not_ready = ""  # why the agent can't be given the message: another one can

    async def run(self) -> Verdict | None:
        """The verdict; None where the agent did not take the message, nothing was typed, it is gone, and this was not
        the last try."""
        play, turn, living = self.play, self.play.turn, self.living
        living.notice = lambda text: self._say(text)
        living.viewers.new_turn()
        self.screen.take_signals()
        if play.history is not None:
            self.desk.reader = Reader(play.history, turn, play.host, self.dialogs.record)
        why = "the turn is over"
        try:
            self.record(living.started(since=living.turn if self.is_kept else None))
            crash_point("agent.started")
            if not self.is_kept:
                living.go()
            if self.keeper is not None:
                await living.show(self.keeper.socket)
                self._film(self.keeper)
            ended = await self._accompany()
            living.stop_recording()
            self.desk.read()
            self.dialogs.look_back()
            if self.end.state in (State.DONE, State.ERROR):
                self.record(events.StatusChanged(state="idle", detail=f"by {self.end.via}"))
            verdict = None if self.not_ready else self._verdict(ended)
            if verdict is not None and verdict.session_id is None:
                verdict = structs.replace(verdict, session_id=self._session(has_quit=ended is not None))
            if verdict is not None and verdict.lossy is True and verdict.reply:
                self.record(events.Text(text=verdict.reply))
            if ended is None and verdict is not None and self.keeper is not None:
                self.record(events.AgentKept(pid=living.window.child.pid), sync=True)
                session_id = verdict.session_id or turn.session_id
                self.keeper.park(living, _likeness(play, session_id), play.keep)
                return verdict
            assert ended is not None
            stopped_by = self.not_ready or self.stop.reason or "quit"
            self.record(living.exited(ended, None if self.by_itself else stopped_by))
            crash_point("agent.exited")
        except BaseException:
            why = "its turn broke off"
            raise
        finally:
            if self.keeper is None or self.keeper.living is not living:
                await living.close(self.not_ready or why)
        return verdict

    def _session(self, *, has_quit: bool) -> str | None:
        """The id of its session: as the agent wrote it when it quit, or as it was given it for this turn."""
        said = None
        if has_quit:
            said = profiles.session_in(self.profile, [line.text for line in self.screen.lines()[-self.screen.rows :]])
        found = said or (self._session_given() if self.end.state is State.DONE else None)
        if found is None:
            return None
        opened = events.SessionResumed if self.play.turn.session_id == found else events.SessionStarted
        self.record(opened(session_id=found, cwd=self.play.turn.cwd))
        return found

    def _session_given(self) -> str | None:
        """The id that it was started with, if it took one: of what has a transcript, that says more."""
        turn = self.play.turn
        given = turn.session_id or turn.fresh_session_id
        is_said = bool(given) and any(word.endswith(given) for word in self.living.launch.argv)
        return given if is_said and self.profile.session and self.play.history is None and not self.command else None

    def _say(self, text: str) -> None:
        self.record(events.Notice(code="terminal", text=text))

    def _film(self, keeper: ProcessKeeper) -> None:
        """Begins the recording, where one is wanted. One that can't be written is said, and no reason to fail."""
        if not self.play.turn.settings.record:
            return
        agent, number = self.play.turn.agent, self.play.number
        try:
            self.living.record(keeper.cast(number), title=f"{agent}, turn {number}", clock=self.clock)
        except DiskError as error:
            self._say(f"no recording of this turn: {error.message}")

    # -- the turn ------------------------------------------------------------------------------------------------------

    async def _accompany(self) -> spawn.Ended | None:
        """Until the agent's process and all that it started are gone, or (None) the turn is over and it may stay."""
        waiting = self.living.ended
        talking = asyncio.create_task(self._talk())
        try:
            while not waiting.done() and not talking.done() and not self._is_deaf():
                await asyncio.wait({waiting, talking}, timeout=TICK_S)
                self.desk.tick()
                self._report_strange()
            if waiting.done() and not talking.done():
                self.end.exited(self.clock.monotonic())
                await asyncio.wait({talking}, timeout=1.0)
            elif talking.done():
                talking.result()
        finally:
            talking.cancel()
            await asyncio.wait({talking})
        self.by_itself = self.living.gone
        self._look_at_start()
        return None if self._may_stay() else await self._leave()

    def _report_strange(self) -> None:
        """Says, once of each, that the agent shows what nobody described; it may still go on."""
        if not self.end.is_strange(self.clock.monotonic()):
            return
        screen = shown(self.desk.seen.rows)
        if screen not in self.reported:
            self.reported.add(screen)
            self.record(events.Notice(code="unknown_screen", text=f"{_STRANGE}\n{screen}"))

    def _look_at_start(self) -> None:
        """Says why another agent is to be started, where this one ended by itself and nobody typed anything."""
        if not self.by_itself or self.typed or self.desk.is_stopped:
            return
        if self.is_kept:
            if self.not_ready:
                self._say(self.not_ready)
            return
        dialog = self.dialogs.agreed_just_now()
        if dialog and not (self.is_last or self.dialogs.failed or self.living.viewers.typed_at is not None):
            self.not_ready = f"it ended right after its dialog ({dialog})"
            self._say(f"{self.not_ready} and is started once more; its screen:\n{shown(self.desk.seen.rows)}")

    def _is_deaf(self) -> bool:
        """Whether the turn was stopped, and whoever types is held up all the same."""
        if self.desk.is_stopped and self.stopped_at is None:
            self.stopped_at = self.clock.monotonic()
        return self.stopped_at is not None and self.clock.monotonic() - self.stopped_at > DEAF_S

    async def _talk(self) -> None:
        """The conversation, from the start-up dialogs to the end of the turn."""
        if self.is_kept and not await self._is_ready_again():
            self.not_ready = "" if self.desk.is_stopped else "it took no message any more"
            return
        if not await self._reach(State.READY):
            return
        await self._composer_free()
        with self.living.viewers.held():
            if self.desk.is_over or not await self._type():
                return
        crash_point("prompt.written")
        if await self._reach(State.DONE):
            self.reply = self._reply()  # some wipe their screen when they quit
            if not self.reply and not self.end.profile.at_cursor:
                await self.desk.watch(lambda: bool(self._reply()), LATE_S)
                self.reply = self._reply()

    async def _type(self) -> bool:
        """Types the message and sends it off; whether the agent took it."""
        crash_point("prompt.before")
        self.typed = True
        self.record(events.PromptSent(bytes=len(self.play.turn.text.encode("utf-8", "replace"))), sync=True)
        crash_point("prompt.sent")
        self.living.mark("typing")
        try:
            self.command = self.play.commands and _is_command(self.profile, self.play.turn.text)
            self.segments = await typing.say(self.desk, self.end, self.play.turn.text, command=self.command)
        except typing.NotTakenError as error:
            if not self.end.ended and not self.desk.is_stopped:
                self.failed = stalled(str(error), self.desk.seen)
            return False
        self.living.mark("sent")
        return True

    async def _is_ready_again(self) -> bool:
        """Whether a kept agent takes a message. Whoever looks at it may be using it: then it is waited for."""
        wanted = (State.READY, State.WAITING)
        while not await self.desk.until(lambda: self.end.state in wanted, KEPT_S):
            if self.desk.is_over or not (self.end.reading.busy or self.living.viewers.count):
                return False
        return self.end.state is State.READY or self.end.reading.dialog is not None

    async def _composer_free(self) -> None:
        """Until no viewer is typing or has left half a message there."""
        viewers, loop = self.living.viewers, asyncio.get_running_loop()

        def is_free() -> bool:
            if viewers.typed_at is None:
                return True
            is_empty = self.end.reading.idle or not self.end.profile.prompt
            return is_empty and loop.time() - viewers.typed_at > TYPED_S

        await self.desk.until(is_free, _FOR_EVER_S)

    async def _reach(self, wanted: State) -> bool:
        """Goes on, answering dialogs, until the agent is there; False if the turn is over otherwise."""
        while True:
            await self.desk.until(lambda: self.end.state in (wanted, State.WAITING) or self.desk.is_over, 3600.0)
            if self.end.state is wanted:
                return True
            if self.desk.is_over or not await self.dialogs.answer():
                return False

    def _may_stay(self) -> bool:
        """Whether the agent waits for the next message where it is. After a command of its own (`/clear`) nobody knows
        which session that is; what says its session's id only when it quits does so once, after its first turn."""
        if self.keeper is None or not self.keeper.keeps or self.play.keep <= 0:
            return False
        known = self.play.turn.session_id or self._session_given()
        if self.profile.session and self.play.history is None and known is None:
            return False
        is_well = self.end.state in (State.DONE, State.ERROR) and not self.desk.is_stopped
        failed = self.failed or self.dialogs.failed
        return is_well and failed is None and not (self.command or self.living.gone)

    async def _leave(self) -> spawn.Ended:
        """Asks the agent to quit; then it is ended with everything that it started."""
        if self.desk.is_stopped and not self.end.ended and not self.stop.hard:
            await self._interrupt()
        return await self.living.quit(hard=lambda: self.stop.hard)

    async def _interrupt(self) -> None:
        """Makes it stop what it does. Some want to be told twice."""

        def is_free() -> bool:
            return self.end.ended or self.end.reading.idle or self.stop.hard

        grace = self.play.limits.grace
        await self.living.press(self.profile.interrupt)
        if await self.desk.watch(is_free, min(AGAIN_S, grace)):
            return
        if self.end.reading.busy:
            await self.living.press(self.profile.interrupt)
        await self.desk.watch(is_free, grace - AGAIN_S)

    # -- what comes of it ----------------------------------------------------------------------------------------------

    def _reply(self) -> str:
        """The answer as the screen shows it."""
        return reply_on_screen(self.end, self.screen, self.play.turn.text, self.segments, self.desk.prompt_mark)

    def _verdict(self, ended: spawn.Ended | None) -> Verdict:
        reader = self.desk.reader
        told = self.desk.told or (reader.verdict() if reader is not None else None)
        return verdict_of(
            TurnEvidence(
                end=self.end,
                view=self.desk.seen,
                reply=self.reply,
                told=told if reader is not None and reader.word else None,
                failed=self.failed or self.dialogs.failed,
                stopped=self.desk.is_stopped,
                session_id=told.session_id if told is not None else None,
                command=self.command,
                denials=tuple(self.play.asks.denials),
                ended=ended,
            )
        )
