"""Returns the mode in which the next message of an agent would run if the message names no mode, and the reason.

Starts no process: the CLI is assumed to have the version that the last turn found.
"""

from __future__ import annotations

from msgspec import Struct

from beam.agents.base import Adapter
from beam.api.status import AgentStatus
from beam.base.errors import BeamError
from beam.broker.holder import registry
from beam.broker.inbox.context import RootContext
from beam.config.resolve import ResolvedAgent
from beam.model.message import Access, Options
from beam.turns.choice import REASON_ASKS, REASON_KEPT, REASON_NOT_KEPT, why_protocol_not_chosen


class NextMode(Struct, frozen=True, kw_only=True):
    """The mode of the next message. `face` is the mode (a value of `via`), "" if no message would run. `why` is the
    reason; None if there was no choice."""

    face: str
    why: str | None = None


def next_mode(context: RootContext, resolved: ResolvedAgent, adapter: Adapter, status: AgentStatus) -> NextMode:
    """Return the mode in which the agent's next message would run if it had no options."""
    from beam.broker.inbox.standing import check_folder
    from beam.turns.choice import face_of

    settings, faces = resolved.settings, adapter.card.faces
    access: Access = settings.access or "read"
    try:
        face = face_of(adapter, None, access)
    except BeamError:
        return NextMode(face="unverified" if adapter.card.unverified else "")
    if not ("dialogue" in faces and "exec" in faces):
        return NextMode(face=face)
    if face == "dialogue":
        return NextMode(face=face, why=REASON_ASKS)
    if status.kept is None and registry.running_broker(context.home) is None:
        return NextMode(face=face, why=REASON_NOT_KEPT)
    why = (
        check_folder(context, resolved, access).no_protocol
        or _unfit_reason(context, resolved.name, adapter)
        or why_protocol_not_chosen(adapter, Options(), settings, access)
    )
    return NextMode(face=face if why else "dialogue", why=why or REASON_KEPT)


def _unfit_reason(context: RootContext, agent: str, adapter: Adapter) -> str:
    from beam.turns.cli_version import last_seen_version

    found = last_seen_version(context.agent_paths(agent).cli_version_file, adapter.card, context.clock)
    return found.unfit if found is not None else ""
