"""Open permission requests (asks) as text for people: a table, and one line that says what is asked for and how to
answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam import clock, durations
from beam.cli.render.tables import ago, print_columns
from beam.cli.render.text import collapse_to_line, escape_controls, fold, one_line

if TYPE_CHECKING:
    from beam import AskLine, events

_SCOPES = {
    "session": "in this session",
    "localSettings": "in this folder for good",
    "projectSettings": "in this folder for good",
    "userSettings": "for you everywhere",
}
_QUESTION_WIDTH = 160  # columns of a question
_MAX_CHARACTERS = 20_000  # of what would run
_SHORT_ID_LENGTH = 6  # the random characters at the end of an id


def print_table(found: Sequence[AskLine]) -> None:
    """Print one line per permission request."""
    rows = [
        (
            line.id,
            line.agent,
            ago(line.asked),
            time_left(line.expires),
            line.tool,
            request_text(line.description, bytes(line.input)),
            always_words(bytes(line.suggestions)),
        )
        for line in found
    ]
    print_columns(("ID", "AGENT", "AGE", "LEFT", "TOOL", "WHAT", "ALWAYS"), rows)


def request_text(description: str, input: bytes) -> str:
    """Return what is asked for, on one line: the agent's description or, without one, the tool's input. Line breaks are
    shown as `⏎`, so that a second command does not look like a part of the first."""
    return fold(description) or ("" if input == b"null" else fold(input.decode("utf-8", "replace")))


def always_words(suggestions: bytes) -> str:
    """Return a text that says what `--always` would allow from now on, and where (session, folder or everywhere).
    `suggestions` is the agent's offer as JSON; return "" if it offers nothing."""
    import msgspec

    found = msgspec.json.decode(suggestions)
    words = [_offer_text(each) for each in (found if isinstance(found, list) else [])]
    return collapse_to_line("; ".join(dict.fromkeys(word for word in words if word)))


def _offer_text(offered: object) -> str:
    if isinstance(offered, str):
        return offered
    if not isinstance(offered, dict):
        return ""
    scope = _SCOPES.get(str(offered.get("destination")), "as the agent keeps it")
    rules = offered.get("rules")
    named = [_rule_text(rule) for rule in (rules if isinstance(rules, list) else []) if isinstance(rule, dict)]
    folders = offered.get("directories")
    named += [f"files in {folder}" for folder in (folders if isinstance(folders, list) else [])]
    if offered.get("type") == "setMode":
        named.append("all edits of files" if offered.get("mode") == "acceptEdits" else f"mode {offered.get('mode')}")
    return f"{', '.join(named)}, {scope}" if named else ""


def _rule_text(rule: dict[str, object]) -> str:
    content = rule.get("ruleContent")
    return f"{rule.get('toolName')}({content})" if content else str(rule.get("toolName"))


def time_left(expires: str | None) -> str:
    """Return the time until the request is denied, as text; "" if it does not expire."""
    if expires is None:
        return ""
    return durations.show(max(0, round(clock.recorded_ns(expires) / 1e9 - time.time())))


def short_id(ask_id: str) -> str:
    """Return the last six characters of the id, which are enough to name the request."""
    return ask_id[-_SHORT_ID_LENGTH:]


def question(asked: events.PermissionAsked | AskLine) -> str:
    """Return one line that says which agent asks for what."""
    text = request_text(asked.description, bytes(asked.input))
    return f"{asked.agent} asks for {collapse_to_line(asked.tool)}: {one_line(text, _QUESTION_WIDTH)}"


def full_input_lines(asked: events.PermissionAsked) -> list[str]:
    """Return everything that would run, as lines, if `question` shows only the beginning of it. Return an empty list if
    `question` shows all of it.

    The important part may come after the first words, and a person must see it before they allow it.
    """
    return _input_lines_if_long(asked.description, bytes(asked.input))


def full_ask_lines(ask: AskLine) -> list[str]:
    """Return lines that name the agent and the tool, and show everything that would run. Return an empty list if one
    line shows all of it."""
    lines = _input_lines_if_long(ask.description, bytes(ask.input))
    return [f"{ask.agent} asks for {collapse_to_line(ask.tool)}:", *lines] if lines else []


def _input_lines_if_long(description: str, input: bytes) -> list[str]:
    said = request_text(description, input)
    if one_line(said, _QUESTION_WIDTH) == said:
        return []
    lines = escape_controls(description).split("\n") if description else []
    lines += [line for line in _field_lines(input) if line.strip() not in {each.strip() for each in lines}]
    text = "\n".join(lines)
    if len(text) > _MAX_CHARACTERS:
        lines = [
            *text[:_MAX_CHARACTERS].split("\n"),
            f"… and {len(text) - _MAX_CHARACTERS} more characters, which are not shown",
        ]
    return [f"  | {line}" for line in lines]


def _field_lines(input: bytes) -> list[str]:
    """Return the lines of a tool's input, each field under its name."""
    import msgspec

    try:
        value = msgspec.json.decode(input)
    except (ValueError, RecursionError):
        return escape_controls(input.decode("utf-8", "replace")).split("\n")
    if not isinstance(value, dict):
        return [] if value is None else escape_controls(input.decode("utf-8", "replace")).split("\n")
    lines = []
    for name, part in value.items():
        text = part if isinstance(part, str) else msgspec.json.encode(part).decode()
        lines += [f"{collapse_to_line(name)}:", *(f"  {line}" for line in escape_controls(text).split("\n"))]
    return lines


def line(asked: events.PermissionAsked) -> str:
    """Return one line that says which agent asks for what, and how to answer."""
    short = short_id(asked.ask_id)
    left = f" ({time_left(asked.expires)} left)" if asked.expires is not None else ""
    return f"{question(asked)}; beam approve {short}, or beam deny {short}{left}"
