"""`beam attach`: a person's terminal on an agent's, through the real beam on a real terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
from collections.abc import Iterator

import pytest

from beam.pty_adapter.screen import Screen
from tests.support.cli import Cli, Started, eventually
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance
DETACH = "\x1c\x1c"
# An agent that connects to the terminal of `bash`, types, and answers with what it is told. With `hide` it does so from
# a process that has left its session, its parents and its environment.
THIEF = """
import contextlib, os, socket, sys
root = os.environ.get("BEAM_ROOT") or sys.argv[1]
if sys.argv[1] == "hide":
    source, sink = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.dup2(sink, 1)
            os.execve(sys.executable, [sys.executable, __file__, root], {})
        os._exit(0)
    os.close(sink)
    os.wait()
    print(open(source).read())
    sys.exit()
os.chdir(root + "/agents/bash")
peer = socket.socket(socket.AF_UNIX)
peer.settimeout(3)
peer.connect("terminal.sock")
told = b""
with contextlib.suppress(OSError):
    peer.send(b'{"type":"keys","data":"c3RvbGVuDQ=="}\\n')
with contextlib.suppress(OSError):
    while part := peer.recv(65536):
        told += part
print("told", told.decode())
"""


@pytest.fixture
def working(beam: Cli) -> Iterator[tuple[Cli, Started]]:
    """A `bash` in a turn of a foreground `beam send`, which goes on until there is a file `go`."""
    beam.env["BEAM_TRUST"] = "1"
    said = "\\033[31mred\\033[0m \\033]52;c;Zm9v\\007\\033[21t日本\\n"
    # `read -t 0` takes nothing; bash's `read -t 0.05` may take a character just as its time is over, and lose it.
    script = f"printf '{said}'; until [ -e go ]; do read -t 0 && read x && echo got $x; sleep 0.05; done; echo over"
    sending = beam.start("send", "bash", "--via", "terminal", script)
    eventually(lambda: "\nred 日本" in beam("attach", "bash", "--print").out)
    yield beam, sending
    (beam.project / "go").touch()
    sending.communicate(timeout=60)


def shown(terminal: Terminal, columns: int = 80) -> str:
    """What the person sees: the output of `attach` on a screen like theirs."""
    screen = Screen(columns, 24)
    screen.feed(terminal.seen.replace("\n", "\r\n").encode())
    return screen.view().text


def test_it_shows_the_screen_types_and_detaches_and_the_agent_goes_on(
    working: tuple[Cli, Started],
) -> None:
    beam, sending = working
    mine = Terminal(beam, "attach", "bash")
    before = termios.tcgetattr(mine.process.stdin or mine._master)
    mine.until("detaches")
    eventually(lambda: mine._read(0.05) and "red 日本" in shown(mine))
    mine.type("hello\r")
    eventually(lambda: mine._read(0.05) and "got hello" in shown(mine))
    mine.type(DETACH)
    code = mine.end()
    assert (code, mine.seen.rstrip().endswith("beam: detached; bash continues")) == (0, True)
    assert sending.poll() is None
    (beam.project / "go").touch()
    assert sending.wait(60) == 0
    assert before is not None
    typed = [event for event in beam.journal("bash") if event["type"] == "notice"]
    assert [("types into its terminal" in event["text"], event["turn"]) for event in typed] == [(True, 1)]
    assert "hello" not in typed[0]["text"]


def test_what_the_agent_writes_to_a_terminal_itself_never_reaches_this_one(
    working: tuple[Cli, Started],
) -> None:
    mine = Terminal(working[0], "attach", "bash")
    mine.until("detaches")
    eventually(lambda: mine._read(0.05) and "日本" in shown(mine))
    mine.type(DETACH)
    assert mine.end() == 0
    kinds = set(re.findall(r"\x1b(?:\[[?>=]?[\d;]*[@-~]|.)", mine.seen))
    assert not re.search(r"\x1b[\]P^_X]", mine.seen)
    assert not [kind for kind in kinds if kind[-1] in "ntc"], kinds


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_terminal_is_as_it_was_after_a_signal(working: tuple[Cli, Started], how: signal.Signals) -> None:
    mine = Terminal(working[0], "attach", "bash")
    before = termios.tcgetattr(mine._master)
    mine.until("detaches")
    assert termios.tcgetattr(mine._master)[3] != before[3]
    os.kill(mine.process.pid, how)
    eventually(lambda: not mine._read(0.05) or termios.tcgetattr(mine._master) == before)
    mine.until(f"\x1b[?1049lbeam: ended by signal {int(how)}")
    assert mine.end() == 128 + how


def test_the_terminal_is_as_it_was_after_the_death_of_the_agents_holder(
    working: tuple[Cli, Started],
) -> None:
    beam, sending = working
    mine = Terminal(beam, "attach", "bash")
    mine.until("detaches")
    os.kill(sending.pid, signal.SIGKILL)
    mine.until("the terminal of bash is gone: its holder went away")
    assert mine.end() == 0
    assert "\x1b[?1049l" in mine.seen
    assert beam("attach", "bash", "--print").code == 4


def test_the_end_of_the_turn_is_said(working: tuple[Cli, Started]) -> None:
    beam, _ = working
    mine = Terminal(beam, "attach", "bash")
    mine.until("detaches")
    (beam.project / "go").touch()
    mine.until("the terminal of bash is gone: the turn is over")
    assert mine.end() == 0


def test_several_look_at_once(working: tuple[Cli, Started]) -> None:
    beam, _ = working
    mine = [Terminal(beam, "attach", "bash", columns=columns) for columns in (80, 140)]
    for each in mine:
        each.until("detaches")
    mine[0].type("both\r")
    for each, columns in zip(mine, (80, 140), strict=True):
        eventually(lambda each=each, columns=columns: each._read(0.05) and "got both" in shown(each, columns))
        each.type(DETACH)
        assert each.end() == 0


def test_the_screen_is_printed_as_text_and_as_a_picture(working: tuple[Cli, Started]) -> None:
    beam, _ = working
    text = beam("attach", "bash", "--print")
    assert (text.code, text.err) == (0, "") and "\nred 日本" in text.out and "\x1b" not in text.out
    picture = beam("attach", "bash", "--svg", "-").out
    assert picture.startswith("<svg") and ">red</text>" in picture and "http" not in picture.split("\n", 1)[1]
    assert beam("attach", "bash", "--svg", "screen.svg").out == ""
    assert (beam.project / "screen.svg").read_text() == picture


def test_where_no_terminal_is_it_says_so(beam: Cli) -> None:
    ended = beam("attach", "bash", "--print")
    assert ended.code == 4 and "no terminal now" in ended.err and "--via terminal" in ended.err
    assert beam("attach", "nobody", "--print").code == 4


def test_a_turn_on_another_face_has_no_terminal(beam: Cli) -> None:
    beam.config("agents:\n  slow: {command: [sh, -c, 'until [ -e go ]; do sleep 0.05; done']}\n")
    sending = beam.start("send", "slow", "hello")
    eventually(lambda: "prompt.sent" in beam.types("slow"))
    ended = beam("attach", "slow", "--print")
    (beam.project / "go").touch()
    sending.communicate(timeout=60)
    assert ended.code == 10 and "--via exec, which has no screen" in ended.err


def test_it_needs_a_terminal_and_a_person(beam: Cli) -> None:
    ended = beam("attach", "bash")
    assert ended.code == 2 and "--print" in ended.err
    mine = Terminal(beam, "attach", "bash", env={"BEAM_AGENT": "claude", "BEAM_HOPS": "0"})
    assert mine.end() == 2 and "only a person" in mine.seen
    assert beam("attach", "bash", "--print", "--svg", "-").code == 2


@pytest.mark.parametrize("how", ["plain", "hide"])
def test_an_agent_types_nothing_into_another_agents_terminal(working: tuple[Cli, Started], how: str) -> None:
    beam, _ = working
    (beam.project / "thief.py").write_text(THIEF)
    beam.config(f"agents:\n  thief: {{access: read, command: ['{sys.executable}', thief.py, {how}]}}\n")
    sent = beam("send", "thief", "go")
    assert sent.code == 0, sent.err
    assert "only a person attaches" in sent.out and "belongs to an agent's turn" in sent.out
    assert "frame" not in sent.out and "red" not in sent.out
    assert "stolen" not in beam("attach", "bash", "--print").out


def test_an_agent_does_not_see_another_agents_screen(working: tuple[Cli, Started]) -> None:
    beam, _ = working
    script = '"$BEAM_BIN" attach bash --print 2>&1; "$BEAM_BIN" attach bash --svg shot.svg 2>&1; true'
    beam.config(f"agents:\n  thief: {{access: edit, command: [sh, -c, '{script}']}}\n")
    sent = beam("send", "thief", "go")
    assert sent.out.count("only a person attaches to an agent's terminal; this is a process of thief") == 2
    assert "red" not in sent.out and not (beam.project / "shot.svg").exists()
