"""An agent that speaks a protocol of lines, and its link: what `tui.py` is for screens.

It says `ready`, takes `prompt WORDS`, and does what the first word says. Run as a program it is the agent; `Lines` is
its dialogue face.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from beam.agents.base import Exit, Host, Launch, Turn, Verdict
from beam.agents.link import (
    Acknowledged,
    Answered,
    Asked,
    Broken,
    Close,
    Decide,
    Eof,
    Intent,
    Interrupt,
    Link,
    Over,
    Prompt,
    Query,
    Ready,
    Say,
    Send,
    Set,
    Steer,
    Step,
    Stirred,
    Withdrawn,
)
from beam.model import events
from beam.model.outcome import Status, Usage
from beam.rules.rule import parse_call

CALL_S = 0.5  # until a prompt must be acknowledged
KINDS = {"completed": Status.COMPLETED, "cancelled": Status.CANCELLED, "failed": Status.FAILED}


class Lines:
    """The dialogue face. `heard` is what the link was told to do, by name, for all processes together."""

    def __init__(self, manner: str = "plain") -> None:
        self.manner = manner
        self.heard: list[str] = []

    def launch(self, turn: Turn, host: Host) -> Launch:
        argv = (sys.executable, __file__, self.manner, turn.session_id or "")
        return Launch(argv=argv, env={"PYTHONPATH": os.pathsep.join(sys.path)})

    def link(self, turn: Turn, host: Host) -> Link:
        return LinesLink(self.heard)


class LinesLink:
    """The conversation with one such agent."""

    def __init__(self, heard: list[str]) -> None:
        self.due: float | None = None
        self.busy = False
        self._heard = heard

    def open(self, now: float) -> Sequence[Step]:
        self.due = now + 30.0
        return (Send(b"hello\n"),)

    def do(self, intent: Intent, now: float) -> Sequence[Step]:
        self._heard.append(type(intent).__name__)
        match intent:
            case Prompt():
                self.busy, self.due = True, now + CALL_S
                return (Send(f"prompt {intent.turn.text}\n".encode()),)
            case Interrupt():
                return (Send(b"interrupt\n"),)
            case Decide():
                self._heard[-1] = f"Decide {intent.decision}{' always' if intent.always else ''}"
                if intent.input is not None:
                    return (Send(f"decide {intent.key} {intent.decision} {bytes(intent.input).decode()}\n".encode()),)
                return (Send(f"decide {intent.key} {intent.decision} {intent.message}\n".encode()),)
            case Steer():
                return (Send(f"call {intent.id} steer {intent.text}\n".encode()),)
            case Set():
                return (Send(f"call {intent.id} set {intent.name}={intent.value}\n".encode()),)
            case Query():
                return (Send(f"call {intent.id} query {intent.name}\n".encode()),)
            case Close():
                return (Eof(),)

    def line(self, line: bytes, now: float) -> Sequence[Step]:
        word, _, rest = line.decode().partition(" ")
        key, _, text = rest.partition(" ")
        match word:
            case "ready":
                self.due = None
                return (Ready(),)
            case "ack":
                self.due = None
                return (Acknowledged(),)
            case "text":
                return (Say(events.Text(text=rest)),)
            case "delta":
                return (Say(events.TextDelta(text=rest)),)
            case "tool":
                return (Say(events.ToolCalled(call_id=key, name=text)),)
            case "ask":
                call, changes = parse_call(text) if "(" in text else None, text == "Any"
                text, _, description = text.partition(" | ")
                tool = text.partition("(")[0]
                about = {"description": description, "call": call, "changes": changes}
                return (Asked(key=key, tool=tool, always=True, message=True, **about),)  # type: ignore[arg-type]
            case "withdraw":
                return (Withdrawn(key=key, why=text),)
            case "answer":
                return (Answered(id=key, message=text),)
            case "opened":
                return (Say(events.SessionStarted(session_id=rest)),)
            case "used":
                return (Say(events.UsageSeen(usage=Usage(input_tokens=int(rest)), cost_usd=0.5)),)
            case "lost":
                return (Say(events.SessionLost(session_id=rest)),)
            case "stir":
                return (Stirred(),)
            case "over":
                self.busy = False
                return (Over(verdict=Verdict(status=KINDS[key], reply=text or None)),)
        return (Broken(reason=f"nobody understands {word!r}"),)

    def on_due(self, now: float) -> Sequence[Step]:
        self.due = None
        return (Broken(reason="it did not answer in time"),)

    def end(self, exit: Exit) -> Sequence[Step]:
        return ()


class Program:
    """The agent itself: what it reads, writes and waits on is given. `argv` is its manner, and the asked session."""

    def __init__(
        self,
        argv: Sequence[str],
        stdin: Iterable[str],
        stdout: TextIO,
        stderr: TextIO,
        sleep: Callable[[float], object] = time.sleep,
        cwd: str = ".",
    ) -> None:
        self.manner, self.session = argv
        self._stdin = iter(stdin)
        self._stdout, self._stderr = stdout, stderr
        self._sleep = sleep
        self._cwd = cwd

    def say(self, *lines: str) -> None:
        for line in lines:
            self._stdout.write(f"{line}\n")
        self._stdout.flush()

    def hear(self, word: str) -> str:
        """The rest of the next line that begins so; lines before it are passed over."""
        for line in self._stdin:
            first, _, rest = line.rstrip("\n").partition(" ")
            if first == word:
                return rest
        raise SystemExit(0)

    def flood(self) -> None:
        """Write a line that has no end."""
        while True:
            self._stdout.write("x" * 10_000)
            self._stdout.flush()

    def run(self) -> None:
        """Ends by SystemExit."""
        self.hear("hello")
        if self.manner == "mute":
            self._sleep(100)
        if self.manner == "leaves":
            sys.exit("no licence")
        self.say("ready")
        while True:
            self.play(self.hear("prompt"))

    def play(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        if word == "unheard":
            self._sleep(100)
        if word == "gone":
            sys.exit(4)
        self.say("ack")
        match word:
            case "ask":
                self.say("delta I want", "ask 1 Bash")
                self.say(f"over completed {self.hear('decide')}")
            case "run":  # and says what became of it
                self.say(f"ask 1 {rest}")
                self.say(f"over completed {self.hear('decide')}")
            case "any":  # takes another input
                self.say("ask 1 Any")
                self.say(f"over completed {self.hear('decide')}")
            case "opens":  # a session, and ends
                self.say("opened s-9", "used 7")
                self._sleep(2)
                sys.exit(3)
            case "described":
                self.say("ask 1 Bash | touch a")
                self.say(f"over completed {self.hear('decide')}")
            case "fatal":  # ends over the decision
                self.say("ask 1 Bash")
                sys.exit(f"no way without: {self.hear('decide')}")
            case "odd":  # says what nobody understands
                self.say("ask 1 Bash")
                self.say(f"? {self.hear('decide')}")
                self._sleep(100)
            case "asks":  # ends no turn while one of its requests is open
                self.say("ask 1 Bash", "ask 2 Write")
                decided = f"{self.hear('decide')}, {self.hear('decide')}"
                self.hear("interrupt")
                self.say(f"over cancelled {decided}")
            case "moment":
                self.say("ask 1 Bash", "withdraw 1 it found another way", "over completed done")
            case "hang":
                self.hear("interrupt")
                self.say("over cancelled")
            case "deaf":
                self._sleep(100)
            case "later":
                self._sleep(1.0)
                self.say("over completed later")
            case "tool":
                self.say("tool c1 Bash", "over completed done")
            case "garbage":
                self.say("?")
                self._sleep(100)
            case "long":
                self.say("text " + "x" * 300_000)
                self._sleep(100)
            case "endless":
                self.flood()
            case "flood":  # once its turn is over
                self.say("over completed done")
                self._sleep(0.5)
                self.flood()
            case "dies":
                self._stderr.write("out of luck\n")
                sys.exit(3)
            case "orphan":  # it is killed, and a process that it started still says that the turn is over
                parent = os.getpid()
                if os.fork() == 0:
                    os.kill(parent, signal.SIGKILL)
                    while os.getppid() == parent:
                        self._sleep(0.01)
                    os.write(1, b"over completed done\n")
                self._sleep(100)
            case "call":
                number, _, what = self.hear("call").partition(" ")
                self.say(f"answer {number} {what}", "over completed called")
            case "calls":  # also between two turns, one of them
                self.say("over completed done")
                number, _, what = self.hear("call").partition(" ")
                self.say(f"answer {number} {what}")
            case "astray":  # in one breath
                self.say("over completed done", rest)
            case "stray":
                self.say("over completed done")
                self._sleep(0.3)
                self.say(rest)
                os.mkdir(f"{self._cwd}/strayed")  # noqa: PTH102 - it starts sooner without pathlib
            case "lost" if self.session:
                self.say(f"lost {self.session}", "over failed")
            case _:
                self.say(f"text {rest}", f"over completed {rest}")


if __name__ == "__main__":
    Program(sys.argv[1:], sys.stdin, sys.stdout, sys.stderr).run()
