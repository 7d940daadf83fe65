"""Starts a proxy with given options, and compares two runs of the same prompt."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from beam.agents.masks import all_masks, masks_of
from beam.api.find import find_message
from beam.base.errors import UsageError
from beam.model.events import ModelCalled
from beam.model.message import Options, Recording
from beam.model.outcome import ModelCallCounts, Outcome
from beam.proxy.budget import Budget
from beam.proxy.options import ProxyOptions
from beam.proxy.owner import ProxyProcess
from beam.proxy.recording import read_info
from beam.proxy.served import ServedRequest
from beam.store.reader import Reader
from beam.turns.lent import descriptor_of

if TYPE_CHECKING:
    from beam.broker.inbox.context import RootContext


class ProxyChecked(Struct, frozen=True, kw_only=True):
    """The comparison of two runs of one prompt. `counts` says how the requests of the second run matched those of the
    first, and `calls` has the second run's model calls. `places` has the request fields that differed, each with the
    number of its differences, the most frequent first."""

    first: Outcome
    second: Outcome
    counts: ModelCallCounts
    calls: tuple[ModelCalled, ...] = ()
    places: tuple[tuple[str, int], ...] = ()


def start(
    environ: Mapping[str, str],
    *,
    record: Path | None,
    replay: Path | None,
    upstream: str,
    on_miss: Literal["stop", "live"],
    fork_at: int | None,
    fork_model: str,
    agent: str,
    port: int,
    max_tokens: int | None,
    budget_usd: float | None,
    token: str,
    shield: str,
    places: Mapping[str, str] | None,
    seen: Callable[[ServedRequest], None] | None,
) -> ProxyProcess:
    """Start a proxy. Raises UsageError for options that do not go together, and the errors of `ProxyProcess`."""
    if replay is None and not upstream:
        raise UsageError("a proxy needs a model to ask, or a recording", "--upstream URL, or --replay DIR")
    fill = on_miss == "live"
    if (fill or fork_at is not None) and not (replay and upstream):
        raise UsageError(
            "--on-miss live and --fork-at go on with the model after a replay", "--replay DIR --upstream URL"
        )
    if fork_model and fork_at is None:
        raise UsageError("--model names the model of a fork", "--fork-at N --model NAME")
    if record is not None and replay is not None and record.resolve() == replay.resolve():
        raise UsageError(
            "a fork is recorded into another folder than it is replayed from", "--on-miss live adds to a recording"
        )
    if bool(shield) != bool(token):
        raise UsageError(
            "a shielded key needs a dummy for the agent, and the other way round", "--shield fd:3 --token T"
        )
    key_fd = descriptor_of(shield) if shield else None
    own = read_info(replay).agent if replay is not None and not agent else agent
    return ProxyProcess(
        ProxyOptions(
            upstream=upstream,
            record="" if record is None else str(record.absolute()),
            replay="" if replay is None else str(replay.absolute()),
            fill=fill,
            fork_at=fork_at,
            fork_model=fork_model,
            agent=own,
            port=port,
            token=token,
            places=dict(places or {}),
            masks=masks_of(own) if own else all_masks(),
            budget=Budget(max_tokens=max_tokens, usd=budget_usd),
        ),
        environ,
        served=seen or _ignore,
        key_fd=key_fd,
        secret=shield if key_fd is None else "",
    )


def _ignore(served: ServedRequest) -> None:
    """Ignore a served request; the default for `seen`."""


def calls_of(context: RootContext, message_id: str) -> list[ModelCalled]:
    """Return the model calls in the journal of a message. Raises NotFoundError for an unknown message."""
    place, whole = find_message(context, message_id)
    events = Reader(place.journal, 0).poll()
    return [event for event in events if isinstance(event, ModelCalled) and event.message_id == whole]


def compare_runs(send: Callable[..., Outcome], agent: str, text: str) -> ProxyChecked:
    """Run the prompt twice, the second time from a recording of the first run, and return how the requests differ."""
    with tempfile.TemporaryDirectory(prefix="beam-doctor-") as directory:
        recording = str(Path(directory) / "recording")
        options = Options(once=True, recording=Recording(record=recording, depth="model"))
        first = send(agent, text, options=options)
        again = Options(once=True, recording=Recording(replay=recording, depth="model"))
        calls: list[ModelCalled] = []

        def look(event: object) -> None:
            if isinstance(event, ModelCalled):
                calls.append(event)

        second = send(agent, text, options=again, seen=look)
    found: dict[str, int] = {}
    for call in calls:
        for difference in call.differences:
            found[difference.path] = found.get(difference.path, 0) + 1
    counts = second.model_calls if isinstance(second.model_calls, ModelCallCounts) else ModelCallCounts()
    return ProxyChecked(
        first=first,
        second=second,
        counts=counts,
        calls=tuple(calls),
        places=tuple(sorted(found.items(), key=lambda pair: -pair[1])),
    )
