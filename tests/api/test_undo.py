"""What an undo does with each file, and which turns of others it knows of: without git."""

from __future__ import annotations

import msgspec
import pytest

from beam.api.overlapping import turns_in
from beam.api.undo import Facts, Step, plan
from beam.model import events
from beam.worktree.snapshots import Difference, TreeFile
from tests.support.context import Root
from tests.support.journals import finished, record

OLD, NEW, NOW = (TreeFile(b"100644", name) for name in (b"old", b"new", b"now"))
NESTED = TreeFile(b"160000", b"commit")
KNOWN = Facts(named={"f"}, tells=True, kept=(), others={}, ignored=(), filtered=(), is_end_known=True)
CHANGED = Difference(path=b"f", before=OLD, after=NEW)
ADDED = Difference(path=b"f", before=None, after=NEW)
GONE = Difference(path=b"f", before=OLD, after=None)


def since(change: Difference, now: TreeFile | None) -> list[Difference]:
    return [Difference(path=b"f", before=change.after, after=now)]


@pytest.mark.parametrize("change", [CHANGED, ADDED, GONE])
def test_a_file_that_the_agent_named_is_taken_back(change: Difference) -> None:
    steps, back = plan([change], [], KNOWN, all_files=False)
    assert steps == [Step(path=b"f", now=change.after, wanted=change.before)] and back == 0
    assert steps[0].told().action == ("restore" if change.before else "remove")


@pytest.mark.parametrize("change", [CHANGED, ADDED, GONE])
def test_a_file_that_is_as_before_already_is_only_counted(change: Difference) -> None:
    for facts in (KNOWN, msgspec.structs.replace(KNOWN, named=(), ignored={b"f"})):
        assert plan([change], since(change, change.before), facts, all_files=False) == ([], 1)


LEFT: dict[str, dict[str, object]] = {
    "not_named": {"named": set()},
    "not_told": {"named": set(), "tells": False},
    "kept": {"kept": {b"f"}},
    "other_turn": {"others": {"f": "quick"}},
    "unknown_since": {"is_end_known": False},
    "ignored": {"ignored": {b"f"}},
    "filter": {"filtered": {b"f"}},
}


@pytest.mark.parametrize(("left", "facts"), LEFT.items(), ids=LEFT)
@pytest.mark.parametrize("all_files", [False, True])
def test_a_file_is_left_for_a_reason_and_only_some_reasons_can_be_forced(
    left: str, facts: dict[str, object], all_files: bool
) -> None:
    (step,), _ = plan([CHANGED], [], msgspec.structs.replace(KNOWN, **facts), all_files=all_files)
    is_left = not all_files or left in ("kept", "ignored", "filter")
    assert (step.left, step.detail) == (left if is_left else None, "quick" if is_left and left == "other_turn" else "")
    assert (step.told().action, step.told().path) == ("leave" if is_left else "restore", "f")


@pytest.mark.parametrize("change", [CHANGED, ADDED, GONE])
def test_a_file_that_changed_since_is_left_and_forced_from_what_it_is_now(change: Difference) -> None:
    for all_files in (False, True):
        (step,), _ = plan([change], since(change, NOW), KNOWN, all_files=all_files)
        assert (step.now, step.wanted, step.left) == (NOW, change.before, None if all_files else "changed_since")


@pytest.mark.parametrize(("before", "after"), [(NESTED, OLD), (OLD, NESTED), (None, NESTED), (NESTED, None)])
def test_a_repository_of_its_own_is_never_written(before: TreeFile | None, after: TreeFile | None) -> None:
    (step,), _ = plan([Difference(path=b"f", before=before, after=after)], [], KNOWN, all_files=True)
    assert step.left == "repository"


def test_a_cli_that_named_another_file_after_all_does_tell() -> None:
    (step,), _ = plan([CHANGED], [], msgspec.structs.replace(KNOWN, named={"g"}, tells=False), all_files=False)
    assert step.left == "not_named"


def test_of_a_redo_every_file_counts_as_named() -> None:
    (step,), _ = plan([CHANGED], [], msgspec.structs.replace(KNOWN, named=None), all_files=False)
    assert step.left is None


@pytest.mark.slow
def test_turns_of_others_count_that_were_in_the_folder_at_that_time(root: Root) -> None:
    def turn(agent: str, number: int, *, folder: str = "/w", ends: bool = True) -> None:
        at = events.WorkTreeRecorded(folder=folder, tree="t", turn=number)
        named = events.FileChanged(path=f"of-{agent}-{number}", turn=number)
        record(root, agent, at, named, *([finished(number)] if ends else []))
        root.clock.sleep(1)

    turn("other", 1)
    since = "2023-11-14T22:13:21.000000Z"
    root.clock.sleep(1)
    turn("worker", 1)
    turn("other", 2)
    turn("other", 3, folder="/elsewhere")
    turn("other", 4, ends=False)

    def told() -> list[tuple[str, bool, bool, bool, set[str]]]:
        found = turns_in(root.context, "/w", since, root.place("worker"), 1)
        return [(each.agent, each.is_own, each.is_running, each.ended is None, each.named) for each in found]

    for is_running in (False, True):
        lease = root.hold("other")
        if not is_running:
            lease.close()
        assert sorted(told(), key=str) == [
            ("other", False, False, False, {"of-other-2"}),
            ("other", False, is_running, True, {"of-other-4"}),
            ("worker", True, False, False, {"of-worker-1"}),
        ]
        lease.close()


@pytest.mark.slow
def test_a_damaged_journal_of_another_agent_is_passed_over(root: Root) -> None:
    record(root, "worker", events.WorkTreeRecorded(folder="/w", tree="t", turn=1), finished(1))
    place = root.place("other")
    record(root, "other", finished(1))
    for segment in place.journal.iterdir():
        segment.write_bytes(b"{}\nno line\n")
    (found,) = turns_in(root.context, "/w", "2023-11-14T22:13:20.000000Z", root.place("worker"), 1)
    assert found.agent == "worker"
