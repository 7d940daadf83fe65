"""An agent that speaks a protocol of lines, and its link: what `tui.py` is for screens.

It says `ready`, takes `prompt WORDS`, and does what the first word says. Run as a program it is the agent; `Lines` is
its dialogue face.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence

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
from beam.model.outcome import Status
from beam.rules.call import call_of

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
                self._heard[-1] = f"Decide {intent.decision}"
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
                call, changes = call_of(text) if "(" in text else None, text == "Any"
                tool = text.partition("(")[0]
                return (Asked(key=key, tool=tool, always=True, message=True, call=call, changes=changes),)
            case "withdraw":
                return (Withdrawn(key=key, why=text),)
            case "answer":
                return (Answered(id=key, message=text),)
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


def say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def hear(word: str) -> str:
    """The rest of the next line that begins so; lines before it are passed over."""
    for line in sys.stdin:
        first, _, rest = line.rstrip("\n").partition(" ")
        if first == word:
            return rest
    raise SystemExit(0)


def flood() -> None:
    """Write a line that has no end."""
    while True:
        sys.stdout.write("x" * 10_000)
        sys.stdout.flush()


def main(manner: str) -> None:
    hear("hello")
    if manner == "mute":
        time.sleep(100)
    if manner == "leaves":
        sys.exit("no licence")
    say("ready")
    while True:
        play(hear("prompt"))


def play(text: str) -> None:
    word, _, rest = text.partition(" ")
    if word == "unheard":
        time.sleep(100)
    if word == "gone":
        sys.exit(4)
    say("ack")
    match word:
        case "ask":
            say("delta I want", "ask 1 Bash")
            say(f"over completed {hear('decide')}")
        case "run":  # and says what became of it
            say(f"ask 1 {rest}")
            say(f"over completed {hear('decide')}")
        case "any":  # takes another input
            say("ask 1 Any")
            say(f"over completed {hear('decide')}")
        case "asks":  # ends no turn while one of its requests is open
            say("ask 1 Bash", "ask 2 Write")
            decided = f"{hear('decide')}, {hear('decide')}"
            hear("interrupt")
            say(f"over cancelled {decided}")
        case "moment":
            say("ask 1 Bash", "withdraw 1 it found another way", "over completed done")
        case "hang":
            hear("interrupt")
            say("over cancelled")
        case "deaf":
            time.sleep(100)
        case "later":
            time.sleep(1.0)
            say("over completed later")
        case "tool":
            say("tool c1 Bash", "over completed done")
        case "garbage":
            say("?")
            time.sleep(100)
        case "long":
            say("text " + "x" * 300_000)
            time.sleep(100)
        case "endless":
            flood()
        case "flood":  # once its turn is over
            say("over completed done")
            time.sleep(0.5)
            flood()
        case "dies":
            sys.stderr.write("out of luck\n")
            sys.exit(3)
        case "orphan":  # it is killed, and a process that it started still says that the turn is over
            parent = os.getpid()
            if os.fork() == 0:
                os.kill(parent, signal.SIGKILL)
                while os.getppid() == parent:
                    time.sleep(0.01)
                os.write(1, b"over completed done\n")
            time.sleep(100)
        case "call":
            number, _, what = hear("call").partition(" ")
            say(f"answer {number} {what}", "over completed called")
        case "calls":  # also between two turns, one of them
            say("over completed done")
            number, _, what = hear("call").partition(" ")
            say(f"answer {number} {what}")
        case "stray":
            say("over completed done")
            time.sleep(0.3)
            say(rest)
            os.mkdir("strayed")  # noqa: PTH102 - it starts sooner without pathlib
        case "lost" if sys.argv[2]:
            say(f"lost {sys.argv[2]}", "over failed")
        case _:
            say(f"text {rest}", f"over completed {rest}")


if __name__ == "__main__":
    main(sys.argv[1])
