"""Agents known from their help only are listed, claim nothing, and refuse with a way to use them."""

from __future__ import annotations

import pytest

from beam.agents import registry
from beam.base.errors import UnsupportedError
from beam.turns.choice import face_of
from tests.support.cli import Cli

NAMES = tuple(name for name, module in registry.ADAPTERS.items() if module.startswith("beam.agents.presets:"))


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_claims_no_face_and_no_capability(name: str) -> None:
    adapter = registry.adapter(name)
    assert (adapter.card.name, adapter.exec, dict(adapter.card.faces), adapter.card.versions) == (name, None, {}, ())


@pytest.mark.parametrize("name", NAMES)
def test_sending_to_a_preset_is_unsupported_and_says_how_to_use_it(name: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        face_of(registry.adapter(name), None)
    assert f"command: [{name}" in caught.value.hint


def test_the_clis_that_need_a_login_or_an_installer_are_listed() -> None:
    assert set(NAMES) >= {
        "cursor-agent",
        "amp",
        "goose",
        "droid",
        "auggie",
        "crush",
        "kiro-cli",
        "trae-cli",
    }


@pytest.mark.acceptance
def test_beam_lists_a_preset_as_unverified_and_refuses_to_send(beam: Cli) -> None:
    listed = {line["agent"]: line["face"] for line in beam("agent", "list", "--all", "--json").lines}
    assert listed["amp"] == "unverified"
    done = beam("send", "amp", "hi", "--json")
    assert (done.code, done.json["class"]) == (10, "unsupported")
    assert "command: [amp" in done.json["reason"]
    every = beam("doctor", "--all").out.splitlines()
    for name in ("amp", "goose"):
        assert f"note\t{name}\tnever tested; how to use it: beam doctor {name}" in every
    (alone,) = beam("doctor", "goose").out.splitlines()[1:]
    assert alone.startswith("note\tgoose\tunverified: no registry ships it; ")
    folded = [line for line in beam("doctor", "-v").out.splitlines() if "goose" in line]
    assert len(folded) == 1 and folded[0].startswith("note\tunverified\t") and "kiro-cli" in folded[0]
