"""Plays the steps of a script: each step becomes frames on stdout (docs/scripted.md).

Does not depend on sessions, on arguments, or on how the reply is chosen.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from beam.testing.script import Reply

STEP_S = 0.05  # a longer sleep is made of steps of this length
CHUNK = 12  # characters of a streamed piece, if the script gives no number
_TEMPLATE = re.compile(r"\{(prompt|turn|session|agent|model|from|steered|env\.([A-Za-z_][A-Za-z0-9_]*))\}")


def write_frame(frame: str, /, **fields: object) -> None:
    """Write one frame to stdout and flush it."""
    write_line(json.dumps({"frame": frame, **fields}, default=str).encode())


def write_line(line: bytes) -> None:
    """Write one raw line to stdout and flush it."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def pause(seconds: float) -> None:
    """Wait, in short sleeps: an interrupt that comes just before a sleep begins is seen only when that sleep ends."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, STEP_S))


def fill_templates(value: Any, names: Mapping[str, str], environ: Mapping[str, str]) -> Any:
    """Return the value with the templates in its texts filled in. An environment variable that is not set is filled in
    as an empty text."""
    if isinstance(value, str):
        return _TEMPLATE.sub(lambda match: environ.get(match[2], "") if match[2] else names[match[1]], value)
    if isinstance(value, list):
        return [fill_templates(item, names, environ) for item in value]
    if isinstance(value, dict):
        return {key: fill_templates(item, names, environ) for key, item in value.items()}
    return value


class Player:
    """Plays the steps of one reply; `result` is the content of the turn's result frame.

    `received` is called before each step, and returns all texts that were passed to the agent in this turn. Called with
    True, it first waits until there is a text. `forget` is called to delete the agent's session.
    """

    def __init__(self, forget: Callable[[], None], received: Callable[[bool], str] = lambda waits: "") -> None:
        self._forget = forget
        self._received = received
        self._calls = 0
        self._tokens: dict[str, int] = {}
        self._cost: float | None = None
        self._is_over = False
        self.result: dict[str, Any] = {"status": "completed", "reply": ""}

    def play(self, reply: Reply, names: Mapping[str, str], environ: Mapping[str, str]) -> None:
        """Write the frames of each step in order, until a step ends the turn. `names` are the values of the
        templates."""
        for step in reply:
            received = self._received(step.verb == "listen" and bool(step.value))
            value = fill_templates(step.value, {**names, "steered": received}, environ)
            getattr(self, f"step_{step.verb}")(value, **step.beside)
            if self._is_over:
                return

    def _end(self, status: str, **fields: object) -> None:
        self.result.update(status=status, **fields)
        self._is_over = True

    def step_text(self, text: str) -> None:
        self.result["reply"] = text
        write_frame("text", text=text)

    def step_delta(self, text: str) -> None:
        write_frame("delta", text=text)

    def step_stream(self, value: dict[str, Any]) -> None:
        text, size = value["text"], value.get("chunk", CHUNK)
        for start in range(0, len(text), size):
            write_frame("delta", text=text[start : start + size])
            pause(value.get("delay", 0))
        self.step_text(text)

    def step_big(self, size: int) -> None:
        self.step_text("x" * size)

    def step_think(self, text: str) -> None:
        write_frame("thinking", text=text)

    def step_delay(self, seconds: float) -> None:
        pause(seconds)

    def step_listen(self, flag: bool) -> None:
        """Do nothing, because `play` has waited already."""

    def step_tool(self, value: dict[str, Any]) -> None:
        call_id = self._call(value["name"], value.get("input"))
        if "progress" in value:
            write_frame("tool_progress", id=call_id, text=value["progress"])
        pause(value.get("delay", 0))
        if not value.get("unfinished"):
            output, is_error = value.get("output", ""), value.get("is_error", False)
            write_frame("tool_result", id=call_id, output=output, is_error=is_error)

    def _call(self, name: str, input: object) -> str:
        self._calls += 1
        write_frame("tool_call", id=f"call-{self._calls}", name=name, input=input)
        return f"call-{self._calls}"

    def step_run(self, argv: list[str]) -> None:
        import subprocess
        import tempfile

        call_id = self._call("run", {"argv": argv})
        with tempfile.TemporaryFile() as output:  # not a pipe: what the program leaves behind may hold it open
            try:
                code = subprocess.run(
                    argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False
                ).returncode
            except (OSError, ValueError) as error:
                write_frame("tool_result", id=call_id, output=str(error), is_error=True)
                return
            output.seek(0)
            text_read = output.read().decode("utf-8", "replace")
        write_frame("tool_result", id=call_id, output=text_read, is_error=code != 0)

    def step_plan(self, steps: list[dict[str, str]]) -> None:
        write_frame("plan", steps=steps)

    def step_file(self, value: dict[str, str]) -> None:
        write_frame("file", **value)

    def step_status(self, value: dict[str, Any]) -> None:
        write_frame("status", **value)

    def step_usage(self, tokens: dict[str, int]) -> None:
        self._tokens = tokens
        write_frame("usage", usage=self._tokens, cost_usd=self._cost)

    def step_cost_usd(self, cost: float) -> None:
        self._cost = cost
        write_frame("usage", usage=self._tokens, cost_usd=self._cost)

    def step_stderr(self, text: str) -> None:
        sys.stderr.write(text.rstrip("\n") + "\n")
        sys.stderr.flush()

    def step_garbage(self, lines: list[str | bytes]) -> None:
        for line in lines:
            write_line(line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line)

    def step_lose_session(self, flag: bool) -> None:
        if flag:
            self._forget()

    def step_silent(self, flag: bool) -> None:
        if flag:
            self._end("completed", reply="")

    def step_truncate(self, flag: bool) -> None:
        if flag:
            self._end("truncated", reason="the answer was cut off at the output limit")

    def step_refuse(self, reason: str) -> None:
        self._end("refused", reason=reason)

    def step_limit(self, reason: str) -> None:
        self._end("limit", reason=reason)

    def step_fail(self, value: dict[str, str]) -> None:
        reason = value.get("reason", "the script says that it failed")
        self._end("failed", **{"class": value.get("class", "unknown")}, reason=reason, reply=None)

    def step_deny(self, value: dict[str, Any]) -> None:
        by = value.get("by", "default")
        denial = {"tool": value["tool"], "input": value.get("input"), "by": by}
        self.result.setdefault("denials", []).append(denial)
        if by == "default":
            self._end("denied", reason=f"{value['tool']} was denied")

    def step_crash(self, how: str | int) -> NoReturn:
        if isinstance(how, str):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.Signals[how])
            time.sleep(1)  # a signal that does not end a process
        os._exit(how if isinstance(how, int) else 1)

    def step_hang(self, flag: bool, *, stubborn: bool = False) -> None:
        if stubborn:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
        if flag:
            write_frame("status", state="hanging")
        while flag:
            pause(3600)
