"""Points in time: what people write, and what events have."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from beam.base import moments
from beam.base.clock import parse_rfc3339
from beam.base.errors import UsageError

NOW = parse_rfc3339("2026-11-23T20:00:00Z")


@pytest.fixture(autouse=True)
def an_hour_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "XXX-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("10m", "2026-11-23T19:50:00.000000Z"),
        ("1h30m", "2026-11-23T18:30:00.000000Z"),
        ("0", "2026-11-23T20:00:00.000000Z"),
        ("2026", "2026-11-23T19:26:14.000000Z"),
        ("14:30", "2026-11-23T13:30:00.000000Z"),
        ("2026-11-20", "2026-11-19T23:00:00.000000Z"),
        ("2026-11-20T08:15", "2026-11-20T07:15:00.000000Z"),
        (" 2026-11-20 08:15:30 ", "2026-11-20T07:15:30.000000Z"),
        ("2026-11-20T08:15Z", "2026-11-20T08:15:00.000000Z"),
        ("2026-11-20T08:15+02:00", "2026-11-20T06:15:00.000000Z"),
    ],
)
def test_a_point_in_time_is_ago_or_local_or_has_an_offset(text: str, moment: str) -> None:
    assert moments.parse(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "25:00", "2026-13-01", "-5m", "10 parsecs", "9" * 500, "1:2:3:4"])
def test_anything_else_is_refused_with_how_to_write_it(text: str) -> None:
    with pytest.raises(UsageError, match="is no point in time") as refused:
        moments.parse(text, NOW)
    assert "14:30" in refused.value.hint
