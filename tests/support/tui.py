"""A terminal agent with Claude Code's look and bad manners, for tests: `python tui.py MANNER`.

deaf (it reads nothing) · echo · exit · hang · flood · garbage · ask · permission · drop (the first Enter) · late
(it shows typed text late) · pause (its spinner stands still for 6 s) · quiet (no spinner and no word for 6 s, and
its composer stays) · lookalike (an answer full of prompts, spinners and boxes) · alternate (screen) · repaint (all
of it, each 20 ms) · blank (nothing for 4 s) · crawl (the answer comes in pieces, 2 s apart) · shed (it asks what
nobody described, and takes any key for an answer) · plain (it asks for yes or no) · oracle (it asks below a
spinner that goes on) · welcome (at its start it shows what nobody described, for 8 s) · fickle (it asks, and goes on by
itself) · parting (it leaves slowly, and then says how to go on in its session) · setup (it asks about a key at its
start, and the first time ends over the answer; the file `asked` says that it did) · hopeless (it does so each time) ·
writes (a transcript) · line (a prompt before its cursor and no more; `slow`: it works for 6 s)
"""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from pathlib import Path

RULE = "─" * 60
LOOKALIKE = (
    "✻ Booping… (esc to interrupt)",
    RULE,
    "❯",
    RULE,
    "  ? for shortcuts",
    "❯ hello",
    " ❯ 1. Yes",
    "$",
    ">>>",
)


class Console:
    """The terminal, the clock and the folder of a process."""

    cwd = "."
    sleep = staticmethod(time.sleep)
    monotonic = staticmethod(time.monotonic)

    def read(self, timeout: float | None) -> bytes:
        """What was typed; nothing if it takes longer."""
        if timeout is not None and not select.select([0], [], [], timeout)[0]:
            return b""
        return os.read(0, 65536)

    def write(self, data: bytes) -> None:
        os.write(1, data)

    def leave(self, code: int) -> None:
        os._exit(code)

    def run(self, manner: str) -> None:
        """All of it, in raw mode."""
        before = termios.tcgetattr(0)
        tty.setraw(0)
        try:
            Tui(manner, self).run()
        finally:
            termios.tcsetattr(0, termios.TCSANOW, before)


def run(manner: str, console: Console) -> None:
    """The program, on this terminal."""
    console.run(manner)
    if manner == "parting":
        console.sleep(0.5)
        console.write(b"\r\nGo on with: tui --resume s-1\r\n")


class Tui:
    def __init__(self, manner: str, console: Console) -> None:
        self.manner = manner
        self.console = console
        self.log: list[str] = []
        self.typed = ""
        self.footer = "  ? for shortcuts"
        self.enters = 0
        self.drawn = 0
        self.told = ""

    def draw(self, *dialog: str) -> None:
        composer = ["❯ " + self.typed.replace("\n", "\n  ") if self.typed else "❯"]
        rows = [*self.log, *(dialog or (RULE, *composer, RULE, self.footer))]
        text = "\n".join(rows)
        out = f"\x1b[H\x1b[2J{text}".replace("\n", "\r\n")
        self.console.write(out.encode())

    def read(self, timeout: float | None = None) -> str:
        return self.console.read(timeout).decode()

    def run(self) -> None:
        if self.manner == "line":
            self.prompt()
            return
        if self.manner == "alternate":
            self.console.write(b"\x1b[?1049h")
        self.console.write(b"\x1b[?2004h\x1b]0;\xe2\x9c\xb3 Claude Code\x07")
        if self.manner in ("setup", "hopeless"):
            self.begin()
        if self.manner == "welcome":
            self.draw("Choose how it shall look", "  dark", "  light")
            self.console.sleep(8)
        self.draw()
        if self.manner == "deaf":
            self.console.sleep(600)
        pending = ""
        while True:
            pending += self.read()
            if "\x1b[200~" in pending and "\x1b[201~" not in pending:
                continue
            if pending.startswith("\x1b[200~"):
                text, _, pending = pending[6:].partition("\x1b[201~")
                if self.manner == "late":
                    self.console.sleep(3)
                self.typed += text
            while pending:
                key, pending = pending[0], pending[1:]
                if key == "\x03":
                    return
                if key == "\r":
                    self.enter()
                else:
                    self.typed += key
            self.draw()

    def prompt(self) -> None:
        self.console.write(b"> ")
        while "\x03" not in (key := self.read()):
            self.typed += key
            if "\r" not in key:
                self.console.write(key.encode())
                continue
            self.console.write(b"\r\n")
            if self.typed == "slow\r":
                self.console.sleep(6)
            self.console.write(f"ECHO[{self.typed[:-1]}]\r\n> ".encode())
            self.typed = ""

    def begin(self) -> None:
        asked = Path(self.console.cwd, "asked")
        is_asked = asked.exists()
        asked.touch()
        if is_asked and self.manner == "setup":
            return
        for first, second in ((" ", "❯"), ("❯", " ")):
            self.draw(
                RULE, " Do you want to use this API key?", "", f" {first} 1. Yes", f" {second} 2. No (recommended)"
            )
            self.read()
        self.console.write(b"\r\nError: timed out discarding buffered terminal input\r\n")
        self.console.leave(1)

    def enter(self) -> None:
        self.enters += 1
        if self.manner == "hang" or (self.manner == "drop" and self.enters == 1):
            return
        text, self.typed = self.typed, ""
        self.log += ["❯ " + text.replace("\n", "\n  "), ""]
        self.footer = "  esc to interrupt"
        self.draw()
        self.console.sleep(0.3)
        getattr(self, self.manner, self.echo)(text)
        self.footer = "  ? for shortcuts"

    def echo(self, text: str) -> None:
        self.log += ["● ECHO[" + text.replace("\n", "\n  ") + "]", ""]

    def pause(self, text: str) -> None:
        self.log.append("✻ Booping…")
        self.draw()
        self.console.sleep(6)
        self.log.pop()
        self.echo(text)

    def quiet(self, text: str) -> None:
        self.draw()
        self.console.sleep(6)
        self.echo(text)

    def lookalike(self, text: str) -> None:
        self.log += [f"● {LOOKALIKE[0]}", *(f"  {row}" for row in LOOKALIKE[1:])]
        self.draw()
        self.console.sleep(3)
        self.log.append("  the end")

    def repaint(self, text: str) -> None:
        until = self.console.monotonic() + 3
        while self.console.monotonic() < until:
            self.draw()
            self.console.sleep(0.02)
        self.echo(text)

    def blank(self, text: str) -> None:
        self.console.write(b"\x1b[H\x1b[2J")
        self.console.sleep(4)
        self.echo(text)

    def crawl(self, text: str) -> None:
        self.log.append("● one")
        for word in ("two", "three"):
            self.draw()
            self.console.sleep(2)
            self.log[-1] += f" {word}"

    def exit(self, text: str) -> None:
        self.console.write(b"\r\nfatal: no such model\r\n")
        self.console.leave(3)

    def flood(self, text: str) -> None:
        line = b"\x1b[31mnoise\x1b[m " * 80 + b"\r\n"
        until = self.console.monotonic() + 2.0
        while self.console.monotonic() < until:
            self.console.write(line * 64)
        self.log = self.log[-4:]
        self.echo(text)

    def garbage(self, text: str) -> None:
        self.console.write(
            b"\xff\xfe\xc3\x28\x1b[999999999;;;;m\x1bP+q\x1b]52;c;"
            + os.urandom(50_000).replace(b"\x1b", b"")
            + b"\x07",
        )
        self.console.write(b"\x1b[>4;?m\x1b[?4m\x1b(B\x0f\x1b[m\x1b[r\x1b[4l\x1b[?6l\x1b[?7h")
        self.echo(text)

    def writes(self, text: str) -> None:
        """It writes what happens into the file `transcript`, and shows less; `!` in the text: its turn fails."""
        with Path(self.console.cwd, "transcript").open("a") as file:
            file.write(f"> {text}\n")
            file.flush()
            self.draw()
            self.console.sleep(1)
            file.write(f"+ Bash\n< half of it\n< ECHO[{text}]\n")
            file.flush()
            self.log += ["● ECHO[…]", ""]
            self.draw()
            self.console.sleep(1)
            file.write("! it broke\n" if "!" in text else ".\n")

    def ask(self, text: str) -> None:
        self.log.append("What colour shall the shed be?")
        self.draw("  [ ] red", "  [x] green")
        while self.read() != "\x03":
            pass
        self.console.leave(0)

    def permission(self, text: str) -> None:
        """It asks for each word of the text, until one of them is allowed always."""
        always = False
        for word in text.split():
            if not always:
                key = self.request(word)
                always = key == "2"
            self.log += [f"● ran {word}" if always or key == "1" else f"● did not run {word}{self.told}", ""]

    def request(self, word: str) -> str:
        """The key that answers; after one that amends, what was typed is in `told`."""
        options = [" ❯ 1. Yes", f"   2. Yes, and don't ask again for {word}", "   3. No"]
        self.draw(RULE, " Bash command", "", f"   touch {word}", "", " Do you want to proceed?", *options)
        key, self.told = self.read(), ""
        if key == "\x1b[A":
            self.draw(RULE, " Bash command", "", f"   touch {word}", "", " Do you want to proceed?", " ❯ 3. No")
            assert self.read() == "\t"
            self.draw(RULE, " Bash command", "", f"   touch {word}", "", " Do you want to proceed?", " ❯ 3. No, and")
            while not self.told.endswith("\r"):
                self.told += self.read()
                self.draw(RULE, "", " Do you want to proceed?", f" ❯ 3. No, {self.told.strip()}")
            self.told = f": {self.told.strip()}"
        return key

    def shed(self, text: str) -> None:
        self.draw("What colour shall the shed be?", "", "❯ 1. red", "  2. green")
        key = self.read()
        self.echo(f"{text} {key}")

    def plain(self, text: str) -> None:
        self.draw(RULE, " Bash command", "", "   touch zz", "", " Do you want to proceed?", " ❯ 1. Yes", "   2. No")
        self.echo(self.read())

    def oracle(self, text: str) -> None:
        """It asks as the documentation of described screens has it, and its spinner goes on above."""
        key, shown = "", 0
        while not key:
            shown += 1
            self.draw(f"✻ Booping… ({shown}s)", "", f"Run {text}? 1. Yes  2. No")
            key = self.read(0.5)
        self.log += [f"● {'ran' if key == '1' else 'did not run'} {text}", ""]

    def fickle(self, text: str) -> None:
        self.draw(RULE, " Bash command", "", "   touch zz", "", " Do you want to proceed?", " ❯ 1. Yes", "   2. No")
        self.console.sleep(4)
        self.echo("it went on")


if __name__ == "__main__":
    run(sys.argv[1], Console())
