"""A model, and requests to it in each wire format."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from beam.testing.fake_model import FakeModel

KEY = "sk-ant-api03-" + "A1b2C3d4" * 6


@dataclass
class Got:
    """An answer: `cut` if it was broken off."""

    status: int
    data: bytes
    headers: dict[str, str]
    cut: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.data)


def body(format: str, text: str, *, stream: bool = True, more: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A request's body that asks for an answer to a text."""
    if format == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": text}]}, *(more or [])]}
    messages = [{"role": "user", "content": text}, *(more or [])]
    key = "input" if format == "responses" else "messages"
    return {"model": "claude-opus-4-6", "stream": stream, key: messages}


def path_of(format: str, *, stream: bool = True) -> str:
    """The path of such a request."""
    if format == "gemini":
        return f"/v1beta/models/gemini-2.5-pro:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"
    return {"anthropic": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}[format]


def send(
    url: str,
    path: str,
    value: Any = None,
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    timeout: float = 20,
) -> Got:
    """Send a request, and read its answer as far as it comes."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    data = value if isinstance(value, bytes) else json.dumps(value).encode() if value is not None else None
    with contextlib.closing(connection):
        return _sent(connection, method, path, data, headers)


def _sent(
    connection: http.client.HTTPConnection, method: str, path: str, data: bytes | None, headers: dict[str, str] | None
) -> Got:
    connection.request(method, path, data, {"content-type": "application/json", "x-api-key": KEY, **(headers or {})})
    answer = connection.getresponse()
    found = bytearray()
    try:
        while piece := answer.read1(65536):
            found += piece
        cut = bool(answer.length)
    except (http.client.HTTPException, OSError):
        cut = True
    return Got(answer.status, bytes(found), dict(answer.getheaders()), cut)


def ask(url: str, text: str, format: str = "anthropic", *, stream: bool = True, **more: Any) -> Got:
    """Ask for an answer to a text."""
    return send(url, path_of(format, stream=stream), body(format, text, stream=stream), **more)


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where a recording may be."""
    return tmp_path / "recording"
