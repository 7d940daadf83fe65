"""The values by which an adapter describes how its CLI's model calls are routed through a proxy.

An adapter's module `env` has the function `model_route`. If that function needs files under HOME, `model_config` in the
same module has their paths. Pure.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import cast

from msgspec import Struct

from beam.agents import registry


class Route(Struct, frozen=True, kw_only=True):
    """How a CLI's model calls are routed through a proxy.

    `upstream` is the URL for model calls in the CLI's settings, "" if the settings have none. These fields route the
    calls through the proxy: `env` (variables), `words` (arguments after the program's name) and `files` (in the turn's
    scratch folder, which the words and variables call `{scratch}`). `format` is the wire format of the calls, "" for
    any. `key` is the variable from which the CLI takes a key, and `keys` are all variables that may hold a key.
    `choices` are variables without secrets, by which a person chooses a model or the like.
    """

    upstream: str = ""
    env: dict[str, str] = {}
    words: tuple[str, ...] = ()
    files: dict[str, bytes] = {}
    format: str = ""
    key: str = ""
    keys: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


Router = Callable[[str, Mapping[str, str], Mapping[str, bytes]], Route | None]


def route_by_variable(
    variable: str, format: str, keys: tuple[str, ...], *, default: str = "", choices: tuple[str, ...] = ()
) -> Router:
    """Return the router for a CLI that takes the URL for its model calls from this variable (without it: `default`),
    and a key from the first of `keys`."""

    def model_route(url: str, environ: Mapping[str, str], files: Mapping[str, bytes]) -> Route:
        upstream = environ.get(variable) or default
        return Route(upstream=upstream, env={variable: url}, format=format, key=keys[0], keys=keys, choices=choices)

    return model_route


def router_of(adapter: str) -> tuple[Router, tuple[str, ...]] | None:
    """Return the function that routes the model calls of this adapter's CLI, and the paths of the files under HOME that
    the function reads. Return None for a CLI whose calls can't be routed for one turn."""
    module = registry.module_of(adapter)
    try:
        found = importlib.import_module(f"{module}.env")
    except ModuleNotFoundError as error:
        if error.name not in (f"{module}.env", module):
            raise
        return None
    router = getattr(found, "model_route", None)
    return None if router is None else (cast(Router, router), getattr(found, "model_config", ()))
