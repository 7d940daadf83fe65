"""What an adapter knows about routing its CLI's model calls through a proxy, as values.

An adapter's module `env` has the function `model_route` and, if that needs files under HOME, their paths in
`model_config`. Pure.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import cast

from msgspec import Struct

from beam.agents import registry


class Route(Struct, frozen=True, kw_only=True):
    """How a CLI's model calls are routed through a proxy.

    `upstream` is the URL that the CLI's settings give for them, "" if they give none. `env`, `words` (after the
    program's name) and `files` (in the turn's scratch folder, which the words and variables call `{scratch}`) route
    them through the proxy. `format` is their wire format, "" for any. `key` is the variable that the CLI takes a key
    from, and `keys` are all variables that may hold one. `choices` are the variables by which a person chooses a model
    or the like, and which hold no secret.
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


def router_of(adapter: str) -> tuple[Router, tuple[str, ...]] | None:
    """Return the function that routes this adapter's CLI, and the files under HOME that it wants to see; None for a CLI
    that can't be routed for one turn.
    """
    module = registry.module_of(adapter)
    try:
        found = importlib.import_module(f"{module}.env")
    except ModuleNotFoundError as error:
        if error.name not in (f"{module}.env", module):
            raise
        return None
    router = getattr(found, "model_route", None)
    return None if router is None else (cast(Router, router), getattr(found, "model_config", ()))
