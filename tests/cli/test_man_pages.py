"""The manual pages: of which commands there is one."""

from __future__ import annotations

import click

from beam.cli import man


def test_a_hidden_command_has_no_page() -> None:
    group = click.Group(
        "beam", commands=[click.Command("send"), click.Command("guts", hidden=True), click.Group("queue", [])]
    )
    assert [context.info_name for context in man._command_contexts(click.Context(group))] == ["send"]
