"""The recorded conversations of each link, whole: what it sends, records, asks and ends at each frame of the agent.

`BEAM_WRITE_EXPECTED=1 pytest tests/agents/test_expected_steps.py` writes the expectations anew, into `expected` beside
the recordings; read the difference before you keep it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beam.agents.base import Exit
from tests.agents.acp import test_acp_frames as acp
from tests.agents.claude import test_claude_frames as claude
from tests.agents.codex import test_codex_frames as codex
from tests.support import claude_dialogue, codex_dialogue, expected
from tests.support.dialogue import Conversation, whole

Play = Callable[[], Conversation]
PLAYS: dict[str, tuple[Path, Play]] = {
    **{
        f"acp/{path.parent.name}/{path.stem}": (path, lambda path=path: acp.Played(path, whole).talk)
        for path in acp.PATHS
    },
    **{
        f"codex/{name}": (codex_dialogue.RECORDINGS / name, lambda name=name: codex.Played(name, whole).talk)
        for name in codex.NAMES
    },
    **{
        f"claude/{name}": (
            claude_dialogue.RECORDINGS / name.replace("/", "/stream-json/"),
            lambda name=name: claude.Played(name, whole).talk,
        )
        for name in claude.ENDED
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYS)
def test_a_recorded_conversation_has_its_checked_in_steps(name: str) -> None:
    path, play = PLAYS[name]
    talk = play()
    talk.keep(talk.link.end(Exit(code=0)))
    expected.check(path.parent / "expected" / path.name, expected.lines(map(expected.of_step, talk.steps)))
