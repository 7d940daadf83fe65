"""The kinds of servers: what a broker, a worker, a Python program inside `with Beam()` and a run of a scenario do
differently, and which messages a server leaves for their senders to run.

A server that keeps a process does not run a message that was sent from another environment, or that needs another
process. It closes the kept process and releases the agent, so that the message's sender can run the message. Does not
depend on when messages are run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from beam.base.errors import BeamError
from beam.broker.asking.requests import keep_seconds
from beam.broker.holder import registry
from beam.broker.inbox.build_request import plan_turn
from beam.model import events
from beam.model.message import Message
from beam.process.program import fingerprint
from beam.turns.run import may_run_in_kept_process

if TYPE_CHECKING:
    from beam.broker.holder.lease import AgentLease


class Kind(Struct, frozen=True, kw_only=True):
    """What the servers of one kind do differently.

    `serves_root`: all agents and lanes of the root are served, also those that are added later; else the agents that
    the server is given. `holds`: an agent that has nothing to do stays held; else it is released, and a message that
    needs another environment or another process than the kept one is left for its sender to run. `claims`: what waits
    in the queues is run; else only the work that `lend` is given. `keep_s`: for how many seconds the agent's process
    stays after the turn of this message; None: as the agent's settings say (`serves_root`), or not at all. `raises`: an
    error ends the server; else the agent is left alone for a while. `starts_workers`: at its end, the server starts
    workers for what waits. `stopped_by` says who stops turns when the server ends, and `ends` why kept processes end
    then.
    """

    serves_root: bool = False
    holds: bool = False
    claims: bool = True
    keep_s: Callable[[Message], float | None] = lambda message: None
    raises: bool = False
    starts_workers: bool = False
    stopped_by: str
    ends: str = "its holder ends"

    def why_left_to_sender(self, lease: AgentLease, message: Message, declined: Collection[str]) -> str:
        """Return why this message is left for its sender to run; "" if this process may run it. `declined` are the ids
        of messages that were left before."""
        keeper = lease.keeper
        if self.holds or message.id in declined:  # nobody took it: it is run here rather than never
            return ""
        keeps = keeper.process is not None or self.keep_s(message) is not None
        if keeps and not has_sender_environment(message, lease):
            return "the next turn comes from another environment"
        if keeper.process is not None and not _may_run_in_kept(message, lease):
            return "the next turn wants another session or other settings"
        return ""

    def prepare_turn(self, lease: AgentLease, message: Message, declined: Collection[str]) -> None:
        """Keep the process if the claimed message asks for that. If the message runs in another environment than its
        sender's, record a notice."""
        if self.holds:
            return
        keeper, seconds = lease.keeper, self.keep_s(message)
        keeper.keeps = keeper.process is not None
        if seconds is not None and self.why_released(lease) == "":
            keeper.grant(seconds)
        if message.id in declined and not has_sender_environment(message, lease):
            text = "it runs in the environment of an earlier sender, for its own is gone"
            lease.log.record(events.Notice(code="environment", text=text), message_id=message.id)

    def why_released(self, lease: AgentLease) -> str:
        """Return why the agent must be released even if its kept process could stay; "" if it need not be."""
        if self.holds:
            return ""
        if not lease.is_in_place():
            return "the root is gone"
        if registry.broker_serves_root(lease.log.context.home):
            return "a broker serves the agent from now on"
        return ""


BROKER = Kind(serves_root=True, holds=True, stopped_by="the broker's stop", ends="the broker stops")
WORKER = Kind(keep_s=keep_seconds, raises=True, stopped_by="a signal to its worker")
PROGRAM = Kind(keep_s=lambda message: math.inf, starts_workers=True, stopped_by="the end of its program's part")
RUN = Kind(holds=True, claims=False, starts_workers=True, stopped_by="the end of its run", ends="the run is over")


def has_sender_environment(message: Message, lease: AgentLease) -> bool:
    """Return whether this process has the same environment as the message's sender, or the message accepts any
    environment."""
    wanted = message.environment
    return wanted is None or wanted == fingerprint(lease.log.context.environ, message.id)


def _may_run_in_kept(message: Message, lease: AgentLease) -> bool:
    """Return whether the kept process may run the turn of this message."""
    try:
        order = plan_turn(lease.log, message, lease.waiting.last_check)
    except BeamError:
        return True  # its turn says what is wrong
    return lease.keeper.key is None or may_run_in_kept_process(order, lease.keeper.key)
