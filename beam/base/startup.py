"""Starts and ends one of beam's own processes cheaply: a command, a worker. CPU time, measured with Python 3.11.

Imports nothing but `gc`, `os` and `sys`, before anything else does.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SHORT = 100_000, 20, 100  # objects; with 700 collecting takes a tenth of a short command's time and finds nothing
_LONG = 2_000, 10, 10  # those of a short command would let what is garbage lie for days


def prepare() -> None:
    """Collect garbage seldom, and keep asyncio from loading OpenSSL (5 ms, 3 MB): see `allow_tls`.

    Only on Linux: elsewhere `beam watch` imports watchfiles, which imports anyio, which may need OpenSSL.
    """
    gc.set_threshold(*_SHORT)
    if sys.platform == "linux":
        sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]


def allow_tls() -> None:
    """Let this process import `ssl`: it is about to speak TLS, or to import an adapter of another package."""
    if sys.modules.get("ssl", sys) is None:
        del sys.modules["ssl"]


def stay() -> None:
    """Collect garbage as a long process needs it. Objects that exist by now are left out: they stay in use."""
    gc.freeze()
    gc.set_threshold(*_LONG)


def import_msgspec() -> None:
    """Import msgspec without `typing_extensions`: all that msgspec takes from there is in `typing` since Python 3.11.

    It would import `inspect` as well: 8 ms, which is a tenth of a short command.
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


def leave(code: int) -> NoReturn:
    """End the process without the interpreter's shutdown, which takes 15 ms to free memory. Flushes stderr only."""
    try:  # noqa: SIM105 - contextlib would be imported for it
        sys.stderr.flush()
    except OSError:
        pass  # nobody is left to be told
    os._exit(code)
