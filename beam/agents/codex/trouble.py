"""Codex's reports of failures: retries, the failure that ends a turn, and the class of each.

Does not depend on the form of a report.
"""

from __future__ import annotations

import re

from beam.agents.failures import class_of, unwrap_api_message
from beam.agents.oneshot import OutputSummary
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class

_RETRY = re.compile(r"Reconnecting\.\.\. (?:(\d{1,9})/(\d{1,9})|waiting for network) ?\((.*)\)\Z", re.DOTALL)
UNASKED = "codex ended the turn without asking its model, as it does if a hook stops the prompt"
INCOMPLETE_PREFIX = "Incomplete response returned, reason: "
_INCOMPLETE = re.compile(INCOMPLETE_PREFIX + r"(\w+)")
END_BY_REASON = {"max_output_tokens": "length", "content_filter": "refused"}
_CLASS_BY_OWN_WORDS = (("high demand", Class.OVERLOADED), ("Missing environment variable", Class.AUTH))


class FailureReports:
    """Records Codex's reports of failures in `summary`."""

    def __init__(self, summary: OutputSummary) -> None:
        self._summary = summary
        self._error = ""

    def on_reported(self, text: str) -> list[Event]:
        """Return the event of a retry, if the text reports one. Any other text is taken as the failure that ends the
        turn."""
        found = self.read_retry(text)
        return self.on_fatal(text) if found is None else found

    def read_retry(self, text: str) -> list[Event] | None:
        """Return the event of a retry, with its number; None if the text does not report a retry."""
        retry = _RETRY.match(text)
        if retry is None:
            return None
        attempt, of = (int(retry[1]), int(retry[2])) if retry[1] else (None, None)
        return self.on_retry(retry[3], attempt=attempt, of=of)

    def on_retry(self, why: str, *, attempt: int | None = None, of: int | None = None) -> list[Event]:
        """Return the event of a retry."""
        self._summary.retried = end_in(why)
        return self._summary.retrying(why, attempt=attempt, of=of, class_=failure_class(why))

    def on_fatal(self, text: str, class_: Class | None = None) -> list[Event]:
        """Return the event of the failure that ends the turn; none if Codex only repeats the failure."""
        if text == self._error:
            return []
        self._error = text
        if end := end_in(text):
            self._summary.ended = end
            return [events.Notice(text=text, code="incomplete")]
        return self._summary.on_failed(unwrap_api_message(text), class_=class_ or failure_class(text))


def end_in(text: str) -> str:
    """Return how the answer ended (`length`, `refused`) by the text of a failure; "" if it ended otherwise."""
    incomplete = _INCOMPLETE.search(text) if INCOMPLETE_PREFIX in text else None
    return END_BY_REASON.get(incomplete[1], "") if incomplete else ""


def failure_class(text: str) -> Class:
    """Return the class of a failure, from Codex's text about it."""
    for words, class_ in _CLASS_BY_OWN_WORDS:
        if words in text:
            return class_
    found = class_of(None, text)
    if found is Class.UNKNOWN and text.startswith("{"):
        return Class.BAD_REQUEST  # the unchanged body of an answer with HTTP status 400
    if found is Class.UNKNOWN and text.startswith("stream disconnected"):
        return Class.NETWORK
    return found
