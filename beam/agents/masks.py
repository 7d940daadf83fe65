"""Finds the masks of an agent CLI: the parts of its requests that a comparison of requests ignores. The general masks
are always included."""

from __future__ import annotations

import importlib

from beam.agents import registry
from beam.proxy.masks import GENERAL_MASKS, Masks


def masks_of(adapter: str) -> Masks:
    """Return the masks for the requests of this adapter's CLI. Raises NotFoundError for an unknown adapter."""
    module = registry.module_of(adapter)
    try:
        found = importlib.import_module(f"{module}.env")
    except ModuleNotFoundError as error:
        if error.name not in (f"{module}.env", module):
            raise
        return GENERAL_MASKS
    own: Masks = getattr(found, "masks", Masks())
    return own.plus(GENERAL_MASKS)


def all_masks() -> Masks:
    """Return the masks of all adapters, for a proxy that is not told which CLI it serves."""
    whole = Masks()
    for name in registry.ADAPTERS:
        own = masks_of(name)
        whole = Masks(
            drop=tuple(dict.fromkeys((*whole.drop, *own.drop))),
            patterns=tuple(dict.fromkeys((*whole.patterns, *own.patterns))),
        )
    return whole
