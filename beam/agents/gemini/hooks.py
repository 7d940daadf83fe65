"""Reads in Gemini's debug log which hook stopped the turn. Its protocols leave that out.

Headless, Gemini writes the log to stderr with `--debug`, before it goes on. Over its own protocol it would do so only
when the process ends; there it writes each line at once to the file that a variable names. A hook that stops a call of
a tool is not read here: the result of the call says so.
"""

from __future__ import annotations

import re

FLAGS = ("--debug",)
ENV = {"GEMINI_DEBUG_LOG_FILE": "/dev/stderr"}
_STOPPING = ("BeforeAgent", "BeforeModel", "AfterModel", "AfterAgent")
_HEAD = re.compile(r"\[[0-9TZ:.+-]{20,32}\] \[[A-Z]{3,8}\] ")  # of a line of the file
_HOOK_RUNS = re.compile(r"Created execution plan for (\w{1,40}): ")
_ENDED_TEXT = "Hook execution for "
_STOPPED_TEXT = "Hook requested to stop execution: "


class HookLog:
    """The hooks of one turn. `event` is the last of them that could end the turn, "" if there was none. `stopped` are
    the words with which this hook ended the turn, None if it did not. `is_open`: the log does not have the end of a
    hook yet."""

    def __init__(self) -> None:
        self.event = ""
        self.stopped: str | None = None
        self.is_open = False
        self._is_other = False

    def line(self, line: bytes) -> None:
        """Read one line of stderr."""
        text = _HEAD.sub("", line.decode("utf-8", "replace"), count=1)
        if (found := _HOOK_RUNS.match(text)) is not None:
            self.is_open = True
            self._is_other = found[1] not in _STOPPING
            if not self._is_other:
                self.event, self.stopped = found[1], None
        elif text.startswith(_ENDED_TEXT):
            self.is_open = False
        elif text.startswith(_STOPPED_TEXT) and self.event and not self._is_other:
            self.stopped = text.removeprefix(_STOPPED_TEXT).strip()

    @property
    def reason(self) -> str:
        """Return why the turn ended, if a hook stopped it; "" if none did."""
        return "" if self.stopped is None else f"a hook ({self.event}) stopped the turn: {self.stopped}"
