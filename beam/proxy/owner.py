"""Starts a proxy in a process of its own, reads the reports of that process, and ends it.

The process has a session of its own and a small environment. It ends when its stdin is closed, so it also ends when its
owner dies; before it listens, the kernel ends it then. Does not depend on turns or CLIs.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import msgspec

from beam.base import errors, own_program, typed_values
from beam.base.errors import BeamError, DiskError, UsageError
from beam.proxy.options import ProxyCounts, ProxyOptions
from beam.proxy.process import ENVIRONMENT, READY_S, Order, Report
from beam.proxy.served import ServedRequest

_END_S = 10.0
_LOOK_S = 0.1


class ProxyProcess:
    """A running proxy in a process of its own. `served` is called after each request, from another thread."""

    def __init__(
        self,
        options: ProxyOptions,
        environ: Mapping[str, str],
        *,
        served: Callable[[ServedRequest], None],
        key_fd: int | None = None,
        secret: str = "",
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start the process and wait until the proxy listens. If it can't start, raises BeamError with the reason.

        The wait ends after `READY_S` seconds, and as soon as `is_stopped` returns True; it is asked ten times a second.
        """
        env = {name: value for name, value in environ.items() if name in ENVIRONMENT}
        argv, arguments = own_program.command("beam.proxy.process", environ=env)
        if key_fd is not None:
            arguments["pass_fds"] = (*arguments.get("pass_fds", ()), key_fd)
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd="/",
                start_new_session=True,
                **arguments,
            )
        except OSError as error:
            raise DiskError(f"can't start a proxy: {error.strerror}") from error
        except ValueError as error:  # no descriptor has so high a number
            raise UsageError(f"descriptor {key_fd} is not open") from error
        self.pid = self._process.pid
        self.counts = ProxyCounts()
        self._served = served
        self._said: Report | None = None
        self._has_said = threading.Event()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._out = self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            order = Order(options=options, owner=os.getpid(), key_fd=key_fd, secret=secret)
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()
        self._thread = threading.Thread(target=self._read_reports, name="proxy-owner", daemon=True)
        self._thread.start()
        self.url = self._wait_until_ready(is_stopped)

    def _wait_until_ready(self, is_stopped: Callable[[], bool]) -> str:
        """Return the proxy's URL. If there is none, end the process and raise BeamError."""
        until = time.monotonic() + READY_S
        while not self._has_said.wait(_LOOK_S):
            if is_stopped():
                self._kill()
                raise BeamError("it was stopped before its proxy was ready")
            if time.monotonic() > until:
                self._kill()
                raise BeamError(
                    f"the proxy was not ready within {READY_S:g} s", "use a smaller recording: --record makes a new one"
                )
        said = self._said or Report(error=("the proxy did not start", "", "DiskError"))
        if said.error is not None:
            self.stop()
            message, hint, kind = said.error
            found = getattr(errors, kind, DiskError)
            raise (found if issubclass(found, BeamError) else DiskError)(message, hint)
        return said.url

    def _read_reports(self) -> None:
        try:
            for line in self._out:
                said = None
                with contextlib.suppress(msgspec.DecodeError):
                    said = typed_values.decode(line, Report)
                if not self._has_said.is_set():
                    self._said = said
                    self._has_said.set()
                elif said is not None and said.served is not None:
                    self._served(said.served)
                elif said is not None and said.counts is not None:
                    self.counts = said.counts
        finally:
            self._has_said.set()

    def _kill(self) -> None:
        self._process.kill()
        self.stop()

    def stop(self) -> ProxyCounts:
        """End the process and return the proxy's counts: all are 0 if the process had to be killed. Idempotent."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(_END_S)
        self._out.close()
        return self.counts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
