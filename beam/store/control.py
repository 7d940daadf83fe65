"""Requests to the process that holds an agent: files in `control/new`, answered by a `control.done` in the journal."""

import contextlib
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from beam.base import files
from beam.base.clock import parse_rfc3339
from beam.base.errors import CorruptError, DiskError, LimitError
from beam.base.faults import crash_point

Decided = Literal["approve", "amend", "deny"]
Forwarded = Literal["steer", "set", "query", "act"]
Asked = Literal[
    "interrupt",
    "drop",
    "retry",
    "edit",
    "reset",
    "select",
    "rewind",
    "close",
    "release",
    "pause",
    "resume",
    "settings",
]
Verb = Asked | Decided | Forwarded


class Control(Struct, frozen=True, kw_only=True):
    """One request.

    `target` is the id of its message (approve, deny: of the ask; select and rewind: of the session; reset, close,
    release, set, query and act: none). A request for something that is over or unknown is refused, never applied to
    another target. `expires` is RFC 3339 UTC; `text` depends on the verb: an edit's new text, a text for the running
    turn, `name=value` of a setting, the name of a question, an action as JSON (`name` and `given`), a denial's
    explanation for the agent, the adapter of a selected session, where a session goes back to (JSON), or the settings
    that were changed, as JSON. `always` belongs to approve and to set (for set: the agent's settings have the same
    value), `stop` to deny. The verb `amend` approves with another input, the JSON object in `text`; a holder that does
    not know this verb refuses it.
    """

    v: int = 1
    id: str
    verb: Verb
    sender: str = field(name="from", default="human")
    timestamp: str
    expires: str
    target: str | None = None
    text: str | None = None
    always: bool = False
    stop: bool = False


_MOST_BYTES = 16 << 20  # an edit's text is as long as a message's may be
_decoder = msgspec.json.Decoder(Control)


def publish(directory: Path, control: Control) -> None:
    """Write the request to disk, for whichever process holds the agent."""
    name = f"{control.id}.json"
    data = msgspec.json.encode(control) + b"\n"
    if len(data) > _MOST_BYTES:
        raise LimitError(
            f"the request to {control.verb} is {len(data)} bytes, the limit is {_MOST_BYTES}",
            "write the text to a file and name the file in the request",
        )
    files.publish(directory / "tmp" / name, directory / "new" / name, data)
    crash_point("control.published")


def waiting(directory: Path) -> list[str]:
    """Return the names of requests that were not answered yet, oldest first."""
    return [name for name in files.names(directory / "new") if name.endswith(".json")]


def read(directory: Path, name: str) -> Control | None:
    """Return the request; None if it is gone. Raises CorruptError."""
    try:
        control = _decoder.decode(files.read(directory / "new" / name, _MOST_BYTES))
        parse_rfc3339(control.expires)
        return control
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{directory / 'new' / name} is no request: {error}") from error


def remove(directory: Path, name: str) -> None:
    """Remove a request that was answered."""
    files.remove(directory / "new" / name)


def archive(directory: Path, name: str) -> None:
    """Remove an entry that is no request; if it is a directory, move it out of the way."""
    try:
        remove(directory, name)
    except DiskError:
        files.move(directory / "new" / name, directory / "tmp" / name)


def sweep(directory: Path, older_than_ns: int) -> None:
    """Remove what dead writers left in `tmp/` before that time (nanoseconds)."""
    for name in files.names(directory / "tmp"):
        with contextlib.suppress(OSError):
            if (directory / "tmp" / name).stat().st_mtime_ns < older_than_ns:
                (directory / "tmp" / name).unlink()
