"""Decides whether a turn that its CLI calls a success has an answer. This is the one place for the rule.

An adapter adds only what its CLI reports: a stop by a hook, an answer that was cut off, its own words for an empty
answer.

A turn that asks a model is completed only if the model gave an answer, or did some work: a tool call that succeeded, a
changed file, an image. Pure.
"""

from __future__ import annotations

import msgspec

from beam.agents.base import Verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Status


def is_blank(text: str | None) -> bool:
    """Return whether the text shows nothing: it has only white space, control characters and characters without
    width."""
    return not any(character.isprintable() and not character.isspace() for character in text or "")


def is_work(event: Event) -> bool:
    """Return whether the event proves that the agent did some work in its turn."""
    match event:
        case events.ToolReturned():
            return not (event.is_error or event.unfinished)
        case events.FileChanged() | events.ImageSeen():
            return True
    return False


def require_answer(verdict: Verdict, name: str, *, worked: bool) -> Verdict:
    """Return the verdict on a turn that asked a model. A success without an answer becomes a failure of class `empty`.

    `name` is the CLI's name. `worked`: an event of the turn was work (`is_work`).
    """
    if verdict.status is not Status.COMPLETED:
        return verdict
    if _calls(verdict) == 0 and not verdict.usage.output_tokens:
        return _empty(verdict, f"{name} called no model")
    if worked or not isinstance(verdict.structured, msgspec.UnsetType) or not is_blank(verdict.reply):
        return verdict
    return _empty(verdict, f"{name} ended its turn without an answer")


def _calls(verdict: Verdict) -> int | None:
    """Return the number of model calls of the turn; None if nobody counted them."""
    if not isinstance(verdict.model_calls, msgspec.UnsetType):
        return verdict.model_calls.calls
    return verdict.usage.calls


def _empty(verdict: Verdict, reason: str) -> Verdict:
    return msgspec.structs.replace(verdict, status=Status.FAILED, class_=Class.EMPTY, reason=reason, reply=None)
