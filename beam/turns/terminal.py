"""The terminal face: one agent on a screen, a turn long. Typed to, watched until it is idle again, and read.

Owns the turn's clocks on this face, what is done about dialogs, and where the answer comes from. What a screen means is
`pty_adapter`'s; what an agent's screen looks like is its adapter's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, structs

from beam import events
from beam.agents.base import History, Host, Launch, Terminal, Transcript, Turn, Verdict
from beam.agents.profile import Dialog, Profile
from beam.clock import Clock
from beam.faults import reached
from beam.limits import Limits
from beam.outcome import Class, Denial, Status
from beam.process import spawn
from beam.process.environment import environment
from beam.pty_adapter import answer, typing
from beam.pty_adapter import profile as profiles
from beam.pty_adapter.screen import Screen, Signal, View
from beam.pty_adapter.terminal import Terminal as Window
from beam.pty_adapter.terminal import open_terminal
from beam.pty_adapter.turn_end import State, TurnEnd
from beam.turns.order import Record, write_scratch
from beam.turns.stop import Stop

TICK_S = 0.05
FRAME_S = 0.25  # the longest that an unfinished frame is left out
LATE_S = 1.0  # the last paint may come after everything says that the turn is over
KEY_S = 0.15  # between two keys of an answer
QUIT_S = 3.0
LOOK_S = 0.1
_SHOWN_ROWS = 20
_SAME_DIALOG = 3


class Play(Struct, frozen=True, kw_only=True):
    """What one turn on this face needs. Times are seconds. `commands`: a text like `/context` is for the agent's own
    screen, and no message."""

    terminal: Terminal
    history: History | None
    turn: Turn
    host: Host
    turn_key: str
    limits: Limits
    environ: Mapping[str, str]
    child_env: Mapping[str, str]
    timeout: float
    idle_timeout: float
    commands: bool


async def play(play: Play, record: Record, stop: Stop, clock: Clock, look: Callable[[], None]) -> Verdict:
    """The verdict on the turn; the agent is gone when it is there."""
    return await _Sitting(play, record, stop, clock, look).run()


def _is_command(profile: Profile, text: str) -> bool:
    return bool(profile.special) and text.startswith("/") and "\n" not in text


class _Sitting:
    """One agent on its terminal. It is the `Hands` of whoever types."""

    def __init__(self, play: Play, record: Record, stop: Stop, clock: Clock, look: Callable[[], None]) -> None:
        self.play = play
        self.record = record
        self.stop = stop
        self.clock = clock
        self.look = look
        self.profile: Profile = play.terminal.profile
        self.screen = Screen(self.profile.columns, self.profile.rows)
        self.end = TurnEnd(self.profile, now=clock.monotonic(), has_history=play.history is not None)
        self.window: Window
        self.transcript: Transcript | None = None
        self.seen = View(())
        self.seen_bytes = -1
        self.fed = asyncio.Event()
        self.framed_at = clock.monotonic()
        self.looked_at = 0.0
        self.began = clock.monotonic()
        self.quiet_since = self.began
        self.read_to = 0
        self.segments: list[typing.Segment] = []
        self.prompt_mark: Signal | None = None
        self.denials: list[Denial] = []
        self.command = False
        self.reply = ""
        self.answers: dict[str, int] = {}
        self.failed: Verdict | None = None

    async def run(self) -> Verdict:
        play, turn = self.play, self.play.turn
        launch = play.terminal.launch(turn, play.host)
        write_scratch(Path(turn.scratch), launch.files)
        self._open_history()
        self.window = await open_terminal(
            launch.argv,
            env=environment(play.environ, {**play.child_env, **launch.env}),
            cwd=turn.cwd,
            turn_key=play.turn_key,
            screen=self.screen,
            on_output=self.fed.set,
        )
        reached("agent.spawned")
        try:
            self._started(launch)
            ended = await self._accompany()
        except BaseException:
            self.window.child.end(0)
            await self.window.child.wait()
            raise
        finally:
            await self.window.close()
        self._read_history()
        if self.end.state in (State.DONE, State.ERROR):
            self.record(events.StatusChanged(state="idle", detail=f"by {self.end.via}"))
        verdict = self._verdict(ended)
        self.record(
            events.AgentExited(
                code=ended.code, signal=ended.signal, stopped_by=self.stop.reason or "quit", swept=ended.swept
            )
        )
        reached("agent.exited")
        return verdict

    def _started(self, launch: Launch) -> None:
        child = self.window.child
        self.record(
            events.AgentStarted(
                pid=child.pid,
                start_ticks=child.start_ticks,
                guard_pid=child.guard_pid,
                guard_start_ticks=child.guard_start_ticks,
                argv=launch.argv,
                cwd=self.play.turn.cwd,
            ),
            sync=True,
        )
        reached("agent.started")

    # -- the turn ------------------------------------------------------------------------------------------------------

    async def _accompany(self) -> spawn.Ended:
        """Until the agent's process and all that it started are gone."""
        child = self.window.child
        waiting = asyncio.create_task(child.wait())
        talking = asyncio.create_task(self._talk())
        try:
            while not waiting.done() and not talking.done():
                await asyncio.wait({waiting, talking}, timeout=TICK_S)
                self._tick()
            if talking.done():
                talking.result()
                await self._leave(waiting)
            else:
                self.end.exited(self.clock.monotonic())
                await asyncio.wait({talking}, timeout=1.0)
        finally:
            talking.cancel()
            await asyncio.wait({talking})
        return await waiting

    async def _talk(self) -> None:
        """The conversation, from the start-up dialogs to the end of the turn."""
        if not await self._reach(State.READY):
            return
        reached("prompt.before")
        self.record(events.PromptSent(bytes=len(self.play.turn.text.encode("utf-8", "replace"))), sync=True)
        reached("prompt.sent")
        try:
            self.command = self.play.commands and _is_command(self.profile, self.play.turn.text)
            self.segments = await typing.say(self, self.end, self.play.turn.text, command=self.command)
        except typing.NotTakenError as error:
            if not self.end.ended and not self._stopped():
                self.failed = self._stalled(str(error))
            return
        reached("prompt.written")
        if await self._reach(State.DONE):
            self.reply = self._reply()  # some wipe their screen when they quit
            if not self.reply and not self.end.profile.at_cursor:
                await self._watch(lambda: bool(self._reply()), LATE_S)
                self.reply = self._reply()

    async def _reach(self, wanted: State) -> bool:
        """Goes on, answering dialogs, until the agent is there; False if the turn is over otherwise."""
        while True:
            await self.until(lambda: self.end.state in (wanted, State.WAITING) or self._over(), 3600.0)
            if self.end.state is wanted:
                return True
            if self._over() or not await self._answer():
                return False

    def _over(self) -> bool:
        return self.end.ended or self.stop.reason is not None

    def _stopped(self) -> bool:
        return self.stop.reason is not None

    async def _answer(self) -> bool:
        """Answers the open dialog by what beam may decide itself; False if it may not."""
        dialog = self.end.reading.dialog
        if dialog is None:
            await self.until(
                lambda: self.end.reading.dialog is not None or self._over(), 2.0
            )  # a signal came before it
            dialog = self.end.reading.dialog
        if dialog is None:
            if self.end.state is State.WAITING:
                self.failed = self._stalled("it asks something that beam does not know")
            return self.end.state is not State.WAITING
        self.answers[dialog.name] = self.answers.get(dialog.name, 0) + 1
        if self.answers[dialog.name] > _SAME_DIALOG and dialog.kind != "permission":
            self.failed = self._stalled(f"it goes on asking ({dialog.name})")
            return False
        keys = dialog.allow
        if dialog.kind == "permission":
            keys = dialog.deny
            self._denied(dialog)
        elif dialog.kind == "login" or (dialog.kind == "trust" and not self.play.turn.folder_trusted):
            hint = "beam trust" if dialog.kind == "trust" else "log in with the agent itself first"
            self.failed = Verdict(
                status=Status.FAILED,
                class_=Class.AUTH if dialog.kind == "login" else Class.BAD_REQUEST,
                reason=f"the agent asks a person ({dialog.name}): {hint}\n{self._shown()}",
            )
            return False
        before = self.seen
        for key in keys:
            await self.press(key)
            await self.until(lambda: False, KEY_S)
        await self.until(lambda: self.seen.rows != before.rows, 2.0)
        self.end.answered(self.clock.monotonic())
        return True

    def _denied(self, dialog: Dialog) -> None:
        ask_id = f"{self.play.turn.message_id}-{len(self.denials) + 1}"
        found = profiles.pattern(dialog.subject).search(self.seen.text) if dialog.subject else None
        tool = found[1].strip() if found else dialog.name
        self.record(events.PermissionAsked(ask_id=ask_id, tool=tool, description=self._shown()))
        why = "nobody to ask on this screen"
        self.record(events.PermissionDecided(ask_id=ask_id, decision="deny", by="default", why=why), sync=True)
        self.denials.append(Denial(tool=tool, by="default"))

    async def _leave(self, waiting: asyncio.Task[spawn.Ended]) -> None:
        """Asks the agent to quit; then it is ended with everything that it started."""
        child = self.window.child
        if self._stopped() and not self.end.ended and not self.stop.hard:
            await self.press(self.profile.interrupt)
            await self._watch(lambda: self.end.ended or self.end.reading.idle or self.stop.hard, self.play.limits.grace)
        if not self.stop.hard:
            for key in self.profile.quit:
                await asyncio.wait_for(self.press(key), KEY_S * 4)
                await asyncio.wait({waiting}, timeout=KEY_S)
            await asyncio.wait({waiting}, timeout=QUIT_S)
        child.end(0 if self.stop.hard else 1.0)

    # -- the hands -----------------------------------------------------------------------------------------------------

    async def press(self, keys: str) -> None:
        await self.window.press(keys)

    async def paste(self, text: str) -> None:
        await self.window.paste(text)

    def reads_keys(self) -> bool:
        return self.window.reads_keys()

    def takes_pastes(self) -> bool:
        return self.screen.bracketed_paste

    def view(self) -> View:
        return self.seen

    def now(self) -> float:
        return self.clock.monotonic()

    async def until(self, claim: typing.Claim, seconds: float) -> bool:
        return await self._watch(lambda: claim() or self._over(), seconds) and claim()

    async def _watch(self, claim: typing.Claim, seconds: float) -> bool:
        """As `until`, whether or not the turn is over."""
        deadline = self.clock.monotonic() + seconds
        while not claim():
            left = deadline - self.clock.monotonic()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(min(left, TICK_S)):
                    await self.fed.wait()
                await asyncio.sleep(min(left, 0.01))
            except TimeoutError:
                pass
            self._tick()
        return True

    # -- what is seen --------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Looks at everything that may have changed."""
        self.fed.clear()
        now = self.clock.monotonic()
        signals = self.screen.take_signals()
        for signal in signals:
            if signal.number == 133 and signal.text[:1] == "A":
                self.prompt_mark = signal
        whole = not self.screen.drawing or now - self.framed_at > FRAME_S
        if not self.screen.drawing:
            self.framed_at = now
        if self.seen_bytes != self.screen.bytes:
            self.seen, self.seen_bytes = self.screen.view(), self.screen.bytes
            self.quiet_since = now
        self.end.hear(signals, now)
        self.end.look(self.seen, now, whole=whole, reads_keys=self.window.reads_keys())
        if now - self.looked_at >= LOOK_S:
            self.looked_at = now
            self._read_history()
            self.look()
            self._check_clocks(now)

    def _check_clocks(self, now: float) -> None:
        if self.stop.reason is None:
            if now - self.began > self.play.timeout:
                self.stop.ask("timeout")
            elif now - self.quiet_since > self.play.idle_timeout:
                self.stop.ask("idle")

    # -- the transcript ------------------------------------------------------------------------------------------------

    def _open_history(self) -> None:
        history = self.play.history
        if history is None:
            return
        self.transcript = history.transcript(self.play.turn)
        self.path = history.where(self.play.turn, self.play.host)
        self.rest = b""
        try:
            self.read_to = Path(self.path).stat().st_size
        except OSError:
            self.read_to = 0

    def _read_history(self) -> None:
        """The transcript's new lines become events, and evidence."""
        if self.transcript is None:
            return
        try:
            with Path(self.path).open("rb") as file:
                file.seek(self.read_to)
                data = file.read()
        except OSError:
            return
        self.read_to += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            for body in self.transcript.line(line):
                self.record(body)
        if self.transcript.word:
            self.end.told(self.transcript.word, self.clock.monotonic(), error=self.transcript.error)

    # -- the verdict ---------------------------------------------------------------------------------------------------

    def _verdict(self, ended: spawn.Ended) -> Verdict:
        state = self.end.state
        if self.failed is not None and not self._stopped():
            return self.failed
        if state in (State.DONE, State.ERROR):
            return self._answered()
        if self._stopped():
            session_id = self.transcript.verdict().session_id if self.transcript is not None else None
            return Verdict(status=Status.CANCELLED, reason="stopped", session_id=session_id)
        if state is State.EXITED:
            how = f"was ended by {ended.signal}" if ended.signal else f"exited with {ended.code}"
            reason = f"{self.profile.name} {how} before its turn was over; its screen:\n{self._shown()}"
            return Verdict(status=Status.FAILED, class_=Class.CRASHED, reason=reason)
        return self._stalled(self.end.reason or "nobody knows what it waits for")

    def _answered(self) -> Verdict:
        verdict = self.transcript.verdict() if self.transcript is not None and self.transcript.word else None
        if verdict is None or (verdict.status is Status.COMPLETED and not verdict.reply):
            reply = self.reply
            known = verdict or Verdict(status=Status.COMPLETED)
            verdict = structs.replace(known, reply=reply, lossy=True)
            if self.end.state is State.ERROR:
                verdict = structs.replace(
                    verdict, status=Status.FAILED, class_=Class.UNKNOWN, reason=self.end.reason, reply=None
                )
            elif reply:
                self.record(events.Text(text=reply))
            elif not self.end.profile.at_cursor and not self.command:
                verdict = structs.replace(
                    verdict,
                    status=Status.FAILED,
                    class_=Class.UNKNOWN,
                    reason=f"it is idle again, and no answer was found on its screen:\n{self._shown()}",
                    reply=None,
                )
        if self.denials:
            verdict = structs.replace(verdict, denials=(*verdict.denials, *self.denials))
            if verdict.status in (Status.COMPLETED, Status.CANCELLED):
                verdict = structs.replace(verdict, status=Status.DENIED, reason="a request was denied: nobody to ask")
        return verdict

    def _reply(self) -> str:
        """The answer as the screen shows it."""
        profile, columns = self.end.profile, self.screen.columns
        if not profile.at_cursor:
            return answer.of_conversation(profile, self.screen.lines(), self.play.turn.text, columns=columns)
        parts = []
        for segment in self.segments:
            end = segment.end
            column = 0
            if end is None:
                mark = self.prompt_mark if self.end.via == "osc133" else None
                reading = self.end.reading.prompt
                end = mark.line if mark else reading if reading is not None else self.end.position
                column = mark.column if mark else 0
            lines = self.screen.lines(segment.start)
            shown = lines[: max(0, end - segment.start)]
            text = answer.of_lines(shown, columns=columns)
            if column and len(lines) > len(shown):
                text = f"{text}\n{lines[len(shown)].text[:column]}".lstrip("\n")
            parts.append(text)
        return "\n".join(part for part in parts if part)

    def _stalled(self, why: str) -> Verdict:
        return Verdict(status=Status.FAILED, class_=Class.STALLED, reason=f"{why}; its screen:\n{self._shown()}")

    def _shown(self) -> str:
        rows = [row for row in self.seen.rows if row.strip()]
        return "\n".join(rows[-_SHOWN_ROWS:])
