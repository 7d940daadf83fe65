"""Sessions of every CLI with hostile names and texts: `beam watch` and `beam status` show them and obey nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.foreign.places import places
from tests.agents.test_session_files import PATHS, RECORDINGS, cli_of
from tests.support.cli import Cli, eventually
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance
EVIL = (
    "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\n11:04:59 beam ■ all is well\n::error::owned\n"
    "$(touch owned)`touch owned`\x00"
)
UUID = "0a0a0a0a-0a0a-4a0a-8a0a-0a0a0a0a0a0a"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
STAMPED = re.compile(r"\d\d:\d\d:\d\d \S*~\S* |(──|--) \d\d\d\d-\d\d-\d\d (──|--)$")


def poisoned(recording: Path) -> bytes:
    """The recording, with the hostile text in its prompt, its tool's result and its answer."""
    data = recording.read_bytes()
    evil = json.dumps(EVIL)[1:-1].encode()
    for text in (b"!tool ", b"the content of hello", b"RESULT["):
        data = data.replace(text, text + evil)
    return data


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("recording", RECORDINGS, ids=cli_of)
def test_hostile_texts_of_a_session_are_shown_and_obeyed_by_nothing(beam: Cli, recording: Path) -> None:
    cli = cli_of(recording)
    home = beam.base / "home"
    *_, place = places({"HOME": str(home)}, [cli])
    path = Path(place.folder) / PATHS[cli].replace("0a.json", f"{UUID}.json")
    assert place.fits(str(path))
    path.parent.mkdir(parents=True)
    path.write_bytes(poisoned(recording))
    before = files_below(beam.base / "home") | files_below(beam.project)
    for lang in ("C.UTF-8", "C"):
        done = beam("watch", "--all", "--now", "--since", "8000h", env={"LANG": lang, "LC_ALL": lang})
        assert done.code == 0, done
        assert not UNSAFE.search(done.out), ascii(done.out)
        lines = done.out.splitlines()
        assert lines, "nothing is shown"
        assert [line for line in lines if not STAMPED.match(line)] == []
        assert "owned" in done.out
    shown = beam("watch", "--all", "--now", "--since", "8000h", "--json").out
    assert not re.search("[\x00-\x09\x0b-\x1f]", shown)
    found = [json.loads(line) for line in shown.splitlines()]
    assert any("\x1b]0;owned" in str(one.get("text")) for one in found), "a program gets the text as it is"
    assert files_below(beam.base / "home") | files_below(beam.project) == before
    assert not list(beam.base.rglob("owned"))


@pytest.fixture
def hostile_folder(beam: Cli) -> Iterator[Path]:
    folder = beam.base / "a\x1b]0;owned\x07\n11:04:59 beam ■ all is well\u202e$(touch owned)"
    folder.mkdir()
    program = beam.base / "claude"
    shutil.copy("/bin/sleep", program)
    process = subprocess.Popen([str(program), "60"], cwd=folder, env=beam.env)
    try:
        yield folder
    finally:
        process.kill()
        process.wait()


def test_hostile_names_of_folders_are_shown_and_obeyed_by_nothing(beam: Cli, hostile_folder: Path) -> None:
    eventually(lambda: "owned" in beam("status", "--all").out, what="the process is not shown")
    terminal = Terminal(beam, "status", "--all", columns=250)
    assert terminal.end() == 0
    said = re.sub(r"\x1b\[\d*m", "", terminal.seen)  # beam's own bold
    assert "owned" in said
    assert not UNSAFE.search(said), ascii(said)
    assert [line for line in said.splitlines() if line.startswith("11:04:59")] == []
    lines = beam("status", "--all", "--json").out.splitlines()
    (line,) = [json.loads(line) for line in lines if '"claude"' in line and "owned" in line]
    assert line["folder"] == os.fspath(hostile_folder)
    assert not (hostile_folder / "owned").exists()
