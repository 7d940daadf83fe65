"""Formats a run for GitLab's job log: a section for each step. Values in, text out."""

from __future__ import annotations

import re

from beam.base import durations
from beam.conversations.github import said
from beam.conversations.plain import plain
from beam.conversations.result import StepResult, Verdict


def step_lines(step: StepResult, now: int) -> list[str]:
    """Return the lines of the log for a finished step: a section, which is folded unless the step failed. `now` is in
    seconds since the epoch."""
    name = re.sub(r"[^a-z0-9_]", "_", f"beam_{step.repeat}_{step.id}")
    start, folded = now - round(step.duration_s), "false" if step.verdict is Verdict.FAILED else "true"
    head = plain(f"{step.verdict} {step.id} ({step.kind}) {durations.show(step.duration_s)}")
    return [
        f"\x1b[0Ksection_start:{start}:{name}[collapsed={folded}]\r\x1b[0K{head}",
        *(f"| {line}" for line in plain(said(step)).split("\n") if line),
        f"\x1b[0Ksection_end:{now}:{name}\r\x1b[0K",
    ]
