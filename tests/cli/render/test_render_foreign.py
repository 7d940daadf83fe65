"""Sessions that beam did not start, and roots that may be adopted, as people read them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from beam.api.adopt import Candidate, Finding, Waiting
from beam.base import clock
from beam.cli import setup
from beam.cli.render import foreign
from beam.foreign.standing import ForeignStatus

BEGAN = "2026-01-02T03:04:05.000000Z"
AN_HOUR_LATER = clock.parse_rfc3339(BEGAN) / 1e9 + 3600


def session(**more: Any) -> ForeignStatus:
    given: dict[str, Any] = {"cli": "codex", "session_id": "0123-abcdef", "pid": 7, "folder": "/p", "since": BEGAN}
    return ForeignStatus(**{**given, **more})


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (
            session(state="idle", state_since=BEGAN, tokens=1200, cost_usd=0.5, prompt="make it", doing="Bash make"),
            ["codex~cdef", "7", "waits for you (1h)", "1h", "1,200", "$0.5000", "/p", "Bash make"],
        ),
        (
            session(session_id="", state="asking", since="", cost_usd=0.5, is_estimate=True, prompt="make it"),
            ["codex", "7", "asks you", "", "", "~$0.5000", "/p", "make it"],
        ),
        (
            session(state="working", team="blue", tokens=0),
            ["codex~cdef", "7", "working", "1h", "0", "", "/p", "team blue:"],
        ),
        (session(), ["codex~cdef", "7", "?", "1h", "", "", "/p", ""]),
    ],
)
def test_a_session_is_a_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: ForeignStatus, row: list[str]
) -> None:
    monkeypatch.setattr(time, "time", lambda: AN_HOUR_LATER)
    foreign.print_table([line])
    assert [found.split("\t") for found in capsys.readouterr().out.splitlines()] == [
        ["SESSION", "PID", "STATE", "SINCE", "TOKENS", "COST", "FOLDER", "WHAT"],
        row,
    ]


def test_of_a_root_that_may_be_adopted_everything_is_shown_that_would_run() -> None:
    messages = (
        Waiting(sender="ann", text="one\n\x1b[2Jtwo", access="full", attach=("a.png", "b"), more={"rules": {"é": 1}}),
        Waiting(sender="bob", text="", access=None, attach=()),
    )
    found = Candidate(
        root=Path(os.fsdecode(b"/state/\xff")),
        why="it was\nthis folder's",
        agents=(
            Finding(agent="a", settings='{\n  "x": 1\n}', session="s\n1", waiting=messages, taken=True),
            Finding(agent="b", settings=None, session=None, waiting=(), taken=False),
        ),
    )
    assert list(setup.candidate_lines(found)) == [
        "/state/\\xff: it was this folder's",
        "  a: this folder has an agent of that name, so it stays there",
        "    agent.json: {",
        '    agent.json:   "x": 1',
        "    agent.json: }",
        "    goes on in the session s 1",
        "    waits, from ann, with access full, attaching a.png, b:",
        '      rules: {"é": 1}',
        "      | one",
        "      | ␛[2Jtwo",
        "    waits, from bob:",
        "  b",
    ]
