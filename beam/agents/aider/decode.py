"""Turns aider's output into events: its announcements, a blank line, then the answer and aider's reports of what it did
with the answer.

Only a `Tokens:` line proves that the model answered, because aider also exits with 0 if the API failed. Only exit code
0 after that line proves that aider did what the answer says, because aider applies its edits after that line. Its token
counts are rounded estimates, so the turn's token counts stay None.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam.agents.base import Exit, Turn, Verdict, last_line
from beam.agents.failures import class_of
from beam.agents.oneshot import Failure, OutputSummary, verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Usage

_VERSION = re.compile(r"Aider v(\S+)")
_MODEL = re.compile(r"(?:Main m|M)odel: (\S+)")
_LAST_ANNOUNCEMENT = "Repo-map: "
_RESTORED = "Restored previous conversation history."
_ANNOUNCEMENTS = ("Aider v", "Model: ", "Main model: ", _LAST_ANNOUNCEMENT, _RESTORED)
_TOKENS = re.compile(r"Tokens: \S+ sent,(?: .*,)? \S+ received\.(?: Cost: \$(\d{1,9}(?:\.\d+)?) message)?")
EDITED = re.compile(r"Applied edit to (.+)")
_MARKS = ("Tokens: ", "Retrying in ")
_RETRYING = re.compile(r"Retrying in ([\d.]+) seconds")
_QUESTION = "(Y)es/(N)o"
_NOTICE = re.compile(r"Commit [0-9a-f]{7,} |Did not apply edit to |Skipping edits to |https://aider\.chat/\S")
_CUT_OFF = "has hit a token limit!"
_ERROR = re.compile(r"litellm\.\w+|.*\b(APIConnectionError|AuthenticationError|Model \S+ has hit a token limit!)")
_SHORTEST_ERROR = len("litellm.x")
# The error that broke an answer off begins in the middle of the answer's last line, and is wrapped. It goes up to the
# end of the output, or to the next try.
_BREAKING_ERROR = re.compile(r"litellm\.\w*(?:Error|Exception|Timeout): ")
_MAX_ERROR_LINES = 5
_EMPTY = "Empty response received from LLM. Check your provider account?"
_TAG = "thinking-content-7bbeb8e1441453ad999a0bbba8a46d4b"
_THOUGHTS = (  # what stands before and after the model's thoughts: in aider's output, and in its chat history
    ("--------------\n► **THINKING**\n", "\n------------\n► **ANSWER**\n"),
    (f"<{_TAG}>\n", f"\n</{_TAG}>\n"),
)


class TextDecoder:
    """Decodes the output of one process."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._summary = OutputSummary(name="aider", model=turn.model)
        self._version: str | None = None
        self._speaks = False  # whether the blank line after the announcements has come
        self._all_announced = False
        self._restored = False
        self._answer: list[str] = []
        self._begun = False  # whether any line of the answer has text
        self._trouble: list[str] = []
        self._retries = 0

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line."""
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = line.decode("utf-8", "replace")
        if not self._speaks:
            return self._on_announced(text) if text.startswith(_ANNOUNCEMENTS) or not text else ()
        if text.startswith(_MARKS) and (emitted := self._on_marked_line(text)) is not None:
            return emitted
        if self._trouble:
            self._trouble.append(text)
            return ()
        ended = self._summary.ended
        if (ended or not self._begun) and _is_error(text):
            self._summary.ended = ""
            self._trouble.append(text)
            return ()
        if _CUT_OFF in text:
            self._summary.ended = "length"
            return [events.Notice(text=text, code="truncated")]
        if ended:
            return self._after_answer(text)
        if self._begun:
            self._answer.append(text)
            return [events.TextDelta(text=f"\n{text}")]
        return self._before_answer(text)

    def _on_announced(self, text: str) -> list[Event]:
        if not text and self._all_announced:
            self._speaks = True
            return self._session_events()
        if found := _VERSION.match(text):
            self._version = found[1]
        elif found := _MODEL.match(text):
            self._summary.model = found[1]
        self._all_announced = self._all_announced or text.startswith(_LAST_ANNOUNCEMENT)
        self._restored = self._restored or text == _RESTORED
        return []

    def _session_events(self) -> list[Event]:
        """Return the events of the session's start.

        If aider did not say that it restored the history, the file of the requested session held nothing, and the
        session begins empty.
        """
        turn, summary = self._turn, self._summary
        session_id = turn.session_id or turn.fresh_session_id
        if turn.once or not session_id:
            return []
        if turn.session_id is None or self._restored:
            return summary.on_opened(turn, session_id, model=summary.model, version=self._version)
        summary.session_id = session_id
        summary.lost = f"aider found no history in the file of session {session_id}: this turn began it anew"
        return [
            events.SessionStarted(
                session_id=session_id, model=summary.model, cwd=turn.cwd or None, version=self._version
            ),
            events.Notice(text=summary.lost, code="session_lost"),
        ]

    def _before_answer(self, text: str) -> list[Event]:
        if not text:
            return []
        if _is_notice(text):
            return [events.Notice(text=text, code="aider")]
        self._begun = True
        self._answer.append(text)
        return [events.TextDelta(text=text)]

    def _on_marked_line(self, text: str) -> list[Event] | None:
        """Return the events for a line that ends an answer or announces a retry; None for a line that only looks like
        one."""
        if text.startswith("Tok"):
            found = _TOKENS.match(text)
            return self._on_answered(found) if found else None
        if not _RETRYING.match(text) or (not (why := self._failure_reason()) and self._begun):
            return None
        summary, self._trouble, self._answer, self._begun = self._summary, [], [], False
        summary.ended = ""
        self._retries += 1
        return summary.retrying(why or text, attempt=self._retries)

    def _after_answer(self, text: str) -> list[Event]:
        """Return the events of a line after an answer, which may report what aider does with the answer.

        If aider asks its model again, the line may belong to the next answer.
        """
        if text.startswith("Applied edit to ") and (found := EDITED.match(text)):
            return [events.FileChanged(path=found[1])]
        if _is_notice(text):
            return [events.Notice(text=text, code="aider")]
        self._answer.append(text)
        self._begun = self._begun or bool(text)
        return []

    def _on_answered(self, found: re.Match[str]) -> list[Event]:
        summary, self._trouble = self._summary, []
        summary.texts = []
        thoughts, answer = split_thoughts("\n".join(self._answer))
        emitted: list[Event] = [events.Thinking(text=thoughts)] if thoughts else []
        emitted += summary.text(answer)
        self._answer, self._begun = [], False
        summary.ended = summary.ended or "stop"
        if not found[1]:
            return emitted
        return emitted + summary.counted(Usage(), float(found[1]))  # its token counts are only estimates

    def _failure_reason(self) -> str:
        """Return why the request failed, from the lines of an error or the last lines of an answer; "" if they report
        no failure."""
        if self._trouble:
            return _one_line(self._trouble)
        return _one_line(_failure_lines(self._answer))

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the verdict. A failure is read from the lines of the output.

        aider applies its edits after the `Tokens:` line, and exits with 0 when they are done.
        """
        summary = self._summary
        why = self._failure_reason()
        answered, summary.ended = bool(summary.ended), "" if why or exit.code != 0 or exit.stopped_by else summary.ended
        if not summary.ended and exit.stopped_by is None:
            text = why or " ".join(" ".join(self._answer).split())
            if answered and not why:
                summary.failure = Failure(Class.CRASHED, _exit_reason(exit))
            elif text:
                summary.failure = Failure(class_of(None, text), text[:500])
        return verdict(self._turn, exit, summary)


def split_thoughts(text: str) -> tuple[str, str]:
    """Return the model's thoughts, which come first, and its answer. aider's own line for an empty answer is no
    answer."""
    text = "" if text.strip() == _EMPTY else text.strip("\n") + "\n"
    for begin, end in _THOUGHTS:
        if text.startswith(begin):
            thoughts, _, answer = text.removeprefix(begin).partition(end)
            return thoughts.strip("\n"), answer.strip("\n")
    return "", text.strip("\n")


def _failure_lines(answer: Sequence[str]) -> list[str]:
    """Return the last lines of an answer, beginning with the failure that broke it off; [] if no failure broke it off.

    Reads only the end of a long answer, because this function may be called for each line.
    """
    end = len(answer)
    while end and not answer[end - 1]:
        end -= 1
    begin = end
    while begin and answer[begin - 1] and end - begin < _MAX_ERROR_LINES:
        begin -= 1
    for number in range(begin, end):
        if found := _BREAKING_ERROR.search(answer[number]):
            return [answer[number][found.start() :], *answer[number + 1 : end]]
    return []


def _exit_reason(exit: Exit) -> str:
    how = f"was ended by {exit.signal}" if exit.signal else f"exited with {exit.code}" if exit.code else "was lost"
    tail = last_line(exit.stderr_tail)
    return f"aider {how} after its answer; it may not have applied its edits" + (f": {tail}" if tail else "")


def _one_line(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def _is_notice(text: str) -> bool:
    return _QUESTION in text or _NOTICE.match(text) is not None


def _is_error(text: str) -> bool:
    if len(text) < _SHORTEST_ERROR:
        return False
    return ("litellm." in text or "Error" in text or _CUT_OFF in text) and _ERROR.match(text) is not None
