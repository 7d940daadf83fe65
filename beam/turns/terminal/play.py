"""What one turn on the terminal face needs, every option settled."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from beam.agents.base import History, Host, Terminal, Turn
from beam.model.limits import Limits
from beam.model.screen_profile import Profile, overridden
from beam.turns.asks import Asks
from beam.turns.confine import Confined


class Play(Struct, frozen=True, kw_only=True):
    """What one turn on this face needs. Times are seconds. `commands`: a text like `/context` is for the agent's own
    screen, and no message. `asks` are the turn's own. `number` is the turn's; `keep`: how long its terminal may stay
    idle, where it may at all. `folder_env` is what of the environment depends on the folder's files."""

    terminal: Terminal
    history: History | None
    turn: Turn
    host: Host
    turn_key: str
    limits: Limits
    environ: Mapping[str, str]
    child_env: Mapping[str, str]
    timeout: float
    idle_timeout: float
    commands: bool
    asks: Asks
    number: int = 0
    keep: float = 0.0
    confined: Confined = Confined()
    folder_env: Mapping[str, str] = {}

    @property
    def profile(self) -> Profile:
        """The agent's screen, as the settings have it."""
        return overridden(self.terminal.profile, self.turn.settings.screen)
