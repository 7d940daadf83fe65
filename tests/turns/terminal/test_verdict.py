"""The verdict on a turn on a screen: what ended it is said, and a denial is what it was."""

from __future__ import annotations

import pytest
from msgspec import UNSET, structs

from beam.agents.base import Verdict
from beam.agents.claude.screen import profile as CLAUDE
from beam.agents.codex.screen import profile as CODEX
from beam.agents.python import profile as PYTHON
from beam.agents.qwen.screen import profile as QWEN
from beam.model.outcome import SCREEN, Class, Denial, Evidence, Status, Usage
from beam.model.screen_profile import GENERIC_PROFILE, Profile
from beam.model.settings import Policy
from beam.process.spawn import ProcessEnd
from beam.pty_adapter.screen import View
from beam.pty_adapter.turn_end import State, TurnEnd
from beam.turns.terminal.verdict import TurnEvidence, evidence_of, verdict_of

BY_ANN, BY_NOBODY = Denial(tool="Bash", by="ann"), Denial(tool="Bash")


def ended(via: str, profile: Profile = CLAUDE) -> TurnEnd:
    end = TurnEnd(profile, now=0.0)
    end.state, end.via = State.DONE, via
    return end


@pytest.mark.parametrize(
    ("via", "profile", "said"),
    [
        ("history", CLAUDE, "history"),
        ("osc7501", CODEX, "osc"),
        ("osc133", PYTHON, "osc"),
        ("osc133", structs.replace(GENERIC_PROFILE, prompt="^> ", at_cursor=True), "prompt"),
        ("title", CLAUDE, "title"),
        ("screen", CLAUDE, "screen"),
        ("screen", PYTHON, "prompt"),
        ("quiet", CLAUDE, None),
        ("exit", CLAUDE, None),
    ],
)
def test_the_outcome_says_what_decided(via: str, profile: Profile, said: Evidence | None) -> None:
    assert evidence_of(ended(via, profile)) == said
    assert verdict_of(TurnEvidence(end=ended(via, profile), view=View(()), reply="yes")).evidence == said


@pytest.mark.parametrize(
    ("via", "command", "reply"), [("history", False, None), ("history", True, "x"), ("title", False, "x")]
)
def test_what_the_screen_shows_is_no_answer_if_the_transcript_ended_the_turn_without_one(
    via: str, command: bool, reply: str | None
) -> None:
    told = Verdict(status=Status.COMPLETED, reply=None)
    found = verdict_of(TurnEvidence(end=ended(via), view=View(()), reply="x", transcript=told, command=command))
    assert (found.status, found.reply) == (Status.COMPLETED, reply)


def test_the_screen_has_the_words_of_a_hook_that_the_transcript_lacks() -> None:
    told = Verdict(status=Status.FAILED, class_=Class.STOPPED, reason="stopped", lossy=True)
    seen = TurnEvidence(end=ended("history"), view=View(()), reply="Blocked by hook\n└ no", transcript=told)
    assert verdict_of(seen).reason == f"stopped{SCREEN}Blocked by hook\n└ no"
    assert verdict_of(structs.replace(seen, transcript=structs.replace(told, lossy=UNSET))).reason == "stopped"


@pytest.mark.parametrize(
    ("told", "denial", "stopped", "status"),
    [
        (Status.CANCELLED, BY_ANN, False, Status.COMPLETED),
        (Status.CANCELLED, BY_NOBODY, False, Status.DENIED),
        (Status.COMPLETED, BY_NOBODY, False, Status.DENIED),
        (Status.COMPLETED, BY_NOBODY, True, Status.DENIED),
        (Status.CANCELLED, BY_ANN, True, Status.CANCELLED),
        (Status.CANCELLED, BY_NOBODY, True, Status.CANCELLED),
    ],
)
def test_a_denial_is_an_answer_or_the_outcome_and_a_stop_is_a_stop(
    told: Status, denial: Denial, stopped: bool, status: Status
) -> None:
    seen = TurnEvidence(
        end=ended("history"),
        view=View(()),
        transcript=Verdict(status=told, reply="so far"),
        denials=(denial,),
        stopped=stopped,
    )
    assert (verdict_of(seen).status, verdict_of(seen).denials) == (status, (denial,))


@pytest.mark.parametrize(
    ("told", "status"),
    [(Status.COMPLETED, Status.CANCELLED), (Status.CANCELLED, Status.CANCELLED), (Status.FAILED, Status.FAILED)],
)
def test_a_turn_that_was_stopped_before_its_request_was_decided_is_no_success(told: Status, status: Status) -> None:
    transcript = Verdict(status=told, reply="so far")
    seen = TurnEvidence(end=ended("history"), view=View(()), transcript=transcript, stopped=True, cut_short=True)
    assert (verdict_of(seen).status, verdict_of(seen).reply) == (status, "so far")


def test_what_was_denied_and_the_session_are_named_whatever_ended_the_turn() -> None:
    failed, exited, waiting = ended("screen"), ended("exit"), ended("quiet")
    exited.state, waiting.state = State.EXITED, State.WAITING
    gave_up = Verdict(status=Status.FAILED, class_=Class.STALLED, reason="why")
    said = Verdict(status=Status.COMPLETED, session_id="s", usage=Usage(input_tokens=7), cost_usd=0.5)
    for end, fields in (
        (failed, {"failed": gave_up}),
        (exited, {"ended": ProcessEnd(code=1)}),
        (waiting, {}),
    ):
        for transcript in (said, None):
            told = {"transcript": transcript, "session_id": "s", "denials": (BY_ANN,)}
            verdict = verdict_of(TurnEvidence(end=end, view=View(()), **told, **fields))  # type: ignore[arg-type]
            assert (verdict.status, verdict.denials) == (Status.FAILED, (BY_ANN,))
            assert verdict.session_id == ("s" if transcript is not None else None)
            assert verdict.usage.input_tokens == (7 if transcript is not None else None)


def test_a_turn_that_was_stopped_has_what_its_transcript_says_that_it_used() -> None:
    end = ended("quiet")
    end.state = State.BUSY
    said = Verdict(status=Status.COMPLETED, reply="half", model="m", usage=Usage(input_tokens=7), cost_usd=0.5)
    verdict = verdict_of(TurnEvidence(end=end, view=View(()), transcript=said, session_id="s", stopped=True))
    assert (verdict.status, verdict.reply, verdict.session_id) == (Status.CANCELLED, None, "s")
    assert (verdict.model, verdict.usage.input_tokens, verdict.cost_usd) == ("m", 7, 0.5)


@pytest.mark.parametrize(
    ("error", "class_"),
    [
        ("✗ You must be logged in to send messages. Please run /login", Class.AUTH),
        ("401 scripted error", Class.AUTH),
        ("429 Too many requests", Class.UNKNOWN),
        ("", Class.UNKNOWN),
    ],
)
def test_a_failure_that_only_the_screen_tells_is_known_where_nobody_is_logged_in_and_never_run_again(
    error: str, class_: Class
) -> None:
    end = ended("screen")
    end.state, end.reason = State.ERROR, error
    verdict = verdict_of(TurnEvidence(end=end, view=View(()), reply="so far"))
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, class_, None)
    assert class_ not in Policy().retry


NOTICE = "⚠  Response truncated due to token limits."


@pytest.mark.parametrize("told", [None, Verdict(status=Status.COMPLETED, reply="half")])
@pytest.mark.parametrize(
    ("reply", "status"),
    [(f"half\n  ●︎ {NOTICE}", Status.TRUNCATED), (f"half\n{NOTICE}\n\nthe other half", Status.COMPLETED)],
)
def test_an_answer_above_the_notice_that_it_was_cut_off_is_truncated_and_the_notice_is_no_part_of_it(
    reply: str, status: Status, told: Verdict | None
) -> None:
    found = verdict_of(TurnEvidence(end=ended("title", QWEN), view=View(()), reply=reply, transcript=told))
    assert found.status is status
    assert "Response" not in (found.reply or "") and (found.reply or "").startswith("half")


@pytest.mark.parametrize(
    ("reason", "status", "class_"),
    [
        ("[API Error: Model stream ended with empty response text.]", Status.FAILED, Class.EMPTY),
        ("Agent execution stopped: blocked by policy 7", Status.FAILED, Class.STOPPED),
        ("UserPromptSubmit operation blocked by hook: no", Status.FAILED, Class.STOPPED),
        ("The model response was blocked due to safety settings.", Status.REFUSED, None),
        ("429 slow down", Status.FAILED, Class.UNKNOWN),
    ],
)
def test_a_failure_on_the_screen_has_a_class_that_nobody_retries(
    reason: str, status: Status, class_: Class | None
) -> None:
    end = ended("title", QWEN)
    end.state, end.reason = State.ERROR, reason
    found = verdict_of(TurnEvidence(end=end, view=View(())))
    assert (found.status, found.class_, found.reason) == (status, class_, reason)
