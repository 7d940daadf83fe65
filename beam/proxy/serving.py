"""Runs a proxy in the background of a process: `with Proxy(ProxyOptions(replay=DIR)) as proxy: proxy.url`.

The module `handling` answers the requests. Does not depend on any CLI.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from beam.base.errors import DiskError
from beam.proxy.handling import ProxyServer
from beam.proxy.options import ProxyCounts, ProxyOptions
from beam.proxy.served import ServedRequest
from beam.proxy.shared import ProxyState
from beam.proxy.upstream import Upstream


class Proxy:
    """A proxy on 127.0.0.1; start it with `with`. `served` is called after each request, from the proxy's threads.
    `key` is the real key of the model's API, if the agent must not know it."""

    def __init__(
        self, options: ProxyOptions, *, served: Callable[[ServedRequest], None] | None = None, key: str | None = None
    ) -> None:
        """Read the recording that is replayed, and open the one that is written. Raises UsageError, NotFoundError,
        CorruptError, DiskError."""
        if options.upstream:
            Upstream(options.upstream)
        self._shared = ProxyState(options, served, key)
        self._server: ProxyServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Return the URL of the proxy, without a slash at the end. Raises RuntimeError unless the proxy is running."""
        if self._server is None:
            raise RuntimeError("the proxy is not running: use `with`")
        return self._server.url

    @property
    def counts(self) -> ProxyCounts:
        """Return the counts of the requests so far."""
        return self._shared.counts

    def start(self) -> Self:
        """Start to listen. Raises DiskError if the port is taken."""
        port = self._shared.options.port
        try:
            self._server = ProxyServer(port, self._shared)
        except OSError as error:
            what = f"127.0.0.1:{port}"
            raise DiskError(f"can't start the proxy: {what}: {error.strerror}", subject=what) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="proxy", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Cut all connections, close the port and the recording. Idempotent."""
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None and thread is not None:
            server.stop()
            thread.join()
        if self._shared.recorder is not None:
            self._shared.recorder.close()
            self._shared.recorder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
