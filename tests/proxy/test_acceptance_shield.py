"""A thief in the agent's place looks for the API key wherever it may look. Without the shield it finds it."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(sys.platform != "linux", reason="left out: only Linux has /proc"),
]
KEY = "sk-ant-api03-" + "Th1efC4nt" * 5
THIEF = r'''#!/usr/bin/env python3
"""Stands in for an agent's CLI. Looks for the key's beginning and end wherever it may, and says where it was."""
import json, os, sys, urllib.request
from pathlib import Path

HALVES = (b"sk-ant-api03-", b"Th1efC4nt" * 5)
WANTED = HALVES[0] + HALVES[1]
found = []

def look(where, data):
    if WANTED in data:
        found.append(where)

def read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""

def memory(pid):
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
            for line in maps:
                area, rights = line.split()[:2]
                if rights[0] != "r" or "[v" in line:
                    continue
                start, end = (int(part, 16) for part in area.split("-"))
                try:
                    mem.seek(start)
                    look(f"memory of {pid}", mem.read(min(end - start, 1 << 26)))
                except (OSError, ValueError, OverflowError):
                    pass
    except OSError as error:
        return str(error)
    return "read"

def parent(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0

def descriptors(pid):
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []

def is_small(path):
    try:
        return os.path.isfile(path) and os.path.getsize(path) < 1 << 24
    except OSError:
        return False

pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
for pid in pids:
    look(f"environment of {pid}", read(f"/proc/{pid}/environ"))
    look(f"arguments of {pid}", read(f"/proc/{pid}/cmdline"))
beam = os.getpid()
while beam > 1 and b"send" not in read(f"/proc/{beam}/cmdline"):
    beam = parent(beam)
tried = {}
for pid in pids:
    above, chain = pid, []
    while above > 1 and above != beam:
        above = parent(above)
        chain.append(above)
    if above == beam and pid != os.getpid():
        tried[pid] = memory(pid)
        for name in descriptors(pid):
            try:
                handle = os.open(f"/proc/{pid}/fd/{name}", os.O_RDONLY | os.O_NONBLOCK)
                look(f"descriptor {name} of {pid}", os.read(handle, 1 << 20))
                os.close(handle)
            except OSError:
                pass
for top in (os.environ["HOME"], os.getcwd(), os.environ.get("TMPDIR", "/nowhere")):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if "fed-by-the-test" not in path and is_small(path):
                look(path, read(path))
url, key = os.environ["ANTHROPIC_BASE_URL"], os.environ.get("ANTHROPIC_API_KEY", "")
body = json.dumps({"model": "claude-x", "messages": [{"role": "user", "content": "hi"}]}).encode()
asked = urllib.request.Request(url + "/v1/messages", body, {"x-api-key": key, "content-type": "application/json"})
answer = urllib.request.urlopen(asked).read()
look("the answer", answer)
Path("loot.json").write_text(json.dumps({"found": found, "key": key, "tried": tried, "answer": answer.decode(),
                                         "names": sorted(os.environ)}))
'''


def thief(beam: Cli, model: FakeModel) -> Cli:
    program = beam.project / "claude-thief"
    program.write_text(THIEF.replace("#!/usr/bin/env python3", f"#!{Path(sys.executable).resolve()}"))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    beam.config(f"agents:\n  thief: {{adapter: claude, executable: {program}, access: full}}\n")
    return beam.with_env({"ANTHROPIC_BASE_URL": model.url, "SECRET_OF_THE_SHELL": "x" * 20})


def run(beam: Cli, *options: str, key_fd: int | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run beam without the right to trace other users' processes, which root in a container has."""

    def without_tracing() -> None:
        ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_PTRACE

    return subprocess.run(
        [sys.executable, "-P", "-m", "beam", "send", "thief", "--via", "exec", "--json", *options, "steal it"],
        cwd=beam.project,
        env=beam.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
        pass_fds=() if key_fd is None else (key_fd,),
        preexec_fn=without_tracing,
    )


def loot(beam: Cli) -> dict[str, object]:
    import json

    found: dict[str, object] = json.loads((beam.project / "loot.json").read_text())
    return found


def lent_key() -> int:
    """A descriptor from which the key can be read once."""
    read, write = os.pipe()
    os.write(write, KEY.encode() + b"\n")
    os.close(write)
    return read


def test_without_the_shield_a_thief_finds_the_key(beam: Cli) -> None:
    with FakeModel() as model:
        done = run(thief(beam, model).with_env({"ANTHROPIC_API_KEY": KEY}))
    found = loot(beam)
    assert found["key"] == KEY, done
    assert any(where.startswith("environment") for where in found["found"])  # type: ignore[attr-defined]


def test_with_the_shield_it_finds_no_key_anywhere_and_the_model_gets_the_real_one(beam: Cli) -> None:
    seen: list[str | None] = []
    descriptor = lent_key()
    with FakeModel() as model:
        assert model._server is not None
        handler = model._server.RequestHandlerClass
        before = handler.answer

        def answer(self: object) -> None:
            seen.append(self.headers.get("x-api-key"))  # type: ignore[attr-defined]
            before(self)

        handler.answer = answer  # type: ignore[attr-defined]
        try:
            done = run(thief(beam, model), "--shield", f"fd:{descriptor}", key_fd=descriptor)
        finally:
            handler.answer = before  # type: ignore[attr-defined]
            os.close(descriptor)
    found = loot(beam)
    assert found["found"] == [], found
    assert str(found["key"]).startswith("beam-dummy-")
    assert "SECRET_OF_THE_SHELL" not in found["names"]  # type: ignore[operator]
    assert seen == [KEY], done
    assert "ECHO" in str(found["answer"])
    tried = list(found["tried"].values())  # type: ignore[attr-defined]
    assert "read" in tried  # the thief can read memory, of what is not the proxy
    assert any("ermission" in each for each in tried)  # and the proxy's it can't


@pytest.mark.parametrize("where", ["environment", "settings"])
def test_the_shield_is_refused_where_the_key_is_still_to_be_read(where: str, beam: Cli) -> None:
    descriptor = lent_key()
    with FakeModel() as model:
        cli = thief(beam, model)
        if where == "environment":
            cli = cli.with_env({"ANTHROPIC_API_KEY": KEY})
        else:
            cli.config(
                cli.project.joinpath("beam.yaml").read_text().replace("full}", f"full, env: {{OTHER_API_KEY: {KEY}}}}}")
            )
        done = run(cli, "--shield", f"fd:{descriptor}", key_fd=descriptor)
        os.close(descriptor)
        assert model.requests == []
    assert done.returncode == 1
    assert b"--shield is refused" in done.stdout
    assert b"--shield fd:3" in done.stderr or b"_API_KEY" in done.stdout
    assert not (beam.project / "loot.json").exists()


def test_an_agents_message_names_no_recording_and_no_proxy(beam: Cli) -> None:
    beam.config("agents:\n  sender: {adapter: bash, access: full}\n  other: {adapter: scripted}\n")
    done = beam("send", "sender", '"$BEAM_BIN" send other --record /tmp/x --depth model hello', "--json")
    assert "only a person records and replays" in done.out + done.err
