"""Reads YAML into plain values, with the line of every key.

Apart from the scripted agent, no other module of beam reads YAML.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from beam.base import yaml_bounds
from beam.base.errors import ConfigError
from beam.config.source import Source

if TYPE_CHECKING:
    import yaml


_LONGEST_NUMBER = 100  # characters; what YAML takes for a number may be any text of digits and colons


_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_SHOWN_CHARS = 60  # characters of the file's text that an error shows
_SCALARS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool", "timestamp"))


def parse_yaml(data: bytes, path: Path) -> tuple[object, dict[tuple[str, ...], int]]:
    """Return the value in a YAML file, and the line of each of its keys. Raises ConfigError."""
    walk, value = _parse_nodes(data, Source(str(path)))
    return value, walk.lines


def parse_with_source(data: bytes, name: str) -> tuple[object, Source]:
    """Return the value in a YAML file of that name, and a source with the line and column of each key. Raises
    ConfigError."""
    walk, value = _parse_nodes(data, Source(name, columns={}))
    return value, Source(name, walk.lines, walk.columns)


def _parse_nodes(data: bytes, source: Source) -> tuple[_Walk, object]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = data.decode("utf-8-sig")
        yaml_bounds.check(text)
        node = yaml.compose(text, Loader=loader)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise source.error_at(line, column, "not UTF-8", "save the file as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        raise _yaml_error(error, data, source) from error
    except (yaml.YAMLError, RecursionError) as error:
        reason = getattr(error, "reason", "nested too deeply")
        raise source.error((), f"not YAML: {reason}") from error
    except ValueError as error:
        raise source.error((), str(error), "settings are small; check that this is the right file") from error
    walk = _Walk(source)
    return walk, walk.value(node, ()) if node is not None else None


def _yaml_error(error: yaml.MarkedYAMLError, data: bytes, source: Source) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    number = mark.line + 1 if mark else 1
    lines = data.splitlines()
    line = lines[number - 1] if number <= len(lines) else b""
    hint = "it is not YAML there: look at brackets, quotes and indentation, also of the lines above"
    if b"\t" in line[: len(line) - len(line.lstrip())]:
        hint = "YAML is indented with spaces, not tabs"
    problem = error.problem or error.context or "not YAML"
    if "another document" in problem:
        problem, hint = "a second document begins here", "keep one, without the line ---"
    if "nesting depth" in problem:  # PyYAML 6.0.4 refuses deep nesting itself
        problem, hint = "nested too deeply", "settings are small; check that this is the right file"
    return source.error_at(number, mark.column + 1 if mark else 1, problem, hint)


class _Walk:
    """Turns YAML nodes into plain values and records the line of each key and item. Raises ConfigError for ambiguous
    YAML that other parsers accept."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines: dict[tuple[str, ...], int] = {}
        self.columns: dict[tuple[str, ...], int] = {}
        self.nodes = 0

    def value(self, node: yaml.Node, at: tuple[str, ...]) -> object:
        import yaml

        self.count(node, at)
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTIONS:
            raise self.error(node, at, f"beam reads no tag such as {node.tag[:_SHOWN_CHARS]!r}")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                self.mark((*at, str(number)), item)
            return [self.value(item, (*at, str(n))) for n, item in enumerate(node.value)]
        if node.tag == "tag:yaml.org,2002:str":
            return str(node.value)
        is_variable = at[-2:-1] == ("env",) or (at[:1] == ("env_profiles",) and len(at) == 3)
        if is_variable and node.tag in _SCALARS:
            return str(node.value)  # a variable is text, so `1` is "1" and `010` is "010"
        if len(node.value) > _LONGEST_NUMBER and node.tag != "tag:yaml.org,2002:str":
            raise self.error(node, at, "not a value that beam reads")
        try:
            return yaml.constructor.SafeConstructor().construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise self.error(node, at, "not a value that beam reads") from error

    def mark(self, at: tuple[str, ...], node: yaml.Node) -> None:
        """Remember the line and column at which this key or item begins."""
        self.lines[at] = node.start_mark.line + 1
        self.columns[at] = node.start_mark.column + 1

    def count(self, node: yaml.Node, at: tuple[str, ...]) -> None:
        """Count one more node, and raise ConfigError beyond a limit: a few lines of aliases can expand to any number of
        nodes."""
        self.nodes += 1
        if self.nodes > yaml_bounds.MAX_NODES or len(at) > yaml_bounds.DEEPEST:
            raise self.error(node, at, "nested too deeply, or too large with its aliases")

    def mapping(self, node: yaml.MappingNode, at: tuple[str, ...]) -> dict[str, object]:
        import yaml

        own: dict[str, object] = {}
        merged: dict[str, object] = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                several = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for part in several:
                    if not isinstance(part, yaml.MappingNode):
                        raise self.error(part, at, "<< wants keys and values")
                    self.count(part, (*at, "<<"))
                    merged = {**self.mapping(part, (*at, "<<")), **merged}
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.error(key_node, at, "a key must be text")
            key = key_node.value
            if key in own:
                raise self.error(key_node, (*at, key), "said twice")
            self.mark((*at, key), key_node)
            own[key] = self.value(value_node, (*at, key))
        return {**merged, **own}

    def error(self, node: yaml.Node, at: tuple[str, ...], what: str) -> ConfigError:
        columns = None if self.source.columns is None else {at: node.start_mark.column + 1}
        return Source(self.source.name, {at: node.start_mark.line + 1}, columns).error(at, what)
