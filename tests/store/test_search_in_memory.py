"""The full-text index in memory: which events are found, by which words, and what is read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from beam.base.errors import CorruptError, DiskError
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Status
from beam.model.settings import DEFAULT_LIMITS
from beam.store import search_index as module
from beam.store.journal import Journal
from beam.store.search_index import BEGIN, END, Entry, SearchIndex
from tests.support.context import FakeClock

SECOND = 1_000_000_000
NOON_US = 1_700_000_000_000_000


class Clock(FakeClock):
    """A clock that goes on by a second each time it is asked."""

    def now_ns(self) -> int:
        self.now += SECOND
        return self.now


def write(directory: Path, *bodies: Event, clock: FakeClock | None = None) -> Path:
    directory.mkdir(exist_ok=True)
    journal = Journal.open(directory, "worker", clock or Clock(), DEFAULT_LIMITS)
    for body in bodies:
        journal.append(body, turn=1, message_id="m1")
    journal.close()
    return directory


def texts(*said: str) -> list[Event]:
    return [events.Text(text=text) for text in said]


RAW = msgspec.Raw(b'{"command": "disk \xff"}')
ALL = (
    events.MessageQueued(sender="human", text="a disk in a prompt"),
    events.SessionPrompted(text="a disk in a session"),
    events.Text(text="a disk in a text"),
    events.Thinking(text="a disk in a thought"),
    events.ToolCalled(call_id="c", name="Bash", input=RAW),
    events.ToolReturned(call_id="c", output="a disk in an output"),
    events.TurnFinished(attempt=1, status=Status.FAILED, reason="a disk in a reason"),
    events.TurnFinished(attempt=1, status=Status.COMPLETED, reply="a disk in a reply"),
    events.PermissionAsked(ask_id="q", tool="Edit", input=RAW),
    events.FileChanged(path="/a/disk/path"),
    events.Notice(text="a disk in a note"),
    events.MessageDead(reason="failed", detail="a disk in a dead letter"),
    events.TurnClosed(),
    events.Text(text=" "),
)


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("journals")
    few = texts("the disk is full", "no disk here", 'Grüße from the "parser"', "two  words\nin rows")
    return {"few": write(folder / "few", *few), "all": write(folder / "all", *ALL)}


@pytest.fixture(scope="module")
def index(journals: dict[str, Path]) -> Iterator[SearchIndex]:
    made = SearchIndex(None)
    assert made.update(journals) == []
    yield made
    made.close()


def plain(entries: list[Entry]) -> list[str]:
    return [entry.snippet.replace(BEGIN, "").replace(END, "") for entry in entries]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("disk", ["no disk here", "the disk is full"]),
        ("full disk", ["the disk is full"]),
        ('"full disk"', []),
        ('"disk is"', ["the disk is full"]),
        ('"disk is" the', ["the disk is full"]),
        ('"disk is', ["the disk is full"]),
        ("pars*", ['Grüße from the "parser"']),
        ("pars", []),
        ("GRÜSSE", []),
        ("grÜße", ['Grüße from the "parser"']),
        ("disk\0is", ["the disk is full"]),
        ('disk"is', ["the disk is full"]),
        ("disk - ...", ["no disk here", "the disk is full"]),
        ("", []),
        ("...", []),
        ("few", []),
        ("j1", []),
        ("disk OR parser", []),
    ],
)
def test_all_words_must_stand_in_one_event_and_the_newest_comes_first(
    index: SearchIndex, text: str, expected: list[str]
) -> None:
    assert plain(index.find(text, keys=["few"], limit=50)) == expected


def test_what_people_look_for_is_found_with_its_kind_and_nothing_else_is(tmp_path: Path) -> None:
    index = SearchIndex(None)
    assert index.update({"all": write(tmp_path / "all", *ALL)}) == []
    found = index.find("disk", limit=50)
    assert [(entry.seq, entry.kind, entry.snippet) for entry in found] == [
        (12, "failure", "a \x02disk\x03 in a dead letter"),
        (11, "note", "a \x02disk\x03 in a note"),
        (10, "file", "/a/\x02disk\x03/path"),
        (9, "request", 'Edit {"command": "\x02disk\x03 �"}'),
        (7, "failure", "a \x02disk\x03 in a reason"),
        (6, "output", "a \x02disk\x03 in an output"),
        (5, "tool", 'Bash {"command": "\x02disk\x03 �"}'),
        (4, "thinking", "a \x02disk\x03 in a thought"),
        (3, "text", "a \x02disk\x03 in a text"),
        (2, "prompt", "a \x02disk\x03 in a session"),
        (1, "prompt", "a \x02disk\x03 in a prompt"),
    ]


def test_an_entry_is_told_whole_with_what_was_found_marked(index: SearchIndex) -> None:
    (entry,) = index.find("full", limit=5)
    assert (BEGIN, END) == ("\x02", "\x03")
    assert entry == Entry(
        key="few",
        ts_ns=entry.ts_ns,
        seq=1,
        turn=1,
        message_id="m1",
        kind="text",
        snippet="the disk is \x02full\x03",
    )
    assert entry.ts_ns == 1_700_000_003 * SECOND


def test_a_search_ends_at_its_limit_and_stays_within_its_times_and_journals(index: SearchIndex) -> None:
    newest, oldest = index.find("disk", keys=["few"], limit=50)
    assert index.find("disk", keys=["few"], limit=1) == [newest]
    assert index.find("disk", keys=["few"], begin_ns=oldest.ts_ns, end_ns=newest.ts_ns, limit=5) == [newest, oldest]
    assert index.find("disk", keys=["few"], begin_ns=oldest.ts_ns + 1000, limit=5) == [newest]
    assert index.find("disk", keys=["few"], end_ns=newest.ts_ns - 1000, limit=5) == [oldest]
    assert {entry.key for entry in index.find("disk", limit=50)} == {"few", "all"}
    assert {entry.key for entry in index.find("disk", keys=["few", "all", "none"], limit=50)} == {"few", "all"}
    assert index.find("disk", keys=["none"], limit=50) == [] == index.find("disk", keys=[], limit=50)


def test_what_is_new_is_added_once_and_an_unchanged_journal_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, index = write(tmp_path / "j", *texts("one disk")), SearchIndex(None)
    read = list[str]()
    real = module.Segment.read

    def noted(path: Path) -> module.Segment:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(module.Segment, "read", noted)
    for more, times in (((), 2), ((), 0), (texts("two disks", "a third disk"), 2), ((), 0)):
        if more:
            write(journal, *more)
        read.clear()
        assert index.update({"j": journal}) == []
        assert len(read) == times
    assert plain(index.find("disk", limit=9)) == ["a third disk", "one disk"]
    assert [entry.seq for entry in index.find("disk*", limit=9)] == [3, 2, 1]


def test_a_journal_of_several_segments_is_read_from_the_one_that_holds_the_next(tmp_path: Path) -> None:
    index, clock = SearchIndex(None), Clock()
    (tmp_path / "j").mkdir()
    journal = Journal.open(tmp_path / "j", "worker", clock, DEFAULT_LIMITS)
    for number in range(3):
        journal.append(events.Text(text=f"word {number}"))
        if number == 1:
            index.update({"j": tmp_path / "j"})
        journal._begin_segment()
    journal.close()
    assert index.update({"j": tmp_path / "j"}) == []
    assert [entry.seq for entry in index.find("word", limit=9)] == [3, 2, 1]
    names = module.segments(tmp_path / "j")
    assert [int(name.removesuffix(".jsonl")) for name in names] == [1, 2, 3, 4]
    assert module._last_seq(tmp_path / "j", names) == 3
    (tmp_path / "j" / names[0]).unlink()
    assert index.update({"j": tmp_path / "j"}) == []
    assert [entry.seq for entry in index.find("word", limit=9)] == [3, 2]
    assert (module._last_seq(tmp_path, ()), module._stamp(tmp_path, ())) == (0, "")


def test_a_journal_that_is_gone_replaced_or_shorter_is_found_no_more(tmp_path: Path) -> None:
    index = SearchIndex(None)
    one, two = write(tmp_path / "one", *texts("one disk", "more")), write(tmp_path / "two", *texts("two disks"))
    index.update({"one": one, "two": two})
    one.rename(tmp_path / "away")
    write(tmp_path / "one", *texts("another one"))
    index.update({"one": one, "two": two})
    assert (plain(index.find("disk*", limit=9)), plain(index.find("another", limit=9))) == (
        ["two disks"],
        ["another one"],
    )
    index.update({"one": one})
    assert (index.find("disks", limit=9), plain(index.find("another", limit=9))) == ([], ["another one"])
    for name in one.iterdir():
        name.unlink()
    assert index.update({"one": one}) == []
    assert index.find("another", limit=9) == []
    assert index.update({"one": tmp_path / "none"}) == []


def test_a_damaged_journal_is_reported_each_time_and_the_others_are_read(tmp_path: Path) -> None:
    bad, good = write(tmp_path / "bad", *texts("bad disk")), write(tmp_path / "good", *texts("good disk"))
    (segment,) = bad.iterdir()
    segment.write_bytes(b"{}\n" + segment.read_bytes())
    index = SearchIndex(None)
    for _ in range(2):
        (problem,) = index.update({"bad": bad, "good": good})
        assert problem.startswith(f"bad: {segment} has a damaged snapshot")
    assert plain(index.find("disk", limit=9)) == ["good disk"]


def test_a_very_long_text_is_found_by_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_CHARS", 20)
    index = SearchIndex(None)
    index.update({"j": write(tmp_path / "j", *texts("word " * 4 + "end"))})
    assert (len(index.find("word", limit=9)), index.find("end", limit=9)) == (1, [])


def test_events_of_one_moment_are_found_in_their_order(tmp_path: Path) -> None:
    index = SearchIndex(None)
    index.update({"j": write(tmp_path / "j", *texts("word 1", "word 2", "word 3"), clock=FakeClock())})
    assert plain(index.find("word", limit=9)) == ["word 3", "word 2", "word 1"]
    assert {entry.ts_ns for entry in index.find("word", limit=9)} == {FakeClock().now}


@pytest.mark.parametrize(
    ("imported", "ts_us"),
    [
        ("2023-01-02T03:04:05.000006Z", 1_672_628_645_000_006),
        ("", NOON_US),
        ("soon", NOON_US),
        ("2099-01-01T00:00:00Z", NOON_US),
        ("1960-01-01T00:00:00Z", 0),
    ],
)
def test_an_imported_event_is_found_at_the_time_when_it_happened(tmp_path: Path, imported: str, ts_us: int) -> None:
    index = SearchIndex(None)
    body = events.Text(text="an old disk", imported=imported)
    index.update({"j": write(tmp_path / "j", body, clock=FakeClock())})
    assert [entry.ts_ns for entry in index.find("disk", limit=5)] == [ts_us * 1000]


def test_a_time_beyond_all_clocks_is_the_last_that_is_counted() -> None:
    assert [module._id_at(ns) for ns in (-1, 0, 1999, 1 << 80)] == [0, 0, 1024, module._LATEST_US * 1024]
    assert [module._last_id(ns) for ns in (None, 0)] == [(1 << 63) - 1, 1023]


def test_a_file_of_another_version_is_made_anew_and_one_that_is_none_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite3"
    for version in (2, 99):
        index = SearchIndex(path)
        index.update({"j": write(tmp_path / "j", *texts("one disk"))})
        index._db.execute(f"PRAGMA user_version = {version}")
        index.close()
        again = SearchIndex(path)
        assert len(again.find("disk", limit=9)) == (1 if version == 2 else 0)
        assert again._db.execute("PRAGMA user_version").fetchone() == (2,)
        assert again._db.execute("PRAGMA secure_delete").fetchone() == (1,)
        again.close()
        module.remove(path)
        module.remove(None)
        assert not path.exists()
    path.write_bytes(b"no database at all, and long enough to be read as one" * 100)
    with pytest.raises(CorruptError) as caught:
        SearchIndex(path)
    assert caught.value.message == "the search index is damaged: file is not a database"
    assert (caught.value.hint, caught.value.subject) == (f"rm {path}", str(path))


def test_an_index_that_can_not_be_used_says_what_to_do(tmp_path: Path) -> None:
    for path, hint in ((tmp_path / "x", f"it is only a cache: rm {tmp_path / 'x'}"), (None, "try again")):
        index = SearchIndex(path)
        index._db.execute("DROP TABLE journal")
        with pytest.raises(DiskError) as caught:
            index.find("disk", limit=5)
        index.close()
        assert caught.value.message == "can't use the search index: no such table: journal"
        assert (caught.value.hint, caught.value.subject) == (hint, str(path or ""))


def test_an_update_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, journal = SearchIndex(None), write(tmp_path / "j", *texts("one disk"))

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as change:
        change.setattr(SearchIndex, "_add_event", broken)
        with pytest.raises(KeyboardInterrupt):
            index.update({"j": journal})
    assert index._db.execute("SELECT count(*) FROM journal").fetchone() == (0,)
    assert index.update({"j": journal}) == []
    assert len(index.find("disk", limit=5)) == 1
