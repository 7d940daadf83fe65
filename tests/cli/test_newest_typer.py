"""Typer: beam uses its public names alone. It is pinned while the newest one imports pydantic for each command
that it reads (a plain command line is read without it)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import beam

TOP = Path(beam.__file__).parents[1]


@pytest.mark.slow
def test_beam_uses_public_names_of_typer_alone() -> None:
    private = re.compile(r"typer\._|from typer import .*\b_")
    assert [str(path) for path in Path(beam.__file__).parent.rglob("*.py") if private.search(path.read_text())] == []


@pytest.mark.soak
def test_the_newest_typer_still_imports_pydantic_for_each_command_that_it_reads(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    needs = ["typer", "msgspec", "pyyaml", "wcwidth"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needs], check=True)
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(TOP)}
    command = ["-X", "importtime", "-m", "beam", "status", "--help"]
    done = {
        which: subprocess.run([which, *command], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
        for which in (str(python), sys.executable)
    }
    assert "pydantic" not in done[sys.executable].stderr
    assert "pydantic" in done[str(python)].stderr, "the newest typer is as quick as the pinned one: lift the pin"
