"""The arguments and options of each command, with their types, bounds and defaults, and what is said of those of other
tools; the help stands in docs/cli.md.

`BEAM_WRITE_DOCS=1` writes `declared.txt` anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.cli import habits
from tests.cli.test_help import FOUND
from tests.support import made

DECLARED = Path(__file__).with_name("declared.txt")
PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def declared() -> Iterator[str]:
    """A line for each command and group, and one for each of its parameters."""
    for ctx in sorted(FOUND, key=lambda ctx: str(ctx.command_path)):
        settings = {name: value for name, value in vars(ctx.command).items() if name in SETTINGS and value}
        yield f"{ctx.command_path} {settings or ''} {ctx.command.context_settings or ''}".rstrip()
        for one in ctx.command.params:
            kind = one.type.name
            bounds = [getattr(one.type, name, None) for name in ("min", "max")]
            words = [
                f"{bounds[0]}..{bounds[1]}" if bounds != [None, None] else "",
                "several" if one.multiple or one.nargs != 1 else "",
                "needed" if one.required else "",
                f"in {one.rich_help_panel}" if getattr(one, "rich_help_panel", None) else "",
                "hidden" if getattr(one, "hidden", False) else "",
                "" if one.default in (None, False) else f"else {one.default!r}",
            ]
            yield f"    {' '.join(one.opts)} {one.metavar or '-'} {kind} {' '.join(filter(None, words))}".rstrip()


def known_of_others() -> Iterator[str]:
    """A line for each command and option of other tools, and what is said of it."""
    for path, table in habits.COMMAND_HINTS.items():
        yield from (f"{path} {word} -> {instead}" for word, instead in table.items())
    yield from (f"{name} -> {instead}" for name, instead in habits.OPTION_HINTS.items())
    for path, table in habits.OLD_OPTIONS.items():
        yield from (f"{path} {name} -> {instead}" for name, instead in table.items())


SETTINGS = ("hidden", "no_args_is_help", "invoke_without_command", "deprecated", "rich_help_panel", "epilog")


def test_each_parameter_is_what_it_was() -> None:
    fresh = "".join(f"{line}\n" for line in (*declared(), *known_of_others()))
    if os.environ.get("BEAM_WRITE_DOCS"):
        DECLARED.write_text(fresh)
    assert DECLARED.read_text().splitlines() == fresh.splitlines(), "declared.txt is not current: make docs"


@pytest.mark.slow
def test_the_help_of_each_command_is_in_the_page_of_commands() -> None:
    page = PAGE.partition("<!-- made: cli -->")[2].partition("<!-- /made -->")[0]
    assert page.strip().splitlines() == made.cli().strip().splitlines(), "cli.md is not current: make docs"
