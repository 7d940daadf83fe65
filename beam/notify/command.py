"""Delivers a notification by running the command of a target, with the notification on stdin."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from beam.model.notification import Notification, NotifyTarget
from beam.notify.spool import TryResult
from beam.process.environment import environment

_TIMEOUT_S = 30


def run(target: NotifyTarget, notification: Notification, environ: Mapping[str, str], cwd: Path, log: int) -> TryResult:
    """Run the target's command once in the folder `cwd`, and return the result of this try. The output of the command
    goes to the descriptor `log`. After 30 seconds the command and its process group are killed."""
    env = environment(environ, {})
    try:
        process = subprocess.Popen(
            list(target.command),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
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
