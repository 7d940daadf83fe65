"""What agents did, cost and waited for, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from beam.api.report import ReportLine
from beam.cli import report
from beam.cli.render import tables
from beam.model.outcome import Usage

HEAD = ["AGENT", "MODEL", "TURNS", "TOKENS", "COST", "WORKED", "QUEUED", "ASKED", "FAILED"]
FULL = ReportLine(
    agent="a", model="opus", turns=3, failures={"timeout": 1, "auth": 2}, error="torn",
    usage=Usage(input_tokens=1000, cached_tokens=200, output_tokens=34, cache_write_tokens=9),
    cost_usd=0.5, estimated_usd=0.25, worked_s=90.0, worked_most_s=60.0, queued_s=3.0, queued_most_s=3.0,
    asked_s=2.0, asked_most_s=1.0,
)  # fmt: skip
BARE = ReportLine(agent="b", model=None, turns=0, usage=Usage(output_tokens=0))
SUM = ReportLine(agent=None, model=None, turns=3, cost_usd=2.0)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for module in (report, tables):
        monkeypatch.setattr(module, "is_terminal", lambda _: True)
    return monkeypatch


def test_a_program_gets_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    report.print_table([FULL, BARE, SUM])
    assert [line.split("\t") for line in capsys.readouterr().out.splitlines()] == [
        HEAD,
        [
            *("a", "opus", "3", "1,234", "~$0.7500"),
            *("1m30s (most 1m00s)", "3s", "2s (most 1s)", "2 auth, 1 timeout, torn"),
        ],
        ["b", "", "0", "0", "", "", "", "", ""],
        ["total", "", "3", "", "$2.0000", "", "", "", ""],
    ]


@pytest.mark.slow
def test_without_agents_there_is_the_head(capsys: pytest.CaptureFixture[str], wide: pytest.MonkeyPatch) -> None:
    wide.setenv("COLUMNS", "120")
    report.print_table([])
    assert capsys.readouterr().out.split() == ["AGENT", "MODEL", "TURNS", "TOKENS", "COST", "SHARE", *HEAD[5:]]


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "worked"), [(109, "1m30s"), (110, "1m30s (most 1m00s)")])
def test_a_terminal_has_bars_and_no_empty_columns_and_the_longest_times_where_there_is_room(
    capsys: pytest.CaptureFixture[str], wide: pytest.MonkeyPatch, columns: int, worked: str
) -> None:
    wide.setenv("COLUMNS", str(columns))
    half = ReportLine(agent="b", model=None, turns=1, estimated_usd=0.375)
    report.print_table([FULL, half, SUM])
    out = capsys.readouterr().out
    first, full, less, total = (line.split() for line in out.splitlines())
    assert (
        len({line.index(mark) for line, mark in zip(out.splitlines(), ("TURNS", "3 ", "1 ", "3 "), strict=True)}) == 1
    )
    assert first == ["AGENT", "MODEL", "TURNS", "TOKENS", "COST", "SHARE", *HEAD[5:]]
    assert full[4:6] == ["~$0.7500", "█" * 10] and " ".join(full[6:]).startswith(f"{worked} 3s ")
    assert less == ["b", "1", "~$0.3750", "█" * 5]
    assert total == ["total", "3", "$2.0000"]


@pytest.mark.parametrize(
    ("more", "cost"),
    [
        ({}, ""),
        ({"cost_usd": 0.0}, "$0.0000"),
        ({"estimated_usd": 0.0}, "~$0.0000"),
        ({"cost_usd": 1.0, "estimated_usd": 0.5}, "~$1.5000"),
    ],
)
def test_a_cost_is_marked_where_some_of_it_is_an_estimate(
    capsys: pytest.CaptureFixture[str], more: dict[str, Any], cost: str
) -> None:
    report.print_table([ReportLine(agent="a", model=None, **more)])
    assert capsys.readouterr().out.splitlines()[1].split("\t")[4] == cost


def test_figures_that_lack_some_model_calls_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    line = ReportLine(agent="a", model=None, turns=2, usage=Usage(output_tokens=1234), estimated_usd=0.5, partial=1)
    report.print_table([line])
    assert capsys.readouterr().out.splitlines()[1].split("\t")[3:5] == ["1,234+", "~$0.5000+"]
