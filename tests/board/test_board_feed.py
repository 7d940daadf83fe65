"""What the feed adds to what it reads: what the members of teams used, counted now and then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from beam import Beam, NotFoundError
from beam.board.feed import Feed
from tests.board.made import team


def fed() -> Feed:
    feed = Feed(cast("Beam", SimpleNamespace(environ={})), lambda _: cast("Beam", None))
    shown = team().shown
    unknown = tuple(structs.replace(each, tokens=None, cost_usd=None) for each in shown.members)
    feed._standing = [structs.replace(shown, members=unknown)]
    return feed


def test_members_have_the_tokens_and_the_cost_that_were_counted_last(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    class Here:
        def __init__(self, environ: object, *, claude_homes: object) -> None:
            asked.append(claude_homes)

        def show(self, name: str) -> Any:
            asked.append(name)
            return structs.replace(team().shown, members=team().shown.members[:1])

    monkeypatch.setattr("beam.TeamsHere", Here, raising=False)
    feed = fed()
    assert [each.tokens for each in feed._with_usage(feed._standing[0]).members] == [None, None]
    feed._read_usage()
    members = feed._with_usage(feed._standing[0]).members
    assert [(each.tokens, each.cost_usd) for each in members] == [(4200, 0.02), (None, None)]
    assert asked == [["/h"], "docs"]


def test_a_team_that_ended_meanwhile_is_counted_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    class Here:
        def __init__(self, environ: object, *, claude_homes: object) -> None:
            raise NotFoundError("there is no team 'docs'")

    monkeypatch.setattr("beam.TeamsHere", Here, raising=False)
    feed = fed()
    feed._read_usage()
    assert feed._with_usage(feed._standing[0]) == feed._standing[0]


@pytest.mark.parametrize("has_team", [True, False])
def test_teams_are_looked_at_as_soon_as_they_are_known(monkeypatch: pytest.MonkeyPatch, has_team: bool) -> None:
    closes = SimpleNamespace(close=lambda: None)
    known = [team().shown] if has_team else []
    views = SimpleNamespace(teams=lambda *_, **__: closes, standing=lambda *_, **__: known)
    monkeypatch.setattr("beam.team_views", views, raising=False)
    monkeypatch.setattr("beam.ForeignSessions", lambda *_, **__: closes, raising=False)
    feed = fed()

    def stream_all(*_: object, **__: object) -> Any:
        feed._is_over = True  # after the first batch
        yield []

    feed._beam = cast(
        "Beam",
        SimpleNamespace(environ={}, home=SimpleNamespace(root=Path("/r")), stream_all=stream_all),
    )
    feed._read_events()
    assert feed._standing == known and feed._wake.is_set() == has_team


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotFoundError("no such root"), "no such root"),
        (OSError(5, "Input/output error"), "[Errno 5] Input/output error"),
        (ImportError("half imported"), "ImportError: half imported"),
    ],
)
def test_an_error_in_a_thread_is_reported_and_the_thread_begins_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    monkeypatch.setattr("beam.board.feed._POLL_S", 0.0)
    feed, seen = fed(), []

    def read() -> None:
        seen.append(feed.trouble)
        if len(seen) == 2:
            feed.close()
            return
        raise error

    feed._keep_running(read)
    assert seen == ["", told]


def test_a_pause_follows_each_batch_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    feed = fed()
    monkeypatch.setattr("beam.board.feed.time.sleep", lambda seconds: pauses.append(seconds))
    monkeypatch.setattr(
        feed,
        "_beam",
        SimpleNamespace(
            environ={},
            home=SimpleNamespace(root=Path("/r")),
            stream_all=lambda *_, **__: iter([[], [], []]),
        ),
    )
    monkeypatch.setattr("beam.team_views.teams", lambda *_, **__: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr("beam.team_views.standing", lambda *_, **__: ())
    monkeypatch.setattr("beam.ForeignSessions", lambda *_, **__: SimpleNamespace(close=lambda: None))
    feed._read_events()
    assert len(pauses) == 3 and all(seconds > 0 for seconds in pauses)
