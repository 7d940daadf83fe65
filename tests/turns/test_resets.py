"""When a usage limit ends, in what a CLI says."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from beam.turns.resets import reset_ns

NOW = datetime(2026, 11, 28, 1, 30, 20, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * 10**9


def end(text: str, zone: str = "UTC") -> str | None:
    found = reset_ns((text,), NOW_NS, ZoneInfo(zone))
    return None if found is None else datetime.fromtimestamp(found / 1e9, UTC).isoformat()[:19]


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        # Claude Code
        ("You've hit your session limit · resets 3:30am", "2026-11-28T03:31:00"),
        ("You've hit your session limit · resets 3am (Europe/Berlin)", "2026-11-28T02:01:00"),
        ("You've hit your weekly limit · resets Dec 3, 3am (UTC)", "2026-12-03T03:01:00"),
        ("You've hit your session limit · resets 1:30am", "2026-11-28T01:31:00"),
        ("You've hit your session limit · resets 1:29am", "2026-11-29T01:30:00"),
        ("Claude AI usage limit reached|1795833000", "2026-11-28T02:30:00"),
        ("rate limit: rejected five_hour, resets at 2026-11-28T05:00:00.000000Z", "2026-11-28T05:00:00"),
        # Codex
        ("You’ve hit your usage limit. Try again at 3:30 PM.", "2026-11-28T15:31:00"),
        ("You’ve hit your usage limit. Try again at Nov 30th, 2026 3:30 PM.", "2026-11-30T15:31:00"),
        ("You've hit your usage limit. Try again in 3 days 4 hours 12 minutes.", "2026-12-01T05:42:20"),
        ("Rate limit reached for gpt-5. Please try again in 19.5s.", "2026-11-28T01:30:39"),
        ("Please try again in 250ms.", "2026-11-28T01:30:20"),
        # Gemini
        ("Quota exceeded for metric. Please retry in 39.9s.", "2026-11-28T01:30:59"),
        ("You have exhausted your capacity on this model. Your quota will reset after 2h13m4s.", "2026-11-28T03:43:24"),
        ("Usage limit reached. Access resets at 9:23 PM UTC.", "2026-11-28T21:24:00"),
        # others
        ("429 Too Many Requests, retry-after: 20", "2026-11-28T01:30:40"),
        ("rate limited (retry-after: 19.5)", "2026-11-28T01:30:39"),
        ("limit reached, retry after 20 seconds", "2026-11-28T01:30:40"),
        ("Available again on Jan 2", None),
    ],
)
def test_the_end_of_a_limit_is_read_in_the_words_of_each_cli(text: str, ends: str | None) -> None:
    assert end(text) == ends


@pytest.mark.parametrize(
    "text",
    [
        "You’ve hit your usage limit. Try again later.",
        "Request rejected (429) · You have hit your limit",
        "resets 13:00am",
        "resets 25:00",
        "resets Feb 30, 3am",
        "resets 3am (Nowhere/At_All)",
        "resets 3am (/etc/passwd)",
        "resets at 2020-01-01T00:00:00Z",
        "resets at 2030-01-01T00:00:00Z",
        "resets at 9999-99-99T00:00:00Z",
        "try again in 99 days",
        "try again in 9999999d 9999999d",
        "retry 3 times",
        "retry-after: 99999999999",
        "again " * 1000,
        "",
    ],
)
def test_words_without_a_possible_time_give_none(text: str) -> None:
    assert end(text) is None


def test_a_time_without_a_zone_is_local_and_the_first_text_that_says_one_counts() -> None:
    assert end("resets 3:30am", "America/New_York") == "2026-11-28T08:31:00"
    assert reset_ns(("nothing", "retry after 5s", "retry after 9s"), NOW_NS, UTC) == NOW_NS + 5 * 10**9
