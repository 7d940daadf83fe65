"""The masks of an agent CLI: the parts of its requests that a comparison of requests ignores. The general masks are
always included."""

from __future__ import annotations

import importlib

from msgspec import Struct

from beam.agents import registry


class Masks(Struct, frozen=True, kw_only=True):
    """The parts of a CLI's requests that do not count in a comparison.

    `drop`: the paths of fields that are left out (`metadata.user_id`; `*` is any item of a list). `patterns`: regular
    expressions, each with the text that replaces its matches.
    """

    drop: tuple[str, ...] = ()
    patterns: tuple[tuple[str, str], ...] = ()

    def plus(self, other: Masks) -> Masks:
        """Return the union of these masks and the other ones."""
        return Masks(drop=(*self.drop, *other.drop), patterns=(*self.patterns, *other.patterns))


_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
GENERAL_MASKS = Masks(
    drop=("prompt_cache_key", "metadata.user_id", "client_metadata", "safety_identifier", "user"),
    patterns=(
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
        (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?", "<time>"),
        (r"\b20\d\d[-/]\d\d?[-/]\d\d?\b", "<date>"),
        (r"\b\d\d?/\d\d?/20\d\d\b", "<date>"),
        (rf"\b(?:{_DAY},? )?{_MONTH} \d\d?,? (?:\d\d:\d\d:\d\d )?(?:[A-Z]{{3,4}} )?20\d\d\b", "<date>"),
        (rf"\b(?:{_DAY},? )?\d\d? {_MONTH} 20\d\d\b", "<date>"),
        (rf"\b{_DAY},? {_MONTH} \d\d?\b", "<date>"),
        (r"\b\d\d?:\d\d:\d\d(?: ?[AP]M)?\b", "<time>"),
        (r"\b1[6-9]\d{8}(?:\d{3})?(?:\.\d+)?\b", "<epoch>"),
        (r"\b127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
        (r"\blocalhost:\d{4,5}\b", "localhost:<port>"),
        (r"\b[0-9a-f]{40}\b", "<hash>"),
        (r"/tmp/[\w.-]*(?:tmp|temp|\d{3,}|[0-9a-f]{6,})[\w.-]*", "<tmp>"),
        (r"(?<=[Pp]ID[: =])\d+|(?<=[Pp]id[: =])\d+", "<pid>"),
    ),
)


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
