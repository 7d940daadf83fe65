"""The protocol is chosen without being named where the agent's process stays, and only for what it supports."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from beam.agents import registry
from beam.broker.inbox.build_request import build_turn_request
from beam.model.message import Options, RuleLists
from beam.model.settings import AgentSettings
from beam.rules.ruleset import Ruleset, combine, rules_of
from beam.turns.choice import (
    REASON_ASKS,
    REASON_KEPT,
    REASON_NOT_KEPT,
    ChosenFace,
    choose_face,
    why_protocol_not_chosen,
)
from beam.turns.request import TurnRequest
from tests.support.context import Root

NO_RULES = Ruleset()


def ordered(
    root: Root, name: str, *, kept: bool = True, attach: tuple[str, ...] = (), rules: Ruleset = NO_RULES, **options: Any
) -> TurnRequest:
    """The request for a turn of that CLI, whose process may stay."""
    root.put("worker", options=Options(**options))
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    order = build_turn_request(lease.log, claimed[1])
    message = structs.replace(order.message, payload=structs.replace(order.message.payload, attach=attach))
    settings = AgentSettings(adapter=name)
    adapter = registry.adapter(name)
    return structs.replace(
        order, message=message, adapter=adapter, adapter_name=name, settings=settings, is_kept=kept, rules=rules
    )


@pytest.mark.parametrize("name", ["claude", "codex", "qwen", "opencode", "kilo", "vibe"])
def test_a_process_that_may_stay_speaks_its_protocol_and_one_for_one_turn_does_not(root: Root, name: str) -> None:
    order = ordered(root, name)
    assert choose_face(order) == ChosenFace("dialogue", REASON_KEPT)
    alone = structs.replace(order, is_kept=False)
    assert choose_face(alone) == ChosenFace("exec", REASON_NOT_KEPT)


@pytest.mark.parametrize("name", ["gemini", "scripted"])
def test_a_protocol_that_is_used_only_where_it_is_named_is_not_chosen(root: Root, name: str) -> None:
    order = ordered(root, name)
    assert choose_face(order) == ChosenFace("exec", "its protocol is used only where it is named")


def test_access_ask_is_for_the_protocol_even_of_a_process_for_one_turn(root: Root) -> None:
    order = ordered(root, "claude", kept=False, access="ask")
    assert choose_face(order) == ChosenFace("dialogue", REASON_ASKS)


def test_a_mode_that_was_named_is_the_mode(root: Root) -> None:
    order = ordered(root, "claude", via="exec")
    assert choose_face(order) == ChosenFace("exec", None)


@pytest.mark.parametrize(
    ("name", "wanted", "why"),
    [
        ("opencode", {"max_turns": 2}, "--max-turns"),
        ("qwen", {"max_turns": 2}, "--max-turns"),
        ("codex", {"budget_usd": 1.0}, "--budget"),
        ("claude", {"max_tokens": 100}, "a proxy of its own"),
        ("claude", {"once": True}, "no next turn"),
        ("copilot", {"access": "edit"}, "send no messages"),
        ("vibe", {"access": "edit"}, "can't enforce access edit"),
    ],
)
def test_what_the_protocol_does_not_support_stays_headless_and_says_why(
    root: Root, name: str, wanted: dict[str, Any], why: str
) -> None:
    order = ordered(root, name, **wanted)
    mode = choose_face(order)
    assert mode.face == "exec" and why in (mode.why or "")


def test_a_rule_that_only_the_headless_mode_enforces_keeps_the_turn_there() -> None:
    rules = combine(rules_of(RuleLists(deny=("WebFetch(domain:a.example)",)), "beam.yaml"))
    why = why_protocol_not_chosen(
        registry.adapter("kimi"), Options(), AgentSettings(adapter="kimi"), "full", rules.rules
    )
    assert "WebFetch" in why


@pytest.mark.parametrize(("name", "face"), [("opencode", "exec"), ("claude", "dialogue")])
def test_an_earlier_point_of_a_session_that_the_protocol_can_not_go_back_to_is_for_the_headless_mode(
    root: Root, name: str, face: str
) -> None:
    assert choose_face(structs.replace(ordered(root, name), upto="m-1")).face == face
