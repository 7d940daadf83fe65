"""A proxy's process, from both sides, without a process: what its owner writes and hears, and what it does itself."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from beam.base.errors import BeamError, DiskError, NotFoundError, UsageError
from beam.proxy import owner, process, serving
from beam.proxy.options import ProxyCounts, ProxyOptions
from beam.proxy.owner import ProxyProcess
from beam.proxy.process import Order, Report, key_of
from beam.proxy.served import ServedRequest
from beam.proxy.serving import Proxy

SERVED = ServedRequest(number=1, kind="ask")


class Pipe(io.BytesIO):
    """A pipe whose content stays after it was closed."""

    is_broken = False
    sent = b""

    def write(self, data: Any) -> int:
        if self.is_broken:
            raise BrokenPipeError
        self.sent += bytes(data)
        return len(data)


class Started:
    """Stands in for `subprocess.Popen`: a process that says these lines; `did` is what became of it."""

    def __init__(self, *said: Report | bytes, hangs: bool = False) -> None:
        lines = [each if isinstance(each, bytes) else msgspec.json.encode(each) + b"\n" for each in said]
        self.stdin, self.stdout = Pipe(), io.BytesIO(b"".join(lines))
        self.pid = 77
        self.did: list[Any] = []
        self.hangs = hangs

    def __call__(self, argv: list[str], **fields: Any) -> Started:
        self.argv, self.fields = argv, fields
        return self

    def wait(self, seconds: float | None = None) -> int:
        self.did.append(("wait", seconds))
        if self.hangs and seconds is not None:
            raise subprocess.TimeoutExpired("x", seconds)
        return 0

    def kill(self) -> None:
        self.did.append("kill")


def owned(monkeypatch: pytest.MonkeyPatch, started: Started, **more: Any) -> tuple[ProxyProcess, list[ServedRequest]]:
    monkeypatch.setattr(subprocess, "Popen", started)
    heard: list[ServedRequest] = []
    environ = {"PATH": "/bin", "HTTPS_PROXY": "p", "ANTHROPIC_API_KEY": "k", "LD_PRELOAD": "x"}
    return ProxyProcess(ProxyOptions(upstream="http://m"), environ, served=heard.append, **more), heard


def test_a_process_gets_its_order_on_stdin_and_of_the_environment_only_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = Started(Report(url="http://127.0.0.1:1"))
    proxy, _ = owned(monkeypatch, started, key_fd=9, secret="s")
    assert started.argv == [sys.executable, "-P", "-m", "beam.proxy.process"]
    assert started.fields == {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "env": {"PATH": "/bin", "HTTPS_PROXY": "p"},
        "cwd": "/",
        "start_new_session": True,
        "pass_fds": (9,),
    }
    assert msgspec.json.decode(started.stdin.sent, type=Order) == Order(
        options=ProxyOptions(upstream="http://m"), owner=os.getpid(), key_fd=9, secret="s"
    )
    assert started.stdin.sent.endswith(b"\n")
    assert (proxy.url, proxy.pid, proxy.counts) == ("http://127.0.0.1:1", 77, ProxyCounts())
    proxy.stop()


def test_what_a_process_says_is_heard_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = ProxyCounts(calls=2)
    started = Started(Report(url="u"), Report(served=SERVED), b"nonsense\n", Report(counts=counts))
    proxy, heard = owned(monkeypatch, started)
    with proxy as same:
        assert same is proxy
    assert (heard, proxy.counts, started.did) == ([SERVED], counts, [("wait", 10.0)])
    assert started.stdin.closed and started.stdout.closed
    assert "pass_fds" not in started.fields


def test_a_process_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Started(Report(url="u"), hangs=True)
    proxy, _ = owned(monkeypatch, started)
    assert proxy.stop() == ProxyCounts()
    assert started.did == [("wait", 10.0), "kill", ("wait", None)]


@pytest.mark.parametrize(
    ("said", "error", "message", "hint"),
    [
        (Report(error=("no key", "give one", "NotFoundError")), NotFoundError, "no key", "give one"),
        (Report(error=("no", "", "Nothing")), DiskError, "no", ""),
        (Report(error=("no", "", "ExitCode")), DiskError, "no", ""),
        (b"Traceback\n", DiskError, "the proxy did not start", ""),
        (b"", DiskError, "the proxy did not start", ""),
    ],
)
def test_a_process_that_can_not_serve_says_why_and_is_ended(
    monkeypatch: pytest.MonkeyPatch, said: Report | bytes, error: type[BeamError], message: str, hint: str
) -> None:
    started = Started(said)
    with pytest.raises(BeamError) as caught:
        owned(monkeypatch, started)
    assert (type(caught.value), caught.value.message, caught.value.hint) == (error, message, hint)
    assert started.did == [("wait", 10.0)]


def test_a_process_that_is_gone_at_once_or_can_not_be_started_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Started(b"")
    started.stdin.is_broken = True
    with pytest.raises(DiskError, match="the proxy did not start"):
        owned(monkeypatch, started)

    def popen(*_: Any, **__: Any) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(DiskError, match=r"^can't start a proxy: Resource temporarily unavailable$"):
        ProxyProcess(ProxyOptions(), {}, served=lambda each: None)


class Silent(Started):
    """A process that says nothing until it is killed."""

    def __init__(self) -> None:
        super().__init__()
        ours, self.theirs = os.pipe()
        self.stdout = os.fdopen(ours, "rb")  # type: ignore[assignment]

    def kill(self) -> None:
        super().kill()
        os.close(self.theirs)


def test_a_proxy_that_does_not_get_ready_is_killed_when_its_time_is_over_or_its_turn_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, "_LOOK_S", 0.0)
    stopped = Silent()
    asked = iter((False, False, True))
    with pytest.raises(BeamError, match=r"^it was stopped before its proxy was ready$"):
        owned(monkeypatch, stopped, is_stopped=lambda: next(asked))
    monkeypatch.setattr(owner, "READY_S", 0.0)
    late = Silent()
    with pytest.raises(BeamError, match=r"^the proxy was not ready within 0 s "):
        owned(monkeypatch, late)
    assert stopped.did == late.did == ["kill", ("wait", 10.0)]


def test_a_process_whose_owner_died_before_the_order_was_read_serves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, Order(owner=os.getpid(), options=ProxyOptions())) == (1, [])


# -- the process itself ------------------------------------------------------------------------------------------------


class Serving:
    """Stands in for the proxy: it serves one request. `made` is what it was made of."""

    made: tuple[Any, ...] = ()
    url = "http://127.0.0.1:1"
    counts = ProxyCounts(calls=1)

    def __init__(self, options: Any, *, served: Any, key: Any) -> None:
        Serving.made = options, key
        self._served = served

    def __enter__(self) -> Serving:
        self._served(SERVED)
        return self

    def __exit__(self, *_: object) -> None:
        pass


def ran(monkeypatch: pytest.MonkeyPatch, order: Any, rest: bytes = b"") -> tuple[int, list[Any]]:
    out = io.BytesIO()
    monkeypatch.setattr(process, "Proxy", Serving)
    monkeypatch.setattr(process, "make_unreadable", lambda: None)
    kernel: list[Any] = []
    monkeypatch.setattr(process, "_end_with_owner", lambda number: kernel.append(number))
    monkeypatch.setattr(signal, "setitimer", lambda which, seconds: kernel.append(seconds))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(msgspec.json.encode(order) + b"\n" + rest)))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    ignored: list[Any] = []
    monkeypatch.setattr(signal, "signal", lambda number, how: ignored.append((number, how)))
    code = process.main()
    assert ignored == [(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert kernel == [60.0, signal.SIGKILL, *([0, 0, 10.0] if code == 0 else [])]
    return code, [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_process_serves_until_its_stdin_ends_and_says_what_it_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ProxyOptions(upstream="http://m")
    code, said = ran(monkeypatch, Order(owner=os.getppid(), options=options), b"x" * 5000)
    assert (code, [sorted(line) for line in said]) == (0, [["served"], ["url"], ["counts"]])
    assert (said[1]["url"], said[2]["counts"]["calls"], said[0]["served"]["number"]) == (Serving.url, 1, 1)
    assert Serving.made == (options, None)


def test_a_process_whose_key_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(name: str) -> str:
        raise NotFoundError(f"no secret {name}", "beam secret set")

    monkeypatch.setattr(process.keyring, "read", read)
    code, said = ran(monkeypatch, Order(owner=os.getppid(), options=ProxyOptions(), secret="s"))
    assert (code, said) == (1, [{"error": ["no secret s", "beam secret set", "NotFoundError"]}])


def lent(data: bytes) -> int:
    ours, theirs = os.pipe()
    os.write(theirs, data)
    os.close(theirs)
    return ours


def test_the_key_comes_on_a_descriptor_or_from_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process.keyring, "read", lambda name: f"of {name}")
    options = ProxyOptions()
    assert key_of(Order(owner=os.getppid(), options=options, key_fd=lent(b" key-1\n"), secret="s")) == "key-1"
    assert key_of(Order(owner=os.getppid(), options=options, secret="s")) == "of s"
    assert key_of(Order(owner=os.getppid(), options=options)) is None


@pytest.mark.parametrize("data", [b"", b"  \n", b"a b", b"a\x00b", b"a\nb"])
def test_what_is_no_key_is_refused(data: bytes) -> None:
    with pytest.raises(NotFoundError) as error:
        key_of(Order(owner=os.getppid(), options=ProxyOptions(), key_fd=lent(data)))
    assert (error.value.message, error.value.hint) == (
        "no key came on the descriptor",
        "--shield fd:3 3< <(a command that prints the key)",
    )


@pytest.mark.slow
def test_a_descriptor_that_is_not_open_holds_no_key() -> None:
    closed = lent(b"key-1")
    os.close(closed)
    with pytest.raises(NotFoundError) as error:
        key_of(Order(owner=os.getppid(), options=ProxyOptions(), key_fd=closed))
    assert error.value.message == "no key came on the descriptor"
    with pytest.raises(UsageError) as refused:
        ProxyProcess(ProxyOptions(upstream="http://m"), {}, served=lambda _: None, key_fd=10**30)
    assert refused.value.message == f"descriptor {10**30} is not open"


# -- the proxy in the background ---------------------------------------------------------------------------------------


class Listening:
    """Stands in for the server."""

    did: list[Any] = []  # noqa: RUF012

    def __init__(self, port: int, shared: Any) -> None:
        if port == 1:
            raise OSError(98, "Address already in use")
        self.url = f"http://127.0.0.1:{port}"
        Listening.did.append(port)

    def serve_forever(self, poll: float) -> None:
        Listening.did.append(("serve", poll))

    def stop(self) -> None:
        Listening.did.append("stop")


def test_a_proxy_listens_between_its_start_and_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(serving, "ProxyServer", Listening)
    Listening.did = []
    proxy = Proxy(ProxyOptions(port=5, record=str(tmp_path / "r"), upstream="http://m"), key="k")
    with pytest.raises(RuntimeError, match="the Proxy is not running: use `with`"):
        _ = proxy.url
    with proxy as same:
        assert (same, proxy.url, proxy.counts) == (proxy, "http://127.0.0.1:5", ProxyCounts(cost_usd=0.0))
        assert proxy._shared.recorder is not None
    proxy.stop()
    assert Listening.did == [5, ("serve", 0.05), "stop"]
    assert (proxy._shared.recorder, proxy._shared.key) == (None, "k")


def test_a_port_that_is_taken_and_a_url_that_is_none_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "ProxyServer", Listening)
    with pytest.raises(DiskError) as error:
        Proxy(ProxyOptions(port=1)).start()
    assert (error.value.message, error.value.subject) == (
        "can't start the proxy: 127.0.0.1:1: Address already in use",
        "127.0.0.1:1",
    )
    with pytest.raises(BeamError, match="is not the URL of a model's API"):
        Proxy(ProxyOptions(upstream="nonsense"))


def test_a_request_served_is_reported_without_its_defaults() -> None:
    assert json.loads(msgspec.json.encode(Report(url="u"))) == {"url": "u"}
    assert cast(Any, Report()).error is None
