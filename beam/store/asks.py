"""Open permission requests (asks) as files `asks/<id>.json`, a cache for people to read. If a file and the journal
differ, the journal is right."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from beam.base import files
from beam.base.errors import DiskError
from beam.base.faults import crash_point
from beam.model import events
from beam.model.events import Event, PermissionAsked
from beam.model.message import ID

ASK_EVENTS = (PermissionAsked, events.PermissionDecided, events.PermissionCancelled)


def update_files(directory: Path, event: Event) -> None:
    """Update the files after this event was written to the journal. The type of the event is one of ASK_EVENTS."""
    match event:
        case events.PermissionAsked():
            crash_point("ask.recorded")
            _write(directory, event)
            crash_point("ask.shown")
        case events.PermissionDecided() | events.PermissionCancelled():
            crash_point("decision.recorded")
            _remove(directory, f"{event.ask_id}.json")
            crash_point("decision.shown")


def rebuild(directory: Path, open_asks: Mapping[str, PermissionAsked]) -> None:
    """Write the files of these open asks, and remove all other files from the directory."""
    wanted = {f"{ask_id}.json" for ask_id in open_asks}
    found = set(files.names(directory))
    for name in found - wanted:
        _remove(directory, name)
    for ask in open_asks.values():
        if f"{ask.ask_id}.json" not in found:
            _write(directory, ask)


def _write(directory: Path, asked: PermissionAsked) -> None:
    if ID.match(asked.ask_id):
        with contextlib.suppress(DiskError):  # the turn goes on without its file: `beam asks` reads the journal
            files.replace(directory / f"{asked.ask_id}.json", msgspec.json.encode(asked) + b"\n")


def _remove(directory: Path, name: str) -> None:
    with contextlib.suppress(DiskError):
        files.remove(directory / name)
