"""Delivers a notification by running the command of a target, with the notification on stdin."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from beam.base import own_program
from beam.model.notification import Notification, NotifyTarget
from beam.notify.spool import TryResult
from beam.process.program import environment
from beam.secrets.redact import redact

_TIMEOUT_S = 30
_MAX_OUTPUT = 64 << 10  # bytes of what one try prints that are kept


def run(target: NotifyTarget, notification: Notification, environ: Mapping[str, str], cwd: Path, log: int) -> TryResult:
    """Run the target's command once in the folder `cwd`, and return the result of this try. What the command printed
    goes to the descriptor `log` at its end, without secrets. After 30 seconds the command and its process group are
    killed."""
    with tempfile.TemporaryFile() as output:  # no pipe: a process that the command leaves behind must not hold this up
        tried = _run(target, notification, environ, cwd, output.fileno())
        printed = os.pread(output.fileno(), _MAX_OUTPUT, 0).decode("utf-8", "replace")
    with contextlib.suppress(OSError):  # a log that can't be written stops no notification
        os.write(log, redact(printed)[0].encode("utf-8", "replace"))
    return tried


def _run(
    target: NotifyTarget, notification: Notification, environ: Mapping[str, str], cwd: Path, output: int
) -> TryResult:
    env = environment({**environ, "PATH": own_program.search_path(environ)}, {})
    try:
        process = subprocess.Popen(
            list(target.command),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return TryResult(error=f"can't run {target.command[0][:80]}: {getattr(error, 'strerror', None) or error}")
    try:
        process.communicate(msgspec.json.encode(notification) + b"\n", timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return TryResult(error=f"{target.command[0][:80]} did not end within {_TIMEOUT_S} s")
    return TryResult() if process.returncode == 0 else TryResult(error=f"exit code {process.returncode}")
