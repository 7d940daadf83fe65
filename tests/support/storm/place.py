"""Where the storm is: a project whose agents write down, with one write, which text of which message they act on.

Every text holds a token in brackets that no other text has. An agent writes `ID TOKEN` into `runs` before anything
else; on a terminal, where nothing of one message is told, the id is `-`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import asking
from tests.support.cli import Cli

TOKEN = re.compile(r"\[([^\]]*)\]")
HEADLESS = ("plain", "deaf", "given", "faulty", "forker", "chatty", "scripted")
TERMINALS = ("bash", "tui")
BOX = "box"
AGENTS = (*HEADLESS, *TERMINALS, BOX)
LANES = ("plain", "deaf", "given", "forker", "chatty")  # who gets messages with --once

_SCRIPT = """\
kind=$1
case $kind in
  deaf) text="[-]" ;;
  given | scripted) text=$2 ;;
  *) text=$(cat) ;;
esac
[ -n "$text" ] || exit 9
token=${text#*[}
token=${token%%]*}
[ "$kind" = chatty ] && [ "$BEAM_HOPS" != 0 ] && exit 0
printf '%s %s\\n' "$BEAM_MESSAGE_ID" "$token" >> "$RUNS"
case $kind in
  scripted) exit 0 ;;
  faulty) case $token in *[13579]) echo "no luck" >&2; exit 3 ;; esac ;;
  forker) setsid sleep 300 </dev/null >/dev/null 2>&1 & sleep 300 & ;;
  chatty)
    printf '{"to": "plain", "text": "[%s.a]"}' "$token" > "$BEAM_OUTBOX/.ask"
    mv "$BEAM_OUTBOX/.ask" "$BEAM_OUTBOX/ask.json"
    n=0
    while [ $n -lt 30 ] && ! [ -s "$BEAM_OUTBOX/ask.answer" ]; do sleep 0.1; n=$((n + 1)); done
    answer=$(cat "$BEAM_OUTBOX/ask.answer" 2>/dev/null | tr -d '\\n')
    [ -n "$answer" ] && printf '%s %s\\n' "$token" "$answer" >> "$ASKED"
    ;;
esac
case $(($$ % 4)) in 0) sleep 0.3 ;; 1) sleep 0.1 ;; esac
echo "did [$token]"
"""


@dataclass(frozen=True)
class Box:
    """The queue of an agent, or of one of its lanes."""

    agent: str
    folder: Path

    def ids(self, *boxes: str) -> list[str]:
        """The messages in those boxes."""
        return [name[21:-5] for box in boxes for name in names(self.folder / "queue" / box)]


class Place:
    """The project, its agents and what they wrote down."""

    def __init__(self, beam: Cli) -> None:
        self.beam = beam
        self.runs = beam.base / "runs"
        self.asked = beam.base / "asked"
        for file in (self.runs, self.asked):
            file.touch()
        script = beam.base / "agent.sh"
        script.write_text(f"RUNS={self.runs} ASKED={self.asked}\n{_SCRIPT}")
        played = beam.base / "played.yaml"
        run = ["sh", str(script), "scripted", "{prompt}"]
        played.write_text(json.dumps({"default": [{"run": run}, "did {prompt}"]}))
        tui = beam.base / "tui.sh"
        top = Path(__file__).parents[3]
        tui.write_text(f"#!/bin/sh\nPYTHONPATH='{top}' exec '{sys.executable}' -m {__package__}.tui '{self.runs}'\n")
        tui.chmod(0o700)
        commands = "".join(
            f"  {kind}: {{command: [sh, {script}, {kind}]}}\n" for kind in HEADLESS[:6] if kind != "given"
        )
        beam.config(
            f"agents:\n{commands}"
            f"  given: {{command: [sh, {script}, given, '{{prompt}}']}}\n"
            f"  scripted: {{adapter: scripted, script: {played}}}\n"
            f"  tui: {{adapter: command, access: ask, command: [{tui}], keep: 3s, screen: {asking.described()}}}\n"
            f"  {BOX}: {{adapter: mailbox}}\n"
            "limits: {segment_bytes: 20000, waiting: 10000, hops: 3, ask_timeout: 4, grace: 1}\n"
            "defaults: {timeout: 60, lease: 2}\n"
            "policy: {circuit_failures: 100000, attempts: 2, retry: [crashed], backoff: 0.2}\n"
        )

    def text(self, agent: str, token: str) -> str:
        """What is sent to the agent, so that it counts the token."""
        if agent == "bash":
            return f'echo "- {token}" >> {self.runs}; echo "did [{token}]"'
        return f"[{token}]"

    def boxes(self) -> Iterator[Box]:
        """Every queue of the root."""
        for agent in AGENTS:
            folder = self.beam.root / "agents" / agent
            yield Box(agent, folder)
            for lane in names(folder / "once"):
                if not lane.startswith("."):
                    yield Box(agent, folder / "once" / lane)

    def open(self) -> list[str]:
        """What waits, runs, or was asked of a holder and not answered yet."""
        return [
            str(path)
            for box in self.boxes()
            for where in ("queue/new", "queue/cur", "control/new")
            for path in map((box.folder / where).joinpath, names(box.folder / where))
        ]


def names(folder: Path) -> list[str]:
    """What is in the folder; nothing where it is gone."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return []
