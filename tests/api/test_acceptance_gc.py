"""`beam doctor --gc`: what is finished is removed and listed, and what may be needed stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.claims import refused
from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance


def aged(top: Path, days: int) -> None:
    """Set the time of everything below the folder to that long ago."""
    then = time.time() - days * 86400
    for path in top.rglob("*"):
        os.utime(path, (then, then))


def test_a_finished_lane_and_old_segments_go_and_the_agent_goes_on(beam: Cli) -> None:
    beam.config("limits: {segment_bytes: 1}\n")
    for text in ("one", "two", "three"):
        assert beam("send", "scripted", text).code == 0
    assert beam("send", "scripted", "apart", "--once").code == 0
    agent = beam.root / "agents" / "scripted"
    newest = max((agent / "journal").glob("*.jsonl"))
    assert beam("doctor", "--gc").out == ""
    aged(beam.root, 31)
    would = beam("doctor", "--gc", "--dry-run", "--json")
    assert {line["what"] for line in would.lines} == {"lane", "segment"}
    done = beam("doctor", "--gc", "--json")
    assert (done.code, [line["path"] for line in done.lines]) == (0, [line["path"] for line in would.lines])
    assert done.err.startswith("beam: removed "), done
    assert list((agent / "once").iterdir()) == []
    assert list((agent / "journal").glob("*.jsonl")) == [newest]
    assert beam("send", "scripted", "four").out == "You said: four\n"
    assert beam("log", "scripted", "--verify").code == 0
    assert beam("doctor").code == 0


def test_an_outcome_that_was_removed_is_not_found_and_its_key_runs_nothing_again(beam: Cli) -> None:
    beam.config("limits: {segment_bytes: 1}\n")
    first = beam("send", "scripted", "--key", "k", "one", "--json").json["message_id"]
    beam("send", "scripted", "two")
    aged(beam.root, 31)
    assert beam("doctor", "--gc").code == 0
    for command in (("wait", first), ("show", first), ("send", "scripted", "--key", "k", "one")):
        refused(beam(*command), 4, first, "ended (completed)", "removed")
    assert beam.types("scripted").count("turn.started") == 0, "the segment of the first is gone, and nothing ran again"


def test_more_goes_by_size_and_dead_letters_only_when_asked_for(beam: Cli) -> None:
    beam.config("agents:\n  failing: {command: ['false']}\n")
    assert beam("send", "failing", "x").code == 1
    assert beam("doctor", "--gc", "--keep-bytes", "1K").out == ""
    done = beam("doctor", "--gc", "--keep-bytes", "0", "--dead")
    assert [line.split("\t")[0] for line in done.out.splitlines()] == ["WHAT", "dead letter"]
    assert beam.box("failing", "dead") == []


def test_options_of_gc_without_it_and_what_is_no_size_are_refused(beam: Cli) -> None:
    refused(beam("doctor", "--dry-run"), 2, "--gc")
    refused(beam("doctor", "--gc", "--keep-bytes", "much"), 2, "not a size")
    refused(beam("doctor", "--gc", "--older-than", "long"), 2, "not a duration")


def test_where_there_is_no_root_none_is_made(beam: Cli) -> None:
    assert beam("doctor", "--gc").code == 0
    assert not beam.root.exists()
