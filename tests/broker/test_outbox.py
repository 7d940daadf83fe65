"""A turn's holder and the outbox of its agent, in which the agent may do anything."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from typing import Literal

import msgspec
import pytest

from beam.base.clock import Steps
from beam.broker.asking import mailbox
from beam.broker.asking.follow import outcome_in
from beam.broker.holder import duty
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox.context import Sender
from beam.broker.inbox.outbox import Outboxes
from beam.model import events
from beam.model.message import SessionContext
from beam.store.journal import read_state
from beam.store.outbox import Answer, Refusal, Request, read_answer
from beam.turns.handle import Stop
from tests.support.context import FakeClock, Root


class QuickClock(FakeClock):
    """A clock on which every look at it takes long: nobody's patience lasts."""

    def monotonic(self) -> float:
        self.elapsed += 1
        return super().monotonic()


class Turn:
    """A turn of `asker`, with its outbox."""

    def __init__(self, root: Root) -> None:
        self.lease: AgentLease = root.hold("asker")
        self.boxes = Outboxes(self.lease.log)
        self.folder = self.boxes.make(root.context.home.turns_of(self.lease.log.paths) / "t1")
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
        self.boxes.poll(self.sender)
        return read_answer(self.folder, "x")


def taken(root: Root) -> str:
    """The id of a message that was taken out of the mailbox `box`, and waits for its answer."""
    root.put("box", "well?")
    message = mailbox.recv(root.context, root.place("box"), None)
    assert message is not None
    return message.id


def test_a_file_whose_name_is_no_utf8_ends_no_holder(root: Root) -> None:
    turn = Turn(root)
    (turn.folder / os.fsdecode(b"\xff.json")).write_bytes(b"{}")
    turn.ask(Request(verb="deny", target="nobody-1"))
    answer = turn.look()
    assert answer is not None and answer.refused is not None and answer.refused.kind == "not_found"
    refused = read_answer(turn.folder, os.fsdecode(b"\xff"))
    assert refused is not None and refused.refused is not None and "\\udcff" in refused.refused.message


SENDS = {
    "a deadline beyond all time": b'{"to":"box","text":"hi","deadline":1e300}',
    "a name of a file that is too long": b'{"to":"box","text":"hi","attach":["' + b"a" * 300 + b'"]}',
    "a long number": b'{"to":"box","text":"hi","options":{"max_turns":' + b"9" * 100 + b"}}",
    "an endless timeout": b'{"to":"box","text":"hi","options":{"timeout":1e300}}',
}


@pytest.mark.parametrize("data", SENDS.values(), ids=SENDS)
def test_a_request_that_nobody_can_carry_out_is_refused_and_the_next_one_is_carried_out(
    root: Root, data: bytes
) -> None:
    turn = Turn(root)
    (turn.folder / "x.json").write_bytes(data)
    answer = turn.look()
    assert answer is not None and answer.refused is not None and answer.refused.kind == "usage"
    assert [path.name for path in turn.folder.glob("*.json")] == ["turn.json"]
    turn.ask(Request(to="box", text="and now"))
    answer = turn.look()
    assert answer is not None and answer.accepted is not None


@pytest.mark.parametrize("steps", [0, 1])
def test_a_request_that_finds_a_bug_of_beam_is_refused_once_and_the_turn_goes_on(root: Root, steps: int) -> None:
    def buggy(*words: object) -> Steps[Answer]:
        for _ in range(steps):
            yield 0.0
        raise OverflowError("too much \udcff")

    turn = Turn(root)
    turn.lease.log.context = msgspec.structs.replace(turn.lease.log.context, carry_out=buggy)
    turn.ask(Request(to="box", text="hi"))
    turn.look()
    answer = turn.look()
    assert answer is not None and answer.refused is not None
    assert (answer.refused.kind, answer.refused.exit_code) == ("bug", 70)
    assert "OverflowError: too much \\udcff" in answer.refused.message
    assert [path.name for path in turn.folder.glob("*.json")] == ["turn.json"]
    (notice,) = [event for event in root.events("asker") if isinstance(event, events.Notice)]
    assert notice.code == "bad_request" and "OverflowError" in notice.text


def test_a_request_in_a_folder_that_the_agent_made_read_only_is_removed(root: Root) -> None:
    turn = Turn(root)
    turn.ask(Request(to="box", text="hi"))
    turn.folder.chmod(0o500)
    turn.boxes.poll(turn.sender)
    assert not (turn.folder / "x.json").exists() and stat.S_IMODE(turn.folder.stat().st_mode) == 0o700


@pytest.mark.slow
def test_a_holder_does_not_stand_still_while_somebody_else_holds_the_mailbox_that_is_answered(root: Root) -> None:
    question = taken(root)
    root.clock = QuickClock(root.clock.now)
    root.reload()
    turn = Turn(root)
    other = root.hold("box")
    turn.ask(Request(verb="reply", target=question, text="yes"))
    assert turn.look() is None
    other.close()
    answer = turn.look()
    assert answer is not None and answer.outcome is not None and answer.outcome.reply == "yes"


@pytest.mark.acceptance
def test_an_answer_to_a_mailbox_in_the_last_moment_of_a_turn_is_given_and_other_turns_go_on_meanwhile(
    root: Root,
) -> None:
    question = taken(root)
    request = msgspec.json.encode(Request(verb="reply", target=question, text="yes")).decode()
    script = msgspec.json.encode(f"printf '%s' '{request}' > $BEAM_OUTBOX/x.json").decode()
    agents = f"{{box: {{adapter: mailbox}}, quick: {{access: edit, command: [sh, -c, {script}]}}}}"
    (root.base / "beam.yaml").write_text(f"agents: {agents}\n")
    root.reload()
    root.put("quick")
    lease, other = root.hold("quick"), root.hold("box")

    async def turn() -> None:
        def watch(event: events.Event) -> None:
            if isinstance(event, events.AgentExited):  # what another turn of this process does soon lets the box go
                asyncio.get_running_loop().call_later(0.2, other.close)

        lease.log.watcher = watch
        assert await duty.run_next(lease, Stop())

    asyncio.run(turn())
    lease.close()
    outcome = outcome_in(root.place("box"), read_state(root.place("box").journal), question)
    assert outcome is not None and outcome.reply == "yes"


@pytest.mark.slow
def test_what_a_dead_holders_agent_answered_is_taken_in_though_somebody_holds_the_mailbox_for_a_moment(
    root: Root,
) -> None:
    question = taken(root)
    turn = Turn(root)
    other = root.hold("box")
    turn.ask(Request(verb="reply", target=question, text="yes"))
    threading.Timer(0.05, other.close).start()
    turn.boxes.drain_leftovers(turn.sender)
    answer = read_answer(turn.folder, "x")
    assert answer is not None and answer.outcome is not None and answer.outcome.reply == "yes"


def test_who_still_waits_when_the_turn_ends_is_told_that_its_message_was_sent(root: Root) -> None:
    turn = Turn(root)
    turn.ask(Request(to="box", text="well?", wait=True))
    answer = turn.look()
    assert answer is not None and answer.accepted is not None and answer.refused is None
    list(turn.boxes.end(turn.sender))
    ended = read_answer(turn.folder, "x")
    assert ended is not None and ended.refused == Refusal(
        message=f"{answer.accepted} was sent; the turn that waited is over",
        hint=f"don't send it again; beam wait {answer.accepted}",
        subject=answer.accepted,
        kind="unfinished",
        exit_code=12,
    )
    assert root.boxes("box") == {"new": [answer.accepted]}


@pytest.mark.parametrize("verb", ["reply", "interrupt"])
def test_who_waits_for_what_the_end_of_the_turn_left_open_is_told_so(
    root: Root, verb: Literal["reply", "interrupt"]
) -> None:
    question = taken(root) if verb == "reply" else root.put("box", sender="asker").id
    turn = Turn(root)
    other = root.hold("box")
    turn.ask(Request(verb=verb, target=question, text="yes"))
    assert turn.look() is None
    list(turn.boxes.end(turn.sender))
    other.close()
    ended = read_answer(turn.folder, "x")
    assert ended is not None and ended.refused == Refusal(
        message="asker's turn ended before this request was answered",
        hint="check whether it was carried out before you repeat it",
        subject="asker",
        kind="unfinished",
        exit_code=12,
    )
