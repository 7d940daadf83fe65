"""Converts the items of a thread to those of `codex exec`, so that both faces report them alike.

Does not depend on threads or turns.
"""

from __future__ import annotations

import re

from beam.agents.codex import wire as exec_wire
from beam.agents.codex.dialogue.wire import Item
from beam.agents.fields import Object, object_of, objects_of, string, strings_of

SILENT_ITEMS = frozenset(
    {"userMessage", "hookPrompt", "functionCallOutput", "enteredReviewMode", "exitedReviewMode", "sleep"}
)
_EXEC_TYPES = {
    "agentMessage": "agent_message",
    "plan": "agent_message",
    "reasoning": "reasoning",
    "commandExecution": "command_execution",
    "fileChange": "file_change",
    "mcpToolCall": "mcp_tool_call",
    "dynamicToolCall": "mcp_tool_call",
    "webSearch": "web_search",
    "collabAgentToolCall": "collab_tool_call",
}
_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")


def as_exec_item(item: Item) -> exec_wire.Item:
    """Return the item in the form of `codex exec`. A kind of item that `codex exec` does not have keeps its name."""
    kind = _EXEC_TYPES.get(item.type, item.type)
    output = item.aggregated_output if isinstance(item.aggregated_output, str) else ""
    return exec_wire.Item(
        id=item.id,
        type=kind,
        text="\n\n".join(strings_of(item.summary)) if item.type == "reasoning" else item.text,
        status=item.status,
        command=item.command,
        aggregated_output=output,
        exit_code=item.exit_code if type(item.exit_code) is int else None,
        server="client" if item.type == "dynamicToolCall" else item.server,
        tool=_CAPITAL.sub(r"_\1", item.tool).lower() if item.type == "collabAgentToolCall" else item.tool,
        query=item.query,
        arguments=item.arguments,
        action=item.action,
        prompt=item.prompt,
        result={"content": item.content_items} if item.type == "dynamicToolCall" else item.result,
        error=item.error,
        changes=changes_of(item),
        agents_states=item.agents_states,
        receiver_thread_ids=item.receiver_thread_ids,
    )


def changes_of(item: Item) -> list[Object]:
    """Return the files that the item changes: `path`, `kind` (add, update, delete), `diff` and, for a renamed file,
    `move_path`."""
    found = []
    for change in objects_of(item.changes):
        kind = object_of(change.get("kind"))
        shown = {"path": string(change, "path"), "kind": string(kind, "type"), "diff": string(change, "diff")}
        moved = string(kind, "move_path") or string(kind, "movePath")
        found.append({**shown, "move_path": moved} if moved else shown)
    return found
