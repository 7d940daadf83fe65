"""Clocks, steps, texts and bounds: each boundary, and whole results."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import datetime
from types import SimpleNamespace

import pytest
import yaml
from msgspec import Struct

from beam.base import clock, durations, errors, faults, moments, patterns, yaml_bounds
from beam.base.clock import Awake, Steps, local_time, parse_rfc3339, recorded_ns, rfc3339, run_async, run_blocking
from beam.base.digest import blake2b, sha256
from beam.base.errors import BeamError, CorruptError, ExitCode, SignalledError, UsageError, nearest
from beam.base.typed_values import escape_surrogates
from tests.support.context import FakeClock
from tests.support.refused import refused

# -- clocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (-62_135_596_800_000_000_000, "0001-01-01T00:00:00.000000Z"),
        (-62_135_596_800_000_000_001, "0001-01-01T00:00:00.000000Z"),
        (253_402_300_799_999_999_999, "9999-12-31T23:59:59.999999Z"),
        (253_402_300_800_000_000_000, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_a_time_is_written_in_one_form(now_ns: int, text: str) -> None:
    assert rfc3339(now_ns) == text


def test_a_time_is_read_with_or_without_an_offset() -> None:
    assert parse_rfc3339("1970-01-01T01:00:00.000001+01:00") == parse_rfc3339("1970-01-01T00:00:00.000001") == 1000
    assert local_time("2026-01-01T12:30:05Z") == datetime.fromtimestamp(1_767_270_605).strftime("%H:%M:%S")
    assert recorded_ns("1970-01-01T00:00:01Z") == 1_000_000_000
    with refused(CorruptError, f"{'x' * 80!r} is not a time that beam wrote"):
        recorded_ns("x" * 81)


def test_a_clock_that_was_asleep_does_not_count_that() -> None:
    inner = FakeClock()
    clock = Awake(inner)
    seen = []
    for pause in (1.0, 2.0, 2.1, 1.0, 50.0, 0.5):
        inner.sleep(pause)
        seen.append(clock.monotonic())
    assert seen == pytest.approx([1.0, 3.0, 3.0, 4.0, 4.0, 4.5])
    assert clock.now_ns() == inner.now and clock.random(2) == b"\0\1"


# -- durations and moments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("1.5", 1.5),
        ("1d2h3m4s5ms", 93_784.005),
        ("1 D 2 h", 93_600.0),
        (" 500MS ", 0.5),
        ("366d", 366 * 86_400.0),
        ("31622400", 31_622_400.0),
    ],
)
def test_a_duration_is_the_sum_of_its_units(text: str, seconds: float) -> None:
    assert durations.parse(text) == pytest.approx(seconds)


def test_a_duration_that_is_none_or_too_long_is_reported_with_an_example() -> None:
    hint = "write it like 90s, 5m, 1h30m or 500ms; a number alone is seconds"
    for text in ("", " ", "s", "1x", "-1s", "٣s", "1s1h", "1_0", "x" * 81):
        with refused(UsageError, f"{text[:80]!r} is not a duration", hint, subject=text[:80]):
            durations.parse(text)
    for text in ("31622401", "367d"):
        with refused(UsageError, f"{text!r} is longer than a year", hint, subject=text):
            durations.parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (-1.5, "-1.5s"),
        (0.9994, "999ms"),
        (0.9995, "1s"),
        (1.04, "1s"),
        (9.94, "9.9s"),
        (9.95, "10s"),
        (59.4, "59s"),
        (59.5, "1m00s"),
        (60, "1m00s"),
        (125, "2m05s"),
        (3599, "59m59s"),
        (3600, "1h00m"),
        (5400, "1h30m"),
        (86_399, "23h59m"),
        (86_400, "1d00h"),
        (273_600, "3d04h"),
    ],
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert durations.show(seconds) == text


def test_a_moment_is_an_ago_or_a_time() -> None:
    now = 1_767_270_605_000_000_000
    assert moments.parse(" 10m ", now) == rfc3339(now - 600_000_000_000)
    assert moments.parse("2026-01-01T12:30+02:00", now) == "2026-01-01T10:30:00.000000Z"
    assert moments.parse("2026", now) == rfc3339(now - 2_026_000_000_000)
    today = datetime.fromtimestamp(now / 1e9).astimezone().date()
    midnight = datetime.combine(today, datetime.min.time()).astimezone()
    assert moments.parse("00:00", now) == rfc3339(int(midnight.timestamp()) * 1_000_000_000)
    hint = "write it like 10m (that long ago), 14:30, 2026-11-23 or 2026-11-23T14:30"
    for text in ("0001-01-01T00:00:00", "25:00", "y" * 81, "soon"):
        with refused(UsageError, f"{text[:80]!r} is no point in time", hint, subject=text[:80]):
            moments.parse(text, now)


# -- steps -------------------------------------------------------------------------------------------------------------


def counted(*pauses: float) -> Steps[str]:
    yield from pauses
    return "done"


def test_steps_are_run_with_their_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(clock, "time", SimpleNamespace(sleep=slept.append))
    assert run_blocking(counted(0.5, 2.0)) == "done" and slept == [0.5, 2.0]
    awaited: list[float] = []

    async def sleep(seconds: float) -> None:
        awaited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with asyncio.Runner() as runner:
        assert runner.run(run_async(counted(0.25, 1.0))) == "done"
    assert awaited == [0.25, 1.0]


# -- texts -------------------------------------------------------------------------------------------------------------


class Pair(Struct, frozen=True):
    first: str
    second: object = None


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("a\udcffb", "a\\udcffb"),
        ("ü", "ü"),
        (5, 5),
        (None, None),
        (["\udc80", 1], ["\\udc80", 1]),
        (("\udc80", ("\udc81",)), ("\\udc80", ("\\udc81",))),
        ({"\udc80": ["\udc81"]}, {"\\udc80": ["\\udc81"]}),
        (Pair("\udc80", {"a": "\udc81"}), Pair("\\udc80", {"a": "\\udc81"})),
    ],
)
def test_bytes_that_are_no_text_are_written_out_wherever_they_are(value: object, escaped: object) -> None:
    found = escape_surrogates(value)
    assert found == escaped and type(found) is type(escaped)


def test_the_nearest_word_is_found_whatever_its_case() -> None:
    assert nearest("CLAUD", ["codex", "Claude", "gemini"]) == "Claude"
    assert nearest("zzz", ["codex"]) is None and nearest("x", []) is None
    assert nearest("resume", ["remove"]) is None


def test_digests_are_those_of_the_standard() -> None:
    import hashlib

    assert sha256(b"x").hexdigest() == hashlib.sha256(b"x").hexdigest()
    assert blake2b(b"x", digest_size=8).hexdigest() == hashlib.blake2b(b"x", digest_size=8).hexdigest()


@pytest.mark.parametrize(("depth", "is_fine"), [(31, True), (32, True), (33, False)])
def test_yaml_that_is_large_has_a_depth(depth: int, is_fine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_bounds, "_UNCHECKED_SIZE", (10, 1))
    text = "\n" + "[" * depth + "]" * depth
    if is_fine:
        yaml_bounds.check(text)
        return
    with pytest.raises(ValueError, match=r"^line 2: nested too deeply, or too large with its aliases$"):
        yaml_bounds.check(text)


def test_yaml_that_is_large_has_a_size_and_must_be_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_bounds, "MAX_NODES", 10)
    many = "[" + "a, " * 30 + "]"
    yaml_bounds.check(many)
    monkeypatch.setattr(yaml_bounds, "_UNCHECKED_SIZE", (len(many), 0))
    with pytest.raises(ValueError, match="too large"):
        yaml_bounds.check(many)
    with pytest.raises(yaml.YAMLError):
        yaml_bounds.check("[" * 3)
    monkeypatch.setattr(yaml_bounds, "_UNCHECKED_SIZE", (len(many) - 1, 1000))
    with pytest.raises(ValueError, match="too large"):
        yaml_bounds.check(many)
    monkeypatch.setattr(yaml_bounds, "_UNCHECKED_SIZE", (len(many), 1))
    yaml_bounds.check(many)
    yaml_bounds.check("[" * 1)
    with pytest.raises(yaml.YAMLError):
        yaml_bounds.check("[{")


def test_the_bounds_of_yaml_are_what_people_write() -> None:
    assert (yaml_bounds.MAX_NODES, yaml_bounds.DEEPEST, yaml_bounds._UNCHECKED_SIZE) == (20_000, 32, (65_536, 1000))


# -- errors ------------------------------------------------------------------------------------------------------------


def test_each_error_has_its_kind_and_its_exit_code() -> None:
    found = {
        cls.__name__: (cls.kind, int(cls.exit_code)) for cls in [BeamError, *errors._descendants(BeamError)]
        if cls.__module__ == "beam.base.errors"
    }  # fmt: skip
    assert found == {
        "BeamError": ("usage", 2),
        "UsageError": ("usage", 2),
        "ConfigError": ("config", 2),
        "UntrustedError": ("untrusted", 2),
        "NotFoundError": ("not_found", 4),
        "LimitError": ("limit", 7),
        "UnsupportedError": ("unsupported", 10),
        "UnfinishedError": ("unfinished", 12),
        "SignalledError": ("signalled", 2),
        "DiskError": ("disk", 74),
        "CorruptError": ("corrupt", 74),
        "RefusedFileError": ("corrupt", 74),
        "ShortageError": ("shortage", 1),
    }


def test_an_error_has_what_it_was_given() -> None:
    plain = BeamError("what")
    assert (str(plain), plain.message, plain.hint, plain.subject, plain.kind) == ("what", "what", "", "", "usage")
    whole = BeamError("what", "do", subject="x", kind="other", exit_code=ExitCode.LIMIT)
    assert (str(whole), whole.subject, whole.kind, whole.exit_code) == ("what (do)", "x", "other", 7)
    signalled = SignalledError(15)
    assert (signalled.number, signalled.outcome, signalled.message) == (15, None, "ended by signal 15")
    whole = SignalledError(2, "outcome", message="m", hint="h")
    assert (str(whole), whole.outcome) == ("m (h)", "outcome")
    assert (ExitCode.LIMIT.meaning, ExitCode(7)) == (
        "a limit: queue, hops, turns, budget, circuit, chain",
        ExitCode.LIMIT,
    )


# -- crash points and patterns -----------------------------------------------------------------------------------------


def test_a_point_ends_the_process_only_if_it_is_the_armed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[object] = []
    monkeypatch.setattr(faults.os, "kill", lambda *given: killed.append(given))
    faults.crash_point("put.written")
    monkeypatch.setattr(faults, "_armed_point", "put.written")
    faults.crash_point("put.renamed")
    assert killed == []
    faults.crash_point("put.written")
    assert killed == [(os.getpid(), signal.SIGKILL)]


def test_a_pattern_is_tried_on_hard_rows_of_growing_length(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(patterns, "_takes_long", lambda compiled, text: tried.append(text))
    assert patterns.find_problem("ab", whole_screen=False) == ""
    seeds = [" ", "a", "1", "─", "ab", "b"]
    sizes = [8, 12, 16, 20, 24, 28, 32, 36, 40, 80, 120, 160, 200, 240]
    assert tried == [(seed * size)[:size] + "\0" for seed in seeds for size in sizes]
    tried.clear()
    patterns.find_problem("a", whole_screen=True)
    assert [len(text.replace("\n", "")) - 1 for text in tried[:18]] == [*sizes, 1000, 2000, 4000, 8000]
    assert {len(row) for row in tried[17].removesuffix("\0").split("\n")} == {240, 8000 % 240}


def test_what_is_wrong_with_a_pattern_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert patterns.find_problem("x" * 1001, whole_screen=False) == "longer than 1000 characters"
    assert patterns.find_problem("(", whole_screen=False).startswith("not a regular expression: ")
    monkeypatch.setattr(patterns, "_takes_long", lambda compiled, text: len(text) == 13)
    said = "it takes too long on 12 characters that nearly match; repeat less within what is repeated"
    assert patterns.find_problem("x", whole_screen=False) == said
    assert patterns.count_groups("(a)(?:b)(c)") == 2


@pytest.mark.parametrize(
    ("text", "own"), [(r"\d+(?P<name>xy)[a-f]z$", ["xyz", "xy", "x", "y", "z"]), (r"[abc]*\w", []), ("x", ["x"])]
)
def test_hard_rows_are_made_of_the_patterns_own_characters(text: str, own: list[str]) -> None:
    assert patterns._seeds(text) == [" ", "a", "1", "─", *own]


def test_a_search_takes_long_by_the_processors_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    for took, is_long in ((0.05, False), (0.051, True)):
        times = iter((0.0, took) * 3)
        monkeypatch.setattr(patterns, "time", SimpleNamespace(process_time=lambda times=times: next(times)))
        assert patterns._takes_long(re.compile("a"), "b") is is_long
