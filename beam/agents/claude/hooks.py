"""Finds the words with which a hook of the person's own stops a turn, in Claude Code's lines and in its transcript.

Does not depend on whether the turn was stopped: a hook may speak in vain.
"""

from __future__ import annotations

from beam.agents.base import json_object
from beam.agents.fields import Object, integer, obj, string

_BLOCKS = 2  # the exit code of a hook that blocks
_PROMPT_MARK = "\n\nOriginal prompt: "


def words_of_block(value: Object) -> str:
    """Return the words of a `system` line which says that a hook kept the prompt from the model."""
    told = string(obj(value, "prompt_submit_outcome"), "reason")
    return (told or string(value, "content").rpartition(_PROMPT_MARK)[0] or string(value, "content")).strip()


def is_block_of(value: Object, text: str) -> bool:
    """Return whether this line says that a hook kept this prompt from the model. Without the prompt's text in the line
    it may be about any prompt, and the answer is False."""
    prompt = string(value, "content").rpartition(_PROMPT_MARK)[2].strip()
    return bool(prompt) and string(value, "content").strip() != prompt and text.strip().startswith(prompt[:200])


def words_of_stop(value: Object) -> str:
    """Return the words of a hook that would stop the turn, from the line about its end; "" if it would not stop it."""
    name = string(value, "hook_name") or string(value, "hook_event")
    if integer(value, "exit_code") == _BLOCKS:
        return f"{name}: {string(value, 'stderr').strip()}"
    answer = json_object(string(value, "stdout").encode("utf-8", "replace")) or {}
    specific = obj(answer, "hookSpecificOutput")
    if answer.get("continue") is False:
        return f"{name}: {string(answer, 'stopReason')}"
    if string(answer, "decision") == "block":
        return f"{name}: {string(answer, 'reason')}"
    if string(specific, "permissionDecision") == "defer":
        return f"{name}: {string(specific, 'permissionDecisionReason')}"
    decision = obj(specific, "decision")
    if string(decision, "behavior") == "deny" and decision.get("interrupt") is True:
        return f"{name}: {string(decision, 'message')}"
    return ""
