"""The state that all connections of one proxy share: its recording, its request matcher, its counts. Thread-safe."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from beam.agents.masks import Masks
from beam.proxy import private
from beam.proxy.budget import Spending
from beam.proxy.canonical import Canonicalizer, whole_path
from beam.proxy.ladder import RequestMatcher
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


# -- folders that moved ------------------------------------------------------------------------------------------------


_PLACEHOLDER = re.compile(r"\0([0-9]{1,9})\0")  # a piece of a text in several events


class FolderReplacer:
    """Replaces each folder of a recording (`then`) by the current folder with the same name (`now`).

    A model's tool call contains absolute paths. Without the replacement, a replayed agent would work in the folder of
    the recording if that folder still exists.
    """

    def __init__(self, then: Mapping[str, str], now: Mapping[str, str]) -> None:
        pairs = [(path, now[name]) for name, path in then.items() if name in now and now[name] != path]
        self._to = dict(pairs)
        paths = sorted(self._to, key=lambda path: -len(path))
        self._pattern = whole_path(paths) if paths else None
        self._marks = tuple(path.encode() for path in paths)

    def data(self, data: bytes) -> bytes:
        """Return the body of an answer that is not a stream, with its folders replaced."""
        if self._pattern is None or not any(mark in data for mark in self._marks):
            return data
        value = private.json_of(data)
        if value is None:
            return data
        return json.dumps(private.map_strings(value, self._text), ensure_ascii=False).encode("utf-8", "surrogatepass")

    def events(self, events: Sequence[bytes]) -> Sequence[bytes]:
        """Return the events of a stream, with their folders replaced. A path that is spread over several events is
        replaced in the event where it begins.

        The pieces of such texts are put aside while the other texts are changed: a new folder may contain the name of a
        recorded one, and must not be replaced again.
        """
        pattern = self._pattern
        if pattern is None:
            return events
        moved: list[str] = []

        def put_aside(pieces: list[str]) -> list[str]:
            whole = "".join(pieces)
            if not any(path in whole for path in self._to):
                return pieces
            first = len(moved)
            moved.extend(replace_in_pieces(pieces, pattern, self._to))
            return [f"\0{number}\0" for number in range(first, len(moved))]

        def put_back(text: str) -> str:
            found = _PLACEHOLDER.fullmatch(text)
            return moved[int(found[1])] if found is not None and int(found[1]) < len(moved) else text

        aside = private.rewrite(events, put_aside) or events
        changed = [self._event(event) for event in aside]
        if moved:
            changed = [private.map_event(event, put_back) for event in changed]
        return [_same_or(after, before) for after, before in zip(changed, events, strict=True)]

    def _event(self, event: bytes) -> bytes:
        if not any(mark in event for mark in self._marks):
            return event
        return private.map_event(event, self._text)

    def _text(self, text: str) -> str:
        assert self._pattern is not None
        return self._pattern.sub(lambda found: self._to[found[0]], text)


def _same_or(after: bytes, before: bytes) -> bytes:
    """Return the event as it was if it means the same, else the changed one."""
    return before if private.split_event(after) == private.split_event(before) else after


def replace_in_pieces(pieces: Sequence[str], pattern: re.Pattern[str], to: Mapping[str, str]) -> list[str]:
    """Return the pieces of one text with each match of the pattern replaced, in the piece where the match begins."""
    whole, shown, at = "".join(pieces), [], 0
    found = [(match.start(), match.end(), to[match[0]]) for match in pattern.finditer(whole)]
    for piece in pieces:
        end, seen, text = at + len(piece), at, ""
        for start, stop, new in found:
            if stop > at and start < end:
                text += whole[seen : max(start, at)] + (new if start >= at else "")
                seen = min(stop, end)
        shown.append(text + whole[seen:end])
        at = end
    return shown
