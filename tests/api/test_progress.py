"""What is known of the turn that runs where a message waits."""

from __future__ import annotations

import msgspec

from beam.api.progress import QueueProgress
from beam.model import events
from beam.model.outcome import Status, Usage
from beam.process import tree
from tests.support.context import Root


def test_the_turn_that_runs_is_reported_with_its_time_its_call_and_its_tokens(root: Root) -> None:
    place = root.place("worker")
    watched = QueueProgress(lambda: place, root.clock)
    assert watched.look() is None
    lease = root.hold("worker")
    started = events.TurnStarted(owner=tree.this_process(), turn_key="k", adapter="command", via="exec")
    lease.log.record(started, turn=1, message_id="worker-m")
    root.clock.sleep(12)
    now = watched.look()
    assert now is not None and (now.message_id, now.seconds, now.call, now.tokens) == ("worker-m", 12.0, None, None)
    for number in "12":
        call = events.ToolCalled(
            call_id=number, name="Bash", input=msgspec.Raw(b'{"command":"make %s"}' % number.encode())
        )
        lease.log.record(call, turn=1, message_id="worker-m")
    lease.log.record(
        events.UsageSeen(usage=Usage(input_tokens=13000, output_tokens=300)), turn=1, message_id="worker-m"
    )
    for late in (watched, QueueProgress(lambda: place, root.clock)):  # one that saw all of it, and one that comes now
        now = late.look()
        assert now is not None and now.call is not None and (now.call.call_id, now.tokens) == ("2", 13300)
    lease.log.record(events.ToolReturned(call_id="2"), turn=1, message_id="worker-m")
    now = watched.look()
    assert now is not None and now.call is not None and now.call.call_id == "1"
    lease.log.record(events.TurnFinished(status=Status.COMPLETED), turn=1, message_id="worker-m")
    assert watched.look() is None
    lease.log.record(events.TurnClosed(), turn=1, message_id="worker-m")
    lease.log.record(started, turn=2, message_id="worker-n")
    now = watched.look()
    assert now is not None and (now.message_id, now.call, now.tokens) == ("worker-n", None, None)
    lease.close()


def test_an_agent_whose_journal_is_damaged_is_not_reported(root: Root) -> None:
    place = root.place("worker")
    root.hold("worker").close()
    (path,) = place.journal.glob("*.jsonl")
    path.write_bytes(b"nonsense\n")
    assert QueueProgress(lambda: place, root.clock).look() is None
