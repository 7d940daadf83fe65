"""The dialogue face against an agent that speaks a protocol of lines: its asks, its end, and what breaks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw, structs

from beam.agents.base import Capabilities, Card, Decoder, Exit, Host, Launch, Turn, Verdict
from beam.agents.link import Link, Over, Query, Set
from beam.base.clock import SystemClock
from beam.base.errors import DiskError, NotFoundError, UnsupportedError
from beam.broker.inbox.build_request import build_turn_request
from beam.model import events
from beam.model.events import Event
from beam.model.message import RuleLists
from beam.model.outcome import Class, Status
from beam.model.settings import Limits
from beam.process import tree
from beam.rules.ruleset import Ruleset, combine, rules_of
from beam.turns import dialogue
from beam.turns.asks import CallAnswer, Decision
from beam.turns.choice import REASON_KEPT
from beam.turns.handle import TurnHandle
from beam.turns.process import ProcessKeeper
from beam.turns.run import run
from tests.support.context import Root
from tests.support.lines import Lines, LinesLink
from tests.support.memory import PROCESS_ALONE, Memory, Streams
from tests.support.turns import Recorded, handle, services, turn_input

NO_RULES = Ruleset()


@pytest.fixture(autouse=True)
def _in_memory(memory: Memory | None) -> None:
    """Each test with an agent in memory, and as acceptance test with a real process."""
    if memory is not None:
        memory.programs["sh -c echo what; exit 3"] = leaves_with_3


def leaves_with_3(streams: Streams) -> None:
    streams.stdout.write("what\n")
    streams.stdout.flush()
    sys.exit(3)


class Played:
    """Turns of one agent. `during` runs beside a turn."""

    def __init__(self, tmp_path: Path, face: Lines | None = None, *, keeps: bool = False) -> None:
        self.path = tmp_path
        self.face = face or Lines()
        self.journal = Recorded()
        self.number = 0
        self.handle: TurnHandle
        self.keeper = ProcessKeeper(tmp_path, self.journal, SystemClock(), keeps=keeps)

    async def turn(
        self,
        text: str,
        during: Callable[[Played], Awaitable[None]] | None = None,
        *,
        access: Any = "ask",
        session_id: str | None = None,
        rules: Ruleset = NO_RULES,
        **fields: Any,
    ) -> Verdict:
        self.number += 1
        self.path.mkdir(exist_ok=True)
        scratch = self.path / f"scratch-{self.number}"
        turn = Turn(
            text=text,
            message_id="x-1",
            agent="x",
            cwd=str(self.path),
            scratch=str(scratch),
            access=access,
            session_id=session_id,
            rules=rules,
        )
        settled = {"limits": Limits(grace=2, line_bytes=100_000), "number": self.number, "keep": 60.0, **fields}
        self.handle = handle(self.journal)
        input = turn_input(turn, **settled)
        running = asyncio.create_task(
            dialogue.run_turn(self.face, input, services(self.journal, keeper=self.keeper), self.handle)
        )
        if during is not None:
            await during(self)
        return await running

    async def until(self, claim: Callable[[], bool]) -> None:
        """Waits for it, for half a minute."""
        async with asyncio.timeout(30):
            while not claim():
                await asyncio.sleep(0.02)

    async def until_asked(self, count: int = 1) -> list[events.PermissionAsked]:
        await self.until(lambda: len(self.journal.of(events.PermissionAsked)) >= count)
        return self.journal.of(events.PermissionAsked)

    def all_gone(self) -> bool:
        """Whether no process of these turns lives."""
        return all(tree.start_ticks(one.pid) != one.start_ticks for one in self.journal.of(events.AgentStarted))


def play(tmp_path: Path, text: str, during: Any = None, *, face: Lines | None = None, **fields: Any) -> tuple[Any, ...]:
    """The turn, and its verdict."""
    played = Played(tmp_path, face)
    return played, asyncio.run(played.turn(text, during, **fields))


@pytest.mark.slow
def test_a_turn_says_its_steps_in_their_order(tmp_path: Path) -> None:
    played, verdict = play(tmp_path, "say hi")
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "hi")
    assert played.journal.kinds() == ["AgentStarted", "PromptSent", "Text", "AgentExited"]
    (exited,) = played.journal.of(events.AgentExited)
    assert (exited.code, exited.stopped_by) == (0, "quit")
    assert played.face.heard == ["Prompt", "Close"]


@pytest.mark.parametrize(("decision", "status"), [("allow", Status.COMPLETED), ("deny", Status.COMPLETED)])
def test_a_request_is_asked_once_and_its_decision_told(tmp_path: Path, decision: Any, status: Status) -> None:
    async def decide(played: Played) -> None:
        (asked,) = await played.until_asked()
        played.handle.asks.decide(asked.ask_id, Decision(decision=decision, by="ann", message="go on"))

    played, verdict = play(tmp_path, "ask", decide)
    assert (verdict.status, verdict.reply) == (status, f"1 {decision} go on")
    kinds = [kind for kind in played.journal.kinds() if kind.startswith(("Text", "Permission"))]
    assert kinds == ["TextDelta", "PermissionAsked", "PermissionDecided"]
    assert [denial.by for denial in verdict.denials] == (["ann"] if decision == "deny" else [])


def test_what_is_allowed_with_another_input_is_reported_and_recorded_with_it(tmp_path: Path) -> None:
    async def decide(played: Played) -> None:
        (asked,) = await played.until_asked()
        played.handle.asks.decide(asked.ask_id, Decision(decision="allow", by="ann", input=Raw(b'{"a":1}')))
        with pytest.raises(NotFoundError, match=r"no ask .* is open: it was allowed by ann"):
            played.handle.asks.decide(asked.ask_id, Decision(decision="deny", by="bob"))

    played, verdict = play(tmp_path, "any", decide)
    assert verdict.reply == '1 allow {"a":1}'
    (decided,) = played.journal.of(events.PermissionDecided)
    assert (decided.decision, decided.by, decided.input) == ("allow", "ann", Raw(b'{"a":1}'))


def test_an_agent_that_takes_no_other_input_is_told_nothing_and_stays_asked(tmp_path: Path) -> None:
    async def decide(played: Played) -> None:
        (asked,) = await played.until_asked()
        with pytest.raises(UnsupportedError, match="runs what it asked for or nothing"):
            played.handle.asks.decide(asked.ask_id, Decision(decision="allow", by="ann", input=Raw(b"{}")))
        assert played.handle.asks.are_open
        played.handle.asks.decide(asked.ask_id, Decision(decision="deny", by="ann"))

    _, verdict = play(tmp_path, "ask", decide)
    assert verdict.reply == "1 deny "


def test_what_is_allowed_always_is_allowed_in_the_session_and_trusts_no_file(tmp_path: Path) -> None:
    async def decide(played: Played) -> None:
        (asked,) = await played.until_asked()
        played.handle.asks.decide(asked.ask_id, Decision(decision="allow", by="ann", always=True))

    played, _ = play(tmp_path, "ask", decide)
    assert played.handle.asks.always == []


def test_a_request_with_access_that_asks_nobody_is_denied_at_once(tmp_path: Path) -> None:
    played, verdict = play(tmp_path, "ask", access="read")
    assert (verdict.status, verdict.reply) == (Status.DENIED, "1 deny ")
    (decided,) = played.journal.of(events.PermissionDecided)
    assert decided.by == "default"


def ruled(**lists: tuple[str, ...]) -> Ruleset:
    return combine(rules_of(RuleLists(**lists), "beam.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("access", ["read", "ask", "edit"])
def test_a_rule_decides_and_the_decision_says_which_and_whose(tmp_path: Path, access: str) -> None:
    rules = ruled(allow=("Bash(git *)",), deny=("Bash(rm *)",))
    played, verdict = play(tmp_path, "run Bash(git status && git log)", access=access, rules=rules)
    assert (verdict.status, verdict.reply, verdict.denials) == (Status.COMPLETED, "1 allow ", ())
    (decided,) = played.journal.of(events.PermissionDecided)
    assert (decided.decision, decided.by, decided.rule, decided.whose) == ("allow", "rule", "Bash(git *)", "beam.yaml")
    assert [asked.expires for asked in played.journal.of(events.PermissionAsked)] == [None]  # no person is asked
    played, verdict = play(tmp_path / "2", "run Bash(git status; rm x)", access=access, rules=rules)
    assert verdict.reply == "1 deny denied by the rule Bash(rm *) of beam.yaml"
    assert (verdict.status, [denial.by for denial in verdict.denials]) == (Status.COMPLETED, ["rule"])


@pytest.mark.parametrize("command", ["git status > x", "git $(rm x)", "rm x"])
def test_what_no_rule_allows_is_denied_as_the_access_says(tmp_path: Path, command: str) -> None:
    played, verdict = play(tmp_path, f"run Bash({command})", access="read", rules=ruled(allow=("Bash(git *)",)))
    assert (verdict.status, verdict.reply) == (Status.DENIED, "1 deny ")
    assert [decided.by for decided in played.journal.of(events.PermissionDecided)] == ["default"]


def test_no_rule_decides_about_a_request_that_nobody_can_read(tmp_path: Path) -> None:
    _, verdict = play(tmp_path, "ask", access="read", rules=ruled(allow=("Bash",)))
    assert (verdict.status, verdict.reply) == (Status.DENIED, "1 deny ")


@pytest.mark.parametrize("access", ["read", "ask", "edit", "full"])
def test_a_rule_that_asks_waits_for_a_person_whatever_the_access(tmp_path: Path, access: str) -> None:
    async def decide(played: Played) -> None:
        (asked,) = await played.until_asked()
        played.handle.asks.decide(asked.ask_id, Decision(decision="allow", by="ann"))

    rules = ruled(ask=("Bash(git push *)",), allow=("Bash",))
    played, verdict = play(tmp_path, "run Bash(git push)", decide, access=access, rules=rules)
    assert verdict.reply == "1 allow "
    assert [decided.by for decided in played.journal.of(events.PermissionDecided)] == ["ann"]


@pytest.mark.slow
def test_a_kept_process_has_the_rules_that_it_began_with(tmp_path: Path) -> None:
    async def turns() -> None:
        played = Played(tmp_path, keeps=True)
        for rules in (ruled(allow=("Bash",)), ruled(allow=("Bash",)), ruled()):
            await played.turn("say hi", rules=rules, session_id="s")
        started = played.journal.of(events.AgentStarted)
        assert [event.since for event in started] == [None, 1, None]
        await played.keeper.end("the test is over")

    asyncio.run(turns())


def test_a_request_that_is_denied_with_stop_ends_the_turn(tmp_path: Path) -> None:
    async def decide(played: Played) -> None:
        (asked, _) = await played.until_asked(2)
        played.handle.asks.decide(asked.ask_id, Decision(decision="deny", by="ann", stop=True))

    played, verdict = play(tmp_path, "asks", decide)
    assert verdict.status is Status.CANCELLED
    assert played.handle.stop.reason == "cancelled"
    assert played.face.heard == ["Prompt", "Decide deny", "Decide cancelled", "Interrupt", "Close"]


@pytest.mark.slow
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_turn_that_ends_early_has_its_session_and_what_it_used(tmp_path: Path, is_stopped: bool) -> None:
    async def stop(played: Played) -> None:
        await played.until(lambda: bool(played.journal.of(events.UsageSeen)))
        if is_stopped:
            played.handle.stop.request("cancelled")
            await asyncio.sleep(0.1)
            played.handle.stop.request("cancelled")

    _, verdict = play(tmp_path, "opens", stop)
    assert (verdict.status, verdict.session_id) == (Status.CANCELLED if is_stopped else Status.FAILED, "s-9")
    assert (verdict.usage.input_tokens, verdict.cost_usd) == (7, 0.5)


@pytest.mark.parametrize("text", ["fatal", "odd"])
def test_what_was_denied_is_listed_though_the_agent_then_fails(tmp_path: Path, text: str) -> None:
    async def decide(played: Played) -> None:
        (asked,) = await played.until_asked()
        played.handle.asks.decide(asked.ask_id, Decision(decision="deny", by="ann"))

    _, verdict = play(tmp_path, text, decide)
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.CRASHED)
    assert [(denial.tool, denial.by) for denial in verdict.denials] == [("Bash", "ann")]


def test_a_turn_that_was_stopped_before_its_request_was_decided_is_no_success(tmp_path: Path) -> None:
    async def stop(played: Played) -> None:
        await played.until_asked()
        played.handle.stop.request("timeout")

    played, verdict = play(tmp_path, "ask", stop)  # which says that it completed
    assert (verdict.status, verdict.reply) == (Status.CANCELLED, "1 cancelled ")
    assert played.face.heard[:2] == ["Prompt", "Decide cancelled"]


def test_a_request_that_the_agent_withdraws_is_over(tmp_path: Path) -> None:
    played, verdict = play(tmp_path, "moment")
    assert verdict.status is Status.COMPLETED
    (cancelled,) = played.journal.of(events.PermissionDecided)
    assert (cancelled.decision, cancelled.why) == ("cancelled", "it found another way")


def test_before_an_interrupt_every_open_request_is_answered_cancelled(tmp_path: Path) -> None:
    async def stop(played: Played) -> None:
        await played.until_asked(2)
        played.handle.stop.request("cancelled", by="ann")

    played, verdict = play(tmp_path, "asks", stop)
    assert (verdict.status, verdict.reply) == (Status.CANCELLED, "1 cancelled , 2 cancelled ")
    assert played.face.heard == ["Prompt", "Decide cancelled", "Decide cancelled", "Interrupt", "Close"]
    assert [event.decision for event in played.journal.of(events.PermissionDecided)] == ["cancelled", "cancelled"]


def test_several_requests_wait_at_once_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    async def decide(played: Played) -> None:
        first, second = await played.until_asked(2)
        played.handle.asks.decide(second.ask_id, Decision(decision="allow", by="ann"))
        played.handle.asks.decide(first.ask_id, Decision(decision="deny", by="bob"))
        await played.until(lambda: {"Decide allow", "Decide deny"} <= set(played.face.heard))
        played.handle.stop.request("cancelled", by="ann")  # this agent ends its turn then only

    played, verdict = play(tmp_path, "asks", decide)
    assert sorted(verdict.reply.split(", ")) == ["1 deny ", "2 allow "]
    decided = [(event.decision, event.by) for event in played.journal.of(events.PermissionDecided)]
    assert decided == [("allow", "ann"), ("deny", "bob")]


class Slow(Recorded):
    """A journal that notes what the agent was told by the time when a decision is on disk."""

    def __init__(self, face: Lines) -> None:
        super().__init__()
        self._face = face
        self.told: list[list[str]] = []

    def __call__(self, body: Event, *, sync: bool = False) -> Event:
        if isinstance(body, events.PermissionDecided):
            assert sync
            self.told.append([word for word in self._face.heard if word.startswith("Decide")])
        return super().__call__(body, sync=sync)


def test_a_decision_is_on_disk_before_the_agent_hears_of_it(tmp_path: Path) -> None:
    async def decide(played: Played) -> None:
        (asked,) = await played.until_asked()
        played.handle.asks.decide(asked.ask_id, Decision(decision="allow", by="ann"))

    face = Lines()
    played = Played(tmp_path, face)
    played.journal = journal = Slow(face)
    verdict = asyncio.run(played.turn("ask", decide))
    assert verdict.reply == "1 allow " and journal.told == [[]]


@pytest.mark.slow
def test_a_decision_that_cant_be_written_is_never_told_to_the_agent(tmp_path: Path) -> None:
    class Full(Recorded):
        def __call__(self, body: Event, *, sync: bool = False) -> Event:
            if isinstance(body, events.PermissionDecided):
                raise DiskError("the disk is full")
            return super().__call__(body, sync=sync)

    async def decide(played: Played) -> None:
        (asked,) = await played.until_asked()
        with pytest.raises(DiskError):
            played.handle.asks.decide(asked.ask_id, Decision(decision="allow", by="ann"))
        played.handle.stop.request("cancelled", by="ann")

    face = Lines()
    played = Played(tmp_path, face)
    played.journal = Full()
    verdict = asyncio.run(played.turn("ask", decide))
    assert verdict.status is Status.CANCELLED and "Decide allow" not in face.heard


@pytest.mark.parametrize("kind", [events.AgentStarted, events.PromptSent, events.Text, events.AgentExited])
def test_a_journal_that_fails_ends_the_turn_and_its_process_with_that_error(tmp_path: Path, kind: type[Event]) -> None:
    class Full(Recorded):
        def __call__(self, body: Event, *, sync: bool = False) -> Event:
            super().__call__(body, sync=sync)
            if isinstance(body, kind):
                raise DiskError("the disk is full")
            return body

    played = Played(tmp_path, Lines())
    played.journal = Full()
    with pytest.raises(DiskError, match="the disk is full"):
        asyncio.run(played.turn("say hi", timeout=20.0))
    assert played.all_gone()


def test_an_acknowledged_prompt_is_not_over(tmp_path: Path) -> None:
    clock = SystemClock()
    began = clock.monotonic()
    _, verdict = play(tmp_path, "later")
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "later")
    assert clock.monotonic() - began >= 1.0


def test_a_tool_call_that_is_open_at_the_end_did_not_finish(tmp_path: Path) -> None:
    played, _ = play(tmp_path, "tool")
    (returned,) = played.journal.of(events.ToolReturned)
    assert (returned.call_id, returned.unfinished) == ("c1", True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("garbage", "nobody understands '?'"),
        ("long", "it sent a line of more than 100000 bytes, the limit (limits: line_bytes)"),
        ("unheard", "it did not answer in time"),
    ],
)
def test_a_protocol_that_breaks_ends_the_turn_and_its_process(tmp_path: Path, text: str, reason: str) -> None:
    played, verdict = play(tmp_path, text)
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.CRASHED, None)
    assert reason in (verdict.reason or "")
    assert [exited.stopped_by for exited in played.journal.of(events.AgentExited)] == [reason]
    assert played.all_gone()


class Mourned(Lines):
    """A face whose link tells of the end of a process in a turn as its own verdict, as those of real CLIs do."""

    def link(self, turn: Turn, host: Host) -> Link:
        class Mourner(LinesLink):
            def end(self, exit: Exit) -> tuple[Over, ...]:
                return (Over(verdict=Verdict(status=Status.FAILED, reason="ended by SIGKILL before it answered")),)

        return Mourner(self.heard)


@pytest.mark.parametrize("text", ["long", "endless"])
def test_a_line_that_is_too_long_is_named_and_ends_the_turn_before_its_end(tmp_path: Path, text: str) -> None:
    played, verdict = play(tmp_path, text, face=Mourned(), timeout=30.0)
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.CRASHED)
    assert (verdict.reason or "").endswith("it sent a line of more than 100000 bytes, the limit (limits: line_bytes)")
    assert played.handle.stop.reason is None and not played.journal.of(events.Text)
    assert played.all_gone()


@pytest.mark.slow
def test_a_kept_process_that_writes_a_line_without_end_is_ended_before_the_next_turn(tmp_path: Path) -> None:
    async def turns(played: Played) -> None:
        assert (await played.turn("flood", session_id="s")).reply == "done"
        await played.until(lambda: played.keeper.reason_to_end("s") == "it exited")
        assert (await played.turn("say on", session_id="s")).reply == "on"

    played = scene(tmp_path, turns)
    assert started(played) == [None, None]
    (first, _) = played.journal.of(events.AgentExited)
    assert first.stopped_by is not None and "a line of more than 100000 bytes" in first.stopped_by


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dies", ["exited with 3 before it answered: out of luck"]),
        ("gone", ["exited with 4", "did not acknowledge the message"]),
    ],
)
def test_a_process_that_ends_in_its_turn_is_crashed(tmp_path: Path, text: str, said: list[str]) -> None:
    played, verdict = play(tmp_path, text)
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.CRASHED)
    assert [words for words in said if words not in (verdict.reason or "")] == []
    assert ("acknowledge" in (verdict.reason or "")) == (text == "gone")
    assert [exited.stopped_by for exited in played.journal.of(events.AgentExited)] == [None]


@PROCESS_ALONE
def test_a_turn_is_crashed_if_its_process_was_killed_though_another_of_its_processes_says_that_it_is_over(
    tmp_path: Path,
) -> None:
    played, verdict = play(tmp_path, "orphan")
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.CRASHED, None)
    assert "was ended by SIGKILL" in (verdict.reason or "")
    (exited,) = played.journal.of(events.AgentExited)
    assert (exited.signal, exited.stopped_by) == ("SIGKILL", None)
    assert played.all_gone()


def test_one_that_leaves_before_it_is_ready_was_sent_nothing(tmp_path: Path) -> None:
    played, verdict = play(tmp_path, "say hi", face=Lines("leaves"))
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.CRASHED)
    assert "no licence" in (verdict.reason or "")
    assert "PromptSent" not in played.journal.kinds()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "manner", "limits", "reason"),
    [
        ("deaf", "plain", {"timeout": 1.5}, "timeout"),
        ("deaf", "plain", {"idle_timeout": 1.5}, "idle"),
        ("say hi", "mute", {"timeout": 1.5}, "timeout"),
    ],
)
def test_a_turn_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, text: str, manner: str, limits: dict[str, float], reason: str
) -> None:
    played, verdict = play(tmp_path, text, face=Lines(manner), **limits)
    assert verdict.status is Status.CANCELLED
    assert played.handle.stop.reason == reason
    assert [exited.stopped_by for exited in played.journal.of(events.AgentExited)] == [reason]
    assert played.all_gone()
    assert ("Interrupt" in played.face.heard) == (text == "deaf")


def test_an_agent_that_ends_its_turn_when_it_is_interrupted_says_so_itself(tmp_path: Path) -> None:
    async def stop(played: Played) -> None:
        await played.until(lambda: "Prompt" in played.face.heard)
        played.handle.stop.request("cancelled", by="ann")

    played, verdict = play(tmp_path, "hang", stop)
    assert verdict.status is Status.CANCELLED
    assert played.face.heard == ["Prompt", "Interrupt", "Close"]


# -- calls -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_call_is_passed_on_and_answered_by_the_process(tmp_path: Path) -> None:
    answers: list[CallAnswer] = []

    async def call(played: Played) -> None:
        with pytest.raises(UnsupportedError):
            played.handle.calls.add(Query(id="q", name="context"), answers.append)
        await played.until(lambda: played.handle.calls.takes)
        played.handle.calls.add(Set(id="c-1", name="model", value="m"), answers.append)

    _, verdict = play(tmp_path, "call", call)
    assert verdict.reply == "called"
    assert [(answer.ok, answer.message) for answer in answers] == [(True, "set model=m")]


@pytest.mark.parametrize(("seconds", "why"), [(0.3, "the agent did not answer in time"), (30.0, "the turn is over")])
def test_a_call_that_the_process_does_not_answer_is_answered_all_the_same(
    tmp_path: Path, seconds: float, why: str
) -> None:
    answers: list[CallAnswer] = []

    async def call(played: Played) -> None:
        await played.until(lambda: played.handle.calls.takes)
        played.handle.calls.add(Query(id="q", name="context"), answers.append, seconds=seconds)

    play(tmp_path, "later", call)
    assert [(answer.ok, answer.message) for answer in answers] == [(False, why)]


# -- kept --------------------------------------------------------------------------------------------------------------


def scene(tmp_path: Path, turns: Callable[[Played], Awaitable[None]]) -> Played:
    played = Played(tmp_path, keeps=True)

    async def run() -> None:
        try:
            await turns(played)
        finally:
            await played.keeper.end("the test is over")

    asyncio.run(run())
    assert played.all_gone()
    return played


def started(played: Played) -> list[int | None]:
    """Of each `agent.started`: the turn that started it, where it was kept."""
    return [event.since for event in played.journal.of(events.AgentStarted)]


def test_the_next_turn_goes_on_in_the_same_process(tmp_path: Path) -> None:
    async def turns(played: Played) -> None:
        for word in ("one", "two", "three"):
            assert (await played.turn(f"say {word}")).reply == word
            assert (tmp_path / "scratch-1").exists()

    played = scene(tmp_path, turns)
    assert started(played) == [None, 1, 1]
    assert len(played.journal.of(events.AgentKept)) == 3
    assert [exited.stopped_by for exited in played.journal.of(events.AgentExited)] == ["the test is over"]
    assert not (tmp_path / "scratch-1").exists()


def test_after_a_stop_another_process_takes_the_next_turn(tmp_path: Path) -> None:
    async def stop(played: Played) -> None:
        await played.until(lambda: "Prompt" in played.face.heard)
        played.handle.stop.request("cancelled", by="ann")

    async def turns(played: Played) -> None:
        await played.turn("hang", stop)
        assert (await played.turn("say two")).reply == "two"

    assert started(scene(tmp_path, turns)) == [None, None]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["stir", "ask 1 Bash"])
def test_one_that_works_between_two_turns_is_replaced(tmp_path: Path, step: str) -> None:
    async def turns(played: Played) -> None:
        await played.turn(f"stray {step}")
        kept = played.keeper.process
        assert kept is not None
        await played.until(lambda: kept.why_unfit != "")
        assert played.keeper.reason_to_end(None) == "it began to work between two turns"
        assert (await played.turn("say two")).reply == "two"

    played = scene(tmp_path, turns)
    assert started(played) == [None, None]
    assert played.journal.of(events.AgentExited)[0].stopped_by == "it began to work between two turns"


@pytest.mark.parametrize("step", ["stir", "ask 1 Bash"])
def test_one_that_works_right_after_its_turn_is_replaced_and_asks_nobody(tmp_path: Path, step: str) -> None:
    async def turns(played: Played) -> None:
        assert (await played.turn(f"astray {step}")).reply == "done"
        assert (await played.turn("say two")).reply == "two"

    played = scene(tmp_path, turns)
    assert started(played) == [None, None]
    assert not played.journal.of(events.PermissionAsked)
    assert [word for word in played.face.heard if word.startswith("Decide")] == ["Decide cancelled"] * ("ask" in step)
    assert played.journal.of(events.AgentExited)[0].stopped_by == "it began to work between two turns"


@pytest.mark.slow
def test_late_words_about_a_turn_are_nobodys_and_the_process_stays(tmp_path: Path) -> None:
    async def turns(played: Played) -> None:
        await played.turn("stray text too late")
        await played.until((played.path / "strayed").exists)
        await asyncio.sleep(0.1)  # it lies in the pipe; that is read before this is over
        assert (await played.turn("say two")).reply == "two"

    played = scene(tmp_path, turns)
    assert started(played) == [None, 1]
    assert [text.text for text in played.journal.of(events.Text)] == ["two"]


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0.0, 60.0])
def test_a_turn_whose_session_is_lost_begins_once_afresh_in_another_process(tmp_path: Path, keep: float) -> None:
    async def turns(played: Played) -> None:
        await played.turn("say one", session_id="s", keep=keep)
        verdict = await played.turn("lost and found", session_id="s", keep=keep)
        assert (verdict.status, verdict.reply, verdict.session) == (Status.COMPLETED, "and found", "lost")

    played = scene(tmp_path, turns)
    assert started(played) == ([None, 1, None] if keep else [None, None, None])
    assert [lost.session_id for lost in played.journal.of(events.SessionLost)] == ["s"]


def test_a_kept_process_answers_calls_between_two_turns(tmp_path: Path) -> None:
    answers: list[CallAnswer] = []

    async def turns(played: Played) -> None:
        with pytest.raises(UnsupportedError):
            played.keeper.call(Query(id="q", name="x"), answers.append, seconds=30.0)
        await played.turn("calls")
        played.keeper.call(Set(id="c-1", name="model", value="m"), answers.append, seconds=30.0)
        await played.until(lambda: len(answers) == 1)
        played.keeper.call(Set(id="c-2", name="model", value="n"), answers.append, seconds=30.0)
        assert (await played.turn("say two")).reply == "two"

    played = scene(tmp_path, turns)
    assert [(answer.ok, answer.message) for answer in answers] == [(True, "set model=m"), (False, "a turn began")]
    assert started(played) == [None, 1]


def test_turns_with_a_setting_that_the_process_took_go_on_in_it(tmp_path: Path) -> None:
    async def turns(played: Played) -> None:
        await played.turn("say one")
        played.keeper.record_setting("model", "m")
        key = played.keeper.key
        assert key is not None and (key.model, key.settings.model) == ("m", "m")
        played.keeper.record_setting("effort", "high")
        assert played.keeper.key == key
        await played.turn("say two")
        key = played.keeper.key
        assert key is not None and key.model is None, "another process, for a turn without it"

    assert started(scene(tmp_path, turns)) == [None, None]


# -- the whole turn ----------------------------------------------------------------------------------------------------


class Agent:
    """An adapter that has this face alone."""

    card = Card(name="lines", summary="speaks lines", faces={"dialogue": Capabilities(ask=True)})
    exec = None

    def __init__(self) -> None:
        self.dialogue = Lines()


@pytest.mark.slow
def test_an_adapter_with_this_face_runs_its_turns_on_it(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.put("worker", "say hi")
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    order = structs.replace(build_turn_request(lease.log, claimed[1]), adapter=Agent(), adapter_name="lines")

    def record(body: events.Event, *, sync: bool = False) -> events.Event:
        return lease.log.record(body, turn=order.turn, message_id=order.message.id, sync=sync)

    async def turn() -> events.TurnFinished:
        return await run(order, services(record), handle(record))

    finished = asyncio.run(turn())
    assert (finished.status, finished.reply, finished.via) == (Status.COMPLETED, "hi", "dialogue")
    assert not order.scratch.exists()


class Headless:
    """A headless mode beside the protocol: it prints the message."""

    def launch(self, turn: Turn, host: Host) -> Launch:
        return Launch(argv=("cat",), stdin=turn.text.encode())

    def decoder(self, turn: Turn) -> Decoder:
        return OnlyText(turn)


class OnlyText:
    """All output is the answer."""

    def __init__(self, turn: Turn) -> None:
        self.lines: list[str] = []

    def line(self, line: bytes) -> list[Event]:
        self.lines.append(line.decode())
        return []

    def end(self, exit: Exit) -> tuple[list[Event], Verdict]:
        return [], Verdict(status=Status.COMPLETED, reply=" ".join(self.lines), session_id="s")


class Unready(Lines):
    """One whose process says nothing that its protocol knows, and leaves."""

    def launch(self, turn: Turn, host: Host) -> Launch:
        return Launch(argv=("sh", "-c", "echo what; exit 3"))


def both(root: Root, face: Lines, text: str) -> events.TurnFinished:
    """The outcome of a turn whose process may stay, of an agent with both modes."""
    can = Capabilities()
    adapter = Agent()
    adapter.dialogue = face
    adapter.exec = Headless()  # type: ignore[assignment]
    adapter.card = Card(name="lines", summary="", faces={"exec": can, "dialogue": can}, by_name=("dialogue",))
    root.put("worker", text)
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    order = structs.replace(
        build_turn_request(lease.log, claimed[1]), adapter=adapter, adapter_name="lines", is_kept=True
    )

    def record(body: events.Event, *, sync: bool = False) -> events.Event:
        return lease.log.record(body, turn=order.turn, message_id=order.message.id, sync=sync)

    async def turn() -> events.TurnFinished:
        return await run(order, services(record), handle(record))

    return asyncio.run(turn())


@pytest.mark.slow
def test_a_protocol_that_fails_before_the_prompt_gives_way_to_the_headless_mode(tmp_path: Path) -> None:
    root = Root(tmp_path)
    finished = both(root, Unready(), "say hi")
    assert (finished.status, finished.reply, finished.via) == (Status.COMPLETED, "say hi", "exec")
    told = root.events("worker")
    assert [event.code for event in told if isinstance(event, events.Notice)] == ["headless"]
    assert [event.why for event in told if isinstance(event, events.TurnStarted)] == [REASON_KEPT]
    assert len([event for event in told if isinstance(event, events.PromptSent)]) == 1


@pytest.mark.slow
def test_one_that_fails_after_the_prompt_is_not_run_twice(tmp_path: Path) -> None:
    root = Root(tmp_path)
    finished = both(root, Lines(), "dies")
    assert (finished.class_, finished.via) == (Class.CRASHED, "dialogue")
    assert not [event for event in root.events("worker") if isinstance(event, events.Notice)]
