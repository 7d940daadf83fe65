"""A server of one agent, as a worker, a Python program and a run have it: which messages it runs, why it leaves others,
and what it keeps. It is polled by hand on a clock that stands still; turns are answered from recordings."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from beam.base.errors import DiskError, UnfinishedError
from beam.broker.holder import duty, registry
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import launch
from beam.broker.inbox.build_request import plan_turn
from beam.broker.serving.kind import PROGRAM, RUN, WORKER, has_sender_environment
from beam.model import events
from beam.model.message import Message, Options, RuleLists
from beam.model.settings import AgentSettings
from beam.process.program import fingerprint
from beam.turns.choice import choose_face
from beam.turns.handle import Stop
from beam.turns.input import turn_of
from beam.turns.process import ReuseKey
from tests.broker.test_broker_control import ask
from tests.broker.test_broker_steps import Kept, Story, play
from tests.support.context import Root


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "broker_serves_root", lambda home: False)


def ran(root: Root) -> list[str | None]:
    return [event.message_id for event in root.events("worker") if isinstance(event, events.TurnFinished)]


def lease_of(it: Story) -> Any:
    """The lease of `worker`, which the server holds from now on."""
    served = it.broker.roster.add(it.root.place("worker"))
    lease = it.broker._acquire_lease(served)
    assert lease is not None
    return lease


async def poll(it: Story, times: int = 10) -> None:
    """Poll, and let what began in the poll end, until the server stops or so many times."""
    for _ in range(times):
        if not it.broker.stopping:
            it.poll()
            await it.finish()


def serve_worker(root: Root, story: Any, **options: Any) -> Story:
    return play(root, story, kind=WORKER, idle=0.0, **options)


@pytest.mark.slow
def test_all_that_waits_is_run_and_then_the_agent_is_free_and_the_server_ends(root: Root) -> None:
    ids = [root.put("worker").id, root.put("worker").id]

    async def story(it: Story) -> None:
        lease = lease_of(it)
        await poll(it)
        assert (it.broker.stopping, it.agent().lease, lease.keeper.keeps) == (True, None, False)

    assert serve_worker(root, story).said == []
    assert (ran(root), root.boxes("worker")) == (ids, {})


@pytest.mark.slow
def test_an_agent_that_a_command_wants_is_left_to_it_and_what_waits_is_run_a_second_later(root: Root) -> None:
    message = root.put("worker")

    async def story(it: Story) -> None:
        lease_of(it).is_wanted = True
        await poll(it)
        assert (it.agent().lease, root.boxes("worker"), it.broker.stopping) == (None, {"new": [message.id]}, False)
        it.later(1)
        await poll(it)
        assert it.broker.stopping

    serve_worker(root, story)
    assert ran(root) == [message.id]


@pytest.mark.slow
def test_a_damaged_message_does_not_keep_the_next_from_its_turn(root: Root) -> None:
    broken, message = root.put("worker"), root.put("worker")
    path = next(path for path in (root.place("worker").queue / "new").iterdir() if broken.id in path.name)
    path.write_bytes(b"{")

    async def story(it: Story) -> None:
        lease_of(it)
        await poll(it)

    serve_worker(root, story)
    assert (ran(root), root.boxes("worker")) == ([message.id], {"dead": [broken.id]})


@pytest.mark.slow
def test_a_message_from_another_environment_is_left_to_its_sender_only_where_a_process_is_kept(root: Root) -> None:
    plain = root.put("worker", environment="another")
    asks = root.put("worker", environment="another", options=Options(keep=60.0))

    async def story(it: Story) -> None:
        lease_of(it)
        await poll(it)
        assert (ran(root), root.boxes("worker"), it.agent().lease) == ([plain.id], {"new": [asks.id]}, None)
        for _ in range(49):
            it.later(0.1)
            it.poll()
        assert (ran(root), it.broker.stopping) == ([plain.id], False)
        it.later(0.2)
        await poll(it)
        assert it.broker.stopping

    serve_worker(root, story)
    assert ran(root) == [plain.id, asks.id], "nobody took it: it is run here rather than never"
    notes = [(event.text, event.message_id) for event in root.events("worker") if isinstance(event, events.Notice)]
    assert ("it runs in the environment of an earlier sender, for its own is gone", asks.id) in notes
    assert [text for text, message_id in notes if message_id == plain.id and "environment" in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("is_held", [True, False])
def test_a_message_that_its_sender_took_is_waited_for_no_longer(root: Root, is_held: bool) -> None:
    root.put("worker", environment="another", options=Options(keep=60.0))

    async def story(it: Story) -> None:
        lease_of(it)
        await poll(it)
        sender = root.hold("worker")
        if not is_held:
            for entry in sender.log.queue.entries("new"):
                sender.log.queue.remove(entry)
            sender.close()
        it.later(0.2)
        await poll(it)
        assert it.broker.stopping
        sender.close()

    serve_worker(root, story)
    assert ran(root) == []


def test_an_environment_is_that_of_the_sender_if_its_fingerprint_is(root: Root) -> None:
    lease = root.hold("worker")
    message = root.message("worker")
    assert has_sender_environment(message, lease)
    assert has_sender_environment(
        msgspec.structs.replace(message, environment=fingerprint(root.environ, message.id)), lease
    )
    assert not has_sender_environment(msgspec.structs.replace(message, environment="x"), lease)
    lease.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "seconds", "is_served", "granted"),
    [
        (WORKER, None, False, []),
        (WORKER, 60.0, False, [60.0]),
        (WORKER, 60.0, True, []),
        (PROGRAM, None, False, [math.inf]),
    ],
)
def test_the_process_of_a_turn_is_kept_for_as_long_as_was_asked_unless_a_broker_serves(
    root: Root, monkeypatch: pytest.MonkeyPatch, kind: Any, seconds: float | None, is_served: bool, granted: list[float]
) -> None:
    monkeypatch.setattr(registry, "broker_serves_root", lambda home: is_served)
    root.put("worker", options=Options(keep=seconds) if seconds else Options())
    grants: list[float] = []

    async def story(it: Story) -> None:
        lease_of(it).keeper.grant = grants.append
        it.poll()
        await it.finish()

    play(root, story, kind=kind)
    assert (grants, len(ran(root))) == (granted, 1)


@pytest.mark.parametrize(
    ("why", "ended"),
    [("the root is gone", "the root is gone"), ("served", "a broker serves the agent from now on"), ("late", "late")],
)
def test_a_kept_process_is_ended_where_it_may_not_stay(
    root: Root, monkeypatch: pytest.MonkeyPatch, why: str, ended: str
) -> None:
    message = root.put("worker")

    async def story(it: Story) -> None:
        lease = lease_of(it)
        kept = Kept(it, "worker", why=why if why == "late" else "")
        if why == "the root is gone":
            monkeypatch.setattr(lease, "is_in_place", lambda: False)
        elif why == "served":
            monkeypatch.setattr(registry, "broker_serves_root", lambda home: True)
        await poll(it)
        assert kept.ended == [(ended, False)]
        if why != "late":  # the message is the broker's, if it takes it
            assert (ran(root), it.agent().lease, it.broker.stopping) == ([], None, False)
            it.later(1)
            await poll(it)
        assert it.broker.stopping

    serve_worker(root, story)
    assert ran(root) == [message.id]


@pytest.mark.slow
def test_a_server_that_is_asked_to_stop_runs_nothing_more_and_ends_what_it_keeps(root: Root) -> None:
    message = root.put("worker")

    async def story(it: Story) -> None:
        lease_of(it)
        kept = Kept(it, "worker")
        it.broker.ask_to_stop()
        it.broker.ask_to_stop()
        await it.broker.serve()
        assert (kept.ended, it.agent().lease) == ([("its holder ends", True)], None)

    serve_worker(root, story)
    assert root.boxes("worker") == {"new": [message.id]}


def test_after_a_turn_whose_process_is_kept_the_stranded_lanes_are_rescued(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    rescued: list[str] = []
    monkeypatch.setattr(launch, "start_lane_workers", lambda context, paths: rescued.append(paths.agent))
    message = root.put("worker")

    async def run_first(lease: AgentLease, due: duty.DueWork, stop: Stop, *, begun: Any) -> bool:
        assert [entry.id for entry in due.entries] == [message.id]
        begun(message)
        assert lease.keeper.keeps is True
        lease.log.queue.remove(due.entries[0])
        return True

    monkeypatch.setattr(duty, "run_first", run_first)

    async def story(it: Story) -> None:
        lease_of(it)
        Kept(it, "worker")
        await poll(it)
        assert not it.broker.stopping
        assert it.broker._pause_s() == 1.0, "the root and a broker are looked for"

    serve_worker(root, story)
    assert rescued == ["worker"]


@pytest.mark.slow
def test_a_request_is_answered_while_a_process_is_kept(root: Root) -> None:
    async def story(it: Story) -> None:
        lease = lease_of(it)
        Kept(it, "worker")
        await poll(it)
        ask(root, "worker", "pause")
        it.later(1)
        await poll(it, 1)
        assert lease.log.state.paused

    serve_worker(root, story)


# -- a program ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_program_holds_an_agent_while_there_is_work(root: Root, workers: list[str]) -> None:
    root.put("worker")

    async def story(it: Story) -> None:
        served = await it.broker.hold(root.place("worker"))
        assert served is it.agent() and await it.broker.hold(root.place("worker")) is served
        await poll(it)
        assert (it.broker.roster.all(), it.broker.stopping) == ([], False)

    play(root, story, kind=PROGRAM)
    assert (len(ran(root)), workers) == (1, [])


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The agents for which a worker would have been started; none is."""
    started: list[str] = []
    monkeypatch.setattr("beam.broker.inbox.launch.start_worker", lambda context, paths: started.append(paths.agent))
    return started


def test_a_program_does_not_wait_for_an_agent_that_another_process_holds(root: Root) -> None:
    other = root.hold("worker")

    async def story(it: Story) -> None:
        assert await it.broker.hold(root.place("worker")) is None
        assert it.broker.roster.all() == []

    play(root, story, kind=PROGRAM)
    other.close()


@pytest.mark.slow
def test_an_error_of_one_agent_makes_a_program_leave_it_to_a_worker(
    root: Root, monkeypatch: pytest.MonkeyPatch, workers: list[str]
) -> None:
    root.put("worker")

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("in a step")

    async def story(it: Story) -> None:
        await it.broker.hold(root.place("worker"))
        monkeypatch.setattr(duty, "step", fails)
        await poll(it)
        assert (it.broker.roster.all(), it.broker.stopping) == ([], False)

    play(root, story, kind=PROGRAM)
    assert workers == ["worker"]


@pytest.mark.slow
def test_a_message_that_can_not_be_read_before_its_turn_ends_no_server(root: Root, workers: list[str]) -> None:
    root.put("worker")

    def fails(*_: object) -> None:
        raise DiskError("can't read")

    async def story(it: Story) -> None:
        served = await it.broker.hold(root.place("worker"))
        assert served is not None and served.lease is not None
        assert duty.step(served.lease).entries
        served.lease.waiting.read = fails  # type: ignore[assignment]
        await poll(it)
        assert (it.broker.roster.all(), it.broker.stopping) == ([], False)

    play(root, story, kind=PROGRAM)
    assert workers == ["worker"]


@pytest.mark.slow
def test_what_was_left_to_a_sender_gets_a_worker_when_the_program_ends_before_the_sender_came(
    root: Root, monkeypatch: pytest.MonkeyPatch, workers: list[str]
) -> None:
    root.put("worker", environment="another")

    async def sleep(seconds: float) -> None:
        root.clock.sleep(seconds)

    async def story(it: Story) -> None:
        await it.broker.hold(root.place("worker"))
        await poll(it)
        assert it.agent().lease is None
        monkeypatch.setattr(asyncio, "sleep", sleep)
        it.broker.ask_to_stop()
        await it.broker.serve()
        assert 4.5 < root.clock.elapsed < 5.5

    play(root, story, kind=PROGRAM)
    assert (ran(root), workers) == ([], ["worker"])


# -- a run of a scenario -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_runs_only_what_it_is_lent_and_answers_requests_between(root: Root, workers: list[str]) -> None:
    message = root.put("worker")

    async def story(it: Story) -> None:
        async def work(lease: AgentLease) -> str:
            await asyncio.sleep(0)
            return lease.log.paths.agent

        both = [it.broker.lend(root.place("worker"), work, Stop(), patience_s=0.0) for _ in range(2)]
        assert await asyncio.gather(*both) == ["worker", "worker"]
        assert (it.poll(), it.agent().next, it.agent().is_busy) == (1.0, None, False)
        ask(root, "worker", "pause")
        it.later(1)
        it.poll()
        lease = it.agent().lease
        assert lease is not None and lease.log.state.paused
        ask(root, "worker", "resume")
        it.later(1)
        it.poll()
        it.broker.ask_to_stop()
        await it.broker.serve()

    play(root, story, kind=RUN)
    assert (root.boxes("worker"), workers) == ({"new": [message.id]}, ["worker"])


def test_a_run_is_told_of_an_agent_that_another_process_holds(root: Root) -> None:
    other = root.hold("worker")

    async def story(it: Story) -> None:
        async def work(lease: AgentLease) -> None:
            raise AssertionError

        with pytest.raises(UnfinishedError, match="worker is held by another process"):
            await it.broker.lend(root.place("worker"), work, Stop(), patience_s=0.0)

    play(root, story, kind=RUN)
    other.close()


# -- which process a message needs -------------------------------------------------------------------------------------


def kept_key(lease: AgentLease, message: Message) -> ReuseKey:
    """The key of a process in which the turn of this message ran."""
    order = plan_turn(lease.log, message)
    face = choose_face(msgspec.structs.replace(order, is_kept=True)).face
    return ReuseKey.of_turn(turn_of(order, face, str(order.scratch)), face, order.session_id, "x", order.folder_env)


def claude(root: Root) -> AgentLease:
    (root.base / "beam.yaml").write_text("agents: {bot: {adapter: claude, model: m}}\n")
    root.context = msgspec.structs.replace(root.context, recordings=None)
    root.reload()
    return root.hold("bot")


def left(lease: AgentLease, key: ReuseKey | None, message: Message, declined: set[str] | None = None) -> str:
    """Why a server that keeps a process with this key (None: no process) leaves the message to its sender."""
    if key is not None:
        lease.keeper.process, lease.keeper.key = cast(Any, SimpleNamespace(drop=lambda: None)), key

    try:
        return WORKER.why_left_to_sender(lease, message, declined or set())
    finally:
        lease.close()


_OTHER = "the next turn wants another session or other settings"


@pytest.mark.parametrize(
    ("kept", "options", "is_another"),
    [
        ({}, {}, False),
        ({}, {"via": None}, False),
        ({}, {"via": None, "max_turns": 3}, True),
        ({}, {"new": True}, False),  # there is no session yet
        ({}, {"model": "other"}, True),
        ({"model": "other"}, {"model": "other"}, False),
        ({}, {"schema": "{}"}, True),
        ({"schema": "{}"}, {"schema": "{}"}, False),
        ({}, {"access": "edit"}, True),
        ({"access": "edit"}, {"access": "edit"}, False),
        ({}, {"via": "terminal"}, True),
        ({}, {"via": "exec"}, True),
        ({}, {"via": "nonsense"}, False),
        ({}, {"max_tokens": 100}, True),
        ({}, {"rules": RuleLists(deny=("Bash(rm *)",))}, True),
        ({"rules": RuleLists(deny=("Bash(rm *)",))}, {"rules": RuleLists(deny=("Bash(rm *)",))}, False),
    ],
)
def test_a_message_that_needs_another_process_than_the_kept_one_is_left_to_its_sender(
    root: Root, kept: dict[str, Any], options: dict[str, Any], is_another: bool
) -> None:
    lease = claude(root)
    key = kept_key(lease, root.message("bot", options=Options(**{"via": "dialogue", **kept})))
    message = root.message("bot", options=Options(**{"via": "dialogue", **options}))
    assert left(lease, key, message) == (_OTHER if is_another else "")
    assert root.events("bot") == []


def test_other_settings_another_session_or_another_folder_need_another_process(root: Root) -> None:
    message = root.message("bot", options=Options(via="dialogue"))
    key = kept_key(lease := claude(root), message)
    lease.close()
    others: list[dict[str, Any]] = [
        {"settings": AgentSettings(adapter="claude")},
        {"session_id": "s"},
        {"cwd": "/"},
        {"folder_trusted": not key.folder_trusted},
        {"folder_env": {"A": "b"}},
    ]
    for other in others:
        assert left(root.hold("bot"), msgspec.structs.replace(key, **other), message) == _OTHER
    assert left(root.hold("bot"), None, message) == ""
    assert left(root.hold("bot"), msgspec.structs.replace(key, cwd="/"), message, {message.id}) == ""
    assert left(root.hold("bot"), key, root.message("nobody", options=Options(new=True))) == ""
