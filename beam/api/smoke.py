"""Runs a real turn of each installed agent CLI against a scripted model: does the CLI start, ask its model, and answer?

Each CLI runs in its own scratch HOME and folder, with a dummy key and no variable of the caller's but PATH. It uses no
account and no tokens, and leaves nothing behind. Does not depend on any CLI: its adapter points it at the model.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from beam.agents import registry
from beam.agents.base import Adapter
from beam.base.errors import NotFoundError, UnsupportedError

PROMPT = "hello from beam"
_AT_ONCE = 2
_TURN_S = 120
_GRACE_S = 10
ProcessResult = tuple[int | None, bytes, bytes]


class SmokeResult(Struct, frozen=True, kw_only=True):
    """The result of one CLI. `result`: ok, failed, missing (the CLI is not installed; `hint` says how to install it).
    `seconds` is the duration of its turn; `got` is the last prompt that the model received, null if it received none;
    `requests` counts the requests to the model."""

    agent: str
    result: Literal["ok", "failed", "missing"]
    executable: str = ""
    version: str | None = None
    face: str | None = None
    status: str | None = None
    exit_code: int | None = None
    seconds: float | None = None
    got: str | None = None
    requests: int = 0
    reason: str | None = None
    hint: str | None = None


def smoke_test_names() -> list[str]:
    """Return the names of the adapters whose CLI can use a scripted model."""
    return [name for name in registry.ADAPTERS if _can_be_smoked(name)]


def _can_be_smoked(name: str) -> bool:
    from beam.testing.fake_model import model_files

    adapter = registry.adapter(name)
    if adapter.card.unverified or adapter.exec is None or not adapter.card.executable:
        return False
    try:
        model_files(name, "http://127.0.0.1:1")
    except UnsupportedError:
        return False
    return True


def smoke(environ: Mapping[str, str], wanted: Sequence[str] = ()) -> Generator[SmokeResult, None, None]:
    """Yield the result of each of the `wanted` CLIs (default: all): first the missing ones, then each other CLI when
    its turn ends.

    Closing the iterator early ends running CLIs and removes their files. Raises NotFoundError for an unknown adapter,
    UnsupportedError for one without a CLI that uses a model.
    """
    for name in wanted:
        registry.adapter(name)
        if not _can_be_smoked(name):
            raise UnsupportedError(
                f"{name} has no CLI that can be pointed at a scripted model",
                f"there are: {', '.join(smoke_test_names())}",
            )
    here = []
    for name in dict.fromkeys(wanted or smoke_test_names()):
        found = _executable(name, environ)
        if found is None:
            yield SmokeResult(agent=name, result="missing", hint=registry.adapter(name).card.install)
        else:
            here.append((name, found))
    runs = _Runs(environ)
    try:
        yield from runs.results_of(here)
    finally:
        runs.end()


def _executable(name: str, environ: Mapping[str, str]) -> str | None:
    from beam.model.settings import AgentSettings
    from beam.turns.request import find_executable

    try:
        return find_executable(registry.adapter(name), AgentSettings(), environ, Path.cwd())
    except NotFoundError:
        return None


class _Runs:
    """Runs the CLIs under test, a few at a time, each in a thread that waits for its processes."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._path = environ.get("PATH", os.defpath)
        self._threads = ThreadPoolExecutor(_AT_ONCE)
        self._tried: list[Future[SmokeResult]] = []
        self._children: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._over = False

    def results_of(self, here: list[tuple[str, str]]) -> Generator[SmokeResult, None, None]:
        """Run these CLIs, each given as (adapter, executable), and yield each result as the CLI ends."""
        self._tried = [self._threads.submit(self._run_cli, *each) for each in here]
        for done in as_completed(self._tried):
            yield done.result()

    def end(self) -> None:
        """End the CLIs that still run, and wait until their files are removed."""
        with self._lock:
            self._over = True
            children = list(self._children)
        for child in children:
            child.terminate()
        self._threads.shutdown(wait=False, cancel_futures=True)
        wait(self._tried, timeout=_GRACE_S)
        with self._lock:
            children = list(self._children)
        for child in children:
            _kill(child)
        self._threads.shutdown()

    def _run_cli(self, name: str, executable: str) -> SmokeResult:
        from beam.testing.fake_model import FakeModel

        card = registry.adapter(name).card
        with (
            tempfile.TemporaryDirectory(prefix="beam-smoke-", ignore_cleanup_errors=True) as scratch,
            FakeModel() as model,
        ):
            env = _environment(Path(scratch), self._path)
            env |= model.env(name, Path(env["HOME"]))
            version = self._version([executable, *card.version_argv], env, scratch) if card.version_argv else None
            began = time.monotonic()
            code, out, err = self._run(_command(registry.adapter(name)), env, f"{scratch}/project", _TURN_S + _GRACE_S)
            seconds = round(time.monotonic() - began, 1)
            prompts = model.prompts()
        outcome = _json(out)
        found = outcome.get("error")
        error = found if isinstance(found, dict) else {}
        was_asked = any(PROMPT in prompt for prompt in prompts)
        reason = outcome.get("reason") or error.get("message") or next(reversed(_lines(err)), None)
        if code == 0 and not was_asked:
            reason = "it answered, and its model was never sent the prompt"
        return SmokeResult(
            agent=name,
            result="ok" if code == 0 and was_asked else "failed",
            executable=executable,
            version=version,
            face=outcome.get("via"),
            status=outcome.get("status"),
            exit_code=code,
            seconds=seconds,
            got=next((prompt for prompt in prompts if PROMPT in prompt), prompts[-1] if prompts else None),
            requests=len(prompts),
            reason=reason,
            hint=error.get("hint"),
        )

    def _version(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> str | None:
        """Return the first line of the CLI's version output; some CLIs write it to stderr."""
        _, out, err = self._run(argv, env, cwd, _TURN_S)
        return next(iter([*_lines(out), *_lines(err)]), None)

    def _run(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, seconds: float) -> ProcessResult:
        """Run the program and return its exit code, stdout and stderr. The exit code is None if this process ended the
        program.

        The program gets its own session. So a ^C reaches only this process, which then ends the program.
        """
        child: subprocess.Popen[bytes] | None = None
        with self._lock:
            if not self._over:
                child = subprocess.Popen(
                    argv,
                    env=dict(env),
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
                self._children.add(child)
        if child is None:
            return None, b"", b""
        try:
            return _wait_or_end(child, seconds)
        finally:
            with self._lock:
                self._children.discard(child)


def _wait_or_end(child: subprocess.Popen[bytes], seconds: float) -> ProcessResult:
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.terminate()
        try:
            out, err = child.communicate(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            _kill(child)
            out, err = child.communicate()
        return None, out, err
    return child.returncode, out, err


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the program and its process group, so that no process keeps its pipes open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _command(adapter: Adapter) -> list[str]:
    """Return the `beam send` command for a turn, with the lowest access that the CLI can enforce."""
    access = next(iter(adapter.card.faces["exec"].access), None)
    options = ["--json", "--via", "exec", "--timeout", f"{_TURN_S}s", *(("--access", access) if access else ())]
    return [sys.executable, "-P", "-m", "beam", "send", adapter.card.name, *options, "--", PROMPT]


def _environment(scratch: Path, path: str) -> dict[str, str]:
    for name in ("home", "project", "tmp"):
        (scratch / name).mkdir()
    return {
        "PATH": path,
        "HOME": str(scratch / "home"),
        "TMPDIR": str(scratch / "tmp"),
        "LANG": "C.UTF-8",
    }


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _lines(data: bytes) -> list[str]:
    return [line.strip()[:500] for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
