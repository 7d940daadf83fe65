"""Draws docs/terminal.svg and docs/watch.svg: the real beam in a real terminal; and docs/board.svg and
docs/board-team.svg: the real board over what its tests know of everyone. `make picture`.

What differs from run to run is made the same: times of day, how long things took, ids of sessions and messages.
"""

from __future__ import annotations

import io
import os
import pty
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

TARGET = Path(__file__).parents[1] / "docs" / "terminal.svg"
WATCH = TARGET.with_name("watch.svg")
BOARD = TARGET.with_name("board.svg")
BOARD_TEAM = TARGET.with_name("board-team.svg")
COLUMNS, WATCH_COLUMNS, LINES = 80, 100, 40
BOARD_SIZE = (110, 30)
COMMANDS = (
    'beam send planner "How should the client try again?"',
    "beam log planner",
    'beam send tester "run the tests"; echo "exit code $?"',
    "beam status",
)
SETUP = (
    "beam agent add planner scripted --set script=planner",
    "beam agent add tester --command \"sh -c 'echo the disk is full >&2; exit 3'\"",
)
_SAME = (
    (re.compile(r"(?<!\d)\d\d:\d\d:\d\d(?!\d)"), "10:42:07"),
    (re.compile(r"(completed|failed \(crashed\)) \d+(\.\d+)?m?s(?! ago)"), r"\1 0.1s"),
    (re.compile(r"\b\d+s ago"), "2s ago"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "c0ffee00-0000-4000-8000-000000000000"),
    (re.compile(r"# one at[^…]*….*"), "# one atte…\x1b[2m (4ms) edr2t\x1b[0m"),
    (re.compile(r"(\x1b\[2m(?: \(\w+\))? )[a-z2-7]{5}\x1b"), "\\1edr2t\x1b"),
    (re.compile(r"new session [0-9a-f]{8}\b"), "new session c0ffee00"),
    (re.compile(r"/lab/runs/\S*"), "~/parser"),
    (re.compile(r"\b(planner|tester)-[0-9a-z]{15}\b"), r"\1-1m7zzzzzzzz2ab9"),
)
_WATCHED_S = 18.0  # of the recording
_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


def in_terminal(command: str, *, cwd: Path, environ: Mapping[str, str], columns: int = COLUMNS) -> str:
    """What a terminal gets from the command."""
    child, terminal = pty.fork()
    if child == 0:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
        os.chdir(cwd)
        os.execvpe("sh", ["sh", "-c", command], dict(environ))
    found = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not data:
            break
        found += data
    os.close(terminal)
    os.waitpid(child, 0)
    return found.decode().replace("\r\n", "\n")


def session() -> str:
    """The whole session, with the colours of the terminal."""
    with tempfile.TemporaryDirectory() as folder:
        project, environ = _project(Path(folder))
        for command in SETUP:
            in_terminal(command, cwd=project, environ=environ)
        text = ""
        for command in COMMANDS:
            text += f"\x1b[1m$ {command}\x1b[0m\n{in_terminal(command, cwd=project, environ=environ)}"
    for looks, same in _SAME:
        text = looks.sub(same, text)
    return text


def watched() -> str:
    """`beam watch` over a recorded team of Claude Code that is at work, with the colours of the terminal."""
    from tests.teams.teams_replay import Scratch

    with tempfile.TemporaryDirectory() as folder:
        project, environ = _project(Path(folder))
        team = Scratch(Path(folder) / "team", "in-process")
        team.replay(None, until=team.steps()[0][0] + _WATCHED_S)
        shown = in_terminal(
            f"beam watch --now --claude-home {team.home}", cwd=project, environ=environ, columns=WATCH_COLUMNS
        )
    for looks, same in _SAME[1:]:
        shown = looks.sub(same, shown)
    return f"\x1b[1m$ beam watch\x1b[0m\n{shown}"


def _project(place: Path) -> tuple[Path, dict[str, str]]:
    program = place / "bin" / "beam"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m beam "$@"\n')
    program.chmod(0o755)
    project = place / "project"
    project.mkdir()
    return project, {
        "TZ": "UTC",
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(TARGET.parents[1]),
        "HOME": str(place),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }


def draw(text: str, columns: int = COLUMNS) -> str:
    """The picture of a session."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.from_ansi(text), soft_wrap=False)
    return console.export_svg(title="", theme=MONOKAI, code_format=_FORMAT, unique_id="beam")


def board(*keys: str) -> str:
    """The picture of the board after these keys."""
    import asyncio

    from rich.console import Console
    from rich.segment import Segment, Segments
    from rich.terminal_theme import MONOKAI

    from beam.board.app import Board
    from tests.board.made import NOW_S, FakeActions, FakeFeed, story

    feed = FakeFeed()
    feed.events = story("the lexer drops the last token of a file")
    shown = Board(feed, FakeActions(), now=lambda: NOW_S)  # type: ignore[arg-type]
    console = Console(record=True, width=BOARD_SIZE[0], file=io.StringIO(), force_terminal=True, legacy_windows=False)

    async def run() -> None:
        async with shown.run_test(size=BOARD_SIZE) as pilot:
            shown.tick()
            await pilot.press(*keys)
            shown.tick()
            await pilot.pause()
            for strip in shown.screen._compositor.render_strips():
                console.print(Segments([*strip, Segment.line()]), end="")

    asyncio.run(run())
    return console.export_svg(title="", theme=MONOKAI, code_format=_FORMAT, unique_id="board")


PICTURES = {
    "terminal": (TARGET, lambda: draw(session())),
    "watch": (WATCH, lambda: draw(watched(), WATCH_COLUMNS)),
    "board": (BOARD, board),
    "board-team": (BOARD_TEAM, lambda: board("2", "tab", *["down"] * 6)),
}


def main() -> None:
    """Writes the pictures; with their names, only these."""
    for name in sys.argv[1:] or PICTURES:
        path, drawn = PICTURES[name]
        path.write_text(drawn())
        sys.stderr.write(f"wrote {path}\n")


if __name__ == "__main__":
    main()
