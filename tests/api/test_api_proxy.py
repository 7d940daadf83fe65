"""Which options of a proxy go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beam.api import proxy
from beam.base.errors import UsageError

ASKED: dict[str, Any] = {
    **dict.fromkeys(("record", "replay", "fork_at", "max_tokens", "budget_usd", "places", "seen")),
    **dict.fromkeys(("upstream", "fork_model", "agent", "token", "shield"), ""),
    "on_miss": "stop",
    "port": 0,
}
HERE, URL = Path("calls"), "http://model.example"


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({}, "a proxy needs a model to ask, or a recording"),
        ({"replay": HERE, "on_miss": "live"}, "--on-miss live and --fork-at go on with the model after a replay"),
        ({"upstream": URL, "on_miss": "live"}, "--on-miss live and --fork-at go on with the model after a replay"),
        ({"replay": HERE, "fork_at": 3}, "--on-miss live and --fork-at go on with the model after a replay"),
        ({"replay": HERE, "upstream": URL, "fork_model": "m"}, "--model names the model of a fork"),
        ({"replay": HERE, "upstream": URL, "record": HERE / "../calls"}, "a fork is recorded into another folder"),
        ({"upstream": URL, "shield": "fd:3"}, "a shielded key needs a dummy"),
        ({"upstream": URL, "token": "t"}, "a shielded key needs a dummy"),
    ],
)
def test_what_does_not_go_together_starts_no_proxy(
    asked: dict[str, Any], refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "ProxyProcess", lambda *_: pytest.fail("it was started"))
    monkeypatch.setattr(proxy, "read_info", lambda *_: pytest.fail("it was read"))
    with pytest.raises(UsageError, match=refusal):
        proxy.start({}, **{**ASKED, **asked})
