"""What a whole thread used: counted by anybody, each turn once, whatever a crash left of the file."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.base.errors import DiskError
from beam.model.message import Spent
from beam.store.thread import ThreadUsage, file_name


def test_a_thread_that_nobody_counted_has_had_its_first_turn(tmp_path: Path) -> None:
    assert ThreadUsage(tmp_path / "none", "t").spent() == Spent(turns=1)
    assert not (tmp_path / "none").exists()


def test_each_turn_is_counted_once_however_often_it_is_begun(tmp_path: Path) -> None:
    thread = ThreadUsage(tmp_path / "threads", "t")
    begun = [thread.begin(*turn) for turn in (("a-1", 1), ("b-1", 1), ("a-1", 1), ("a-1", 2), ("a-1", 11), ("b-1", 1))]
    assert begun == [2, 3, 2, 4, 5, 3]
    assert thread.spent().turns == 5
    assert ThreadUsage(tmp_path / "threads", "other").spent().turns == 1


def test_costs_add_up_each_once_and_count_as_no_turn(tmp_path: Path) -> None:
    thread = ThreadUsage(tmp_path, "t")
    thread.begin("a-1", 1)
    for cost in (("a-1", 1, 0.25), ("a-1", 2, 0.5), ("a-1", 1, 0.25)):
        thread.record_cost(*cost)
    assert thread.spent() == Spent(turns=2, cost_usd=0.75)


@pytest.mark.parametrize("left", [b"turn a-9 1", b"tu", b"\0\0\0\0", b"cost a-9", b"turn a-9 1\n\0\0", b"\n\n"])
def test_what_a_power_cut_left_of_the_file_counts_for_no_more_than_it_is(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "t").write_bytes(left)
    thread = ThreadUsage(tmp_path, "t")
    before = thread.spent().turns
    assert before == 1 + (b"turn" in left)
    assert thread.begin("a-1", 1) <= before + 1
    assert thread.begin("a-2", 1) == thread.spent().turns
    thread.record_cost("a-2", 1, 0.5)
    assert thread.spent().cost_usd == 0.5


@pytest.mark.slow
def test_of_all_who_count_at_once_each_has_another_number(tmp_path: Path) -> None:
    got: list[int] = []

    def count(agent: str) -> None:
        got.extend(ThreadUsage(tmp_path, "t").begin(f"{agent}-{number}", 1) for number in range(50))

    together = [threading.Thread(target=count, args=(agent,)) for agent in "abcd"]
    for each in together:
        each.start()
    for each in together:
        each.join()
    assert sorted(got) == list(range(2, 202))


@pytest.mark.slow
@given(st.text(max_size=120))
def test_any_thread_has_a_file_of_its_own_in_the_directory(name: str) -> None:
    made = file_name(name)
    assert Path(made).name == made
    assert not made.startswith(".")
    assert len(made.encode()) <= 255
    assert file_name(name + "a") != made


def test_a_file_that_can_not_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    with pytest.raises(DiskError, match="can't write"):
        ThreadUsage(tmp_path, "t").begin("a-1", 1)


def test_a_link_in_its_place_is_neither_read_nor_written(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("turn a-1 1\n")
    (tmp_path / "t").symlink_to(tmp_path / "secret")
    with pytest.raises(DiskError):
        ThreadUsage(tmp_path, "t").begin("a-1", 1)
    with pytest.raises(DiskError):
        ThreadUsage(tmp_path, "t").spent()
    assert (tmp_path / "secret").read_text() == "turn a-1 1\n"
