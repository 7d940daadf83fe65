"""What agents did, cost and waited for, summed up from events."""

from __future__ import annotations

import re

import pytest

from beam.api import Beam
from beam.api.report import ReportLine, activity, report, turn_lines
from beam.base.errors import UsageError
from beam.model.events import (
    AnyEvent,
    MessageQueued,
    Owner,
    PermissionAsked,
    PermissionDecided,
    TurnFinished,
    TurnStarted,
)
from beam.model.outcome import Class, Status, Usage
from tests.support.cli import Cli
from tests.support.context import SECOND_NS, Root
from tests.support.journals import closed, finished, record, started
from tests.support.refused import refused
from tests.support.terminal import Terminal


def at(second: int) -> str:
    return f"2026-11-24T10:00:{second:02d}.000000Z"


def turn(begin: int, **fields: object) -> list[AnyEvent]:
    ended = {"status": Status.COMPLETED, "model": "claude-opus-4-8", "duration_s": 10.0, **fields}
    return [
        MessageQueued(ts=at(begin), message_id="m", sender="human", queued_at=at(begin)),
        TurnStarted(
            ts=at(begin + 2), message_id="m", owner=Owner(pid=1, start_ticks=1), turn_key="k", adapter="a", via="exec"
        ),
        PermissionAsked(ts=at(begin + 3), ask_id="1", tool="Bash"),
        PermissionDecided(ts=at(begin + 7), ask_id="1", decision="allow"),
        TurnFinished(ts=at(begin + 12), message_id="m", **ended),  # type: ignore[arg-type]
    ]


def test_a_turn_tells_its_work_its_waiting_and_its_cost() -> None:
    (line,) = turn_lines("a", turn(0, cost_usd=0.5, usage=Usage(input_tokens=10, output_tokens=2)))
    assert (line.agent, line.model, line.turns, line.failures) == ("a", "claude-opus-4-8", 1, {})
    assert (line.worked_s, line.queued_s, line.asked_s) == (10.0, 2.0, 4.0)
    assert (line.cost_usd, line.estimated_usd) == (0.5, None)


def test_sums_add_up_and_keep_the_longest() -> None:
    failed = {"status": Status.FAILED, "class_": Class.AUTH, "duration_s": 1.0}
    first, second = turn_lines("a", [*turn(0), *turn(20, **failed)])
    total = first.plus(second)
    assert (total.turns, total.failures) == (2, {"auth": 1})
    assert (total.worked_s, total.worked_most_s, total.asked_s, total.asked_most_s) == (11.0, 10.0, 8.0, 4.0)


@pytest.mark.parametrize(
    ("since", "turns"),
    [
        ("2023-11-14T22:13:20Z", 1),
        ("2023-11-15T00:13:20+02:00", 1),
        ("2023-11-14T20:43:20-01:30", 1),
        ("2023-11-14T20:43:21-01:30", 0),
        ("", 1),
    ],
)
def test_the_time_of_a_python_program_may_have_an_offset_and_no_fraction(root: Root, since: str, turns: int) -> None:
    record(root, "worker", started(), finished(), closed())
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ, clock=root.clock)
    assert beam.report(["worker"], since=since)[-1].turns == turns


def test_a_time_that_is_none_is_refused(root: Root) -> None:
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ, clock=root.clock)
    with refused(UsageError, "`since` is 'yesterday', and not a time", "write it like 2026-07-01T12:00:00Z"):
        beam.report(since="yesterday")


def test_turns_that_ended_before_are_left_out() -> None:
    assert len(list(turn_lines("a", [*turn(0), *turn(20)], since=at(15)))) == 1


def test_what_has_no_price_of_its_own_is_estimated() -> None:
    (line,) = turn_lines("a", turn(0, usage=Usage(input_tokens=1_000_000, output_tokens=0)))
    assert line.cost_usd is None
    assert line.estimated_usd is not None
    assert line.estimated_usd > 0


@pytest.mark.acceptance
def test_the_command_prints_a_line_for_each_agent_and_the_sum(beam: Cli) -> None:
    beam.config("agents:\n  echo:\n    adapter: scripted\n")
    assert beam("report").out == ""
    assert beam("send", "echo", "hello").code == 0
    lines = beam("report", "--json").lines
    assert [(line["agent"], line["turns"], line["failures"]) for line in lines] == [("echo", 1, {}), (None, 1, {})]
    text = beam("report").out.splitlines()
    assert text[0].split("\t")[:3] == ["AGENT", "MODEL", "TURNS"]
    assert text[-1].split("\t")[0] == "total"
    assert beam("report", "--since", "1h", "--json").lines[-1]["turns"] == 1


@pytest.mark.acceptance
@pytest.mark.parametrize("command", [("report",), ("status", "--usage")])
def test_a_terminal_of_80_columns_has_whole_names_and_bars(beam: Cli, command: tuple[str, ...]) -> None:
    (beam.project / "s.yaml").write_text(
        "default: [{usage: {input_tokens: 1000, output_tokens: 200}}, {cost_usd: 0.25}, Done.]\n"
    )
    beam.config("agents:\n  reviewer-of-docs: {adapter: scripted, script: s.yaml}\n")
    for _ in range(2):
        assert beam("send", "reviewer-of-docs", "go").code == 0
    terminal = Terminal(beam, *command)
    assert terminal.end() == 0
    lines = re.sub(r"\x1b\[\d*m", "", terminal.seen).splitlines()
    (line,) = [line for line in lines if line.startswith("reviewer-of-docs")]
    assert "$0.5000" in line
    assert "██████████" in line
    assert all(len(line) <= 80 for line in lines)
    assert "…" not in "".join(lines)


# -- of a root ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_report_has_a_line_for_each_agent_and_model_and_the_sum(root: Root) -> None:
    usage = Usage(input_tokens=10, output_tokens=5)
    failed = {"status": Status.FAILED, "class_": Class.AUTH, "usage": usage, "duration_s": 1.0, "model": "a"}
    record(root, "worker", started(), finished(model="b", usage=usage, cost_usd=0.5, duration_s=2.0), closed())
    record(root, "worker", started(2), finished(2, **failed), closed(2), lane="aaaa")
    record(root, "box", started(), finished(usage=usage, duration_s=3.0), closed())
    record(root, "other", started())
    (segment,) = root.place("other").journal.glob("*.jsonl")
    segment.unlink()
    segment.symlink_to("/dev/null")
    boxed, first, second, damaged, total = report(root.context, ["box", "worker", "other"])
    plain = {"turns": 1, "usage": usage}
    assert boxed == ReportLine(agent="box", model=None, worked_s=3.0, worked_most_s=3.0, **plain)
    assert first == ReportLine(
        agent="worker", model="a", failures={"auth": 1}, worked_s=1.0, worked_most_s=1.0, **plain
    )
    assert second == ReportLine(agent="worker", model="b", cost_usd=0.5, worked_s=2.0, worked_most_s=2.0, **plain)
    assert damaged.error and damaged == ReportLine(agent="other", model=None, error=damaged.error)
    assert total == ReportLine(
        agent=None,
        model=None,
        turns=3,
        failures={"auth": 1},
        usage=Usage(input_tokens=30, output_tokens=15),
        cost_usd=0.5,
        worked_s=6.0,
        worked_most_s=3.0,
    )
    later = report(root.context, ["worker"], since="2030")
    assert later == [ReportLine(agent=None, model=None)]


@pytest.mark.slow
def test_tokens_are_counted_by_day(root: Root) -> None:
    day_ns = 86_400 * SECOND_NS
    for days in (0, 1, 2):
        usage = Usage(input_tokens=10**days, output_tokens=1, cached_tokens=2)
        record(root, "worker", started(), finished(usage=usage), closed(), lane="aaaa" if days == 1 else None)
        root.clock.now += day_ns
    record(root, "other", started(), finished(usage=Usage(input_tokens=9)))
    (segment,) = root.place("other").journal.glob("*.jsonl")
    segment.unlink()
    segment.symlink_to("/dev/null")
    found = activity(root.context, ["worker", "other"], now_ns=root.clock.now, days=4)
    assert found == {"worker": [4, 13, 103, 0], "other": [0, 0, 0, 0]}
    assert activity(root.context, ["worker"], now_ns=root.clock.now, days=3) == {"worker": [13, 103, 0]}
    assert len(activity(root.context, ["box"], now_ns=root.clock.now)["box"]) == 14


def test_turns_whose_figures_lack_some_model_calls_are_counted() -> None:
    whole, lacking = turn_lines("a", [*turn(0), *turn(20, partial=True)])
    assert (whole.partial, lacking.partial, whole.plus(lacking).plus(lacking).partial) == (0, 1, 2)


def test_sums_of_lines_are_exact() -> None:
    first = ReportLine(
        agent="a", model="m", turns=1, failures={"x": 1}, cost_usd=0.25, worked_s=1.0, worked_most_s=1.0,
        queued_s=2.0, queued_most_s=2.0, asked_s=3.0, asked_most_s=3.0,
    )  # fmt: skip
    second = ReportLine(
        agent="b", model="n", turns=2, failures={"x": 1, "y": 2}, estimated_usd=0.5, worked_s=10.0, worked_most_s=9.0,
        queued_s=20.0, queued_most_s=1.0, asked_s=30.0, asked_most_s=4.0,
    )  # fmt: skip
    assert first.plus(second) == ReportLine(
        agent="a", model="m", turns=3, failures={"x": 2, "y": 2}, cost_usd=0.25, estimated_usd=0.5, worked_s=11.0,
        worked_most_s=9.0, queued_s=22.0, queued_most_s=2.0, asked_s=33.0, asked_most_s=4.0,
    )  # fmt: skip
    assert first.plus(first).cost_usd == 0.5
