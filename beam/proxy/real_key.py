"""Puts the real key of a model's API into requests, in place of the turn's key, and removes it from answers."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from email.message import Message
from urllib.parse import parse_qsl, urlencode

from beam.proxy.private import CREDENTIALS


def has_turn_key(token: str, path: str, headers: Message[str, str]) -> bool:
    """Return whether a request has the turn's key, in a header or in the query of its path."""
    given = [_key_of(name, headers[name]) for name in CREDENTIALS if name in headers]
    given += [value for name, value in parse_qsl(path.partition("?")[2]) if name == "key"]
    return any(hmac.compare_digest(each.encode(), token.encode()) for each in given)


def _key_of(name: str, value: str) -> str:
    return value.strip().rpartition(" ")[2] if name in ("authorization", "proxy-authorization") else value.strip()


def headers_with(key: str | None, given: Message[str, str]) -> dict[str, str]:
    """Return a request's headers as they are sent to the model: the real key replaces the turn's key, and cookies are
    removed. If `key` is None, nothing is changed."""
    headers = dict(given.items())
    if key is None:
        return headers
    for name in list(headers):
        lower = name.lower()
        if lower in ("cookie", "proxy-authorization"):
            del headers[name]
        elif lower == "authorization":
            headers[name] = f"Bearer {key}"
        elif lower in CREDENTIALS:
            headers[name] = key
    return headers


def path_with(key: str | None, path: str) -> str:
    """Return a request's path, with the real key in place of the turn's key. If `key` is None, nothing is changed."""
    bare, mark, query = path.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    if key is None or not any(name == "key" for name, _ in pairs):
        return path
    return bare + mark + urlencode([(name, key if name == "key" else value) for name, value in pairs])


def pieces_without(key: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces of an answer with the key removed. An API may quote the key in an error message."""
    secret, held = key.encode(), b""
    for piece in pieces:
        data = (held + piece).replace(secret, b"[redacted:key]")
        most = min(len(data), len(secret) - 1)
        keep = next((size for size in range(most, 0, -1) if data.endswith(secret[:size])), 0)
        held, shown = data[len(data) - keep :], data[: len(data) - keep]
        if shown:
            yield shown
    if held:
        yield held


def headers_without(key: str | None, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of an answer with the key removed."""
    return {name: value.replace(key, "[redacted:key]") if key else value for name, value in headers.items()}
