"""Asks the model's real API over HTTP(S), and returns the bytes of each answer as they arrive.

The standard library's client is used: it returns each read of a stream at once, adds only the headers that HTTP needs,
and does not follow redirects, which would carry the key to another server. Does not depend on wire formats or
recordings.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from beam.base.errors import UsageError

_PIECE = 64 * 1024
_CONNECT_S = 30.0
# Headers of the connection between the agent and the proxy, and headers that the proxy sets itself.
_REQUEST_HOP_HEADERS = frozenset(
    {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "te", "trailer", "upgrade", "host"}
    | {"content-length", "accept-encoding", "expect", "proxy-authorization"}
)
_KNOWN_ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ANSWER_HOP_HEADERS = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "trailer", "content-length", "set-cookie", "alt-svc", "server"}
    | {"date"}
)


class UnreachableError(Exception):
    """The model's API could not be reached; the message says why."""


class CutError(Exception):
    """The model's API ended its answer too early."""


class Upstream:
    """A connection to a model's API, which is reused for later requests. If `url` has a path, that path is put before
    the path of each request."""

    def __init__(self, url: str) -> None:
        """Check the URL and store its parts. Raises UsageError for anything but an http or https URL, and for a URL
        with a password."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = 0
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.query or parts.fragment:
            raise UsageError(
                f"{url!r} is not the URL of a model's API", "like https://api.anthropic.com", subject=url[:200]
            )
        if parts.username or parts.password:
            raise UsageError("a URL with a password in it is not taken", "the key belongs into a header")
        self._host, self._port, self._is_tls = parts.hostname, port, parts.scheme == "https"
        self._base = parts.path.rstrip("/")
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request, and return its answer as soon as the answer's head has arrived. Raises UnreachableError."""
        sent = {name: value for name, value in headers.items() if name.lower() not in _REQUEST_HOP_HEADERS}
        sent["Accept-Encoding"] = "identity"
        if body or method == "POST":
            sent["Content-Length"] = str(len(body))
        try:
            connection = self._connected()
            is_sent = True
            try:
                connection.request(method, self._base + path, body or None, sent)
            except (BrokenPipeError, ConnectionResetError):  # the API may have answered before it read the whole body
                is_sent = False
            response = connection.getresponse()
            response.will_close = response.will_close or not is_sent
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise UnreachableError(f"{self._host}: {getattr(error, 'strerror', None) or error}") from error
        if why := _unusable_reason(response):
            self.close()
            raise UnreachableError(f"{self._host} {why}")
        return Answer(response, self)

    def connect(self) -> socket.socket:
        """Connect unless a connection is open and idle, and return the socket that the next request uses. Raises
        UnreachableError."""
        try:
            found: socket.socket = self._connected().sock
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise UnreachableError(f"{self._host}: {getattr(error, 'strerror', None) or error}") from error
        return found

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is not None and self._connection.sock is not None and _is_idle(self._connection.sock):
            return self._connection
        self.close()
        made = self._new_connection()
        made.connect()
        made.sock.settimeout(None)  # a model may think for minutes; the agent has a clock of its own
        made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = made
        return made

    def _new_connection(self) -> http.client.HTTPConnection:
        proxy = urllib.request.getproxies().get("https") if self._is_tls and not _is_loopback(self._host) else None
        if proxy and urllib.request.proxy_bypass(self._host):
            proxy = None
        host, port = self._host, self._port
        if proxy:
            through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            host, port = through.hostname or "", through.port
        if not self._is_tls:
            return http.client.HTTPConnection(host, port, timeout=_CONNECT_S)
        import ssl  # takes 20 ms, and a model on loopback does not need it

        secure = http.client.HTTPSConnection(host, port, timeout=_CONNECT_S, context=ssl.create_default_context())
        if proxy:
            secure.set_tunnel(self._host, self._port or 443)
        return secure

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()


class Answer:
    """An answer of the model's API. Its body is decompressed if it was compressed; `headers` has only the headers that
    are passed on to the agent."""

    def __init__(self, response: http.client.HTTPResponse, upstream: Upstream) -> None:
        self.status = response.status
        self._response = response
        self._upstream = upstream
        self._decoder = zlib.decompressobj(47) if _encoding(response) in _KNOWN_ENCODINGS else None
        gone = _ANSWER_HOP_HEADERS | ({"content-encoding"} if self._decoder is not None else set())
        self.headers = {name: value for name, value in response.getheaders() if name.lower() not in gone}

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces as they arrive. Raises CutError if the body ends too early."""
        left = self._response.length  # None if the body is chunked or ends with the connection
        try:
            while data := self._response.read1(_PIECE):
                if left is not None:
                    left -= len(data)
                if decoded := self._decoded(data):
                    yield decoded
        except (OSError, http.client.HTTPException, zlib.error, ValueError) as error:
            self._upstream.close()
            raise CutError(str(error)) from error
        if left:
            self._upstream.close()
            raise CutError(f"{left} bytes are missing")
        if self._decoder is not None and not self._decoder.eof:
            raise CutError("the compressed body is not whole")
        if self._response.will_close:
            self._upstream.close()
        self._response.close()  # some versions of Python leave it open; then the connection takes no other request

    def _decoded(self, data: bytes) -> bytes:
        """Return the next bytes of the body, decompressed. A gzip body may have several members, one after the other.
        Raises zlib.error."""
        if self._decoder is None:
            return data
        found = self._decoder.decompress(data)
        while self._decoder.eof and (rest := self._decoder.unused_data.lstrip(b"\0")):
            self._decoder = zlib.decompressobj(47)
            found += self._decoder.decompress(rest)
        return found

    def drop(self) -> None:
        """Close the connection, even if a part of the answer is still to come."""
        self._upstream.close()


def _encoding(response: http.client.HTTPResponse) -> str:
    found = (response.getheader("content-encoding") or "").strip().lower()
    return "" if found == "identity" else found


def _unusable_reason(response: http.client.HTTPResponse) -> str:
    """Return the reason why an answer can't be passed on to the agent; "" if it can. A redirect is refused because the
    agent would follow it past the proxy."""
    if response.status < 200:
        return f"answered with {response.status}, which says nothing"
    if response.status in _REDIRECTS:
        target = urlsplit((response.getheader("location") or "?")[:200])
        there = f"{target.scheme}://{target.hostname}{target.path}" if target.hostname else target.path
        return f"redirects to {there}, where the proxy doesn't go: name that URL as `upstream`, if it is right"
    encoding = _encoding(response)
    if encoding and encoding not in _KNOWN_ENCODINGS:
        return f"answered in {encoding[:40]}, though a plain answer was asked for"
    return ""


def _is_idle(connection: socket.socket) -> bool:
    """Return whether a kept connection can be used again: nothing arrived on it. Servers usually close a connection
    after some time without requests, and then the end of the stream arrives."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return not poll.poll(0)


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
