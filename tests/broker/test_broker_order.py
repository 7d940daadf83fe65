"""From a claimed message to its order: which session it goes on in, and whether in a copy of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from beam.base.errors import UnsupportedError
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox.build_request import build_turn_request
from beam.model import events
from beam.model.message import Access, Options
from beam.model.outcome import Total, Usage
from beam.root import discovery
from beam.root.paths import RootPaths
from beam.turns.choice import lowest_access
from beam.turns.input import turn_of
from beam.turns.request import TurnRequest
from tests.support.context import Root

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
    lease = root.hold("coder")
    lease.log.record(STARTED, turn=1)
    lease.log.record(events.SessionStarted(session_id="s1"), turn=1)
    lease.log.record(events.UsageSeen(usage=Usage(), total=Total(input_tokens=total)), turn=1)
    if is_over:
        lease.log.record(events.TurnClosed(), turn=1)
    lease.close()


def test_the_first_turn_of_a_fork_goes_on_in_a_copy_and_counts_from_where_the_session_is_then(root: Root) -> None:
    counted(root, 1000)
    twin = root.hold("twin")
    twin.log.record(FORKED)
    order = build_turn_request(twin.log, root.message("twin"))
    assert (order.session_id, order.fork, order.carried) == ("s1", True, Total(input_tokens=1000))
    turn = turn_of(order, "exec", "/scratch")
    assert (turn.session_id, turn.fork) == ("s1", True)


def test_while_the_session_goes_on_nobody_knows_what_a_copy_starts_from(root: Root) -> None:
    counted(root, 1000, is_over=False)
    twin = root.hold("twin")
    twin.log.record(FORKED)
    assert build_turn_request(twin.log, root.message("twin")).carried is None


def test_the_second_turn_goes_on_in_the_copy_itself(root: Root) -> None:
    twin = root.hold("twin")
    twin.log.record(FORKED)
    twin.log.record(STARTED, turn=1)
    twin.log.record(events.SessionStarted(session_id="s2", forked_from="s1"), turn=1)
    twin.log.record(events.TurnClosed(), turn=1)
    order = build_turn_request(twin.log, root.message("twin"))
    assert (order.session_id, order.fork) == ("s2", False)


def test_a_fork_that_is_asked_for_a_new_session_or_got_another_adapter_begins_an_empty_one(root: Root) -> None:
    twin = root.hold("twin")
    twin.log.record(FORKED)
    order = build_turn_request(twin.log, root.message("twin", options=Options(new=True)))
    assert (order.session_id, order.fork) == (None, False)
    assert twin.log.state.fork is None and twin.log.state.archived == ["s1"]
    twin.log.record(events.SessionForked(session_id="s1", of="coder", adapter="claude"))
    assert build_turn_request(twin.log, root.message("twin")).session_id is None


def test_a_face_that_makes_no_copies_refuses_the_turn(root: Root) -> None:
    twin = root.hold("twin")
    twin.log.record(FORKED)
    order = build_turn_request(twin.log, root.message("twin", options=Options(via="terminal")))
    with pytest.raises(UnsupportedError, match="with --via terminal"):
        turn_of(order, "terminal", "/scratch")


# -- what access is left -----------------------------------------------------------------------------------------------


def ordered(root: Root, agent: str, at_most: Access | None, **options: object) -> TurnRequest:
    message = root.message(agent, options=Options(**options))  # type: ignore[arg-type]
    lease = root.hold(agent)
    order = build_turn_request(lease.log, message)
    lease.close()
    return msgspec.structs.replace(order, at_most=at_most)


def test_the_least_of_several_bounds_counts_and_none_bounds_nothing() -> None:
    assert [lowest_access(), lowest_access(None), lowest_access("full", None), lowest_access("edit", "ask", None)] == [
        None,
        None,
        "full",
        "ask",
    ]
    assert lowest_access("read", "full") == "read"


@pytest.mark.parametrize(
    ("at_most", "asked", "configured", "granted"),
    [
        ("read", "full", None, "read"),
        ("read", None, "edit", "read"),
        ("edit", "full", None, "edit"),
        ("edit", None, None, "read"),
        ("full", "edit", None, "edit"),
        (None, "full", None, "full"),
    ],
)
def test_no_access_exceeds_the_limit_of_the_request(
    root: Root, at_most: Access, asked: Access, configured: Access, granted: Access
) -> None:
    settings = f"{{adapter: claude, access: {configured}}}" if configured else "{adapter: claude}"
    (root.base / "beam.yaml").write_text(f"agents:\n  coder: {settings}\n")
    root.reload()
    assert turn_of(ordered(root, "coder", at_most, access=asked), "exec", "/scratch").access == granted


@pytest.mark.slow
def test_what_is_left_and_can_not_be_enforced_is_refused(root: Root) -> None:
    (root.base / "beam.yaml").write_text("agents:\n  coder: {adapter: qwen, access: full}\n  one: {adapter: kimi}\n")
    root.reload()
    for agent, at_most in (("coder", "edit"), ("one", "read")):
        with pytest.raises(UnsupportedError, match=f"can't enforce --access {at_most}"):
            turn_of(ordered(root, agent, at_most), "exec", "/scratch")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_program_runs_only_where_it_is_said_to_do_no_more_than_is_left(root: Root) -> None:
    (root.base / "beam.yaml").write_text("agents:\n  any: {command: [cat]}\n  calm: {command: [cat], access: read}\n")
    root.reload()
    assert turn_of(ordered(root, "calm", "read"), "exec", "/scratch").access == "read"
    assert turn_of(ordered(root, "any", "full"), "exec", "/scratch").access == "full"
    with pytest.raises(UnsupportedError, match="access edit at the most") as caught:
        turn_of(ordered(root, "any", "edit"), "exec", "/scratch")
    assert "beam agent set any access=edit" in caught.value.hint


@pytest.mark.slow
def test_a_message_in_a_root_where_agents_may_write_has_read_at_the_most(root: Root) -> None:
    assert build_turn_request(root.hold("coder").log, root.message("coder")).at_most is None
    context = root.context
    inside = msgspec.structs.replace(context, home=RootPaths(root.base / "state", root.base))
    place = inside.agent_paths("coder")
    discovery.create(inside.home, place)
    lease = AgentLease.acquire(inside, place)
    assert lease is not None
    assert build_turn_request(lease.log, root.message("coder", options=Options(access="full"))).at_most == "read"
    lease.close()
