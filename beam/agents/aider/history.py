"""aider's chat history: where the file is, and how one turn is read from its lines.

The file is append-only Markdown. The person's lines begin with `#### `. aider's own lines begin with `> ` and end with
two blanks. All other lines are the answer as the model wrote it. An answer that contains such lines can't be read
verbatim. No line says that a turn is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from beam.agents.base import Host, Transcript, Turn, Verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Status

_ASKED, _SAID, _BREAK = "#### ", "> ", "  "
tells_end = False


def where(turn: Turn, host: Host) -> str:
    """Return the path of the session's file, in the agent's folder."""
    session_id = turn.session_id or turn.fresh_session_id
    return f"{turn.cwd}/.aider.chat.history.{session_id}.md" if session_id else ""


def transcript(turn: Turn) -> Transcript:
    """Return a reader of the lines that this turn adds."""
    return _Chat(turn)


class _Chat:
    """Reads one turn from a chat history, beginning with the person's text."""

    def __init__(self, turn: Turn) -> None:
        self.state = ""
        self.error: str | None = None
        self._turn = turn
        self._wanted = "".join(turn.text.split())
        self._asked = ""  # without blanks, and no more of it than shows that it is another text
        self._texts: list[str] = []
        self._noted = False  # aider said something after the last line of the answer
        self._lossy = False

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line. Never raises."""
        text = line.decode("utf-8", "replace")
        if self.state == "":
            return self._find_prompt(text)
        if text.startswith(_SAID) and text.endswith(_BREAK):
            self._noted = bool(self._texts)
        else:
            self._lossy = self._lossy or (self._noted and bool(text.strip()))
            self._texts.append(text)
        return ()

    def verdict(self) -> Verdict:
        """Return the answer as a verdict."""
        session_id = self._turn.session_id or self._turn.fresh_session_id or None
        reply = "\n".join(self._texts).strip("\n")
        return Verdict(status=Status.COMPLETED, reply=reply, session_id=session_id, lossy=self._lossy or UNSET)

    def _find_prompt(self, text: str) -> Sequence[Event]:
        """Compare the lines with the person's text, ignoring blanks. Return the session's event once the whole text has
        come."""
        if not text.startswith(_ASKED):
            self._asked = ""
            return ()
        if len(self._asked) <= len(self._wanted):
            self._asked += "".join(text[len(_ASKED) :].split())
        if self._asked != self._wanted:
            return ()
        self.state = "working"
        opened = events.SessionResumed if self._turn.session_id else events.SessionStarted
        return (opened(session_id=self._turn.session_id or self._turn.fresh_session_id, cwd=self._turn.cwd),)
