"""What a prompt over ACP says besides the message: the system prompt, once in a session, and the answer's schema."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw, structs

from beam.agents.link import Over, Say
from beam.model import events
from beam.model.outcome import Class, Status
from beam.model.settings import AgentSettings
from tests.support.acp_dialogue import DIALECT, MODES, SESSION, Talk, turn

SYSTEM = "/compact Speak like a pirate."
SETTINGS = AgentSettings(system=SYSTEM)
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'


def began(dialect: Any = DIALECT, can: object = None, **fields: Any) -> Talk:
    """A conversation that took its first prompt; `can` is what the agent announces."""
    talk = Talk(turn(**fields), dialect)
    talk.reply("initialize", {"protocolVersion": 1, "agentCapabilities": can or {}})
    talk.reply(talk.opener, {"sessionId": SESSION, "modes": MODES})
    talk.prompt()
    return talk


def texts(talk: Talk) -> list[str]:
    return [part["text"] for part in talk.last("session/prompt")["params"]["prompt"]]


def told(talk: Talk) -> Any:
    """The digest that the journal gets."""
    talk.text("aye")
    (opened,) = [
        each for each in talk.events if isinstance(each, events.SessionStarted)
    ]  # fmt: skip
    return opened.system


def notices(talk: Talk) -> list[str]:
    return [step.event.code for step in talk.steps if isinstance(step, Say) and isinstance(step.event, events.Notice)]


def test_the_system_prompt_comes_before_the_first_message_and_the_journal_says_so() -> None:
    talk = began(settings=SETTINGS)
    first, message = texts(talk)
    assert SYSTEM in first and not first.lstrip().startswith("/") and message == "hi"
    assert len(told(talk)) == 64 and notices(talk) == ["system"]


def test_a_session_that_knows_it_is_not_told_again_but_a_changed_one_is() -> None:
    digest = told(began(settings=SETTINGS))
    again = began(settings=SETTINGS, session_id=SESSION, told=digest)
    assert texts(again) == ["hi"] and notices(again) == []
    other = began(settings=AgentSettings(system="Speak like a monk."), session_id=SESSION, told=digest)
    first, message = texts(other)
    assert "in place of the earlier ones" in first and "monk" in first and message == "hi"
    assert told(other) not in (digest, None)


def test_a_session_that_began_without_it_is_told_when_it_goes_on() -> None:
    talk = began(settings=SETTINGS, session_id=SESSION)
    assert SYSTEM in texts(talk)[0] and len(told(talk)) == 64


def test_an_agent_that_announces_a_place_for_it_gets_it_there_and_not_in_the_message() -> None:
    can = {"loadSession": True, "sessionCapabilities": {"systemPrompt": {}}}
    for session_id in (None, SESSION):
        talk = began(can=can, settings=SETTINGS, session_id=session_id)
        assert talk.last(talk.opener)["params"]["systemPrompt"] == {
            "mode": "append",
            "content": [{"type": "text", "text": SYSTEM}],
        }
        assert texts(talk) == ["hi"] and notices(talk) == []
    assert "systemPrompt" not in began(can=can).last("session/new")["params"]


def test_one_that_was_started_with_it_is_told_nothing() -> None:
    talk = began(structs.replace(DIALECT, starts_with_system=True), settings=SETTINGS)
    assert texts(talk) == ["hi"] and notices(talk) == []


def answered(reply: str, schema: str = SCHEMA, reason: str = "end_turn") -> Any:
    """The verdict on a turn with that schema and that answer."""
    talk = began(schema=schema)
    assert schema in texts(talk)[-1] and texts(talk)[0] == "hi"
    talk.text(reply)
    talk.complete(reason)
    (over,) = [step for step in talk.steps if isinstance(step, Over)]
    return over.verdict


@pytest.mark.parametrize("reply", ['{"n": 3}', ' {"n": 3}\n', 'Here:\n```json\n{"n": 3}\n```\nDone.'])
def test_an_answer_that_follows_the_schema_is_the_value_of_the_outcome(reply: str) -> None:
    verdict = answered(reply)
    assert (verdict.status, verdict.structured) == (Status.COMPLETED, Raw(b'{"n":3}'))


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("three", "it is not JSON"),
        ('{"n": "3"}', "['n']: '3' is not of type 'integer'"),
        ("[" * 100_000, "it is not JSON"),
        ('```\n{"n": 1.5}\n```', "['n']: 1.5"),
    ],
)
def test_an_answer_that_does_not_is_a_failure_with_what_is_wrong(reply: str, why: str) -> None:
    verdict = answered(reply)
    assert (verdict.status, verdict.class_) == (Status.FAILED, Class.SCHEMA) and why in verdict.reason
    assert not isinstance(verdict.structured, Raw)


def test_an_answer_that_was_cut_off_is_no_failure_of_the_schema() -> None:
    assert answered('{"n":', reason="max_tokens").status is Status.TRUNCATED


@pytest.mark.parametrize("schema", ["{", '"x"', '{"type": 3}'])
def test_what_is_no_schema_is_told_to_nobody(schema: str) -> None:
    talk = Talk(turn(schema=schema))
    talk.begin()
    before = len(talk.sent)
    (over,) = talk.prompt()
    assert isinstance(over, Over) and over.fit and not talk.link.busy
    assert (over.verdict.status, over.verdict.class_) == (Status.FAILED, Class.BAD_REQUEST)
    assert len(talk.sent) == before
