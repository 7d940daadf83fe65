"""Cases in which the model gives no answer, or no whole one. No CLI's turn may be reported as completed then."""

from __future__ import annotations

from typing import Any

from beam.testing.conformance.cells import cell, refused
from beam.testing.conformance.subject import Subject


def outcome_of(subject: Subject, prompt: str, *words: str) -> Any:
    """Run a turn in a session of its own, in which the CLI may try again twice. Return the ended command. The model
    must have received a request. `words` are added to the command."""
    subject.cli.config("policy:\n  circuit_failures: 100\n")
    before = len(subject.model.requests)
    done = subject.send(subject.begins + prompt, "--new", *words, env={"BEAM_RETRIES": "2"})
    assert len(subject.model.requests) > before, done
    subject.check_processes_gone()
    return done


def check_empty(subject: Subject, prompt: str) -> str:
    """Check that the turn failed because it has no answer."""
    done = outcome_of(subject, prompt)
    outcome = done.json
    assert (done.code, outcome["status"], outcome["class"], outcome["reply"]) == (1, "failed", "empty", None), outcome
    return f"failed (empty): {outcome['reason']}"


@cell("an empty answer")
def empty_answer(subject: Subject) -> str:
    return check_empty(subject, "!empty")


@cell("thoughts without an answer")
def thoughts_only(subject: Subject) -> str:
    return check_empty(subject, "!think let me see\n!say")


@cell("an answer that is cut off", "whole", otherwise=refused("--require", "whole"))
def cut_answer(subject: Subject) -> str:
    """Check that each answer which the token limit cuts off is told: the turn is `truncated`. A CLI may have its model
    go on instead, as long as it does so each time. Where the CLI does not tell, `--require whole` makes beam look at
    the model calls themselves."""
    asked = len(subject.model.prompts())
    done = outcome_of(subject, "!max_tokens", *(() if subject.can.whole else ("--require", "whole")))
    outcome = done.json
    times = len(subject.model.prompts()) - asked
    assert (done.code, outcome["status"]) == (11, "truncated"), (times, outcome)
    return f"truncated; the model was asked {times} times: {outcome['reason']}"


@cell("a refusal of the model")
def refused_answer(subject: Subject) -> str:
    done = outcome_of(subject, "!refuse")
    outcome = done.json
    assert (done.code, outcome["status"], outcome["class"]) == (6, "refused", None), outcome
    return f"refused: {outcome['reason']}"
