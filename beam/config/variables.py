"""Fills in `${NAME}` in the values of `env:`, from the environment of the process that runs the turn.

Does not depend on where a value was written: what a stranger wrote is refused before its turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from beam.base.errors import ConfigError

_OPENED = "${"
_REFERENCE = r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\})?"  # compiled where a value has one


def problem_in(value: str) -> str:
    """Return what is wrong with the references in the value of a variable; "" if nothing is."""
    if _OPENED in value and any(found[0] == _OPENED for found in re.finditer(_REFERENCE, value)):
        return "holds ${ without the name of a variable and }"
    return ""


def names_in(value: str) -> list[str]:
    """Return the names of the variables that the value refers to."""
    return [found[1] for found in re.finditer(_REFERENCE, value) if found[1]] if _OPENED in value else []


def filled_env(env: Mapping[str, str], environ: Mapping[str, str], agent: str) -> dict[str, str]:
    """Return the variables with each `${NAME}` replaced by that variable of `environ`, or by what follows `:-` if that
    is not set or empty. `$${` becomes `${`.

    Raises ConfigError for a variable that is not set and has no default.
    """

    def fill(key: str, value: str) -> str:
        def one(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if name is None:
                return _OPENED
            if default is not None:
                return environ.get(name) or default
            if name not in environ:
                hint = f"set {name}, or write ${{{name}:-…}} with a default, or $${{{name}}} for this text itself"
                raise ConfigError(f"{name} is not set, and `env.{key}` of {agent} asks for it", hint, subject=agent)
            return environ[name]

        return re.sub(_REFERENCE, one, value) if _OPENED in value else value

    return {key: fill(key, value) for key, value in env.items()}
