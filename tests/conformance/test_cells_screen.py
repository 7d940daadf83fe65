"""Conversations on a CLI's own screen: one place a CLI, in which a first turn was taken; the cells go on in it."""

from __future__ import annotations

from typing import Any

from beam.testing.conformance.conversation import complete_turn
from tests.conformance.screens import FIFTY, WHOLE, OnScreen, on_screen, rows_of

FIRST, SECOND, THIRD = f"MIRROR\n{FIFTY}", "PAUSE here", "PLAIN here"


def first(subject: OnScreen) -> dict[str, Any]:
    outcome: dict[str, Any] = subject.run_once("first", lambda: complete_turn(subject, FIRST))
    return outcome


def second(subject: OnScreen) -> dict[str, Any]:
    """The outcome of the next turn, in a process that a broker then keeps."""
    first(subject)
    subject.keep()
    outcome: dict[str, Any] = subject.run_once("second", lambda: complete_turn(subject, SECOND))
    return outcome


def third(subject: OnScreen) -> dict[str, Any]:
    second(subject)
    outcome: dict[str, Any] = subject.run_once("third", lambda: complete_turn(subject, THIRD))
    return outcome


def pid(subject: OnScreen, turn: dict[str, Any]) -> int:
    (started,) = subject.events("agent.started", turn["turn"])
    found: int = started["pid"]
    return found


@on_screen("answer on its screen", quick=("codex",))
def test_screen_answer(subject: OnScreen) -> str:
    """An answer that looks like the CLI's own screen is no end, and is the agent's own words."""
    outcome = first(subject)
    assert (outcome["via"], outcome["session"], outcome["reason"]) == ("terminal", "new", None)
    assert subject.asked(FIRST), "fifty lines did not arrive verbatim"
    assert subject.events("unknown") == []
    subject.check_processes_gone()
    if subject.screen.is_verbatim:
        assert (outcome["reply"], "lossy" in outcome) == (subject.screen.lookalike, False)
        return f"the reply is the model's, verbatim, by {outcome['evidence']}; no process is left"
    assert rows_of(outcome["reply"]) == rows_of(subject.screen.lookalike)
    assert outcome["lossy"] is True
    told = f"the reply is each row of the model's, by {outcome['evidence']}, and says that it is `lossy`"
    return f"{told}; no process is left"


@on_screen("a session in another process", "resume", quick=("codex",))
def test_screen_resume(subject: OnScreen) -> str:
    before, outcome = first(subject), second(subject)
    assert outcome["reply"] == WHOLE, "a pause in the answer ended the turn"
    assert (outcome["session"], outcome["session_id"]) == ("resumed", before["session_id"])
    assert outcome["session_id"] is not None and pid(subject, outcome) != pid(subject, before)
    assert any("line 49 of fifty" in body for body in subject.asked(SECOND))
    return "`session: resumed`, the same id, and the model was sent the first turn with the second"


@on_screen("second turn on a kept screen", "resume", quick=("codex",))
def test_screen_kept(subject: OnScreen) -> str:
    before, outcome = second(subject), third(subject)
    assert outcome["reply"] == "plain words"
    assert (outcome["session"], outcome["session_id"]) == ("resumed", before["session_id"])
    assert pid(subject, outcome) == pid(subject, before)
    assert any(SECOND in body for body in subject.asked(THIRD))
    return "in the process of the turn before, with its context"


def _no_figures(subject: OnScreen) -> str:
    assert set(first(subject)["usage"].values()) == {None}
    return "the outcome's figures are null"


@on_screen("tokens of the turn", "tokens", quick=("codex",), otherwise=_no_figures)
def test_screen_tokens(subject: OnScreen) -> str:
    """In a turn of a resumed session too they are the turn's own."""
    used = [turn["usage"] for turn in (first(subject), third(subject))]
    assert [(usage["input_tokens"], usage["output_tokens"]) for usage in used] == [(900, 20), (100, 7)]
    return "the first and the third turn of a session have the figures that the model gave for each, and no sum"


@on_screen("model of the turn", "model")
def test_screen_model(subject: OnScreen) -> str:
    first(subject)
    other = subject.data.other_model
    outcome = complete_turn(subject, "PLAIN with another", "--model", other)
    assert outcome["reply"] == "plain words"
    wanted = other.rpartition("/")[2]
    asked = [request.asked for request in subject.model.requests if request.asked is not None]
    assert wanted in [request.model for request in asked if "PLAIN with another" in request.prompt]
    return f"the model `{wanted}` was asked"


@on_screen("unknown session id", "resume")
def test_screen_unknown_id(subject: OnScreen) -> str:
    """The CLI is asked for a session that it has not: in another HOME, where it was never used."""
    before = first(subject)
    subject.leave()
    for path in subject.cli.project.glob(subject.data.session_files or "nothing"):
        path.unlink()
    asked = len(subject.model.requests)
    done = subject.send("PLAIN, who are you?", cli=subject.at_home("elsewhere"))
    outcome = done.json
    assert "fifty" not in str([request.body for request in subject.model.requests[asked:]])
    if outcome["status"] == "completed":
        assert (outcome["session"], outcome["session_id"] != before["session_id"]) == ("lost", True), outcome
        told = [event for event in subject.cli.journal(subject.name) if event["type"] == "session.lost"]
        told += [event for event in subject.events("notice") if event["code"] == "session_lost"]
        assert told != []
        return "`session: lost`, said in the journal, and the turn ran once, in a new one"
    assert (done.code, outcome["status"], outcome["reply"]) == (1, "failed", None), outcome
    return f"failed ({outcome['class']}): {outcome['reason']}"


@on_screen("login required")
def test_screen_login(subject: OnScreen) -> str:
    subject.leave()
    asked = len(subject.model.requests)
    if not subject.screen.logs_in:
        done = subject.send("!error 401", "--new")
        assert (done.code, done.json["status"], done.json["class"], done.json["reply"]) == (1, "failed", "auth", None)
        return f"it needs none to answer; a key that is refused is failed (auth): {done.json['reason']}"
    done = subject.send("hello", "--new", cli=subject.nobody())
    assert (done.code, done.json["status"], done.json["class"], done.json["reply"]) == (1, "failed", "auth", None), done
    assert len(subject.model.requests) == asked
    subject.check_processes_gone()
    return f"failed (auth): {done.json['reason']}"
