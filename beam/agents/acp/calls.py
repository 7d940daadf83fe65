"""The tool calls of one turn. Each is assembled from the agent's messages about it: the call, its updates, and a
request.

Agents differ: some give a call's input only as text, or ask for permission before they report the call. Does not depend
on turns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from beam.agents.acp.wire import Update
from beam.agents.base import document, raw_json
from beam.agents.fields import Object, object_of, objects_of, string
from beam.agents.images import images_in, replace_base64
from beam.model import events
from beam.model.events import Event, ImageSeen
from beam.rules.rule import ToolCall, host_of

TEXT_UPDATES = ("agent_message_chunk", "agent_thought_chunk")


def parent_in(meta: object) -> str | None:
    """Return the id of the call that began the subagent to which an update belongs; None if the update is about the
    agent itself. `meta` is the `_meta` of the update."""
    found = object_of(meta)
    return string(object_of(found.get("claudeCode")), "parentToolUseId") or string(found, "parentToolUseId") or None


class Subagents:
    """The unfinished texts of a turn's subagents, by the ids of the calls that began the subagents."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, list[str]]] = {}

    def add_piece(self, parent: str, kind: str, text: str) -> list[Event]:
        """Record one more piece of a subagent's text or thought, and return the events."""
        if not text:
            return []
        before, pieces = self._open.get(parent, (kind, []))
        ended = self.end(parent) if before != kind else []
        if ended or not pieces:
            self._open[parent] = (kind, pieces := [])
        pieces.append(text)
        return [*ended, events.TextDelta(text=text, parent=parent)] if kind == TEXT_UPDATES[0] else ended

    def end(self, parent: str) -> list[Event]:
        """End the current text of one subagent, and return its event."""
        kind, pieces = self._open.pop(parent, ("", []))
        if not pieces:
            return []
        of = events.Text if kind == TEXT_UPDATES[0] else events.Thinking
        return [of(text="".join(pieces), parent=parent)]

    def end_all(self) -> list[Event]:
        """End the current texts of all subagents, and return their events."""
        return [event for parent in list(self._open) for event in self.end(parent)]


_TOOL_NAME = re.compile(r"\w[\w.:-]{0,63}\Z")
_NAME_IN_ID = re.compile(r"([a-z][a-z_]{2,63})__\w")
_PATH_KEY = re.compile(r"(?i)(?:path|^file|file_?name|target_?file|^dir|directory)s?\Z")  # in the names of an input
_NAME_KEYS = ("tool_name", "toolName", "name")
END_STATUSES = ("completed", "failed")
_RULE_TOOLS = {"edit": "Edit", "delete": "Edit", "move": "Edit", "read": "Read", "search": "Read"}  # in words of rules
_CHANGE_KINDS = {"edit": "update", "delete": "delete"}


class Call:
    """One tool call. `is_recorded`: the journal has the event of the call. `is_over`: the journal also has the event of
    its end. `is_denied`: beam denied the call. `is_described`: the title of the call is never the name of its tool.
    `is_unsure`: a request changed the input of the call, and nothing says which files the new input is about.
    `others`: further paths that the last request depends on: those known before it, and those in its input."""

    def __init__(self, call_id: str, *, is_described: bool = False) -> None:
        self.id = call_id
        self.kind = ""
        self.title = ""
        self.status = ""
        self.arguments: object = None
        self.text = ""
        self.places: tuple[str, ...] = ()
        self.diffs: list[Object] = []
        self.images: tuple[ImageSeen, ...] = ()
        self.others: tuple[str, ...] = ()
        self.parent: str | None = None  # the call that began the subagent which makes this one
        self.is_recorded = self.is_over = self.is_denied = self.is_unsure = False
        self._is_described = is_described
        self._name = ""
        self._described = ""  # the first title: the name of the tool, or a description of the call
        self._output: object = None

    def record_request(self, update: Update) -> None:
        """Record a permission request about this call. The status in the request is ignored. The text in the request
        describes the request, so it is used only if the call has no text yet. What was known before the request still
        counts: a request that names other files than the call before does not make the call harmless."""
        status, text, before, given = self.status or "pending", self.text, self.paths, self.arguments
        self.record_update(update)
        self.status, self.text = status, text or self.text
        in_input = _paths_in(self.arguments)
        self.others = (*before, *in_input)
        says_files = bool(in_input or _places_in(update) or _diffs_in(update))
        self.is_unsure = bool(before) and not says_files and _differs(self.arguments, given)

    def record_update(self, update: Update) -> None:
        """Record an update about this call."""
        title, kind = update.title, update.kind
        if isinstance(kind, str) and kind:
            self.kind = kind
        if isinstance(update.status, str) and update.status:
            self.status = update.status
        meta = object_of(update.meta)
        self.parent = parent_in(meta) or self.parent
        meta = {**meta, **object_of(meta.get("claudeCode"))}
        self._name = next((string(meta, key) for key in _NAME_KEYS if string(meta, key)), self._name)
        if isinstance(title, str) and title:
            self._described = self._described or title
            self.title = title
        if update.raw_input not in (None, {}, ""):
            self.arguments = update.raw_input
        if update.raw_output is not None:
            self._output = update.raw_output
        self.places = _places_in(update) or self.places
        self.diffs = _diffs_in(update) or self.diffs
        parts = objects_of(update.content)
        texts = [string(object_of(part.get("content")), "text") for part in parts if part.get("type") == "content"]
        self.text = "\n".join(text for text in texts if text) or self.text
        inner = [part.get("content") for part in parts if part.get("type") == "content"]
        self.images = tuple(images_in(inner, call_id=self.id)) or self.images

    @property
    def name(self) -> str:
        """Return the tool's name, or the closest thing that the agent reports."""
        if self._name:
            return self._name
        in_id = _NAME_IN_ID.match(self.id)
        if in_id is not None:
            return in_id[1]
        is_name = _TOOL_NAME.match(self._described) and not (self._is_described and self.kind not in ("", "other"))
        return self._described if is_name else self.kind or self._described or "tool"

    @property
    def input(self) -> object:
        """Return the call's input. If the agent does not report the input, return a description of the call: its
        changes, its paths or its title."""
        if self.arguments is not None:
            return self.arguments
        if self.text.startswith("{"):
            try:
                return document(self.text.encode("utf-8", "replace"))
            except ValueError:
                pass
        if self.diffs:
            return {"changes": [_diff_fields(diff) for diff in self.diffs]}
        if self.places:
            return {"paths": list(self.places)}
        return {"title": self.title} if self.title else None

    @property
    def is_known(self) -> bool:
        """Return whether the agent has reported the call's input, and the call is no longer pending."""
        return self.arguments is not None and self.status != "pending"

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of all files that the agent names for this call."""
        return (*self.places, *(string(diff, "path") for diff in self.diffs))

    @property
    def call_for_rules(self) -> ToolCall | None:
        """Return the call in the terms of rules; None if rules can't decide it."""
        given = object_of(self.input)
        command = string(given, "command") or string(given, "cmd")
        if self.kind == "fetch":
            return ToolCall(tool="WebFetch", host=host_of(string(given, "url")))
        if self.kind == "execute":
            return ToolCall(tool="Bash", command=command, by_person=not command)
        tool = _RULE_TOOLS.get(self.kind)
        if tool is None or command:
            return None
        paths = (*self.paths, *self.others) if self.paths else ()
        if any(", " in path for path in paths):  # some agents name several files in one text
            paths = ()
        return ToolCall(tool=tool, paths=tuple(dict.fromkeys(paths)), by_person=self.is_unsure)

    @property
    def output(self) -> str:
        """Return the call's result as text."""
        found = self._output
        if self.kind == "read" and (read := string(object_of(found), "content")):
            return read  # the file's content, not the text that describes the call
        if self.text and not (self.arguments is None and self.text == string({"text": found}, "text")):
            return self.text
        if isinstance(found, str) or found is None:
            return found or "\n".join("[image]" for _ in self.images)
        if isinstance(found, Mapping):
            for key in ("output", "stdout", "content", "message"):
                if isinstance(found.get(key), str):
                    return str(found[key])
        return replace_base64(bytes(raw_json(found)).decode())

    @property
    def fields(self) -> Object:
        """Return the call's input as `input`, and the agent's own fields of its output."""
        return {**object_of(self._output), "input": self.arguments}

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Return the files that the call changed: each path, and the kind of change (add, update, delete)."""
        kind = _CHANGE_KINDS.get(self.kind)
        if self.diffs:
            return [
                (string(diff, "path"), string(diff, "operation") or ("update" if diff.get("oldText") else "add"))
                for diff in self.diffs
                if string(diff, "path")
            ]
        return [] if kind is None else [(path, kind) for path in self.places]


def _places_in(update: Update) -> tuple[str, ...]:
    places = (string(location, "path") for location in objects_of(update.locations))
    return tuple(path for path in places if path)


def _diffs_in(update: Update) -> list[Object]:
    return [part for part in objects_of(update.content) if part.get("type") == "diff"]


def _differs(value: object, before: object) -> bool:
    try:
        return value != before
    except RecursionError:
        return True


def _paths_in(given: object) -> tuple[str, ...]:
    """Return the paths in the input of a call: the texts whose names say that they are paths."""
    found: list[object] = []
    for name, value in object_of(given).items():
        if _PATH_KEY.search(name):
            found += value if isinstance(value, list) else [value]
        if isinstance(value, list):
            found += [text for part in objects_of(value) for key, text in part.items() if _PATH_KEY.search(key)]
    return tuple(path for path in found if isinstance(path, str) and path)


def _diff_fields(diff: Object) -> Object:
    """Return the fields of a diff that show the change: both texts, or the operation and the patch."""
    names = ("path", "operation", "patch") if "operation" in diff else ("path", "oldText", "newText")
    return {name: diff.get(name) for name in names}
