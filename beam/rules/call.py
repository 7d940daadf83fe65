"""A tool call in the vocabulary of rules, which is the same for all agents. Does not depend on rules."""

from __future__ import annotations

import re

from msgspec import Struct

from beam.base.errors import UsageError

_HOST = r"[a-z0-9-]+(\.[a-z0-9-]+)*\Z"
_DOUBTFUL = r"[\x00-\x20\x7f\\@#]"  # programs disagree on the host of an address with one of these


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool call that an agent is about to make. `tool` is a tool's name in rules (`Bash`, `Edit`, …) or the name of
    an MCP tool.

    `command` is the text that a shell gets, `paths` are all files that are read or changed (relative to the agent's
    folder, or absolute), and `host` is the web server. Each is empty if the tool does not have it, or if its value is
    unknown. No rule allows a call with an unknown command, path or host. `by_person`: the agent's CLI wants a person to
    decide this call, so no rule allows it.
    """

    tool: str
    command: str = ""
    paths: tuple[str, ...] = ()
    host: str = ""
    by_person: bool = False


def parse_call(text: str) -> ToolCall:
    """Return the call that a text in the form of a rule describes: `Bash(git push)`, `Edit(src/a)`,
    `WebFetch(https://example.com)`.

    Raises UsageError for an invalid text.
    """
    from beam.rules.rule import parse

    tool, is_open, argument = text.strip().partition("(")
    parse(tool, "deny")
    argument = argument.removesuffix(")")
    if is_open and not text.strip().endswith(")"):
        raise UsageError(f"{text[:120]!r} is not a call", "write it like 'Bash(git push)'", subject=text[:120])
    if tool == "Bash":
        return ToolCall(tool=tool, command=argument)
    if tool in ("Read", "Edit"):
        path = argument[1:] if argument.startswith("//") else argument
        return ToolCall(tool=tool, paths=(path,) if path else ())
    if tool == "WebFetch":
        url = argument.removeprefix("domain:")
        return ToolCall(tool=tool, host=host_of(url if "://" in url else f"https://{url}"))
    return ToolCall(tool=tool)


def host_of(url: str) -> str:
    """Return the server's name in a web address, in lower case; "" for an address that programs may read in different
    ways, and for an address of another scheme than http and https."""
    from urllib.parse import urlsplit

    if re.search(_DOUBTFUL, url):
        return ""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower().rstrip(".")
    except ValueError:
        return ""
    return host if parts.scheme.lower() in ("http", "https") and re.match(_HOST, host) else ""
