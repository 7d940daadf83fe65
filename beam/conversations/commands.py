"""Runs one command of a scenario, limited in time and output, and ends all processes that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from beam.conversations.expect import command_words
from beam.conversations.scenario import Command
from beam.process import tree
from beam.process.program import environment
from beam.secrets.redact import redact

MAX_OUTPUT = 256 << 10
_KEPT_BEFORE = 16 << 10  # bytes kept before that output: a secret that begins there can be recognized
NOT_FOUND, TIMED_OUT = 127, 124
_GRACE_S = 2.0
_LONGEST_PAUSE_S = 0.05


class CommandEnd(Struct, frozen=True, kw_only=True):
    """How a command ended. `output` is the end of the command's output to stdout and stderr, without secrets. `why`
    says why the command failed; it is "" if the command succeeded. `is_stopped`: the command was ended because its run
    was stopped."""

    exit_code: int
    output: str
    why: str = ""
    is_stopped: bool = False


async def run_command(
    command: Command,
    cwd: Path,
    environ: Mapping[str, str],
    timeout: float,
    stopped_by: Callable[[], str] = lambda: "",
) -> CommandEnd:
    """Run the command in the folder `cwd`. If it still runs after `timeout` seconds, or once `stopped_by` returns the
    reason for which its run was stopped, it is ended."""
    words = command_words(command)
    mark = f"BEAM_RUN_{secrets.token_hex(8)}"
    try:
        child = await asyncio.create_subprocess_exec(
            *words,
            cwd=cwd,
            env={**environment(environ, {}), mark: "1"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return CommandEnd(exit_code=NOT_FOUND, output="", why=f"can't run {words[0][:100]}: {reason}")
    why, is_stopped, kept = "", False, bytearray()
    reading = asyncio.ensure_future(_collect_output(child, kept))
    try:
        async with asyncio.timeout(timeout):
            await _wait_for_end(child, is_wanted=lambda: not stopped_by())
        if child.returncode is None:
            why, is_stopped = stopped_by(), True
    except TimeoutError:
        why = f"stopped after {timeout:g} s, its timeout"
    finally:
        await _end_group(child)
        await asyncio.to_thread(tree.end_processes, mark, ())  # processes that left the group
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_GRACE_S):
                await reading
        reading.cancel()
    code = TIMED_OUT if why else child.returncode if child.returncode is not None else TIMED_OUT
    if code < 0:
        code, why = 128 - code, why or f"ended by signal {-code}"
    if code and not why:
        why = f"ended with exit code {code}"
    output = redact(bytes(kept).decode("utf-8", "replace"))[0][-MAX_OUTPUT:]
    return CommandEnd(exit_code=code, output=output, why=why, is_stopped=is_stopped)


async def _collect_output(child: asyncio.subprocess.Process, kept: bytearray) -> None:
    assert child.stdout is not None
    while piece := await child.stdout.read(1 << 16):
        kept += piece
        del kept[: -MAX_OUTPUT - _KEPT_BEFORE]


async def _wait_for_end(child: asyncio.subprocess.Process, *, is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Wait until the command's own process has ended, or until `is_wanted` returns False. `child.wait()` would also
    wait for other processes that have the command's output open."""
    pause = 0.001
    while child.returncode is None and is_wanted():
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


async def _end_group(child: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
        if child.returncode is not None:
            if number is signal.SIGTERM:
                continue
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await _wait_for_end(child)
