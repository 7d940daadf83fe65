"""`beam proxy`, `proxy why` and `proxy doctor` in this process: what is passed on, printed and returned."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET, Struct

from beam.base.errors import UsageError
from beam.cli import proxy
from beam.cli.context import Context
from beam.cli.model_calls import run_settings, send_settings
from beam.model.events import ModelCalled, RequestDifference
from beam.model.message import ModelCalls
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
            *(ProxyCounts(calls=5, exact=1, minor=2, filled=1, live=1), ("--replay", "x", "--fill")),
            *("5 model calls: 1 exact, 2 minor, 0 major, 0 unmatched, 1 filled, 1 live", 0),
        ),
        (
            *(ProxyCounts(calls=2, major=1, unmatched=1), ("--replay", "x")),
            *("2 model calls: 0 exact, 0 minor, 1 major, 1 unmatched", 1),
        ),
        *(
            (
                *(ProxyCounts(calls=2, exact=2), ("--replay", "x", "--exact-at-least", least)),
                *("2 model calls: 2 exact, 0 minor, 0 major, 0 unmatched", code),
            )
            for least, code in (("2", 0), ("3", 1))
        ),
    ],
)
def test_the_counts_are_reported_and_are_the_exit_code(
    inside: Inside, served: Told, counts: ProxyCounts, words: tuple[str, ...], said: str, code: int
) -> None:
    served.counts = counts  # type: ignore[attr-defined]
    found = inside("proxy", *words)
    assert (found.code, found.err.splitlines()[-1]) == (code, f"beam: {said}")


def test_options_of_a_proxy_are_passed_on(inside: Inside, served: Told) -> None:
    inside("proxy", "--record", "rec")
    (_, named), *_ = served.taken()
    assert {name: value for name, value in named.items() if name != "seen"} == {
        "record": inside.project / "rec",
        "replay": None,
        "upstream": "",
        "fill": False,
        "fork_at": None,
        "fork_model": "",
        "agent": "",
        "port": 0,
        "max_tokens": None,
        "budget_usd": None,
        "token": "",
        "key_fd": None,
        "places": {"cwd": str(inside.project), "home": str(inside.project.parent / "home")},
    }
    words = [
        "--replay",
        "rec",
        "--upstream",
        "https://x",
        "--fill",
        "--fork-at",
        "2",
        "--model",
        "m",
        "--agent",
        "claude",
    ]
    words += ["--port", "81", "--max-tokens", "5", "--budget", "0.5", "--key-fd", "3", "--token", "t"]
    inside("proxy", *words, "--place", "cwd=there", "--place", "a=/b=c")
    (_, named), *_ = served.taken()
    assert {name: value for name, value in named.items() if name != "seen"} == {
        "record": None,
        "replay": inside.project / "rec",
        "upstream": "https://x",
        "fill": True,
        "fork_at": 2,
        "fork_model": "m",
        "agent": "claude",
        "port": 81,
        "max_tokens": 5,
        "budget_usd": 0.5,
        "token": "t",
        "key_fd": 3,
        "places": {"cwd": str(inside.project / "there"), "a": "/b=c"},
    }


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
    assert none.err == "beam: no model call of bot-1 went through a proxy: beam send --replay-model DIR\n"
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
    found = inside("proxy", "doctor", "bot", "hi", "--upstream", "https://x")
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
    assert (found.code, told.calls) == (13, [(("bot", "hi"), {"upstream": "https://x"})])
    found = inside("proxy", "doctor", "bot", "hi")
    assert found.out.splitlines()[1:] == ["  every request was the same"] and found.code == 0
    found = inside("proxy", "doctor", "bot", "hi")
    assert found.out.count("\n") == 1 and found.code == 13, "no call was made"
    assert inside("proxy", "doctor", "bot", "hi", "--json").json["counts"]["exact"] == 1


# -- the options of `send` and `run` -----------------------------------------------------------------------------------

NOTHING: dict[str, Any] = {
    "record": None,
    "replay": None,
    "fill": False,
    "exact_at_least": None,
    "upstream": None,
    "shield": False,
    "key_fd": None,
    "secret": None,
}


@pytest.mark.parametrize(
    ("given", "calls"),
    [
        ({}, UNSET),
        ({"record": "/r"}, ModelCalls(record="/r")),
        ({"replay": "/r", "fill": True, "exact_at_least": 0}, ModelCalls(replay="/r", fill=True, exact_at_least=0)),
        ({"upstream": "https://x"}, ModelCalls(upstream="https://x")),
        ({"shield": True, "secret": "work"}, ModelCalls(shield=True, secret="work")),
        ({"shield": True, "key_fd": 3}, ModelCalls(shield=True)),
        ({"shield": True, "replay": "/r"}, ModelCalls(shield=True, replay="/r")),
    ],
)
def test_the_options_about_model_calls_go_with_the_message(given: dict[str, Any], calls: object) -> None:
    assert send_settings(Context(), **{**NOTHING, **given}) == calls


FROM_ONE_PLACE = "--shield needs the key from one place (--key-fd 3 3< <(a command that prints it), or --secret NAME)"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"record": "/r", "replay": "/s"},
            "--record-model and --replay-model don't go together (with --fill a replay records too)",
        ),
        ({"fill": True}, "--fill is for a replay (add --replay-model DIR)"),
        ({"exact_at_least": 0, "record": "/r"}, "--exact-at-least is for a replay (add --replay-model DIR)"),
        ({"key_fd": 3}, "--key-fd and --secret are for --shield (add --shield)"),
        ({"secret": "work"}, "--key-fd and --secret are for --shield (add --shield)"),
        ({"shield": True}, FROM_ONE_PLACE),
        ({"shield": True, "key_fd": 3, "secret": "work"}, FROM_ONE_PLACE),
        ({"shield": True, "replay": "/r", "fill": True}, FROM_ONE_PLACE),
    ],
)
def test_what_does_not_go_together_about_model_calls_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        send_settings(Context(), **{**NOTHING, **given})
    assert str(raised.value) == said


def test_a_run_refuses_the_same() -> None:
    options: dict[str, Any] = {name: NOTHING[name] for name in ("record", "replay", "fill", "exact_at_least")}
    with pytest.raises(UsageError, match="--fill is for a replay"):
        run_settings(Context(), **{**options, "fill": True}, turns=None)
    found = run_settings(Context(), **{**options, "replay": "/r", "fill": True, "exact_at_least": 2}, turns=None)
    assert found is not None and (found.fill, found.exact_at_least) == (True, 2)
