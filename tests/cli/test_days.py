"""The dates among lines that show the time of day, in every reader of events for people."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam import LiveChat
from beam.base.clock import parse_rfc3339, rfc3339
from beam.board.names import Names
from beam.board.stream import Stream, draw_line, stream_event
from beam.board.words import as_text
from beam.cli.chatting import alone
from beam.cli.chatting.alone import AloneChat
from beam.cli.chatting.together import TogetherChat
from beam.cli.render.days import Days, date_of, time_of_day
from beam.model import events
from beam.model.message import Options
from beam.model.settings import DEFAULT_LIMITS
from beam.root.paths import RootPaths
from beam.store.journal import Journal
from tests.support.chatting import Library, Terminal, going, outcome, settled
from tests.support.context import FakeClock
from tests.support.inside import Inside

SAID = {  # in Etc/GMT-2 the second is of the next day
    "one": "2026-01-02T21:30:00.000000Z",
    "two": "2026-01-02T22:30:00.000000Z",
    "three": "2026-01-02T22:31:00.000000Z",
    "four": "2026-01-05T10:00:00.000000Z",
}
SHOWN = [
    "── 2026-01-02 ──",
    "23:30:00 one",
    "── 2026-01-03 ──",
    "00:30:00 two",
    "00:31:00 three",
    "── 2026-01-05 ──",
    "12:00:00 four",
    "now",
]
Reader = Callable[[Inside, pytest.MonkeyPatch], list[str]]


@pytest.fixture(autouse=True)
def two_hours_east(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "XXX-2")
    time.tzset()
    yield
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def journal(inside: Inside) -> None:
    """Each was said by `box` at its time, and the last is said now."""
    paths = RootPaths(Path(inside("root").out.strip()), inside.project).agent("box")
    paths.journal.mkdir(parents=True)
    clock = FakeClock()
    book = Journal.open(paths.journal, "box", clock, DEFAULT_LIMITS)
    for text, ts in (*SAID.items(), ("now", rfc3339(time.time_ns()))):
        clock.now = parse_rfc3339(ts)
        book.append(events.Text(text=text))
    book.close()


def command(*words: str) -> Reader:
    def read(inside: Inside, _: pytest.MonkeyPatch) -> list[str]:
        journal(inside)
        printed = inside(*words)
        assert printed.code == 0, printed
        return [_short(line) for line in printed.out.splitlines()]

    return read


def board(inside: Inside, _: pytest.MonkeyPatch) -> list[str]:
    stream = Stream()
    for text, ts in (*SAID.items(), ("now", rfc3339(time.time_ns()))):
        line = stream_event(events.Text(text=text, ts=ts, agent="box"), "box", "box")
        assert line is not None
        stream.add(line)
    return [_short(as_text(draw_line(stream[at], 80, Names()))) for at in range(len(stream))]


def _short(line: str) -> str:
    return line if line.startswith("──") else "now" if line.endswith("now") else f"{line[:8]} {line.split()[-1]}"


def lone_chat(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    beam, said = Library(), []
    monkeypatch.setattr(alone, "Composer", Terminal)

    async def talk() -> None:
        call: Any = SimpleNamespace(beam=beam, cwd=inside.project)
        chat = AloneChat(call, "box", Options(), new=False)
        terminal: Any = chat._composer
        async with going(chat.run()):
            for text, ts in SAID.items():
                monkeypatch.setattr(time, "time_ns", lambda ts=ts: parse_rfc3339(ts))
                beam.deliver.answers.append(outcome())
                terminal.given["submit"](text)
                await settled()
            said.extend(terminal.taken())

    monkeypatch.setattr(time, "time_ns", lambda: parse_rfc3339("2026-01-01T12:00:00Z"))
    asyncio.run(talk())
    return [line.strip("> ") for line in said if line.startswith(("──", "> "))]


def shared_chat(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr("beam.cli.chatting.together.write", lambda _, text: said.append(text.rstrip("\n")))
    call: Any = SimpleNamespace(beam=Library(), cwd=inside.project)
    monkeypatch.setattr(time, "time_ns", lambda: parse_rfc3339("2026-01-01T12:00:00Z"))
    chat = TogetherChat(call, LiveChat(["a", "b"], "tea?"), "chat", {}, is_watched=False)
    for text, ts in SAID.items():
        monkeypatch.setattr(time, "time_ns", lambda ts=ts: parse_rfc3339(ts))
        chat._say([text])
    return said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "has_times"),
    [
        pytest.param(command("watch", "--now", "box"), True, id="watch"),
        pytest.param(command("log", "box"), True, id="log"),
        pytest.param(command("log", "box", "-n", "9"), True, id="the last lines of log"),
        pytest.param(board, True, id="board"),
        pytest.param(lone_chat, False, id="chat"),
        pytest.param(shared_chat, False, id="chat of several"),
    ],
)
def test_every_reader_shows_the_date_where_the_local_day_changes_and_local_times(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, read: Reader, has_times: bool
) -> None:
    shown = read(inside, monkeypatch)
    if has_times:
        today = f"── {time.strftime('%Y-%m-%d')} ──"
        assert shown == [*SHOWN[:-1], today, "now"]
    else:
        assert shown == [line if line.startswith("──") else line.split()[-1] for line in SHOWN[:-1]]


@pytest.mark.slow
def test_the_first_of_the_last_lines_has_its_date_and_json_has_none(inside: Inside) -> None:
    journal(inside)
    first, second, *_ = inside("log", "box", "-n", "3").out.splitlines()
    assert (first, second[:8], second[-5:]) == ("── 2026-01-03 ──", "00:31:00", "three")
    for words in (("log", "box", "--json"), ("watch", "--now", "--json", "box")):
        assert [json.loads(line)["seq"] for line in inside(*words).out.splitlines()] == [1, 2, 3, 4, 5]
    assert "──" not in inside("log", "box", "--raw").out
    plain = inside("watch", "--now", "--plain", "box").out
    assert plain.isascii() and "-- 2026-01-02 --\n" in plain


def test_lines_of_today_have_no_date_and_what_is_no_time_changes_nothing() -> None:
    days = Days("2026-01-02T12:00:00Z")
    assert [days.heading(ts) for ts in ("2026-01-02T12:00:01Z", "", "x", "2026-01-02T13:00:00Z")] == [""] * 4
    assert days.heading("2026-01-03T12:00:00Z") == "── 2026-01-03 ──"
    assert (time_of_day("\x1b[2J-01-02T\x1b[2J\x9b"), date_of("9999-99-99T00:00:00Z")) == ("␛[2J<U+009B>", "")
    assert os.environ["TZ"] == "XXX-2" and time_of_day("2026-01-02T12:00:00Z") == "14:00:00"
