"""Decides whether a turn that its CLI calls a success has an answer. This is the one place for the rule.

An adapter adds only what its CLI reports: a stop by a hook, an answer that was cut off, its own words for an empty
answer.

A turn that asks a model is completed only if the model gave an answer, or did some work (a tool call that succeeded, a
changed file, an image), or if a person or a rule denied what it wanted to do: some CLIs end their turn there. Pure.
"""

from __future__ import annotations

import re

import msgspec

from beam.agents.base import Verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import BY_DEFAULT, Class, Status

# Control sequences of a terminal: their characters are printable, but nothing of them is shown.
_SEQUENCE = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)|\x1b[ -/]*[0-~]"
# Letters and marks without ink: fillers, the empty Braille pattern, selectors of a variant.
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\uffa0" + "".join(
    map(chr, range(0xFE00, 0xFE10))
)


def is_blank(text: str | None) -> bool:
    """Return whether the text shows nothing: it has only white space, control characters and their sequences, and
    characters without width or ink."""
    text = text or ""
    if any(sign in text for sign in "\x1b\x9b\x9d"):
        text = re.sub(_SEQUENCE, "", text)
    return not any(sign.isprintable() and not sign.isspace() and sign not in _FILLERS for sign in text)


def is_work(event: Event) -> bool:
    """Return whether the event proves that the agent did some work in its turn."""
    match event:
        case events.ToolReturned():
            return not (event.is_error or event.unfinished)
        case events.FileChanged() | events.ImageSeen():
            return True
    return False


def require_answer(verdict: Verdict, name: str, *, worked: bool, ends_at_denial: bool = False) -> Verdict:
    """Return the verdict on a turn that asked a model. A success without an answer becomes a failure of class `empty`.

    `name` is the CLI's name. `worked`: an event of the turn was work (`is_work`). `ends_at_denial`: the CLI may end its
    turn where a person or a rule denies a request, which is an answer; otherwise the model is asked again.
    """
    if verdict.status is not Status.COMPLETED:
        return verdict
    if _calls(verdict) == 0 and not verdict.usage.output_tokens:
        return _empty(verdict, f"{name} called no model")
    if worked or not isinstance(verdict.structured, msgspec.UnsetType) or not is_blank(verdict.reply):
        return verdict
    if ends_at_denial and any(denial.by != BY_DEFAULT for denial in verdict.denials):
        return verdict
    return _empty(verdict, f"{name} ended its turn without an answer")


def _calls(verdict: Verdict) -> int | None:
    """Return the number of model calls of the turn; None if nobody counted them."""
    if not isinstance(verdict.model_calls, msgspec.UnsetType):
        return verdict.model_calls.calls
    return verdict.usage.calls


def _empty(verdict: Verdict, reason: str) -> Verdict:
    return msgspec.structs.replace(verdict, status=Status.FAILED, class_=Class.EMPTY, reason=reason, reply=None)
