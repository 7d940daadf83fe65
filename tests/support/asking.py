"""A place with an agent that asks: `tui`, a terminal agent with Claude Code's look, asks for each word it is sent.

Its screen is described in beam.yaml as beam knows Claude's. As `claude` itself (`adapter`) it has that one's kinds of
access too, and is waited for: it writes no transcript.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from beam.agents.claude.screen import profile as CLAUDE
from beam.model.screen_profile import GENERIC_PROFILE, Profile
from tests.support import tui
from tests.support.cli import Cli, Started, eventually

SEND = ("send", "tui", "--via", "terminal")


def place(
    beam: Cli, manner: str = "permission", *, limits: str = "{}", adapter: str = "command", agent: str = "tui"
) -> None:
    """Declares the agent; its access is `ask` unless a message says otherwise."""
    script = beam.base / "tui.sh"
    script.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{tui.__file__}' {manner}\n")
    script.chmod(0o700)
    own = f"command: [{script}], screen: {described()}" if adapter == "command" else f"executable: {script}"
    beam.config(f"agents:\n  {agent}: {{adapter: {adapter}, access: ask, {own}}}\nlimits: {limits}\n")


def described() -> str:
    """What makes Claude's screen another one than any, as YAML in one line: JSON is YAML."""
    names = [name for name in Profile.__struct_fields__ if getattr(CLAUDE, name) != getattr(GENERIC_PROFILE, name)]
    return msgspec.json.encode({name: getattr(CLAUDE, name) for name in names if name != "name"}).decode()


def first_ask(beam: Cli, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """The ask that is open, once there is one that is none of those."""

    def is_there() -> bool:
        return any(file.stem not in but for file in (beam.root / "agents").rglob("asks/*.json"))

    eventually(is_there, 120, "the agent did not ask")
    return next(line for line in beam("asks", "--json").lines if line["id"] not in but)


def started(beam: Cli, *words: str, text: str = "zz") -> tuple[Started, dict[str, Any]]:
    """A `beam send` that waits for a decision, and the ask."""
    process = beam.start(*SEND, *words, text)
    return process, first_ask(beam)


def kinds(beam: Cli) -> list[str]:
    """What the journal says of asks, in order: `asked`, and how each was decided."""
    asks = [event for event in beam.journal("tui") if event["type"].startswith("permission.")]
    return [event.get("decision", "asked") for event in asks]
