"""What the line of progress says and when, without waiting for it."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from beam.api.progress import Progress
from beam.cli.render import live
from beam.cli.render.live import LiveProgress

CLEAR = "\r\x1b[K"
OWN, OTHER = Progress(message_id="x-a-m", seconds=4.0), Progress(message_id="b-1", seconds=9.0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lines of progress that nobody draws by themselves; what was told stays in `told`."""
    monkeypatch.setattr(LiveProgress, "_run", lambda self: None)
    monkeypatch.setattr(live.os, "get_terminal_size", lambda descriptor: os.terminal_size((60, 24)))
    told: list[str] = []

    def make(*, is_shown: bool = True) -> LiveProgress:
        return LiveProgress("a-m", lambda: None, told.append, is_shown=is_shown)

    return SimpleNamespace(make=make, told=told)


@pytest.mark.parametrize(
    ("now", "begun", "shown", "waited", "told", "drawn"),
    [
        (OTHER, False, True, 2.9, ["behind b-1 (9s)"], ""),
        (OTHER, False, True, 3.0, ["behind b-1 (9s)"], f"{CLEAR}behind b-1 (9s)"),
        (OTHER, False, False, 9.0, ["behind b-1 (9s)"], ""),
        (OWN, True, True, 3.0, [], f"{CLEAR}x-a-m: 4s"),
        (OWN, True, False, 9.0, [], ""),
        (None, False, True, 3.0, [], f"{CLEAR}a-m waits, 3s"),
        (None, False, True, 2.0, [], ""),
        (None, True, True, 9.0, [], ""),
    ],
)
def test_a_line_is_drawn_after_some_seconds_and_who_is_waited_for_told_once(
    made: Any,
    capsys: pytest.CaptureFixture[str],
    now: Any,
    begun: bool,
    shown: bool,
    waited: float,
    told: Any,
    drawn: str,
) -> None:
    line = made.make(is_shown=shown)
    line.has_begun = begun
    line._show(now, waited)
    assert (made.told, capsys.readouterr().err) == (told, drawn)
    line._show(now, waited)
    assert (made.told, capsys.readouterr().err) == (told, drawn)
    line.close()
    assert capsys.readouterr().err == (CLEAR if drawn else "")
    line.close()
    assert capsys.readouterr().err == ""


def test_while_a_line_of_the_answer_is_open_nothing_is_drawn(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    line = made.make()
    line._show(OWN, 5.0)
    with line.printing():
        assert capsys.readouterr().err == f"{CLEAR}behind x-a-m (4s)".replace("behind x-a-m (4s)", "x-a-m: 4s") + CLEAR
        line.is_held = True
    line._show(OTHER, 5.0)
    assert (capsys.readouterr().err, made.told[1:]) == ("", [])
    line.is_held = False
    line.has_begun = True
    line._show(None, 5.0)
    assert capsys.readouterr().err == ""
    line._show(OWN, 5.0)
    line._show(None, 5.0)
    assert capsys.readouterr().err == f"{CLEAR}x-a-m: 4s{CLEAR}"


def test_a_line_fits_the_terminal_and_its_locale(
    made: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = made.make()
    line._draw("x" * 100 + "\n\x1b")
    assert capsys.readouterr().err == f"{CLEAR}{'x' * 58}…"
    monkeypatch.setattr(live.streams, "is_ascii", lambda environ: environ is os.environ)
    line._draw("né")
    assert capsys.readouterr().err == f"{CLEAR}n\\xe9"

    def size(descriptor: int) -> os.terminal_size:
        if descriptor != 2:
            raise AssertionError
        return os.terminal_size((5, 24))

    monkeypatch.setattr(live.os, "get_terminal_size", size)
    assert live._width() == 20
    monkeypatch.setattr(live.os, "get_terminal_size", lambda _: (_ for _ in ()).throw(OSError()))
    assert live._width() == 80


def test_a_line_that_stays_has_a_bound(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "progress_line", lambda *_, **__: "x" * 500 + "\ny")
    made.make()._show(OTHER, 0.0)
    assert made.told == ["x" * 159 + "…"]


def test_a_terminal_that_is_gone_ends_nothing(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        encoding = "utf-8"

        def write(self, text: str) -> int:
            raise OSError

    line = made.make()
    monkeypatch.setattr(sys, "stderr", Gone())
    line._draw("x")
    assert not line._is_drawn
    line._is_drawn = True
    line._clear()
    assert not line._is_drawn


@pytest.mark.parametrize(("message_id", "begun"), [("x-a-m", True), ("a-m", True), ("other", False), (None, False)])
def test_the_messages_own_turn_is_known_by_the_end_of_its_id(made: Any, message_id: str | None, begun: bool) -> None:
    line = made.make()
    line.on_begun(message_id)
    assert line.has_begun is begun
    line.on_begun("other")
    assert line.has_begun is begun


def run(
    monkeypatch: pytest.MonkeyPatch, *looks: Any, waits: int, shown: bool = True, begun: bool = False, at: float = 9.0
) -> tuple[list[Any], list[float], LiveProgress]:
    """What `_show` was given, and how long it paused, until so many pauses were over."""
    pauses: list[float] = []
    seen: list[Any] = []
    found = list(looks)
    with monkeypatch.context() as patched:
        patched.setattr(LiveProgress, "_run", lambda self: None)
        line = LiveProgress("a-m", lambda: found.pop(0) if found else None, lambda _: None, is_shown=shown)

    def wait(pause: float) -> bool:
        pauses.append(pause)
        return len(pauses) > waits

    monkeypatch.setattr(line, "_over", SimpleNamespace(wait=wait, is_set=lambda: False))
    monkeypatch.setattr(line, "_show", lambda now, waited_s: seen.append(now))
    monkeypatch.setattr(live.time, "monotonic", lambda: line._began + at)
    line.has_begun = begun
    line._run()
    return seen, pauses, line


def test_it_looks_again_and_again_and_at_first_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, pauses, line = run(monkeypatch, None, OTHER, OWN, waits=3)
    assert (seen, pauses, line.has_begun) == ([None, OTHER, OWN], [0.3, 0.5, 0.5, 0.5], True)


def test_in_a_pipe_it_looks_until_something_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, pauses, _ = run(monkeypatch, OTHER, OWN, waits=9, shown=False)
    assert (seen, len(pauses)) == ([OTHER, OWN], 3)


def test_its_own_turn_is_not_looked_at_in_the_first_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, pauses, _ = run(monkeypatch, OWN, waits=3, begun=True, at=2.9)
    assert (seen, len(pauses)) == ([], 4)
    seen, _, _ = run(monkeypatch, OWN, waits=1, begun=True, at=3.0)
    assert seen == [OWN]
