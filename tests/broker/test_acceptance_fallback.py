"""Who answers when an agent can't, through the real `beam`: other models first, then other agents."""

from __future__ import annotations

import pytest

from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance

LIMITED = 'replies:\n- ["I remember"]\n- [{fail: {class: CLASS, reason: no luck}}]\n- ["back again"]\n'
AGENTS = """\
  main: {adapter: scripted, script: main.yaml}
  cat: {command: [cat], access: read}
  broken: {adapter: scripted, script: broken.yaml, access: read}
  wide: {command: [cat]}
"""


def place(beam: Cli, policy: str, *, first: str = LIMITED, class_: str = "rate_limit") -> None:
    (beam.project / "main.yaml").write_text(first.replace("CLASS", class_))
    (beam.project / "broken.yaml").write_text("default: [{fail: {class: auth, reason: log in}}]\n")
    beam.config(f"policy: {{{policy}}}\nagents:\n{AGENTS}")


@pytest.mark.parametrize("class_", ["rate_limit", "overloaded", "auth"])
def test_another_agent_answers_with_the_history_and_the_outcome_says_who_and_why(beam: Cli, class_: str) -> None:
    place(beam, "fallback: [{agent: cat}]", class_=class_)
    assert beam("send", "main", "the word is plum").code == 0
    done = beam("send", "main", "what is the word?", "--json")
    assert (done.code, done.json["status"], done.json["attempt"], done.json["agent"]) == (0, "completed", 2, "main")
    assert done.json["stand_in"] == {"agent": "cat", "model": None, "why": f"{class_}: no luck", "place": 1}
    assert done.json["reply"].startswith("what is the word?\n\n[beam quotes the history of the agent main here")
    assert "the word is plum" in done.json["reply"] and "I remember" in done.json["reply"]
    requeued = [event["reason"] for event in beam.journal("main") if event["type"] == "message.requeued"]
    assert requeued == ["fallback"]
    assert beam.journal("cat") == [], "its own queue and session are not touched"
    back = beam("send", "main", "are you there?", "--json").json
    assert (back["reply"], back["session"], "stand_in" in back) == ("back again", "resumed", False)
    sent = [event for event in beam.journal("main") if event["type"] == "prompt.sent"]
    assert sent[-1]["bytes"] > 200, "its session is told what the other agent said"
    report = beam("report", "--json").out
    assert f'"stand_ins":{{"cat ({class_})":1}}' in report
    assert f"1 by cat ({class_})" in beam("report").out
    assert f"answered by cat ({class_})" in beam("log", "main").out


def test_the_next_one_is_asked_when_one_in_the_list_can_not_answer_either(beam: Cli) -> None:
    place(beam, "fallback: [{agent: nobody}, {agent: broken}, {agent: cat}, {agent: wide}]")
    beam("send", "main", "one")
    done = beam("send", "main", "two", "--json").json
    assert (done["status"], done["stand_in"]["agent"], done["attempt"]) == ("completed", "cat", 4)


def test_where_nobody_can_answer_the_message_fails_once(beam: Cli) -> None:
    place(beam, "fallback: [{agent: broken}]")
    beam("send", "main", "one")
    done = beam("send", "main", "two", "--json")
    assert (done.code, done.json["class"], done.json["stand_in"]["agent"]) == (1, "auth", "broken")
    assert len(beam.box("main", "dead")) == 1


def test_a_program_that_may_do_more_than_the_message_is_not_asked(beam: Cli) -> None:
    place(beam, "fallback: [{agent: wide}]")
    beam("send", "main", "one")
    done = beam("send", "main", "two", "--json").json
    assert (done["status"], done["class"]) == ("failed", "unsupported")
    assert "this message has access read at the most" in done["reason"]


def test_an_agent_that_has_called_a_tool_is_not_replaced(beam: Cli) -> None:
    called = (
        "replies:\n- [{tool: {name: Bash, input: {}, is_error: true}}, {fail: {class: rate_limit, reason: limit}}]\n"
    )
    place(beam, "fallback: [{agent: cat}]", first=called)
    done = beam("send", "main", "one", "--json").json
    assert (done["status"], done["class"], done["attempt"]) == ("failed", "rate_limit", 1)


def test_other_failures_are_not_handed_on(beam: Cli) -> None:
    place(beam, "fallback: [{agent: cat}]", class_="bad_request")
    beam("send", "main", "one")
    assert beam("send", "main", "two", "--json").json["class"] == "bad_request"


def test_an_open_circuit_sends_the_message_to_the_others_at_once(beam: Cli) -> None:
    place(beam, "circuit_failures: 1, circuit_open: 1h, fallback: [{agent: cat}]", class_="network")
    beam("send", "main", "one")
    assert beam("send", "main", "two").code == 1
    done = beam("send", "main", "three", "--json")
    assert (done.code, done.json["stand_in"]["agent"], done.json["attempt"]) == (0, "cat", 1)
    assert done.json["stand_in"]["why"] == "circuit"
    assert beam("status", "main", "--json").json["circuit"] == "open", "an answer of another agent does not close it"


def test_a_usage_limit_is_waited_for_only_if_nobody_else_can_answer(beam: Cli) -> None:
    first = 'replies:\n- [{fail: {class: rate_limit, reason: "try again in 9 h"}}]\n'
    place(beam, "usage_limit: wait, fallback: [{agent: cat}]", first=first)
    agents = [beam("send", "main", text, "--json").json for text in ("one", "two")]
    assert [(each["stand_in"]["agent"], each["attempt"]) for each in agents] == [("cat", 2), ("cat", 1)]
    place(beam, "usage_limit: wait, fallback: [{agent: broken}]", first=first)
    waits = beam("send", "main", "three", "--no-wait").out.strip()
    assert beam("wait", waits, "--timeout", "3s").code == 12
    assert beam.box("main", "dead") == []
    assert beam("queue", "drop", waits).code == 0


def test_other_models_of_the_agent_come_first_and_go_on_in_its_session(beam: Cli) -> None:
    beam.config(
        "policy: {fallback: [{agent: cat}, small]}\n"
        "agents:\n  cat: {command: [cat], access: read}\n"
        "  main: {adapter: scripted, script: models.yaml}\n"
    )
    (beam.project / "models.yaml").write_text(
        "replies:\n- [{fail: {class: overloaded, reason: busy}}]\n- [small here]\n"
    )
    done = beam("send", "main", "one", "--json").json
    assert (done["reply"], done["stand_in"]["agent"], done["stand_in"]["model"]) == ("small here", "main", "small")
    assert done["model"] == "small" and done["session"] == "resumed"


@pytest.mark.parametrize("point", ["finish.recorded", "offer.rewritten", "offer.recorded", "prompt.written"])
def test_a_holder_that_is_killed_on_the_way_hands_the_message_on_once(beam: Cli, point: str) -> None:
    first = "replies:\n- [{fail: {class: rate_limit, reason: no luck}}]\n- [twice]\n"
    place(beam, "fallback: [{agent: cat}], retry_unknown: 0", first=first)
    assert beam("send", "main", "one", env={"BEAM_CRASH_AT": point}).code == 137
    message = next(event["message_id"] for event in beam.journal("main") if event["type"] == "message.queued")
    done = beam("wait", message, "--json").json
    if point == "prompt.written":
        assert (done["status"], "stand_in" in done) == ("unknown", False), "what nobody knows is not handed on"
        return
    assert (done["reply"], done["attempt"], done["stand_in"]["agent"]) == ("one", 2, "cat")
