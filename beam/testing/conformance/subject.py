"""The subject of the cases: one agent CLI in a scratch folder, with a scripted model."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from beam.agents import registry
from beam.agents.base import Capabilities, Face
from beam.base.errors import NotFoundError, UnsupportedError
from beam.testing.fake_model import FakeModel

GO_ON = "go on after that"
# A CLI may repeat an unanswered prompt together with the next prompt: the rule for GO_ON answers both.
BREAKS = "the stream breaks in the middle"
BROKEN, WHOLE = "a beginning that nobody may take for the answer " * 4, "the whole answer"
SCRIPT = {
    "rules": [
        {"match": GO_ON, "text": "ECHO[{prompt}] turns={turns}"},
        # Twice, as the first may be a request for a title.
        {"match": BREAKS, "times": 2, "text": BROKEN, "drop": True, "at": "middle"},
        {"match": BREAKS, "text": WHOLE},
    ],
    "directives": True,
}
WAIT = 240  # seconds that a slow CLI on a busy machine may take for a turn


@dataclass(frozen=True)
class EndedCommand:
    """A command that has ended. `code` is the exit code as in a shell (128 + the signal's number after a signal)."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return stdout, which must be exactly one JSON object."""
        assert self.out.count("\n") == 1, self
        return json.loads(self.out)


@dataclass
class ScratchFolder:
    """A scratch folder with a project and a HOME of its own, in which `beam` can be run. `beam` gets only PATH and
    PYTHONPATH from the caller's environment."""

    base: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        return self.base / "project"

    def __post_init__(self) -> None:
        for name in ("project", "home", "state"):
            (self.base / name).mkdir(parents=True, exist_ok=True)
        given = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        scratch = {"HOME": str(self.base / "home"), "BEAM_STATE": str(self.base / "state"), "TMPDIR": str(self.base)}
        self.env = {**given, **scratch, "LANG": "C.UTF-8", "BEAM_TRUST": "1", **self.env}

    def __call__(
        self, *args: str, stdin: str | None = None, timeout: float = 60, env: Mapping[str, str] = {}
    ) -> EndedCommand:
        """Run `beam ARGS` to its end."""
        process = self.start(*args, env=env, stdin=subprocess.PIPE)
        try:
            out, err = process.communicate((stdin or "").encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            raise
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return EndedCommand(code, out.decode(errors="replace"), err.decode(errors="replace"))

    def start(
        self, *args: str, env: Mapping[str, str] = {}, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """Start `beam ARGS`, in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "beam", *args],
            cwd=self.project,
            env={**self.env, **env},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def config(self, text: str) -> None:
        """Write beam.yaml into the project, which is trusted already."""
        (self.project / "beam.yaml").write_text(text)

    def journal(self, agent: str) -> list[dict[str, Any]]:
        """Return every event of the agent's journal, oldest first."""
        return [json.loads(line) for line in self("log", agent, "--json").out.splitlines()]


class Subject:
    """The agent CLI of the adapter `name`. `cli` runs `beam` in a scratch folder for this CLI; `send` runs `beam send`
    in the mode `face`."""

    def __init__(self, name: str, cli: Any, model: FakeModel, face: Face = "exec") -> None:
        self.name = name
        self.face = face
        self.model = model
        self.cli = cli
        self._once: dict[str, Any] = {}

    @cached_property
    def can(self) -> Capabilities:
        """Return the capabilities that the adapter's card claims for the mode."""
        return registry.adapter(self.name).card.faces[self.face]

    @property
    def begins(self) -> str:
        """Return what comes before a prompt that begins with `!`, so that the CLI doesn't take it for a command."""
        return ""

    @property
    def least_access(self) -> str | None:
        """Return the access with the fewest rights that the CLI has; None if it has no accesses."""
        return "read" if "read" in self.can.access else next(iter(self.can.access), None)

    # -- turns -----------------------------------------------------------------------------------------------------

    def send_arguments(self, *options: str, access: str | None = None, agent: str | None = None) -> tuple[str, ...]:
        """Return the command-line arguments of `beam send` that come before the prompt."""
        wanted = access or self.least_access
        rights = ("--access", wanted) if wanted else ()
        return ("send", agent or self.name, "--via", self.face, "--json", *rights, *options)

    def send(
        self,
        text: str,
        *options: str,
        access: str | None = None,
        agent: str | None = None,
        cli: Any = None,
        env: Mapping[str, str] = {},
    ) -> Any:
        """Run one turn and return the ended command. The prompt goes to beam by stdin, so that every text is passed in
        the same way."""
        words = self.send_arguments(*options, access=access, agent=agent)
        return (cli or self.cli)(*words, stdin=text, timeout=WAIT, env=env)

    def start(self, text: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a turn and return its process once the model has received a request. Raises AssertionError if the
        process ends before."""
        before = len(self.model.prompts())
        process: subprocess.Popen[bytes] = self.cli.start(*self.send_arguments(*options), "--", text)
        eventually(lambda: len(self.model.prompts()) > before or process.poll() is not None, timeout=WAIT)
        assert process.poll() is None, process.communicate()
        return process

    def outcome(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """Wait for the end of a turn that `start` began, and return the outcome."""
        out, err = process.communicate(timeout=WAIT)
        assert out.count(b"\n") == 1, (out, err)
        found: dict[str, Any] = json.loads(out)
        return found

    def run_once(self, name: str, act: Callable[[], Any]) -> Any:
        """Return the result of `act`, which is called once for each `name`. If this call failed, later calls for
        this name raise AssertionError."""
        if name not in self._once:
            self._once[name] = AssertionError(f"{name} went wrong before")
            self._once[name] = act()
        if isinstance(self._once[name], AssertionError):
            raise self._once[name]
        return self._once[name]

    # -- what was seen -----------------------------------------------------------------------------------------------

    def last_request(self) -> str:
        """Return the body of the last request to the model, as JSON. If the CLI has tools, requests without tools are
        ignored, because they ask for a title or a summary."""
        bodies = [request.body for request in self.model.requests if request.asked is not None]
        return json.dumps([body for body in bodies if body.get("tools") or not self.can.tools][-1], ensure_ascii=False)

    def events(self, kind: str, turn: int | None = None) -> list[dict[str, Any]]:
        """Return the events of this type, oldest first. If `turn` is given, return only the events of that turn."""
        found = [event for event in self.cli.journal(self.name) if event["type"] == kind]
        return [event for event in found if turn is None or event["turn"] == turn]

    def check_processes_gone(self) -> None:
        """Check that no process of this scratch folder is left: none may have the folder in its command line or
        environment. Raises AssertionError."""
        eventually(lambda: processes_with(str(self.cli.base)) == [], what=f"{self.name} left processes behind")


def eventually(claim: Callable[[], bool], timeout: float = 20, what: str = "") -> None:
    """Wait until the condition is true. Raises AssertionError if that takes longer than `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not claim():
        assert time.monotonic() < deadline, what or "it did not happen in time"
        time.sleep(0.01)


def processes_with(text: str) -> list[int]:
    """Return the pids of processes whose environment or command line holds the text; none if there is no /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            seen = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if text.encode() in seen and state != "Z" and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


@contextlib.contextmanager
def scratch_subject(name: str, base: Path) -> Iterator[Subject]:
    """Yield the adapter's CLI as a subject in this folder; at the end, kill the processes that are left.

    Raises NotFoundError if there is no such adapter or its CLI is not installed, UnsupportedError if the CLI has no
    headless face or can't be pointed at the scripted model.
    """
    card = registry.adapter(name).card
    if "exec" not in card.faces:
        raise UnsupportedError(f"{name} has no headless face to try", subject=name)
    if card.executable and shutil.which(card.executable) is None:
        raise NotFoundError(f"{card.executable} is not installed here", card.install, subject=name)
    cli = ScratchFolder(base)
    if shutil.which("git"):
        subprocess.run(["git", "init", "--quiet", str(cli.project)], env=cli.env, check=False)
    with FakeModel(SCRIPT) as model:
        cli.env |= model.env(name, base / "home")
        yield Subject(name, cli, model)
    for pid in processes_with(str(base)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
