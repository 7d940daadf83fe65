"""What a proxy is to do, and what it counted: values that cross to and from its process as JSON."""

from __future__ import annotations

from msgspec import Struct

from beam.model.outcome import Usage
from beam.proxy.budget import Budget
from beam.proxy.masks import GENERAL, Masks


class ProxyOptions(Struct, frozen=True, kw_only=True):
    """What a proxy does.

    `upstream` is the URL of the model's API ("" where all is replayed). `record` and `replay` are directories. `fill`:
    a request that has no recording goes to the model, and is recorded. `fork_at`: this model call and all later ones go
    to the model; `fork_model`, if it is not "", replaces the model that they name. `token`: the agent must send this as
    its key, and `format` is the only wire format that it may use then. `places` are the folders that requests may name,
    `masks` the other parts that do not count when requests are compared.
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
    places: dict[str, str] = {}
    masks: Masks = GENERAL
    budget: Budget = Budget()


class ProxyCounts(Struct, frozen=True, kw_only=True):
    """What a proxy counted. `calls` are the requests for an answer of the model, whoever gave it. Of these, `exact`,
    `minor` and `major` were answered from the recording, `unmatched` found no recorded answer, `filled` went to the
    model because no recorded answer fit, and `live` because nothing was replayed. `others` are requests that ask no
    model; `refused` are those that a budget or a wrong key kept from it."""

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
