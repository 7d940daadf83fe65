"""The proxy between a client and the scripted model: what it records is what it replays."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gzip
import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from beam.base.errors import CorruptError, NotFoundError, UsageError
from beam.proxy.budget import Budget
from beam.proxy.options import ProxyOptions
from beam.proxy.recording import Recording
from beam.proxy.served import ServedRequest
from beam.proxy.serving import Proxy
from beam.testing.fake_model import FakeModel
from tests.proxy.conftest import KEY, ask, body, path_of, send

pytestmark = pytest.mark.slow
FORMATS = ["anthropic", "responses", "chat", "gemini"]


def recorder(model_url: str, directory: Path, *, served: Any = None, **more: Any) -> Proxy:
    return Proxy(ProxyOptions(upstream=model_url, record=str(directory), **more), served=served)


def player(directory: Path, **more: Any) -> Proxy:
    return Proxy(ProxyOptions(replay=str(directory), **more))


@contextmanager
def upstream(answer: Any) -> Iterator[str]:
    """A model's API whose answers this function writes."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            answer(self)

        do_GET = do_HEAD = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("stream", [True, False])
def test_what_was_recorded_is_replayed_byte_for_byte_without_a_model(
    format: str, stream: bool, model: FakeModel, directory: Path
) -> None:
    with recorder(model.url, directory) as proxy:
        first = [ask(proxy.url, text, format, stream=stream) for text in ("one", "two", "!error 529 1")]
        assert proxy.counts.live == 3
    assert [got.status for got in first] == [200, 200, 529]
    with player(directory) as proxy:
        again = [ask(proxy.url, text, format, stream=stream) for text in ("one", "two", "!error 529 1")]
        counts = proxy.counts
    assert [(got.status, got.data) for got in again] == [(got.status, got.data) for got in first]
    assert (counts.exact, counts.calls) == (3, 3)
    assert counts.usage.output_tokens


def test_a_retry_gets_what_the_retry_got(model: FakeModel, directory: Path) -> None:
    with recorder(model.url, directory) as proxy:
        assert [ask(proxy.url, "!error 500 1").status for _ in range(2)] == [500, 200]
    with player(directory) as proxy:
        assert [ask(proxy.url, "!error 500 1").status for _ in range(3)] == [500, 200, 200]


def test_events_keep_their_boundaries_and_are_decoded_text_on_the_disk(model: FakeModel, directory: Path) -> None:
    with recorder(model.url, directory) as proxy:
        got = ask(proxy.url, "hello there")
    (exchange,) = Recording(directory).exchanges
    assert b"".join(exchange.events) == got.data
    assert all(event.endswith(b"\n\n") for event in exchange.events)
    assert (directory / "answers" / "000001.sse").read_bytes() == got.data


def test_keys_cookies_and_secrets_are_never_stored_and_a_request_with_one_equals_itself(
    model: FakeModel, directory: Path
) -> None:
    other = "sk-ant-api03-" + "Zz9Yy8Xx" * 6
    text = f"my key is {KEY} !say and {other} it is"
    with recorder(model.url, directory) as proxy:
        got = ask(proxy.url, text, headers={"cookie": "session=abcdefghijklmnopqrstuvwxyz"})
        send(proxy.url, f"/v1/models?key={KEY}", method="GET", headers={"authorization": f"Bearer {KEY}"})
    assert b"sk-ant" in got.data  # the agent itself gets it
    stored = b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())
    for secret in (KEY, other, "abcdefghijklmnopqrstuvwxyz", "cookie"):
        assert secret.encode() not in stored
    assert b"[redacted:anthropic-key]" in stored
    with player(directory) as proxy:
        ask(proxy.url, text)
        assert proxy.counts.exact == 1


def test_a_secret_over_several_events_is_not_stored(directory: Path) -> None:
    pieces = ["my key: sk-ant-api03-", "A1b2C3d4A1b2C3d4A1b2C3d4", "A1b2C3d4A1b2C3d4A1b2C3d4 and more"]

    def answer(handler: BaseHTTPRequestHandler) -> None:
        events = [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ]
        data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    with upstream(answer) as url, recorder(url, directory) as proxy:
        assert b"A1b2C3d4A1b2C3d4" in ask(proxy.url, "hi").data
    stored = (directory / "answers" / "000001.sse").read_bytes()
    assert b"A1b2C3d4A1b2" not in stored
    assert stored.count(b"data:") == 3
    assert b"and more" in stored


def test_ids_and_signatures_that_must_come_back_whole_are_not_redacted(directory: Path) -> None:
    call_id, signature = "toolu_" + "sk-ant-api03-" + "B2c3D4e5" * 6, "eyJhbGciOi.eyJzdWIiOi." + "c2lnbmF0dXJl" * 4
    sent = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": signature},
                    {"type": "tool_use", "id": call_id, "name": "x", "input": {}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "ok"}]},
        ],
    }
    with FakeModel() as model, recorder(model.url, directory) as proxy:
        send(proxy.url, "/v1/messages", sent)
    (exchange,) = Recording(directory).exchanges
    assert exchange.body == sent


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_cut_answer_is_replayed_cut(format: str, stream: bool, model: FakeModel, directory: Path) -> None:
    with recorder(model.url, directory) as proxy:
        first = ask(proxy.url, "!drop-mid", format, stream=stream)
    assert first.cut
    (exchange,) = Recording(directory).exchanges
    assert exchange.answer.end == "cut"
    with player(directory) as proxy:
        again = ask(proxy.url, "!drop-mid", format, stream=stream)
    assert again.cut
    assert again.data == first.data


def test_a_connection_cut_before_the_first_byte_is_an_error_of_the_gateway(model: FakeModel, directory: Path) -> None:
    with recorder(model.url, directory) as proxy:
        first = ask(proxy.url, "!drop")
    assert first.status == 502
    assert first.json["type"] == "error"
    with player(directory) as proxy:
        assert ask(proxy.url, "!drop").status == 502


def test_malformed_json_is_recorded_as_it_came(model: FakeModel, directory: Path) -> None:
    with recorder(model.url, directory) as proxy:
        first = ask(proxy.url, "!malformed")
    with player(directory) as proxy:
        assert ask(proxy.url, "!malformed").data == first.data


def test_the_end_of_a_stalled_answer_is_not_waited_for_when_the_agent_leaves(model: FakeModel, directory: Path) -> None:
    with recorder(model.url, directory) as proxy, pytest.raises(OSError):
        ask(proxy.url, "!stall", timeout=0.5)
    (exchange,) = Recording(directory).exchanges
    assert exchange.answer.end in ("failed", "cut", "dropped")


def test_an_answer_that_the_agent_never_got_is_not_stored_as_complete(directory: Path) -> None:
    asked, is_gone, counted = threading.Event(), threading.Event(), threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        is_gone.wait(20)
        with contextlib.suppress(OSError):  # the proxy may have left, too
            handler.send_response(200)
            handler.send_header("Content-Length", "2")
            handler.end_headers()
            handler.wfile.write(b"{}")

    with upstream(answer) as url, recorder(url, directory, served=lambda _: counted.set()) as proxy:
        agent = http.client.HTTPConnection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        agent.request("POST", path_of("anthropic"), b"{}")
        assert asked.wait(20)
        agent.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, as after a kill
        agent.close()
        is_gone.set()
        assert counted.wait(20)
    (exchange,) = Recording(directory).exchanges
    assert exchange.answer.end in ("dropped", "failed")


def test_identity_is_asked_for_and_gzip_is_decoded_all_the_same(directory: Path) -> None:
    asked = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.headers.get_all("accept-encoding"))
        data = gzip.compress(b'data: {"a": 1}\n\ndata: {"b": 2}\n\n')
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in (data[:9], data[9:]):
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        handler.wfile.write(b"0\r\n\r\n")

    with upstream(answer) as url, recorder(url, directory) as proxy:
        first = ask(proxy.url, "hi", headers={"accept-encoding": "br, gzip"})
    assert asked == [["identity"]]
    assert first.data == b'data: {"a": 1}\n\ndata: {"b": 2}\n\n'
    assert "Content-Encoding" not in first.headers
    with player(directory) as proxy:
        again = ask(proxy.url, "hi")
    assert (again.data, again.headers.get("content-encoding")) == (first.data, None)


@pytest.mark.parametrize("megabytes", [4, pytest.param(50, marks=pytest.mark.soak)])
def test_a_large_answer_passes_and_comes_back(megabytes: int, directory: Path) -> None:
    event = b'data: {"type":"x","text":"' + b"word " * 10_000 + b'"}\n\n'
    count = megabytes * 1024 * 1024 // len(event)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Content-Length", str(len(event) * count))
        handler.end_headers()
        for _ in range(count):
            handler.wfile.write(event)

    with upstream(answer) as url, recorder(url, directory) as proxy:
        first = ask(proxy.url, "hi", timeout=60)
    assert len(first.data) == len(event) * count
    with player(directory) as proxy:
        assert ask(proxy.url, "hi", timeout=60).data == first.data


def test_parallel_calls_of_two_agents_each_get_their_own_answers(model: FakeModel, directory: Path) -> None:
    texts = [f"agent {agent} says {number}" for agent in "ab" for number in range(8)]

    def all_at_once(url: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        threads = [
            threading.Thread(target=lambda text=text: found.__setitem__(text, ask(url, text).data)) for text in texts
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    with recorder(model.url, directory) as proxy:
        first = all_at_once(proxy.url)
    with player(directory) as proxy:
        again = all_at_once(proxy.url)
        assert proxy.counts.exact == len(texts)
    assert again == first


# -- the ladder --------------------------------------------------------------------------------------------------------


def test_a_request_that_was_not_recorded_gets_the_nearest_and_its_first_difference_and_no_model(
    model: FakeModel, directory: Path
) -> None:
    with recorder(model.url, directory) as proxy:
        ask(proxy.url, "tell me of apples")
    calls = len(model.requests)
    served: list[ServedRequest] = []
    with Proxy(ProxyOptions(replay=str(directory), upstream=model.url), served=served.append) as proxy:
        got = ask(proxy.url, "tell me of pears")
        assert (proxy.counts.unmatched, proxy.counts.live) == (1, 0)
    assert got.status == 422
    said = got.json["error"]["message"]
    assert "the nearest, 1, differs first in body.messages[0].content" in said
    assert "apples" in said
    assert "pears" in said
    assert len(model.requests) == calls
    assert (served[0].step, served[0].nearest) == ("unmatched", 1)


def test_the_recordings_own_folder_in_what_git_says_of_new_files_makes_no_difference(
    model: FakeModel, tmp_path: Path
) -> None:
    places = {"cwd": str(tmp_path)}
    folder = tmp_path / "recordings" / "fix"
    with recorder(model.url, folder, places=places) as proxy:
        ask(proxy.url, "Status:\n?? recordings/\n?? other/\n\nend")
    with player(folder, places=places) as proxy:
        ask(proxy.url, "Status:\n?? other/\n\nend")
        assert proxy.counts.exact == 1
        ask(proxy.url, "Status:\n?? recordings/\n\nend")
        assert proxy.counts.exact == 1


def test_fill_lets_the_model_answer_what_was_not_recorded_and_records_it(model: FakeModel, directory: Path) -> None:
    with recorder(model.url, directory) as proxy:
        ask(proxy.url, "one")
    with player(directory, upstream=model.url, fill=True) as proxy:
        assert ask(proxy.url, "one").status == 200
        assert b"ECHO" in ask(proxy.url, "two", stream=False).data
        assert (proxy.counts.exact, proxy.counts.filled) == (1, 1)
    with player(directory) as proxy:
        assert [ask(proxy.url, "one").status, ask(proxy.url, "two", stream=False).status] == [200, 200]
        assert proxy.counts.exact == 2


def test_a_fork_goes_on_live_from_that_call_with_another_model(
    model: FakeModel, directory: Path, tmp_path: Path
) -> None:
    with recorder(model.url, directory) as proxy:
        for text in ("one", "two", "three"):
            ask(proxy.url, text)
    before = len(model.requests)
    forked = tmp_path / "forked"
    with player(directory, upstream=model.url, fork_at=2, fork_model="claude-haiku-4-5", record=str(forked)) as proxy:
        for text in ("one", "two", "three"):
            ask(proxy.url, text)
        assert (proxy.counts.exact, proxy.counts.live) == (1, 2)
    assert [request.body["model"] for request in model.requests[before:]] == ["claude-haiku-4-5"] * 2
    assert [exchange.body["model"] for exchange in Recording(forked).exchanges] == ["claude-haiku-4-5"] * 2


def test_probes_are_answered_as_a_vendor_would(model: FakeModel, directory: Path) -> None:
    with recorder(model.url, directory) as proxy:
        ask(proxy.url, "one")
    with player(directory) as proxy:
        assert send(proxy.url, "/", method="HEAD").status == 200
        assert send(proxy.url, "/v1/models", method="GET").status == 200
        assert send(proxy.url, "/v1/code/agent-proxy/ca-cert", method="GET").status == 404
        upgrade = {"connection": "Upgrade", "upgrade": "websocket"}
        assert send(proxy.url, "/v1/responses", method="GET", headers=upgrade).status == 404
        counted = send(proxy.url, "/v1/messages/count_tokens", body("anthropic", "x"))
        assert counted.json["input_tokens"] > 0
        assert proxy.counts.unmatched == 0


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_budget_of_tokens_refuses_the_next_call(format: str, stream: bool, model: FakeModel) -> None:
    with Proxy(ProxyOptions(upstream=model.url, budget=Budget(max_tokens=150))) as proxy:
        first = ask(proxy.url, "!usage 100 60", format, stream=stream)
        second = ask(proxy.url, "more", format, stream=stream)
        counts = proxy.counts
    assert (first.status, second.status) == (200, 403)
    assert b"max_tokens is 150, and 160 were used in 1 model calls" in second.data or format == "chat"
    assert counts.refused == 1
    assert counts.calls == 1


def test_calls_that_run_when_the_budget_is_used_up_go_on_and_the_next_is_refused() -> None:
    """docs/proxy.md says so: a turn may use as much more as the calls take that run at that moment."""
    both_asked = threading.Barrier(2)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        both_asked.wait(20)
        handler.send_response(200)
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    with upstream(answer) as url, Proxy(ProxyOptions(upstream=url, budget=Budget(max_tokens=1))) as proxy:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            got = list(pool.map(lambda text: ask(proxy.url, text).status, ["one", "two"]))
        assert (got, ask(proxy.url, "three").status) == ([200, 200], 403)


def test_a_budget_in_dollars_counts_by_the_models_price_and_refuses_a_model_without_one(model: FakeModel) -> None:
    with Proxy(ProxyOptions(upstream=model.url, budget=Budget(usd=0.001))) as proxy:
        assert ask(proxy.url, "!usage 1000 1000").status == 200
        assert proxy.counts.cost_usd == pytest.approx(0.03)
        assert ask(proxy.url, "more").status == 403
    with Proxy(ProxyOptions(upstream=model.url, budget=Budget(usd=1.0))) as proxy:
        got = send(proxy.url, "/v1/messages", body("anthropic", "x") | {"model": "unheard-of"})
    assert got.status == 403
    assert "the price of unheard-of is not known" in got.json["error"]["message"]


def test_a_shielding_proxy_takes_its_token_alone_and_sends_the_real_key(model: FakeModel) -> None:
    seen: list[dict[str, str]] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append({**dict(handler.headers.items()), "path": handler.path})
        handler.send_response(200)
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    token = "beam-dummy-0123456789abcdef"
    with (
        upstream(answer) as url,
        Proxy(ProxyOptions(upstream=url, token=token, format="anthropic"), key="k") as proxy,
    ):
        good = {"x-api-key": token}
        assert ask(proxy.url, "hi", headers=good).status == 200
        assert ask(proxy.url, "hi", headers={"x-api-key": "", "authorization": f"Bearer {token}"}).status == 200
        assert ask(proxy.url, "hi").status == 401
        assert ask(proxy.url, "hi", "chat", headers=good).status == 401
        other = send(proxy.url, "/v1/messages", body("anthropic", "x") | {"model": "gpt-5"}, headers=good)
        assert other.status == 401
        assert send(proxy.url, "/v1/models", method="GET", headers=good).status == 200
        for path in ("/v1/files", "/v1/messages/batches", "/v1/responses/resp_1", "/v1/organizations/api_keys"):
            assert send(proxy.url, path, method="GET", headers=good).status == 404
        assert send(proxy.url, "/v1/files", {"x": 1}, headers=good).status == 404
        for path in ("/v1/threads/thread_1/messages", "/v1/files/v1/messages", "/v1/organizations//v1/messages"):
            assert send(proxy.url, path, body("anthropic", "x"), headers=good).status == 404
    assert [seen[0]["x-api-key"], seen[1]["authorization"]] == ["k", "Bearer k"]
    assert len(seen) == 3
    assert token not in json.dumps(seen)


def test_it_listens_on_loopback_alone(model: FakeModel) -> None:
    with Proxy(ProxyOptions(upstream=model.url)) as proxy:
        port = int(proxy.url.rpartition(":")[2])
        listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        found = [row[1] for row in listening if row[3] == "0A" and int(row[1].partition(":")[2], 16) == port]
    assert found == [f"0100007F:{port:04X}"]


# -- what can't be -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["ftp://x", "http://", "nothing", "https://user:pass@host", "http://h:x/"])
def test_an_upstream_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        Proxy(ProxyOptions(upstream=url))


def test_a_folder_without_a_recording_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        player(tmp_path)


def test_two_proxies_do_not_write_one_recording(model: FakeModel, directory: Path) -> None:
    with recorder(model.url, directory), pytest.raises(UsageError, match="another proxy records"):
        recorder(model.url, directory)


def test_a_recording_goes_on_where_it_ended(model: FakeModel, directory: Path) -> None:
    for text in ("one", "two"):
        with recorder(model.url, directory) as proxy:
            ask(proxy.url, text)
    assert [exchange.request.n for exchange in Recording(directory).exchanges] == [1, 2]


def test_an_unreachable_model_is_said_in_the_vendors_form(directory: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with recorder(url, directory) as proxy:
            got = ask(proxy.url, "hi")
    assert got.status == 502
    assert "can't be reached" in got.json["error"]["message"]


def test_chunked_and_compressed_requests_are_understood(model: FakeModel, directory: Path) -> None:
    data = gzip.compress(json.dumps(body("anthropic", "packed")).encode())

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    with upstream(answer) as url, recorder(url, directory) as proxy:
        port = int(proxy.url.rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port)
        headers = {"content-encoding": "gzip", "transfer-encoding": "chunked"}
        connection.request("POST", path_of("anthropic"), iter([data[:20], data[20:]]), headers, encode_chunked=True)
        assert connection.getresponse().status == 200
        connection.close()
    (exchange,) = Recording(directory).exchanges
    assert exchange.body["messages"] == [{"role": "user", "content": "packed"}]


def test_an_agent_asks_again_on_the_same_connection_whatever_the_last_answer_was(directory: Path) -> None:
    statuses = iter((200, 529, 204, 200, 200))
    connections = set()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        connections.add(handler.client_address)
        status = next(statuses)
        handler.send_response(status)
        if status != 204:
            handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}" if status != 204 and handler.command == "POST" else b"")

    seen = []
    with upstream(answer) as url, recorder(url, directory) as proxy:
        connection = http.client.HTTPConnection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        for method in ("POST", "POST", "POST", "HEAD", "POST"):
            connection.request(method, path_of("anthropic"), b"{}" if method == "POST" else None)
            got = connection.getresponse()
            seen.append((got.status, got.read()))
        connection.close()
    assert seen == [(200, b"{}"), (529, b"{}"), (204, b""), (200, b""), (200, b"{}")]
    assert len(connections) == 1


def test_a_damaged_recording_is_not_believed(model: FakeModel, directory: Path) -> None:
    with recorder(model.url, directory) as proxy:
        ask(proxy.url, "long " * 200)
    (blob,) = (directory / "blobs").rglob("*.txt")
    blob.write_text("something else")
    with pytest.raises(CorruptError, match="is not what was written"):
        player(directory)


def test_a_link_in_a_recording_is_not_followed(model: FakeModel, directory: Path, tmp_path: Path) -> None:
    with recorder(model.url, directory) as proxy:
        ask(proxy.url, "one")
    secret = tmp_path / "secret"
    secret.write_text("data: x\n\n")
    answer = directory / "answers" / "000001.sse"
    answer.unlink()
    answer.symlink_to(secret)
    with pytest.raises(CorruptError):
        player(directory)


@pytest.mark.parametrize("what", ["answers", "blobs", "blobs/*", "answers/000002.sse"])
def test_a_link_that_an_agent_puts_into_a_recording_meanwhile_leads_no_write_elsewhere(
    model: FakeModel, directory: Path, tmp_path: Path, what: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("as it was")
    with recorder(model.url, directory) as proxy:
        ask(proxy.url, "long " * 200)
        for path in [directory / "answers" / "000002.sse"] if what.endswith(".sse") else [*directory.glob(what)]:
            if path.exists():
                path.rename(directory / f"{path.name}-aside")
            path.symlink_to(elsewhere / "file" if what.endswith(".sse") else elsewhere)
        if what == "blobs/*":
            for name in (f"{number:02x}" for number in range(256)):
                with contextlib.suppress(FileExistsError):
                    (directory / "blobs" / name).symlink_to(elsewhere)
        with contextlib.suppress(OSError, http.client.HTTPException):
            ask(proxy.url, "other " * 200)
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == {"file": "as it was"}
