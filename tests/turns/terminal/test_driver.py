"""The end of a turn on a screen whose agent is gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from beam.agents.base import Turn
from beam.agents.claude.screen import profile as CLAUDE
from beam.pty_adapter.screen import View
from beam.pty_adapter.turn_end import State, TurnEnd
from beam.turns.terminal.driver import TerminalFace, TerminalTurn
from tests.support.context import FakeClock
from tests.support.turns import turn_input

RULE = "─" * 60


@pytest.mark.parametrize(("told", "state"), [("done", State.DONE), ("working", State.EXITED), ("", State.EXITED)])
def test_the_last_lines_of_the_transcript_of_an_agent_that_is_gone_count(told: str, state: State) -> None:
    clock, end = FakeClock(), TurnEnd(CLAUDE, now=0.0, has_history=True)
    for now in (0.0, 1.0):
        end.look(View(rows=(RULE, "❯ ", RULE), columns=60), now)
    end.begin_message("hi")
    end.on_entered(1.0)
    input = turn_input(Turn(text="hi", message_id="x-1", agent="x"))
    face = TerminalFace(cast(Any, SimpleNamespace(profile=CLAUDE)), None, input)
    turn = TerminalTurn(face, cast(Any, SimpleNamespace(stop=None, clock=clock, keeper=None)))
    turn.end = end
    turn.session = cast(Any, SimpleNamespace(read=lambda: end.report_state(told, 2.0) if told else None))
    turn.process_gone()
    assert (end.state, end.ended) == (state, True)
