"""What an earlier beam left on disk is read, goes on and is written anew: homes that earlier versions made, whole.

Each file of `recordings/homes` maps the paths of such a home to their texts, as a run of that version left them: an
agent `mine` (two turns or more are over, in the later ones a message waits and its queue is paused), and an agent `bad`
with a dead letter. `project-folder`: all state lay in `.beam` of the project, and lines of a journal had no hash.
`state-folder`: in the state directory, with hashes. `named-sessions`: agent.json was the last file without a version.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam.root import discovery
from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance
HOMES = Path(__file__).parent / "recordings" / "homes"
VERSIONS = ("project-folder", "state-folder", "named-sessions")


def made(beam: Cli, version: str) -> None:
    """Put the home of that version where this beam looks for one of the project."""
    state = beam.base / "home" / ".local" / "state" / "beam"
    for name, text in json.loads((HOMES / f"{version}.json").read_text()).items():
        top, _, rest = name.partition("/")
        if rest.startswith("projects/"):
            _, _, rest = rest.removeprefix("projects/").partition("/")
            path = beam.root / rest
        else:
            path = (beam.project if top == "project" else state) / rest
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        else:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_text(text)
            path.chmod(0o600)
    if beam.root.exists():
        discovery.record_project(beam.root, beam.project)
        return
    adopted = beam("doctor", "--adopt", "--yes")
    assert adopted.code == 0, adopted


@pytest.mark.parametrize("version", VERSIONS)
def test_a_home_of_an_earlier_beam_is_read_and_goes_on(beam: Cli, version: str) -> None:
    made(beam, version)
    shown = {line["agent"]: line for line in beam("status", "--json").lines}
    assert shown["mine"]["turn"] >= 2 and shown["mine"]["error"] is None
    assert (shown["bad"]["dead"], shown["bad"]["last"]["class"]) == (1, "crashed")
    settings = beam("agent", "show", "mine", "--json").json["settings"]
    assert (settings["adapter"], settings["model"], settings["timeout"]) == ("scripted", "m-1", 90.0)
    for agent in ("mine", "bad"):
        verified = beam("log", agent, "--verify")
        assert verified.code == 0, verified
    assert "You said: the first" in beam("log", "mine").out

    untrusted = beam("send", "mine", "one more")  # its files lie elsewhere now: nobody vouches for what they say
    assert (untrusted.code, untrusted.out) == (2, ""), untrusted
    assert "agent.json sets the model of mine: m-1; look at it, then: beam trust" in untrusted.err
    assert beam("trust").code == 0
    beam("queue", "resume", "mine")
    assert beam("wait", "--agent", "mine", "--until", "idle", "--timeout", "30s").code == 0
    assert "You said: it waits" in beam("log", "mine").out
    again = beam("send", "mine", "one more", "--json").json
    assert (again["status"], again["session"]) == ("completed", "resumed")
    assert again["turn"] == shown["mine"]["turn"] + 1 + shown["mine"]["waiting"]
    assert beam("log", "mine", "--verify").code == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_its_agent_json_gets_a_version_when_it_is_changed_and_keeps_the_rest(beam: Cli, version: str) -> None:
    made(beam, version)
    path = beam.root / "agents" / "mine" / "agent.json"
    assert "v" not in json.loads(path.read_text())
    assert beam("agent", "set", "mine", "timeout=60").code == 0
    assert json.loads(path.read_text()) == {"v": 1, "adapter": "scripted", "model": "m-1", "timeout": 60.0}
    beam("queue", "resume", "mine")
    assert beam("send", "mine", "hi").code == 0


def test_an_agent_json_of_a_later_beam_is_refused_and_left_as_it_is(beam: Cli) -> None:
    assert beam("agent", "add", "mine", "scripted").code == 0
    path = beam.root / "agents" / "mine" / "agent.json"
    later = path.read_text().replace('"v": 1', '"v": 2')
    path.write_text(later)
    for command in (("send", "mine", "hi"), ("agent", "set", "mine", "model=x")):
        refused = beam(*command)
        assert (refused.code, refused.out) == (2, "")
        assert "of version 2" in refused.err and "upgrade" in refused.err
    assert path.read_text() == later
