"""Which processes are agent CLIs, by what they run."""

from __future__ import annotations

import pytest

from beam.foreign.programs import _adapter, known_names
from tests.support.cli import Cli

NAMES = {"claude": "claude", "codex": "codex", "gemini": "gemini"}


@pytest.mark.parametrize(
    ("words", "adapter"),
    [
        ([b"/usr/bin/claude", b"-p", b""], "claude"),
        ([b"node", b"--no-warnings", b"/usr/bin/gemini", b"x"], "gemini"),
        ([b"/usr/bin/node22", b"/lib/codex.js", b"x"], "codex"),
        ([b"python3.11", b"tool.py", b"claude"], ""),
        ([b"/lib/claude.exe", b"--session-id", b"x"], "claude"),
        ([b"/lib/claude.exe", b"daemon", b"run"], ""),
        ([b"claude bg-pty-host", b"--bg-pty-host", b"x"], ""),
        ([b"claude bg-spare", b"--bg-spare", b"x"], "claude"),  # a background job may have taken it
        ([b"/home/a b/claude", b"-p", b"daemon"], "claude"),
        ([b"codex", b"app-server", b"--listen", b"unix://"], ""),
        ([b"codex", b"app-server", b"daemon", b"pid-update-loop"], ""),
        ([b"codex", b"app-server"], "codex"),
        ([b"vim", b"claude"], ""),
        ([b"grep", b"-r", b"gemini"], ""),
        ([b"\xff\xfe"], ""),
        ([b""], ""),
        ([], ""),
    ],
)
def test_a_process_is_known_by_the_program_that_it_runs(words: list[bytes], adapter: str) -> None:
    assert _adapter(words, NAMES) == adapter


def test_a_cli_is_known_by_the_other_names_of_its_program_too() -> None:
    assert _adapter([b"/lib/vibe/_bin/vibe-rs"], known_names()) == "vibe"
    assert _adapter([b"/usr/bin/claude"], known_names()) == "claude"


@pytest.mark.slow
def test_a_message_to_a_session_that_beam_did_not_start_is_refused_with_the_reason(beam: Cli) -> None:
    done = beam("send", "codex~e5a4", "hello")
    assert done.code == 10
    assert "is a session that beam did not start" in done.err
