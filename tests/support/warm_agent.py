"""An agent whose process can be kept: a scripted one in dialogue mode, and what its journal says of its processes."""

from __future__ import annotations

from typing import Any

from tests.support.cli import Cli, Ended

SCRIPT = """\
model: small
rules:
  - {match: who, reply: "[{env.WHO}]"}
  - {match: hang, reply: [{status: busy}, {hang: true}]}
  - {match: die, reply: [{crash: SIGKILL}]}
  - {match: listen, reply: [{delta: "I listen"}, {listen: true}, "told {steered}"]}
  - {match: stray, reply: [{run: [sh, -c, "(setsid sleep 300 &)"]}, done]}
default: "{turn} {prompt} {model}"
"""


def place(beam: Cli, *agents: str) -> None:
    """Have these agents (`worker`) play the script."""
    (beam.project / "script.yaml").write_text(SCRIPT)
    lines = "".join(f"  {name}: {{adapter: scripted, script: ./script.yaml}}\n" for name in agents or ("worker",))
    beam.config(f"agents:\n{lines}")


def send(beam: Cli, *words: str, agent: str = "worker", **more: Any) -> Ended:
    return beam("send", agent, "--via", "dialogue", *words, **more)


def started(beam: Cli, agent: str = "worker") -> list[tuple[int, int | None]]:
    """The agent's process in each turn: its pid, and the turn that started it where it was kept."""
    return [(event["pid"], event["since"]) for event in beam.journal(agent) if event["type"] == "agent.started"]


def exits(beam: Cli, agent: str = "worker") -> list[dict[str, Any]]:
    return [event for event in beam.journal(agent) if event["type"] == "agent.exited"]


def reasons(beam: Cli, agent: str = "worker") -> list[str | None]:
    """Why each of its processes was ended."""
    return [event["stopped_by"] for event in exits(beam, agent)]


def kept(beam: Cli, agent: str = "worker") -> dict[str, Any] | None:
    """What `beam status` says of the process that is kept."""
    found: dict[str, Any] | None = beam("status", agent, "--json").json["kept"]
    return found
