"""The proxy without a socket: requests as bytes, a model in memory, and the answers as bytes."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import io
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beam.base.errors import DiskError, UsageError
from beam.model.outcome import Usage
from beam.proxy import handling, upstream
from beam.proxy.budget import AnswerMeter, Budget, Spending, billed_tokens
from beam.proxy.http import Handler, RequestError
from beam.proxy.options import ProxyCounts, ProxyOptions
from beam.proxy.recording import Recording
from beam.proxy.served import ServedRequest, explain
from beam.proxy.shared import ProxyState
from beam.proxy.upstream import CutError, UnreachableError, Upstream

KEY = "sk-ant-api03-" + "A1b2C3d4" * 6
JSON = {"Content-Type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}
STARTED = {"type": "message_start", "message": {"usage": {"input_tokens": 11}}}
STREAM = (
    f"event: message_start\ndata: {json.dumps(STARTED)}\n\n"
    'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":7}}\n\n'
).encode()
WHOLE = b'{"type":"message","content":[],"usage":{"input_tokens":3,"output_tokens":2}}'


class Model:
    """A model's API in memory: it gives these answers in turn. `asked` is what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.urls: list[str] = []
        self.closed = 0
        self.dropped = 0

    def __call__(self, url: str) -> Model:
        self.urls.append(url)
        return self

    def connect(self) -> Any:
        return SimpleNamespace(shutdown=lambda how: None)

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        self.asked.append((method, path, headers, body))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, headers, pieces = answer

        def read() -> Iterator[bytes]:
            for piece in pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece

        return SimpleNamespace(status=status, headers=headers, pieces=read, drop=self.drop)

    def drop(self) -> None:
        self.dropped += 1

    def close(self) -> None:
        self.closed += 1


class Answered:
    """An answer, as bytes: its status, its headers and its body without chunks."""

    def __init__(self, data: bytes) -> None:
        self.raw = data
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.reason = first.split(" ", 2)[2]
        self.headers = dict(line.split(": ", 1) for line in lines)
        self.chunks: list[bytes] = []
        self.is_whole = True
        if self.headers.get("Transfer-Encoding") == "chunked":
            self.is_whole = False
            while body:
                size, _, rest = body.partition(b"\r\n")
                if int(size, 16) == 0:
                    self.is_whole = True
                    break
                self.chunks.append(rest[: int(size, 16)])
                body = rest[int(size, 16) + 2 :]
            body = b"".join(self.chunks)
        self.body = body

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"]["message"])


class Connection(handling._Handler):
    """A connection whose request is there, and whose answer is kept."""

    def __init__(self, request: bytes, server: Any) -> None:
        self.connection = cast(Any, SimpleNamespace())
        self.client_address = ("127.0.0.1", 1)
        self.server = server
        self.rfile = io.BufferedReader(io.BytesIO(request))
        self.wfile = io.BytesIO()
        self.error: Exception | None = None
        self._upstream = None
        try:
            self.handle_one_request()
        except ConnectionError as error:
            self.error = error
        if self._upstream is not None:
            self._upstream.close()

    def date_time_string(self, timestamp: float | None = None) -> str:
        return "today"


class Memory:
    """A proxy in memory; `served` is what it told of each request."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, model: Model | None = None, key: str | None = None, **more: Any
    ):
        self.model = model or Model()
        monkeypatch.setattr(handling, "Upstream", self.model)
        self.served: list[ServedRequest] = []
        self.state = ProxyState(ProxyOptions(**more), self.served.append, key)
        self.watched: list[tuple[str, int]] = []
        departures = SimpleNamespace(
            watch=lambda number, agent, model: self.watched.append(("watch", number)),
            unwatch=lambda number: self.watched.append(("unwatch", number)),
        )
        self.server = SimpleNamespace(proxy=self.state, departures=departures)

    def send(self, path: str = "/v1/messages", value: Any = None, *, method: str = "POST", **headers: str) -> Answered:
        data = value if isinstance(value, bytes) else json.dumps(value).encode() if value is not None else b""
        head = {
            "host": "127.0.0.1",
            "x-api-key": KEY,
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        if data and "transfer-encoding" not in head and "content-length" not in head:
            head["content-length"] = str(len(data))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in head.items() if text)]
        self.connection = Connection("\r\n".join([*lines, "", ""]).encode() + data, self.server)
        return Answered(cast(io.BytesIO, self.connection.wfile).getvalue())

    def ask(
        self, text: str = "hello", *, stream: bool = True, model: str = "claude-opus-4-6", **headers: str
    ) -> Answered:
        return self.send(value=body(text, stream=stream, model=model), **headers)


def body(text: str = "hello", *, stream: bool = True, model: str = "claude-opus-4-6") -> dict[str, Any]:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]}


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Memory]:
    return lambda model=None, **more: Memory(monkeypatch, model, **more)


Make = Callable[..., Memory]


def test_a_stream_is_passed_on_in_its_pieces_and_counted(memory: Make) -> None:
    it = memory(Model((200, EVENTS, [STREAM[:30], STREAM[30:]])), upstream="http://model")
    got = it.ask()
    assert (got.status, got.chunks, got.is_whole) == (200, [STREAM[:30], STREAM[30:]], True)
    assert got.headers["content-type"] == "text/event-stream"
    assert it.model.urls == ["http://model"]
    ((method, path, headers, data),) = it.model.asked
    assert (method, path, json.loads(data)) == ("POST", "/v1/messages", body())
    assert headers == {"host": "127.0.0.1", "x-api-key": KEY, "content-length": str(len(data))}
    assert it.served == [
        ServedRequest(
            number=1, kind="ask", model="claude-opus-4-6", step="live", usage=Usage(input_tokens=11, output_tokens=7)
        )
    ]
    assert (it.watched, it.connection.error, it.connection.close_connection) == (
        [("watch", 1), ("unwatch", 1)],
        None,
        False,
    )
    counts = it.state.counts
    assert (counts.calls, counts.live, counts.others, counts.refused) == (1, 1, 0, 0)
    assert counts.usage == Usage(input_tokens=11, output_tokens=7, calls=1)
    assert counts.cost_usd is not None and counts.cost_usd > 0


@pytest.mark.parametrize("stream", [True, False])
def test_what_was_recorded_is_replayed_byte_for_byte(memory: Make, tmp_path: Path, stream: bool) -> None:
    answers = [(200, EVENTS, [STREAM]) if stream else (200, JSON, [WHOLE[:9], WHOLE[9:]]), (529, JSON, [b'{"e":1}'])]
    it = memory(Model(*answers), upstream="http://model", record=str(tmp_path / "r"))
    first = [it.ask(text, stream=stream) for text in ("one", "two")]
    it.state.recorder.close()  # type: ignore[union-attr]
    again = memory(replay=str(tmp_path / "r"))
    second = [again.ask(text, stream=stream) for text in ("one", "two")]
    assert [(got.status, got.body, got.is_whole) for got in second] == [
        (got.status, got.body, got.is_whole) for got in first
    ]
    assert (second[1].status, second[1].reason) == (529, "Overloaded")
    assert [(each.step, each.recorded, each.kind) for each in again.served] == [
        ("exact", 1, "ask"),
        ("exact", 2, "ask"),
    ]
    assert again.served[0].usage == it.served[0].usage
    assert (again.model.urls, again.state.counts.exact, again.state.counts.replayed) == ([], 2, 2)


def test_a_recorded_answer_that_failed_costs_nothing_in_a_replay_with_a_budget(memory: Make, tmp_path: Path) -> None:
    answers = [(529, JSON, [b'{"e":1}']), (200, JSON, [WHOLE]), (200, JSON, [WHOLE])]
    it = memory(Model(*answers), upstream="http://model", record=str(tmp_path / "r"), budget=Budget(usd=1.0))
    texts = ("one", "two", "three")
    assert [it.ask(text, stream=False).status for text in texts] == [529, 200, 200]
    it.state.recorder.close()  # type: ignore[union-attr]
    again = memory(replay=str(tmp_path / "r"), budget=Budget(usd=1.0))
    assert [again.ask(text, stream=False).status for text in texts] == [529, 200, 200]
    counts = again.state.counts
    assert (counts.usage, counts.cost_usd) == (it.state.counts.usage, it.state.counts.cost_usd)
    assert counts.usage.calls == 2


def test_a_recording_has_the_request_without_keys_and_the_answer_in_a_file_of_its_own(
    memory: Make, tmp_path: Path
) -> None:
    it = memory(Model((200, EVENTS, [STREAM])), upstream="http://model", record=str(tmp_path / "r"), agent="claude")
    it.ask(f"my key is {KEY}", authorization=f"Bearer {KEY}")
    it.state.recorder.close()  # type: ignore[union-attr]
    recording = Recording(tmp_path / "r")
    (exchange,) = recording.exchanges
    request, answer = exchange.request, exchange.answer
    assert (request.n, request.format, request.kind, request.method, request.path) == (
        1, "anthropic", "ask", "POST", "/v1/messages",
    )  # fmt: skip
    assert KEY not in json.dumps(exchange.body) and KEY not in json.dumps(request.headers)
    assert (answer.n, answer.status, answer.file, answer.end, answer.error) == (1, 200, "000001.sse", "complete", "")
    assert (answer.headers, answer.usage) == (EVENTS, Usage(input_tokens=11, output_tokens=7))
    assert b"".join(exchange.events) == (tmp_path / "r/answers/000001.sse").read_bytes() == STREAM
    assert (recording.about.agent, request.raw) == ("claude", None)
    assert request.at.endswith("Z") and len(request.at) == 20


def test_an_unreachable_model_is_reported_recorded_and_replayed(memory: Make, tmp_path: Path) -> None:
    it = memory(Model(UnreachableError("model: no route")), upstream="http://model", record=str(tmp_path / "r"))
    got = it.ask()
    assert (got.status, got.error) == (502, "beam: the model can't be reached: model: no route")
    assert [(each.step, each.why, each.model) for each in it.served] == [
        ("live", "the model can't be reached: model: no route", "claude-opus-4-6")
    ]
    assert it.watched == [("watch", 1), ("unwatch", 1)]
    it.state.recorder.close()  # type: ignore[union-attr]
    got = memory(replay=str(tmp_path / "r")).ask()
    assert (got.status, got.error) == (502, "the model can't be reached: model: no route")


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_breaks_off_is_cut_for_the_agent_and_in_a_replay(
    memory: Make, tmp_path: Path, stream: bool
) -> None:
    pieces = [STREAM[:-5] if stream else WHOLE[:9], CutError("it broke off")]
    it = memory(Model((200, EVENTS if stream else JSON, pieces)), upstream="http://model", record=str(tmp_path / "r"))
    got = it.ask()
    assert (got.is_whole, str(it.connection.error), it.connection.close_connection) == (
        False,
        "the answer was cut",
        True,
    )
    it.state.recorder.close()  # type: ignore[union-attr]
    assert Recording(tmp_path / "r").exchanges[0].answer.end == "cut"
    again = memory(replay=str(tmp_path / "r"))
    second = again.ask()
    assert (second.is_whole, str(again.connection.error)) == (False, "cut, as it was recorded")
    assert again.connection.close_connection
    assert got.body.startswith(second.body) and second.body


def test_an_answer_over_the_limit_is_cut_and_no_more_of_it_is_read(
    memory: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handling, "ANSWER_LIMIT", 10)
    it = memory(Model((200, JSON, [b"12345", b"67890", b"x"])), upstream="http://model")
    got = it.ask()
    assert (got.body, got.is_whole, it.model.dropped) == (b"1234567890", False, 1)


def test_a_head_and_an_answer_without_a_body_have_no_body(memory: Make) -> None:
    it = memory(Model((200, JSON, [b"x"]), (204, {}, [])), upstream="http://model")
    got = it.send("/v1/models", method="HEAD")
    assert (got.status, got.headers["Content-Length"], got.body) == (200, "0", b"")
    got = it.ask()
    assert (got.status, got.headers["Content-Length"], got.body) == (204, "0", b"")


def test_a_request_in_chunks_is_read_whole(memory: Make) -> None:
    it = memory(Model((200, JSON, [b"{}"])), upstream="http://model")
    data = json.dumps(body()).encode()
    chunks = b"5;x=y\r\n" + data[:5] + b"\r\n" + f"{len(data) - 5:X}\r\n".encode() + data[5:] + b"\r\n0\r\nT: x\r\n\r\n"
    got = it.send(value=chunks, transfer_encoding="chunked")
    assert (got.status, it.model.asked[0][3]) == (200, data)


@pytest.mark.parametrize(
    ("value", "headers", "status", "said"),
    [
        (b"x\r\n", {"transfer_encoding": "chunked"}, 400, "a chunk has no size"),
        (b"1\r\nxy\r\n0\r\n\r\n", {"transfer_encoding": "chunked"}, 400, "a chunk is longer than it says"),
        (b"1;" + b"x" * 4096, {"transfer_encoding": "chunked"}, 400, "a line of a chunk is too long"),
        (b"0\r\nT: " + b"x" * 4096, {"transfer_encoding": "chunked"}, 400, "a line of a chunk is too long"),
        (b"FFFFFFFFF\r\n", {"transfer_encoding": "chunked"}, 413, "the body is over 67108864 bytes"),
        (b"0\r\n\r\n", {"transfer_encoding": "gzip"}, 411, "a content-length is needed"),
        (b"x", {"content_length": "many"}, 411, "a content-length is needed"),
        (b"x", {"content_length": "67108865"}, 413, "the body is over 67108864 bytes"),
        (b"x", {"content_length": "1", "transfer_encoding": "chunked"}, 400, "the request has two lengths"),
        (b"x", {"host": "evil.example"}, 403, "this server is not 'evil.example'"),
        (b"x", {"origin": "https://evil.example"}, 403, "a web page asks nothing here"),
    ],
)
def test_a_request_that_can_not_be_taken_is_refused_and_its_connection_closed(
    memory: Make, value: bytes, headers: dict[str, str], status: int, said: str
) -> None:
    it = memory(upstream="http://model")
    got = it.send(value=value, **headers)
    assert (got.status, got.error, got.headers["Connection"]) == (status, said, "close")
    assert (it.connection.close_connection, it.model.asked, it.served) == (True, [], [])


@pytest.mark.parametrize("path", ["/v1/../x", "/v1/%2e%2e/x", "/a#b", "/a\\b", "/v1;x/messages", "/v1/%00"])
def test_a_path_that_may_be_read_in_two_ways_is_refused(memory: Make, path: str) -> None:
    got = memory(upstream="http://model").send(path, body())
    assert (got.status, got.error) == (400, "a path of this server is needed")


def test_a_body_that_is_shorter_than_it_says_ends_the_connection(memory: Make) -> None:
    it = memory(upstream="http://model")
    with pytest.raises(IndexError):
        it.send(value=b"x", content_length="5")


def test_a_web_socket_is_refused_so_that_the_agent_asks_over_http(memory: Make) -> None:
    got = memory(upstream="http://model").send(value=body(), upgrade="websocket")
    assert (got.status, got.error) == (404, "there is no such path")


TOKEN = "beam-token-1"


@pytest.mark.parametrize(
    ("path", "method", "headers", "options", "status", "said"),
    [
        ("/v1/messages", "POST", {}, {}, 401, "beam: the key is not the one of this turn"),
        ("/v1/messages", "POST", {"x_api_key": TOKEN}, {}, 200, None),
        ("/v1/messages", "POST", {"x_api_key": "", "authorization": f"Bearer {TOKEN}"}, {}, 200, None),
        (
            "/v1/messages", "POST", {"x_api_key": TOKEN}, {"format": "chat"}, 401,
            "beam: this turn asks by chat, not by anthropic",
        ),
        ("/v1/messages", "POST", {"x_api_key": TOKEN}, {"format": "anthropic"}, 200, None),
        ("/v1/models", "GET", {"x_api_key": TOKEN}, {}, 200, None),
        ("/v1/models?x=1", "GET", {"x_api_key": TOKEN}, {}, 200, None),
        ("/v1/files", "GET", {"x_api_key": TOKEN}, {}, 404, "beam: GET /v1/files is no model call"),
        ("/v1/models", "POST", {"x_api_key": TOKEN}, {}, 404, "beam: POST /v1/models is no model call"),
        ("/v1/models", "DELETE", {"x_api_key": TOKEN}, {}, 404, "beam: DELETE /v1/models is no model call"),
        (
            "/admin/v1/messages", "POST", {"x_api_key": TOKEN}, {}, 404,
            "beam: POST /admin/v1/messages is no model call",
        ),
    ],
)  # fmt: skip
def test_a_proxy_with_a_token_lets_through_only_the_turns_own_model_calls(
    memory: Make,
    path: str,
    method: str,
    headers: dict[str, str],
    options: dict[str, str],
    status: int,
    said: str | None,
) -> None:
    it = memory(Model((200, JSON, [WHOLE])), upstream="http://model", token=TOKEN, **options)
    got = it.send(path, body() if method == "POST" else None, method=method, **headers)
    assert (got.status, got.error if said is not None else None) == (status, said)
    assert len(it.model.asked) == (status == 200)
    if said is not None:
        assert [(each.step, f"beam: {each.why}") for each in it.served] == [("refused", said)]


def test_a_turn_asks_models_of_one_family(memory: Make) -> None:
    it = memory(Model(*[(200, JSON, [WHOLE])] * 3), upstream="http://model", token=TOKEN)
    models = ("claude-opus-4-6", "anthropic/claude-haiku", "Claude.x", "gpt-5")
    got = [it.ask(model=model, x_api_key=TOKEN) for model in models]
    assert [each.status for each in got] == [200, 200, 200, 401]
    assert got[3].error == "beam: this turn asks models of the family claude, not gpt-5"


def test_the_real_key_takes_the_place_of_the_turns_and_does_not_come_back(memory: Make) -> None:
    it = memory(
        Model((200, {**JSON, "x-key": KEY}, [f"the key is {KEY}".encode()])), key=KEY, upstream="http://m", token=TOKEN
    )
    got = it.ask(x_api_key=TOKEN)
    assert it.model.asked[0][2]["x-api-key"] == KEY
    assert KEY.encode() not in got.raw and got.body.startswith(b"the key is ")


@pytest.mark.parametrize(("tokens", "is_over"), [(5, True), (6, False), (None, False)])
def test_a_budget_of_tokens_refuses_the_next_call(memory: Make, tokens: int | None, is_over: bool) -> None:
    it = memory(Model(*[(200, JSON, [WHOLE])] * 2), upstream="http://model", budget=Budget(max_tokens=tokens))
    assert it.ask().status == 200
    got = it.ask()
    why = "max_tokens is 5, and 5 were used in 1 model calls"
    assert (got.status, got.error if is_over else "") == (
        (403, f"beam: the turn's budget is used up: {why}") if is_over else (200, "")
    )
    if is_over:
        assert (it.served[1].step, it.served[1].why, it.state.counts.refused) == ("over", why, 1)


def test_a_proxy_without_an_upstream_asks_nobody(memory: Make) -> None:
    got = memory().ask()
    assert (got.status, got.error) == (502, "beam: this proxy has no upstream to ask")


def recorded(memory: Make, folder: Path, *texts: str) -> Path:
    it = memory(Model(*[(200, EVENTS, [STREAM])] * len(texts)), upstream="http://model", record=str(folder))
    for text in texts:
        it.ask(text)
    it.state.recorder.close()  # type: ignore[union-attr]
    return folder


def test_a_call_that_was_not_recorded_is_reported_with_its_nearest_and_first_difference(
    memory: Make, tmp_path: Path
) -> None:
    it = memory(replay=str(recorded(memory, tmp_path / "r", "one")))
    got = it.ask("two, and another model", model="other")
    assert got.status == 422
    (served,) = it.served
    assert got.error == f"beam: {explain(served)}"
    assert (served.step, served.nearest, served.recorded) == ("unmatched", 1, None)
    assert it.state.counts.unmatched == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("HEAD", "/", 200),
        ("GET", "/v1/models", 200),
        ("HEAD", "/v1/models", 404),
        ("POST", "/", 404),
        ("PUT", "/x", 404),
        ("DELETE", "/x", 404),
        ("POST", "/v1/messages/count_tokens", 200),
    ],
)
def test_what_asks_no_model_gets_what_a_vendor_would_say(
    memory: Make, tmp_path: Path, method: str, path: str, status: int
) -> None:
    it = memory(replay=str(recorded(memory, tmp_path / "r", "one")))
    got = it.send(path, body() if method == "POST" else None, method=method)
    assert (got.status, it.served[0].step) == (status, "unmatched")
    counts = it.state.counts
    assert (counts.others, counts.calls, counts.refused) == (1, 0, 0)
    if status == 404 and method != "HEAD":
        assert got.error == f"no such path: {method} {path}"


def test_a_call_that_was_not_recorded_is_filled_in_by_the_model(memory: Make, tmp_path: Path) -> None:
    folder = recorded(memory, tmp_path / "r", "one")
    it = memory(Model((200, EVENTS, [STREAM])), replay=str(folder), fill=True, upstream="http://model")
    assert (it.ask("one").status, it.ask("two").status) == (200, 200)
    assert [(each.step, each.recorded) for each in it.served] == [("exact", 1), ("filled", 2)]
    assert (it.state.counts.filled, it.state.counts.exact, len(it.model.asked)) == (1, 1, 1)
    it.state.recorder.close()  # type: ignore[union-attr]
    again = memory(replay=str(folder))
    assert (again.ask("two").status, again.served[0].step) == (200, "exact")


def test_a_replay_that_forks_asks_another_model_from_that_call_on(memory: Make, tmp_path: Path) -> None:
    folder = recorded(memory, tmp_path / "r", "one", "two")
    it = memory(
        Model((200, EVENTS, [STREAM])), replay=str(folder), fork_at=2, fork_model="claude-x", upstream="http://model"
    )
    it.ask("one")
    it.ask("two", content_encoding="identity")
    assert [(each.step, each.model) for each in it.served] == [("exact", "claude-opus-4-6"), ("live", "claude-x")]
    ((_, path, headers, data),) = it.model.asked
    assert (path, json.loads(data)["model"], "content-encoding" in headers) == ("/v1/messages", "claude-x", False)


def test_a_recording_that_can_not_be_written_ends_the_connection_and_is_reported(
    memory: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = memory(Model((200, JSON, [WHOLE])), upstream="http://model", record=str(tmp_path / "r"))

    def full(*_: object) -> int:
        raise DiskError("no space")

    monkeypatch.setattr(it.state.recorder, "begin", full)
    with pytest.raises(IndexError):
        it.ask()
    assert [(each.step, each.why, each.kind) for each in it.served] == [("refused", "no space", "ask")]


def test_a_compressed_request_is_understood_and_sent_on_as_it_came(memory: Make) -> None:
    it = memory(Model((200, JSON, [WHOLE])), upstream="http://model")
    data = gzip.compress(json.dumps(body(model="claude-x")).encode())
    it.send(value=data, content_encoding="gzip")
    assert (it.served[0].model, it.model.asked[0][3]) == ("claude-x", data)


def test_two_requests_of_one_connection_use_one_connection_to_the_model(memory: Make) -> None:
    it = memory(Model((200, JSON, [WHOLE])), upstream="http://model")
    it.ask()
    assert it.model.closed == 1


# -- what is counted ---------------------------------------------------------------------------------------------------


def test_figures_that_the_api_does_not_tell_are_estimated_at_four_bytes_a_token() -> None:
    meter = AnswerMeter(40)
    meter.add(None, 7)
    meter.add(None, 5)
    assert meter.usage == Usage(input_tokens=10, output_tokens=3)
    assert AnswerMeter(0).usage == Usage(input_tokens=1, output_tokens=1)
    meter.add(Usage(input_tokens=5), 1)
    meter.add(Usage(output_tokens=2, cached_tokens=9), 1)
    assert meter.usage == Usage(input_tokens=5, output_tokens=2, cached_tokens=9)
    cached = AnswerMeter(40)
    cached.add(Usage(cached_tokens=9), 8)
    assert cached.usage == Usage(cached_tokens=9, output_tokens=2)
    assert billed_tokens(meter.usage) == 16


def test_a_budget_in_usd_needs_a_price_and_is_kept_after_the_call_that_goes_over_it() -> None:
    spending = Spending(Budget(usd=0.001))
    assert spending.refusal("claude-opus-4-6") == ""
    assert spending.refusal("nobody-knows") == (
        "the price of nobody-knows is not known, so a budget in USD can't be kept"
    )
    assert spending.refusal("") == "the price of the model is not known, so a budget in USD can't be kept"
    spending.add("claude-opus-4-6", Usage(input_tokens=1000, output_tokens=1000))
    cost = spending.cost_usd
    assert cost is not None
    assert spending.refusal("claude-opus-4-6") == (
        f"the budget is 0.001 USD, and {cost:.6f} were used in 1 model calls"
    )
    spending.add("nobody-knows", Usage(input_tokens=1))
    assert (spending.cost_usd, spending.calls, spending.usage.calls) == (None, 2, 2)
    assert Spending(Budget()).refusal("nobody-knows") == ""


def test_counts_of_replayed_calls_are_their_sum() -> None:
    assert ProxyCounts(exact=1, minor=2, major=4, unmatched=8, live=16, filled=32).replayed == 7


# -- the model's real API ----------------------------------------------------------------------------------------------


class Socket:
    """A socket from which this answer is read; what was sent is kept."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.sent = b""
        self.options: list[tuple[int, ...]] = []

    def makefile(self, mode: str, *_: object) -> io.BufferedReader:
        return io.BufferedReader(io.BytesIO(self.answer))

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def settimeout(self, seconds: float | None) -> None:
        self.timeout = seconds

    def setsockopt(self, *option: int) -> None:
        self.options.append(option)

    def close(self) -> None:
        pass


class Api:
    """An API behind a socket in memory; each connection gives the next answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: bytes | Exception) -> None:
        self.sockets: list[Socket] = []
        self.made: list[Any] = []
        answers_left = list(answers)

        def connect(connection: http.client.HTTPConnection) -> None:
            answer = answers_left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            self.sockets.append(Socket(answer))
            connection.sock = cast(Any, self.sockets[-1])

        monkeypatch.setattr(http.client.HTTPConnection, "connect", connect)
        monkeypatch.setattr(upstream, "_is_idle", lambda connection: self.is_idle)
        self.is_idle = True


def said(status: int = 200, data: bytes = b"{}", **headers: str) -> bytes:
    given = {"content-length": str(len(data)), **{name.replace("_", "-"): text for name, text in headers.items()}}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {text}" for name, text in given.items() if text)]
    return "\r\n".join([*lines, "", ""]).encode() + data


def test_a_request_is_sent_with_its_own_headers_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(monkeypatch, said(server="x", date="y", x_request_id="z", set_cookie="c"))
    given = {"Host": "127.0.0.1", "X-Api-Key": "k", "Connection": "keep-alive", "Accept-Encoding": "br", "TE": "x"}
    answer = Upstream("http://model:81/base/").ask("POST", "/v1/messages?x=1", given, b"{}")
    (made,) = api.sockets
    head, _, data = made.sent.partition(b"\r\n\r\n")
    assert sorted(head.decode().split("\r\n")) == sorted([
        "POST /base/v1/messages?x=1 HTTP/1.1", "Host: model:81", "X-Api-Key: k", "Accept-Encoding: identity",
        "Content-Length: 2",
    ])  # fmt: skip
    assert data == b"{}"
    assert (answer.status, answer.headers, list(answer.pieces())) == (200, {"x-request-id": "z"}, [b"{}"])
    assert (made.timeout, made.options) == (None, [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)])


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_an_answer_that_comes_before_the_whole_request_was_read_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    def sendall(self: Socket, data: bytes) -> None:
        if data == b"large":
            raise error

    Api(monkeypatch, said(413, b"too large"), said(), b"")
    model = Upstream("http://model")
    with monkeypatch.context() as during:
        during.setattr(Socket, "sendall", sendall)
        answer = model.ask("POST", "/", {}, b"large")
        assert (answer.status, list(answer.pieces())) == (413, [b"too large"])
        assert model._connection is None
    assert model.ask("POST", "/", {}, b"small").status == 200
    model.close()
    with monkeypatch.context() as during, pytest.raises(UnreachableError, match="without response"):
        during.setattr(Socket, "sendall", sendall)
        model.ask("POST", "/", {}, b"large")


def test_a_connection_is_used_again_while_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(monkeypatch, said() + said(), said())
    model = Upstream("http://model")
    first = model.connect()
    list(model.ask("GET", "/", {}, b"").pieces())
    assert model.connect() is first
    assert b"content-length" not in api.sockets[0].sent.lower()
    api.is_idle = False
    assert model.connect() is not first
    model.close()
    model.close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "model: Connection refused"),
        (b"", "model: Remote end closed connection without response"),
        (said(302, location="https://other.example/v1?k=1"), ("model redirects to https://other.example/v1, where the "
         "proxy doesn't go: name that URL as `upstream`, if it is right")),
        (said(307, location="/other"), ("model redirects to /other, where the proxy doesn't go: name that URL "
         "as `upstream`, if it is right")),
        (said(content_encoding="br"), "model answered in br, though a plain answer was asked for"),
    ],
)  # fmt: skip
def test_a_model_that_gives_no_answer_that_can_be_passed_on_is_unreachable(
    monkeypatch: pytest.MonkeyPatch, answer: bytes | Exception, why: str
) -> None:
    Api(monkeypatch, answer)
    with pytest.raises(UnreachableError) as error:
        Upstream("http://model").ask("GET", "/", {}, b"")
    assert str(error.value) == why


def test_a_model_to_which_no_connection_is_made_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    Api(monkeypatch, OSError(113, "No route to host"))
    with pytest.raises(UnreachableError, match=r"^model: No route to host$"):
        Upstream("http://model").connect()


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
def test_a_compressed_answer_is_passed_on_plain(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    data = gzip.compress(b"hello")
    Api(monkeypatch, said(data=data, content_encoding=encoding), said(data=data[:-4], content_encoding=encoding))
    model = Upstream("http://model")
    answer = model.ask("GET", "/", {}, b"")
    assert (answer.headers, b"".join(answer.pieces())) == ({}, b"hello")
    model.close()
    with pytest.raises(CutError, match="the compressed body is not whole"):
        list(model.ask("GET", "/", {}, b"").pieces())


def test_a_compressed_answer_of_several_members_is_passed_on_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gzip.compress(b"hel") + gzip.compress(b"") + gzip.compress(b"lo")
    Api(monkeypatch, said(data=data, content_encoding="gzip"), said(data=data[:-4], content_encoding="gzip"))
    model = Upstream("http://model")
    assert b"".join(model.ask("GET", "/", {}, b"").pieces()) == b"hello"
    model.close()
    with pytest.raises(CutError, match="the compressed body is not whole"):
        list(model.ask("GET", "/", {}, b"").pieces())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (said(data=gzip.compress(b"a", mtime=0) + b"junk", content_encoding="gzip"), None),
        (said(data=b"abc", content_length="5"), "2 bytes are missing"),
        (said(data=b"3\r\nabc\r\n", content_length="", transfer_encoding="chunked"), None),
        (said(data=b"no gzip", content_encoding="gzip"), None),
    ],
)
def test_an_answer_that_breaks_off_is_cut(monkeypatch: pytest.MonkeyPatch, answer: bytes, why: str | None) -> None:
    Api(monkeypatch, answer)
    model = Upstream("http://model")
    with pytest.raises(CutError) as error:
        list(model.ask("GET", "/", {}, b"").pieces())
    assert why is None or str(error.value) == why
    assert model._connection is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://x", "'ftp://x' is not the URL of a model's API"),
        ("http://", "'http://' is not the URL of a model's API"),
        ("http://x:0", "'http://x:0' is not the URL of a model's API"),
        ("http://x:99999", "'http://x:99999' is not the URL of a model's API"),
        ("http://x?q=1", "'http://x?q=1' is not the URL of a model's API"),
        ("http://x#f", "'http://x#f' is not the URL of a model's API"),
        ("http://user@x", "a URL with a password in it is not taken"),
        ("http://:word@x", "a URL with a password in it is not taken"),
    ],
)
def test_what_is_no_url_of_an_api_is_refused(url: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        Upstream(url)
    assert error.value.message == said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "proxies", "host", "port", "tunnel"),
    [
        ("http://model", {"https": "http://proxy:3128"}, "model", 80, None),
        ("https://model", {}, "model", 443, None),
        ("https://model", {"https": "http://proxy:3128"}, "proxy", 3128, ("model", 443)),
        ("https://model:444", {"https": "proxy:3128"}, "proxy", 3128, ("model", 444)),
        ("https://localhost", {"https": "http://proxy:3128"}, "localhost", 443, None),
        ("https://127.0.0.9", {"https": "http://proxy:3128"}, "127.0.0.9", 443, None),
        ("https://bypassed", {"https": "http://proxy:3128"}, "bypassed", 443, None),
    ],
)
def test_an_api_is_reached_through_the_machines_proxy_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, url: str, proxies: dict[str, str], host: str, port: int, tunnel: Any
) -> None:
    monkeypatch.setattr(upstream.urllib.request, "getproxies", lambda: proxies)
    monkeypatch.setattr(upstream.urllib.request, "proxy_bypass", lambda host: host == "bypassed")
    made = cast(Any, Upstream(url)._new_connection())
    assert (made.host, made.port, made.timeout) == (host, port, 30.0)
    found = getattr(made, "_tunnel_host", None)
    assert (found and (found, made._tunnel_port)) == tunnel
    assert isinstance(made, http.client.HTTPSConnection) == url.startswith("https")


# -- one connection ----------------------------------------------------------------------------------------------------


def test_a_handler_that_answers_nothing_is_none() -> None:
    with pytest.raises(NotImplementedError):
        Handler.answer(cast(Any, None))


def test_a_pause_ends_in_time_also_where_the_client_sent_ahead_and_at_once_where_it_left() -> None:
    ours, theirs = socket.socketpair()
    with contextlib.closing(ours), contextlib.closing(theirs):
        handler = cast(Any, SimpleNamespace(connection=ours))
        Handler.pause(handler, 0.001)
        theirs.send(b"more")
        Handler.pause(handler, 0.001)
        ours.recv(4)
        theirs.close()
        with pytest.raises(ConnectionResetError, match="the client left"):
            Handler.pause(handler, None)


def test_a_request_error_has_its_status() -> None:
    assert (RequestError(413, "x").status, str(RequestError(413, "x"))) == (413, "x")


@pytest.mark.parametrize(
    ("served", "text"),
    [
        (ServedRequest(number=3, kind="ask"), "model call 3 was not recorded, and nothing like it was"),
        (ServedRequest(number=3, kind="ask", nearest=2), "model call 3 was not recorded; the nearest is 2"),
    ],
)
def test_what_was_not_recorded_is_explained(served: ServedRequest, text: str) -> None:
    assert explain(served) == text
