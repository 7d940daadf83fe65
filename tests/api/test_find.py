"""Messages are found by their id or its ending."""

from __future__ import annotations

import pytest

from beam.api.find import agent_names, all_paths, find_message, message_ids
from beam.base.errors import NotFoundError, UsageError
from beam.root import discovery
from beam.root.paths import AgentPaths
from beam.store.queue import Queue
from tests.support.context import Root
from tests.support.journals import closed, finished, record, started
from tests.support.refused import refused


def test_a_message_is_found_by_its_whole_id_or_a_unique_ending(root: Root) -> None:
    message = root.put("box")
    place = root.place("box")
    assert find_message(root.context, message.id) == (place, message.id)
    assert find_message(root.context, message.id[-4:]) == (place, message.id)


def test_a_short_an_unknown_and_an_ambiguous_ending_are_refused(root: Root) -> None:
    for ident in ("box-1aaaabbbb", "box-2aaaabbbb"):
        root.put("box", id=ident)
    with pytest.raises(UsageError, match="too short"):
        find_message(root.context, "bbb")
    with pytest.raises(NotFoundError, match="no message"):
        find_message(root.context, "zzzz")
    with pytest.raises(UsageError, match="matches 2 messages"):
        find_message(root.context, "bbbb")


def lane(root: Root, name: str, *, is_answered: bool = False) -> AgentPaths:
    """A lane of `worker` with a message that is named like it."""
    paths = root.context.agent_paths("worker", name)
    discovery.create(root.context.home, paths)
    message = root.message("worker", id=f"worker-{name}")
    if is_answered:
        record(root, "worker", started(1, message.id), finished(1, message.id), closed(1, message.id), lane=name)
    else:
        Queue(paths.queue, paths.put_lock).put(message, root.clock, root.context.config.limits)
    return paths


@pytest.mark.slow
def test_a_message_of_a_lane_is_found_by_its_id_and_its_ending(root: Root) -> None:
    paths, over = lane(root, "1aaaabbbb"), lane(root, "1aaaacccc", is_answered=True)
    own = root.put("worker", id="worker-1aaaadddd")
    assert find_message(root.context, "worker-1aaaabbbb") == (paths, "worker-1aaaabbbb")
    assert find_message(root.context, "bbbb") == (paths, "worker-1aaaabbbb")
    assert find_message(root.context, "worker-1aaaacccc") == (over, "worker-1aaaacccc")
    assert find_message(root.context, own.id) == (root.place("worker"), own.id)
    assert [known for _, known in message_ids(root.context)] == [own.id, "worker-1aaaabbbb", "worker-1aaaacccc"]
    assert [each.lane for each in all_paths(root.context)] == [None, "1aaaabbbb", "1aaaacccc"]
    root.place("box")
    assert [each.agent for each in all_paths(root.context, ["box"])] == ["box"]


def test_a_message_that_has_its_outcome_is_found(root: Root) -> None:
    record(root, "worker", started(1, "worker-1"), finished(1, "worker-1"), closed(1, "worker-1"))
    assert find_message(root.context, "worker-1") == (root.place("worker"), "worker-1")
    assert list(message_ids(root.context)) == [(root.place("worker"), "worker-1")]


def test_what_names_no_message_says_what_would(root: Root) -> None:
    for number in range(5):
        root.put("box", id=f"box-{number}aaaa")
    with refused(UsageError, "'aaa' is too short to name a message", "give at least four characters of its end"):
        find_message(root.context, "aaa")
    said = f"there is no message box-9aaaa in {root.context.home.root}"
    with refused(NotFoundError, said, "beam queue list; beam log", subject="box-9aaaa"):
        find_message(root.context, "box-9aaaa")
    said = "aaaa matches 5 messages: box-0aaaa, box-1aaaa, box-2aaaa, box-3aaaa"
    with refused(UsageError, said, "give more characters of its end", subject="aaaa"):
        find_message(root.context, "aaaa")


def test_an_archived_agent_is_not_among_the_names(root: Root) -> None:
    assert agent_names(root.context) == ["asker", "box", "other", "worker"]
    for name in ("box", "left"):
        root.place(name)
    root.place("box").archived.touch()
    assert agent_names(root.context) == ["asker", "left", "other", "worker"]
