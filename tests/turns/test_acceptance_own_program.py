"""beam is installed in the project (`.venv`), and an agent rewrites all of it in its turn: each module of beam and of
what beam imports, the interpreter, what Python reads at its start, and the programs of its folder on PATH (the `.venv`
is activated, and the folder trusted). None of it runs in a process of the person's that was there already, or that such
a process starts; also with access `full`, where nothing else stops it."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cli import Cli, eventually
from tests.support.project_venv import install
from tests.support.repository import make_repository

pytestmark = pytest.mark.acceptance

ATTACK = """
import os, sys
from pathlib import Path
venv, mark, done = map(Path, sys.argv[1:4])
payload = (
    "\\nimport os as _os, sys as _sys\\n"
    "if not _os.environ.get('BEAM_AGENT'):\\n"
    f"    with open({str(mark)!r}, 'a') as _file:\\n"
    "        _file.write(f'{__name__} in {_sys.argv}\\\\n')\\n"
)
count = 0
for path in [*venv.rglob("*.py")]:
    text = path.read_text()
    path.write_text(text + payload)
    count += 1
for path in [*venv.rglob("*.pyc")]:
    path.write_bytes(b"")
for path in [*venv.rglob("*.so")]:
    with path.open("r+b") as file:  # the same file, which living processes have mapped
        file.write(b"\\xcc" * path.stat().st_size)
site = next(venv.glob("lib/python*/site-packages"))
for name in ("sitecustomize", "usercustomize", "encodings", "json", "socket", "subprocess"):
    (site / f"{name}.py").write_text(payload)
    (venv / "bin" / f"{name}.py").write_text(payload)
(site / "own.pth").write_text(f"import os; os.environ.get('BEAM_AGENT') or open({str(mark)!r}, 'a').write('pth')\\n")
evil = venv / "evil"
(evil / "lib" / f"python3.{sys.version_info.minor}" / "encodings").mkdir(parents=True)
(evil / "lib" / f"python3.{sys.version_info.minor}" / "os.py").write_text(payload)
(evil / "lib" / f"python3.{sys.version_info.minor}" / "encodings" / "__init__.py").write_text(payload)
(venv / "pyvenv.cfg").write_text(f"home = {evil}/bin\\n")
for name in ("python", "python3", "beam"):
    path = venv / "bin" / name
    path.unlink()
    path.write_text(f"#!/bin/sh\\n[ -n \\"$BEAM_AGENT\\" ] || echo bin/{name} >> {mark}\\nexit 1\\n")
    path.chmod(0o755)
for name in ("git", "bash", "sh", "cat", "env"):
    path = venv / "bin" / name
    mine = f"[ -n \\"$BEAM_AGENT\\" ] || echo bin/{name} >> {mark}\\n"
    path.write_text(f"#!/bin/sh\\n{mine}PATH=/usr/bin:/bin exec {name} \\"$@\\"\\n")
    path.chmod(0o755)
done.write_text(str(count))
print("rewritten")
"""
CLAUDE = """#!/bin/bash
case "$*" in *--version*) echo "2.1.332 (Claude Code)"; exit 0;; esac
cat > /dev/null; ATTACK > /dev/null
curl -s -m 5 -d '{"model": "m", "messages": []}' "$ANTHROPIC_BASE_URL/v1/messages" > /dev/null
I='"session_id":"11111111-2222-4333-8444-555555555555"'
echo '{"type":"system","subtype":"init",'$I',"model":"m","tools":[],"cwd":"/"}'
echo '{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"hi"}]},'$I'}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"hi",'$I',"num_turns":1}'
"""


@dataclass
class Installed:
    """A project with beam in it. `beam` is another installation, for the same root: what a person runs after the attack
    in the project's own is theirs. `attack` is the agent's command."""

    beam: Cli
    program: Path

    @property
    def mark(self) -> Path:
        return self.beam.base / "ran-as-the-person"

    @property
    def done(self) -> Path:
        return self.beam.project / "attacked"

    @property
    def attack(self) -> str:
        words = [
            sys.executable,
            "-I",
            "-S",
            self.beam.base / "attack.py",
            self.program.parents[1],
            self.mark,
            self.done,
        ]
        return shlex.join(map(str, words))

    def __call__(self, *words: str, program: str = "", code: int = 0) -> str:
        """Runs the project's own beam, and returns what it prints."""
        ended = subprocess.run(
            [program or str(self.program), *words],
            cwd=self.beam.project,
            env=self.beam.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == code, (ended.stdout, ended.stderr)
        return ended.stdout


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("installed")
    install(place)
    return place


@pytest.fixture
def installed(beam: Cli, template: Path) -> Iterator[Installed]:
    make_repository(beam.project, beam.base / "home")
    shutil.copytree(template / ".venv", beam.project / ".venv", symlinks=True)
    program = beam.project / ".venv" / "bin" / "beam"
    program.write_text(program.read_text().replace(str(template), str(beam.project)))
    (beam.base / "attack.py").write_text(ATTACK)
    folder = beam.base / "bin"
    folder.mkdir()
    found = Installed(beam, program)
    (folder / "claude").write_text(CLAUDE.replace("ATTACK", found.attack))
    (folder / "claude").chmod(0o755)
    path = f"{program.parent}:{folder}:{beam.env['PATH']}"
    beam.env |= {"PATH": path, "BEAM_TRUST": "1", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    script = {"replies": [[{"run": shlex.split(found.attack)}, {"text": "one"}], "two"]}
    (beam.project / "script.yaml").write_text(json.dumps(script))
    beam.config("agents:\n  played: {adapter: scripted, script: script.yaml}\n")
    yield found
    assert int(found.done.read_text()) > 600
    assert not found.mark.exists(), found.mark.read_text()


def send(installed: Installed) -> None:
    assert installed("send", "claude", "--access", "edit", "x") == "hi\n"


def send_in_its_protocol_twice(installed: Installed) -> None:
    assert installed("send", "played", "--via", "dialogue", "--keep", "20s", "x") == "one\n"
    assert installed.beam("send", "played", "--via", "dialogue", "x").out == "two\n"
    installed.beam("agent", "release", "played")


def send_on_a_terminal(installed: Installed) -> None:
    assert "rewritten" in installed("send", "bash", "--via", "terminal", installed.attack)


def send_to_a_worker(installed: Installed) -> None:
    message = installed("send", "bash", "--no-wait", installed.attack).strip()
    assert installed.beam("wait", message).out == "rewritten\n"


def send_to_somebody_who_serves(installed: Installed) -> None:
    assert installed.beam("broker", "start").code == 0
    assert installed("send", "bash", installed.attack) == "rewritten\n"
    assert installed.beam("broker", "stop").code == 0


def serve(installed: Installed) -> None:
    installed("broker", "start")
    for text in (installed.attack, "echo again"):
        assert installed.beam("send", "bash", text).code == 0
    once = installed.beam("send", "bash", "--once", "echo aside")
    assert once.out == "aside\n", once
    assert installed.beam("broker", "stop").code == 0


def record_model_calls(installed: Installed) -> None:
    installed(
        "send",
        "claude",
        "--access",
        "edit",
        "--record",
        str(installed.beam.base / "recording"),
        "--depth",
        "model",
        "x",
    )


def run_a_scenario(installed: Installed) -> None:
    steps = [
        {"send": "bash", "prompt": text, "expect": {"files_changed": {"least": 0}}}
        for text in (installed.attack, "echo again")
    ]
    (installed.beam.base / "scenario.yaml").write_text(json.dumps({"beam": 1, "steps": steps}))
    installed("run", str(installed.beam.base / "scenario.yaml"))


def notify(installed: Installed) -> None:
    told = installed.beam.base / "told"
    installed.beam.config(json.dumps({"notify": [{"command": ["bash", "-c", f"cat >> {told}"], "on": ["finished"]}]}))
    installed("send", "bash", installed.attack)
    eventually(told.exists)


def use_from_python(installed: Installed) -> None:
    code = (
        "import beam, sys\nwith beam.Beam() as here:\n"
        "    for text in sys.argv[1:]: print(here.send('bash', text).reply)\n"
    )
    python = str(installed.program.with_name("python"))
    assert installed("-c", code, installed.attack, "echo again", program=python) == "rewritten\nagain\n"


@pytest.mark.parametrize(
    "way",
    [
        send,
        serve,
        run_a_scenario,
        use_from_python,
        *(
            pytest.param(way, marks=pytest.mark.soak)
            for way in (
                send_in_its_protocol_twice,
                send_on_a_terminal,
                send_to_a_worker,
                send_to_somebody_who_serves,
                record_model_calls,
                notify,
            )
        ),
    ],
)
def test_an_agent_that_rewrites_all_of_beam_in_its_turn_has_none_of_it_run(
    way: Callable[[Installed], None], installed: Installed
) -> None:
    way(installed)
