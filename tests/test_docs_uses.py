"""The pages for what people want to do: their files are put into a folder, and their console sessions are played."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import console
from tests.support.cli import Cli
from tests.support.markdown import blocks

DOCS = Path(__file__).parents[1] / "docs"
USES = {"scripts.md", "ci.md", "conversations.md", "record-replay.md", "notify.md"}


@pytest.mark.acceptance
@pytest.mark.skipif(shutil.which("jq") is None, reason="the pages use jq")
@pytest.mark.parametrize("name", sorted(USES))
def test_the_sessions_of_a_page_print_what_they_promise(beam: Cli, name: str) -> None:
    page = (DOCS / name).read_text()
    for file in blocks(page, "yaml"):
        if file.note.endswith(".yaml"):
            (beam.project / file.note).write_text(file.text)
    there = beam.with_env({"BEAM_TRUST": ""})
    there("trust")
    assert console.play(there, [block.text for block in blocks(page, "console")], timeout=300) == []


def test_each_page_and_the_index_name_each_other() -> None:
    index = (DOCS / "README.md").read_text()
    assert [name for name in sorted({*USES, "python.md", "chat.md"}) if f"({name})" not in index] == []
