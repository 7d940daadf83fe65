"""Decodes the output of Continue's CLI: the answer as plain text, and a failure as `{"status":"error",…}` on stderr.

beam does not use `--format json`, which makes the CLI wrap the answer. So an answer that is JSON comes from the model.
The output does not show tools or figures, or that an answer was cut off.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.base import Exit, Turn, Verdict, native
from beam.agents.failures import class_of
from beam.agents.fields import string
from beam.agents.oneshot import Failure, OutputSummary, verdict
from beam.model import events
from beam.model.events import Event


class TextDecoder:
    """Decodes the output of one process."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._lines: list[str] = []

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the line as a delta; the complete text follows at the end."""
        text = line.decode("utf-8", "replace")
        piece = f"\n{text}" if self._lines else text
        self._lines.append(text)
        return [events.TextDelta(text=piece)] if piece else []

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the verdict. The turn is over only if the exit code is 0 and stderr has no failure. An answer without
        text is no answer: cn says neither that the model refused nor that it answered nothing."""
        summary = OutputSummary(name="cn", model=self._turn.model, nameless=True)
        text = "\n".join(self._lines)
        failure = next(filter(None, map(_failure, exit.stderr_tail.splitlines())), "")
        emitted: list[Event] = []
        if failure:
            summary.failure = Failure(class_of(None, failure), failure)
        else:
            emitted += summary.text(text) if text.strip() else []
            summary.ended = "stop" if exit.code == 0 else ""
        more, found = verdict(self._turn, exit, summary)
        return emitted + more, found


def _failure(line: str) -> str:
    found = native(line.encode("utf-8", "replace")) if line.startswith("{") else None
    return string(found.value, "message") if found and string(found.value, "status") == "error" else ""
