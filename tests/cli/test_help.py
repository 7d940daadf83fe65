"""Every help text fits a terminal of 80 columns, and says whole sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from beam.cli.app import app

COLUMNS = 80


def contexts() -> Iterator[Any]:
    """The context of each command and group."""
    command: Any = get_command(app)
    with command.make_context("beam", [], resilient_parsing=True) as top:
        waiting = [type(top)(command, info_name="beam", terminal_width=COLUMNS)]
        while waiting:
            ctx = waiting.pop()
            yield ctx
            if hasattr(ctx.command, "list_commands"):
                below = ((name, ctx.command.get_command(ctx, name)) for name in ctx.command.list_commands(ctx))
                waiting.extend(type(top)(one, parent=ctx, info_name=name) for name, one in below)


FOUND = list(contexts())


def test_all_commands_are_looked_at() -> None:
    paths = {ctx.command_path for ctx in FOUND}
    assert {"beam", "beam send", "beam agent set", "beam team hook"} <= paths and len(paths) > 45


@pytest.mark.parametrize("ctx", FOUND, ids=lambda ctx: ctx.command_path)
def test_a_help_text_fits_80_columns_and_no_sentence_is_cut(ctx: Any) -> None:
    lines = ctx.command.get_help(ctx).splitlines()
    assert [line for line in lines if len(line) > COLUMNS] == []
    assert [line for line in lines[1:] if line.endswith("...")] == []
    assert lines[0].startswith(f"Usage: {ctx.command_path}") and len(lines) > 4
