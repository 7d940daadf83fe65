"""What adapters declare is what the pages for users say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.agents import registry
from tests.support import made_agents
from tests.support.markdown import parts, with_parts

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [path for path in sorted(DOCS.glob("*.md")) if set(parts(path.read_text())) & set(made_agents.PARTS)]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_the_pages_say_what_the_adapters_declare(page: Path) -> None:
    text = page.read_text()
    before = parts(text)
    fresh = with_parts(text, before | {name: made_agents.PARTS[name]() for name in before if name in made_agents.PARTS})
    assert text == fresh, f"{page.name} is not current: make docs"


@pytest.mark.parametrize("name", registry.ADAPTERS)
def test_an_adapter_is_found_by_its_own_name(name: str) -> None:
    assert registry.adapter(name).card.name == name
