"""The state that all connections of one proxy share: its recording, its request matcher, its counts. Thread-safe."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import structs

from beam.agents.masks import Masks
from beam.proxy.budget import Spending
from beam.proxy.canonical import Canonicalizer
from beam.proxy.ladder import RequestMatcher
from beam.proxy.moving import FolderReplacer
from beam.proxy.options import ProxyCounts, ProxyOptions
from beam.proxy.recording import Recorder, Recording, RecordingInfo
from beam.proxy.served import ServedRequest

COUNTED = frozenset({"exact", "minor", "major", "unmatched", "filled", "live"})


class ProxyState:
    """The state of one proxy. `served` is called after each request, from the proxy's threads. `key` is the real key of
    the model's API, if the agent must not know it."""

    def __init__(self, options: ProxyOptions, served: Callable[[ServedRequest], None] | None, key: str | None) -> None:
        """Read the recording that is replayed, and open the one that is written. Raises NotFoundError, CorruptError,
        UsageError."""
        self.options = options
        self.key = key
        self.spending = Spending(options.budget)
        self.family = ""  # of the first model that was asked
        self._counts = ProxyCounts()
        self._mutex = threading.Lock()
        self._served = served
        self._numbers = self._asks = 0
        places = {name: path for name, path in options.places.items() if path}
        self.matcher, self.folder_replacer = _matcher_of(options, places)
        record = options.record or (options.replay if options.fill else "")
        self.recorder = Recorder(Path(record), RecordingInfo(agent=options.agent, places=places)) if record else None

    @property
    def counts(self) -> ProxyCounts:
        """Return the counts of the requests so far."""
        with self._mutex:
            return structs.replace(self._counts, usage=self.spending.usage, cost_usd=self.spending.cost_usd)

    def take_number(self, *, is_ask: bool) -> tuple[int, bool]:
        """Return the number of a new request, and whether the request goes to the model because the replay has ended
        (`fork_at`)."""
        with self._mutex:
            self._numbers += 1
            self._asks += is_ask
            forked = self.options.fork_at is not None and self._asks >= self.options.fork_at
            return self._numbers, forked

    def is_of_family(self, model: str) -> bool:
        """Return whether the model is of the same family (`claude`, `gpt`, `gemini`) as the model of the first call."""
        family = model.partition("/")[2] or model
        family = family.replace(".", "-").partition("-")[0].lower()
        with self._mutex:
            self.family = self.family or family
            return family == self.family

    def count_request(self, served: ServedRequest) -> None:
        """Count the result of a request, and call `served` with it."""
        with self._mutex:
            counts = self._counts
            if served.kind == "ask" and served.step in COUNTED:
                more = {"calls": counts.calls + 1, served.step: getattr(counts, served.step) + 1}
            elif served.kind == "ask":
                more = {"refused": counts.refused + 1}
            else:
                more = {"others": counts.others + 1}
            self._counts = structs.replace(counts, **more)
        if self._served is not None:
            self._served(served)


def _recording_mask(folder: str, cwd: str) -> Masks:
    """Return the mask that removes the recording's own folder from a list of untracked files that git printed. Git
    lists the folder while the recording is made, but no longer after the recording is committed."""
    try:
        parts = Path(folder).relative_to(cwd or "/nowhere").parts
    except ValueError:
        return Masks()
    names = ["/".join(parts[: number + 1]) for number in range(len(parts))]
    any_of = "|".join(re.escape(name) for name in names)
    return Masks(patterns=((rf"(?m)^\?\? (?:{any_of})/$\n?", ""),)) if names else Masks()


def _matcher_of(options: ProxyOptions, places: Mapping[str, str]) -> tuple[RequestMatcher | None, FolderReplacer]:
    if not options.replay:
        return None, FolderReplacer({}, {})
    recording = Recording(Path(options.replay))
    then, now = {**places, **recording.about.places}, {**recording.about.places, **places}
    masks = _recording_mask(options.replay, now.get("cwd", "")).plus(options.masks)
    ladder = RequestMatcher(recording.exchanges, Canonicalizer(masks, then), Canonicalizer(masks, now))
    return ladder, FolderReplacer(recording.about.places, now)
