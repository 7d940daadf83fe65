"""The asks of a turn: raised once, decided once, and over with their time or their turn."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from beam.agents.base import Verdict
from beam.base.errors import NotFoundError, UnsupportedError
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Denial, Status, denial_text
from beam.turns.asks import DECIDED_BY_DEFAULT, AcceptedAnswers, Asks, Decision, with_denials
from tests.support.context import FakeClock

ALLOW = Decision(decision="allow", by="ann")
DENY = Decision(decision="deny", by="ann", message="use the other")


class Turn:
    """The asks of one turn, and what they wrote."""

    def __init__(self, limit: float = 600.0) -> None:
        self.clock = FakeClock()
        self.written: list[tuple[Event, bool]] = []
        self.asks = Asks("worker", self._record, self.clock, limit)

    def _record(self, body: Event, *, sync: bool = False) -> Event:
        self.written.append((body, sync))
        return body

    @property
    def kinds(self) -> list[str]:
        assert all(sync for _, sync in self.written), "every step of an ask is on disk before the next"
        return [type(body).__name__.removeprefix("Permission") for body, _ in self.written]


def test_an_ask_is_on_disk_with_its_time_before_anybody_can_decide() -> None:
    turn = Turn(limit=60.0)
    ask = turn.asks.ask("Bash", input=Raw(b'{"command":"ls"}'), description="ls", call_id="c1")
    asked = ask.asked
    assert turn.kinds == ["Asked"]
    assert asked.ask_id.startswith("worker-") and asked.expires == "2023-11-14T22:14:20.000000Z"
    assert (asked.tool, bytes(asked.input), asked.description, asked.call_id) == (
        "Bash",
        b'{"command":"ls"}',
        "ls",
        "c1",
    )
    assert turn.asks.are_open and not ask.is_settled


def test_whoever_waits_gets_the_one_decision_and_a_second_is_refused() -> None:
    async def scene() -> None:
        turn = Turn()
        ask = turn.asks.ask("Bash")
        waiting = asyncio.create_task(ask.wait())
        await asyncio.sleep(0)
        turn.asks.decide(ask.id, ALLOW)
        assert await waiting == ALLOW
        with pytest.raises(NotFoundError):
            turn.asks.decide(ask.id, DENY)
        assert turn.kinds == ["Asked", "Decided"] and turn.asks.denials == [] and not turn.asks.are_open

    asyncio.run(scene())


def test_a_decision_on_another_ask_changes_nothing() -> None:
    turn = Turn()
    turn.asks.ask("Bash")
    with pytest.raises(NotFoundError):
        turn.asks.decide("worker-other", ALLOW)
    assert turn.kinds == ["Asked"] and turn.asks.are_open


def test_a_denial_is_listed_with_who_denied_what() -> None:
    turn = Turn()
    ask = turn.asks.ask("Bash", input=Raw(b'{"command":"ls"}'), call_id="c1", takes=AcceptedAnswers(message=True))
    turn.asks.decide(ask.id, DENY)
    assert turn.asks.denials == [Denial(tool="Bash", call_id="c1", input=Raw(b'{"command":"ls"}'), by="ann")]
    decided = turn.written[-1][0]
    assert isinstance(decided, events.PermissionDecided) and decided.why == "use the other"


def test_a_denied_request_that_was_only_described_has_its_description_for_its_argument() -> None:
    turn = Turn()
    turn.asks.deny_by_default(turn.asks.ask("Bash command", description="touch a"), "why")
    (denial,) = turn.asks.denials
    assert (bytes(denial.input), denial_text(denial)) == (b'{"description":"touch a"}', "Bash command (touch a)")


@pytest.mark.parametrize(
    ("takes", "decision"),
    [
        (AcceptedAnswers(), Decision(decision="allow", by="ann", always=True)),
        (AcceptedAnswers(), DENY),
        (AcceptedAnswers(allow=False, always=True), ALLOW),
    ],
)
def test_an_answer_that_the_agent_does_not_take_is_refused_and_the_ask_stays_open(
    takes: AcceptedAnswers, decision: Decision
) -> None:
    turn = Turn()
    ask = turn.asks.ask("Bash", takes=takes)
    with pytest.raises(UnsupportedError):
        turn.asks.decide(ask.id, decision)
    assert turn.kinds == ["Asked"] and not ask.is_settled
    turn.asks.decide(ask.id, Decision(decision="deny", by="ann"))


def test_what_nobody_decides_in_time_is_denied_by_default() -> None:
    turn = Turn(limit=60.0)
    ask = turn.asks.ask("Bash")
    turn.clock.sleep(59.9)
    turn.asks.expire()
    assert not ask.is_settled
    turn.clock.sleep(0.1)
    turn.asks.expire()
    assert ask.decision is not None and ask.decision.decision == "deny"
    assert [denial.by for denial in turn.asks.denials] == [DECIDED_BY_DEFAULT]
    decided = turn.written[-1][0]
    assert isinstance(decided, events.PermissionDecided) and decided.why == "nobody decided within 1m00s"


@pytest.mark.parametrize("jump_s", [-86_400, 86_400])
def test_a_clock_that_is_set_while_an_ask_is_open_changes_nothing_about_its_time(jump_s: int) -> None:
    turn = Turn(limit=60.0)
    ask = turn.asks.ask("Bash")
    turn.clock.now += jump_s * 1_000_000_000
    turn.clock.sleep(59.9)
    turn.asks.expire()
    assert not ask.is_settled
    turn.clock.sleep(0.1)
    turn.asks.expire()
    assert ask.is_settled


def test_the_end_of_the_turn_cancels_what_is_open_and_nothing_else() -> None:
    turn = Turn()
    first, second = turn.asks.ask("Bash"), turn.asks.ask("Edit")
    turn.asks.decide(first.id, ALLOW)
    turn.asks.close("the turn is over")
    turn.asks.close("the turn is over")
    assert turn.kinds == ["Asked", "Asked", "Decided", "Decided"]
    decided = [body.decision for body, _ in turn.written if isinstance(body, events.PermissionDecided)]
    assert decided == ["allow", "cancelled"]
    assert (second.decision, second.cancelled) == (None, "the turn is over")
    assert asyncio.run(second.wait()) is None


def test_ids_of_asks_differ() -> None:
    turn = Turn()
    assert len({turn.asks.ask("Bash").id for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("status", "by", "judged_as"),
    [
        (Status.COMPLETED, DECIDED_BY_DEFAULT, Status.DENIED),
        (Status.CANCELLED, DECIDED_BY_DEFAULT, Status.DENIED),
        (Status.COMPLETED, "ann", Status.COMPLETED),
        (Status.CANCELLED, "ann", Status.COMPLETED),
        (Status.FAILED, DECIDED_BY_DEFAULT, Status.FAILED),
        (Status.FAILED, "ann", Status.FAILED),
    ],
)
def test_a_denial_by_default_is_the_outcome_and_one_by_a_person_an_ordinary_answer(
    status: Status, by: str, judged_as: Status
) -> None:
    denials = [Denial(tool="Edit", by="ann"), Denial(tool="Bash", by=by)]
    verdict = with_denials(Verdict(status=status, reason="why"), denials)
    assert (verdict.status, verdict.denials) == (judged_as, tuple(denials))
    if judged_as is Status.DENIED:
        assert verdict.reason == "Bash was denied: nobody decided"


def test_a_turn_without_denials_is_left_alone() -> None:
    verdict = Verdict(status=Status.CANCELLED, reason="why")
    assert with_denials(verdict, []) is verdict
