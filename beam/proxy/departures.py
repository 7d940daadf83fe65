"""Ends a request to the model when the agent that made it has disconnected. A thread watches the connections."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress

_WATCH_PAUSE_S = 0.5


class DisconnectWatcher:
    """Watches pairs of connections: the agent's, and the proxy's connection to the model for the same request."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[socket.socket, socket.socket]] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._watch_connections, name="proxy-watch", daemon=True).start()

    def watch(self, number: int, agent: socket.socket, model: socket.socket) -> None:
        """Watch the connections of one request until `unwatch` is called. If the agent disconnects, the connection to
        the model is ended."""
        with self._lock:
            self._waiting[number] = agent, model

    def unwatch(self, number: int) -> None:
        """Stop watching the connections of this request."""
        with self._lock:
            self._waiting.pop(number, None)

    def stop(self) -> None:
        """Stop the thread, and end all watched connections to the model."""
        self._over.set()
        for _, model in self._pairs():
            _shut_down(model)

    def _watch_connections(self) -> None:
        while not self._over.wait(_WATCH_PAUSE_S):
            for agent, model in self._pairs():
                with suppress(OSError, ValueError):
                    poll = select.poll()
                    poll.register(agent, select.POLLIN)
                    if poll.poll(0) and not agent.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                        _shut_down(model)

    def _pairs(self) -> list[tuple[socket.socket, socket.socket]]:
        with self._lock:
            return list(self._waiting.values())


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
