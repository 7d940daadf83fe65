"""From a claimed message to the order for its turn: settings, session, trust, and what the child is told."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from beam import events, trust
from beam.agents import registry
from beam.broker.world import World
from beam.errors import BeamError
from beam.message import Message
from beam.outcome import Usage
from beam.process import tree
from beam.state import Fork
from beam.store.journal import read_state
from beam.turns.order import Order

if TYPE_CHECKING:
    from beam.broker.hold import Holder


def order_of(holder: Holder, message: Message) -> Order:
    """The order for this message's turn. Puts the session aside first where the message asks for a new one."""
    world, place = holder.world, holder.place
    resolved = world.resolve(message.to)
    settings = resolved.settings
    turn_key = world.clock.random(16).hex()
    session_id = _session(holder, message, settings.adapter)
    session = holder.state.session if session_id is not None else None
    fork = holder.state.fork if session_id is not None else None
    return Order(
        message=message,
        turn=holder.state.turn + 1,
        turn_key=turn_key,
        session_id=session_id,
        fork=fork is not None,
        carried=_carried_by(world, fork) if fork is not None else session.carried if session is not None else None,
        fresh_session_id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{place.dir} {message.id} {message.attempt}")),
        adapter=registry.adapter(settings.adapter),
        adapter_name=settings.adapter,
        settings=settings,
        limits=world.limits,
        environ=world.environ,
        child_env={
            "BEAM_ROOT": str(world.home.root),
            "BEAM_AGENT": message.to,
            "BEAM_LANE": place.lane or "",
            "BEAM_CALLER": "",
            "BEAM_MESSAGE_ID": message.id,
            "BEAM_THREAD": message.thread,
            "BEAM_HOPS": str(message.hops),
            "BEAM_CHAIN": ",".join((*message.chain, message.to)),
            "BEAM_SPENT": f"{message.spent.turns + 1} {message.spent.cost_usd:g}",
        },
        base=world.base,
        scratch=place.dir / "scratch" / turn_key,
        owner=tree.this_process(),
        untrusted=world.why_untrusted(resolved),
        folder_trusted=trust.is_trusted(world.base, world.environ),
        from_agent=message.hops > 0,
    )


def _session(holder: Holder, message: Message, adapter: str) -> str | None:
    session = holder.state.session or holder.state.fork
    if session is None:
        return None
    if message.options.new or session.adapter != adapter:
        reason = "a new session was asked for" if message.options.new else f"the agent's adapter is {adapter} now"
        holder.record(
            events.SessionArchived(session_id=session.session_id, reason=reason, by=message.actor or message.sender),
            message_id=message.id,
            sync=True,
        )
        return None
    return session.session_id


def _carried_by(world: World, fork: Fork) -> Usage | None:
    """What the CLI counted over the session that is copied, so far; null where that goes on now, or nobody knows."""
    try:
        state = read_state(world.place(fork.of).journal)
    except BeamError:
        return None
    session = state.session
    is_it = session is not None and session.session_id == fork.session_id and state.open_turn is None
    return session.carried if session is not None and is_it else None
