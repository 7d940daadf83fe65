"""The full-text index over journals: what is found, and that it may be old, damaged, deleted or used by two."""

from __future__ import annotations

import random
import sqlite3
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.base.errors import BeamError
from beam.model import events
from beam.model.settings import DEFAULT_LIMITS
from beam.store.journal import Journal
from beam.store.search_index import BEGIN, END, SearchIndex
from tests.support.context import FakeClock

pytestmark = pytest.mark.slow
SECOND = 1_000_000_000


class Clock(FakeClock):
    """A clock that goes on by a second each time it is asked."""

    step_ns = SECOND

    def now_ns(self) -> int:
        self.at_ns += self.step_ns
        return self.at_ns

    at_ns = 1_700_000_000 * SECOND


def write(directory: Path, *texts: str, step_ns: int = SECOND) -> None:
    directory.mkdir(exist_ok=True)
    clock = Clock()
    clock.step_ns = step_ns
    journal = Journal.open(directory, "worker", clock, DEFAULT_LIMITS)
    for text in texts:
        journal.append(events.Text(text=text), turn=1, message_id="m1")
    journal.close()


def found(index: SearchIndex, text: str, **more: object) -> list[str]:
    plain = (entry.snippet.replace(BEGIN, "").replace(END, "") for entry in index.find(text, limit=50, **more))  # type: ignore[arg-type]
    return list(plain)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    write(tmp_path / "journal", "the disk is full", "no disk here", "Grüße from the parser")
    return tmp_path / "journal"


@pytest.fixture
def index(tmp_path: Path, journal: Path) -> SearchIndex:
    made = SearchIndex(tmp_path / "search.sqlite3")
    assert made.update({"worker": journal}) == []
    return made


@given(st.text())
def test_any_text_can_be_looked_for(text: str) -> None:
    index = SearchIndex(None)
    index.find(text, limit=1)
    index.close()


def test_what_is_written_later_is_found_and_what_is_known_is_not_there_twice(index: SearchIndex, journal: Path) -> None:
    write(journal, "a new disk")
    index.update({"worker": journal})
    index.update({"worker": journal})
    assert found(index, "disk") == ["a new disk", "no disk here", "the disk is full"]


def test_a_journal_that_is_gone_or_replaced_is_found_no_more(index: SearchIndex, journal: Path, tmp_path: Path) -> None:
    journal.rename(tmp_path / "away")
    write(journal, "another one")
    index.update({"worker": journal})
    assert (found(index, "disk"), found(index, "another")) == ([], ["another one"])
    index.update({})
    assert found(index, "another") == []


def test_a_damaged_journal_is_reported_and_the_others_are_searched(
    index: SearchIndex, journal: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad"
    write(bad, "x")
    (segment,) = bad.glob("*.jsonl")
    segment.write_bytes(b"{}\n" + segment.read_bytes())
    (problem,) = index.update({"worker": journal, "bad": bad})
    assert problem.startswith("bad: ")
    assert found(index, "full") == ["the disk is full"]


def test_the_file_is_private_and_a_link_is_refused(index: SearchIndex, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "search.sqlite3").stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "search.sqlite3")
    with pytest.raises((BeamError, OSError), match="link"):
        SearchIndex(tmp_path / "link")


def test_an_index_of_another_version_is_made_anew(index: SearchIndex, journal: Path, tmp_path: Path) -> None:
    index.close()
    with sqlite3.connect(tmp_path / "search.sqlite3") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    again = SearchIndex(tmp_path / "search.sqlite3")
    assert found(again, "disk") == []
    again.update({"worker": journal})
    assert len(found(again, "disk")) == 2


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_is_an_error_of_beams_or_nothing(
    index: SearchIndex, journal: Path, tmp_path: Path, seed: int
) -> None:
    index.close()
    path, draw = tmp_path / "search.sqlite3", random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 400)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    path.write_bytes(data)
    try:
        again = SearchIndex(path)
        again.update({"worker": journal})
        again.find("disk", limit=5)
    except BeamError:
        pass


def test_two_at_once_find_the_same_and_nothing_twice(journal: Path, tmp_path: Path) -> None:
    write(journal, *(f"line {number} of many" for number in range(500)))
    results: list[int] = []

    def one() -> None:
        index = SearchIndex(tmp_path / "search.sqlite3")
        index.update({"worker": journal})
        results.append(len(index.find("many", limit=1000)))
        index.close()

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [500] * 4


def test_a_full_disk_is_reported_and_the_index_is_as_before(
    index: SearchIndex, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(journal, "later")

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(SearchIndex, "_add_event", full)
    with pytest.raises(BeamError, match="disk is full"):
        index.update({"worker": journal})
    monkeypatch.undo()
    assert found(index, "later") == []
    index.update({"worker": journal})
    assert found(index, "later") == ["later"]


def test_events_of_one_moment_take_no_more_steps_each_the_more_they_are(tmp_path: Path) -> None:
    """A journal's clock stands still after the machine's was set back, and other sessions say what they like."""
    write(tmp_path / "journal", *(f"word {number}" for number in range(300)), step_ns=0)
    index = SearchIndex(tmp_path / "search.sqlite3")
    steps: list[str] = []
    index._db.set_trace_callback(
        lambda said: steps.append(said) if said.startswith(("INSERT INTO entry", "SELECT rowid")) else None
    )
    index.update({"worker": tmp_path / "journal"})
    index._db.set_trace_callback(None)
    assert len(steps) <= 3 * 300
    assert [line.split()[1] for line in found(index, "word")][:3] == ["299", "298", "297"]


@pytest.mark.parametrize("at_ns", [-SECOND, 9_100_000_000 * SECOND, 250_000_000_000 * SECOND])
def test_a_time_that_no_clock_should_tell_is_found_all_the_same(tmp_path: Path, at_ns: int) -> None:
    (tmp_path / "journal").mkdir()
    clock = Clock()
    clock.at_ns = at_ns
    journal = Journal.open(tmp_path / "journal", "worker", clock, DEFAULT_LIMITS)
    for text in ("one word", "another word"):
        journal.append(events.Text(text=text), turn=1, message_id="m1")
    journal.close()
    index = SearchIndex(tmp_path / "search.sqlite3")
    assert index.update({"worker": tmp_path / "journal"}) == []
    assert found(index, "word") == ["another word", "one word"]
