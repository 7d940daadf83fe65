"""aider's sessions on this machine: each is a chat history, without times, in the folder where aider runs.

The file is Markdown: the person's lines begin with `#### `, aider's own lines with `> `. An answer becomes an event
once aider prints its tokens, or the person writes the next prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam.agents.session_files import EventMaker, Session, SessionFiles, SessionReader
from beam.base.digest import sha256
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Usage

files = SessionFiles(folder="CWD", name=r"\.aider\.chat\.history\.md")
_ASKED, _OWN = "#### ", "> "
_TOKENS = re.compile(r"> Tokens: ([\d.,]+)(k?) sent, (?:[^.]*, )?([\d.,]+)(k?) received")
_MODEL = re.compile(r"> (?:Main m|M)odel: (\S+)")
_MAX_CHARACTERS = 100_000  # characters of an answer


def reader(path: str) -> SessionReader:
    """Return a reader for the history with this path."""
    return _History(path)


class _History:
    def __init__(self, path: str) -> None:
        self.session = Session(id=sha256(path.encode("utf-8", "replace")).hexdigest()[:12], cwd=path.rpartition("/")[0])
        self._maker = EventMaker()
        self._asked: list[str] = []
        self._answer: list[str] = []
        self._size = 0
        self._is_begun = False

    def read(self, data: bytes) -> Sequence[Event]:
        line = data.decode("utf-8", "replace").rstrip()
        if line.startswith("# aider chat started at "):
            self._is_begun = False
            return self._pop_answer()
        if line.startswith(_ASKED):
            self._is_begun = True
            found = self._pop_answer()
            self._asked.append(line[len(_ASKED) :])
            return found
        if model := _MODEL.match(line):
            self.session = Session(id=self.session.id, cwd=self.session.cwd, model=model[1])
        if used := _TOKENS.match(line):
            usage = Usage(input_tokens=_count(used[1], used[2]), output_tokens=_count(used[3], used[4]), calls=1)
            return [
                *self._pop_prompt(),
                *self._pop_answer(),
                *self._maker.end_turn("", self.session.model, usage=usage),
            ]
        if not self._is_begun or line.startswith(_OWN) or not (line or self._answer):
            return ()
        prompt = self._pop_prompt()
        if self._size >= _MAX_CHARACTERS:
            return [*prompt, events.Unknown(what=f"behind the first {_MAX_CHARACTERS:,} characters of an answer")]
        self._answer.append(line)
        self._size += len(line)
        return prompt

    def _pop_prompt(self) -> list[Event]:
        asked, self._asked = "\n".join(self._asked), []
        return self._maker.prompt(asked, "") if asked else []

    def _pop_answer(self) -> list[Event]:
        answer, self._answer, self._size = "\n".join(self._answer).strip(), [], 0
        return self._maker.text(answer, "") if answer else []


def _count(figure: str, thousands: str) -> int | None:
    try:
        return round(float(figure.replace(",", "")) * (1000 if thousands else 1))
    except ValueError:
        return None
