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


def prepare(*, speaks_tls: bool = False) -> None:
    """Collect garbage seldom, and keep OpenSSL out of asyncio unless this process `speaks_tls`.

    asyncio would load it (5 ms, 3 MB). No process of beam's runs foreign code, so nothing else can want it. Elsewhere
    than on Linux `beam watch` imports watchfiles, and that anyio, which may need it.
    """
    gc.set_threshold(*_SHORT)
    if sys.platform == "linux" and not speaks_tls:
        sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]


def stay() -> None:
    """Collect garbage as suits a process that stays: what is there by now is never looked at again."""
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
