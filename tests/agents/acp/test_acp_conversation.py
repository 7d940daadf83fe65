"""The ACP link by itself: the order of a conversation, what it asks, and what it never does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.agents.acp.dialect import Dialect
from beam.agents.acp.requests import allows
from beam.agents.base import Content, Exit
from beam.agents.link import (
    Acknowledged,
    Answered,
    Asked,
    Broken,
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
from beam.model import events
from beam.model.message import RuleLists
from beam.model.outcome import Class, Status, Total, Usage
from beam.rules.rule import ToolCall
from beam.rules.ruleset import combine, rules_of
from tests.support.acp_dialogue import DIALECT, MODES, OPTIONS, SESSION, Talk, talking, turn
from tests.support.dialogue import broken, kinds, over

LOGIN = {"code": -32000, "message": "Authentication required"}


# -- its beginning -----------------------------------------------------------------------------------------------------


def test_a_turn_from_the_first_frame_to_its_end() -> None:
    talk = Talk()
    assert talk.sent[0]["params"]["clientCapabilities"] == {}
    assert kinds(talk.begin()) == ["Ready"]
    assert kinds(talk.prompt()) == ["Send"] and talk.link.busy
    assert kinds(talk.text("hel")) == ["Acknowledged", "SessionStarted", "TextDelta"]
    talk.text("lo")
    assert kinds(talk.complete()) == ["Text", "Over"] and not talk.link.busy
    verdict = over(talk).verdict
    assert (verdict.status, verdict.reply, verdict.session, verdict.session_id) == (
        Status.COMPLETED,
        "hello",
        "new",
        SESSION,
    )
    assert kinds(talk.do(Close())) == ["Eof"]


def test_what_is_acknowledged_is_not_over() -> None:
    talk = talking()
    assert not any(isinstance(step, Acknowledged) for step in talk.steps)
    talk.say("available_commands_update", availableCommands=[])
    assert not any(isinstance(step, Acknowledged) for step in talk.steps)
    talk.text("hello")
    assert any(isinstance(step, Acknowledged) for step in talk.steps) and talk.link.busy


@pytest.mark.parametrize(("access", "mode"), [("edit", "editing"), ("full", "free")])
def test_the_session_gets_the_mode_of_its_access_before_it_takes_a_prompt(access: str, mode: str) -> None:
    talk = Talk(turn(access=access))
    assert kinds(talk.begin()) == ["Send"]
    assert talk.last("session/set_mode")["params"] == {"sessionId": SESSION, "modeId": mode}
    assert kinds(talk.reply("session/set_mode")) == ["Ready"]


def test_the_list_of_options_is_used_before_the_older_ways() -> None:
    talk = Talk(turn(access="full", model="b"))
    talk.begin(configOptions=OPTIONS)
    assert talk.sent[-1]["params"] == {"sessionId": SESSION, "configId": "m", "value": "free"}
    chosen = [{**OPTIONS[0], "currentValue": "free"}, OPTIONS[1]]
    talk.reply("session/set_config_option", {"configOptions": chosen})
    assert talk.sent[-1]["params"] == {"sessionId": SESSION, "configId": "model", "value": "b"}
    assert kinds(talk.reply("session/set_config_option", {"configOptions": []})) == ["Broken"]
    assert "did not take over the model" in broken(talk).reason


def test_an_older_agent_is_given_its_model_by_set_model() -> None:
    talk = Talk(turn(model="b"))
    models = {"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]}
    talk.begin(models=models)
    assert talk.last("session/set_model")["params"] == {"sessionId": SESSION, "modelId": "b"}
    assert kinds(talk.reply("session/set_model")) == ["Ready"]


@pytest.mark.parametrize("fields", [{"modes": None}, {"modes": {**MODES, "availableModes": []}}])
def test_a_mode_that_is_not_there_is_unsupported(fields: dict[str, Any]) -> None:
    talk = Talk(turn(access="full"))
    talk.begin(**fields)
    assert broken(talk).class_ is Class.UNSUPPORTED and not talk.link.busy


def test_a_mode_that_the_agent_refuses_is_unsupported_or_said() -> None:
    talk = Talk(turn(access="full"))
    talk.begin()
    talk.reply("session/set_mode", error={"code": -32603, "message": "Internal error", "data": {"details": "no way"}})
    assert "no way" in broken(talk).reason


@pytest.mark.parametrize("mode", ["multitask", "read-write", "auto-plan", "thread"])
def test_a_mode_is_not_narrow_because_its_name_contains_the_letters_of_such_a_word(mode: str) -> None:
    talk = talking()
    talk.say("current_mode_update", currentModeId=mode)
    assert mode in broken(talk).reason


def test_a_session_that_goes_into_a_wider_mode_with_the_answer_to_a_setting_is_ended() -> None:
    talk = Talk()
    talk.begin(configOptions=OPTIONS)
    talk.prompt()
    talk.do(Set(id="m", name="model", value="b"))
    wider = [{**OPTIONS[0], "currentValue": "free"}, {**OPTIONS[1], "currentValue": "b"}]
    talk.reply("session/set_config_option", {"configOptions": wider})
    assert "'free'" in broken(talk).reason


def test_a_session_that_goes_into_a_wider_mode_before_it_is_ready_is_ended() -> None:
    talk = Talk(turn(model="b"))
    talk.begin(configOptions=OPTIONS)
    talk.say("current_mode_update", currentModeId="free")
    talk.reply("session/set_config_option", {})
    assert "'free'" in broken(talk).reason


def test_an_older_agent_that_took_the_mode_and_reports_other_settings_goes_on() -> None:
    talk = Talk()
    talk.begin(modes={**MODES, "currentModeId": "free"}, configOptions=OPTIONS[1:])
    talk.reply("session/set_mode")
    talk.prompt()
    assert talk.say("config_option_update", configOptions=OPTIONS[1:]) == []


def test_a_session_that_goes_into_a_wider_mode_by_itself_is_ended() -> None:
    talk = talking(access="read")
    talk.say("current_mode_update", currentModeId="planning")
    assert talk.link.busy
    talk.say("current_mode_update", currentModeId="free")
    assert broken(talk).class_ is Class.UNSUPPORTED and not talk.link.busy


def test_another_version_of_the_protocol_is_unsupported() -> None:
    talk = Talk()
    talk.reply("initialize", {"protocolVersion": 2})
    assert broken(talk).class_ is Class.UNSUPPORTED


def test_a_login_that_is_missing_is_reported_with_the_ways_to_log_in() -> None:
    talk = Talk()
    talk.reply("initialize", {"protocolVersion": 1, "authMethods": [{"name": "Log in with X"}]})
    talk.reply("session/new", error=LOGIN)
    assert broken(talk).class_ is Class.AUTH and "Log in with X" in broken(talk).reason


def test_one_that_ends_before_its_session_for_want_of_a_login_says_so() -> None:
    talk = Talk()
    talk.keep(talk.link.end(Exit(code=1, stderr_tail="Error: not logged in")))
    assert (broken(talk).class_, broken(talk).reason) == (Class.AUTH, "Error: not logged in")


@pytest.mark.parametrize("method", ["initialize", "session/new"])
def test_each_call_of_the_beginning_has_a_deadline(method: str) -> None:
    talk = Talk()
    if method == "session/new":
        talk.reply("initialize", {"protocolVersion": 1})
    assert talk.link.due is not None
    talk.wake(talk.link.due)
    assert "did not answer in time" in broken(talk).reason and talk.link.due is None


# -- an earlier session ------------------------------------------------------------------------------------------------


def test_a_session_goes_on_and_what_is_repeated_of_it_is_no_event() -> None:
    talk = Talk(turn(session_id=SESSION))
    talk.reply("initialize", {"protocolVersion": 1})
    assert talk.text("of an older turn") == []
    assert talk.say("tool_call", toolCallId="old", title="old") == []
    talk.reply("session/load", {"modes": MODES})
    talk.prompt()
    talk.text("new")
    talk.complete()
    assert (over(talk).verdict.reply, over(talk).verdict.session) == ("new", "resumed")
    assert kinds(talk.steps).count("TextDelta") == 1


@pytest.mark.parametrize(("code", "words"), [(-32602, "no such session"), (-32002, "Resource not found")])
def test_an_unknown_session_is_lost_where_the_agent_says_so(code: int, words: str) -> None:
    talk = Talk(turn(session_id=SESSION))
    talk.reply("initialize", {"protocolVersion": 1})
    talk.reply("session/load", error={"code": code, "message": words})
    assert isinstance(talk.events[0], events.SessionLost) and broken(talk).class_ is Class.BAD_REQUEST


def test_another_error_proves_no_session_lost() -> None:
    talk = Talk(turn(session_id=SESSION))
    talk.reply("initialize", {"protocolVersion": 1})
    talk.reply("session/load", error={"code": -32603, "message": "disk full"})
    assert talk.events == [] and "disk full" in broken(talk).reason


def test_sessions_are_looked_up_where_an_unknown_one_would_begin_in_silence() -> None:
    dialect = structs.replace(DIALECT, lists=True)
    talk = Talk(turn(session_id=SESSION), dialect)
    talk.reply("initialize", {"protocolVersion": 1})
    talk.reply("session/list", {"sessions": [{"sessionId": "other"}], "nextCursor": "2"})
    assert talk.last("session/list")["params"]["cursor"] == "2"
    talk.reply("session/list", {"sessions": [{"sessionId": SESSION}]})
    assert talk.last("session/load")["params"]["sessionId"] == SESSION
    gone = Talk(turn(session_id=SESSION), dialect)
    gone.reply("initialize", {"protocolVersion": 1})
    gone.reply("session/list", {"sessions": []})
    assert isinstance(gone.events[0], events.SessionLost)


def test_an_agent_of_anyones_goes_on_as_it_says_that_it_can() -> None:
    dialect = structs.replace(DIALECT, resume="as it says", modes={}, prefers={"ask": ("ask", "careful")})
    can = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    talk = Talk(turn(session_id=SESSION), dialect)
    talk.reply("initialize", {"protocolVersion": 1, "agentCapabilities": can})
    talk.reply("session/resume", error={"code": -32601, "message": "no such method"})
    assert kinds(talk.reply("session/load", {"modes": MODES})) == ["Ready"]
    begun = Talk(turn(), dialect)
    assert kinds(begun.begin(modes={**MODES, "currentModeId": "free"})) == ["Send"]
    assert begun.last("session/set_mode")["params"]["modeId"] == "careful"
    none = Talk(turn(session_id=SESSION), dialect)
    none.reply("initialize", {"protocolVersion": 1})
    assert broken(none).class_ is Class.UNSUPPORTED


def test_an_option_that_allows_everything_ends_the_process_below_full() -> None:
    dialect = structs.replace(DIALECT, never={"allow_all": "on"})
    off = [{"id": "allow_all", "currentValue": "off", "options": []}]
    wide = Talk(turn(), dialect)
    wide.begin(configOptions=[{**off[0], "currentValue": "on"}])
    assert broken(wide).class_ is Class.UNSUPPORTED
    talk = Talk(turn(), dialect)
    assert kinds(talk.begin(configOptions=off)) == ["Ready"]
    talk.prompt()
    talk.say("config_option_update", configOptions=[{**off[0], "currentValue": "on"}])
    assert "allow_all" in broken(talk).reason and not talk.link.busy


def test_an_answer_with_another_session_is_taken_for_none() -> None:
    talk = Talk(turn(session_id="mine"))
    talk.begin()
    assert "not asked for" in broken(talk).reason


def test_a_copy_of_a_session_has_an_id_of_its_own() -> None:
    talk = Talk(turn(session_id="mine", fork=True))
    assert kinds(talk.begin()) == ["Ready"]
    assert talk.last("session/fork")["params"]["sessionId"] == "mine"
    talk.prompt()
    assert kinds(talk.text("x"))[:2] == ["Acknowledged", "SessionStarted"]
    same = Talk(turn(session_id=SESSION, fork=True))
    same.begin()
    assert "not asked for" in broken(same).reason


@pytest.mark.parametrize(("fork", "session_id"), [(True, None), (False, SESSION)])
def test_a_prompt_that_is_refused_leaves_a_copy_without_the_id_of_the_other_session(
    fork: bool, session_id: str | None
) -> None:
    talk = Talk(turn(session_id="mine" if fork else SESSION, fork=fork, schema="{"))
    talk.begin()
    talk.prompt()
    verdict = over(talk).verdict
    assert (verdict.status, verdict.class_, verdict.session_id) == (Status.FAILED, Class.BAD_REQUEST, session_id)


def test_a_schema_of_the_settings_that_leads_elsewhere_is_refused_before_the_prompt() -> None:
    talk = Talk(turn(schema='{"$ref": "other.json"}'))
    talk.begin()
    talk.prompt()
    verdict = over(talk).verdict
    assert (verdict.class_, verdict.reason) == (Class.BAD_REQUEST, "'other.json' is no place in the schema")
    assert not [each for each in talk.sent if each.get("method") == "session/prompt"]


# -- what it says ------------------------------------------------------------------------------------------------------


def test_texts_thoughts_calls_and_plans_come_in_their_order() -> None:
    talk = talking()
    talk.text("I look.")
    talk.say("tool_call", toolCallId="c", title="read", kind="read", status="pending", rawInput={})
    talk.say("tool_call_update", toolCallId="c", status="in_progress", rawInput={"path": "/p/a"})
    talk.say("tool_call_update", toolCallId="c", status="completed", content=[_text("found")])
    talk.say("agent_thought_chunk", content={"type": "text", "text": "hm"})
    talk.say("plan", entries=[{"content": "one", "status": "completed"}])
    talk.text("Done.")
    talk.complete()
    names = [name for name in kinds(talk.steps) if name not in ("Send", "Ready", "Acknowledged", "TextDelta")]
    assert names == [
        *("SessionStarted", "Text", "ToolCalled", "ToolReturned", "PlanUpdated", "Thinking", "Text", "Over"),
    ]
    called = next(event for event in talk.events if isinstance(event, events.ToolCalled))
    assert (called.name, bytes(called.input)) == ("read", b'{"path":"/p/a"}')
    assert over(talk).verdict.reply == "Done."


def _text(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


def test_noise_is_no_part_of_the_answer_and_unknown_updates_are_reported() -> None:
    talk = talking()
    talk.text("[NOISE] mode")
    talk.say("something_new", x=1)
    talk.text("yes")
    talk.complete()
    assert over(talk).verdict.reply == "yes"
    assert [event.what for event in talk.events if isinstance(event, events.Unknown)] == ["something_new"]


def test_changes_of_files_are_reported_once_they_are_made() -> None:
    talk = talking()
    diff = {"type": "diff", "path": "/p/a", "oldText": None, "newText": "x"}
    talk.say("tool_call", toolCallId="c", title="write", kind="edit", status="in_progress", content=[diff])
    assert not any(isinstance(event, events.FileChanged) for event in talk.events)
    talk.say("tool_call_update", toolCallId="c", status="completed")
    changed = [event for event in talk.events if isinstance(event, events.FileChanged)]
    assert [(event.path, event.kind) for event in changed] == [("/p/a", "add")]


def test_what_another_session_says_is_no_part_of_the_turn() -> None:
    talk = talking()
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    assert talk.hear({"method": "session/update", "params": {"sessionId": "child", "update": update}}) == []


def test_a_prompt_is_no_command_of_the_agents_own() -> None:
    talk = talking(text=" /allow-all on")
    assert talk.last("session/prompt")["params"]["prompt"] == [{"type": "text", "text": "Message:\n /allow-all on"}]


PICTURE = Content(path="/p/a b.png", image="image/png", data=b"\x89PNG")
NOTE = Content(path="/p/n.txt", data="plums \u00fc".encode())
OTHER = Content(path="/p/o.bin", data=b"\xff\0")


def looking(*contents: Content, dialect: Dialect = DIALECT, **takes: bool) -> Talk:
    """A conversation whose turn has these files, with an agent that takes that in a prompt."""
    talk = Talk(turn(contents=contents, attach=tuple(content.path for content in contents)), dialect)
    can = {"promptCapabilities": takes}
    talk.reply("initialize", {"protocolVersion": 1, "agentCapabilities": can})
    talk.reply("session/new", {"sessionId": SESSION, "modes": {**MODES, "currentModeId": "careful"}})
    talk.prompt()
    return talk


def test_attached_files_go_along_as_far_as_the_agent_takes_them() -> None:
    talk = looking(PICTURE, NOTE, OTHER, image=True, embeddedContext=True)
    image, text, link = talk.last("session/prompt")["params"]["prompt"][1:]
    assert image == {"type": "image", "mimeType": "image/png", "data": "iVBORw==", "uri": "file:///p/a%20b.png"}
    uri = "file:///p/n.txt"
    assert text == {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": "plums \u00fc"}}
    assert link == {"type": "resource_link", "uri": "file:///p/o.bin", "name": "o.bin"}


def test_what_an_agent_says_once_its_status_is_that_of_a_failure_is_no_answer() -> None:
    dialect = structs.replace(DIALECT, fails_at=("x", "state", "broken"))
    for states, status in (
        (["broken"], Status.FAILED),
        (["broken", "idle"], Status.FAILED),
        (["broken", "on"], Status.COMPLETED),
    ):
        talk = talking(dialect)
        for state in states:
            talk.say("session_info_update", _meta={"x": {"state": state}})
        talk.text("error 400: invalid request")
        talk.complete()
        assert over(talk).verdict.status is status
    talk = talking(dialect)
    talk.say("session_info_update", _meta={"x": "broken"})
    talk.say("session_info_update", _meta=None)
    talk.text("hello")
    talk.complete()
    assert over(talk).verdict.reply == "hello"


def test_files_are_texts_for_an_agent_that_loses_images_or_contents_otherwise() -> None:
    dialect = structs.replace(DIALECT, files_as_text=True)
    talk = looking(PICTURE, NOTE, OTHER, dialect=dialect, image=True, embeddedContext=True)
    image, text, path = talk.last("session/prompt")["params"]["prompt"][1:]
    assert (image["type"], text["type"], path["type"]) == ("image", "text", "text")
    assert "/p/n.txt\n\nplums" in text["text"] and path["text"] == "\n\nAttached file: /p/o.bin\n"


def test_a_text_is_a_link_for_an_agent_that_takes_no_content() -> None:
    (link,) = looking(NOTE).last("session/prompt")["params"]["prompt"][1:]
    assert link == {"type": "resource_link", "uri": "file:///p/n.txt", "name": "n.txt"}


def test_an_image_for_an_agent_that_takes_none_is_refused_and_nothing_is_sent() -> None:
    talk = looking(PICTURE, embeddedContext=True)
    verdict = over(talk).verdict
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.UNSUPPORTED)
    assert "/p/a b.png" in verdict.reason and not talk.link.busy  # type: ignore[operator]
    assert all(frame.get("method") != "session/prompt" for frame in talk.sent)


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_request_is_asked_with_what_it_is_for_and_answered_once() -> None:
    talk = talking()
    talk.ask(7, title="touch made", kind="execute", rawInput={"command": "touch made"})
    (asked,) = [step for step in talk.steps if isinstance(step, Asked)]
    assert (asked.tool, asked.description, asked.call_id) == ("execute", "touch made", "c-1")
    assert (bytes(asked.input), asked.allow, asked.always) == (b'{"command":"touch made"}', True, True)
    assert bytes(asked.suggestions) == b'["the same again in this session"]'
    talk.do(Decide(key=asked.key, decision="allow"))
    assert talk.answer(7) == {"outcome": {"outcome": "selected", "optionId": "yes"}}
    assert talk.do(Decide(key=asked.key, decision="deny")) == []


@pytest.mark.parametrize(
    ("decide", "outcome"),
    [
        ({"decision": "deny"}, {"outcome": "selected", "optionId": "no"}),
        ({"decision": "cancelled"}, {"outcome": "cancelled"}),
        ({"decision": "allow", "always": True}, {"outcome": "selected", "optionId": "always"}),
    ],
)
def test_each_decision_has_its_answer(decide: dict[str, Any], outcome: dict[str, str]) -> None:
    talk = talking()
    talk.ask(kind="execute")
    talk.do(Decide(key="0", **decide))
    assert talk.answer() == {"outcome": outcome}


def test_what_would_be_allowed_for_good_is_not_offered() -> None:
    talk = talking()
    talk.ask(options=[{"optionId": "for-good", "kind": "allow_always", "name": "Always allow"}], kind="execute")
    (asked,) = [step for step in talk.steps if isinstance(step, Asked)]
    assert (asked.allow, asked.always, bytes(asked.suggestions)) == (False, False, b"[]")
    talk.do(Decide(key="0", decision="allow", always=True))
    assert talk.answer() == {"outcome": {"outcome": "cancelled"}}


def test_a_request_that_the_agent_cancels_is_withdrawn_and_answered_once() -> None:
    talk = talking()
    talk.ask(7, kind="execute", rawInput={"command": "ls"})
    talk.ask(8, kind="execute", toolCallId="c-2", rawInput={"command": "pwd"})
    for number in (7, 7, "8", None, [8]):
        talk.hear({"method": "$/cancel_request", "params": {"requestId": number}})
    assert [step.key for step in talk.steps if isinstance(step, Withdrawn)] == ["7"]
    assert talk.answer(7) == {"outcome": {"outcome": "cancelled"}}
    assert talk.do(Decide(key="7", decision="allow")) == []
    talk.do(Decide(key="8", decision="allow"))
    assert talk.answer(8) == {"outcome": {"outcome": "selected", "optionId": "yes"}}


_SERVER, _TOOL, _FUTURE = "Allow all server tools for this session", "Allow tool for this session", "future sessions"
_SAME = "the same again in this session"


@pytest.mark.parametrize(
    ("names", "chosen", "scope"),
    [
        ((_SERVER, _TOOL), _TOOL, [_SAME]),  # as gemini offers for an MCP server's tool
        ((_SERVER,), _SERVER, [_SERVER]),
        ((f"Allow for all {_FUTURE}", "Allow for this session"), "Allow for this session", [_SAME]),
        ((f"Allow for all {_FUTURE}", f"Allow in this session and {_FUTURE}"), "once", []),
    ],
)
def test_always_is_the_narrowest_option_for_this_session_and_says_what_else_it_allows(
    names: tuple[str, ...], chosen: str, scope: list[Any]
) -> None:
    talk = talking()
    options = [{"optionId": name, "kind": "allow_always", "name": name} for name in names]
    talk.ask(options=[*options, {"optionId": "once", "kind": "allow_once", "name": "Allow"}], kind="other")
    (asked,) = [step for step in talk.steps if isinstance(step, Asked)]
    assert (json.loads(bytes(asked.suggestions)), asked.always) == (scope, bool(scope))
    talk.do(Decide(key="0", decision="allow", always=True))
    assert talk.answer() == {"outcome": {"outcome": "selected", "optionId": chosen}}


def test_a_request_that_says_nothing_takes_it_from_the_call_before() -> None:
    talk = talking()
    talk.say("tool_call", toolCallId="c-1", title="Bash", kind="execute", status="pending", content=[_text("")])
    talk.say("tool_call_update", toolCallId="c-1", status="in_progress", content=[_text('{"command":"ls"}')])
    talk.ask(title="Bash", content=[_text("Requesting approval")])
    (asked,) = [step for step in talk.steps if isinstance(step, Asked)]
    assert (asked.tool, bytes(asked.input), asked.description) == ("Bash", b'{"command":"ls"}', "ls\nBash")


@pytest.mark.parametrize(
    ("access", "kind", "paths", "given", "expected"),
    [
        ("full", "", (), {}, True),
        ("ask", "read", ("/p/a",), {}, False),
        ("read", "read", ("/p/a", "b"), {}, True),
        ("read", "edit", ("/p/a",), {}, False),
        ("read", "read", (), {}, False),
        ("read", "read", ("/p/../etc/passwd",), {}, False),
        ("read", "read", ("/p/a", "/q"), {}, False),
        ("read", "read", ("/p/a",), {"command": "cat a; rm a"}, False),
        ("edit", "edit", ("/p/a",), {}, True),
        ("edit", "edit", ("/pa",), {}, False),
        ("edit", "edit", ("/p",), {}, False),
        ("edit", "edit", (), {}, False),
        ("edit", "execute", ("/p/a",), {}, False),
        ("edit", "", ("/p/a",), {}, False),
        ("edit", "delete", ("/p/a",), {}, False),
        ("edit", "edit", ("~/.bashrc",), {}, False),
    ],
)
def test_beam_itself_allows_what_the_access_means_and_no_more(
    access: Any, kind: str, paths: tuple[str, ...], given: dict[str, str], expected: bool
) -> None:
    assert allows(access, kind, paths, given, "/p") is expected


def test_a_link_out_of_the_folder_is_not_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    (folder / "in").symlink_to(folder / "deep")
    (tmp_path / "named").symlink_to(folder)
    for access, kind in (("read", "read"), ("edit", "edit")):
        assert not allows(access, kind, (f"{folder}/out/.bashrc",), {}, str(folder))
        assert allows(access, kind, (f"{folder}/in/new",), {}, str(folder))
        assert allows(access, kind, ("new",), {}, str(tmp_path / "named"))


def test_with_edit_a_change_in_the_folder_is_allowed_and_a_command_is_for_the_driver_to_deny() -> None:
    talk = talking(access="edit")
    talk.ask(1, title="write", kind="edit", locations=[{"path": "/p/a"}])
    assert talk.answer(1) == {"outcome": {"outcome": "selected", "optionId": "yes"}}
    talk.ask(2, toolCallId="c-2", title="rm a", kind="execute")
    assert [step.key for step in talk.steps if isinstance(step, Asked)] == ["2"]


RULED = combine(rules_of(RuleLists(deny=("Edit(secrets/**)",)), "me"))


def test_with_rules_what_the_access_allows_is_for_the_driver_to_decide_and_is_marked_so() -> None:
    talk = talking(access="edit", rules=RULED)
    talk.ask(1, title="write", kind="edit", locations=[{"path": "/p/a"}])
    talk.ask(2, toolCallId="c-2", title="write", kind="edit", locations=[{"path": "/q/a"}])
    asked = [step for step in talk.steps if isinstance(step, Asked)]
    assert [(step.key, step.granted, step.call) for step in asked] == [
        ("1", True, ToolCall(tool="Edit", paths=("/p/a",))),
        ("2", False, ToolCall(tool="Edit", paths=("/q/a",))),
    ]
    talk.do(Decide(key="1", decision="allow"))
    assert talk.answer(1) == {"outcome": {"outcome": "selected", "optionId": "yes"}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "execute", "rawInput": {"command": "ls"}}, ToolCall(tool="Bash", command="ls")),
        ({"kind": "execute", "title": "ls"}, ToolCall(tool="Bash", by_person=True)),
        ({"kind": "execute", "rawInput": {"command": ["ls", "-l"]}}, ToolCall(tool="Bash", by_person=True)),
        ({"kind": "delete", "locations": [{"path": "/p/a"}]}, ToolCall(tool="Edit", paths=("/p/a",))),
        ({"kind": "edit", "locations": [{"path": "src/a, secrets/b"}]}, ToolCall(tool="Edit")),
        ({"kind": "edit", "locations": [{"path": "/p/a"}], "rawInput": {"command": "rm"}}, None),
        ({"kind": "search"}, ToolCall(tool="Read")),
        ({"kind": "fetch", "rawInput": {"url": "https://A.com/x"}}, ToolCall(tool="WebFetch", host="a.com")),
        ({"kind": "fetch", "rawInput": {"url": "https://a.com@b.com"}}, ToolCall(tool="WebFetch")),
        ({"kind": "other", "title": "mcp"}, None),
        ({"title": "?"}, None),
    ],
)
def test_a_request_is_in_the_terms_of_rules_as_far_as_it_says_what_it_is(
    fields: dict[str, Any], expected: ToolCall | None
) -> None:
    talk = talking()
    talk.ask(**fields)
    (asked,) = [step for step in talk.steps if isinstance(step, Asked)]
    assert asked.call == expected and not asked.granted


def test_the_id_of_a_finished_call_that_comes_again_is_another_call() -> None:
    talk = talking(access="edit")
    talk.say("tool_call", toolCallId="c-1", title="edit", kind="edit", locations=[{"path": "/p/a"}])
    talk.say("tool_call_update", toolCallId="c-1", status="completed")
    talk.text("Now the second step.")
    talk.ask(1, kind="edit", rawInput={"file_path": "/etc/x"})
    (asked,) = [step for step in talk.steps if isinstance(step, Asked)]
    assert (bytes(asked.input), asked.granted) == (b'{"file_path":"/etc/x"}', False), "nobody asked about /etc/x"
    talk.do(Decide(key="1", decision="deny"))
    talk.text("Final answer.")
    talk.complete()
    assert over(talk).verdict.reply == "Final answer."
    assert [type(event) for event in talk.events if isinstance(event, events.ToolCalled | events.ToolReturned)] == [
        events.ToolCalled,
        events.ToolReturned,
    ] * 2


def test_a_request_with_the_id_of_a_finished_call_shows_nothing_of_that_call() -> None:
    talk = talking()
    for _ in range(2):
        talk.say("tool_call", toolCallId="c-1", kind="execute", rawInput={"command": "git status"}, status="completed")
    talk.ask(title="rm -rf x", kind="execute")
    (asked,) = [step for step in talk.steps if isinstance(step, Asked)]
    assert (bytes(asked.input), asked.description) == (b'{"title":"rm -rf x"}', "rm -rf x")
    assert asked.call == ToolCall(tool="Bash", by_person=True), "a rule for `git status` would decide it"
    assert len([event for event in talk.events if isinstance(event, events.ToolCalled)]) == 3


def test_a_request_with_the_id_of_a_call_that_was_denied_is_about_another_call() -> None:
    talk = talking()
    talk.ask(1, title="git status", kind="execute", rawInput={"command": "git status"})
    talk.do(Decide(key="1", decision="deny"))
    talk.ask(2, title="rm -rf x", kind="execute")
    assert [bytes(step.input) for step in talk.steps if isinstance(step, Asked)][1] == b'{"title":"rm -rf x"}'
    talk.do(Decide(key="2", decision="allow"))
    talk.say("tool_call_update", toolCallId="c-1", status="completed")
    returned = [event for event in talk.events if isinstance(event, events.ToolReturned)]
    assert [(event.output, event.is_error) for event in returned] == [("it was denied", True), ("", False)]


INSIDE = [{"path": "/p/a"}]


@pytest.mark.parametrize(
    ("announced", "requested", "paths", "by_person"),
    [
        ({"locations": INSIDE}, {"rawInput": {"file_path": "/etc/x"}}, ("/p/a", "/etc/x"), False),
        ({"locations": INSIDE}, {"rawInput": {"files": [{"path": "/etc/x"}]}}, ("/p/a", "/etc/x"), False),
        ({"locations": INSIDE}, {"rawInput": {"paths": ["/p/b", "../x"]}}, ("/p/a", "/p/b", "../x"), False),
        ({"locations": INSIDE}, {"rawInput": {"where": "/etc/x"}}, ("/p/a",), True),
        ({"locations": INSIDE}, {"locations": [{"path": "/etc/x"}]}, ("/etc/x", "/p/a"), False),
        ({"locations": [{"path": "/etc/x"}]}, {"locations": INSIDE}, ("/p/a", "/etc/x"), False),
        ({}, {"locations": INSIDE, "rawInput": {"file_path": "~/x"}}, ("/p/a", "~/x"), False),
    ],
)
def test_a_request_that_contradicts_its_call_is_not_allowed_by_what_the_call_said(
    announced: dict[str, Any], requested: dict[str, Any], paths: tuple[str, ...], by_person: bool
) -> None:
    talk = talking(access="edit")
    talk.say("tool_call", toolCallId="c-1", title="edit", kind="edit", status="pending", **announced)
    talk.ask(**requested)
    (asked,) = [step for step in talk.steps if isinstance(step, Asked)]
    assert asked.call == ToolCall(tool="Edit", paths=paths, by_person=by_person)


@pytest.mark.parametrize(
    "requested",
    [
        {},
        {"rawInput": {"file_path": "/p/a", "text": "x"}},
        {"rawInput": {"path": "a"}, "locations": []},
        {"rawInput": {"where": "/p/a", "text": "x"}},
        {"rawInput": {"text": "y"}, "locations": INSIDE},
    ],
)
def test_a_request_that_agrees_with_its_call_is_allowed_with_the_files_of_the_call(requested: dict[str, Any]) -> None:
    talk = talking(access="edit")
    given = {"where": "/p/a", "text": "x"}
    talk.say("tool_call", toolCallId="c-1", kind="edit", status="pending", locations=INSIDE, rawInput=given)
    talk.ask(1, **requested)
    assert talk.answer(1) == {"outcome": {"outcome": "selected", "optionId": "yes"}}


def test_a_call_of_any_depth_leaves_the_turn_running() -> None:
    """Around the depth at which Python gives up, what can be read may be too deep to be compared or written."""
    limit = sys.getrecursionlimit()
    call = b'"toolCallId":"c-1","kind":"edit","locations":[{"path":"/p/a"}],"content":[%s],"rawOutput":%s,"rawInput":%s'
    update = b'{"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call",%s}}}'
    request = b'{"id":1,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"c-1","rawInput":%s}}}'
    for depth in (*range(limit - 120, limit + 5), 100_000):
        talk, deep = talking(access="edit"), b'{"a":' * depth + b"1" + b"}" * depth
        talk.hear(update.replace(b"%s", call).replace(b"%s", deep))
        talk.hear(request.replace(b"%s", deep))
        talk.hear(update.replace(b"%s", call + b',"status":"completed"').replace(b"%s", deep))
        assert talk.link.busy


def test_a_search_of_the_whole_folder_is_allowed_and_one_elsewhere_is_not() -> None:
    talk = talking(access="read")
    for number, path in enumerate((".", "/p", "/")):
        talk.ask(number, toolCallId=f"c-{number}", kind="search", locations=INSIDE, rawInput={"path": path})
    assert [step.key for step in talk.steps if isinstance(step, Asked)] == ["2"]


@pytest.mark.parametrize(
    "method", ["fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create", "craft/new"]
)
def test_what_beam_does_not_offer_is_refused_with_an_error(method: str) -> None:
    talk = talking()
    talk.hear({"id": 3, "method": method, "params": {"sessionId": SESSION, "path": "/p/a"}})
    assert talk.answer(3)["code"] == -32601 and talk.link.busy


@pytest.mark.parametrize("number", [1.5, None, {"a": 1}])
def test_a_request_with_an_odd_id_is_answered_too(number: object) -> None:
    talk = talking()
    talk.hear({"id": number, "method": "fs/read_text_file", "params": {}})
    assert talk.answer(number)["code"] == -32601


def test_a_request_between_two_turns_is_cancelled_and_the_process_is_no_good_any_more() -> None:
    talk = talking()
    talk.text("x")
    talk.complete()
    steps = talk.ask(kind="execute")
    assert kinds(steps) == ["Send", "Stirred"] and talk.answer() == {"outcome": {"outcome": "cancelled"}}
    assert talk.say("agent_message_chunk", content={"text": "late"}) == []
    assert [type(step) for step in talk.say("tool_call", toolCallId="n", title="x")] == [Stirred]


# -- its end -----------------------------------------------------------------------------------------------------------


def test_an_interrupt_answers_what_is_open_first_and_hears_the_rest() -> None:
    talk = talking()
    talk.text("half")
    talk.ask(kind="execute")
    steps = talk.do(Interrupt())
    assert [isinstance(step, Send) for step in steps] == [True, True]
    assert talk.answer() == {"outcome": {"outcome": "cancelled"}}
    assert talk.sent[-1] == {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}
    talk.text(" and more")
    assert talk.link.busy
    talk.complete("cancelled")
    verdict = over(talk).verdict
    assert (verdict.status, over(talk).fit) == (Status.CANCELLED, True) and not talk.link.busy


def test_a_turn_that_was_cancelled_is_cancelled_whatever_the_agent_calls_it() -> None:
    talk = talking()
    talk.text("half")
    talk.do(Interrupt())
    talk.complete("end_turn")
    assert over(talk).verdict.status is Status.CANCELLED


def test_an_interrupt_that_nothing_follows_has_a_deadline() -> None:
    talk = talking()
    talk.do(Interrupt())
    assert talk.link.due is not None
    talk.wake(talk.link.due)
    assert "did not end its turn" in broken(talk).reason and not talk.link.busy


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("end_turn", Status.COMPLETED),
        ("max_tokens", Status.TRUNCATED),
        ("refusal", Status.REFUSED),
        ("max_turn_requests", Status.LIMIT),
        ("cancelled", Status.CANCELLED),
        ("whatever", Status.FAILED),
    ],
)
def test_each_reason_to_stop_has_its_status(reason: str, status: Status) -> None:
    talk = talking()
    talk.text("x")
    talk.complete(reason)
    assert over(talk).verdict.status is status


def test_a_turn_that_ends_without_a_word_has_failed() -> None:
    talk = talking()
    talk.complete()
    assert over(talk).verdict.status is Status.FAILED and "without a word" in (over(talk).verdict.reason or "")


@pytest.mark.parametrize(
    ("error", "class_", "fit"),
    [
        (LOGIN, Class.AUTH, False),
        ({"code": 429, "message": "slow down"}, Class.RATE_LIMIT, True),
        ({"code": -32603, "message": "Internal error", "data": {"details": "503 overloaded"}}, Class.OVERLOADED, True),
    ],
)
def test_a_turn_that_fails_has_the_class_of_its_error(error: dict[str, Any], class_: Class, fit: bool) -> None:
    talk = talking()
    talk.reply("session/prompt", error=error)
    assert (over(talk).verdict.status, over(talk).verdict.class_, over(talk).fit) == (Status.FAILED, class_, fit)


def test_the_tokens_of_a_turn_for_which_the_agent_counted_none_are_not_known() -> None:
    talk = talking()
    talk.text("well")
    talk.complete(usage={"inputTokens": 0, "outputTokens": 0})
    assert over(talk).verdict.usage == Usage()


@pytest.mark.parametrize(
    ("text", "tokens", "status"),
    [
        ("Error: 400 bad model", 5, Status.FAILED),
        ("Error: no connection", 0, Status.FAILED),
        ("Error: is what it said", 5, Status.COMPLETED),
        ("No Error: 400 ", 0, Status.COMPLETED),
    ],
)
def test_a_failure_in_the_place_of_an_answer_is_one(text: str, tokens: int, status: Status) -> None:
    talk = talking(structs.replace(DIALECT, failed="Error: "))
    talk.text(text)
    talk.complete(usage={"inputTokens": 10, "outputTokens": tokens})
    assert over(talk).verdict.status is status


def test_what_is_in_a_file_is_the_result_of_reading_it_and_not_how_long_it_is() -> None:
    talk = talking()
    words = [{"type": "content", "content": {"type": "text", "text": "Read 1 line"}}]
    for number, (kind, output) in enumerate([("read", {"content": "plums"}), ("read", {}), ("edit", {"content": "x"})]):
        call = {"toolCallId": f"c{number}", "kind": kind, "title": "look", "rawInput": {"path": "/p/a"}}
        talk.say("tool_call", **call, status="completed", content=words, rawOutput=output)
    returned = [event.output for event in talk.events if isinstance(event, events.ToolReturned)]
    assert returned == ["plums", "Read 1 line", "Read 1 line"]


def test_a_files_name_that_the_agent_says_in_the_middle_of_a_call_is_no_part_of_its_answer() -> None:
    talk = talking(structs.replace(DIALECT, aside="Info: "))
    call = {"toolCallId": "c", "title": "Create file", "kind": "edit", "locations": [{"path": "/p/a"}]}
    talk.say("tool_call", **call, status="in_progress", rawInput={"path": "/p/a"})
    talk.text("Info: /p/a")
    talk.text("Info: /p/b")
    talk.say("tool_call_update", toolCallId="c", status="completed")
    talk.text("Info: /p/a")
    talk.complete()
    assert [event.text for event in talk.events if isinstance(event, events.Text)] == ["Info: /p/b", "Info: /p/a"]


@pytest.mark.parametrize(
    ("describes", "kind", "name"),
    [(False, "execute", "Build"), (True, "execute", "execute"), (True, "other", "Build"), (True, "", "Build")],
)
def test_a_title_that_describes_a_call_is_not_its_tools_name(describes: bool, kind: str, name: str) -> None:
    talk = talking(structs.replace(DIALECT, describes=describes))
    talk.say("tool_call", toolCallId="c", title="Build", kind=kind, status="in_progress", rawInput={"command": "m"})
    assert [event.name for event in talk.events if isinstance(event, events.ToolCalled)] == [name]


def test_a_process_that_ends_in_a_turn_ends_it() -> None:
    talk = talking()
    talk.say("tool_call", toolCallId="c", title="sleep", kind="execute", status="in_progress")
    talk.keep(talk.link.end(Exit(signal="SIGKILL")))
    assert (over(talk).verdict.class_, over(talk).fit) == (Class.CRASHED, False)
    assert [event.unfinished for event in talk.events if isinstance(event, events.ToolReturned)] == [True]


def test_a_call_that_was_denied_and_never_mentioned_again_is_over_at_the_end() -> None:
    talk = talking()
    talk.ask(title="rm", kind="execute")
    talk.do(Decide(key="0", decision="deny"))
    talk.text("I could not.")
    talk.complete()
    returned = [event for event in talk.events if isinstance(event, events.ToolReturned)]
    assert [(event.is_error, event.unfinished) for event in returned] == [(True, False)]
    assert over(talk).verdict.denials == () and over(talk).verdict.reply == "I could not."


def test_what_the_agent_denied_by_its_own_rules_is_a_denial() -> None:
    talk = talking()
    talk.say("tool_call", toolCallId="c", title="bash", kind="execute", status="in_progress", rawInput={"command": "x"})
    talk.say("tool_call_update", toolCallId="c", status="failed", content=[_text("The rules deny this")])
    talk.text("no")
    talk.complete()
    assert [denial.tool for denial in over(talk).verdict.denials] == ["bash"]


# -- figures -----------------------------------------------------------------------------------------------------------

USED = {"inputTokens": 100, "outputTokens": 7}


def figures(counts: Any, used: list[int], **fields: Any) -> list[Usage]:
    """What three turns of one process used, if it says that it used so much."""
    talk = Talk(turn(**fields), structs.replace(DIALECT, counts=counts))
    talk.begin()
    for tokens in used:
        talk.prompt()
        talk.text("x")
        talk.complete(usage={"inputTokens": tokens, "outputTokens": tokens // 10})
    return [step.verdict.usage for step in talk.steps if isinstance(step, Over)]


def test_figures_that_are_sums_are_subtracted() -> None:
    for counts in ("process", "session"):
        assert [usage.input_tokens for usage in figures(counts, [100, 250, 300])] == [100, 150, 50]
    assert [usage.input_tokens for usage in figures("turn", [100, 250])] == [100, 250]
    assert figures("nothing", [100]) == [Usage()]


def test_the_sum_of_a_session_goes_on_from_what_was_counted_before() -> None:
    carried = Total(input_tokens=100, output_tokens=10)
    resumed = figures("session", [250, 300], session_id=SESSION, carried=carried)
    assert [usage.input_tokens for usage in resumed] == [150, 50]
    assert figures("session", [250], session_id=SESSION) == [Usage()]
    assert figures("session", [50], session_id=SESSION, carried=carried) == [Usage()]
    assert [usage.input_tokens for usage in figures("process", [250], session_id=SESSION)] == [250]


def test_figures_of_single_calls_are_added() -> None:
    talk = talking(structs.replace(DIALECT, counts="calls"))
    talk.text("x")
    for _ in range(2):
        talk.text("", _meta={"usage": {**USED, "cachedReadTokens": 40}})
    talk.complete()
    usage = over(talk).verdict.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (120, 14, 80)


@pytest.mark.parametrize(
    ("given", "more", "total"),
    [
        (100, {"outputTokens": 7}, 7147),  # of claude-agent-acp and codex-acp
        (100, {"outputTokens": 7, "thoughtTokens": 5}, 7147),
        (100, {"outputTokens": 7, "thoughtTokens": 5}, 7152),
        (7140, {"outputTokens": 7}, 7147),
        (7140, {"outputTokens": 7, "thoughtTokens": 5}, 7152),
        (7140, {"outputTokens": 7}, None),
    ],
)
def test_input_tokens_are_those_not_read_from_a_cache_with_those_written_to_one(
    given: int, more: dict[str, int], total: int | None
) -> None:
    talk = talking(structs.replace(DIALECT, counts="turn"))
    talk.text("x")
    talk.complete(
        usage={"inputTokens": given, **more, "cachedReadTokens": 40, "cachedWriteTokens": 7000, "totalTokens": total}
    )
    usage = over(talk).verdict.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (7100, 40, 7000)


def test_the_cost_of_a_session_is_reported_as_that_of_the_turn() -> None:
    talk = Talk()
    talk.begin()
    for amount in (0.5, 0.75):
        talk.prompt()
        talk.text("x")
        talk.say("usage_update", used=10, size=100, cost={"amount": amount, "currency": "USD"})
        talk.complete()
    assert [step.verdict.cost_usd for step in talk.steps if isinstance(step, Over)] == [0.5, 0.25]


def test_the_cost_of_a_turn_is_not_known_if_the_agent_reported_none_in_it_or_in_the_turn_before() -> None:
    """The report after a turn without one is of both turns."""
    talk = Talk()
    talk.begin()
    for fields in ({"cost": {"amount": 0.5}}, {}, None, {"cost": {"amount": 0.75}}, {"cost": {"amount": 0.875}}):
        talk.prompt()
        talk.text("x")
        if fields is not None:
            talk.say("usage_update", used=10, size=100, **fields)
        talk.complete(usage={"inputTokens": 1000, "outputTokens": 200})
    ended = [step.verdict for step in talk.steps if isinstance(step, Over)]
    assert [verdict.cost_usd for verdict in ended] == [0.5, None, None, None, 0.125]
    assert ended[1].usage.input_tokens == 1000


# -- control -----------------------------------------------------------------------------------------------------------


def test_each_call_is_answered_once() -> None:
    talk = Talk()
    talk.begin(configOptions=OPTIONS)
    talk.prompt()
    talk.say("usage_update", used=10, size=100)
    talk.do(Steer(id="s", text="left"))
    talk.do(Set(id="a", name="access", value="full"))
    talk.do(Set(id="n", name="model", value="none"))
    talk.do(Set(id="m", name="model", value="b"))
    talk.reply("session/set_config_option", {"configOptions": [OPTIONS[0], {**OPTIONS[1], "currentValue": "b"}]})
    for name in ("context", "models", "modes", "commands", "weather"):
        talk.do(Query(id=name, name=name))
    answers = {step.id: step for step in talk.steps if isinstance(step, Answered)}
    assert {id: step.ok for id, step in answers.items()} == {
        "s": False,
        "a": False,
        "n": False,
        "m": True,
        "context": True,
        "models": True,
        "modes": True,
        "commands": False,
        "weather": False,
    }
    assert {step.code for step in answers.values() if not step.ok} == {"unsupported"}
    assert bytes(answers["context"].result) == b'{"used":10,"size":100}'


def test_a_setting_that_the_agent_kept_as_it_was_has_failed() -> None:
    talk = Talk()
    talk.begin(configOptions=OPTIONS)
    talk.do(Set(id="m", name="model", value="b"))
    talk.reply("session/set_config_option", {"configOptions": OPTIONS})
    (answer,) = [step for step in talk.steps if isinstance(step, Answered)]
    assert (answer.ok, answer.code, answer.message) == (False, "failed", "agent did not take over the model 'b'")


def test_a_turn_reports_the_model_that_was_set_while_the_process_lives() -> None:
    talk = Talk()
    models = {"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]}
    talk.begin(models=models)
    talk.do(Set(id="m", name="model", value="b"))
    talk.reply("session/set_model")
    talk.prompt()
    talk.text("x")
    talk.complete()
    assert over(talk).verdict.model == "b"


def test_a_setting_that_gets_no_answer_is_late() -> None:
    talk = Talk()
    talk.begin(configOptions=OPTIONS)
    talk.do(Set(id="m", name="model", value="b"))
    assert talk.link.due is not None
    talk.wake(talk.link.due)
    (answer,) = [step for step in talk.steps if isinstance(step, Answered)]
    assert (answer.ok, answer.code) == (False, "unfinished")
    assert [type(step) for step in talk.steps if isinstance(step, Ready | Broken)] == [Ready]


def test_a_link_that_broke_does_nothing_more() -> None:
    talk = Talk()
    talk.reply("initialize", {"protocolVersion": 9})
    assert talk.do(Prompt(turn=talk.turn)) == [] and talk.text("x") == [] and talk.wake(1e6) == []


def test_a_live_session_may_only_plan_and_return_to_the_mode_of_its_access_and_no_other() -> None:
    modes = {**MODES, "availableModes": [*MODES["availableModes"], {"id": "plan"}]}  # type: ignore[misc]
    talk = Talk(turn(access="ask"), structs.replace(DIALECT, plan="plan"))
    talk.begin(modes=modes)
    for value, mode in (("plan", "plan"), ("default", "careful")):
        talk.do(Set(id=value, name="mode", value=value))
        assert talk.last("session/set_mode")["params"] == {"sessionId": SESSION, "modeId": mode}
        talk.reply("session/set_mode")
    for value in ("free", "editing", ""):
        talk.do(Set(id=f"x{value}", name="mode", value=value))
    without = Talk(turn(access="ask"))
    without.begin(modes=modes)
    without.do(Set(id="p", name="mode", value="plan"))
    answers = {step.id: step for step in (*talk.steps, *without.steps) if isinstance(step, Answered)}
    assert [id for id, step in answers.items() if step.ok] == ["plan", "default"]
    assert "live modes of agent are plan and default" in answers["xfree"].message
    assert "live modes of agent are default" in answers["p"].message
