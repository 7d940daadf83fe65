"""What a message and the settings ask of a CLI is decided by its card, before its adapter makes a launch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from beam.agents import registry
from beam.agents.base import Face
from beam.base.errors import UnsupportedError
from beam.model.settings import AgentSettings
from beam.turns.input import folder_of, turn_of
from beam.turns.request import TurnRequest
from tests.support.context import Root
from tests.turns.test_run import ordered


def request(
    tmp_path: Path, name: str, *, options: Mapping[str, Any] = MappingProxyType({}), **fields: Any
) -> TurnRequest:
    """A turn of that adapter, with full access, of a message with these options."""
    _, order = ordered(Root(tmp_path))
    given = msgspec.structs.replace(order.message.options, access=None, **options)
    message = msgspec.structs.replace(order.message, options=given)
    settings = fields.pop("settings", {})
    return msgspec.structs.replace(
        order,
        message=message,
        adapter=registry.adapter(name),
        adapter_name=name,
        settings=AgentSettings(adapter=name, access="full", **settings),
        **fields,
    )


@pytest.mark.parametrize(
    ("name", "face", "asked", "said"),
    [
        ("cn", "exec", {"options": {"model": "m"}}, "cn has no way to do --model"),
        ("cn", "exec", {"settings": {"model": "m"}}, "cn has no way to do --model"),
        ("cn", "exec", {"session_id": "s"}, "cn has no way to do an earlier session"),
        ("aider", "exec", {"settings": {"system": "x"}}, "aider has no way to do a system prompt"),
        ("gemini", "terminal", {"settings": {"system": "x"}}, "gemini has no way to do a system prompt"),
        ("scripted", "exec", {"settings": {"schema": "{}"}}, "scripted has no way to do --schema"),
        ("command", "exec", {"options": {"max_turns": 1}}, "command has no way to do --max-turns"),
        ("claude", "terminal", {"options": {"budget_usd": 1.0}}, "claude has no way to do --budget"),
        ("bash", "terminal", {"options": {"model": "m"}}, "bash has no way to do --model"),
        (
            "qwen",
            "exec",
            {"session_id": "s", "fork": True},
            "qwen can't continue in a copy of a session with --via exec",
        ),
    ],
)
def test_what_the_card_does_not_claim_is_refused(
    tmp_path: Path, name: str, face: Face, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnsupportedError, match=said):
        turn_of(request(tmp_path, name, **asked), face, str(tmp_path))


@pytest.mark.parametrize(
    ("name", "face", "asked"),
    [
        ("claude", "exec", {"options": {"model": "m", "max_turns": 2}, "settings": {"system": "x"}, "session_id": "s"}),
        ("bash", "terminal", {"settings": {"model": "m", "system": "x"}, "session_id": "s"}),
        ("cn", "exec", {}),
    ],
)
def test_what_it_claims_goes_to_the_adapter_and_settings_for_all_agents_stop_no_program_on_a_screen(
    tmp_path: Path, name: str, face: Face, asked: dict[str, Any]
) -> None:
    turn = turn_of(request(tmp_path, name, **asked), face, str(tmp_path))
    assert turn.session_id == asked.get("session_id")
    assert turn.access == "full"


@pytest.mark.parametrize(
    ("name", "face", "fields", "hint"),
    [
        ("claude", "terminal", {"fork": True}, "--via exec can"),
        ("claude", "terminal", {"upto": "m"}, "--via exec can"),
        ("qwen", "exec", {"fork": True}, "start with an empty session: beam agent reset worker"),
        ("qwen", "exec", {"upto": "m"}, "start with an empty session: beam agent reset worker"),
    ],
)
def test_what_a_mode_can_not_do_with_a_session_is_said_with_one_that_can(
    tmp_path: Path, name: str, face: Face, fields: dict[str, Any], hint: str
) -> None:
    with pytest.raises(UnsupportedError) as refused:
        turn_of(request(tmp_path, name, session_id="s", **fields), face, str(tmp_path))
    assert refused.value.hint == hint


def test_what_the_message_asks_for_goes_over_the_settings(tmp_path: Path) -> None:
    of_settings = {"model": "n", "schema": '{"a":1}', "max_turns": 4, "budget_usd": 1.5}
    of_message = {"model": "m", "schema": "{}", "max_turns": 3, "budget_usd": 0.5}
    order = request(tmp_path, "claude", settings=of_settings)
    options = msgspec.structs.replace(order.message.options, **of_message)
    asked = msgspec.structs.replace(order, message=msgspec.structs.replace(order.message, options=options))
    for one, fields in ((order, of_settings), (asked, of_message)):
        turn = turn_of(one, "exec", "")
        assert {name: getattr(turn, name) for name in fields} == fields


def test_a_turn_has_no_more_access_than_its_agent_may_have_at_most(tmp_path: Path) -> None:
    asked = request(tmp_path, "claude", at_most="edit")
    assert turn_of(asked, "exec", "").access == "edit"


def test_the_folder_is_the_projects_or_the_one_of_the_settings(tmp_path: Path) -> None:
    order = request(tmp_path, "claude")
    (tmp_path / "link").symlink_to(tmp_path)
    assert folder_of(order) == order.base
    for cwd, folder in (("sub", order.base / "sub"), (f"{tmp_path}/link/x", tmp_path / "x"), ("..", order.base.parent)):
        settings = msgspec.structs.replace(order.settings, cwd=cwd)
        assert folder_of(msgspec.structs.replace(order, settings=settings)) == folder
