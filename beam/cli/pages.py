"""The pages of a run's turns, to which its reports link: one HTML file for each agent, beside the JUnit XML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from beam import Beam, RunResult, TurnResult
from beam.cli.report_file import ReportFile


class TurnPages:
    """The pages of these agents' turns. `report` is the path of the JUnit XML, and `named` that path as it was given.
    Nothing is written before `write`. The constructor raises DiskError if a page can't be written."""

    def __init__(self, report: Path, named: str, agents: Iterable[str]) -> None:
        self._names = {agent: str(Path(named).with_suffix(f".{agent}.html")) for agent in agents}
        self._files = {agent: ReportFile(report.with_suffix(f".{agent}.html"), self._names[agent]) for agent in agents}

    def write(self, beam: Beam, result: RunResult) -> dict[str, str]:
        """Write the pages of the agents that had a turn. Return the link to the turn of each message. Raises
        DiskError."""
        turns: dict[str, list[TurnResult]] = {}
        for step in result.steps:
            for turn in (*step.turns, *step.judged):
                turns.setdefault(turn.agent, []).append(turn)
        links: dict[str, str] = {}
        for agent, own in turns.items():
            links |= self._write(beam, agent, own[0].outcome.agent, {turn.outcome.message_id for turn in own})
        return links

    def _write(self, beam: Beam, agent: str, journal: str, messages: set[str]) -> dict[str, str]:
        from beam import transcripts
        from beam.cli.render.transcript_html import html

        events = (event for event in beam.events(journal) if event.message_id in messages)
        found = transcripts.transcript(journal, events)
        self._files[agent].write(html(found).encode("utf-8", "replace"))
        page = _address(self._names[agent], os.environ)
        return {turn.message_id: f"{page}#t{n}" for n, turn in enumerate(found.turns, 1) if turn.message_id is not None}


def _address(page: str, environ: Mapping[str, str]) -> str:
    """Return where the page can be read: in a job of GitLab among its artifacts, else where it was written."""
    job = environ.get("CI_JOB_URL") if environ.get("GITLAB_CI") == "true" else None
    return page if job is None else f"{job}/artifacts/file/{page}"
