"""The process's three standard streams, in whatever state its parent left them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def prepare() -> None:
    """Open the standard streams that the parent closed, and set the encodings of stdout and stderr. Change the umask if
    it takes rights from the owner.

    A file that beam opens later thus never gets a standard descriptor. Text for a pipe is UTF-8 in any locale; text for
    a terminal is ASCII if the locale allows nothing else. A closed stdout is replaced by one that can't be written, so
    that the loss of the answer is reported as an error. With a umask that takes rights from the owner, beam and its
    agents could not read their own files.
    """
    umask = os.umask(0o077)
    os.umask(umask & 0o077)
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            _open_dev_null(number, mode)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115 - it lives as long as the process
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    if is_ascii(os.environ) and is_terminal(sys.stderr) and hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(encoding="ascii", errors="backslashreplace")
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is None:
        return
    if not sys.stdout.isatty():
        reconfigure(encoding="utf-8", errors="replace")
    elif is_ascii(os.environ):
        reconfigure(encoding="ascii", errors="backslashreplace")


def is_ascii(environ: Mapping[str, str]) -> bool:
    """Return whether the encoding of the locale is ASCII (the locale is C or POSIX). Python itself treats the C locale
    as UTF-8 and sets LC_CTYPE to C.UTF-8; that value is ignored."""
    coerced = environ.get("LC_CTYPE") == "C.UTF-8" and not environ.get("LC_ALL")
    names = ("LC_ALL", "LANG") if coerced else ("LC_ALL", "LC_CTYPE", "LANG")
    return next((environ[name] for name in names if environ.get(name)), "") in ("C", "POSIX")


def is_interactive(*streams: object) -> bool:
    """Return whether a person uses all these streams: all are terminals, and this process is not part of a CI job."""
    return all(is_terminal(stream) for stream in streams) and os.environ.get("CI", "") in ("", "0", "false")


def is_colourful(stream: object) -> bool:
    """Return whether colours may be written to the stream: it is a terminal, NO_COLOR is not set, TERM is not `dumb`,
    and this process is not part of a CI job."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
    return is_interactive(stream) and not plain


def is_terminal(stream: object) -> bool:
    """Return whether the stream is a terminal, which would interpret escape sequences."""
    try:
        return os.isatty(stream.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False


def drop_stdout() -> None:
    """Discard what is buffered for stdout, by opening /dev/null in its place. Thus the flush at the exit can't fail."""
    _open_dev_null(1, os.O_WRONLY)


def _open_dev_null(number: int, mode: int) -> None:
    """Open /dev/null with the descriptor `number`. `mode` contains the flags of `os.open`."""
    opened = os.open(os.devnull, mode)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    else:
        os.set_inheritable(number, True)
