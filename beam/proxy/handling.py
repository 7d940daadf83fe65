"""Answers the requests to a proxy: from the recording, by asking the model, or with an error in the vendor's own
format."""

from __future__ import annotations

import re
import select
import socket
import threading
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from beam.base.errors import BeamError
from beam.model.outcome import Usage
from beam.proxy import doors, private, real_key
from beam.proxy.budget import AnswerMeter
from beam.proxy.call import Call, call_of, with_model
from beam.proxy.http import Handler, RequestError, Server
from beam.proxy.ladder import Match
from beam.proxy.recording import ANSWER_LIMIT, AnswerLine, End, Exchange, RequestLine, suffix_of
from beam.proxy.served import ServedRequest, explain
from beam.proxy.shared import ProxyState
from beam.proxy.tape import ExchangeRecorder
from beam.proxy.upstream import Answer, CutError, UnreachableError, Upstream
from beam.proxy.wire import dialects
from beam.proxy.wire.dialects import Dialect
from beam.proxy.wire.values import Error, Stop

UNMATCHED_STATUS = 422  # no vendor's library retries after this status
OVER_BUDGET_STATUS = 403
_BODILESS = (204, 304)  # statuses without a body
_LISTING_PATH = re.compile(r"/|(?:/v1(?:beta)?)?/models(?:/[\w.:-]+)?")
_CALL_PATH = re.compile(
    r"(?:/v1(?:beta|alpha)?)?/"
    r"(?:messages(?:/count_tokens)?|responses(?:/input_tokens)?|chat/completions|models/[\w.@-]+:\w+)"
)
_JSON = {"Content-Type": "application/json"}


class ProxyServer(Server):
    """The HTTP server of one proxy."""

    def __init__(self, port: int, proxy: ProxyState) -> None:
        self.proxy = proxy
        self.departures = DisconnectWatcher()
        super().__init__(port, _Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether the connection belongs to this user or to root. Any other connection is closed without being
        read."""
        return doors.is_own_connection(client_address, self.server_address[1])

    def stop(self) -> None:
        """Stop serving, and end the requests that still wait for the model."""
        self.departures.stop()
        super().stop()


class _Handler(Handler):
    server: ProxyServer
    takes_chunks = True

    def setup(self) -> None:
        super().setup()
        self._upstream: Upstream | None = None

    def finish(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
        super().finish()

    def do_PUT(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        self.answer()

    def answer(self) -> None:
        proxy = self.server.proxy
        path = self.path.partition("?")[0]
        dialect, route = dialects.dialect_of(self.command, dialects.usual_path(path))
        try:
            doors.check_request(self.path, self.headers)
            data = self.read_body()
        except RequestError as problem:
            self.close_connection = True
            self._send_error(dialect, problem.status, str(problem))
            return
        if "upgrade" in self.headers:  # a web socket: after this refusal, the agent asks over HTTP
            self._send_error(dialect, 404, "there is no such path")
            return
        call = call_of(data, self.path, self.headers, dialect, route)
        try:
            self._decide(proxy, call)
        except BeamError as error:  # the recording can't be written
            self.close_connection = True
            proxy.count_request(ServedRequest(number=call.number, kind=call.kind, step="refused", why=error.message))
            raise ConnectionAbortedError(error.message) from error

    def _decide(self, proxy: ProxyState, call: Call) -> None:
        options = proxy.options
        is_ask = call.kind == "ask"
        call.number, forked = proxy.take_number(is_ask=is_ask)
        why = self._access_refusal(proxy, call)
        if why:
            self._refuse(proxy, call, 401, why)
            return
        if options.token and not (self._is_model_listing() if call.kind == "other" else self._is_plain_call()):
            self._refuse(proxy, call, 404, f"{self.command} {self.path.partition('?')[0][:200]} is no model call")
            return
        if is_ask and (why := proxy.spending.refusal(call.asked.model)):
            self._refuse(proxy, call, OVER_BUDGET_STATUS, f"the turn's budget is used up: {why}", over=why)
            return
        if proxy.matcher is None or forked:
            if not options.upstream:
                self._refuse(proxy, call, 502, "this proxy has no upstream to ask")
                return
            self._ask_model(proxy, call, "live", rename=options.fork_model if forked else "")
            return
        match = proxy.matcher.match(
            format=call.dialect.name,
            kind=call.kind,
            method=self.command,
            path=private.stored_path(self.path, call.blanker),
            body=call.private,
            raw=call.raw,
        )
        if match.exchange is not None:
            self._answer_from_recording(proxy, call, match, match.exchange)
        elif is_ask and options.fill and options.upstream:
            self._ask_model(proxy, call, "filled", match=match)
        else:
            self._answer_unmatched(proxy, call, match)

    # -- refusals ------------------------------------------------------------------------------------------------------

    def _access_refusal(self, proxy: ProxyState, call: Call) -> str:
        """Return the reason why the request's key, wire format or model is refused; "" if it is accepted."""
        options = proxy.options
        if not options.token:
            return ""
        if not real_key.has_turn_key(options.token, self.path, self.headers):
            return "the key is not the one of this turn"
        if call.kind == "other":
            return ""
        if options.format and call.dialect.name != options.format:
            return f"this turn asks by {options.format}, not by {call.dialect.name}"
        if not proxy.is_of_family(call.asked.model):
            return f"this turn asks models of the family {proxy.family}, not {call.asked.model}"
        return ""

    def _is_model_listing(self) -> bool:
        """Return whether the request only asks which models exist. If the turn has a key, all other requests that are
        not model calls are refused."""
        return self.command in ("GET", "HEAD") and _LISTING_PATH.fullmatch(self.path.partition("?")[0]) is not None

    def _is_plain_call(self) -> bool:
        """Return whether the path of a model call is exactly a path of the vendor's API. A path that only ends like one
        may have another meaning."""
        return _CALL_PATH.fullmatch(self.path.partition("?")[0]) is not None

    def _refuse(self, proxy: ProxyState, call: Call, status: int, why: str, *, over: str = "") -> None:
        step = "over" if over else "refused"
        proxy.count_request(
            ServedRequest(number=call.number, kind=call.kind, model=call.asked.model, step=step, why=over or why)
        )
        self._send_error(call.dialect, status, f"beam: {why}")

    def _answer_unmatched(self, proxy: ProxyState, call: Call, match: Match) -> None:
        """Answer a request that has no recorded answer. A request to count tokens gets an estimate, a request to list
        models gets a fixed list, and a model call gets an error."""
        path = self.path.partition("?")[0]
        served = ServedRequest(
            number=call.number,
            kind=call.kind,
            model=call.asked.model,
            step="unmatched",
            nearest=match.nearest,
            differences=match.differences,
        )
        proxy.count_request(served)
        if call.kind == "count":
            self.send(200, call.dialect.count(call.asked), _JSON)
        elif call.kind == "other":
            if self.command in ("HEAD", "GET") and path == "/":
                self.send(200, b"", _JSON)
            elif self.command == "GET" and path in dialects.DOCUMENTS:
                self.send(200, dialects.DOCUMENTS[path], _JSON)
            else:
                self._send_error(call.dialect, 404, f"no such path: {self.command} {path[:200]}")
        else:
            self._send_error(call.dialect, UNMATCHED_STATUS, f"beam: {explain(served)}")

    def _send_error(self, dialect: Dialect, status: int, message: str) -> None:
        self.send(status, dialect.error(Error(status=status, message=message), f"req_{uuid.uuid4().hex[:24]}"), _JSON)

    # -- from the recording --------------------------------------------------------------------------------------------

    def _answer_from_recording(self, proxy: ProxyState, call: Call, match: Match, exchange: Exchange) -> None:
        answer = exchange.answer
        if call.kind == "ask" and answer.usage != Usage():  # an answer that failed has no usage, and costs nothing
            proxy.spending.add(call.asked.model, answer.usage)
        proxy.count_request(
            ServedRequest(
                number=call.number,
                kind=call.kind,
                model=call.asked.model,
                step=match.step,
                recorded=exchange.request.n,
                nearest=match.nearest,
                differences=match.differences,
                usage=answer.usage,
                stop=_recorded_stop(call.dialect, exchange),
                likeness=call.likeness(proxy.options.text),
            )
        )
        if answer.end == "failed":
            self._send_error(call.dialect, 502, answer.error)
            return
        is_whole = answer.end == "complete"
        if is_whole and not exchange.events:
            self.send(answer.status, proxy.folder_replacer.data(exchange.data), answer.headers)
            return
        self.send_head(answer.status, {**answer.headers, "Transfer-Encoding": "chunked"})
        for event in proxy.folder_replacer.events(exchange.events) or (exchange.data,):
            if event:
                self.send_chunk(event)
        if not is_whole:
            self.close_connection = True
            raise ConnectionAbortedError("cut, as it was recorded")
        self.send_last_chunk()

    # -- by the model --------------------------------------------------------------------------------------------------

    def _ask_model(
        self, proxy: ProxyState, call: Call, step: str, *, rename: str = "", match: Match | None = None
    ) -> None:
        data, path = with_model(call, self.path, rename) if rename else (call.data, self.path)
        if rename and isinstance(call.body, dict) and "model" in call.body:
            call.private = {**call.private, "model": rename}
        model = rename or call.asked.model
        tape = ExchangeRecorder(proxy.recorder, self._request_line(call), call.blanker)
        meter = AnswerMeter(call.asked.size)
        end: End = "cut"
        try:
            if self._upstream is None:
                self._upstream = Upstream(proxy.options.upstream)
            headers = real_key.headers_with(proxy.key, self.headers)
            if rename:
                headers.pop("content-encoding", None)
            self.server.departures.watch(call.number, self.connection, self._upstream.connect())
            answer = self._upstream.ask(self.command, real_key.path_with(proxy.key, path), headers, data)
        except UnreachableError as error:
            self.server.departures.unwatch(call.number)
            text = f"the model can't be reached: {error}"
            tape.end(AnswerLine(n=0, end="failed", error=text))
            proxy.count_request(ServedRequest(number=call.number, kind=call.kind, model=model, step=step, why=text))
            self._send_error(call.dialect, 502, f"beam: {text}")
            return
        try:
            end = self._relay(answer, tape, call, meter, proxy.key)
        finally:
            self.server.departures.unwatch(call.number)
            tape.flush()
            usage = meter.usage if call.kind == "ask" and answer.status < 300 else None
            if usage is not None:
                proxy.spending.add(model, usage)
            headers = private.answer_headers(answer.headers, call.blanker)
            tape.end(AnswerLine(n=0, status=answer.status, headers=headers, end=end, usage=usage or Usage()))
            proxy.count_request(
                ServedRequest(
                    number=call.number,
                    kind=call.kind,
                    model=model,
                    step=step,
                    recorded=tape.number,
                    nearest=None if match is None else match.nearest,
                    differences=() if match is None else match.differences,
                    usage=usage,
                    stop=meter.stop if end == "complete" else None,
                    likeness=call.likeness(proxy.options.text),
                )
            )
        if end != "complete":
            self.close_connection = True
            raise ConnectionAbortedError("the answer was cut")
        if self.command != "HEAD" and answer.status not in _BODILESS:
            self.send_last_chunk()  # all is stored and counted by now

    def _relay(self, answer: Answer, tape: ExchangeRecorder, call: Call, meter: AnswerMeter, key: str | None) -> End:
        """Send the model's answer to the agent as it arrives, and return how the answer ended."""
        is_bodiless = self.command == "HEAD" or answer.status in _BODILESS
        framing = {"Content-Length": "0"} if is_bodiless else {"Transfer-Encoding": "chunked"}
        try:
            self.send_head(answer.status, {**real_key.headers_without(key, answer.headers), **framing})
        except OSError:
            answer.drop()
            return "dropped"
        if is_bodiless:
            for _ in answer.pieces():
                pass
            return "complete"
        kind = private.answer_headers(answer.headers, call.blanker)
        tape.begin(suffix_of(kind), call.dialect, meter)
        pieces, size = answer.pieces() if key is None else real_key.pieces_without(key, answer.pieces()), 0
        try:
            for data in pieces:
                size += len(data)
                if size > ANSWER_LIMIT:
                    answer.drop()
                    return "cut"
                try:
                    self.send_chunk(data)
                except OSError:
                    answer.drop()
                    return "dropped"
                tape.add(data)
        except CutError:
            return "cut"
        return "complete"

    def _request_line(self, call: Call) -> RequestLine:
        """Return the request in the form in which a recording stores it."""
        return RequestLine(
            n=0,
            at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            format=call.dialect.name,
            kind=call.kind,
            method=self.command,
            path=private.stored_path(self.path, call.blanker),
            headers=private.request_headers(dict(self.headers), call.blanker),
            body=call.private,
            raw=call.raw,
        )


def _recorded_stop(dialect: Dialect, exchange: Exchange) -> Stop | None:
    """Return how the model ended a recorded answer; None if nobody knows."""
    if exchange.answer.end != "complete":
        return None
    values = [private.split_event(event)[1] for event in exchange.events] or [private.json_of(exchange.data)]
    found = [stop for value in values if isinstance(value, dict) and (stop := dialect.stopped(value))]
    return found[-1] if found else None


# -- clients that leave ------------------------------------------------------------------------------------------------


_WATCH_PAUSE_S = 0.5


class DisconnectWatcher:
    """Watches pairs of connections: the agent's, and the proxy's connection to the model for the same request."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[socket.socket, socket.socket]] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._watch_connections, name="proxy-watch", daemon=True).start()

    def watch(self, number: int, agent: socket.socket, model: socket.socket) -> None:
        """Watch the connections of one request until `unwatch` is called. If the agent disconnects, the connection to
        the model is ended."""
        with self._lock:
            self._waiting[number] = agent, model

    def unwatch(self, number: int) -> None:
        """Stop watching the connections of this request."""
        with self._lock:
            self._waiting.pop(number, None)

    def stop(self) -> None:
        """Stop the thread, and end all watched connections to the model."""
        self._over.set()
        for _, model in self._pairs():
            _shut_down(model)

    def _watch_connections(self) -> None:
        while not self._over.wait(_WATCH_PAUSE_S):
            for agent, model in self._pairs():
                with suppress(OSError, ValueError):
                    poll = select.poll()
                    poll.register(agent, select.POLLIN)
                    if poll.poll(0) and not agent.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                        _shut_down(model)

    def _pairs(self) -> list[tuple[socket.socket, socket.socket]]:
        with self._lock:
            return list(self._waiting.values())


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
