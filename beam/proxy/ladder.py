"""Finds the recorded call that answers a request: an exact match, else a minor one, else a major one, else none.

- exact: the canonical forms are equal.
- minor: the person's last words and the number of messages are equal. Few characters differ, and none of them are in
  the result of a tool.
- major: the person's last words and the number of the person's messages are equal, and either the number of all
  messages or the results of tools are equal.

Each recorded call is used once: of several equal calls, the first unused one is taken. If all of them are used, the
last one is used again, for a client that asks more often than it did during the recording. Does not depend on files or
sockets.
"""

from __future__ import annotations

import threading
from typing import Any, Literal

from msgspec import Struct

from beam.proxy.canonical import Canonical, Canonicalizer
from beam.proxy.differences import Difference, differences, is_in_tool_result
from beam.proxy.recording import Exchange
from beam.proxy.wire import dialects
from beam.proxy.wire.values import ModelRequest

Step = Literal["exact", "minor", "major", "unmatched"]
MINOR_CHARACTERS = 400
_MAX_COMPARED = 12  # recorded calls: those nearest to the next one
_MESSAGE_LISTS = ("messages", "input", "contents")


class Match(Struct, frozen=True, kw_only=True):
    """The match for one request. `exchange` is the recorded call that answers it (None: none fits), `nearest` the
    number of the most similar recorded call, and `differences` are the differences between the request and that call.
    """

    step: Step
    exchange: Exchange | None = None
    nearest: int | None = None
    differences: tuple[Difference, ...] = ()


class _RecordedCall:
    """A recorded call with the values that are compared with those of a request."""

    def __init__(self, exchange: Exchange, canonical: Canonical, asked: ModelRequest, position: int) -> None:
        self.exchange = exchange
        self.canonical = canonical
        self.asked = asked
        self.position = position
        self.count = message_count(exchange.body)
        self.is_used = False


class RequestMatcher:
    """Finds the recorded calls that answer the requests of one replay. Thread-safe. The canonicalizer `recorded` knows
    the folders of the recording, and `now` knows the current folders."""

    def __init__(self, exchanges: tuple[Exchange, ...], recorded: Canonicalizer, now: Canonicalizer) -> None:
        self._recorded = recorded
        self._now = now
        self._mutex = threading.Lock()
        self._next = 0
        self._known = []
        self._by_digest: dict[str, list[_RecordedCall]] = {}
        for position, exchange in enumerate(exchanges):
            request = exchange.request
            canonical = recorded.canonical(
                request.method, _usual_path(request.path), compared_part(exchange.body, request.raw)
            )
            known = _RecordedCall(
                exchange, canonical, self._model_request(request.format, exchange.body, request.path), position
            )
            self._known.append(known)
            self._by_digest.setdefault(canonical.digest, []).append(known)

    def match(self, *, format: str, kind: str, method: str, path: str, body: Any, raw: str | None = None) -> Match:
        """Return the match for a request, and mark its recorded call as used. The secrets must already be removed from
        the request."""
        canonical = self._now.canonical(method, _usual_path(path), compared_part(body, raw))
        with self._mutex:
            if equal := self._by_digest.get(canonical.digest):
                found = next((known for known in equal if not known.is_used), equal[-1])
                self._mark_used(found)
                return Match(step="exact", exchange=found.exchange, nearest=found.exchange.request.n)
            same = [known for known in self._known if self._is_alike(known, format, kind, method, path)]
            unused = [known for known in same if not known.is_used] or same
            near = sorted(unused, key=lambda known: abs(known.position - self._next))[:_MAX_COMPARED]
            asked, count = self._model_request(format, body, path), message_count(body)
            judged = [self._judge(known, canonical, asked, count) for known in near]
            order: dict[Step, int] = {"minor": 0, "major": 1, "unmatched": 2, "exact": 3}
            judged.sort(key=lambda found: (order[found[0]], found[1], found[3].position))
            if not judged:
                return Match(step="unmatched")
            step, _, differing, best = judged[0]
            if step != "unmatched":
                self._mark_used(best)
        exchange = None if step == "unmatched" else best.exchange
        return Match(step=step, exchange=exchange, nearest=best.exchange.request.n, differences=tuple(differing))

    def _mark_used(self, known: _RecordedCall) -> None:
        known.is_used = True
        self._next = known.position + 1

    def _is_alike(self, known: _RecordedCall, format: str, kind: str, method: str, path: str) -> bool:
        request = known.exchange.request
        if (request.format, request.kind, request.method) != (format, kind, method):
            return False
        return kind != "other" or request.path.partition("?")[0] == path.partition("?")[0]

    def _judge(
        self, known: _RecordedCall, canonical: Canonical, asked: ModelRequest, count: int
    ) -> tuple[Step, int, list[Difference], _RecordedCall]:
        found = differences(known.canonical, canonical)
        size = sum(difference.characters for difference in found)
        if known.exchange.request.kind != "ask":
            return ("minor" if size <= MINOR_CHARACTERS else "unmatched"), size, found, known
        is_same_prompt = self._recorded.text(known.asked.prompt) == self._now.text(asked.prompt)
        is_same_count = known.count == count
        outside = [each for each in found if not is_in_tool_result(each, canonical)]
        step: Step = "unmatched"
        if is_same_prompt and is_same_count and size <= MINOR_CHARACTERS and len(outside) == len(found):
            step = "minor"
        elif is_same_prompt and known.asked.turns == asked.turns:
            results = [self._now.text(text) for text in asked.results]
            if is_same_count or results == [self._recorded.text(text) for text in known.asked.results]:
                step = "major"
        return step, size, found, known

    def _model_request(self, format: str, body: Any, path: str) -> ModelRequest:
        if not isinstance(body, dict):
            return ModelRequest()
        return dialects.by_name(format).asked(body, 0, _usual_path(path))


def _usual_path(path: str) -> str:
    return dialects.usual_path(path.partition("?")[0])


def compared_part(body: Any, raw: str | None) -> Any:
    """Return the part of a request that is compared: the JSON of its body, or the text of a body that is not JSON."""
    return body if raw is None else raw


def message_count(body: Any) -> int:
    """Return how many messages a request's body has."""
    lists = (body.get(name) for name in _MESSAGE_LISTS) if isinstance(body, dict) else ()
    return next((len(value) for value in lists if isinstance(value, list)), 0)
