"""What recorded screens say at labelled moments, whatever the pieces in which their bytes came."""

from __future__ import annotations

import json
import random
from functools import cache

import pytest

from beam.agents import registry
from beam.agents.base import HasTerminal
from beam.model.screen_profile import Profile
from beam.pty_adapter import answer, profile
from beam.pty_adapter.screen import Screen, View
from beam.pty_adapter.turn_end import State
from tests.pty_adapter.replayed import PLACE, Replay, chunks

SLOW = "SLOW hello\nsecond line !slow 8"
AGENTS = {
    "gemini-turn": "gemini",
    "opencode": "opencode",
    "opencode-ask": "opencode",
    "qwen": "qwen",
    "copilot": "copilot",
    "aider": "aider",
}
# What the screen is at each moment: idle, typed, busy, error, or the name of a dialog.
MOMENTS = {
    "gemini-turn": {
        "start": "idle",
        "pasted": "typed",
        "busy": "busy",
        "done": "idle",
        "error": "error",
        "tool": "permission",
        "denied": "idle",
    },
    "opencode": {"start": "idle", "pasted": "typed", "busy": "blank", "done": "idle", "error": "error", "tool": "idle"},
    "opencode-ask": {
        "start": "idle",
        "tool": "permission",
        "esc": "idle",
        "tool2": "permission",
        "allowed": "idle",
        "interrupt1": "busy",
        "interrupted": "idle",
    },
    "copilot": {"trust": "trust", "start": "idle", "pasted": "typed", "busy": "busy", "done": "idle"},
    # It was typed to while it was about to ask something else, and then while it worked.
    "aider": {"git": "git", "start": "unknown", "busy": "unknown", "error": "permission"},
    # It was typed to while it was still starting.
    "qwen": {"start": "busy", "pasted": "busy", "busy": "busy", "done": "idle", "error": "error", "tool": "busy"},
}
ASKED = {"error": "!error 401", "denied": "!tool run_shell_command"}
# The turn that begins at `entered`: when the last piece of its answer came, and what it was.
TURNS = {
    "gemini-turn": (16.5, "ECHO[SLOW hello\nsecond line !slow 8] turns=1"),
    "opencode": (53.2, "ECHOSLOW hello\nsecond line !slow 8 turns=1"),
    "qwen": (77.5, "ECHO[SLOW hello\nsecond line !slow 8] turns=2"),
    "copilot": (83.7, "ECHO[2026-11-22T01:57:17.087+00:00\n\nSLOW hello\nsecond line !slow 8] turns=1"),
}


def profile_of(name: str) -> Profile:
    adapter = registry.adapter(AGENTS[name])
    assert isinstance(adapter, HasTerminal)
    return adapter.terminal.profile


@cache
def marks(name: str) -> dict[str, float]:
    lines = (PLACE / f"{name}.timeline.jsonl").read_text().splitlines()
    return {entry["mark"]: entry["t"] for entry in map(json.loads, lines) if "mark" in entry}


def views(name: str, seed: int | None) -> dict[str, View]:
    """The screen at each moment; with a seed the bytes before it come in other pieces."""
    screen, chance, found = Screen(100, 40), random.Random(seed), {}
    waiting = sorted((at, label) for label, at in marks(name).items())
    for at, data in [*chunks(name), (1e9, b"")]:
        while waiting and waiting[0][0] <= at:
            found[waiting.pop(0)[1]] = screen.view()
        while data:
            size = chance.randint(1, 50) if seed is not None else len(data)
            screen.feed(data[:size])
            data = data[size:]
    return found


def said(known: Profile, view: View, text: str) -> str:
    """What this screen is."""
    reading = profile.read(known, view)
    if reading.dialog is not None:
        return reading.dialog.name
    if reading.busy:
        return "busy"
    if reading.typed and profile.shows_text(known, view, reading, text):
        return "typed"
    if not reading.idle:
        return "blank" if not view.text.strip() else "unknown"
    return "error" if profile.error_in(known, profile.answer_rows(known, view, text)) else "idle"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("name", sorted(MOMENTS))
def test_at_each_moment_the_screen_is_what_it_was(name: str, seed: int | None) -> None:
    known, seen = profile_of(name), views(name, seed)
    expected = MOMENTS[name]
    assert {label: said(known, seen[label], ASKED.get(label, SLOW)) for label in expected} == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TURNS))
def test_the_answer_is_read_without_what_is_drawn_around_it(name: str) -> None:
    screen, known = Screen(100, 40), profile_of(name)
    for at, data in chunks(name):
        if at > marks(name)["done"]:
            break
        screen.feed(data)
    assert answer.agent_answer(known, screen.lines(), SLOW, columns=100) == TURNS[name][1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("name", sorted(TURNS))
def test_a_recorded_turn_is_done_soon_after_its_last_piece_and_not_before(name: str, seed: int | None) -> None:
    replay = Replay(
        name, profile_of(name), text=SLOW, enter=marks(name)["entered"], seed=seed, last=marks(name)["done"] + 3.0
    )
    ended = TURNS[name][0]
    assert replay.states[-1][1] is State.DONE
    after = [state for now, state, _ in replay.states if now >= marks(name)["entered"]]
    assert not {State.WAITING, State.STALLED}.intersection(after)
    assert ended <= replay.at(State.DONE) <= ended + 2.0
