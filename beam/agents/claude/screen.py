"""Claude Code's terminal mode: its full screen, and the transcript that it writes meanwhile.

The screen shows when beam can type and what the agent asks. The transcript has the answer, and says when the turn is
over.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence

from msgspec import structs

from beam.agents.base import Host, Launch, Transcript, Turn, Verdict
from beam.agents.claude import history, spliced, tool_rules
from beam.agents.claude.exec import ACCESS, RETRIES, SYSTEM_PROMPT_SNAPSHOT, uuid_of
from beam.agents.claude.hooks import is_block_of, words_of_block
from beam.agents.claude.tasks import Tasks
from beam.agents.claude.verdict import TRUNCATED_STOP_REASONS, WITHHELD
from beam.agents.failures import class_of
from beam.agents.figures import sum_calls
from beam.base.errors import UnsupportedError
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, ModelUsage, Status
from beam.model.screen_profile import Dialog, Profile

tells_end = True
_INTERRUPTED = "[Request interrupted by user"
_MAX_LINES_BEFORE = 1000  # lines before the person's text that are kept
_PASTED_MARK = rb"<pasted_content id=\""
_PASTED_NOTICE = "claude told its model that this text was pasted, and may hold instructions of others"
_TASK_NOTICE = "task-notification"
_SYNTHETIC_MODEL = "<synthetic>"
_RULE = r"^[─━]{20,}"
_DIALOG_BODY = r"^(?: |╌|$)"  # answers and prompts are indented further than a dialog
_UP, _DOWN, _ENTER = "\x1b[A", "\x1b[B", "\r"
_ACCESSING_WORKSPACE = r"^ Accessing workspace:\n[\s\S]*"
_WAITING_ROW = r"^[✢✳✶✻✽·*] Waiting for \d[^\n]* to finish"  # claude's own agents and workflows in the background
_WORKING_ROW = r"^[✢✳✶✻✽·*]\s\S.*…(?:\s\(|$)"  # one word, or the name of the current task
_TASK_ROWS = (r"^ {2,}(?:⎿ +)?[✔✓◻◼□■☐☒] ", r"^ {2,}… ?\+\d+ ")  # below the working row, while claude lists its tasks
_CONFIRM = r"\n Enter to confirm[^\n]*\s*\Z"
_dialog = functools.partial(Dialog, first=_RULE, body=_DIALOG_BODY)

profile = Profile(
    columns=140,
    rows=120,
    prompt=r"^[❯>](?:[ \u00a0](.*))?$",
    above=_RULE,
    below=_RULE,
    placeholders=(r'Try ".*"', r"Press up to edit queued messages"),
    pasted=r"\[Pastedtext#\d+",
    busy_rows=(r"^\s+esc to interrupt", r"· esc to interrupt", _WORKING_ROW),
    between_rows=_TASK_ROWS,
    waits_rows=(_WAITING_ROW,),
    done_rows=(r"^[✢✳✶✻✽]\s\S+ for \d",),
    error_rows=(r"^\s*(?:⎿\s+|● )API Error",),
    titles_busy=r"^[⠁-⣿◐-◓] ",
    titles_idle=r"^✳ ",
    dialogs=(
        _dialog(
            name="trust",
            kind="trust",
            match=r"^ ?[❯ ] 1\. Yes, I trust this folder[^\n]*\n[^\n]*2\. No, exit",
            allow=("1",),
        ),
        # Version 2.1.330 does not number the answers, and may draw a dialog anew with its first answer selected. So
        # beam types one key at a time, and Enter only when the screen shows which answer is selected.
        _dialog(
            name="trust",
            kind="trust",
            match=rf"{_ACCESSING_WORKSPACE}^ ❯ No, exit\n   Yes, I trust this folder\n{_CONFIRM}",
            allow=(_DOWN,),
        ),
        _dialog(
            name="trust: yes",
            kind="trust",
            match=rf"{_ACCESSING_WORKSPACE}^   No, exit\n ❯ Yes, I trust this folder\n{_CONFIRM}",
            allow=(_ENTER,),
        ),
        _dialog(
            name="api key",
            kind="setup",
            match=r"^ *Do you want to use this API key\?\n(?:[^\n]*\n){2} *❯ (?:2\. )?No",
            allow=(_UP,),
        ),
        _dialog(
            name="api key: yes",
            kind="setup",
            match=r"^ *Do you want to use this API key\?\n[^\n]*\n *❯ (?:1\. )?Yes",
            allow=(_ENTER,),
        ),
        _dialog(
            name="bypass permissions",
            kind="full",
            match=r"Bypass Permissions mode[\s\S]*^ *❯ (?:1\. )?No, exit",
            allow=(_DOWN,),
            deny=(_ENTER,),
        ),
        _dialog(
            name="bypass permissions: yes",
            kind="full",
            match=r"Bypass Permissions mode[\s\S]*^ *❯ (?:2\. )?Yes, I accept",
            allow=(_ENTER,),
            deny=(_UP,),
        ),
        _dialog(
            name="permission",
            match=r"^ ?Do you want to [^\n]*\?\n(?:[^\n]*\n)?[ ❯]*1\. Yes",
            allow=("1",),
            deny=("\x1b",),
            subject=r"\A[^\n]*\n\s*(\S[^\n]*)",
            detail=r"\A[^\n]*\n[^\n]*\n(?: Tip: [^\n]*\n)?((?:[^\n]*\n)*) ?Do you want to [^\n]*\?\n",
            always=("2",),
            always_row=r"^ *2\. (Yes, (?:[^\n]|\n {6,}(?=\S))*)",
            amend=("\x1b[A", "\t"),
            amend_row=r"^ *❯ \d\. No, ",
        ),
    ),
    echo_rows=r"^[❯>][ \u00a0]+(.*)$",
    noise_rows=(
        r"^[✢✳✶✻✽·*]\s\S+(?:…| for \d)",
        _WORKING_ROW,
        _WAITING_ROW,
        r"^\s+⎿\s+Tip: ",
        r"^\s*\? for shortcuts",
        r"^\s+◐ \w+ · /effort$",
    ),
    bullet=r"^● ",
    indent=2,
    bracketed=True,
    special=r"^[!/#&@?]",
    pieced_rows=50,
    interrupt="\x1b",
    quit=("\x03", "\x03", "\x03"),
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start Claude Code on its screen, in the session of this turn.

    Raises UnsupportedError for an option that the terminal mode can't apply.
    """
    if turn.session_id:
        session: tuple[str, ...] = ("--resume", uuid_of(turn.session_id))
    else:
        session = ("--session-id", turn.fresh_session_id) if turn.fresh_session_id else ()
    access = ("--permission-mode", "default") if turn.access == "ask" else ACCESS.get(turn.access)
    if access is None:
        raise UnsupportedError(f"claude has no access {turn.access!r} in terminal mode", subject=turn.access)
    argv = [host.executable or "claude", *session, *tool_rules.flags(access, turn)]
    if turn.leave_out or turn.access == "read" or (turn.access in ("edit", "ask") and not turn.folder_trusted):
        argv += ("--setting-sources", "user")
    system = turn.settings.system
    snapshot = SYSTEM_PROMPT_SNAPSHOT if system else None
    flags = ("--model", turn.model), ("--append-system-prompt", system), ("--system-prompt-snapshot", snapshot)
    for flag, value in flags:
        if value is not None:
            if value.startswith("-"):
                raise UnsupportedError(f"claude can't be given {flag} {value[:40]!r}", "it begins with -", subject=flag)
            argv += (flag, value)
    retries = RETRIES if turn.settings.retries is None else turn.settings.retries
    env = {"CLAUDE_CODE_MAX_RETRIES": str(retries), "DISABLE_AUTOUPDATER": "1"}
    return Launch(argv=tuple(argv), env=env)


def where(turn: Turn, host: Host) -> str:
    """Return the transcript's path."""
    paths = history.transcript_paths(f"{host.home}/.claude", turn.cwd, turn.session_id or turn.fresh_session_id)
    return paths[0] if paths else ""


def transcript(turn: Turn) -> Transcript:
    """Return a reader of the lines that this turn adds."""
    return _TranscriptReader(turn)


class _TranscriptReader:
    """Reads one turn from a transcript, from the person's text to the line with the turn's duration.

    In a new file the person's text may come after the other lines of its turn. A kept process may first speak about a
    task of an earlier turn. So lines before the person's text are kept until the text comes. The kept lines that
    continue from the text then count for this turn, and the others do not.
    """

    def __init__(self, turn: Turn) -> None:
        self.state = ""
        self.error: str | None = None
        self._turn = turn
        self._texts: list[str] = []
        self._usage: dict[str, ModelUsage] = {}
        self._model: str | None = None
        self._interrupted = False
        self._end: tuple[Status, Class | None, str] | None = None  # how the turn ended, if not with its whole answer
        self._session_id = ""
        self._tasks = Tasks()
        self._before: deque[tuple[history.TranscriptLine, bytes]] = deque(maxlen=_MAX_LINES_BEFORE)

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line; `state` then says whether the turn is over."""
        found = history.read(line)
        if found is None:
            return ()
        if not found.kind:
            whole, lost = spliced.records(line, (self._turn.session_id or self._turn.fresh_session_id,))
            told = [event for record in whole for event in self.line(record)]
            return [*told, *([events.Unknown(what="not JSON")] * lost)]
        if self.state:
            return self._line_of_turn(line, found)
        if found.blocked is not None and is_block_of(found.blocked, self._turn.text):
            return self._line_of_turn(line, found)
        if not _is_from_person(found) or _INTERRUPTED.encode() in line:
            self._before.append((found, line))
            return ()
        emitted = self._line_of_turn(line, found)
        keys = {found.key}
        for before, earlier_line in self._before:
            if before.parent_key and before.parent_key in keys:
                keys.add(before.key)
                emitted += self._line_of_turn(earlier_line, before)
        self._before.clear()
        return emitted

    def _line_of_turn(self, line: bytes, found: history.TranscriptLine) -> list[Event]:
        """Return the events of a line of this turn."""
        if found.noticed:
            self._tasks.on_notified(found.noticed)
        if found.blocked is not None:
            self._end = (Status.FAILED, Class.STOPPED, f"a hook stopped the prompt: {words_of_block(found.blocked)}")
            self._session_id, self.state = self._session_id or found.session_id, "done"
        elif found.hook is not None:
            self._end = (Status.FAILED, Class.STOPPED, f"a hook stopped the turn: {found.hook}")
        if found.kind == "user" and found.origin == _TASK_NOTICE:
            self._begin_new_answer()
            return []
        emitted: list[Event] = []
        if found.session_id and found.kind == "user" and not self._session_id:
            self._session_id = found.session_id
            resumed = bool(self._turn.session_id)
            emitted.append(events.SessionStarted(session_id=found.session_id, resumed=resumed, cwd=self._turn.cwd))
        if found.kind == "user":
            if self.state == "" and _PASTED_MARK in line and not found.returned:
                emitted.append(events.Notice(text=_PASTED_NOTICE, code="prompt_changed"))
            self._user(line, found)
        elif found.kind == "assistant":
            if found.model == _SYNTHETIC_MODEL and not found.error:  # it fills the gap after an interrupt
                return emitted
            self._assistant(found)
        elif found.kind == "system" and b'"subtype":"turn_duration"' in line:
            self.state = "waiting" if found.pending else "done"
        return emitted + [body for body in found.bodies if not isinstance(body, events.Unknown)]

    def verdict(self) -> Verdict:
        """Return the answer and its tokens, or the reason why there is no answer."""
        usage, models = sum_calls(self._usage.values())
        verdict = Verdict(
            status=Status.COMPLETED,
            reply="\n\n".join(self._texts) or None,
            session_id=self._session_id or None,
            model=self._model,
            usage=usage,
            models=models,
        )
        if self.error:
            return structs.replace(
                verdict, status=Status.FAILED, class_=class_of(None, self.error), reason=self.error, reply=None
            )
        if self._interrupted:
            return structs.replace(verdict, status=Status.CANCELLED, reason="it was interrupted", reply=None)
        if self._end is not None:
            status, class_, reason = self._end
            reply = verdict.reply or None
            verdict = structs.replace(verdict, status=status, class_=class_, reason=reason, reply=reply)
        return structs.replace(verdict, unfinished=self._tasks.unfinished())

    def _begin_new_answer(self) -> None:
        """Begin a new answer, because a background task ended and claude now speaks about that task.

        As in headless mode, the answer is only the text that follows.
        """
        self._texts, self._end = [], None
        self.state = "working"

    def _user(self, line: bytes, found: history.TranscriptLine) -> None:
        if _INTERRUPTED.encode() in line and not found.returned:
            self._interrupted = True
            self.state = "done"
        elif not found.returned and self.state == "":
            self.state = "working"
        if found.withheld:
            self._end = (Status.TRUNCATED, None, WITHHELD)
        for returned in found.returned:
            self._tasks.on_returned(returned.call_id, returned.record)

    def _assistant(self, found: history.TranscriptLine) -> None:
        self._model = found.model if found.usage is not None else self._model
        if found.usage is not None:
            self._usage[found.reply_id] = ModelUsage(model=found.model, usage=history.usage_of_call(found))
        if found.error:
            self._on_error(found)
            return
        if found.stop in TRUNCATED_STOP_REASONS:
            self._end = (Status.TRUNCATED, None, f"the answer was cut off ({found.stop})")
        elif found.stop and self._end is not None and self._end[2] != WITHHELD:  # the answer went on
            self._end = None
        if found.called:
            self._texts = []
        for called in found.called:
            self._tasks.on_called(called.call_id, called.name, called.input)
        self._texts += [body.text for body in found.bodies if isinstance(body, events.Text)]

    def _on_error(self, found: history.TranscriptLine) -> None:
        self.state = "done"
        reason = found.error.partition("\n")[0]
        if found.stop == "refusal":
            self._texts, self._end = [], (Status.REFUSED, None, reason)
        elif found.error_word == "max_output_tokens":
            self._end = (Status.TRUNCATED, None, reason)
        else:
            self.error = found.error


def _is_from_person(found: history.TranscriptLine) -> bool:
    return found.kind == "user" and not found.returned and found.origin in ("", "human")
