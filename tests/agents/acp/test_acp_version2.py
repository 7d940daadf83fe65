"""Version 2 of the protocol, a draft: what beam sends and hears in it."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from msgspec import structs

from beam.agents.acp.conversation import AcpLink
from beam.agents.acp.dialect import Dialect
from beam.agents.acp.version2 import Version2
from beam.agents.base import json_object
from beam.agents.link import Asked, Broken, Decide, Interrupt, Over, Prompt, Say, Step, Stirred
from beam.model import events
from beam.model.outcome import Class, Status
from tests.support.acp_dialogue import CHOICES, DIALECT, SESSION, turn
from tests.support.dialogue import Conversation, kinds, over

OPTIONS = [
    {
        "configId": "m",
        "category": "mode",
        "currentValue": "other",
        "options": [{"value": "careful"}, {"value": "free"}],
    }
]


class Talk(Conversation):
    """A conversation in version 2."""

    def __init__(self, dialect: Dialect = DIALECT, **fields: Any) -> None:
        self.turn = turn(**fields)
        super().__init__(Version2(AcpLink(self.turn, dialect)))

    def reply(self, method: str, **result: Any) -> list[Step]:
        number = next(frame["id"] for frame in reversed(self.sent) if frame.get("method") == method)
        return self.hear({"jsonrpc": "2.0", "id": number, "result": result})

    def say(self, kind: str, /, **fields: Any) -> list[Step]:
        params = {"sessionId": SESSION, "update": {"sessionUpdate": kind, **fields}}
        return self.hear({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def begin(self, opener: str = "session/new") -> list[Step]:
        can = {"session": {"prompt": {"image": {}}, "mcp": {}}}
        self.reply("initialize", protocolVersion=2, capabilities=can, authMethods=[])
        self.reply(opener, sessionId=SESSION, configOptions=OPTIONS)
        chosen = [{**OPTIONS[0], "currentValue": "careful"}]
        return self.reply("session/set_config_option", configOptions=chosen)

    def prompt(self) -> list[Step]:
        return self.do(Prompt(turn=self.turn))

    def text(self, text: str) -> list[Step]:
        return self.say("agent_message_chunk", messageId="m-1", content={"type": "text", "text": text})


def test_a_turn_is_over_by_the_state_of_its_session_and_not_by_the_answer_to_its_prompt() -> None:
    talk = Talk()
    first = talk.sent[0]["params"]
    assert (first["protocolVersion"], first["info"]["name"], first["capabilities"]) == (2, "beam", {})
    assert kinds(talk.begin()) == ["Ready"]
    assert talk.sent[-1]["params"] == {"sessionId": SESSION, "configId": "m", "value": "careful", "type": "id"}
    talk.prompt()
    talk.say("state_update", state="idle", stopReason="end_turn")  # of before: the prompt was not received yet
    assert talk.link.busy and talk.reply("session/prompt", messageId="m-0") == [] and talk.link.busy
    talk.say("user_message", messageId="m-0", content=[])
    talk.say("state_update", state="running")
    talk.text("hello")
    talk.say("agent_message", messageId="m-1", content=[{"type": "text", "text": "hello"}])
    talk.say("state_update", state="requires_action")
    talk.say("state_update", state="idle")  # which ends no work
    assert talk.link.busy
    talk.say("state_update", state="idle", stopReason="end_turn", usage={"inputTokens": 7, "outputTokens": 2})
    verdict = over(talk).verdict
    assert (verdict.status, verdict.reply, verdict.usage.input_tokens) == (Status.COMPLETED, "hello", 7)
    talk.say("state_update", state="idle", stopReason="end_turn")
    assert len([step for step in talk.steps if isinstance(step, Over)]) == 1


def test_work_without_a_prompt_is_reported() -> None:
    talk = Talk()
    assert talk.say("state_update", state="running") == []
    talk.begin()
    assert talk.say("state_update", state="running") == [Stirred()]


def test_an_interrupt_ends_by_the_state() -> None:
    talk = Talk()
    talk.begin()
    talk.prompt()
    talk.reply("session/prompt", messageId="m-0")
    talk.do(Interrupt())
    assert talk.sent[-1] == {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}
    talk.say("state_update", state="idle", stopReason="cancelled")
    assert over(talk).verdict.status is Status.CANCELLED


@pytest.mark.parametrize(
    ("subject", "description"),
    [
        ({"type": "tool_call", "toolCall": {"toolCallId": "c-1", "rawInput": {"command": "rm x"}}}, "rm x"),
        ({"type": "command", "command": "rm x", "cwd": "/p"}, "rm x"),
        ({"type": "_new"}, "May I?"),
        (None, "May I?"),
    ],
)
def test_a_request_is_asked_with_what_it_is_about_and_answered(subject: object, description: str) -> None:
    talk = Talk()
    talk.begin()
    talk.prompt()
    params = {"sessionId": SESSION, "title": "May I?", "subject": subject, "options": CHOICES}
    steps = talk.hear({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": params})
    (asked,) = [step for step in steps if isinstance(step, Asked)]
    assert asked.description.splitlines()[0] == description
    talk.do(Decide(key=asked.key, decision="allow"))
    assert talk.sent[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": "yes"}}


def test_a_session_goes_on_by_resume() -> None:
    talk = Talk(structs.replace(DIALECT, resume="as it says"), session_id=SESSION)
    assert kinds(talk.begin("session/resume")) == ["Ready"]
    assert talk.sent[1]["method"] == "session/resume" and talk.sent[1]["params"]["sessionId"] == SESSION


@pytest.mark.parametrize("version", [1, 3, None])
def test_an_agent_of_another_version_is_unsupported(version: object) -> None:
    (broken,) = Talk().reply("initialize", protocolVersion=version, agentCapabilities={})
    assert isinstance(broken, Broken) and broken.class_ is Class.UNSUPPORTED


@pytest.mark.parametrize(
    "frame",
    [
        b"hello",
        b"[1]",
        json.dumps({"id": [1], "result": {}}).encode(),
        json.dumps({"id": {"a": 1}}).encode(),
        json.dumps({"method": "session/update", "params": 3}).encode(),
        json.dumps({"method": "session/request_permission", "id": [1], "params": []}).encode(),
        json.dumps({"method": "session/request_permission", "params": {}}).encode(),
        json.dumps({"id": 1, "result": {"protocolVersion": 2, "capabilities": 3}}).encode(),
        json.dumps({"id": 1, "result": {"configOptions": [3]}}).encode(),
    ],
)
def test_a_frame_that_is_wrong_changes_nothing(frame: bytes) -> None:
    talk = Talk()
    talk.begin()
    talk.hear(frame)
    talk.prompt()
    talk.hear(frame)
    talk.reply("session/prompt", messageId="m-0")
    talk.text("hello")
    talk.say("state_update", state="idle", stopReason="end_turn")
    assert over(talk).verdict.reply == "hello"


def said(talk: Talk, *kinds: type[events.Event]) -> list[Any]:
    return [step.event for step in talk.steps if isinstance(step, Say) and isinstance(step.event, kinds)]


def working() -> Talk:
    talk = Talk()
    talk.begin()
    talk.prompt()
    talk.reply("session/prompt", messageId="m-0")
    return talk


def test_a_plan_is_the_same_event_as_in_version_1() -> None:
    talk = working()
    entries = [{"content": "look", "priority": "high", "status": "completed"}, {"content": "act", "status": "pending"}]
    talk.say("plan_update", plan={"type": "items", "planId": "p", "entries": entries})
    (plan,) = said(talk, events.PlanUpdated)
    assert [(step.text, step.status) for step in plan.steps] == [("look", "completed"), ("act", "pending")]
    assert said(talk, events.Unknown) == []


def test_a_plan_of_another_kind_is_kept_as_unknown() -> None:
    talk = working()
    talk.say("plan_update", plan={"type": "_tree", "planId": "p"})
    assert [event.what for event in said(talk, events.Unknown)] == ["plan_update"]


CHANGES = [
    {"operation": "add", "path": "/p/a"},
    {"operation": "modify", "path": "/p/b"},
    {"operation": "delete", "path": "/p/c"},
    {"operation": "move", "oldPath": "/p/d", "path": "/p/e"},
    {"operation": "_other", "path": "/p/f"},
]
DIFF = {"type": "diff", "changes": CHANGES, "patch": {"format": "git_patch", "text": "--- a\n+++ b\n"}}


def test_each_file_of_a_diff_is_reported_with_what_happened_to_it_and_the_call_has_the_patch() -> None:
    talk = working()
    talk.say("tool_call_update", toolCallId="c-1", title="edit", kind="edit", status="completed", content=[DIFF])
    assert [(event.kind, event.path) for event in said(talk, events.FileChanged)] == [
        ("add", "/p/a"),
        ("update", "/p/b"),
        ("delete", "/p/c"),
        ("delete", "/p/d"),
        ("add", "/p/e"),
        ("update", "/p/f"),
    ]
    (called,) = said(talk, events.ToolCalled)
    assert "--- a" in json.loads(bytes(called.input))["changes"][0]["patch"]


def test_rules_see_every_file_of_a_diff_that_is_asked_about() -> None:
    talk = working()
    call = {"toolCallId": "c-1", "kind": "edit", "title": "edit", "content": [DIFF]}
    params = {"sessionId": SESSION, "title": "Edit?", "subject": {"type": "tool_call", "toolCall": call}}
    talk.hear(
        {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "session/request_permission",
            "params": {**params, "options": CHOICES},
        }
    )
    (asked,) = [step for step in talk.steps if isinstance(step, Asked)]
    assert asked.call is not None and asked.call.paths == tuple(f"/p/{name}" for name in "abcdef")


def test_a_call_that_was_cancelled_is_over_and_changed_nothing() -> None:
    talk = working()
    talk.say("tool_call_update", toolCallId="c-1", title="edit", kind="edit", status="cancelled", content=[DIFF])
    assert [event.is_error for event in said(talk, events.ToolReturned)] == [True]
    assert said(talk, events.FileChanged) == []


@pytest.mark.parametrize("content", [[{"type": "diff", "changes": [7, None]}], "x", [{"type": "diff", "changes": {}}]])
def test_a_diff_that_is_wrong_changes_nothing(content: object) -> None:
    talk = working()
    talk.say("tool_call_update", toolCallId="c-1", title="edit", kind="edit", status="completed", content=content)
    assert said(talk, events.FileChanged) == []


DEEP_CALL = b'"toolCallId":"c-1","kind":"edit","title":"edit","rawInput":{"file_path":"/p/a","deep":%s}'


DEEP_UPDATE = b'"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":'
DEEP_REQUEST = b'"method":"session/request_permission","id":7,"params":{"sessionId":"s-1","options":[],"subject":'


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (DEEP_UPDATE + b'"tool_call_update","status":"cancelled",' + DEEP_CALL + b"}}", "ToolReturned"),
        (DEEP_UPDATE + b'"plan_update","_meta":%s,"plan":{"type":"items","entries":[]}}}', "PlanUpdated"),
        (DEEP_UPDATE + b'"state_update","state":"idle","stopReason":"end_turn","_meta":%s}}', "Over"),
        (DEEP_REQUEST + b'{"type":"tool_call","toolCall":{' + DEEP_CALL + b"}}}", "Asked"),
    ],
    ids=["call", "plan", "state", "request"],
)
def test_a_frame_nested_too_deeply_is_neither_lost_nor_the_end_of_the_conversation(frame: bytes, kind: str) -> None:
    """Around the depth at which Python gives up, what can be read may be too deep to be written."""

    def line(depth: int) -> bytes:
        return b"{" + frame.replace(b"%s", b'{"a":' * depth + b"1" + b"}" * depth) + b"}"

    limit = sys.getrecursionlimit()
    for depth in (10, *range(limit - 120, limit + 5), 100_000):
        talk = working()
        talk.text("hello")
        found = kinds(talk.link.line(line(depth), 0.0))
        assert kind in found or (found == ["Unknown"] and json_object(line(depth + 10)) is None), depth
