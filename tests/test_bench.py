"""The benchmark's own sums, and that its table can be made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import trace
from bench.__main__ import ROWS, table
from bench.measure import Figure, Series, in_turns, run


def test_a_ratio_is_the_median_of_the_pairs_so_that_a_busy_moment_in_both_does_not_count() -> None:
    figure = Figure("x", Series("mine", (10, 200, 10)), "ms", Series("theirs", (5, 100, 20)), at_most=2)
    assert (figure.value, figure.shown, figure.limit, figure.verdict) == (2, "2.00 x", "<= 2.00 x", "ok")


@pytest.mark.parametrize(
    ("limits", "verdict"), [({"at_most": 4}, "over"), ({"at_least": 6}, "over"), ({"at_most": 5}, "ok"), ({}, "-")]
)
def test_a_figure_says_whether_it_keeps_its_limit(limits: dict[str, float], verdict: str) -> None:
    assert Figure("x", Series("mine", (4, 5, 6)), "ms", **limits).verdict == verdict


def test_samples_are_taken_in_turns_and_the_first_round_is_dropped() -> None:
    taken: list[str] = []

    def take(name: str) -> float:
        taken.append(name)
        return float(len(taken))

    assert in_turns(2, lambda: take("a"), lambda: take("b")) == [(3, 5), (4, 6)]
    assert taken == ["a", "b"] * 3


@pytest.mark.slow
def test_a_command_that_fails_is_no_sample(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended with 3: oops"):
        run(["sh", "-c", "echo oops; exit 3"], env={}, cwd=tmp_path)


def test_every_row_has_a_name_of_its_own_and_says_what_it_measures() -> None:
    assert len({row.__name__ for row in ROWS}) == len(ROWS)
    assert all(row.__doc__ for row in ROWS)


def test_the_table_has_one_line_a_figure() -> None:
    lines = table([Figure("a thing", Series("mine", (1.0,)), "ms", at_most=3)]).splitlines()
    assert [line.split() for line in lines[1:]] == [["a", "thing", "1.00", "ms", "<=", "3.00", "ms", "ok", "mine"]]


@pytest.mark.acceptance
def test_one_row_runs_by_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--only", "decode_fold", "--dir", str(tmp_path)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "quartiles" in done.stdout and "decode + fold" in done.stdout.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_way_of_a_message_is_traced_from_the_command_line_to_the_agents_stdin() -> None:
    parts = trace.traced(trace.HERE, ["send", "echo", trace.PROMPT])
    way = {(caller[0], callee[0]) for (caller, callee), _ in parts["to stdin"]["calls"]}
    assert ("cli/send.py", "api/verbs/sending.py") in way
    assert ("turns/exec.py", "process/spawn.py") in way
    assert not any(callee == "broker/inbox/closing.py" for _, callee in way)  # what comes after the prompt
    assert len(parts["to stdin"]["calls"]) < len(parts["whole"]["calls"])
