"""Codex's sessions on this machine: its rollout files, including those of subagents, of archived threads, and of
threads that began before version 0.148.

A thread of today (`history_mode` paginated) has an item for each step. An older one has messages as events, and calls
as items of the model's API (`response_item`); Codex goes on so when it resumes such a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.codex import legacy
from beam.agents.codex.history import usage_of_record
from beam.agents.fields import Object, integer, message_text, obj, object_of, objects, string, strings
from beam.agents.session_files import (
    RecordReader,
    Session,
    SessionFiles,
    SessionReader,
    SharedRecords,
    time_from_text,
    unknown_type,
)
from beam.model import events
from beam.model.events import Event

files = SessionFiles(
    folder="HOME/.codex",
    moved_by="CODEX_HOME",
    below="sessions",
    archive="archived_sessions",
    name=r"(?:\d+/\d+/\d+/)?rollout-[^/]+\.jsonl(?:\.zst)?",
    like=r"(?:\d+/\d+/\d+/)?rollout-[^/]+",
    helpers=("app-server daemon", "app-server --listen"),  # Codex's own daemon, for the terminals on its screen
)
_QUIET_TYPES = {  # they say nothing to a person, or another record tells the same
    "record": (
        "world_state",
        "compacted",
        "inter_agent_communication",
        "turn_lifecycle",
    ),
    "event": (
        "task_started",
        "turn_started",
        "thread_settings_applied",
        "thread_goal_updated",
        "thread_name_updated",
        "token_count",
        "context_compacted",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "entered_review_mode",
        "exited_review_mode",
        "thread_rolled_back",
        "sub_agent_activity",
        "image_generation_end",
        "view_image_tool_call",
        "guardian_assessment",
        "turn_moderation_metadata",
        "exec_command_begin",
        "exec_command_output_delta",
        "patch_apply_begin",
        "mcp_tool_call_begin",
        "web_search_begin",
        "plan_update",
        "turn_diff",
        "warning",
        "stream_error",
        "item_started",
        "hook_started",
        "hook_completed",
        "shutdown_complete",
    ),
    "item": (
        "HookPrompt",
        "ContextCompaction",
        "SubAgentActivity",
        "Sleep",
        "EnteredReviewMode",
        "ExitedReviewMode",
    ),
    "response": (
        "message",
        "agent_message",
        "reasoning",
        "additional_tools",
        "compaction",
        "context_compaction",
        "compaction_trigger",
        "ghost_snapshot",
        "other",
    ),
}
_QUIET = frozenset(f"{kind} {name}" for kind, names in _QUIET_TYPES.items() for name in names)


def reader(path: str) -> SessionReader:
    """Return a reader for the rollout with this path below the folder."""
    return _Rollout(path)


class _Rollout(RecordReader):
    def __init__(self, path: str) -> None:
        name = path.rpartition("/")[2].removesuffix(".zst").removesuffix(".jsonl")
        super().__init__(Session(id=name[-36:]))
        self._path = path
        self._shared: SharedRecords | None = None
        self._is_named = False  # a copy of a thread has the first records of the original, too, behind its own
        self._is_legacy = True
        self._turn = ""
        self._said: dict[str, str] = {}  # the messages of this turn, and the form in which each was told
        self._has_usage_records = False
        self._counted: object = None

    def share(self, records: SharedRecords) -> None:
        """Skip the records that belong to other files from now on."""
        self._shared = records

    def on_record(self, value: Object) -> Sequence[Event]:
        payload, at = obj(value, "payload"), time_from_text(string(value, "timestamp"))
        match string(value, "type"):
            case "session_meta":
                self._on_meta(payload)
            case "turn_context":
                self._begin_turn(string(payload, "turn_id"))
                self._know(cwd=string(payload, "cwd"), model=string(payload, "model"))
            case "token_usage_record":
                reply = string(payload, "response_id")
                if self._is_own(f"reply {reply}"):
                    self._has_usage_records = True
                    self._maker.count_call(reply, usage_of_record(obj(payload, "usage")))
            case "event_msg":
                return self._on_event(payload, at)
            case "response_item":
                return self._on_response(payload, at)
            case name:
                return unknown_type(f"record {name}", _QUIET)
        return ()

    def _on_meta(self, payload: Object) -> None:
        if self._is_named:
            return
        self._is_named = True
        self._is_legacy = legacy.is_legacy(payload)
        thread, root = string(payload, "id"), string(payload, "session_id")
        parent = string(payload, "parent_thread_id") or (root if root != thread else "")
        self.session = Session(id=thread or self.session.id, root_id=parent, cwd=string(payload, "cwd"))

    def _begin_turn(self, turn: str) -> None:
        if turn and turn != self._turn:
            self._turn, self._said, self._has_usage_records = turn, {}, False

    def _is_own(self, key: str) -> bool:
        return self._shared is None or self._shared.belongs_to(key, self._path)

    def _is_told(self, kind: str, text: str, form: str, at: str) -> bool:
        """Return whether the message was told, in another form or with the same time, and record it."""
        is_other_form = self._said.setdefault(f"{kind} {text}", form) != form
        return is_other_form or not self._maker.is_new(f"{kind} {at} {text}")

    # -- events --------------------------------------------------------------------------------------------------------

    def _on_event(self, payload: Object, at: str) -> Sequence[Event]:
        maker = self._maker
        match string(payload, "type"):
            case "item_completed":
                item = obj(payload, "item")
                self._begin_turn(string(payload, "turn_id"))
                key = f"item {string(payload, 'turn_id')} {string(item, 'id')}"
                return self._on_item(item, at) if maker.is_new(key) and self._is_own(key) else ()
            case "user_message":
                text = string(payload, "message")
                return () if self._is_told("user", text, "event", at) else maker.prompt(text, at)
            case "agent_message":
                text = string(payload, "message")
                return () if self._is_told("agent", text, "event", at) else maker.text(text, at)
            case "agent_reasoning":
                text = string(payload, "text")
                return () if self._is_told("thinking", text, "event", at) else maker.thinking(text, at)
            case "exec_command_end":
                return self._on_command(string(payload, "call_id"), payload, at)
            case "mcp_tool_call_end":
                return self._on_mcp_call(string(payload, "call_id"), obj(payload, "invocation"), payload, at)
            case "web_search_end":
                return self._on_search(string(payload, "call_id"), payload, at)
            case "patch_apply_end":
                is_done = payload.get("success") is not False and maker.is_new(f"patch {string(payload, 'call_id')}")
                return _changes(payload, at) if is_done else ()
            case "dynamic_tool_call_response":
                return self._on_dynamic_call(string(payload, "call_id"), payload, at)
            case "task_started" | "turn_started":
                self._begin_turn(string(payload, "turn_id"))
            case "token_count" if not self._has_usage_records:
                self._on_token_count(obj(payload, "info"))
            case "task_complete" | "turn_complete":
                failure = obj(payload, "error")
                why = (
                    string(failure, "message")
                    or string(failure, "codex_error_info")
                    or ("it failed" if failure else "")
                )
                notice = [events.Notice(ts=at, text=why, code="api_error")] if why else []
                return [*notice, *maker.end_turn(at, self.session.model, why=why)]
            case "turn_aborted":
                return maker.end_turn(at, self.session.model, why="interrupted")
            case "error":
                return [events.Notice(ts=at, text=string(payload, "message"), code="api_error")]
            case name:
                return unknown_type(f"event {name}", _QUIET)
        return ()

    def _on_token_count(self, info: Object) -> None:
        """Count the last model call of an older thread. The same figures may come several times."""
        total = info.get("total_token_usage")
        if self._is_legacy and total is not None and total != self._counted:
            self._counted = total
            key = f"total {integer(object_of(total), 'total_tokens')}"
            self._maker.count_call(key, usage_of_record(obj(info, "last_token_usage")))

    # -- items ---------------------------------------------------------------------------------------------------------

    def _on_item(self, item: Object, at: str) -> list[Event]:
        maker, item_id, text = self._maker, string(item, "id"), message_text(item)
        match string(item, "type"):
            case "UserMessage":
                return [] if self._is_told("user", text, "item", at) else maker.prompt(text, at)
            case "AgentMessage":
                return [] if self._is_told("agent", text, "item", at) else maker.text(text, at)
            case "Plan":
                return maker.text(string(item, "text"), at)
            case "Reasoning":
                thought = "\n\n".join(strings(item, "summary_text"))
                return [] if self._is_told("thinking", thought, "item", at) else maker.thinking(thought, at)
            case "CommandExecution":
                return self._on_command(item_id, item, at)
            case "FileChange":
                return [] if string(item, "status") in ("failed", "declined") else _changes(item, at)
            case "McpToolCall":
                return self._on_mcp_call(item_id, item, item, at)
            case "DynamicToolCall":
                return self._on_dynamic_call(item_id, item, at)
            case "WebSearch":
                return self._on_search(item_id, item, at)
            case "CollabAgentToolCall":
                given: Object = {"prompt": string(item, "prompt"), "agents": strings(item, "receiver_thread_ids")}
                return self._on_done(item_id, string(item, "tool") or "agent", given, "", item, at)
            case "ImageView":
                return self._on_done(item_id, "view_image", {"path": item.get("path")}, "", item, at)
            case "ImageGeneration":
                given = {"prompt": string(item, "revised_prompt"), "path": item.get("saved_path")}
                return self._on_done(item_id, "image_generation", given, "", item, at)
            case name:
                return unknown_type(f"item {name}", _QUIET)

    def _on_done(self, call_id: str, name: str, given: object, output: str, step: Object, at: str) -> list[Event]:
        failed = string(step, "status") in ("failed", "declined") or step.get("success") is False
        return [
            *self._maker.on_called(call_id, name, given, at),
            *self._maker.on_returned(call_id, output, at, is_error=failed),
        ]

    def _on_command(self, call_id: str, step: Object, at: str) -> list[Event]:
        code, output = integer(step, "exit_code"), string(step, "aggregated_output")
        shown = f"{output}[exit code {code}]" if code else output
        return self._on_done(call_id, "shell", {"command": legacy.command_of(step)}, shown, step, at)

    def _on_mcp_call(self, call_id: str, call: Object, step: Object, at: str) -> list[Event]:
        name = f"mcp__{string(call, 'server')}__{string(call, 'tool')}"
        failed = {"status": "failed"} if "Err" in obj(step, "result") else step
        return self._on_done(call_id, name, call.get("arguments"), "", failed, at)

    def _on_dynamic_call(self, call_id: str, step: Object, at: str) -> list[Event]:
        output = "".join(string(part, "text") for part in objects(step, "content_items")) or string(step, "error")
        return self._on_done(call_id, string(step, "tool"), step.get("arguments"), output, step, at)

    def _on_search(self, call_id: str, step: Object, at: str) -> list[Event]:
        return self._on_done(call_id, "web_search", {"query": string(step, "query")}, "", step, at)

    # -- the model's API -----------------------------------------------------------------------------------------------

    def _on_response(self, payload: Object, at: str) -> list[Event]:
        """Return the events of a call in an older thread; in a thread of today, an item tells of it."""
        if not self._is_legacy:
            return []
        if call := legacy.called(payload):
            return self._maker.on_called(*call, at)
        if back := legacy.returned(payload):
            call_id, output, is_error = back
            return self._maker.on_returned(call_id, output, at, is_error=is_error)
        return unknown_type(f"response {string(payload, 'type')}", _QUIET)


def _changes(step: Object, at: str) -> list[Event]:
    return [events.FileChanged(ts=at, path=path, kind="update") for path in obj(step, "changes")]
