"""Requests to whoever holds an agent; where nobody does, the caller does a holder's duty."""

from __future__ import annotations

import pytest

from beam.base.errors import BeamError, ExitCode, UnfinishedError
from beam.broker.asking import mailbox
from beam.broker.asking.requests import request, withdraw
from beam.model.outcome import Status
from beam.store.lock import try_lock
from tests.support.context import Root, ended


def test_a_request_that_nobody_could_answer_is_answered_by_the_caller(root: Root) -> None:
    message = root.put("box")
    assert ended(request(root.context, root.place("box"), "drop", message.id, by="me")) == "dropped"
    assert root.boxes("box") == {}


def test_a_refusal_has_its_kind_and_exit_code(root: Root) -> None:
    with pytest.raises(BeamError, match="no message box-none") as refused:
        ended(request(root.context, root.place("box"), "drop", "box-none", by="me"))
    assert (refused.value.kind, refused.value.exit_code) == ("not_found", ExitCode.NOT_FOUND)


def test_a_holder_that_does_not_answer_is_given_up_on_in_time(root: Root) -> None:
    place = root.place("box")
    lock = try_lock(place.lock)
    assert lock is not None
    with lock:
        steps = request(root.context, place, "reset", by="me", timeout=5)
        next(steps)
        root.clock.sleep(6)
        with pytest.raises(UnfinishedError, match="did not answer"):
            next(steps)


def test_a_waiting_message_is_withdrawn_with_its_outcome(root: Root) -> None:
    message = root.put("box", reply="wait")
    outcome = ended(withdraw(root.context, root.place("box"), message.id, by="me"))
    assert (outcome.status, outcome.turn) == (Status.CANCELLED, None)
    assert root.boxes("box") == {}


@pytest.mark.slow
def test_what_is_over_is_not_withdrawn_but_told(root: Root) -> None:
    message = root.put("box", reply="wait")
    mailbox.recv(root.context, root.place("box"), None)
    mailbox.reply(root.context, root.place("box"), message.id, "yes", failed=False)
    assert ended(withdraw(root.context, root.place("box"), message.id, by="me")).reply == "yes"
