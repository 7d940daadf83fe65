"""Handles an agent's requests to beam. A call that the access allows is allowed immediately, if the turn has no rules.
Any other permission request becomes an ask. Every request gets an answer.

A turn waits until its request is answered, so beam immediately refuses a request for something that it does not offer,
such as files and terminals. "Allow always" applies to this session only. Does not depend on who decides.
"""

from __future__ import annotations

from msgspec import Struct

from beam.agents.acp import rights, wire
from beam.agents.acp.calls import Call
from beam.agents.acp.turn import TurnReader
from beam.agents.base import raw_json
from beam.agents.fields import Object, object_of, objects, string, strings
from beam.agents.jsonrpc import Id, key_of
from beam.agents.link import Asked, Decide, Say, Step
from beam.agents.typed import as_far_as_fits
from beam.model import events

PERMISSION = "session/request_permission"
_MOST = 100  # requests that wait at the same time
_SESSION = "session"  # the word in the name of an option that allows no longer than that
_CANCELLED: Object = {"outcome": {"outcome": "cancelled"}}


class _Open(Struct, frozen=True):
    """A request that waits for a decision: its id, the id of its call, and the option for each decision ("" if the
    agent offers no such option)."""

    number: Id
    call_id: str
    once: str
    always: str
    reject: str


class Requests:
    """The requests of one process. Methods take the `reader` of the running turn, None between two turns."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def handle_request(self, number: Id, method: str, params: Object, reader: TurnReader | None) -> list[Step]:
        """Return the steps that follow from a request: it becomes an ask, or is answered immediately."""
        if method != PERMISSION:
            return [*_unanswerable(method, params), wire.refusal(number, f"beam does not answer {method[:80]}")]
        key = key_of(number)
        update = as_far_as_fits(wire.Update, object_of(params.get("toolCall")))
        if reader is None or not update.tool_call_id or len(self._open) >= _MOST:
            return [wire.answer(number, _CANCELLED)]
        if key in self._open:
            return []
        call, before = reader.on_asked(update)
        waiting = _options(number, call.id, objects(params, "options"))
        steps: list[Step] = [Say(event) for event in before]
        turn = reader.turn
        paths = () if call.is_unsure else call.paths
        given = object_of(call.input)
        is_allowed = rights.allows(turn.access, call.kind, paths, given, turn.cwd, others=call.others)
        is_allowed &= bool(waiting.once or waiting.always)
        if is_allowed and not turn.rules.rules:
            return [*steps, wire.answer(number, _selected(waiting.once or waiting.always))]
        self._open[key] = waiting
        asked = Asked(
            key=key,
            tool=call.name,
            input=raw_json(call.input),
            description=_description(call),
            call_id=call.id,
            suggestions=raw_json(["the same again in this session"] if waiting.always else []),
            allow=bool(waiting.once),
            always=bool(waiting.always),
            call=call.in_rules,
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
        return [wire.answer(waiting.number, _selected(option))]

    def cancelled(self) -> list[Step]:
        """Return the steps that answer all open requests with "cancelled"."""
        found: list[Step] = [wire.answer(waiting.number, _CANCELLED) for waiting in self._open.values()]
        self._open.clear()
        return found


def _selected(option: str) -> Object:
    return {"outcome": {"outcome": "selected", "optionId": option}} if option else _CANCELLED


def _options(number: Id, call_id: str, offered: list[Object]) -> _Open:
    def of(*kinds: str, word: str = "") -> str:
        for kind in kinds:
            for option in offered:
                if option.get("kind") == kind and word in string(option, "name").lower():
                    return string(option, "optionId")
        return ""

    always = of("allow_always", word=_SESSION)
    reject = of("reject_once") or of("reject_always")
    return _Open(number, call_id, of("allow_once"), always, reject)


def _description(call: Call) -> str:
    """Return the description of a request: first what would be done, then the agent's own words."""
    arguments = object_of(call.input)
    command = string(arguments, "command") or string(arguments, "cmd") or " ".join(strings(arguments, "command"))
    words = "" if call.text.startswith("{") else call.text
    lines = [command] if command else list(call.paths)
    lines_shown = "\n".join(dict.fromkeys(line for line in (*lines, call.title, words) if line))
    return lines_shown or bytes(raw_json(call.input)).decode()


def _unanswerable(method: str, params: Object) -> list[Step]:
    """Return the notice about a question that nobody can decide here; none for any other request."""
    if not method.startswith("elicitation/"):
        return []
    text = " ".join(part for part in (string(params, "message"), string(params, "url")) if part) or method[:80]
    return [Say(events.Notice(text=f"the agent asked something that nobody can decide here: {text}", code="not_asked"))]
