"""Requests to the process that holds an agent, and its open permission requests, as files.

A control request is a file in `control/new`, and is answered by a `control.done` event in the journal. An open
permission request (an ask) is a file `asks/<id>.json`, a cache for people to read. If a file and the journal differ,
the journal is right.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from beam.base import files
from beam.base.clock import parse_rfc3339
from beam.base.errors import CorruptError, DiskError, LimitError
from beam.base.faults import crash_point
from beam.model import events
from beam.model.events import Event, PermissionAsked
from beam.model.message import ID

ASK_EVENTS = (PermissionAsked, events.PermissionDecided)


def update_ask_files(directory: Path, event: Event) -> None:
    """Update the files of the asks after this event, one of ASK_EVENTS, was written to the journal."""
    match event:
        case events.PermissionAsked():
            crash_point("ask.recorded")
            _write_ask(directory, event)
            crash_point("ask.shown")
        case events.PermissionDecided():
            crash_point("decision.recorded")
            _remove_ask(directory, f"{event.ask_id}.json")
            crash_point("decision.shown")


def rebuild_ask_files(directory: Path, open_asks: Mapping[str, PermissionAsked]) -> None:
    """Write the files of these open asks, and remove all other files from the directory."""
    wanted = {f"{ask_id}.json" for ask_id in open_asks}
    found = set(files.names(directory))
    for name in found - wanted:
        _remove_ask(directory, name)
    for ask in open_asks.values():
        if f"{ask.ask_id}.json" not in found:
            _write_ask(directory, ask)


def _write_ask(directory: Path, asked: PermissionAsked) -> None:
    if ID.match(asked.ask_id):
        with contextlib.suppress(DiskError):  # the turn goes on without its file: `beam asks` reads the journal
            files.replace(directory / f"{asked.ask_id}.json", msgspec.json.encode(asked) + b"\n")


def _remove_ask(directory: Path, name: str) -> None:
    with contextlib.suppress(DiskError):
        files.remove(directory / name)


DecisionVerb = Literal["approve", "amend", "deny"]
ForwardedVerb = Literal["steer", "set", "query", "act"]
HolderVerb = Literal[
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
Verb = HolderVerb | DecisionVerb | ForwardedVerb


class ControlRequest(Struct, frozen=True, kw_only=True):
    """One request to the process that holds an agent.

    `target` is an id, depending on `verb`: the id of the message (interrupt, drop, retry, edit, steer), of the ask
    (approve, amend, deny) or of the session (select, rewind); the other verbs have no target. A request whose target is
    over or unknown is refused, and never applied to another target. `expires` is RFC 3339 UTC. `text` also depends on
    the verb: an edit's new text, a text for the running turn, `name=value` of a setting, the name of a question, an
    action as JSON (`name` and `given`), a denial's explanation for the agent, the adapter of a selected session, the
    place to which a session is rewound (JSON), or the changed settings as JSON. `always` is used by approve and set
    (set: the agent's settings have the same value), `stop` by deny. The verb `amend` approves with another input, the
    JSON object in `text`; a holder that does not know this verb refuses the request.
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


_MAX_BYTES = 16 << 20  # the text of an edit may be as long as that of a message
_decoder = msgspec.json.Decoder(ControlRequest)


def publish(directory: Path, control: ControlRequest) -> None:
    """Write the request to disk, where the process that holds the agent finds it. Raises LimitError if the request is
    too large."""
    name = f"{control.id}.json"
    data = msgspec.json.encode(control) + b"\n"
    if len(data) > _MAX_BYTES:
        raise LimitError(
            f"the request to {control.verb} is {len(data)} bytes, the limit is {_MAX_BYTES}",
            "write the text to a file and name the file in the request",
        )
    files.publish(directory / "tmp" / name, directory / "new" / name, data)
    crash_point("control.published")


def waiting_names(directory: Path) -> list[str]:
    """Return the names of the requests that are not answered yet, oldest first."""
    return [name for name in files.names(directory / "new") if name.endswith(".json")]


def read(directory: Path, name: str) -> ControlRequest | None:
    """Return the request; None if its file is gone. Raises CorruptError if the file is not a request."""
    try:
        control = _decoder.decode(files.read(directory / "new" / name, _MAX_BYTES))
        parse_rfc3339(control.expires)
        return control
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{directory / 'new' / name} is no request: {error}") from error


def remove(directory: Path, name: str) -> None:
    """Remove a request that was answered."""
    files.remove(directory / "new" / name)


def remove_invalid(directory: Path, name: str) -> None:
    """Remove an entry that is not a request. If it can't be removed, because it is a directory, move it to `tmp/`."""
    try:
        remove(directory, name)
    except DiskError:
        files.move(directory / "new" / name, directory / "tmp" / name)


def sweep(directory: Path, older_than_ns: int) -> None:
    """Remove files in `tmp/` that are older than that time (nanoseconds): writers that died left them."""
    for name in files.names(directory / "tmp"):
        with contextlib.suppress(OSError):
            if (directory / "tmp" / name).stat().st_mtime_ns < older_than_ns:
                (directory / "tmp" / name).unlink()
