"""The options of a proxy, and its counts of requests. Both are sent between beam and the proxy's process as JSON."""

from __future__ import annotations

from msgspec import Struct

from beam.agents.masks import GENERAL_MASKS, Masks
from beam.model.outcome import Usage
from beam.proxy.budget import Budget


class ProxyOptions(Struct, frozen=True, kw_only=True):
    """The options of a proxy.

    `upstream` is the URL of the model's API ("" if every answer is replayed). `record` and `replay` are the directories
    of recordings. `fill`: a model call without a recorded answer goes to the model, and is recorded. `fork_at`: the
    model call with this number (the first is 1) and all later ones go to the model; `fork_model`, if it is not "",
    replaces the model that they name. `token` is the key that the agent must send; if it is set, `format` is the only
    wire format that the agent may use. `places` maps names to the folders that requests may contain, and `masks` are
    the other parts that do not count when requests are compared. `text` is the beginning of the turn's text, by which
    the agent's own calls are told from others of its CLI.
    """

    upstream: str = ""
    record: str = ""
    replay: str = ""
    fill: bool = False
    fork_at: int | None = None
    fork_model: str = ""
    port: int = 0
    token: str = ""
    format: str = ""
    agent: str = ""
    text: str = ""
    places: dict[str, str] = {}
    masks: Masks = GENERAL_MASKS
    budget: Budget = Budget()


class ProxyCounts(Struct, frozen=True, kw_only=True):
    """The numbers of requests that a proxy handled. `calls` counts the model calls that were not refused. Of these,
    `exact`, `minor` and `major` were answered from the recording, `unmatched` had no recorded answer, `filled` went to
    the model because no recorded answer fit, and `live` went to the model because nothing was replayed or the replay
    had ended (`fork_at`). `others` counts requests that are not model calls; `refused` counts model calls that were not
    allowed, for example because of the budget or a wrong key."""

    calls: int = 0
    live: int = 0
    exact: int = 0
    minor: int = 0
    major: int = 0
    unmatched: int = 0
    filled: int = 0
    others: int = 0
    refused: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None

    @property
    def replayed(self) -> int:
        """Return how many calls were answered from a recording."""
        return self.exact + self.minor + self.major
