"""What a person is told of goes into the spool of the root, and a process that delivers it is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from beam.base.errors import DiskError
from beam.broker.inbox import launch
from beam.model import events
from beam.model.outcome import Status
from beam.notify import spool
from beam.store.lock import try_lock
from tests.support.context import Root

TARGETS = """
notify:
  - {command: [tell], on: [ask, finished, failed, budget, idle]}
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []

    def start_module(module: str, words: list[str], home: object, environ: object, *, log: Path) -> None:
        found.append((module, words, log))

    monkeypatch.setattr(launch, "start_module", start_module)
    return found


def told(root: Root, text: str = TARGETS) -> Root:
    (root.base / "beam.yaml").write_text(f"agents: {{worker: {{command: [cat]}}}}\n{text}")
    root.reload()
    return root


def spooled(root: Root) -> list[tuple[str, str, str]]:
    folder = root.context.home.notify
    items = [spool.read(folder, name) for name in spool.waiting_names(folder)] if folder.exists() else []
    return sorted(
        (item.notification.id, item.notification.event, item.notification.text) for item in items if item is not None
    )


def stamped(body: Any) -> Any:
    return msgspec.structs.replace(
        body, seq=1, ts="2026-01-01T00:00:00Z", agent="worker", turn=1, message_id="worker-m"
    )


ASKED = stamped(events.PermissionAsked(ask_id="worker-a", tool="Bash", expires="2026-01-01T00:10:00Z"))
FINISHED = stamped(events.TurnFinished(status=Status.COMPLETED, reply="yes"))
DEAD = stamped(events.MessageDead(reason="expired", detail="too late", status=Status.TIMEOUT))


def test_an_ask_is_reported_with_the_commands_that_decide_it(root: Root, started: list[tuple[Any, ...]]) -> None:
    launch.notify_ask(told(root).context, ASKED)
    assert spooled(root) == [
        ("ask-worker-a", "ask", "worker asks to use Bash (beam approve worker-a, or beam deny worker-a)")
    ]
    home = root.context.home
    assert started == [("beam.notify.deliver", [str(home.root)], home.notify / "log")]


def test_an_ask_that_beam_decides_at_once_is_not_reported(root: Root, started: list[tuple[Any, ...]]) -> None:
    launch.notify_ask(told(root).context, stamped(events.PermissionAsked(ask_id="worker-a", tool="Bash")))
    assert (spooled(root), started) == ([], [])


@pytest.mark.parametrize("is_last", [True, False])
def test_the_last_message_that_is_over_leaves_its_agent_idle(
    root: Root, started: list[tuple[Any, ...]], is_last: bool
) -> None:
    launch.notify_end(told(root).context, "worker-m", FINISHED, is_last=lambda: is_last)
    idle = ("idle-turn-worker-m-1", "idle", "worker is idle: nothing waits in its queue")
    done = ("turn-worker-m-1", "finished", "worker is done")
    assert spooled(root) == ([idle, done] if is_last else [done])
    assert len(started) == 1


def test_a_message_that_was_given_up_is_reported(root: Root, started: list[tuple[Any, ...]]) -> None:
    launch.notify_end(told(root).context, "worker-m", DEAD, is_last=lambda: False)
    assert spooled(root) == [("dead-worker-m-1", "failed", "a message to worker was given up: too late")]


def test_a_budget_is_told_once_for_each_key(root: Root, started: list[tuple[Any, ...]]) -> None:
    for key in ("k", "k", "l"):
        launch.notify_budget(told(root).context, key, agent="worker", text="nearly used up")
    assert spooled(root) == [
        ("budget-k", "budget", "nearly used up"),
        ("budget-l", "budget", "nearly used up"),
    ]
    assert len(started) == 2


def test_what_no_target_wants_is_not_put_and_nothing_is_started(root: Root, started: list[tuple[Any, ...]]) -> None:
    launch.notify_end(
        told(root, "notify: [{command: [tell], on: [ask]}]\n").context, "worker-m", FINISHED, is_last=lambda: True
    )
    assert (spooled(root), started) == ([], [])


def test_without_targets_nobody_asks_whether_it_was_the_last_one(root: Root) -> None:
    def is_last() -> bool:
        raise AssertionError("nobody is to be told")

    launch.notify_end(root.context, "worker-m", FINISHED, is_last=is_last)
    launch.notify_ask(root.context, ASKED)
    launch.notify_budget(root.context, "k", agent="worker", text="x")
    assert not root.context.home.notify.exists()


def test_one_process_delivers_at_a_time(root: Root, started: list[tuple[Any, ...]]) -> None:
    context = told(root).context
    context.home.notify.mkdir(parents=True)
    lock = try_lock(context.home.notify / "lock")
    assert lock is not None
    with lock:
        launch.notify_ask(context, ASKED)
        assert (len(spooled(root)), started) == (1, [])
    launch.start_delivery(context)
    assert len(started) == 1


@pytest.mark.parametrize("error", [DiskError("full"), OSError(28, "full")])
def test_what_can_not_be_put_changes_no_turn(root: Root, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(*_: object) -> bool:
        raise error

    context = told(root).context
    monkeypatch.setattr(spool, "put", fails)
    launch.notify_ask(context, ASKED)
    launch.notify_end(context, "worker-m", FINISHED, is_last=lambda: True)
    launch.notify_budget(context, "k", agent="worker", text="x")
    assert spooled(root) == []
