"""What reads a person's own keys: `beam attach` and the questions of `beam send`, on a pty without a process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import socket
import struct
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Raw

import beam
from beam.base.errors import NotFoundError, SignalledError
from beam.cli import asking, looking
from beam.cli import attach as attaching
from beam.cli.asking import AskPrompter, is_in_foreground
from beam.cli.looking import ScreenViewer
from beam.cli.render.screen import ENTER_SCREEN, LEAVE_SCREEN
from beam.model import events
from beam.model.outcome import Status
from beam.pty_adapter.picture import Painter, Picture
from beam.pty_adapter.screen import Screen
from tests.support.cli import eventually
from tests.support.inside import Inside, Told


class Pty:
    """A terminal: `keys` go in at one end, `shown` comes out of it; the command has the other end."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self.size(24, 80)

    def size(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def shown(self) -> str:
        """All that was written so far."""
        data = b""
        while select.select([self.master], [], [], 0)[0]:
            data += os.read(self.master, 65536)
        return data.decode()

    def hang_up(self) -> None:
        """Close the other end of the terminal."""
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        os.close(self.slave)
        if self.master >= 0:
            os.close(self.master)


@pytest.fixture
def terminal() -> Iterator[Pty]:
    found = Pty()
    yield found
    found.close()


def picture(text: bytes) -> Picture:
    screen = Screen(20, 5)
    screen.feed(text)
    return Painter(screen).picture()


class Attached:
    """Stands in for an agent's terminal; `script` is run one function at each look."""

    def __init__(self) -> None:
        self.agent = "bot"
        self.picture: Picture | None = picture(b"hello")
        self.why: str | None = None
        self.has_keys = False
        self.pressed: list[bytes] = []
        self.takes_keys = True
        self.sent = 0
        self.is_closed = False
        self.script: list[Any] = []
        self._end, self._other = socket.socketpair()

    def fileno(self) -> int:
        return self._end.fileno()

    def wake(self) -> None:
        """Something comes from the agent's terminal."""
        self._other.send(b".")

    def look(self) -> None:
        self._end.recv(1)
        self.script.pop(0)()

    def send(self) -> None:
        self.sent += 1
        self.has_keys = False

    def press(self, keys: bytes) -> bool:
        self.pressed.append(keys)
        return self.takes_keys

    def close(self) -> None:
        self.is_closed = True
        self._end.close()
        self._other.close()


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch, terminal: Pty) -> Attached:
    ends = [SimpleNamespace(fileno=lambda: terminal.slave, flush=lambda: None) for _ in range(2)]
    monkeypatch.setattr(looking, "sys", SimpleNamespace(stdin=ends[0], stdout=ends[1]))
    return Attached()


def look(attached: Attached, *script: Any) -> str | None:
    """Looks until the script is over; each function of it wakes the next."""

    def step(act: Any) -> Any:
        def acted() -> None:
            act()
            if attached.script:
                attached.wake()

        return acted

    attached.script = [step(act) for act in script]
    attached.wake()
    with patience(), ScreenViewer(attached, true_colour=False) as found:  # type: ignore[arg-type]
        return found.run()


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """Ends what waits for something that does not come."""

    def over(number: int, frame: object) -> None:
        raise AssertionError("it did not happen in time")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, 20)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_screen_is_shown_and_the_terminal_is_as_before_afterwards(terminal: Pty, attached: Attached) -> None:
    before = termios.tcgetattr(terminal.slave)
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGWINCH)]
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    raw: list[Any] = []

    def over() -> None:
        raw.append(termios.tcgetattr(terminal.slave)[3] & (termios.ICANON | termios.ECHO))
        attached.why = "it ended"

    assert look(attached, over) == "it ended"
    shown = terminal.shown()
    assert shown.startswith(ENTER_SCREEN) and shown.endswith(LEAVE_SCREEN) and "hello" in shown and "beam: bot" in shown
    assert raw == [0] and termios.tcgetattr(terminal.slave) == before
    assert attached.is_closed and len(list(Path("/proc/self/fd").iterdir())) == descriptors - 2
    after = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGWINCH)]
    assert after == handlers


def test_it_is_drawn_again_only_when_it_changed(terminal: Pty, attached: Attached) -> None:
    seen: list[str] = []

    def later(act: Any = None) -> Any:
        def acted() -> None:
            seen.append(terminal.shown())
            if act is not None:
                act()

        return acted

    def change() -> None:
        attached.picture = picture(b"other")

    def resize() -> None:
        terminal.size(10, 40)

    look(attached, later(), later(change), later(resize), later(), later(lambda: setattr(attached, "why", "over")))
    assert ["hello" in text or "other" in text for text in seen] == [True, False, True, True, False]
    assert "other" in seen[2] and "\x1b[2J" in seen[3]


def test_keys_are_passed_on_until_the_person_detaches(terminal: Pty, attached: Attached) -> None:
    def acts() -> Iterator[Any]:
        yield lambda: terminal.type(b"ls\r")
        yield lambda: None
        yield lambda: setattr(attached, "has_keys", True)
        yield lambda: setattr(attached, "takes_keys", False)
        yield lambda: terminal.type(b"x")
        yield lambda: None
        yield lambda: terminal.type(b"\x1c\x1c")

    assert look(attached, *acts()) is None
    assert (b"".join(attached.pressed), attached.sent) == (b"ls\rx", 1)
    assert terminal.shown().count("\a") == 1, "a bell for keys that were held back"


def test_the_view_is_moved_and_the_next_key_brings_it_back(terminal: Pty, attached: Attached) -> None:
    terminal.size(4, 10)
    attached.picture = picture(b"top\r\n\n\n\nend")
    seen: list[str] = []
    look(
        attached,
        lambda: seen.append(terminal.shown()),
        lambda: terminal.type(b"\x1c\x1b[A\x1c\x1b[A\x1c\x1b[A\x1c\x1b[A"),
        lambda: None,
        lambda: seen.append(terminal.shown()),
        lambda: terminal.type(b"\x1c\x1c"),
    )
    assert ("end" in seen[0], "top" in seen[0]) == (True, False)
    assert attached.pressed == [] and seen[1].count("\x1b[?2026h") == 1, "drawn once"
    assert "top" in seen[1]


def test_a_signal_ends_it(attached: Attached) -> None:
    with pytest.raises(SignalledError) as raised:
        look(attached, lambda: signal.raise_signal(signal.SIGTERM))
    assert raised.value.number == signal.SIGTERM and attached.is_closed


def test_another_size_of_the_terminal_is_no_end(terminal: Pty, attached: Attached) -> None:
    look(
        attached,
        lambda: signal.raise_signal(signal.SIGWINCH),
        lambda: None,
        lambda: setattr(attached, "why", "over"),
    )
    assert attached.script == []


def test_where_the_terminal_is_gone_it_detaches(terminal: Pty, attached: Attached) -> None:
    assert look(attached, lambda: terminal.type(b"x"), terminal.hang_up) is None
    assert attached.is_closed


# -- beam attach -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_screen_is_printed_or_written_as_a_picture(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.replace("attach", *[SimpleNamespace(agent="bot")] * 4)
    monkeypatch.setattr(beam, "picture_of", lambda found: picture(b"hello\x1b]0;a title\x07"), raising=False)
    assert inside("attach", "bot", "--print").out.rstrip("\n") == "hello"
    assert inside("attach", "bot", "--svg", "-").out.startswith("<svg ")
    assert inside("attach", "bot", "--svg", "shot.svg").out == ""
    written = (inside.project / "shot.svg").read_text()
    assert written.startswith("<svg ") and written.rstrip().endswith("</svg>") and "hello" in written
    assert [words for words, _ in told.calls] == [("bot",)] * 3
    refused = inside("attach", "bot", "--print", "--svg", "-")
    assert (refused.code, refused.err) == (2, "beam: --print and --svg don't go together; give one of them\n")


def test_a_terminal_is_attached_to_a_terminal(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = inside("attach", "bot")
    said = "beam attach needs a terminal as stdin and stdout; to print the current screen: beam attach bot --print"
    assert (refused.code, refused.err) == (2, f"beam: {said}\n")
    monkeypatch.setattr(attaching, "is_terminal", lambda stream: stream is sys.stdin)
    assert inside("attach", "bot").code == 2
    monkeypatch.setattr(attaching, "is_terminal", lambda stream: stream in (sys.stdin, sys.stdout))
    reasons = iter([None, "it ended"])
    made: list[Any] = []

    @contextlib.contextmanager
    def shown(attached: Any, *, true_colour: bool) -> Iterator[Any]:
        made.append((attached, true_colour))
        yield SimpleNamespace(run=lambda: next(reasons))

    monkeypatch.setattr(looking, "ScreenViewer", shown)
    told.replace("attach", "one", "two")
    assert inside("attach", "bot").err == "beam: detached; bot continues\n"
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert inside("attach", "bot").err == "beam: the terminal of bot is gone: it ended\n"
    assert made == [("one", False), ("two", True)]


# -- questions ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def stdin(terminal: Pty) -> Iterator[Pty]:
    """The terminal is descriptor 0 of this process."""
    before = os.dup(0)
    os.dup2(terminal.slave, 0)
    try:
        yield terminal
    finally:
        os.dup2(before, 0)
        os.close(before)


class Person:
    """Who is asked, and what the library was told."""

    def __init__(self, terminal: Pty) -> None:
        self.terminal = terminal
        self.said = ""
        self.told: list[Any] = []
        self.errors: list[Exception] = []
        library: Any = SimpleNamespace(approve=self._verb("approve"), deny=self._verb("deny"))
        self.asking = AskPrompter(library, self._say)

    def _say(self, text: str) -> None:
        self.said += text

    def _verb(self, name: str) -> Any:
        def verb(ask_id: str, **named: Any) -> None:
            self.told.append((name, ask_id, named))
            if self.errors:
                raise self.errors.pop(0)

        return verb

    def until(self, end: str) -> None:
        eventually(lambda: self.said.endswith(end), what=f"{self.said!r} does not end with {end!r}")

    def answer(self, text: str) -> None:
        self.terminal.type(text.encode())


@pytest.fixture
def person(stdin: Pty, monkeypatch: pytest.MonkeyPatch) -> Person:
    monkeypatch.setattr(asking, "_TICK_S", 0.001)
    return Person(stdin)


QUESTION = "Allow it? [yes / no / stop] "
ALWAYS = Raw(b'[{"destination":"session","rules":[{"toolName":"Bash","ruleContent":"ls"}]}]')


def ask(ask_id: str = "bot-1", **more: Any) -> events.PermissionAsked:
    given: dict[str, Any] = {"agent": "bot", "tool": "Bash", "description": "ls", "message_id": "m-1", **more}
    return events.PermissionAsked(ask_id=ask_id, **given)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("y", ("approve", "bot-1", {"always": False})),
        (" YES ", ("approve", "bot-1", {"always": False})),
        ("n", ("deny", "bot-1", {"stop": False})),
        ("no", ("deny", "bot-1", {"stop": False})),
        ("s", ("deny", "bot-1", {"stop": True})),
        ("stop", ("deny", "bot-1", {"stop": True})),
    ],
)
def test_a_persons_answer_is_the_decision(person: Person, answer: str, told: Any) -> None:
    person.asking.event(ask())
    person.until(QUESTION)
    assert person.said == f"beam: bot asks for Bash: ls\n{QUESTION}"
    person.answer(f"{answer}\n")
    eventually(lambda: person.told == [told])


@pytest.mark.parametrize("answer", ["a", "always"])
def test_always_is_an_answer_where_the_agent_offers_it(person: Person, answer: str) -> None:
    person.asking.event(ask(suggestions=ALWAYS))
    question = "Allow it? [yes / no / always / stop] "
    person.until(question)
    assert person.said == f"beam: bot asks for Bash: ls\nbeam: always: Bash(ls), in this session\n{question}"
    person.answer(f"{answer}\n")
    eventually(lambda: person.told == [("approve", "bot-1", {"always": True})])


def test_what_is_no_answer_is_asked_again(person: Person) -> None:
    person.asking.event(ask())
    person.until(QUESTION)
    person.answer("always\n")
    person.until(QUESTION * 2)
    person.answer("perhaps\n")
    person.until(QUESTION * 3)
    assert person.told == []
    person.answer("y\n")
    eventually(lambda: len(person.told) == 1)


def test_what_was_typed_before_the_question_is_no_answer_to_it(person: Person) -> None:
    person.answer("y\n")
    person.asking.event(ask())
    person.until(QUESTION)
    person.answer("n\n")
    eventually(lambda: person.told == [("deny", "bot-1", {"stop": False})])


def test_a_decision_that_is_refused_is_reported(person: Person) -> None:
    person.errors = [NotFoundError("it is over", "beam asks")]
    person.asking.event(ask())
    person.until(QUESTION)
    person.answer("y\n")
    person.until("beam: it is over\n")


@pytest.mark.parametrize(
    "end",
    [
        events.PermissionDecided(ask_id="bot-1", decision="deny"),
        events.PermissionDecided(ask_id="bot-1", decision="cancelled"),
        events.TurnFinished(status=Status.COMPLETED, message_id="m-1"),
        events.MessageDead(reason="gone", message_id="m-1"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_is_over_is_asked_no_more_and_the_next_question_comes(person: Person, end: Any) -> None:
    person.asking.event(ask())
    person.until(QUESTION)
    person.asking.event(ask("bot-2", message_id="m-2", description="ps"))
    person.asking.event(ask("bot-3", message_id="m-2", description="id"))
    person.asking.event(events.PermissionDecided(ask_id="bot-3", decision="cancelled"))
    person.asking.event(end)
    person.until(f"{QUESTION}\nbeam: bot asks for Bash: ps\n{QUESTION}")
    person.answer("y\n")
    eventually(lambda: person.told == [("approve", "bot-2", {"always": False})])
    assert "id" not in person.said


def test_the_end_of_another_message_is_no_end(person: Person) -> None:
    person.asking.event(ask())
    person.until(QUESTION)
    person.asking.event(events.TurnFinished(status=Status.COMPLETED, message_id="other"))
    person.asking.event(events.PermissionDecided(ask_id="unknown", decision="cancelled"))
    person.answer("y\n")
    eventually(lambda: len(person.told) == 1)


def test_at_the_end_of_input_the_ask_stays_open(person: Person) -> None:
    person.asking.event(ask())
    person.until(QUESTION)
    person.answer("\x04")
    person.until("\nbeam: bot-1 stays open; answer it with beam approve or beam deny\n")
    assert person.told == []


def test_only_the_foreground_reads_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def group(found: int | Exception) -> Any:
        def asked(descriptor: int) -> int:
            assert descriptor == 0
            if isinstance(found, Exception):
                raise found
            return found

        return asked

    for found, may in ((os.getpgrp(), True), (os.getpgrp() + 1, False), (OSError(), False)):
        monkeypatch.setattr(asking.os, "tcgetpgrp", group(found))
        assert is_in_foreground() is may
