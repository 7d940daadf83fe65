"""A turn's holder and the outbox of its agent, in which the agent may do anything."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec
import pytest

from beam.broker import mailbox
from beam.broker.hold import Holder
from beam.broker.outbox import Outboxes, Sender
from beam.message import SessionContext
from beam.store.outbox import Answer, Request, answered
from tests.support.world import FakeClock, Root


class QuickClock(FakeClock):
    """A clock on which every look at it takes long: nobody's patience lasts."""

    def monotonic(self) -> float:
        self.elapsed += 1
        return super().monotonic()


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


class Turn:
    """A turn of `asker`, with its outbox."""

    def __init__(self, root: Root) -> None:
        self.holder: Holder = root.hold("asker")
        self.boxes = Outboxes(self.holder)
        self.folder = self.boxes.make("t1")
        self.sender = Sender(
            agent="asker",
            message=root.message("asker"),
            turn_key="t1",
            at_most=None,
            context=SessionContext(),
            folder=root.base,
        )
        self.boxes.begin(self.sender)

    def ask(self, request: Request) -> None:
        (self.folder / "x.json").write_bytes(msgspec.json.encode(request))

    def look(self) -> Answer | None:
        self.boxes.look(self.sender)
        return answered(self.folder, "x")


def taken(root: Root) -> str:
    """The id of a message that was taken out of the mailbox `box`, and waits for its answer."""
    root.put("box", "well?")
    message = mailbox.recv(root.world, root.place("box"), None)
    assert message is not None
    return message.id


def test_a_file_whose_name_is_no_utf8_ends_no_holder(root: Root) -> None:
    turn = Turn(root)
    (turn.folder / os.fsdecode(b"\xff.json")).write_bytes(b"{}")
    turn.ask(Request(verb="deny", target="nobody-1"))
    answer = turn.look()
    assert answer is not None and answer.refused is not None and answer.refused.kind == "not_found"
    refused = answered(turn.folder, os.fsdecode(b"\xff"))
    assert refused is not None and refused.refused is not None and "\\udcff" in refused.refused.message


@pytest.mark.slow
def test_a_holder_does_not_stand_still_while_somebody_else_holds_the_mailbox_that_is_answered(root: Root) -> None:
    question = taken(root)
    root.clock = QuickClock(root.clock.now)
    root.reload()
    turn = Turn(root)
    other = root.hold("box")
    turn.ask(Request(verb="reply", target=question, text="yes"))
    assert turn.look() is None
    other.release()
    answer = turn.look()
    assert answer is not None and answer.outcome is not None and answer.outcome.reply == "yes"


def test_an_answer_to_a_mailbox_in_the_last_moment_of_a_turn_is_given(root: Root) -> None:
    question = taken(root)
    turn = Turn(root)
    other = root.hold("box")
    turn.ask(Request(verb="reply", target=question, text="yes"))
    assert turn.look() is None
    threading.Timer(0.05, other.release).start()
    turn.boxes.end(turn.sender)
    answer = answered(turn.folder, "x")
    assert answer is not None and answer.outcome is not None and answer.outcome.reply == "yes"
