"""The prompt of a command line: arguments, files and stdin, in the order that docs/cli.md promises."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar, get_args

from msgspec import UNSET, UnsetType

from beam import Access, LimitError, NotFoundError, UsageError
from beam.cli.context import Context
from beam.cli.parameters import group
from beam.cli.streams import is_terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from beam import Beam, Recording, RuleLists

T = TypeVar("T")

ACCESSES = get_args(Access)
MODES = ("auto", "dialogue", "exec", "terminal")
MAX_BYTES = 64 * 1024 * 1024  # far above any limit on prompts; a stream may be endless
_SHELLS = ("sh", "bash", "dash", "ash", "busybox", "ksh", "zsh")
_recorded = group("Recordings")
RECORD = _recorded(None, "--record", metavar="DIR", help="Record into this folder.")
REPLAY = _recorded(None, "--replay", metavar="DIR", help="Answer from this folder.")
DEPTH = _recorded(
    None,
    "--depth",
    metavar="WORDS",
    help="turn (default): a replay runs no agent and no tool. model: it runs the agent without its model. turn,model: "
    "record both.",
)
ON_MISS = _recorded(
    None,
    "--on-miss",
    metavar="WORD",
    help="What answers what was not recorded: nothing (stop, the default), the agent or its model (live), or the next "
    "recorded turn (nearest).",
)


def read(words: list[str], paths: list[str], call: Context, schema: str | None = None) -> str:
    """Return the prompt: the arguments `words`, the contents of the files `paths`, and what is piped in. `schema` is
    the path given to --schema; like the others it may be `-`, which stands for stdin.

    Without a `-`, the text on stdin comes last, if `_is_input` says that it is for this prompt. Raises UsageError if
    there is no prompt, if stdin would be read twice, or if stdin was to be read and holds only white space: nobody
    wants an empty diff reviewed. Invalid UTF-8 becomes U+FFFD, with a note on stderr.
    """
    wanted = [*words, *paths, schema].count("-")
    if wanted > 1:
        raise UsageError("`-` is given twice, and stdin can be read once", "put one of the texts into a file")
    parts: list[str] = []
    if not words and not paths:
        if wanted or is_terminal(sys.stdin):
            raise UsageError("there is no prompt", 'give one as an argument ("…"), as -f FILE, or on stdin')
        return read_stdin(call)
    spoken: list[str] = []
    for word in words:
        if word == "-":
            if spoken:
                parts.append(" ".join(spoken))
                spoken = []
            parts.append(_read_part("-", call))
        else:
            spoken.append(decode(os.fsencode(word), "the command line", call))
    if spoken:
        parts.append(" ".join(spoken))
    parts += [_read_part(path, call) for path in paths]
    if not wanted and not call.beam.is_agent and _is_input():
        text = read_stdin(call)
        if text.strip() or not _is_of_job():
            parts.append(_part_of_stdin(text))
    return "\n\n".join(parts)


def _read_part(path: str, call: Context) -> str:
    if path == "-":
        return _part_of_stdin(read_stdin(call))
    return decode(read_file(path, call), path, call).rstrip("\n")


def _part_of_stdin(text: str) -> str:
    """Return the text without the newlines at its end. Raises UsageError if it holds only white space."""
    if not text.strip():
        raise UsageError(
            "stdin ended without any text, so nothing was sent",
            "check the command before the pipe; use </dev/null if no text was to come",
        )
    return text.rstrip("\n")


def with_history(beam: Beam, text: str, agent: str | None, context: str | None, *, is_alone: bool) -> str:
    """Return the prompt `text` with the quoted history of `agent` below it. Raises UsageError if `agent` is None, or if
    `is_alone` is true, which means that the prompt must stay as it is. Raises NotFoundError for an agent without a
    history."""
    if agent is None:
        raise UsageError("--context is for --context-from", "add it, or leave --context out")
    if is_alone:
        raise UsageError(
            "--context-from and --slash or --key don't go together",
            "a command takes no history, and the prompt of a key must be the same each time",
        )
    history = beam.history(agent, context or "recent")  # type: ignore[arg-type]  # `history` rejects other words
    return f"{text}\n\n{history}" if text.strip() else text


def rule_lists(*, allow: list[str], ask: list[str], deny: list[str]) -> RuleLists | UnsetType:
    """Return the rules that these flags give, as they are written; UNSET if there are none."""
    if not (allow or ask or deny):
        return UNSET
    from beam import RuleLists

    return RuleLists(allow=tuple(allow), ask=tuple(ask), deny=tuple(deny))


def json_object(given: str, call: Context, *, what: str = "--input") -> str:
    """Return the text of a JSON object: `given` itself if it begins with `{`, else the content of the file `given`, or
    of stdin if `given` is `-`. Raises UsageError if this is not a JSON object."""
    import msgspec

    hint = "give the tool's whole input, as beam asks --json has it"
    text = decode(read_object(given, call), given, call)
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON: {error}", hint) from error
    if not isinstance(value, dict):
        raise UsageError(f"{what} is no JSON object", hint)
    return text


def read_object(given: str, call: Context) -> bytes:
    """Return the bytes of `given` if it begins with `{`, else of the file `given`, or of stdin if `given` is `-`."""
    return os.fsencode(given) if given.lstrip().startswith("{") else read_file(given, call)


def read_stdin(call: Context) -> str:
    """Return the text on stdin. Invalid UTF-8 becomes U+FFFD, with a note on stderr. Raises LimitError if there are
    more than 64 MiB."""
    return decode(_read_stdin(call), "stdin", call)


def _read_stdin(call: Context) -> bytes:
    if sys.stdin is None:
        return b""
    wait_for_text(call)
    return read_bounded(sys.stdin.buffer, "stdin")


def read_bounded(stream: BinaryIO, name: str) -> bytes:
    """Return the whole content of the stream. Raises LimitError if there are more than 64 MiB, because the stream may
    be endless."""
    data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise LimitError(
            f"{name} holds more than {MAX_BYTES} bytes", "write the text to a file and name the file in the prompt"
        )
    return data


def decode(data: bytes, where: str, call: Context) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        call.note(f"warning: {where} is not valid UTF-8; invalid bytes were replaced by U+FFFD")
        return data.decode("utf-8", "replace")


def read_file(path: str, call: Context) -> bytes:
    """Return the bytes of a file, or of stdin for `-`. Raises NotFoundError, UsageError, LimitError."""
    if path == "-":
        return _read_stdin(call)
    try:
        with call.path(path).open("rb") as file:
            return read_bounded(file, path)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {path}", "check the path", subject=path) from error
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}", "", subject=path) from error


def _is_input() -> bool:
    """Return whether the text on stdin is for the prompt, though nobody wrote `-`: stdin is a pipe, a file of which
    nothing was read yet, or a socket that holds data. A file of which a part was read belongs to the loop around beam
    (`while read`); an agent's process, an editor or an SSH connection may keep a socket open and never write to it."""
    try:
        if _kind(stat.S_ISSOCK):
            return _unread_bytes() > 0
        return _kind(stat.S_ISFIFO) or (_kind(stat.S_ISREG) and os.lseek(sys.stdin.fileno(), 0, os.SEEK_CUR) == 0)
    except OSError:
        return False


def _is_of_job() -> bool:
    """Return whether stdin is a pipe that a program which is no shell gave to a whole script, as GitHub's runner does
    for each step. The pipe of `git diff | beam …` has a shell above the processes that share it."""
    process, is_shared = Path(f"/proc/{os.getppid()}"), False
    try:
        own = os.fstat(sys.stdin.fileno())
        while stat.S_ISFIFO(own.st_mode) and os.path.samestat((process / "fd/0").stat(), own):
            is_shared = True
            fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
            process = process.with_name(fields[1].decode())
        return is_shared and (process / "comm").read_text(errors="replace").strip() not in _SHELLS
    except OSError:
        return False


def _kind(is_kind: Callable[[int], bool]) -> bool:
    try:
        return is_kind(os.fstat(sys.stdin.fileno()).st_mode)
    except (AttributeError, OSError):  # it is closed
        return False


def _unread_bytes() -> int:
    import fcntl
    import termios

    found = bytearray(4)
    fcntl.ioctl(sys.stdin.fileno(), termios.FIONREAD, found)
    return int.from_bytes(found, sys.byteorder)


def wait_for_text(call: Context) -> None:
    """Return as soon as stdin can be read. After two seconds of an open pipe, tell the person what beam waits for, and
    return."""
    if not _kind(stat.S_ISFIFO) and not _kind(stat.S_ISSOCK):
        return
    import select

    first = select.poll()
    first.register(sys.stdin.fileno(), select.POLLIN)
    if not first.poll(2000):
        call.note("waiting for stdin (</dev/null if nothing comes)")


def parse_word(name: str, word: str | None, known: tuple[T, ...]) -> T | None:
    """Return the value of the option `name`, which is one of the `known` words; None if the option was not given.
    Raises UsageError for any other word."""
    for each in known:
        if word == each:
            return each
    if word is None:
        return None
    raise UsageError(f"{name} {word}: unknown word", f"{name} {'|'.join(map(str, known))}", subject=word)


def check_slash(text: str) -> bool:
    """Return True if the text is a slash command. Raises UsageError for any other text."""
    if text.startswith("/") and text[1:].strip():
        return True
    raise UsageError(f"{text[:80]!r} is no slash command", "for example: beam send claude --slash /compact")


def parse_recording(
    call: Context, record: str | None, replay: str | None, depth: str | None, on_miss: str | None
) -> Recording:
    """Return the value of --record, --replay, --depth and --on-miss; one without a folder if none was given.

    Raises UsageError for an unknown value, and for --depth or --on-miss alone.
    """
    from beam import Recording, messages

    if record is None and replay is None:
        for name, word in (("--depth", depth), ("--on-miss", on_miss)):
            if word is not None:
                raise UsageError(f"{name} is for --record DIR and --replay DIR", f"add one, or leave {name} out")
    return Recording(
        record="" if record is None else str(call.path(record)),
        replay="" if replay is None else str(call.path(replay)),
        depth=parse_word("--depth", depth, get_args(messages.Depth)) or "turn",
        on_miss=parse_word("--on-miss", on_miss, get_args(messages.OnMiss)) or "stop",
    )


_SHORT_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_SHORT_FIELD = r"([A-Za-z_]\w*)(?:\s+(\w+))?\s*(?::\s*(.*))?"


def short_schema(text: str) -> dict[str, object]:
    """Return the JSON Schema that a text in short form stands for: fields with a type each, separated by commas or
    lines (`name str, age int`). A field without a type is a text, and `: …` after it describes it. Raises UsageError
    for any other text."""
    fields: dict[str, dict[str, str]] = {}
    for part in filter(None, map(str.strip, text.split("\n" if "\n" in text.strip() else ","))):
        found = re.fullmatch(_SHORT_FIELD, part.rstrip(","))
        kind = _SHORT_TYPES.get((found and found[2]) or "str")
        if found is None or kind is None:
            what = f"--schema: {part[:80]!r} is neither a file nor a field with a type"
            raise UsageError(what, f"write it like 'name str, age int'; types are {', '.join(_SHORT_TYPES)}")
        fields[found[1]] = {"type": kind, **({"description": found[3]} if found[3] else {})}
    if not fields:
        raise UsageError("--schema names no field", "write it like 'name str, age int'")
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def read_schema(path: str | None, call: Context) -> str | None:
    """Return the JSON Schema in the file `path`, or on stdin if `path` is `-`; None without a path. In place of a file
    `path` may be a schema in short form, such as `name str, age int`. Raises UsageError if the schema is not a JSON
    object."""
    if path is None:
        return None
    import msgspec

    if re.search(r"[\s,:]", path) and not os.path.exists(call.path(path)):  # noqa: PTH110 - pathlib's raises for a name that can't be
        return msgspec.json.encode(short_schema(path)).decode()
    data = read_file(path, call)
    try:
        if not isinstance(msgspec.json.decode(data), dict):
            raise UsageError(f"{path} is not a JSON object", "a JSON Schema is one", subject=path)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}", "", subject=path) from error
    return data.decode()
