"""An agent's files are removed at any moment while somebody sends or waits: the words are always the same."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beam.api.send import send
from beam.base.errors import NotFoundError
from beam.broker.asking.follow import follow
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox.put import put
from beam.model import events
from beam.model.message import Message, Payload
from beam.root.paths import AgentPaths
from tests.support.context import FakeClock, Root

CALLS = ("open", "os.listdir", "os.scandir", "os.rename", "os.remove", "os.mkdir")
MOMENTS = 40  # as many as there are until all is done again


class QuickClock(FakeClock):
    """A clock on which every look at it takes long, so that nobody waits for anything."""

    def monotonic(self) -> float:
        self.elapsed += 0.2
        return super().monotonic()


class Remover:
    """Moves an agent's directory away before the Nth thing that this process does in it after a message was put there.

    Done by an audit hook: it sees every call that names a file, and can't be taken out again.
    """

    def __init__(self) -> None:
        self.directory: Path | None = None
        self.left = 0
        self._is_put = False
        sys.addaudithook(self._heard)

    def arm(self, directory: Path, left: int) -> None:
        """Start counting."""
        self.directory, self.left, self._is_put = directory, left, False

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.directory is None or event not in CALLS or not str(arguments[0]).startswith(f"{self.directory}/"):
            return
        if not self._is_put:
            self._is_put = event == "os.rename" and "/queue/new/" in str(arguments[1])
            return
        self.left -= 1
        if self.left < 0:
            directory, self.directory = self.directory, None
            directory.rename(directory.parent.parent / "away")


remover = Remover()


def paused(base: Path) -> Root:
    base.mkdir()
    root = Root(base)
    root.clock = QuickClock()
    root.context = msgspec.structs.replace(root.context, clock=root.clock)
    root.put("worker", "before")
    lease = AgentLease.acquire(root.context, root.place("worker"))
    assert lease is not None
    lease.log.record(events.QueuePaused(by="a test"), sync=True)
    lease.hand_over()
    return root


def message() -> Message:
    return Message(
        id="worker-1", timestamp="2026-01-01T00:00:00Z", sender="human", to="worker", payload=Payload(text="hi")
    )


def sent(root: Root, place: AgentPaths) -> None:
    asyncio.run(send(root.context, place, message(), lambda event: None))


def waited(root: Root, place: AgentPaths) -> None:
    put(root.context, place, message())
    for _ in follow(root.context, place, "worker-1", seen=lambda event: None):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("what", [sent, waited])
def test_who_waits_is_told_at_whatever_moment_the_agents_files_are_removed(
    tmp_path: Path, what: Callable[[Root, AgentPaths], None]
) -> None:
    root = paused(tmp_path / "first")
    shutil.copytree(root.context.home.root, tmp_path / "kept")
    place = root.place("worker")
    for moment in range(MOMENTS):
        shutil.rmtree(root.context.home.root)
        shutil.copytree(tmp_path / "kept", root.context.home.root)
        remover.arm(place.dir, moment)
        with pytest.raises(NotFoundError, match="worker was removed with all its messages"):
            what(root, place)
