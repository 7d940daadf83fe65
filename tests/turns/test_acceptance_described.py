"""Programs whose screen nobody described, or a person did: what answers at once, and what leaves what it asked."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import tui
from tests.support.asking import SEND, first_ask, place
from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance
TERMINALS = Path(__file__).parents[2] / "docs" / "terminals.md"
ASKS_ON_A_LINE = """\
import sys
while True:
    word = input("> ")
    answer = input(f"Delete {word}? [y/n] ")
    open("answers", "a").write(answer + chr(10))
    print("deleted" if answer == "y" else "kept")
"""
LINES = r"""{prompt: '^> ?(.*)$', at_cursor: true, by_line: true,
  dialogs: [{name: delete, match: '^Delete (\S+)\? \[y/n\]',
  allow: [y, "\r"], deny: [n, "\r"], subject: '^Delete (\S+)\?'}]}"""


@pytest.mark.parametrize(("program", "text", "reply"), [
    (["python3", "-q", "-i"], "1+1", "2"), (["python3", "-q", "-i"], "x = 3", ""), (["node", "-i"], "1+1", "2"),
])  # fmt: skip
def test_a_program_that_answers_at_once_is_completed(beam: Cli, program: list[str], text: str, reply: str) -> None:
    if shutil.which(program[0]) is None:
        pytest.skip(f"left out: no {program[0]} here")
    beam.config(f"agents:\n  it: {{command: {program}}}\n")
    done = beam("send", "it", "--via", "terminal", "--json", text, timeout=60)
    assert (done.code, done.json["status"], done.json["reply"]) == (0, "completed", reply), done


def lines(beam: Cli, access: str) -> None:
    script = beam.base / "lines.py"
    script.write_text(ASKS_ON_A_LINE)
    beam.config(f"agents:\n  it: {{command: [{sys.executable}, {script}], access: {access}, screen: {LINES}}}\n")


def test_a_question_that_stays_on_the_screen_is_answered_once(beam: Cli) -> None:
    lines(beam, "read")
    done = beam("send", "it", "--via", "terminal", "--json", "all", timeout=90)
    assert (beam.project / "answers").read_text() == "n\n"
    assert done.json["status"] == "denied" and [denial["tool"] for denial in done.json["denials"]] == ["all"]


def test_a_question_that_stays_on_the_screen_can_be_approved(beam: Cli) -> None:
    lines(beam, "ask")
    process = beam.start("send", "it", "--via", "terminal", "all")
    assert beam("approve", first_ask(beam)["id"]).code == 0
    out, err = process.communicate(timeout=90)
    assert (process.returncode, (beam.project / "answers").read_text()) == (0, "y\n"), err
    assert out.decode().rstrip().endswith("deleted")


def test_the_dialog_that_the_documentation_describes_can_be_approved(beam: Cli) -> None:
    shown = re.search(r"```yaml\n(agents:\n  oracle:.*?)```", TERMINALS.read_text(), re.DOTALL)
    assert shown is not None
    settings = yaml.safe_load(shown[1])
    settings["agents"]["oracle"].update(command=[sys.executable, tui.__file__, "oracle"], access="ask")
    beam.config(yaml.safe_dump(settings, allow_unicode=True))
    process = beam.start("send", "oracle", "--via", "terminal", "zz")
    ask = first_ask(beam)
    assert "zz" in ask["description"]
    assert beam("approve", ask["id"]).code == 0
    out, err = process.communicate(timeout=90)
    assert (process.returncode, out.decode()) == (0, "ran zz\n"), err


def test_a_screen_that_nobody_described_is_reported_with_what_it_shows_while_it_stands(beam: Cli) -> None:
    place(beam, "welcome")
    done = beam(*SEND, "hi", timeout=90)
    assert (done.code, done.out) == (0, "ECHO[hi]\n"), done
    (told,) = (event["text"] for event in beam.journal("tui") if event.get("code") == "unknown_screen")
    assert "Choose how it shall look" in told and "docs/terminals.md" in told and "--explain" in told
    assert "Choose how it shall look" in done.err
