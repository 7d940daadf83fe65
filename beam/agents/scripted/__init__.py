"""The adapter of `scripted`: an agent whose replies, delays, tool calls, failures and crashes come from a YAML file
(docs/scripted.md).

Does not depend on the format of a script.
"""

from __future__ import annotations

from beam.agents.base import Capabilities, Card
from beam.agents.scripted import dialogue, exec

__all__ = ["card", "dialogue", "exec"]

_CAPABILITIES = Capabilities(
    resume=True, model=True, deltas=True, tools=True, interrupt=True, cost=True, denials=True, edits=True
)

card = Card(
    name="scripted",
    summary="plays a YAML script: for demos, docs and tests",
    version_argv=(),
    faces={"exec": _CAPABILITIES, "dialogue": _CAPABILITIES},
    runs_code=True,
    by_name=("dialogue",),
    never_auto=("dialogue",),  # its script decides how it runs
    asks_model=False,
)
