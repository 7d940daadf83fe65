"""Each gate of docs/gates.md is green for the thing and red for each kind of nothing, with scripted agents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.support.cli import Cli, Ended
from tests.support.markdown import blocks
from tests.support.repository import make_repository

pytestmark = pytest.mark.acceptance
PAGE = Path(__file__).parents[2] / "docs" / "gates.md"
USED = [{"usage": {"input_tokens": 90, "output_tokens": 10, "calls": 1}}, {"cost_usd": 0.1}]
TEST = "import unittest\n\n\nclass Test(unittest.TestCase):\n    def test_it(self): pass\n"


class Case(Struct, frozen=True, kw_only=True):
    """What agents do (the steps of a scripted turn, the same for each) and the files that are there; what the run says
    of it, "" where it is green, and its exit code."""

    does: list[Any] = []
    files: Mapping[str, str] = {}
    is_priced: bool = True
    says: str = ""
    code: int = 13


def writes(path: str) -> dict[str, Any]:
    return {"run": ["sh", "-c", f"echo more >> {path}"]}


def tool(name: str, **input: str) -> dict[str, Any]:
    return {"tool": {"name": name, "input": input}}


def failed(called: dict[str, Any], output: str) -> dict[str, Any]:
    return {"tool": {**called["tool"], "output": output, "is_error": True}}


CASES: dict[str, dict[str, Case]] = {
    "Nothing to look at": {
        "green": Case(does=["OK."], files={"change.diff": "+ a line\n"}),
        "empty": Case(does=["OK."], files={"change.diff": ""}, says="change.diff is empty", code=2),
        "blank": Case(does=["OK."], files={"change.diff": " \n\n"}, says="change.diff is empty", code=2),
        "gone": Case(does=["OK."], says="there is no file change.diff", code=2),
    },
    "Nothing changed": {
        "green": Case(does=[writes("src/a.py"), "Done."]),
        "nothing": Case(does=["Done."], says="no file was changed"),
        "only told": Case(does=[{"file": "src/a.py"}, "Done."], says="no file was changed"),
        "the test instead": Case(does=[writes("tests/a.py"), "Done."], says="tests/a.py was changed, too"),
    },
    "Nothing tested": {
        "green": Case(files={"tests/test_it.py": TEST}),
        "no test": Case(files={"tests/test_it.py": ""}),
        "a test that fails": Case(
            files={"tests/test_it.py": TEST.replace("pass", "assert 0")}, says="ended with exit code 1"
        ),
    },
    "Nothing tried": {
        "green": Case(does=[tool("Bash", command="python3 -m unittest"), "All pass."]),
        "no call": Case(does=["All pass."], says="Bash was not called"),
        "another call": Case(does=[tool("Bash", command="ls"), "All pass."], says="no call of Bash has them"),
        "its name alone": Case(
            does=[tool("Bash", command="echo python3 -m unittest"), "All pass."], says="no call of Bash has them"
        ),
        "a call that failed": Case(
            does=[failed(tool("Bash", command="python3 -m unittest"), "not found"), "All pass."],
            says="Bash was called, but it failed: not found",
        ),
    },
    "Nothing read": {
        "green": Case(does=[tool("Read", file_path="/p/src/parser.py"), "OK."]),
        "no call": Case(does=["OK."], says="Read was not called"),
        "no such file": Case(
            does=[failed(tool("Read", file_path="/p/src/parser.py"), "File does not exist."), "OK."],
            says="Read was called, but it failed: File does not exist.",
        ),
        "another file": Case(does=[tool("Read", file_path="README.md"), "OK."], says="no call of Read has them"),
    },
    "Nothing said": {
        "green": Case(does=["word " * 20]),
        "too few words": Case(does=["word " * 19], says="nothing matches"),
        "no words": Case(does=["- " * 40], says="nothing matches"),
        "only white space": Case(does=["\n\n  \n" * 40], says="the answer is empty"),
    },
    "Nothing found": {
        "green": Case(does=['{"files": ["a.py"]}']),
        "an empty list": Case(does=['{"files": []}'], says="does not follow it"),
        "a blank": Case(does=['{"files": [" "]}'], says="does not follow it"),
        "another word": Case(does=['{"paths": ["a.py"]}'], says="does not follow it"),
        "no JSON": Case(does=["None that I know of."], says="the answer is no JSON"),
    },
    "Nothing judged": {
        "green": Case(does=['{"score": 8, "reason": "It names them."}']),
        "no score": Case(does=["Fine notes."], says="the answer is no JSON"),
        "too low": Case(does=['{"score": 2, "reason": "It names nothing."}'], says="2: It names nothing."),
        "nothing to judge": Case(does=[{"silent": True}], says="the answer is empty"),
    },
    "No model was asked": {
        "green": Case(does=["Well."]),
        "no call": Case(
            does=[{"usage": {"input_tokens": 0, "output_tokens": 0, "calls": 0}}, "Well."], says="was not called"
        ),
    },
    "Nothing left to spend": {
        "green": Case(does=["OK."]),
        "too much": Case(does=[{"cost_usd": 0.6}, "OK."], says="it cost $0.6"),
        "nobody knows": Case(does=["OK."], is_priced=False, says="nobody knows what it cost"),
    },
    "What --ci asks of every turn": {
        "empty": Case(does=[{"silent": True}], says="the answer is empty"),
        "truncated": Case(does=["Half a", {"truncate": True}], says="truncated", code=11),
        "denied": Case(does=[{"deny": "Bash"}, "Could not."], says="Bash", code=5),
    },
}


@pytest.fixture
def place(beam: Cli) -> Cli:
    """A repository with a file that may change and one that may not."""
    for name in ("src/a.py", "tests/a.py"):
        (beam.project / name).parent.mkdir()
        (beam.project / name).write_text("one\n")
    make_repository(beam.project, beam.base / "home")
    return beam.with_env({"BEAM_TRUST": "1"})


def run(place: Cli, steps: str, case: Case) -> Ended:
    """Runs the gate where agents do this."""
    for name, text in case.files.items():
        (place.project / name).write_text(text)
    does = [*(USED if case.is_priced else USED[:1]), *case.does]
    (place.base / "script.yaml").write_text(json.dumps({"default": does}))
    agent = {"adapter": "scripted", "script": str(place.base / "script.yaml")}
    agents = json.dumps({"fixer": agent, "reviewer": agent})
    (place.project / "gate.yaml").write_text(f"beam: 1\nagents: {agents}\nsteps:\n{steps}")
    return place("run", "gate.yaml", "--ci")


def gates() -> dict[str, str]:
    """The gates of the page, by their headings."""
    found = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        found |= {section.partition("\n")[0]: block.text for block in blocks(section, "yaml") if block.note == "gate"}
    return found


def test_every_gate_of_the_page_is_tried_and_they_are_ten_kinds_of_nothing() -> None:
    found = gates()
    assert len(found) == 10 and found.keys() == CASES.keys() - {"What --ci asks of every turn"}


@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind, cases in CASES.items() for case in cases])
def test_a_gate_is_green_for_the_thing_and_red_for_the_nothing(place: Cli, kind: str, case: str) -> None:
    wanted = CASES[kind][case]
    done = run(place, gates().get(kind, "- {send: reviewer, prompt: Review it.}\n"), wanted)
    assert done.code == (0 if case == "green" else wanted.code), done
    assert wanted.says in " ".join((done.out + done.err).split()), done
