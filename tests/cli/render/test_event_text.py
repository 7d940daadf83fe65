"""The sign and the words of each event, for people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from beam.cli import render
from beam.cli.render.event_text import image_text, is_internal, sign_and_text
from beam.model import events as e
from beam.model.outcome import Class, Status, Unfinished, Usage

OWNER = e.Owner(pid=1, start_ticks=2)
TURN: dict[str, Any] = {"owner": OWNER, "turn_key": "k", "adapter": "codex", "via": "exec"}
PROCESS: dict[str, Any] = {"start_ticks": 1, "guard_pid": 2, "guard_start_ticks": 3}
SESSION = "0123456789abcdef"
STEPS = (
    e.PlanStep(text="read", status="completed"),
    e.PlanStep(text="write", status="in_progress"),
    e.PlanStep(text="x"),
)
DIFFERENCES = (e.RequestDifference(path="messages[2]"), e.RequestDifference(path="tools"))
BACKGROUND = (Unfinished(tool="Bash", input=Raw(b'{"command":"make"}'), how="killed"), Unfinished(tool="Task"))


@pytest.mark.parametrize(
    ("event", "sign", "words"),
    [
        (e.MessageQueued(sender="ann", text="hi"), "←", "ann: hi"),
        (e.MessageQueued(sender="bot", text="done", kind="reply"), "↩", "bot: done"),
        (e.MessageDead(reason="hops", detail="too many hops", message_id="a-1"), "†", "dead letter a-1: too many hops"),
        (e.MessageDead(reason="hops", message_id="a-1"), "†", "dead letter a-1: hops"),
        (e.MessageRequeued(attempt=2, reason="retry", message_id="a-1"), "↻", "requeued a-1: retry"),
        (e.QueuePaused(by="ann"), "·", "paused by ann: nothing is taken from its queue"),
        (e.QueuePaused(), "·", "paused"),
        (e.QueueResumed(by="ann"), "·", "resumed by ann"),
        (e.QueueResumed(), "·", "resumed"),
        (
            *(e.CircuitOpened(until="2026-01-02T03:05:00.000000Z", failures=3), "!"),
            "failed 3 times in a row: nothing is sent to it until 03:05:00",
        ),
        (e.CircuitClosed(), "·", "answered again: its messages are sent as usual"),
        (e.TurnStarted(turn=4, **TURN), "▶", "turn 4 (codex)"),
        (e.TurnStarted(turn=4, attempt=2, **TURN), "▶", "turn 4 (codex, attempt 2)"),
        (e.TurnClosed(reply="queued", to="ann"), "↪", "reply to ann"),
        (e.TurnClosed(reply="dead", to="ann", detail="gone"), "!", "reply to ann not delivered: gone"),
        (e.Notice(text="careful"), "!", "careful"),
        (e.ControlDone(control_id="c", verb="steer", ok=False, message="no turn"), "!", "steer refused: no turn"),
        (e.ControlDone(control_id="c", verb="steer", message="said"), "·", "steer: said"),
        (e.ControlDone(control_id="c", verb="steer"), "·", "steer: done"),
        (
            *(e.SettingsChanged(by="ann", changes={"model": '"m"', "timeout": None}), "·"),
            'settings changed by ann: model="m", timeout=',
        ),
        (e.Unknown(what="new.thing"), "?", "unknown new.thing"),
        (e.Unknown(), "?", "unknown"),
        (e.Text(text="hi"), "│", "hi"),
        (e.Thinking(text="hm"), "┊", "hm"),
        (e.FileChanged(path="a.py", kind="add"), "✎", "add a.py"),
        (e.ImageSeen(media_type="image/png", bytes=1200), "·", "image png 1,200 bytes"),
        (e.ContextUsed(used=1200, size=200_000), "…", "context 1,200 of 200,000 tokens"),
        (e.ContextUsed(used=1200), "…", "context 1,200 tokens"),
        (e.ContextUsed(), "…", "context ? tokens"),
        (e.ContextUsed(used=0, size=9000), "…", "context 0 of 9,000 tokens"),
        (e.PlanUpdated(steps=STEPS), "☐", "plan 1/3 write"),
        (e.PlanUpdated(steps=STEPS[:1]), "☐", "plan 1/1 "),
        (
            *(e.StatusChanged(state="retrying", attempt=1, of=3, class_=Class.AUTH, detail="no key"), "…"),
            "retrying 1/3 auth no key",
        ),
        (e.StatusChanged(state="compacting"), "…", "compacting"),
        (e.ModelCalled(n=2, step="exact"), "⇅", "model call 2 exact"),
        (
            *(e.ModelCalled(n=2, step="major", differences=DIFFERENCES, detail="it is new"), "⇅"),
            "model call 2 major, first in messages[2]: it is new",
        ),
        (e.AgentStarted(pid=7, **PROCESS), "·", "process 7 started"),
        (e.AgentStarted(pid=7, since=3, **PROCESS), "·", "process 7 started, kept since turn 3"),
        (e.AgentKept(pid=7), "·", "process 7 is kept for the next turn"),
        (e.AgentExited(code=3), "·", "process ended: code 3"),
        (e.AgentExited(signal="SIGKILL"), "·", "process ended: signal SIGKILL"),
        (
            *(e.AgentExited(signal="SIGKILL", stopped_by="timeout", swept=2), "·"),
            "process ended: timeout; 2 processes that it left were ended",
        ),
        (e.SessionStarted(session_id=SESSION), "·", "new session 01234567"),
        (
            *(e.SessionStarted(session_id=SESSION, model="m", forked_from="fedcba9876543210"), "·"),
            "new session 01234567, a copy of fedcba98 (m)",
        ),
        (e.SessionStarted(resumed=True, session_id=SESSION), "·", "session 01234567 goes on"),
        (
            *(e.SessionForked(session_id=SESSION, of="ann", adapter="claude"), "·"),
            f"begins in a copy of session {SESSION} of ann",
        ),
        (e.SessionRewound(session_id="s", upto="u", to=0), "·", "session s goes back to the end of turn 0"),
        (
            e.WorkTreeUndone(folder="/", tree="a", to="b", of=3, files=("x", "y"), by="ann"),
            "↶",
            "turn 3 is undone by ann: x, y",
        ),
        (
            *(e.WorkTreeUndone(folder="/", tree="a", to="b", of=3, files=(*"abcdefg",), redo=True, by="ann"), "↶"),
            "the undo of turn 3 is undone by ann: a, b, c, d, e and 2 more",
        ),
        (e.SessionRewound(session_id="s", upto="u"), "·", "session s goes back to an earlier turn"),
        (e.SessionSelected(session_id="s", adapter="claude"), "·", "continues in session s"),
        (e.SessionLost(session_id="s", reason="no such file"), "!", "session s is gone: no such file"),
        (e.SessionArchived(session_id="s", reason="reset"), "·", "session s archived: reset"),
        (
            *(e.SessionImported(session_id="s", adapter="claude", left_out=None), "·"),
            "session s had no files here: nothing of it is known",
        ),
        (
            *(e.SessionImported(session_id="s", adapter="claude", events=7), "·"),
            "until here session s, before it was adopted: 7 events",
        ),
        (
            *(e.SessionImported(session_id="s", adapter="claude", events=7, left_out=2), "·"),
            "until here session s, before it was adopted: 7 events; 2 earlier ones were left out",
        ),
        (
            *(e.SessionImported(session_id="s", adapter="x", left_out=2, is_cut=True), "·"),
            "until here session s, before it was adopted: 0 events; at least 2 earlier ones were left out",
        ),
        (
            *(e.SessionImported(session_id="s", adapter="x", unread={"y": 3}), "·"),
            "until here session s, before it was adopted: 0 events; 3 records could not be read: y",
        ),
        (e.SessionPrompted(text="go"), "←", "go"),
        (e.SessionIdle(), "■", "done"),
        (e.SessionIdle(reason="interrupted"), "✗", "interrupted"),
        (
            *(e.SessionIdle(duration_s=2.5, usage=Usage(input_tokens=1000, output_tokens=200), cost_usd=0.5), "■"),
            "done 2.5s 1,200 tokens $0.5000",
        ),
        (
            *(e.SessionIdle(usage=Usage(cached_tokens=0, cache_write_tokens=7), model="nobody's"), "■"),
            "done 7 tokens",
        ),
        (
            *(e.SessionIdle(model="gpt-6-sol", usage=Usage(input_tokens=10_000, output_tokens=2_000)), "■"),
            "done 12,000 tokens ~$0.0400",
        ),
        (
            *(e.PermissionAsked(ask_id="a-1", tool="Bash", description="ls\nps"), "?"),
            "asks for Bash: ls ⏎ ps [a-1]",
        ),
        (e.PermissionDecided(ask_id="a-1", decision="allow", by="ann"), "·", "allowed by ann [a-1]"),
        (e.PermissionDecided(ask_id="a-1", decision="deny", why="late"), "·", "denied by default: late [a-1]"),
        (
            e.PermissionDecided(ask_id="a-1", decision="cancelled", why="it ended"),
            "·",
            "request withdrawn: it ended [a-1]",
        ),
        (e.TurnFinished(status=Status.COMPLETED, message_id="a-1"), "■", "completed"),
        (
            *(e.TurnFinished(status=Status.COMPLETED, duration_s=2.5, cost_usd=0.01, unfinished=BACKGROUND), "■"),
            "completed 2.5s $0.0100; unfinished when its turn ended: Bash make (killed), Task (running)",
        ),
        (
            e.TurnFinished(status=Status.FAILED, class_=Class.AUTH, reason="no key", exit_code=1, message_id="a-1"),
            *("✗", "failed (auth): no key [a-1]"),
        ),
        (e.TurnFinished(status=Status.FAILED, exit_code=1), "✗", "failed"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, e.Event) else value if len(value) > 1 else "",
)
def test_what_happened_has_a_sign_and_words(event: e.AnyEvent, sign: str, words: str) -> None:
    assert sign_and_text(event) == (sign, words)


@pytest.mark.parametrize(
    "event",
    [
        e.TextDelta(text="x"),
        e.MessageClaimed(),
        e.PromptSent(bytes=3),
        e.TurnClosed(reply="waited"),
        e.UsageSeen(usage=Usage()),
        e.WorkTreeRecorded(folder="/"),
        e.ToolCalled(call_id="1", name="Bash"),
        e.ToolReturned(call_id="1"),
        e.ToolProgress(call_id="1"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_bookkeeping_has_no_words(event: e.AnyEvent) -> None:
    assert sign_and_text(event) is None


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (e.ImageSeen(), "image"),
        (e.ImageSeen(media_type="image/png", at="/tmp/a.png"), "image png /tmp/a.png"),
        (e.ImageSeen(bytes=0, path="images/b", at="/tmp/a.png"), "image 0 bytes images/b"),
        (e.ImageSeen(media_type="application/pdf", unkept="too large"), "image application/pdf (not kept: too large)"),
    ],
)
def test_what_is_known_about_an_image_is_printed(image: e.ImageSeen, words: str) -> None:
    assert image_text(image) == words


SAID = ("settings", "release", "select", "reset", "pause", "resume", "interrupt", "approve", "deny")


@pytest.mark.parametrize(
    ("event", "hidden"),
    [
        *((e.StatusChanged(state=state), True) for state in ("requesting", "idle", "running", "access", "hook")),
        (e.StatusChanged(state="retrying"), False),
        (e.Notice(text="x", code="synthetic"), True),
        (e.Notice(text="x"), False),
        *((e.ControlDone(control_id="c", verb=verb), True) for verb in SAID),
        *((e.ControlDone(control_id="c", verb=verb, ok=False), False) for verb in SAID),
        (e.ControlDone(control_id="c", verb="steer"), False),
        (e.ControlDone(control_id="c", verb="query", ok=False, code="unsupported"), True),
        (e.ControlDone(control_id="c", verb="query", ok=False, code="failed"), False),
        (e.ControlDone(control_id="c", verb="steer", ok=False, code="unsupported"), False),
        (e.AgentStarted(pid=7, **PROCESS), True),
        (e.AgentKept(pid=7), True),
        (e.AgentExited(code=0), True),
        (e.SessionStarted(resumed=True, session_id="s"), True),
        (e.ContextUsed(used=1), True),
        (e.SessionStarted(session_id="s"), False),
        (e.Text(text="x"), False),
    ],
)
def test_what_is_internal_is_left_to_those_who_ask(event: e.AnyEvent, hidden: bool) -> None:
    assert is_internal(event) is hidden


def test_each_event_is_shown_or_carries_only_bookkeeping() -> None:
    shown = "".join(path.read_text() for path in Path(render.__file__).parent.glob("*.py"))
    unnamed = {kind.__name__ for kind in e.types().values() if not re.search(rf"\b{kind.__name__}\b", shown)}
    assert unnamed == {"MessageClaimed", "PromptSent", "WorkTreeRecorded"}
