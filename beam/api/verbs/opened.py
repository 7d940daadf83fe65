"""The base class of the parts of `Beam`: the root, its configuration, its agents and messages, and the caller."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from beam.api.inside import CallerTurn, caller_turn
from beam.api.methods import agent_names, check_is_text
from beam.base import own_program
from beam.base.clock import Clock, Steps, SystemClock
from beam.base.errors import NotFoundError, UsageError
from beam.broker.inbox.compose import HUMAN
from beam.broker.inbox.context import RootContext
from beam.config.resolve import with_state_dir
from beam.model.message import Recording, base_of, check_recording
from beam.root import discovery, paths
from beam.root.paths import AgentPaths

if TYPE_CHECKING:
    from beam.api.keeping import AgentKeeper
    from beam.base.clock import Steps
    from beam.broker.inbox.put import Receiver
    from beam.conversations.recording import Replay
    from beam.model.events import Event
    from beam.store.outbox import Answer

_MOMENT_S = 1.0  # how long the answer of `_exposing_folder` stays valid


def _carry_out(*request: Any) -> Steps[Answer]:
    """Carry out a request that an agent made in its turn. What that needs is imported with the first one."""
    from beam.broker.asking.agent_requests import carry_out

    return carry_out(*request)


def ignore(event: Event) -> None:
    """Ignore an event."""


class OpenedRoot:
    """A root, which is found when it is first used, and the process that uses it."""

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.environ = with_state_dir(os.environ if environ is None else environ)
        self._root = None if root is None else str(root)
        self._cwd = cwd or Path.cwd()
        self._clock = clock or SystemClock()
        self._keeping: AgentKeeper | None = None  # inside `with`
        self._looked: tuple[float, Path | None] | None = None  # when `_exposing_folder` looked, and what it found
        self._receivers: dict[str, Receiver] = {}  # by the id of the last message that was made
        self._replays: dict[Recording, Replay] = {}

    @cached_property
    def home(self) -> paths.RootPaths:
        """Return the root; it is searched for at the first use, and from then on agents that work in its folder can't
        change what this process imports. Requests from inside a turn need no root. Raises UsageError."""
        home = discovery.find_root(self._root, cwd=self._cwd, environ=self.environ)
        own_program.hold(home.project, self._cwd)
        return home

    @cached_property
    def turn(self) -> CallerTurn | None:
        """Return the agent's turn in which this process runs; None if a person started the process."""
        return caller_turn(self.environ)

    @cached_property
    def context(self) -> RootContext:
        """Return the root with its checked configuration. Raises ConfigError, DiskError."""
        return RootContext.load(
            self.home, environ=self.environ, clock=self._clock, carry_out=_carry_out, exposed=self._exposing_folder()
        )

    def _context_now(self) -> RootContext:
        """Return the context for one decision. Before that, check again whether agents may write in the root."""
        return self.context.recheck_exposure() if "context" in self.__dict__ else self.context

    def _exposing_folder(self) -> Path | None:
        """Return the folder around this root in which agents may write; None if there is none. The answer may be a
        second old."""
        now = self._clock.monotonic()
        if self._looked is None or now - self._looked[0] > _MOMENT_S:
            self._looked = now, discovery.exposing_folder(self.home, self.environ)
        return self._looked[1]

    @cached_property
    def is_agent(self) -> bool:
        """Return whether the caller is an agent inside its turn."""
        return self.turn is not None or bool(self.environ.get("BEAM_AGENT"))

    @property
    def me(self) -> str:
        """Return the caller: an agent's name inside its turn, else `human`."""
        return self.turn.agent if self.turn is not None else self.environ.get("BEAM_AGENT") or HUMAN

    def check_person(self, what: str) -> None:
        """Raise UsageError if the caller is an agent. `what` completes "only a person …"."""
        if self.is_agent:
            raise UsageError(f"only a person {what}; this is a process of {self.me}", "use a shell of your own")

    def _checked_recording(self, recording: Recording) -> Recording:
        """Return the recording with absolute paths. Raises UsageError for parts that don't go together, and if the
        caller is an agent."""
        self.check_person("records and replays turns")
        check_recording(recording)
        record, replay = (
            str(self._cwd.absolute() / path) if path else "" for path in (recording.record, recording.replay)
        )
        return structs.replace(recording, record=record, replay=replay)

    def _existing_paths(self, agent: str) -> AgentPaths:
        """Return the paths of the agent. If no agent has this name, return those of its only session AGENT@NAME, which
        is the name of a scenario's agent."""
        check_is_text(agent=agent)
        if agent in self.home.agents():
            return self.context.agent_paths(agent)
        try:
            self.context.config.resolve(agent)
        except NotFoundError:
            session = self._only_session(agent)
            if session is None:
                raise
            return self.context.agent_paths(session)
        return self.context.agent_paths(agent)

    def _only_session(self, name: str) -> str | None:
        """Return the only session AGENT@NAME of this agent that has files; None if it has none. Raises UsageError if
        there are several."""
        sessions = [each for each in self.home.agents() if base_of(each) == name]
        if len(sessions) > 1:
            what = f"{name} itself was sent nothing; its sessions are {', '.join(sessions)}"
            raise UsageError(what, f"name one, such as {sessions[0]}", subject=name)
        return sessions[0] if sessions else None

    def _existing_names(self, agents: Sequence[str]) -> list[str]:
        return [self._existing_paths(name).agent for name in agent_names(agents)]

    def _names(self, agents: Sequence[str]) -> list[str]:
        from beam.api import find

        return self._existing_names(agents) or find.agent_names(self.context)

    def _find(self, message_id: str) -> tuple[AgentPaths, str]:
        from beam.api.find import find_message

        check_is_text(message_id=message_id)
        return find_message(self.context, message_id)
