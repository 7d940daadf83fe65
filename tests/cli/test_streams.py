from __future__ import annotations

import pytest

from beam.cli.streams import is_ascii
from tests.support.cli import Cli
from tests.support.terminal import Terminal


@pytest.mark.parametrize(
    ("environ", "claim"),
    [
        ({"LANG": "C"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),  # as Python leaves it
        ({"LC_ALL": "C", "LANG": "en_GB.UTF-8"}, True),
        ({"LC_ALL": "POSIX"}, True),
        ({"LC_CTYPE": "POSIX", "LANG": "en_GB.UTF-8"}, True),
        ({"LANG": "C.UTF-8"}, False),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False),
        ({"LC_CTYPE": "en_GB.UTF-8", "LANG": "C"}, False),
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({}, False),
    ],
)
def test_only_the_c_locale_is_ascii(environ: dict[str, str], claim: bool) -> None:
    assert is_ascii(environ) is claim


@pytest.mark.slow
@pytest.mark.parametrize("command", ["watch --now", "status", "agent list"])
def test_a_terminal_in_the_c_locale_gets_ascii(beam: Cli, command: str) -> None:
    beam("send", "scripted", "a long word… and \u2018signs\u2019 → " + "x" * 300)
    terminal = Terminal(beam, *command.split(), env={"LC_ALL": "C"})
    assert terminal.end() == 0
    assert terminal.seen.isascii(), terminal.seen
    assert "scripted" in terminal.seen


@pytest.mark.slow
def test_a_pipe_gets_the_exact_text_in_every_locale(beam: Cli) -> None:
    beam.env["LC_ALL"] = "C"
    assert beam("send", "scripted", "Grüße…").out == "You said: Grüße…\n"
