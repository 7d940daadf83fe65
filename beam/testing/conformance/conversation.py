"""Cases of one conversation: in one scratch folder they check the same first turn, or continue the conversation after
it."""

from __future__ import annotations

from typing import Any

from beam.proxy.wire.sse import tokens as size_in_tokens
from beam.testing.conformance.cells import cell, refused
from beam.testing.conformance.subject import GO_ON, Subject

FIRST = '- remember plums "quoted" `ticks` $HOME é\n/second line, it\'s <b> !usage 900 20'
SECOND = "what did I say? !usage 100 7"


def first_outcome(subject: Subject) -> dict[str, Any]:
    """Return the outcome of the first turn."""
    outcome: dict[str, Any] = subject.run_once("first", lambda: complete_turn(subject, FIRST))
    return outcome


def second_outcome(subject: Subject) -> dict[str, Any]:
    """Return the outcome of the second turn."""
    first_outcome(subject)
    outcome: dict[str, Any] = subject.run_once("second", lambda: complete_turn(subject, SECOND))
    return outcome


def complete_turn(subject: Subject, text: str, *options: str, agent: str | None = None) -> dict[str, Any]:
    """Run a turn and return its outcome. Raises AssertionError if the turn does not complete."""
    done = subject.send(text, *options, agent=agent)
    assert done.code == 0, done
    outcome: dict[str, Any] = done.json
    assert outcome["status"] == "completed"
    return outcome


@cell("first turn", quick=True)
def first_turn(subject: Subject) -> str:
    outcome = first_outcome(subject)
    assert (outcome["via"], outcome["session"], outcome["reason"]) == ("exec", "new", None)
    assert outcome["reply"].startswith("ECHO[")
    assert FIRST in "\n".join(subject.model.prompts())
    assert FIRST in outcome["reply"]
    assert subject.events("unknown") == []
    subject.check_processes_gone()
    return "completed; the prompt arrived verbatim, the reply is the model's, no event is unknown, no process is left"


@cell("the answer in pieces", "deltas")
def deltas(subject: Subject) -> str:
    first_outcome(subject)
    pieces = subject.events("text.delta")
    assert "remember plums" in "".join(piece["text"] for piece in pieces)
    return "`text.delta` events carry the answer"


def _each_turn_is_new(subject: Subject) -> str:
    outcome = second_outcome(subject)
    assert (outcome["session"], outcome["session_id"]) == ("new", None)
    assert "plums" not in subject.last_request()
    return "the second outcome says `session: new`; the model was sent nothing of the first turn"


@cell("resume keeps the context", "resume", otherwise=_each_turn_is_new)
def resume(subject: Subject) -> str:
    before, outcome = first_outcome(subject), second_outcome(subject)
    assert outcome["session"] == "resumed", outcome
    assert outcome["session_id"] == before["session_id"] is not None
    assert "remember plums" in subject.last_request()
    subject.check_processes_gone()
    return "`session: resumed`, the same id, and the model was sent the first turn with the second"


def _no_figures(subject: Subject) -> str:
    assert {figure for name, figure in first_outcome(subject)["usage"].items() if name != "calls"} == {None}
    return "the outcome's figures are null"


@cell("tokens of the turn", "tokens", otherwise=_no_figures)
def tokens(subject: Subject) -> str:
    """Check that the reported tokens are the tokens of one turn, because many CLIs count over the whole session."""
    used = [turn["usage"] for turn in (first_outcome(subject), second_outcome(subject))]
    if [(usage["input_tokens"], usage["output_tokens"]) for usage in used] == [(900, 20), (100, 7)]:
        return "two turns of a session have the figures that the model gave for each, and no sum"
    beside = [_tokens_of_other_calls(subject, FIRST), _tokens_of_other_calls(subject, SECOND)]
    assert [usage["input_tokens"] for usage in used] == [900 + beside[0], 100 + beside[1]], (used, beside)
    return "two turns of a session have the figures that the model gave for each, calls that no line shows among them"


def _tokens_of_other_calls(subject: Subject, prompt: str) -> int:
    """Return the number of request tokens in those model calls of the prompt's turn that do not contain the prompt."""
    asked = [request.asked for request in subject.model.requests if request.asked is not None]
    begins = next(index for index, one in enumerate(asked) if SECOND in one.prompt)
    turn = asked[:begins] if prompt == FIRST else asked[begins:]
    return sum(size_in_tokens(one.size) for one in turn if prompt not in one.prompt)


def _no_calls(subject: Subject) -> str:
    assert first_outcome(subject)["usage"]["calls"] is None
    return "the outcome's number of calls is null"


@cell("calls of the model", "calls", otherwise=_no_calls)
def calls(subject: Subject) -> str:
    assert first_outcome(subject)["usage"]["calls"] == 1
    return "a turn of one answer has one call"


def _no_models(subject: Subject) -> str:
    assert first_outcome(subject)["models"] is None
    return "the outcome's figures by model are null"


@cell("figures by model", "models", otherwise=_no_models)
def models(subject: Subject) -> str:
    outcome = first_outcome(subject)
    (share,) = outcome["models"]
    assert (share["usage"]["input_tokens"], share["usage"]["output_tokens"]) == (900, 20)
    assert share["cost_usd"] == outcome["cost_usd"]
    return "the one model that was asked has the turn's tokens and cost"


def _no_cost(subject: Subject) -> str:
    assert first_outcome(subject)["cost_usd"] is None
    return "the outcome's cost is null"


@cell("cost of the turn", "cost", otherwise=_no_cost)
def cost(subject: Subject) -> str:
    cost = first_outcome(subject)["cost_usd"]
    assert cost is not None
    return f"the outcome's cost is the CLI's own: {'0 for a model without prices' if cost == 0 else 'more than 0'}"


def _no_api_time(subject: Subject) -> str:
    assert first_outcome(subject)["api_s"] is None
    return "the outcome's API time is null"


@cell("API time of the turn", "api_time", otherwise=_no_api_time)
def api_time(subject: Subject) -> str:
    """Check that in a resumed session the API time is the time of one turn, because many CLIs count over the whole
    session."""
    for outcome in (first_outcome(subject), second_outcome(subject)):
        assert 0 < outcome["api_s"] <= outcome["duration_s"], outcome
    return "each of two turns of a session has the time of its own calls, which is less than it took"


@cell("another access, one session", "resume+access:read+access:full", otherwise=refused(access="read"))
def access_switch(subject: Subject) -> str:
    before = first_outcome(subject)
    earlier = len(subject.model.requests)
    done = subject.send("and with more rights?", access="full")
    assert (done.code, done.json["session_id"]) == (0, before["session_id"]), done
    asked = [request.body for request in subject.model.requests[earlier:] if request.asked is not None]
    assert any("remember plums" in str(body) and "with more rights" in str(body) for body in asked), asked
    return "a turn with access `full` continued the session of one with `read`"


@cell("interrupt", "interrupt")
def interrupt(subject: Subject) -> str:
    before = first_outcome(subject)
    process = subject.start("!stall")
    done = subject.cli("interrupt", subject.name)
    assert done.code == 0, done
    outcome = subject.outcome(process)
    assert (process.returncode, outcome["status"], outcome["reply"]) == (9, "cancelled", None), outcome
    subject.check_processes_gone()
    after = complete_turn(subject, GO_ON)
    if not subject.can.resume:
        return "cancelled (exit code 9), no process is left, and the next turn runs"
    assert (after["session"], after["session_id"]) == ("resumed", before["session_id"])
    assert "remember plums" in subject.last_request()
    return "cancelled (exit code 9), no process is left, and the session goes on"
