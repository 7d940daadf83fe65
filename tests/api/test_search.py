"""Search in the journals of roots: which agents, which root, and what becomes of a damaged index."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.api.search import search
from beam.base.errors import CorruptError, UsageError
from beam.model import events
from beam.model.settings import DEFAULT_LIMITS
from beam.root import discovery
from beam.store.journal import Journal
from beam.store.search_index import SearchIndex
from tests.support.context import Root


def say(root: Root, agent: str, text: str) -> None:
    paths = root.context.home.agent(agent)
    paths.dir.mkdir(parents=True, exist_ok=True)
    paths.journal.mkdir(exist_ok=True)
    root.clock.sleep(1)
    journal = Journal.open(paths.journal, agent, root.clock, DEFAULT_LIMITS)
    journal.append(events.Text(text=text), turn=3, message_id="m1")
    journal.close()


def found(root: Root, text: str, **more: object) -> list[tuple[str, str]]:
    result = search([root.context.home], text, environ=root.environ, **more)  # type: ignore[arg-type]
    assert result.problems == ()
    return [(each.agent, each.text) for each in result.found]


@pytest.mark.slow
def test_the_newest_of_all_agents_comes_first_and_one_agent_can_be_named(root: Root) -> None:
    say(root, "worker", "a full disk")
    say(root, "other", "no disk")
    say(root, "worker", "the disk again")
    assert found(root, "disk") == [("worker", "the disk again"), ("other", "no disk"), ("worker", "a full disk")]
    assert found(root, "disk", agents=["other"]) == [("other", "no disk")]
    assert found(root, "disk", limit=1) == [("worker", "the disk again")]


def test_what_is_found_says_where_it_stands_and_which_words_of_it_were_meant(root: Root) -> None:
    say(root, "worker", "a full disk is a full disk")
    (each,) = search([root.context.home], "full", environ=root.environ).found
    assert [each.text[begin:end] for begin, end in each.marks] == ["full", "full"]
    assert (each.turn, each.message_id, each.lane, each.kind, each.seq) == (3, "m1", None, "text", 1)
    assert each.project == str(root.context.home.project)


def test_a_damaged_index_is_made_anew(root: Root) -> None:
    say(root, "worker", "a full disk")
    found(root, "disk")
    root.context.home.search.write_bytes(b"no database" * 1000)
    assert found(root, "disk") == [("worker", "a full disk")]


def test_an_index_that_is_damaged_also_when_it_was_made_anew_is_an_error(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(root, "worker", "a full disk")
    found(root, "disk")
    there: list[bool] = []

    def update(index: SearchIndex, journals: object) -> list[str]:
        there.append(root.context.home.search.stat().st_size > 0)
        raise CorruptError("search.db is damaged")

    monkeypatch.setattr(SearchIndex, "update", update)
    with pytest.raises(CorruptError, match="is damaged"):
        found(root, "disk")
    assert len(there) == 2


def test_an_agent_that_was_removed_is_found_no_more(root: Root) -> None:
    say(root, "worker", "a full disk")
    assert found(root, "disk")
    root.context.home.agent("worker").dir.rename(root.base / "away")
    say(root, "other", "hello")
    assert found(root, "disk") == []


def test_in_a_root_where_agents_may_write_no_file_is_made(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "exposing_folder", lambda home, environ: Path("/somewhere"))
    say(root, "worker", "a full disk")
    assert found(root, "disk") == [("worker", "a full disk")]
    assert not root.context.home.search.exists()


def test_a_text_without_a_word_is_refused(root: Root) -> None:
    with pytest.raises(UsageError, match="no word"):
        found(root, '"!*')
