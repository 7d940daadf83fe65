"""One message to its outcome: the durable order of a turn, whatever goes wrong before it begins."""

from __future__ import annotations

import asyncio
import errno

import msgspec
import pytest

from beam.agents import registry
from beam.agents.base import Verdict
from beam.base.errors import (
    BeamError,
    ConfigError,
    DiskError,
    LimitError,
    NotFoundError,
    UnsupportedError,
    UntrustedError,
)
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox.build_request import build_turn_request
from beam.model import events
from beam.model.events import TurnFinished
from beam.model.message import Options
from beam.model.outcome import Class, Denial, Evidence, Status, Usage
from beam.process import tree
from beam.rules.rule import parse
from beam.rules.ruleset import Ruleset
from beam.turns.handle import Stop, StopReason
from beam.turns.outcome import (
    outcome_from_verdict,
    outcome_to_record,
    passed_budget,
    refusal_verdict,
    require_structured_evidence,
)
from beam.turns.request import TurnRequest
from beam.turns.run import run
from tests.support.context import Root
from tests.support.turns import handle, services


def ordered(root: Root, agent: str = "worker", **fields: object) -> tuple[AgentLease, TurnRequest]:
    root.put(agent, **fields)
    lease = root.hold(agent)
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    return lease, build_turn_request(lease.log, claimed[1])


def play(root: Root, lease: AgentLease, order: TurnRequest) -> TurnFinished:
    def record(body: events.Event, *, sync: bool = False) -> events.Event:
        return lease.log.record(body, turn=order.turn, message_id=order.message.id, sync=sync)

    async def turn() -> TurnFinished:
        return await run(order, services(record, root.clock), handle(record, clock=root.clock))

    return asyncio.run(turn())


def told(root: Root, agent: str = "worker") -> list[str]:
    return [type(event).__name__ for event in root.events(agent)]


@pytest.mark.slow
@pytest.mark.usefixtures("memory")  # and as acceptance tests with real processes
def test_a_turn_writes_its_steps_in_their_order(root: Root) -> None:
    lease, order = ordered(root)
    finished = play(root, lease, order)
    assert (finished.status, finished.reply, finished.exit_code, finished.via) == (Status.COMPLETED, "hi", 0, "exec")
    kinds = told(root)
    order_of_steps = ["MessageClaimed", "TurnStarted", "AgentStarted", "PromptSent", "AgentExited", "TurnFinished"]
    assert [kind for kind in kinds if kind in order_of_steps] == order_of_steps
    assert not order.scratch.exists()


@pytest.mark.usefixtures("memory")  # and as acceptance tests with real processes
@pytest.mark.parametrize("body", [events.TurnStarted, events.AgentStarted, events.PromptSent, events.TurnFinished])
def test_a_journal_that_can_not_be_written_ends_the_turn_and_its_processes(
    root: Root, body: type[events.Event]
) -> None:
    lease, order = ordered(root)
    pids: list[int] = []

    def record(event: events.Event, *, sync: bool = False) -> events.Event:
        if isinstance(event, events.AgentStarted):
            pids.extend((event.pid, event.guard_pid))
        if isinstance(event, body):
            raise DiskError(f"can't write: {errno.ENOSPC}")
        return lease.log.record(event, turn=order.turn, message_id=order.message.id, sync=sync)

    async def turn() -> None:
        await run(order, services(record, root.clock), handle(record, clock=root.clock))

    with pytest.raises(DiskError):
        asyncio.run(turn())
    assert all(tree.start_ticks(pid) is None for pid in pids)
    assert not order.scratch.exists()


@pytest.mark.parametrize(
    ("agent", "options", "class_"),
    [
        ("worker", Options(via="dialogue"), Class.UNSUPPORTED),
        ("worker", Options(schema="{}"), Class.UNSUPPORTED),
        ("worker", Options(access="full"), Class.UNSUPPORTED),
        ("box", Options(), Class.UNSUPPORTED),
    ],
)
def test_what_can_not_be_done_is_an_outcome_and_nothing_is_started(
    root: Root, agent: str, options: Options, class_: Class
) -> None:
    lease, order = ordered(root, agent, options=options)
    finished = play(root, lease, order)
    assert (finished.status, finished.class_) == (Status.FAILED, class_)
    assert finished.reason
    assert "AgentStarted" not in told(root, agent)
    assert "PromptSent" not in told(root, agent)
    assert lease.log.state.turn == 1


@pytest.mark.parametrize(
    ("error", "status", "class_"),
    [
        (UnsupportedError("no"), Status.FAILED, Class.UNSUPPORTED),
        (NotFoundError("no", kind="not_installed"), Status.FAILED, Class.NOT_INSTALLED),
        (NotFoundError("no"), Status.FAILED, Class.BAD_REQUEST),
        (ConfigError("no"), Status.FAILED, Class.BAD_REQUEST),
        (UntrustedError("no"), Status.FAILED, Class.BAD_REQUEST),
        (LimitError("no"), Status.LIMIT, None),
    ],
)
def test_a_refusal_is_a_verdict_with_its_reason(error: BeamError, status: Status, class_: Class | None) -> None:
    verdict = refusal_verdict(error)
    assert (verdict.status, verdict.class_, verdict.reason) == (status, class_, "no")


@pytest.mark.parametrize(
    ("reason", "status", "class_"),
    [
        ("timeout", Status.TIMEOUT, None),
        ("idle", Status.TIMEOUT, Class.STALLED),
        ("cancelled", Status.CANCELLED, None),
        ("interrupted", Status.CANCELLED, None),
        ("broken", Status.FAILED, Class.CRASHED),
    ],
)
def test_who_stopped_a_turn_decides_its_outcome_unless_it_completed(
    root: Root, reason: StopReason, status: Status, class_: Class | None
) -> None:
    _, order = ordered(root)
    stop = Stop()
    stop.request(reason, by="ann")
    failed = Verdict(status=Status.FAILED, class_=Class.CRASHED, reason="signal")
    finished = outcome_from_verdict(order, failed, stop, "exec", 1.23456)
    assert (finished.status, finished.class_, finished.duration_s) == (status, class_, 1.235)
    completed = outcome_from_verdict(order, Verdict(status=Status.COMPLETED), stop, "exec", 1.0)
    assert (completed.status, completed.exit_code) == (Status.COMPLETED, 0)


@pytest.mark.parametrize(
    ("budget", "cost", "is_proxied", "said"),
    [
        (0.1, 0.12, False, "the turn cost $0.1200, and its budget was $0.1000, which the CLI kept itself"),
        (0.1, 0.1, False, ""),
        (0.1, None, False, ""),
        (None, 0.12, False, ""),
        (0.1, 0.12, True, ""),
    ],
)
def test_a_budget_that_the_cli_let_the_turn_pass_is_told(
    root: Root, budget: float | None, cost: float | None, is_proxied: bool, said: str
) -> None:
    _, order = ordered(root)
    options = msgspec.structs.replace(order.message.options, budget_usd=budget)
    message = msgspec.structs.replace(order.message, options=options)
    order = msgspec.structs.replace(order, message=message, is_proxied=is_proxied)
    told = passed_budget(order, Verdict(status=Status.COMPLETED, cost_usd=cost))
    assert told.partition(";")[0] == said


@pytest.mark.parametrize(
    ("status", "worked", "said"),
    [(Status.TIMEOUT, True, True), (Status.TIMEOUT, False, False), (Status.COMPLETED, True, False)],
)
def test_an_outcome_says_that_a_turn_worked_before_it_ended_without_an_answer(
    root: Root, status: Status, *, worked: bool, said: bool
) -> None:
    _, order = ordered(root)
    finished = outcome_to_record(order, Verdict(status=status, reply="x"), Stop(), "exec", 1.0, worked=worked)
    assert (finished.worked is True) is said


@pytest.mark.parametrize(
    ("rule", "command", "status", "by"),
    [
        ("Bash(git push *)", "git push origin", Status.COMPLETED, "rule"),
        ("Bash(git push *)", "make", Status.DENIED, "default"),
        ("Edit(src/**)", "git push", Status.DENIED, "default"),
    ],
)
def test_a_call_that_the_cli_denied_for_a_rule_of_the_turn_was_denied_by_that_rule(
    root: Root, rule: str, command: str, status: Status, by: str
) -> None:
    _, order = ordered(root)
    order = msgspec.structs.replace(order, adapter=registry.adapter("claude"), rules=Ruleset((parse(rule, "deny"),)))
    call = Denial(tool="Bash", input=msgspec.Raw(msgspec.json.encode({"command": command})))
    verdict = Verdict(status=Status.DENIED, reason="why", reply="done", denials=(call,))
    finished = outcome_to_record(order, verdict, Stop(), "exec", 1.0)
    assert (finished.status, [denial.by for denial in finished.denials or ()]) == (status, [by])
    silent = outcome_to_record(order, msgspec.structs.replace(verdict, reply=None), Stop(), "exec", 1.0)
    assert silent.class_ is (Class.EMPTY if status is Status.COMPLETED else None), "a denial by a rule is no answer"


def test_a_rule_that_asks_denies_nothing_by_itself(root: Root) -> None:
    _, order = ordered(root)
    order = msgspec.structs.replace(order, adapter=registry.adapter("claude"), rules=Ruleset((parse("Bash", "ask"),)))
    call = Denial(tool="Bash", input=msgspec.Raw(b'{"command":"make"}'))
    finished = outcome_to_record(order, Verdict(status=Status.DENIED, denials=(call,)), Stop(), "exec", 1.0)
    assert (finished.status, finished.denials) == (Status.DENIED, (call,))


def test_a_denied_call_whose_input_is_no_json_is_left_alone(root: Root) -> None:
    _, order = ordered(root)
    order = msgspec.structs.replace(order, adapter=registry.adapter("claude"), rules=Ruleset((parse("Bash", "deny"),)))
    finished = outcome_to_record(
        order,
        Verdict(status=Status.DENIED, denials=(Denial(tool="Bash", input=msgspec.Raw(b"{")),)),
        Stop(),
        "exec",
        1.0,
    )
    assert finished.status is Status.DENIED


def test_a_session_is_new_resumed_or_what_the_adapter_says(root: Root) -> None:
    _, order = ordered(root)
    done = Verdict(status=Status.COMPLETED, session_id="s1")
    assert outcome_from_verdict(order, done, Stop(), "exec", 1.0).session == "new"
    lost = Verdict(status=Status.COMPLETED, session_id="s1", session="lost")
    assert outcome_from_verdict(order, lost, Stop(), "exec", 1.0).session == "lost"
    assert outcome_from_verdict(order, Verdict(status=Status.COMPLETED), Stop(), "exec", 1.0).session is None


@pytest.mark.parametrize(
    ("said", "output", "model"), [("opus", 5, "opus"), (None, 5, "asked"), (None, 0, None), (None, None, None)]
)
def test_a_cli_that_names_no_model_and_used_one_took_the_one_that_was_asked_for(
    root: Root, said: str | None, output: int | None, model: str | None
) -> None:
    lease, order = ordered(root, options=Options(model="asked"))
    verdict = Verdict(status=Status.COMPLETED, model=said, usage=Usage(output_tokens=output))
    assert outcome_from_verdict(order, verdict, Stop(), "exec", 1.0).model == model
    lease.close()


@pytest.mark.parametrize("evidence", ["history", "osc"])
@pytest.mark.parametrize("status", list(Status))
def test_the_agents_own_word_is_structured_evidence(evidence: Evidence, status: Status) -> None:
    verdict = Verdict(status=status, reply="yes", evidence=evidence)
    assert require_structured_evidence(verdict) is verdict


@pytest.mark.parametrize("evidence", ["title", "screen", "prompt", None])
def test_what_only_a_screen_said_is_no_answer_where_structured_evidence_is_required(evidence: Evidence | None) -> None:
    held = require_structured_evidence(Verdict(status=Status.COMPLETED, reply="yes", evidence=evidence))
    assert (held.status, held.class_, held.reply) == (Status.FAILED, Class.UNSUPPORTED, None)
    assert (evidence or "nothing") in (held.reason or "") and held.evidence == evidence
    failed = Verdict(status=Status.FAILED, class_=Class.CRASHED, reason="why", evidence=evidence)
    assert require_structured_evidence(failed) is failed
