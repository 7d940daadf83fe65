"""One real CLI in its scratch place, with the scripted model that it talks to: what every case works with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import Capabilities
from beam.testing.fake_model import FakeModel
from tests.conformance.adapters import ADAPTERS
from tests.conformance.adapters import Cli as Data
from tests.support.cli import Cli, Ended, eventually, processes_with
from tests.support.repository import configure_git, make_repository

GO_ON = "go on after that"
# A CLI may send a prompt that was never answered again, in one with the next: that is answered all the same.
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


class Subject:
    """The CLI called `name`. `send` is the real `beam send`, by the headless face."""

    def __init__(self, name: str, beam: Cli, path: str, model: FakeModel) -> None:
        self.name = name
        self.model = model
        self._beam = beam
        self._path = path
        self._once: dict[str, Any] = {}
        self.attempts: dict[str, dict[str, dict[str, str]]] = {}  # by the names of the cases that tell of them
        self.cli = self.at_home("home")

    def at_home(self, home: str) -> Cli:
        """The same place and the same root, with another HOME: there the CLI has never been used."""
        directory = self._beam.base / home
        directory.mkdir(exist_ok=True)
        configure_git(directory)
        state = str(self._beam.base / "state")
        env = {
            "PATH": self._path,
            "HOME": str(directory),
            "BEAM_STATE": state,
            **self.data.env,
            **self.model.env(self.name, directory),
        }
        return self._beam.with_env(env)

    @property
    def data(self) -> Data:
        return ADAPTERS[self.name]

    @cached_property
    def can(self) -> Capabilities:
        """What its card claims for the headless face."""
        return registry.adapter(self.name).card.faces["exec"]

    @property
    def least(self) -> str:
        """The access that is nearest to only looking."""
        return "read" if "read" in self.can.access else self.can.access[0]

    # -- turns -----------------------------------------------------------------------------------------------------

    def words(self, *options: str, access: str | None = None, agent: str | None = None) -> tuple[str, ...]:
        """The words of `beam send` before the prompt."""
        return ("send", agent or self.name, "--via", "exec", "--json", "--access", access or self.least, *options)

    def send(
        self,
        text: str,
        *options: str,
        access: str | None = None,
        agent: str | None = None,
        cli: Cli | None = None,
        env: Mapping[str, str] = {},
    ) -> Ended:
        """One turn; the prompt goes to beam by stdin, so that it is the same for every text."""
        words = self.words(*options, access=access, agent=agent)
        return (cli or self.cli)(*words, stdin=text, timeout=WAIT, env=env)

    def start(self, text: str, *options: str) -> subprocess.Popen[bytes]:
        """Begins a turn; when this returns the model was asked."""
        before = len(self.model.prompts())
        process = self.cli.start(*self.words(*options), "--", text)
        eventually(lambda: len(self.model.prompts()) > before or process.poll() is not None, timeout=WAIT)
        assert process.poll() is None, process.communicate()
        return process

    def outcome(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """The outcome of a turn that was begun."""
        out, err = process.communicate(timeout=WAIT)
        assert out.count(b"\n") == 1, (out, err)
        found: dict[str, Any] = json.loads(out)
        return found

    def once(self, name: str, act: Callable[[], Any]) -> Any:
        """What it gives, done once for all cells that look at it; one that failed is not done again."""
        if name not in self._once:
            self._once[name] = AssertionError(f"{name} went wrong before")
            self._once[name] = act()
        if isinstance(self._once[name], AssertionError):
            raise self._once[name]
        return self._once[name]

    # -- what was seen -----------------------------------------------------------------------------------------------

    def sent(self) -> str:
        """All that the model was sent with the last request of the turn itself, as JSON. A CLI may make other requests
        beside it (a title, a summary): those have no tools, where the CLI has any."""
        bodies = [request.body for request in self.model.requests if request.asked is not None]
        return json.dumps([body for body in bodies if body.get("tools") or not self.can.tools][-1], ensure_ascii=False)

    def events(self, kind: str, turn: int | None = None) -> list[dict[str, Any]]:
        """The events of this type, oldest first; of that turn, if one is named."""
        found = [event for event in self.cli.journal(self.name) if event["type"] == kind]
        return [event for event in found if turn is None or event["turn"] == turn]

    def gone(self) -> None:
        """Nothing that has this place in its command or environment runs any more."""
        eventually(lambda: processes_with(str(self.cli.base)) == [], what=f"{self.name} left processes behind")


def place(
    name: str, directory: Path, path: str, model: FakeModel | None = None, *, is_repository: bool = True
) -> Iterator[Subject]:
    """The CLI in a git repository in this directory, and its model. Afterwards nothing of it may be running.
    `is_repository`: false where the test is of a folder that is in none."""
    if shutil.which(name, path=path) is None:
        pytest.skip(f"left out: {name} does not install here")
    beam = Cli(directory)
    if is_repository:
        make_repository(beam.project, directory / "home")
    with model or FakeModel(SCRIPT) as model:
        yield Subject(name, beam, path, model)
    for pid in processes_with(str(directory)):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue
