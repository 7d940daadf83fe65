"""Codex's link by itself: the order of a conversation, what it asks, and what it never does."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw, structs

from beam.agents.base import Exit, Host
from beam.agents.codex import dialogue
from beam.agents.codex.dialogue.conversation import IDLE_S
from beam.agents.link import (
    Acknowledged,
    Act,
    Answered,
    Asked,
    Close,
    Decide,
    Interrupt,
    Over,
    Prompt,
    Query,
    Ready,
    Send,
    Set,
    Steer,
    Stirred,
    Withdrawn,
)
from beam.base.errors import UnsupportedError
from beam.model import events
from beam.model.outcome import Class, Point, Status, Total
from tests.support.codex_dialogue import THREAD, TURN, Talk, opened, turn
from tests.support.dialogue import broken, kinds, over

COMMAND = "item/commandExecution/requestApproval"
FILES = "item/fileChange/requestApproval"
SESSION = "01a1ffcb-0000-7de1-9163-f0734fe9ae5a"
CALL = {"id": "call_1", "type": "commandExecution", "command": "/bin/bash -lc ls", "status": "inProgress"}


def talking(**fields: Any) -> Talk:
    """A conversation in the middle of its first turn."""
    talk = Talk(turn(**fields))
    talk.begin(fields.get("session_id") or THREAD)
    talk.prompt()
    return talk


# -- its beginning -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_turn_from_the_first_frame_to_its_end() -> None:
    talk = Talk()
    assert kinds(talk.begin()) == ["Ready"]
    assert kinds(talk.do(Prompt(turn=talk.turn))) == ["Send"] and talk.link.busy
    assert kinds(talk.reply("turn/start", {"turn": {"id": TURN}})) == ["Acknowledged", "SessionStarted"]
    talk.say("item/agentMessage/delta", itemId="m", delta="he")
    talk.say("item/completed", item={"type": "agentMessage", "id": "m", "text": "hello"})
    assert kinds(talk.complete()) == ["Over"] and not talk.link.busy
    verdict = over(talk).verdict
    assert (verdict.status, verdict.reply, verdict.session, verdict.session_id) == (
        Status.COMPLETED,
        "hello",
        "new",
        THREAD,
    )
    assert kinds(talk.do(Close())) == ["Eof"]


@pytest.mark.parametrize(
    ("access", "thread", "prompt"),
    [
        ("read", {"permissions": "beam-read", "approvalPolicy": "never"}, {"approvalPolicy": "never"}),
        ("ask", {"permissions": "beam-read", "approvalPolicy": "on-request"}, {"approvalPolicy": "on-request"}),
        (
            "edit",
            {"sandbox": "read-only", "approvalPolicy": "never"},
            {
                "approvalPolicy": "never",
                "sandboxPolicy": {
                    "type": "workspaceWrite",
                    "writableRoots": ["/scratch"],
                    "networkAccess": False,
                    "excludeTmpdirEnvVar": False,
                    "excludeSlashTmp": True,
                },
            },
        ),
        (
            "full",
            {"sandbox": "read-only", "approvalPolicy": "never"},
            {"approvalPolicy": "never", "sandboxPolicy": {"type": "dangerFullAccess"}},
        ),
    ],
)
def test_a_thread_begins_as_one_that_reads_and_each_turn_says_what_it_may(
    access: str, thread: dict[str, Any], prompt: dict[str, Any]
) -> None:
    talk = Talk(turn(access=access, scratch="/scratch"))
    talk.begin()
    talk.prompt()
    assert talk.last("thread/start")["params"] == {"cwd": "/p", "approvalsReviewer": "user", **thread}
    said = talk.last("turn/start")["params"]
    assert {name: said[name] for name in said if name not in ("threadId", "input", "approvalsReviewer")} == prompt
    assert said["approvalsReviewer"] == "user"


def test_a_turn_that_edits_has_the_persons_own_network_and_folders() -> None:
    talk = Talk(turn(access="edit", scratch="/scratch"))
    talk.reply("initialize")
    own = {"network_access": True, "writable_roots": ["/own"], "exclude_slash_tmp": False}
    talk.reply("config/read", {"config": {"sandbox_workspace_write": own}})
    talk.reply("account/read", {"requiresOpenaiAuth": False})
    talk.reply("thread/start", opened(talk.turn))
    talk.prompt()
    policy = talk.last("turn/start")["params"]["sandboxPolicy"]
    assert (policy["networkAccess"], policy["writableRoots"]) == (True, ["/own", "/scratch"])
    assert policy["excludeSlashTmp"] is True


@pytest.mark.parametrize(
    "answer",
    [
        {"approvalPolicy": "on-request"},
        {"approvalsReviewer": "auto_review"},
        {"sandbox": {"type": "workspaceWrite"}},
        {"activePermissionProfile": None},
        {"activePermissionProfile": {"id": "mine"}},
    ],
)
def test_a_thread_with_other_rights_is_given_no_prompt(answer: dict[str, Any]) -> None:
    talk = Talk(turn(access="read"))
    assert kinds(talk.begin(**answer)) == ["Broken"]
    assert broken(talk).class_ is Class.UNSUPPORTED
    assert talk.do(Prompt(turn=talk.turn)) == []


def test_the_process_of_one_that_reads_has_a_profile_that_no_rule_leads_out_of() -> None:
    argv = dialogue.launch(turn(access="read"), Host(executable="/codex")).argv
    assert argv[:2] == ("/codex", "app-server")
    assert 'default_permissions="beam-read"' in argv
    assert 'permissions.beam-read.filesystem={":root"="read","/.beam-closed/*"="deny"}' in argv
    assert not any("permissions" in word for word in dialogue.launch(turn(access="edit"), Host()).argv)


@pytest.mark.parametrize("fields", [{"session_id": "a name"}, {"model": "-m"}, {"access": "other"}])
def test_what_codex_cant_do_is_refused_before_it_is_started(fields: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError):
        dialogue.launch(turn(**fields), Host())


def test_a_session_that_codex_has_not_is_lost() -> None:
    talk = Talk(turn(session_id=SESSION))
    talk.reply("initialize")
    talk.reply("account/read", {"requiresOpenaiAuth": False})
    steps = talk.reply("thread/resume", error=f"no rollout found for thread id {SESSION}")
    assert kinds(steps) == ["SessionLost", "Broken"]


def reverting(upto: str) -> Talk:
    """A talk whose thread is open and is to end with that turn."""
    talk = Talk(turn(session_id=THREAD, upto=upto))
    assert kinds(talk.begin()) == ["Send"]
    return talk


def page(*ids: str, cursor: str | None = None) -> dict[str, Any]:
    return {"data": [{"id": each} for each in ids], "nextCursor": cursor}


def test_the_turns_after_the_last_that_counts_are_taken_back_before_a_prompt_can_come() -> None:
    talk = reverting("t-2")
    assert kinds(talk.reply("thread/turns/list", page("t-5", "t-4", cursor="c"))) == ["Send"]
    assert talk.last("thread/turns/list")["params"]["cursor"] == "c"
    talk.reply("thread/turns/list", page("t-3", "t-2", "t-1"))
    assert talk.last("thread/revert")["params"] == {"threadId": THREAD, "beforeTurnId": "t-3"}
    assert kinds(talk.reply("thread/revert", {})) == ["Ready"]


def test_a_thread_that_ends_there_already_is_left_as_it_is() -> None:
    talk = reverting("t-2")
    assert kinds(talk.reply("thread/turns/list", page("t-2", "t-1"))) == ["Ready"]


@pytest.mark.parametrize("answer", [page("t-9"), page(), {"data": "x", "nextCursor": 7}])
def test_without_that_turn_no_prompt_is_sent(answer: dict[str, Any]) -> None:
    talk = reverting("t-2")
    assert kinds(talk.reply("thread/turns/list", answer)) == ["Broken"]


def test_a_thread_that_cant_be_taken_back_gets_no_prompt() -> None:
    talk = reverting("t-2")
    talk.reply("thread/turns/list", page("t-3", "t-2"))
    assert kinds(talk.reply("thread/revert", error="turn not found")) == ["Broken"]


def test_a_copy_ends_with_the_turn_that_it_was_told_and_a_turn_says_where_it_lies() -> None:
    talk = Talk(turn(session_id=SESSION, fork=True, upto="t-2"))
    talk.begin()
    assert talk.last("thread/fork")["params"]["lastTurnId"] == "t-2"
    talk.prompt()
    talk.complete()
    assert over(talk).verdict.point == Point(begins=TURN, ends=TURN)


@pytest.mark.parametrize(
    ("error", "class_"),
    [
        ("thread X already has an active writer", Class.BAD_REQUEST),
        ("session X is archived. Run `codex unarchive X`", Class.BAD_REQUEST),
        ("unexpected status 401 Unauthorized", Class.AUTH),
    ],
)
def test_a_thread_that_cant_be_opened_is_no_lost_session(error: str, class_: Class) -> None:
    talk = Talk(turn(session_id=SESSION))
    talk.reply("initialize")
    assert kinds(talk.reply("thread/resume", error=error)) == ["Broken"]
    assert broken(talk).class_ is class_ and error in broken(talk).reason


@pytest.mark.parametrize(("fields", "thread"), [({}, SESSION + "0"), ({"fork": True}, SESSION)])
def test_another_thread_than_the_asked_one_is_given_no_prompt(fields: dict[str, Any], thread: str) -> None:
    talk = Talk(turn(session_id=SESSION, **fields))
    talk.begin(thread)
    assert "was not asked for" in broken(talk).reason


def test_without_a_login_no_prompt_is_sent_and_no_other_answer_waited_for() -> None:
    talk = Talk()
    talk.reply("initialize")
    assert kinds(talk.reply("account/read", {"account": None, "requiresOpenaiAuth": True})) == ["Broken"]
    assert broken(talk).class_ is Class.AUTH
    assert talk.link.due is None


@pytest.mark.parametrize("silent", ["initialize", "thread/start", "account/read", "turn/start"])
def test_a_request_without_an_answer_is_late_at_its_time_and_not_before(silent: str) -> None:
    talk = Talk()
    if silent != "initialize":
        talk.reply("initialize")
    if silent not in ("initialize", "account/read"):
        talk.reply("account/read", {})
    if silent in ("account/read", "turn/start"):
        talk.reply("thread/start", opened(talk.turn))
    if silent == "turn/start":
        talk.do(Prompt(turn=talk.turn))
    assert talk.link.due is not None
    assert talk.wake(talk.link.due - 0.1) == []
    assert kinds(talk.wake(talk.now + 0.2)) == ["Broken"]
    assert (talk.link.due, talk.link.busy) == (None, False)


# -- a turn ------------------------------------------------------------------------------------------------------------


def test_the_turn_may_be_told_before_its_request_is_answered() -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    assert kinds(talk.say("turn/started", turn={"id": TURN})) == ["Acknowledged", "SessionStarted"]
    assert talk.reply("turn/start", {"turn": {"id": TURN}}) == []
    talk.complete()
    assert over(talk).fit


def test_an_answer_of_another_turn_is_no_answer() -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    talk.say("turn/started", turn={"id": "other"})
    assert kinds(talk.reply("turn/start", {"turn": {"id": TURN}})) == ["Broken"]


def test_the_end_of_another_turn_or_thread_ends_nothing() -> None:
    talk = talking()
    assert talk.complete(turn_id="other") == []
    assert talk.hear({"method": "turn/completed", "params": {"threadId": "child", "turn": {"id": TURN}}}) == []
    assert talk.link.busy


def test_the_next_turn_counts_from_the_one_before_and_resumes() -> None:
    talk = talking()
    for number, used in enumerate((100, 250)):
        if number:
            talk.prompt(turn(session_id=THREAD, message_id="codex-2"), "second")
        total = {"inputTokens": used, "cachedInputTokens": 10, "outputTokens": number}
        params = {"threadId": THREAD, "turnId": ("second" if number else TURN), "tokenUsage": {"total": total}}
        talk.hear({"method": "thread/tokenUsage/updated", "params": params})
        talk.complete(turn_id="second" if number else TURN)
    first, second = [step.verdict for step in talk.steps if isinstance(step, Over)]
    assert (first.usage.input_tokens, second.usage.input_tokens) == (90, 150)
    assert (first.session, second.session) == ("new", "resumed")


def test_the_tokens_of_a_turn_that_ended_before_its_first_call_did_are_not_known() -> None:
    talk = talking()
    for number in range(2):
        if number:
            talk.prompt(turn(session_id=THREAD, message_id="codex-2"), "second")
        usage = {"total": {"inputTokens": 100, "outputTokens": 5}, "last": {"inputTokens": 0, "outputTokens": 0}}
        params = {"threadId": THREAD, "turnId": ("second" if number else TURN), "tokenUsage": usage}
        talk.hear({"method": "thread/tokenUsage/updated", "params": params})
        talk.complete(turn_id="second" if number else TURN)
    assert [step.verdict.usage.input_tokens for step in talk.steps if isinstance(step, Over)] == [100, None]
    assert {event.used for event in talk.events if isinstance(event, events.ContextUsed)} == {None}


def test_what_a_resumed_thread_had_used_is_taken_from_codex() -> None:
    talk = Talk(turn(session_id=SESSION, carried=Total(input_tokens=1)))
    talk.begin(SESSION)
    talk.do(Prompt(turn=talk.turn))
    for turn_id, used in (("before", 1000), (TURN, 1100)):
        params = {"threadId": SESSION, "turnId": turn_id, "tokenUsage": {"total": {"inputTokens": used}}}
        talk.hear({"method": "thread/tokenUsage/updated", "params": params})
        talk.reply("turn/start", {"turn": {"id": TURN}}) if turn_id == "before" else None
    talk.hear(
        {"method": "turn/completed", "params": {"threadId": SESSION, "turn": {"id": TURN, "status": "completed"}}}
    )
    assert over(talk).verdict.usage.input_tokens == 100


def test_a_retry_is_no_failure_and_a_failure_is_one() -> None:
    talk = talking()
    info = {"responseStreamDisconnected": {"httpStatusCode": 401}}
    error = {"message": "Reconnecting... 1/5", "codexErrorInfo": info, "additionalDetails": "unexpected status 401"}
    talk.say("error", error=error, willRetry=True)
    (retry,) = [event for event in talk.events if isinstance(event, events.StatusChanged)]
    assert (retry.state, retry.attempt, retry.of, retry.class_) == ("retrying", 1, 5, Class.AUTH)
    failure = {"message": "the model is full", "codexErrorInfo": "contextWindowExceeded"}
    talk.say("error", error=failure, willRetry=False)
    talk.complete("failed", error=failure)
    assert (over(talk).verdict.status, over(talk).verdict.class_) == (Status.FAILED, Class.CONTEXT_OVERFLOW)
    assert over(talk).fit


INCOMPLETE = {
    "message": "Reconnecting... 1/5",
    "additionalDetails": "stream disconnected: Incomplete response returned, reason: content_filter",
}


def test_an_answer_after_a_retry_that_worked_is_the_reply() -> None:
    talk = talking()
    talk.say("error", error=INCOMPLETE, willRetry=True)
    talk.say("item/completed", item={"id": "a1", "type": "agentMessage", "text": "The complete answer."})
    talk.complete()
    assert (over(talk).verdict.status, over(talk).verdict.reply) == (Status.COMPLETED, "The complete answer.")


def test_a_turn_that_fails_without_a_word_ended_as_the_answer_before_its_last_retry() -> None:
    talk = talking()
    talk.say("error", error=INCOMPLETE, willRetry=True)
    talk.complete("failed")
    assert over(talk).verdict.status is Status.REFUSED


def test_a_turn_that_codex_refuses_is_failed() -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    talk.reply("turn/start", error="thread not found: X")
    assert (over(talk).verdict.status, over(talk).fit) == (Status.FAILED, False)


def test_what_a_subagent_says_carries_the_call_that_began_it_and_is_no_answer() -> None:
    talk = talking()
    spawn = {"id": "c1", "type": "collabAgentToolCall", "tool": "spawnAgent", "receiverThreadIds": ["child"]}
    talk.say("item/started", item=spawn)
    talk.say("item/completed", item={**spawn, "status": "completed"})
    said = {"type": "agentMessage", "id": "m", "text": "inner"}
    talk.hear({"method": "item/completed", "params": {"threadId": "child", "turnId": "t", "item": said}})
    talk.say("item/completed", item={"type": "agentMessage", "id": "n", "text": "outer"})
    talk.complete()
    texts = [(event.text, event.parent) for event in talk.events if isinstance(event, events.Text)]
    assert texts == [("inner", "codex-1-1-c1"), ("outer", None)]
    assert over(talk).verdict.reply == "outer"


def test_what_codex_refuses_by_itself_is_a_denial() -> None:
    talk = talking(access="read")
    log = b"\x1b[2m2026\x1b[0m \x1b[31mERROR\x1b[0m \x1b[2mcodex_core::tools::router\x1b[0m\x1b[2m:\x1b[0m \x1b[3merror"
    talk.link.error_line(log + b"\x1b[0m\x1b[2m=\x1b[0mpatch rejected: writing is blocked")  # type: ignore[attr-defined]
    talk.complete()
    verdict = over(talk).verdict
    assert (verdict.status, [denial.tool for denial in verdict.denials]) == (Status.DENIED, ["apply_patch"])


def test_a_run_that_nobody_asked_for_is_reported() -> None:
    talk = talking()
    talk.complete()
    assert talk.say("turn/started", turn={"id": "goal"}) == [Stirred()]


def test_a_closed_thread_and_the_end_of_the_process_end_the_turn() -> None:
    talk = talking()
    assert kinds(talk.say("thread/closed")) == ["Broken"] and not talk.link.busy
    talk = talking()
    talk.keep(talk.link.end(Exit(code=3, stderr_tail="out of luck")))
    assert (over(talk).verdict.class_, over(talk).fit) == (Class.CRASHED, False)
    assert list(talk.link.end(Exit(code=0))) == []


def test_an_attached_image_is_shown_and_another_file_named() -> None:
    talk = talking(attach=("/p/a,b.PNG", "/p/notes.txt"))
    given = talk.last("turn/start")["params"]["input"]
    assert given[0]["text"] == "hi\n\nAttached file: /p/notes.txt"
    assert given[1:] == [{"type": "localImage", "path": "/p/a,b.PNG"}]


# -- what it asks ------------------------------------------------------------------------------------------------------


def command(talk: Talk, number: object = 0, **params: Any) -> Asked:
    given = {"itemId": "call_1", "command": "/bin/bash -lc 'rm x'", "cwd": "/p", "reason": "because", **params}
    (asked,) = talk.ask(number, COMMAND, **given)
    assert isinstance(asked, Asked)
    return asked


def test_a_command_is_shown_before_its_reason_which_the_model_wrote() -> None:
    asked = command(talking(), reason="echo harmless\n" * 50)
    assert asked.description.splitlines()[0] == "/bin/bash -lc 'rm x'"
    assert (asked.tool, asked.call_id, asked.always, asked.message) == ("shell", "codex-1-1-call_1", True, False)


def test_all_that_a_command_would_get_besides_is_shown() -> None:
    more = {"fileSystem": {"write": ["/etc"]}}
    asked = command(talking(), additionalPermissions=more, networkApprovalContext={"host": "h", "protocol": "https"})
    assert "network access: https h" in asked.description and '"/etc"' in asked.description
    stdin = command(talking(), kind="writeStdin")
    assert stdin.description.startswith("to a command that runs:") and not stdin.always


@pytest.mark.parametrize(
    ("decide", "sent"),
    [
        ({"decision": "allow"}, "accept"),
        ({"decision": "allow", "always": True}, "acceptForSession"),
        ({"decision": "deny"}, "decline"),
        ({"decision": "deny", "always": True}, "decline"),
        ({"decision": "cancelled"}, "cancel"),
    ],
)
def test_a_decision_is_answered_once_and_never_for_good(decide: dict[str, Any], sent: str) -> None:
    talk = talking()
    asked = command(talk, proposedExecpolicyAmendment=["rm"])
    talk.do(Decide(key=asked.key, **decide))
    assert talk.sent[-1] == {"id": 0, "result": {"decision": sent}}
    assert talk.do(Decide(key=asked.key, decision="allow")) == []


def test_files_are_asked_for_with_their_changes_and_not_without() -> None:
    talk = talking()
    change = {"path": "/p/a", "kind": {"type": "update", "move_path": "/p/b"}, "diff": "-x\n"}
    item = {"id": "call_1", "type": "fileChange", "changes": [change], "status": "inProgress"}
    talk.say("item/started", item=item)
    (asked,) = talk.ask(1, FILES, itemId="call_1", grantRoot="/p")
    assert isinstance(asked, Asked) and asked.tool == "apply_patch"
    assert asked.description == "update /p/a as /p/b\nfrom now on anything in /p"
    steps = talk.ask(2, FILES, itemId="unseen")
    assert kinds(steps) == ["Notice", "Send"] and talk.sent[-1] == {"id": 2, "result": {"decision": "decline"}}


def test_permissions_are_granted_as_they_were_shown_and_for_the_turn() -> None:
    talk = talking()
    wanted = {"fileSystem": {"write": ["/etc"]}}
    for number, (decide, permissions, scope) in enumerate(
        [
            ({"decision": "allow"}, wanted, "turn"),
            ({"decision": "allow", "always": True}, wanted, "session"),
            ({"decision": "deny"}, {}, "turn"),
            ({"decision": "cancelled"}, {}, "turn"),
        ]
    ):
        (asked,) = talk.ask(number, "item/permissions/requestApproval", itemId="i", cwd="/p", permissions=wanted)
        assert isinstance(asked, Asked) and "/etc" in asked.description
        talk.do(Decide(key=asked.key, **decide))  # type: ignore[arg-type]
        assert talk.sent[-1]["result"] == {"permissions": permissions, "scope": scope}


def test_a_call_of_an_mcp_server_is_asked_for() -> None:
    talk = talking()
    meta = {"codex_approval_kind": "mcp_tool_call", "tool_name": "boom", "tool_params": {"a": 1}, "persist": ["always"]}
    (asked,) = talk.ask(0, "mcpServer/elicitation/request", serverName="lab", mode="form", _meta=meta)
    assert isinstance(asked, Asked)
    assert (asked.tool, asked.always, asked.description) == ("mcp__lab__boom", False, 'mcp__lab__boom {"a":1}')
    talk.do(Decide(key=asked.key, decision="allow"))
    assert talk.sent[-1]["result"] == {"action": "accept", "content": {}, "_meta": None}


ANSWERS: dict[str, Any] = {
    COMMAND: {"decision": "decline"},
    FILES: {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline"},
    "item/tool/call": None,
    "account/chatgptAuthTokens/refresh": None,
    "attestation/generate": None,
    "applyPatchApproval": None,
    "execCommandApproval": None,
    "of a newer version": None,
}


@pytest.mark.parametrize("method", ANSWERS)
def test_every_request_is_answered_even_if_it_says_nothing(method: str) -> None:
    talk = talking()
    talk.ask("x", method)
    answer = talk.sent[-1]
    assert answer["id"] == "x" and ("result" in answer) != ("error" in answer)
    assert ANSWERS[method] is None or answer["result"] == ANSWERS[method]
    assert answer.get("result", {}).get("success") is not True


def test_no_request_is_answered_before_the_thread_is_there() -> None:
    talk = Talk(turn(session_id=THREAD))
    talk.reply("initialize")
    talk.reply("account/read", {})
    assert talk.ask(0, COMMAND, itemId="i", command="ls") == [] and talk.ask(1, "item/tool/call") == []
    assert kinds(talk.reply("thread/resume", opened(talk.turn))) == ["Ready", "Asked", "Notice", "Send"]


def test_a_repeated_request_is_asked_once_and_1_is_not_the_text_1() -> None:
    talk = talking()
    first = command(talk, 1)
    assert talk.ask(1, COMMAND, itemId="i", command="ls") == []
    assert command(talk, "1").key != first.key


def test_a_request_that_codex_resolved_is_withdrawn() -> None:
    talk = talking()
    asked = command(talk)
    (step,) = talk.say("serverRequest/resolved", requestId=0)
    assert isinstance(step, Withdrawn) and step.key == asked.key
    assert talk.say("serverRequest/resolved", requestId=0) == []


# -- control -----------------------------------------------------------------------------------------------------------


def test_after_an_interrupt_what_runs_in_the_background_is_ended_before_the_turn() -> None:
    talk = talking()
    talk.say("item/started", item=CALL)
    talk.do(Interrupt())
    assert talk.last("turn/interrupt")["params"] == {"threadId": THREAD, "turnId": TURN}
    talk.reply("turn/interrupt")
    assert kinds(talk.complete("interrupted")) == ["Send"] and talk.link.busy
    steps = talk.reply("thread/backgroundTerminals/clean")
    assert kinds(steps) == ["ToolReturned", "Over"]
    assert (over(talk).verdict.status, over(talk).fit) == (Status.CANCELLED, True)


def test_a_background_that_does_not_end_in_time_makes_the_process_unfit() -> None:
    talk = talking()
    talk.do(Interrupt())
    talk.complete("interrupted")
    talk.wake(5.0)
    assert not over(talk).fit


def test_an_interrupt_before_the_turn_is_known_is_sent_once_it_is() -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    assert talk.do(Interrupt()) == []
    talk.now = 50.0
    talk.reply("turn/start", {"turn": {"id": TURN}})
    assert talk.last("turn/interrupt")["params"]["turnId"] == TURN
    assert talk.wake(50.1) == [], "its time begins when it is sent"


def test_a_steer_is_answered_once_it_is_read() -> None:
    talk = talking()
    talk.do(Steer(id="s-1", text="left"))
    assert talk.last("turn/steer")["params"]["expectedTurnId"] == TURN
    assert talk.reply("turn/steer", {"turnId": TURN}) == []
    assert talk.say("item/started", item={"type": "userMessage", "clientId": "s-1"}) == [Answered(id="s-1")]
    talk.do(Steer(id="s-2", text="right"))
    talk.do(Steer(id="s-3", text="back"))
    (refused,) = talk.reply("turn/steer", error="no active turn to steer")
    assert isinstance(refused, Answered) and (refused.id, refused.ok) == ("s-3", False)
    (unread, _) = talk.complete()
    assert isinstance(unread, Answered) and (unread.id, unread.ok, unread.code) == ("s-2", False, "unfinished")
    (late,) = talk.do(Steer(id="s-4", text="up"))
    assert isinstance(late, Answered) and not late.ok


def test_another_model_is_reported_from_the_next_turn_on() -> None:
    talk = talking()
    talk.do(Set(id="c", name="model", value="gpt-5.2"))
    assert talk.last("thread/settings/update")["params"] == {"threadId": THREAD, "model": "gpt-5.2"}
    (answered,) = talk.reply("thread/settings/update")
    assert isinstance(answered, Answered) and answered.ok
    talk.complete()
    talk.prompt(structs.replace(talk.turn, session_id=THREAD), "second")
    talk.complete(turn_id="second")
    assert [step.verdict.model for step in talk.steps if isinstance(step, Over)] == ["gpt-5.5", "gpt-5.2"]


def test_a_compaction_is_a_turn_and_no_other_command_is() -> None:
    talk = Talk(turn(text="/compact", slash=True))
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    assert talk.last("thread/compact/start")["params"] == {"threadId": THREAD}
    talk.reply("thread/compact/start")
    talk.say("turn/started", turn={"id": TURN, "status": "inProgress"})
    talk.say("item/started", item={"id": "c", "type": "contextCompaction"})
    talk.complete()
    assert (over(talk).verdict.status, over(talk).verdict.reply) == (Status.COMPLETED, "")
    other = Talk(turn(text="/review", slash=True))
    other.begin()
    assert kinds(other.do(Prompt(turn=other.turn))) == ["Over"]
    assert over(other).verdict.class_ is Class.UNSUPPORTED


def test_a_plan_and_an_effort_are_those_of_the_next_turn() -> None:
    talk = talking()
    talk.do(Set(id="p", name="mode", value="plan"))
    mode = talk.last("thread/settings/update")["params"]["collaborationMode"]
    assert (mode["mode"], mode["settings"]["model"]) == ("plan", "gpt-5.5")
    assert kinds(talk.reply("thread/settings/update")) == ["Answered"]
    models = {"data": [{"id": "gpt-5.5", "supportedReasoningEfforts": [{"reasoningEffort": "low"}]}]}
    for effort, then in (("bogus", ["Answered"]), ("low", ["Send"])):
        talk.do(Set(id="e", name="effort", value=effort))
        assert kinds(talk.reply("model/list", models)) == then
    assert talk.last("thread/settings/update")["params"]["effort"] == "low"


def test_its_mcp_servers_are_shown_and_called_and_connected_anew_all_together() -> None:
    talk = talking()
    talk.do(Act(id="c", name="mcp.call", given=Raw(b'{"server": "docs", "tool": "ping"}')))
    assert talk.last("mcpServer/tool/call")["params"]["threadId"] == THREAD
    assert kinds(talk.reply("mcpServer/tool/call", {"content": []})) == ["Answered"]
    talk.do(Act(id="r", name="mcp.reconnect"))
    assert kinds(talk.reply("config/mcpServer/reload")) == ["Answered"]
    before = len(talk.sent)
    for name in ("mcp.reconnect", "mcp.disable", "mcp.set", "rewind.files"):
        (answer,) = talk.do(Act(id="x", name=name, given=Raw(b'{"server": "docs"}')))
        assert isinstance(answer, Answered) and answer.code == "unsupported"
    assert len(talk.sent) == before


@pytest.mark.parametrize("call", [Set(id="c", name="access", value="full"), Query(id="c", name="weather")])
def test_what_it_cant_change_or_tell_is_refused_and_nothing_is_sent(call: Set | Query) -> None:
    (answered,) = talking().do(call)
    assert isinstance(answered, Answered) and (answered.ok, answered.code) == (False, "unsupported")


def test_it_tells_how_full_its_context_is_and_which_models_there_are() -> None:
    talk = talking()
    (answered,) = talk.do(Query(id="p", name="context"))
    assert isinstance(answered, Answered) and bytes(answered.result) == b'{"used":null,"size":null}'
    usage = {"last": {"inputTokens": 90, "outputTokens": 10}, "modelContextWindow": 1000}
    talk.say("thread/tokenUsage/updated", tokenUsage=usage)
    (answered,) = talk.do(Query(id="q", name="context"))
    assert isinstance(answered, Answered) and bytes(answered.result) == b'{"used":100,"size":1000}'
    talk.do(Query(id="r", name="models"))
    (answered,) = talk.reply("model/list", {"data": [{"id": "a"}, {"id": "b"}]})
    assert isinstance(answered, Answered) and bytes(answered.result) == b'["a","b"]'


def test_what_is_no_frame_is_kept_and_breaks_nothing() -> None:
    talk = talking()
    assert kinds(talk.hear(b"not json")) == ["Unknown"] and kinds(talk.say("of/aNewerVersion")) == ["Unknown"]
    assert talk.hear(b"[]") and talk.hear(b"") == [] and talk.hear({"id": 99, "result": {}}) == []
    talk.complete()
    assert over(talk).verdict.status is Status.COMPLETED
    assert [step for step in talk.steps if isinstance(step, Ready | Acknowledged)]
    assert isinstance(talk.steps[0], Send)


def idle(talk: Talk, kind: str = "idle") -> None:
    talk.say("thread/status/changed", status={"type": kind})


def answered(**fields: Any) -> Talk:
    """A conversation whose turn has its answer, and no end."""
    talk = talking(**fields)
    talk.say("item/completed", item={"id": "i", "type": "agentMessage", "text": "All."})
    return talk


def test_a_thread_that_is_idle_ends_its_turn_though_codex_does_not_say_so() -> None:
    talk = answered()
    idle(talk)
    assert talk.link.due == talk.now + IDLE_S
    assert not any(isinstance(step, Over) for step in talk.wake(talk.now + IDLE_S - 0.1))
    talk.wake(talk.now + 0.1)
    found = over(talk)
    assert (found.verdict.status, found.verdict.reply, found.fit) == (Status.COMPLETED, "All.", False)
    assert any(isinstance(event, events.Notice) and event.code == "no_end" for event in talk.events)


def test_the_end_that_codex_tells_counts_and_not_the_idle_thread() -> None:
    talk = answered()
    idle(talk)
    talk.complete()
    assert over(talk).fit
    assert talk.link.due is None
    talk.wake(talk.now + IDLE_S)
    assert over(talk).verdict.status is Status.COMPLETED


def test_a_thread_that_goes_on_or_whose_command_runs_has_not_ended_its_turn() -> None:
    talk = answered()
    idle(talk)
    idle(talk, "active")
    assert talk.link.due is None
    talk.say("item/started", item=CALL)
    idle(talk)
    assert talk.link.due is None
    talk = talking()
    talk.hear({"method": "thread/status/changed", "params": {"threadId": "child", "status": {"type": "idle"}}})
    for junk in (None, "idle", [], {"type": 1}):
        talk.say("thread/status/changed", status=junk)
    assert talk.link.due is None


def test_a_thread_with_an_error_has_failed_and_an_interrupted_one_is_cancelled() -> None:
    talk = answered()
    idle(talk, "systemError")
    talk.wake(talk.now + IDLE_S)
    assert over(talk).verdict.status is Status.FAILED
    talk = answered()
    talk.do(Interrupt())
    talk.reply("turn/interrupt")
    idle(talk)
    talk.wake(talk.now + IDLE_S)
    assert over(talk).verdict.status is Status.CANCELLED


def hooked(talk: Talk, status: str, event: str = "userPromptSubmit", thread: str = THREAD) -> None:
    run = {"eventName": event, "status": status, "entries": [{"kind": "feedback", "text": "policy says stop"}]}
    talk.say("hook/completed", threadId=thread, run=run)


@pytest.mark.parametrize("status", ["blocked", "stopped"])
def test_a_prompt_that_a_hook_stopped_failed_with_the_words_of_the_hook(status: str) -> None:
    talk = talking()
    hooked(talk, status)
    talk.complete()
    verdict = over(talk).verdict
    assert (verdict.status, verdict.class_, verdict.reply) == (Status.FAILED, Class.STOPPED, None)
    assert verdict.reason == "a hook stopped the prompt: policy says stop"


def test_other_hooks_and_those_of_subagents_do_not_end_the_turn() -> None:
    for status, event, thread in (
        ("completed", "userPromptSubmit", THREAD),
        ("blocked", "preToolUse", THREAD),
        ("stopped", "stop", THREAD),
        ("blocked", "userPromptSubmit", "child"),
    ):
        talk = answered()
        hooked(talk, status, event, thread)
        talk.say("hook/completed", run=None)
        talk.complete()
        assert (over(talk).verdict.status, over(talk).verdict.reply) == (Status.COMPLETED, "All.")


@pytest.mark.parametrize(
    ("info", "status", "class_"),
    [
        ("cyberPolicy", Status.REFUSED, None),
        ("bioPolicy", Status.REFUSED, None),
        ("misalignmentPolicyViolation", Status.REFUSED, None),
        ("inferenceHookDenied", Status.FAILED, Class.STOPPED),
    ],
)
def test_a_policy_that_ends_the_turn_refuses_or_stops_it(info: str, status: Status, class_: Class | None) -> None:
    talk = talking()
    talk.complete("failed", error={"message": "not that", "codexErrorInfo": info})
    assert (over(talk).verdict.status, over(talk).verdict.class_) == (status, class_)
