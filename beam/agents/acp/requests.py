"""Handles an agent's requests to beam. A call that the access allows is allowed immediately, if the turn has no rules.
Any other permission request becomes an ask. Every request gets an answer.

A turn waits until its request is answered, so beam immediately refuses a request for something that it does not offer,
such as files and terminals. "Allow always" applies to this session only. Does not depend on who decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from msgspec import Struct

from beam.agents.acp import wire
from beam.agents.acp.calls import Call
from beam.agents.acp.turn import TurnReader
from beam.agents.base import raw_json
from beam.agents.fields import Object, object_of, objects, string, strings
from beam.agents.jsonrpc import Id, key_of
from beam.agents.link import Asked, Decide, Say, Step, Withdrawn
from beam.agents.typed import fit_fields
from beam.model import events
from beam.model.message import Access

_READING_KINDS = ("read", "search")
_ALLOWED_KINDS: dict[Access, tuple[str, ...]] = {"read": _READING_KINDS, "edit": (*_READING_KINDS, "edit")}


def allows(
    access: Access, kind: str, paths: Collection[str], arguments: Object, cwd: str, *, others: Collection[str] = ()
) -> bool:
    """Return whether a call is allowed without asking. `full` allows any call, `ask` none. `read` allows a call that
    reads files of the folder, and `edit` also a call that changes them. Neither of these two allows a call with a
    command or without a file. `others` are further paths of the call, such as the folder in which it searches: each
    has to be the folder or inside it."""
    if access == "full":
        return True
    if kind not in _ALLOWED_KINDS.get(access, ()) or not paths or "command" in arguments or "cmd" in arguments:
        return False
    return all(is_within(path, cwd) for path in (*paths, *(f"{path}/x" for path in others)))


def is_within(path: str, cwd: str) -> bool:
    """Return whether a path is inside the folder, both as it is spelled and after its links are followed."""
    if not cwd or not path or "\0" in path or path.startswith("~"):  # some tools take `~` for the home folder
        return False
    folder = os.path.normpath(cwd)  # compares the paths as they are spelled
    joined = os.path.join(folder, path)  # noqa: PTH118
    return _is_below(os.path.normpath(joined), folder) and _is_below(os.path.realpath(joined), os.path.realpath(folder))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


PERMISSION_METHOD, CANCEL_METHOD = "session/request_permission", "$/cancel_request"
_MAX_OPEN = 100  # requests that wait at the same time
_FOR_SESSION = re.compile(r"(?i)\bsession\b")  # in the name of an option that allows only for this session
_FOR_GOOD = re.compile(r"(?i)\b(?:future|sessions)\b")  # in the name of one that allows for longer
_FOR_MORE = re.compile(r"(?i)\b(?:all|any|every)\b")  # in the name of one that also allows other calls
_SAME_CALL = "the same again in this session"
_CANCELLED_OUTCOME: Object = {"outcome": {"outcome": "cancelled"}}


class _OpenRequest(Struct, frozen=True):
    """A request that waits for a decision: its id, the id of its call, and the option for each decision ("" if the
    agent offers no such option). `scope` says what `always` allows."""

    number: Id
    call_id: str
    once: str
    always: str
    scope: str
    reject: str


class Requests:
    """The requests of one process. Methods take the `reader` of the running turn, None between two turns."""

    def __init__(self) -> None:
        self._open: dict[str, _OpenRequest] = {}

    def handle_request(self, number: Id, method: str, params: Object, reader: TurnReader | None) -> list[Step]:
        """Return the steps that follow from a request: it becomes an ask, or is answered immediately."""
        if method != PERMISSION_METHOD:
            return [*_unanswerable_notice(method, params), wire.refusal(number, f"beam does not answer {method[:80]}")]
        key = key_of(number)
        update = fit_fields(wire.Update, object_of(params.get("toolCall")))
        if reader is None or not update.tool_call_id or len(self._open) >= _MAX_OPEN:
            return [wire.answer(number, _CANCELLED_OUTCOME)]
        if key in self._open:
            return []
        call, before = reader.on_asked(update)
        waiting = _open_request(number, call.id, objects(params, "options"))
        steps: list[Step] = [Say(event) for event in before]
        turn = reader.turn
        paths = () if call.is_unsure else call.paths
        given = object_of(call.input)
        is_allowed = allows(turn.access, call.kind, paths, given, turn.cwd, others=call.others)
        is_allowed &= bool(waiting.once or waiting.always)
        if is_allowed and not turn.rules.rules:
            return [*steps, wire.answer(number, _selected_outcome(waiting.once or waiting.always))]
        self._open[key] = waiting
        asked = Asked(
            key=key,
            tool=call.name,
            input=raw_json(call.input),
            description=_description(call),
            call_id=call.id,
            suggestions=raw_json([waiting.scope] if waiting.always else []),
            allow=bool(waiting.once),
            always=bool(waiting.always),
            call=call.call_for_rules,
            granted=is_allowed,
        )
        return [*steps, asked]

    def decide(self, decide: Decide, reader: TurnReader | None) -> list[Step]:
        """Return the step that answers the request with the decision; none if the request is not open."""
        waiting = self._open.pop(decide.key, None)
        if waiting is None:
            return []
        if decide.decision == "allow":
            option = (waiting.always if decide.always else "") or waiting.once or waiting.always
        else:
            option = waiting.reject if decide.decision == "deny" else ""
            if reader is not None:
                reader.on_denied(waiting.call_id)
        return [wire.answer(waiting.number, _selected_outcome(option))]

    def on_withdrawn(self, number: object) -> list[Step]:
        """Return the steps for a request that the agent has cancelled: it still gets an answer. None if the request is
        not open."""
        key = key_of(number) if isinstance(number, int | str) else ""
        waiting = self._open.pop(key, None)
        if waiting is None:
            return []
        why = "the agent no longer waits for it"
        return [wire.answer(waiting.number, _CANCELLED_OUTCOME), Withdrawn(key=key, why=why)]

    def cancel_all(self) -> list[Step]:
        """Return the steps that answer all open requests with "cancelled"."""
        found: list[Step] = [wire.answer(waiting.number, _CANCELLED_OUTCOME) for waiting in self._open.values()]
        self._open.clear()
        return found


def _selected_outcome(option: str) -> Object:
    return {"outcome": {"outcome": "selected", "optionId": option}} if option else _CANCELLED_OUTCOME


def _open_request(number: Id, call_id: str, offered: list[Object]) -> _OpenRequest:
    def option_id(kind: str) -> str:
        return next((string(option, "optionId") for option in offered if option.get("kind") == kind), "")

    always = _session_option(offered)
    name = string(always, "name")
    scope = name if _FOR_MORE.search(name) else _SAME_CALL
    reject = option_id("reject_once") or option_id("reject_always")
    return _OpenRequest(number, call_id, option_id("allow_once"), string(always, "optionId"), scope, reject)


def _session_option(offered: list[Object]) -> Object:
    """Return the option that allows the call for this session only; {} if there is none. An option that also allows
    other calls, such as all tools of a server, is the last choice."""
    names = [(option, string(option, "name")) for option in offered if option.get("kind") == "allow_always"]
    found = [(option, name) for option, name in names if _FOR_SESSION.search(name) and not _FOR_GOOD.search(name)]
    return min(found, key=lambda each: _FOR_MORE.search(each[1]) is not None, default=({}, ""))[0]


def _description(call: Call) -> str:
    """Return the description of a request: first what would be done, then the agent's own words."""
    arguments = object_of(call.input)
    command = string(arguments, "command") or string(arguments, "cmd") or " ".join(strings(arguments, "command"))
    words = "" if call.text.startswith("{") else call.text
    lines = [command] if command else list(call.paths)
    lines_shown = "\n".join(dict.fromkeys(line for line in (*lines, call.title, words) if line))
    return lines_shown or bytes(raw_json(call.input)).decode()


def _unanswerable_notice(method: str, params: Object) -> list[Step]:
    """Return the notice about a question that nobody can decide here; none for any other request."""
    if not method.startswith("elicitation/"):
        return []
    text = " ".join(part for part in (string(params, "message"), string(params, "url")) if part) or method[:80]
    return [Say(events.Notice(text=f"the agent asked something that nobody can decide here: {text}", code="not_asked"))]
