"""One request to the proxy: its body, the form of it that may be stored, and the same request for another model."""

from __future__ import annotations

import json
import zlib
from email.message import Message
from typing import Any

from msgspec import Struct

from beam.base.digest import blake2b
from beam.proxy import private
from beam.proxy.http import BODY_LIMIT
from beam.proxy.private import Blanker
from beam.proxy.wire import dialects
from beam.proxy.wire.dialects import Dialect
from beam.proxy.wire.values import ModelRequest


class Call(Struct, kw_only=True):
    """One request to the proxy. `data` is its body as it arrived, `body` the JSON value of the body (null: none), and
    `private` that value without secrets, which may be stored. `raw` is the text that is stored for a body that is not
    JSON."""

    number: int
    data: bytes
    body: Any
    private: Any
    raw: str | None
    dialect: Dialect
    kind: str
    asked: ModelRequest
    blanker: Blanker

    def likeness(self, text: str) -> int:
        """Return how much the call looks like one of the agent itself in a turn with this text (`ServedRequest`)."""
        if not text or " ".join(text.split()) not in " ".join(self.asked.prompt.split()):
            return 0
        return 2 if isinstance(self.body, dict) and self.body.get("tools") else 1


def call_of(data: bytes, path: str, headers: Message[str, str], dialect: Dialect, route: str | None) -> Call:
    """Return the request with this body, path (with its query) and headers. `route` is its kind (None: other). The
    number of the request is not set yet."""
    plain = _decode(data, headers.get("content-encoding", ""))
    body = private.json_of(plain)
    asked = ModelRequest(size=len(plain))
    if route is not None and isinstance(body, dict):
        asked = dialect.asked(body, len(plain), dialects.usual_path(path.partition("?")[0]))
    blanker = Blanker(private.credentials(dict(headers), path))
    return Call(
        number=0,
        data=data,
        body=body,
        private=blanker.value(body, plain),
        raw=None if body is not None or not plain else _raw_text(plain, blanker),
        dialect=dialect,
        kind=route or "other",
        asked=asked,
        blanker=blanker,
    )


def with_model(call: Call, path: str, model: str) -> tuple[bytes, str]:
    """Return the body and the path of a request, changed so that they name the model `model`."""
    if isinstance(call.body, dict) and "model" in call.body:
        return json.dumps({**call.body, "model": model}).encode(), path
    before, mark, after = path.partition("/models/")
    return call.data, f"{before}{mark}{model}:{after.partition(':')[2]}" if mark else path


def _raw_text(data: bytes, blanker: Blanker) -> str:
    """Return the stored form of a body that is not JSON: its text or, if it is not UTF-8, its size and digest."""
    try:
        return blanker.text(data.decode())
    except UnicodeDecodeError:
        return f"{len(data)} bytes, {blake2b(data, digest_size=16).hexdigest()}"


def _decode(data: bytes, encoding: str) -> bytes:
    if encoding.lower() not in ("gzip", "deflate"):
        return data
    try:
        return zlib.decompressobj(47).decompress(data, BODY_LIMIT)
    except zlib.error:
        return data
