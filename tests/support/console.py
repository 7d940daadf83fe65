"""Console sessions of the docs, played with the real beam and compared with what they promise.

A line `$ COMMAND` is run (`> ` goes on with it), the lines up to the next one are what a person sees, stdout and stderr
as they come. `…` stands for anything on a line, and on a line of its own for any lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.cli import BEAM_WORDS, Cli

_MARK = "@@ step"


@dataclass(frozen=True)
class Step:
    """One command and what it prints."""

    command: str
    expected: str


def steps(text: str) -> list[Step]:
    """The steps of one console block."""
    found: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif line.startswith(">") and found and not found[-1][1]:
            found[-1][0].append(line[2:])
        else:
            found[-1][1].append(line.rstrip())
    return [Step("\n".join(command), "\n".join(expected)) for command, expected in found]


def matches(expected: str, seen: str) -> bool:
    """Whether the output is what was promised."""
    lines = [re.escape(line).replace("…", "[^\n]*") if line != "…" else ".*" for line in expected.splitlines()]
    return re.fullmatch("\n".join(lines), "\n".join(line.rstrip() for line in seen.splitlines()), re.DOTALL) is not None


def installed(beam: Cli) -> Cli:
    """The same place with a program `beam` on PATH, for what starts it without a shell."""
    program = beam.base / "bin" / "beam"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {BEAM_WORDS} "$@"\n')
    program.chmod(0o755)
    return beam.with_env({"PATH": f"{program.parent}{os.pathsep}{beam.env['PATH']}"})


def play(beam: Cli, texts: Sequence[str], *, timeout: float = 60) -> list[str]:
    """Runs the blocks in order in one shell; a complaint for every step that printed something else. Each step may take
    `timeout` seconds."""
    wanted = [step for text in texts for step in steps(text)]
    script = "".join(f"echo '{_MARK}'\n{step.command}\n" for step in wanted)
    done = installed(beam).shell(f"exec 2>&1\nunset -f beam\n{script}", timeout=timeout * len(wanted))
    seen = done.out.split(f"{_MARK}\n")[1:]
    assert len(seen) == len(wanted), done
    return [
        f"$ {step.command}\n{output}--- promised:\n{step.expected}"
        for step, output in zip(wanted, seen, strict=True)
        if not matches(step.expected, output)
    ]
