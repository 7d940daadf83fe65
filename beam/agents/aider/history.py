"""aider's chat history: where the file is, and how one turn is read from its lines.

The file is append-only Markdown. The person's lines begin with `#### `. aider's own lines begin with `> ` and end with
two blanks. All other lines are the answer as the model wrote it. An answer that contains such lines can't be read
verbatim. No line says that a turn is over.

Only aider's line `Tokens:`, which follows each whole answer, proves that an answer is whole. aider also writes the part
of an answer that came before a failure, a retry, the token limit or an interrupt. After the proof come lines of aider's
about its edits; some have several lines, of which only the first looks like aider's own. So a line of text after the
proof does not show that another answer began.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import UNSET

from beam.agents.aider.decode import EDITED, split_thoughts
from beam.agents.base import Host, Transcript, Turn, Verdict
from beam.agents.failures import class_of, is_refusal
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Status

_ASKED, _SAID, _BREAK = "#### ", "> ", "  "
_WHOLE_ANSWER = re.compile(
    r"> Tokens: \S+ sent,(?:(?: .*,)? \S+ received\..*  | \S+ cache write, \S+ cache hit, \S+ received\.)\Z"
)
_COST = re.compile(r"Cost: \$\S+ message, \$\S+ session\.  \Z")  # on its own line, after the second form of `Tokens:`
_FAILURE = re.compile(r"litellm\.\w*(?:Error|Exception|Timeout)\b")
_RETRIES = re.compile(r"Retrying in [\d.]+ seconds")
_TOKEN_LIMIT = "has hit a token limit!"
_INTERRUPTED = ("^C again to exit", "^C KeyboardInterrupt")
tells_end = False


def where(turn: Turn, host: Host) -> str:
    """Return the path of the session's file, in the agent's folder."""
    session_id = turn.session_id or turn.fresh_session_id
    return f"{turn.cwd}/.aider.chat.history.{session_id}.md" if session_id else ""


def transcript(turn: Turn) -> Transcript:
    """Return a reader of the lines that this turn adds."""
    return _ChatReader(turn)


class _ChatReader:
    """Reads one turn from a chat history, beginning with the person's text."""

    def __init__(self, turn: Turn) -> None:
        self.state = ""
        self.error: str | None = None
        self._turn = turn
        self._wanted = "".join(turn.text.split())
        self._asked = ""  # the prompt's lines so far, without blanks; not continued once it is another text
        self._texts: list[str] = []
        self._proved = 0  # the number of texts at the last proof
        self._is_whole = False
        self._trouble: list[str] = []  # a failure in aider's words, and aider's lines after it
        self._is_cut_off = False
        self._is_interrupted = False
        self._noted = False  # aider said something after the last line of the answer
        self._lossy = False

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line. Never raises."""
        text = line.decode("utf-8", "replace")
        if self.state == "":
            return self._find_prompt(text)
        if _WHOLE_ANSWER.match(text):
            self._on_whole_answer()
        elif text.startswith(_SAID) and text.endswith(_BREAK):
            return self._on_aider_line(text.removeprefix(_SAID).strip())
        elif not (self._is_whole and len(self._texts) == self._proved and _COST.match(text)):
            self._lossy = self._lossy or (self._noted and bool(text.strip()))
            self._texts.append(text)
        return ()

    def _on_whole_answer(self) -> None:
        self._is_whole, self._proved, self._noted = True, len(self._texts), bool(self._texts)
        self._trouble, self.error, self._is_cut_off, self._is_interrupted = [], None, False, False

    def _on_aider_line(self, text: str) -> Sequence[Event]:
        """Record a line of aider's own, and return its event. aider edits files only after a whole answer."""
        if _FAILURE.match(text):
            self._is_whole, self._trouble = False, [text]
        elif _TOKEN_LIMIT in text and text.startswith("Model "):
            self._is_whole = False
            self._is_cut_off = any(line.strip() for line in self._texts[self._proved :])
            self._trouble = [text]
        elif self._trouble and _RETRIES.match(text):
            del self._texts[self._proved :]
            self._trouble = []
        elif self._trouble:
            self._trouble.append(text)
        elif text in _INTERRUPTED:
            self._is_interrupted = True
        self.error = self._trouble[0] if self._trouble else None
        self._noted = bool(self._texts)
        edited = EDITED.match(text) if self._is_whole else None
        return (events.FileChanged(path=edited[1]),) if edited else ()

    def verdict(self) -> Verdict:
        """Return the answer as a verdict. The reply is None, not empty, if the file does not say that there is none:
        the screen may have the output of a command."""
        session_id = self._turn.session_id or self._turn.fresh_session_id or None
        _, reply = split_thoughts("\n".join(self._texts))
        status, class_, reason = self._judge(bool(reply.strip()))
        return Verdict(
            status=status,
            class_=class_,
            reason=reason,
            reply=None if status in (Status.FAILED, Status.REFUSED) or not (reply or self._is_whole) else reply,
            session_id=session_id,
            lossy=self._lossy or UNSET,
        )

    def _judge(self, has_texts: bool) -> tuple[Status, Class | None, str | None]:
        if self._is_whole:
            return Status.COMPLETED, None, None
        if self._is_cut_off:
            return Status.TRUNCATED, None, "the answer was cut off by its token limit"
        if self.error is not None:
            told = " ".join(self._trouble)
            if is_refusal(told):
                return Status.REFUSED, None, self.error
            return Status.FAILED, class_of(None, told), self.error
        if self._is_interrupted:
            return Status.CANCELLED, None, "the turn was interrupted"
        is_command = self._turn.slash and self._turn.text.startswith("/")  # the output of a command is no answer
        if has_texts and not is_command:
            return Status.FAILED, Class.UNKNOWN, "aider did not say that its answer is whole"
        return Status.COMPLETED, None, None

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
        turn = self._turn
        session_id, resumed = turn.session_id or turn.fresh_session_id, bool(turn.session_id)
        return (events.SessionStarted(session_id=session_id, resumed=resumed, cwd=turn.cwd),)
