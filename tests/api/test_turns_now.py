"""What runs, what is kept and what waits beside an agent, as values; and an agent's status made of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from beam.api import status, turns_now
from beam.api.status import AgentStatus, LastOutcome, status_of
from beam.api.turns_now import KeptProcess, OnceTurn, OpenAsk, OpenCall, Running
from beam.model import events
from beam.model.outcome import Status, Usage
from beam.model.state import State, Totals
from beam.process import load, tree
from beam.root import discovery
from beam.root.paths import AgentPaths
from beam.store import lanes
from beam.store.lock import try_lock
from beam.store.queue import Queue
from beam.store.segment import read_state
from tests.support.context import Root
from tests.support.journals import ELSEWHERE, closed, finished, gone, record, started, turn

TS = "2023-11-14T22:13:20.000000Z"
ME = tree.this_process()
NAMED: dict[str, Any] = {"turn": 1, "message_id": "m-1"}


@pytest.fixture(autouse=True)
def loads(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is measured of processes: nothing, unless a test says so."""
    found: dict[str, Any] = {"value": None}
    monkeypatch.setattr(load, "load_of_trees", lambda processes: found["value"])
    return found


def call(call_id: str) -> events.ToolCalled:
    return events.ToolCalled(call_id=call_id, name=f"Tool{call_id}", input=Raw(b'{"a":%s}' % call_id.encode()), **NAMED)


def used(tokens: int, cost_usd: float | None) -> events.UsageSeen:
    return events.UsageSeen(usage=Usage(input_tokens=tokens), cost_usd=cost_usd, **NAMED)


def running(root: Root, agent: str = "worker") -> Running | None:
    paths = root.place(agent)
    return turns_now.running_turn(read_state(paths.journal), paths)


def lane(root: Root, name: str, agent: str = "worker", *, put: bool = True) -> AgentPaths:
    """A lane of the agent with a message that waits."""
    paths = root.context.agent_paths(agent, name)
    discovery.create(root.context.home, paths)
    lanes.add_to_index(paths)
    if put:
        made = root.message(agent, id=f"{agent}-{name}")
        Queue(paths.queue, paths.put_lock).put(made, root.clock, root.context.config.limits)
    return paths


def claim(paths: AgentPaths) -> None:
    (path,) = (paths.queue / "new").iterdir()
    path.rename(paths.queue / "cur" / path.name)


# -- the running turn --------------------------------------------------------------------------------------------------


def test_no_turn_runs_where_there_was_none_or_all_are_closed(root: Root) -> None:
    assert running(root) is None
    record(root, "worker", started(), finished())
    assert running(root) is not None
    record(root, "worker", closed())
    assert running(root) is None


def test_a_turn_that_has_just_begun_has_nothing_to_tell(root: Root) -> None:
    record(root, "worker", started())
    assert running(root) == Running(message_id="m-1", turn=1, since=TS, pid=ME.pid, host=ME.host, alive=True)


def test_a_running_turn_is_reported_with_its_open_call_its_asks_and_what_it_used(
    root: Root, loads: dict[str, Any]
) -> None:
    asked = events.PermissionAsked(ask_id="worker-aaaa", tool="Bash", expires="2030-01-01T00:00:00Z", **NAMED)
    record(
        root,
        "worker",
        *turn(0, "s0"),
        started(lease_until="2030-01-02T00:00:00Z"),
        call("1"),
        call("2"),
        call("3"),
        events.ToolReturned(call_id="3", **NAMED),
        events.ToolReturned(call_id="9", **NAMED),
        used(5, 0.25),
        used(7, None),
        asked,
    )
    loads["value"] = SimpleNamespace(processes=3, rss_bytes=1_572_864)
    assert running(root) == Running(
        message_id="m-1",
        turn=1,
        since=TS,
        pid=ME.pid,
        host=ME.host,
        alive=True,
        tools=("Tool1", "Tool2"),
        processes=3,
        rss_mb=1.5,
        lease_until="2030-01-02T00:00:00Z",
        asks=(OpenAsk(id="worker-aaaa", tool="Bash", expires="2030-01-01T00:00:00Z"),),
        call=OpenCall(name="Tool2", input=Raw(b'{"a":2}'), since=TS),
        usage=Usage(input_tokens=7),
        cost_usd=0.25,
    )


def test_the_events_of_a_turn_begin_where_it_does(root: Root) -> None:
    paths = root.place("worker")
    assert turns_now.begun(paths) == []
    record(root, "worker", *turn(1, "s1"))
    record(root, "worker", started(2, "m-2"), call("1"))
    assert [str(each.__struct_config__.tag) for each in turns_now.begun(paths)] == ["turn.started", "tool.called"]
    (segment,) = paths.journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n")
    assert turns_now.begun(paths) == []


def test_a_journal_without_a_turn_begins_nothing(root: Root) -> None:
    record(root, "worker", events.Notice(text="x"))
    assert turns_now.begun(root.place("worker")) == []


@pytest.mark.parametrize(("owner", "alive"), [(gone(), False), (ELSEWHERE, None)])
def test_a_turn_whose_holder_died_or_is_elsewhere_is_told_so(
    owner: events.Owner, alive: bool | None, root: Root
) -> None:
    record(root, "box", started(owner=owner, lease_until="2030-01-02T00:00:00Z"))
    found = turns_now.running_turn(read_state(root.place("box").journal), root.place("box"))
    assert found is not None and found.alive is alive


# -- the kept process --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("via", ["dialogue", "terminal"])
def test_a_kept_process_is_reported_with_its_holder(via: str, root: Root, loads: dict[str, Any]) -> None:
    assert turns_now.kept_process(State()) is None
    until = "2030-01-01T00:00:00Z"
    record(root, "worker", started(via=via), events.AgentKept(pid=5, until=until, **NAMED), finished(), closed())
    given = {"pid": 5, "via": via, "turn": 1, "since": TS, "until": until, "holder": ME.pid, "host": ME.host}
    assert turns_now.kept_process(read_state(root.place("worker").journal)) == KeptProcess(**given)
    loads["value"] = SimpleNamespace(processes=2, rss_bytes=2_621_440)
    assert turns_now.kept_process(read_state(root.place("worker").journal)) == KeptProcess(
        **given, processes=2, rss_mb=2.5
    )


# -- --once ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_once_messages_wait_run_or_lost_their_worker(root: Root) -> None:
    lane(root, "aaaa")
    for name in ("bbbb", "cccc"):
        paths = lane(root, name)
        record(root, "worker", started(1, f"worker-{name}"), lane=name)
        claim(paths)
    lock = try_lock(root.context.agent_paths("worker", "bbbb").lock)
    assert lock is not None
    with lock:
        found = turns_now.once_turns(root.place("worker"))
    assert [(each.message_id, each.state, each.turn and each.turn.message_id) for each in found] == [
        ("worker-aaaa", "waiting", None),
        ("worker-bbbb", "running", "worker-bbbb"),
        ("worker-cccc", "died", None),
    ]


def test_a_once_message_runs_though_its_journal_is_damaged(root: Root) -> None:
    paths = lane(root, "aaaa")
    record(root, "worker", started(1, "worker-aaaa"), lane="aaaa")
    claim(paths)
    (segment,) = paths.journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n")
    lock = try_lock(paths.lock)
    assert lock is not None
    with lock:
        assert turns_now.once_turns(root.place("worker")) == [OnceTurn(message_id="worker-aaaa", state="running")]


@pytest.mark.slow
def test_sums_are_of_the_agent_and_its_lanes(root: Root) -> None:
    record(root, "worker", started(), finished(cost_usd=0.5, usage=Usage(input_tokens=1)), closed())
    root.clock.sleep(5)
    for name in ("aaaa", "bbbb", "cccc"):
        paths = lane(root, name, put=False)
        message = f"worker-{name}"
        body = finished(message_id=message, cost_usd=0.25, usage=Usage(input_tokens=10))
        record(root, "worker", started(message_id=message), body, closed(message_id=message), lane=name)
        (paths.queue / "dead" / f"00000000000000000001-{message}.json").write_bytes(b"{}")
    (segment,) = paths.journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n")
    agent = root.place("worker")
    sums = turns_now.sums_with_lanes(agent, read_state(agent.journal), "")
    assert (sums.totals.turns, sums.totals.cost_usd, sums.totals.usage.input_tokens) == (3, 1.0, 21)
    assert sums.dead == 3 and sums.last is not None and sums.last.message_id == "worker-aaaa"
    assert turns_now.sums_with_lanes(root.place("other"), State(), "") == turns_now.AgentSums(
        totals=Totals(), last=None, dead=0
    )


def test_the_newest_outcome_counts_whoever_had_it(root: Root) -> None:
    paths = lane(root, "aaaa", put=False)
    record(root, "worker", started(message_id="old"), finished(message_id="old"), lane="aaaa")
    root.clock.sleep(1)
    record(root, "worker", started(), finished(), closed())
    agent = root.place("worker")
    sums = turns_now.sums_with_lanes(agent, read_state(agent.journal), "")
    assert paths.dir.is_dir() and sums.last is not None and sums.last.message_id == "m-1"


@pytest.mark.parametrize(
    ("bodies", "is_worked_on"),
    [
        ([], True),
        ([started()], True),
        ([started(owner=gone())], False),
        ([started(owner=gone(), lease_until=TS)], True),
    ],
)
def test_a_claimed_message_is_worked_on_while_its_holder_or_a_lease_lives(
    bodies: list[events.Event], is_worked_on: bool, root: Root
) -> None:
    state = State(agent="worker")
    from beam.model.state import apply

    for number, body in enumerate(bodies, 1):
        apply(state, msgspec.structs.replace(body, seq=number, ts=TS, agent="worker"))
    assert turns_now.is_worked_on(root.place("worker"), state) is is_worked_on


def test_in_a_lane_its_lock_says_whether_a_message_is_worked_on(root: Root) -> None:
    paths = lane(root, "aaaa")
    assert not turns_now.is_worked_on(paths, State())
    lock = try_lock(paths.lock)
    assert lock is not None
    with lock:
        assert turns_now.is_worked_on(paths, State())


# -- status ------------------------------------------------------------------------------------------------------------


def of(root: Root, agent: str = "worker") -> AgentStatus:
    return status_of(root.context, root.context.agent_paths(agent))


def test_an_agent_that_was_never_used_is_idle(root: Root) -> None:
    assert of(root) == AgentStatus(
        agent="worker",
        adapter="command",
        state="idle",
        waiting=0,
        dead=0,
        oldest=None,
        running=None,
        session_id=None,
        turn=0,
        last=None,
        totals=Totals(),
        folder=str(root.base),
    )
    assert not root.context.home.root.exists()


def test_a_used_agent_has_its_session_its_turn_and_its_last_outcome(root: Root) -> None:
    record(root, "worker", *turn(1, "s1", status=Status.FAILED, reason="why", class_="crashed"))
    found = of(root)
    assert (found.state, found.session_id, found.turn) == ("idle", "s1", 1)
    assert found.last == LastOutcome(
        message_id="m-1", turn=1, status=Status.FAILED, class_="crashed", reason="why", at=TS
    )


@pytest.mark.parametrize(
    ("agent", "bodies", "state"),
    [
        ("worker", [started()], "running"),
        ("worker", [events.QueuePaused(by="x")], "paused"),
        ("box", [started(owner=gone(), lease_until="2030-01-01T00:00:00Z")], "running"),
    ],
)
def test_the_state_is_what_the_journal_says(agent: str, bodies: list[events.Event], state: str, root: Root) -> None:
    record(root, agent, *bodies)
    assert of(root, agent).state == state


def test_an_agent_whose_holder_died_is_said_to_have(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    record(root, "worker", started())
    monkeypatch.setattr(tree, "is_alive", lambda owner: False)
    assert of(root).state == "died"
    root.place("worker").archived.touch()
    assert of(root).state == "archived"


@pytest.mark.slow
def test_once_messages_count_in_the_state_and_in_what_waits(root: Root) -> None:
    lane(root, "aaaa")
    assert (of(root).state, of(root).waiting) == ("idle", 1)
    paths = lane(root, "bbbb")
    claim(paths)
    assert (of(root).state, of(root).waiting) == ("died", 1)
    lock = try_lock(paths.lock)
    assert lock is not None
    with lock:
        found = of(root)
        assert (found.state, [each.state for each in found.once]) == ("running", ["waiting", "running"])
    record(root, "worker", events.QueuePaused(by="x"))
    assert of(root).state == "died"


@pytest.mark.slow
def test_the_oldest_waiting_message_may_be_in_a_lane(root: Root) -> None:
    root.put("worker", timestamp="2026-01-01T00:00:02.000000Z")
    root.put("worker", timestamp="2026-01-01T00:00:00.000000Z")
    assert of(root).oldest == "2026-01-01T00:00:02.000000Z"
    paths = lane(root, "aaaa", put=False)
    first = root.message("worker", timestamp="2026-01-01T00:00:01.000000Z")
    Queue(paths.queue, paths.put_lock).put(first, root.clock, root.context.config.limits)
    assert of(root).oldest == "2026-01-01T00:00:01.000000Z"
    for path in (paths.queue / "new").iterdir():
        path.write_bytes(b"{")
    assert of(root).oldest == "2026-01-01T00:00:02.000000Z"


@pytest.mark.slow
def test_what_waits_for_trust_is_reported_with_the_reason(root: Root) -> None:
    root.environ.pop("BEAM_TRUST")
    root.reload()
    assert of(root).untrusted is None
    root.put("worker")
    found = of(root)
    assert (found.state, found.untrusted) == ("untrusted", "beam.yaml has worker run 'cat'")
    record(root, "worker", events.QueuePaused(by="x"))
    assert (of(root).state, of(root).untrusted) == ("paused", None)


@pytest.mark.slow
def test_an_agent_that_is_not_declared_is_an_error_and_a_session_that_a_scenario_declared_is_none(root: Root) -> None:
    record(root, "gone", *turn(1, "s1"))
    found = of(root, "gone")
    assert found.error and "gone" in found.error and (found.adapter, found.folder) == ("", "")
    record(root, "gone@run", *turn(1, "s1"))
    found = of(root, "gone@run")
    assert (found.adapter, found.error, found.session_id) == ("claude", None, "s1")
    record(root, "bare@run", started(), finished(), closed())
    assert (of(root, "bare@run").adapter, of(root, "bare@run").error) == ("", None)
    root.place("none@run")
    assert of(root, "none@run").error


def test_the_folder_of_an_agent_is_the_projects_or_its_own(root: Root, tmp_path: Path) -> None:
    (root.base / "sub").mkdir()
    (root.base / "link").symlink_to("sub")
    (root.base / ".git").mkdir()
    (root.base / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root.base / "beam.yaml").write_text("agents:\n  worker: {command: [cat], cwd: link}\n")
    root.reload()
    found = of(root)
    assert found.folder == str(root.base / "sub") and found.git is not None


def test_running_messages_are_the_agents_own_and_those_of_its_lanes(root: Root) -> None:
    assert status.running_ids(root.place("worker")) == []
    for name in ("aaaa", "bbbb"):
        paths = lane(root, name)
    claim(paths)
    assert status.running_ids(root.place("worker")) == ["worker-bbbb"]
    record(root, "worker", started())
    assert status.running_ids(root.place("worker")) == ["m-1", "worker-bbbb"]


@pytest.mark.parametrize(("cost_usd", "is_estimated"), [(None, True), (0.5, False)])
def test_a_turn_without_a_cost_is_priced(cost_usd: float | None, is_estimated: bool, root: Root) -> None:
    body = finished(
        model="claude-sonnet-4-5", usage=Usage(input_tokens=5, output_tokens=1, cached_tokens=1), cost_usd=cost_usd
    )
    record(root, "worker", started(), body, closed())
    assert (of(root).estimated_usd is not None) is is_estimated
