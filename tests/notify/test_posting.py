"""A webhook is posted to a server on loopback; a command stands for itself; and the delivering process's own parts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam.base.errors import ConfigError
from beam.model.notification import Notification, NotifyTarget, ValueReference
from beam.notify import deliver, spool, webhook
from beam.notify.deliver import Targets, deliver_with
from beam.notify.spool import Item, TryResult
from beam.store.lock import try_lock
from tests.support.context import Root

TOLD = Notification(id="turn-m-1", event="failed", at="t", agent="a", project="/p", text="x")


class Server:
    """A server that answers with these codes, and what it got."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.code, self.headers = 200, {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.command, self.path, dict(self.headers), body))
                self.send_response(outer.code)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: object) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    headers: dict[str, str]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.server.shutdown()
    made.server.server_close()


def posted(url: str, environ: dict[str, str] | None = None, **more: Any) -> TryResult:
    target = NotifyTarget(webhook=url, on=("failed",), **more)
    return webhook.post(target, TOLD, environ or {}, timestamp=7)


@pytest.mark.slow
def test_a_notification_is_posted_with_its_headers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    environ = {"S": "word", "T": "token"}
    assert posted(server.url, environ, secret=ValueReference(env="S"), token=ValueReference(env="T")) == TryResult()
    ((method, path, headers, body),) = server.got
    expected = webhook.headers_of(TOLD, body, timestamp=7, secret="word", token="token")
    found = {name.lower(): value for name, value in headers.items()}
    assert (method, path, body) == ("POST", "/hook", webhook.body_of("json", TOLD)[0])
    assert {name.lower(): value for name, value in expected.items()}.items() <= found.items()
    assert found["content-type"] == "application/json"
    posted(server.url, body="text")
    found = {name.lower(): value for name, value in server.got[1][2].items()}
    assert found["content-type"] == "text/plain; charset=utf-8" and not {"beam-signature", "authorization"} & set(found)


@pytest.mark.parametrize(
    ("code", "headers", "tried"),
    [
        (204, {}, TryResult()),
        (503, {"Retry-After": "9"}, TryResult(error="it answers 503", wait_s=9)),
        (404, {}, TryResult(error="it answers 404", again=False)),
        (302, {"Location": "/other"}, TryResult(error="it answers 302, and beam follows no redirect", again=False)),
    ],
)
def test_what_a_server_answers_is_what_the_try_came_to(
    code: int, headers: dict[str, str], tried: TryResult, server: Server
) -> None:
    server.code, server.headers = code, headers
    assert posted(server.url) == tried and len(server.got) == 1


def test_a_server_that_is_not_there_is_tried_again(server: Server) -> None:
    server.server.shutdown()
    server.server.server_close()
    assert posted(server.url) == TryResult(error="Connection refused")


def test_a_target_whose_value_is_missing_or_whose_url_is_none_is_given_up() -> None:
    missing = posted("http://127.0.0.1:1", secret=ValueReference(env="S"))
    assert missing == TryResult(error="$S is empty, or holds more than one line", again=False)
    target = NotifyTarget(webhook=ValueReference(env="HOOK"), on=("ask",))
    assert webhook.post(target, TOLD, {}, timestamp=1).again is False


@pytest.mark.parametrize(
    ("code", "again"),
    [(299, False), (300, False), (399, False), (400, False), (408, True), (429, True), (499, False), (500, True)],
)
def test_each_answer_is_tried_again_or_not(code: int, again: bool) -> None:
    said = f"it answers {code}, and beam follows no redirect" if 300 <= code < 400 else f"it answers {code}"
    assert webhook.result_of_status(code, "") == TryResult(error=said, again=again)


def test_an_error_is_shown_shortly() -> None:
    assert webhook._error_text(OSError(111, "Connection refused")) == "Connection refused"
    assert webhook._error_text(OSError("odd")) == "odd" and webhook._error_text(ValueError()) == "ValueError"
    assert webhook._error_text(ValueError("x" * 201)) == "x" * 200


# -- commands ----------------------------------------------------------------------------------------------------------


class Process:
    """Stands in for the command's process."""

    pid, returncode = 77, 0

    def __init__(self, given: list[Any]) -> None:
        self.given = given
        self.hangs = False

    def __call__(self, argv: list[str], **options: Any) -> Process:
        self.given.append((argv, options))
        return self

    def communicate(self, data: bytes, timeout: float) -> None:
        self.given.append((data, timeout))
        if self.hangs:
            raise deliver.subprocess.TimeoutExpired("x", timeout)

    def wait(self) -> None:
        self.given.append("waited")


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    made = Process([])
    monkeypatch.setattr(deliver.subprocess, "Popen", made)
    monkeypatch.setattr(deliver.os, "killpg", lambda *given: made.given.append(given))
    return made


def ran(argv: tuple[str, ...] = ("tell", "me")) -> TryResult:
    target = NotifyTarget(command=argv, on=("failed",))
    return deliver.run_command(target, TOLD, {"PATH": "/bin", "LD_PRELOAD": "/x"}, Path("/c"), 5)


def test_a_command_gets_the_notification_and_its_exit_code_counts(process: Process) -> None:
    assert ran() == TryResult()
    (argv, options), (data, timeout) = process.given
    env = options.pop("env")
    assert argv == ["tell", "me"] and env["PATH"] == "/bin" and "LD_PRELOAD" not in env
    assert options.pop("stdout") == options.pop("stderr") > 2  # a file, of which the log gets what is no secret
    assert options == {"stdin": -1, "cwd": Path("/c"), "start_new_session": True}
    assert data == webhook.body_of("json", TOLD)[0] + b"\n" and timeout == 30
    process.returncode = 3
    assert ran() == TryResult(error="exit code 3")


def test_a_command_that_does_not_end_is_killed(process: Process) -> None:
    process.hangs = True
    assert ran(("x" * 81,)) == TryResult(error=f"{'x' * 80} did not end within 30 s")
    assert process.given[2:] == [(77, 9), "waited"]


def test_a_command_that_can_not_be_run_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, why in ((FileNotFoundError(2, "No such file"), "No such file"), (ValueError("null byte"), "null byte")):

        def fails(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(deliver.subprocess, "Popen", fails)
        assert ran() == TryResult(error=f"can't run tell: {why}")


# -- the delivering process --------------------------------------------------------------------------------------------


@pytest.fixture
def told(root: Root) -> Root:
    (root.base / "beam.yaml").write_text(
        "notify:\n  - {command: [tell], on: [failed]}\n  - {webhook: 'https://hooks.example/x', on: [failed]}\n"
    )
    root.environ["HOME"] = str(root.base.parent)
    return root


@pytest.mark.slow
def test_targets_of_a_folder_count_where_it_is_trusted(told: Root) -> None:
    trusted = Targets(told.context.home, told.environ)
    assert [is_folders for _, is_folders in trusted.found.values()] == [True, True] and trusted.untrusted == set()
    told.environ.pop("BEAM_TRUST")
    careful = Targets(told.context.home, told.environ)
    assert careful.found == {} and careful.untrusted == set(trusted.found)


def test_a_target_is_tried_as_what_it_is(told: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(deliver, "run_command", lambda *args: given.append(args) or TryResult(error="c"))
    monkeypatch.setattr(webhook, "post", lambda *args, **more: given.append((args, more)) or TryResult(error="w"))
    monkeypatch.setattr(deliver, "time", SimpleNamespace(time=lambda: 7.9, monotonic=lambda: 0.0))
    first, second = [target for target, _ in Targets(told.context.home, told.environ).found.values()]
    tried = deliver_with(told.context.home, told.environ, 5)
    item = Item(target="k", notification=TOLD)
    assert [tried(each, item, is_folders=True).error for each in (first, second)] == ["c", "w"]
    assert tried(first, item, is_folders=False).error == "c"
    assert [given[0], given[2]] == [
        (first, TOLD, told.environ, told.base, 5),
        (first, TOLD, told.environ, told.base.parent, 5),
    ]
    assert given[1:2] == [
        ((second, TOLD, told.environ), {"timestamp": 7}),
    ]


def test_a_folder_whose_configuration_can_not_be_read_does_not_keep_the_users_own_targets_from_theirs(
    told: Root, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, own = told.context.home, told.base.parent / ".config" / "beam" / "config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("notify: [{command: [mine], on: [failed]}]\n")
    mine, folders = [key for key, (target, _) in Targets(home, told.environ).found.items() if target.command]
    for target, _ in Targets(home, told.environ).found.values():
        spool.put(home.notify, target, TOLD)
    home.config_file.write_text("notify: [\n")
    given: list[Any] = []
    monkeypatch.setattr(deliver, "run_command", lambda *args: given.append(args) or TryResult())
    targets = Targets(home, told.environ)
    assert targets.unreadable.startswith("the configuration can't be read: ")
    assert (set(targets.found), targets.untrusted) == ({mine}, set())
    made = deliver.Delivery(
        home.notify,
        lambda: Targets(home, told.environ),
        deliver_with(home, told.environ, 5),
        retries=deliver.Retries(tries=2, first_s=0.0),
    )
    made.run()
    assert [(target.command, cwd) for target, _, _, cwd, _ in given] == [(("mine",), told.base.parent)]
    assert spool.waiting_names(home.notify) == []
    dead = [spool.read(home.notify, name, spool.DEAD) for name in spool.file_names(home.notify, spool.DEAD)]
    assert {item.error for item in dead if item} == {targets.unreadable} and len(dead) == 2
    assert folders in {item.target for item in dead if item}
    assert "was given up after 2 tries: the configuration can't be read" in capsys.readouterr().err
    own.write_text("notify: [\n")
    with pytest.raises(ConfigError):
        Targets(home, told.environ)


def test_a_try_that_takes_too_long_is_given_up(
    told: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = NotifyTarget(command=("x",), on=("failed",))
    spool.put(tmp_path / "n", target, TOLD)
    now = [0.0]
    known: Any = SimpleNamespace(found={target.key: (target, False)}, untrusted=set())
    ended = threading.Event()
    made = deliver.Delivery(
        tmp_path / "n",
        lambda: known,
        lambda *_: (ended.wait(5) and TryResult()) or TryResult(),
        retries=deliver.Retries(tries=1),
        now=lambda: now[0],
        part=lambda: 1.0,
    )
    assert made.step()
    now[0] = 60.0
    made._give_up_slow()
    assert spool.waiting_names(tmp_path / "n") != []
    now[0] = 60.1
    made._give_up_slow()
    ended.set()
    (name,) = spool.file_names(tmp_path / "n", spool.DEAD)
    item = spool.read(tmp_path / "n", name, spool.DEAD)
    assert item is not None and (item.error, item.tries) == ("no answer within 60 s", 1)
    said = "beam notify: turn-m-1 was given up after 1 tries: no answer within 60 s\n"
    assert capsys.readouterr().err == said
    made._finish_try(name, item, TryResult(error="late"))
    assert capsys.readouterr().err == ""


def test_the_process_delivers_what_waits_unless_another_does(told: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    home = told.context.home
    target = NotifyTarget(command=("x",), on=("failed",))
    spool.put(home.notify, target, TOLD)
    ran: list[Any] = []

    class Delivery:
        def __init__(self, directory: Path, targets: Any, deliver: Any, *, retries: Any) -> None:
            ran.append((directory, targets().found.keys() != [], retries))

        def run(self) -> None:
            spool.mark_delivered(home.notify, spool.waiting_names(home.notify)[0])

    monkeypatch.setattr(deliver, "Delivery", Delivery)
    monkeypatch.setattr(deliver.discovery, "root_at", lambda path, environ: home)
    monkeypatch.setattr(deliver.discovery, "check_folder", lambda home, environ: None)
    monkeypatch.setattr(deliver.sys, "stderr", SimpleNamespace(fileno=lambda: 5))
    lock = try_lock(home.notify / spool.LOCK)
    assert lock is not None
    with lock:
        assert deliver.main([str(home.root)]) == 0 and ran == []
    assert deliver.main([str(home.root)]) == 0
    assert ran == [(home.notify, True, deliver.Retries())] and spool.waiting_names(home.notify) == []


def test_the_oldest_that_are_over_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr(spool, "_MAX_KEPT", 2)
    target = NotifyTarget(command=("x",), on=("failed",))
    for number in range(4):
        spool.put(
            tmp_path, target, Notification(id=f"{number}", event="failed", at="t", agent="a", project="/", text="")
        )
        (name,) = spool.waiting_names(tmp_path)
        os.utime(tmp_path / "new" / name, (number, number))
        spool.mark_delivered(tmp_path, name)
    kept = [spool.read(tmp_path, name, "done") for name in spool.file_names(tmp_path, "done")]
    assert sorted(item.notification.id for item in kept if item) == ["2", "3"]
    assert sum(1 for _ in (tmp_path / "done").iterdir()) == 2


@pytest.mark.parametrize(("wait_s", "tries", "due"), [(0, 1, 101.0), (3, 1, 103.0), (0, 4, 108.0), (3, 4, 108.0)])
def test_the_next_try_is_due_after_the_longer_of_its_pause_and_what_was_asked_for(
    wait_s: float, tries: int, due: float, tmp_path: Path
) -> None:
    known: Any = SimpleNamespace(found={}, untrusted=set())
    made = deliver.Delivery(
        tmp_path,
        lambda: known,
        lambda *_: TryResult(),
        retries=deliver.Retries(),
        now=lambda: 100.0,
        part=lambda: 1.0,
    )
    made._running["n"], made._tries["n"] = 1.0, tries - 1
    made._finish_try("n", Item(target="k", notification=TOLD), TryResult(error="503", wait_s=wait_s))
    assert made._due == {"n": due} and made._tries == {"n": tries} and made._running == {}
