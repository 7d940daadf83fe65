"""A full-text index over journals, in one SQLite file. It is only a cache and can be deleted at any time.

Before each search, one process at a time adds the new events of the journals. The id of an entry is made from the time
of its event. So entries sort by time, and a time range is a range of ids. Does not depend on agents or roots.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from beam.base import files
from beam.base.clock import parse_rfc3339, recorded_ns
from beam.base.errors import BeamError, CorruptError, DiskError
from beam.model import events
from beam.model.events import AnyEvent
from beam.store.segment import Segment, segments

_VERSION = 2
_SLOTS = 1024  # entries of one microsecond
_LATEST_US = (1 << 63) // _SLOTS - (1 << 30)  # in the year 2255
_MAX_CHARS = 64 << 10  # of one entry
_WAIT_S = 30.0  # for another process that updates the index
_WORDS = re.compile(r'"([^"]*)"|(\S+)')
_SCHEMA = """
CREATE TABLE journal (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, inode INTEGER, seq INTEGER, stamp TEXT);
CREATE VIRTUAL TABLE entry USING fts5(
    text, journal, seq UNINDEXED, turn UNINDEXED, message UNINDEXED, kind UNINDEXED,
    detail=full, tokenize="unicode61 remove_diacritics 2");
INSERT INTO entry (entry, rank) VALUES ('automerge', 8);
"""
BEGIN, END = "\x02", "\x03"  # before and after each found word in a snippet


class Entry(Struct, frozen=True, kw_only=True):
    """One event in which the text of a search was found.

    `key` names the journal, and `ts_ns` is the time of the event (ns). `kind` is `prompt`, `text`, `thinking`, `tool`,
    `output`, `failure`, `request`, `file` or `note`. `snippet` is a short extract of the event's text, in which `BEGIN`
    and `END` enclose the found words.
    """

    key: str
    ts_ns: int
    seq: int
    turn: int | None
    message_id: str | None
    kind: str
    snippet: str


class _IndexedJournal(Struct, frozen=True):
    """How far a journal is indexed: `inode` is the inode of its directory, `seq` the number of the last indexed event,
    and `stamp` a stamp of its files when they were read. `number` is the id of the journal in the index."""

    number: int
    inode: int
    seq: int
    stamp: str


class SearchIndex:
    """The full-text index in the file `path`. If `path` is None, the index is in memory and is created anew each
    time."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._db = _open_index(path)

    def close(self) -> None:
        """Close the index file."""
        self._db.close()

    def update(self, journals: Mapping[str, Path]) -> list[str]:
        """Add the new events of these journals, given by key, to the index, and remove all other journals from it.

        Return a line of text for each journal that could not be read. Raises DiskError if the index can't be written.
        """
        with _translate_errors(self._path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                problems = self._update_all(journals)
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        return problems

    def find(
        self, text: str, *, keys: Sequence[str] | None = None, begin_ns: int = 0, end_ns: int | None = None, limit: int
    ) -> list[Entry]:
        """Return the events that contain all words of the text, the newest first, at most `limit` of them.

        `"two words"` finds words that follow each other, and `wor*` finds words with this beginning. No other character
        has a special meaning. A text without a word finds nothing. `keys`: search only these journals. `begin_ns` and
        `end_ns` limit the time of the events (ns).
        """
        wanted = _query(text)
        if not wanted:
            return []
        with _translate_errors(self._path):
            ids = dict(self._db.execute("SELECT key, id FROM journal"))
            if keys is not None:
                of = " OR ".join(f'"j{ids[key]}"' for key in keys if key in ids)
                if not of:
                    return []
                wanted = f"{wanted} AND journal:({of})"
            names = {f"j{number}": key for key, number in ids.items()}
            rows = self._db.execute(
                "SELECT rowid, journal, seq, turn, message, kind, snippet(entry, 0, ?, ?, '…', 24) FROM entry"
                " WHERE entry MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?",
                (BEGIN, END, wanted, _id_at(begin_ns), _last_id(end_ns), limit),
            ).fetchall()
            return [
                Entry(
                    key=names[journal],
                    ts_ns=number // _SLOTS * 1000,
                    seq=seq,
                    turn=turn,
                    message_id=message,
                    kind=kind,
                    snippet=snippet,
                )
                for number, journal, seq, turn, message, kind, snippet in rows
            ]

    def _update_all(self, journals: Mapping[str, Path]) -> list[str]:
        known = {
            key: _IndexedJournal(*row)
            for key, *row in self._db.execute("SELECT key, id, inode, seq, stamp FROM journal")
        }
        for key in known.keys() - journals.keys():
            self._forget_events(known[key].number)
            self._db.execute("DELETE FROM journal WHERE id = ?", (known[key].number,))
        problems = []
        for key, directory in journals.items():
            try:
                self._index_journal(key, directory, known.get(key))
            except FileNotFoundError:
                continue  # removed just now: next time
            except BeamError as error:
                problems.append(f"{key}: {error}")
        return problems

    def _index_journal(self, key: str, directory: Path, known: _IndexedJournal | None) -> None:
        names, inode = segments(directory), directory.stat().st_ino
        stamp = _stamp(directory, names)
        if known is None:
            number = self._db.execute("INSERT INTO journal (key, inode) VALUES (?, ?)", (key, inode)).lastrowid
            known = _IndexedJournal(number or 0, inode, 0, "")
        if stamp == known.stamp:
            return
        seq = known.seq
        if inode != known.inode or _last_seq(directory, names) < seq:  # another journal of that name
            self._forget_events(known.number)
            seq = 0
        elif names[0] != known.stamp.partition(" ")[0]:
            self._forget_events(known.number, before=int(names[0][:-6]))
        try:
            for event in _events_after(directory, names, seq):
                seq = event.seq
                self._add_event(known.number, event)
        except BeamError:
            stamp = ""
            raise
        finally:
            self._db.execute(
                "UPDATE journal SET inode = ?, seq = ?, stamp = ? WHERE id = ?", (inode, seq, stamp, known.number)
            )

    def _forget_events(self, number: int, before: int | None = None) -> None:
        found = self._db.execute("SELECT rowid, seq FROM entry WHERE entry MATCH ?", (f'journal:"j{number}"',))
        gone = [(rowid,) for rowid, seq in found if before is None or seq < before]
        self._db.executemany("DELETE FROM entry WHERE rowid = ?", gone)

    def _add_event(self, number: int, event: AnyEvent) -> None:
        said = _text_of(event)
        if said is None or not said[1].strip():
            return
        kind, text = said
        values = (text[:_MAX_CHARS], f"j{number}", event.seq, event.turn, event.message_id, kind)
        free = _id_at(_event_ns(event))
        while True:
            try:
                self._db.execute(
                    "INSERT INTO entry (rowid, text, journal, seq, turn, message, kind) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (free, *values),
                )
            except sqlite3.IntegrityError:
                free = self._next_free_id(free)
            else:
                return

    def _next_free_id(self, number: int) -> int:
        """Return the first id after all entries of the same microsecond. There may be many such entries, because the
        timestamps of a journal stand still while a clock that was set back catches up."""
        end = number // _SLOTS * _SLOTS + _SLOTS - 1
        rows = self._db.execute(
            "SELECT rowid FROM entry WHERE rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT 1", (number, end)
        )
        return max((row[0] for row in rows), default=number) + 1


def _open_index(path: Path | None) -> sqlite3.Connection:
    """Return a connection to the index. If there is no index, or one of another version, create a new one. Raises
    DiskError, CorruptError."""
    with _translate_errors(path):
        for _ in range(2):
            db = _connect(path)
            try:
                db.execute("BEGIN IMMEDIATE")
                (version,) = db.execute("PRAGMA user_version").fetchone()
                if version == 0:
                    for statement in _SCHEMA.strip().split(";\n"):
                        db.execute(statement)
                    db.execute(f"PRAGMA user_version = {_VERSION}")
                db.execute("COMMIT")
            except BaseException:
                db.close()
                raise
            if version in (0, _VERSION):
                return db
            db.close()
            remove(path)
    raise AssertionError("a new index has this version")


def remove(path: Path | None) -> None:
    """Remove the index file, if there is one, and its rollback journal."""
    for name in () if path is None else (path, path.with_name(f"{path.name}-journal")):
        files.remove(name)


def _connect(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        os.close(files.open_to_write(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC))  # refuses links; 0600
    db = sqlite3.connect(":memory:" if path is None else str(path), timeout=_WAIT_S, isolation_level=None)
    try:
        for setting in ("trusted_schema = OFF", "secure_delete = ON", "synchronous = NORMAL", "temp_store = MEMORY"):
            db.execute(f"PRAGMA {setting}")
    except BaseException:
        db.close()
        raise
    return db


@contextlib.contextmanager
def _translate_errors(path: Path | None) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        hint = f"it is only a cache: rm {path}" if path is not None else "try again"
        raise DiskError(f"can't use the search index: {error}", hint, subject=str(path or "")) from error
    except (sqlite3.Error, UnicodeDecodeError, LookupError, TypeError) as error:  # or the file contains nonsense
        raise CorruptError(f"the search index is damaged: {error}", f"rm {path}", subject=str(path)) from error


def _query(text: str) -> str:
    """Return the search text in the query language of SQLite, with every word or phrase in quotes."""
    words = []
    for phrase, word in _WORDS.findall(text):
        is_beginning = word.endswith("*")
        found = (phrase or word).replace('"', " ").replace("\0", " ")
        if any(char.isalnum() for char in found):
            words.append(f'"{found}"{"*" if is_beginning else ""}')
    return f"text:({' AND '.join(words)})" if words else ""


def _id_at(ns: int) -> int:
    return min(max(0, ns // 1000), _LATEST_US) * _SLOTS


def _event_ns(event: AnyEvent) -> int:
    """Return the time of the event (ns). For an event imported from a CLI's own files, return the time in these files,
    but never a time later than that of the import."""
    written = recorded_ns(event.ts)
    if not isinstance(event.imported, str):
        return written
    try:
        return min(written, parse_rfc3339(event.imported))
    except ValueError:
        return written


def _last_id(ns: int | None) -> int:
    return (1 << 63) - 1 if ns is None else _id_at(ns) + _SLOTS - 1


def _stamp(directory: Path, names: Sequence[str]) -> str:
    if not names:
        return ""
    found = (directory / names[-1]).stat()
    return f"{names[0]} {names[-1]} {found.st_size} {found.st_mtime_ns}"


def _last_seq(directory: Path, names: Sequence[str]) -> int:
    """Return the number of the last readable event, 0 for an empty journal. If the newest segment has no event yet,
    return the number before the segment's first number."""
    if not names:
        return 0
    found = Segment.read(directory / names[-1]).events
    return found[-1].seq if found else int(names[-1][:-6]) - 1


def _events_after(directory: Path, names: Sequence[str], seq: int) -> Iterator[AnyEvent]:
    """Yield the events with numbers greater than `seq`, reading one segment at a time."""
    holding = [place for place, name in enumerate(names) if int(name[:-6]) <= seq + 1]
    for name in names[holding[-1] if holding else 0 :]:
        for event in Segment.read(directory / name).events:
            if event.seq > seq:
                yield event


def _text_of(event: AnyEvent) -> tuple[str, str] | None:
    """Return the kind of the index entry for the event, and its text; None for an event that is not indexed."""
    match event:
        case events.MessageQueued():
            return "prompt", event.text
        case events.SessionPrompted():
            return "prompt", event.text
        case events.Text():
            return "text", event.text
        case events.Thinking():
            return "thinking", event.text
        case events.ToolCalled():
            return "tool", f"{event.name} {bytes(event.input).decode('utf-8', 'replace')}"
        case events.ToolReturned():
            return "output", event.output
        case events.TurnFinished() if event.reason:
            return "failure", event.reason
        case events.PermissionAsked():
            return "request", f"{event.tool} {bytes(event.input).decode('utf-8', 'replace')}"
        case events.FileChanged():
            return "file", event.path
        case events.Notice():
            return "note", event.text
        case events.MessageDead():
            return "failure", event.detail
    return None
