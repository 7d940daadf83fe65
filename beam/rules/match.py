"""Finds the rules that apply to a call. A rule that allows has to match for certain. A rule that denies or asks also
matches in doubt.

Pure: the function that follows links is an argument (`AgentPlace.real`).
"""

from __future__ import annotations

import functools
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from beam.rules import shell
from beam.rules.rule import Rule, ToolCall

Part = TypeVar("Part")
FollowLinks = Callable[[str], str]


class AgentPlace(Struct, frozen=True):
    """The place where the agent works. Relative paths begin at `folder`, and `~` stands for `home`. `real` is called to
    follow the links in a path."""

    folder: str
    home: str = ""
    real: FollowLinks = posixpath.normpath


def allowing_rules(rules: Sequence[Rule], call: ToolCall, place: AgentPlace) -> tuple[Rule, ...]:
    """Return the rules that together allow every part of this call; no rules if a part is not allowed."""
    mine = [rule for rule in rules if _applies_to(rule, call.tool)]
    if not mine or call.by_person:
        return ()
    if call.tool == "Bash":
        whole = next((rule for rule in mine if not rule.argument), None)
        if whole is not None:
            return (whole,) if call.command else ()
        parts = shell.split(call.command)
        return _first_match_of_each(parts or (), mine, _allows_command)
    if call.tool in ("Read", "Edit"):
        return _first_match_of_each(
            _spelled_paths(call, place), mine, lambda rule, path: _allows_path(rule, path, place)
        )
    if call.tool == "WebFetch":
        return _first_match_of_each(
            (call.host,) if call.host else (), mine, lambda rule, host: _matches_host(rule.argument, host)
        )
    return (mine[0],)


def may_match(rule: Rule, call: ToolCall, place: AgentPlace) -> bool:
    """Return whether a rule that denies or asks matches, or may match, some part of this call."""
    if not _applies_to(rule, call.tool):
        return False
    if not rule.argument:
        return True
    if call.tool == "Bash":
        pattern = _command_regex(rule.argument)
        return (
            shell.is_too_long(call.command)
            or any(pattern.match(_join(words)) for words in shell.possible_commands(call.command))
            or _may_become(rule.argument.split(), call.command)
        )
    if call.tool in ("Read", "Edit"):
        pattern = _path_regex(rule.argument, place.folder, place.home)
        folded = _path_regex(*map(_same_name, (rule.argument, place.folder, place.home)))
        spelled = _spelled_paths(call, place)
        return not spelled or any(pattern.match(path) or folded.match(_same_name(path)) for path in spelled)
    domain = rule.argument.removeprefix("domain:").removeprefix("*.")
    return not call.host or call.host == domain or call.host.endswith(f".{domain}")


def _first_match_of_each(
    parts: Iterable[Part], rules: Sequence[Rule], matches: Callable[[Rule, Part], bool]
) -> tuple[Rule, ...]:
    """Return the first matching rule of each part, without repeats. Return no rules if there are no parts, or if a part
    has no matching rule."""
    found: dict[Rule, None] = {}
    for part in parts:
        rule = next((rule for rule in rules if matches(rule, part)), None)
        if rule is None:
            return ()
        found[rule] = None
    return tuple(found)


def _applies_to(rule: Rule, tool: str) -> bool:
    if not rule.tool.startswith("mcp__"):
        return rule.tool == tool
    if rule.tool.endswith("*"):
        return tool.startswith(rule.tool[:-1])
    return tool == rule.tool or (rule.tool.count("__") == 1 and tool.startswith(f"{rule.tool}__"))


# -- commands ----------------------------------------------------------------------------------------------------------


def _allows_command(rule: Rule, words: shell.Words) -> bool:
    return _command_regex(rule.argument).match(_join(words)) is not None


def _may_become(pattern: Sequence[str], command: str) -> bool:
    """Return whether the command may run one that the words of the pattern match, once a shell has put it together."""
    literal = [word for word in pattern if word.strip("*")]
    fed = shell.fed_words(command)
    if literal and all(_has_word(fed, word) for word in literal):
        return True
    unsure = shell.unsure_commands(command)
    return bool(unsure) and any(_may_become_words(pattern, words, shell.all_words(command)) for words in unsure)


def _may_become_words(pattern: Sequence[str], words: Sequence[str], written: frozenset[str]) -> bool:
    """Return whether the words match, if the text that is UNKNOWN in them is the right one. A whole word that is
    UNKNOWN is right only if what it would have to be is `written` somewhere in the command."""
    for number, expected in enumerate(pattern):
        if not expected.strip("*"):
            return number > 0
        if number >= len(words):
            return False
        word = words[number]
        if not word.strip(f"{shell.UNKNOWN}/"):
            return all(_has_word(written, each) for each in pattern[number:] if each.strip("*"))
        unknown = ".*".join(re.escape(part) for part in word.rpartition("/")[2].split(shell.UNKNOWN))
        if not re.fullmatch(unknown, expected, re.DOTALL) and not re.fullmatch(_glob(expected, r"\0"), word):
            return False
    return True


def _has_word(words: frozenset[str], expected: str) -> bool:
    return expected in words or ("*" in expected and any(re.fullmatch(_glob(expected, r"\0"), word) for word in words))


def _join(words: Sequence[str]) -> str:
    return "\0".join(words)


@functools.lru_cache(512)
def _command_regex(pattern: str) -> re.Pattern[str]:
    """Return the regular expression for the joined words of a command. A `*` that is a whole word stands for one or
    more words; at the end of the pattern also for no word. A `*` inside a word stands for any characters of that word;
    at the end of the pattern also for further words."""
    words = pattern.split()
    further_words = r"(?:\0.*)?" if words[-1].endswith("*") else ""
    chunks: list[list[str]] = [[]]
    for word in words[:-1] if words[-1] == "*" else words:
        if word == "*":
            chunks.append([])
        else:
            chunks[-1].append(_glob(word, r"\0"))
    found = r"\0".join(chunks[0])
    for number, chunk in enumerate(chunks[1:], 1):
        some = r"(?:\0[^\0]+)+?" + "".join(rf"\0{word}" for word in chunk)
        is_at_end = number == len(chunks) - 1 and not further_words
        found += some if is_at_end else f"(?>{some})"
    return re.compile(rf"{found}{further_words}\Z", re.DOTALL)


def _glob(text: str, separator: str) -> str:
    """Return the regular expression for one whole word or name, in which each `*` stands for any characters but the
    separator, and in a name each `?` for one.

    A part between two `*` is searched once, and its first place counts: a search for another one would find nothing
    more, and with many `*` it would never end.
    """
    one = f"[^{separator}]" if separator == "/" else r"\?"
    first, *more = (re.escape(part).replace(r"\?", one) for part in text.split("*"))
    middle = "".join(f"(?>[^{separator}]*?{part})" for part in more[:-1])
    last = f"[^{separator}]*{more[-1]}" if more else ""
    return f"{first}{middle}{last}(?![^{separator}])"


# -- paths -------------------------------------------------------------------------------------------------------------


def _spelled_paths(call: ToolCall, place: AgentPlace) -> list[str]:
    """Return all forms of the call's paths; no forms if one of them can't be the path of a file (with a NUL in it)."""
    try:
        return [spelling for path in call.paths for spelling in _spellings(path, place)]
    except ValueError:
        return []


def _spellings(path: str, place: AgentPlace) -> list[str]:
    """Return two absolute forms of the path, without repeats: as it is written, and after its links were followed."""
    if path.startswith("~/") and place.home:
        path = place.home + path[1:]
    whole = posixpath.normpath(posixpath.join(place.folder, path))
    whole = f"/{whole.lstrip('/')}"  # two slashes at the beginning are one
    return list(dict.fromkeys((whole, place.real(posixpath.join(place.folder, path)))))


def _same_name(path: str) -> str:
    """Return a text that is equal for all paths that a file system may take for the same: in upper and lower case, or
    with their accents composed and apart."""
    return path.casefold() if path.isascii() else unicodedata.normalize("NFC", path.casefold())


def _allows_path(rule: Rule, path: str, place: AgentPlace) -> bool:
    if rule.argument:
        return _path_regex(rule.argument, place.folder, place.home).match(path) is not None
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in _place_folders(place))


def _place_folders(place: AgentPlace) -> tuple[str, str]:
    return posixpath.normpath(place.folder), place.real(place.folder)


@functools.lru_cache(512)
def _path_regex(pattern: str, folder: str, home: str) -> re.Pattern[str]:
    """Return the regular expression for absolute paths. The pattern has the meaning that git gives it in `.gitignore`:
    a pattern without a slash is a name at any depth, and everything below a matching folder matches, too."""
    if pattern.startswith("//"):
        base, rest = "/", pattern.lstrip("/")
    elif pattern.startswith("~/"):
        base, rest = home or "/nowhere", pattern[2:]
    else:
        base, rest = folder, pattern
        if "/" not in rest.rstrip("/"):
            rest = f"**/{rest}"
    found = re.escape(posixpath.normpath(base).rstrip("/"))
    chunks = re.split(r"(?:^|/)\*\*(?=/|$)", "/".join(segment for segment in rest.split("/") if segment))
    for number, chunk in enumerate(chunks):
        names = "".join(f"/{_glob(name, '/')}" for name in chunk.split("/") if name)
        found += names if number == 0 else f"(?>(?:/[^/]+)*?{names})"
    found += "/.+" if len(chunks) > 1 and not chunks[-1] else ""
    return re.compile(rf"{found}(?:/.*)?\Z", re.DOTALL)


def _matches_host(argument: str, host: str) -> bool:
    domain = argument.removeprefix("domain:")
    return not domain or host == domain or (domain.startswith("*.") and host.endswith(domain[1:]))
