"""What a watcher does with the paths that the system names: the thread's work, turn by turn, without a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from beam.teams import changes as module
from beam.teams.changes import Changes
from tests.teams.teams_home import Home

Turn = tuple[list[str], bool]


class Told:
    """A system's notifications as a test gives them; after the last one the watcher is asked to end."""

    def __init__(self, *turns: Turn, last: Any = None) -> None:
        self.turns = list(turns)
        self.waits: list[int] = []
        self.is_closed = False
        self.last = last

    def wait(self, timeout_ms: int) -> Turn:
        self.waits.append(timeout_ms)
        turn = self.turns.pop(0) if self.turns else ([], False)
        if not self.turns and self.last is not None:
            self.last()
        return turn

    def interrupt(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


class Clock:
    """The time, which goes on by what the test says at each look."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 100.0, step

    def monotonic(self) -> float:
        self.now += self.step
        return self.now

    def time_ns(self) -> int:
        return 5


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "claude")


def watcher(home: Home, **given: Any) -> Changes:
    return Changes([home.text], wake=threading.Event(), **given)


def listened(changes: Changes, *turns: Turn) -> tuple[list[tuple[str, object]], list[str]]:
    """What is taken after these turns."""
    changes._listen(Told(*turns), 0)  # type: ignore[arg-type]
    return taken(changes)


def taken(changes: Changes) -> tuple[list[tuple[str, object]], list[str]]:
    seen, paths = changes.take_reported()
    return [(f"{one.file.kind} {one.file.name}", json.loads(one.data) if one.data else None) for one in seen], paths


@pytest.mark.parametrize(
    ("path", "copies", "marks"),
    [
        ("teams/session-1/inboxes/bob.json", [("inbox bob", [])], []),
        ("tasks/session-1/1.json", [("task 1", {"id": "1"})], []),
        ("teams/session-1/config.json", [("config ", {})], []),
        ("sessions/12.json", [("session 12", {"pid": 12})], []),
        ("sessions/none.json", [], []),
        ("teams/session-1/config.json.lock", [], []),
        ("teams/session-1/inboxes/bob.json.tmp.1", [], []),
        ("projects/-p/sid.jsonl", [], ["projects/-p/sid.jsonl"]),
        ("projects/-p/sid/subagents/a.meta.json", [], ["projects/-p/sid/subagents/a.meta.json"]),
        ("projects/-p/sid", [], ["*"]),
        ("projects/-p/sid.lock", [], []),
        ("projects/-p/other.json", [], []),
        ("projects/-p/sid.tmp.1", [], []),
        (
            "teams/session-1",
            [("config ", {}), ("inbox bob", []), ("task 1", {"id": "1"})],
            [],
        ),
        ("tasks/session-1", [("config ", {}), ("inbox bob", []), ("task 1", {"id": "1"})], []),
        ("teams/session-1/inboxes", [("config ", {}), ("inbox bob", []), ("task 1", {"id": "1"})], []),
        ("teams/session-1/inboxes.lock", [], []),
        ("teams/session-1/some.txt", [], []),
        ("teams/session-1/a/b", [], []),
        ("teams", [], []),
        ("other/session-1", [], []),
        ("tasks/session-2", [], []),
    ],
)
def test_a_path_that_is_named_is_copied_marked_looked_into_or_left_alone(
    home: Home, path: str, copies: list[Any], marks: list[str]
) -> None:
    for number, (name, value) in enumerate(
        {
            "teams/session-1/config.json": {},
            "teams/session-1/inboxes/bob.json": [],
            "tasks/session-1/1.json": {"id": "1"},
            "tasks/session-2.json": {"id": "2"},
            "sessions/12.json": {"pid": 12},
        }.items()
    ):
        home.put(name, value, number)
    changes = watcher(home)
    found = listened(changes, ([f"{home.text}/{path}"], False))
    assert found == (copies, [one if one == "*" else f"{home.text}/{one}" for one in marks])


def test_of_other_directories_every_file_of_json_lines_is_marked_or_those_that_matter(home: Home) -> None:
    paths = ["/agents/a/1.jsonl", "/agents/a/x.meta.json", "/agents/a/outbox", "/agents/a/agent.json", "/agents/.lock"]
    assert listened(watcher(home, others=["/agents"]), (paths, False)) == ([], [*paths[:2], "*"])
    chosen = watcher(home, others=["/agents"], accept=lambda path: path.endswith("outbox"))
    assert listened(chosen, (paths, False)) == ([], ["/agents/a/outbox"])
    assert listened(chosen, ([f"{home.text}/projects/-p/x.jsonl"], False)) == (
        [],
        [f"{home.text}/projects/-p/x.jsonl"],
    )


def test_inboxes_are_copied_before_what_changed_with_them_and_told_in_the_order_named(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = home.put("teams/session-1/inboxes/bob.json", [1], 1)
    config = home.put("teams/session-1/config.json", {}, 1)
    changes = watcher(home)
    copy, read = module.disk.read, list[str]()

    def noted(file: Any, now_ns: int) -> Any:
        read.append(file.kind)
        return copy(file, now_ns)

    monkeypatch.setattr(module.disk, "read", noted)
    found = listened(changes, ([str(config), str(inbox)], False))
    assert read == ["inbox", "config"]
    assert found == ([("config ", {}), ("inbox bob", [1])], [])


def test_a_file_that_is_gone_is_told_once_and_only_if_it_was_seen(home: Home) -> None:
    path = home.put("teams/session-1/inboxes/bob.json", [1], 1)
    changes = watcher(home)
    assert listened(changes, ([str(path)], False)) == ([("inbox bob", [1])], [])
    path.unlink()
    assert listened(changes, ([str(path), str(path)], False)) == ([("inbox bob", None)], [])


def test_a_file_that_did_not_change_is_read_once_and_a_path_can_be_marked(home: Home) -> None:
    home.put("tasks/session-1/1.json", {"id": "1"}, 1)
    changes = watcher(home)
    changes.sweep()
    assert len(changes.take_reported()[0]) == 1
    changes._wake.clear()
    changes.sweep()
    assert (taken(changes), changes._wake.is_set()) == (([], []), False)
    changes.mark("/x")
    assert (taken(changes), changes._wake.is_set()) == (([], ["/x"]), True)


def test_listening_ends_when_nothing_more_is_reported_or_something_was_lost_or_after_a_moment(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = watcher(home)
    told = Told((["/a.jsonl"], False), (["/b.jsonl"], False), ([], False), (["/c.jsonl"], False))
    assert changes._listen(told, 70) is False  # type: ignore[arg-type]
    assert (told.waits, taken(changes)) == ([70, 0, 0], ([], ["/a.jsonl", "/b.jsonl"]))
    assert changes._wake.is_set()
    told = Told((["/a.jsonl"], False), (["/b.jsonl"], True), (["/c.jsonl"], False))
    assert changes._listen(told, 70) is True  # type: ignore[arg-type]
    assert taken(changes)[1] == ["/a.jsonl", "/b.jsonl"]
    monkeypatch.setattr(module, "time", Clock(0.006))
    told = Told(*[([f"/{number}.jsonl"], False) for number in range(5)])
    assert changes._listen(told, 70) is False  # type: ignore[arg-type]
    assert taken(changes)[1] == ["/0.jsonl", "/1.jsonl"]


def test_between_slices_of_a_long_look_what_changed_is_copied(home: Home) -> None:
    changes = watcher(home)
    changes._listen_during_sweep(None)
    told = Told((["/a.jsonl"], False))
    changes._listen_during_sweep(told)  # type: ignore[arg-type]
    assert (told.waits, taken(changes)[1]) == ([0, 0], ["/a.jsonl"])


def test_of_a_look_at_some_teams_the_others_stay_as_they_are(home: Home) -> None:
    for number in (1, 2):
        home.put(f"tasks/session-{number}/1.json", {"id": "1"}, number)
    changes = watcher(home)
    changes.sweep()
    changes.take_reported()
    for number in (1, 2):
        (home.path / f"tasks/session-{number}/1.json").unlink()
    changes.sweep({home.text: frozenset()})
    changes.sweep({})
    assert taken(changes) == ([], [])
    changes.sweep({home.text: frozenset({"session-1"})})
    assert [one.file.group for one in changes.take_reported()[0]] == ["session-1"]
    changes.sweep()
    assert [one.file.group for one in changes.take_reported()[0]] == ["session-2"]


def test_a_look_tells_files_by_their_times_and_numbered_ones_of_one_moment_in_order(home: Home) -> None:
    for number in (10, 9, 2):
        home.put(f"tasks/session-1/{number}.json", {"id": str(number)}, 5)
    home.put("tasks/session-1/1.json", {"id": "1"}, 7)
    changes = watcher(home)
    changes.sweep()
    assert [name for name, _ in taken(changes)[0]] == ["task 2", "task 9", "task 10", "task 1"]


# -- the thread's rounds ---------------------------------------------------------------------------------------------


def run(changes: Changes, *turns: Turn, step: float = 0.0, monkeypatch: pytest.MonkeyPatch) -> tuple[Told, list[Any]]:
    """Run the thread's work here for these turns, each look at the clock `step` later; return its sweeps."""
    sweeps: list[Any] = []

    def sweep(only: Any = None, *, between: Any = None) -> None:
        sweeps.append("all" if only is None else "hot" if only is changes.hot else only)

    monkeypatch.setattr(changes, "sweep", sweep)
    monkeypatch.setattr(module, "time", Clock(step))
    told = Told(*turns, last=changes._stop.set)
    changes._set_watching()
    changes._run(told)  # type: ignore[arg-type]
    assert told.is_closed
    return told, sweeps


def test_a_burst_of_changes_is_followed_by_a_look_at_everything(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = watcher(home)
    _, sweeps = run(changes, ([], False), (["/a.jsonl"], True), ([], False), monkeypatch=monkeypatch)
    assert (sweeps, taken(changes)[1]) == (["all"], ["/a.jsonl", "*"])


def test_the_living_teams_are_looked_at_every_two_seconds_and_all_every_thirty(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = watcher(home)
    changes.hot = {home.text: frozenset({"session-1"})}
    _, sweeps = run(changes, *[([], False)] * 16, step=0.5, monkeypatch=monkeypatch)
    assert sweeps == ["hot"]
    changes = watcher(home)
    changes.hot = {}
    _, sweeps = run(changes, *[([], False)] * 12, step=2.0, monkeypatch=monkeypatch)
    assert sweeps == ["hot", "all", "all"]


def test_after_a_pause_of_the_process_everything_is_looked_at(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = watcher(home)
    _, sweeps = run(changes, ([], False), step=5.1, monkeypatch=monkeypatch)
    assert (sweeps, taken(changes)[1]) == (["all"], ["*"])
    changes = watcher(home)
    _, sweeps = run(changes, ([], False), step=1.0, monkeypatch=monkeypatch)
    assert sweeps == []


def test_a_directory_that_appears_is_watched_from_then_on(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = watcher(home, others=[str(tmp_path / "agents")])
    made: list[Sequence[str]] = []

    def listener() -> Told:
        made.append(changes._watching)
        return Told(([], False), ([], False), last=changes._stop.set)

    monkeypatch.setattr(changes, "_new_listener", listener)
    first = Told(([], False), ([], False), last=(tmp_path / "agents").mkdir)
    monkeypatch.setattr(module, "time", Clock(0.4))
    changes._set_watching()
    changes._run(first)  # type: ignore[arg-type]
    assert made == [changes._wanted]
    assert first.is_closed and taken(changes)[1] == ["*"]
    assert [changes._recheck_interval_s(), first.waits] == [0.5, [500, 500]]


def test_a_directory_that_is_named_as_gone_is_looked_for_again(home: Home) -> None:
    changes = watcher(home)
    changes._set_watching()
    assert len(changes._watching) == 4 and changes._recheck_interval_s() == 0.5
    (home.path / "sessions").rmdir()
    listened(changes, ([f"{home.text}/sessions", f"{home.text}/tasks"], False))
    assert changes._watching == tuple(f"{home.text}/{name}" for name in ("teams", "tasks", "projects"))
    assert changes._recheck_interval_s() == 0.1


class Rounds:
    """An event that is set after so many waits."""

    def __init__(self, count: int) -> None:
        self.count, self.waits = count, list[float]()

    def is_set(self) -> bool:
        return len(self.waits) >= self.count

    def wait(self, timeout: float) -> None:
        self.waits.append(timeout)


def test_where_the_system_does_not_notify_the_files_are_looked_at_in_turns(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, sweeps = watcher(home, poll_only=True), list[Any]()
    monkeypatch.setattr(changes, "sweep", lambda only=None: sweeps.append("all" if only is None else only))
    monkeypatch.setattr(changes, "_stop", rounds := Rounds(5))
    monkeypatch.setattr(module, "time", Clock(0.125))
    changes.hot = {home.text: frozenset({"t"})}
    changes._run(None)
    assert rounds.waits == [0.04] * 5
    assert sweeps == [changes.hot, "all", changes.hot, "all", changes.hot]
    assert taken(changes)[1] == ["*"]


def test_where_there_is_nothing_to_watch_the_thread_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = Changes([str(tmp_path / "none")], wake=threading.Event())
    assert changes._start_listener() is None and changes.error == ""
    monkeypatch.setattr(changes, "_stop", rounds := Rounds(3))
    changes._run(None)
    assert rounds.waits == [0.1] * 3


@pytest.mark.parametrize("error", [OSError("too many"), RuntimeError("too many")])
def test_where_the_system_refuses_to_notify_that_is_reported(
    home: Home, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    changes = watcher(home)

    def refuse() -> None:
        raise error

    monkeypatch.setattr(changes, "_new_listener", refuse)
    assert changes._start_listener() is None
    assert changes.error == "the system can't notify (too many); looking every 40 ms instead"
    assert changes._poll_only


def test_one_more_directory_is_watched_once_and_flat_if_so_wanted(home: Home) -> None:
    changes = watcher(home)
    for folder, is_flat in (("/a", False), ("/b", True), ("/a", True)):
        changes.watch_directory(folder, is_flat=is_flat)
    assert changes._wanted[4:] == ("/a", "/b")
    assert changes._flat_directories == frozenset({"/b"})


def test_a_watcher_that_never_started_closes_and_one_that_did_ends_its_thread(home: Home) -> None:
    watcher(home).close()
    home.put("tasks/session-1/1.json", {"id": "1"}, 1)
    changes = watcher(home)
    changes.start()
    thread = changes._thread
    assert thread is not None and thread.daemon and thread.name == "teams"
    assert taken(changes)[0] == [("task 1", {"id": "1"})]
    changes.close()
    assert not thread.is_alive()
