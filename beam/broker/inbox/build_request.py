"""Builds the `TurnRequest` that runs a claimed message: the agent's settings, its session, the trust in its folder, and
the environment variables of its process."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET, structs

from beam.agents import registry
from beam.base.digest import sha256
from beam.base.errors import BeamError
from beam.base.typed_values import escape_surrogates
from beam.broker.inbox import fallback, standing
from beam.broker.inbox.context import RootContext, Sender
from beam.config.fields import filled_env
from beam.config.resolve import ResolvedAgent
from beam.model import events
from beam.model.message import Message, RuleLists, SessionContext
from beam.model.outcome import Total
from beam.model.settings import TIMEOUT_S, AgentSettings
from beam.model.state import Fork, Session
from beam.process import tree
from beam.rules.ruleset import Ruleset, combine, rules_of
from beam.store.segment import read_state
from beam.turns.choice import lowest_access, max_access_of_messages
from beam.turns.confine import OwnDirectories
from beam.turns.request import TurnRequest

if TYPE_CHECKING:
    from beam.broker.inbox.log import AgentLog


MESSAGE_RULES_SOURCE = "this message"  # the source of rules that a person gave with a message


def build_turn_request(log: AgentLog, message: Message, before: standing.FolderCheck | None = None) -> TurnRequest:
    """Return the request for the turn of this message, which is claimed. If the message asks for a new session, or the
    agent's adapter has changed, archive the current session first. A stand-in gets the message if another model or
    agent is to answer it. A recorded turn that answers the message is taken
    from its recording."""
    stand_in = fallback.stand_in_of(log, message)
    asked = message
    if stand_in is not None:
        is_exposed = log.context.exposed is not None
        asked = fallback.message_for(log, message, stand_in, lambda own: rules_for(own, message, is_exposed=is_exposed))
    order = plan_turn(log, asked, before if asked is message else None, continues=asked.to == message.to)
    session, recordings = log.state.session or log.state.fork, log.context.recordings
    if asked.to != message.to:
        env = {**order.child_env, "BEAM_AGENT": message.to}
        return structs.replace(order, message=structs.replace(order.message, to=message.to), child_env=env)
    if session is not None and order.session_id is None:
        reason = (
            "a new session was asked for" if message.options.new else f"the agent's adapter is {order.adapter_name} now"
        )
        log.record(
            events.SessionArchived(session_id=session.session_id, reason=reason, by=message.actor or message.sender),
            message_id=message.id,
            sync=True,
        )
    return order if recordings is None else structs.replace(order, recorded=recordings.take(order.message))


def plan_turn(
    log: AgentLog, message: Message, before: standing.FolderCheck | None = None, *, continues: bool = True
) -> TurnRequest:
    """Return the request for a turn of this message if the message was claimed now. Changes nothing. `before` is the
    last check of the folder; it is used again if it was made for this message a moment ago. Unless `continues`, the
    turn does not continue the agent's session, because another agent runs it."""
    check = standing.check_for_message(log.context, message, before=before)
    context, resolved, stands, paths = check.context, check.resolved, check.standing, log.paths
    settings = settings_for_turn(resolved, context.environ)
    message = with_bounded_limits(message, settings)
    turn_key = context.clock.random(16).hex()
    session_id = _continued_session(log, message, settings.adapter) if continues else None
    if session_id is not None and log.state.missed and message.options.slash is not True:
        text = fallback.with_history(log, message.text, before=message.id, after=log.state.heard)
        message = structs.replace(message, payload=structs.replace(message.payload, text=text))
    session = log.state.session if session_id is not None else None
    fork = log.state.fork if session_id is not None else None
    place_key = escape_surrogates(str(paths.dir))
    adapter = registry.adapter(settings.adapter)
    is_held = any(can.access for can in adapter.card.faces.values())  # a program has all the rights of its user
    scratch = context.home.turns_of(paths) / turn_key
    return TurnRequest(
        message=message,
        turn=log.state.turn + 1,
        turn_key=turn_key,
        session_id=session_id,
        fork=fork is not None,
        upto=fork.upto if fork is not None else session.upto if session is not None else None,
        carried=_token_total_of_fork(context, fork)
        if fork is not None
        else session.carried
        if session is not None
        else None,
        told=_prompt_digest_of_fork(context, fork)
        if fork is not None
        else session.told
        if session is not None
        else None,
        fresh_session_id=_new_session_id(f"{place_key} {message.id} {message.attempt}"),
        adapter=adapter,
        adapter_name=settings.adapter,
        settings=settings,
        limits=context.config.limits,
        environ=context.environ,
        child_env={
            "BEAM_ROOT": str(context.home.root),
            "BEAM_PROJECT": str(context.home.project),
            "BEAM_AGENT": message.to,
            "BEAM_OUTBOX": str(scratch / "outbox"),
            "BEAM_BIN": beam_executable(),
            "BEAM_MESSAGE_ID": message.id,
            "BEAM_HOPS": str(message.hops),
        },
        base=context.home.project,
        scratch=scratch,
        owner=tree.this_process(),
        own=OwnDirectories.of(context.home.root, context.environ) if is_held else None,
        snapshots=context.home.snapshots if adapter.card.install and not context.exposed else None,
        unstarted=paths.unstarted_note(turn_key),
        images=paths.images,
        agent_dir=paths.agent_dir,
        untrusted=stands.refusal,
        unfit=stands.no_protocol,
        folder_trusted=stands.trusted,
        left_out=stands.left_out,
        left_out_told=log.state.left_out,
        folder_env=stands.env,
        from_agent=message.hops > 0,
        at_most=lowest_access("read" if context.exposed else None, message.at_most),
        rules=rules_for(resolved, message, is_exposed=context.exposed is not None),
        cli_file=paths.cli_version_file if paths.lane is None else None,
    )


def rules_for(resolved: ResolvedAgent, message: Message, *, is_exposed: bool) -> Ruleset:
    """Return the rules that apply to this message. If an agent sent the message, the rules allow nothing that the
    sender was not allowed, and they deny everything that the sender was denied. With `is_exposed`, agents may write in
    the root, and no allow rule applies."""
    written = [each for each in resolved.rules if each.lists != RuleLists()]
    asked = message.options.rules
    if not written and asked is UNSET and message.rules_at_most is None:
        return Ruleset()
    found = [rule for each in written for rule in rules_of(each.lists, each.whose, is_general=each.is_general)]
    from_agent = message.hops > 0
    if asked is not UNSET:
        found += rules_of(
            asked, message.sender if from_agent else MESSAGE_RULES_SOURCE, without=("allow",) if from_agent else ()
        )
    rules = combine(found)
    if message.at_most is not None or message.rules_at_most is not None:
        most = message.rules_at_most or RuleLists()
        rules = rules.bounded(most, message.sender, keep_allow=message.at_most == "full")
    return rules.without_allow() if is_exposed else rules


def settings_for_turn(resolved: ResolvedAgent, environ: Mapping[str, str]) -> AgentSettings:
    """Return the agent's settings, with the variables of `environ` filled in. An access that is set for all agents is
    left out for a program, because it says nothing of what the program does. Raises ConfigError for a variable that is
    not set."""
    settings = resolved.settings
    if settings.env:
        settings = structs.replace(settings, env=filled_env(settings.env, environ, resolved.name))
    if registry.adapter(settings.adapter).card.is_program and not resolved.is_access_own:
        return structs.replace(settings, access=None)
    return settings


def with_bounded_limits(message: Message, settings: AgentSettings) -> Message:
    """Return the message. If it is an agent's, its limits are at most those of the receiver."""
    if message.hops == 0:
        return message
    bounds = {
        "timeout": settings.timeout or TIMEOUT_S,
        "max_turns": settings.max_turns,
        "budget_usd": settings.budget_usd,
    }
    asked = {name: getattr(message.options, name) for name in bounds}
    lower = {name: bound for name, bound in bounds.items() if bound and asked[name] and asked[name] > bound}
    return structs.replace(message, options=structs.replace(message.options, **lower)) if lower else message


def _new_session_id(seed: str) -> str:
    """Return a UUID derived from the text, as the id of a new session. `uuid.uuid5` is not used, because it would load
    OpenSSL for its SHA-1."""
    return str(uuid.UUID(bytes=sha256(seed.encode("utf-8", "surrogatepass")).digest()[:16], version=5))


def beam_executable() -> str:
    """Return the path of the `beam` executable beside this Python interpreter; "" if there is none. A sandbox with a
    PATH of its own needs this path."""
    path = Path(sys.executable).with_name("beam")
    return str(path) if path.is_file() else ""


def sender_of(log: AgentLog, order: TurnRequest) -> Sender:
    """Return the agent of this turn, with its rights, as the sender of the requests in the turn's outbox."""
    session = log.state.session
    return Sender(
        agent=order.message.to,
        message=order.message,
        turn_key=order.turn_key,
        at_most=max_access_of_messages(order),
        rules=order.rules.lists if order.rules.rules else None,
        context=SessionContext(session_id=session.session_id if session else None, turn_number=order.turn),
        folder=Path(os.path.realpath(order.base / order.settings.cwd)) if order.settings.cwd else order.base,
    )


def _continued_session(log: AgentLog, message: Message, adapter: str) -> str | None:
    """Return the id of the session that the turn continues; None if it begins a new one."""
    session = log.state.session or log.state.fork
    return None if session is None or message.options.new or session.adapter != adapter else session.session_id


def _token_total_of_fork(context: RootContext, fork: Fork) -> Total | None:
    """Return the CLI's token total of the session that the fork copies; None if it is unknown."""
    session = _forked_session(context, fork)
    return session.carried if session is not None else None


def _prompt_digest_of_fork(context: RootContext, fork: Fork) -> str | None:
    """Return the digest of the system prompt in the session that the fork copies; None if it is unknown."""
    session = _forked_session(context, fork)
    return session.told if session is not None else None


def _forked_session(context: RootContext, fork: Fork) -> Session | None:
    """Return the session that the fork copies. Return None if that session is no longer the current one of its agent,
    if a turn of that agent is open, or if the agent's journal can't be read."""
    try:
        state = read_state(context.agent_paths(fork.of).journal)
    except BeamError:
        return None
    session = state.session
    is_it = session is not None and session.session_id == fork.session_id and state.open_turn is None
    return session if is_it else None
