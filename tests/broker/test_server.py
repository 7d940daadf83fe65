"""A server of one agent: which messages it runs, and why it leaves others. Turns are answered from recordings."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from beam.broker.holder import duty, registry, stranded
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox.build_request import plan_turn
from beam.broker.serving import server
from beam.broker.serving.server import Server, has_sender_environment, wait_for_sender
from beam.model import events
from beam.model.message import Message, Options, RuleLists
from beam.model.settings import AgentSettings
from beam.process.program import fingerprint
from beam.store.queue import Queue
from beam.turns.choice import choose_face
from beam.turns.handle import Stop
from beam.turns.input import turn_of
from beam.turns.process import ReuseKey
from tests.broker.test_broker_control import ask
from tests.broker.test_turn import Recordings
from tests.support.context import Root


@pytest.fixture(autouse=True)
def recorded(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.context = msgspec.structs.replace(root.context, recordings=Recordings())
    monkeypatch.setattr(registry, "broker_serves_root", lambda home: False)


class Process:
    """Stands in for a kept process; `ended` are the reasons for which it was."""

    def __init__(self, lease: AgentLease) -> None:
        self.lease = lease
        self.ended: list[tuple[str, bool]] = []
        lease.keeper.process = cast(Any, self)
        cast(Any, lease).end_kept_process = self.end
        cast(Any, lease).why_kept_ends = lambda: ""

    async def end(self, why: str, *, hard: Any) -> None:
        if self.lease.keeper.process is not None:
            self.ended.append((why, hard()))
        self.lease.keeper.process = None

    def drop(self) -> None:
        pass


def serve(
    lease: AgentLease, stop: Stop | None = None, declined: set[str] | None = None, *, keeps: bool = False
) -> bool:
    async def served() -> bool:
        return await Server(lease, stop or Stop(), set() if declined is None else declined, keeps=keeps).serve()

    return asyncio.run(served())


def ran(root: Root) -> list[str | None]:
    return [event.message_id for event in root.events("worker") if isinstance(event, events.TurnFinished)]


@pytest.mark.slow
def test_all_that_waits_is_run_and_then_the_holder_ends(root: Root) -> None:
    ids = [root.put("worker").id, root.put("worker").id]
    lease = root.hold("worker")
    assert serve(lease) is False
    assert (ran(root), root.boxes("worker"), lease.keeper.keeps) == (ids, {}, False)


def test_a_holder_that_is_asked_to_stop_runs_nothing_more(root: Root) -> None:
    message = root.put("worker")

    async def served() -> bool:
        stop = Stop()
        stop.request("interrupted", by="a test")
        return await Server(root.hold("worker"), stop, set()).serve()

    assert asyncio.run(served()) is False
    assert root.boxes("worker") == {"new": [message.id]}


@pytest.mark.slow
def test_a_holder_whose_agent_is_wanted_or_blocked_leaves_it(root: Root) -> None:
    message = root.put("worker")
    lease = root.hold("worker")
    lease.is_wanted = True
    assert serve(lease) is False
    lease.is_wanted, lease.blocked = False, "why"
    assert serve(lease) is False
    assert root.boxes("worker") == {"new": [message.id]}


@pytest.mark.slow
def test_a_damaged_message_does_not_keep_the_next_from_its_turn(root: Root) -> None:
    broken, message = root.put("worker"), root.put("worker")
    lease = root.hold("worker")
    path = next(path for path in (root.place("worker").queue / "new").iterdir() if broken.id in path.name)
    path.write_bytes(b"{")
    assert serve(lease) is False
    assert (ran(root), root.boxes("worker")) == ([message.id], {"dead": [broken.id]})


@pytest.mark.slow
def test_a_message_from_another_environment_is_left_to_its_sender_only_where_a_process_is_kept(root: Root) -> None:
    plain = root.put("worker", environment="another")
    asks = root.put("worker", environment="another", options=Options(keep=60.0))
    lease = root.hold("worker")
    declined: set[str] = set()
    assert serve(lease, declined=declined) is True
    assert (ran(root), declined, root.boxes("worker")) == ([plain.id], {asks.id}, {"new": [asks.id]})
    assert serve(lease, declined=declined) is False
    assert ran(root) == [plain.id, asks.id]
    notes = [(event.text, event.message_id) for event in root.events("worker") if isinstance(event, events.Notice)]
    assert ("it runs in the environment of an earlier sender, for its own is gone", asks.id) in notes
    assert [text for text, message_id in notes if message_id == plain.id and "environment" in text] == []


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
    ("keeps", "seconds", "granted"), [(False, None, None), (False, 60.0, 60.0), (True, None, math.inf)]
)
def test_the_process_of_a_turn_is_kept_for_as_long_as_was_asked(
    root: Root, keeps: bool, seconds: float | None, granted: float | None
) -> None:
    root.put("worker", options=Options(keep=seconds) if seconds else Options())
    lease = root.hold("worker")
    grants: list[float] = []
    lease.keeper.grant = grants.append  # type: ignore[method-assign]
    serve(lease, keeps=keeps)
    assert grants == ([] if granted is None else [granted])


@pytest.mark.slow
def test_nothing_is_kept_where_a_broker_serves(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.put("worker", options=Options(keep=60.0))
    monkeypatch.setattr(registry, "broker_serves_root", lambda home: True)
    lease = root.hold("worker")
    grants: list[float] = []
    lease.keeper.grant = grants.append  # type: ignore[method-assign]
    assert serve(lease) is False
    assert (grants, len(ran(root))) == ([], 1)


@pytest.mark.parametrize(
    ("why", "ended"),
    [("the root is gone", "the root is gone"), ("served", "a broker serves the agent from now on"), ("late", "late")],
)
def test_a_kept_process_is_ended_where_it_may_not_stay(
    root: Root, monkeypatch: pytest.MonkeyPatch, why: str, ended: str
) -> None:
    lease = root.hold("worker")
    process = Process(lease)
    if why == "the root is gone":
        monkeypatch.setattr(lease, "is_in_place", lambda: False)
    elif why == "served":
        monkeypatch.setattr(registry, "broker_serves_root", lambda home: True)
    else:
        monkeypatch.setattr(lease, "why_kept_ends", lambda: "" if lease.keeper.process is None else why)
    message = root.put("worker") if why == "late" else None
    assert serve(lease) is False
    assert process.ended == [(ended, False)]
    assert ran(root) == ([message.id] if message is not None else [])


def test_a_message_that_comes_while_a_holder_gives_way_to_a_broker_is_the_brokers(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder would not keep its process, and the next turn would have to start one."""
    lease = root.hold("worker")
    process = Process(lease)
    monkeypatch.setattr(registry, "broker_serves_root", lambda home: True)
    message = root.put("worker")
    assert serve(lease) is False
    assert (process.ended, ran(root)) == ([("a broker serves the agent from now on", False)], [])
    assert root.boxes("worker")["new"] == [message.id]


def test_a_holder_that_ends_ends_its_kept_process_and_watches_nothing(root: Root) -> None:
    lease = root.hold("worker")
    process = Process(lease)

    async def served() -> bool:
        stop = Stop()
        holder = Server(lease, stop, set())
        serving = asyncio.ensure_future(holder.serve())
        while not stop.reason:
            await asyncio.sleep(0)
            if lease.keeper.on_exit == holder._wake.end_wait:
                assert lease.calls.on_answer == holder._handle_answer
                stop.request("interrupted", by="a test")
                stop.request("interrupted", by="a test")
        return await serving

    assert asyncio.run(served()) is False
    assert process.ended == [("its holder ends", True)]
    assert lease.keeper.on_exit is server._do_nothing


def test_after_a_turn_whose_process_is_kept_the_stranded_lanes_are_rescued(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    rescued: list[str] = []
    monkeypatch.setattr(stranded, "start_lane_workers", lambda context, paths: rescued.append(paths.agent))
    lease = root.hold("worker")
    message = root.put("worker")
    process = Process(lease)

    async def run_first(lease: AgentLease, due: duty.DueWork, stop: Stop, *, begun: Any) -> bool:
        assert [entry.id for entry in due.entries] == [message.id]
        begun(message)
        assert lease.keeper.keeps is True
        lease.log.queue.remove(due.entries[0])
        stop.request("interrupted", by="a test")
        return True

    monkeypatch.setattr(duty, "run_first", run_first)
    serve(lease)
    assert (rescued, len(process.ended)) == (["worker"], 1)


@pytest.mark.parametrize(
    ("due", "now", "pause"), [(None, 3.0, 1.0), (3.25, 3.0, 0.25), (9.0, 3.0, 1.0), (1.0, 3.0, 0.0)]
)
def test_a_kept_process_is_looked_at_when_it_is_due_and_at_least_every_second(
    due: float | None, now: float, pause: float
) -> None:
    clock = SimpleNamespace(monotonic=lambda: now)
    lease = SimpleNamespace(
        keeper=SimpleNamespace(next_check=lambda: due), log=SimpleNamespace(context=SimpleNamespace(clock=clock))
    )
    assert Server._pause_s(cast(Any, SimpleNamespace(_lease=lease))) == pause


def test_a_message_that_waits_for_its_time_is_waited_for_in_short_pauses(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = root.hold("worker")
    pauses = iter([5.0, 0.05, None])
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(duty, "step", lambda lease: duty.DueWork(pause_s=next(pauses)))

    async def served() -> None:
        stop = Stop()
        monkeypatch.setattr(stop, "wait", wait)
        assert await Server(lease, stop, set()).serve() is False

    asyncio.run(served())
    assert waits == [0.2, 0.05]


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

    async def asked() -> str:
        return Server(lease, Stop(), declined or set())._why_left_to_sender(message)

    try:
        return asyncio.run(asked())
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


@pytest.mark.slow
def test_a_request_is_answered_while_a_process_is_kept(root: Root) -> None:
    lease = root.hold("worker")
    process = Process(lease)

    async def served() -> None:
        stop = Stop()
        serving = asyncio.ensure_future(Server(lease, stop, set()).serve())
        await asyncio.sleep(0)
        ask(root, "worker", "pause")
        async with asyncio.timeout(10):
            while not lease.log.state.paused:
                await asyncio.sleep(0.001)
        stop.request("interrupted", by="a test")
        await serving

    asyncio.run(served())
    assert process.ended == [("its holder ends", False)]


def test_what_comes_later_than_the_first_is_no_longer_waited_for() -> None:
    ended: list[str] = []

    async def soon() -> None:
        ended.append("soon")

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    asyncio.run(asyncio.wait_for(Server._wait_for_first(cast(Any, None), soon(), never()), 5))
    assert ended == ["soon", "cancelled"]


@pytest.mark.parametrize(
    ("is_root_there", "is_served", "why"),
    [
        (True, False, ""),
        (False, False, "the root is gone"),
        (True, True, "a broker serves the agent from now on"),
    ],
)
def test_a_kept_process_is_let_go_when_the_root_is_gone_or_a_broker_serves(
    monkeypatch: pytest.MonkeyPatch, is_root_there: bool, is_served: bool, why: str
) -> None:
    monkeypatch.setattr(server.registry, "broker_serves_root", lambda _: is_served)
    lease = SimpleNamespace(is_in_place=lambda: is_root_there, log=SimpleNamespace(context=SimpleNamespace(home=None)))
    assert Server._why_release(cast(Any, SimpleNamespace(_lease=lease))) == why


def test_a_message_that_its_sender_ran_meanwhile_is_waited_for_no_longer(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    async def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            queue.remove(queue.entries("new")[0])

    root.put("box")
    paths = root.place("box")
    queue = Queue(paths.queue, paths.put_lock)
    monkeypatch.setattr(asyncio, "sleep", pause)
    asyncio.run(wait_for_sender(paths))
    assert len(looks) == 3
