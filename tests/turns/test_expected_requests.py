"""What each option, setting and field of a request makes of the turn that the adapter gets: whole.

`BEAM_WRITE_EXPECTED=1 pytest tests/turns/test_expected_requests.py` writes the expectations anew
(tests/turns/expected/requests.json); read the difference before you keep it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.agents import registry
from beam.base.errors import BeamError
from beam.model.message import Options
from beam.model.outcome import Total
from beam.model.rule_lists import RuleLists
from beam.model.settings import AgentSettings
from beam.rules.ruleset import combine, rules_of
from beam.turns.adapter_turn import folder_of, turn_of
from tests.support import expected
from tests.support.context import Root
from tests.turns.test_run import ordered

HERE = Path(__file__).parent / "expected"
ID = "9a9d17cd-e1a5-4554-a76b-ae7b3837ccce"
RULES = combine(rules_of(RuleLists(deny=("Bash(rm *)",)), "beam.yaml"))
# Options of the message, settings of the agent, fields of the request.
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}, {}),
    "a model of the message": ({"model": "m"}, {"model": "n"}, {}),
    "a model of the settings": ({}, {"model": "n"}, {}),
    "a schema of the message": ({"schema": "{}"}, {"schema": '{"a":1}'}, {}),
    "a schema of the settings": ({}, {"schema": '{"a":1}'}, {}),
    "turns of the message": ({"max_turns": 3}, {"max_turns": 4}, {}),
    "turns of the settings": ({}, {"max_turns": 4}, {}),
    "a budget of the message": ({"budget_usd": 0.5}, {"budget_usd": 0.25}, {}),
    "a budget of the settings": ({}, {"budget_usd": 0.25}, {}),
    "once": ({"once": True}, {}, {}),
    "a slash command": ({"slash": True}, {}, {}),
    "access of the message": ({"access": "full"}, {"access": "edit"}, {}),
    "access of the settings": ({}, {"access": "edit"}, {}),
    "access at most": ({"access": "full"}, {}, {"at_most": "edit"}),
    "a system prompt": ({}, {"system": "Be brief."}, {}),
    "a folder": ({}, {"cwd": "sub"}, {}),
    "a folder that is not there": ({}, {"cwd": "none"}, {}),
    "a session": ({}, {}, {"session_id": ID}),
    "a copy of a session": ({}, {}, {"session_id": ID, "fork": True}),
    "an earlier point": ({}, {}, {"session_id": ID, "upto": "m-7"}),
    "a folder that nobody trusts": ({}, {}, {"folder_trusted": False}),
    "files left out": ({}, {}, {"left_out": ("a",)}),
    "a total": ({}, {}, {"session_id": ID, "carried": Total(input_tokens=3)}),
    "a told prompt": ({}, {}, {"told": "0123"}),
    "rules": ({}, {}, {"rules": RULES}),
    "a proxy": ({"budget_usd": 0.5}, {}, {"is_proxied": True}),
}
FACES = [("claude", "exec"), ("claude", "dialogue"), ("claude", "terminal"), ("qwen", "exec"), ("bash", "terminal")]


@pytest.mark.slow
def test_each_option_setting_and_field_reaches_the_adapter_or_is_refused(tmp_path: Path) -> None:
    _, order = ordered(Root(tmp_path))
    (order.base / "sub").mkdir()
    told: dict[str, Any] = {}
    for name, face in FACES:
        plain: dict[str, Any] = {}
        for word, (options, settings, fields) in CHANGES.items():
            message = structs.replace(order.message, options=Options(**options))
            given = AgentSettings(adapter=name, **{"access": None, **settings})
            asked = structs.replace(
                order, message=message, adapter=registry.adapter(name), adapter_name=name, settings=given, **fields
            )
            try:
                turn = expected.told(turn_of(asked, face, "/scratch"))  # type: ignore[arg-type]
                turn["system"] = turn.pop("settings").get("system")
                plain = plain or turn
                changed = {key: turn.get(key) for key in {**turn, **plain} if turn.get(key) != plain.get(key)}
                told[f"{name} {face}, {word}"] = turn if turn is plain else changed
            except BeamError as error:
                told[f"{name} {face}, {word}"] = f"{type(error).__name__}: {error.message} | {error.hint}"
    text = re.sub("worker-[0-9a-z]+", "worker-ID", expected.document(told)).replace(str(tmp_path), "BASE")
    text = re.sub(r'"fresh_session_id": "[^"]*"', '"fresh_session_id": "UUID"', text)
    expected.check(HERE / "requests.json", text)


def test_the_folder_is_the_projects_or_the_one_of_the_settings(tmp_path: Path) -> None:
    _, order = ordered(Root(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path)
    assert folder_of(order) == order.base
    for cwd, folder in (("sub", order.base / "sub"), (f"{tmp_path}/link/x", tmp_path / "x"), ("..", order.base.parent)):
        assert folder_of(structs.replace(order, settings=structs.replace(order.settings, cwd=cwd))) == folder
