"""Bounds on YAML from untrusted authors, checked before parsing, because parsers take quadratic time in the depth.

Does not depend on the purpose of the YAML.
"""

from __future__ import annotations

MOST_NODES = 20_000
DEEPEST = 32
_FAST = 1 << 16, 1000  # characters, brackets: up to so many, whatever they say is read in half a second


def check(text: str) -> None:
    """Raise ValueError for more depth or nodes than a person would write; raise yaml.YAMLError for invalid YAML."""
    if len(text) <= _FAST[0] and text.count("[") + text.count("{") <= _FAST[1]:
        return
    import yaml

    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST or number > 2 * MOST_NODES:
            line = f"line {event.start_mark.line + 1}: " if event.start_mark else ""
            raise ValueError(f"{line}nested too deeply, or too large")
