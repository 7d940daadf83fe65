"""Real CLIs whose model calls go through the turn's own proxy: recorded, replayed, limited, cut, kept from the key."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.proxy.recording import Recording
from beam.testing.fake_model import FakeModel
from beam.testing.fake_model.server import model_env
from tests.conformance.adapters import ADAPTERS
from tests.proxy.exactness import SCRIPT, task
from tests.support.cli import Cli, Ended
from tests.support.repository import make_repository

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
ROUTED = tuple(ADAPTERS)


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel(SCRIPT) as model:
        yield model


def at(beam: Cli, name: str, agents_path: str, url: str) -> Cli:
    """beam in a place where the CLI's own configuration names the model at `url`."""
    home = Path(beam.env["HOME"])
    return beam.with_env({"PATH": agents_path, **ADAPTERS[name].env, **model_env(name, url, home)})


def send(cli: Cli, name: str, text: str, *options: str) -> Ended:
    return cli("send", name, "--via", "exec", "--json", "--access", "full", *options, stdin=text, timeout=300)


@pytest.mark.parametrize(
    "name", ["claude", *(pytest.param(name, marks=pytest.mark.conformance) for name in ROUTED if name != "claude")]
)
def test_a_turn_is_recorded_and_replayed_in_another_place_without_a_model(
    name: str, beam: Cli, agents_path: str, model: FakeModel, tmp_path_factory: pytest.TempPathFactory
) -> None:
    recording = str(beam.base / "recording")
    first = at(beam, name, agents_path, model.url)
    text = "please make file number 3" if name == "aider" else task(name, beam.project)
    done = send(first, name, text, "--record", recording, "--depth", "model").json
    assert done["status"] == "completed", done
    assert done["model_calls"]["live"] == done["model_calls"]["calls"] > 0
    made = {path.name: path.read_text() for path in beam.project.glob("*.txt")}
    assert made
    other = Cli(tmp_path_factory.mktemp("other"))
    make_repository(other.project, other.base / "home")
    second = at(other, name, agents_path, "http://127.0.0.1:9")
    text = "please make file number 3" if name == "aider" else task(name, other.project)
    again = send(second, name, text, "--replay", recording, "--depth", "model").json
    assert again["status"] == "completed", again
    assert again["model_calls"]["exact"] == again["model_calls"]["calls"] == done["model_calls"]["calls"]
    assert {path.name: path.read_text() for path in other.project.glob("*.txt")} == made


@pytest.mark.soak
def test_a_scenario_is_recorded_and_replayed_and_its_report_has_the_counts(
    beam: Cli, agents_path: str, model: FakeModel
) -> None:
    made = beam.project / "made.txt"
    write = f"!tool Write {json.dumps({'file_path': str(made), 'content': 'hello'})} !then !say written"
    prompts = {"write": write, "look": "!say fine"}
    steps = [{"send": "claude", "id": name, "access": "full", "prompt": text} for name, text in prompts.items()]
    (beam.project / "s.yaml").write_text(json.dumps({"beam": 1, "steps": steps}))
    cli = at(beam, "claude", agents_path, model.url).with_env({"BEAM_TRUST": "1"})
    first = cli("run", "s.yaml", "--record", "calls", "--depth", "model", "--json", timeout=300)
    assert first.code == 0, first
    assert first.json["model_calls"]["live"] == first.json["model_calls"]["calls"] == 3
    made.unlink()
    asked = len(model.requests)
    words = ("run", "s.yaml", "--replay", "calls", "--depth", "model", "--junit", "r.xml")
    again = cli(*words, timeout=300)
    assert (again.code, made.read_text()) == (0, "hello"), again
    assert "3 model calls: 3 exact, 0 minor, 0 major, 0 unmatched, 0 live" in again.out
    assert '"model_calls_exact" value="3"' in (beam.project / "r.xml").read_text()
    assert len(model.requests) == asked


@pytest.mark.soak
def test_a_call_that_was_not_recorded_ends_the_turn_and_why_says_where_it_differs(
    beam: Cli, agents_path: str, model: FakeModel
) -> None:
    recording = str(beam.base / "recording")
    cli = at(beam, "claude", agents_path, model.url)
    assert send(cli, "claude", "tell me of apples", "--new", "--record", recording, "--depth", "model").code == 0
    asked = len(model.requests)
    done = send(cli, "claude", "tell me of pears", "--new", "--replay", recording, "--depth", "model")
    assert done.code == 1
    assert "was not recorded; the nearest, 1, differs first in" in done.json["reason"]
    assert len(model.requests) == asked
    why = cli("proxy", "why", done.json["message_id"]).out
    assert "unmatched, recorded call 1" in why
    assert "pears" in why
    calls = [event for event in cli.journal("claude") if event["type"] == "model.called"]
    called, *again = [event for event in calls if event["step"] != "live"]
    assert all(event["step"] == "unmatched" for event in again), "Claude may ask once more before it is ended"
    assert called["differences"]


@pytest.mark.soak
def test_the_doctor_names_what_is_not_deterministic(beam: Cli, agents_path: str) -> None:
    command = {"command": "head -c 8 /dev/urandom | od -An -tx1"}
    with FakeModel() as model:
        cli = at(beam, "claude", agents_path, model.url)
        assert cli("agent", "set", "claude", "access=full").code == 0
        text = f"!tool Bash {json.dumps(command)} !then !say done"
        found = cli("proxy", "doctor", "claude", text, timeout=300)
    assert found.code == 13, found
    assert found.out.startswith("first completed, second completed: 1 exact, 0 minor, 1 major, 0 unmatched\n"), found
    assert "body.messages[3].content[0].content: in 1 request" in found.out


@pytest.mark.parametrize(
    "name",  # a turn of aider's is one call, which is never cut
    [
        "claude",
        *(pytest.param(each, marks=pytest.mark.conformance) for each in ROUTED if each not in ("claude", "aider")),
    ],
)
def test_a_budget_of_tokens_ends_the_turn_with_7_and_the_usage_so_far(
    name: str, beam: Cli, agents_path: str, model: FakeModel
) -> None:
    cli = at(beam, name, agents_path, model.url)
    done = send(cli, name, task(name, beam.project), "--max-tokens", "1000")
    assert (done.code, done.json["status"]) == (7, "limit"), done
    assert "max_tokens is 1000" in done.json["reason"]
    assert done.json["usage"]["input_tokens"] >= 1000
    assert done.json["model_calls"]["calls"] >= 1


@pytest.mark.soak
def test_a_proxy_that_is_killed_is_a_failure_of_the_network_and_leaves_a_readable_recording(
    beam: Cli, agents_path: str, model: FakeModel
) -> None:
    recording = beam.base / "recording"
    cli = at(beam, "claude", agents_path, model.url).with_env({"BEAM_RETRIES": "0"})
    done: list[Ended] = []
    text = "!tool Bash " + json.dumps({"command": "sleep 0"}) + " !then !stall-mid"
    thread = threading.Thread(
        target=lambda: done.append(send(cli, "claude", text, "--record", str(recording), "--depth", "model"))
    )
    thread.start()
    deadline = time.monotonic() + 60
    while not (recording / "answers" / "000002.sse").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    (pid,) = proxies(beam.project)
    os.kill(pid, signal.SIGKILL)
    thread.join(200)
    assert (done[0].json["status"], done[0].json["class"]) == ("failed", "network"), done
    exchanges = Recording(recording).exchanges
    assert [exchange.answer.end for exchange in exchanges[:2]] == ["complete", "cut"]
    assert exchanges[1].events


def proxies(folder: Path) -> list[int]:
    """The proxies that a beam in this folder started."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if b"beam.proxy.process" in (each / "cmdline").read_bytes():
                owner = (each / "stat").read_text().rpartition(")")[2].split()[1]
                if Path(f"/proc/{owner}/cwd").readlink() == folder:
                    found.append(int(each.name))
        except OSError:
            continue
    return found


def test_a_shielded_claude_whose_shell_looks_for_the_key_finds_none(
    beam: Cli, agents_path: str, model: FakeModel
) -> None:
    key = "sk-ant-api03-" + "R3alClaude" * 5
    read, write = os.pipe()
    os.write(write, key.encode())
    os.close(write)
    # The pattern doesn't match itself: grep's own arguments may be among those that cat reads.
    look = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -ac 'R3a[l]Claude' > count.txt; env"
    cli = at(beam, "claude", agents_path, model.url)
    text = f"!tool Bash {json.dumps({'command': look + ' > env.txt'})} !then !say done"
    words = ("send", "claude", "--via", "exec", "--json", "--access", "full", "--shield", f"fd:{read}", text)
    process = subprocess.run(
        [sys.executable, "-P", "-m", "beam", *words],
        cwd=cli.project,
        env=cli.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
        pass_fds=(read,),
    )
    os.close(read)
    done: Any = json.loads(process.stdout)
    assert done["status"] == "completed", done
    assert (beam.project / "count.txt").read_text().strip() == "0"
    environment = (beam.project / "env.txt").read_text()
    assert "beam-dummy-" in environment
    assert "R3alClaude" not in environment
    assert done["model_calls"]["live"] >= 2
