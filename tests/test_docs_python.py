"""docs/python.md says what is so: each of its examples is run, and prints its own comments."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import beam as front_door
from beam.base.errors import BeamError
from beam.model.message import OptionFields
from tests.support import asking
from tests.support.cli import Cli
from tests.support.console import matches
from tests.support.markdown import Block, blocks, rows

PAGE = (Path(__file__).parents[1] / "docs" / "python.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
EXAMPLES = {title: block for title, text in SECTIONS.items() for block in blocks(text, "python") if not block.note}


def promised(source: str) -> str:
    """Return what the example says that it prints: its comments, in order."""
    words = tokenize.generate_tokens(io.StringIO(source).readline)
    return "\n".join(word.string.removeprefix("# ") for word in words if word.type == tokenize.COMMENT)


def run(there: Cli, source: str) -> tuple[int, str, str]:
    """Run the example in the project; return its exit code, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=there.project, env=there.env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_there_is_one_example_under_each_heading() -> None:
    assert len(blocks(PAGE, "python")) == len(SECTIONS) == len(EXAMPLES) + 1
    assert [title for title, block in EXAMPLES.items() if not promised(block.text)] == []


@pytest.mark.acceptance
@pytest.mark.parametrize("block", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_an_example_prints_its_comments(beam: Cli, block: Block) -> None:
    files = {file.note: file.text for file in blocks(PAGE, "yaml")}
    for name, text in files.items():
        (beam.project / name).write_text(text)
    beam.config(files["beam.yaml"])

    code, out, err = run(beam, block.text)

    assert (code, err) == (0, ""), err
    assert matches(promised(block.text), out), out


@pytest.mark.acceptance
def test_the_example_of_asks_prints_its_comments_with_a_terminal_that_looks_like_claude(beam: Cli) -> None:
    (block,) = [block for block in blocks(PAGE, "python") if block.note == "asks"]
    asking.place(beam, adapter="claude", agent="claude")

    # The stand-in asks for the file that is the whole message; it understands no sentence.
    code, out, err = run(beam, block.text.replace('"Create draft.txt"', '"draft.txt"'))

    assert (code, err) == (0, ""), err
    assert out.splitlines() == promised(block.text).splitlines()


def test_the_table_of_options_has_every_option() -> None:
    table = PAGE.partition("<!-- options -->\n")[2].partition("\n\n")[0]
    told = {name for row in rows(table) for name in re.findall(r"`(\w+)`", row[0])}
    assert told == set(OptionFields.__annotations__)


def test_the_table_of_exceptions_has_those_of_the_front_door() -> None:
    table = PAGE.partition("| exception |")[2].partition("\n\n")[0]
    told = {name for row in rows(f"| exception |{table}") for name in re.findall(r"`(\w+Error)`", row[0])}
    names = {name for names in front_door._LAZY.values() for name in names.split() if name.endswith("Error")}
    errors = {name for name in names if issubclass(getattr(front_door, name), BeamError)}
    assert told == errors - {"BeamError", "NoCastError"}
