"""The wire formats that beam speaks: one vendor's API is one module with these functions."""

from __future__ import annotations

import re
from typing import Any, Literal, Protocol

from beam.model.outcome import Usage
from beam.proxy.wire import anthropic, chat, gemini, responses
from beam.proxy.wire.values import Error, ModelRequest, Reply


class Dialect(Protocol):
    """One vendor's wire format, as pure functions. Each vendor's module is one."""

    name: str

    def route(self, method: str, path: str) -> Literal["ask", "count"] | None: ...
    def asked(self, body: dict[str, Any], size: int, path: str = "") -> ModelRequest: ...
    def whole(self, reply: Reply, asked: ModelRequest) -> bytes: ...
    def stream(self, reply: Reply, asked: ModelRequest) -> list[tuple[bytes, bool]]: ...
    def count(self, asked: ModelRequest) -> bytes: ...
    def error(self, error: Error, request_id: str) -> bytes: ...
    def stream_error(self, error: Error) -> bytes: ...
    def broken(self, event: bytes) -> bytes: ...
    def used(self, value: dict[str, Any]) -> Usage | None: ...


DIALECTS: tuple[Dialect, ...] = (anthropic, responses, chat, gemini)
DOCUMENTS = {"/v1/models": chat.MODELS, "/models": chat.MODELS}  # what a CLI may look at before it asks


def of(method: str, path: str) -> tuple[Dialect, Literal["ask", "count"] | None]:
    """Return the dialect of a request to this path (without its query), and what the request is. If no dialect knows
    it, return the dialect in whose form the error is given, and None.
    """
    found = ((dialect, dialect.route(method, path)) for dialect in DIALECTS)
    return next((pair for pair in found if pair[1]), (DIALECTS[0], None))


_USUAL = re.compile(
    r"(/v1(?:beta|alpha)?/(?:models/[^/:]+:\w+|messages(?:/count_tokens)?|responses(?:/input_tokens)?))\Z"
)
_BARE = re.compile(r"/(responses|messages|chat/completions)\Z")


def usual(path: str) -> str:
    """Return the path that a request with another prefix would have at the vendor's own API."""
    if found := _USUAL.search(path):
        return found[1]
    found = _BARE.search(path)
    return f"/v1/{found[1]}" if found else path


def by_name(name: str) -> Dialect:
    """Return the dialect of that name; the first for an unknown one."""
    return next((dialect for dialect in DIALECTS if dialect.name == name), DIALECTS[0])
