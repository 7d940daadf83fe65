"""The owner's side of a proxy's process: starts it, reads its reports, and ends it with its owner.

The process is in a session of its own, has a small environment, and ends when its stdin does. Does not depend on turns
or CLIs.
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
from beam.base.errors import BeamError, DiskError
from beam.proxy.options import ProxyCounts, ProxyOptions
from beam.proxy.process import ENVIRONMENT, Order, Report
from beam.proxy.served import ServedRequest

_END_S = 10.0


class ProxyProcess:
    """A proxy that runs. `served` is called for each request, from a thread."""

    def __init__(
        self,
        options: ProxyOptions,
        environ: Mapping[str, str],
        *,
        served: Callable[[ServedRequest], None],
        key_fd: int | None = None,
        secret: str = "",
    ) -> None:
        """Start it and wait until it listens. Raises BeamError, which says why, if it can't."""
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
        self._thread = threading.Thread(target=self._hear, name="proxy-owner", daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        for line in self._out:
            with contextlib.suppress(msgspec.DecodeError):
                said = typed_values.decode(line, Report)
                if said.served is not None:
                    self._served(said.served)
                if said.counts is not None:
                    self.counts = said.counts

    def stop(self) -> ProxyCounts:
        """End it and return what it counted: nothing where it was killed. Idempotent."""
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
