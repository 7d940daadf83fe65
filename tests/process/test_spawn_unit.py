"""What a child does without a process: what is refused before its start, and what its end raises."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam.base.errors import BeamError
from beam.process import spawn
from beam.process.pipes import Output, Tail, do_nothing


def child() -> spawn.Child:
    return spawn.Child("k", Output(lambda line: None, do_nothing, do_nothing, 1000), Tail(3))


def test_a_program_that_is_not_there_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawn.subprocess, "Popen", lambda *_, **__: pytest.fail("it was started"))

    async def main() -> None:
        words: Any = {"env": {"PATH": "/bin"}, "cwd": str(tmp_path), "stdin": False, "stdout_in": None}
        child()._spawn(["/nowhere/agent"], **words, confinement=None, grace=0.0)

    with pytest.raises(FileNotFoundError):
        asyncio.run(main())


def ended(
    monkeypatch: pytest.MonkeyPatch,
    *,
    error: Exception | None = None,
    number: int = 0,
    before: Callable[[spawn.Child], None] = lambda child: None,
) -> spawn.ProcessEnd:
    """The end of a child whose guard is gone, whose callback raised `error`, and whose start failed with `number`."""

    async def main() -> spawn.ProcessEnd:
        made = child()
        closed = asyncio.get_running_loop().create_future()
        closed.set_result(None)

        class Closed:
            def __init__(self) -> None:
                self.closed = closed

            def close(self) -> None: ...

        async def done() -> None: ...

        monkeypatch.setattr(made, "_connect", done)
        monkeypatch.setattr(made, "_wait_for_guard", done)
        made._pipes, made._cleaned = [Closed(), Closed()], (2, 1)  # type: ignore[list-item]
        made._lifeline = os.open(os.devnull, os.O_WRONLY)
        made._refuse = lambda refused: BeamError(f"refused: {refused.strerror}")
        made._output.error, made._status.errno = error, number
        made._tail.feed(b"last words\n")
        before(made)
        try:
            return await made._wait_for_end()
        finally:
            assert (made._lifeline, made._pipes) == (-1, [])

    return asyncio.run(main())


def test_an_end_has_the_last_words_and_what_was_swept_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ended(monkeypatch)
    assert (found.stderr_tail, found.swept, found.left) == ("last words\n", 2, 1)


def test_what_a_callback_raised_is_raised_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        ended(monkeypatch, error=ZeroDivisionError())


def test_a_start_that_the_system_refused_is_raised_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BeamError, match="refused: Permission denied"):
        ended(monkeypatch, number=errno.EACCES)


def test_who_ended_in_time_is_neither_ended_again_nor_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    due: list[asyncio.TimerHandle] = []

    def asked_to_end(made: spawn.Child) -> None:
        made._expect_end(3600.0)
        assert made._overdue is not None
        due.append(made._overdue)

    ended(monkeypatch, before=asked_to_end)
    assert [handle.cancelled() for handle in due] == [True]
