"""Figures, prices, notifications, rules and requests as values: what is made of them, whole."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from beam.model import events, outcome, prices, screen_profile
from beam.model.message import RuleLists
from beam.model.notification import Notification, NotifyTarget, ValueReference
from beam.model.outcome import Class, Denial, ModelCallCounts, ModelUsage, Point, Status, Total, Usage, Verdict
from beam.model.prices import Tokens

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


def test_a_screen_is_overridden_field_by_field() -> None:
    generic = screen_profile.GENERIC_PROFILE
    assert generic.stall_seconds == 20.0
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
