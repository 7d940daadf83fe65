"""The input of a turn for all faces, with all options resolved."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from beam.agents.base import Host, Launch, Turn
from beam.model.limits import Limits
from beam.process.environment import environment
from beam.turns.confine import TurnConfinement


class TurnInput(Struct, frozen=True, kw_only=True):
    """The input of one turn. Times are in seconds. `scratch` is the turn's private directory, and `number` is the
    turn's number. `unstarted` is the file by which the guard reports that the agent was never started. `commands`: a
    text like `/context` is a command for the agent's own screen, not a message. `keep` is how long the process may stay
    after the turn. `folder_env` are the environment variables that depend on the folder's files."""

    turn: Turn
    scratch: Path
    host: Host
    turn_key: str
    limits: Limits
    environ: Mapping[str, str]
    child_env: Mapping[str, str]
    timeout: float
    idle_timeout: float
    number: int = 0
    confined: TurnConfinement = TurnConfinement()
    unstarted: Path | None = None
    commands: bool = False
    keep: float = 0.0
    folder_env: Mapping[str, str] = {}

    def environment(self, launch: Launch) -> dict[str, str]:
        """Return the environment for a process with this launch, without the confinement's variables."""
        return environment(self.environ, {**self.child_env, **launch.env})

    def in_new_session(self) -> TurnInput:
        """Return the same turn in a new session."""
        return structs.replace(self, turn=as_new_session(self.turn))

    def with_text(self, text: str) -> TurnInput:
        """Return the same turn with another text of its message."""
        return structs.replace(self, turn=structs.replace(self.turn, text=text))

    def with_fresh_id(self, fresh_session_id: str) -> TurnInput:
        """Return the same turn with another id for a new session."""
        return structs.replace(self, turn=structs.replace(self.turn, fresh_session_id=fresh_session_id))


def as_new_session(turn: Turn) -> Turn:
    """Return the same turn in a new session, whose id is always the same for this turn."""
    fresh = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{turn.fresh_session_id} afresh"))
    return structs.replace(
        turn, session_id=None, fresh_session_id=fresh, fork=False, upto=None, carried=None, told=None
    )
