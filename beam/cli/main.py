"""The process: its three streams, the one answer that needs no command line parser, and its exit.

Every error below this module ends up here and nowhere else.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_GC_THRESHOLD = 100_000  # objects; with 700 collecting takes a tenth of a short command's time and finds nothing


def run(argv: list[str]) -> int:
    """Run one command line and return its exit code."""
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    try:
        if argv == ["--version"]:
            from beam import __version__

            sys.stdout.write(f"beam {__version__}\n")
            return 0
        result = _command(argv)()
        return result if isinstance(result, int) else 0
    except BaseException as error:  # noqa: BLE001 - the one handler; a bug's traceback goes into a file
        from beam.cli import errors

        return errors.handle(error, argv)


def _command(argv: list[str]) -> Callable[[], object]:
    """Import and return what runs a command line. ^C meanwhile ends the process: nothing has begun yet."""
    import signal

    quietly = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if quietly:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        _import_msgspec()
        from beam.cli import errors, plain  # noqa: F401 - what an error needs is there before one can come

        found = plain.command(argv)
        if found is None:
            from beam.cli import app

            return lambda: app.run(argv)
        return found
    finally:
        if quietly:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _import_msgspec() -> None:
    """Import msgspec without `typing_extensions`: all that msgspec takes from there is in `typing` since Python 3.11.

    It would import `inspect` as well: 8 ms of CPU, which is a tenth of a short command.
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


def main() -> NoReturn:
    """Run as the console script. Skips the interpreter's shutdown, which takes 15 ms of CPU to free memory."""
    code = answer()
    try:  # noqa: SIM105 - contextlib would be imported for it
        sys.stderr.flush()
    except OSError:
        pass  # nobody is left to be told
    os._exit(code)


def answer() -> int:
    """Run this process's command line, flush stdout and return the exit code."""
    from beam.cli import streams

    gc.set_threshold(_GC_THRESHOLD, 20, 100)
    if sys.platform == "linux":  # elsewhere `beam watch` imports watchfiles, and that anyio, which may need it
        # asyncio would load OpenSSL (5 ms, 3 MB). Only `beam notify test` speaks TLS, and no command runs foreign
        # code in this process.
        sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]
    streams.prepare()
    argv = sys.argv[1:]
    code = run(argv)
    try:
        sys.stdout.flush()
    except OSError as error:
        from beam.cli import errors

        code = errors.handle(error, argv) if code == 0 or isinstance(error, BrokenPipeError) else code
        streams.drop_stdout()
    return code
