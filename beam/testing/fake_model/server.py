"""`FakeModel`: a scripted model that runs in the background of a test, and its log of requests."""

from __future__ import annotations

import importlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from beam.agents import registry
from beam.base.errors import DiskError, UnsupportedError, UsageError
from beam.proxy.http import BackgroundServer
from beam.proxy.wire.values import ModelRequest
from beam.testing.fake_model.http import ModelServer
from beam.testing.fake_model.player import Player
from beam.testing.fake_model.script import Script, load, parse

_NO_PROXY = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
_SECRET_HEADERS = frozenset(
    {"authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie", "proxy-authorization"}
)


class Request(Struct, frozen=True, kw_only=True):
    """One request as it came.

    `time` is RFC 3339 UTC; header names are lower case, and the values of secret headers are `***`; `body` is the
    parsed JSON, None if there was none; `asked` is set if the request asks the model for an answer.
    """

    time: str
    method: str
    path: str
    headers: dict[str, str]
    body: Any = None
    asked: ModelRequest | None = None


class FakeModel(BackgroundServer):
    """A scripted model that answers over HTTP; start it with `with`.

    `script`: a Script, a plain value, the path of a YAML or JSON file, or None for echoes and directives. `port`: 0
    means any free port. `log`: a file to which each request is appended as JSON Lines. `clock` returns seconds since
    1970.
    """

    def __init__(
        self,
        script: Script | Mapping[str, Any] | Path | None = None,
        *,
        port: int = 0,
        log: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.requests: list[Request] = []
        self._log = log
        self._clock = clock
        self._port = port
        self._lock = threading.Lock()
        self._player = Player(_as_script(script), new_id=lambda: uuid.uuid4().hex)

    def listen(self) -> ModelServer:
        """Return a server on the model's port. Raises DiskError if the port is taken or the log can't be written."""
        try:
            if self._log is not None:
                self._log.touch()
            return ModelServer(self._port, self._player, self._record)
        except OSError as error:
            what = self._log if error.filename else f"127.0.0.1:{self._port}"
            raise DiskError(f"can't start the scripted model: {what}: {error.strerror}", subject=str(what)) from error

    def env(self, adapter: str, home: Path | None = None) -> dict[str, str]:
        """Return the variables that make a CLI of this adapter talk to this model only.

        If the CLI also needs a configuration file, the file is written under `home`, a temporary directory, and HOME
        names this directory. For a CLI that asks a person questions at its first start (Claude Code), a file with the
        answers is written in the same way. Raises NotFoundError for an unknown adapter, UnsupportedError if the CLI
        can't be pointed at a model, UsageError if the CLI needs a `home` and none is given.
        """
        return model_env(adapter, self.url, home)

    def prompts(self) -> list[str]:
        """Return the prompt of each request for an answer, in order. A prompt is the last message of the person."""
        with self._lock:
            return [request.asked.prompt for request in self.requests if request.asked is not None]

    def _record(
        self, method: str, path: str, headers: Mapping[str, str], body: object, asked: ModelRequest | None
    ) -> None:
        shown = {name.lower(): "***" if name.lower() in _SECRET_HEADERS else value for name, value in headers.items()}
        with self._lock:
            at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            request = Request(time=at, method=method, path=path, headers=shown, body=body, asked=asked)
            self.requests.append(request)
            if self._log is not None:
                with self._log.open("a", encoding="ascii") as file:
                    file.write(json.dumps(msgspec.to_builtins(request)) + "\n")


def model_env(adapter: str, url: str, home: Path | None = None) -> dict[str, str]:
    """Return the variables that make a CLI of this adapter talk to the model at `url` only; see `FakeModel.env`."""
    env: dict[str, str] = _env_module(adapter).fake_model_env(url) | _NO_PROXY
    needed, answers = model_files(adapter, url), _files(adapter, "fake_model_answers", url)
    if home is None:
        if needed:
            raise UsageError(
                f"{adapter} needs a scratch home for its configuration", "give env() a home", subject=adapter
            )
        return env
    absent = {name: data for name, data in answers.items() if not (home / name).exists()}
    for name, data in {**needed, **absent}.items():
        path = home / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise DiskError(f"can't write {path}: {error.strerror}", subject=str(path)) from error
    return env | {"HOME": str(home)} if needed or answers else env


def model_files(adapter: str, url: str) -> dict[str, bytes]:
    """Return the configuration files, by their paths under HOME, that a CLI of this adapter needs in addition to its
    variables.
    """
    return _files(adapter, "fake_model_files", url)


def _files(adapter: str, function: str, url: str) -> dict[str, bytes]:
    module = _env_module(adapter)
    files: dict[str, bytes] = getattr(module, function)(url) if hasattr(module, function) else {}
    return files


def _env_module(adapter: str) -> Any:
    module = registry.module_of(adapter)
    name = f"{module}.env"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in (name, module):
            raise
        raise UnsupportedError(f"{adapter} can't be pointed at a scripted model", subject=adapter) from error


def _as_script(given: Script | Mapping[str, Any] | Path | None) -> Script:
    if isinstance(given, Script):
        return given
    if isinstance(given, Path):
        return load(given)
    return parse({} if given is None else given)
