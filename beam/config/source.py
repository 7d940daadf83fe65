"""Settings as they are written: YAML as plain values, the place of each value for errors, and a cache of what was
parsed.

Without the cache, importing a YAML parser would take a fifth of the CPU time of a short command. An entry is used only
for exactly the same bytes; in any other case the file is parsed again. Apart from the scripted agent, no other module
of beam reads YAML. Does not depend on the meaning of a setting, or on whether agents can write in the root. If agents
can write there, the caller must not use the cache.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from beam.base import __version__, files, typed_values
from beam.base.digest import sha256
from beam.base.errors import BeamError, ConfigError
from beam.base.errors import nearest as near_word

if TYPE_CHECKING:
    import yaml


class Source(Struct, frozen=True):
    """The place where values were written, for errors: the name of a file or variable, and the line of each key (from
    1).

    With `columns` (from 1) an error begins like that of a compiler, `FILE:LINE:COLUMN:`, which editors and CI systems
    understand.
    """

    name: str
    lines: Mapping[tuple[str, ...], int] = {}
    columns: Mapping[tuple[str, ...], int] | None = None

    def error(self, keys: tuple[str, ...], what: str, hint: str = "") -> ConfigError:
        """Return an error about the value at `keys`, the path of keys from the top."""
        known = next((keys[:n] for n in range(len(keys), 0, -1) if keys[:n] in self.lines), None)
        line = self.lines[known] if known is not None else None
        if self.columns is not None:
            column = self.columns.get(known, 1) if known is not None else 1
            position = f"{self.name}:{line or 1}:{column}"
        else:
            position = self.name + (f", line {line}" if line else "")
        return ConfigError(
            f"{position}: {'.'.join(keys)}: {what}" if keys else f"{position}: {what}", hint, subject=self.name
        )

    def error_at(self, line: int, column: int, what: str, hint: str = "") -> ConfigError:
        """Return an error about the text at that line and column."""
        position = f"{self.name}, line {line}" if self.columns is None else f"{self.name}:{line}:{column}"
        return ConfigError(f"{position}: {what}", hint, subject=self.name)


def as_mapping(value: object, at: tuple[str, ...], source: Source) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise source.error(at, f"expected keys and values, got {_kind(value)}")
    return value


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "a single value"


def nearest_or_all_hint(word: str, words: Collection[str]) -> str:
    """Return a hint that suggests the most similar of the words; if none is similar, the hint lists all words."""
    return nearest_hint(word, words) or f"there are: {', '.join(words)}"


def nearest_hint(word: str, words: Collection[str]) -> str:
    """Return a hint that suggests the most similar of the words; "" if none is similar."""
    closest = near_word(word, words)
    return f"did you mean {closest}?" if closest else ""


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

    from beam.base import yaml_bounds

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
        from beam.base import yaml_bounds

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


PARSED_JSON = "parsed.json"
_FORMAT = f"1 {__version__}"  # of the cache; another version of beam may read YAML in another way
_MAX_BYTES = 1 << 20

KeyLines = dict[tuple[str, ...], int]


class _ParsedFile(Struct, frozen=True):
    """The content of one file as plain values, and the line of each key."""

    values: Any
    lines: list[tuple[tuple[str, ...], int]]


class _CacheFile(Struct, frozen=True):
    v: str
    files: dict[str, _ParsedFile]  # by the SHA-256 of their bytes, hex


class ParsedFiles:
    """The settings files that one command reads. Their parsed content is cached in `root`. If `root` is None, nothing
    is cached."""

    def __init__(self, root: Path | None = None) -> None:
        self._path = None if root is None else root / PARSED_JSON
        self._before = self._load()
        self._now: dict[str, _ParsedFile] = {}

    def parse(self, data: bytes, path: Path) -> tuple[object, KeyLines]:
        """Return the content of a YAML file as plain values, and the line of each key. Raises ConfigError."""
        key = sha256(data).hexdigest()
        found = self._before.get(key)
        if found is None:
            values, lines = parse_yaml(data, path)
            found = _ParsedFile(values, list(lines.items()))
        self._now[key] = found
        return found.values, dict(found.lines)

    def remember(self) -> None:
        """Write the content that this command parsed to the cache, if the cache does not have it yet and the root
        exists."""
        if self._path is None or self._now.keys() == self._before.keys() or not self._path.parent.is_dir():
            return
        kept = {key: each for key, each in self._now.items() if key in self._before or _may_be_cached(each)}
        data = msgspec.json.encode(_CacheFile(_FORMAT, kept))
        if kept.keys() == self._before.keys() or len(data) > _MAX_BYTES:
            return
        from threading import get_ident

        temporary = self._path.with_name(f".{PARSED_JSON}.{os.getpid()}-{get_ident()}.tmp")
        with contextlib.suppress(OSError, BeamError):  # the next command parses again, that is all
            handle = files.open_to_write(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                files.write_all(handle, data)
            finally:
                os.close(handle)
            temporary.rename(self._path)

    def _load(self) -> dict[str, _ParsedFile]:
        if self._path is None:
            return {}
        try:
            found = typed_values.decode(files.read(self._path, _MAX_BYTES), _CacheFile)
        except (OSError, BeamError, ValueError, RecursionError):
            return {}
        return found.files if found.v == _FORMAT else {}


def _may_be_cached(parsed: _ParsedFile) -> bool:
    """Return whether the values may be cached. JSON must reproduce them exactly (it does not for dates and infinities),
    and none may be a secret or the value of an environment variable."""
    from beam.secrets.redact import redact

    if any("env" in at or "env_profiles" in at for at, _ in parsed.lines):
        return False
    try:
        data = msgspec.json.encode(parsed.values)
        is_same = repr(msgspec.json.decode(data)) == repr(parsed.values)
    except (ValueError, TypeError, RecursionError):
        return False
    return is_same and not redact(data.decode())[1]
