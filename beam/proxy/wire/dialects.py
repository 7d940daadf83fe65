"""The wire formats that beam knows. Each is a module that implements the functions of `Dialect`."""

from __future__ import annotations

import re
from typing import Any, Literal, Protocol

from beam.model.outcome import Usage
from beam.proxy.wire import anthropic, chat, gemini, responses
from beam.proxy.wire.values import Error, ModelRequest, Reply, Stop


class Dialect(Protocol):
    """The pure functions that implement one vendor's wire format. Each module of a wire format is a Dialect."""

    name: str

    def route(self, method: str, path: str) -> Literal["ask", "count"] | None: ...
    def asked(self, body: dict[str, Any], size: int, path: str = "") -> ModelRequest: ...
    def whole(self, reply: Reply, asked: ModelRequest) -> bytes: ...
    def stream(self, reply: Reply, asked: ModelRequest) -> list[tuple[bytes, bool]]: ...
    def count(self, asked: ModelRequest) -> bytes: ...
    def error(self, error: Error, request_id: str) -> bytes: ...
    def stream_error(self, error: Error) -> bytes: ...
    def used(self, value: dict[str, Any]) -> Usage | None: ...
    def stopped(self, value: dict[str, Any]) -> Stop | None: ...


DIALECTS: tuple[Dialect, ...] = (anthropic, responses, chat, gemini)
DOCUMENTS = {"/v1/models": chat.MODELS, "/models": chat.MODELS}  # paths that a CLI may read before its first call


def dialect_of(method: str, path: str) -> tuple[Dialect, Literal["ask", "count"] | None]:
    """Return the dialect of a request to this path (without its query), and the kind of the request. If no dialect
    knows the path, return the first dialect, in whose format the error is sent, and None."""
    found = ((dialect, dialect.route(method, path)) for dialect in DIALECTS)
    return next((pair for pair in found if pair[1]), (DIALECTS[0], None))


_USUAL = re.compile(
    r"(/v1(?:beta|alpha)?/(?:models/[^/:]+:\w+|messages(?:/count_tokens)?|responses(?:/input_tokens)?))\Z"
)
_BARE = re.compile(r"/(responses|messages|chat/completions)\Z")


def usual_path(path: str) -> str:
    """Return the path as it is at the vendor's own API, for a path that may have another prefix."""
    if found := _USUAL.search(path):
        return found[1]
    found = _BARE.search(path)
    return f"/v1/{found[1]}" if found else path


def by_name(name: str) -> Dialect:
    """Return the dialect of that name; the first dialect if the name is unknown."""
    return next((dialect for dialect in DIALECTS if dialect.name == name), DIALECTS[0])
