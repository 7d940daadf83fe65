"""Which folder each turn of a run has for its model calls, and what is counted of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, UnsetType

from beam.base.errors import NotFoundError
from beam.conversations.model_calls import ModelFolders, check_replay, sum_counts
from beam.conversations.result import TurnResult
from beam.model.message import Recording
from beam.model.outcome import ModelCallCounts, Outcome, Status


def of_model(*, record: Path | str = "", replay: Path | str = "", on_miss: Any = "stop") -> Recording:
    return Recording(record=str(record), replay=str(replay), depth="model", on_miss=on_miss)


def folders(asked: Recording, *turns: tuple[str, str], number: int = 1, times: int = 1) -> list[str]:
    found = ModelFolders(asked, number, times)
    calls = [found.next(step, agent) for step, agent in turns]
    return [each.folder if isinstance(each, Recording) else "" for each in calls]


def test_each_turn_of_a_step_and_an_agent_has_a_folder_of_its_own(tmp_path: Path) -> None:
    turns = (("ask", "a"), ("ask", "b"), ("ask", "a"), ("again", "a"))
    got = folders(of_model(record=tmp_path), *turns)
    assert got == [str(tmp_path / name) for name in ("ask/a-1", "ask/b-1", "ask/a-2", "again/a-1")]
    assert folders(of_model(replay=tmp_path), *turns) == got


def test_each_repeat_records_into_a_folder_of_its_own_and_replays_from_it_where_it_is(tmp_path: Path) -> None:
    assert folders(of_model(record=tmp_path), ("s", "a"), number=2, times=3) == [str(tmp_path / "2/s/a-1")]
    assert folders(of_model(replay=tmp_path), ("s", "a"), number=2, times=3) == [str(tmp_path / "s/a-1")]
    (tmp_path / "2").mkdir()
    assert folders(of_model(replay=tmp_path), ("s", "a"), number=2, times=3) == [str(tmp_path / "2/s/a-1")]


@pytest.mark.parametrize("times", [1, 2])
def test_a_step_whose_name_is_a_number_is_no_repeat(tmp_path: Path, times: int) -> None:
    turns = (("1", "a"), ("2", "b"), ("2", "b"))
    recorded = [folders(of_model(record=tmp_path), *turns, number=number, times=times) for number in (1, 2)][:times]
    for folder in [each for found in recorded for each in found]:
        Path(folder).mkdir(parents=True)
        (Path(folder) / "recording.json").touch()
    for on_miss in ("stop", "live"):
        asked = of_model(replay=tmp_path, on_miss=on_miss)
        assert [folders(asked, *turns, number=number, times=times) for number in (1, 2)][:times] == recorded


def test_without_a_folder_nothing_is_reported_of_the_calls() -> None:
    assert ModelFolders(Recording(), 1, 1).next("s", "a") is UNSET


def test_filling_records_a_turn_that_was_never_recorded_and_replays_one_that_was(tmp_path: Path) -> None:
    (tmp_path / "old" / "a-1").mkdir(parents=True)
    found = ModelFolders(of_model(replay=tmp_path, on_miss="live"), 1, 1)
    assert found.next("old", "a") == of_model(replay=tmp_path / "old/a-1", on_miss="live")
    assert found.next("new", "a") == of_model(record=tmp_path / "new/a-1")


def test_a_folder_that_is_not_there_is_found_before_the_run(tmp_path: Path) -> None:
    check_replay(of_model(replay=tmp_path))
    check_replay(of_model(replay=tmp_path / "none", on_miss="live"))
    with pytest.raises(NotFoundError, match="no recorded model calls"):
        check_replay(of_model(replay=tmp_path / "none"))


def test_the_counts_of_all_turns_are_added(tmp_path: Path) -> None:
    def outcome(calls: ModelCallCounts | UnsetType) -> Outcome:
        return Outcome(
            message_id="a-1", agent="a", turn=1, attempt=1, status=Status.COMPLETED, exit_code=0, model_calls=calls
        )

    def turn(**counts: int) -> TurnResult:
        calls = ModelCallCounts(**counts) if counts else UNSET
        return TurnResult(agent="a", outcome=outcome(calls))

    got = sum_counts([turn(calls=3, exact=2, minor=1), turn(), turn(calls=2, exact=1, filled=1)], Recording())
    assert got == ModelCallCounts(calls=5, exact=3, minor=1, filled=1)
    assert got.told == "5 model calls: 3 exact, 1 minor, 0 major, 0 unmatched, 0 live, 1 filled"
