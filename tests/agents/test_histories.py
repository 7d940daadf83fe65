"""What the CLIs' own transcripts say of a turn that was on their screen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from beam.agents.aider import history as aider
from beam.agents.base import History, Host, Transcript, Turn, Verdict
from beam.agents.claude import screen as claude
from beam.agents.codex import history as codex
from beam.agents.gemini import history as gemini
from beam.model import events
from beam.model.outcome import Class, Status

PLACE = Path(__file__).parents[1] / "recordings"
ROLLOUT = PLACE / "codex" / "0.169.0" / "rollout-screen.jsonl"
CHAT = PLACE / "gemini" / "0.61.0" / "chat-screen.jsonl"
HISTORY = PLACE / "aider" / "0.86.2" / "history-screen.md"
CODEX_CWD = "/tmp/proft-kpfs_irl/project"
THREAD = "01a200e3-58ec-7ca0-a937-ca868a2044c0"
AT = "2026-11-24T11:09:04.333Z"
UUID = "11111111-2222-4333-8444-555555555555"


def turn(text: str, **fields: Any) -> Turn:
    return Turn(text=text, message_id="x-1", agent="x", **fields)


def read(history: History, path: Path, asked: Turn) -> tuple[Transcript, list[events.Event]]:
    """The transcript after these lines, up to where it says that the turn is over."""
    transcript, bodies = history.transcript(asked), []
    for line in path.read_bytes().split(b"\n"):
        bodies += transcript.line(line)
        if transcript.state == "done":
            break
    return transcript, bodies


def test_codexs_rollout_says_answer_tokens_model_and_thread() -> None:
    transcript, bodies = read(codex, ROLLOUT, turn("again", cwd=CODEX_CWD, session_id=THREAD))
    verdict = transcript.verdict()
    assert (transcript.state, verdict.status, verdict.reply) == ("done", Status.COMPLETED, "ECHO[again] turns=2")
    assert (verdict.session_id, verdict.model) == (THREAD, "gpt-5.5")
    assert (verdict.usage.input_tokens, verdict.usage.output_tokens) == (10423, 4)
    assert [type(body) for body in bodies] == [events.SessionStarted, events.Text, events.UsageSeen]


def test_codexs_rollout_says_why_a_turn_failed() -> None:
    transcript, _ = read(codex, ROLLOUT, turn("!error 400", cwd=CODEX_CWD))
    verdict = transcript.verdict()
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.BAD_REQUEST, None)
    assert transcript.error == verdict.reason == "scripted error 400"


def test_codexs_rollout_of_another_folder_or_text_says_nothing() -> None:
    for asked in (turn("again", cwd="/elsewhere"), turn("agai", cwd=CODEX_CWD), turn("ECHO[again]", cwd=CODEX_CWD)):
        transcript, bodies = read(codex, ROLLOUT, asked)
        assert (transcript.state, bodies) == ("", [])


def test_codexs_interrupted_turn_is_over_and_no_answer() -> None:
    lines = ROLLOUT.read_bytes().split(b"\n")
    over = next(line for line in lines if b'"task_complete"' in line)
    transcript = codex.transcript(turn("hello", cwd=CODEX_CWD))
    for line in lines[: lines.index(over)]:
        transcript.line(line)
    assert transcript.state == "working"
    transcript.line(over.replace(b"task_complete", b"turn_aborted").replace(b'"ECHO[hello] turns=1"', b"null"))
    assert (transcript.state, transcript.verdict().status) == ("done", Status.CANCELLED)


def test_the_file_of_a_known_thread_is_named_and_a_folders_name_is_no_pattern() -> None:
    host = Host(home="/h[1]")
    assert codex.where(turn("x"), host) == "/h[[]1]/.codex/sessions/*/*/*/rollout-*.jsonl"
    assert codex.where(turn("x", session_id=THREAD), host).endswith(f"/rollout-*-{THREAD}.jsonl")
    assert (
        gemini.where(turn("x", session_id="abcdefg_h"), host) == "/h[[]1]/.gemini/tmp/*/chats/session-*-abcdefg_.jsonl"
    )
    assert gemini.where(turn("x"), host) == ""


def test_geminis_chat_says_answer_and_tokens_and_never_that_it_is_over() -> None:
    transcript, bodies = read(gemini, CHAT, turn("SLOW hello\nsecond line !slow 8", session_id="s-1"))
    assert (transcript.state, gemini.tells_end) == ("working", False)
    first = [body for body in bodies if isinstance(body, events.Text)]
    assert [body.text for body in first] == ["ECHO[SLOW hello\nsecond line !slow 8] turns=1"]
    assert isinstance(bodies[0], events.SessionStarted) and bodies[0].resumed


def test_geminis_answer_after_a_tool_and_the_tokens_of_both_calls_are_in_its_chat() -> None:
    transcript, bodies = read(gemini, CHAT.with_name("chat-tool-screen.jsonl"), turn("PLAINASK now", session_id="s-1"))
    verdict = transcript.verdict()
    assert verdict.reply == "it is done"
    assert (verdict.usage.input_tokens, verdict.usage.output_tokens, verdict.usage.calls) == (26792, 16, 2)
    kinds = [events.SessionStarted, events.Text, events.ToolCalled, events.ToolReturned, events.Text]
    assert [type(body) for body in bodies] == kinds


def test_geminis_calls_are_events_once_and_leave_no_answer_before_them() -> None:
    text = '!tool run_shell_command {"command":"touch zz","description":"make a file"}'
    transcript, bodies = read(gemini, CHAT, turn(text, session_id="s-1"))
    called = [body for body in bodies if isinstance(body, events.ToolCalled)]
    returned = [body for body in bodies if isinstance(body, events.ToolReturned)]
    assert ([body.name for body in called], [body.is_error for body in returned]) == (["run_shell_command"], [True])
    assert "denied" in returned[0].output
    assert (transcript.verdict().session_id, transcript.verdict().reply) == ("s-1", None)


@pytest.mark.parametrize(
    ("result", "output"),
    [
        (
            [{"functionResponse": {"response": {"output": "a"}}}, {"functionResponse": {"response": {"error": "b"}}}],
            "a\nb",
        ),
        ([{"functionResponse": {"response": {"other": "a"}}}], '[{"functionResponse": {"response": {"other": "a"}}}]'),
        ([], "[]"),
        ("é", '"é"'),
    ],
)
def test_what_a_call_of_gemini_returned_is_its_text_without_the_form_around_it(result: object, output: str) -> None:
    assert gemini.output_of({"result": result}) == output


def test_aiders_history_has_the_answer_verbatim_and_not_what_aider_says() -> None:
    transcript, _ = read(aider, HISTORY, turn("SLOW hello\nsecond line !slow 8", fresh_session_id=UUID))
    verdict = transcript.verdict()
    assert verdict.reply is not None and verdict.reply.startswith("ECHO[SLOW hello\nsecond line !slow 8\n\nTo suggest")
    assert transcript.state == "working" and "Tokens:" not in verdict.reply and verdict.session_id == UUID
    assert verdict.status is Status.COMPLETED


def test_an_answer_in_which_lines_look_like_aiders_own_is_not_called_verbatim() -> None:
    transcript = aider.transcript(turn("hi", fresh_session_id=UUID))
    lines = (
        b"#### hi  ",
        b"",
        b"one",
        b"> quoted",
        b"> Tokens: 3 sent.  ",
        b"two",
        b"",
        b"> Tokens: 3 sent, 5 received.  ",
    )
    for line in lines:
        transcript.line(line)
    verdict = transcript.verdict()
    assert (verdict.status, verdict.reply, verdict.lossy) == (Status.COMPLETED, "one\n> quoted\ntwo", True)


def test_no_line_makes_a_transcript_fail() -> None:
    for history in (codex, gemini, aider):
        transcript = history.transcript(turn("hi", fresh_session_id=UUID))
        for line in (
            b"",
            b"\xff\xfe",
            b"[]",
            b"{}",
            b'{"type":"event_msg","payload":[]}',
            b'{"type":"gemini","content":7}',
        ):
            assert list(transcript.line(line)) == []
        assert transcript.state == ""


FAILURE = b"> litellm.APIConnectionError: OpenAIException - peer closed connection  "
WHOLE = b"> Tokens: 2 sent, 7 received.  "


def of_aider(*lines: bytes, text: str = "hi", **fields: Any) -> Verdict:
    transcript = aider.transcript(turn(text, fresh_session_id=UUID, **fields))
    for line in (f"#### {text}  ".encode(), b"", *lines):
        transcript.line(line)
    return transcript.verdict()


def test_half_an_answer_of_aider_before_a_failure_is_a_failed_turn_and_no_reply() -> None:
    verdict = of_aider(b"The first half of the ans", b"", FAILURE)
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.NETWORK, None)
    assert str(verdict.reason).startswith("litellm.APIConnectionError: ")


def test_an_answer_of_aider_that_its_token_limit_cut_off_is_truncated() -> None:
    verdict = of_aider(b"The first half", b"", b"> Model x has hit a token limit!  ", b"> Token counts below are  ")
    assert (verdict.status, verdict.reply) == (Status.TRUNCATED, "The first half")


def test_what_aider_wrote_before_it_tried_again_is_no_part_of_the_reply() -> None:
    verdict = of_aider(b"Half of", b"", FAILURE, b"> Retrying in 0.2 seconds...  ", b"", b"All of it", b"", WHOLE)
    assert (verdict.status, verdict.reply, verdict.lossy) == (Status.COMPLETED, "All of it", UNSET)


def test_an_aider_whose_last_try_failed_too_has_failed() -> None:
    again = (FAILURE, b"> Retrying in 0.2 seconds...  ")
    verdict = of_aider(b"Half", b"", *again, b"", b"Half of", b"", b"> litellm.RateLimitError: slow down  ")
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.RATE_LIMIT)
    assert verdict.reason == "litellm.RateLimitError: slow down"


def test_a_request_of_aider_that_fails_after_its_first_answer_fails_the_turn() -> None:
    assert of_aider(b"Here", b"", WHOLE, b"> litellm.RateLimitError: slow down  ").status is Status.FAILED


def test_half_an_answer_of_aider_without_any_word_on_it_is_a_failed_turn() -> None:
    assert of_aider(b"Half", b"").reason == "aider did not say that its answer is whole"


def test_an_answer_of_aider_that_somebody_interrupted_is_cancelled_with_what_there_is() -> None:
    verdict = of_aider(b">   ", b"> ^C again to exit  ", b"", b"The first half", b"")
    assert (verdict.status, verdict.reply) == (Status.CANCELLED, "The first half")


def test_an_answer_that_a_content_filter_stopped_in_aider_is_refused() -> None:
    failure = b"> litellm.ContentPolicyViolationError: rejected because of our content policy  "
    assert of_aider(b"The", b"", failure).status is Status.REFUSED


@pytest.mark.parametrize(
    "lines",
    [
        (b"> Applied edit to made.txt  ", b"> Commit dfbbb84 Here it is:", b"", b"made.txt  "),
        (b"> echo one", b"echo two  ", b"> Run shell command? (Y)es/(N)o/(D)on't ask again [Yes]: n  "),
        (b"> path/to/filename.js  ", b">   ", b"> ^C again to exit  "),
    ],
)
def test_what_aider_says_of_its_edits_after_an_answer_leaves_the_turn_completed(lines: tuple[bytes, ...]) -> None:
    assert of_aider(b"Here it is:", b"", WHOLE, *lines).status is Status.COMPLETED


def test_aiders_line_of_the_cost_is_no_part_of_the_reply() -> None:
    told = b"> Tokens: 2k sent, 1k cache write, 3 cache hit, 7 received."
    verdict = of_aider(b"Here", b"", told, b"Cost: $0.01 message, $0.02 session.  ")
    assert (verdict.status, verdict.reply, verdict.lossy) == (Status.COMPLETED, "Here", UNSET)


def test_what_a_command_of_aiders_screen_prints_is_no_broken_off_answer() -> None:
    told = (b"> commit 1", b"Author: x")
    assert of_aider(*told, text="/git log", slash=True).status is Status.COMPLETED
    assert of_aider(*told, text="/git log").status is Status.FAILED, "with a blank before it, it is a prompt"


@pytest.mark.parametrize(
    ("history", "asked", "prompt"),
    [
        (codex, turn("go", cwd="/p", session_id=THREAD), {"type": "event_msg", "payload": {"type": "user_message"}}),
        (gemini, turn("go", session_id="s-1"), {"type": "user", "id": "1", "content": "go"}),
        (
            *(claude, turn("go", session_id=UUID)),
            {"type": "user", "uuid": "1", "sessionId": UUID, "timestamp": AT, "message": {"content": "go"}},
        ),
    ],
)
def test_a_line_of_the_turn_that_can_not_be_read_is_in_the_journal(
    history: History, asked: Turn, prompt: dict[str, Any]
) -> None:
    transcript = history.transcript(asked)
    if history is codex:
        prompt["payload"]["message"] = "go"
    transcript.line(json.dumps(prompt).encode())
    assert transcript.state == "working"
    found = [*transcript.line(b'{"type":"user","torn'), *transcript.line(b"")]
    assert [body.what for body in found if isinstance(body, events.Unknown)] == ["not JSON"] and len(found) == 1


def test_of_a_line_that_two_processes_of_claude_wrote_the_whole_records_count() -> None:
    answer = {
        "type": "assistant",
        "uuid": "2",
        "sessionId": UUID,
        "timestamp": AT,
        "message": {"id": "m", "model": "x", "content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"},
    }
    transcript = claude.transcript(turn("go", session_id=UUID))
    prompt = {"type": "user", "uuid": "1", "sessionId": UUID, "timestamp": AT, "message": {"content": "go"}}
    transcript.line(json.dumps(prompt).encode())
    found = transcript.line(json.dumps(prompt).encode()[:70] + json.dumps(answer).encode())
    assert [type(body) for body in found] == [events.Text, events.Unknown]
    assert transcript.verdict().reply == "done"


def test_a_turn_in_a_thread_of_codex_from_before_items_has_its_calls_and_its_answer() -> None:
    asked = turn("Why is checkout slow?", cwd="/srv/shop", session_id="019f0000-0000-7000-8000-00000000000a")
    transcript, bodies = read(codex, PLACE / "sessions/codex-0.144.4/legacy.jsonl", asked)
    calls = [body for body in bodies if isinstance(body, events.ToolCalled)]
    assert [call.call_id for call in calls] == ["c1", "c2", "c3", "c4", "c5", "ws1"]
    assert [body.is_error for body in bodies if isinstance(body, events.ToolReturned)] == [False, True, *[False] * 3]
    assert transcript.verdict().reply == "An index is missing on orders.user_id."
