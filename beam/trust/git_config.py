"""Finds the programs that a folder's own git configuration makes git run, and the settings that keep git from running
them.

Agent CLIs run `git status` and `git diff` without being asked. A fresh clone contains no such configuration, but an
unpacked archive may, and so may a directory in a clone that looks like a bare repository. Does not depend on any CLI,
or on whether the folder is trusted.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from beam.base import files
from beam.base.errors import BeamError
from beam.base.typed_values import escape_surrogates
from beam.model.autoloaded import Finding
from beam.model.message import Access
from beam.trust import scan

T = TypeVar("T")
_PROGRAM_KEYS = frozenset(("core.fsmonitor", "diff.external", "gpg.program"))
_NAMED_PROGRAM_KEYS = frozenset(  # keys with a name in the middle, which is left out here
    (
        *("filter.clean", "filter.smudge", "filter.process", "diff.command", "diff.textconv"),
        *("gpg.program", "hook.command"),
        *("lfs.clean", "lfs.smudge", "lfs.path"),  # git-lfs, as git's filter: lfs.extension.*, lfs.customtransfer.*
    )
)
_FETCHERS = frozenset(  # keys that run a program when a partial clone fetches a missing object, as `git status` does
    (
        *("core.sshcommand", "core.gitproxy", "core.askpass", "core.alternaterefscommand"),
        *("credential.helper", "gc.recentobjectshook", "remote.uploadpack", "remote.vcs", "url.insteadof"),
    )
)
_PROTOCOLS = tuple(f"protocol.{name}allow" for name in ("", "file.", "ssh.", "git.", "http.", "https.", "ext."))
_HOOK_OF_FETCH = "pre-auto-gc"  # after a fetch
_HOOKS = ("post-index-change", "reference-transaction")
_MONITOR, _HOOKS_PATH, _WORK_TREE = "core.fsmonitor", "core.hookspath", "core.worktree"
_LFS_COMMANDS = frozenset(
    {"git-lfs clean -- %f", "git-lfs smudge -- %f", "git-lfs smudge --skip -- %f", "git-lfs filter-process"}
)
_BOOLEAN_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "0", "1"))
_FALSE_WORDS = frozenset(("", "false", "no", "off", "0"))
_LARGEST_CONFIG = 256 << 10
_DEEPEST = 5  # levels of includes
_MAX_FILES = 50  # a file with its includes; together they have at most `_LARGEST_CONFIG` bytes
_MAX_HOOKS = 10  # directories of hooks, including the usual one; also the limit for work trees
_MAX_REPOSITORIES = 200  # nested in one folder
_LARGEST_INDEX = 64 << 20
_MAX_SETTINGS = 100  # settings that are switched off


class GitFindings(Struct, frozen=True, kw_only=True):
    """The findings in git's configuration. The settings in `off` (git's keys and values) make git ignore each finding
    that git is able to ignore."""

    found: tuple[Finding, ...] = ()
    off: Mapping[str, str] = {}


def findings_of_git(base: Path, cwd: Path, *, access: Access, home: Path) -> GitFindings:
    """Return the findings in each repository that git may find from `cwd` upwards.

    With any access except `full`, `off` turns all found settings off. With `full`, it turns off only the file system
    monitor, because an agent with that access adds and commits files, and without the configured filters git would
    store content that must not be stored.
    """
    found: list[Finding] = []
    off: dict[str, str] = {}
    for level in scan.parents(cwd, home=home):
        ahead, looked = [(level, each) for each in _repositories(level)], 0
        while ahead:
            folder, place = ahead.pop()
            reading = _Repository(folder, place, base=base, home=home, is_full=access == "full")
            looked += 1
            if os.path.isdir(place.git_dir) and (place.git_dir != folder or len(reading.work_trees) > 1):  # noqa: PTH112
                inner = reading.submodule_folders() if looked < _MAX_REPOSITORIES else reading.record_too_deep()
                ahead += [(each, one) for each in inner for one in _repositories(each)]
            found += reading.found
            off |= reading.off
    return GitFindings(found=tuple(found), off=off)


def override_variables(off: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that make git use the settings in `off` with precedence over configuration
    files. Settings that `environ` passes to git in the same way stay in effect."""
    if not off:
        return {}
    count = environ.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isascii() and count.isdigit() and len(count) < 6 else 0
    env = {"GIT_CONFIG_COUNT": str(first + len(off))}
    for number, (key, value) in enumerate(off.items(), first):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env


# -- repositories ------------------------------------------------------------------------------------------------------


class _GitDirectories(Struct, frozen=True):
    """The git directory of a repository, the directory of its configuration, and the files that should name one of
    these two and that beam can't read as git does."""

    git_dir: Path
    common: Path
    unreadable: tuple[Path, ...] = ()


def _repositories(level: Path) -> Iterator[_GitDirectories]:
    """Yield the places of each repository of this folder: the one in `.git`, and the folder itself if git may take it
    for a bare repository."""
    inner = level / ".git"
    if os.path.isfile(inner):  # noqa: PTH113 - it never raises
        try:
            named = _read_line(inner, "gitdir: ")
        except ValueError:
            yield _GitDirectories(inner, inner, (inner,))
        else:
            if named is not None:
                yield _with_common(level / named)
    elif os.path.isdir(inner):  # noqa: PTH112
        yield _with_common(inner)
    if _looks_bare(level) or (os.path.isdir(level / "objects") and os.path.isdir(level / "refs")):  # noqa: PTH112
        yield _with_common(level)


def _looks_bare(level: Path) -> bool:
    """Return whether git may take the folder itself for a repository. git also wants `objects` and `refs`, but of any
    kind, and in the folder that `commondir` names."""
    return os.path.lexists(level / "HEAD")


def _shared_indexes(git_dir: Path) -> list[Path]:
    """Return the files of a split index (`sharedindex.*`) in this git directory."""
    try:
        with os.scandir(git_dir) as entries:
            names = [entry.name for entry in entries if entry.name.startswith("sharedindex.")]
    except OSError:
        return []
    return [git_dir / name for name in sorted(names)[:_MAX_FILES]]


def _with_common(git_dir: Path) -> _GitDirectories:
    file = git_dir / "commondir"
    try:
        common = _read_line(file, "")
    except ValueError:
        return _GitDirectories(git_dir, git_dir, (file,))
    return _GitDirectories(git_dir, git_dir if common is None else git_dir / common)


def _read_line(path: Path, prefix: str) -> str | None:
    """Return the text after `prefix` in a small file, without its line end. Return None if there is no file, if the
    file does not begin with `prefix`, or if no text follows. Raises ValueError if beam can't read the file as git
    does."""
    file = scan.scan_files(path.parent, path.name)
    if not file:
        return None
    text = file[0].text
    if text is None or "\0" in text:
        raise ValueError("it is too large, or no text")
    if not text.startswith(prefix):
        return None
    return text.removeprefix(prefix).rstrip("\r\n") or None


class _Repository:
    """Collects the findings in one repository's configuration and hooks, and the settings that turn them off."""

    def __init__(self, level: Path, place: _GitDirectories, *, base: Path, home: Path, is_full: bool) -> None:
        self.found: list[Finding] = []
        self.off: dict[str, str] = {}
        self.work_trees = [level]
        git_dir, common = place.git_dir, place.common
        self._base, self._home, self._is_full = base, home, is_full
        self._git_dir = git_dir
        hooks, hook_paths = [common / "hooks"], list[str]()
        is_partial, fetchers, protocols = False, [], set(_PROTOCOLS)
        for file in place.unreadable:
            self._add_unreadable(file, "it is too large, or no text")
        for file in (common / "config", git_dir / "config.worktree"):
            self._files, self._bytes = _MAX_FILES, _LARGEST_CONFIG
            try:
                for key, value in self._read_settings(file, _DEEPEST):
                    if key == _HOOKS_PATH:
                        self._add_within(hook_paths, value, "directories of hooks")
                    elif key == _WORK_TREE:
                        self._add_within(self.work_trees, git_dir / self._checked_path(value), "work trees")
                    elif _runs_program(key):
                        self._add_setting(file, key, value)
                    elif key == "extensions.partialclone" or _without_name(key) == "remote.promisor":
                        is_partial = is_partial or value.lower() not in _FALSE_WORDS
                    elif _fetches_by_program(key, value):
                        fetchers.append((file, key, value))
                    elif _without_name(key) == "protocol.allow":
                        protocols.add(key)
            except ValueError as error:
                self._add_unreadable(file, str(error))
        try:
            hooks += [self._resolve_path(work_tree, value) for value in hook_paths for work_tree in self.work_trees]
        except ValueError as error:
            self._add_unreadable(common / "config", str(error))
        if is_partial:
            self._add_fetchers(fetchers[:_MAX_SETTINGS], protocols)
        names = (*_HOOKS, _HOOK_OF_FETCH) if is_partial else _HOOKS
        for directory in dict.fromkeys(hooks):
            self._add_hooks(directory, names)
        if git_dir == level and (self.found or _looks_bare(level)):
            self.off["safe.bareRepository"] = "explicit"

    def submodule_folders(self) -> list[Path]:
        """Return the folders in the repository's work tree that its index lists as submodules, because git looks into
        each of them."""
        from beam.trust.git_index import submodules

        named: list[str] = []
        for file in (self._git_dir / "index", *_shared_indexes(self._git_dir)):
            try:
                named += submodules(files.read(file, _LARGEST_INDEX, follow=True))
            except FileNotFoundError:
                continue
            except (OSError, BeamError, ValueError):
                self._add_unreadable_index(file, "it is no index, or too large")
        return [work_tree / name for name in dict.fromkeys(named) for work_tree in dict.fromkeys(self.work_trees)]

    def record_too_deep(self) -> list[Path]:
        """Add a finding that there are more nested repositories than beam searches. Return an empty list."""
        self._add_unreadable_index(self._git_dir / "index", "too many repositories are in each other")
        return []

    def _add_unreadable_index(self, file: Path, why: str) -> None:
        """Add a finding for an index that beam can't read as git does. The finding's digest does not cover the content
        of the index, which changes with each commit."""
        name = f"{scan.relative_name(file, self._base)} is not read as git would read it: {why}"
        self._add(Finding(name=name, digest=scan.digest_of(name), says=True))

    @staticmethod
    def _add_within(found: list[T], value: T, what: str) -> None:
        if len(found) >= _MAX_HOOKS - 1:
            raise ValueError(f"too many {what}")
        found.append(value)

    def _add_setting(self, file: Path, key: str, value: str) -> None:
        is_monitor = key == _MONITOR
        if not value or value in _LFS_COMMANDS or (is_monitor and value.lower() in _BOOLEAN_WORDS):
            return
        if len(self.off) >= _MAX_SETTINGS:
            raise ValueError("too many settings")
        can_do_without = is_monitor or not self._is_full
        if can_do_without:
            self.off[key] = "false" if is_monitor else ""
        where = scan.relative_name(file, self._base)
        name = f"{where} has git run {scan.shorten(repr(value))} ({key[:80]})"
        self._add(Finding(name=name, digest=scan.digest_of(f"{key}={value}"), says=True, ignored=can_do_without))

    def _add_fetchers(self, found: list[tuple[Path, str, str]], protocols: set[str]) -> None:
        for file, key, value in found:
            if not self._is_full:
                self.off |= dict.fromkeys(sorted(protocols)[:_MAX_SETTINGS], "never")
            where = scan.relative_name(file, self._base)
            name = f"{where} has git fetch what is missing by {scan.shorten(repr(value))} ({key[:80]})"
            digest = scan.digest_of(f"{key}={value}")
            self._add(Finding(name=name, digest=digest, says=True, ignored=not self._is_full))

    def _add_hooks(self, directory: Path, names: tuple[str, ...]) -> None:
        for name in names:
            if not os.access(directory / name, os.X_OK):
                continue
            if not self._is_full:
                self.off[_HOOKS_PATH] = os.devnull
            for file in scan.scan_files(directory, name):
                path = scan.relative_name(file.path, self._base)
                self._add(Finding(name=path, digest=file.digest, text=file.text, ignored=not self._is_full))

    def _add_unreadable(self, file: Path, why: str) -> None:
        name = f"{scan.relative_name(file, self._base)} is not read as git would read it: {why}"
        digest = "".join(file.digest for file in scan.scan_files(file.parent, file.name))
        self._add(Finding(name=name, digest=digest, says=True))

    def _add(self, found: Finding) -> None:
        self.found.append(structs.replace(found, name=escape_surrogates(found.name), by=("git",), quiet=True))

    def _read_settings(self, file: Path, depth: int) -> Iterator[tuple[str, str]]:
        """Yield the keys and values of a configuration file and of all files that it includes, even if the condition of
        an `includeIf` is not met. Raises ValueError for a file that beam can't read as git does."""
        self._files -= 1
        self._bytes -= self._size(file)
        if self._files < 0 or self._bytes < 0:
            raise ValueError("it is too large, with what it includes")
        for seen in scan.scan_files(file.parent, file.name, short=_LARGEST_CONFIG):
            if seen.content is None:
                raise ValueError("it is no file, or too large")
            for key, value in parse(seen.content.decode(errors="surrogateescape")):
                yield key, value
                if key == "include.path" or (key.startswith("includeif.") and key.endswith(".path")):
                    if depth == 0:
                        raise ValueError("its files include each other")
                    yield from self._read_settings(self._resolve_path(file.parent, value), depth - 1)

    @staticmethod
    def _size(file: Path) -> int:
        """Return the size of a regular file in bytes; 0 if there is no file. Raises ValueError if the path is not a
        regular file."""
        try:
            found = file.stat()
        except OSError:  # whoever reads it sees why
            return 0
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no file")
        return found.st_size

    @staticmethod
    def _checked_path(value: str) -> str:
        """Return the path in a setting. Raises ValueError for a path that versions of git read differently: up to 2.44
        an unquoted tab is a space, and from 2.52 on the beginning `:(optional)` is no part of the path."""
        if "\t" in value or "\r" in value or value.startswith(":("):
            raise ValueError(f"the path {value[:80]!r}")
        return value

    def _resolve_path(self, relative_to: Path, value: str) -> Path:
        if self._checked_path(value).startswith("~/"):
            return self._home / value[2:]
        if value.startswith(("~", "%(")):
            raise ValueError(f"the path {value[:80]!r}")
        return relative_to / value


def _without_name(key: str) -> str:
    """Return the key without the name in its middle (`remote.url` for `remote.NAME.url`); "" if it has no name."""
    section, _, rest = key.lower().partition(".")
    return f"{section}.{rest.rpartition('.')[2]}" if "." in rest else ""


def _runs_program(key: str) -> bool:
    return key in _PROGRAM_KEYS or _without_name(key) in _NAMED_PROGRAM_KEYS


def _fetches_by_program(key: str, value: str) -> bool:
    """Return whether this setting makes a fetch run a program: either a program that the setting names, or the program
    that serves the objects of a local folder (for a `remote.NAME.url` that is not the URL of another machine)."""
    if _without_name(key) == "remote.url":
        return _patterns()[2].match(value) is None
    return bool(value) and (key in _FETCHERS or _without_name(key) in _FETCHERS)


# -- the file ----------------------------------------------------------------------------------------------------------


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a section's header, of a key, and of a URL of another machine. They are compiled at the
    first call, and cached."""
    section = r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\\n]|\\[^\n])*)")?\s*\]'
    name = r"([A-Za-z][A-Za-z0-9-]*)[ \t]*"
    url = r"(?:https?|ssh|git)://|(?:[\w.-]+@)?\w[\w.-]*:(?!:|//)"
    return re.compile(section), re.compile(name), re.compile(url, re.ASCII)


def parse(text: str) -> list[tuple[str, str]]:
    """Return keys (`section.subsection.name`) and values of a git configuration, in order.

    Raises ValueError if git would reject the text, or might read it differently.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if "\0" in text:
        raise ValueError("it holds a NUL")
    head, name, _ = _patterns()
    found: list[tuple[str, str]] = []
    section = ""
    at = 0
    while at < len(text):
        character = text[at]
        if character in " \t\n\r\v\f":
            at += 1
        elif character in "#;":
            at = _end_of_line(text, at)
        elif character == "[":
            match = head.match(text, at)
            if match is None:
                raise ValueError(f"no section at {at}")
            section = match[1].lower()
            if match[2] is not None:
                section += "." + re.sub(r"\\(.)", r"\1", match[2])
            at = match.end()
        else:
            match = name.match(text, at)
            if match is None or not section:
                raise ValueError(f"no key at {at}")
            value, at = _parse_value(text, match.end())
            found.append((f"{section}.{match[1].lower()}", value))
    return found


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _parse_value(text: str, at: int) -> tuple[str, int]:
    if at >= len(text) or text[at] == "\n":
        return "true", at
    if text[at] in "#;":
        return "true", _end_of_line(text, at)
    if text[at] != "=":
        raise ValueError(f"no = at {at}")
    at += 1
    value_parts: list[str] = []
    kept = 0  # number of parts up to the last one that is no trailing blank
    quoted = False
    while at < len(text) and (quoted or text[at] not in "\n#;"):
        character = text[at]
        if character == "\n":
            raise ValueError("a quote that does not end")
        if character == '"':
            quoted = not quoted
        elif character == "\\":
            at += 1
            escaped = text[at : at + 1]
            if escaped not in ("\n", "t", "b", "n", "\\", '"'):
                raise ValueError(f"no escape at {at}")
            if escaped != "\n":
                value_parts.append({"t": "\t", "b": "\b", "n": "\n"}.get(escaped, escaped))
        elif not quoted and character in " \t\r":
            value_parts += character if value_parts else ""
            at += 1
            continue
        else:
            value_parts.append(character)
        kept = len(value_parts)
        at += 1
    if quoted:
        raise ValueError("a quote that does not end")
    if at < len(text) and text[at] in "#;":
        at = _end_of_line(text, at)
    return "".join(value_parts[:kept]), at
