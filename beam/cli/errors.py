"""The one handler of errors: one line on stderr, or one JSON object on stdout, and the right exit code."""

from __future__ import annotations

import os
import sys

from typer._click import exceptions  # typer carries its own click; the one on PyPI would be a second one
import msgspec
import typer
from msgspec import Struct

from beam.errors import BeamError, ExitCode, SignalledError
from beam.cli.render.text import safe, write


class ErrorBody(Struct, frozen=True, kw_only=True):
    """What went wrong. `kind` is a stable word; `subject` the name of the thing; `hint` the next step."""

    exit_code: int
    kind: str
    message: str
    hint: str = ""
    subject: str = ""


class ErrorObject(Struct, frozen=True, kw_only=True):
    """The one object on stdout with `--json`, when there is no outcome."""

    v: int = 1
    error: ErrorBody


def handle(error: BaseException, argv: list[str]) -> int:
    """Says the error where it belongs; the exit code. A signal's own error is raised again as that signal."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, BrokenPipeError):
        return broken_pipe()
    if isinstance(error, SignalledError):
        return _signal(error.number)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return _signal(2)
    if isinstance(error, BeamError):
        return report(
            ErrorBody(
                exit_code=int(error.exit_code),
                kind=error.kind,
                message=error.message,
                hint=error.hint,
                subject=error.subject,
            ),
            argv,
        )
    if isinstance(error, exceptions.ClickException):
        return report(_usage(error), argv)
    if isinstance(error, OSError) and error.errno is not None:
        message = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
        return report(ErrorBody(exit_code=int(ExitCode.DISK), kind="disk", message=message), argv)
    return _bug(error, argv)


def report(body: ErrorBody, argv: list[str]) -> int:
    """Prints the error; its exit code."""
    if "--json" in argv or "--events" in argv:
        sys.stdout.write(msgspec.json.encode(ErrorObject(error=body)).decode() + "\n")
    else:
        hint = f"; {body.hint}" if body.hint else ""
        write(sys.stderr, safe(f"beam: {body.message}{hint}", sys.stderr).replace("\n", " ") + "\n")
    return body.exit_code


def _usage(error: exceptions.ClickException) -> ErrorBody:
    message = error.format_message().rstrip(".")
    hint = ""
    if isinstance(error, exceptions.UsageError) and error.ctx is not None:
        hint = f"{error.ctx.command_path} --help"
    if isinstance(error, exceptions.NoSuchOption):
        hint = f"a text that begins with a dash comes after `--`; {hint}"
    return ErrorBody(exit_code=int(ExitCode.USAGE), kind="usage", message=message[:1].lower() + message[1:], hint=hint)


def broken_pipe() -> int:
    """Whoever read stdout is gone: end as a program that never heard of Python would."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return _signal(13)


def _signal(number: int) -> int:
    import signal

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def _bug(error: BaseException, argv: list[str]) -> int:
    import tempfile
    import traceback

    from beam import __version__
    from beam.redact import redact

    text, _ = redact("".join(traceback.format_exception(error)))
    with tempfile.NamedTemporaryFile(
        "w", prefix="beam-bug-", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
    ) as file:
        file.write(f"beam {__version__}, Python {sys.version}\n{text}")
    return report(
        ErrorBody(
            exit_code=int(ExitCode.BUG),
            kind="bug",
            message=f"a bug in beam: {type(error).__name__}: {str(error)[:200]}",
            hint=f"the traceback is in {file.name}",
            subject=file.name,
        ),
        argv,
    )
