"""The scripted model's HTTP: one thread per connection, keep-alive, chunked streams, faults and pace; 127.0.0.1 only.

The player decides the answer, a dialect its wire format: one more vendor's API is one more module in `DIALECTS`. Does
not depend on scripts' files or the log.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Literal, Protocol

from beam.model.limits import MIB
from beam.testing.fake_model import anthropic, chat, gemini, responses
from beam.testing.fake_model.player import Player, Reply
from beam.testing.fake_model.script import Asked, Error

BODY_LIMIT = 64 * MIB
_STOP_TIMEOUT = 2.0


class Dialect(Protocol):
    """One vendor's wire format, as pure functions. A module is one."""

    name: str

    def route(self, method: str, path: str) -> Literal["ask", "count"] | None: ...
    def asked(self, body: dict[str, Any], size: int, path: str = "") -> Asked: ...
    def whole(self, reply: Reply, asked: Asked) -> bytes: ...
    def stream(self, reply: Reply, asked: Asked) -> list[tuple[bytes, bool]]: ...
    def count(self, asked: Asked) -> bytes: ...
    def error(self, error: Error, request_id: str) -> bytes: ...
    def stream_error(self, error: Error) -> bytes: ...
    def broken(self, event: bytes) -> bytes: ...


DIALECTS: tuple[Dialect, ...] = (anthropic, responses, chat, gemini)
DOCUMENTS = {"/v1/models": chat.MODELS, "/models": chat.MODELS}  # what a CLI may look at before it asks


Record = Callable[[str, str, Mapping[str, str], object, Asked | None], None]


class Server(ThreadingHTTPServer):
    """Listens from the moment it is created; `record` is told of each request before it is answered."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], player: Player, record: Record) -> None:
        self.player = player
        self.record = record
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without HTTPServer's reverse look-up of the host name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

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
        """Cut all connections, stalled ones too, close the port, and wait until their threads are done."""
        self.shutdown()
        self.server_close()
        with self._changed:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._open, _STOP_TIMEOUT)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server
    disable_nagle_algorithm = True

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the log of requests is `FakeModel.requests`."""

    def _answer(self) -> None:
        self.request_id = f"req_{uuid.uuid4().hex[:24]}"
        path = self.path.partition("?")[0]
        found = ((dialect, dialect.route(self.command, path)) for dialect in DIALECTS)
        dialect, route = next((pair for pair in found if pair[1]), (DIALECTS[0], None))
        data = self._body(dialect)
        if data is None:
            return
        try:
            body = json.loads(data) if data else None
        except ValueError:
            body = None
        asked = dialect.asked(body, len(data), path) if route and isinstance(body, dict) else None
        self.server.record(self.command, self.path, dict(self.headers), body, asked if route == "ask" else None)
        if route is None:
            if self.command in ("HEAD", "GET") and path == "/":
                self._send(200, b"")
            elif self.command == "GET" and path in DOCUMENTS:
                self._send(200, DOCUMENTS[path])
            else:
                self._fail(dialect, Error(status=404, message=f"no such path: {self.command} {path}"))
        elif asked is None:
            self._fail(dialect, Error(status=400, message="the body is not a JSON object"))
        elif route == "count":
            self._send(200, dialect.count(asked))
        else:
            self._reply(dialect, self.server.player.reply(asked), asked)

    def _body(self, dialect: Dialect) -> bytes | None:
        """Return the request's body; None if the request was answered with an error instead."""
        length = self.headers.get("content-length", "0")
        if "transfer-encoding" in self.headers or not length.isdecimal():
            problem = Error(status=411, message="a content-length is needed")
        elif int(length) > BODY_LIMIT:
            problem = Error(status=413, message=f"the body is over {BODY_LIMIT} bytes")
        else:
            data = self.rfile.read(int(length))
            if len(data) < int(length):
                raise ConnectionResetError("the client left")
            return data
        self.close_connection = True
        self.server.record(self.command, self.path, dict(self.headers), None, None)
        self._fail(dialect, problem)
        return None

    def _reply(self, dialect: Dialect, reply: Reply, asked: Asked) -> None:
        answer = reply.answer
        if answer.at == "start":
            self._faults(reply)
            if answer.error is not None:
                self._fail(dialect, answer.error)
                return
        if asked.stream:
            self._stream(dialect, reply, asked)
            return
        body = dialect.whole(reply, asked)
        if answer.malformed:
            body = body[: len(body) // 2]
        self._head(200, "application/json", {"Content-Length": str(len(body))})
        if answer.at == "middle":
            self.wfile.write(body[: len(body) // 2])
            self._faults(reply)
            body = body[len(body) // 2 :]
        self.wfile.write(body)

    def _stream(self, dialect: Dialect, reply: Reply, asked: Asked) -> None:
        answer = reply.answer
        events = dialect.stream(reply, asked)
        pieces = [index for index, (_, is_piece) in enumerate(events) if is_piece]
        middle = pieces[len(pieces) // 2] if pieces else 1
        self._head(
            200, "text/event-stream; charset=utf-8", {"Cache-Control": "no-cache", "Transfer-Encoding": "chunked"}
        )
        for index, (event, is_piece) in enumerate(events):
            if index == middle:
                if answer.at == "middle":
                    self._faults(reply)
                    if answer.error is not None:
                        self._chunk(dialect.stream_error(answer.error))
                        break
                if answer.malformed:
                    self._chunk(dialect.broken(event))
                    continue
            if is_piece and answer.delay:
                self._pause(answer.delay)
            self._chunk(event)
        self.wfile.write(b"0\r\n\r\n")

    def _faults(self, reply: Reply) -> None:
        """Carry out the stall and the cut of an answer; a cut ends the connection's thread."""
        stall = reply.answer.stall
        if stall is not False:
            self._pause(None if stall is True else stall)
        if reply.answer.drop:
            self.close_connection = True
            raise ConnectionAbortedError("cut, as the script says")

    def _pause(self, seconds: float | None) -> None:
        """Wait that long (None: for ever). Raises ConnectionError as soon as the client leaves or the server stops."""
        until = None if seconds is None else time.monotonic() + seconds
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not poll.poll(None if left is None else left * 1000):
                return
            if not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError("the client left")
            time.sleep(0.01 if left is None else min(0.01, left))  # it sent ahead: only look whether it is still there

    def _fail(self, dialect: Dialect, error: Error) -> None:
        more = {} if error.retry_after is None else {"retry-after": f"{error.retry_after:g}"}
        self._send(error.status, dialect.error(error, self.request_id), more)

    def _send(self, status: int, body: bytes, more: Mapping[str, str] | None = None) -> None:
        self._head(status, "application/json", {"Content-Length": str(len(body)), **(more or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, content_type: str, more: Mapping[str, str]) -> None:
        self.send_response(status, None if status != 529 else "Overloaded")
        self.send_header("Content-Type", content_type)
        self.send_header("request-id", self.request_id)
        for name, value in more.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
