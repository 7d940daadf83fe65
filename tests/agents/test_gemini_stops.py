"""How Gemini CLI tells that a hook or it itself ended a turn: in its stream-json, and in its debug log on stderr. The
lines are those of version 0.61.0."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from beam.agents.base import ErrorReader, Exit, Verdict
from beam.agents.gemini import exec
from beam.agents.gemini.dialogue import DIALECT
from beam.agents.link import Over
from beam.model.outcome import Class, Status
from tests.agents.test_gemini_decode import called, delta, init, returned, turn
from tests.support.acp_dialogue import DIALECT as PLAIN
from tests.support.acp_dialogue import Talk, talking

EMPTY = (
    "The model returned an empty response with no text or thoughts. This may be a transient API issue; please try "
    "again."
)
THOUGHTS = (
    "The model returned reasoning thoughts but no final response text. If your context window is near capacity, try "
    "using /compress."
)
CUT = "Model response was truncated because it exceeded the token limit. Try using /compress to free up context space."
WORDS = "blocked by policy 7"
SUCCESS = {"type": "result", "status": "success", "stats": {"total_tokens": 9, "input_tokens": 5, "output_tokens": 4}}
BLOCKED = {"type": "error", "severity": "warning", "message": f"Agent execution blocked: {WORDS}"}
STOPPED_TOOL = {"type": "stop_execution", "message": f"Agent execution stopped by hook: {WORDS}"}
DENIED_TOOL = {"type": "policy_violation", "message": f"Tool execution blocked: {WORDS}"}


def log(event: str, *, stopped: bool = True) -> list[bytes]:
    lines = [
        f"Created execution plan for {event}: 1 hook(s) to execute in parallel",
        "Expanding hook command: ./policy.sh (cwd: /p)",
        *([f"Hook requested to stop execution: {WORDS}"] if stopped else []),
        f"Hook execution for {event}: 1 hooks executed successfully, total duration: 13ms",
    ]
    return [line.encode() for line in lines]


def decode(*lines: Any, log: list[bytes] | None = None, access: str = "full") -> Verdict:
    decoder = exec.decoder(turn(access=access))
    for line in lines:
        decoder.line(json.dumps(line).encode())
    assert isinstance(decoder, ErrorReader)
    for line in log or []:
        decoder.error_line(line)
    return decoder.end(Exit(code=0))[1]


@pytest.mark.parametrize(
    ("lines", "lines_of_log"),
    [
        ([SUCCESS], log("BeforeAgent")),
        ([SUCCESS], log("BeforeModel")),
        ([delta("Half"), SUCCESS], log("AfterModel")),
        ([delta("The answer."), SUCCESS], log("AfterAgent")),
        ([called("write_file"), returned("write_file"), SUCCESS], log("BeforeModel")),
        ([BLOCKED, SUCCESS], []),
        ([delta("An answer."), BLOCKED, SUCCESS], []),
        ([called("glob"), returned("glob", STOPPED_TOOL, output=STOPPED_TOOL["message"]), SUCCESS], []),
    ],
)
def test_a_turn_that_a_hook_stopped_failed_with_its_words(lines: list[Any], lines_of_log: list[bytes]) -> None:
    verdict = decode(init(), *lines, log=lines_of_log)
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.STOPPED, None)
    assert (verdict.reason or "").endswith(f": {WORDS}")


@pytest.mark.parametrize(
    ("lines", "lines_of_log"),
    [
        ([delta("An answer."), BLOCKED, delta("A better answer."), SUCCESS], []),  # the model had to go on
        ([delta("The answer."), SUCCESS], log("SessionEnd")),
        ([delta("The answer."), SUCCESS], [*log("BeforeModel"), *log("BeforeModel", stopped=False)]),  # a subagent's
        ([delta("The answer."), SUCCESS], [f"Hook requested to stop execution: {WORDS}".encode()]),
    ],
)
def test_a_hook_that_did_not_end_the_turn_changes_nothing(lines: list[Any], lines_of_log: list[bytes]) -> None:
    assert decode(init(), *lines, log=lines_of_log).status is Status.COMPLETED


@pytest.mark.parametrize("access", ["read", "edit", "full"])
def test_a_tool_that_a_hook_denies_is_a_denial(access: str) -> None:
    verdict = decode(
        init(), called("glob"), returned("glob", DENIED_TOOL), delta("It was denied."), SUCCESS, access=access
    )
    assert (verdict.status, [each.tool for each in verdict.denials]) == (Status.DENIED, ["glob"])


@pytest.mark.parametrize("words", ["Loop detected, stopping execution", "Maximum session turns exceeded"])
def test_an_answer_that_gemini_itself_ended_is_a_limit_and_keeps_what_there_is(words: str) -> None:
    warning = {"type": "error", "severity": "warning", "message": words}
    verdict = decode(init(), delta("a line\n"), warning, SUCCESS)
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.LIMIT, None, "a line\n")


@pytest.mark.parametrize(
    ("words", "status", "class_"),
    [
        (
            EMPTY,
            Status.FAILED,
            Class.EMPTY,
        ),
        (
            THOUGHTS,
            Status.FAILED,
            Class.EMPTY,
        ),
        (
            CUT,
            Status.TRUNCATED,
            None,
        ),
        ("The model response was blocked due to safety settings.", Status.REFUSED, None),
        ("The model response was blocked due to recitation/copyright filters.", Status.REFUSED, None),
        ("The model response was blocked due to other policy settings.", Status.REFUSED, None),
        ("Reached max session turns for this session. Increase the number of turns.", Status.LIMIT, None),
    ],
)
def test_each_way_in_which_gemini_says_that_there_is_no_answer(
    words: str, status: Status, class_: Class | None
) -> None:
    error = {"type": "error", "severity": "error", "message": words}
    verdict = decode(init(), error, {**SUCCESS, "status": "error", "error": {"message": words}})
    assert (verdict.status, verdict.class_) == (status, class_)


# -- over its protocol -------------------------------------------------------------------------------------------------

NOTHING = {"quota": {"token_count": {"input_tokens": 0, "output_tokens": 0}, "model_usage": []}}


def ended(text: str, lines: list[bytes], meta: object) -> Verdict:
    talk: Talk = talking(structs.replace(DIALECT, modes=PLAIN.modes))
    if text:
        talk.text(text)
    for line in lines:
        talk.link.error_line(line)
    talk.complete(_meta=meta)
    (found,) = [step.verdict for step in talk.steps if isinstance(step, Over)]
    return found


USED = {"quota": {"token_count": {"input_tokens": 9, "output_tokens": 1}, "model_usage": [{"model": "m"}]}}


@pytest.mark.parametrize(
    ("text", "lines", "meta", "class_", "says"),
    [
        ("", log("BeforeAgent"), NOTHING, Class.STOPPED, WORDS),
        ("The answer.", log("AfterAgent"), USED, Class.STOPPED, WORDS),
        ("", log("BeforeAgent", stopped=False), NOTHING, Class.STOPPED, "before the model was asked"),
        ("", log("BeforeAgent", stopped=False), USED, Class.EMPTY, "without a word"),
        ("", [], NOTHING, Class.EMPTY, "without a word"),
        ("The answer.", log("BeforeAgent", stopped=False), USED, None, ""),
    ],
)
def test_over_its_protocol_only_the_log_tells_of_a_hook(
    text: str, lines: list[bytes], meta: object, class_: Class | None, says: str
) -> None:
    verdict = ended(text, lines, meta)
    assert (verdict.class_, verdict.status) == (class_, Status.FAILED if class_ else Status.COMPLETED)
    assert says in (verdict.reason or "")


def test_the_end_of_a_turn_waits_a_moment_for_the_end_of_its_hook_in_the_log() -> None:
    talk: Talk = talking(structs.replace(DIALECT, modes=PLAIN.modes))
    begun, *rest = log("BeforeAgent")
    talk.link.error_line(b"[2026-11-27T19:18:41.293Z] [DEBUG] " + begun)
    assert not any(isinstance(step, Over) for step in talk.complete(_meta=NOTHING))
    for line in rest:
        talk.link.error_line(b"[2026-11-27T19:18:41.332Z] [LOG] " + line)
    assert talk.link.due is not None
    (over,) = [step for step in talk.link.on_due(talk.link.due) if isinstance(step, Over)]
    assert over.verdict.reason == f"a hook (BeforeAgent) stopped the turn: {WORDS}"
    assert talk.link.due is None and not talk.link.busy
