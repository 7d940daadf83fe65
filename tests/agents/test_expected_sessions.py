"""What the CLIs' own session files and transcripts say, whole: the events of each recording, and what is known then.

`BEAM_WRITE_EXPECTED=1 pytest tests/agents/test_expected_sessions.py` writes the expectations anew, into `expected`
beside the recordings and into `transcripts`; read the difference before you keep it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.agents.aider import history as aider
from beam.agents.base import History, Turn
from beam.agents.claude import screen as claude
from beam.agents.codex import history as codex
from beam.agents.gemini import history as gemini
from tests.agents import test_histories as histories
from tests.agents import test_session_files as sessions
from tests.support import expected

RECORDINGS = sorted(path for path in sessions.PLACE.glob("*/*.json*"))
SCREENS: dict[str, tuple[History, Path, Turn]] = {
    "codex-hello": (codex, histories.ROLLOUT, histories.turn("hello", cwd=histories.CODEX_CWD)),
    "codex-again": (
        codex,
        histories.ROLLOUT,
        histories.turn("again", cwd=histories.CODEX_CWD, session_id=histories.THREAD),
    ),
    "codex-error": (codex, histories.ROLLOUT, histories.turn("!error 400", cwd=histories.CODEX_CWD)),
    "gemini-slow": (
        gemini,
        histories.CHAT,
        histories.turn("SLOW hello\nsecond line !slow 8", session_id="s-1"),
    ),
    "gemini-tool": (
        gemini,
        histories.CHAT.with_name("chat-tool-screen.jsonl"),
        histories.turn("PLAINASK now", session_id="s-1"),
    ),
    "aider": (
        aider,
        histories.HISTORY,
        histories.turn("SLOW hello\nsecond line !slow 8", fresh_session_id=histories.UUID),
    ),
    "claude": (
        claude,
        histories.PLACE / "claude/2.1.197/sample-transcript.jsonl",
        histories.turn("", fresh_session_id=histories.UUID),
    ),
}


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recorded_session_has_its_checked_in_events(recording: Path) -> None:
    reader = sessions.opened(sessions.cli_of(recording))
    told: list[object] = []
    known = None
    data = recording.read_bytes()
    for part in (data.splitlines() if recording.suffix == ".jsonl" else [data]) * 2:
        told += [expected.of_event(event) for event in reader.read(part)]
        if reader.session != known:
            known = reader.session
            told.append({"session": expected.told(known)})
    expected.check(recording.parent / "expected" / f"{recording.stem}.jsonl", expected.lines(told))


@pytest.mark.parametrize("name", SCREENS)
def test_a_recorded_transcript_has_its_checked_in_events_and_verdict(name: str) -> None:
    history, path, turn = SCREENS[name]
    told: list[dict[str, object]] = []
    transcript = history.transcript(turn)
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        found = [expected.of_event(event) for event in transcript.line(line)]
        if not found:
            continue
        told += [{"line": number, "state": transcript.state, "error": transcript.error, "events": found}]
    told.append({"state": transcript.state, "verdict": expected.told(transcript.verdict())})
    expected.check(histories.PLACE / "transcripts" / f"{name}.jsonl", expected.lines(told))
