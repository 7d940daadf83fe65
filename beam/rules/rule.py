"""One rule, a text of the form `Tool` or `Tool(argument)`, and a tool call in the vocabulary of rules, which is the
same for all agents.

Does not depend on which rules match a call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from beam.base.errors import UsageError, nearest

if TYPE_CHECKING:
    pass


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


Behavior = Literal["deny", "ask", "allow"]
BEHAVIOR_ORDER: tuple[Behavior, ...] = ("deny", "ask", "allow")
TOOLS = {
    "Bash": "a shell command: Bash(git log *)",
    "Read": "a file that is read: Read(secrets/**)",
    "Edit": "a file that is made or changed: Edit(src/**)",
    "WebFetch": "a web page: WebFetch(domain:example.com)",
    "WebSearch": "a search in the web",
    "Agent": "an agent of the agent's own",
}
_TOOL_INSTEAD_OF = {
    **dict.fromkeys(("Write", "MultiEdit", "NotebookEdit", "Patch"), "Edit"),
    **dict.fromkeys(("Grep", "Glob", "LS", "List"), "Read"),
    **dict.fromkeys(("Shell", "Terminal", "Run"), "Bash"),
    **dict.fromkeys(("Fetch", "WebRead"), "WebFetch"),
    "Task": "Agent",
}
# Patterns as text are compiled at their first use: without rules, a turn needs none of them.
_RULE_FORM = r"(?s:([A-Za-z_][\w.*-]*)(?:\((.*)\))?)\Z"
_MCP = r"mcp__([\w.-]+?)(?:__([\w.-]+|\*|[\w.-]+\*))?\Z|mcp__\*\Z"
_DOMAIN = r"(?i:domain:((?:\*\.)?[a-z0-9-]+(?:\.[a-z0-9-]+)*))\Z"
_LONGEST = 1000


class Rule(Struct, frozen=True, kw_only=True):
    """A checked rule. `argument` is "" if the rule is for all calls of the tool. `whose` says who wrote the rule
    (`beam.yaml`, …).

    `is_general`: the rule is written under `defaults`, and an agent's own rule with the same text takes precedence.
    """

    behavior: Behavior
    tool: str
    argument: str = ""
    whose: str = ""
    is_general: bool = False

    @property
    def text(self) -> str:
        """Return the text of the rule, without its behavior."""
        return f"{self.tool}({self.argument})" if self.argument else self.tool

    def __str__(self) -> str:
        return f"{self.behavior} {self.text}"


def parse(text: str, behavior: Behavior, *, whose: str = "", is_general: bool = False) -> Rule:
    """Return the rule. Raises UsageError that says what is wrong with the text; for an unknown tool, the error suggests
    the nearest tool."""
    tool, argument = _split_rule(text)
    if tool.startswith("mcp__"):
        if not re.match(_MCP, tool) or argument:
            raise _rule_error(text, "an MCP tool is mcp__SERVER__TOOL or mcp__SERVER, without an argument")
    elif tool in _TOOL_INSTEAD_OF and tool not in TOOLS:
        raise _rule_error(text, f"write {_TOOL_INSTEAD_OF[tool]}: it stands for each tool of an agent that does this")
    elif tool not in TOOLS:
        near = nearest(tool, tuple(TOOLS))
        raise _rule_error(
            text, f"did you mean {near}?" if near else f"the tools are {', '.join(TOOLS)} and mcp__SERVER__TOOL"
        )
    elif argument:
        argument = _check_argument(text, tool, argument)
    return Rule(behavior=behavior, tool=tool, argument=argument, whose=whose, is_general=is_general)


def _split_rule(text: str) -> tuple[str, str]:
    found = re.match(_RULE_FORM, text.strip())
    if found is None or len(text) > _LONGEST:
        raise _rule_error(text, "a rule is Tool or Tool(argument): Read, Bash(git log *), Edit(src/**)")
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise _rule_error(text, "a rule is one line of plain text")
    tool, argument = found[1], found[2]
    if argument is not None and not argument.strip():
        raise _rule_error(text, f"for all calls write {tool}, without ()")
    argument = (argument or "").strip()
    return tool, "" if argument in ("*", "**") else argument


def _check_argument(text: str, tool: str, argument: str) -> str:
    if tool == "Bash":
        return _check_command(text, argument)
    if tool in ("Read", "Edit"):
        return _check_path(text, argument)
    if tool == "WebFetch":
        if not re.match(_DOMAIN, argument):
            raise _rule_error(text, "write WebFetch(domain:example.com) or WebFetch(domain:*.example.com)")
        return argument.lower()
    raise _rule_error(text, f"{tool} takes no argument; write {tool}")


def _check_command(text: str, argument: str) -> str:
    if argument.endswith(":*"):  # the older way to write it
        argument = argument[:-2] + " *"
    if re.search(r"[;&|<>`$(){}\\\"']", argument):
        raise _rule_error(text, "a pattern is the words of one command, with * for the rest: Bash(npm run *)")
    words = argument.split()
    if words[0].startswith("*"):
        raise _rule_error(text, "the first word is a command's name; for all commands write Bash")
    return " ".join(words)


def _check_path(text: str, argument: str) -> str:
    if argument.startswith("/") and not argument.startswith("//"):
        raise _rule_error(text, f"write /{argument} for an absolute path, {argument.lstrip('/')} for one in the folder")
    if ".." in argument.split("/"):
        raise _rule_error(text, "a path has no .. in it; write //PATH for one elsewhere")
    if argument.startswith("~") and not argument.startswith("~/"):
        raise _rule_error(text, "write ~/PATH for a path in your home")
    if re.search(r"[\[\]{}!\\]", argument):
        raise _rule_error(text, "only *, ** and ? stand for something else")
    return argument.removeprefix("./")


def _rule_error(text: str, hint: str) -> UsageError:
    return UsageError(f"{text[:120]!r} is not a rule", hint, subject=text[:120])
