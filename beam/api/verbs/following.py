"""Methods to wait for outcomes or look them up, and to answer messages as a mailbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from beam.api.argument_types import agent_names
from beam.api.both import waiting_verb
from beam.api.verbs.opened import OpenedRoot, ignore
from beam.base.steps import Steps, run_blocking

if TYPE_CHECKING:
    from beam.api.messages import PendingMessage
    from beam.api.waits import AwaitedState
    from beam.model.events import Event
    from beam.model.message import Message
    from beam.model.outcome import Outcome


class FollowVerbs(OpenedRoot):
    """Wait for outcomes, and answer as a mailbox."""

    @waiting_verb
    def wait(
        self, message_id: str, *, timeout: float | None = None, seen: Callable[[Event], None] | None = None
    ) -> Steps[Outcome]:
        """Wait for a message and return its outcome. Raises UnfinishedError after `timeout` seconds; the message is
        not stopped."""
        from beam.broker.asking.follow import follow

        paths, whole = self._find(message_id)
        outcome = yield from follow(
            self.context,
            paths,
            whole,
            seen=seen or ignore,
            timeout=timeout,
            looks_only=self.is_agent,
            is_sender=False,
        )
        assert outcome is not None
        return outcome

    @waiting_verb
    def wait_several(
        self,
        message_ids: Sequence[str],
        *,
        only_first: bool = False,
        timeout: float | None = None,
        seen: Callable[[Event], None] | None = None,
        ended: Callable[[Outcome], None] | None = None,
    ) -> Steps[list[Outcome]]:
        """Wait for several messages and return their outcomes in the order in which they ended. `ended` is called with
        each outcome.

        With `only_first`, wait only for the first message that ends. Raises UnfinishedError after `timeout` seconds; no
        message is stopped.
        """
        from beam.api.waits import run_waits
        from beam.broker.asking.follow import follow

        outcomes: list[Outcome] = []

        def came(_: int, outcome: Outcome | None) -> None:
            if outcome is not None:
                outcomes.append(outcome)
                if ended is not None:
                    ended(outcome)

        found = [self._find(each) for each in dict.fromkeys(message_ids)]
        waits = [
            follow(
                self.context,
                paths,
                whole,
                seen=seen or ignore,
                timeout=timeout,
                looks_only=self.is_agent,
                is_sender=False,
            )
            for paths, whole in {whole: (paths, whole) for paths, whole in found}.values()
        ]
        yield from run_waits(waits, only_first=only_first, ended=came)
        return outcomes

    @waiting_verb
    def wait_until(
        self, agents: Sequence[str], until: AwaitedState, *, only_first: bool = False, timeout: float | None = None
    ) -> Steps[dict[str, Outcome | None]]:
        """Wait until these agents are `idle` or `asking`, or until a turn of each has `finished`. With `only_first`,
        wait only for the first agent. Return the agents, each with the outcome of its ended turn, if any.

        Raises UnfinishedError after `timeout` seconds, NotFoundError for an agent that was never used.
        """
        from beam.api.waits import run_waits, wait_for_state

        names = list(dict.fromkeys(agent_names(agents)))
        all_paths = [self._existing_paths(name) for name in names]
        found: dict[str, Outcome | None] = {}
        waits = [
            wait_for_state(self.context, paths, until, timeout=timeout, looks_only=self.is_agent) for paths in all_paths
        ]
        yield from run_waits(waits, only_first=only_first, ended=lambda at, outcome: found.update({names[at]: outcome}))
        return found

    def are_idle(self, agents: Sequence[str] = ()) -> bool:
        """Return whether these agents (default: all agents here) have no running turn and no waiting message."""
        from beam.api.waits import is_idle

        return all(is_idle(self.home.agent(name)) for name in self._existing_names(agents) or self.home.agents())

    def show(self, message_id: str) -> Outcome | PendingMessage:
        """Return the outcome of a message, or its state so far. Raises NotFoundError."""
        from beam.api.messages import find_outcome

        return find_outcome(*self._find(message_id))

    def recv(self, agent: str, *, lease: float | None = None) -> Message | None:
        """Take the next message of a mailbox and return it; None if no message waits. The caller has the message for
        `lease` seconds (None: as in the agent's settings)."""
        self.check_person("takes messages of a mailbox")
        from beam.broker.asking.mailbox import recv

        return recv(self.context, self.context.agent_paths(agent), lease)

    @waiting_verb
    def recv_wait(
        self, agent: str, *, lease: float | None = None, timeout: float | None = None
    ) -> Steps[Message | None]:
        """Wait for the next message of a mailbox and take it as `recv` does. Return None after `timeout` seconds."""
        began = self._clock.monotonic()
        while (message := self.recv(agent, lease=lease)) is None:
            if timeout is not None and self._clock.monotonic() - began >= timeout:
                return None
            yield 0.05
        return message

    def reply(self, message_id: str, text: str, *, failed: bool = False) -> Outcome:
        """Answer a message that `recv` returned, and return the message's outcome.

        With `failed`, the text is the reason for a failure.
        """
        from beam.broker.asking.mailbox import reply

        if self.turn is not None:
            answered: Outcome = run_blocking(self.turn.reply(message_id, text, self._clock, failed=failed))
            return answered
        paths, whole = self._find(message_id)
        return reply(self.context, paths, whole, text, failed=failed)
