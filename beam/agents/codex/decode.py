"""Decodes the JSON Lines of `codex exec` into events and a verdict.

Two facts need care: `usage` is the total of the whole thread, and item ids begin at item_0 in each process. Does not
depend on how the process is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec import UNSET, Raw, UnsetType

from beam.agents import oneshot
from beam.agents.base import Exit, Turn, Verdict, document, raw_json
from beam.agents.codex import items, wire
from beam.agents.codex.trouble import UNASKED, FailureReports, failure_class
from beam.agents.codex.wire import Item, Line, Tokens
from beam.agents.figures import NOTHING_YET, is_nothing, usage_since
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Denial, Status, Total

_LOST = "no rollout found for thread id {}"
# Codex reports a call that its sandbox forbids only to the model, and in its log on stderr.
REJECTED_CALL = re.compile(r"ERROR codex_core::tools::router: error=((?:patch rejected|approval policy is Never).*)")
_NOISE = re.compile(
    r"Reading (?:additional input|prompt from stdin)|WARNING: proceeding|\d{4}-\d\d-\d\dT\S+ +(ERROR|WARN) "
)


class LineDecoder:
    """The decoder for one process of `codex exec`."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._summary = oneshot.OutputSummary(name="codex")
        self._items = items.ItemReader(self._summary, prefix=f"{turn.message_id}-{turn.attempt}-")
        self._trouble = FailureReports(self._summary)
        self._has_items = False
        self._is_unasked = False  # the turn has no item and no tokens: no model was asked

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line. The first event has the line in `raw`."""
        record = wire.read(line)
        if record is None:
            return oneshot.non_json_events(line)
        decode = _KINDS.get(record.type)
        return oneshot.with_raw_line(
            [events.Unknown(what=record.type or "no type")] if decode is None else decode(self, record), line
        )

    def _on_opened(self, record: Line) -> list[Event]:
        return self._summary.on_opened(self._turn, record.thread_id, model=self._turn.model)

    def _on_completed(self, record: Line) -> list[Event]:
        summary = self._summary
        summary.ended = "stop"
        total = total_of(record.usage)
        if is_nothing(total):  # nothing was counted, as in a review
            self._is_unasked = not self._has_items
            return []
        is_new = self._turn.session_id is None or summary.lost
        used = summary.usage = usage_since(NOTHING_YET if is_new else self._turn.carried, total)
        self._is_unasked = not self._has_items and used.input_tokens == 0 and used.cached_tokens == 0
        return [events.UsageSeen(usage=used, total=total)]

    def _on_item(self, record: Line, read: Callable[[items.ItemReader, Item], list[Event]]) -> list[Event]:
        self._has_items |= record.item.type != "error"
        return read(self._items, record.item)

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the last events, such as the ends of calls that never returned, and the verdict. A turn is completed
        only if Codex reported `turn.completed`, whatever the exit code is."""
        summary, turn = self._summary, self._turn
        if summary.session_id is None and turn.session_id and _LOST.format(turn.session_id) in exit.stderr_tail:
            summary.lost = _LOST.format(turn.session_id)
        summary.denials += [denial_from_text(text) for text in REJECTED_CALL.findall(exit.stderr_tail)]
        error_lines = [line for line in exit.stderr_tail.splitlines() if line.strip() and not _NOISE.match(line)]
        complaint: list[Event] = []
        if exit.code and error_lines and summary.session_id is None and not summary.lost and exit.stopped_by is None:
            class_ = failure_class(error_lines[0])
            complaint = summary.on_failed(
                error_lines[0][:500], class_=Class.BAD_REQUEST if class_ is Class.UNKNOWN else class_
            )
        quiet = msgspec.structs.replace(exit, stderr_tail="\n".join(error_lines))
        emitted, verdict = oneshot.verdict(turn, quiet, summary)
        emitted = complaint + emitted
        if self._is_unasked and verdict.status is Status.COMPLETED:
            stopped = {"status": Status.FAILED, "class_": Class.STOPPED, "reason": UNASKED, "reply": None}
            return emitted, msgspec.structs.replace(verdict, **stopped)
        return emitted, with_structured_answer(turn, verdict)


_KINDS: dict[str, Callable[[LineDecoder, Line], list[Event]]] = {
    "thread.started": LineDecoder._on_opened,
    "turn.started": lambda self, record: [],
    "turn.completed": LineDecoder._on_completed,
    "turn.failed": lambda self, record: self._trouble.on_fatal(record.error.message),
    "error": lambda self, record: self._trouble.on_reported(record.message),
    "item.started": lambda self, record: self._on_item(record, items.ItemReader.on_started),
    "item.updated": lambda self, record: self._on_item(record, items.ItemReader.on_updated),
    "item.completed": lambda self, record: self._on_item(record, items.ItemReader.on_completed),
}


def total_of(tokens: Tokens) -> Total:
    """Return the tokens that the whole thread has used so far. `input_tokens` does not include tokens from a cache."""
    given, cached = tokens.input_tokens, tokens.cached_input_tokens
    uncached = None if given is None else max(0, given - (cached or 0))
    return Total(
        input_tokens=uncached,
        output_tokens=tokens.output_tokens,
        cached_tokens=cached,
        reasoning_tokens=tokens.reasoning_output_tokens,
        cache_write_tokens=tokens.cache_write_input_tokens,
    )


def denial_from_text(text: str) -> Denial:
    """Return the denial of a call that Codex refused with this text."""
    tool = "apply_patch" if text.startswith("patch") else "shell"
    return Denial(tool=tool, input=raw_json({"reason": text}))


def with_structured_answer(turn: Turn, verdict: Verdict) -> Verdict:
    """Return the verdict with the answer as a JSON value, if the turn has a schema. If the answer is not JSON, return a
    failed verdict."""
    if turn.schema is None or verdict.status not in (Status.COMPLETED, Status.DENIED):
        return verdict
    structured = _answer_value(verdict.reply or "")
    if structured is UNSET:
        reason = "the answer does not follow the schema: it is not JSON"
        verdict = msgspec.structs.replace(verdict, status=Status.FAILED, class_=Class.SCHEMA, reason=reason)
    return msgspec.structs.replace(verdict, structured=structured)


def _answer_value(reply: str) -> Raw | UnsetType:
    try:
        return raw_json(document(reply.encode("utf-8", "replace")))
    except ValueError:
        return UNSET
