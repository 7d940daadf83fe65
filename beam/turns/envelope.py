"""The envelope of a message between agents: the first lines of the prompt. They name the sender and the receiver of the
answer, and say how to send a message.

The envelope is made from the holder's knowledge, never from the message's text. Does not depend on any agent CLI, or on
queues.
"""

from __future__ import annotations

from beam.agents.base import Capabilities, Card
from beam.model.message import Message
from beam.model.settings import ENVELOPES, AgentSettings


def add_envelope(
    message: Message,
    *,
    settings: AgentSettings,
    card: Card,
    capabilities: Capabilities,
    access: str,
    outbox: str,
) -> str:
    """Return the prompt: the text, below the envelope if the message has one.

    `outbox` is the folder of the turn, which is mentioned to an agent whose file tool can write there.
    """
    lines = _envelope_lines(message, settings, card, outbox if access in capabilities.outbox else "")
    return "\n".join((*lines, "", message.text)) if lines else message.text


def _envelope_lines(message: Message, settings: AgentSettings, card: Card, outbox: str) -> list[str]:
    wanted = settings.envelope
    between_agents = message.hops > 0
    if wanted == "none" or (wanted is None and card.runs_code):
        return []
    if wanted is not None and wanted not in ENVELOPES:
        return [_fill_placeholders(wanted, message, outbox)] if between_agents else []
    lines = [_sender_line(message)] if between_agents else []
    if outbox and (wanted == "full" or (wanted is None and between_agents)):
        lines.append(f'[to write to an agent, save {{"to": "NAME", "text": "..."}} as {outbox}/ANY-NAME.json]')
    return lines


def _sender_line(message: Message) -> str:
    who = f"from {message.sender}"
    if message.type == "reply" and message.reply_to is not None:
        who += f", answering {message.reply_to}"
    ending = "; to end say nothing or END" if message.reply == "queue" else ""
    return f"[{who}; your answer goes to {_answer_receiver(message)}{ending}]"


def _fill_placeholders(text: str, message: Message, outbox: str) -> str:
    """Return the person's own envelope with its placeholders filled in."""
    filled = text.replace("{from}", message.sender).replace("{answer}", _answer_receiver(message))
    return filled.replace("{about}", message.reply_to or "").replace("{outbox}", outbox)


def _answer_receiver(message: Message) -> str:
    """Return the receiver of the answer to this message."""
    return "nobody" if message.reply == "none" else message.sender
