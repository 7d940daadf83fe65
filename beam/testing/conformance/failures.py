"""Cases in which the model's API fails. Every CLI must report the same error class, and must not take an error for a
reply."""

from __future__ import annotations

from beam.testing.conformance.cells import cell
from beam.testing.conformance.subject import BREAKS, BROKEN, WHOLE, Subject

RETRIES = 1


def check_failure(subject: Subject, prompt: str, class_: str) -> str:
    """Check that the turn fails with the error class `class_`, after at most the retries that beam allows, and that
    each retry is reported."""
    subject.cli.config("policy:\n  circuit_failures: 100\n")
    before = len(subject.model.prompts())
    done = subject.send(prompt, "--new", env={"BEAM_RETRIES": str(RETRIES)})
    outcome = done.json
    assert (done.code, outcome["status"], outcome["class"], outcome["reply"]) == (1, "failed", class_, None), outcome
    retries = [event for event in subject.events("status", outcome["turn"]) if event["state"] == "retrying"]
    assert len(retries) <= RETRIES or "stopped after its retries" in outcome["reason"]
    assert {event["class"] for event in retries} <= {class_}
    subject.check_processes_gone()
    asked = len(subject.model.prompts()) - before
    retried = f"; {len(retries)} retries told as `status`" if retries else ""
    return f"failed ({class_}){retried}; the model was asked {asked} times: {outcome['reason']}"


@cell("API error 400")
def api_400(subject: Subject) -> str:
    return check_failure(subject, "!error 400", "bad_request")


@cell("API error 401")
def api_401(subject: Subject) -> str:
    return check_failure(subject, "!error 401", "auth")


@cell("API error 429")
def api_429(subject: Subject) -> str:
    return check_failure(subject, "!error 429", "rate_limit")


@cell("API error 500")
def api_500(subject: Subject) -> str:
    return check_failure(subject, "!error 500", "overloaded")


@cell("truncated stream")
def truncated_stream(subject: Subject) -> str:
    return check_failure(subject, "!drop-mid", "network")


@cell("broken stream, then an answer")
def broken_then_answered(subject: Subject) -> str:
    """Check that text before the break is not part of the answer, unless the model was asked to continue from it."""
    asked = len(subject.model.prompts())
    outcome = subject.send(BREAKS, "--new", env={"BEAM_RETRIES": "3"}).json
    subject.check_processes_gone()
    times = len(subject.model.prompts()) - asked
    retried = [event["detail"] for event in subject.events("status", outcome["turn"]) if event["state"] == "retrying"]
    if outcome["status"] == "completed" and any("asked to go on" in detail for detail in retried):
        assert outcome["reply"].startswith(BROKEN[:20]) and outcome["reply"].endswith(WHOLE), outcome
        return f"the model was asked to go on where its answer broke off, which `status` says ({times} times in all)"
    if outcome["status"] == "completed":
        assert (outcome["reply"], times >= 3) == (WHOLE, True), (times, outcome)
        assert [event["text"] for event in subject.events("text", outcome["turn"])][-1:] == [WHOLE]
        return f"the CLI asked again ({times} times in all); the reply is the second answer alone"
    assert (outcome["status"], outcome["class"], outcome["reply"]) == ("failed", "network", None), outcome
    return f"failed (network), without a reply; the model was asked {times} times: {outcome['reason']}"


@cell("refused connection")
def refused_connection(subject: Subject) -> str:
    """Check that the turn fails if the connection is refused. This case is the last one, because it stops the model."""
    subject.model.stop()
    return check_failure(subject, "hello", "network")
