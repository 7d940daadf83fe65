"""Starts a proxy in a process of its own, reads the reports of that process, and ends it.

The process has a session of its own and a small environment. It ends when its stdin is closed, so it also ends when its
owner dies. Does not depend on turns or CLIs.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import msgspec

from beam.base import errors, typed_values
from beam.base.errors import BeamError, DiskError, UsageError
from beam.proxy.options import ProxyCounts, ProxyOptions
from beam.proxy.process import ENVIRONMENT, Order, Report
from beam.proxy.served import ServedRequest

_END_S = 10.0


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
    ) -> None:
        """Start the process and wait until the proxy listens. If it can't start, raises BeamError with the reason."""
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "beam.proxy.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={name: value for name, value in environ.items() if name in ENVIRONMENT},
                cwd="/",
                start_new_session=True,
                pass_fds=() if key_fd is None else (key_fd,),
            )
        except OSError as error:
            raise DiskError(f"can't start a proxy: {error.strerror}") from error
        except ValueError as error:  # no descriptor has so high a number
            raise UsageError(f"descriptor {key_fd} is not open") from error
        self.pid = self._process.pid
        self.counts = ProxyCounts()
        self._served = served
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._out = self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            order = Order(options=options, key_fd=key_fd, secret=secret)
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()
        first = self._out.readline()
        try:
            said = typed_values.decode(first, Report)
        except msgspec.DecodeError:
            said = Report(error=("the proxy did not start", "", "DiskError"))
        if said.error is not None:
            self.stop()
            message, hint, kind = said.error
            found = getattr(errors, kind, DiskError)
            raise (found if issubclass(found, BeamError) else DiskError)(message, hint)
        self.url = said.url
        self._thread = threading.Thread(target=self._read_reports, name="proxy-owner", daemon=True)
        self._thread.start()

    def _read_reports(self) -> None:
        for line in self._out:
            with contextlib.suppress(msgspec.DecodeError):
                said = typed_values.decode(line, Report)
                if said.served is not None:
                    self._served(said.served)
                if said.counts is not None:
                    self.counts = said.counts

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
        if hasattr(self, "_thread"):
            self._thread.join(_END_S)
        self._out.close()
        return self.counts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
