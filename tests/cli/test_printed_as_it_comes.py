"""What a person at a terminal sees while a turn runs: its answer as it is written, and what happens aside."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from msgspec import Raw

from beam.base.errors import DiskError
from beam.cli import printer as printing
from beam.cli.context import Context
from beam.cli.printer import Printer, diagnosis, summary
from beam.model import events
from beam.model.outcome import Class, Denial, Outcome, Status, Usage
from tests.support.chatting import outcome

FAR = "2999-01-01T00:00:00Z"
BEGUN = events.TurnStarted(
    owner=events.Owner(pid=1, start_ticks=1), turn_key="k", adapter="claude", via="exec", attempt=2, message_id="bot-1"
)


def call(**more: Any) -> Any:
    """A call whose library is a stand-in."""
    found: Any = Context(**more)
    found.beam = SimpleNamespace(home=SimpleNamespace(agent=lambda name: SimpleNamespace(dir=Path("/r") / name)))
    found.beam.is_agent = False
    return found


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """stdout is a person's terminal; nobody can type."""
    monkeypatch.setattr(printing, "is_interactive", lambda *found: found == (sys.stdout,))


def shown(*found: events.Event, **more: Any) -> None:
    printer = Printer(as_json=False, as_events=False, call=call(**more))
    for event in found:
        printer.event(event)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("found", "out", "err"),
    [
        ([events.TextDelta(text="hel"), events.TextDelta(text="lo"), events.Text(text="hello")], "hello\n", ""),
        ([events.TextDelta(text="hel"), events.Text(text="hello\n")], "hello\n", ""),
        ([events.TextDelta(text="helo"), events.Text(text="hello")], "helo\nhello\n", ""),
        ([events.Text(text="a"), events.TextDelta(text="b"), events.Text(text="b")], "a\nb\n", ""),
        (
            [events.TextDelta(text="hel"), BEGUN, events.TextDelta(text="hello"), events.Text(text="hello")],
            "hel\nhello\n",
            "",
        ),
        ([events.Text(text="\x1b[2J")], "␛[2J\n", ""),
        ([events.Text(text="")], "", ""),
        ([events.TextDelta(text="x", parent="c"), events.Text(text="x", parent="c")], "", ""),
        (
            [events.TextDelta(text="I "), events.ToolCalled(call_id="1", name="Bash", input=Raw(b'{"command":"ls"}'))],
            *("I \n", '· Bash {"command":"ls"}\n'),
        ),
        (
            [events.ToolCalled(call_id="1", name="Bash", input=Raw(b'"' + b"x" * 100 + b'"'))],
            *("", f'· Bash "{"x" * 71}…\n'),
        ),
        (
            [events.ImageSeen(agent="bot", path="images/a.png", media_type="image/png")],
            *("", "· image png /r/bot/images/a.png\n"),
        ),
        ([events.StatusChanged(state="mode", detail="plan")], "", "· mode plan\n"),
        ([events.StatusChanged(state="requesting")], "", ""),
        (
            [events.StatusChanged(state="retrying", attempt=1, of=3, delay_s=2.04, detail="busy")],
            *("", "· retrying 1 of 3 in 2.0 s (busy)\n"),
        ),
        (
            [events.StatusChanged(state="retrying", attempt=1, of=3, detail="busy", class_=Class.OVERLOADED)],
            *("", "· retrying 1 of 3 (overloaded)\n"),
        ),
        ([events.SessionLost(session_id="s")], "", "· its session no longer exists; starting a new one\n"),
        ([events.Notice(text="be\n\x1bcareful")], "", "· be ␛careful\n"),
        ([events.Notice(text="x" * 200)], "", f"· {'x' * 159}…\n"),
        ([events.Notice(agent="bot", text="be\nsure", code="unknown_screen")], "", "beam: bot: be sure\n"),
        ([events.FileChanged(path="a")], "", ""),
    ],
)
def test_the_answer_is_written_as_it_comes_and_what_happens_is_reported_aside(
    capsys: pytest.CaptureFixture[str], found: list[events.Event], out: str, err: str
) -> None:
    shown(*found)
    said = capsys.readouterr()
    assert (said.out, said.err) == (out, err)


@pytest.mark.usefixtures("terminal")
def test_who_wants_it_quiet_sees_the_answer_alone(capsys: pytest.CaptureFixture[str]) -> None:
    shown(events.SessionLost(session_id="s"), events.Text(text="hi"), quiet=True)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("hi\n", "")


@pytest.mark.usefixtures("terminal")
def test_what_is_reported_aside_is_dim_where_there_are_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "is_colourful", lambda stream: stream is sys.stderr)
    shown(events.SessionLost(session_id="s"))
    assert capsys.readouterr().err == "\x1b[2m· its session no longer exists; starting a new one\x1b[0m\n"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    "more", [{"as_json": True}, {"streams": False}, {"as_events": True}], ids=lambda more: next(iter(more))
)
def test_what_is_not_for_one_reader_is_not_written_as_it_comes(
    capsys: pytest.CaptureFixture[str], more: dict[str, bool]
) -> None:
    printer = Printer(**{"as_json": False, "as_events": False, **more}, call=call())
    printer.event(events.TextDelta(text="hel"))
    out = capsys.readouterr().out
    assert out == "" or json.loads(out)["text"] == "hel"
    assert bool(out) is ("as_events" in more)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("last", "reply", "out"),
    [
        ("hello", " hello\n", "hello\n"),
        ("hello", "hello again", "hello\nhello again\n"),
        (None, "quiet", "quiet\n"),
        ("hello", None, "hello\n"),
    ],
)
def test_a_reply_that_was_written_already_is_not_repeated(
    capsys: pytest.CaptureFixture[str], last: str | None, reply: str | None, out: str
) -> None:
    printer = Printer(as_json=False, as_events=False, call=call())
    if last is not None:
        printer.event(events.TextDelta(text=last))
        printer.event(events.Text(text=last))
    assert printer.outcome(outcome(reply=reply)) == 0
    assert capsys.readouterr().out == out


@pytest.mark.usefixtures("terminal")
def test_a_line_that_was_begun_is_ended_before_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer(as_json=False, as_events=False, call=call())
    printer.event(events.TextDelta(text="hel"))
    printer.outcome(outcome(status=Status.CANCELLED, reason="by ann", exit_code=9))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("hel\n", "beam: bot: cancelled: by ann [bot-1]\n")


class Full(io.StringIO):
    """A file on a full disk."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        raise self._error


@pytest.mark.parametrize("as_events", [True, False])
def test_an_answer_that_can_not_be_written_is_reported_when_the_turn_is_over(
    monkeypatch: pytest.MonkeyPatch, as_events: bool
) -> None:
    dropped: list[int] = []
    monkeypatch.setattr(printing.streams, "drop_stdout", lambda: dropped.append(1))
    monkeypatch.setattr(printing, "is_interactive", lambda *found: found == (sys.stdout,))
    printer = Printer(as_json=False, as_events=as_events, call=call())
    monkeypatch.setattr(sys, "stdout", Full(OSError(errno.ENOSPC, "No space left on device")))
    printer.event(events.Text(text="one"))
    printer.event(events.Text(text="two"))
    with pytest.raises(DiskError) as raised:
        printer.outcome(outcome(reply="one"))
    assert raised.value.message == "can't write the answer to stdout: No space left on device"
    assert (raised.value.hint, raised.value.subject, dropped) == ("beam show bot-1 prints it again", "bot-1", [1])


def test_a_reader_that_is_gone_is_no_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    printer = Printer(as_json=False, as_events=False, call=call())
    monkeypatch.setattr(sys, "stdout", Full(BrokenPipeError()))
    with pytest.raises(BrokenPipeError):
        printer.outcome(outcome(reply="one"))


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.ENOSPC, "No space left on device")])
def test_the_answer_is_printed_although_the_notes_can_not_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError
) -> None:
    printer = Printer(as_json=False, as_events=False, call=call())
    monkeypatch.setattr(sys, "stderr", Full(error))
    printer.event(events.ToolCalled(call_id="1", name="Bash", input=Raw(b"{}")))
    printer.event(events.Text(text="done"))
    assert printer.outcome(outcome(reply="done")) == 0
    assert capsys.readouterr().out == "done\n"


# -- notes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "err"),
    [
        ({}, ""),
        ({"session": "lost"}, "beam: bot's session no longer existed; this turn ran in a new one\n"),
        ({"redacted": 2}, "beam: 2 secret(s) were removed from this answer and the journal\n"),
        ({"status": Status.DENIED}, "beam: bot: denied [bot-1]\n"),
        (
            {
                "status": Status.DENIED,
                "denials": (Denial(tool="Bash", by="default"), Denial(tool="Bash", by="default")),
            },
            "beam: bot: denied: Bash [bot-1]\n",
        ),
        (
            {"denials": (Denial(tool="Bash", by="rule"), Denial(tool="Bash", by="rule"), Denial(tool="X", by="ann"))},
            "beam: bot: Bash was denied by a rule, X was denied by ann; the answer may be incomplete\n",
        ),
        (
            {"denials": (Denial(tool="X", by="ann"),), "reply": ""},
            "beam: bot: X was denied by ann; it gave no answer\n",
        ),
        ({"denials": (Denial(tool="X", by="default"),)}, ""),
    ],
)
def test_what_is_to_be_known_of_an_answer_is_noted(
    capsys: pytest.CaptureFixture[str], more: dict[str, Any], err: str
) -> None:
    printer = Printer(as_json=False, as_events=False, call=call())
    assert printer.outcome(outcome(**{"reply": "x", **more})) == 0
    assert capsys.readouterr().err == err


def test_who_wants_more_sees_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    Printer(as_json=False, as_events=False, call=call(verbose=True)).outcome(outcome(session_id="s-1"))
    assert capsys.readouterr().err == "beam: bot turn 1 · session s-1\n"


LOG_IN = "log in with the agent's own CLI, or set its key"


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"class_": Class.AUTH, "reason": "no key"}, f"bot: failed (auth): no key; {LOG_IN}"),
        (
            {"class_": Class.AUTH, "login_url": "https://x/{id}"},
            f"bot: failed (auth); {LOG_IN}; it names https://x/%7Bid%7D",
        ),
        ({"class_": Class.RATE_LIMIT}, "bot: failed (rate_limit); try again later"),
        ({"class_": Class.OVERLOADED}, "bot: failed (overloaded); try again later"),
        (
            {"status": Status.UNKNOWN},
            "bot: unknown; check what it did (beam log bot), then run it again: beam queue retry bot-1",
        ),
        (
            {"status": Status.TIMEOUT},
            "bot: timeout; run it again (beam queue retry bot-1), or send it with a longer --timeout",
        ),
        (
            {"status": Status.TIMEOUT, "turn": None},
            "bot: timeout; run it again (beam queue retry bot-1), or send it with a longer --deadline",
        ),
        *(
            (
                {"status": Status.TIMEOUT, **fields},
                "bot: timeout; look at what it said and did before (beam log bot), then send `continue`",
            )
            for fields in ({"worked": True}, {"reply": "Half"})
        ),
        ({"status": Status.TRUNCATED}, "bot: truncated; send `continue`, or ask for a shorter answer"),
        ({"login_url": "https://x"}, "bot: failed [bot-1]"),
    ],
)
def test_a_diagnosis_ends_with_the_next_step(more: dict[str, Any], line: str) -> None:
    assert diagnosis(outcome(**{"status": Status.FAILED, "exit_code": 1, **more})) == line


def test_all_figures_of_a_turn_are_on_one_line() -> None:
    used = Usage(input_tokens=0, output_tokens=4)
    full: Outcome = outcome(duration_s=1.25, cost_usd=0.0, model="m", usage=used, session_id="s")
    assert summary(full) == "bot turn 1 · 1.2 s · 0 in · 4 out · $0.0000 · m · session s"


# -- while it waits ----------------------------------------------------------------------------------------------------


class Line:
    """Stands in for `Live`: when it was asked to make room, and what it was told."""

    made: ClassVar[list[Line]] = []

    def __init__(self, message_id: str, look: Any, tell: Any, *, is_shown: bool) -> None:
        self.message_id, self.look, self.tell, self.is_shown = message_id, look, tell, is_shown
        self.is_held = False
        self.begun: list[str | None] = []
        self.room = 0
        self.closed = False
        Line.made.append(self)

    @contextlib.contextmanager
    def printing(self) -> Iterator[None]:
        self.room += 1
        yield

    def on_begun(self, message_id: str | None) -> None:
        self.begun.append(message_id)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Line]]:
    from beam.cli.render import live

    monkeypatch.setattr(live, "LiveProgress", Line)
    Line.made = []
    yield Line


def look() -> None:
    """Sees nothing."""


OWNER = events.Owner(pid=1, start_ticks=1)
BEGUN = events.TurnStarted(owner=OWNER, turn_key="k", adapter="codex", via="exec", message_id="bot-1")


@pytest.mark.usefixtures("terminal")
def test_the_line_of_progress_makes_room_for_what_is_printed(line: type[Line]) -> None:
    printer = Printer(as_json=False, as_events=False, call=call())
    with printer.waiting("bot-1", look):
        (shown,) = line.made
        assert (shown.message_id, shown.look, shown.is_shown) == ("bot-1", look, False)
        printer.event(BEGUN)
        assert (shown.begun, shown.room, shown.is_held) == (["bot-1"], 1, False)
        printer.event(events.TextDelta(text="hel"))
        assert shown.is_held
        printer.event(events.Text(text="hello"))
        assert not shown.is_held and not shown.closed
    assert shown.closed
    printer.event(events.TextDelta(text="x"))
    assert shown.room == 3


@pytest.mark.parametrize(("quiet", "found"), [(True, look), (False, None)])
def test_who_wants_no_progress_gets_none(line: type[Line], quiet: bool, found: Any) -> None:
    with Printer(as_json=False, as_events=False, call=call(quiet=quiet)).waiting("bot-1", found):
        pass
    assert line.made == []


@pytest.mark.parametrize(
    ("term", "more", "is_shown"),
    [("xterm", {}, True), ("dumb", {}, False), (None, {}, False), ("xterm", {"as_json": True}, False),
     ("xterm", {"as_events": True}, False)],
)  # fmt: skip
def test_the_line_of_progress_is_for_a_person_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, line: type[Line], term: str | None, more: dict[str, bool], is_shown: bool
) -> None:
    monkeypatch.setattr(printing, "is_interactive", lambda *found: found == (sys.stderr,))
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    with Printer(**{"as_json": False, "as_events": False, **more}, call=call()).waiting("bot-1", look):
        assert line.made[0].is_shown is is_shown


# -- asks --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> list[events.Event]:
    """A person is there to be asked; the events that the asking got."""
    from beam.cli import asking as module

    seen: list[events.Event] = []
    monkeypatch.setattr(printing, "is_interactive", lambda *found: found == (sys.stdin, sys.stderr))
    monkeypatch.setattr(module, "is_in_foreground", lambda: True)
    monkeypatch.setattr(module, "AskPrompter", lambda beam, say: SimpleNamespace(event=seen.append, say=say))
    return seen


def ask(ask_id: str, message_id: str = "bot-1", expires: str | None = FAR) -> events.PermissionAsked:
    return events.PermissionAsked(agent="bot", ask_id=ask_id, tool="Bash", expires=expires, message_id=message_id)


def test_a_person_at_the_terminal_is_asked_and_the_line_of_progress_waits(
    asking: list[events.Event], line: type[Line]
) -> None:
    printer = Printer(as_json=False, as_events=False, call=call())
    with printer.waiting("bot-1", look):
        (shown,) = line.made
        printer.event(ask("at once", expires=None))
        assert asking == [] and not shown.is_held
        printer.event(ask("one"))
        assert shown.is_held
        printer.event(events.PermissionDecided(ask_id="one", decision="allow"))
        assert not shown.is_held
        printer.event(ask("two"))
        printer.event(ask("three", message_id="other"))
        printer.event(events.PermissionDecided(ask_id="two", decision="cancelled"))
        assert shown.is_held
        printer.event(events.TurnFinished(status=Status.COMPLETED, message_id="bot-1"))
        assert shown.is_held, "another message's"
        printer.event(events.TurnFinished(status=Status.COMPLETED, message_id="other"))
        assert not shown.is_held
    assert len(asking) == 7


def test_what_a_question_says_is_written_between_the_lines(
    asking: list[events.Event], capsys: pytest.CaptureFixture[str]
) -> None:
    printer = Printer(as_json=False, as_events=False, call=call())
    assert printer._ask_prompter is not None
    say: Any = printer._ask_prompter
    say.say("Allow\x1b it? ")
    assert capsys.readouterr().err == "Allow␛ it? "


@pytest.mark.parametrize("who", ["an agent", "nobody", "the background"])
def test_where_nobody_can_answer_it_is_said_how_to(
    asking: list[events.Event], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    from beam.cli import asking as module

    found = call()
    found.beam.is_agent = who == "an agent"
    if who == "nobody":
        monkeypatch.setattr(printing, "is_interactive", lambda *_: False)
    if who == "the background":
        monkeypatch.setattr(module, "is_in_foreground", lambda: False)
    Printer(as_json=False, as_events=False, call=found).event(ask("bot-0abc4k2xyz"))
    assert asking == []
    assert capsys.readouterr().err.startswith("beam: bot asks for Bash: ; beam approve 4k2xyz, or beam deny 4k2xyz (")
