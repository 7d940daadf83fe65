"""Agents below full access and beam's own files, through the real `beam`; a shell script stands for the agent's CLI."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from beam.process import landlock
from tests.support import no_landlock
from tests.support.cli import BEAM, Cli, Ended

pytestmark = pytest.mark.acceptance

with_landlock = pytest.mark.skipif(landlock.abi() == 0, reason="left out: this system has no Landlock")
ANSWER = [
    {"type": "session", "id": "0199a1b2-0000-7000-8000-000000000001"},
    {
        "type": "message_end",
        "message": {"role": "assistant", "stopReason": "stop", "content": [{"type": "text", "text": "Done."}]},
    },
    {"type": "agent_end"},
]


class Agent:
    """beam in a place where `pi` is a shell script that does that, and then answers."""

    def __init__(self, beam: Cli, script: str) -> None:
        self.state = beam.base / "home/.local/state/beam"
        self.said = beam.base / "tools/said"
        tools = beam.base / "tools"
        tools.mkdir()
        answer = "\n".join(f"echo '{json.dumps(line)}'" for line in ANSWER)
        (tools / "pi").write_text(f"#!/bin/sh\nexec 2>{self.said}\ncat >/dev/null\n{script}\n{answer}\n")
        (tools / "pi").chmod(0o755)
        self.beam = beam.with_env({"PATH": f"{tools}:/usr/bin:/bin"})

    def send(self, *options: str, landlock: bool = True) -> Ended:
        words = ("send", "pi", "--json", *options, "hello")
        if landlock:
            return self.beam(*words)
        done = subprocess.run(
            [sys.executable, no_landlock.__file__, *BEAM, *words],
            cwd=self.beam.project,
            env=self.beam.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def notices(self) -> list[str]:
        return [event["text"] for event in self.beam.journal("pi") if event.get("code") == "unconfined"]


def planted(agent: Agent) -> list[str]:
    """What the agent put into beam's state and configuration."""
    folders = (agent.state, agent.state.parents[2] / ".config/beam")
    return [path.name for folder in folders for path in folder.rglob("planted*")]


@with_landlock
@pytest.mark.parametrize(
    "script",
    [
        "echo x >$HOME/.local/state/beam/planted",
        "ln -s $HOME/.local/state/beam link; echo x >link/planted",
        "ln -s $HOME/.local/state/beam/planted link; echo x >link",
        "echo x >planted; mv planted $HOME/.local/state/beam/",
        "mkdir -p $HOME/.config/beam; echo x >$HOME/.config/beam/planted",
        "echo x >$HOME/.local/state/beam/planted & wait",
        "mv $HOME/.local/state/beam $HOME/.local/state/other; mkdir -p $HOME/.local/state/beam/planted",
    ],
)
def test_an_agent_below_full_access_can_not_write_into_beams_state_and_one_with_full_access_can(
    script: str, beam: Cli
) -> None:
    agent = Agent(beam, script)
    done = agent.send("--access", "read")
    assert (done.code, planted(agent)) == (0, []), done
    assert "denied" in agent.said.read_text()
    for left in ("link", "planted"):
        (beam.project / left).unlink(missing_ok=True)
    agent.send("--access", "full", "--new")
    assert planted(agent) != []


@with_landlock
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="left out: this system has no /dev/shm")
def test_an_agent_below_full_access_can_not_write_into_state_that_lies_in_shared_memory(beam: Cli) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        state = Path(memory) / "beam"
        agent = Agent(beam.with_env({"BEAM_STATE": str(state)}), f"echo x >{state}/planted; echo x >{memory}/beside")
        done = agent.send("--access", "read")
        assert done.code == 0, done
        assert agent.said.read_text().count("denied") == 2
        assert [path.name for path in Path(memory).iterdir()] == ["beam"]
        assert not (state / "planted").exists()
        assert agent.send("--access", "full", "--new").code == 0
        assert (state / "planted").exists()


@with_landlock
def test_an_agent_below_full_access_writes_its_folder_its_own_files_and_its_temporary_folder(beam: Cli) -> None:
    script = "set -e; echo x >here; mkdir sub; echo x >$HOME/.pi/own; echo x >$TMPDIR/temporary; echo x >/dev/null"
    agent = Agent(beam, script)
    done = agent.send("--access", "read")
    assert (done.code, agent.said.read_text()) == (0, ""), done
    assert (beam.project / "here").exists()
    assert (beam.base / "home/.pi/own").exists()


@with_landlock
def test_a_second_name_of_one_of_beams_files_is_refused_before_the_agent_runs(beam: Cli) -> None:
    agent = Agent(beam, "touch ran")
    agent.state.mkdir(parents=True)
    (agent.state / "trust.json").write_text("{}")
    (beam.project / "second.json").hardlink_to(agent.state / "trust.json")
    done = agent.send("--access", "read")
    assert (done.code, done.json["class"]) == (1, "bad_request")
    assert "second name" in done.json["reason"]
    assert not (beam.project / "ran").exists()


def test_without_landlock_a_link_to_beams_state_is_refused_before_the_agent_runs(beam: Cli) -> None:
    agent = Agent(beam, "touch ran")
    (beam.project / "deep").mkdir()
    (beam.project / "deep/link").symlink_to(agent.state / "planted")
    done = agent.send("--access", "read", landlock=False)
    assert (done.code, done.json["class"]) == (1, "bad_request")
    assert "deep/link leads to beam's own files" in done.json["reason"]
    assert not (beam.project / "ran").exists()
    assert agent.send("--access", "full", landlock=False).code == 0


def test_without_landlock_an_agent_runs_and_its_journal_says_once_that_nothing_more_holds_it(beam: Cli) -> None:
    agent = Agent(beam, "true")
    for _ in range(2):
        assert agent.send("--access", "read", landlock=False).code == 0
    (said,) = agent.notices()
    assert "this system has no Landlock: only pi's own limits keep it from beam's files" in said


@pytest.mark.parametrize("landlock", [pytest.param(True, marks=with_landlock), False])
def test_doctor_says_what_holds_each_cli_below_full_access(landlock: bool, beam: Cli) -> None:
    agent = Agent(beam, "true")
    (beam.base / "tools/codex").symlink_to("pi")
    (beam.base / "tools/cn").symlink_to("pi")
    words = [*([] if landlock else [sys.executable, no_landlock.__file__]), *BEAM, "doctor", "--json"]
    done = subprocess.run(words, cwd=beam.project, env=agent.beam.env, capture_output=True, check=False)
    details = {line["what"]: line["detail"] for line in map(json.loads, done.stdout.splitlines())}
    assert "below full access: own sandbox" in details["agent codex"]
    expected = "Landlock (ABI " if landlock else "looked for links only"
    assert f"below full access: {expected}" in details["agent pi"]
    assert "below full access" not in details["agent cn"]


def test_the_look_for_links_is_not_made_where_landlock_holds_the_agent(beam: Cli) -> None:
    if landlock.abi() == 0:
        pytest.skip("left out: this system has no Landlock")
    agent = Agent(beam, "true")
    (beam.project / "link").symlink_to(Path("/"))
    assert agent.send("--access", "read").code == 0
