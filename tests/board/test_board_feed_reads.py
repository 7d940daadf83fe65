"""What the feed makes of what it reads: events with the rows that they belong to, and snapshots of everyone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beam import BeamError, events
from beam.board import feed as feeds
from beam.board.feed import Feed, ReceivedEvent
from beam.board.rows import agent_key
from tests.board.made import ASK, PROJECT, agent, head, running, snapshot, story, team, ts

OTHER = Path("/home/me/other")


class Here:
    """Beam in a folder, with these agents and sessions."""

    def __init__(self) -> None:
        self.home = SimpleNamespace(project=PROJECT, root=Path("/root"))
        self.environ = {"HOME": "/h"}
        self.asked: list[Any] = []

    def status_all(self) -> Any:
        return snapshot().agents

    def foreign(self, lines: list[Any]) -> Any:
        self.asked.append([line.agent for line in lines])
        return snapshot().sessions

    def asks(self, names: list[str]) -> Any:
        self.asked.append(names)
        return [ASK]


def fed(here: Here | None = None, **more: Any) -> Feed:
    found = here or Here()
    return Feed(cast(Any, found), lambda project: cast(Any, found), **more)


def placed(event: Any, **more: Any) -> Any:
    return SimpleNamespace(**{"event": event, "agent_dir": None, "home": None, "lane": None, "session": None, **more})


TEXT = events.Text(**head("builder", 10), text="hi")


def test_an_event_belongs_to_the_row_of_its_agent_session_or_member() -> None:
    feed = fed(since=ts(100))
    here, there = SimpleNamespace(project=PROJECT), SimpleNamespace(project=OTHER)
    session = events.Text(**head("codex~0198aaaa-c0de", 10), text="hi")
    member = events.Text(**head("alice@docs", 10), text="hi")
    key = agent_key(PROJECT, "builder")
    assert [
        feed._receive_event(one)
        for one in (
            placed(TEXT, home=here),
            placed(TEXT, home=there),
            placed(TEXT, home=here, lane="1m88abcdef"),
            placed(session, session=SimpleNamespace(cwd="/home/me/site")),
            placed(session, session=SimpleNamespace(cwd=str(PROJECT))),
            placed(member),
        )
    ] == [
        ReceivedEvent(TEXT, key, "builder"),
        ReceivedEvent(TEXT, agent_key(OTHER, "builder"), "other/builder"),
        ReceivedEvent(TEXT, f"{key}:bcdef", "builder:bcdef"),
        ReceivedEvent(session, "codex~0198aaaa-c0de", "site/codex~c0de"),
        ReceivedEvent(session, "codex~0198aaaa-c0de", "codex~c0de"),
        ReceivedEvent(member, "alice@docs", "alice@docs"),
    ]


def test_the_board_begins_with_the_last_events_that_people_read_and_repeats_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, asked = Here(), list[tuple[str, Any]]()
    past = [events.Text(**head("builder", 900 - number), text=str(number)) for number in range(600)]
    internal = [events.TextDelta(**head("builder", 200), text="x")] * 600
    new = events.Text(**{**head("builder", 0), "ts": "2999-01-01T00:00:00.000000Z"}, text="new")
    batch = [placed(event) for event in (*past, *internal, new)]

    def stream(views: Any, *, recent: bool, **_: Any) -> Any:
        asked.append(("events", recent))
        yield batch if recent else [placed(new)]
        raise OSError("the disk is gone")

    def foreign(environ: Any, teams: Any, *, since: str) -> Any:
        asked.append(("sessions", bool(since)))
        return SimpleNamespace(close=lambda: None)

    here.stream_all = stream  # type: ignore[attr-defined]
    views = SimpleNamespace(teams=lambda *_, **__: SimpleNamespace(close=lambda: None), standing=lambda *_, **__: [])
    monkeypatch.setattr("beam.team_views", views, raising=False)
    monkeypatch.setattr("beam.ForeignSessions", foreign, raising=False)
    monkeypatch.setattr(feeds.time, "sleep", lambda seconds: None)
    feed = fed(here)
    for count in (501, 1):
        with pytest.raises(OSError, match="the disk is gone"):
            feed._read_events()
        found = feed.drain()
        assert (len(found), found[-1].event, found[-1].is_past) == (count, new, False)
        assert all(each.is_past and each.event in past[100:] for each in found[:-1])
    assert asked == [("sessions", True), ("events", True), ("sessions", False), ("events", False)]


@pytest.mark.parametrize(("before_s", "is_shown"), [(11, False), (10, True), (9, True)])
def test_what_was_before_the_time_that_was_asked_for_is_not_shown(before_s: float, is_shown: bool) -> None:
    feed = fed(since=ts(10))
    event = events.Text(**head("builder", before_s), text="hi")
    assert (feed._receive_event(placed(event)) is not None) is is_shown


def test_an_image_is_named_with_its_whole_path() -> None:
    image = events.ImageSeen(**head("builder", 10), path="images/1.png")
    found = fed()._receive_event(placed(image, agent_dir=Path("/root/agents/builder")))
    assert found is not None and cast(Any, found.event).path == "/root/agents/builder/images/1.png"


def test_a_snapshot_has_all_agents_their_asks_the_sessions_and_the_teams() -> None:
    here = Here()
    feed = fed(here)
    feed._standing = [team().shown]
    found = feed._make_snapshot()
    wanted = snapshot()
    assert (found.agents, found.sessions, found.asks) == (wanted.agents, wanted.sessions, [(PROJECT, ASK)])
    assert found.teams == [team().shown]
    assert here.asked == [["asker"], ["builder", "asker", "writer"]]


def test_nobody_is_asked_for_asks_where_none_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Here()
    monkeypatch.setattr(here, "status_all", lambda: [(PROJECT, [agent("a"), agent("b", running=running())])])
    assert (fed(here)._make_snapshot().asks, here.asked) == ([], [["a", "b"]])


@pytest.mark.parametrize(("wanted", "shown"), [("docs", "docs"), ("", "first"), ("gone", "first")])
def test_the_wanted_team_is_shown_or_the_first(monkeypatch: pytest.MonkeyPatch, wanted: str, shown: str) -> None:
    asked: list[Any] = []

    class Teams:
        def __init__(self, environ: Any, *, claude_homes: Any) -> None:
            asked.append((environ, claude_homes))

        def teams(self) -> Any:
            return [SimpleNamespace(team="first"), SimpleNamespace(team="docs")]

        def show(self, name: str) -> Any:
            return f"shown {name}"

        def tasks(self, name: str) -> Any:
            return f"tasks {name}"

        def mail(self, name: str, *, by_thread: bool) -> Any:
            return f"mail {name} {by_thread}"

    monkeypatch.setattr("beam.TeamsHere", Teams, raising=False)
    feed = fed(claude_homes=["/c"])
    found = cast(Any, feed._team_snapshot(wanted))
    assert (found.shown, found.tasks, found.mail) == (f"shown {shown}", f"tasks {shown}", f"mail {shown} True")
    assert ([line.team for line in feed.teams], asked) == (["first", "docs"], [({"HOME": "/h"}, ("/c",))])
    monkeypatch.setattr(Teams, "teams", lambda self: [])
    assert feed._team_snapshot(wanted) is None


def test_everything_is_returned_once() -> None:
    feed = fed()
    feed._events.extend(story())
    feed._snapshot, feed._team = snapshot(), team()
    assert (len(feed.drain()), feed.drain()) == (6, [])
    assert (feed.take_snapshot() is not None, feed.take_snapshot()) == (True, None)
    assert (feed.take_team() is not None, feed.take_team()) == (True, None)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BeamError("the root is gone", "a hint"), "the root is gone"),
        (OSError("no such disk"), "no such disk"),
        (ValueError("a bug"), "ValueError: a bug"),
    ],
)
def test_an_error_is_reported_and_the_reading_goes_on(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    feed, slept, calls = fed(), list[float](), list[int]()
    monkeypatch.setattr(feeds.time, "sleep", slept.append)

    def target() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise error
        feed.close()

    feed._keep_running(target)
    assert (feed.trouble, slept, len(calls), feed._wake.is_set()) == (said, [2.0], 2, True)


def test_snapshots_come_every_two_seconds_or_more_rarely_where_they_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    feed, waits, now = fed(), list[float](), [100.0]
    takes = iter([0.01, 0.1, 0.01])
    counted: list[float] = []

    def make() -> Any:
        now[0] += next(takes)
        return snapshot()

    def wait(seconds: float) -> None:
        waits.append(round(seconds, 3))
        now[0] += seconds
        if len(waits) == 3:
            feed._is_over = True

    def count() -> None:
        counted.append(round(now[0], 2))
        now[0] += 1.0

    monkeypatch.setattr(feeds.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(feed, "_make_snapshot", make)
    monkeypatch.setattr(feed, "_read_usage", count)
    monkeypatch.setattr(feed._wake, "wait", wait)
    feed._standing = [team().shown]
    feed._take_snapshots()
    assert (waits, counted, feed.take_snapshot() is not None) == ([2.0, 4.0, 2.0], [100.01], True)


def test_the_team_in_the_pane_is_read_every_three_seconds_and_at_once_where_somebody_changed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed, now, read = fed(), [100.0], list[float]()

    def wait(seconds: float) -> None:
        now[0] += seconds
        if now[0] == 104.0:
            feed.refresh_soon()
        feed._is_over = now[0] > 110

    def look(name: str) -> Any:
        read.append(now[0])
        return team()

    monkeypatch.setattr(feeds.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(feed, "_team_snapshot", look)
    monkeypatch.setattr(feed._wake, "wait", wait)
    feed.wanted_team = "docs"
    feed._take_snapshots()
    assert (read, feed.take_team() is not None) == ([100.0, 104.0, 108.0], True)
    assert not feed._is_refresh_wanted


def test_events_are_read_until_the_board_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    given: dict[str, Any] = {}
    teams = SimpleNamespace(close=lambda: closed.append("teams"))
    foreign = SimpleNamespace(close=lambda: closed.append("foreign"))
    here = Here()

    def view(environ: Any, **more: Any) -> Any:
        given.update(more)
        return teams

    def stream(views: Any, *, history: bool, recent: bool, foreign: Any) -> Any:
        given["history"], given["recent"] = history, recent
        yield [placed(TEXT), placed(TEXT)]
        yield [placed(events.Text(**head("builder", 99), text="old"))]
        feed.close()
        yield []
        raise AssertionError("it was closed")

    here.stream_all = stream  # type: ignore[attr-defined]
    standing = SimpleNamespace(teams=view, standing=lambda *_, **__: [team().shown])
    monkeypatch.setattr("beam.team_views", standing, raising=False)
    monkeypatch.setattr("beam.ForeignSessions", lambda *_, **__: foreign, raising=False)
    monkeypatch.setattr(feeds.time, "sleep", lambda seconds: None)
    feed = fed(here, since=ts(50), claude_homes=["/c"])
    feed._read_events()
    assert (len(feed.drain()), closed, feed._standing) == (2, ["foreign", "teams"], [team().shown])
    assert given == {
        "claude_homes": ("/c",),
        "since": ts(50),
        "with_gone": True,
        "also": [Path("/root/agents")],
        "history": True,
        "recent": False,
    }
    assert feed._wake.is_set()
