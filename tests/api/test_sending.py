"""Who runs a message that is sent and waited for, step by step; its parts are played by the test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from beam.api import send as module
from beam.base.clock import local_time
from beam.base.errors import LimitError, SignalledError
from beam.model.message import Message, Options
from beam.model.outcome import Outcome, Status
from beam.root.paths import AgentPaths
from tests.support.context import Root
from tests.support.refused import refused

OUTCOME = Outcome(message_id="m", agent="worker", turn=1, attempt=1, status=Status.COMPLETED)


class Parts:
    """What was done for a message, in its order, and how each part ends."""

    def __init__(self, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.did: list[Any] = []
        self.is_new = True
        self.replayed: Outcome | None = None
        self.let_go = True
        self.leases: list[Any] = ["lease"]
        self.ran: Outcome | None = OUTCOME
        self.followed: Outcome | None = OUTCOME
        self.withdrawn: Outcome | None = OUTCOME
        self.during: Callable[[], object] = lambda: None

        def steps(name: str, result: Callable[[], Any], *shown: str) -> Any:
            def made(*_: Any, **given: Any) -> Any:
                yield from [0.0] * 20  # in which a signal is heard
                self.did.append((name, {key: given[key] for key in shown if key in given}) if shown else name)
                return result()

            return made

        def put(*_: Any) -> bool:
            self.did.append("put")
            self.during()
            return self.is_new

        def acquire(*given: Any, watched: str) -> Any:
            self.did.append(("acquired", watched))
            return self.leases.pop(0) if self.leases else None

        async def run(lease: Any, message: Message, stop: Any, seen: Any, *, looked_at: float | None) -> Any:
            self.did.append(("ran", lease, looked_at))
            return self.ran

        monkeypatch.setattr(module, "put", put)
        monkeypatch.setattr(module, "replay_outcome", lambda *given: self.did.append("replayed") or self.replayed)
        monkeypatch.setattr(module.registry, "yield_to_broker", steps("yielded", lambda: None))
        monkeypatch.setattr(module, "wait_until_released", steps("waited", lambda: self.let_go))
        monkeypatch.setattr(module, "follow", steps("followed", lambda: self.followed, "after_seq"))
        monkeypatch.setattr(module, "withdraw", steps("withdrawn", lambda: self.withdrawn, "by"))
        monkeypatch.setattr(module, "AgentLease", SimpleNamespace(acquire=acquire))
        monkeypatch.setattr(module, "_run_here", run)

    def send(self, message: Message | None = None, paths: AgentPaths | None = None, **more: Any) -> Outcome:
        message = message or self.root.message("worker")
        place = paths or self.root.place("worker")
        return asyncio.run(module.send(self.root.context, place, message, print, **more))

    @property
    def names(self) -> list[str]:
        return [each if isinstance(each, str) else each[0] for each in self.did]


@pytest.fixture
def parts(root: Root, monkeypatch: pytest.MonkeyPatch) -> Parts:
    return Parts(root, monkeypatch)


def test_who_gets_the_agents_lease_runs_the_message(parts: Parts) -> None:
    message = parts.root.message("worker")
    assert parts.send(message, looked_at=3.0) == OUTCOME
    assert parts.did == ["put", "yielded", ("acquired", message.id), ("ran", "lease", 3.0)]


def test_who_does_not_get_it_waits_for_it_once_and_follows(parts: Parts) -> None:
    parts.leases = [None, "second"]
    assert parts.send() == OUTCOME
    assert parts.names == ["put", "yielded", "acquired", "waited", "acquired", "ran"]
    parts.did.clear()
    parts.let_go = False
    assert parts.send() == OUTCOME
    assert parts.names == ["put", "yielded", "acquired", "waited", "followed"]


def test_a_message_that_somebody_else_runs_is_followed_from_where_it_was_put(parts: Parts) -> None:
    parts.ran = None
    parts.send()
    assert parts.did[-1] == ("followed", {"after_seq": 0})
    parts.leases, parts.is_new = ["lease"], False
    parts.send()
    assert parts.did[-1] == ("followed", {"after_seq": None})


def test_a_message_with_a_key_that_has_its_outcome_is_not_run_again(parts: Parts) -> None:
    parts.is_new, parts.replayed = False, OUTCOME
    assert parts.send() is OUTCOME and parts.names == ["put", "replayed"]


def test_a_lane_yields_to_no_broker_and_a_kept_process_outlives_its_sender(parts: Parts) -> None:
    lane = parts.root.context.agent_paths("worker", "aaaa")
    parts.send(paths=lane)
    assert parts.names == ["put", "acquired", "ran"]
    parts.did.clear()
    kept = parts.root.message("worker", options=Options(keep=5.0, via="dialogue"))
    parts.send(kept)
    assert parts.names == ["put", "yielded", "followed"]


@pytest.mark.parametrize("let_go", [True, False])
def test_another_part_of_the_process_may_hold_the_agent(let_go: bool, parts: Parts) -> None:
    parts.let_go = let_go

    async def hold(paths: AgentPaths) -> None:
        parts.did.append(("held", paths.agent))

    parts.send(hold=hold)
    held = [("held", "worker")] if let_go else []
    assert parts.did[:-1] == ["put", "yielded", "waited", *held] and parts.names[-1] == "followed"


@pytest.mark.parametrize(
    ("is_new", "withdrawn", "names"),
    [(True, OUTCOME, ["put", "yielded", "withdrawn"]), (False, None, ["put", "replayed", "yielded"])],
)
def test_a_signal_withdraws_the_own_message_alone(
    is_new: bool, withdrawn: Outcome | None, names: list[str], parts: Parts
) -> None:
    parts.is_new = is_new
    parts.during = lambda: os.kill(os.getpid(), signal.SIGTERM)
    message = parts.root.message("worker", actor="ann")
    with pytest.raises(SignalledError) as ended:
        parts.send(message)
    assert (ended.value.number, ended.value.outcome) == (signal.SIGTERM, withdrawn)
    assert (ended.value.message, ended.value.hint) == (
        f"{message.id} was not stopped and goes on",
        f"beam wait {message.id}",
    )
    assert parts.names == names
    assert not is_new or parts.did[-1] == ("withdrawn", {"by": "ann (signal)"})


def fold(failures: int, reason: str | None, state: str) -> Any:
    last = SimpleNamespace(reason=reason) if reason is not None else None
    found = SimpleNamespace(failures=["x"] * failures, last=last, circuit_until="2026-01-01T12:30:05Z", seq=0)
    return SimpleNamespace(last_state=lambda: found, circuit=state)


@pytest.mark.parametrize(
    ("failures", "reason", "said"),
    [
        (1, None, "worker failed 1 time in a row"),
        (2, "no disk", "worker failed 2 times in a row, the last one with: no disk"),
        (3, "", "worker failed 3 times in a row"),
    ],
)
def test_an_agent_whose_circuit_is_open_gets_nothing(
    failures: int, reason: str | None, said: str, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "circuit_state", lambda state, now_ns: "open" if now_ns == parts.root.clock.now else "")
    until = local_time("2026-01-01T12:30:05Z")
    hint = "wait until then, send with --no-wait (it is tried then), or with --no-circuit (now)"
    with refused(
        LimitError, f"{said}; nothing is sent to it until {until} (its circuit is open)", hint, subject="worker"
    ):
        parts.send(fold=fold(failures, reason, "open"))
    assert parts.did == []
    parts.send(parts.root.message("worker", options=Options(no_circuit=True)), fold=fold(failures, reason, "open"))
    monkeypatch.setattr(module, "circuit_state", lambda state, now_ns: "half open")
    parts.leases = ["lease"]
    parts.send(fold=fold(failures, reason, "half open"))
    assert parts.names.count("ran") == 2


# -- running it here ---------------------------------------------------------------------------------------------------


class Lease:
    """A lease with this entry first in its queue."""

    def __init__(self, root: Root, claimed: Any) -> None:
        self.log = SimpleNamespace(context=root.context, paths=root.place("worker"), state="state")
        self.waiting = SimpleNamespace(claim=lambda entry: claimed)
        self.given: list[Any] = []

    def hand_over_after_turn(self) -> None:
        self.given.append("handed over")


@pytest.mark.parametrize(
    ("first", "claimed", "looked_at", "trusted", "outcome"),
    [
        ("own", ("entry", "message"), None, None, OUTCOME),
        ("own", ("entry", "message"), 9.1, "own", OUTCOME),
        ("own", ("entry", "message"), 9.0, None, OUTCOME),
        ("own", None, None, None, "replayed"),
        ("another", ("entry", "message"), None, None, None),
        (None, ("entry", "message"), None, None, None),
    ],
)
def test_a_message_is_run_if_nothing_is_ahead_of_it(
    first: str | None,
    claimed: Any,
    looked_at: float | None,
    trusted: str | None,
    outcome: Any,
    root: Root,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root.clock.elapsed = 10.0
    message = root.message("worker")
    lease: Any = Lease(root, claimed)
    names = {"own": message.id, "another": "worker-2"}

    def step(of: Any, *, trusted: str | None) -> Any:
        lease.given.append(("stepped", trusted))
        return SimpleNamespace(entries=[SimpleNamespace(id=names[first])] if first else [])

    async def run(*given: Any) -> Outcome:
        lease.given.append(("ran", *given[1:3]))
        return OUTCOME

    monkeypatch.setattr(module.duty, "step", step)
    monkeypatch.setattr(module, "replay_outcome", lambda paths, state, message_id, seen: "replayed")
    monkeypatch.setattr("beam.broker.holder.turn.run", run)
    monkeypatch.setattr("beam.process.tree.become_subreaper", lambda: lease.given.append("reaps"))
    monkeypatch.setattr("beam.broker.serving.wake.wake_turn_on_requests", lambda lease: contextlib.nullcontext())
    stop: Any = object()
    assert asyncio.run(module._run_here(lease, message, stop, print, looked_at=looked_at)) == outcome
    stepped = ("stepped", message.id if trusted else None)
    ran = ["reaps", ("ran", "entry", "message")] if outcome is OUTCOME else []
    assert lease.given == [stepped, *ran, "handed over"]
