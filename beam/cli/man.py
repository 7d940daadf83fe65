"""The manual page, which is generated from the help of all commands."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from beam import ExitCode, __version__

_FILES = (
    ("beam.yaml", "the agents of a project folder, their settings, limits and policy"),
    ("~/.config/beam/config.yaml", "the same for all your folders, and what tells you of things (notify:)"),
    ("~/.local/state/beam/", "queues, journals and what you trust; `beam root` prints a folder's part"),
)
_VARIABLES = (
    ("BEAM_ROOT", "the root to use"),
    ("BEAM_STATE", "where state lies instead of ~/.local/state/beam"),
    ("BEAM_TRUST", "1 trusts any folder, for this command"),
    ("BEAM_DISABLE", "names of adapters that are switched off, with commas between them"),
)


def page(command: Any, name: str = "beam") -> str:
    """Return the manual page in roff's man macros."""
    import click

    root = click.Context(command, info_name=name)
    lines = [
        f'.TH BEAM 1 "" "beam {escaped(__version__)}" "User Commands"',
        ".SH NAME",
        "beam \\- use every coding agent through one command",
        ".SH SYNOPSIS",
        ".B beam",
        "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]",
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
        ".SH OPTIONS",
        *_option_lines(root),
        ".SH COMMANDS",
    ]
    for context in _command_contexts(root):
        lines += [
            f".SS {escaped(context.command_path)} {escaped(' '.join(context.command.collect_usage_pieces(context)))}"
        ]
        lines += [*_paragraphs(context.command.help or ""), *_option_lines(context)]
    lines += [".SH EXIT STATUS"]
    for code in ExitCode:
        lines += [".TP", f"{int(code)}", escaped(code.meaning)]
    for head, pairs in (("FILES", _FILES), ("ENVIRONMENT", _VARIABLES)):
        lines += [f".SH {head}"]
        for term, text in pairs:
            lines += [".TP", f".B {escaped(term)}", escaped(text)]
    return "\n".join([*lines, ""])


def escaped(text: str) -> str:
    """Return the text escaped for roff, so that roff prints it literally and reads no line of it as a request."""
    safe = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha").replace("`", "\\(ga")
    )
    safe = "".join(letter if letter.isascii() else f"\\[u{ord(letter):04X}]" for letter in safe)
    return f"\\&{safe}" if safe[:1] in (".", "'") else safe


def _command_contexts(context: Any) -> Iterator[Any]:
    """Yield the click context of every command below this group, in the order of the help. Groups themselves are left
    out."""
    import click

    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, parent=context, info_name=name)
        if hasattr(command, "list_commands"):
            yield from _command_contexts(inner)
        else:
            yield inner


def _paragraphs(text: str) -> list[str]:
    lines = []
    for number, paragraph in enumerate(textwrap.dedent(text).strip().split("\n\n")):
        lines += [*([".PP"] if number else []), escaped(" ".join(paragraph.split()))]
    return [line for line in lines if line]


def _option_lines(context: Any) -> list[str]:
    lines = []
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        is_shown = context.parent is None or parameter.name != "help"
        if record is not None and is_shown and not getattr(parameter, "hidden", False):
            lines += [".TP", f".B {escaped(record[0])}", escaped(" ".join(record[1].split()))]
    return lines
