"""Runs calls of git, in an event loop or without one, with a time limit, and interprets the exit code.

If a call fails, GitError is raised inside the generator of calls, which may handle it. If the disk is full, the
generator ends and the caller gets DiskError.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
from typing import TypeVar

from beam.base.errors import DiskError
from beam.base.typed_values import escape_surrogates
from beam.worktree.calls import GitCall, GitCalls, GitError

R = TypeVar("R")
_DISK_FULL_MESSAGES = (b"No space left on device", b"Disk quota exceeded")
_REFUSED = re.compile(  # in git's words since 2.36, and before
    rb"dubious ownership in repository at '(.*)'$|unsafe repository \('(.*)' is owned by someone else", re.MULTILINE
)
_EXIT_CODE_NO = 1  # git's exit code for "no", as of `git diff --quiet`


async def run(calls: GitCalls[R]) -> R:
    """Run all calls that the generator yields, in an event loop, and return the result of the generator."""
    try:
        call = next(calls)
        while True:
            try:
                printed = await _run_one(call)
            except GitError as error:
                call = calls.throw(error)
            else:
                call = calls.send(printed)
    except StopIteration as done:
        result: R = done.value
        return result


def run_blocking(calls: GitCalls[R]) -> R:
    """Run all calls that the generator yields, without an event loop, and return the result of the generator."""
    try:
        call = next(calls)
        while True:
            try:
                printed = run_one_blocking(call)
            except GitError as error:
                call = calls.throw(error)
            else:
                call = calls.send(printed)
    except StopIteration as done:
        result: R = done.value
        return result


async def _run_one(call: GitCall) -> bytes:
    import asyncio

    process = await asyncio.create_subprocess_exec(
        *_command(call),
        cwd=call.cwd,
        env=call.env,
        stdin=asyncio.subprocess.DEVNULL if call.stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(call.stdin), call.within_s)
    except TimeoutError:
        raise _timeout_error(call) from None
    finally:
        if process.returncode is None:
            _kill(process.pid)
            await process.wait()
    return _checked_output(call, process.returncode or 0, out, err)


def run_one_blocking(call: GitCall) -> bytes:
    """Run one call without an event loop and return its standard output. Raises GitError, DiskError."""
    import subprocess

    with subprocess.Popen(
        _command(call),
        cwd=call.cwd,
        env=call.env,
        stdin=subprocess.DEVNULL if call.stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(call.stdin, timeout=call.within_s)
        except subprocess.TimeoutExpired:
            raise _timeout_error(call) from None
        finally:
            if process.returncode is None:
                _kill(process.pid)
    return _checked_output(call, process.returncode, out, err)


def _command(call: GitCall) -> tuple[str, ...]:
    if not call.largest_kib:
        return call.argv
    return "/bin/sh", "-c", f'ulimit -f {call.largest_kib * 2}; exec "$@"', "sh", *call.argv  # in blocks of 512 bytes


def _kill(pid: int) -> None:
    """Kill git and every process in its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _timeout_error(call: GitCall) -> GitError:
    return GitError(f"git {call.word} took longer than {call.within_s:g} s")


def _checked_output(call: GitCall, code: int, out: bytes, err: bytes) -> bytes:
    if not code:
        return out
    last = (err.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {code}"])[0][:300]
    if refused := _REFUSED.search(err):
        place = escape_surrogates(os.fsdecode(refused[1] or refused[2]))
        what = f"git refuses {place}, which belongs to another user (dubious ownership)"
        raise GitError(what, f"if you trust it: git config --global --add safe.directory {shlex.quote(place)}")
    is_answer = call.asks and code == _EXIT_CODE_NO
    if not is_answer and (any(sign in err for sign in _DISK_FULL_MESSAGES) or (not call.asks and _is_full(call))):
        what = f"git {call.word} could not write: the disk is full, or a quota is used up ({last})"
        raise DiskError(what, "free some space, then run it again", subject=str(call.cwd))
    error = GitError(f"git {call.word}: {last}")
    error.code = code
    raise error


def _is_full(call: GitCall) -> bool:
    """Return whether the disk that git writes to is full. This check is needed because git's error output does not
    always say so."""
    with contextlib.suppress(OSError):
        found = [os.statvfs(place) for place in (call.cwd, call.env.get("GIT_DIR", call.cwd))]
        return any(each.f_blocks and not each.f_bavail and not each.f_flag & os.ST_RDONLY for each in found)
    return False
