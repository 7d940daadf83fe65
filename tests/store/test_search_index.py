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

from beam.base.errors import BeamError, CorruptError
from beam.model import events
from beam.model.limits import DEFAULT
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
    journal = Journal.open(directory, "worker", clock, DEFAULT)
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("disk", ["no disk here", "the disk is full"]),
        ("full disk", ["the disk is full"]),
        ('"full disk"', []),
        ('"disk is"', ["the disk is full"]),
        ("pars*", ["Grüße from the parser"]),
        ("GRUSSE", []),
        ("grüße", ["Grüße from the parser"]),
        ("grÜße", ["Grüße from the parser"]),
        ("nothing", []),
        ('disk OR "', []),
        ("worker", []),
        ("j1", []),
    ],
)
def test_all_words_must_stand_in_one_event_and_the_newest_comes_first(
    index: SearchIndex, text: str, expected: list[str]
) -> None:
    assert found(index, text) == expected


@given(st.text())
def test_any_text_can_be_looked_for(text: str) -> None:
    index = SearchIndex(None)
    index.find(text, limit=1)
    index.close()


def test_what_was_found_is_marked_and_has_its_turn_message_time_and_kind(index: SearchIndex) -> None:
    (entry,) = index.find("full", limit=5)
    assert entry.snippet == f"the disk is {BEGIN}full{END}"
    assert (entry.key, entry.turn, entry.message_id, entry.kind, entry.seq) == ("worker", 1, "m1", "text", 1)
    assert abs(entry.ts_ns - 1_700_000_000 * SECOND) < 100 * SECOND
    assert found(index, "disk", begin_ns=entry.ts_ns + 1000) == ["no disk here"]
    assert found(index, "disk", end_ns=entry.ts_ns) == ["the disk is full"]


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


def test_only_the_journals_that_are_named_are_searched(index: SearchIndex, journal: Path, tmp_path: Path) -> None:
    write(tmp_path / "second", "a disk of another")
    index.update({"worker": journal, "other": tmp_path / "second"})
    assert found(index, "disk", keys=["other"]) == ["a disk of another"]
    assert found(index, "disk", keys=["nobody"]) == []


def test_a_damaged_journal_is_said_and_the_others_are_searched(
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


def test_a_file_that_is_no_index_is_damage(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"no database at all, and long enough to be read as one" * 100)
    with pytest.raises(CorruptError, match="damaged"):
        SearchIndex(tmp_path / "x")


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


def test_a_full_disk_is_said_and_the_index_is_as_before(
    index: SearchIndex, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(journal, "later")

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(SearchIndex, "_add", full)
    with pytest.raises(BeamError, match="disk is full"):
        index.update({"worker": journal})
    monkeypatch.undo()
    assert found(index, "later") == []
    index.update({"worker": journal})
    assert found(index, "later") == ["later"]


def test_events_of_the_same_moment_are_all_found(tmp_path: Path) -> None:
    write(tmp_path / "journal", *(f"same moment {number}" for number in range(5)), step_ns=0)
    index = SearchIndex(None)
    index.update({"worker": tmp_path / "journal"})
    assert len(found(index, "moment")) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["journal"], "in memory there is no file"


@pytest.mark.parametrize(
    ("imported", "ts_ns"),
    [
        ("2023-01-02T03:04:05.000006Z", 1_672_628_645_000_006_000),
        ("", 1_700_000_001 * SECOND),  # the files do not say
        ("2099-01-01T00:00:00Z", 1_700_000_001 * SECOND),  # nothing happened after it was read
        ("9999-12-31T23:59:59Z", 1_700_000_001 * SECOND),
        ("soon", 1_700_000_001 * SECOND),
    ],
)
def test_an_imported_event_is_found_at_the_time_when_it_happened(tmp_path: Path, imported: str, ts_ns: int) -> None:
    clock = Clock()
    (tmp_path / "journal").mkdir()
    journal = Journal.open(tmp_path / "journal", "worker", clock, DEFAULT)
    clock.at_ns = 1_700_000_000 * SECOND
    journal.append(events.Text(text="an old disk", imported=imported))
    journal.close()
    index = SearchIndex(tmp_path / "index")
    assert index.update({"worker": tmp_path / "journal"}) == []
    assert [entry.ts_ns for entry in index.find("disk", limit=5)] == [ts_ns]
    assert found(index, "disk", begin_ns=ts_ns, end_ns=ts_ns) == ["an old disk"]


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
    journal = Journal.open(tmp_path / "journal", "worker", clock, DEFAULT)
    for text in ("one word", "another word"):
        journal.append(events.Text(text=text), turn=1, message_id="m1")
    journal.close()
    index = SearchIndex(tmp_path / "search.sqlite3")
    assert index.update({"worker": tmp_path / "journal"}) == []
    assert found(index, "word") == ["another word", "one word"]
