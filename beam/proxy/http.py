"""The HTTP server that serves model APIs: one thread per connection, keep-alive, chunked streams; 127.0.0.1 only.

The scripted model and the proxy each have a handler class for this server. It is built on the standard library's
server, because a handler must be able to cut, stall and chunk streams exactly; web frameworks hide this. Does not
depend on any wire format.
"""

from __future__ import annotations

import re
import select
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Self

from beam.model.settings import MIB

BODY_LIMIT = 64 * MIB
_STOP_TIMEOUT_S = 2.0
_CHUNK_LINE_LIMIT = 4096  # of a chunk's head or a trailer
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")


class RequestError(Exception):
    """The request is refused. `status` and the error's message are sent as the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server(ThreadingHTTPServer):
    """Listens on 127.0.0.1 from the moment it is created; a handler of the given class answers the requests of each
    connection."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, handler: type[Handler]) -> None:
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", port), handler)

    def server_bind(self) -> None:
        """Bind without HTTPServer's reverse look-up of the host name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    @property
    def url(self) -> str:
        """Return the URL of the server, without a slash at the end."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        """Stop serving: cut all connections, even stalled ones, close the port, and wait briefly for the connections'
        threads."""
        self.shutdown()
        self.server_close()
        with self._changed:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._open, _STOP_TIMEOUT_S)


class BackgroundServer:
    """Serves in a thread of this process; start it with `with`. A subclass defines `listen`."""

    _server: Server | None = None
    _thread: threading.Thread | None = None

    def listen(self) -> Server:
        """Return a server that listens. Raises DiskError if it can't."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """Return the URL of the server, without a slash at the end. Raises RuntimeError unless it is running."""
        if self._server is None:
            raise RuntimeError(f"the {type(self).__name__} is not running: use `with`")
        return self._server.url

    def start(self) -> Self:
        """Listen and answer in the background. Raises DiskError."""
        self._server = self.listen()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Cut all connections, stalled ones too, and close the port. Idempotent."""
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None and thread is not None:
            server.stop()
            thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Handler(BaseHTTPRequestHandler):
    """One connection. A subclass defines `answer`, which is called for each request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    takes_chunks = False
    body_limit = BODY_LIMIT
    _knows_chunks = True

    def answer(self) -> None:
        """Answer the request whose request line and headers were just read."""
        raise NotImplementedError

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the users of this server keep their own logs."""

    def read_body(self) -> bytes:
        """Return the request's body. Raises RequestError for a body that is too large or has no clear length, and
        ConnectionResetError if the client disconnects."""
        lengths = set(self.headers.get_all("content-length", []))
        if len(lengths) > 1 or (lengths and "transfer-encoding" in self.headers):
            raise RequestError(400, "the request has two lengths")
        length = self.headers.get("content-length", "0")
        codings = [each.strip().lower() for each in self.headers.get_all("transfer-encoding", [])]
        if self.takes_chunks and codings == ["chunked"]:
            return self._read_chunks()
        if codings or not length.isdecimal():
            raise RequestError(411, "a content-length is needed")
        if int(length) > self.body_limit:
            raise RequestError(413, f"the body is over {self.body_limit} bytes")
        return self._read_exactly(int(length))

    def _read_chunks(self) -> bytes:
        found = bytearray()
        while True:
            head = self._read_chunk_line().partition(b";")[0].strip()
            if not _CHUNK_SIZE.fullmatch(head):
                raise RequestError(400, "a chunk has no size")
            size = int(head, 16)
            if len(found) + size > self.body_limit:
                raise RequestError(413, f"the body is over {self.body_limit} bytes")
            if size == 0:
                while self._read_chunk_line() not in (b"\r\n", b"\n"):
                    pass
                return bytes(found)
            found += self._read_exactly(size)
            if self._read_chunk_line() not in (b"\r\n", b"\n"):
                raise RequestError(400, "a chunk is longer than it says")

    def _read_chunk_line(self) -> bytes:
        """Return the next line of a chunked body: a chunk's head, a trailer, or the end of a chunk. Raises RequestError
        for a line that is too long."""
        line = self.rfile.readline(_CHUNK_LINE_LIMIT)
        if not line.endswith(b"\n"):
            if len(line) < _CHUNK_LINE_LIMIT:
                raise ConnectionResetError("the client left")
            raise RequestError(400, "a line of a chunk is too long")
        return line

    def _read_exactly(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise ConnectionResetError("the client left")
        return data

    def send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a complete answer: head and body."""
        self.send_head(status, {**headers, "Content-Length": str(len(body))})
        if self.command != "HEAD":
            self.wfile.write(body)

    def parse_request(self) -> bool:
        """Read the request line and the headers. The connection of a client that speaks HTTP/1.0 ends with the answer,
        because such a client knows no chunks."""
        is_read = super().parse_request()
        self._knows_chunks = self.request_version not in ("HTTP/0.9", "HTTP/1.0")
        self.close_connection = self.close_connection or not self._knows_chunks
        return is_read

    def send_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer: status line and headers."""
        self.send_response(status, None if status != 529 else "Overloaded")
        for name, value in headers.items():
            if name != "Transfer-Encoding" or self._knows_chunks:
                self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def send_chunk(self, data: bytes) -> None:
        """Send a piece of an answer: as one chunk, or as it is to a client that knows no chunks."""
        self.wfile.write(data if not self._knows_chunks else f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def send_last_chunk(self) -> None:
        """Send the last chunk, which ends an answer in chunks."""
        if self._knows_chunks:
            self.wfile.write(b"0\r\n\r\n")

    def pause(self, seconds: float | None) -> None:
        """Wait for `seconds` (None: without a limit). Raises ConnectionError as soon as the client disconnects or the
        server stops."""
        until = None if seconds is None else time.monotonic() + seconds
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not poll.poll(None if left is None else left * 1000):
                return
            if not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError("the client left")
            if left == 0:
                return
            time.sleep(0.01 if left is None else min(0.01, left))  # the client sent more: wait on
