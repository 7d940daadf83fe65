"""The prompt of a command line: arguments, files and stdin, in the order that docs/cli.md promises."""

from __future__ import annotations

import os
import stat
import sys
from typing import BinaryIO, Literal, cast, get_args

from msgspec import UNSET, UnsetType

from beam import Access, LimitError, NotFoundError, UsageError
from beam.cli.context import Context, is_terminal

_MOST_BYTES = 64 * 1024 * 1024  # far over any limit on prompts; a stream that goes on has no end


def read(words: list[str], paths: list[str], call: Context) -> str:
    """The prompt. With any word or file and no `-`, stdin is not touched. Invalid UTF-8 becomes U+FFFD, with a note."""
    parts: list[str] = []
    if not words and not paths:
        if is_terminal(sys.stdin):
            raise UsageError("there is no prompt", 'give a text: beam send AGENT "…", or -f FILE, or pipe one in')
        return _text(_stdin(), "stdin", call)
    spoken: list[str] = []
    for word in words:
        if word == "-":
            if spoken:
                parts.append(" ".join(spoken))
                spoken = []
            parts.append(_text(_stdin(), "stdin", call).rstrip("\n"))
        else:
            spoken.append(_text(os.fsencode(word), "the command line", call))
    if spoken:
        parts.append(" ".join(spoken))
    parts += [_file(path, call) for path in paths]
    if "-" not in words and _stdin_holds_data():
        call.note("stdin was not read; a `-` among the words stands for it")
    return "\n\n".join(parts)


def _stdin() -> bytes:
    if sys.stdin is None:
        return b""
    return bounded(sys.stdin.buffer, "stdin")


def bounded(stream: BinaryIO, name: str) -> bytes:
    """All of it, unless it is so long that it may have no end."""
    data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise LimitError(
            f"{name} holds more than {_MOST_BYTES} bytes", "put them into a file and name the file in the prompt"
        )
    return data


def _text(data: bytes, where: str, call: Context) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        call.note(f"{where} is not all UTF-8; what is not was replaced by U+FFFD")
        return data.decode("utf-8", "replace")


def _file(path: str, call: Context) -> str:
    try:
        with call.path(path).open("rb") as file:
            return _text(bounded(file, path), path, call).rstrip("\n")
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {path}", "give the path of a file here", subject=path) from error
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}", "", subject=path) from error


def _stdin_holds_data() -> bool:
    """A pipe with bytes in it, or a file that nobody has begun to read (a shell's `while read` has)."""
    try:
        found = os.fstat(0)
        if stat.S_ISFIFO(found.st_mode):
            import fcntl
            import termios

            waiting = bytearray(4)
            fcntl.ioctl(0, termios.FIONREAD, waiting)
            return any(waiting)
        return stat.S_ISREG(found.st_mode) and found.st_size > 0 and os.lseek(0, 0, os.SEEK_CUR) == 0
    except OSError:
        return False


def access(word: str | None) -> Access | None:
    """The access that a flag asks for."""
    if word is None or word in get_args(Access):
        return cast("Access | None", word)
    raise UsageError(f"--access {word}: there is no such access", f"one of {', '.join(get_args(Access))}", subject=word)


def require(word: str | None) -> Literal["structured"] | UnsetType:
    """The evidence that a flag asks for."""
    if word is None:
        return UNSET
    if word == "structured":
        return "structured"
    raise UsageError(f"--require {word}: there is no such evidence", "--require structured", subject=word)


def tolerate(word: str | None) -> Literal["denied"] | UnsetType:
    """The status that a flag takes for a success."""
    if word is None:
        return UNSET
    if word == "denied":
        return "denied"
    raise UsageError(f"--tolerate {word}: that can't be tolerated", "--tolerate denied", subject=word)


def schema(path: str | None, call: Context) -> str | None:
    """The JSON Schema of a file, checked to be a JSON object."""
    if path is None:
        return None
    import msgspec

    try:
        with call.path(path).open("rb") as file:
            data = bounded(file, path)
        if not isinstance(msgspec.json.decode(data), dict):
            raise UsageError(f"{path} is not a JSON object", "a JSON Schema is one", subject=path)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {path}", "give the path of a file here", subject=path) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}", "", subject=path) from error
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}", "", subject=path) from error
    return data.decode()
