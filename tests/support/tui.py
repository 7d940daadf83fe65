"""A terminal agent with Claude Code's look and bad manners, for tests: `python tui.py MANNER`.

echo · exit · hang · flood · garbage · ask · permission · drop (the first Enter) · late (it shows typed text late)
"""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty

RULE = "─" * 60


class Tui:
    def __init__(self, manner: str) -> None:
        self.manner = manner
        self.log: list[str] = []
        self.typed = ""
        self.footer = "  ? for shortcuts"
        self.enters = 0
        self.drawn = 0

    def draw(self, *dialog: str) -> None:
        composer = ["❯ " + self.typed.replace("\n", "\n  ") if self.typed else "❯"]
        rows = [*self.log, *(dialog or (RULE, *composer, RULE, self.footer))]
        text = "\n".join(rows)
        out = f"\x1b[H\x1b[2J{text}".replace("\n", "\r\n")
        os.write(1, out.encode())

    def read(self, timeout: float | None = None) -> str:
        if timeout is not None and not select.select([0], [], [], timeout)[0]:
            return ""
        return os.read(0, 65536).decode()

    def run(self) -> None:
        os.write(1, b"\x1b[?2004h\x1b]0;\xe2\x9c\xb3 Claude Code\x07")
        self.draw()
        pending = ""
        while True:
            pending += self.read()
            if "\x1b[200~" in pending and "\x1b[201~" not in pending:
                continue
            if pending.startswith("\x1b[200~"):
                text, _, pending = pending[6:].partition("\x1b[201~")
                if self.manner == "late":
                    time.sleep(3)
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

    def enter(self) -> None:
        self.enters += 1
        if self.manner == "hang" or (self.manner == "drop" and self.enters == 1):
            return
        text, self.typed = self.typed, ""
        self.log += ["❯ " + text.replace("\n", "\n  "), ""]
        self.footer = "  esc to interrupt"
        self.draw()
        time.sleep(0.3)
        getattr(self, self.manner, self.echo)(text)
        self.footer = "  ? for shortcuts"

    def echo(self, text: str) -> None:
        self.log += ["● ECHO[" + text.replace("\n", "\n  ") + "]", ""]

    def exit(self, text: str) -> None:
        os.write(1, b"\r\nfatal: no such model\r\n")
        os._exit(3)

    def flood(self, text: str) -> None:
        line = b"\x1b[31mnoise\x1b[m " * 80 + b"\r\n"
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            os.write(1, line * 64)
        self.log = self.log[-4:]
        self.echo(text)

    def garbage(self, text: str) -> None:
        os.write(
            1,
            b"\xff\xfe\xc3\x28\x1b[999999999;;;;m\x1bP+q\x1b]52;c;"
            + os.urandom(50_000).replace(b"\x1b", b"")
            + b"\x07",
        )
        os.write(1, b"\x1b[>4;?m\x1b[?4m\x1b(B\x0f\x1b[m\x1b[r\x1b[4l\x1b[?6l\x1b[?7h")
        self.echo(text)

    def ask(self, text: str) -> None:
        self.log.append("What colour shall the shed be?")
        self.draw("  [ ] red", "  [x] green")
        while self.read() != "\x03":
            pass
        os._exit(0)

    def permission(self, text: str) -> None:
        self.draw(RULE, " Bash command", "", "   touch zz", "", " Do you want to proceed?", " ❯ 1. Yes", "   2. No")
        key = self.read()
        self.log += ["● ran it" if key == "1" else "● did not run it", ""]


if __name__ == "__main__":
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        Tui(sys.argv[1]).run()
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)
