"""Claims that many tests make."""

from __future__ import annotations

from tests.support.cli import Ended


def said_once(done: Ended, *words: str) -> str:
    """The one line on stderr; it is beam's, and names these words."""
    lines = done.err.splitlines()
    assert len(lines) == 1, done
    assert lines[0].startswith("beam: "), done
    assert "beam: beam:" not in lines[0], done
    assert "Traceback" not in done.err
    for word in words:
        assert word in lines[0], (word, done)
    return lines[0]


def refused(done: Ended, code: int, *words: str) -> None:
    """It ended with this code, nothing on stdout, and one line on stderr that names these words."""
    assert (done.code, done.out) == (code, ""), done
    said_once(done, *words)
