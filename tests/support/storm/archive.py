"""Every event that was ever in a journal of the root, also of segments and lanes that `doctor --gc` removed since."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from tests.support.storm.place import Place, names

Event = dict[str, Any]
_LOOK_S = 0.25
OLD_S = 5  # what gc may remove is at least as old: long seen by then


class Archive(threading.Thread):
    """Keeps each segment open from when it appears, and reads it whole in the end or once another follows it."""

    def __init__(self, place: Place) -> None:
        super().__init__(daemon=True)
        self.place = place
        self.kept = place.beam.base / "archive"
        self._seen: dict[Path, Path] = {}
        self._open: dict[Path, Any] = {}
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        for box in self.place.boxes():
            journal = box.folder / "journal"
            found = [name for name in names(journal) if name.endswith(".jsonl") and not name.startswith(".")]
            for number, name in enumerate(found):
                path = journal / name
                if path not in self._seen:
                    try:
                        self._open[path] = path.open("rb")
                    except FileNotFoundError:
                        continue
                    self._seen[path] = self.kept / box.folder.relative_to(self.place.beam.root / "agents") / name
                if path in self._open and number + 1 < len(found):
                    self._keep(path)
        for path in [path for path in self._open if not path.exists()]:
            self._keep(path)

    def _keep(self, path: Path) -> None:
        to = self._seen[path]
        to.parent.mkdir(parents=True, exist_ok=True)
        with self._open.pop(path) as file:
            to.write_bytes(file.read())

    def close(self) -> None:
        """All of it lies in `kept` now."""
        self._over.set()
        self.join()
        self.look()
        for path in list(self._open):
            self._keep(path)

    def journals(self) -> list[Path]:
        """A directory for each journal there ever was."""
        return sorted({path.parent for path in self.kept.rglob("*.jsonl")})


def events_of(journal: Path) -> list[Event]:
    """The events of the journal, without snapshots and torn lines."""
    found: list[Event] = []
    for segment in sorted(journal.glob("*.jsonl")):
        for line in segment.read_bytes().split(b"\n"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event["type"] != "snapshot":
                found.append(event)
    return found
