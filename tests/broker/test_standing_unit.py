"""For which access a folder is checked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from beam.broker.inbox import standing
from beam.model.message import Access
from tests.support.context import Root


@pytest.mark.parametrize(
    ("given", "settings", "checked"), [(None, "", "read"), (None, "edit", "edit"), ("ask", "edit", "ask")]
)
def test_a_folder_is_checked_for_the_access_of_the_turn_else_of_the_agent_else_for_reading(
    root: Root, monkeypatch: pytest.MonkeyPatch, given: Access | None, settings: str, checked: str
) -> None:
    access = f", access: {settings}" if settings else ""
    (root.base / "beam.yaml").write_text(f"agents: {{claude: {{adapter: claude{access}}}}}\n")
    seen: list[str] = []

    def found(context: Any, resolved: Any, access: Any, faces: Any) -> Any:
        seen.append(access)
        return (), SimpleNamespace(off=())

    monkeypatch.setattr(standing, "findings_for", found)
    context = root.reload()
    standing.check_folder(context, context.config.resolve("claude"), given)
    assert seen == [checked]
