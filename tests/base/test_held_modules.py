"""Modules that are imported from memory, while threads import others."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from beam.base.held_modules import HeldModules
from tests.support.cli import Cli


@pytest.mark.slow
@pytest.mark.parametrize("waits", [True, False])
def test_two_threads_that_import_begin_to_import_from_memory_once(waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    held = HeldModules(is_own_process=False)
    used: list[int] = []
    monkeypatch.setattr(held, "_use", used.append)
    told, tell = os.pipe()
    os.set_blocking(told, False)
    os.write(tell, b"1")
    os.close(tell)
    fork = os.fork()
    if fork == 0:
        os._exit(0)
    held._reading = (fork, told, 7)
    really_read = os.read

    def read(fd: int, count: int) -> bytes:
        """Meanwhile another thread imports something."""
        monkeypatch.setattr(os, "read", really_read)
        other = threading.Thread(target=held.find_spec, args=("something",))
        other.start()
        other.join(10)
        return really_read(fd, count)

    monkeypatch.setattr(os, "read", read)
    held.wait() if waits else held.find_spec("something")
    assert (used, held._reading) == ([7], None)


@pytest.mark.acceptance
def test_an_agent_works_in_a_folder_that_holds_python_itself(beam: Cli) -> None:
    """Of some builds, an extension of Python's library calls its module by another name than its file's."""
    there = str(Path(os.__file__).parents[2])
    done = beam.cold("-C", there, "send", "scripted", "hi")
    assert (done.code, done.out) == (0, "You said: hi\n"), done
    put = beam.cold("-C", there, "send", "scripted", "later", "--no-wait")
    waited = beam.cold("-C", there, "wait", put.out.strip(), "--timeout", "40s")
    assert (waited.code, waited.out) == (0, "You said: later\n"), waited
