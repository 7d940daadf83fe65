"""Claude's link by itself: the order of a conversation, what it asks, and what it never does."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from msgspec import Raw, structs

from beam.agents.base import Exit, Host
from beam.agents.claude import dialogue
from beam.agents.claude import exec as headless
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
    Set,
    Steer,
    Step,
    Withdrawn,
)
from beam.base.errors import UnsupportedError
from beam.model import events
from beam.model.message import RuleLists
from beam.model.outcome import Class, Denial, Point, Status
from beam.rules.rule import ToolCall
from beam.rules.ruleset import Ruleset, combine, rules_of
from tests.support.claude_dialogue import SESSION, Talk, turn
from tests.support.dialogue import broken, kinds, over

FRESH = "6b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b99"
BASH = {"command": "touch made", "description": "List files"}
RULES = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch *"}], "behavior": "allow"}
EDITS = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
TASK = {"task_id": "t1", "tool_use_id": "c1", "task_type": "local_agent", "description": "d"}


def talking(**fields: Any) -> Talk:
    """A conversation in the middle of its first turn."""
    talk = Talk(turn(**fields))
    talk.begin()
    talk.prompt()
    return talk


def asked(talk: Talk) -> Asked:
    return next(step for step in reversed(talk.steps) if isinstance(step, Asked))


# -- its beginning -----------------------------------------------------------------------------------------------------


def test_a_turn_from_the_first_frame_to_its_end() -> None:
    talk = Talk()
    assert kinds(talk.begin()) == ["Ready"]
    assert kinds(talk.do(Prompt(turn=talk.turn))) == ["Send"] and talk.link.busy
    assert kinds(talk.life("queued")) == ["Acknowledged"]
    assert kinds(talk.life("started")) == []
    assert kinds(talk.say("init", model="m", cwd="/p")) == ["SessionStarted"]
    assert kinds(talk.text("hello")) == ["Text"]
    assert kinds(talk.result("hello")) == ["UsageSeen"] and talk.link.busy
    assert kinds(talk.state("idle")) == ["Over"] and not talk.link.busy
    verdict = over(talk).verdict
    assert (verdict.status, verdict.reply, verdict.session, verdict.session_id) == (
        Status.COMPLETED,
        "hello",
        "new",
        SESSION,
    )
    assert over(talk).fit and talk.link.due is None
    assert kinds(talk.do(Close())) == ["Eof"]


@pytest.mark.parametrize(("access", "mode"), [("read", "dontAsk"), ("ask", "default"), ("edit", "acceptEdits")])
def test_each_access_has_the_flags_of_a_headless_turn_and_asks_beam(access: str, mode: str) -> None:
    launch = dialogue.launch(turn(access=access, outbox="/o"), Host())
    argv = launch.argv
    assert launch.env["CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"] == "1" and not launch.drops_output
    assert argv[argv.index("--permission-mode") + 1] == mode
    assert argv[argv.index("--permission-prompt-tool") + 1] == "stdio"
    assert argv[argv.index("--setting-sources") + 1] == "user"
    assert "AskUserQuestion" in argv[argv.index("--disallowedTools") + 1]
    if access != "ask":
        assert set(headless.launch(turn(access=access, outbox="/o"), Host()).argv) < set(argv)


def test_an_earlier_point_of_the_session_is_where_the_process_begins() -> None:
    message = "0b0e6f9c-0000-4000-8000-000000000001"
    for fields in ({}, {"fork": True}):
        argv = dialogue.launch(turn(session_id=SESSION, upto=message, **fields), Host()).argv
        assert argv[argv.index("--resume") + 1 :][:3] == (SESSION, "--resume-session-at", message)
    with pytest.raises(UnsupportedError):
        dialogue.launch(turn(session_id=SESSION, upto="--dangerously-skip-permissions"), Host())


def test_a_turn_tells_where_it_lies_in_its_session_and_a_subagents_message_is_not_its_end() -> None:
    talk = Talk()
    talk.begin()
    talk.prompt()
    for uuid, parent in (("u-1", None), ("u-2", None), ("u-3", "call-1")):
        message = {"id": uuid, "model": "m", "content": [{"type": "text", "text": uuid}]}
        talk.hear({"type": "assistant", "uuid": uuid, "message": message, "parent_tool_use_id": parent})
    talk.result("done")
    talk.state("idle")
    assert over(talk).verdict.point == Point(begins=talk.message["uuid"], ends="u-2")


def ruled(**lists: tuple[str, ...]) -> Ruleset:
    return combine(rules_of(RuleLists(**lists), "me"))


def test_with_rules_that_may_let_something_through_read_asks_beam_about_all_that_it_would_deny() -> None:
    rules = ruled(allow=("Bash(git log *)",), deny=("Bash(rm *)",), ask=("Edit",))
    argv = dialogue.launch(turn(access="read", rules=rules), Host()).argv
    permissions = json.loads(argv[argv.index("--settings") + 1])["permissions"]
    assert argv[argv.index("--permission-mode") + 1] == "default" and argv.count("--settings") == 1
    assert permissions["deny"] == ["Bash(rm *)", "Bash(rm)"] and "allow" not in permissions
    edits = ["Edit", "Write", "MultiEdit", "NotebookEdit"]
    assert permissions["ask"] == ["Bash", "Edit", "Write", "NotebookEdit", "mcp__*", *edits]
    assert "--append-system-prompt" not in argv
    denying = dialogue.launch(turn(access="read", rules=ruled(deny=("Bash(rm *)",))), Host()).argv
    assert denying[denying.index("--permission-mode") + 1] == "dontAsk"
    talk = Talk(turn(access="read", rules=rules))
    assert kinds(talk.begin(current_permission_mode="default")) == ["Ready"]
    assert kinds(Talk(turn(access="read", rules=rules)).begin(current_permission_mode="acceptEdits")) == ["Broken"]


FREE = {"dangerouslyDisableSandbox": True}
OURS = {"source": "flagSettings", "tool_name": "Bash"}


@pytest.mark.parametrize(
    ("said", "by_person"),
    [
        ({}, False),
        ({"decision_reason_type": "rule", "decision_reason_rule_source": "flagSettings"}, False),
        ({"matched_ask_rule": OURS}, False),
        ({"decision_reason_type": "mode"}, False),
        ({"decision_reason_type": "rule", "decision_reason_rule_source": "userSettings"}, True),
        ({"decision_reason_type": "rule"}, True),
        ({"matched_ask_rule": {"source": "projectSettings", "tool_name": "Bash"}}, True),
        ({"matched_ask_rule": "?"}, True),
        ({"decision_reason_type": "safetyCheck"}, True),
        ({"decision_reason_type": "hook"}, True),
        ({"requires_user_interaction": True}, True),
        ({"default_to_no": True}, True),
    ],
)
def test_no_rule_allows_what_claude_or_a_rule_of_the_person_leaves_to_a_person(said: Any, by_person: bool) -> None:
    talk = talking()
    talk.ask("r1", "Bash", BASH, **said)
    assert asked(talk).call == ToolCall(tool="Bash", command="touch made", by_person=by_person)


@pytest.mark.parametrize(
    ("tool", "given", "call"),
    [
        (
            "Bash",
            {"command": "ls", "dangerouslyDisableSandbox": True},
            ToolCall(tool="Bash", command="ls", by_person=True),
        ),
        ("Write", {"file_path": "/p/a", "content": ""}, ToolCall(tool="Edit", paths=("/p/a",))),
        ("NotebookEdit", {"notebook_path": "/p/a"}, ToolCall(tool="Edit", paths=("/p/a",))),
        ("Grep", {"pattern": "x"}, ToolCall(tool="Read", paths=(".",))),
        ("Edit", {}, ToolCall(tool="Edit")),
        ("WebFetch", {"url": "https://a.com/x"}, ToolCall(tool="WebFetch", host="a.com")),
        ("mcp__a__b", {}, ToolCall(tool="mcp__a__b")),
        ("Skill", {"skill": "x"}, None),
    ],
)
def test_a_request_is_reported_as_rules_see_it(tool: str, given: Any, call: ToolCall | None) -> None:
    talk = talking()
    talk.ask("r1", tool, given)
    assert asked(talk).call == call


def test_what_is_allowed_with_another_input_runs_with_that_one() -> None:
    talk = talking()
    talk.ask("r1", "Bash", BASH)
    assert asked(talk).changes
    talk.do(Decide(key="r1", decision="allow", input=Raw(b'{"command":"ls"}')))
    assert talk.sent[-1]["response"]["response"]["updatedInput"] == {"command": "ls"}


def test_what_asks_loads_the_settings_of_a_trusted_folder_only() -> None:
    assert "--setting-sources" not in dialogue.launch(turn(folder_trusted=True), Host()).argv
    assert "--setting-sources" in dialogue.launch(turn(folder_trusted=True, leave_out=True), Host()).argv


@pytest.mark.parametrize("fields", [{"session_id": "last"}, {"attach": ("/p/a#b",)}, {"model": "-m"}])
def test_what_claude_would_take_for_something_else_is_not_started(fields: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError):
        dialogue.launch(turn(**fields), Host())


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions", None, 3])
def test_one_in_another_mode_is_given_no_prompt(mode: object) -> None:
    talk = Talk(turn(access="read"))
    assert kinds(talk.begin(current_permission_mode=mode)) == ["Broken"]
    assert broken(talk).class_ is Class.UNSUPPORTED
    assert talk.do(Prompt(turn=talk.turn)) == []


def test_one_that_does_not_tell_its_mode_is_believed_to_have_taken_its_flags() -> None:
    talk = Talk(turn(access="read"))
    assert kinds(talk.reply("initialize", {})) == ["Ready"]


def test_one_that_does_not_begin_is_broken() -> None:
    talk = Talk()
    assert kinds(talk.reply("initialize", error="no")) == ["Broken"]
    talk = Talk()
    assert talk.link.due == 60.0
    assert kinds(talk.wake(60.0)) == ["Broken"]


def test_a_session_that_is_gone_is_reported_before_any_prompt() -> None:
    talk = Talk(turn(session_id=FRESH))
    why = f"No conversation found with session ID: {FRESH}"
    steps = talk.result(is_error=True, subtype="error_during_execution", errors=[why], session_id=FRESH)
    assert kinds(steps) == ["SessionLost", "Broken"]
    assert talk.link.end(Exit(code=1)) == []


def test_what_stderr_says_of_one_that_does_not_start_is_why() -> None:
    talk = Talk(turn(access="full"))
    talk.keep(talk.link.end(Exit(code=1, stderr_tail="error: cannot be used with root/sudo privileges")))
    assert "IS_SANDBOX" in broken(talk).reason and broken(talk).class_ is Class.BAD_REQUEST
    talk = Talk()
    assert talk.link.end(Exit(code=143, stopped_by="cancelled")) == []


# -- a turn ------------------------------------------------------------------------------------------------------------


def test_a_text_that_begins_with_a_slash_is_no_command() -> None:
    assert talking(text="/clear").message["message"]["content"] == " /clear"


def test_a_slash_command_is_run_if_claude_has_it_and_else_nothing_is_sent() -> None:
    for text, sent in (("/compact keep names", True), ("/nope", False), ("/", False), ("/ compact", False)):
        talk = Talk(turn(text=text, slash=True))
        talk.begin(commands=[{"name": "compact"}])
        steps = talk.do(Prompt(turn=talk.turn))
        assert kinds(steps) == (["Send"] if sent else ["Over"])
        if sent:
            assert talk.message["message"]["content"] == text
        else:
            assert over(talk).verdict.class_ is Class.UNSUPPORTED and over(talk).fit


def test_a_lone_surrogate_ends_no_process() -> None:
    talk = talking(text="a\ud800b")
    assert talk.message["message"]["content"] == "a\ufffdb"
    talk.do(Steer(id="s", text="a\ud800b"))
    assert talk.message["message"]["content"] == "a\ufffdb"


def test_the_next_turn_of_the_process_goes_on_in_its_session_and_counts_by_itself() -> None:
    talk = talking()
    talk.complete("one", model_usage_since_last_result={"m": {"inputTokens": 10, "outputTokens": 1}})
    again = structs.replace(talk.turn, message_id="claude-2", session_id=SESSION)
    talk.prompt(again)
    assert [event.resumed for event in talk.events if isinstance(event, events.SessionStarted)] == [False, True]
    talk.complete("two", model_usage_since_last_result={"m": {"inputTokens": 20, "outputTokens": 2}})
    first, second = [step.verdict for step in talk.steps if isinstance(step, Over)]
    assert (first.reply, second.reply, second.session) == ("one", "two", "resumed")
    assert (second.usage.input_tokens, second.usage.output_tokens) == (20, 2)
    keys = [frame["uuid"] for frame in talk.sent if frame["type"] == "user"]
    assert len(set(keys)) == 2


def test_another_attempt_has_another_key_because_claude_takes_each_once() -> None:
    first, second = talking(), talking(attempt=2)
    assert first.message["uuid"] != second.message["uuid"] == talking(attempt=2).message["uuid"]


def test_a_file_that_cant_be_attached_in_a_kept_process_ends_the_turn_only() -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=turn(attach=("/p/a#b",))))
    assert (over(talk).verdict.class_, over(talk).fit) == (Class.UNSUPPORTED, True)


def test_a_process_is_told_of_the_one_outbox_that_it_may_write_in() -> None:
    talk = Talk(turn(access="edit", outbox="/o/1"))
    talk.begin()
    talk.prompt()
    talk.complete()
    talk.prompt(turn(access="edit", text="[save it in /o/2/x.json]", outbox="/o/2", message_id="claude-2"))
    assert talk.message["message"]["content"] == "[save it in /o/1/x.json]"


def test_a_process_with_a_budget_takes_no_other_turn() -> None:
    talk = talking(budget_usd=1.0)
    talk.complete()
    assert not over(talk).fit


def test_a_run_that_claude_had_begun_by_itself_is_no_answer_to_the_message() -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    talk.life("queued")
    talk.say("init")
    talk.text("a task of mine is done")
    talk.result("a task of mine is done", permission_denials=[{"tool_name": "Bash", "tool_use_id": "c"}])
    assert talk.state("idle") == []
    assert kinds(talk.life("started")) == ["Notice"]
    talk.say("init")
    talk.complete("the answer")
    assert (over(talk).verdict.reply, over(talk).verdict.denials) == ("the answer", ())


def test_a_claude_that_names_the_message_only_with_its_answer_began_nothing_by_itself() -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    talk.say("init", model="claude-x")
    talk.hear({"type": "assistant", "message": {"content": []}, "parent_tool_use_id": "a task of an earlier turn"})
    talk.hear({"type": "user", "uuid": talk.message["uuid"], "isReplay": True, "timestamp": "now", "message": {}})
    talk.text("the answer")
    talk.result("the answer")
    talk.state("idle")
    assert [event for event in talk.events if isinstance(event, events.Notice)] == []
    assert over(talk).verdict.reply == "the answer"


def test_what_claude_says_after_its_own_agents_is_the_answer() -> None:
    talk = talking()
    talk.call("c1", "Agent", {"prompt": "p"})
    talk.say("task_started", **TASK)
    talk.text("later")
    talk.result("later")
    assert talk.link.busy and talk.link.due is None  # nobody knows how long an agent works
    talk.say("task_notification", task_id="t1", status="completed")
    assert talk.link.due == 20.0
    talk.say("init")
    assert talk.link.due is None  # nor how long it speaks about that
    talk.text("all done")
    talk.result("all done", origin={"kind": "task-notification"})
    talk.state("idle")
    assert (over(talk).verdict.reply, over(talk).verdict.unfinished) == ("all done", ())


@pytest.mark.parametrize("has_result", [True, False])
def test_a_turn_that_is_stopped_while_its_agents_work_is_cancelled(has_result: bool) -> None:
    talk = talking()
    talk.say("task_started", **TASK)
    talk.text("later")
    if has_result:
        talk.result("later")
    talk.do(Interrupt())
    if not has_result:
        talk.result("later")
    talk.say("task_updated", task_id="t1", patch={"status": "killed"})
    talk.state("idle")
    assert over(talk).verdict.status is Status.CANCELLED


def test_a_result_without_a_word_that_claude_is_idle_ends_the_turn_and_the_process() -> None:
    talk = talking()
    talk.text("hello")
    talk.result("hello")
    assert talk.link.due == 20.0
    assert kinds(talk.wake(20.0)) == ["Over"]
    assert (over(talk).verdict.reply, over(talk).fit) == ("hello", False)


def test_an_idle_one_without_a_result_has_failed() -> None:
    talk = talking()
    talk.state("idle")
    assert (over(talk).verdict.class_, over(talk).fit) == (Class.CRASHED, False)


def test_one_that_never_takes_the_message_is_broken() -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    assert kinds(talk.wake(60.0)) == ["Broken"] and not talk.link.busy


@pytest.mark.parametrize(("state", "status"), [("cancelled", Status.CANCELLED), ("discarded", Status.FAILED)])
def test_a_message_that_is_dropped_is_not_waited_for(state: str, status: Status) -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    assert kinds(talk.life(state)) == ["Acknowledged", "Over"]
    assert (over(talk).verdict.status, over(talk).fit) == (status, False)


def test_a_message_that_claude_had_before_is_unknown() -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    talk.hear({"type": "user", "uuid": talk.message["uuid"], "isReplay": True})
    talk.state("idle")
    assert over(talk).verdict.status is Status.UNKNOWN


def test_an_older_version_repeats_the_message_when_it_works_on_it() -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    repeated = {"type": "user", "uuid": talk.message["uuid"], "isReplay": True, "timestamp": "2026"}
    assert kinds(talk.hear(repeated)) == ["Acknowledged"]


def test_one_whose_process_ends_has_the_verdict_of_its_end() -> None:
    talk = talking()
    talk.keep(talk.link.end(Exit(signal="SIGKILL")))
    assert (over(talk).verdict.class_, over(talk).fit) == (Class.CRASHED, False)
    assert not talk.link.busy


def test_one_that_begins_to_work_between_two_turns_is_reported() -> None:
    talk = Talk()
    assert talk.state("running") == talk.say("init") == []  # as it begins
    talk = talking()
    talk.complete()
    assert kinds(talk.say("task_updated", task_id="t", patch={})) == []
    assert kinds(talk.state("running")) == ["Stirred"]
    assert kinds(talk.say("init")) == ["Stirred"]


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_command_is_asked_for_as_it_would_run_before_what_the_agent_says_of_it() -> None:
    talk = talking()
    talk.ask("r1", "Bash", {**BASH, "dangerouslyDisableSandbox": True}, decision_reason="a rule")
    found = asked(talk)
    assert (found.tool, found.call_id, found.allow, found.message) == ("Bash", "call-r1", True, True)
    assert found.description.splitlines() == [
        "touch made",
        '{"dangerouslyDisableSandbox":true}',
        "List files",
        "a rule",
    ]
    talk.ask("r2", "Write", {"file_path": "/etc/x", "content": "y"}, description="x", blocked_path="/etc/x")
    assert asked(talk).description.splitlines() == ["/etc/x", "outside of its folder: /etc/x"]
    talk.ask("r3", "mcp__a__b", {"to": "all"}, description="Looks around")
    assert asked(talk).description == '{"to":"all"}'


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/p/made", "because of /p/made"),
        ("/p", "because of /p"),
        ("made", "because of made"),
        ("/private/p/made", "because of /private/p/made"),
        ("/p/../etc", "outside of its folder: /p/../etc"),
        ("../etc", "outside of its folder: ../etc"),
        ("/pub/x", "outside of its folder: /pub/x"),
        ("/", "outside of its folder: /"),
    ],
)
def test_only_what_is_outside_of_the_folder_is_said_to_be_there(path: str, says: str) -> None:
    talk = talking()
    talk.say("init", cwd="/private/p")  # as claude calls it
    talk.ask("r1", "Bash", {"command": "touch made"}, blocked_path=path)
    assert asked(talk).description.splitlines() == ["touch made", says]


def test_a_file_inside_of_the_folder_is_not_told_twice() -> None:
    talk = talking()
    talk.ask("r1", "Write", {"file_path": "/p/made", "content": "y"}, blocked_path="/p/made")
    assert asked(talk).description == "/p/made"


def test_a_plan_is_shown_as_it_was_written_with_all_that_it_asks_for() -> None:
    talk = talking()
    plan = "# Plan\n\n1. look\n2. \x1b[2Kact\n"
    talk.ask("r1", "ExitPlanMode", {"plan": plan, "planFilePath": "/h/plan.md"}, requires_user_interaction=True)
    assert asked(talk).description == plan.strip() + '\n{"planFilePath":"/h/plan.md"}'
    talk.ask("r2", "ExitPlanMode", {})
    assert asked(talk).description == "it shows no plan"
    talk.ask("r3", "ExitPlanMode", {"plan": 7})
    assert asked(talk).description == 'it shows no plan\n{"plan":7}'


def test_what_runs_is_what_was_shown() -> None:
    talk = talking()
    talk.ask("r1", "Bash", BASH)
    talk.do(Decide(key="r1", decision="allow"))
    assert talk.answer == {
        "subtype": "success",
        "request_id": "r1",
        "response": {"behavior": "allow", "updatedInput": BASH},
    }
    assert talk.do(Decide(key="r1", decision="deny")) == []


@pytest.mark.parametrize(
    ("decide", "answer"),
    [
        (Decide(key="r1", decision="deny"), {"behavior": "deny", "message": "This was denied."}),
        (Decide(key="r1", decision="deny", message="use a pen"), {"behavior": "deny", "message": "use a pen"}),
        (
            Decide(key="r1", decision="cancelled"),
            {"behavior": "deny", "message": "The turn ends.", "interrupt": True},
        ),
    ],
)
def test_each_decision_has_its_answer(decide: Decide, answer: dict[str, Any]) -> None:
    talk = talking()
    talk.ask("r1", "Bash", BASH)
    talk.do(decide)
    assert talk.answer["response"] == answer


def test_always_is_for_the_session_and_for_no_more_than_the_rules_for_that_call() -> None:
    talk = talking()
    directories = {"type": "addDirectories", "directories": ["/p"], "destination": "localSettings"}
    suggestions = [{**RULES, "destination": "localSettings"}, directories, EDITS]
    talk.ask("r1", "Bash", BASH, permission_suggestions=suggestions)
    shown = json.loads(bytes(asked(talk).suggestions))
    assert asked(talk).always and shown == [{**RULES, "destination": "session"}]
    talk.do(Decide(key="r1", decision="allow", always=True))
    assert talk.answer["response"]["updatedPermissions"] == shown
    talk.ask("r2", "Write", {"file_path": "/p/x"}, permission_suggestions=[EDITS, directories])
    talk.do(Decide(key="r2", decision="allow", always=True))
    permissions = talk.answer["response"]["updatedPermissions"]
    assert [(each["type"], each["destination"]) for each in permissions] == [
        ("setMode", "session"),
        ("addDirectories", "session"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"permission_suggestions": [{"type": "setMode", "mode": "bypassPermissions", "destination": "session"}]},
        {"permission_suggestions": [{**RULES, "behavior": "deny"}, {"type": "removeRules"}, {"type": "replaceRules"}]},
        {"permission_suggestions": "all"},
        {"permission_suggestions": [RULES], "suppress_always_allow_rule": True},
        {"permission_suggestions": [RULES], "requires_user_interaction": True},
        {},
    ],
)
def test_what_may_not_be_allowed_always_is_not_offered(fields: dict[str, Any]) -> None:
    talk = talking()
    talk.ask("r1", "Bash", BASH, **fields)
    assert not asked(talk).always and bytes(asked(talk).suggestions) == b"[]"
    talk.do(Decide(key="r1", decision="allow", always=True))
    assert "updatedPermissions" not in talk.answer["response"]


@pytest.mark.parametrize(
    "request_",
    [
        {"subtype": "can_use_tool", "tool_name": "", "input": {}},
        {"subtype": "can_use_tool", "tool_name": 3, "input": {}},
        {"subtype": "can_use_tool", "tool_name": "Bash", "input": "touch made"},
        {"subtype": "can_use_tool", "tool_name": "Bash"},
    ],
)
def test_a_request_of_a_wrong_shape_is_denied_and_counts_as_claudes_own_denial(request_: dict[str, Any]) -> None:
    talk = talking()
    talk.call("c1", "Bash", {})
    steps = talk.hear(
        {"type": "control_request", "request_id": "r1", "request": {"tool_use_id": "c1", **request_}},
    )
    assert kinds(steps) == ["Send"] and talk.answer["response"]["behavior"] == "deny"
    talk.complete(permission_denials=[{"tool_name": "Bash", "tool_use_id": "c1"}])
    assert over(talk).verdict.status is Status.DENIED


@pytest.mark.slow
@pytest.mark.parametrize(
    "frame",
    [
        b'{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"X","input":%s}}',
        b'{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"c","name":"X","input":%s}]}}',
        b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":[%s]}]}}',
        b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":%s}]}}',
        b'{"type":"result","result":"x","permission_denials":[{"tool_input":%s}],"structured_output":%s}',
    ],
)
def test_a_frame_of_any_depth_leaves_the_turn_running(frame: bytes) -> None:
    """Around the depth at which Python gives up, what can be read may be too deep to be written."""
    for depth in (*range(sys.getrecursionlimit() - 100, sys.getrecursionlimit() + 5), 100_000):
        talk = talking()
        talk.link.line(frame.replace(b"%s", b'{"a":' * depth + b"1" + b"}" * depth), 0.0)
        talk.link.do(Decide(key="r", decision="allow"), 0.0)
        assert talk.link.busy


@pytest.mark.parametrize(
    "request_",
    [
        {"subtype": "hook_callback", "callback_id": "h", "input": {}},
        {"subtype": "mcp_message", "server_name": "s", "message": {}},
        {"subtype": "elicitation", "message": "log in", "url": "https://x.example"},
        {"subtype": "request_user_dialog"},
        {},
    ],
)
def test_what_nobody_can_decide_here_is_refused_and_reported(request_: dict[str, Any]) -> None:
    talk = talking()
    steps = talk.hear({"type": "control_request", "request_id": "r1", "request": request_})
    assert kinds(steps) == ["Notice", "Send"] and talk.answer["subtype"] == "error"


def test_one_request_more_than_anybody_could_answer_is_denied() -> None:
    talk = talking()
    for number in range(101):
        talk.ask(f"r{number}", "Bash", BASH)
    assert len([step for step in talk.steps if isinstance(step, Asked)]) == 100
    assert (talk.answer["request_id"], talk.answer["response"]["behavior"]) == ("r100", "deny")


def test_a_request_that_is_withdrawn_is_reported_and_not_answered() -> None:
    talk = talking()
    talk.ask("r1", "Bash", BASH)
    assert talk.ask("r1", "Bash", BASH) == []
    (step,) = talk.hear({"type": "control_cancel_request", "request_id": "r1"})
    assert isinstance(step, Withdrawn)
    assert talk.do(Decide(key="r1", decision="allow")) == []


def test_a_denial_by_beam_is_not_reported_twice_and_one_by_claude_itself_is_reported() -> None:
    talk = talking()
    for key, decision in (("r1", "deny"), ("r2", "allow")):
        talk.ask(key, "Bash", BASH)
        talk.do(Decide(key=key, decision=decision))
    named = [{"tool_name": "Bash", "tool_use_id": f"call-r{number}", "tool_input": {}} for number in (1, 2)]
    talk.result("done", permission_denials=named)
    talk.state("idle")
    verdict = over(talk).verdict
    assert [denial.call_id for denial in verdict.denials] == ["call-r2"]
    assert isinstance(verdict.denials[0], Denial) and verdict.status is Status.DENIED


def test_beams_own_answer_that_claude_repeats_is_nobodys() -> None:
    talk = talking()
    talk.ask("r1", "Bash", BASH)
    talk.do(Decide(key="r1", decision="allow"))
    assert talk.hear({"type": "control_response", "response": talk.answer}) == []


# -- its end, and control ----------------------------------------------------------------------------------------------


def test_an_interrupt_takes_what_waits_with_it() -> None:
    talk = talking()
    talk.do(Interrupt())
    assert talk.request("interrupt")["request"]["cancel_queued"] is True
    talk.reply("interrupt")
    talk.result(is_error=True, subtype="error_during_execution", terminal_reason="aborted_streaming")
    talk.state("idle")
    assert (over(talk).verdict.status, over(talk).fit) == (Status.CANCELLED, True)


def test_an_interrupt_before_claude_began_is_sent_again_when_it_does() -> None:
    talk = Talk()
    talk.begin()
    talk.do(Prompt(turn=talk.turn))
    talk.do(Interrupt())
    assert kinds(talk.life("started")) == ["Acknowledged", "Send"]
    assert Acknowledged() in talk.steps


def test_an_interrupt_without_an_answer_breaks_the_conversation() -> None:
    talk = talking()
    talk.do(Interrupt())
    assert kinds(talk.wake(10.0)) == ["Broken"]
    assert talk.link.end(Exit(signal="SIGKILL")) == [] and talk.link.due is None


def test_an_interrupt_between_two_turns_says_nothing() -> None:
    talk = talking()
    talk.complete()
    assert talk.do(Interrupt()) == []


def test_a_text_is_answered_once_claude_reads_it() -> None:
    talk = talking()
    assert kinds(talk.do(Steer(id="s1", text="go left"))) == ["Send"]
    assert talk.life("queued") == []
    assert talk.life("started") == [Answered(id="s1")]
    assert talk.life("completed") == []


def test_the_turn_is_not_over_while_a_text_is_on_its_way() -> None:
    talk = talking()
    talk.do(Steer(id="s1", text="go left"))
    talk.text("one")
    talk.result("one")
    assert talk.state("idle") == []
    talk.life("started")
    talk.say("init")
    talk.text("two")
    talk.result("two")
    talk.state("idle")
    assert over(talk).verdict.reply == "two"


def test_a_text_that_is_never_read_is_reported_as_that() -> None:
    talk = talking()
    talk.do(Steer(id="s1", text="go left"))
    (answer,) = [step for step in talk.life("cancelled") if isinstance(step, Answered)]
    assert not answer.ok
    talk.do(Steer(id="s2", text="go left"))
    talk.text("one")
    talk.result("one")
    talk.state("idle")
    assert kinds(talk.wake(talk.link.due or 0)) == ["Answered", "Over"]
    answer = next(step for step in talk.steps if isinstance(step, Answered) and step.id == "s2")
    assert (answer.ok, answer.code) == (False, "unfinished")


def test_between_two_turns_there_is_nobody_to_tell() -> None:
    talk = Talk()
    talk.begin()
    (answer,) = talk.do(Steer(id="s1", text="x"))
    assert isinstance(answer, Answered) and not answer.ok


def only_answer(steps: list[Step]) -> Answered:
    (answer,) = steps
    assert isinstance(answer, Answered)
    return answer


def test_the_model_can_be_changed_and_what_claude_has_not_can_not() -> None:
    talk = talking()
    talk.do(Set(id="m", name="model", value="claude-haiku-4-5"))
    assert talk.request("set_model")["request"]["model"] == "claude-haiku-4-5"
    assert kinds(talk.reply("set_model")) == ["Answered"]
    before = len(talk.sent)
    for name, value in (("access", "full"), ("mode", "auto"), ("thinking", "-1"), ("thinking", "٣"), ("x", "y")):
        assert only_answer(talk.do(Set(id="a", name=name, value=value))).code == "unsupported"
    assert len(talk.sent) == before


@pytest.mark.parametrize(
    ("first", "given"),
    [
        ("read", {"read": "dontAsk"}),
        ("ask", {"ask": "default", "edit": "acceptEdits"}),
        ("edit", {"ask": "default", "edit": "acceptEdits"}),
        ("full", {"ask": "default", "edit": "acceptEdits", "full": "bypassPermissions"}),
    ],
)
def test_a_live_access_is_never_one_that_the_process_did_not_begin_with(first: str, given: dict[str, str]) -> None:
    for access in ("read", "ask", "edit", "full", "everything"):
        talk = Talk(turn(access=first))
        talk.begin()
        steps = talk.do(Set(id="a", name="access", value=access))
        if access not in given:
            assert only_answer(steps).code == "unsupported"
            continue
        assert talk.request("set_permission_mode")["request"]["mode"] == given[access]
        assert only_answer(talk.reply("set_permission_mode", {"mode": given[access]})).ok


def test_a_plan_is_left_for_the_mode_of_the_access_that_it_has_by_then() -> None:
    talk = talking()
    for name, value, mode in (("mode", "plan", "plan"), ("access", "edit", "acceptEdits"), ("mode", "plan", "plan")):
        talk.do(Set(id="s", name=name, value=value))
        assert only_answer(talk.reply("set_permission_mode", {"mode": mode})).ok
    (answer,) = talk.do(Query(id="q", name="modes"))
    assert json.loads(bytes(only_answer([answer]).result))["current"] == "plan"
    talk.do(Set(id="s", name="mode", value="default"))
    assert talk.request("set_permission_mode")["request"]["mode"] == "acceptEdits"
    assert only_answer(talk.reply("set_permission_mode", {"mode": "bypassPermissions"})).code == "failed"


def test_a_plan_that_claude_itself_begins_or_ends_is_reported_as_the_mode() -> None:
    talk = talking()
    talk.do(Set(id="s", name="mode", value="plan"))
    talk.reply("set_permission_mode", {"mode": "plan"})
    modes = []
    for mode in ("default", "plan", None, "acceptEdits"):
        talk.say("status", status=None, permissionMode=mode)
        answer = only_answer(talk.do(Query(id="q", name="modes")))
        modes.append(json.loads(bytes(answer.result))["current"])
    assert modes == ["default", "plan", "plan", "default"]


@pytest.mark.parametrize(("applied", "code"), [("low", ""), ("high", "unsupported"), (None, "unsupported")])
def test_an_effort_counts_only_if_claude_says_that_it_has_it(applied: str | None, code: str) -> None:
    talk = talking()
    talk.do(Set(id="e", name="effort", value="low"))
    assert talk.request("apply_flag_settings")["request"]["settings"] == {"effortLevel": "low"}
    talk.reply("apply_flag_settings")
    assert only_answer(talk.reply("get_settings", {"applied": {"effort": applied}})).code == code


def test_mcp_servers_are_controlled_and_shown_without_their_keys() -> None:
    talk = talking()

    def act(name: str, **given: object) -> list[Step]:
        return talk.do(Act(id="x", name=name, given=Raw(json.dumps(given).encode())))

    act("mcp.disable", server="docs")
    assert talk.request("mcp_toggle")["request"] == {"subtype": "mcp_toggle", "serverName": "docs", "enabled": False}
    assert only_answer(talk.reply("mcp_toggle", error="Server not found: docs")).code == "failed"
    act("mcp.call", server="my docs", tool="ping", arguments={"a": 1})
    assert talk.request("mcp_call")["request"]["tool"] == "mcp__my_docs__ping"
    assert only_answer(talk.reply("mcp_call", {"content": []})).ok
    act("mcp.set", servers={"docs": {"command": "x"}})
    answer = only_answer(talk.reply("mcp_set_servers", {"added": ["docs"], "removed": [], "errors": {"a": "b"}}))
    assert json.loads(bytes(answer.result)) == {"added": ["docs"], "removed": [], "errors": {"a": "b"}}
    talk.do(Query(id="q", name="mcp"))
    config = {"name": "docs", "status": "failed", "error": "no", "config": {"env": {"KEY": "secret"}}}
    answer = only_answer(talk.reply("mcp_status", {"mcpServers": [config]}))
    assert json.loads(bytes(answer.result)) == [{"name": "docs", "status": "failed", "tools": [], "error": "no"}]
    for name in ("mcp.reconnect", "mcp.enable", "mcp.call", "make.tea"):
        assert only_answer(act(name)).code == "unsupported"


def test_what_is_asked_of_the_process_is_answered() -> None:
    talk = Talk()
    talk.begin(commands=[{"name": "review"}, 3], models=[{"value": "opus"}], account={"tokenSource": "none"})

    def query(name: str) -> object:
        (answer,) = talk.do(Query(id=name, name=name))
        assert isinstance(answer, Answered)
        return json.loads(bytes(answer.result))

    assert [query(name) for name in ("commands", "models", "account")] == [
        ["review"],
        ["opus"],
        {"tokenSource": "none"},
    ]
    assert query("weather") is None
    talk.do(Query(id="c", name="context"))
    (answer,) = talk.reply("get_context_usage", {"totalTokens": 5, "maxTokens": 100})
    assert answer == Answered(id="c", result=answer.result) if isinstance(answer, Answered) else False
    assert json.loads(bytes(answer.result)) == {"used": 5, "size": 100}
    talk.do(Query(id="x", name="mcp"))
    (late,) = talk.wake(20.0)
    assert isinstance(late, Answered) and late.code == "unfinished"


def test_what_is_no_json_is_reported_and_ends_nothing() -> None:
    talk = talking()
    assert kinds(talk.hear(b"Warning: x")) == ["Unknown"]
    assert talk.hear(b"  ") == []
    assert isinstance(talk.events[-1], events.Unknown)
    talk.complete()
    assert over(talk).fit
