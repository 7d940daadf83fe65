"""Figures, prices, notifications, rules and requests as values: what is made of them, whole."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from beam.model import events, outcome, prices, screen_profile
from beam.model.notification import Notification, NotifyTarget, ValueReference
from beam.model.outcome import Class, Denial, ModelCallCounts, ModelUsage, Point, Status, Total, Usage, Verdict
from beam.model.prices import Tokens
from beam.model.rule_lists import RuleLists

# -- figures that no turn can have -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figure", "is_taken"),
    [(0, True), (10**12, True), (10**12 + 1, False), (-1, False), (None, True), (float("nan"), False)],
)
def test_a_count_is_taken_within_its_bounds(figure: Any, is_taken: bool) -> None:
    seen = events.UsageSeen(usage=Usage(input_tokens=figure, output_tokens=5))
    expected = (seen, ()) if is_taken else (events.UsageSeen(usage=Usage(output_tokens=5)), ("input_tokens",))
    assert outcome.without_impossible_figures(seen) == expected


@pytest.mark.parametrize(("usd", "is_taken"), [(0.0, True), (1e6, True), (1000000.5, False), (-0.1, False)])
def test_a_cost_is_taken_within_its_bounds(usd: float, is_taken: bool) -> None:
    seen = events.TurnFinished(attempt=1, status=Status.COMPLETED, cost_usd=usd)
    expected = (seen, ()) if is_taken else (structs.replace(seen, cost_usd=None), ("cost_usd",))
    assert outcome.without_impossible_figures(seen) == expected


def test_every_figure_out_of_range_is_left_out_and_named_once_wherever_it_stands() -> None:
    models = (
        ModelUsage(model="a", usage=Usage(input_tokens=-1, output_tokens=1), cost_usd=-1.0),
        ModelUsage(model="b", usage=Usage(input_tokens=-1), cost_usd=0.5),
    )
    finished = events.TurnFinished(
        attempt=1,
        status=Status.COMPLETED,
        usage=Usage(output_tokens=-5),
        models=models,
        api_s=-1.0,
        lines_added=-1,
        lines_removed=3,
    )
    left = (
        ModelUsage(model="a", usage=Usage(output_tokens=1)),
        ModelUsage(model="b", usage=Usage(), cost_usd=0.5),
    )
    expected = structs.replace(finished, usage=Usage(), models=left, api_s=None, lines_added=None)
    assert outcome.without_impossible_figures(finished) == (
        expected,
        ("lines_added", "api_s", "output_tokens", "cost_usd", "input_tokens"),
    )
    total = Total(input_tokens=-1, calls=2, cost_usd=-1.0, models=models[1:])
    seen = events.UsageSeen(usage=Usage(), total=total)
    mended = structs.replace(total, input_tokens=None, cost_usd=None, models=left[1:])
    assert outcome.without_impossible_figures(seen) == (
        structs.replace(seen, total=mended),
        ("input_tokens", "cost_usd"),
    )


# -- sums, prices, outcomes --------------------------------------------------------------------------------------------

ALL = Usage(input_tokens=9, output_tokens=8, cached_tokens=7, reasoning_tokens=6, cache_write_tokens=5, calls=4)


def test_usage_is_added_and_taken_away_figure_by_figure() -> None:
    one = Usage(input_tokens=1, output_tokens=2, cached_tokens=3, reasoning_tokens=4, cache_write_tokens=5, calls=6)
    assert structs.asdict(ALL.plus(one)) == {
        "input_tokens": 10,
        "output_tokens": 10,
        "cached_tokens": 10,
        "reasoning_tokens": 10,
        "cache_write_tokens": 10,
        "calls": 10,
    }
    assert structs.asdict(ALL.minus(one)) == {
        "input_tokens": 8,
        "output_tokens": 6,
        "cached_tokens": 4,
        "reasoning_tokens": 2,
        "cache_write_tokens": 0,
        "calls": 0,
    }
    assert (Usage().plus(one), one.plus(Usage()), Usage().plus(Usage())) == (one, one, Usage())
    assert (ALL.minus(Usage()), Usage().minus(one)) == (ALL, Usage())


def test_tokens_are_added_and_taken_away_figure_by_figure() -> None:
    many, few = Tokens(10, 20, 30, 40), Tokens(1, 2, 3, 4)
    assert (many.plus(few), many.minus(few), few.minus(many), many.total) == (
        Tokens(11, 22, 33, 44),
        Tokens(9, 18, 27, 36),
        Tokens(),
        100,
    )


def test_the_price_list_of_its_date() -> None:
    kinds = (Tokens(fresh=10**6), Tokens(output=10**6), Tokens(cache_read=10**6), Tokens(cache_write=10**6))
    found = {model: tuple(round(prices.cost_usd(model, one) or 0, 6) for one in kinds) for model in prices._TABLE}
    assert (prices.PRICES_AS_OF, found) == (
        "2026-11-21",
        {
            "claude-opus-5-5": (4.0, 20.0, 0.2, 5.0),
            "claude-opus-5": (5.0, 25.0, 0.5, 6.25),
            "claude-opus-4-8": (5.0, 25.0, 0.5, 6.25),
            "claude-opus-4-7": (5.0, 25.0, 0.5, 6.25),
            "claude-opus-4-6": (5.0, 25.0, 0.5, 6.25),
            "claude-opus-4-5": (5.0, 25.0, 0.5, 6.25),
            "claude-opus-4-1": (15.0, 75.0, 1.5, 18.75),
            "claude-opus-4": (15.0, 75.0, 1.5, 18.75),
            "claude-sonnet-5-5": (2.0, 10.0, 0.1, 2.5),
            "claude-sonnet-5": (2.0, 10.0, 0.2, 2.5),
            "claude-sonnet-4-6": (3.0, 15.0, 0.3, 3.75),
            "claude-sonnet-4-5": (3.0, 15.0, 0.3, 3.75),
            "claude-sonnet-4": (3.0, 15.0, 0.3, 3.75),
            "claude-haiku-4-5": (1.0, 5.0, 0.1, 1.25),
            "claude-3-5-haiku": (0.8, 4.0, 0.08, 1.0),
            "gpt-6-astra": (10.0, 50.0, 1.0, 12.5),
            "gpt-6-sol": (2.0, 10.0, 0.2, 2.5),
            "gpt-6-luna": (0.1, 0.5, 0.01, 0.125),
            "gpt-5.6-sol": (4.0, 20.0, 0.4, 5.0),
            "gpt-5.6-terra": (2.0, 12.0, 0.2, 2.5),
            "gpt-5.6-luna": (0.2, 1.2, 0.02, 0.25),
            "gpt-5.5": (5.0, 30.0, 0.5, 5.0),
            "gpt-5.4": (2.5, 15.0, 0.25, 2.5),
            "gpt-5.4-mini": (0.75, 4.5, 0.075, 0.75),
            "gpt-5.3-codex": (1.75, 14.0, 0.175, 1.75),
            "gpt-5.2": (1.75, 14.0, 0.175, 1.75),
            "gpt-5.2-codex": (1.75, 14.0, 0.175, 1.75),
            "gpt-5.1": (1.25, 10.0, 0.125, 1.25),
            "gpt-5.1-codex": (1.25, 10.0, 0.125, 1.25),
            "gpt-5.1-codex-max": (1.25, 10.0, 0.125, 1.25),
            "gpt-5.1-codex-mini": (0.25, 2.0, 0.025, 0.25),
            "gpt-5": (1.25, 10.0, 0.125, 1.25),
            "gpt-5-codex": (1.25, 10.0, 0.125, 1.25),
            "gpt-5-mini": (0.25, 2.0, 0.025, 0.25),
            "gemini-3.8-flash": (0.75, 3.75, 0.075, 0.75),
            "gemini-3.7-flash": (0.75, 3.75, 0.075, 0.75),
            "gemini-3.6-flash": (0.75, 3.75, 0.075, 0.75),
            "gemini-3.5-flash": (1.5, 9.0, 0.15, 1.5),
            "gemini-3.5-flash-lite": (0.3, 2.5, 0.03, 0.3),
            "gemini-3.1-pro-preview": (2.0, 12.0, 0.2, 2.0),
            "gemini-3.1-flash-lite": (0.25, 1.5, 0.025, 0.25),
            "gemini-3-pro-preview": (2.0, 12.0, 0.2, 2.0),
            "gemini-3-flash-preview": (0.5, 3.0, 0.05, 0.5),
            "gemini-2.5-pro": (1.25, 10.0, 0.125, 1.25),
            "gemini-2.5-flash": (0.3, 2.5, 0.03, 0.3),
            "gemini-2.5-flash-lite": (0.1, 0.4, 0.01, 0.1),
        },
    )


@pytest.mark.parametrize(
    ("usage", "usd"),
    [
        (Usage(input_tokens=10**6), None),
        (Usage(output_tokens=10**6), None),
        (Usage(input_tokens=10**6, output_tokens=0), 1.0),
        (Usage(input_tokens=0, output_tokens=10**6), 5.0),
        (Usage(input_tokens=0, output_tokens=0, cached_tokens=10**6), 0.1),
        (Usage(input_tokens=10**6, output_tokens=0, cache_write_tokens=10**6), 1.25),
        (Usage(input_tokens=0, output_tokens=0, cache_write_tokens=10**6), 1.25),
    ],
)
def test_a_turns_price_is_that_of_each_kind_of_token(usage: Usage, usd: float | None) -> None:
    assert prices.estimated_usd("claude-haiku-4-5", usage) == usd


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (b"null", "Bash"),
        (b"{half", "Bash"),
        (b"[" * 5000, "Bash"),
        (b"[1]", "Bash"),
        (b"{}", "Bash"),
        (b'{"command": 5, "other": ""}', "Bash"),
        (b'{"x": "first", "y": "second"}', "Bash (first)"),
        (b'{"x": "first", "reason": "why", "path": "p", "command": "ls  \\n -l"}', "Bash (ls -l)"),
        (b'{"url": "u", "path": "p"}', "Bash (p)"),
        (b'{"filePath": "f", "absolute_path": "a"}', "Bash (f)"),
        (b'{"command": "' + b"x" * 80 + b'"}', f"Bash ({'x' * 80})"),
        (b'{"command": "' + b"x" * 81 + b'"}', f"Bash ({'x' * 79}…)"),
    ],
    ids=range(12),
)
def test_a_denial_is_reported_by_its_tool_and_its_argument(given: bytes, text: str) -> None:
    assert outcome.denial_text(Denial(tool="Bash", input=Raw(given))) == text


@pytest.mark.parametrize("class_", [None, *Class])
def test_the_exit_code_of_each_status_and_class(class_: Class | None) -> None:
    assert {str(status): int(outcome.exit_code(status, class_)) for status in Status} == _CODES[str(class_)]


def test_a_proxys_counts_are_reported_whole() -> None:
    counts = ModelCallCounts(calls=9, live=1, exact=2, minor=3, major=4, unmatched=5)
    told = "9 model calls: 2 exact, 3 minor, 4 major, 5 unmatched, 1 live"
    assert (counts.told, structs.replace(counts, filled=6).told) == (told, f"{told}, 6 filled")


def test_a_verdict_is_an_event_and_that_an_outcome_with_nothing_lost() -> None:
    verdict = Verdict(
        status=Status.FAILED,
        class_=Class.AUTH,
        reason="log in",
        reply="hi",
        session_id="s",
        session="resumed",
        model="opus",
        usage=ALL,
        cost_usd=0.1234567891234,
        models=(ModelUsage(model="opus"),),
        api_s=1.5,
        lines_added=2,
        lines_removed=3,
        denials=(Denial(tool="Bash"),),
        structured=Raw(b"{}"),
        lossy=True,
        evidence="osc",
        point=Point(begins="b"),
        model_calls=ModelCallCounts(calls=1),
    )
    event = events.turn_finished(verdict, attempt=2, duration_s=4.0, images=("a.png",), via="exec")
    same = {name: getattr(verdict, name) for name in verdict.__struct_fields__ if name != "cost_usd"}
    assert {name: getattr(event, name) for name in same} == same
    assert (event.cost_usd, event.exit_code, event.attempt, event.duration_s) == (0.123456789, 1, 2, 4.0)
    stamped = structs.replace(event, message_id="m", agent="a", turn=3)
    found = events.outcome_of(stamped, "/root/agents/a")
    assert {name: getattr(found, name) for name in same} == same
    assert (found.message_id, found.agent, found.turn, found.attempt, found.via) == ("m", "a", 3, 2, "exec")
    assert found.images == ("/root/agents/a/a.png",)
    assert events.outcome_of(stamped).images == ("a.png",)
    assert events.outcome_of(structs.replace(event, images=msgspec.UNSET), "/x").images is msgspec.UNSET
    assert events.outcome_of(event).message_id == ""


def test_a_dead_letter_is_an_outcome() -> None:
    dead = events.MessageDead(
        message_id="m",
        agent="a",
        turn=3,
        attempt=2,
        reason="failed",
        detail="boom",
        status=Status.FAILED,
        class_=Class.CRASHED,
    )
    found = events.outcome_of(dead)
    expected = outcome.Outcome(
        message_id="m",
        agent="a",
        turn=3,
        attempt=2,
        status=Status.FAILED,
        class_=Class.CRASHED,
        reason="boom",
        exit_code=1,
    )
    assert found == expected
    assert events.outcome_of(structs.replace(dead, detail="", message_id=None)) == structs.replace(
        expected, reason="failed", message_id=""
    )


def test_an_image_has_its_whole_path_where_its_agents_directory_is_known() -> None:
    image = events.ImageSeen(path="images/1.png")
    assert events.with_image_in(image, "/root/agents/a").path == "/root/agents/a/images/1.png"
    assert events.with_image_in(image, "") == image
    assert events.with_image_in(structs.replace(image, path=""), "/root") == structs.replace(image, path="")
    text = events.Text(text="hi")
    assert events.with_image_in(text, "/root") is text


def test_lines_are_read_together_or_each_by_itself() -> None:
    one, two = (events.encode(events.Text(text=text)) + b"\n" for text in "ab")
    assert events.decode_lines(one + two) == [events.Text(text="a"), events.Text(text="b")]
    for lines in (one + b"\n" + two, one + b'{"type":"tea.made"}\n', one + b"{half\n", one + two[:-1] + b" " + one):
        assert events.decode_lines(lines) is None
    unknown = events.decode(b'{"type":"tea.made","v":2,"seq":4,"x":"\xff"}')
    assert isinstance(unknown, events.Unknown)
    assert (unknown.what, unknown.v, unknown.seq, unknown.raw) == (
        "tea.made",
        2,
        4,
        '{"type":"tea.made","v":2,"seq":4,"x":"\ufffd"}',
    )


# -- rules, screens, notifications -------------------------------------------------------------------------------------


def test_rules_of_two_are_those_of_both_each_once() -> None:
    one = RuleLists(deny=("a", "b"), ask=("c",), allow=("d",))
    assert one.plus(RuleLists(deny=("b", "e"), ask=("c", "f"), allow=("g",))) == RuleLists(
        deny=("a", "b", "e"), ask=("c", "f"), allow=("d", "g")
    )


def test_the_fields_of_a_screen_that_are_patterns_and_how_each_is_used() -> None:
    found = {
        kind.__name__: {name: (one.whole_screen, one.group) for name, one in them.items()}
        for kind, them in screen_profile.PATTERN_FIELDS.items()
    }
    assert found == {
        "Profile": {
            "above": (False, False),
            "below": (False, False),
            "placeholders": (False, False),
            "pasted": (False, False),
            "more": (False, False),
            "busy_rows": (False, False),
            "between_rows": (False, False),
            "waits_rows": (False, False),
            "error_rows": (False, False),
            "cut_rows": (False, False),
            "ready_rows": (False, False),
            "resumed_rows": (False, False),
            "titles_busy": (False, False),
            "titles_idle": (False, False),
            "titles_asking": (False, False),
            "done_rows": (False, False),
            "noise_rows": (False, False),
            "bullet": (False, False),
            "special": (False, False),
            "never": (False, False),
            "prompt": (False, True),
            "echo_rows": (False, True),
            "session": (False, True),
            "frame": (True, False),
            "warning": (True, False),
            "failed": (True, True),
        },
        "Dialog": {
            "match": (True, False),
            "subject": (True, False),
            "detail": (True, False),
            "always_row": (True, False),
            "first": (False, False),
            "body": (False, False),
        },
    }
    profile = screen_profile.Profile
    assert screen_profile.patterns_of(profile, "prompt", "> ") == ("> ",)
    assert screen_profile.patterns_of(profile, "busy_rows", ("a", "b")) == ("a", "b")
    assert screen_profile.patterns_of(profile, "zone", 4) == () == screen_profile.patterns_of(profile, "submit", "\r")
    assert screen_profile.patterns_of(profile, "prompt", None) == ()


def test_a_screen_is_overridden_field_by_field() -> None:
    generic = screen_profile.GENERIC_PROFILE
    assert (generic.name, generic.stall_seconds) == ("generic", 20.0)
    assert screen_profile.override_fields(generic, {}) is generic
    changed = screen_profile.override_fields(
        generic, {"rows": 5, "quit": ["x"], "dialogs": [{"name": "d", "match": "m"}]}
    )
    dialogs = (screen_profile.Dialog(name="d", match="m"),)
    assert changed == structs.replace(generic, rows=5, quit=("x",), dialogs=dialogs)


def note(event: str, agent: str = "a") -> Notification:
    return Notification(id="i", event=event, at="t", agent=agent, project="p", text="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("on", "agents", "event", "agent", "is_wanted"),
    [
        (("ask",), (), "ask", "a", True),
        (("ask",), (), "failed", "a", False),
        (("failed",), (), "budget", "a", True),
        (("ask",), (), "budget", "a", False),
        (("budget",), (), "failed", "a", False),
        (("ask",), ("a",), "ask", "a", True),
        (("ask",), ("b",), "ask", "a", False),
        (("ask",), ("b",), "test", "a", True),
    ],
)
def test_a_target_wants_its_occasions_of_its_agents(
    on: Any, agents: tuple[str, ...], event: str, agent: str, is_wanted: bool
) -> None:
    assert NotifyTarget(on=on, agents=agents, command=("x",)).wants(note(event, agent)) is is_wanted


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"command": ("notify-send", "beam")}, "notify-send beam"),
        ({"webhook": "https://example.org/secret/path"}, "https://example.org/…"),
        ({"webhook": ValueReference(env="HOOK")}, "webhook of $HOOK"),
        ({"webhook": ValueReference(file="/f")}, "webhook in /f"),
        ({}, "/…"),
    ],
)
def test_a_target_is_named_without_what_may_be_a_secret(given: dict[str, Any], name: str) -> None:
    target = NotifyTarget(on=("ask",), **given)
    assert target.named() == name
    assert len(target.key) == 16 and target.key != NotifyTarget(on=("failed",), **given).key


_CODES = {
    "None": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "auth": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "rate_limit": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "overloaded": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "context_overflow": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "network": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "stalled": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "crashed": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "bad_request": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "schema": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "empty": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "stopped": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "unsupported": {
        "completed": 0,
        "failed": 10,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "not_installed": {
        "completed": 0,
        "failed": 4,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
    "unknown": {
        "completed": 0,
        "failed": 1,
        "refused": 6,
        "truncated": 11,
        "denied": 5,
        "timeout": 3,
        "cancelled": 9,
        "limit": 7,
        "unknown": 8,
    },
}
