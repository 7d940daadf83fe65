"""Limits on the depth and size of YAML from untrusted authors, checked before parsing: parsers take quadratic time in
the depth, and a few lines of aliases can unfold to any number of nodes, also while `<<` is merged.

Does not depend on the purpose of the YAML.
"""

from __future__ import annotations

MAX_NODES = 20_000
DEEPEST = 32
_MAX_CHARACTERS = 1 << 24
_UNCHECKED_SIZE = 1 << 16, 1000  # characters and brackets; up to both limits, any text is parsed in half a second


def check(text: str) -> None:
    """Raise ValueError for YAML with more depth or nodes than a person would write, with all its aliases replaced, and
    yaml.YAMLError for invalid YAML.

    A short text with few brackets and without aliases is not checked.
    """
    has_aliases = "*" in text and "&" in text
    is_short = len(text) <= _UNCHECKED_SIZE[0] and text.count("[") + text.count("{") <= _UNCHECKED_SIZE[1]
    if is_short and not has_aliases:
        return
    import yaml

    known: dict[str | None, tuple[int, int]] = {}  # nodes and characters of each anchor
    open_: list[tuple[str | None, int, int]] = []  # the collections around: the nodes and characters before each
    nodes = characters = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        before = nodes, characters
        if isinstance(event, yaml.AliasEvent):
            more = known.get(event.anchor, (1, 0))
            nodes, characters = nodes + more[0], characters + more[1]
        elif isinstance(event, yaml.ScalarEvent):
            nodes, characters = nodes + 1, characters + len(event.value)
            if event.anchor is not None:
                known[event.anchor] = 1, len(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            nodes += 1
            open_.append((event.anchor, *before))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, *start = open_.pop()
            if anchor is not None:
                known[anchor] = nodes - start[0], characters - start[1]
        if len(open_) > DEEPEST or nodes > 2 * MAX_NODES or characters > _MAX_CHARACTERS:
            line = f"line {event.start_mark.line + 1}: " if event.start_mark else ""
            raise ValueError(f"{line}nested too deeply, or too large with its aliases")
