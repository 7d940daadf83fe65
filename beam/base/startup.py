"""Starts and ends one of beam's own processes (a command or a worker) cheaply. The times in this file are CPU times,
measured with Python 3.11.

This module is imported before all others, and itself imports only `gc`, `os` and `sys`.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

# Objects. With Python's own 700, collecting takes a tenth of a short command's time and finds nothing.
_SHORT_RUN_THRESHOLDS = 100_000, 20, 100
_LONG_RUN_THRESHOLDS = 2_000, 10, 10  # with the thresholds of a short command, garbage would stay in memory for days


def prepare() -> None:
    """Say that the process is beam's own, and collect garbage seldom. On Linux, also keep asyncio from loading OpenSSL
    (5 ms, 3 MB) until `allow_tls` is called.

    On other systems `beam watch` imports watchfiles, which imports anyio, which may need OpenSSL.
    """
    from beam.base import own_program

    own_program.is_own_process()
    gc.set_threshold(*_SHORT_RUN_THRESHOLDS)
    if sys.platform == "linux":
        sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]


def allow_tls() -> None:
    """Let this process import `ssl` from now on. This is called before the process speaks TLS, or imports an adapter of
    another package."""
    if sys.modules.get("ssl", sys) is None:
        del sys.modules["ssl"]


def prepare_long_run() -> None:
    """Collect garbage as often as a long-lived process needs. Objects that exist already are never collected, because
    they stay in use."""
    gc.freeze()
    gc.set_threshold(*_LONG_RUN_THRESHOLDS)


def import_msgspec() -> None:
    """Import msgspec without `typing_extensions`. All names that msgspec takes from there are in `typing` since Python
    3.11.

    `typing_extensions` would also import `inspect`: 8 ms, which is a tenth of a short command.
    """
    name = "typing_extensions"
    is_hidden = name not in sys.modules
    if is_hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        if is_hidden:
            del sys.modules[name]


def exit_fast(code: int) -> NoReturn:
    """End the process without the interpreter's shutdown, which takes 15 ms to free memory. Flushes stderr only."""
    try:  # noqa: SIM105 - contextlib would be imported for it
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads stderr any more
    os._exit(code)
