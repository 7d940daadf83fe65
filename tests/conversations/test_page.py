"""docs/scenarios.md says what is so: its scenarios are run, it names every key, its Python prints its comments."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from beam.conversations.language import ALLOWED, FILE, json_schema
from beam.conversations.scenario import TurnOptions
from tests.support.cli import Cli
from tests.support.markdown import Block, blocks
from tests.support.repository import make_repository

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "scenarios.md").read_text()
SCENARIOS = [block for block in blocks(PAGE, "yaml") if (block.note or "").startswith("scenario: ")]
SCRIPT = """
rules:
  - {match: Plan a, reply: 1. Draw it. 2. Build it. 3. Test it.}
  - {match: What is missing, reply: COMPLETE}
  - {match: What is left, reply: COMPLETE}
  - {match: Agree on, reply: AGREED}
  - match: Score the work
    reply:
      - usage: {input_tokens: 9, output_tokens: 3}
      - cost_usd: 0.01
      - '{"score": 9, "reason": "It smiles."}'
  - match: Write hello.txt
    reply:
      - run: [sh, -c, "echo hello > hello.txt"]
      - file: {path: hello.txt, kind: add}
      - usage: {input_tokens: 9, output_tokens: 3}
      - cost_usd: 0.01
      - Done.
default: Hello.
"""


@pytest.fixture
def place(beam: Cli) -> Cli:
    """A repository with the page's scenarios, in which claude and codex are stand-ins."""
    make_repository(beam.project, beam.base / "home")
    (beam.project / "script.yaml").write_text(SCRIPT)
    for block in SCENARIOS:
        text = block.text.replace("{adapter: claude, model: haiku}", "{adapter: scripted, script: script.yaml}")
        (beam.project / name_of(block)).write_text(text)
    beam.config(
        "agents:\n" + "".join(f"  {a}: {{adapter: scripted, script: script.yaml}}\n" for a in ("claude", "codex"))
    )
    return beam


def name_of(block: Block) -> str:
    return (block.note or "").removeprefix("scenario: ")


@pytest.mark.acceptance
@pytest.mark.parametrize("block", SCENARIOS, ids=name_of)
def test_a_scenario_of_the_page_passes(place: Cli, block: Block) -> None:
    done = place("run", name_of(block), "--ci")
    assert (done.code, done.err) == (0, ""), done.out + done.err


@pytest.mark.acceptance
def test_the_python_of_the_page_prints_its_comments(place: Cli) -> None:
    (block,) = blocks(PAGE, "python")
    words = tokenize.generate_tokens(io.StringIO(block.text).readline)
    promised = [word.string.removeprefix("# ") for word in words if word.type == tokenize.COMMENT]
    ran = subprocess.run(
        [sys.executable, "-c", block.text], cwd=place.project, env=place.env, capture_output=True, text=True, timeout=60
    )
    assert (ran.stdout.splitlines(), ran.stderr) == (promised, "")


@pytest.mark.acceptance
def test_the_error_of_the_page_is_what_beam_says(place: Cli) -> None:
    (wrong,) = [block.text for block in blocks(PAGE, "") if "unknown key" in block.text]
    path = place.project / "first.yaml"
    text = path.read_text().replace("    prompt:\n", "    promt:\n", 1)
    path.write_text(text)
    done = place("run", "first.yaml", "--dry-run")
    assert (done.code, done.err) == (2, wrong)


def test_the_page_names_every_key_of_the_language() -> None:
    schema = json_schema()
    steps = schema["$defs"]["step"]["oneOf"]  # type: ignore[index]
    keys = set(FILE.fields) | {key for step in steps for key in step["properties"]}
    checks = next(step for step in steps if "check" in step["properties"])["properties"]["check"]["anyOf"][0]
    words = set(re.findall(r"[a-z_]+", PAGE))
    assert keys | set(checks["properties"]) | set(TurnOptions.__struct_fields__) | set(ALLOWED) <= words


def test_the_pages_examples_are_all_run() -> None:
    assert len(SCENARIOS) == len(blocks(PAGE, "yaml")) >= 4
    assert shutil.which("git") is not None
