"""The envelope of a message between agents, as the receiver reads it."""

from __future__ import annotations

import msgspec
import pytest

from beam.agents import registry
from beam.agents.base import Capabilities, Card
from beam.model.message import Message, Payload
from beam.model.settings import AgentSettings
from beam.turns.input import add_envelope

OUTBOX = "/state/turns/alice/k/outbox"
CARD = Card(name="any", summary="", faces={})
FACE = Capabilities(access=("read", "edit", "full"), outbox=("edit", "full"))
ASKED = Message(
    id="alice-1", timestamp="", sender="bob", to="alice", payload=Payload(text="Hello."), reply="queue", hops=1
)
ANSWER = msgspec.structs.replace(ASKED, type="reply", reply="none", reply_to="bob-7")
BY_A_PERSON = msgspec.structs.replace(ASKED, sender="human", reply="wait", hops=0)
AS_ANOTHER = msgspec.structs.replace(ASKED, type="inject", hops=0, actor="human")
WHO = "[from bob; your answer goes to bob; to end say nothing or END]"
WHERE = f'[to write to an agent, save {{"to": "NAME", "text": "..."}} as {OUTBOX}/ANY-NAME.json]'


def read(message: Message, envelope: str | None = None, *, card: Card = CARD, access: str = "read") -> str:
    """What the receiver is prompted with."""
    settings = AgentSettings(envelope=envelope)
    return add_envelope(message, settings=settings, card=card, capabilities=FACE, access=access, outbox=OUTBOX)


def test_the_receiver_is_told_who_speaks_and_what_an_answer_does() -> None:
    assert read(ASKED) == f"{WHO}\n\nHello."


def test_an_answer_names_what_it_answers_and_that_nobody_gets_another() -> None:
    assert read(ANSWER) == "[from bob, answering bob-7; your answer goes to nobody]\n\nHello."


def test_a_sender_that_waits_gets_the_answer_whatever_it_is() -> None:
    waits = msgspec.structs.replace(ASKED, reply="wait")
    assert read(waits) == "[from bob; your answer goes to bob]\n\nHello."


@pytest.mark.parametrize("message", [BY_A_PERSON, AS_ANOTHER])
@pytest.mark.parametrize("envelope", [None, "none", "short", "[{from}]"])
def test_a_person_s_message_is_what_the_person_wrote(message: Message, envelope: str | None) -> None:
    assert read(message, envelope, access="edit") == "Hello."


@pytest.mark.parametrize("access", ["edit", "full"])
def test_who_can_write_its_outbox_is_told_where_it_is_and_what_to_write(access: str) -> None:
    assert read(ASKED, access=access) == f"{WHO}\n{WHERE}\n\nHello."
    assert read(BY_A_PERSON, "full", access=access) == f"{WHERE}\n\nHello."


@pytest.mark.parametrize("envelope", [None, "full", "[{from} {outbox}]"])
def test_who_can_t_write_its_outbox_is_not_told_of_it(envelope: str | None) -> None:
    assert OUTBOX not in read(ASKED, envelope, access="read")


def test_a_setting_changes_the_envelope_or_switches_it_off() -> None:
    assert read(ASKED, "none", access="edit") == "Hello."
    assert read(ASKED, "short", access="edit") == f"{WHO}\n\nHello."
    own = "<{from}> {outbox} {answer} {about} {else}"
    assert read(ASKED, own, access="edit") == f"<bob> {OUTBOX} bob  {{else}}\n\nHello."
    assert read(ANSWER, own, access="edit") == f"<bob> {OUTBOX} nobody bob-7 {{else}}\n\nHello."


@pytest.mark.parametrize("name", ["command", "scripted", "bash", "python"])
def test_programs_get_the_text_alone_unless_their_settings_want_more(name: str) -> None:
    card = registry.adapter(name).card
    assert read(ASKED, card=card, access="full") == "Hello."
    assert read(ASKED, "short", card=card) == f"{WHO}\n\nHello."


def test_every_cli_that_is_kept_in_the_folder_and_may_edit_says_whether_its_file_tool_reaches_the_outbox() -> None:
    told = {
        name
        for name in registry.ADAPTERS
        for face in registry.adapter(name).card.faces.values()
        if "edit" in face.outbox
    }
    assert told == {"claude", "codex", "gemini", "opencode", "kilo", "copilot"}, "as docs/security.md shows at edit"
