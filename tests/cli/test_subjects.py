"""What an error is about: `subject` of the error object, for programs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.inside import Inside, Told


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        (("-C", "none", "status"), "none"),
        (("agent", "set", "worker", "timeout"), "timeout"),
        (("proxy", "--replay", "x", "--place", "cwd"), "cwd"),
        (("send", "a,b,a", "hi"), "a"),
        (("recv", "box"), "box"),
        (("log", "box", "--turn", "9"), "9"),
        (("dev", "schema", "outcom"), "outcom"),
        (("broker", "--idle", "0"), "--idle"),
        (("broker", "status"), "broker"),
        (("watch", "--now", "--event", "zzzzz"), "zzzzz"),
        (("root", "l" * 90), "l" * 80),
        (("doctor", "--gc", "c" * 90), "c" * 80),
        (("doctor", "--gc", "--keep-bytes", "9" * 90 + "X"), "9" * 80),
        (("queue", "edit", "box-1"), "box-1"),
        (("send", "box", "-f", "none"), "none"),
        (("send", "box", "-f", "."), "."),
        (("send", "box", "hi", "--access", "all"), "all"),
        (("send", "box", "hi", "--via", "tty"), "tty"),
        (("send", "box", "hi", "--require", "x"), "x"),
        (("send", "box", "hi", "--tolerate", "x"), "x"),
        (("send", "box", "hi", "--schema", "list"), "list"),
        (("send", "box", "hi", "--schema", "beam.yaml"), "beam.yaml"),
        (("dev", "decode", "terminal", "--size", "0x0"), "0x0"),
        (("team", "task", "eat", "t", "3"), "eat"),
        (("run", "x.yaml", "--set", "s" * 90), "s" * 80),
        (("run", "x.yaml", "--format", "pdf"), "pdf"),
        (("send", "codex~1", "hi"), "codex~1"),
        (("wait", "--agent", "box", "--until", "done"), "done"),
        (("agent", "mcp", "worker", "eat"), "eat"),
        (("log", "box", "--subagent", "s"), "box"),
    ],
)
def test_an_error_names_what_it_is_about(inside: Inside, words: tuple[str, ...], subject: str) -> None:
    (inside.project / "list").write_text("[]")
    (inside.project / "x.yaml").write_text("beam: 1\nsteps:\n  - run: echo\n")
    inside.sent() if words[0] == "log" else None
    found = inside(*words)
    assert (found.code != 0, found.subject) == (True, subject)


# -- the order on a terminal -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_stands_on_stdout_is_there_before_what_is_reported_of_it(inside: Inside, told: Told) -> None:
    from beam.api.rewind import RewindResult

    inside.sent()
    listed = inside("agent", "list", "--all")
    assert listed.both.startswith("AGENT\t")
    told.replace("agents", [], [])
    assert inside("agent", "list").both.startswith("AGENT\t")
    found = RewindResult(agent="bot", session_id="s", to=1, turns=(), conversation=True, files=("a.py",))
    told.replace("rewind_agent", found)
    assert inside("agent", "rewind", "bot").both.startswith("a.py\nbeam: ")
    shown = inside("-v", "status")
    assert shown.both.startswith("AGENT\t") and shown.both.endswith(f"beam: the agents of {inside.project}\n")


def test_each_root_stands_above_its_name(inside: Inside, told: Told) -> None:
    from pathlib import Path

    from tests.cli.test_wait_told import agent

    told.replace("status_all", [(Path("/p"), [agent("a")]), (Path("/q"), [agent("b")])])
    told.replace("foreign", [])
    lines = inside("status", "--all").both.splitlines()
    assert [line.partition("\t")[0] for line in lines] == [
        *("AGENT", "a", "beam: the agents of /p", "AGENT", "b", "beam: the agents of /q")
    ]


@pytest.mark.slow
def test_what_happens_is_on_the_screen_as_it_happens(inside: Inside, told: Told, monkeypatch: Any) -> None:
    from beam.api import Beam
    from beam.conversations.play import Warned
    from tests.cli.test_run_told import SCENARIO, result, seen, step
    from tests.support.chatting import message, outcome

    (inside.project / "talk.yaml").write_text(SCENARIO)
    told.replace("run", seen(step(), Warned("careful"), then=result()))
    run = inside("run", "talk.yaml")
    assert run.both.splitlines()[:2] == ["ok    ask  run  1s", "beam: careful"] and run.unflushed == ""
    monkeypatch.setattr(Beam, "notes", lambda *_, **__: [])
    monkeypatch.setattr(Beam, "progress", lambda *_: None)
    told.replace("message", *[lambda name, text, **_: message(f"{name}-1", name, text)] * 9)

    def deliver(messages: Any, *, seen: Any, ended: Any) -> list[Any]:
        ended(messages[0], outcome(agent="a", reply="one"))
        told.screen = "".join(sys.stdout._screen)  # type: ignore[attr-defined]
        ended(messages[1], outcome(agent="b", reply="two"))
        return []

    import sys

    told.replace("deliver_several", deliver)
    inside("send", "a,b", "hi")
    assert told.screen == "==> a <==\none\n"  # type: ignore[attr-defined]
    told.replace("put", "a-1")
    assert inside("send", "a", "hi", "--no-wait").unflushed == ""
    told.replace("deliver", outcome(reply="one"))
    assert inside("send", "a", "hi").unflushed == ""


def test_events_are_written_one_by_one(inside: Inside, told: Told, monkeypatch: Any) -> None:
    import sys

    from beam.api import Beam
    from beam.model import events
    from tests.support.chatting import message, outcome

    monkeypatch.setattr(Beam, "notes", lambda *_, **__: [])
    monkeypatch.setattr(Beam, "progress", lambda *_: None)
    told.replace("message", lambda name, text, **_: message(f"{name}-1", name, text))
    seen: list[str] = []

    def deliver(_: Any, event: Any) -> Any:
        event(events.Text(text="one"))
        seen.append("".join(sys.stdout._screen))  # type: ignore[attr-defined]
        return outcome(reply="one")

    told.replace("deliver", deliver)
    inside("send", "box", "hi", "--events")
    assert seen[0].endswith("\n") and '"text":"one"' in seen[0]


def test_an_answer_is_on_the_screen_as_it_is_written(inside: Inside, told: Told, monkeypatch: Any) -> None:
    import sys

    from beam.api import Beam
    from beam.cli import printer
    from beam.model import events
    from tests.support.chatting import message, outcome

    monkeypatch.setattr(Beam, "notes", lambda *_, **__: [])
    monkeypatch.setattr(Beam, "progress", lambda *_: None)
    monkeypatch.setattr(printer, "is_interactive", lambda *found: found == (sys.stdout,))
    told.replace("message", lambda name, text, **_: message(f"{name}-1", name, text))
    seen: list[str] = []

    def deliver(_: Any, event: Any) -> Any:
        for each in (
            *(events.TextDelta(text="he"), events.TextDelta(text="llo"), events.SessionLost(session_id="s")),
            events.Text(text="hello"),
        ):
            event(each)
            seen.append("".join(sys.stdout._screen))  # type: ignore[attr-defined]
        return outcome(reply="hello")

    told.replace("deliver", deliver)
    inside("send", "box", "hi")
    lost = "hello\n· its session no longer exists; starting a new one\n"
    assert seen[:3] == ["he", "hello", lost]
