"""The line that tells what goes on, and when there is none."""

from __future__ import annotations

import threading

import msgspec
import pytest

from beam.api.progress import Progress
from beam.cli.render import live
from beam.cli.render.live import LiveProgress, progress_line
from beam.model import events
from tests.support.cli import eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks a hundred times a second, and shows at once what it sees."""
    for name, seconds in (("_FIRST_S", 0.01), ("_TICK_S", 0.01), ("SILENT_S", 0.0)):
        monkeypatch.setattr(live, name, seconds)


CALL = events.ToolCalled(call_id="1", name="Bash", input=msgspec.Raw(b'{"command":"make\\n\\u001b[2J test"}'))


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (None, "a-m waits, 7s"),
        (Progress(message_id="a-m", seconds=12.4), "a-m: 12s"),
        (Progress(message_id="a-m", seconds=75, tokens=1300), "a-m: 1m15s, 1,300 tokens"),
        (
            Progress(message_id="a-n", seconds=12, call=events.ToolCalled(call_id="1", name="Read")),
            "behind a-n (12s, Read)",
        ),
    ],
)
def test_the_line_says_whose_turn_it_is_and_what_is_known_of_it(now: Progress | None, said: str) -> None:
    assert progress_line("a-m", now, waited_s=7.2) == said


def test_a_message_that_is_named_by_the_end_of_its_id_has_its_own_turn() -> None:
    assert live.is_own_turn("m2ab", Progress(message_id="a-m2ab", seconds=1))
    assert not live.is_own_turn("m2ab", Progress(message_id="a-other", seconds=1)) and not live.is_own_turn(
        "m2ab", None
    )


def test_what_an_agent_writes_into_its_call_never_reaches_a_terminal_as_a_sequence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told: list[str] = []
    looks: list[int] = []

    def look() -> Progress:
        looks.append(1)
        return Progress(message_id="a-n", seconds=1, call=CALL)

    shown = LiveProgress("a-m", look, told.append, is_shown=True)
    eventually(lambda: len(looks) >= 4, what="it does not look")
    shown.close()
    assert told == ["behind a-n (1s, Bash: make ␛[2J test)"]
    err = capsys.readouterr().err
    assert err.count("\x1b") == err.count("\x1b[K") and err.endswith("\x1b[K") and "\n" not in err


def test_while_what_was_printed_is_not_at_its_end_no_line_comes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    looks: list[int] = []
    is_held = threading.Event()

    def look() -> Progress:
        is_held.wait(20)
        looks.append(1)
        return Progress(message_id="a-m", seconds=1)

    shown = LiveProgress("a-m", look, pytest.fail, is_shown=True)
    with shown.printing():
        shown.is_held = True
    is_held.set()
    eventually(lambda: len(looks) >= 2, what="it does not look")
    shown.close()
    assert capsys.readouterr().err == ""


def test_in_a_pipe_nobody_looks_any_more_once_the_messages_own_turn_runs() -> None:
    looks: list[int] = []
    has_begun = threading.Event()

    def look() -> None:
        looks.append(1)
        has_begun.wait(20)

    shown = LiveProgress("a-m", look, pytest.fail, is_shown=False)
    shown.has_begun = True
    has_begun.set()
    eventually(lambda: not shown._thread.is_alive(), what="it goes on")
    shown.close()
    assert len(looks) <= 1, "one look may have been under way"
