"""The process of the command line: it sets up the standard streams, answers `--version` without a command line parser,
runs the command and exits.

Every error of a command is handled here and nowhere else.
"""

from __future__ import annotations

import sys

from beam.base import own_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def run(argv: list[str]) -> int:
    """Run one command line and return its exit code."""
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    try:
        if argv == ["--version"]:
            from beam import __version__

            sys.stdout.write(f"beam {__version__}\n")
            return 0
        result = _import_command(argv)()
        return result if isinstance(result, int) else 0
    except BaseException as error:  # noqa: BLE001 - the one handler; a bug's traceback goes into a file
        from beam.cli import errors

        return errors.handle(error, argv)


def _import_command(argv: list[str]) -> Callable[[], object]:
    """Import and return the function that runs a command line. ^C during the import ends the process immediately,
    because no work has begun yet."""
    import signal

    quietly = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if quietly:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        own_program.import_msgspec()
        from beam.cli import commands

        found = commands.command(argv)
        if found is None:
            from beam.cli import app

            return lambda: app.run(argv)
        return found
    finally:
        if quietly:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> NoReturn:
    """Run this process's command line and exit. This is the console script `beam`."""
    own_program.exit_fast(run_and_flush())


def run_and_flush() -> int:
    """Run this process's command line, flush stdout and return the exit code."""
    from beam.cli import streams

    own_program.prepare()
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
