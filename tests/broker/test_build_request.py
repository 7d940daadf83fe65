"""The request of a turn: from a message, its agent's settings, and the session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beam.broker.holder.lease import AgentLease
from beam.broker.inbox.build_request import beam_executable, build_turn_request, rules_for, sender_of
from beam.model import events
from beam.model.message import Message, Options, RuleLists, SessionContext
from beam.model.outcome import Status, Total, Usage
from beam.process import tree
from tests.broker.test_turn import Recordings
from tests.support.context import Root


def record(lease: AgentLease, *bodies: events.Event, turn: int = 1) -> None:
    for body in bodies:
        lease.log.record(body, turn=turn)


def started(adapter: str = "command") -> events.TurnStarted:
    return events.TurnStarted(owner=tree.this_process(), turn_key="k", adapter=adapter, via="exec")


def test_the_first_turn_of_an_agent_has_all_that_its_message_and_its_settings_say(root: Root) -> None:
    message = root.message("worker", hops=2, chain=("asker", "other"))
    lease = root.hold("worker")
    order = build_turn_request(lease.log, message)
    home, paths = root.context.home, root.place("worker")
    assert (order.message, order.turn, order.session_id, order.fork) == (message, 1, None, False)
    assert (order.upto, order.carried, order.told) == (None, None, None)
    assert (order.adapter_name, order.adapter.card.name, order.from_agent) == ("command", "command", True)
    scratch = home.turns_of(paths) / order.turn_key
    assert order.child_env == {
        "BEAM_ROOT": str(home.root),
        "BEAM_PROJECT": str(root.base),
        "BEAM_AGENT": "worker",
        "BEAM_OUTBOX": str(scratch / "outbox"),
        "BEAM_BIN": beam_executable(),
        "BEAM_MESSAGE_ID": message.id,
        "BEAM_HOPS": "2",
    }
    assert (order.scratch, order.unstarted, order.base) == (scratch, paths.unstarted_note(order.turn_key), root.base)
    assert (order.images, order.agent_dir, order.cli_file) == (paths.images, paths.agent_dir, paths.cli_version_file)
    assert (order.own, order.snapshots, order.recorded, order.at_most) == (None, None, None, None)
    assert (order.untrusted, order.folder_trusted, order.left_out) == (None, True, ())
    assert len(order.fresh_session_id) == 36
    lease.close()


def test_an_agent_cli_is_confined_and_what_a_vendor_needs_is_there(root: Root) -> None:
    lease = root.hold("claude")
    order = build_turn_request(lease.log, root.message("claude"))
    assert order.own is not None and order.snapshots == root.context.home.snapshots
    lease.log.context = msgspec.structs.replace(root.context, exposed=False)
    lease.close()


def test_the_id_of_a_new_session_is_the_same_for_the_same_attempt_only(root: Root) -> None:
    message = root.message("worker")
    lease = root.hold("worker")
    first = build_turn_request(lease.log, message).fresh_session_id
    assert build_turn_request(lease.log, message).fresh_session_id == first
    assert build_turn_request(lease.log, msgspec.structs.replace(message, attempt=2)).fresh_session_id != first
    assert build_turn_request(lease.log, root.message("worker")).fresh_session_id != first
    lease.close()


def test_a_turn_goes_on_in_the_session_of_the_last_one(root: Root) -> None:
    lease = root.hold("worker")
    record(lease, started(), events.SessionStarted(session_id="s-1"), events.TurnFinished(status=Status.COMPLETED))
    record(lease, events.TurnClosed())
    order = build_turn_request(lease.log, root.message("worker"))
    assert (order.turn, order.session_id, order.fork) == (2, "s-1", False)
    sender = sender_of(lease.log, order)
    assert (sender.agent, sender.turn_key, sender.chain) == ("worker", order.turn_key, ("worker",))
    assert (sender.context, sender.folder) == (SessionContext(session_id="s-1", turn_number=2), root.base)
    assert (sender.rules, sender.message) == (None, order.message)
    lease.close()


@pytest.mark.parametrize(
    ("options", "adapter", "reason"),
    [
        (Options(new=True), "command", "a new session was asked for"),
        (Options(), "claude", "the agent's adapter is command now"),
    ],
)
def test_a_session_that_is_not_gone_on_with_is_put_aside_by_who_sent_the_message(
    root: Root, options: Options, adapter: str, reason: str
) -> None:
    lease = root.hold("worker")
    record(lease, started(adapter), events.SessionStarted(session_id="s-1"))
    message = root.message("worker", sender="asker", actor="ann" if options.new else None, options=options)
    assert build_turn_request(lease.log, message).session_id is None
    (archived,) = [event for event in root.events("worker") if isinstance(event, events.SessionArchived)]
    assert (archived.session_id, archived.reason, archived.by, archived.message_id) == (
        "s-1",
        reason,
        "ann" if options.new else "asker",
        message.id,
    )
    assert lease.log.state.session is None
    lease.close()


TOTAL = Total(input_tokens=7)


def forked(root: Root, *, is_idle: bool = True, session_id: str = "s-1") -> Any:
    """The request for the first turn of `worker`, a copy of a session of `other`."""
    of = root.hold("other")
    record(of, started(), events.SessionStarted(session_id="s-1"), events.UsageSeen(usage=Usage(), total=TOTAL))
    if is_idle:
        record(of, events.TurnFinished(status=Status.COMPLETED), events.TurnClosed())
    of.close()
    lease = root.hold("worker")
    fork = events.SessionForked(session_id=session_id, of="other", adapter="command", upto="m-3")
    lease.log.record(fork)
    order = build_turn_request(lease.log, root.message("worker"))
    lease.close()
    return order


def test_a_copy_of_a_session_begins_where_it_was_forked(root: Root) -> None:
    order = forked(root)
    assert (order.session_id, order.fork, order.upto, order.carried) == ("s-1", True, "m-3", TOTAL)


@pytest.mark.parametrize("options", [{"is_idle": False}, {"session_id": "s-0"}])
def test_nothing_is_known_of_a_copied_session_that_goes_on_or_is_another(root: Root, options: dict[str, Any]) -> None:
    order = forked(root, **options)
    assert (order.fork, order.carried, order.told) == (True, None, None)


def test_an_agent_that_can_not_be_read_leaves_nothing_known_of_its_session(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.base.errors import DiskError
    from beam.broker.inbox import build_request

    def fails(journal: Path) -> None:
        raise DiskError("can't read")

    monkeypatch.setattr(build_request, "read_state", fails)
    order = forked(root)
    assert (order.carried, order.told) == (None, None)


def test_a_recorded_turn_is_taken_for_the_message(root: Root) -> None:
    lease = root.hold("worker")
    lease.log.context = msgspec.structs.replace(root.context, recordings=Recordings())
    recorded = build_turn_request(lease.log, root.message("worker")).recorded
    assert recorded is not None and recorded.where == "a test"
    lease.close()


def test_the_folder_of_an_agent_is_the_one_that_its_settings_name(root: Root) -> None:
    (root.base / "sub").mkdir()
    (root.base / "beam.yaml").write_text("agents: {worker: {command: [cat], cwd: sub}}\n")
    root.reload()
    lease = root.hold("worker")
    assert sender_of(lease.log, build_turn_request(lease.log, root.message("worker"))).folder == root.base / "sub"
    lease.close()


def test_an_access_of_all_agents_says_nothing_of_a_program(root: Root) -> None:
    def access_of(agent: str, text: str) -> str | None:
        (root.base / "beam.yaml").write_text(
            f"agents: {{worker: {{command: [cat]{text}}}}}\ndefaults: {{access: edit}}\n"
        )
        root.reload()
        lease = root.hold(agent)
        order = build_turn_request(lease.log, root.message(agent))
        lease.close()
        return order.settings.access

    assert (access_of("worker", ""), access_of("bash", ""), access_of("claude", "")) == (None, None, "edit")
    assert access_of("worker", ", access: read") == "read"
    root.environ["BEAM_ACCESS"] = "read"
    assert (access_of("worker", ""), access_of("claude", "")) == (None, "read")


@pytest.mark.parametrize(("hops", "wanted"), [(0, (90.0, 9, 2.5)), (1, (60.0, 5, 0.5))])
def test_an_agents_message_raises_no_limit_of_its_receiver(
    root: Root, hops: int, wanted: tuple[float, int, float]
) -> None:
    (root.base / "beam.yaml").write_text("agents: {claude: {timeout: 60, max_turns: 5, budget_usd: 0.5}}\n")
    root.reload()
    lease = root.hold("claude")

    def limits(**options: Any) -> tuple[float, int | None, float | None]:
        message = root.message("claude", hops=hops, options=Options(**options))
        order = build_turn_request(lease.log, message)
        return order.timeout, order.message.options.max_turns, order.message.options.budget_usd

    assert limits(timeout=90.0, max_turns=9, budget_usd=2.5) == wanted
    assert limits(timeout=30.0, max_turns=2, budget_usd=0.1) == (30.0, 2, 0.1)
    assert limits() == (60.0, None, None)
    lease.close()


def test_a_lane_has_no_file_of_its_cli(root: Root) -> None:
    from beam.root import discovery

    root.place("worker")
    lane = root.context.agent_paths("worker", "l1")
    discovery.create(root.context.home, lane)
    lease = AgentLease.acquire(root.context, lane)
    assert lease is not None
    order = build_turn_request(lease.log, root.message("worker"))
    assert order.cli_file is None
    lease.close()


@pytest.mark.parametrize("is_there", [True, False])
def test_the_program_is_the_one_beside_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    if is_there:
        (tmp_path / "beam").touch()
    assert beam_executable() == (str(tmp_path / "beam") if is_there else "")


DENY, ALLOW = RuleLists(deny=("Bash(rm *)",)), RuleLists(allow=("Bash(ls *)",))


@pytest.mark.parametrize(
    ("fields", "exposed", "lists"),
    [
        ({}, False, RuleLists()),
        ({"options": Options(rules=DENY)}, False, DENY),
        ({"options": Options(rules=ALLOW)}, False, ALLOW),
        ({"options": Options(rules=ALLOW)}, True, RuleLists()),
        ({"options": Options(rules=ALLOW), "hops": 1, "sender": "asker"}, False, RuleLists()),
        ({"options": Options(rules=DENY), "hops": 1, "sender": "asker"}, False, DENY),
        ({"rules_at_most": DENY, "hops": 1, "sender": "asker"}, False, DENY),
    ],
)
def test_the_rules_of_a_turn_are_the_messages_within_those_of_its_sender(
    root: Root, fields: dict[str, Any], exposed: bool, lists: RuleLists
) -> None:
    message: Message = root.message("worker", **fields)
    resolved = root.context.config.resolve("worker")
    assert rules_for(resolved, message, is_exposed=exposed).lists == lists


def test_a_rule_says_whose_it_is(root: Root) -> None:
    resolved = root.context.config.resolve("worker")
    person = rules_for(resolved, root.message("worker", options=Options(rules=DENY)), is_exposed=False)
    agent = root.message("worker", options=Options(rules=DENY), hops=1, sender="asker")
    assert "this message" in str(person.rules)
    assert "asker" in str(rules_for(resolved, agent, is_exposed=False).rules)
