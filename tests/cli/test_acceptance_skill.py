"""`beam dev skill` teaches commands that work, and `beam dev man` prints a page that man reads."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.support.cli import Cli
from tests.support.console import installed
from tests.support.markdown import blocks

pytestmark = pytest.mark.acceptance
AGENTS = """
agents:
  reviewer: {adapter: scripted, script: reviewer.yaml}
  writer: {adapter: scripted, script: writer.yaml}
"""


def test_every_command_that_the_skill_teaches_works_in_order(beam: Cli) -> None:
    there = installed(beam)
    for name in ("reviewer", "writer"):
        (there.project / f"{name}.yaml").write_text("default: fine\n")
    (there.project / "notes.md").write_text("notes\n")
    there.config(AGENTS)
    skill = there("dev", "skill").out
    assert skill.startswith("---\nname: beam\ndescription: ")
    found = blocks(skill, "sh")
    assert len(found) >= 5
    assert {line for block in found for line in block.text.splitlines() if "beam" not in line} == set()
    script = "set -eu\n" + "".join(block.text for block in found)
    done = subprocess.run(["sh", "-c", script], cwd=there.project, env=there.env, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().count("fine") >= 8


def test_the_codes_that_the_skill_names_are_those_of_the_docs(beam: Cli) -> None:
    from beam.base.errors import ExitCode

    text = beam("dev", "skill").out.partition("## What the exit code says")[2].partition("\n## ")[0]
    named = {int(code): meaning for code, meaning in re.findall(r"^- (\d+): (.+)$", text, re.MULTILINE)}
    assert named == {int(code): code.meaning for code in ExitCode if code < 70}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_manual_page_has_no_mistake_and_every_command(beam: Cli) -> None:
    from tests.support import made

    page = beam("dev", "man").out
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-c"], input=page.encode("ascii"), capture_output=True, check=True
    )
    assert done.stderr.decode() == ""
    shown = re.sub(r"\x1b\[\d*m|.\x08", "", done.stdout.decode())
    groups = {path.rpartition(" ")[0] for path, _ in made.commands()}
    commands = [path for path, _ in made.commands() if path not in groups]
    assert [path for path in commands if f"{path} [" not in shown and f"{path} A" not in shown] == []
