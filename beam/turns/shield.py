"""Shields an agent from its model's key: the agent gets a dummy key, and an environment without the real one.

Refuses a turn if a process that the agent could read still has the key. docs/security.md says which protection holds
with which access.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from beam.agents.model_route import Route
from beam.base.errors import UsageError
from beam.process import table

if TYPE_CHECKING:
    from beam.turns.request import TurnRequest

_ALLOWED_VARIABLES = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "TMPDIR", "NO_COLOR"}
    | {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "CI", "NO_PROXY", "no_proxy"}
    | {"IS_SANDBOX", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "VIRTUAL_ENV", "GIT_CONFIG_NOSYSTEM"}
)
_KEY_NAME = re.compile(r"(?:API_?KEY|AUTH_TOKEN|OAUTH_TOKEN|ACCESS_TOKEN|SECRET_ACCESS_KEY)\Z", re.IGNORECASE)
_MIN_KEY_LENGTH = 16  # characters of a value that may be a key: a dummy is shorter


def new_token() -> str:
    """Return a dummy key for one turn."""
    return f"beam-dummy-{secrets.token_hex(16)}"


def shielded_environment(environ: Mapping[str, str], choices: Collection[str] = ()) -> dict[str, str]:
    """Return the variables that a shielded agent gets from its holder's environment.

    `choices` are the names of the CLI's own harmless variables.
    """
    allowed = _ALLOWED_VARIABLES.union(choices)
    return {name: value for name, value in environ.items() if name in allowed or name.startswith(("LC_", "BEAM_"))}


def check_key_hidden(order: TurnRequest, route: Route) -> None:
    """Raise UsageError if the key is in the agent's settings, or in an environment that the agent could read.

    That is the environment of the process that runs the turn, or of any process that this user may read.
    """
    wanted = frozenset(route.keys)
    for name in key_variables(order.settings.env, wanted):
        raise _refusal(f"`env` of agent {order.message.to} holds {name}")
    for name in key_variables(order.environ, wanted):
        raise _refusal(f"the environment of beam holds {name}")
    for pid, name in readable_key_variables(wanted):
        raise _refusal(f"process {pid} ({_command_name(pid)}) of this user holds {name} in its environment")


def key_variables(environ: Mapping[str, str], wanted: frozenset[str]) -> list[str]:
    """Return the names of variables that seem to hold a key."""
    return sorted(
        name
        for name, value in environ.items()
        if len(value) >= _MIN_KEY_LENGTH
        and not value.startswith("beam-")
        and (name in wanted or _KEY_NAME.search(name))
    )


def readable_key_variables(wanted: frozenset[str]) -> list[tuple[int, str]]:
    """Return (pid, name) for each variable in `wanted` that a process has in its environment, if this user may read it.

    Short values and beam's dummy keys do not count.
    """
    found = []
    for pid in table.pids():
        for pair in table.environment_of(pid):
            name, _, value = os.fsdecode(pair).partition("=")
            if name in wanted and len(value) >= _MIN_KEY_LENGTH and not value.startswith("beam-"):
                found.append((pid, name))
    return found


def _command_name(pid: int) -> str:
    try:
        return table.read_file(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()
    except OSError:
        return "?"


def _refusal(where: str) -> UsageError:
    return UsageError(
        f"--shield is refused: {where}, where the agent can read it",
        "unset it there (or in a new shell), and give --shield fd:3, or keep it in the keyring: beam secret set NAME",
    )
