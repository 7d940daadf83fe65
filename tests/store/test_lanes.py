"""Which lanes may have something left: entered by who publishes, taken out by who finished, never lost between them."""

from __future__ import annotations

import pytest

from beam.root import directories
from beam.root.paths import AgentPaths
from beam.store import lanes
from tests.support.context import SECOND_NS, Root


def lane(root: Root, name: str) -> AgentPaths:
    place = root.context.agent_paths("worker", name)
    directories.create(root.context.home, place)
    return place


def left_in(place: AgentPaths) -> None:
    (place.queue / "new" / "00000000000000000001-worker-x.json").write_bytes(b"{}")


@pytest.mark.slow
def test_only_lanes_that_were_entered_are_looked_at_however_many_are_finished(root: Root) -> None:
    agent = root.place("worker")
    for number in range(5):
        left_in(lane(root, f"finished{number}"))  # nobody would see these: they are not opened
    (agent.dir / "lanes").mkdir()
    mine = lane(root, "mine")
    lanes.add_to_index(mine)
    lanes.add_to_index(mine)
    assert lanes.indexed_lanes(agent) == [mine]
    lanes.remove_from_index(mine)
    assert lanes.indexed_lanes(agent) == []


def test_a_lane_in_which_something_came_stays_entered(root: Root) -> None:
    mine = lane(root, "mine")
    lanes.add_to_index(mine)
    left_in(mine)
    lanes.remove_from_index(mine)
    assert lanes.indexed_lanes(root.place("worker")) == [mine]


def test_what_comes_in_while_a_lane_is_left_is_found(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = lane(root, "mine")
    lanes.add_to_index(mine)
    real, looks = lanes.has_work_left, list[int]()

    def has_left(place: AgentPaths) -> bool:
        looks.append(1)
        if len(looks) == 2:
            left_in(mine)  # its sender entered the lane before the holder took it out
        return real(place)

    monkeypatch.setattr(lanes, "has_work_left", has_left)
    lanes.remove_from_index(mine)
    assert lanes.indexed_lanes(root.place("worker")) == [mine]


def test_an_agent_without_lanes_gets_no_directory_for_them(root: Root) -> None:
    agent = root.place("worker")
    assert lanes.indexed_lanes(agent) == []
    assert not lanes.index_folder(agent).exists()


def test_names_that_are_none_and_lanes_that_are_gone_are_left_out(root: Root) -> None:
    lanes.add_to_index(lane(root, "mine"))
    folder = lanes.index_folder(root.place("worker"))
    for name in ("..x", "UPPER", "gone", ".hidden"):
        (folder / name).touch()
    assert [place.lane for place in lanes.indexed_lanes(root.place("worker"))] == ["mine"]


def test_a_lane_is_tried_again_only_after_a_while(root: Root) -> None:
    mine, now = lane(root, "mine"), root.clock.now
    lanes.add_to_index(mine)
    assert lanes.claim_retry(mine, now, after_s=5)
    assert not lanes.claim_retry(mine, now + 4 * SECOND_NS, after_s=5)
    assert lanes.claim_retry(mine, now + 5 * SECOND_NS, after_s=5)
    assert lanes.claim_retry(mine, now - SECOND_NS, after_s=5), "the clock was set back"
