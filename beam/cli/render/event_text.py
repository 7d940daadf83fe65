"""The sign and the text of one event, for people. The functions are pure: the result depends only on the event, not on
streams, colours or other events."""

from __future__ import annotations

from msgspec import UNSET

from beam import AnyEvent, clock, durations, estimated_usd, events
from beam.cli.render import asks, team
from beam.cli.render.calls import unfinished_line
from beam.cli.render.days import time_of_day

_INTERNAL_STATES = frozenset({"requesting", "idle", "running", "access", "hook"})  # of `status` events
# Codes: texts that a CLI sends to its model in a person's name, and records of a type that beam does not know.
_INTERNAL_NOTICES = frozenset({"synthetic", "unknown_records"})
_MAX_NAMED_FILES = 5
_VERBS_WITH_OWN_EVENT = frozenset(  # another event reports the effect of these
    {"settings", "release", "select", "reset", "pause", "resume", "interrupt", "approve", "deny"}
)


def _until_moment(event: events.MessageRequeued, until: str) -> str:
    """Return the local time until which the message waits, with its date if that is not the event's."""
    try:
        return clock.local_moment(until, event.ts)
    except (ValueError, OverflowError, OSError):
        return time_of_day(until)


def is_internal(event: AnyEvent) -> bool:
    """Return whether the event is about internals of beam or a CLI, or repeats another event. Such an event is shown
    only with `-v`."""
    match event:
        case events.StatusChanged():
            return event.state in _INTERNAL_STATES
        case events.Notice():
            return event.code in _INTERNAL_NOTICES
        case events.ControlDone():
            is_lack = event.verb == "query" and event.code == "unsupported"  # the caller got the error already
            return is_lack or (event.ok and event.verb in _VERBS_WITH_OWN_EVENT)
        case events.AgentStarted() | events.AgentKept() | events.AgentExited() | events.SessionStarted(resumed=True):
            return True
        case events.ContextUsed():
            return True
    return False


def sign_and_text(event: AnyEvent) -> tuple[str, str] | None:
    """Return the sign and the text to print for the event; None for an event that carries only bookkeeping."""
    match event:
        case events.MessageQueued():
            return "←" if event.kind != "reply" else "↩", f"{event.sender}: {event.text}"
        case events.MessageDead():
            return "†", f"dead letter {event.message_id}: {event.detail or event.reason}"
        case events.MessageRequeued(reason="usage_limit", not_before=str(until)):
            return "↻", f"{event.message_id}: the usage limit is reached; it waits until {_until_moment(event, until)}"
        case events.MessageRequeued():
            return "↻", f"requeued {event.message_id}: {event.reason}"
        case events.QueuePaused():
            return "·", f"paused by {event.by}: nothing is taken from its queue" if event.by else "paused"
        case events.QueueResumed():
            return "·", f"resumed by {event.by}" if event.by else "resumed"
        case events.CircuitOpened():
            return (
                "!",
                f"failed {event.failures} times in a row: nothing is sent to it until {time_of_day(event.until)}",
            )
        case events.CircuitClosed():
            return "·", "answered again: its messages are sent as usual"
        case events.TurnStarted():
            attempt = f", attempt {event.attempt}" if event.attempt > 1 else ""
            return "▶", f"turn {event.turn} ({event.adapter}{attempt})"
        case events.TurnFinished():
            return _finished_text(event)
        case events.TurnClosed(reply="queued"):
            return "↪", f"reply to {event.to}"
        case events.TurnClosed(reply="dead"):
            return "!", f"reply to {event.to} not delivered: {event.detail}"
        case events.Notice():
            return "!", event.text
        case events.ControlDone(ok=False):
            return "!", f"{event.verb} refused: {event.message}"
        case events.ControlDone():
            return "·", f"{event.verb}: {event.message or 'done'}"
        case events.SettingsChanged():
            new = (f"{key}={value if value is not None else ''}" for key, value in event.changes.items())
            return "·", f"settings changed by {event.by}: {', '.join(new)}"
        case events.WorkTreeUndone():
            return "↶", _undone_text(event)
        case events.Unknown():
            return "?", f"unknown {event.what}".rstrip()
    return (
        _agent_event_text(event) or _session_event_text(event) or _ask_event_text(event) or team.team_event_text(event)
    )


def _agent_event_text(event: AnyEvent) -> tuple[str, str] | None:
    match event:
        case events.Text():
            return "│", event.text
        case events.Thinking():
            return "┊", event.text
        case events.FileChanged():
            return "✎", f"{event.kind} {event.path}"
        case events.ImageSeen():
            return "·", image_text(event)
        case events.ContextUsed():
            used = "?" if event.used is None else f"{event.used:,}"
            return "…", f"context {used}" + (f" of {event.size:,} tokens" if event.size else " tokens")
        case events.PlanUpdated():
            done = sum(1 for step in event.steps if step.status == "completed")
            now = next((step.text for step in event.steps if step.status == "in_progress"), "")
            return "☐", f"plan {done}/{len(event.steps)} {now}"
        case events.StatusChanged():
            figures = f" {event.attempt}/{event.of}" if event.attempt is not None else ""
            return "…", f"{event.state}{figures} {event.class_ or ''} {event.detail}".rstrip()
        case events.ModelCalled():
            first = next(iter(event.differences), None)
            where = f", first in {first.path}" if first is not None else ""
            why = f": {event.detail}" if event.detail else ""
            return "⇅", f"model call {event.n} {event.step}{where}{why}"
        case events.AgentStarted():
            return "·", f"process {event.pid} started" + (f", kept since turn {event.since}" if event.since else "")
        case events.AgentKept():
            return "·", f"process {event.pid} is kept for the next turn"
        case events.AgentExited():
            how = f"signal {event.signal}" if event.signal else f"code {event.code}"
            swept = f"; {event.swept} processes that it left were ended" if event.swept else ""
            return "·", f"process ended: {event.stopped_by or how}{swept}"
    return None


def image_text(event: events.ImageSeen) -> str:
    """Return what is known of an image, on one line: its type, its size, its path, or why it was not kept."""
    size = f"{event.bytes:,} bytes" if event.bytes is not None else ""
    unkept = f"(not kept: {event.unkept})" if event.unkept else ""
    return " ".join(
        filter(None, ("image", event.media_type.removeprefix("image/"), size, event.path or event.at, unkept))
    )


def _session_event_text(event: AnyEvent) -> tuple[str, str] | None:
    match event:
        case events.SessionStarted(resumed=True):
            return "·", f"session {event.session_id[:8]} goes on"
        case events.SessionStarted():
            copy = f", a copy of {event.forked_from[:8]}" if event.forked_from else ""
            return "·", f"new session {event.session_id[:8]}{copy}" + (f" ({event.model})" if event.model else "")
        case events.SessionForked():
            return "·", f"begins in a copy of session {event.session_id} of {event.of}"
        case events.SessionRewound():
            to = f"to the end of turn {event.to}" if event.to is not None else "to an earlier turn"
            return "·", f"session {event.session_id} goes back {to}"
        case events.SessionSelected():
            return "·", f"continues in session {event.session_id}"
        case events.SessionLost():
            return "!", f"session {event.session_id} is gone: {event.reason}"
        case events.SessionArchived():
            return "·", f"session {event.session_id} archived: {event.reason}"
        case events.SessionImported():
            return "·", _imported_text(event)
        case events.SessionPrompted():
            return "←", event.text
        case events.SessionIdle():
            return "✗" if event.reason else "■", _idle_text(event)
    return None


def _imported_text(event: events.SessionImported) -> str:
    if event.left_out is None:
        return f"session {event.session_id} had no files here: nothing of it is known"
    least = "at least " if event.is_cut else ""
    cut = f"; {least}{event.left_out or 1} earlier ones were left out" if event.left_out or event.is_cut else ""
    lost = sum(event.unread.values())
    unread = f"; {lost} records could not be read: {', '.join(event.unread)}" if lost else ""
    return f"until here session {event.session_id}, before it was adopted: {event.events} events{cut}{unread}"


def _idle_text(event: events.SessionIdle) -> str:
    """Return one line about the end of a turn in a session that beam did not start: the reason of the end and the
    turn's figures."""
    used = event.usage
    counts = (used.input_tokens, used.cached_tokens, used.cache_write_tokens, used.output_tokens)
    known = [count for count in counts if count is not None]
    cost, mark = event.cost_usd, ""
    if cost is None and event.model is not None:
        cost, mark = estimated_usd(event.model, used), "~"
    words = [
        event.reason or "done",
        durations.show(event.duration_s) if event.duration_s is not None else "",
        f"{sum(known):,} tokens" if known else "",
        f"{mark}${cost:.4f}" if cost is not None else "",
    ]
    return " ".join(filter(None, words))


def _ask_event_text(event: AnyEvent) -> tuple[str, str] | None:
    match event:
        case events.PermissionAsked():
            about = asks.request_text(event.description, bytes(event.input))
            return "?", f"asks for {event.tool}: {about} [{event.ask_id}]"
        case events.PermissionDecided(decision="cancelled"):
            return "·", f"request withdrawn: {event.why} [{event.ask_id}]"
        case events.PermissionDecided():
            word = "allowed" if event.decision == "allow" else "denied"
            return "·", f"{word} by {event.by}{f': {event.why}' if event.why else ''} [{event.ask_id}]"
    return None


def _undone_text(event: events.WorkTreeUndone) -> str:
    what = f"the undo of turn {event.of} is undone" if event.redo else f"turn {event.of} is undone"
    more = "" if len(event.files) <= _MAX_NAMED_FILES else f" and {len(event.files) - _MAX_NAMED_FILES} more"
    return f"{what} by {event.by}: {', '.join(event.files[:_MAX_NAMED_FILES])}{more}"


def _finished_text(event: events.TurnFinished) -> tuple[str, str]:
    words = [
        f"{event.status} ({event.class_})" if event.class_ else str(event.status),
        durations.show(event.duration_s) if event.duration_s is not None else "",
        f"${event.cost_usd:.4f}" if event.cost_usd is not None else "",
    ]
    mark = "■" if event.exit_code == 0 else "✗"
    reason = f": {event.reason}" if event.reason else ""
    if event.exit_code and event.message_id is not None:
        reason += f" [{event.message_id}]"
    left = f"; {unfinished_line(event.unfinished)}" if event.unfinished else ""
    stand_in = "" if event.stand_in is UNSET else f"; answered by {event.stand_in.named}"
    return mark, " ".join(filter(None, words)) + reason + left + stand_in
