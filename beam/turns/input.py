"""What one turn needs, every option settled, whatever face runs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from beam.agents.base import Host, Launch, Turn
from beam.model.limits import Limits
from beam.process.environment import environment
from beam.turns.confine import Confined
from beam.turns.request import as_new_session


class TurnInput(Struct, frozen=True, kw_only=True):
    """What one turn needs. Times are seconds. `number` is the turn's. `unstarted` is the file by which the guard says
    that the agent never was. `commands`: a text like `/context` is for the agent's own screen, and no message. `keep`:
    how long its process may stay without a turn, where it may at all. `folder_env` is what of the environment depends
    on the folder's files."""

    turn: Turn
    host: Host
    turn_key: str
    limits: Limits
    environ: Mapping[str, str]
    child_env: Mapping[str, str]
    timeout: float
    idle_timeout: float
    number: int = 0
    confined: Confined = Confined()
    unstarted: Path | None = None
    commands: bool = False
    keep: float = 0.0
    folder_env: Mapping[str, str] = {}

    @property
    def scratch(self) -> Path:
        """Return the turn's private directory."""
        return Path(self.turn.scratch)

    def environment(self, launch: Launch) -> dict[str, str]:
        """Return the environment of a process that is launched so, but for what confines it."""
        return environment(self.environ, {**self.child_env, **launch.env})

    def in_new_session(self) -> TurnInput:
        """Return the same turn in a new session."""
        return structs.replace(self, turn=as_new_session(self.turn))

    def with_fresh_id(self, fresh_session_id: str) -> TurnInput:
        """Return the same turn with another id for a new session."""
        return structs.replace(self, turn=structs.replace(self.turn, fresh_session_id=fresh_session_id))
