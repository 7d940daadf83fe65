"""The handler of all errors: it prints one line on stderr, with `--json` also one object on stdout, and returns the
exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from beam import BeamError, ExitCode, SignalledError, nearest
from beam.cli import streams
from beam.cli.render.text import safe, write, write_json

_SIGPIPE = 13
_EXTRA_ARGUMENT_TEXT = "Got unexpected extra argument(s) ("  # the beginning of Typer's message
_DISK_FULL_CODES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class ErrorBody(Struct, frozen=True, kw_only=True):
    """What went wrong. `kind` is a stable identifier; `subject` names the thing; `hint` is the next step."""

    exit_code: int
    kind: str
    message: str
    hint: str = ""
    subject: str = ""


class ErrorObject(Struct, frozen=True, kw_only=True):
    """The one object on stdout with `--json` if there is no outcome."""

    v: int = 1
    error: ErrorBody


def handle(error: BaseException, argv: list[str]) -> int:
    """Report the error and return the exit code. If a signal, ^C or a closed stdout pipe caused the error, end the
    process by that signal."""
    match error:
        case SystemExit():
            return error.code if isinstance(error.code, int) else 1
        case BrokenPipeError():
            streams.drop_stdout()
            return die_by_signal(_SIGPIPE)
        case SignalledError():
            if error.outcome is None:
                report(_body_of_beam_error(error, 128 + error.number), argv)
            return die_by_signal(error.number)
        case KeyboardInterrupt():
            return die_by_signal(2)
    typer = sys.modules.get("typer")  # if Typer was not imported, it did not raise the error
    if typer is not None and isinstance(error, typer.Exit):
        return int(error.exit_code)
    if typer is not None and isinstance(error, typer.Abort):
        return die_by_signal(2)
    body = body_of(error) or _body_of_broken_text(error, argv)
    return report(body if body is not None else _body_of_bug(error), argv)


def body_of(error: BaseException) -> ErrorBody | None:
    """Return the error as it is reported; None for an unexpected exception (a bug)."""
    match error:
        case BeamError():
            return _body_of_beam_error(error, int(error.exit_code))
        case MemoryError():
            hint = "try it again when less runs, with a smaller message or file, or with a higher limit (ulimit -v)"
            return ErrorBody(
                exit_code=int(ExitCode.FAILED), kind="memory", message="beam got no more memory", hint=hint
            )
        case OSError() if error.errno is not None:
            name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
            unnamed = "can't write to stdout" if error.errno in _DISK_FULL_CODES else "a stream of this command"
            where = name or unnamed  # not stderr: a failure to write there is ignored
            return ErrorBody(
                exit_code=int(ExitCode.DISK), kind="disk", message=f"{where}: {error.strerror}", subject=name
            )
    typer = sys.modules.get("typer")
    return _body_of_usage_error(error) if typer is not None and isinstance(error, typer.TyperException) else None


def _body_of_broken_text(error: BaseException, argv: list[str]) -> ErrorBody | None:
    """Return the error for an argument that is not UTF-8 and was written where only text can be; None for any other
    error."""
    if not isinstance(error, UnicodeEncodeError):
        return None
    word = next((word for word in argv if _escaped(word) != word), None)
    if word is None:
        return None
    message = f"{word[:80]!r} is not valid UTF-8, and only text can be used here"
    return ErrorBody(
        exit_code=int(ExitCode.USAGE), kind="usage", message=message, hint="use plain text", subject=word[:80]
    )


def _body_of_beam_error(error: BeamError, code: int) -> ErrorBody:
    return ErrorBody(exit_code=code, kind=error.kind, message=error.message, hint=error.hint, subject=error.subject)


def report(body: ErrorBody, argv: list[str]) -> int:
    """Print the error and return its exit code. A failure to print does not replace the error."""
    body = msgspec.structs.replace(
        body,
        message=_escaped(body.message),
        hint=_escaped(body.hint),
        subject=_escaped(body.subject),
    )
    with contextlib.suppress(OSError, ValueError):
        if wants_json(argv):
            write_json(ErrorObject(error=body))
            sys.stdout.flush()
    complain(f"{body.message}; {body.hint}" if body.hint else body.message)
    return body.exit_code


def complain(text: str, rows: Sequence[str] = ()) -> None:
    """Print one line on stderr that begins with `beam:`, and below it the quoted `rows`. An error while printing is
    ignored."""
    lines = [f"beam: {text}", *(f"    | {row}" for row in rows)]
    if os.environ.get("GITHUB_ACTIONS") == "true":  # its runner executes old commands anywhere in a line
        lines = [line.replace("##[", "##\u200b[") for line in lines]
    with contextlib.suppress(OSError, ValueError):
        write(sys.stderr, "".join(safe(line, sys.stderr).replace("\n", " ") + "\n" for line in lines))
        sys.stderr.flush()


def wants_json(argv: list[str]) -> bool:
    """Return whether the command line, which may be invalid, asks for JSON with `--json` or `--events`."""
    options = argv[: argv.index("--")] if "--" in argv else argv
    return "--json" in options or "--events" in options


def _escaped(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _body_of_usage_error(error: Any) -> ErrorBody:
    """Return the error for an invalid command line.

    Typer's exceptions are recognised by their attributes, because their classes have no public name.
    """
    message = error.format_message().rstrip(".")
    hint = getattr(error, "hint", "") or "beam --help"
    if not getattr(error, "hint", "") and getattr(error, "ctx", None) is not None:
        hint = f"{error.ctx.command_path} --help"
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        from beam.cli.habits import known_agents, suggest_option

        nearest_option = nearest(option, error.possibilities or ())
        message = f"no such option: {option}"
        dash = f"to send text that begins with a dash, put `--` before it; options: {hint}"
        path = getattr(getattr(error, "ctx", None), "command_path", None)
        known = known_agents(error.ctx) if path is not None else ()
        instead = suggest_option(path, option, sys.argv[1:], known) if path is not None else None
        hint = instead or (f"did you mean {nearest_option}?" if nearest_option else dash)
    if getattr(error, "ctx", None) is not None and message.startswith(_EXTRA_ARGUMENT_TEXT):
        from beam.cli.habits import suggest_for_extra_words

        hint = (
            suggest_for_extra_words(error.ctx.command_path, error.ctx.params, message[len(_EXTRA_ARGUMENT_TEXT) : -1])
            or hint
        )
    return ErrorBody(exit_code=int(ExitCode.USAGE), kind="usage", message=message[:1].lower() + message[1:], hint=hint)


def die_by_signal(number: int) -> int:
    """Flush the output, then end this process by the signal `number`. If the process survives the signal, return 128 +
    `number`."""
    import signal

    for stream, drop in ((sys.stdout, streams.drop_stdout), (sys.stderr, None)):
        try:
            stream.flush()
        except OSError:
            if drop is not None:
                drop()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def _body_of_bug(error: BaseException) -> ErrorBody:
    import tempfile
    import traceback

    from beam import __version__, redact

    text, _ = redact("".join(traceback.format_exception(error)))
    what = f"a bug in beam: {type(error).__name__}: {redact(str(error))[0][:200]}"
    code = int(ExitCode.BUG)
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="beam-bug-", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
        ) as file:
            file.write(f"beam {__version__}, Python {sys.version}\n{text}")
    except OSError as trouble:
        position = text.strip().splitlines()[-2].strip() if text.count("\n") > 1 else ""
        hint = f"its traceback could not be written ({trouble.strerror}); it was at {position}"
        return ErrorBody(exit_code=code, kind="bug", message=what, hint=hint)
    return ErrorBody(
        exit_code=code, kind="bug", message=what, hint=f"the traceback is in {file.name}", subject=file.name
    )
