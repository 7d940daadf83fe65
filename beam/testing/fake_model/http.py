"""The scripted model's answers to HTTP requests: the player chooses an answer, and a dialect gives it a vendor's
format.

This module also carries out the faults and delays of the answers. Does not depend on scripts' files or the log.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping

from beam.proxy.http import Handler, RequestError, Server
from beam.proxy.wire import dialects
from beam.proxy.wire.dialects import Dialect
from beam.proxy.wire.sse import broken
from beam.proxy.wire.values import Error, ModelRequest, Reply
from beam.testing.fake_model.player import Player

Record = Callable[[str, str, Mapping[str, str], object, ModelRequest | None], None]


class ModelServer(Server):
    """Serves a player's answers; `record` is called with each request before the request is answered."""

    def __init__(self, port: int, player: Player, record: Record) -> None:
        self.player = player
        self.record = record
        super().__init__(port, _Handler)


class _Handler(Handler):
    server: ModelServer

    def answer(self) -> None:
        self.request_id = f"req_{uuid.uuid4().hex[:24]}"
        path = self.path.partition("?")[0]
        dialect, route = dialects.dialect_of(self.command, path)
        try:
            data = self.read_body()
        except RequestError as problem:
            self.close_connection = True
            self.server.record(self.command, self.path, dict(self.headers), None, None)
            self._fail(dialect, Error(status=problem.status, message=str(problem)))
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
            elif self.command == "GET" and path in dialects.DOCUMENTS:
                self._send(200, dialects.DOCUMENTS[path])
            else:
                self._fail(dialect, Error(status=404, message=f"no such path: {self.command} {path}"))
        elif asked is None:
            self._fail(dialect, Error(status=400, message="the body is not a JSON object"))
        elif route == "count":
            self._send(200, dialect.count(asked))
        else:
            self._reply(dialect, self.server.player.reply(asked), asked)

    def _reply(self, dialect: Dialect, reply: Reply, asked: ModelRequest) -> None:
        answer = reply.answer
        if answer.at == "start":
            self._stall_or_cut(reply)
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
            self._stall_or_cut(reply)
            body = body[len(body) // 2 :]
        self.wfile.write(body)

    def _stream(self, dialect: Dialect, reply: Reply, asked: ModelRequest) -> None:
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
                    self._stall_or_cut(reply)
                    if answer.error is not None:
                        self.send_chunk(dialect.stream_error(answer.error))
                        break
                if answer.malformed:
                    self.send_chunk(broken(event))
                    continue
            if is_piece and answer.delay:
                self.pause(answer.delay)
            self.send_chunk(event)
        self.send_last_chunk()

    def _stall_or_cut(self, reply: Reply) -> None:
        """Wait if the answer has a stall, then cut the connection if the answer has a drop. A cut raises
        ConnectionAbortedError, which ends the connection's thread."""
        stall = reply.answer.stall
        if stall is not False:
            self.pause(None if stall is True else stall)
        if reply.answer.drop:
            self.close_connection = True
            raise ConnectionAbortedError("cut, as the script says")

    def _fail(self, dialect: Dialect, error: Error) -> None:
        more = {} if error.retry_after is None else {"retry-after": f"{error.retry_after:g}"}
        self._send(error.status, dialect.error(error, self.request_id), more)

    def _send(self, status: int, body: bytes, more: Mapping[str, str] | None = None) -> None:
        self.send(status, body, {**self._headers("application/json"), **(more or {})})

    def _head(self, status: int, content_type: str, more: Mapping[str, str]) -> None:
        self.send_head(status, {**self._headers(content_type), **more})

    def _headers(self, content_type: str) -> dict[str, str]:
        return {"Content-Type": content_type, "request-id": self.request_id}
