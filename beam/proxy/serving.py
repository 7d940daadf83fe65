"""Runs a proxy in the background of a process: `with Proxy(ProxyOptions(replay=DIR)) as proxy: proxy.url`.

The module `handling` answers the requests. Does not depend on any CLI.
"""

from __future__ import annotations

from collections.abc import Callable

from beam.base.errors import DiskError
from beam.proxy.handling import ProxyServer
from beam.proxy.http import BackgroundServer
from beam.proxy.options import ProxyCounts, ProxyOptions
from beam.proxy.served import ServedRequest
from beam.proxy.shared import ProxyState
from beam.proxy.upstream import Upstream


class Proxy(BackgroundServer):
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

    @property
    def counts(self) -> ProxyCounts:
        """Return the counts of the requests so far."""
        return self._shared.counts

    def listen(self) -> ProxyServer:
        """Return a server on the port that the options name. Raises DiskError if the port is taken."""
        port = self._shared.options.port
        try:
            return ProxyServer(port, self._shared)
        except OSError as error:
            what = f"127.0.0.1:{port}"
            raise DiskError(f"can't start the proxy: {what}: {error.strerror}", subject=what) from error

    def stop(self) -> None:
        """Cut all connections, close the port and the recording. Idempotent."""
        super().stop()
        if self._shared.recorder is not None:
            self._shared.recorder.close()
            self._shared.recorder = None
