"""Who sends from inside a process that outlives its turns: what the journal says of the turn that is open now."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam import events
from beam.api.caller import caller_now
from beam.errors import LimitError, UsageError
from beam.process import tree
from tests.support.world import Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def environ(root: Root) -> dict[str, str]:
    return {"BEAM_CALLER": "journal", "BEAM_AGENT": "worker", "BEAM_ROOT": str(root.world.home.root), "BEAM_HOPS": ""}


def in_turn(root: Root, *bodies: events.Event, **fields: object) -> None:
    message = root.put("worker", **fields)
    holder = root.hold("worker")
    (entry,) = holder.waiting.look()
    assert holder.waiting.claim(entry) is not None
    started = events.TurnStarted(owner=tree.this_process(), turn_key="k" * 32, adapter="command", via="terminal")
    for body in (started, *bodies):
        holder.record(body, turn=1, message_id=message.id, sync=True)
    holder.release()


def test_it_sends_in_the_thread_of_the_open_turn_one_hop_further(root: Root) -> None:
    in_turn(root, events.PromptSent(), hops=3, thread="t-1", chain=("a", "b"))
    caller = caller_now(environ(root))
    assert (caller.name, caller.thread, caller.hops, caller.chain) == ("worker", "t-1", 3, ("a", "b", "worker"))
    assert caller.is_agent and caller.spent.turns == 1


@pytest.mark.parametrize("bodies", [(), (events.PromptSent(), events.TurnFinished(status="completed"))])  # type: ignore[arg-type]
def test_before_the_prompt_and_after_the_outcome_it_may_not_send(root: Root, bodies: tuple[events.Event, ...]) -> None:
    in_turn(root, *bodies)
    with pytest.raises(LimitError, match="in no turn"):
        caller_now(environ(root))


def test_where_no_turn_ever_was_it_may_not_send(root: Root) -> None:
    with pytest.raises(LimitError):
        caller_now(environ(root))


def test_a_damaged_variable_is_an_error(root: Root) -> None:
    with pytest.raises(UsageError):
        caller_now({**environ(root), "BEAM_ROOT": "here"})


def test_any_other_caller_is_what_its_variables_say() -> None:
    assert caller_now({"BEAM_AGENT": "a", "BEAM_HOPS": "2", "BEAM_CALLER": ""}).hops == 2
    assert caller_now({}).name == "human"
