"""What a proxy between an agent and its model costs, and how large a recording is."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from beam.proxy.options import ProxyOptions
from beam.proxy.owner import ProxyProcess
from beam.proxy.recording import Recording
from beam.proxy.serving import Proxy
from beam.testing.fake_model import FakeModel
from bench.measure import Bench, Figure, Series, in_turns
from tests.proxy.exactness import SCRIPT, place, task
from tests.real.install import bin_directories

_TURNS = 200
_TEXT = "a line of a file that a tool returned, as long as lines are\n" * 20


def proxy_first_byte(bench: Bench) -> list[Figure]:
    """A model call through a recording proxy, to its first byte, beside the same call without one."""
    folder, body = str(bench.folder("record")), _body(_conversation(20))
    with (
        FakeModel() as model,
        ProxyProcess(ProxyOptions(upstream=model.url, record=folder), os.environ, served=lambda served: None) as proxy,
    ):
        alone, through = _Client(model.url), _Client(proxy.url)
        with alone, through:
            plain, proxied = in_turns(bench.times(200), lambda: alone.first_ms(body), lambda: through.first_ms(body))
    later = Series("through the proxy, less without", tuple(b - a for a, b in zip(plain, proxied, strict=True)))
    return [Figure("proxy, first byte later", later, "ms", at_most=2)]


def proxy_replay(bench: Bench) -> list[Figure]:
    """Requests a second that a replaying proxy answers, over one connection."""
    folder = bench.folder("replay")
    body = _body(_conversation(20))
    with _recorded(folder) as client:
        client.first_ms(body)
    rates = []
    with Proxy(ProxyOptions(replay=str(folder))) as proxy, _Client(proxy.url) as client:
        for _ in range(bench.times(5)):
            began = time.perf_counter()
            for _ in range(200):
                client.first_ms(body)
            rates.append(200 / (time.perf_counter() - began))
        assert proxy.counts.exact == proxy.counts.calls
    return [Figure("proxy, replayed", Series("requests answered", tuple(rates)), "/s", at_least=300)]


def proxy_recording(bench: Bench) -> list[Figure]:
    """The size of a recorded conversation of 200 turns, beside its last request and all its answers."""
    folder = bench.folder("recording")
    with _recorded(folder) as client:
        for turn in range(1, _TURNS + 1):
            client.first_ms(_body(_conversation(turn)))
    size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    answers = sum(len(b"".join(exchange.events)) for exchange in Recording(folder).exchanges)
    least = len(_body(_conversation(_TURNS))) + answers
    recorded, needed = Series("recording", (size / 1e6,)), Series("last request and answers", (least / 1e6,))
    return [Figure("proxy, recording of 200 turns", recorded, "MB", needed, at_most=1.5)]


def proxy_beside_a_turn(bench: Bench) -> list[Figure]:
    """What of one core a recording proxy takes while a real Claude Code does a task of ten model calls. The scripted
    model answers at once, so a real turn's share is smaller. No figures where the CLI is not installed."""
    if not bin_directories():
        return []
    shares = []
    with FakeModel(SCRIPT) as model:
        for number in range(bench.times(5)):
            folder = bench.folder(f"turn-{number}")
            options = ProxyOptions(upstream=model.url, record=str(folder / "recording"))
            with ProxyProcess(options, os.environ, served=lambda served: None) as proxy:
                cli = place(folder / "place", "claude", proxy.url)
                before, began = _cpu_s(proxy.pid), time.perf_counter()
                done = cli.cold(
                    "send", "claude", "--access", "full", stdin=task("claude", cli.project).encode(), timeout=300
                )
                took, used = time.perf_counter() - began, _cpu_s(proxy.pid) - before
            assert done.code == 0, done
            shares.append(used / took * 100)
    return [Figure("proxy, beside Claude Code", Series("of one core", tuple(shares)), "%", at_most=3)]


def _cpu_s(pid: int) -> float:
    """CPU time of a process, in seconds: also of its threads that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _recorded(folder: Path) -> Iterator[_Client]:
    """A client of a scripted model whose calls are recorded there."""
    with (
        FakeModel() as model,
        Proxy(ProxyOptions(upstream=model.url, record=str(folder))) as proxy,
        _Client(proxy.url) as client,
    ):
        yield client


def _conversation(turns: int) -> list[dict[str, object]]:
    """A conversation as Claude Code sends it: each request resends all, and marks where its cache ends."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "!say " + "word " * 60}]
    for number in range(1, turns):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file_path": f"{number}.txt"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"{number}: {_TEXT}"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    last = messages[-1]["content"]
    if isinstance(last, list):
        messages[-1] = {"role": "user", "content": [{**last[0], "cache_control": {"type": "ephemeral"}}]}
    return messages


def _body(messages: list[dict[str, object]]) -> bytes:
    return json.dumps({"model": "claude-x", "stream": True, "system": _TEXT, "messages": messages}).encode()


class _Client:
    """One connection that stays open."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port)

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def first_ms(self, body: bytes) -> float:
        """Milliseconds to the first byte of an answer, which is read to its end."""
        began = time.perf_counter()
        self._connection.request("POST", "/v1/messages", body, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        answer.read1(1)
        took = (time.perf_counter() - began) * 1000
        answer.read()
        return took
