"""Full-text search in the journals of one root, or of all."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from beam.base.clock import rfc3339
from beam.base.errors import CorruptError, UsageError
from beam.root import discovery
from beam.root.paths import AgentPaths, RootPaths
from beam.store import search_index
from beam.store.search_index import BEGIN, END, Entry, SearchIndex


class Found(Struct, frozen=True, kw_only=True):
    """One event in which the text was found.

    `ts` is its time (RFC 3339). `project` is the folder of its root; `lane` is the `--once` session, null for the
    agent's own session. `kind` is `prompt`, `text`, `thinking`, `tool`, `output`, `failure`, `request`, `file` or
    `note`. `text` is an excerpt around the words, and `marks` are the positions of the words in it: [begin, end), in
    characters.
    """

    ts: str
    project: str
    agent: str
    lane: str | None
    turn: int | None
    message_id: str | None
    seq: int
    kind: str
    text: str
    marks: tuple[tuple[int, int], ...] = ()


class SearchResult(Struct, frozen=True, kw_only=True):
    """The events that were found, the newest first. `problems` has a line for everything that could not be read."""

    found: tuple[Found, ...]
    problems: tuple[str, ...]


def search(
    homes: Sequence[RootPaths],
    text: str,
    *,
    environ: Mapping[str, str],
    agents: Sequence[str] = (),
    begin_ns: int = 0,
    end_ns: int | None = None,
    limit: int = 20,
) -> SearchResult:
    """Return the newest `limit` events of these roots that contain all words of the text. Without `agents`, the events
    of all agents count.

    The search indexes are updated first. Raises UsageError for a text without a word, DiskError.
    """
    if not any(char.isalnum() for char in text):
        raise UsageError("there is no word to look for", 'beam search "two words" shows how a text is written')
    found: list[tuple[int, Found]] = []
    problems: list[str] = []
    for home in homes:
        journals = {key: paths for key, paths in _journals(home) if paths.journal.is_dir()}
        keys = [key for key, paths in journals.items() if paths.agent in agents] if agents else None
        if not journals or keys == []:
            continue
        # In a folder where agents may write, a file could be one that an agent made.
        file = None if discovery.exposing_folder(home, environ) is not None else home.search
        for attempt in range(2):
            try:
                with contextlib.closing(SearchIndex(file)) as index:
                    unread = index.update({key: paths.journal for key, paths in journals.items()})
                    entries = index.find(text, keys=keys, begin_ns=begin_ns, end_ns=end_ns, limit=limit)
                break
            except CorruptError:
                if attempt:
                    raise
                search_index.remove(file)  # it is made anew
        problems += unread
        found += [(entry.ts_ns, _make_found(home.project, journals[entry.key], entry)) for entry in entries]
    found.sort(key=lambda each: each[0], reverse=True)
    return SearchResult(found=tuple(each for _, each in found[:limit]), problems=tuple(problems))


def _journals(home: RootPaths) -> list[tuple[str, AgentPaths]]:
    each = [lane for name in home.agents() for paths in [home.agent(name)] for lane in (paths, *paths.lanes())]
    return [(paths.agent if paths.lane is None else f"{paths.agent}/{paths.lane}", paths) for paths in each]


def _make_found(project: Path, paths: AgentPaths, entry: Entry) -> Found:
    text, marks = _split_marks(entry.snippet)
    return Found(
        ts=rfc3339(entry.ts_ns),
        project=str(project),
        agent=paths.agent,
        lane=paths.lane,
        turn=entry.turn,
        message_id=entry.message_id,
        seq=entry.seq,
        kind=entry.kind,
        text=text,
        marks=marks,
    )


def _split_marks(snippet: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the excerpt without the markers around the found words, and the positions of these words: [begin, end)."""
    pieces, marks, at = [], [], 0
    for place, piece in enumerate(snippet.split(BEGIN)):
        inside, is_marked, after = piece.partition(END)
        if place and is_marked:
            marks.append((at, at + len(inside)))
        pieces += [inside, after]
        at += len(inside) + len(after)
    return "".join(pieces), tuple(marks)
