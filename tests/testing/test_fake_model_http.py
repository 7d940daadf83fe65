from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.base.errors import ConfigError, DiskError, NotFoundError, UnsupportedError, UsageError
from beam.testing.fake_model import FakeModel

connections: list[http.client.HTTPConnection] = []


@pytest.fixture(autouse=True)
def _no_connection_stays_open() -> Iterator[None]:
    yield
    while connections:
        connections.pop().close()


def connect(model: FakeModel) -> http.client.HTTPConnection:
    host, port = model.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connections.append(connection)
    return connection


def body(prompt: str, *, stream: bool = False) -> bytes:
    return json.dumps({"model": "m", "stream": stream, "messages": [{"role": "user", "content": prompt}]}).encode()


def ask(
    connection: http.client.HTTPConnection, prompt: str, *, stream: bool = False, path: str = "/v1/messages?beta=true"
) -> http.client.HTTPResponse:
    connection.request("POST", path, body(prompt, stream=stream), {"Content-Type": "application/json"})
    return connection.getresponse()


def text_of(response: http.client.HTTPResponse) -> str:
    message = json.loads(response.read())
    return "".join(block.get("text", "") for block in message["content"])


def events_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: ")]


@pytest.mark.slow
def test_one_connection_serves_several_requests():
    with FakeModel() as model:
        connection = connect(model)

        connection.request("HEAD", "/")
        head = connection.getresponse()
        head.read()
        first = text_of(ask(connection, "a"))
        sock = connection.sock
        second = text_of(ask(connection, "b"))
        connection.close()

        assert head.status == 200
        assert (first, second) == ("ECHO[a] turns=1", "ECHO[b] turns=1")
        assert connection.sock is None
        assert sock is not None
        assert model.prompts() == ["a", "b"]


@pytest.mark.slow
def test_a_stream_is_chunked_and_ends_so_that_the_connection_goes_on():
    with FakeModel() as model:
        connection = connect(model)

        response = ask(connection, "hello", stream=True)
        events = events_of(response.read())
        again = text_of(ask(connection, "again"))
        connection.close()

    assert response.getheader("Transfer-Encoding") == "chunked"
    assert response.getheader("Content-Type", "").startswith("text/event-stream")
    assert "".join(event["delta"].get("text", "") for event in events if "delta" in event) == "ECHO[hello] turns=1"
    assert events[-1] == {"type": "message_stop"}
    assert again == "ECHO[again] turns=1"


def test_tokens_are_counted_and_that_is_no_prompt():
    with FakeModel() as model:
        response = ask(connect(model), "hi", path="/v1/messages/count_tokens")

        assert json.loads(response.read()) == {"input_tokens": len(body("hi")) // 4}
        assert model.prompts() == []
        assert model.requests[0].path == "/v1/messages/count_tokens"


@pytest.mark.slow
def test_an_error_has_its_status_headers_and_body():
    script = {"rules": [{"error": {"status": 529, "retry_after": 2, "message": "busy"}, "times": 1}]}
    with FakeModel(script) as model:
        connection = connect(model)
        response = ask(connection, "x", stream=True)
        error = json.loads(response.read())

        assert (response.status, response.reason, response.getheader("retry-after")) == (529, "Overloaded", "2")
        assert error["error"] == {"type": "overloaded_error", "message": "busy"}
        assert error["request_id"] == response.getheader("request-id")
        assert text_of(ask(connection, "x")) == "ECHO[x] turns=1"


@pytest.mark.parametrize(
    ("method", "path", "data", "status"),
    [
        ("GET", "/v1/files", b"", 404),
        ("POST", "/v1/elsewhere", b"{}", 404),
        ("POST", "/v1/messages", b"not json", 400),
        ("POST", "/v1/messages", b"[]", 400),
        ("POST", "/v1/messages", b"\xff", 400),
    ],
)
def test_what_it_does_not_serve_is_refused_and_logged(method: str, path: str, data: bytes, status: int):
    with FakeModel() as model:
        connection = connect(model)
        connection.request(method, path, data)
        response = connection.getresponse()

        assert response.status == status
        assert json.loads(response.read())["type"] == "error"
        assert [(request.method, request.path) for request in model.requests] == [(method, path)]


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Content-Length", str(64 * 1024 * 1024 + 1), 413),
        ("Transfer-Encoding", "chunked", 411),
        ("Content-Length", "x", 411),
    ],
)
def test_a_body_that_is_too_long_or_of_no_known_length_is_refused_unread(header: str, value: str, status: int):
    with FakeModel() as model:
        connection = connect(model)
        connection.putrequest("POST", "/v1/messages")
        connection.putheader(header, value)
        connection.endheaders()
        response = connection.getresponse()

        assert response.status == status
        assert response.getheader("Connection") == "close"


def test_a_stall_before_the_first_byte_ends_at_once_when_the_model_stops():
    model = FakeModel().start()
    connection = connect(model)
    connection.request("POST", "/v1/messages", body("!stall"))
    wait_until(lambda: model.prompts() == ["!stall"])

    model.stop()

    with pytest.raises(http.client.RemoteDisconnected):
        connection.getresponse()
    for serving in serving_threads():
        serving.join(30)
    assert serving_threads() == []


def test_a_stall_in_the_middle_comes_after_the_first_pieces():
    with FakeModel() as model:
        connection = connect(model)
        response = ask(connection, "!stall-mid " + "x" * 200, stream=True)
        first = response.read1()
        model.stop()

        assert b"event: message_start" in first
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()


def test_a_client_that_leaves_ends_the_stall():
    with FakeModel() as model:
        connection = connect(model)
        connection.request("POST", "/v1/messages", body("!stall"))
        wait_until(lambda: model.prompts() == ["!stall"])
        (serving,) = serving_threads()

        connection.close()
        serving.join(30)

        assert not serving.is_alive()


def test_a_stall_with_seconds_goes_on_after_them():
    with FakeModel() as model:
        assert text_of(ask(connect(model), "!stall 0.01 !say on")) == "on"


def test_a_cut_before_the_first_byte_gives_the_client_nothing():
    with FakeModel() as model:
        connection = connect(model)
        connection.request("POST", "/v1/messages", body("!drop"))

        with pytest.raises(http.client.RemoteDisconnected):
            connection.getresponse()


@pytest.mark.parametrize("stream", [True, False])
def test_a_cut_in_the_middle_gives_the_client_a_part(stream: bool):
    with FakeModel() as model:
        response = ask(connect(model), "!drop-mid", stream=stream)

        with pytest.raises(http.client.IncompleteRead) as cut:
            response.read()

    assert len(cut.value.partial) > 10


@pytest.mark.slow
def test_an_error_in_the_middle_of_a_stream_is_its_last_event():
    with FakeModel() as model:
        events = events_of(ask(connect(model), "!error-mid", stream=True).read())

    assert events[0]["type"] == "message_start"
    assert events[-1]["error"]["type"] == "overloaded_error"
    assert "message_stop" not in [event["type"] for event in events]


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
def test_a_malformed_answer_is_complete_http_and_no_json(stream: bool):
    with FakeModel() as model:
        data = ask(connect(model), "!malformed", stream=stream).read()

    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        events_of(data) if stream else json.loads(data)


@pytest.mark.slow
def test_a_slow_answer_takes_its_time():
    with FakeModel() as model:
        began = time.monotonic()
        ask(connect(model), "!slow 0.05", stream=True).read()

    assert time.monotonic() - began >= 0.05


def test_requests_are_kept_whole_but_no_secret():
    with FakeModel(clock=lambda: 86400.5) as model:
        connection = connect(model)
        secrets = {"Authorization": "Bearer s3cret", "X-Api-Key": "s3cret", "X-Other": "kept"}
        connection.request("POST", "/v1/messages?beta=true", body("hi"), secrets)
        connection.getresponse().read()
        (request,) = model.requests

    assert (request.time, request.method, request.path) == (
        "1970-01-02T00:00:00.500000Z",
        "POST",
        "/v1/messages?beta=true",
    )
    assert request.body == json.loads(body("hi"))
    assert (request.headers["authorization"], request.headers["x-api-key"]) == ("***", "***")
    assert request.headers["x-other"] == "kept"
    assert "s3cret" not in repr(request)


@pytest.mark.slow
def test_the_log_file_has_one_line_a_request(tmp_path: Path):
    log = tmp_path / "requests.jsonl"
    with FakeModel(log=log) as model:
        connection = connect(model)
        for prompt in ("one", "zwei \ud83d ü"):
            ask(connection, prompt).read()
        connection.close()

    lines = [json.loads(line) for line in log.read_text("ascii").splitlines()]
    assert [line["asked"]["prompt"] for line in lines] == ["one", "zwei \ud83d ü"]
    assert lines[0]["body"]["messages"] == [{"role": "user", "content": "one"}]


@pytest.mark.slow
def test_parallel_clients_are_all_answered():
    with FakeModel() as model:
        answers: dict[int, str] = {}

        def one(number: int) -> None:
            connection = connect(model)
            answers[number] = text_of(ask(connection, f"n{number}"))
            connection.close()

        threads = [threading.Thread(target=one, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

    assert answers == {number: f"ECHO[n{number}] turns=1" for number in range(20)}


def test_it_listens_on_loopback_only_and_frees_its_port():
    model = FakeModel().start()
    host, port = model.url.removeprefix("http://").split(":")
    model.stop()
    model.stop()

    assert host == "127.0.0.1"
    with socket.socket() as free:
        assert free.connect_ex((host, int(port))) != 0


def test_a_port_that_is_taken_and_a_log_that_can_not_be_written_are_refused(tmp_path: Path):
    with FakeModel() as model, pytest.raises(DiskError, match=r"127\.0\.0\.1"):
        FakeModel(port=int(model.url.rpartition(":")[2])).start()
    with pytest.raises(DiskError, match=r"none/x\.jsonl"):
        FakeModel(log=tmp_path / "none" / "x.jsonl").start()


@pytest.mark.slow
def test_a_script_may_be_a_file(tmp_path: Path):
    path = tmp_path / "script.yaml"
    path.write_text("replies: [from the file]")

    with FakeModel(path) as model:
        assert text_of(ask(connect(model), "x")) == "from the file"
    with pytest.raises(ConfigError):
        FakeModel({"rule": []})


@pytest.mark.parametrize(
    ("path", "data", "found"),
    [
        ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}]}, ("content", 0, "text")),
        ("/v1/responses", {"input": "hi"}, ("output", 0, "content", 0, "text")),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "hi"}]},
            ("choices", 0, "message", "content"),
        ),
        (
            "/v1beta/models/m:generateContent",
            {"contents": [{"parts": [{"text": "hi"}]}]},
            ("candidates", 0, "content", "parts", 0, "text"),
        ),
    ],
)
def test_each_api_has_its_path(path: str, data: Any, found: tuple[Any, ...]):
    with FakeModel() as model:
        connection = connect(model)
        connection.request("POST", path, json.dumps(data))
        value = json.loads(connection.getresponse().read())
        for key in found:
            value = value[key]

    assert value == "ECHO[hi] turns=1"


def test_the_names_of_models_may_be_looked_at():
    with FakeModel() as model:
        connection = connect(model)
        connection.request("GET", "/v1/models?client_version=1")

        assert [entry["id"] for entry in json.loads(connection.getresponse().read())["data"]] == ["scripted"]
        assert model.prompts() == []


def test_the_environment_of_an_adapter_points_at_the_model():
    with FakeModel() as model:
        assert model.env("claude")["ANTHROPIC_BASE_URL"] == model.url


def test_claude_asks_nothing_at_its_first_start_in_a_scratch_home_and_what_is_there_stays(tmp_path: Path):
    with FakeModel() as model:
        assert "HOME" not in model.env("claude"), "it runs without one"
        assert model.env("claude", tmp_path)["HOME"] == str(tmp_path)
        written = tmp_path / ".claude.json"
        assert json.loads(written.read_bytes())["hasCompletedOnboarding"] is True
        written.write_text("{}")
        model.env("claude", tmp_path)
        assert written.read_text() == "{}"


def test_an_adapter_that_needs_files_gets_them_in_a_scratch_home_and_not_without_one(tmp_path: Path):
    with FakeModel() as model:
        env = model.env("codex", tmp_path)

        assert env["HOME"] == str(tmp_path)
        assert f'base_url = "{model.url}/v1"' in (tmp_path / ".codex" / "config.toml").read_text()
        with pytest.raises(UsageError, match="codex"):
            model.env("codex")
        (tmp_path / "file").touch()
        with pytest.raises(DiskError, match=r"config\.toml"):
            model.env("codex", tmp_path / "file")


@pytest.mark.slow
def test_an_adapter_that_has_no_model_or_does_not_exist_is_refused():
    with FakeModel() as model:
        with pytest.raises(UnsupportedError, match="mailbox"):
            model.env("mailbox")
        with pytest.raises(NotFoundError, match="clod"):
            model.env("clod")


def wait_until(holds: Any) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.002)


def serving_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]
