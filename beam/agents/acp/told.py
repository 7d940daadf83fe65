"""The parts of a prompt besides the message: the system prompt, if the agent has no other place for it, and the schema
of the answer.

The system prompt is sent once in a session, and again after it was changed. Does not depend on the agent.
"""

from __future__ import annotations

from beam.agents.base import Turn
from beam.agents.fields import Object
from beam.agents.oneshot import replace_surrogates
from beam.base.digest import sha256

_SYSTEM_TEXT = "Instructions for all of this session, not only for this message:\n\n{}\n\n"
_CHANGED_SYSTEM_TEXT = "New instructions for all of this session, in place of the earlier ones:\n\n{}\n\n"
_SCHEMA_TEXT = "\n\nAnswer with one JSON value that follows this JSON Schema, and with no other text:\n\n{}\n"


def system_digest(turn: Turn) -> str:
    """Return the digest of the system prompt with which the turn's message has to begin; "" if there is no system
    prompt, or if the session has it already."""
    system = turn.settings.system
    if not system:
        return ""
    digest = sha256(replace_surrogates(system).encode()).hexdigest()
    return "" if digest == turn.told else digest


def parts_before(turn: Turn) -> list[Object]:
    """Return the part of the prompt that comes before the message: the system prompt, unless the session has it
    already."""
    if not system_digest(turn):
        return []
    return [text_part((_SYSTEM_TEXT if turn.told is None else _CHANGED_SYSTEM_TEXT).format(turn.settings.system))]


def parts_after(turn: Turn) -> list[Object]:
    """Return the part of the prompt that comes after the message: the schema of its answer, if it has one."""
    return [] if turn.schema is None else [text_part(_SCHEMA_TEXT.format(turn.schema))]


def text_part(text: str) -> Object:
    """Return a text as a part of a prompt."""
    return {"type": "text", "text": replace_surrogates(text)}
