"""What a process of an agent's turn gets for a request that it writes into the turn's outbox."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam.api.inside import CallerTurn, caller_turn
from beam.base.errors import (
    BeamError,
    DiskError,
    ExitCode,
    LimitError,
    SignalledError,
    UnfinishedError,
    UnsupportedError,
    UsageError,
)
from beam.model.message import Message, Options, Payload
from beam.model.outcome import Outcome, Status
from beam.process import table
from beam.store.outbox import Answer, OpenTurn, OutboxFolder, Refusal, Request
from tests.support.context import FakeClock
from tests.support.refused import refused


@pytest.fixture
def outbox(tmp_path: Path) -> OutboxFolder:
    """The outbox of a turn that runs."""
    folder = OutboxFolder.make(tmp_path / "outbox")
    folder.open_turn(OpenTurn(agent="writer", message_id="writer-1"))
    return folder


def test_a_request_is_written_and_its_answer_returned(outbox: OutboxFolder) -> None:
    asking = CallerTurn("writer", outbox.path).deny("ask-1", FakeClock(), message="no", stop=True)
    next(asking)
    (name,) = outbox.names()
    request = outbox.read(name, 1000)
    assert request is not None
    assert (request.verb, request.target, request.text, request.stop) == ("deny", "ask-1", "no", True)
    outbox.answer(name, Answer(said="denied"))
    with pytest.raises(StopIteration) as done:
        next(asking)
    assert done.value.value == "denied"


def test_a_refusal_of_the_holder_is_raised_as_the_error_that_it_is(outbox: OutboxFolder) -> None:
    asking = CallerTurn("writer", outbox.path).interrupt("other-1", FakeClock())
    next(asking)
    refusal = Refusal(message="not yours", hint="ask", subject="other-1", kind="untrusted", exit_code=10)
    outbox.answer(outbox.names()[0], Answer(refused=refusal))
    with pytest.raises(BeamError, match=r"not yours .ask") as caught:
        next(asking)
    error = caught.value
    assert (error.exit_code, error.kind, error.subject) == (ExitCode.UNSUPPORTED, "untrusted", "other-1")


def test_a_refusal_with_a_code_that_this_beam_does_not_know_is_a_failure(outbox: OutboxFolder) -> None:
    asking = CallerTurn("writer", outbox.path).interrupt("other-1", FakeClock())
    next(asking)
    outbox.answer(outbox.names()[0], Answer(refused=Refusal(message="new", exit_code=99)))
    with pytest.raises(BeamError) as caught:
        next(asking)
    assert caught.value.exit_code is ExitCode.FAILED


def test_a_request_that_nobody_reads_is_taken_back_after_a_while(outbox: OutboxFolder) -> None:
    clock = FakeClock()
    asking = CallerTurn("writer", outbox.path).interrupt("other-1", clock)
    next(asking)
    next(asking)
    clock.sleep(3600.0)
    with pytest.raises(UnfinishedError, match=r"did not read its outbox .nothing was sent"):
        next(asking)
    assert outbox.names() == []


def test_outside_of_a_turn_nothing_is_asked(outbox: OutboxFolder) -> None:
    outbox.close_turn()
    with pytest.raises(LimitError, match="writer is not in a turn"):
        next(CallerTurn("writer", outbox.path).interrupt("other-1", FakeClock()))
    assert outbox.names() == []


# -- what is written and what comes back -------------------------------------------------------------------------------

NOW = "2023-11-14T22:13:20.000000Z"
AROUND = CallerTurn("writer", Path("/nowhere"))


def message(around: CallerTurn = AROUND, **given: Any) -> Message:
    default: dict[str, Any] = {
        "wait": True,
        "sender": None,
        "attach": (),
        "options": Options(),
        "key": None,
        "deadline": None,
        "replies": None,
        "clock": FakeClock(),
    }
    return around.message(given.pop("to", "other"), given.pop("text", "hi"), **{**default, **given})


def test_a_message_of_a_turn_is_its_agents_and_has_what_was_asked_for(tmp_path: Path) -> None:
    plain = message()
    assert plain == Message(
        id=plain.id, timestamp=NOW, sender="writer", to="other", payload=Payload(text="hi"), reply="wait"
    )
    assert plain.id.startswith("other-")
    file = tmp_path / "a.txt"
    full = message(
        text="a \udcff",
        wait=False,
        sender="writer",
        attach=(file, Path("b.txt")),
        options=Options(model="m"),
        key="k",
        deadline=2.5,
        replies=3,
    )
    assert full == Message(
        id=full.id,
        timestamp=NOW,
        sender="writer",
        to="other",
        payload=Payload(text="a \ufffd", attach=(str(file), str(Path("b.txt").absolute()))),
        reply="queue",
        replies=3,
        key="k",
        deadline="2023-11-14T22:13:22.500000Z",
        options=Options(model="m"),
    )


def test_what_a_turn_can_not_send_is_refused() -> None:
    with refused(UsageError, f"writer can't send as {'x' * 80!r}: this is a process of its turn", "leave --from out"):
        message(sender="x" * 81)
    for given in ({"text": ""}, {"replies": 1}, {"to": "No Name"}, {"replies": -1, "wait": False}):
        with pytest.raises(BeamError):
            message(**given)


def asked(outbox: OutboxFolder) -> Request:
    (name,) = outbox.names()
    request = outbox.read(name, 100_000)
    assert request is not None
    return request


def test_a_message_is_put_into_the_outbox_with_what_is_left_of_its_deadline(outbox: OutboxFolder) -> None:
    clock = FakeClock()
    around = CallerTurn("writer", outbox.path)
    given = {"attach": (Path("/a"),), "options": Options(model="m"), "key": "k", "deadline": 2.5, "replies": 3}
    made = message(around, wait=False, **given)
    clock.sleep(1)
    putting = around.put(made, clock)
    assert next(putting) == 0.02
    assert asked(outbox) == Request(
        verb="send",
        to="other",
        text="hi",
        wait=False,
        attach=("/a",),
        options=Options(model="m"),
        key="k",
        deadline=1.5,
        replies=3,
    )
    outbox.answer(outbox.names()[0], Answer(accepted="other-1"))
    with pytest.raises(StopIteration) as done:
        next(putting)
    assert done.value.value == "other-1"


def test_a_message_whose_id_is_not_reported_has_its_own(outbox: OutboxFolder) -> None:
    made = message()
    putting = CallerTurn("writer", outbox.path).put(made, FakeClock())
    next(putting)
    assert asked(outbox).deadline is None
    outbox.answer(outbox.names()[0], Answer())
    with pytest.raises(StopIteration) as done:
        next(putting)
    assert done.value.value == made.id


def test_a_reply_and_an_interrupt_are_requests(outbox: OutboxFolder) -> None:
    around = CallerTurn("writer", outbox.path)
    replying = around.reply("box-1", "no", FakeClock(), failed=True)
    next(replying)
    assert asked(outbox) == Request(verb="reply", target="box-1", text="no", failed=True)
    outbox.answer(outbox.names()[0], Answer(outcome=OUTCOME))
    with pytest.raises(StopIteration) as done:
        next(replying)
    assert done.value.value == OUTCOME
    outbox.remove(outbox.names()[0])
    interrupting = around.interrupt("box-1", FakeClock())
    next(interrupting)
    assert asked(outbox) == Request(verb="interrupt", target="box-1")
    outbox.answer(outbox.names()[0], Answer(said="interrupted"))
    with pytest.raises(StopIteration) as done:
        next(interrupting)
    assert done.value.value == "interrupted"
    outbox.remove(outbox.names()[0])
    denying = around.deny("ask-1", FakeClock(), message=None, stop=False)
    next(denying)
    assert asked(outbox) == Request(verb="deny", target="ask-1")


def test_a_reply_without_an_outcome_is_reported(outbox: OutboxFolder) -> None:
    replying = CallerTurn("writer", outbox.path).reply("box-1", "yes", FakeClock(), failed=False)
    next(replying)
    outbox.answer(outbox.names()[0], Answer(said="taken"))
    with refused(UnfinishedError, "box-1 got no outcome", "beam show ID", subject="box-1"):
        next(replying)


def test_what_keeps_a_request_from_being_made_is_reported(outbox: OutboxFolder, tmp_path: Path) -> None:
    around = CallerTurn("writer", outbox.path)
    asking = around.interrupt("box-1", FakeClock())
    next(asking)
    shutil.rmtree(outbox.path)
    said = "the process that runs writer's turn did not read its outbox"
    with refused(UnfinishedError, said, "nothing was sent; try again", subject="writer"):
        next(asking)
    said = "writer is not in a turn; a process of its kept terminal can send only while one runs"
    with refused(LimitError, said, "send from a shell of your own", subject="writer"):
        next(around.interrupt("box-1", FakeClock()))


def test_a_sandbox_that_forbids_writing_is_named(outbox: OutboxFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def publish(*_: object) -> None:
        raise DiskError("can't write")

    monkeypatch.setattr("beam.store.outbox.publish", publish)
    said = f"writer can't send from here: its sandbox forbids writing into its outbox ({outbox.path}: can't write)"
    hint = "give it --access edit, or let a person send"
    with refused(UnsupportedError, said, hint, subject="writer"):
        next(CallerTurn("writer", outbox.path).interrupt("box-1", FakeClock()))


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_request_waits_a_minute_and_longer_once_it_was_taken(is_taken: bool, outbox: OutboxFolder) -> None:
    clock = FakeClock()
    asking = CallerTurn("writer", outbox.path).interrupt("box-1", clock)
    next(asking)
    if is_taken:
        outbox.remove(outbox.names()[0])
    clock.sleep(60)
    next(asking)
    clock.sleep(0.1)
    if is_taken:
        next(asking)
    else:
        with pytest.raises(UnfinishedError):
            next(asking)


# -- waiting for an outcome ------------------------------------------------------------------------------------------

OUTCOME = Outcome(message_id="other-1", agent="other", turn=1, attempt=1, status=Status.COMPLETED, reply="yes")


def delivered(outbox: OutboxFolder, answers: Callable[[str, Request], Answer | None]) -> Outcome:
    """The outcome of a message, where each request gets such answers until the outcome is there."""
    around = CallerTurn("writer", outbox.path)

    async def holder() -> None:
        while True:
            for name in outbox.names():
                request = outbox.read(name, 100_000)
                answer = None if request is None else answers(name, request)
                if answer is not None:
                    outbox.answer(name, answer)
            await asyncio.sleep(0.001)

    async def both() -> Outcome:
        answering = asyncio.create_task(holder())
        try:
            return await asyncio.wait_for(around.deliver(message(around), FakeClock()), 10)
        finally:
            answering.cancel()

    return asyncio.run(both())


@pytest.mark.slow
def test_an_outcome_comes_after_its_message_was_accepted(outbox: OutboxFolder) -> None:
    seen: list[bool] = []

    def answers(name: str, request: Request) -> Answer:
        seen.append(request.wait)
        return Answer(accepted="other-1", outcome=OUTCOME if len(seen) > 5 else None)

    assert delivered(outbox, answers) == OUTCOME
    assert all(seen)


def test_a_refusal_after_the_message_was_accepted_is_raised(outbox: OutboxFolder) -> None:
    seen: list[str] = []

    def answers(name: str, request: Request) -> Answer:
        seen.append(name)
        return Answer(accepted="other-1") if len(seen) < 5 else Answer(refused=Refusal(message="removed"))

    with pytest.raises(BeamError, match="removed"):
        delivered(outbox, answers)


@pytest.mark.slow
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_signal_interrupts_what_was_sent(is_refused: bool, outbox: OutboxFolder) -> None:
    targets: list[str] = []

    def answers(name: str, request: Request) -> Answer | None:
        if request.verb == "send":
            if not targets:
                os.kill(os.getpid(), signal.SIGTERM)
                return Answer(accepted="other-1")
            return None if is_refused else Answer(accepted="other-1", outcome=OUTCOME)
        targets.append(request.target)
        return Answer(refused=Refusal(message="no")) if is_refused else Answer(said="interrupted")

    with pytest.raises(SignalledError) as ended:
        delivered(outbox, answers)
    assert (ended.value.number, ended.value.message) == (signal.SIGTERM, "other was asked to stop")
    assert ended.value.outcome in ((None,) if is_refused else (OUTCOME,))
    assert not is_refused or set(targets) == {"other-1"}


@pytest.mark.parametrize("accepted", ["other-1", None])
def test_who_waits_in_a_turn_that_is_gone_is_told_that_its_message_was_sent(
    accepted: str | None, outbox: OutboxFolder
) -> None:
    around = CallerTurn("writer", outbox.path)
    sent = message(around)

    async def both() -> None:
        waiting = asyncio.create_task(around.deliver(sent, FakeClock()))
        while not outbox.names():
            await asyncio.sleep(0.001)
        outbox.answer(outbox.names()[0], Answer(accepted=accepted))
        await asyncio.sleep(0.05)
        shutil.rmtree(outbox.path)
        await asyncio.wait_for(waiting, 10)

    whole_id = accepted or sent.id
    said = f"{whole_id} was sent; the turn that waited is over"
    with refused(UnfinishedError, said, f"don't send it again; beam wait {whole_id}", subject=whole_id):
        asyncio.run(both())


# -- whose process this is ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({"BEAM_AGENT": "writer", "BEAM_OUTBOX": "/o"}, CallerTurn("writer", Path("/o"))),
        ({"BEAM_AGENT": "writer"}, None),
        ({"BEAM_OUTBOX": "/o"}, None),
        ({"BEAM_AGENT": "writer", "BEAM_OUTBOX": "o"}, None),
        ({"BEAM_AGENT": "No Name", "BEAM_OUTBOX": "/o"}, None),
        ({}, None),
    ],
)
def test_a_process_is_of_the_turn_that_its_variables_name(
    environ: dict[str, str], found: CallerTurn | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "ancestor_environments", lambda _: iter([[b"PATH=/bin"]]))
    assert caller_turn(environ) == found


def test_the_guard_among_its_ancestors_counts_more_than_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = b"BEAM_TURN_k=" + table.GUARD_VALUE

    def above(_: int) -> Any:
        yield [b"BEAM_AGENT=near", b"BEAM_OUTBOX=/near", b"BEAM_TURN_k=other"]
        yield [b"BEAM_AGENT=near", b"BEAM_OUTBOX=/near", b"X_" + mark]
        yield [b"BEAM_AGENT=writer", b"BEAM_OUTBOX=/o\xff=1", b"PATH=/bin", mark]
        yield [b"BEAM_AGENT=far", b"BEAM_OUTBOX=/far", mark]

    monkeypatch.setattr(table, "ancestor_environments", above)
    assert caller_turn({"BEAM_AGENT": "me", "BEAM_OUTBOX": "/me"}) == CallerTurn("writer", Path("/o\udcff=1"))


def test_a_process_far_below_its_guard_is_still_one_of_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = [b"BEAM_TURN_abc=guard", b"BEAM_AGENT=writer", b"BEAM_OUTBOX=/o"]
    above = [*([[b""]] * 5_000), guard]
    monkeypatch.setattr(table, "ancestor_environments", lambda most: iter(above[:most]))
    assert caller_turn({}) == CallerTurn("writer", Path("/o"))
