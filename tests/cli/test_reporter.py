"""What a run says to the CI system that it runs in."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.base.errors import DiskError
from beam.cli import reporter
from beam.cli.context import Context
from beam.conversations.refusal import Refusal


def told(monkeypatch: pytest.MonkeyPatch, summary: Path, style: str | None = "github") -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    refusal = Refusal(file="s.yaml", kind="not_found", text="no agent", exit_code=4, line=3, column=1)
    reporter.Reporter(Context(), "s.yaml", style, as_json=False).on_refused(refusal)


def test_why_a_scenario_could_not_run_is_an_annotation_and_in_the_step_summary(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told(monkeypatch, tmp_path / "summary")
    assert capsys.readouterr().out.startswith("::error ")
    assert "no agent" in (tmp_path / "summary").read_text()


def test_a_step_summary_that_can_not_be_written_is_an_error_that_says_what_to_look_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(DiskError, match=r"can't write the step summary: Is a directory .check GITHUB_STEP_SUMMARY"):
        told(monkeypatch, tmp_path)


def test_elsewhere_nothing_of_it_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told(monkeypatch, tmp_path / "summary", "text")
    assert capsys.readouterr().out == "" and not (tmp_path / "summary").exists()
