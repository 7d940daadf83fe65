"""One event, reported by several sources."""

from __future__ import annotations

from beam.teams.event_factory import Deduplicator, KeyOwners


def test_a_key_is_new_once() -> None:
    once = Deduplicator()
    assert once.add_if_new("a") and not once.add_if_new("a") and once.add_if_new("b")


def test_two_sources_telling_of_one_happening_tell_one() -> None:
    once = Deduplicator()
    assert once.count_report("done", source="files")
    assert not once.count_report("done", source="record")


def test_a_source_that_tells_again_tells_of_another_happening() -> None:
    once = Deduplicator()
    assert [once.count_report("done", source="files") for _ in range(3)] == [True] * 3
    assert [once.count_report("done", source="record") for _ in range(4)] == [False, False, False, True]


def test_a_key_is_its_first_owners() -> None:
    owners = KeyOwners()
    assert owners.owner("k") is None
    assert [owners.claim("k", who) for who in ("a", "b", "a")] == [True, False, True]
    assert owners.owner("k") == "a"
