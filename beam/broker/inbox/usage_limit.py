"""Waits for the end of a usage limit of an account: the login with which an agent's CLI asks its vendor.

An account has one file in this user's state directory while its limit lasts, so every holder of an agent of that
account, in any root, leaves its messages alone until then. Does not depend on turns, or on how a message is claimed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from beam.base import files, typed_values
from beam.base.clock import local_moment, parse_rfc3339, recorded_ns, rfc3339
from beam.base.digest import sha256
from beam.base.errors import BeamError, DiskError
from beam.broker.inbox import launch
from beam.model.outcome import Class, Status
from beam.model.settings import is_answer
from beam.root.paths import state_dir

if TYPE_CHECKING:
    from beam.broker.inbox.context import RootContext
    from beam.model.events import TurnFinished
    from beam.model.message import Message
    from beam.model.settings import AgentSettings, Policy

_MORE_S = 2.0  # that is waited beyond the end of the limit: clocks differ
_FIRST_S, _MOST_S = 60.0, 15 * 60.0  # the first pause and the longest one, if nobody knows the end
_NS = 1_000_000_000
# The ends of the names of variables that decide which login a CLI uses: its keys, and where its own files are.
_LOGIN_ENDS = ("API_KEY", "AUTH_TOKEN", "OAUTH_TOKEN", "HOME", "CONFIG_DIR", "DATA_DIR", "AGENT_DIR", "GLOBAL_DIR")
_FILE_BYTES = 4096


class LimitedAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The file of an account whose usage limit is reached: nothing is claimed for its agents before `until`. `since` is
    when that was recorded (both RFC 3339), and `agent` the agent that ran into the limit."""

    until: str
    since: str
    agent: str


def account_of(settings: AgentSettings, environ: Mapping[str, str]) -> str:
    """Return the name of the account's file: a digest of `account` in the settings, else of the adapter and the login
    that the environment names. No key can be read from it."""
    if settings.account:
        parts: list[object] = [settings.account]
    else:
        env = {**environ, **settings.env}
        login = sorted((name, value) for name, value in env.items() if name.endswith(_LOGIN_ENDS))
        parts = [settings.adapter, settings.command, settings.runner, login]
    return sha256(msgspec.json.encode(parts)).hexdigest()[:32]


def is_waited_for(policy: Policy, finished: TurnFinished) -> bool:
    """Return whether the turn ran into a usage limit whose end the policy waits for."""
    return policy.usage_limit == "wait" and finished.status is Status.FAILED and finished.class_ is Class.RATE_LIMIT


def next_try(message: Message, finished: TurnFinished) -> str:
    """Return when a message that ran into a usage limit may be tried again (RFC 3339): a moment after the limit ends.
    If nobody knows its end, or the named time is over, the pause is doubled with each try."""
    is_known = isinstance(finished.resets_at, str)
    if isinstance(finished.resets_at, str) and finished.resets_at > finished.ts:
        return rfc3339(recorded_ns(finished.resets_at) + int(_MORE_S * _NS))
    pause_s = min((_MORE_S if is_known else _FIRST_S) * 2.0 ** min(message.limited, 20), _MOST_S)
    return rfc3339(recorded_ns(finished.ts) + int(pause_s * _NS))


def record(context: RootContext, agent: str, finished: TurnFinished, until: str) -> None:
    """Record that the account of this agent reached its usage limit, unless a later end is known. An error is ignored:
    then the other agents of the account find it out by themselves."""
    settings = context.settings_of(agent)
    if settings is None:
        return
    path = account_file(context, settings)
    before = _read(path)
    if before is not None and before.until >= until:
        return
    limited = LimitedAccount(until=until, since=finished.ts, agent=agent)
    with contextlib.suppress(BeamError, OSError):
        files.make_directory(path.parent)
        files.replace(path, msgspec.json.encode(limited) + b"\n")
    if before is not None and remaining_s(before, context.clock.now_ns()) > 0:
        return  # a person was told of this limit
    ends = local_moment(until, finished.ts)
    text = f"the usage limit of {agent} is reached: the messages of its account wait until {ends}"
    launch.notify_budget(context, f"usage-limit-{path.name}-{until}", agent=agent, text=text)


def forget(context: RootContext, agent: str, finished: TurnFinished) -> None:
    """Forget the limit of this agent's account, if this turn began after the limit was reached and was answered."""
    settings = context.settings_of(agent) if context.config.policy.usage_limit == "wait" else None
    if settings is None or not is_answer(finished.status):
        return
    limited = _read(path := account_file(context, settings))
    began_ns = recorded_ns(finished.ts) - int((finished.duration_s or 0.0) * _NS)
    if limited is not None and began_ns > recorded_ns(limited.since):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def limited_account(context: RootContext, settings: AgentSettings | None) -> LimitedAccount | None:
    """Return the limit for whose end the messages of an agent with these settings wait; None if they wait for none, or
    if the policy does not wait."""
    if settings is None or context.config.policy.usage_limit != "wait":
        return None
    limited = _read(account_file(context, settings))
    return limited if limited is not None and remaining_s(limited, context.clock.now_ns()) > 0 else None


def remaining_s(limited: LimitedAccount, now_ns: int) -> float:
    """Return for how many more seconds the account is left alone. A pause that would last longer than it did when it
    was recorded is over: the clock was set back since."""
    until_ns, since_ns = recorded_ns(limited.until), recorded_ns(limited.since)
    return (until_ns - now_ns) / _NS if now_ns >= 2 * since_ns - until_ns else 0.0


def account_file(context: RootContext, settings: AgentSettings, suffix: str = "") -> Path:
    """Return the path of a file about the account of an agent with these settings."""
    return state_dir(context.environ) / "accounts" / (account_of(settings, context.environ) + suffix)


def _read(path: Path) -> LimitedAccount | None:
    try:
        limited = typed_values.decode(files.read(path, _FILE_BYTES), LimitedAccount)
        parse_rfc3339(limited.until)
        parse_rfc3339(limited.since)
    except (OSError, DiskError, ValueError):
        return None
    return limited
