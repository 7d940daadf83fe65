"""kill -9 of the holder at every named point: the table of what survives a crash holds.

How often the agent really ran is counted by the agent itself.
"""

from __future__ import annotations

import json
import time

import pytest

from beam.base.faults import CRASH_POINTS
from tests.support import asking
from tests.support.cli import Cli
from tests.support.crash import KILLED, Place, check_numbers

pytestmark = pytest.mark.acceptance

PUT_BEFORE = ("put.written",)
PUT_AFTER = ("put.renamed", "put.published")
NOT_SENT = (
    "claim.before",
    "claim.renamed",
    "claim.recorded",
    "turn.before",
    "turn.started",
    "agent.spawned",
    "agent.started",
    "prompt.before",
    "prompt.sent",  # headless the agent is held until then; its guard says that it never let it go
)
SENT = ("agent.running", "prompt.written", "agent.exited", "finish.before")
FINISHED = ("finish.recorded", "route.before", "close.before")
ROUTED = ("route.put", "route.told")  # where there is a queue to route to
CLOSED = ("close.recorded", "remove.before", "removed")
GIVEN_UP = ("dead.recorded", "dead.moved")
REQUEUE = ("requeue.recorded", "requeue.moved")
LEASE_OVER = ("offer.rewritten", "offer.recorded", "requeue.moved")
CONTROL = ("control.published", "control.before", "retry.published", "control.done", "control.removed")
EDIT = ("edit.rewritten",)
ASKED = ("ask.recorded", "ask.shown")
DECIDED = ("decision.recorded", "decision.shown")
ASKED_BY_AN_AGENT = ("outbox.put", "outbox.taken", "outbox.removed")  # tests/broker/test_acceptance_outbox.py
REPAIR = ("repair.ended", "repair.noted")
SEGMENT = ("segment.written", "segment.renamed", "segment.published")
MOVED = (  # tests/api/test_acceptance_sessions.py
    "archive.before",
    "archive.done",
    "restore.before",
    "restore.done",
    "rename.before",
    "rename.moved",
    "rename.recorded",
)
UNDONE = ("undo.before", "undo.recorded", "undo.written")  # tests/api/test_acceptance_undo.py


def test_every_point_is_in_a_row_of_the_table() -> None:
    rows = (PUT_BEFORE, PUT_AFTER, NOT_SENT, SENT, FINISHED, ROUTED, CLOSED, GIVEN_UP, REQUEUE, LEASE_OVER)
    covered = {
        point
        for row in (*rows, CONTROL, EDIT, ASKED, ASKED_BY_AN_AGENT, DECIDED, REPAIR, SEGMENT, MOVED, UNDONE)
        for point in row
    }
    assert covered == set(CRASH_POINTS)
    assert len(set(CRASH_POINTS)) == len(CRASH_POINTS)


@pytest.mark.parametrize("point", PUT_BEFORE)
def test_a_message_that_was_not_published_does_not_exist(beam: Cli, point: str) -> None:
    place = Place(beam)
    place.crash(point, "send", "worker", "lost")
    done = beam("send", "worker", "kept")
    assert (done.code, done.out) == (0, "the answer to kept\n")
    assert place.runs.read_text().count("lost") == 0
    place.holds("worker")


@pytest.mark.parametrize("point", PUT_AFTER)
def test_a_published_message_is_run_once_by_whoever_comes(beam: Cli, point: str) -> None:
    place = Place(beam)
    place.crash(point, "send", "worker", "hi")
    message_id = place.id_of("worker")
    assert beam("wait", message_id).out == "the answer to hi\n"
    assert place.ran(message_id) == 1
    place.holds("worker")


@pytest.mark.parametrize("point", NOT_SENT)
def test_a_message_whose_prompt_was_not_sent_runs_once_and_this_was_no_attempt(beam: Cli, point: str) -> None:
    place = Place(beam)
    place.crash(point, "send", "worker", "hi")
    message_id = place.id_of("worker")
    assert place.ran(message_id) == 0
    done = beam("wait", message_id, "--json")
    assert (done.code, done.json["attempt"], done.json["reply"]) == (0, 1, "the answer to hi\n".strip())
    assert place.ran(message_id) == 1
    assert place.outcomes("worker", message_id) == [(1, "completed")]
    assert beam.box("worker", "new") == []
    place.holds("worker")


@pytest.mark.parametrize("point", NOT_SENT)
def test_a_message_whose_worker_died_before_the_prompt_is_answered_once(beam: Cli, point: str) -> None:
    place = Place(beam)
    message_id = place.crash_worker(point, "worker", "hi")
    assert place.ran(message_id) == 0
    assert beam("wait", message_id).code == 0
    assert place.ran(message_id) == 1
    assert [reply["payload"]["text"].strip() for reply in place.replies(message_id)] == ["the answer to hi"]
    place.holds("worker")


@pytest.mark.parametrize("point", SENT)
def test_a_message_whose_prompt_was_sent_is_unknown_and_runs_again_only_by_hand(beam: Cli, point: str) -> None:
    place = Place(beam)
    place.crash(point, "send", "worker", "hi")
    message_id = place.id_of("worker")
    before = place.ran(message_id)
    assert before <= 1
    done = beam("wait", message_id, "--json")
    assert (done.code, done.json["status"], done.json["attempt"]) == (8, "unknown", 1)
    assert [name.partition("-")[2] for name in beam.box("worker", "dead")] == [f"{message_id}.json"]
    assert beam("send", "worker", "another").code == 0
    assert place.ran(message_id) == before
    assert beam("queue", "retry", message_id).code == 0
    again = beam("wait", message_id, "--json")
    assert (again.code, again.json["attempt"]) == (0, 2)
    assert place.ran(message_id) == before + 1
    assert place.outcomes("worker", message_id) == [(1, "unknown"), (2, "completed")]
    assert beam.box("worker", "dead") == []
    place.holds("worker")


@pytest.mark.parametrize("point", SENT)
def test_a_sender_is_told_that_nobody_knows_what_became_of_its_message(beam: Cli, point: str) -> None:
    place = Place(beam)
    message_id = place.crash_worker(point, "worker", "hi")
    assert beam("wait", message_id).code == 8
    told = place.replies(message_id)
    assert len(told) == 1
    assert "unknown" in told[0]["payload"]["text"]
    assert told[0]["reply"] == "none"
    place.holds("worker")


@pytest.mark.parametrize("point", (*FINISHED, *CLOSED))
def test_a_finished_message_is_closed_and_never_run_again(beam: Cli, point: str) -> None:
    place = Place(beam)
    place.crash(point, "send", "worker", "hi")
    message_id = place.id_of("worker")
    done = beam("wait", message_id, "--json")
    assert (done.code, done.json["attempt"]) == (0, 1)
    assert beam("send", "worker", "another").code == 0
    assert place.ran(message_id) == 1
    assert place.outcomes("worker", message_id) == [(1, "completed")]
    closed = [event for event in beam.journal("worker") if event["type"] == "turn.closed"]
    assert [event["message_id"] for event in closed].count(message_id) == 1
    assert beam.box("worker", "new") == []
    place.holds("worker")


@pytest.mark.parametrize("point", (*FINISHED, *ROUTED, *CLOSED))
def test_the_reply_to_a_finished_message_is_delivered_once(beam: Cli, point: str) -> None:
    place = Place(beam)
    message_id = place.crash_worker(point, "worker", "hi")
    assert beam("wait", message_id).code == 0
    assert beam("send", "worker", "another").code == 0
    assert place.ran(message_id) == 1
    assert [reply["payload"]["text"].strip() for reply in place.replies(message_id)] == ["the answer to hi"]
    place.holds("worker")


@pytest.mark.parametrize("point", ROUTED)
def test_a_reply_whose_router_died_is_still_run_by_its_receiver(beam: Cli, point: str) -> None:
    place = Place(beam)
    ended = beam("send", "worker", "hi", "--from", "broken", "--no-wait", env={"BEAM_CRASH_AT": point})
    place.all_gone()
    assert beam("wait", ended.out.strip()).code == 0
    place.all_gone()  # the receiver's worker, too, died where it told of its failure
    assert beam("send", "broken", "more").code == 1
    assert beam.box("broken", "new") == []
    assert "the answer to hi" in place.runs.read_text()
    place.holds("worker")
    place.holds("broken")


@pytest.mark.parametrize("point", GIVEN_UP)
def test_a_failed_message_becomes_one_dead_letter(beam: Cli, point: str) -> None:
    place = Place(beam)
    place.crash(point, "send", "broken", "hi")
    message_id = place.id_of("broken")
    assert beam("wait", message_id).code == 1
    assert beam("send", "broken", "another").code == 1
    assert place.ran(message_id) == 1
    assert place.outcomes("broken", message_id) == [(1, "failed")]
    assert sum(message_id in name for name in beam.box("broken", "dead")) == 1
    assert beam.box("broken", "new") == []
    place.holds("broken")


@pytest.mark.parametrize("verb", [("queue", "drop"), ("interrupt",)])
@pytest.mark.parametrize("point", ("dead.recorded", "remove.before", "removed"))
def test_a_dropped_message_is_over_whatever_happens_to_its_holder(beam: Cli, point: str, verb: tuple[str, ...]) -> None:
    place = Place(beam)
    message_id = beam("send", "box", "hi", "--no-wait").out.strip()
    place.crash(point, *verb, message_id)
    beam("recv", "box")
    assert beam("wait", message_id).code == 9
    assert place.outcomes("box", message_id) == [(1, "cancelled")]
    assert (beam.box("box", "new"), beam.box("box", "dead")) == ([], [])
    place.holds("box")


@pytest.mark.parametrize("point", REQUEUE)
def test_a_holder_that_dies_while_it_puts_a_message_back_loses_nothing(beam: Cli, point: str) -> None:
    place = Place(beam)
    place.crash("turn.started", "send", "worker", "hi")
    message_id = place.id_of("worker")
    place.crash(point, "wait", message_id)
    assert beam("wait", message_id).code == 0
    assert place.ran(message_id) == 1
    place.holds("worker")


@pytest.mark.parametrize("point", ("claim.renamed", "turn.started", "prompt.before", "prompt.sent"))
def test_after_three_deaths_before_the_prompt_the_message_is_a_dead_letter(beam: Cli, point: str) -> None:
    place = Place(beam)
    message_id = place.crash_worker(point, "worker", "hi")
    for _ in range(2):
        beam("wait", message_id, "--timeout", "1s", env={"BEAM_CRASH_AT": point})
        place.all_gone()
        deaths = sum(event["type"] == "message.requeued" for event in beam.journal("worker"))
        if deaths == 2:
            break
    done = beam("wait", message_id, "--json")
    assert (done.code, done.json["status"]) == (1, "failed")
    assert done.json["reason"] == "holder died 3 times before the prompt was sent"
    assert sum(event["type"] == "message.requeued" for event in beam.journal("worker")) == 2
    assert place.ran(message_id) == 0
    assert len(place.replies(message_id)) == 1
    assert len(beam.box("worker", "dead")) == 1
    assert beam("queue", "retry", message_id).code == 0
    assert beam("wait", message_id, "--json").json["attempt"] == 2
    place.holds("worker")


MAILBOX_TAKEN = ("claim.before", "claim.renamed", "claim.recorded", "turn.before", "turn.started", "prompt.before")
MAILBOX_ANSWERED = ("finish.recorded", "route.before", "route.put", "route.told", "close.before", "close.recorded")


@pytest.mark.parametrize("point", MAILBOX_TAKEN)
def test_a_message_that_recv_died_over_is_offered_again_at_once(beam: Cli, point: str) -> None:
    place = Place(beam)
    message_id = beam("send", "box", "hi", "--no-wait").out.strip()
    place.crash(point, "recv", "box")
    assert beam("recv", "box").out == "hi\n"
    assert beam("reply", message_id, "yes").code == 0
    done = beam("wait", message_id, "--json").json
    assert (done["reply"], done["attempt"]) == ("yes", 1)
    place.holds("box")


@pytest.mark.parametrize("point", LEASE_OVER)
def test_a_message_whose_lease_is_over_is_offered_again_whatever_happens(beam: Cli, point: str) -> None:
    place = Place(beam)
    message_id = beam("send", "box", "hi", "--no-wait").out.strip()
    place.crash("prompt.sent", "recv", "box", "--lease", "50ms")
    time.sleep(0.06)
    place.crash(point, "recv", "box")
    assert beam("recv", "box").out == "hi\n"
    assert beam("reply", message_id, "yes").code == 0
    done = beam("wait", message_id, "--json").json
    assert (done["reply"], done["attempt"]) == ("yes", 2)
    place.holds("box")


@pytest.mark.parametrize("point", ("finish.before",))
def test_an_answer_that_was_not_recorded_can_be_given_again(beam: Cli, point: str) -> None:
    place = Place(beam)
    message_id = beam("send", "box", "hi", "--no-wait", "--from", "asker").out.strip()
    assert beam("recv", "box").code == 0
    place.crash(point, "reply", message_id, "yes")
    assert beam("reply", message_id, "yes again").code == 0
    assert [reply["payload"]["text"] for reply in place.replies(message_id)] == ["yes again"]
    place.holds("box")


@pytest.mark.parametrize("point", (*MAILBOX_ANSWERED, "remove.before", "removed"))
def test_an_answer_that_was_recorded_is_delivered_once(beam: Cli, point: str) -> None:
    place = Place(beam)
    message_id = beam("send", "box", "hi", "--no-wait", "--from", "asker").out.strip()
    assert beam("recv", "box").code == 0
    place.crash(point, "reply", message_id, "yes")
    assert beam("wait", message_id).out.strip() == "yes"
    assert beam("reply", message_id, "twice").code == 4
    assert [reply["payload"]["text"] for reply in place.replies(message_id)] == ["yes"]
    place.holds("box")


@pytest.mark.parametrize("point", (*CONTROL, "remove.before", "removed"))
def test_a_retry_is_one_more_attempt_whatever_happens_to_who_asked(beam: Cli, point: str) -> None:
    place = Place(beam)
    place.crash("agent.running", "send", "worker", "hi")
    message_id = place.id_of("worker")
    assert beam("wait", message_id).code == 8
    place.crash(point, "queue", "retry", message_id)
    assert beam("send", "worker", "another").code == 0
    done = beam("wait", message_id, "--json")
    assert (done.code, done.json["attempt"]) == (0, 2)
    assert place.ran(message_id) == 1
    assert list(dict(place.outcomes("worker", message_id))) == [1, 2]
    assert beam.box("worker", "dead") == []
    assert list((beam.root / "agents" / "worker" / "control" / "new").iterdir()) == []
    place.holds("worker")


@pytest.mark.parametrize("point", EDIT)
def test_an_edit_counts_even_if_who_asked_for_it_died(beam: Cli, point: str) -> None:
    place = Place(beam)
    message_id = beam("send", "box", "first", "--no-wait").out.strip()
    place.crash(point, "queue", "edit", message_id, "second")
    assert beam("recv", "box").out == "second\n"
    assert beam("reply", message_id, "yes").code == 0
    place.holds("box")


@pytest.mark.parametrize("point", ASKED)
def test_an_ask_whose_holder_died_is_cancelled_and_can_not_be_decided(beam: Cli, point: str) -> None:
    asking.place(beam)
    assert beam(*asking.SEND, "zz", env={"BEAM_CRASH_AT": point}).code == KILLED
    (asked,) = [event for event in beam.journal("tui") if event["type"] == "permission.asked"]
    assert beam("approve", asked["ask_id"]).code == 4
    assert beam("wait", asked["message_id"]).code == 8
    assert asking.kinds(beam) == ["asked", "cancelled"]
    assert list((beam.root / "agents" / "tui" / "asks").iterdir()) == []
    check_numbers(beam, "tui")


@pytest.mark.parametrize("point", DECIDED)
def test_a_decision_counts_once_whatever_happens_to_the_holder(beam: Cli, point: str) -> None:
    asking.place(beam)
    process = beam.start(*asking.SEND, "zz", env={"BEAM_CRASH_AT": point})
    ask = asking.first_ask(beam)
    decided = beam("approve", ask["id"])
    assert process.communicate(timeout=30) is not None and process.returncode == -9
    assert decided.code == 4, "the turn that asked is gone, and the decision is for no other"
    assert beam("wait", ask["message_id"]).code == 8
    assert asking.kinds(beam) == ["asked", "allow"]
    assert list((beam.root / "agents" / "tui" / "asks").iterdir()) == []
    assert list((beam.root / "agents" / "tui" / "control" / "new").iterdir()) == []
    check_numbers(beam, "tui")


@pytest.mark.parametrize("torn", [b'{"type":"text","seq":', b"\x00\x00\xff", b"{"])
@pytest.mark.parametrize("point", REPAIR)
def test_a_torn_line_is_repaired_even_if_who_repairs_it_dies(beam: Cli, point: str, torn: bytes) -> None:
    place = Place(beam)
    assert beam("send", "worker", "one").code == 0
    segment = max((beam.root / "agents" / "worker" / "journal").iterdir())
    with segment.open("ab") as file:
        file.write(torn)
    place.crash(point, "send", "worker", "two")
    assert beam("send", "worker", "three").code == 0
    place.all_gone()
    assert sorted(line.split(" ", 1)[1] for line in place.runs.read_text().splitlines()) == ["one", "three", "two"]
    place.holds("worker")


@pytest.mark.parametrize("point", SEGMENT)
def test_a_segment_is_begun_once_and_nothing_is_lost_with_its_holder(beam: Cli, point: str) -> None:
    place = Place(beam, limits="{segment_bytes: 1}")
    place.crash(point, "send", "worker", "one")
    message_id = place.id_of("worker")
    assert beam("wait", message_id).code == 0
    assert place.ran(message_id) == 1
    place.holds("worker")
    ended = beam("send", "worker", "two", "--json")
    for _ in range(4):
        if beam("send", "worker", "more", env={"BEAM_CRASH_AT": point}).code == KILLED:
            break
    else:
        pytest.fail("no segment was begun")
    assert beam("show", ended.json["message_id"]).out == "the answer to two\n"
    assert beam("send", "worker", "last").code == 0
    assert len(list((beam.root / "agents" / "worker" / "journal").glob("*.jsonl"))) >= 2
    place.holds("worker")


def test_nothing_is_read_of_a_journal_but_its_newest_segment(beam: Cli) -> None:
    place = Place(beam, limits="{segment_bytes: 1}")
    for _ in range(6):
        assert beam("send", "worker", "hi").code == 0
    old = sorted((beam.root / "agents" / "worker" / "journal").iterdir())[:-1]
    assert old
    for segment in old:
        segment.write_bytes(b"rubbish\n" * 3)
    assert beam("send", "worker", "hi").out == "the answer to hi\n"
    place.all_gone()


def test_what_the_journal_says_of_a_crash_is_one_line_of_json_each(beam: Cli) -> None:
    place = Place(beam)
    place.crash("agent.running", "send", "worker", "hi")
    message_id = place.id_of("worker")
    assert beam("status").code == 0
    assert beam("wait", message_id).code == 8
    finished = [event for event in beam.journal("worker") if event["type"] == "turn.finished"]
    assert len(finished) == 1
    assert json.loads(beam("show", message_id, "--json").out)["status"] == "unknown"
