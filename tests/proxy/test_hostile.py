"""Hostile ends: an API that answers wrongly, a web page, another user, and requests that may be read in two ways."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beam.proxy import doors, handling
from beam.proxy.options import ProxyOptions
from beam.proxy.recording import Recording
from beam.proxy.serving import Proxy
from beam.testing.fake_model import FakeModel
from tests.proxy.conftest import KEY, ask, body

pytestmark = pytest.mark.slow
OWN = "an-unusual-credential-0123456789"  # of a form that beam doesn't know


@contextmanager
def api(answer: bytes) -> Iterator[str]:
    """An API that answers every request with these bytes, and then closes the connection."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as file:
                length = 0
                while (line := file.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                file.read(length)
                with contextlib.suppress(OSError):  # the proxy has seen enough
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK", kind: bytes = b"application/json") -> bytes:
    lines = (b"HTTP/1.1 " + status, b"Content-Type: " + kind, b"Content-Length: %d" % len(body), *headers, b"", body)
    return b"\r\n".join(lines)


def raw(url: str, data: bytes) -> bytes:
    """What comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as connection:
        connection.sendall(data)
        found = b""
        while piece := connection.recv(65536):
            found += piece
    return found


def request(*headers: bytes, path: bytes = b"/v1/messages", body: bytes = b"{}", host: bytes = b"127.0.0.1") -> bytes:
    fixed = (b"Host: " + host, b"Connection: close", b"Content-Length: %d" % len(body))
    return b"\r\n".join((b"POST " + path + b" HTTP/1.1", *fixed, *headers, b"", body))


def stored(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


IN_CHUNKS = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"


# -- the API -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 5000 + b"\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer(b"{}"),
        answer(b"\x0b\x02" + KEY.encode(), b"Content-Encoding: br"),
        answer(b"\x28\xb5" + KEY.encode(), b"Content-Encoding: zstd", kind=b"text/event-stream"),
        answer(b"", b"Location: http://elsewhere.example/v1/messages", status=b"307 Temporary Redirect"),
    ],
    ids=["nothing", "no HTTP", "long header", "many headers", "103", "brotli", "zstd", "redirect"],
)
def test_an_answer_that_cant_be_passed_on_is_an_error_of_the_gateway_and_stored_as_one(
    bytes_sent: bytes, directory: Path
) -> None:
    with api(bytes_sent) as url, Proxy(ProxyOptions(upstream=url, record=str(directory))) as proxy:
        got = ask(proxy.url, "hi")
    assert got.status == 502
    assert got.json["type"] == "error"
    assert "Location" not in got.headers
    assert KEY.encode() not in stored(directory)
    assert [exchange.answer.end for exchange in Recording(directory).exchanges] == ["failed"]
    with Proxy(ProxyOptions(replay=str(directory))) as proxy:
        assert ask(proxy.url, "hi").status == 502


def test_a_redirect_is_not_followed_and_says_where_it_leads() -> None:
    moved = answer(b"", b"Location: https://elsewhere.example/v1/messages?key=x", status=b"301 Moved")
    with api(moved) as url, Proxy(ProxyOptions(upstream=url)) as proxy:
        said = ask(proxy.url, "hi").json["error"]["message"]
    assert "redirects to https://elsewhere.example/v1/messages, where the proxy doesn't go" in said


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        answer(gzip.compress(b"{}" * 1000)[:-9], b"Content-Encoding: gzip"),
        answer(b"no gzip at all", b"Content-Encoding: gzip"),
    ],
    ids=["bad chunk", "huge chunk", "short body", "short gzip", "no gzip"],
)
def test_a_body_that_is_not_whole_is_cut_for_the_agent_and_in_the_recording(bytes_sent: bytes, directory: Path) -> None:
    with api(bytes_sent) as url, Proxy(ProxyOptions(upstream=url, record=str(directory))) as proxy:
        assert ask(proxy.url, "hi").cut
    assert [exchange.answer.end for exchange in Recording(directory).exchanges] == ["cut"]


def test_an_answer_that_never_ends_is_cut(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handling, "ANSWER_LIMIT", 100_000)
    with (
        api(answer(b"x" * 1_000_000, kind=b"text/event-stream")) as url,
        Proxy(ProxyOptions(upstream=url, record=str(directory))) as proxy,
    ):
        got = ask(proxy.url, "hi")
    assert got.cut
    assert len(got.data) <= 100_000


@pytest.mark.parametrize(
    "bytes_sent",
    [
        answer(json.dumps({"id": OWN, "error": {"message": f"no key {OWN}", "data": KEY}}).encode(), status=b"401 No"),
        answer(gzip.compress(f"bad key {KEY} {OWN}".encode()), b"Content-Encoding: gzip", status=b"400 Bad"),
        answer(f"caf\xe9 {KEY} {OWN}".encode("latin-1"), kind=b"text/html", status=b"500 Oh"),
        answer(b"{}", b"Request-Id: " + OWN.encode(), b"Set-Cookie: session=" + KEY.encode()),
        answer(b"data: " + json.dumps({"error": KEY + OWN}).encode() + b"\n\n", kind=b"text/event-stream"),
    ],
    ids=["JSON", "gzip", "latin-1", "headers", "stream"],
)
def test_no_answer_brings_a_key_into_the_recording(bytes_sent: bytes, directory: Path) -> None:
    with api(bytes_sent) as url, Proxy(ProxyOptions(upstream=url, record=str(directory))) as proxy:
        ask(proxy.url, "hi", headers={"x-api-key": OWN, "authorization": f"Bearer {KEY}"})
        ask(proxy.url, "hi", "gemini", headers={"x-api-key": OWN})
    found = stored(directory)
    assert b"claude-opus" in found
    assert KEY.encode() not in found
    assert OWN.encode() not in found


def test_a_key_in_the_query_of_a_request_is_not_stored_where_the_api_quotes_it(directory: Path) -> None:
    quoting = answer(json.dumps({"error": {"message": f"API key not valid: {OWN}"}}).encode(), status=b"400 Bad")
    with api(quoting) as url, Proxy(ProxyOptions(upstream=url, record=str(directory))) as proxy:
        got = raw(proxy.url, request(path=b"/v1beta/models/g:generateContent?key=" + OWN.encode()))
    assert OWN.encode() in got  # the agent itself gets it
    assert OWN.encode() not in stored(directory)


def test_a_compressed_request_that_cant_be_read_is_stored_as_its_size_and_digest(
    model: FakeModel, directory: Path
) -> None:
    data = b"\x28\xb5\x2f\xfd" + KEY.encode() + b"\xff"
    with Proxy(ProxyOptions(upstream=model.url, record=str(directory))) as proxy:
        raw(proxy.url, request(b"Content-Encoding: zstd", body=data))
    assert KEY.encode() not in stored(directory)
    (exchange,) = Recording(directory).exchanges
    assert (exchange.request.raw or "").startswith(f"{len(data)} bytes, ")
    with Proxy(ProxyOptions(replay=str(directory))) as proxy:
        raw(proxy.url, request(b"Content-Encoding: zstd", body=data))
        assert proxy.counts.exact == 1


def test_a_request_with_half_a_character_is_recorded_and_equals_itself(model: FakeModel, directory: Path) -> None:
    data = b'{"model":"claude-x","messages":[{"role":"user","content":"a \\ud83d b"}]}'
    with Proxy(ProxyOptions(upstream=model.url, record=str(directory))) as proxy:
        assert b" 200 " in raw(proxy.url, request(body=data))
    with Proxy(ProxyOptions(replay=str(directory))) as proxy:
        raw(proxy.url, request(body=data))
        assert proxy.counts.exact == 1


# -- who asks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request(host=b"evil.example:80"), b"403"),
        (request(b"Origin: http://evil.example"), b"403"),
        (request(b"Origin: null"), b"403"),
        (request(path=b"http://127.0.0.1/v1/messages"), b"400"),
        (request(path=b"//evil.example\xff"), b"400"),
        (request(path=b"/v1/files#/v1/messages"), b"400"),
        (request(path=b"/v1/files/../messages"), b"400"),
        (request(path=b"/v1/files/%2e%2E/messages"), b"400"),
        (request(path=b"/v1/files%23/v1/messages"), b"400"),
        (request(path=b"/v1/files;/v1/messages"), b"400"),
        (request(path=b"/v1\\files/v1/messages"), b"400"),
        (request(b"X: 1\r\n Content-Length: 9"), b"400"),
        (request(b"X : 1", b"Origin: http://evil.example"), b"400"),
        (b"POST /v1/messages HTTP/1.1\r\nX-\xff: 1\r\nContent-Length: %d\r\n\r\n" % len(request()) + request(), b"400"),
        (request(b": 1"), b"400"),
        (request(b"Content-Length: 60"), b"400"),
        (request(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"), b"400"),
        (request(b"Transfer-Encoding: xchunked"), b"400"),
        (IN_CHUNKS + b"0x2\r\n{}\r\n0\r\n\r\n", b"400"),
        (IN_CHUNKS + b"2\r\n{}POST / HTTP/1.1\r\n0\r\n\r\n", b"400"),
        (IN_CHUNKS.replace(b"chunked\r\n", b"chunked\r\nTransfer-Encoding: gzip\r\n") + b"0\r\n\r\n", b"411"),
    ],
    ids=[
        *(
            "host",
            "origin",
            "null",
            "absolute",
            "path",
            "fragment",
            "up",
            "up in code",
            "fragment in code",
            "parameter",
        ),
        *(
            "backslash",
            "fold",
            "space in a header",
            "no header",
            "no name",
            "two lengths",
            "chunks and length",
            "coding",
            "hex",
            "long chunk",
            "two codings",
        ),
    ],
)
def test_a_request_of_a_web_page_or_with_two_readings_reaches_no_model(
    data: bytes, status: bytes, model: FakeModel, directory: Path
) -> None:
    with Proxy(ProxyOptions(upstream=model.url, record=str(directory))) as proxy:
        got = raw(proxy.url, data)
        assert got.split(b" ", 2)[1] == status
        assert got.count(b"HTTP/1.1 ") == 1  # nothing behind it was taken for another request
        assert proxy.counts.live == 0
    assert model.requests == []


def test_a_client_that_speaks_http_1_0_gets_a_plain_body_to_the_end_of_the_connection(
    model: FakeModel, directory: Path
) -> None:
    old = request(b"Connection: keep-alive", body=json.dumps(body("anthropic", "hi")).encode())
    old = old.replace(b" HTTP/1.1", b" HTTP/1.0").replace(b"Connection: close\r\n", b"")
    with Proxy(ProxyOptions(upstream=model.url, record=str(directory))) as proxy:
        first = raw(proxy.url, old)
    with Proxy(ProxyOptions(replay=str(directory))) as proxy:
        again = raw(proxy.url, old)
    for head, _, data in (first.partition(b"\r\n\r\n"), again.partition(b"\r\n\r\n")):
        assert b"transfer-encoding" not in head.lower()
        assert (data[:6], data[-2:]) == (b"event:", b"\n\n")
        assert all(line.startswith((b"event: ", b"data: ")) for line in data.splitlines() if line)


@pytest.mark.parametrize("host", [b"127.0.0.1:80", b"localhost:1", b"[::1]:9", b"LOCALHOST"])
def test_a_request_to_loopback_by_any_of_its_names_is_taken(host: bytes, model: FakeModel) -> None:
    with Proxy(ProxyOptions(upstream=model.url)) as proxy:
        assert b" 200 " in raw(proxy.url, request(host=host)).split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("uid", "inode", "is_own"), [(os.getuid(), 7, True), (0, 7, True), (0, 0, False), (os.getuid() + 4321, 7, False)]
)
def test_a_connection_is_taken_from_this_user_and_root_alone(
    uid: int, inode: int, is_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = " 0: {} {} 01 00000000:00000000 00:00000000 00000000 {:>5} 0 {} 1 0 20 4 30 10 -1\n"
    ours, theirs = "0100007F:1F90", "0100007F:C350"
    table = tmp_path / "tcp"
    table.write_text("head\n" + row.format(ours, theirs, os.getuid(), 5) + row.format(theirs, ours, uid, inode))
    monkeypatch.setattr(doors, "_TABLES", (table, tmp_path / "none"))
    assert doors.is_own_connection(("127.0.0.1", 50000), 8080) is is_own


def test_a_connection_whose_other_end_is_gone_is_refused_and_one_that_no_table_tells_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "tcp"
    table.write_text("head\n 0: 0100007F:1F90 0100007F:C350 01 0:0 0:0 0 0 0 5 1\n")
    monkeypatch.setattr(doors, "_TABLES", (table,))
    assert not doors.is_own_connection(("127.0.0.1", 50000), 8080)
    monkeypatch.setattr(doors, "_TABLES", (tmp_path / "none",))
    assert doors.is_own_connection(("127.0.0.1", 50000), 8080)


@pytest.mark.skipif(os.getuid() != 0, reason="left out: only root can become another user")
def test_another_users_process_gets_no_answer_and_reaches_no_model(model: FakeModel) -> None:
    code = """
import os, socket, sys
if sys.argv[2] == "other":
    os.setuid(65534)
connection = socket.socket()
connection.settimeout(10)
connection.connect(("127.0.0.1", int(sys.argv[1])))
try:
    connection.sendall(b"POST /v1/messages HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    print(connection.recv(12))
except OSError:
    print(b"")
"""
    with Proxy(ProxyOptions(upstream=model.url)) as proxy:
        port = proxy.url.rpartition(":")[2]
        said = [
            subprocess.run([sys.executable, "-c", code, port, who], capture_output=True, text=True, check=True).stdout
            for who in ("other", "same")
        ]
    assert said == ["b''\n", "b'HTTP/1.1 200'\n"]
    assert len(model.requests) == 1
