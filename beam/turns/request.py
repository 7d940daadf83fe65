"""The request for one turn, with all options resolved, and where its CLI is on this machine.

Reads only PATH and the folders in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from beam.agents.base import Adapter, Host
from beam.base.errors import NotFoundError
from beam.model import events
from beam.model.events import Event
from beam.model.message import Access, Message
from beam.model.outcome import Total
from beam.model.settings import IDLE_TIMEOUT_S, KEEP_S, TIMEOUT_S, AgentSettings, Limits
from beam.process.program import absolute_folders
from beam.rules.ruleset import Ruleset
from beam.turns.confine import OwnDirectories

if TYPE_CHECKING:
    from beam.turns.replay import RecordedTurn

REPLAY_VIA = "replay"  # in place of a mode, for a turn that is replayed


class Record(Protocol):
    """A function that records an event of this turn, and returns it as it is in the journal."""

    def __call__(self, body: Event, *, sync: bool = False) -> Event: ...


class TurnRequest(Struct, frozen=True, kw_only=True):
    """Everything that one turn needs.

    Surroundings: `environ` is the environment of the process that runs the turn. `child_env` are beam's own variables
    for the agent's process (BEAM_*). `base` is the project folder. `scratch` is the path for a private directory of the
    turn. `own` are beam's directories, which the agent may not write below full access. `landlock` is the version of
    Landlock that protects them (0: no Landlock; None: ask the system). `unstarted` is the file by which the guard
    reports that the agent was never started. `images` is the folder for images that the agent sends, below `agent_dir`,
    the agent's directory in the root (None: images are not kept). `snapshots` is the store for the content of the work
    tree before the turn (None: the content is not recorded).

    Trust: `untrusted` says why the folder must be trusted first (None: it need not). `folder_trusted`: a person has
    trusted the folder. `left_out` are files of the folder that nobody trusted, and that the CLI must not read;
    `left_out_told` is the last notice about such files.
    `folder_env` are variables that make git ignore untrusted settings.

    Rights: `from_agent`: an agent sent the message. `at_most` bounds the access that the settings and the message give
    (None: no bound). `rules` allow, deny or ask about some tool calls, whatever the access says.

    Session: `fork`: the turn continues in a copy of the session. `upto` is the CLI's own id of the last message to keep
    (None: keep all). `carried` is the CLI's running total of tokens before the turn, if the CLI keeps one. `told` is
    the digest of the system prompt that a message of the session contains (None: no message contains one).

    Mode: `recorded` is the turn that is replayed in place of this one. `is_proxied`: the model calls go through a
    proxy, which also keeps the budget. `is_kept`: the process may stay for the next turn. `cli_file` is the file that
    stores the version of the CLI (None: the version is not needed). `unfit` says why the agent's protocol is used only
    if the message names it. `is_broken`: the protocol is known to be broken in this version of the CLI.
    """

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
    own: OwnDirectories | None = None
    snapshots: Path | None = None
    landlock: int | None = None
    unstarted: Path | None = None
    images: Path | None = None
    agent_dir: Path | None = None
    untrusted: str | None = None
    folder_trusted: bool = False
    left_out: tuple[str, ...] = ()
    left_out_told: str = ""
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
        return self.message.options.timeout or self.settings.timeout or TIMEOUT_S

    @property
    def idle_timeout(self) -> float:
        """Return how many seconds without output or other activity stop the turn."""
        return self.settings.idle_timeout or IDLE_TIMEOUT_S

    @property
    def keep(self) -> float:
        """Return how many seconds the process may be kept after the turn, if it is kept at all."""
        return KEEP_S if self.settings.keep is None else self.settings.keep


def env_for_kept_process(child_env: Mapping[str, str]) -> dict[str, str]:
    """Return beam's variables for a process that outlives its turn. Variables about one message are empty."""
    of_the_agent = {name: child_env[name] for name in child_env if name in _AGENT_VARIABLES}
    return {**dict.fromkeys(child_env, ""), **of_the_agent}


_AGENT_VARIABLES = ("BEAM_ROOT", "BEAM_PROJECT", "BEAM_AGENT", "BEAM_OUTBOX", "BEAM_BIN")


def host_of(order: TurnRequest) -> Host:
    """Return the adapter's `Host` on this machine. Raises NotFoundError (kind not_installed) if its CLI is missing."""
    import sys

    return Host(
        executable=find_executable(order.adapter, order.settings, order.environ, order.base),
        home=order.environ.get("HOME", ""),
        python=sys.executable,
    )


def find_executable(adapter: Adapter, settings: AgentSettings, environ: Mapping[str, str], base: Path) -> str:
    """Return the absolute path of the adapter's CLI, "" if it needs none. Relative folders of PATH are not searched.

    With a runner, return the CLI's name unchanged, because the runner looks for it elsewhere. Raises NotFoundError
    (kind not_installed), whose hint says how to install the CLI.
    """
    wanted = settings.executable or adapter.card.executable
    if not wanted:
        return ""
    if settings.runner:
        return wanted  # it is looked for where the runner runs it
    if "/" in wanted:
        path = os.path.realpath(base / os.path.expanduser(wanted))  # noqa: PTH111 - as below
        found = path if os.path.isfile(path) else None  # noqa: PTH113 - pathlib's raise for names that can't be
    else:
        import shutil  # 2 ms: bz2 and lzma are imported with it

        found = shutil.which(wanted, path=absolute_folders(environ.get("PATH", os.defpath)))
    if found is None:
        raise NotFoundError(
            f"{wanted} is not installed here", adapter.card.install, subject=adapter.card.name, kind="not_installed"
        )
    return found
