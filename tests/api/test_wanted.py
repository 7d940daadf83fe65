"""Which events are wanted."""

from __future__ import annotations

from beam.api.watch import Wanted
from beam.model.events import TaskStarted, Text

TASK = TaskStarted(team="session-1", task_id="1", agent="bob@session-1")
TEXT = Text(text="x", agent="planner")


def test_without_a_wish_everything_fits() -> None:
    assert Wanted().fits(TASK) and Wanted().fits(TEXT)


def test_a_type_is_a_pattern() -> None:
    assert Wanted(types=("task.*",)).fits(TASK) and not Wanted(types=("task.*",)).fits(TEXT)
    assert Wanted(types=("mail.*", "text")).fits(TEXT)


def test_a_team_is_a_part_of_its_name_and_an_agent_of_no_team_has_none() -> None:
    assert Wanted(teams=("ion-1",)).fits(TASK)
    assert not Wanted(teams=("2",)).fits(TASK) and not Wanted(teams=("",)).fits(TEXT)


def test_an_agent_is_named_with_or_without_its_team() -> None:
    assert Wanted(agents=("bob",)).fits(TASK) and Wanted(agents=("bob@session-1",)).fits(TASK)
    assert not Wanted(agents=("session-1",)).fits(TASK) and Wanted(agents=("planner",)).fits(TEXT)
