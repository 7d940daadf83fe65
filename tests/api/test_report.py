"""What agents did, cost and waited for, summed up from events."""

from __future__ import annotations

import re

import pytest

from beam.api.report import turns_of
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
    (line,) = turns_of("a", turn(0, cost_usd=0.5, usage=Usage(input_tokens=10, output_tokens=2)))
    assert (line.agent, line.model, line.turns, line.failures) == ("a", "claude-opus-4-8", 1, {})
    assert (line.worked_s, line.queued_s, line.asked_s) == (10.0, 2.0, 4.0)
    assert (line.cost_usd, line.estimated_usd) == (0.5, None)


def test_sums_add_up_and_keep_the_longest() -> None:
    failed = {"status": Status.FAILED, "class_": Class.AUTH, "duration_s": 1.0}
    first, second = turns_of("a", [*turn(0), *turn(20, **failed)])
    total = first.plus(second)
    assert (total.turns, total.failures) == (2, {"auth": 1})
    assert (total.worked_s, total.worked_most_s, total.asked_s, total.asked_most_s) == (11.0, 10.0, 8.0, 4.0)


def test_turns_that_ended_before_are_left_out() -> None:
    assert len(list(turns_of("a", [*turn(0), *turn(20)], since=at(15)))) == 1


def test_what_has_no_price_of_its_own_is_estimated() -> None:
    (line,) = turns_of("a", turn(0, usage=Usage(input_tokens=1_000_000, output_tokens=0)))
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
