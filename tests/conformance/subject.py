"""One real CLI in its scratch place, with the scripted model that it talks to: what every case works with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.testing.conformance import subject as shared
from beam.testing.conformance.subject import SCRIPT
from beam.testing.fake_model import FakeModel
from tests.conformance.adapters import CLIS, COLUMNS, Column
from tests.conformance.adapters import Cli as Data
from tests.support.cli import Cli, eventually, processes_with
from tests.support.repository import configure_git, make_repository


class Subject(shared.Subject):
    """The CLI of a column. `send` is the real `beam send`, by the column's mode."""

    def __init__(self, column: Column, beam: Cli, path: str, model: FakeModel) -> None:
        self.column = column
        self._beam = beam
        self._path = path
        self.state: dict[str, Any] = {}  # what the cells of one place tell each other
        self.attempts: dict[str, dict[str, dict[str, str]]] = {}  # by the names of the cases that tell of them
        super().__init__(column.adapter, None, model, column.face)
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

    def logged_out(self) -> Cli:
        """The same place where nobody is logged in: no settings, no keys, and no way out to the network."""
        directory = self._beam.base / "nobody"
        directory.mkdir(exist_ok=True)
        configure_git(directory)
        closed = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"), "http://127.0.0.1:9")
        given = {"PATH": self._path, "HOME": str(directory), "BEAM_STATE": str(self._beam.base / "state")}
        return self._beam.with_env({**given, **self.data.env, **closed})

    @property
    def data(self) -> Data:
        return CLIS[self.name]

    def check_processes_gone(self) -> None:
        """Nothing that has this place in its command or environment runs any more."""
        eventually(lambda: processes_with(str(self.cli.base)) == [], what=f"{self.name} left processes behind")


def place(
    column: str,
    directory: Path,
    path: str,
    model: FakeModel | None = None,
    *,
    is_repository: bool = True,
    kind: type[Subject] = Subject,
) -> Iterator[Subject]:
    """The CLI of the column with this id, in a git repository in this directory, and its model. Afterwards nothing of
    it may be running. `is_repository`: false where the test is of a folder that is in none."""
    chosen = COLUMNS[column]
    if shutil.which(chosen.adapter, path=path) is None:
        pytest.skip(f"left out: {chosen.adapter} does not install here")
    beam = Cli(directory)
    if is_repository:
        make_repository(beam.project, directory / "home")
    with model or FakeModel(SCRIPT) as model:
        yield kind(chosen, beam, path, model)
    for pid in processes_with(str(directory)):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue
