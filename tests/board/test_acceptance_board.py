"""The real `beam board` on a terminal."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

pytest.importorskip("textual")

from tests.support import asking
from tests.support.cli import Cli
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance

_COLOURS = re.compile(r"\x1b\[([0-9;]*)m")
_HOSTILE = r'"\e]0;mine\a\e[2J[@click=app.quit]x[/] \u202Eevil"'


def opened(beam: Cli, *words: str, env: dict[str, str] | None = None) -> Terminal:
    """A board that has drawn its table."""
    terminal = Terminal(beam, "board", *words, env={"LC_ALL": "C.UTF-8", **(env or {})})
    terminal.until("STATE")
    return terminal


def codes(terminal: Terminal) -> set[int]:
    """The numbers of all styles that were used."""
    return {int(number) for found in _COLOURS.findall(terminal.seen) for number in found.split(";") if number}


def test_a_message_is_sent_and_its_answer_is_seen_and_the_terminal_is_left_as_it_was(beam: Cli) -> None:
    terminal = opened(beam.with_env({}), "--since", "1h") if beam("send", "scripted", "first").code == 0 else None
    assert terminal is not None
    terminal.until("idle")  # its row is there
    terminal.type("m")
    terminal.until("Send to scripted")
    terminal.type("a second message\r")
    terminal.until("human: a second message")
    terminal.until("completed")
    terminal.type("q")
    assert terminal.end() == 0
    assert "\x1b[?1049l" in terminal.seen and "Traceback" not in terminal.seen
    assert beam("log", "scripted").out.count("a second message") >= 1


def test_an_ask_is_decided_in_its_place(beam: Cli) -> None:
    asking.place(beam, adapter="claude")
    process, ask = asking.started(beam)
    terminal = opened(beam)
    terminal.until("asks for Bash command: a shows it")
    terminal.type("a")
    terminal.until(f"DECIDE {ask['id']}")
    terminal.until("A allows from now on:")
    terminal.type("a")
    terminal.until("Allow exactly this, once?")
    terminal.type("y")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"ran zz\n")
    terminal.type("q")
    assert terminal.end() == 0


def test_the_recent_past_is_there_at_once_and_agents_of_one_name_are_told_apart(beam: Cli) -> None:
    for folder in ("north/app", "south/app"):
        (beam.base / folder).mkdir(parents=True)
        assert beam("-C", str(beam.base / folder), "send", "scripted", f"said in {folder}").code == 0
    assert beam("send", "scripted", "said here").code == 0
    terminal = opened(beam)
    for shown in ("3 in all folders", "scripted north/app", "scripted south/app", "scripted project"):
        terminal.until(shown)
    terminal.until("You said: said here")
    terminal.type("\t\x1b[H")  # the other half, and its beginning
    terminal.until("human: said in north/app")
    terminal.type("4")
    terminal.until("turns that ended since")
    assert "$0.0000, most at once" in terminal.seen  # the past is in the stream alone
    terminal.type("q")
    assert terminal.end() == 0


def test_hostile_words_reach_the_terminal_as_pictures(beam: Cli) -> None:
    (beam.project / "hostile.yaml").write_text(f"replies:\n  - {_HOSTILE}\n")
    beam.config("agents:\n  odd: {adapter: scripted, script: hostile.yaml}\n")
    assert beam("send", "odd", "hi").code == 0
    terminal = opened(beam, "--since", "1h")
    shown = terminal.until("[@click=app.quit]")
    assert "\x1b]0;mine" not in shown and "\u202e" not in shown and "␛]0;mine␇␛[2J" in shown
    terminal.type("q")
    assert terminal.end() == 0


def test_what_is_pasted_presses_no_key_whatever_is_in_it(beam: Cli) -> None:
    assert beam("send", "scripted", "hi").code == 0
    terminal = opened(beam, "--since", "1h")
    terminal.until("idle")  # its row is there
    terminal.type("m")
    terminal.until("Send to scripted")
    terminal.type("\x1b[200~pasted\x1b[2J\rq\x1b[201~")
    terminal.until("pasted␛")
    terminal.process.send_signal(signal.SIGTERM)
    terminal.end()
    assert "pasted" not in beam("log", "scripted").out


def test_only_sixteen_colours_are_used_and_none_with_no_color(beam: Cli) -> None:
    assert beam("send", "scripted", "hi").code == 0
    for env, has_colour in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal = opened(beam, "--since", "1h", env=env)
        terminal.until("scripted")
        terminal.until("completed")
        terminal.type("q")
        assert terminal.end() == 0
        assert not {38, 48} & codes(terminal)
        assert bool(codes(terminal) & {*range(30, 38), *range(90, 98)}) == has_colour


def test_a_board_that_is_told_to_end_leaves_the_agents_alone(beam: Cli) -> None:
    assert beam("send", "scripted", "hi").code == 0
    terminal = opened(beam)
    terminal.process.send_signal(signal.SIGKILL)
    terminal.end()
    assert beam("send", "scripted", "again").code == 0 and beam("doctor").code == 0


def test_a_terminated_board_leaves_the_terminal_as_it_was(beam: Cli) -> None:
    assert beam("send", "scripted", "hi").code == 0
    terminal = opened(beam)
    terminal.until("scripted")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end() == 143 and "\x1b[?1049l" in terminal.seen


def test_what_reads_teams_and_sessions_is_loaded_after_the_first_picture() -> None:
    loads = "import sys, beam.board.app, beam.board.feed, beam.board.actions; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True).stdout.split()
    assert "textual.app" in loaded
    assert not {"beam.teams.watch", "beam.api.foreign", "beam.api.teams", "beam.api.team_actions", "yaml"} & {*loaded}


def test_without_a_terminal_the_command_says_what_to_use(beam: Cli) -> None:
    done = beam("board")
    assert done.code == 2 and "beam board needs a terminal; beam watch --all" in done.err


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_only_prints_lines_is_refused_with_what_to_use(beam: Cli, term: str) -> None:
    terminal = Terminal(beam, "board", env={"TERM": term})
    said = terminal.until("beam watch --all prints the same, line by line")
    assert terminal.end() == 2 and "can't draw" in said and "\x1b" not in said
