"""`beam proxy`, `proxy why` and `proxy doctor` in this process: what is passed on, printed and returned."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct

from beam.cli import proxy
from beam.model.events import ModelCalled, RequestDifference
from beam.proxy.differences import Difference
from beam.proxy.options import ProxyCounts
from beam.proxy.served import ServedRequest
from tests.support.chatting import outcome
from tests.support.inside import Inside, Told

DIFFERENCE = Difference(path="messages[0]", recorded="a", got=None, characters=3)
SERVED = [
    ServedRequest(number=1, kind="ask", model="m", step="exact", recorded=1),
    ServedRequest(number=2, kind="count", model="m"),
    ServedRequest(number=3, kind="ask", model="m", step="minor", differences=(DIFFERENCE,)),
    ServedRequest(number=4, kind="ask", model="m", step="major", differences=(DIFFERENCE, DIFFERENCE)),
    ServedRequest(number=5, kind="ask", model="m", step="unmatched"),
    ServedRequest(number=6, kind="ask", model="m", step="over", why="the budget\nis spent", differences=(DIFFERENCE,)),
    ServedRequest(number=7, kind="ask", model="m", step="minor"),
]
SAID = [
    "call 1 m: exact",
    "call 3 m: minor, first in messages[0]: 'a' → None",
    "call 4 m: major, first in messages[0]: 'a' → None",
    "call 5 m: unmatched: model call 5 was not recorded, and nothing like it was",
    "call 6 m: over: the budget is spent",
    "call 7 m: minor",
]


@pytest.fixture
def served(told: Told, monkeypatch: pytest.MonkeyPatch) -> Told:
    """A proxy that serves `SERVED` as soon as somebody waits for a signal, and counts what the test says."""

    @contextlib.contextmanager
    def running(**given: Any) -> Iterator[Any]:
        yield SimpleNamespace(url="http://127.0.0.1:1", stop=lambda: told.counts)  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def signals() -> Iterator[Any]:
        yield lambda: [told.calls[-1][1]["seen"](each) for each in SERVED]

    told.replace("proxy", *[running] * 9)
    told.counts = ProxyCounts(calls=6, exact=1)  # type: ignore[attr-defined]
    monkeypatch.setattr(proxy, "_signal_waiter", signals)
    return told


def test_each_model_call_is_reported_and_at_the_end_what_was_exact(inside: Inside, served: Told) -> None:
    found = inside("proxy", "--replay", "rec")
    assert (found.code, found.out) == (0, "http://127.0.0.1:1\n")
    counted = "6 model calls: 1 exact, 0 minor, 0 major, 0 unmatched"
    assert found.err == "".join(f"beam: {line}\n" for line in [*SAID, counted])
    as_json = inside("proxy", "--replay", "rec", "--json")
    url, *calls, counts = as_json.lines
    assert url == {"url": "http://127.0.0.1:1"}
    assert [each["served"]["number"] for each in calls] == [1, 2, 3, 4, 5, 6, 7]
    assert (counts["counts"]["exact"], as_json.err) == (1, "")


@pytest.mark.parametrize(
    ("counts", "words", "said", "code"),
    [
        (ProxyCounts(calls=3, live=3), ("--record", "x"), "3 model calls went to the model", 0),
        (
            *(ProxyCounts(calls=5, exact=1, minor=2, filled=1, live=1), ("--replay", "x", "--on-miss", "live")),
            *("5 model calls: 1 exact, 2 minor, 0 major, 0 unmatched, 1 filled, 1 live", 0),
        ),
        (
            *(ProxyCounts(calls=2, major=1, unmatched=1), ("--replay", "x")),
            *("2 model calls: 0 exact, 0 minor, 1 major, 1 unmatched", 1),
        ),
    ],
)
def test_the_counts_are_reported_and_are_the_exit_code(
    inside: Inside, served: Told, counts: ProxyCounts, words: tuple[str, ...], said: str, code: int
) -> None:
    served.counts = counts  # type: ignore[attr-defined]
    found = inside("proxy", *words)
    assert (found.code, found.err.splitlines()[-1]) == (code, f"beam: {said}")


@pytest.mark.parametrize("word", ["cwd", "=x", "cwd="])
def test_a_place_has_a_name_and_a_folder(inside: Inside, served: Told, word: str) -> None:
    refused = inside("proxy", "--place", word)
    assert (refused.code, served.calls) == (2, [])
    assert refused.err == f"beam: --place {word} is not NAME=DIR; like --place cwd=/srv/project\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_waited_for_and_the_second_has_its_usual_effect(number: signal.Signals) -> None:
    seen: list[int] = []
    before = signal.signal(number, lambda number, _: seen.append(number))
    try:
        with proxy._signal_waiter() as until_one_comes:
            signal.raise_signal(number)
            until_one_comes()
            assert seen == []
            signal.raise_signal(number)
            assert seen == [number]
        signal.raise_signal(number)
        assert seen == [number, number]
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_so_and_nothing_stays_open() -> None:
    others = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    open_before = sorted(Path("/proc/self/fd").iterdir())
    try:
        with proxy._signal_waiter():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) not in others
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == others
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert sorted(Path("/proc/self/fd").iterdir()) == open_before
    finally:
        signal.signal(signal.SIGHUP, before)


def test_how_a_replayed_turn_differed_is_reported_field_by_field(inside: Inside, told: Told) -> None:
    differences = (
        RequestDifference(path="tools", recorded="a\n  b", got=None, characters=3),
        RequestDifference(path="system", recorded=None, got="x", characters=1),
    )
    calls = [
        ModelCalled(n=1, step="exact", model="m", nearest=1),
        ModelCalled(n=2, step="major", model="m", nearest=2, differences=differences, detail="it is\nnew"),
        ModelCalled(n=3, step="live", model="m"),
    ]
    told.replace("model_calls", calls, calls, [])
    found = inside("proxy", "why", "bot-1")
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines() == [
        "call 1 (m): exact, recorded call 1",
        "call 2 (m): major, recorded call 2 it is new",
        "    tools (3 characters)",
        r"    recorded 'a\n  b'",
        "    got      is not there",
        "    system (1 characters)",
        "    recorded is not there",
        "    got      'x'",
        "call 3 (m): live",
    ]
    assert [line["n"] for line in inside("proxy", "why", "bot-1", "--json").lines] == [1, 2, 3]
    none = inside("proxy", "why", "bot-1")
    assert none.out == ""
    assert none.err == "beam: no model call of bot-1 went through a proxy: beam send --replay DIR --depth model\n"
    assert told.calls == [(("bot-1",), {})] * 3


class Determinism(Struct):
    """What `check_determinism` returns."""

    first: Any
    second: Any
    counts: ProxyCounts
    calls: list[ModelCalled] = []
    places: list[tuple[str, int]] = []


def test_what_is_not_deterministic_is_named_with_how_often_it_was(inside: Inside, told: Told) -> None:
    fine = outcome()
    place = RequestDifference(path="tools", recorded="a", got="b", characters=1)
    other = RequestDifference(path="system", recorded="c", got="d", characters=2)
    calls = [ModelCalled(n=1, step="exact"), ModelCalled(n=2, step="minor", differences=(place, other))]
    minor = Determinism(
        first=fine,
        second=outcome(reason="it\nended"),
        counts=ProxyCounts(calls=2, exact=1, minor=1),
        calls=calls,
        places=[("tools", 2), ("system", 1)],
    )
    same = Determinism(first=fine, second=fine, counts=ProxyCounts(calls=1, exact=1))
    none = Determinism(first=fine, second=fine, counts=ProxyCounts())
    told.replace("check_determinism", minor, same, none, same)
    found = inside("proxy", "doctor", "bot", "hi")
    assert found.out.splitlines() == [
        "first completed, second completed: 1 exact, 1 minor, 0 major, 0 unmatched",
        "  it ended",
        "  tools: in 2 requests",
        "    recorded 'a'",
        "    got      'b'",
        "  system: in 1 request",
        "    recorded 'c'",
        "    got      'd'",
    ]
    assert (found.code, told.calls) == (13, [(("bot", "hi"), {})])
    found = inside("proxy", "doctor", "bot", "hi")
    assert found.out.splitlines()[1:] == ["  every request was the same"] and found.code == 0
    found = inside("proxy", "doctor", "bot", "hi")
    assert found.out.count("\n") == 1 and found.code == 13, "no call was made"
    assert inside("proxy", "doctor", "bot", "hi", "--json").json["counts"]["exact"] == 1
