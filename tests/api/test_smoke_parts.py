"""What is made of a turn against the scripted model, with no CLI and no process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beam.agents import registry
from beam.api import smoke
from beam.api.smoke import SmokeResult
from beam.base.errors import NotFoundError, UnsupportedError
from beam.testing import fake_model
from tests.support.refused import refused

OUTCOME = b'{"status": "completed", "via": "exec", "reason": null}'


class Model:
    """Stands in for the scripted model: the prompts that it got."""

    got: tuple[str, ...] = ("other", "say: hello from beam", "and then")

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None: ...

    def env(self, name: str, home: Path) -> dict[str, str]:
        return {"MODEL_OF": name, "MODEL_HOME": str(home)}

    def prompts(self) -> list[str]:
        return list(self.got)


class Ran:
    """What is run, and what each run comes to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[Any] = []
        self.turn: smoke.ProcessResult = (0, OUTCOME, b"")
        self.version: smoke.ProcessResult = (0, b"\n 9.9.9 \nmore\n", b"warning\n")
        monkeypatch.setattr(fake_model, "FakeModel", Model)
        monkeypatch.setattr(Model, "got", Model.got)
        monkeypatch.setattr(smoke._Runs, "_run", self._run)
        monkeypatch.setattr(smoke, "_executable", lambda name, environ: f"/bin/{name}")

    def _run(self, argv: list[str], env: dict[str, str], cwd: str, seconds: float) -> smoke.ProcessResult:
        self.calls.append((list(argv), dict(env), cwd, seconds))
        assert Path(cwd).is_dir() and Path(env["HOME"]).is_dir() and Path(env["TMPDIR"]).is_dir()
        return self.turn if "send" in argv else self.version

    @property
    def smoked(self) -> SmokeResult:
        (found,) = smoke.smoke({"PATH": "/p", "SECRET": "s"}, ["pi"])
        assert found.seconds is not None and 0 <= found.seconds < 5
        return found


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    return Ran(monkeypatch)


def expected(found: SmokeResult, **fields: Any) -> SmokeResult:
    given = {
        "agent": "pi",
        "result": "ok",
        "executable": "/bin/pi",
        "version": "9.9.9",
        "face": "exec",
        "status": "completed",
        "exit_code": 0,
        "got": "say: hello from beam",
        "requests": 3,
        **fields,
    }
    return SmokeResult(seconds=found.seconds, **given)


def test_a_cli_that_asked_its_model_and_answered_is_well(ran: Ran) -> None:
    assert ran.smoked == expected(ran.smoked)
    version, turn = ran.calls[:2]
    assert version[0] == ["/bin/pi", *registry.adapter("pi").card.version_argv] and version[3] == 120
    access = registry.adapter("pi").card.faces["exec"].access[0]
    options = ["--json", "--via", "exec", "--timeout", "120s", "--access", access]
    assert turn[0] == [sys.executable, "-P", "-m", "beam", "send", "pi", *options, "--", "hello from beam"]
    scratch = Path(turn[2]).parent
    assert turn[2:] == (f"{scratch}/project", 130) and version[2] == str(scratch) and not scratch.exists()
    assert scratch.name.startswith("beam-smoke-")
    assert (
        version[1]
        == turn[1]
        == {
            "PATH": "/p",
            "HOME": f"{scratch}/home",
            "TMPDIR": f"{scratch}/tmp",
            "LANG": "C.UTF-8",
            "MODEL_OF": "pi",
            "MODEL_HOME": f"{scratch}/home",
        }
    )


def test_without_a_path_the_systems_is_used(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke.os, "defpath", "/default")
    list(smoke.smoke({}, ["pi"]))
    assert ran.calls[0][1]["PATH"] == "/default"


def test_an_answer_without_the_prompt_is_a_failure(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "it answered, and its model was never sent the prompt"
    for got, last in (((), None), (("a", "b"), "b")):
        monkeypatch.setattr(Model, "got", got)
        found = ran.smoked
        assert found == expected(found, result="failed", reason=said, got=last, requests=len(got))


@pytest.mark.parametrize(
    ("out", "err", "fields"),
    [
        (b"", b"", {"face": None, "status": None}),
        (b"junk", b"one\n two \n\n", {"face": None, "status": None, "reason": "two"}),
        (b"[]", b"x" * 501, {"face": None, "status": None, "reason": "x" * 500}),
        (b'{"status": "failed", "reason": "why"}', b"err", {"face": None, "status": "failed", "reason": "why"}),
        (
            b'{"error": {"message": "no such agent", "hint": "add it"}}',
            b"err",
            {"face": None, "status": None, "reason": "no such agent", "hint": "add it"},
        ),
        (b'{"error": "text"}', b"err", {"face": None, "status": None, "reason": "err"}),
    ],
)
def test_a_failure_has_its_reason(out: bytes, err: bytes, fields: dict[str, Any], ran: Ran) -> None:
    for code in (1, None):
        ran.turn = (code, out, err)
        found = ran.smoked
        assert found == expected(found, result="failed", exit_code=code, **fields)


@pytest.mark.parametrize(
    ("out", "err", "version"), [(b"", b"", None), (b"", b" 1.0\n2.0", "1.0"), (b"\xff1\n", b"2", "\ufffd1")]
)
def test_a_version_may_be_on_stderr(out: bytes, err: bytes, version: str | None, ran: Ran) -> None:
    ran.version = (0, out, err)
    assert ran.smoked.version == version


def test_missing_clis_come_first_and_each_once(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke, "_executable", lambda name, environ: None if name == "codex" else f"/bin/{name}")
    found = list(smoke.smoke({}, ["pi", "codex", "pi"]))
    assert found[0] == SmokeResult(agent="codex", result="missing", hint=registry.adapter("codex").card.install)
    assert [each.agent for each in found] == ["codex", "pi"]


@pytest.mark.slow
def test_what_has_no_model_is_refused() -> None:
    with pytest.raises(NotFoundError):
        next(smoke.smoke({}, ["nothing"]))
    for name in ("bash", "mailbox", "amp"):
        said = f"{name} has no CLI that can be pointed at a scripted model"
        with refused(UnsupportedError, said, f"there are: {', '.join(smoke.smoke_test_names())}"):
            next(smoke.smoke({}, [name]))
    assert {"claude", "codex", "gemini", "pi"} <= set(smoke.smoke_test_names())
    assert not {"bash", "mailbox", "amp", "command"} & set(smoke.smoke_test_names())


def test_an_executable_is_looked_for_on_the_path(tmp_path: Path) -> None:
    assert smoke._executable("pi", {"PATH": str(tmp_path)}) is None
    (tmp_path / "pi").touch(0o755)
    assert smoke._executable("pi", {"PATH": str(tmp_path)}) == str(tmp_path / "pi")


class Child:
    """Stands in for a process that needs so many attempts to be ended."""

    pid, returncode = 77, 5

    def __init__(self, *, obeys_after: int) -> None:
        self.left = obeys_after
        self.did: list[Any] = []

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        self.did.append(timeout)
        self.left -= 1
        if self.left >= 0:
            raise subprocess.TimeoutExpired("x", 1)
        return b"out", b"err"

    def terminate(self) -> None:
        self.did.append("terminate")


@pytest.mark.parametrize(
    ("obeys_after", "code", "did", "killed"),
    [
        (0, 5, [7.0], []),
        (1, None, [7.0, "terminate", 10], []),
        (2, None, [7.0, "terminate", 10, None], [(77, signal.SIGKILL)]),
    ],
)
def test_a_process_that_takes_too_long_is_ended_and_then_killed(
    obeys_after: int, code: int | None, did: list[Any], killed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[Any] = []
    monkeypatch.setattr(smoke.os, "killpg", lambda *given: signals.append(given))
    child: Any = Child(obeys_after=obeys_after)
    assert smoke._wait_or_end(child, 7.0) == (code, b"out", b"err")
    assert (child.did, signals) == (did, killed)


def test_a_process_that_is_gone_is_killed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(smoke.os, "killpg", gone)
    child: Any = Child(obeys_after=0)
    smoke._kill(child)


def test_a_process_is_started_apart_and_forgotten_when_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def popen(argv: list[str], **options: Any) -> Any:
        given.append((argv, options))
        return Child(obeys_after=0)

    monkeypatch.setattr(smoke.subprocess, "Popen", popen)
    runs = smoke._Runs({})
    assert runs._run(["a"], {"B": "1"}, "/", 3.0) == (5, b"out", b"err")
    assert given == [
        (
            ["a"],
            {"env": {"B": "1"}, "cwd": "/", "stdin": -3, "stdout": -1, "stderr": -1, "start_new_session": True},
        )
    ]
    assert runs._children == set()
    runs.end()
    assert runs._run(["a"], {}, "/", 3.0) == (None, b"", b"") and len(given) == 1


def test_ending_ends_what_runs_politely_and_then_forcibly(monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[Any] = []
    monkeypatch.setattr(smoke.os, "killpg", lambda *given: signals.append(given))
    runs = smoke._Runs({})
    child: Any = Child(obeys_after=0)
    runs._children.add(child)
    runs.end()
    assert child.did == ["terminate"] and signals == [(77, signal.SIGKILL)]
