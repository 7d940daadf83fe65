"""What became of a turn has the same fields everywhere: in the adapter's verdict, its event and the outcome."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

import beam
from beam.base.errors import ExitCode
from beam.model.events import Event, TurnFinished, outcome_of, turn_finished
from beam.model.outcome import Class, Outcome, Status, Usage, Verdict

pytestmark = pytest.mark.slow

PACKAGE = Path(beam.__file__).parent
OF_THE_MESSAGE = {"v", "message_id", "agent", "turn", "attempt"}
OF_BEAM = {
    "via",
    "why",
    "duration_s",
    "exit_code",
    "redacted",
    "login_url",
    "resets_at",
    "stand_in",
    "images",
    "worked",
}  # the adapter can't know these


def fields(kind: type[msgspec.Struct]) -> dict[str, tuple[str, object]]:
    return {field.name: (field.encode_name, field.type) for field in msgspec.structs.fields(kind)}


def test_the_event_and_the_outcome_have_each_field_of_the_verdict_and_of_the_same_type() -> None:
    verdict, event, outcome = fields(Verdict), fields(TurnFinished), fields(Outcome)
    own = {name: event[name] for name in event if name not in fields(Event)}
    assert verdict.keys() | OF_BEAM | {"attempt", "at_most", "rules"} == own.keys()
    assert verdict.keys() | OF_BEAM | OF_THE_MESSAGE == outcome.keys()
    differing = {name for name in verdict if not verdict[name][1] == event[name][1] == outcome[name][1]}
    assert differing == {"denials"}  # None, only there, says that the CLI would not tell
    assert all(event[name] == outcome[name] for name in verdict)


def test_each_field_of_the_verdict_is_in_the_outcome() -> None:
    verdict = Verdict(
        status=Status.DENIED, class_=Class.AUTH, reason="no", reply="some", session_id="s", model="m", cost_usd=1.5
    )
    event = turn_finished(verdict, attempt=3, via="exec")
    outcome = outcome_of(event)
    for name in Verdict.__struct_fields__:
        assert getattr(outcome, name) == getattr(event, name) == getattr(verdict, name), name
    assert (outcome.attempt, outcome.via, outcome.exit_code) == (3, "exec", ExitCode.DENIED)


def test_what_beam_knows_comes_before_what_the_adapter_says() -> None:
    verdict = Verdict(status=Status.DENIED, usage=Usage(input_tokens=1))
    event = turn_finished(verdict, attempt=1, exit_code=0, denials=None)
    assert (event.exit_code, event.denials, event.usage.input_tokens) == (0, None, 1)


def test_one_function_builds_the_event() -> None:
    built = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "TurnFinished" in (source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "TurnFinished"
    ]
    assert built == ["model/events.py"]


def test_a_cost_is_rounded_once_where_it_is_recorded() -> None:
    verdict = Verdict(status=Status.COMPLETED, cost_usd=0.05279999999999999)
    assert turn_finished(verdict, attempt=1).cost_usd == 0.0528
