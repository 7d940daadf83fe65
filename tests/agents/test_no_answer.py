"""What headless CLIs print if their model gives no answer, or no whole one, and what beam makes of it.

The lines are those of the real CLIs (the versions in `SEEN`), shortened to the fields that beam reads. The real CLIs
themselves are tried in `tests/conformance/test_cells_outcomes.py`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.aider.decode import split_thoughts
from beam.agents.base import Exit, Turn
from beam.agents.failures import class_of, is_refusal
from beam.model import events
from beam.model.outcome import Class, Status
from beam.turns.outcome import is_work, require_answer

SEEN = {"aider": "0.86.2", "kilo": "7.7.7", "cline": "3.0.65", "cn": "1.5.47", "kimi": "2.1.0", "vibe": "3.0.2"}
EMPTY, CUT = (Status.FAILED, Class.EMPTY), (Status.TRUNCATED, None)
ANNOUNCED = ("Aider v0.86.2", "Model: openai/scripted with ask edit format", "Git repo: none", "Repo-map: disabled", "")
THOUGHT = ("--------------", "► **THINKING**", "", "let me see")
KIMI_EMPTY = (
    "The API returned an empty response (no content, no tool calls). Provider stop details: finishReason=completed, "
    "rawFinishReason=stop. Provider: openai, model: scripted"
)
KIMI_THOUGHTS = (
    "The API returned a response containing only thinking content without any text or tool calls. This usually "
    "indicates the stream was interrupted or the output token budget was exhausted during reasoning."
)


def vibe(text: str, outcome: str = "committed") -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "message", "role": "assistant", "sessionId": "s", "content": content, "outcome": {"type": outcome}}


def kimi_retry(reason: str) -> dict[str, Any]:
    attempts = {"failed_attempt": 4, "next_attempt": 5, "max_attempts": 10}
    return {"role": "meta", "type": "turn.step.retrying", "error_message": reason, **attempts}


def cline(reason: str, text: str) -> dict[str, Any]:
    return {"type": "run_result", "finishReason": reason, "text": text, "usage": {"inputTokens": 9, "outputTokens": 1}}


CASES: dict[str, tuple[str, tuple[Any, ...], Exit, tuple[Status, Class | None], str | None]] = {
    "aider empty": (
        "aider",
        (*ANNOUNCED, "Empty response received from LLM. Check your provider account?", "Tokens: 83 sent, 0 received."),
        Exit(code=0),
        EMPTY,
        None,
    ),
    "aider thoughts": ("aider", (*ANNOUNCED, *THOUGHT, "", "Tokens: 89 sent, 28 received."), Exit(code=0), EMPTY, None),
    "aider thoughts and an answer": (
        "aider",
        (*ANNOUNCED, *THOUGHT, "", "------------", "► **ANSWER**", "", "yes", "Tokens: 89 sent, 28 received."),
        Exit(code=0),
        (Status.COMPLETED, None),
        "yes",
    ),
    "cn empty": ("cn", (), Exit(code=0), EMPTY, None),
    "cn killed": ("cn", (), Exit(signal="SIGKILL"), (Status.FAILED, Class.CRASHED), None),
    "cline empty": ("cline", (cline("error", "Model returned empty response"),), Exit(code=1), EMPTY, None),
    "cline thoughts": ("cline", (cline("completed", ""),), Exit(code=0), EMPTY, None),
    "cline cut": (
        "cline",
        (
            {"type": "agent_event", "event": {"type": "content_end", "contentType": "text", "text": "part"}},
            cline("error", "Model reached the maximum output token limit before completing the turn"),
        ),
        Exit(code=1),
        CUT,
        "part",
    ),
    "kilo empty": (
        "kilo",
        ({"type": "error", "error": "run ended without an assistant message; the model returned no output"},),
        Exit(code=1),
        EMPTY,
        None,
    ),
    "kimi empty": ("kimi", (kimi_retry(KIMI_EMPTY),), Exit(stopped_by="retries"), EMPTY, None),
    "kimi thoughts": ("kimi", (kimi_retry(KIMI_THOUGHTS),), Exit(stopped_by="retries"), EMPTY, None),
    "kimi refused": (
        "kimi",
        (),
        Exit(code=1, stderr_tail="error: failed to run prompt: Provider safety policy blocked the response."),
        (Status.REFUSED, None),
        None,
    ),
    "vibe empty": ("vibe", (vibe(" "),), Exit(code=0), EMPTY, None),
    "vibe thoughts": ("vibe", ({"type": "message", "role": "user", "sessionId": "s"},), Exit(code=0), EMPTY, None),
    "vibe cut": (
        "vibe",
        (vibe("part", "discarded"), vibe("a part of an answer", "committed")),
        Exit(code=3, stderr_tail="Reading API keys\nStopped: length"),
        CUT,
        "a part of an answer",
    ),
    "vibe quotes its own end": (
        "vibe",
        (vibe("Stopped: length"),),
        Exit(code=0),
        (Status.COMPLETED, None),
        "Stopped: length",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_turn_without_a_whole_answer_says_so(case: str) -> None:
    name, lines, exit, expected, reply = CASES[case]
    adapter = registry.adapter(name)
    assert SEEN[name] in adapter.card.versions
    assert adapter.exec is not None
    decoder = adapter.exec.decoder(Turn(text="hello", message_id="m", agent=name, access="full"))
    emitted = [
        event
        for line in lines
        for event in decoder.line((line if isinstance(line, str) else json.dumps(line)).encode())
    ]
    _, verdict = decoder.end(exit)
    found = require_answer(verdict, name, worked=any(map(is_work, emitted)))
    assert ((found.status, found.class_), found.reply) == (expected, reply), found.reason
    if "thoughts" in case and name == "aider":
        assert [event.text for event in emitted if isinstance(event, events.Thinking)] == ["let me see"]


@pytest.mark.parametrize(
    ("text", "thoughts", "answer"),
    [
        ("an answer", "", "an answer"),
        ("\n".join((*THOUGHT, "")), "let me see", ""),
        ("\n".join((*THOUGHT, "", "------------", "► **ANSWER**", "", "yes", "no")), "let me see", "yes\nno"),
        ("Look:\n" + "\n".join(THOUGHT), "", "Look:\n" + "\n".join(THOUGHT)),  # the model quotes aider's headings
        ("<thinking-content-7bbeb8e1441453ad999a0bbba8a46d4b>\n\nhm\n", "hm", ""),
        ("Empty response received from LLM. Check your provider account?\n", "", ""),
        ("It said: Empty response received from LLM.", "", "It said: Empty response received from LLM."),
    ],
)
def test_aiders_thoughts_are_no_part_of_its_answer(text: str, thoughts: str, answer: str) -> None:
    assert split_thoughts(text) == (thoughts, answer)


@pytest.mark.parametrize(
    "text", [KIMI_EMPTY, KIMI_THOUGHTS, "Model returned empty response", "No response was returned. Send it again."]
)
def test_the_clis_words_for_an_empty_answer_have_the_class_empty(text: str) -> None:
    assert (class_of(None, text), is_refusal(text)) == (Class.EMPTY, False)
