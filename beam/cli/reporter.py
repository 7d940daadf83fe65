"""Prints a run as it goes on: lines for people, groups for CI systems, or one JSON object at the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from beam import DiskError, RunResult, StepResult, UsageError, github, gitlab
from beam.cli.context import Context
from beam.cli.render.run import result_lines, step_lines
from beam.cli.render.text import write_json, write_line

if TYPE_CHECKING:
    from beam import Refusal, RunProgress

_STYLES = ("text", "github", "gitlab")


class Reporter:
    """Prints the progress of a run, and its result. If `style` is None, the environment variables of CI systems select
    the style."""

    def __init__(self, call: Context, file: str, style: str | None, *, as_json: bool) -> None:
        self._call = call
        self._file = file
        self._style = _select_style(style, os.environ)
        self._json = as_json

    def on_progress(self, progress: RunProgress) -> None:
        """Print a finished step, or a warning."""
        from beam import Warned

        if isinstance(progress, Warned):
            if self._style == "github" and not self._json:
                write_line(github.warning(progress.text, self._file))
            else:
                self._call.note(progress.text)
            return
        if self._json or not isinstance(progress, StepResult):
            return
        for line in self._step_lines(progress):
            write_line(line)
        sys.stdout.flush()

    def _step_lines(self, step: StepResult) -> Sequence[str]:
        if self._style == "github":
            return github.step_lines(self._file, step)
        if self._style == "gitlab":
            return gitlab.step_lines(step, int(time.time()))
        return list(step_lines(step))

    def result(self, result: RunResult, pages: Mapping[str, str]) -> None:
        """Print the result of the run. On GitHub, also write it into the summary of the CI step. `pages` has the link
        to the turn of each message."""
        if self._json:
            write_json(result)
        else:
            for line in result_lines(result):
                write_line(github.unmarked(line) if self._style == "github" else line)
        if self._style == "github":
            wrong = github.failure(result)
            if wrong is not None and not self._json:
                write_line(wrong)
            _append_to_file(os.environ.get("GITHUB_STEP_SUMMARY"), github.summary(result, pages))
        sys.stdout.flush()

    def on_refused(self, refusal: Refusal) -> None:
        """Print an annotation for GitHub that says why the scenario could not run. For people, the caller prints the
        reason on stderr."""
        if self._style == "github":
            if not self._json:
                write_line(github.refusal_line(refusal))
                sys.stdout.flush()
            _append_to_file(os.environ.get("GITHUB_STEP_SUMMARY"), github.refusal_summary(refusal))


def _select_style(asked: str | None, environ: Mapping[str, str]) -> str:
    if asked is not None:
        if asked not in _STYLES:
            raise UsageError(f"--format {asked}: no such format", ", ".join(_STYLES), subject=asked)
        return asked
    if environ.get("GITHUB_ACTIONS") == "true":
        return "github"
    return "gitlab" if environ.get("GITLAB_CI") == "true" else "text"


def _append_to_file(path: str | None, text: str) -> None:
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise DiskError(f"can't write the step summary: {error.strerror}", "check GITHUB_STEP_SUMMARY") from error
