"""The dialogue driver: one turn of an agent that speaks a protocol. It carries out the steps of the agent's link.

An acknowledged prompt is not the end of a turn. If a turn has to be stopped, its open requests are answered, and then
it is interrupted through the protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import structs

from beam.agents import link
from beam.agents.base import Launch, Verdict, died
from beam.base import files
from beam.base.faults import crash_point
from beam.model.outcome import Class, Status
from beam.process import spawn
from beam.turns.asks import AcceptedAnswers, Ask, ruling_on, with_denials
from beam.turns.dialogue.process import LinkProcess, answer_of
from beam.turns.engine import Engine
from beam.turns.handle import TurnHandle, TurnServices
from beam.turns.input import TurnInput
from beam.turns.outcome import asks_to_log_in
from beam.turns.process import ReuseKey, write_scratch

TICK_S = 0.05
_NOT_READY = "it accepted no more messages"


async def run_turn(dialogue: link.Dialogue, input: TurnInput, services: TurnServices, handle: TurnHandle) -> Verdict:
    """Run the turn; return its verdict.

    The agent's process is gone afterwards, unless the keeper has it. If the session proves to be lost, that is
    recorded, and the turn begins once more in a new session. Raises the exceptions of `Engine.run`.
    """
    engine = Engine(input, services, handle)
    kept = None
    if services.keeper is not None:
        kept = await services.keeper.take_process(ReuseKey.of(input, "dialogue", input.turn.session_id))
    first = LinkTurn(input, engine, kept, is_kept=True) if isinstance(kept, LinkProcess) else None

    def turn(input: TurnInput, launch: Launch) -> LinkTurn:
        conversation = dialogue.link(input.turn, input.host)
        return LinkTurn(input, engine, LinkProcess(launch, conversation, input, services.clock))

    return await engine.run_in_session(dialogue.launch, turn, kept=first)


class LinkTurn:
    """One turn in one process that has a link (see `agents/link.py`)."""

    tick_s = TICK_S
    reports_tool_ends = True

    def __init__(self, input: TurnInput, engine: Engine, process: LinkProcess, *, is_kept: bool = False) -> None:
        self.input = input
        self.not_ready = ""
        self.acknowledged = False
        self.over: link.Over | None = None
        self._engine = engine
        self._process = process
        self._is_kept = is_kept
        self._open: dict[str, Ask] = {}  # requests that the agent waits for, by their keys
        self._access: str = input.turn.access  # the agent's access now
        self._requested_access: dict[str, str] = {}  # by the id of the call: the access that it requests
        self._news = asyncio.Event()
        self._is_sent = False
        self._ended_itself = False
        self._is_cut_short = False  # a stop left one of the agent's requests undecided

    @property
    def _has_agent_finished(self) -> bool:
        """Return whether nothing more will come from the agent in this turn."""
        return self.over is not None or self._process.broken is not None or self._process.is_gone

    # -- the start -----------------------------------------------------------------------------------------------------

    async def start(self) -> LinkProcess:
        if not self._is_kept:
            files.make_directory(self.input.scratch)
            write_scratch(self.input.scratch, self._process.launch.files)
            await self._process.start(self.input)
            crash_point("agent.spawned")
        return self._process

    async def begin(self) -> None:
        self._process.listen(self._on_step, self._on_output)
        if not self._is_kept:
            self._process.go()

    # -- the conversation ----------------------------------------------------------------------------------------------

    async def talk(self) -> None:
        await self._wait_until(lambda: self._process.ready or self._engine.is_stopped)
        if self._has_agent_finished or self._engine.is_stopped:
            return
        text = self.input.turn.text.encode("utf-8", "replace")
        self._is_sent = True
        self._engine.record_prompt_sent(len(text))
        self._process.do(link.Prompt(turn=self.input.turn))
        crash_point("prompt.written")
        self._engine.calls.takes = True
        await self._wait_until(lambda: False)

    async def _wait_until(self, claim: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until `claim` returns True, or until nothing more will come from the agent.

        Wait for at most `seconds` (None: without a limit).
        """
        clock = self._engine.clock
        until = None if seconds is None else clock.monotonic() + seconds
        while not (claim() or self._has_agent_finished) and (until is None or clock.monotonic() < until):
            self._news.clear()
            try:
                async with asyncio.timeout(TICK_S):
                    await self._news.wait()
            except TimeoutError:
                pass

    def tick(self) -> None:
        self._deliver_decisions()
        for call in self._engine.calls.take_unforwarded():
            if isinstance(call, link.Set) and call.name == "access":
                self._requested_access[call.id] = call.value
            self._process.do(call)
        self._process.wake()

    def process_gone(self) -> None:
        self._news.set()

    def _on_output(self) -> None:
        """Count output as a sign of life, unless it only reports that the model does not answer."""
        if not self._engine.book.retrying:
            self._engine.record_sign_of_life()

    def _on_step(self, step: link.Step) -> None:
        """Handle a step of the link, in a callback of the event loop."""
        if not self._engine.is_broken:
            self._engine.run_guarded(lambda: self._handle_step(step))
        self._news.set()

    def _handle_step(self, step: link.Step) -> None:
        match step:
            case link.Asked() | link.Stirred() if self.over is not None or (self._is_kept and not self._is_sent):
                self._process.on_idle_step(step)
            case link.Say():
                self._engine.record_events(lambda: (step.event,), retries=self._process.launch.retries)
            case link.Acknowledged():
                self.acknowledged = True
            case link.Asked():
                self._create_ask(step)
            case link.Withdrawn():
                ask = self._open.pop(step.key, None)
                if ask is not None:
                    self._engine.asks.cancel(ask, step.why)
            case link.Answered():
                access = self._requested_access.pop(step.id, None)
                if access is not None and step.ok:
                    self._access = access
                self._engine.calls.answer_call(step.id, answer_of(step))
            case link.Over():
                if self._is_sent:
                    self.over = self.over or step
                self._cancel_asks("the turn is over")

    # -- requests ------------------------------------------------------------------------------------------------------

    def _create_ask(self, step: link.Asked) -> None:
        ruling = ruling_on(step.call, self.input)
        if step.granted and ruling is None and not self._engine.is_stopped:
            self._process.do(link.Decide(key=step.key, decision="allow"))
            return
        self._engine.flush()
        access = self._access
        is_ruled = ruling is not None and (ruling.behavior == "deny" or (ruling.behavior == "allow" and step.allow))
        waits = access == "ask" if ruling is None else not is_ruled
        ask = self._engine.asks.ask(
            step.tool,
            input=step.input,
            description=step.description,
            call_id=step.call_id,
            suggestions=step.suggestions,
            takes=AcceptedAnswers(allow=step.allow, always=step.always, message=step.message, changes=step.changes),
            waits=waits and not self._engine.is_stopped,
        )
        self._open[step.key] = ask
        if self._engine.is_stopped:
            self._cancel_asks(self._why_stopped())
        elif ruling is not None and is_ruled:
            self._engine.asks.apply_ruling(ask, ruling)
            self._deliver_decisions()
        elif not waits:
            self._engine.asks.deny_by_default(ask, f"nobody is asked with access {access}")
            self._deliver_decisions()

    def _deliver_decisions(self) -> None:
        """Send the decisions that were made since the last call to the agent."""
        for key, ask in list(self._open.items()):
            decision = ask.decision
            if not ask.is_settled:
                continue
            del self._open[key]
            if decision is None:
                self._process.do(link.Decide(key=key, decision="cancelled"))
                continue
            self._process.do(
                link.Decide(
                    key=key,
                    decision=decision.decision,
                    message=decision.message,
                    always=decision.always,
                    input=decision.input,
                )
            )
            if ask.id in self._engine.asks.always:
                self._engine.asks.always.remove(ask.id)  # it holds for this session only: it changes no file of the CLI
            if decision.stop:
                self._engine.stop.request("cancelled", by=decision.by)

    def _cancel_asks(self, why: str) -> None:
        """Tell the agent that its open requests are cancelled, because some agents end no turn while one is open."""
        self._deliver_decisions()
        self._is_cut_short = self._is_cut_short or (bool(self._open) and self._engine.is_stopped)
        for ask in self._open.values():
            self._engine.asks.cancel(ask, why)
        self._deliver_decisions()

    def _why_stopped(self) -> str:
        return f"the turn was stopped ({self._engine.stop.reason})"

    # -- the end -------------------------------------------------------------------------------------------------------

    async def interrupt(self) -> None:
        self._engine.calls.close(self._why_stopped())
        self._cancel_asks(self._why_stopped())
        if self._is_sent and not self._has_agent_finished:
            self._process.do(link.Interrupt())
            await self._wait_until(self._engine.must_end_now, self.input.limits.grace)

    async def leave(self) -> spawn.ProcessEnd | None:
        process, engine = self._process, self._engine
        engine.calls.close("the turn is over")
        self._ended_itself = process.has_died() and not engine.is_stopped
        if self._is_kept and not self._is_sent and not engine.is_stopped:
            self.not_ready = process.why_unfit or _NOT_READY
        if self._may_stay():
            process.listen(None)
            return None
        return await process.quit(
            hard=lambda: engine.must_end_now() or (process.broken is not None and self.over is None)
        )

    def _may_stay(self) -> bool:
        """Return whether the process may be kept for the next message. After a stop its state is unknown."""
        keeper = self._engine.keeper
        if keeper is None or not keeper.keeps or self.input.keep <= 0 or self._engine.is_stopped:
            return False
        is_well = self.over is not None and self.over.fit and not (self._process.link.busy or self._engine.book.lost)
        return is_well and not (self._ended_itself or self._process.broken)

    def stopped_by(self) -> str | None:
        if self._ended_itself:
            return None
        return self.not_ready or self._engine.stop.reason or self._process.why_unfit or "quit"

    def reuse_key(self, session_id: str | None) -> ReuseKey:
        return ReuseKey.of(self.input, "dialogue", session_id or self.input.turn.session_id)

    def finish(self, ended: spawn.ProcessEnd | None) -> Verdict | None:
        if ended is not None:
            self._process.finish(ended, self._engine.stop.reason)
        return None if self.not_ready else self._verdict(ended)

    def _verdict(self, ended: spawn.ProcessEnd | None) -> Verdict:
        stop, denials = self._engine.stop, tuple(self._engine.asks.denials)
        was_killed = self._ended_itself and ended is not None and ended.signal is not None
        if self.over is not None and not was_killed:  # else its commands were ended, whatever its other processes say
            verdict = self.over.verdict
            if self._is_cut_short and verdict.status is Status.COMPLETED:
                verdict = structs.replace(verdict, status=Status.CANCELLED)
            if stop.reason is not None and verdict.status is Status.CANCELLED:  # the stop caused this, not a denial
                return structs.replace(verdict, denials=(*verdict.denials, *denials))
            return with_denials(verdict, denials)
        turn, book = self.input.turn, self._engine.book
        if stop.reason is not None:
            resumed = None if turn.fork or book.lost else turn.session_id
            verdict = Verdict(status=Status.CANCELLED, reason="stopped", session_id=book.session_id or resumed)
        else:
            verdict = structs.replace(self._failure_verdict(ended), session_id=book.session_id)
        if book.used is not None:
            verdict = structs.replace(verdict, usage=book.used.usage, cost_usd=book.used.cost_usd)
        return structs.replace(verdict, denials=denials)

    def _failure_verdict(self, ended: spawn.ProcessEnd | None) -> Verdict:
        """Return the verdict on a conversation that broke off."""
        broken = self._process.broken
        name = self.input.turn.settings.adapter or "the agent"
        wants_login = ended is not None and not self._is_sent and asks_to_log_in(ended.stderr_tail)
        if broken is not None:
            class_ = Class.AUTH if wants_login and broken.class_ is Class.CRASHED else broken.class_
            return Verdict(status=Status.FAILED, class_=class_, reason=f"{name}: {broken.reason}")
        assert ended is not None
        verdict = died(self._process.exit_of(ended, None), name)
        if wants_login:
            return structs.replace(verdict, class_=Class.AUTH)
        if self._is_sent and not self.acknowledged:
            verdict = structs.replace(verdict, reason=f"{verdict.reason}; it did not acknowledge the message")
        return verdict
