"""One turn under a lease, answered from a recording: what is written, and what becomes of the message."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from beam.base.errors import DiskError, LimitError, ShortageError, UntrustedError
from beam.broker.holder import turn as turns
from beam.broker.holder.calls import RunningTurn
from beam.broker.holder.lease import AgentLease, session_lock
from beam.model import events
from beam.model.events import TurnFinished
from beam.model.message import Message, Options
from beam.model.outcome import Class, Outcome, Status
from beam.model.state import QUEUED
from beam.store.journal import Journal
from beam.store.outbox import Answer, Request, read_answer
from beam.turns.handle import Stop
from beam.turns.replay import RecordedTurn
from beam.turns.request import TurnRequest
from tests.support.context import Root

OWNER = events.Owner(pid=1, start_ticks=1)


class Recordings:
    """Recorded turns: every message is answered with this outcome, after these events."""

    needs_agents = False

    def __init__(self, finished: TurnFinished | None = None, *shown: events.Event) -> None:
        self.finished = finished or TurnFinished(status=Status.COMPLETED, reply="yes")
        self.shown = shown

    def take(self, message: Message) -> RecordedTurn:
        return RecordedTurn(events=self.shown, finished=self.finished, where="a test")


def answered(root: Root, finished: TurnFinished | None = None, *shown: events.Event) -> None:
    root.context = msgspec.structs.replace(root.context, recordings=Recordings(finished, *shown))


def run(root: Root, *, stop: Stop | None = None, **fields: Any) -> tuple[Outcome | None, AgentLease, Message]:
    """Puts a message to `worker`, claims it, and runs its turn; the lease stays open."""
    message = root.put("worker", **fields)
    lease = root.hold("worker")
    return run_again(lease, message, stop), lease, message


def run_again(lease: AgentLease, message: Message, stop: Stop | None = None) -> Outcome | None:
    entry = next(each for each in lease.waiting.scan() if each.id == message.id)
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    return asyncio.run(turns.run(lease, *claimed, stop or Stop()))


def kinds(root: Root) -> list[str]:
    return [type(event).__name__ for event in root.events("worker")]


def notices(root: Root) -> list[tuple[str, str]]:
    return [(event.code, event.text) for event in root.events("worker") if isinstance(event, events.Notice)]


@pytest.mark.slow
def test_a_turn_is_written_in_the_order_of_its_durable_steps_and_its_message_goes(root: Root) -> None:
    answered(root, None, events.Text(text="yes"))
    outcome, lease, message = run(root)
    assert outcome is not None
    assert (outcome.status, outcome.reply, outcome.turn, outcome.attempt) == (Status.COMPLETED, "yes", 1, 1)
    assert outcome.message_id == message.id
    assert kinds(root) == [
        "MessageQueued", "MessageClaimed", "TurnStarted", "Notice", "PromptSent", "Text", "TurnFinished", "TurnClosed",
    ]  # fmt: skip
    assert {event.turn for event in cast(list[events.Event], root.events("worker"))[2:]} == {1}
    assert {event.message_id for event in cast(list[events.Event], root.events("worker"))} == {message.id}
    assert (lease.turn, root.boxes("worker")) == (None, {})


@pytest.mark.slow
def test_a_turn_that_failed_leaves_a_dead_letter(root: Root) -> None:
    answered(root, TurnFinished(status=Status.FAILED, class_=Class.CRASHED, reason="it fell"))
    outcome, _, message = run(root)
    assert outcome is not None
    assert (outcome.status, outcome.class_, outcome.reason) == (Status.FAILED, Class.CRASHED, "it fell")
    assert root.boxes("worker") == {"dead": [message.id]}
    assert kinds(root)[-3:] == ["TurnFinished", "TurnClosed", "MessageDead"]


@pytest.mark.slow
def test_a_turn_that_the_policy_tries_again_has_no_outcome_yet(root: Root) -> None:
    (root.base / "beam.yaml").write_text(
        "agents: {worker: {command: [cat]}}\npolicy: {retry: [crashed], attempts: 2}\n"
    )
    root.reload()
    answered(root, TurnFinished(status=Status.FAILED, class_=Class.CRASHED, reason="it fell"))
    outcome, lease, message = run(root)
    assert outcome is None
    assert (lease.log.state.known[message.id].phase, root.boxes("worker")) == (QUEUED, {"new": [message.id]})
    root.clock.sleep(1000)
    outcome = run_again(lease, message)
    assert outcome is not None and (outcome.status, outcome.attempt) == (Status.FAILED, 2)


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception, *before: Callable[[TurnRequest, Any], object]) -> None:
    """The turn raises this, after those steps."""

    async def instead(order: TurnRequest, services: Any, handle: Any) -> TurnFinished:
        for step in before:
            step(order, services)
        raise error

    monkeypatch.setattr("beam.turns.run.run", instead)


def started(order: TurnRequest, services: Any) -> None:
    services.record(events.TurnStarted(owner=OWNER, turn_key=order.turn_key, adapter="command", via="exec"))


def sent(order: TurnRequest, services: Any) -> None:
    services.record(events.PromptSent())


@pytest.mark.slow
def test_a_message_that_the_system_has_no_room_for_waits_longer_after_each_try_and_then_fails(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(root)
    failing(monkeypatch, ShortageError("no process is to be had"), started)
    outcome, lease, message = run(root)
    policy, limits = root.context.config.policy, root.context.config.limits
    assert outcome is None
    assert (lease.log.state.known[message.id].phase, lease.log.state.known[message.id].shortages) == (QUEUED, 1)
    assert lease.log.state.open_turn is None
    (code, text), *_ = notices(root)
    assert (code, text.partition(": nothing ran; tried again in ")[0]) == ("shortage", "no process is to be had")
    assert text != text.partition("tried again in ")[0]
    requeued = [event for event in root.events("worker") if isinstance(event, events.MessageRequeued)]
    assert [(event.reason, event.attempt) for event in requeued] == [("shortage", 1)]
    assert requeued[0].not_before is not None and requeued[0].not_before > "2023-11-14T22:13:20"
    for number in range(2, limits.start_attempts):
        root.clock.sleep(2 * policy.backoff_max)
        assert run_again(lease, message) is None
        assert lease.log.state.known[message.id].shortages == number
    root.clock.sleep(2 * policy.backoff_max)
    last = run_again(lease, message)
    assert last is not None
    assert (last.status, last.class_, last.reason) == (Status.FAILED, Class.UNKNOWN, "no process is to be had")
    assert root.boxes("worker") == {"dead": [message.id]}
    assert len(notices(root)) == limits.start_attempts - 1


@pytest.mark.slow
def test_a_shortage_of_descriptors_is_one_only_until_the_prompt_was_sent(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(root)
    error = DiskError("can't open x")
    error.__cause__ = OSError(24, "Too many open files")
    failing(monkeypatch, error, started)
    outcome, lease, message = run(root)
    assert (outcome, lease.log.state.known[message.id].phase) == (None, QUEUED)
    failing(monkeypatch, error, started, sent)
    root.clock.sleep(1000)
    last = run_again(lease, message)
    assert last is not None and (last.status, last.reason) == (
        Status.UNKNOWN,
        "the turn was ended: can't open x; nobody knows what the agent did until then",
    )


def test_a_lack_of_memory_is_a_shortage_until_the_prompt_was_sent_and_then_unknown(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(root)
    failing(monkeypatch, MemoryError(), started)
    outcome, lease, message = run(root)
    assert (outcome, lease.log.state.known[message.id].phase) == (None, QUEUED)
    failing(monkeypatch, MemoryError(), started, sent)
    root.clock.sleep(1000)
    last = run_again(lease, message)
    assert last is not None and (last.status, last.reason) == (
        Status.UNKNOWN,
        "the turn was ended: beam got no more memory; nobody knows what the agent did until then",
    )


def test_a_turn_whose_events_can_not_be_written_is_unknown_once_the_prompt_was_sent(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(root)

    def session(order: TurnRequest, services: Any) -> None:
        services.record(events.SessionStarted(session_id="s-1"))

    failing(monkeypatch, DiskError("can't write x: no space"), started, session, sent)
    outcome, _, message = run(root)
    assert outcome is not None
    assert (outcome.status, outcome.session_id, outcome.exit_code, outcome.turn) == (Status.UNKNOWN, "s-1", 8, 1)
    assert outcome.reason == "the turn was ended: can't write x: no space; nobody knows what the agent did until then"
    assert outcome.via == "exec"
    assert root.boxes("worker") == {"dead": [message.id]}


@pytest.mark.parametrize("step", ["nothing", "started", "unstarted", "unwritable"])
def test_a_disk_error_before_the_prompt_or_for_the_outcome_as_well_is_left_to_the_next_holder(
    root: Root, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    answered(root)

    def told(order: TurnRequest, services: Any) -> None:
        sent(order, services)
        if step == "unstarted":
            assert order.unstarted is not None
            order.unstarted.touch()
        if step == "unwritable":
            monkeypatch.setattr(Journal, "append", unwritable)

    def unwritable(*_: object, **__: object) -> None:
        raise DiskError("not this either")

    steps = {"nothing": [], "started": [started]}.get(step, [started, told])
    failing(monkeypatch, DiskError("can't write x"), *steps)
    message = root.put("worker")
    lease = root.hold("worker")
    with pytest.raises(DiskError, match="can't write x"):
        run_again(lease, message)
    assert lease.turn is None
    assert root.boxes("worker") == {"cur": [message.id]}


@pytest.mark.slow
def test_a_message_whose_session_is_in_use_elsewhere_fails_without_a_turn(root: Root) -> None:
    answered(root)
    lease = root.hold("worker")
    lease.log.record(events.TurnStarted(owner=OWNER, turn_key="k", adapter="command", via="exec"), turn=1)
    lease.log.record(events.SessionStarted(session_id="s-1"), turn=1)
    lease.log.record(TurnFinished(status=Status.COMPLETED, reply="x"), turn=1)
    lease.log.record(events.TurnClosed(), turn=1)
    message = root.put("worker")
    with session_lock(root.context, "command", "s-1", scope=str(root.base)):
        outcome = run_again(lease, message)
    assert outcome is not None
    assert (outcome.status, outcome.turn) == (Status.LIMIT, None)
    assert outcome.reason is not None and outcome.reason.startswith("command session s-1 is in a turn of another root")
    assert lease.log.state.turn == 1


def test_a_message_to_an_agent_that_was_removed_meanwhile_fails(root: Root) -> None:
    answered(root)
    message = root.put("other")
    lease = root.hold("other")
    entry = lease.waiting.scan()[0]
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    (root.base / "beam.yaml").write_text("agents: {worker: {command: [cat]}}\n")
    recordings = root.context.recordings
    lease.log.context = msgspec.structs.replace(root.reload(), recordings=recordings)
    outcome = asyncio.run(turns.run(lease, *claimed, Stop()))
    assert outcome is not None
    assert (outcome.status, outcome.class_, outcome.turn) == (Status.FAILED, Class.BAD_REQUEST, None)
    assert root.boxes("other") == {"dead": [message.id]}


def test_nothing_in_the_header_of_a_recorded_event_gets_into_the_journal(root: Root) -> None:
    answered(
        root,
        None,
        events.Text(text="yes", v=events.VERSION + 1, seq=99, agent="other", imported="2020-01-01T00:00:00Z"),
    )
    run(root)
    (text,) = (event for event in root.events("worker") if isinstance(event, events.Text))
    assert (text.v, text.agent, text.imported) == (events.VERSION, "worker", msgspec.UNSET)


class Kept:
    """A keeper with a process in it."""

    def __init__(self, process: object | None) -> None:
        self.process, self.unwanted, self.ended = process, "", list[str]()

    def idle_s(self, configured: float) -> float:
        return 0.0

    async def end(self, why: str, **_: object) -> None:
        self.ended.append(why)


def keeping(root: Root, *, session: str | None, process: object | None = "p") -> tuple[turns._Turn, AgentLease, Kept]:
    lease, keeper = root.hold("worker"), Kept(process)
    if session is not None:
        lease.log.record(events.SessionStarted(session_id=session), turn=1)
    lease.keeper = cast(Any, keeper)
    return turns._Turn(lease, RunningTurn("m", Stop()), root.message("worker")), lease, keeper


def is_locked(root: Root, session_id: str) -> bool:
    try:
        with session_lock(root.context, "command", session_id):
            return False
    except LimitError:
        return True


@pytest.mark.parametrize("driven", ["s-1", "s-0", None])
def test_the_session_of_a_kept_process_stays_locked(root: Root, driven: str | None) -> None:
    turn, lease, keeper = keeping(root, session="s-1")

    async def kept() -> None:
        with contextlib.ExitStack() as held:
            held.enter_context(session_lock(root.context, "command", driven))
            await turn._keep_session("command", "", held, driven)

    asyncio.run(kept())
    assert lease.kept_session.has("command", "s-1") and is_locked(root, "s-1")
    assert not is_locked(root, "s-0")
    asyncio.run(kept()) if driven is None else None
    assert keeper.ended == []
    keeper.process = None
    asyncio.run(turn._keep_session("command", "", contextlib.ExitStack(), driven))
    assert not lease.kept_session.has("command", "s-1") and not is_locked(root, "s-1")


def test_no_session_is_locked_for_a_kept_process_without_one(root: Root) -> None:
    turn, lease, _ = keeping(root, session=None)
    with session_lock(root.context, "command", "old"):
        lease.kept_session.keep("command", "old", contextlib.ExitStack())
        asyncio.run(turn._keep_session("command", "", contextlib.ExitStack(), None))
    assert not lease.kept_session.has("command", "old")


def test_a_kept_process_whose_session_another_root_has_by_now_is_ended(root: Root) -> None:
    turn, _, keeper = keeping(root, session="s-1")
    with session_lock(root.context, "command", "s-1"):
        asyncio.run(turn._keep_session("command", "", contextlib.ExitStack(), None))
    assert keeper.ended == ["command session s-1 is in a turn of another root"]


def test_trust_that_can_not_be_renewed_is_reported_after_the_turn(root: Root) -> None:
    turn, _, _ = keeping(root, session=None, process=None)
    asked: list[Any] = []

    def renew_trust(decisions: Any) -> None:
        asked.append(decisions)
        raise UntrustedError("the ledger is gone")

    turn._renew_trust(cast(Any, SimpleNamespace(renew_trust=renew_trust)), ["always"])
    assert asked == [["always"]]
    assert notices(root) == [("trust_renewed", "trust could not be renewed: the ledger is gone")]


@pytest.mark.slow
def test_a_message_that_wants_a_new_session_wants_no_kept_process(root: Root) -> None:
    answered(root)
    _, lease, _ = run(root, options=Options(new=True))
    assert lease.keeper.unwanted == "a new session was asked for"
    lease.close()
    _, lease, _ = run(root)
    assert lease.keeper.unwanted == ""


def test_a_running_turn_can_be_reached_and_is_told_of_requests(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(root)
    seen: list[object] = []

    async def instead(order: TurnRequest, services: Any, handle: Any) -> TurnFinished:
        turn = lease.turn
        assert turn is not None and turn.news is not None
        seen.extend([turn.message_id == message.id, turn.handle is handle, turn.stop is stop, handle.stop is stop])
        seen.append(services.news is turn.news and services.keeper is lease.keeper)
        lease.wake_turn()
        seen.append(turn.news.is_set())
        services.poll()
        await services.poll_last()
        done = services.record(TurnFinished(status=Status.COMPLETED, reply="x"), sync=True)
        assert isinstance(done, TurnFinished)
        return done

    monkeypatch.setattr("beam.turns.run.run", instead)
    message, stop = root.put("worker"), Stop()
    lease = root.hold("worker")
    outcome = run_again(lease, message, stop)
    assert outcome is not None and outcome.reply == "x"
    assert seen == [True] * 6


@pytest.mark.slow
def test_the_session_of_a_vendors_cli_is_one_for_all_folders(root: Root) -> None:
    (root.base / "beam.yaml").write_text("agents: {bot: {adapter: claude}}\n")
    root.reload()
    answered(root)
    lease = root.hold("bot")
    lease.log.record(events.TurnStarted(owner=OWNER, turn_key="k", adapter="claude", via="exec"), turn=1)
    lease.log.record(events.SessionStarted(session_id="s-1"), turn=1)
    lease.log.record(TurnFinished(status=Status.COMPLETED, reply="x"), turn=1)
    lease.log.record(events.TurnClosed(), turn=1)
    message = root.put("bot")
    with session_lock(root.context, "claude", "s-1"):
        outcome = run_again(lease, message)
    assert outcome is not None and outcome.status is Status.LIMIT
    lease.close()


@pytest.mark.slow
def test_a_turn_goes_on_in_the_session_that_is_locked_for_its_kept_process(root: Root) -> None:
    answered(root)
    lease = root.hold("worker")
    for body in (
        events.TurnStarted(owner=OWNER, turn_key="k", adapter="command", via="exec"),
        events.SessionStarted(session_id="s-1"),
        TurnFinished(status=Status.COMPLETED, reply="x"),
        events.TurnClosed(),
    ):
        lease.log.record(body, turn=1)
    lock = contextlib.ExitStack()
    lock.enter_context(session_lock(root.context, "command", "s-1", scope=str(root.base)))
    lease.kept_session.keep("command", "s-1", lock)
    outcome = run_again(lease, root.put("worker"))
    assert outcome is not None and outcome.status is Status.COMPLETED
    lease.close()


@pytest.mark.slow
def test_what_an_agent_asks_for_in_the_folder_of_its_turn_is_done(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Answer | None] = []

    def asks(order: TurnRequest, services: Any) -> None:
        folder = Path(order.child_env["BEAM_OUTBOX"])
        (folder / "x.json").write_bytes(msgspec.json.encode(Request(to="box", text="hello")))
        services.poll()
        given.append(read_answer(folder, "x"))

    failing(monkeypatch, ShortageError("no process is to be had"), started, asks)
    run(root)
    (answer,) = given
    assert answer is not None and root.boxes("box") == {"new": [answer.accepted]}


@pytest.mark.slow
@pytest.mark.parametrize(("number", "is_fatal"), [(errno.EMFILE, False), (errno.EIO, True)], ids=["full", "broken"])
def test_a_turn_goes_on_while_no_descriptor_is_left_for_its_polls(
    root: Root, number: int, is_fatal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def fails(lease: AgentLease) -> None:
        done.append("tried")
        raise DiskError("can't list control/new") from OSError(number, "x")

    async def instead(order: TurnRequest, services: Any, handle: Any) -> TurnFinished:
        services.record(events.PromptSent(bytes=1), sync=True)
        services.poll()
        finished = services.record(TurnFinished(status=Status.COMPLETED, reply="yes"), sync=True)
        assert isinstance(finished, TurnFinished)
        return finished

    monkeypatch.setattr("beam.broker.holder.control.answer_requests", fails)
    monkeypatch.setattr("beam.turns.run.run", instead)
    monkeypatch.setattr("beam.turns.asks.Asks.expire", lambda asks: done.append("asks"))
    with pytest.raises(DiskError) if is_fatal else contextlib.nullcontext():
        outcome, _, _ = run(root)
        assert outcome is not None and outcome.status is Status.COMPLETED
    assert done == (["tried"] if is_fatal else ["tried", "asks"])
