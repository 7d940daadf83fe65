"""The orders to a scripted agent that stays, and its turns by them, in this process."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam.testing import orders, player, scripted
from beam.testing.orders import Orders


class Ends:
    """The agent's stdin, which the test writes, and its stdout. `signals` are those that it sends itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read, self._write = os.pipe()
        self._stdin = os.fdopen(read, encoding="utf-8")
        self._out = io.BytesIO()
        self.signals: list[tuple[int, int]] = []
        self._threads = set(threading.enumerate())
        monkeypatch.setattr(orders, "sys", SimpleNamespace(stdin=self._stdin))
        monkeypatch.setattr(player, "sys", SimpleNamespace(stdout=SimpleNamespace(buffer=self._out)))
        monkeypatch.setattr(orders.os, "kill", lambda pid, number: self.signals.append((pid, number)))

    def order(self, do: str, **fields: object) -> None:
        os.write(self._write, json.dumps({"do": do, **fields}).encode() + b"\n")

    def say(self, line: bytes) -> None:
        os.write(self._write, line + b"\n")

    def end(self) -> None:
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def close(self) -> None:
        self.end()
        for thread in set(threading.enumerate()) - self._threads:
            thread.join()
        self._stdin.close()

    def frames(self) -> list[dict[str, Any]]:
        """The frames that were written since the last call."""
        data = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return [json.loads(line) for line in data.splitlines()]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    ends = Ends(monkeypatch)
    yield ends
    ends.close()


def answer(call_id: str, *, ok: bool = True, **more: Any) -> dict[str, Any]:
    return {"frame": "answer", "id": call_id, "ok": ok, **more}


def test_each_order_is_taken_or_answered(ends: Ends) -> None:
    told = Orders()
    ends.order("steer", id="1", text="hello")
    ends.order("query", id="2", name="models")
    ends.order("set", id="3", name="model", value="m")
    ends.order("query", id="4", name="models")
    ends.order("set", id="5", name="effort", value="x")
    ends.order("query", id="6", name="novel")
    ends.order("novel", id="7")
    ends.order("interrupt")
    ends.say(b"no json")
    ends.say(b"[]")
    ends.order("prompt", text="hi", sender="ann", number=3)
    assert told.prompt() == {"do": "prompt", "text": "hi", "sender": "ann", "number": "3"}
    ends.end()
    assert told.prompt() is None
    assert told.model == "m" and ends.signals == []
    assert ends.frames() == [
        answer("1", ok=False, code="failed", message="no turn runs that could take a text"),
        answer("2", result=[]),
        answer("3", message="from the next turn on"),
        answer("4", result=["m"]),
        answer("5", ok=False, code="unsupported", message="the scripted agent has no 'effort'"),
        answer("6", ok=False, code="unsupported", message="the scripted agent has no 'novel'"),
        answer("7", ok=False, code="unsupported", message="the scripted agent has no ''"),
    ]


def test_texts_for_a_running_turn_are_all_told_and_answered_once_they_are_read(ends: Ends) -> None:
    told = Orders()
    told.begin()
    assert told.received(False) == ""
    ends.order("steer", id="1", text="one")
    assert told.received(True) == "one"
    ends.order("steer", id="2", text="two")
    ends.order("prompt")
    told.prompt()
    assert told.received(False) == "one\ntwo" == told.received(True)
    assert ends.frames() == [answer("1"), answer("2")]
    ends.order("steer", id="3", text="three")
    ends.order("prompt")
    told.prompt()
    told.end()
    assert ends.frames() == [answer("3", ok=False, code="unfinished", message="the turn was over before it was read")]
    told.begin()
    assert told.received(False) == ""


def test_a_turn_is_interrupted_once_by_an_order_or_by_the_end(ends: Ends) -> None:
    told = Orders()
    told.begin()
    for _ in range(2):
        ends.order("interrupt")
    ends.order("prompt")
    told.prompt()
    assert ends.signals == [(os.getpid(), signal.SIGINT)]
    told.begin()
    ends.end()
    assert told.prompt() is None
    assert ends.signals == [(os.getpid(), signal.SIGINT)] * 2


class Left(BaseException):
    """The program ends here."""


def served(ends: Ends, base: Path, monkeypatch: pytest.MonkeyPatch, *argv: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the frames of a program that stays."""

    def leave(code: int) -> None:
        raise Left(code)

    handlers: list[Any] = []
    monkeypatch.setattr(scripted.os, "_exit", leave)
    monkeypatch.setattr(scripted.signal, "signal", lambda number, action: handlers.append((number, action)))
    environ = {"HOME": str(base), "BEAM_PROJECT": str(base), "XDG_STATE_HOME": str(base / "state")}
    with pytest.raises(Left) as left:
        scripted.main(["play.yaml", *argv, "--serve"], environ)
    assert {number for number, _ in handlers} == {signal.SIGINT}
    return left.value.args[0], ends.frames()


def test_one_that_stays_plays_turn_after_turn_of_one_session(
    ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "play.yaml").write_text("replies: ['{turn} {prompt} {from} {model}', '{turn} {model}', {fail: nope}]\n")
    ends.order("prompt", text="hi", sender="ann")
    ends.order("set", id="1", name="model", value="big")
    ends.order("prompt", text="on")
    ends.order("prompt", text="and on")
    ends.end()
    code, frames = served(ends, tmp_path, monkeypatch, "--session-id", "s-1")
    assert code == 0
    kinds = [frame["frame"] for frame in frames if frame["frame"] != "answer"]
    assert kinds == ["ready", "init", "text", "result", "init", "text", "result", "init", "result"]
    inits = [frame for frame in frames if frame["frame"] == "init"]
    assert [(frame["session_id"], frame["resumed"], frame["turn"]) for frame in inits] == [
        ("s-1", False, 1),
        ("s-1", True, 2),
        ("s-1", True, 3),
    ]
    texts = [frame["text"] for frame in frames if frame["frame"] == "text"]
    assert texts[0].startswith("1 hi ann ") and texts[1].startswith("2 ")
    assert frames[-1] == {
        "frame": "result",
        "status": "failed",
        "reply": None,
        "class": "unknown",
        "reason": "nope",
    }


def test_one_that_stays_ends_where_there_is_no_such_session_or_no_such_script(
    ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "play.yaml").write_text("replies: [hi]\n")
    ends.order("prompt", text="hi")
    code, frames = served(ends, tmp_path, monkeypatch, "--resume", "none")
    assert (code, frames) == (1, [{"frame": "ready"}, {"frame": "lost", "session_id": "none"}])
