"""What a step does, counted: its time depends on the machine, and this does not."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

_CALLS = frozenset({"open", "listdir", "scandir", "stat", "lstat", "rename", "unlink", "fsync", "read", "pread"})


def operations(step: Callable[[], object]) -> Counter[str]:
    """How often the step called each of the system's functions for files, and each function of beam's that reads one
    message, one name of a queue's file or one line of a journal."""
    found: Counter[str] = Counter()
    mine = {
        "entry_of": "beam/store/queue.py",
        "decode": "beam/model/message.py",
        "_line": "beam/store/segment.py",
    }

    def seen(frame: FrameType, what: str, arg: Any) -> None:
        if what == "c_call" and arg.__module__ == "posix" and arg.__name__ in _CALLS:
            found[arg.__name__] += 1
        elif what == "call" and frame.f_code.co_filename.endswith(mine.get(frame.f_code.co_name, "\0")):
            found[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        step()
    finally:
        sys.setprofile(before)
    return found
