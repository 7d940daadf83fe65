"""How a turn over ACP ended, where the agent says more than the protocol can."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from beam.agents.base import Verdict
from beam.agents.claude_agent_acp.dialogue import DIALECT as CLAUDE
from beam.agents.claude_agent_acp.result import ResultReader
from beam.agents.codex_acp.dialogue import DIALECT as CODEX
from beam.agents.link import Over
from beam.model.outcome import Class, Status
from tests.support.acp_dialogue import DIALECT, Talk, talking, turn

FAILING = {"codex": {"threadStatus": {"type": "systemError"}}}
CUT = "Incomplete response returned, reason: max_output_tokens\n\n"
REFUSED = "Incomplete response returned, reason: content_filter"
WORDS = "policy says stop"


def ended(talk: Talk) -> Verdict:
    (found,) = [step.verdict for step in talk.steps if isinstance(step, Over)]
    return found


def plain(dialect: Any) -> Any:
    """The dialect with the modes of the tests' agent."""
    return structs.replace(dialect, modes=DIALECT.modes, sets_model=False)


@pytest.mark.parametrize(("words", "status"), [(CUT, Status.TRUNCATED), (REFUSED, Status.REFUSED)])
def test_codex_says_in_a_text_how_an_answer_ended_and_that_text_is_no_part_of_the_answer(
    words: str, status: Status
) -> None:
    talk = talking(plain(CODEX))
    talk.text("Half an ans")
    talk.text(words)
    talk.say("session_info_update", _meta=FAILING)
    talk.complete()
    assert (ended(talk).status, ended(talk).class_) == (status, None)
    assert ended(talk).reply == ("Half an ans" if status is Status.TRUNCATED else None)


def test_a_model_that_writes_these_words_itself_gave_its_answer() -> None:
    talk = talking(plain(CODEX))
    talk.text("It printed: ")
    talk.text(CUT)
    talk.complete()
    assert ended(talk).status is Status.COMPLETED
    assert CUT.strip() in (ended(talk).reply or "")


@pytest.mark.parametrize("dialect", [CODEX, CLAUDE, DIALECT])
def test_a_turn_without_a_word_is_empty(dialect: Any) -> None:
    talk = talking(plain(dialect))
    talk.complete()
    assert (ended(talk).status, ended(talk).class_, ended(talk).reply) == (Status.FAILED, Class.EMPTY, None)


@pytest.mark.parametrize(
    ("dialect", "name", "partial"),
    [(CODEX, "spawnAgent", True), (CODEX, "Start subagent a", True), (CODEX, "shell", False), (CLAUDE, "Task", True)],
)
def test_figures_without_those_of_a_subagent_say_so(dialect: Any, name: str, *, partial: bool) -> None:
    talk = talking(plain(dialect))
    named = {"_meta": {"claudeCode": {"toolName": name}}} if dialect is CLAUDE else {}
    talk.say("tool_call", toolCallId="1", title=name, kind="other", status="in_progress", rawInput={"a": 1}, **named)
    talk.say("tool_call_update", toolCallId="1", status="completed")
    talk.text("done")
    talk.complete()
    assert (ended(talk).partial is True) is partial


def test_only_an_agent_that_knows_notices_is_asked_to_send_them_apart() -> None:
    for dialect, notices in ((CLAUDE, {"session": {"notices": {}}}), (DIALECT, {})):
        talk = Talk(turn(), dialect)
        assert talk.last("initialize")["params"]["clientCapabilities"] == notices


def told(talk: Talk, **message: Any) -> None:
    talk.hear({"method": "_claude/sdkMessage", "params": {"sessionId": "s-1", "message": message}})


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "x", **fields}


def test_a_prompt_that_a_hook_of_claudes_stopped_has_no_reply() -> None:
    talk = talking(plain(CLAUDE))
    block = {"prevent_continuation": True, "content": f"blocked by hook:\n{WORDS}\n\nOriginal prompt: hi"}
    told(talk, type="system", subtype="informational", **block)
    talk.text(f"**Warning:** {WORDS}")
    told(talk, **result(num_turns=0))
    talk.complete()
    found = ended(talk)
    assert (found.status, found.class_, found.reply) == (Status.FAILED, Class.STOPPED, None)
    assert WORDS in (found.reason or "")


def test_a_turn_that_a_hook_of_claudes_stopped_has_the_hooks_words() -> None:
    talk = talking(plain(CLAUDE))
    hook = {"hook_name": "PreToolUse:Bash", "stdout": f'{{"continue": false, "stopReason": "{WORDS}"}}'}
    told(talk, type="system", subtype="hook_response", **hook)
    told(talk, **result(terminal_reason="hook_stopped", result=""))
    talk.complete()
    assert (ended(talk).status, ended(talk).class_) == (Status.FAILED, Class.STOPPED)
    assert (ended(talk).reason or "").endswith(WORDS)


def test_an_answer_that_claudes_token_limit_cut_off_is_kept() -> None:
    talk = talking(plain(CLAUDE))
    talk.text("Half ", messageId="1")
    talk.text("an ans", messageId="2")
    talk.text("API Error: too long", messageId="3")
    told(talk, **result(is_error=True, api_error="max_output_tokens", result="API Error: too long"))
    talk.reply("session/prompt", error={"code": -32603, "message": "Internal error: API Error: too long"})
    assert (ended(talk).status, ended(talk).reply) == (Status.TRUNCATED, "Half an ans")


def test_a_result_that_says_success_changes_nothing() -> None:
    for messages in ([], [result(terminal_reason="completed")], [{"type": "junk"}]):
        talk = talking(plain(CLAUDE))
        for message in messages:
            told(talk, **message)
        talk.text("All.")
        talk.complete()
        assert (ended(talk).status, ended(talk).reply) == (Status.COMPLETED, "All.")


def test_only_claudes_own_method_is_read() -> None:
    reader = ResultReader(turn())
    reader.read("_other/message", {"message": result(terminal_reason="hook_stopped")})
    verdict = Verdict(status=Status.COMPLETED, reply="All.")
    assert reader.refine(verdict) == verdict
