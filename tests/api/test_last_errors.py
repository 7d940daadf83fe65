"""The last errors of all agents: one a message, the newest first, from journals of any size and state."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.api.doctor import checks, last_errors
from beam.model import events
from beam.model.outcome import Class, Status
from tests.support.context import Root


def finish(root: Root, agent: str, *bodies: tuple[str, events.Event]) -> None:
    lease = root.hold(agent)
    for message_id, body in bodies:
        lease.log.record(body, turn=1, message_id=message_id)
        root.clock.sleep(1)
    lease.close()


def failed(reason: str, class_: Class | None = Class.CRASHED) -> events.TurnFinished:
    return events.TurnFinished(status=Status.FAILED, class_=class_, reason=reason, exit_code=1)


@pytest.mark.slow
def test_they_are_of_all_agents_the_newest_first_one_a_message(tmp_path: Path) -> None:
    root = Root(tmp_path)
    done = events.TurnFinished(status=Status.COMPLETED)
    again = events.MessageDead(reason="failed", status=Status.FAILED)
    finish(root, "worker", ("worker-1", failed("old")), ("worker-2", done), ("worker-3", failed("a\nb")))
    finish(root, "other", ("other-1", failed("x" * 900)), ("other-1", again))
    assert [error.outcome.message_id for error in last_errors(root.context, 10)] == ["other-1", "worker-3", "worker-1"]
    assert [error.outcome.message_id for error in last_errors(root.context, 1)] == ["other-1"]
    lines = [error.text for error in last_errors(root.context, 10)]
    assert "crashed" in lines[0] and len(lines[0]) < 300
    assert lines[1].endswith(" UTC failed (crashed): a b [worker-3]")


def test_a_tolerated_outcome_is_no_error(tmp_path: Path) -> None:
    root = Root(tmp_path)
    finish(root, "worker", ("worker-1", events.TurnFinished(status=Status.DENIED, exit_code=0)))
    assert last_errors(root.context, 10) == []


@pytest.mark.slow
def test_doctor_shows_ten_of_them_as_notes_and_leaves_out_a_damaged_journal(tmp_path: Path) -> None:
    root = Root(tmp_path)
    finish(root, "worker", *((f"worker-{number}", failed(f"no {number}")) for number in range(12)))
    finish(root, "other", ("other-1", failed("lost")))
    (segment,) = root.place("other").journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n" + segment.read_bytes())
    found = [check for check in checks(root.context) if check.what.startswith("error ")]
    assert [(check.what, check.result) for check in found] == [("error worker", "note")] * 10
    assert "no 11" in found[0].detail and "no 2" in found[-1].detail
