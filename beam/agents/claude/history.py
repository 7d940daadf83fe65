"""Claude Code's transcripts: where the files are, and how their lines are decoded.

A transcript is append-only JSON Lines, one file per session, subagent or in-process teammate. Each line is decoded on
its own; `beam.teams` interprets calls and results of the team's tools. Does not depend on files or clocks.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from beam.agents.base import native
from beam.agents.claude.tools import Tools
from beam.agents.fields import Object, integer, obj, objects, string
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Usage

_SLUG = re.compile(r"[^a-zA-Z0-9]")
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_TEAMMATE_MESSAGE = re.compile(r"<teammate-message ([^>\n]*)>\n(.*?)\n</teammate-message>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_SYNTHETIC_MODEL = "<synthetic>"
_PENDING_COUNTS = ("pendingBackgroundAgentCount", "pendingWorkflowCount")
_IGNORED_KINDS = frozenset(
    {
        "mode",
        "permission-mode",
        "file-history-snapshot",
        "file-history-delta",
        "attribution-snapshot",
        "queue-operation",
        "last-prompt",
        "agent-setting",
        "agent-name",
        "agent-color",
        "attachment",
        "summary",
        "custom-title",
        "ai-title",
        "ended-by-model",
        "continued-in",
        "relocated",
        "pr-link",
        "frame-link",
        "artifact-comment-monitor",
        "artifact-autoreact-ledger",
        "bridge-session",
        "history-suppression",
        "isolation-latch",
        "session-owner",
        "dev-mods",
        "memory-mode",
        "tools-used",
        "data-flow-records",
        "data-flow-incomplete",
        "derived-from",
        "worktree-state",
        "content-replacement",
        "fork-context-ref",
        "observer-ref",
        "resume-head-vouch",
        "hybrid-organization",
        "progress",
        "tag",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "api-request-resumed",
        "atis-latch",
        "cost-state",
    }
)


class TranscriptCall(Struct, frozen=True, kw_only=True):
    """A tool call in a line of a transcript."""

    call_id: str
    name: str
    input: dict[str, Any]


class TranscriptResult(Struct, frozen=True, kw_only=True):
    """A tool's result in a line of a transcript; `record` is the CLI's own account of what the tool did."""

    call_id: str
    is_error: bool
    record: dict[str, Any]


class ReceivedMessage(Struct, frozen=True, kw_only=True):
    """A message from another member of an agent team, as the model received it."""

    sender: str
    text: str
    summary: str = ""


class TranscriptLine(Struct, frozen=True, kw_only=True):
    """One line of a transcript.

    `key` is the id of the line, and `parent_key` is the id of the line that it follows. `at` is the time of the line
    (RFC 3339). `reply_id` is the API message that an assistant line is part of; the message's usage counts once, by its
    last line. `stop` says why that message ended (`tool_use`: the turn continues). `team` and `member` are set by
    teammates that have their own process. `origin` says who wrote a line in the user's role: `human`,
    `task-notification` (a background task ended), or "" in older versions. `noticed` is the text of a notification when
    it arrives. `pending` is the number of background agents and workflows that the conversation waits for.

    `error` is the text of a failed model call, and `error_word` the CLI's own word for it. `blocked` is the line with
    which the CLI says that a hook kept the prompt from the model, `hook` the words of a hook that ended the turn, both
    None in all other lines. `withheld`: a safeguard withheld the rest of an answer, and the model is asked once more.
    """

    kind: str
    key: str = ""
    parent_key: str = ""
    at: str = ""
    session_id: str = ""
    agent_id: str = ""
    team: str = ""
    member: str = ""
    reply_id: str = ""
    stop: str = ""
    model: str = ""
    usage: Usage | None = None
    cache_write_tokens: int = 0
    bodies: tuple[Event, ...] = ()
    called: tuple[TranscriptCall, ...] = ()
    returned: tuple[TranscriptResult, ...] = ()
    received: tuple[ReceivedMessage, ...] = ()
    error: str = ""
    error_word: str = ""
    blocked: dict[str, Any] | None = None
    hook: str | None = None
    withheld: bool = False
    origin: str = ""
    noticed: str = ""
    pending: int = 0

    @property
    def ends_turn(self) -> bool:
        """Return whether the turn ends with this line."""
        return self.kind == "assistant" and self.stop not in _CONTINUING_STOPS


_CONTINUING_STOPS = ("", "tool_use", "pause_turn")


def projects_folder(home: str) -> str:
    """Return the directory of all transcripts below Claude Code's own directory."""
    return f"{home}/projects"


def slug(cwd: str) -> str:
    """Return the name of the folder that holds the transcripts of a working directory."""
    return _SLUG.sub("-", cwd)


def transcript_paths(home: str, cwd: str, session_id: str) -> tuple[str, ...]:
    """Return the paths of a session's transcript and of its subagents' directory; () for an invalid session id."""
    if not _SESSION_ID.fullmatch(session_id):
        return ()
    base = f"{projects_folder(home)}/{slug(cwd)}/{session_id}"
    return (f"{base}.jsonl", f"{base}/subagents")


def decode(line: bytes) -> Sequence[Event]:
    """Return the events of a line."""
    found = read(line)
    return () if found is None else found.bodies


def read(line: bytes, *, parent: str | None = None) -> TranscriptLine | None:
    """Return the decoded line, None for a blank line.

    `parent` is the call whose subagent wrote the transcript. Never raises: a line that is not understood has an
    `unknown` event.
    """
    if not line or line.isspace():
        return None
    found = native(line)
    if found is None:
        return TranscriptLine(kind="", bodies=(events.Unknown(what="not JSON", raw=line.decode("utf-8", "replace")),))
    value = found.value
    kind = string(value, "type")
    bodies: list[Event] = []
    called: list[TranscriptCall] = []
    returned: list[TranscriptResult] = []
    received: list[ReceivedMessage] = []
    message = obj(value, "message")
    if kind == "assistant":
        bodies, called = _read_assistant(value, message, parent)
    elif kind == "user":
        bodies, returned, received = _read_user(value, message, parent)
    elif kind == "system":
        bodies = _system(value)
    elif kind == "attachment":
        received = _received_messages(string(obj(value, "attachment"), "prompt"))
    elif kind not in _IGNORED_KINDS:
        bodies = [events.Unknown(what=f"transcript/{kind or 'no type'}", raw=found.text)]
    model = string(message, "model")
    return TranscriptLine(
        kind=kind,
        key=string(value, "uuid"),
        parent_key=string(value, "parentUuid"),
        at=string(value, "timestamp"),
        session_id=string(value, "sessionId"),
        agent_id=string(value, "agentId"),
        team=string(value, "teamName"),
        member=string(value, "agentName"),
        reply_id=string(message, "id"),
        stop=string(message, "stop_reason"),
        model=model,
        usage=_usage(message) if kind == "assistant" and model != _SYNTHETIC_MODEL else None,
        cache_write_tokens=integer(obj(message, "usage"), "cache_creation_input_tokens") or 0,
        bodies=tuple(bodies),
        called=tuple(called),
        returned=tuple(returned),
        received=tuple(received),
        error=_error_text(value, message),
        error_word=string(value, "error") if value.get("isApiErrorMessage") is True else "",
        blocked=value if kind == "system" and value.get("preventContinuation") is True else None,
        hook=_hook_that_stopped(obj(value, "attachment")) if kind == "attachment" else None,
        withheld=value.get("refusalRetry") is True,
        origin=string(obj(value, "origin"), "kind"),
        noticed=string(value, "content") if kind == "queue-operation" else "",
        pending=sum(integer(value, key) or 0 for key in _PENDING_COUNTS) if kind == "system" else 0,
    )


def usage_of_call(line: TranscriptLine) -> Usage:
    """Return the figures of the API message that the line is part of. `input_tokens` does not include tokens read from
    a cache."""
    used = line.usage or Usage()
    uncached = None if used.input_tokens is None else used.input_tokens - (used.cached_tokens or 0)
    return structs.replace(used, input_tokens=uncached, cache_write_tokens=line.cache_write_tokens, calls=1)


def _read_assistant(value: Object, message: Object, parent: str | None) -> tuple[list[Event], list[TranscriptCall]]:
    if value.get("isApiErrorMessage") is True:
        return [events.Notice(text=_error_text(value, message), code="api_error")], []
    bodies: list[Event] = []
    called: list[TranscriptCall] = []
    for block in objects(message, "content"):
        kind = string(block, "type")
        if kind == "text" and string(block, "text"):
            bodies.append(events.Text(text=string(block, "text"), parent=parent))
        elif kind == "thinking" and string(block, "thinking"):
            bodies.append(events.Thinking(text=string(block, "thinking"), parent=parent))
        elif kind.endswith("tool_use"):
            bodies += Tools().called(block, parent)
            given = TranscriptCall(call_id=string(block, "id"), name=string(block, "name"), input=obj(block, "input"))
            called.append(given)
        elif kind not in ("text", "thinking", "redacted_thinking"):
            bodies.append(events.Unknown(what=f"assistant/{kind}"))
    return bodies, called


def _read_user(
    value: Object, message: Object, parent: str | None
) -> tuple[list[Event], list[TranscriptResult], list[ReceivedMessage]]:
    content = message.get("content")
    if isinstance(content, str):
        return [], [], _received_messages(content)
    bodies: list[Event] = []
    returned: list[TranscriptResult] = []
    received: list[ReceivedMessage] = []
    record = obj(value, "toolUseResult")
    for block in objects(message, "content"):
        kind = string(block, "type")
        if kind.endswith("tool_result"):
            bodies += Tools().returned(block, record, parent)
            is_error = block.get("is_error") is True
            returned.append(TranscriptResult(call_id=string(block, "tool_use_id"), is_error=is_error, record=record))
            if string(record, "filePath") and not is_error and "structuredPatch" in record:
                kind = "add" if string(record, "type") == "create" else "update"
                bodies.append(events.FileChanged(path=string(record, "filePath"), kind=kind))
        elif kind == "text":
            received += _received_messages(string(block, "text"))
    return bodies, returned, received


def _received_messages(text: str) -> list[ReceivedMessage]:
    found = []
    for match in _TEAMMATE_MESSAGE.finditer(text):
        said = dict(_ATTRIBUTE.findall(match[1]))
        sender, summary = html.unescape(said.get("teammate_id", "")), html.unescape(said.get("summary", ""))
        found.append(ReceivedMessage(sender=sender, text=match[2], summary=summary))
    return found


def _system(value: Object) -> list[Event]:
    subtype = string(value, "subtype")
    if subtype == "api_error":
        return [events.Notice(text=string(obj(value, "error"), "message") or "API error", code="api_error")]
    if subtype == "compact_boundary":
        return [events.StatusChanged(state="compacted", detail=string(obj(value, "compactMetadata"), "trigger"))]
    return []


def _hook_that_stopped(attached: Object) -> str | None:
    if string(attached, "type") != "hook_stopped_continuation":
        return None
    return f"{string(attached, 'hookName')}: {string(attached, 'message')}"


def _error_text(value: Object, message: Object) -> str:
    if value.get("isApiErrorMessage") is not True:
        return ""
    return "\n".join(string(block, "text") for block in objects(message, "content") if string(block, "text"))


def _usage(message: Object) -> Usage | None:
    used = obj(message, "usage")
    if not used:
        return None
    uncached, read_, written = (
        integer(used, key) for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    return Usage(
        input_tokens=None if uncached is None else uncached + (read_ or 0) + (written or 0),
        output_tokens=integer(used, "output_tokens"),
        cached_tokens=read_,
    )
