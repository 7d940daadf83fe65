"""Chooses the mode (face) and the access of a turn.

If the message names no mode, the agent's own protocol is chosen, provided that the process stays for the next turn and
the protocol can do everything that the message asks for. Does not depend on how a turn is run. Reads nothing and starts
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from beam.agents.base import Adapter, Capabilities, Face
from beam.agents.options import OPTIONS, enforcer_of
from beam.base.errors import UnsupportedError
from beam.model.message import RANK, Access, Options
from beam.model.settings import AgentSettings
from beam.rules.rule import Rule
from beam.turns.request import TurnRequest

AUTO_MODES = (None, "auto")
REASON_KEPT = "its process stays for the next message"
REASON_NOT_KEPT = "its process ends with the turn"
REASON_ASKS = "it asks only over its protocol"


def face_of(adapter: Adapter, via: str | None, access: Access | None = None) -> Face:
    """Return the face that runs a turn with this access. `via` is the mode that the message names, None or `auto` for
    none.

    With access `ask` and no named mode, the agent's own protocol is chosen if it can ask. Raises UnsupportedError for a
    mode that this agent does not have.
    """
    faces = adapter.card.faces
    if adapter.card.unverified:
        raise UnsupportedError(
            f"beam was never tested with {adapter.card.name}, and does not run it",
            adapter.card.unverified,
            subject=adapter.card.name,
        )
    if via in AUTO_MODES:
        can = faces.get("dialogue")
        if access == "ask" and can is not None and "ask" in can.access and "dialogue" not in adapter.card.never_auto:
            return "dialogue"
        for face in ("dialogue", "exec", "terminal", "mailbox"):
            if face in faces and face not in adapter.card.by_name:
                return face
    for face in faces:
        if face == via:
            return face
    raise UnsupportedError(
        f"{adapter.card.name} can't be run with --via {via}", f"it has: {', '.join(faces)}", subject=str(via)
    )


def possible_faces(adapter: Adapter, via: str | None, access: Access) -> tuple[Face, ...]:
    """Return the faces that can run a turn with this access: the one that `face_of` returns, and the agent's own
    protocol if it is chosen when the process stays for the next turn. Return an empty tuple if none can."""
    try:
        face = face_of(adapter, via, access)
    except UnsupportedError:
        return ()
    can = adapter.card.faces.get("dialogue")
    is_chosen_for_kept = face == "exec" and via in AUTO_MODES and "dialogue" not in adapter.card.never_auto
    return (face, "dialogue") if is_chosen_for_kept and can is not None and access in can.access else (face,)


class ChosenFace(Struct, frozen=True):
    """The face that runs a turn. `why` says why `auto` chose it; None if there was no choice, or if the message names a
    mode."""

    face: Face
    why: str | None = None


def choose_face(order: TurnRequest) -> ChosenFace:
    """Return the face that runs this turn, and why it was chosen.

    Raises UnsupportedError for a face that this agent does not have.
    """
    via, access, card = order.message.options.via, _granted_access_of(order), order.adapter.card
    face = face_of(order.adapter, via, access)
    if via not in AUTO_MODES:
        return ChosenFace(face)
    if face == "dialogue":
        if order.is_broken:
            raise UnsupportedError(
                f"{order.adapter_name} asks only over its protocol: {order.unfit}",
                "install another version of it, or name another --access",
                subject=order.adapter_name,
            )
        why = REASON_ASKS
    elif face == "exec":
        not_kept = _why_not_chosen_for_turn(order, access) if order.is_kept else REASON_NOT_KEPT
        face, why = ("exec", not_kept) if not_kept else ("dialogue", REASON_KEPT)
    else:
        why = f"{card.name} has no protocol and no headless mode, only a screen"
    had_choice = face == "terminal" or ("dialogue" in card.faces and "exec" in card.faces)
    return ChosenFace(face, why if had_choice and order.recorded is None else None)


def needed_features(options: Options, settings: AgentSettings, *, attaches: bool) -> list[str]:
    """Return the features that a mode needs for these options and settings, as keys of `agents.options.OPTIONS`.

    `attaches`: the message has attached files.
    """
    asked = {
        "schema": bool(options.schema or settings.schema),
        "max_turns": (options.max_turns or settings.max_turns) is not None,
        "budget": (options.budget_usd or settings.budget_usd) is not None,
        "model": (options.model or settings.model) is not None,
        "attach": attaches,
        "system": settings.system is not None,
        "commands": options.slash is True,
        "whole": options.require == "whole",
    }
    return [option for option, is_asked in asked.items() if is_asked]


def why_protocol_not_chosen(
    adapter: Adapter,
    options: Options,
    settings: AgentSettings,
    access: Access,
    rules: Sequence[Rule] = (),
    *,
    attaches: bool = False,
) -> str:
    """Return why a turn with these options uses the agent's own protocol only if the message names it; "" if `auto` may
    choose it."""
    card = adapter.card
    can, headless = card.faces.get("dialogue"), card.faces.get("exec")
    if can is None:
        return "it has no protocol"
    if "dialogue" in card.never_auto:
        return "its protocol is used only where it is named"
    if options.once:
        return "a throw-away session has no next turn"
    if options.is_proxied:
        return "the turn has a proxy of its own"
    lacking = [
        OPTIONS[option] for option in needed_features(options, settings, attaches=attaches) if not getattr(can, option)
    ]
    if lacking:
        return f"its protocol has no way to do {', '.join(lacking)}"
    if can.access and access not in can.access:
        return f"its protocol can't enforce access {access}"
    if headless is not None and access in headless.outbox and access not in can.outbox:
        return "over its protocol it could send no messages"
    for rule in rules:
        if not enforcer_of(adapter, rule, "dialogue", access).by:
            return f"over its protocol it can't be held to the rule `{rule}`"
    return ""


def _why_not_chosen_for_turn(order: TurnRequest, access: Access) -> str:
    if order.unfit:
        return order.unfit
    can = order.adapter.card.faces.get("dialogue")
    if can is not None and ((order.fork and not can.fork) or (order.upto is not None and not can.rewind)):
        return "its protocol can't make this copy of a session"
    return why_protocol_not_chosen(
        order.adapter,
        order.message.options,
        order.settings,
        access,
        order.rules.rules,
        attaches=bool(order.message.payload.attach),
    )


# -- access ------------------------------------------------------------------------------------------------------------


def lowest_access(*bounds: Access | None) -> Access | None:
    """Return the lowest of these accesses, ignoring None."""
    return min((bound for bound in bounds if bound is not None), key=RANK.__getitem__, default=None)


def granted_access(
    configured: Access | None, asked: Access | None, *, from_agent: bool = False, at_most: Access | None = None
) -> Access:
    """Return the access that results from the settings (`configured`) and the message (`asked`), but at most `at_most`.

    A message from an agent can lower the access that the settings give, and can't raise it.
    """
    granted: Access = configured or "read"
    if asked is not None and not (from_agent and RANK[asked] >= RANK[granted]):
        granted = asked
    return lowest_access(granted, at_most) or granted


def _granted_access_of(order: TurnRequest) -> Access:
    asked = order.message.options.access
    return granted_access(order.settings.access, asked, from_agent=order.from_agent, at_most=order.at_most)


def access_of(order: TurnRequest, capabilities: Capabilities) -> Access:
    """Return the access of the turn. Raises UnsupportedError for an access that the agent can't enforce."""
    asked, configured = order.message.options.access, order.settings.access
    if not capabilities.access:
        if asked is not None:
            raise UnsupportedError(
                f"{order.adapter_name} agents have no access that could be set to {asked!r}",
                "what they may do is what their program does; leave --access out",
                subject=asked,
            )
        own = configured or "full"
        if lowest_access(own, order.at_most) != own:
            raise UnsupportedError(
                f"{order.message.to} may do what its program does ({own}), and this message has access "
                f"{order.at_most} at the most",
                f"if the program does no more than that, say so: beam agent set {order.message.to} "
                f"access={order.at_most}",
                subject=order.message.to,
            )
        return own
    granted = granted_access(configured, asked, from_agent=order.from_agent, at_most=order.at_most)
    if granted not in capabilities.access:
        raise UnsupportedError(
            f"{order.adapter_name} can't enforce --access {granted} here",
            f"it can: {', '.join(capabilities.access)}",
            subject=granted,
        )
    return granted


def max_access_of_messages(order: TurnRequest) -> Access | None:
    """Return the highest access that a message sent by this turn may have: the access of the turn.

    If beam can't limit the agent, it is the lower of the access in its settings and `at_most`; None if neither is set.
    If the turn can't run, it is `read`.
    """
    try:
        capabilities = order.adapter.card.faces[choose_face(order).face]
        return (
            access_of(order, capabilities)
            if capabilities.access
            else lowest_access(order.settings.access, order.at_most)
        )
    except UnsupportedError:
        return "read"
