"""Limits on the depth and size of YAML from untrusted authors, checked before parsing, because parsers take quadratic
time in the depth.

Does not depend on the purpose of the YAML.
"""

from __future__ import annotations

MAX_NODES = 20_000
DEEPEST = 32
_UNCHECKED_SIZE = 1 << 16, 1000  # characters and brackets; up to both limits, any text is parsed in half a second


def check(text: str) -> None:
    """Raise ValueError for YAML with more depth or nodes than a person would write, and yaml.YAMLError for invalid
    YAML.

    A short text with few brackets is not checked.
    """
    if len(text) <= _UNCHECKED_SIZE[0] and text.count("[") + text.count("{") <= _UNCHECKED_SIZE[1]:
        return
    import yaml

    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST or number > 2 * MAX_NODES:
            line = f"line {event.start_mark.line + 1}: " if event.start_mark else ""
            raise ValueError(f"{line}nested too deeply, or too large")
