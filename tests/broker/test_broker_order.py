"""From a claimed message to its order: which session it goes on in, and whether in a copy of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam import events
from beam.broker.order import order_of
from beam.message import Options
from beam.outcome import Usage
from beam.turns.order import turn_of
from tests.support.world import Root

FORKED = events.SessionForked(session_id="s1", of="coder", adapter="codex")
STARTED = events.TurnStarted(
    owner=events.Owner(pid=1, start_ticks=1), turn_key="k", adapter="codex", via="exec", attempt=1
)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    (root.base / "beam.yaml").write_text("agents:\n  coder: {adapter: codex}\n  twin: {adapter: codex}\n")
    root.reload()
    return root


def counted(root: Root, total: int, *, is_over: bool = True) -> None:
    """What the CLI counted over the session s1 of `coder` so far."""
    holder = root.hold("coder")
    holder.record(STARTED, turn=1)
    holder.record(events.SessionStarted(session_id="s1"), turn=1)
    holder.record(events.UsageSeen(usage=Usage(), total=Usage(input_tokens=total)), turn=1)
    if is_over:
        holder.record(events.TurnClosed(), turn=1)
    holder.release()


def test_the_first_turn_of_a_fork_goes_on_in_a_copy_and_counts_from_where_the_session_is_then(root: Root) -> None:
    counted(root, 1000)
    twin = root.hold("twin")
    twin.record(FORKED)
    order = order_of(twin, root.message("twin"))
    assert (order.session_id, order.fork, order.carried) == ("s1", True, Usage(input_tokens=1000))
    turn = turn_of(order, "exec", "/scratch")
    assert (turn.session_id, turn.fork) == ("s1", True)


def test_while_the_session_goes_on_nobody_knows_what_a_copy_starts_from(root: Root) -> None:
    counted(root, 1000, is_over=False)
    twin = root.hold("twin")
    twin.record(FORKED)
    assert order_of(twin, root.message("twin")).carried is None


def test_the_second_turn_goes_on_in_the_copy_itself(root: Root) -> None:
    twin = root.hold("twin")
    twin.record(FORKED)
    twin.record(STARTED, turn=1)
    twin.record(events.SessionStarted(session_id="s2", forked_from="s1"), turn=1)
    twin.record(events.TurnClosed(), turn=1)
    order = order_of(twin, root.message("twin"))
    assert (order.session_id, order.fork) == ("s2", False)


def test_a_fork_that_is_asked_for_a_new_session_or_got_another_adapter_begins_an_empty_one(root: Root) -> None:
    twin = root.hold("twin")
    twin.record(FORKED)
    order = order_of(twin, root.message("twin", options=Options(new=True)))
    assert (order.session_id, order.fork) == (None, False)
    assert twin.state.fork is None and twin.state.archived == ["s1"]
    twin.record(events.SessionForked(session_id="s1", of="coder", adapter="claude"))
    assert order_of(twin, root.message("twin")).session_id is None


def test_a_face_that_makes_no_copies_refuses_the_turn(root: Root) -> None:
    from beam.errors import UnsupportedError

    twin = root.hold("twin")
    twin.record(FORKED)
    order = order_of(twin, root.message("twin", options=Options(via="terminal")))
    with pytest.raises(UnsupportedError, match="by its terminal face"):
        turn_of(order, "terminal", "/scratch")
