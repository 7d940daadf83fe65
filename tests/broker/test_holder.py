"""A holder of one agent: which messages it runs, and why it leaves others. Turns are answered from recordings."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from beam.broker.holder import duty, registry, stranded
from beam.broker.holder.lease import AgentLease
from beam.broker.serving import holding
from beam.broker.serving.holding import Holder, has_sender_environment
from beam.model import events
from beam.model.message import Message, Options
from beam.model.rule_lists import RuleLists
from beam.model.settings import AgentSettings
from beam.process.environment import fingerprint
from beam.rules.ruleset import combine, rules_of
from beam.turns.keeper import ReuseKey
from beam.turns.stop import Stop
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
        return await Holder(lease, stop or Stop(), set() if declined is None else declined, keeps=keeps).serve()

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
        return await Holder(root.hold("worker"), stop, set()).serve()

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
        holder = Holder(lease, stop, set())
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
    assert lease.keeper.on_exit is holding._do_nothing


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
    assert Holder._pause_s(cast(Any, SimpleNamespace(_lease=lease))) == pause


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
        assert await Holder(lease, stop, set()).serve() is False

    asyncio.run(served())
    assert waits == [0.2, 0.05]


def key(root: Root, **fields: Any) -> ReuseKey:
    """The key of a process that `claude` with its settings in beam.yaml would reuse."""
    given: dict[str, Any] = {
        "face": "dialogue", "adapter": "claude", "executable": "x", "session_id": None, "access": "read", "cwd": "/",
        "settings": root.context.config.resolve("bot").settings, "model": "m", "folder_trusted": True,
        "leave_out": False, "folder_env": {},
    }  # fmt: skip
    return ReuseKey(**{**given, **fields})


@pytest.mark.parametrize(
    ("options", "fields", "is_another"),
    [
        ({}, {}, False),
        ({"new": True}, {}, True),
        ({"model": "other"}, {}, True),
        ({"model": "other"}, {"model": "other"}, False),
        ({"max_turns": 3}, {}, True),
        ({"max_turns": 3}, {"max_turns": 3}, False),
        ({"budget_usd": 1.0}, {}, True),
        ({"budget_usd": 1.0}, {"budget_usd": 1.0}, False),
        ({"schema": "{}"}, {}, True),
        ({"schema": "{}"}, {"schema": "{}"}, False),
        ({"access": "edit"}, {}, True),
        ({"access": "edit"}, {"access": "edit"}, False),
        ({"via": "terminal"}, {}, True),
        ({"via": "nonsense"}, {}, False),
        ({}, {"settings": AgentSettings(adapter="claude")}, True),
    ],
)
def test_a_turn_that_needs_another_process_than_the_kept_one_is_reported_by_its_options(
    root: Root, options: dict[str, Any], fields: dict[str, Any], is_another: bool
) -> None:
    (root.base / "beam.yaml").write_text("agents: {bot: {adapter: claude, model: m}}\n")
    root.reload()
    lease = root.hold("bot")
    message = root.message("bot", options=Options(**{"via": "dialogue", **options}))
    assert holding._needs_another_process(lease, key(root, **fields), message) is is_another
    lease.close()


def test_rules_of_a_message_and_an_agent_that_is_gone_are_compared_as_well(root: Root) -> None:
    (root.base / "beam.yaml").write_text("agents: {bot: {adapter: claude, model: m}}\n")
    root.reload()
    lease = root.hold("bot")
    denies = RuleLists(deny=("Bash(rm *)",))
    message = root.message("bot", options=Options(via="dialogue", rules=denies))
    assert holding._needs_another_process(lease, key(root), message)
    rules = combine(rules_of(denies, "this message"))
    assert not holding._needs_another_process(lease, key(root, rules=rules), message)
    assert not holding._needs_another_process(lease, key(root), root.message("nobody", options=Options(new=True)))
    lease.close()


@pytest.mark.parametrize(
    ("is_kept", "new", "declined", "why"),
    [
        (True, True, False, "the next turn wants another session or other settings"),
        (True, False, False, ""),
        (False, True, False, ""),
        (True, True, True, ""),
    ],
)
def test_a_message_that_needs_another_process_is_left_to_its_sender_once(
    root: Root, is_kept: bool, new: bool, declined: bool, why: str
) -> None:
    (root.base / "beam.yaml").write_text("agents: {bot: {adapter: claude, model: m}}\n")
    root.reload()
    lease = root.hold("bot")
    message: Message = root.message("bot", options=Options(via="dialogue", new=new))
    if is_kept:
        lease.keeper.process, lease.keeper.key = cast(Any, SimpleNamespace(drop=lambda: None)), key(root)

    async def asked() -> str:
        return Holder(lease, Stop(), {message.id} if declined else set())._why_left_to_sender(message)

    assert asyncio.run(asked()) == why
    lease.close()


@pytest.mark.slow
def test_a_request_is_answered_while_a_process_is_kept(root: Root) -> None:
    lease = root.hold("worker")
    process = Process(lease)

    async def served() -> None:
        stop = Stop()
        serving = asyncio.ensure_future(Holder(lease, stop, set()).serve())
        await asyncio.sleep(0)
        ask(root, "worker", "pause")
        async with asyncio.timeout(10):
            while not lease.log.state.paused:
                await asyncio.sleep(0.001)
        stop.request("interrupted", by="a test")
        await serving

    asyncio.run(served())
    assert process.ended == [("its holder ends", False)]
