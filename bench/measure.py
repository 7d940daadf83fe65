"""What a measurement is: series of samples taken in turns, what they come to, and what is allowed."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True)
class Spent:
    """What one run of a command took, all of its waited-for descendants included. Milliseconds."""

    wall_ms: float
    cpu_ms: float


def run(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdin: bytes = b"", code: int = 0) -> Spent:
    """Runs the command to its end. Raises AssertionError, with what it said, if it ends with another code."""
    with _pipe_with(stdin) if stdin else Path(os.devnull).open("rb") as source:  # `beam send` refuses an empty pipe
        began = time.perf_counter()
        child = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, close_fds=True
        )
        assert child.stdout
        said = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        child.stdout.close()
    assert child.returncode == code, f"{' '.join(argv)} ended with {child.returncode}: {said.decode(errors='replace')}"
    return Spent(wall * 1000, (usage.ru_utime + usage.ru_stime) * 1000)


def _pipe_with(data: bytes) -> BinaryIO:
    source, sink = os.pipe()
    os.write(sink, data)  # small: it fits
    os.close(sink)
    return os.fdopen(source, "rb")


@dataclass(frozen=True)
class Series:
    """Samples of one thing; `what` names it, or is the command that was run."""

    what: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """The first and the third quartile."""
        if len(self.samples) < 2:
            return self.samples[0], self.samples[0]
        first, _, third = statistics.quantiles(self.samples, n=4, method="inclusive")
        return first, third


def in_turns(count: int, *what: Callable[[], float]) -> list[tuple[float, ...]]:
    """`count` samples of each, in turns, so that a noisy moment hits all; of one round more, the first is dropped."""
    found: list[list[float]] = [[] for _ in what]
    for number in range(count + 1):
        for samples, take in zip(found, what, strict=True):
            sample = take()
            if number:
                samples.append(sample)
    return [tuple(samples) for samples in found]


@dataclass(frozen=True)
class Figure:
    """One line of the table: a series, as it is or over a baseline's, and its limit (null: none).

    `unit` is of the series' samples. The value is the median of the samples' ratios where there is a baseline (a
    pair is measured one after the other, so that a busy moment of the machine is in both), else the median.
    """

    name: str
    series: Series
    unit: str
    baseline: Series | None = None
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def value(self) -> float:
        if self.baseline is None:
            return self.series.median
        pairs = zip(self.series.samples, self.baseline.samples, strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)

    @property
    def verdict(self) -> str:
        if self.at_most is None and self.at_least is None:
            return "-"
        over = self.at_most is not None and self.value > self.at_most
        under = self.at_least is not None and self.value < self.at_least
        return "over" if over or under else "ok"

    @property
    def shown(self) -> str:
        return f"{amount(self.value)} x" if self.baseline else f"{amount(self.value)} {self.unit}"

    @property
    def limit(self) -> str:
        unit = "x" if self.baseline else self.unit
        if self.at_most is not None:
            return f"<= {amount(self.at_most)} {unit}"
        return f">= {amount(self.at_least)} {unit}" if self.at_least is not None else "-"

    def lines(self) -> list[str]:
        """How it was measured, for people."""
        found = [
            f"{self.name}: {self.shown}  (limit {self.limit}: {self.verdict}){'  ' + self.note if self.note else ''}"
        ]
        for label, series in (("this", self.series), ("over", self.baseline)):
            if series is not None:
                first, third = series.spread
                found.append(
                    f"    {label}  {series.what}: median {amount(series.median)} {self.unit}, "
                    f"quartiles {amount(first)} to {amount(third)}, n={len(series.samples)}"
                )
        return found


def amount(value: float | None) -> str:
    """A number with three figures that matter."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


@dataclass
class Bench:
    """Where a row works and how often it measures. `acpx` and `promptfoo` are commands, null where they can't be
    installed or nobody asked for them."""

    scratch: Path
    quick: bool = False
    acpx: tuple[str, ...] | None = None
    promptfoo: tuple[str, ...] | None = None
    env: dict[str, str] = field(default_factory=dict)

    def times(self, count: int) -> int:
        """How many samples, of that many in a full run."""
        return max(3, count // 5) if self.quick else count

    def folder(self, name: str) -> Path:
        """A new directory."""
        path = self.scratch / name
        path.mkdir(parents=True)
        return path
