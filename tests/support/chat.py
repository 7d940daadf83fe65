"""`beam chat` on a terminal of 80 columns, without colours."""

from __future__ import annotations

import time

from beam.cli.chatting.composer import _QUESTION_S
from tests.support.cli import Cli
from tests.support.terminal import Terminal

QUESTION = "Allow it? [yes / no, and why"


class Chat(Terminal):
    """A chat; a person types into it."""

    def __init__(self, cli: Cli, *args: str) -> None:
        super().__init__(cli, "chat", *args, env={"NO_COLOR": "1"})

    def enter(self, text: str) -> None:
        self.type(f"{text}\r")

    def key(self, letter: str) -> None:
        """Control and that letter."""
        self.type(chr(ord(letter.upper()) - 64))

    def answer(self, ask: str, text: str, timeout: float = 20) -> None:
        """Answers the question about this ask, once that is shown and what is typed counts as an answer to it."""
        self.until(QUESTION, timeout, after=ask)
        time.sleep(_QUESTION_S)
        self.enter(text)
