"""The pages for what people want to do: their files are put into a folder, and their console sessions are played."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.support import console
from tests.support.cli import Cli
from tests.support.markdown import blocks, shell_lines

DOCS = Path(__file__).parents[1] / "docs"
USES = {"scripts.md", "ci.md", "conversations.md", "record-replay.md", "notify.md"}


@pytest.mark.acceptance
@pytest.mark.skipif(shutil.which("jq") is None, reason="the pages use jq")
@pytest.mark.parametrize("name", sorted(USES))
def test_the_sessions_of_a_page_print_what_they_promise(beam: Cli, name: str) -> None:
    page = (DOCS / name).read_text()
    for file in blocks(page, "yaml"):
        if file.note.endswith(".yaml"):
            (beam.project / file.note).write_text(file.text)
    there = beam.with_env({"BEAM_TRUST": ""})
    there("trust", "--yes")
    assert console.play(there, [block.text for block in blocks(page, "console")], timeout=300) == []


SYSTEMD_RUN = """
import os, sys
first = next(index for index, word in enumerate(sys.argv[1:], 1) if word[:2] != "--")
given = [word[2:].split("=", 1) for word in sys.argv[1:first] if "=" in word]
os.chdir(dict(given)["working-directory"])
kept = dict(value.split("=", 1) for name, value in given if name == "setenv")
os.execvpe(sys.argv[first], sys.argv[first:], {"HOME": os.environ["HOME"], **kept})
"""


@pytest.mark.acceptance
def test_a_line_for_systemd_says_all_that_beam_needs(beam: Cli) -> None:
    beam.config("agents:\n  writer: {adapter: scripted}\n")
    there = console.installed(beam)
    program = beam.base / "bin" / "systemd-run"
    program.write_text(f"#!{Path(sys.executable).resolve()}\n{SYSTEMD_RUN}")
    program.chmod(0o755)
    lines = [line for line in shell_lines((DOCS / "scripts.md").read_text()) if line.startswith("systemd-run")]
    assert len(lines) == 2
    for line in lines:
        done = there.shell(f"unset -f beam; {line.replace(' claude ', ' writer ')}")
        assert (done.code, bool(done.out)) == (0, True), done


def test_each_page_and_the_index_name_each_other() -> None:
    index = (DOCS / "README.md").read_text()
    assert [name for name in sorted({*USES, "python.md", "chat.md"}) if f"({name})" not in index] == []
