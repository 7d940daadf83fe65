"""The options of `beam send` and `beam run` that record, replay or shield the model calls of turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from beam import ModelCalls, UsageError
from beam.cli.context import Context

if TYPE_CHECKING:
    from beam import RunModelCalls


def send_settings(
    call: Context,
    *,
    record: str | None,
    replay: str | None,
    fill: bool,
    exact_at_least: int | None,
    upstream: str | None,
    shield: bool,
    key_fd: int | None,
    secret: str | None,
) -> ModelCalls | UnsetType:
    """Return the settings for the turn's model calls that these options of `beam send` ask for; UNSET if they ask for
    none. Raises UsageError for options that don't go together."""
    _check_options(record=record, replay=replay, fill=fill, exact_at_least=exact_at_least)
    if (key_fd is not None or secret is not None) and not shield:
        raise UsageError("--key-fd and --secret are for --shield", "add --shield")
    if shield and (key_fd is None) == (secret is None) and (replay is None or fill):
        raise UsageError(
            "--shield needs the key from one place", "--key-fd 3 3< <(a command that prints it), or --secret NAME"
        )
    if record is None and replay is None and upstream is None and not shield:
        return UNSET
    return ModelCalls(
        record="" if record is None else str(call.path(record)),
        replay="" if replay is None else str(call.path(replay)),
        fill=fill,
        exact_at_least=exact_at_least,
        upstream=upstream or "",
        shield=shield,
        secret=secret or "",
    )


def run_settings(
    call: Context,
    *,
    record: str | None,
    replay: str | None,
    fill: bool,
    exact_at_least: int | None,
    turns: str | None,
) -> RunModelCalls | None:
    """Return the settings for the model calls that these options of `beam run` ask for; None if they ask for none.
    `turns` is the folder of recorded turns that the run replays. Raises UsageError for options that don't go
    together."""
    _check_options(record=record, replay=replay, fill=fill, exact_at_least=exact_at_least)
    if record is None and replay is None:
        return None
    if turns is not None:
        raise UsageError(
            "--replay runs no agent, so there are no model calls", "leave it out, or --record-model and --replay-model"
        )
    from beam import RunModelCalls

    return RunModelCalls(
        record=None if record is None else call.path(record),
        replay=None if replay is None else call.path(replay),
        fill=fill,
        exact_at_least=exact_at_least,
    )


def _check_options(*, record: str | None, replay: str | None, fill: bool, exact_at_least: int | None) -> None:
    if record is not None and replay is not None:
        raise UsageError("--record-model and --replay-model don't go together", "with --fill a replay records too")
    for name, is_given in (("--fill", fill), ("--exact-at-least", exact_at_least is not None)):
        if is_given and replay is None:
            raise UsageError(f"{name} is for a replay", "add --replay-model DIR")
