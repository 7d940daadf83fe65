"""What a process of an agent's turn gets for a request that it writes into the turn's outbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.api.inside import TurnAround
from beam.base.errors import BeamError, ExitCode, LimitError, UnfinishedError
from beam.store.outbox import Answer, Folder, OpenTurn, Refusal
from tests.support.context import FakeClock


@pytest.fixture
def outbox(tmp_path: Path) -> Folder:
    """The outbox of a turn that runs."""
    folder = Folder.make(tmp_path / "outbox")
    folder.open_turn(OpenTurn(agent="writer", message_id="writer-1"))
    return folder


def test_a_request_is_written_and_its_answer_returned(outbox: Folder) -> None:
    asking = TurnAround("writer", outbox.path).deny("ask-1", FakeClock(), message="no", stop=True)
    next(asking)
    (name,) = outbox.names()
    request = outbox.read(name, 1000)
    assert request is not None
    assert (request.verb, request.target, request.text, request.stop) == ("deny", "ask-1", "no", True)
    outbox.answer(name, Answer(said="denied"))
    with pytest.raises(StopIteration) as done:
        next(asking)
    assert done.value.value == "denied"


def test_a_refusal_of_the_holder_is_raised_as_the_error_that_it_is(outbox: Folder) -> None:
    asking = TurnAround("writer", outbox.path).interrupt("other-1", FakeClock())
    next(asking)
    refusal = Refusal(message="not yours", hint="ask", subject="other-1", kind="untrusted", exit_code=10)
    outbox.answer(outbox.names()[0], Answer(refused=refusal))
    with pytest.raises(BeamError, match=r"not yours .ask") as caught:
        next(asking)
    error = caught.value
    assert (error.exit_code, error.kind, error.subject) == (ExitCode.UNSUPPORTED, "untrusted", "other-1")


def test_a_refusal_with_a_code_that_this_beam_does_not_know_is_a_failure(outbox: Folder) -> None:
    asking = TurnAround("writer", outbox.path).interrupt("other-1", FakeClock())
    next(asking)
    outbox.answer(outbox.names()[0], Answer(refused=Refusal(message="new", exit_code=99)))
    with pytest.raises(BeamError) as caught:
        next(asking)
    assert caught.value.exit_code is ExitCode.FAILED


def test_a_request_that_nobody_reads_is_taken_back_after_a_while(outbox: Folder) -> None:
    clock = FakeClock()
    asking = TurnAround("writer", outbox.path).interrupt("other-1", clock)
    next(asking)
    next(asking)
    clock.sleep(3600.0)
    with pytest.raises(UnfinishedError, match=r"did not read its outbox .nothing was sent"):
        next(asking)
    assert outbox.names() == []


def test_outside_of_a_turn_nothing_is_asked(outbox: Folder) -> None:
    outbox.close_turn()
    with pytest.raises(LimitError, match="writer is not in a turn"):
        next(TurnAround("writer", outbox.path).interrupt("other-1", FakeClock()))
    assert outbox.names() == []
