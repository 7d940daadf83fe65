"""Records what the pinned agent CLIs write headless: `python -m tests.real.record CLI …`.

Each scenario is one process against the scripted model, in a git repository of its own. Its streams go into
`tests/recordings/CLI/VERSION/`, as they were written but for the paths of this machine, which become `/lab/…`, and
`runs.json` says how the process ended and which session it was asked for. Recordings that are there are left alone, and
scenarios that came later are added.
A path that a CLI streams in pieces stays as it is: with `BEAM_RECORD_IN=/lab` it is none of this machine's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from beam.agents import registry
from beam.agents.base import Exit, Host, Turn
from beam.agents.claude.history import slug
from beam.model.message import Access
from beam.process.pipes import LineSplitter
from beam.testing.fake_model import FakeModel
from tests.conformance.adapters import ADAPTERS, Cli, pinned
from tests.real.install import bin_directories
from tests.support.cli import Cli as Place
from tests.support.repository import make_repository

RECORDINGS = Path(__file__).parents[1] / "recordings"
FRESH = "5b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b10"
NOBODYS = "6b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b99"
SECONDS = 120


class Scenario(Struct, frozen=True, kw_only=True):
    """One turn: what is asked of this CLI in that folder ("": it can't), with the least or the most access, in a new
    session, that of the scenario `first`, or one that nobody has; `env` is added to its environment."""

    prompt: Callable[[Cli, Path], str]
    most: bool = False
    session: str = ""
    alone: bool = False
    env: dict[str, str] = {}


def _says(text: str) -> Callable[[Cli, Path], str]:
    return lambda cli, folder: text


def _looks(cli: Cli, folder: Path) -> str:
    return cli.look.prompt(path=str(folder / "README.md")) if cli.look else ""


def _writes(cli: Cli, folder: Path) -> str:
    wanted = cli.write.prompt(path=str(folder / "made"), text="x")
    return f"{wanted} {cli.shell.prompt(command='echo from the shell')}" if cli.shell else wanted


def _delegates(prompt: str, then: str = "") -> Callable[[Cli, Path], str]:
    given = {"description": "d", "subagent_type": "general-purpose", "prompt": prompt}
    asked = f"!tool Agent {json.dumps(given)}{then}"
    return lambda cli, folder: asked if cli.package == "@anthropic-ai/claude-code" else ""


SCENARIOS = {
    "first": Scenario(prompt=_says("remember plums !usage 900 20")),
    "second": Scenario(prompt=_says("what did I say? !usage 100 7"), session="first"),
    "look": Scenario(prompt=_looks),
    "denied": Scenario(prompt=_writes),
    "write": Scenario(prompt=_writes, most=True),
    "background": Scenario(prompt=_delegates("say hello")),
    "stopped": Scenario(
        prompt=_delegates("!stall 60", " !then !say It looks."), env={"CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS": "1000"}
    ),
    "thinking": Scenario(prompt=_says("!think plums and pears")),
    "api401": Scenario(prompt=_says("!error 401")),
    "retried": Scenario(prompt=_says("!error 500 1")),
    "cutoff": Scenario(prompt=_says("!max_tokens")),
    "broken": Scenario(prompt=_says("!drop-mid 1")),
    "refused": Scenario(prompt=_says("!refuse")),
    "lost": Scenario(prompt=_says("who are you?"), session=NOBODYS),
    "unreached": Scenario(prompt=_says("hello"), alone=True),  # the last one: the model stays away
}


def main(names: list[str]) -> int:
    """Records these CLIs; the exit code."""
    for name in names:
        target = RECORDINGS / name / pinned()[name]
        with tempfile.TemporaryDirectory(dir=os.environ.get("BEAM_RECORD_IN")) as place:
            _record(name, Path(place), target)
    return 0


def _record(name: str, place: Path, target: Path) -> None:
    path = os.pathsep.join([*map(str, bin_directories()), os.environ["PATH"]])
    executable, cli = shutil.which(name, path=path), ADAPTERS[name]
    adapter = registry.adapter(name)
    can = adapter.card.faces["exec"]
    if executable is None or adapter.exec is None:
        raise SystemExit(f"{name} is not installed: make agents")
    beam = Place(place)
    home = place / "home"
    make_repository(beam.project, home)
    target.mkdir(parents=True, exist_ok=True)
    ended = target / "runs.json"
    runs: dict[str, dict[str, object]] = json.loads(ended.read_text()) if ended.exists() else {}
    first: str | None = None
    with FakeModel({"directives": True}) as model:
        reach = model.env(name, home)
        for scenario, asked in SCENARIOS.items():
            text = asked.prompt(cli, beam.project)
            if not text or scenario in runs or (asked.session and not can.resume):
                continue
            if asked.alone:
                model.stop()
            session = first if asked.session == "first" else asked.session or None
            access: Access = can.access[-1 if asked.most else 0]
            fresh = FRESH[:-2] + f"{len(runs):02}"
            turn = Turn(
                text=text, message_id="m", agent=name, access=access, cwd=str(beam.project), session_id=session,
                scratch=str(place / scenario), fresh_session_id="" if session else fresh,
            )  # fmt: skip
            launch = adapter.exec.launch(turn, Host(executable=executable, home=str(home)))
            for file, data in launch.files.items():
                (place / scenario / file).parent.mkdir(parents=True, exist_ok=True)
                (place / scenario / file).write_bytes(data)
            env = {**beam.env, "PATH": path, **cli.env, **reach, **launch.env, **asked.env}
            done = _run(launch.argv, env=env, cwd=beam.project, stdin=launch.stdin or b"")
            if scenario == "first":
                decoder = adapter.exec.decoder(turn)
                for line in LineSplitter(1 << 30).feed(done.stdout):
                    decoder.line(line)
                first = decoder.end(Exit(code=done.returncode))[1].session_id
            (target / f"{scenario}.out").write_bytes(_neutral(done.stdout, place))
            if done.stderr.strip():
                (target / f"{scenario}.err").write_bytes(_neutral(done.stderr, place))
            runs[scenario] = {"exit": done.returncode, "session": session}
            print(name, scenario, done.returncode, len(done.stdout))
    ended.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n")


def _run(argv: tuple[str, ...], *, env: dict[str, str], cwd: Path, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(argv, input=stdin, env=env, cwd=cwd, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as found:
        raise SystemExit(f"it did not end within {SECONDS} s: {' '.join(argv)[:200]}") from found


def _neutral(data: bytes, place: Path) -> bytes:
    """The bytes without what is only this machine's: its paths, also as names that a CLI makes of them."""
    for found in bin_directories():
        data = data.replace(str(found.parents[1]).encode(), b"/lab/agents")
    data = data.replace(str(place).encode(), b"/lab").replace(slug(str(place)).encode(), b"-lab")
    return re.sub(rb"(127\.0\.0\.1|localhost):\d+", rb"\1:8080", data)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
