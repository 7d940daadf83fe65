"""`beam send --at` and `--every` print a line that a shell runs, and send and install nothing."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance
TEXT = 'it\'s 50% of `$HOME`, "quoted" -- & more'


def test_the_printed_line_sends_exactly_that_message_when_sh_runs_it(beam: Cli) -> None:
    beam.config("agents:\n  echo: {command: [cat]}\n")
    done = beam.cold("send", "echo", TEXT, "--once", "--every", "0 9 * * *")
    assert (done.code, "nothing was sent" in done.err) == (0, True)
    assert not (beam.root / "agents").exists()
    command = done.out.rstrip("\n").split(" ", 5)[5].replace("\\%", "%")
    ran = subprocess.run(["sh", "-c", command], cwd="/", env=beam.env, capture_output=True, check=True)
    assert ran.stdout.decode() == TEXT + "\n"


def test_the_line_for_systemd_sends_it_in_the_folder(beam: Cli) -> None:
    beam.config("agents:\n  echo: {command: [cat]}\n")
    folder = beam.base / "bin"
    folder.mkdir()
    fake = 'while [ "$1" != -- ]; do case $1 in *-directory=*) cd "${1#*=}";; esac; shift; done; shift; exec "$@"\n'
    (folder / "systemd-run").write_text(f"#!/bin/sh\n{fake}")
    (folder / "systemd-run").chmod(0o755)
    line = beam.cold("send", "echo", "a\nb", "--at", "2h").out
    env = {**beam.env, "PATH": f"{folder}:{beam.env['PATH']}"}
    ran = subprocess.run(["sh", "-c", line], cwd="/", env=env, capture_output=True, check=True)
    assert ran.stdout.decode() == "a\nb\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("echo", "x", "--at", "1h", "--every", "daily"), "don't go together"),
        (("echo", "-", "--at", "1h"), "stdin"),
        (("echo", "--at", "1h"), "stdin"),
        (("echo", "x", "--steer", "--at", "1h"), "happens now"),
        (("echo", "x", "--every", "sometimes"), "no interval"),
    ],
)
def test_what_can_not_be_sent_later_is_refused(beam: Cli, args: tuple[str, ...], words: str) -> None:
    done = beam("send", *args)
    assert (done.code, words in done.err, done.out) == (2, True, "")
