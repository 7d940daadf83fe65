"""Turns Claude Code's `system` lines into events: the CLI's current activity, and notices for a person.

There is one function per subtype. A subtype that is not in the table `SYSTEM_DECODERS` is left to the decoder. Does not
depend on the turn.
"""

from __future__ import annotations

from collections.abc import Callable

from beam.agents.claude.verdict import failure_class
from beam.agents.fields import Object, integer, number, obj, objects, string, strings
from beam.model.events import ContextUsed, Event, Notice, StatusChanged, Text
from beam.model.outcome import Class


def _retry(value: Object) -> list[Event]:
    delay_ms, http_status = number(value, "retry_delay_ms"), integer(value, "error_status")
    word = string(value, "error")
    class_ = failure_class(http_status, word, "")
    return [
        StatusChanged(
            state="retrying",
            detail=word,
            attempt=integer(value, "attempt"),
            of=integer(value, "max_retries"),
            delay_s=None if delay_ms is None else round(delay_ms / 1000, 3),
            class_=Class.NETWORK if http_status is None and class_ is Class.UNKNOWN else class_,  # no answer came
            http_status=http_status,
        )
    ]


def _status(value: Object) -> list[Event]:
    mode, failed = string(value, "permissionMode"), string(value, "compact_error")
    if failed:
        return [Notice(text=f"compacting failed: {failed}", code="compact_failed")]
    state = string(value, "status") or ("mode" if mode else "")
    return [StatusChanged(state=state, detail=mode)] if state else []  # no state: an activity ended, the turn goes on


def _state(value: Object) -> list[Event]:
    return [StatusChanged(state=string(value, "state"))]


def _compacted(value: Object) -> list[Event]:
    metadata = obj(value, "compact_metadata")
    before, after = integer(metadata, "pre_tokens"), integer(metadata, "post_tokens")
    sizes = [f"{size} tokens" for size in (before, after) if size is not None]
    detail = ": ".join(part for part in (string(metadata, "trigger"), " -> ".join(sizes)) if part)
    left: list[Event] = [] if after is None else [ContextUsed(used=after)]
    return [StatusChanged(state="compacted", detail=detail), *left]


def _notice(value: Object) -> list[Event]:
    text = next((found for key in ("content", "text", "message", "error") if (found := string(value, key))), "")
    text = text or string(obj(value, "error"), "formatted")
    return [Notice(text=text or string(value, "subtype").replace("_", " "), code=string(value, "subtype"))]


def _permission_denied(value: Object) -> list[Event]:
    text = string(value, "message").partition(" IMPORTANT: ")[0]  # the rest is for the model
    return [Notice(text=text or "permission denied", code="permission_denied")]


def _model_refused(value: Object) -> list[Event]:
    text = string(value, "content") or f"{string(value, 'original_model') or 'the model'} refused; no other is asked"
    return [Notice(text=text, code="model_refusal_no_fallback")]


def _command_output(value: Object) -> list[Event]:
    return [Text(text=string(value, "content"))]


def _hook(value: Object) -> list[Event]:
    return [StatusChanged(state="hook", detail=string(value, "hook_name") or string(value, "hook_event"))]


def _hook_ended(value: Object) -> list[Event]:
    if string(value, "outcome") in ("", "success"):
        return _hook(value)
    why = string(value, "stderr").strip() or string(value, "output").strip()
    text = f"hook {string(value, 'hook_name')}: {string(value, 'outcome')}" + (f": {why}" if why else "")
    return [Notice(text=text, code="hook_failed")]


def _plugin(value: Object) -> list[Event]:
    parts = ("plugin", string(value, "name"), string(value, "status"), string(value, "error"))
    return [StatusChanged(state="plugin", detail=" ".join(part for part in parts if part))]


def _background(value: Object) -> list[Event]:
    tasks = [task for task in objects(value, "tasks") if task.get("ambient") is not True]
    return [StatusChanged(state="background", detail=", ".join(string(task, "description") for task in tasks))]


def _session_not_saved(value: Object) -> list[Event]:
    lost, code = " and ".join(strings(value, "lost")).replace("_", " "), string(value, "error_code")
    return [Notice(text=f"claude could not save its {lost}: {code}", code="session_writes_lost")]


def _no_events(value: Object) -> list[Event]:
    return []


_NOTICES = (
    "model_fallback",
    "model_refusal_fallback",
    "model_consent_fallback",
    "api_error",
    "informational",
    "notification",
    "mirror_error",
)
_IGNORED_SUBTYPES = (
    "thinking_tokens",
    "commands_changed",
    "turn_duration",
    "file_snapshot",
    "stop_hook_summary",
    "control_request_progress",
    "worker_shutting_down",
    "files_persisted",
    "memory_recall",
    "elicitation_complete",
)
SYSTEM_DECODERS: dict[str, Callable[[Object], list[Event]]] = {
    "api_retry": _retry,
    "status": _status,
    "session_state_changed": _state,
    "compact_boundary": _compacted,
    "permission_denied": _permission_denied,
    "model_refusal_no_fallback": _model_refused,
    "local_command_output": _command_output,
    "hook_started": _hook,
    "hook_progress": _hook,
    "hook_response": _hook_ended,
    "plugin_install": _plugin,
    "background_tasks_changed": _background,
    "session_writes_lost": _session_not_saved,
    **dict.fromkeys(_NOTICES, _notice),
    **dict.fromkeys(_IGNORED_SUBTYPES, _no_events),
}
