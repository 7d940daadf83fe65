"""What all headless CLIs share: refusals, lines, and the verdict on what was heard."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from beam.agents import oneshot
from beam.agents.base import Capabilities, Exit, Turn
from beam.agents.oneshot import Failure, OutputSummary
from beam.base.errors import UnsupportedError
from beam.model import events
from beam.model.outcome import Class, Denial, Status, Usage
from tests.support.turn import turn_of

FULL = Capabilities(access=("full",))


turn = partial(turn_of, "x", access="full")


def verdict(summary: OutputSummary, *, of: Turn | None = None, **exit: Any) -> Any:
    return oneshot.verdict(of or turn(), Exit(**(exit or {"code": 0})), summary)[1]


def test_a_cli_that_asks_nobody_wants_an_explicit_full_and_says_how_to_say_so() -> None:
    with pytest.raises(UnsupportedError) as caught:
        oneshot.check_access(turn(access="read"), "x", FULL)
    assert "access: full" in caught.value.hint


@pytest.mark.parametrize("value", ["", "-x", "a\0b"])
def test_an_argument_that_could_be_a_flag_is_refused(value: str) -> None:
    with pytest.raises(UnsupportedError):
        oneshot.checked_argument("x", "model", value)


@pytest.mark.parametrize("text", ["a\0b", "x" * 130_000])
def test_a_prompt_that_no_argument_can_hold_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match="takes its prompt as an argument"):
        oneshot.prompt_argument("x", text)


def test_an_exit_code_of_0_alone_completes_nothing() -> None:
    found = verdict(OutputSummary(name="x", texts=["I am"]), code=0)
    assert (found.status, found.class_, found.reply) == (Status.FAILED, Class.CRASHED, None)


def test_the_clis_own_proof_completes_whatever_the_exit_code_and_that_is_noted() -> None:
    bodies, found = oneshot.verdict(turn(), Exit(code=3), OutputSummary(name="x", ended="stop", texts=["a", "b"]))
    assert (found.status, found.reply) == (Status.COMPLETED, "a\n\nb")
    assert [body.code for body in bodies if isinstance(body, events.Notice)] == ["exit_code"]


def test_a_failure_beats_an_end_and_its_text_is_no_reply() -> None:
    found = verdict(OutputSummary(name="x", ended="stop", texts=["oops"], failure=Failure(Class.AUTH, "401")))
    assert (found.status, found.class_, found.reason, found.reply) == (Status.FAILED, Class.AUTH, "401", None)


def test_a_denied_call_without_an_answer_or_with_one_is_denied() -> None:
    denied = [Denial(tool="bash")]
    for ended in ("", "stop"):
        found = verdict(OutputSummary(name="x", ended=ended, texts=["I may not"], denials=denied))
        assert (found.status, found.reason) == (Status.DENIED, "not permitted: bash")


@pytest.mark.parametrize("exit", [{"signal": "SIGKILL"}, {"code": 1}, {}])
def test_a_cli_that_dies_after_a_denied_call_has_crashed(exit: dict[str, Any]) -> None:
    _, found = oneshot.verdict(
        turn(), Exit(**exit), OutputSummary(name="x", session_id="s", denials=[Denial(tool="bash")])
    )
    assert (found.status, found.class_) == (Status.FAILED, Class.CRASHED)
    assert [denial.tool for denial in found.denials] == ["bash"]


def test_what_a_rule_of_the_person_s_own_denied_is_an_answer() -> None:
    found = verdict(
        OutputSummary(name="x", ended="stop", texts=["I may not"], denials=[Denial(tool="bash", by="rule")])
    )
    assert (found.status, found.reply, len(found.denials)) == (Status.COMPLETED, "I may not", 1)


@pytest.mark.parametrize(("ended", "status"), [("length", Status.TRUNCATED), ("refused", Status.REFUSED)])
def test_cut_off_and_refused_answers_are_said_to_be_so(ended: str, status: Status) -> None:
    assert verdict(OutputSummary(name="x", ended=ended, texts=["half"])).status is status


def test_what_beam_stopped_is_its_own_status_unless_the_turn_was_over() -> None:
    assert verdict(OutputSummary(name="x"), signal="SIGINT", stopped_by="timeout").status is Status.TIMEOUT
    assert verdict(OutputSummary(name="x"), signal="SIGINT", stopped_by="interrupted").status is Status.CANCELLED
    assert (
        verdict(OutputSummary(name="x", ended="stop"), signal="SIGINT", stopped_by="timeout").status is Status.COMPLETED
    )


def test_the_complaint_of_a_cli_that_never_began_is_the_reason() -> None:
    found = verdict(OutputSummary(name="x"), code=1, stderr_tail="\x1b[91mError: No authentication found.\n\nTry this")
    assert (found.class_, found.reason) == (Class.AUTH, "Error: No authentication found.")


def test_another_session_than_the_asked_one_is_reported_and_is_not_run_again() -> None:
    of, summary = turn(session_id="asked"), OutputSummary(name="x")
    started, notice = summary.on_opened(of, "other")
    assert isinstance(started, events.SessionStarted)
    assert isinstance(notice, events.Notice)
    summary.ended = "stop"
    bodies, found = oneshot.verdict(of, Exit(code=0), summary)
    assert (found.session, found.session_id) == ("lost", "other")
    assert not any(isinstance(body, events.SessionLost) for body in bodies)


def test_a_session_that_the_cli_proves_to_be_gone_is_lost() -> None:
    bodies, found = oneshot.verdict(turn(session_id="s"), Exit(code=1), OutputSummary(name="x", lost="no session s"))
    assert isinstance(bodies[0], events.SessionLost)
    assert (found.status, found.class_, found.session, found.session_id) == (
        Status.FAILED,
        Class.BAD_REQUEST,
        "lost",
        None,
    )


def test_open_calls_are_unfinished_at_the_end() -> None:
    summary = OutputSummary(name="x")
    summary.on_called("c1", "bash", {})
    bodies, killed = oneshot.verdict(turn(), Exit(signal="SIGKILL"), summary)
    assert [(body.call_id, body.unfinished) for body in bodies if isinstance(body, events.ToolReturned)] == [
        ("c1", True)
    ]
    assert killed.unfinished == (), "the status says it"
    summary.ended = "stop"
    assert [left.tool for left in oneshot.verdict(turn(), Exit(code=0), summary)[1].unfinished] == ["bash"]


def test_what_was_said_before_a_call_is_no_part_of_the_reply() -> None:
    summary = OutputSummary(name="x", ended="stop")
    summary.text("I'll look")
    summary.on_called("c1", "read", {})
    summary.on_returned("c1", "text")
    summary.text("It says text")
    assert verdict(summary).reply == "It says text"


def test_figures_add_up_and_stay_null_if_none_were_reported() -> None:
    summary = OutputSummary(name="x", ended="stop")
    assert verdict(summary).usage == Usage()
    summary.counted(Usage(input_tokens=1, output_tokens=2), 0.5)
    summary.counted(Usage(input_tokens=3), 0.25)
    assert (verdict(summary).usage, verdict(summary).cost_usd) == (Usage(input_tokens=4, output_tokens=2), 0.75)


@pytest.mark.parametrize("costs", [(0.25, None), (None, 0.25), (0.25, None, 0.25)])
def test_the_cost_of_only_some_calls_is_not_shown_as_the_cost_of_all(costs: tuple[float | None, ...]) -> None:
    summary = OutputSummary(name="x", ended="stop")
    for cost_usd in costs:
        summary.counted(Usage(input_tokens=1, calls=1), cost_usd, "m")
    found = verdict(summary)
    assert (found.usage.calls, found.cost_usd) == (len(costs), None)
    assert found.models is not None
    assert [share.cost_usd for share in found.models] == [None]


def test_a_sum_of_costs_has_no_digits_that_only_its_addition_made() -> None:
    summary = OutputSummary(name="x", ended="stop")
    for cost_usd in (0.1, 0.2):
        summary.counted(Usage(input_tokens=1), cost_usd)
    assert verdict(summary).cost_usd == 0.3


def test_what_a_subagent_calls_leaves_the_answer_as_it_is() -> None:
    summary = OutputSummary(name="x", ended="stop")
    summary.text("The answer is 42.")
    (called,) = summary.on_called("c2", "bash", {}, parent="c1")
    (returned,) = summary.on_returned("c2", "ok", parent="c1")
    assert isinstance(called, events.ToolCalled) and isinstance(returned, events.ToolReturned)
    assert (called.parent, returned.parent, verdict(summary).reply) == ("c1", "c1", "The answer is 42.")


@pytest.mark.parametrize("line", [b"", b"   "])
def test_a_blank_line_is_nothing(line: bytes) -> None:
    assert oneshot.read(line, lambda value: [events.Unknown(what="never")]) == ()


def test_a_line_that_is_no_object_is_kept_as_unknown() -> None:
    (found,) = oneshot.read(b"[1]", lambda value: [])
    assert isinstance(found, events.Unknown)
    assert found.raw == "[1]"
