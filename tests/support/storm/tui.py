"""A terminal agent that counts each text it is given, then asks for it: `python -m tests.support.storm.tui RUNS`."""

from __future__ import annotations

import os
import sys
import termios
import tty

from tests.support.tui import Console, Tui


class Counting(Tui):
    """Writes `- TOKEN` into a file at once when Enter is pressed."""

    def __init__(self, runs: str) -> None:
        super().__init__("permission", Console())
        self.runs = runs

    def permission(self, text: str) -> None:
        handle = os.open(self.runs, os.O_WRONLY | os.O_APPEND)
        os.write(handle, f"- {text.strip('[]')}\n".encode())
        os.close(handle)
        super().permission(text)


if __name__ == "__main__":
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        Counting(sys.argv[1]).run()
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)
