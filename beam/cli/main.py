"""The process: its three streams, the one answer that needs no parser of command lines, and its exit.

Everything that goes wrong below comes up here and nowhere else.
"""

from __future__ import annotations

import gc
import sys

_GC_THRESHOLD = 100_000  # objects; at 700 the collector takes a tenth of a short command's time and finds nothing


def run(argv: list[str]) -> int:
    """Runs one command line; its exit code."""
    if argv == ["--version"]:
        from beam import __version__

        sys.stdout.write(f"beam {__version__}\n")
        return 0
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    try:
        from beam.cli import app

        return app.run(argv)
    except BaseException as error:  # noqa: BLE001 - the one handler; a bug's traceback goes into a file
        from beam.cli import errors

        return errors.handle(error, argv)


def main() -> None:
    """The console script."""
    from beam.cli import streams

    gc.set_threshold(_GC_THRESHOLD, 20, 100)
    streams.prepare()
    argv = sys.argv[1:]
    code = run(argv)
    try:
        sys.stdout.flush()
    except OSError as error:
        from beam.cli import errors

        code = errors.handle(error, argv) if code == 0 or isinstance(error, BrokenPipeError) else code
        streams.drop_stdout()
    raise SystemExit(code)
