"""The request for one turn, with all options resolved. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from beam.agents.base import Adapter
from beam.model import events
from beam.model.events import Event
from beam.model.limits import Limits
from beam.model.message import Access, Message
from beam.model.outcome import Total
from beam.model.settings import AgentSettings
from beam.rules.ruleset import Ruleset
from beam.turns.confine import Own
from beam.turns.replay import RecordedTurn


class Record(Protocol):
    """Record an event of this turn; return it as it is in the journal."""

    def __call__(self, body: Event, *, sync: bool = False) -> Event: ...


class TurnRequest(Struct, frozen=True, kw_only=True):
    """Everything that one turn needs. `environ` is the environment of the process that runs the turn; `child_env` what
    beam itself tells the child (BEAM_*); `base` the project folder; `scratch` where a private directory for the turn
    may be made; `own` are beam's directories, which the agent may not write below full access; `landlock` is the
    version of Landlock that protects them (0: none; null: the system's); `untrusted` says why the folder must be
    trusted first, `folder_trusted` whether it was; `left_out` are files in it that nobody trusted and that the CLI is
    kept from; `folder_env` are variables that keep git from others; `unstarted` is the file by which its guard says
    that the agent was never started; `images` is the folder for images that the agent sends, in the agent's directory
    `agent_dir` in the root (null: they are not kept); `at_most` bounds the access that the settings and the message
    give (null: no bound); `fork`: the turn continues in a copy of the session; `upto`: the CLI's own id of the last
    message of it that counts, null for all; `carried` is the CLI's own running total of tokens before the turn, where
    it keeps one; `told` the digest of the system prompt that is in the session as a part of a message, null if none is;
    `rules` say what is denied, asked about and allowed beside that; `snapshots` is the store for what the work tree
    contains before the turn, null if it is not recorded; `recorded` is the turn that is replayed in its place;
    `is_proxied`: its model calls go through a proxy, which keeps its budget; `is_kept`: its process may stay for the
    next turn; `cli_file` is the file that stores the version of the CLI, null if nobody asks for it; `unfit` says why
    the agent's protocol is used only if it is named; `is_broken`: the protocol is known to be broken in this version of
    the CLI."""

    message: Message
    turn: int
    turn_key: str
    session_id: str | None
    fresh_session_id: str
    adapter: Adapter
    adapter_name: str
    settings: AgentSettings
    limits: Limits
    environ: Mapping[str, str]
    child_env: Mapping[str, str]
    base: Path
    scratch: Path
    owner: events.Owner
    own: Own | None = None
    snapshots: Path | None = None
    landlock: int | None = None
    unstarted: Path | None = None
    images: Path | None = None
    agent_dir: Path | None = None
    untrusted: str | None = None
    folder_trusted: bool = False
    left_out: tuple[str, ...] = ()
    folder_env: Mapping[str, str] = {}
    from_agent: bool = False
    at_most: Access | None = None
    fork: bool = False
    upto: str | None = None
    carried: Total | None = None
    told: str | None = None
    rules: Ruleset = Ruleset()
    recorded: RecordedTurn | None = None
    is_proxied: bool = False
    is_kept: bool = False
    cli_file: Path | None = None
    unfit: str = ""
    is_broken: bool = False

    @property
    def timeout(self) -> float:
        """Return how many seconds the turn may take."""
        return self.message.options.timeout or self.settings.timeout or self.limits.timeout

    @property
    def idle_timeout(self) -> float:
        """Return after how many seconds without output or other activity the turn is stopped."""
        return self.settings.idle_timeout or self.limits.idle_timeout


def env_for_kept_process(child_env: Mapping[str, str]) -> dict[str, str]:
    """Return beam's variables for a process that outlives its turn: nothing about one message."""
    of_the_agent = {name: child_env[name] for name in child_env if name in _OF_THE_AGENT}
    return {**dict.fromkeys(child_env, ""), **of_the_agent}


_OF_THE_AGENT = ("BEAM_ROOT", "BEAM_PROJECT", "BEAM_AGENT", "BEAM_LANE", "BEAM_OUTBOX", "BEAM_BIN")
