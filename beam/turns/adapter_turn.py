"""Converts the request for a turn to the adapter's `Turn`, if the face can do everything that the message asks for.

Of the file system, it checks only whether the folder and the attached files exist. Starts and writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET

from beam.agents.base import Face, Turn
from beam.agents.options import check_options
from beam.agents.ruled import check_rules
from beam.base.errors import NotFoundError, UnsupportedError
from beam.turns.choice import access_of, needed_features
from beam.turns.envelope import add_envelope
from beam.turns.request import TurnRequest


def turn_of(order: TurnRequest, face: Face, scratch: str) -> Turn:
    """Return the turn in the form that the adapter gets.

    Raises UnsupportedError for an option that this face can't apply, and NotFoundError if the folder or an attached
    file is missing.
    """
    card = order.adapter.card
    capabilities = card.faces[face]
    if order.settings.runner and face in card.ends_in_files:  # the CLI's files are where the runner runs it
        capabilities = msgspec.structs.replace(capabilities, whole=False)
    options, settings, name = order.message.options, order.settings, order.adapter_name
    schema = options.schema or settings.schema
    turns = options.max_turns or settings.max_turns
    budget = options.budget_usd or settings.budget_usd
    only_typed = face == "terminal" and not capabilities.access  # settings for all agents don't stop a program
    given = msgspec.structs.replace(settings, model=None, system=None) if only_typed else settings
    asked = set(needed_features(options, given, attaches=bool(order.message.payload.attach)))
    if order.is_proxied:
        asked -= {"budget", "whole"}
    if order.session_id is not None and not only_typed:
        asked.add("resume")
    check_options(name, capabilities, asked, card.faces)
    if order.fork and not capabilities.fork:
        raise UnsupportedError(
            f"{name} can't continue in a copy of a session with --via {face}",
            _other_mode_hint(order, "fork"),
            subject=name,
        )
    if order.upto is not None and not capabilities.rewind:
        raise UnsupportedError(
            f"{name} can't go on from an earlier point of its session with --via {face}",
            _other_mode_hint(order, "rewind"),
            subject=name,
        )
    cwd = folder_of(order)
    if not os.path.isdir(cwd):  # noqa: PTH112 - pathlib's raises for a name that can't be
        why = f"`cwd` of agent {order.message.to} names it" if settings.cwd else "it is the project folder"
        raise NotFoundError(f"{cwd} is not a directory", why, subject=str(cwd))
    if order.from_agent:
        _check_attached_files(order.message.payload.attach)
    access, outbox = access_of(order, capabilities), f"{scratch}/outbox"
    check_rules(order.adapter, face, access, order.rules.rules)
    if settings.runner:
        from beam.turns import runner

        has_access, calls = bool(capabilities.access), options.model_calls is not UNSET
        runner.check(settings, order.message.to, face, access, has_access=has_access, is_proxied=calls)
    return Turn(
        text=add_envelope(
            order.message,
            settings=settings,
            card=card,
            capabilities=capabilities,
            access=access,
            outbox=outbox,
        ),
        sender=order.message.sender,
        message_id=order.message.id,
        agent=order.message.to,
        attempt=order.message.attempt,
        session_id=order.session_id,
        fresh_session_id=order.fresh_session_id,
        fork=order.fork,
        upto=order.upto,
        model=options.model or settings.model,
        access=access,
        cwd=str(cwd),
        scratch=scratch,
        outbox=outbox,
        attach=order.message.payload.attach,
        schema=schema,
        once=options.once,
        slash=options.slash is True,
        max_turns=turns,
        budget_usd=budget if capabilities.budget else None,
        settings=settings,
        folder_trusted=order.folder_trusted,
        leave_out=bool(order.left_out),
        carried=order.carried,
        told=order.told,
        rules=order.rules,
    )


def _other_mode_hint(order: TurnRequest, able: Literal["fork", "rewind"]) -> str:
    """Return a hint: which other mode can fork or rewind a session, or how to go on without that."""
    other = next((face for face, can in order.adapter.card.faces.items() if getattr(can, able)), None)
    return f"--via {other} can" if other else f"start with an empty session: beam agent reset {order.message.to}"


def folder_of(order: TurnRequest) -> Path:
    """Return the folder in which the agent works in this turn."""
    cwd = order.settings.cwd
    return Path(os.path.realpath(order.base / cwd)) if cwd else order.base


def _check_attached_files(paths: Sequence[str]) -> None:
    """Raise NotFoundError if a file that an agent attached was replaced since.

    Its real path was checked when the message was sent. Since then it may have become a link.
    """
    for path in paths:
        if os.path.realpath(path) != path or not os.path.isfile(path):  # noqa: PTH113 - any text may be a path here
            raise NotFoundError(f"{path} is not the file that was attached", "send it again", subject=path)
