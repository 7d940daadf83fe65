"""A turn whose CLI never says that it is over: what it said is the reply when beam gives up, over every protocol."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from beam.agents.base import Exit, Verdict
from beam.agents.link import Over
from beam.model.outcome import Status
from tests.support import acp_dialogue, claude_dialogue, codex_dialogue
from tests.support.dialogue import Conversation

GAVE_UP = Exit(code=None, signal="SIGTERM", stopped_by="idle")


def of_acp() -> Conversation:
    talk = acp_dialogue.talking()
    talk.text("All.")
    return talk


def of_codex() -> Conversation:
    talk = codex_dialogue.Talk()
    talk.begin()
    talk.prompt()
    talk.say("item/completed", item={"id": "i", "type": "agentMessage", "text": "All."})
    return talk


def of_claude() -> Conversation:
    talk = claude_dialogue.Talk()
    talk.begin()
    talk.prompt()
    talk.text("All.")
    return talk


@pytest.mark.parametrize("begin", [of_acp, of_codex, of_claude])
def test_what_was_said_is_the_reply_of_a_turn_that_never_ended(begin: Callable[[], Conversation]) -> None:
    talk = begin()
    found: list[Verdict] = [step.verdict for step in talk.link.end(GAVE_UP) if isinstance(step, Over)]
    assert [(each.status, each.reply) for each in found] == [(Status.TIMEOUT, "All.")]
