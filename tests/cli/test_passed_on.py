"""What a command's options say is what the library is told; commands in this process, the library's verbs replaced."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam.api import Beam
from beam.base.errors import NotFoundError
from beam.cli.chatting.together import TogetherChat
from beam.model.message import Recording
from tests.cli.test_help import FOUND
from tests.support.inside import Inside, Told

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


@pytest.mark.parametrize("ctx", FOUND, ids=lambda ctx: ctx.command_path)
def test_the_page_of_commands_has_each_option_and_no_flag_is_on_by_itself(ctx: Any) -> None:
    for option in ctx.command.params:
        for name in option.opts if option.param_type_name == "option" else ():
            assert re.search(rf"`[^`]*{re.escape(name)}\b", PAGE) or name in ("--help", "--version"), name
        if getattr(option, "is_flag", False):
            assert option.default in (False, None), option.opts


def test_a_removed_key_is_the_one_that_was_named(inside: Inside, told: Told) -> None:
    told.replace("remove_secret", None)
    assert inside("secret", "rm", "work").code == 0
    assert told.calls == [(("work",), {})]


def test_a_rewind_takes_back_unless_it_is_only_tried(inside: Inside, told: Told) -> None:
    found = SimpleNamespace(files=None, conversation=True, to=1, turns=[2, 3])
    told.replace("rewind_agent", found, found)
    assert "goes back to the end of turn 1" in inside("agent", "rewind", "bot").err
    assert "would go back" in inside("agent", "rewind", "bot", "--dry-run", "--to", "1", "--what", "both").err
    assert told.calls == [
        (("bot", None), {"what": "conversation", "dry_run": False}),
        (("bot", "1"), {"what": "both", "dry_run": True}),
    ]


@pytest.mark.slow
def test_a_new_model_is_given_to_the_running_process_too_and_other_settings_are_not(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Beam, "is_live", lambda *_: True)
    told.replace("set_live", "from the next call on")
    assert "the running process has it from the next call on" in inside("agent", "set", "bot", "model=m2").err
    assert told.calls == [(("bot", "model", "m2"), {"is_declared": True})]
    assert inside("agent", "set", "bot", "timeout=90s").code == 0 and len(told.calls) == 1


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        (("ended", "ended"), 0),
        (("ended", NotFoundError("it is over")), 0),
        ((NotFoundError("it is over"), "ended"), 0),
        ((NotFoundError("it is over"), NotFoundError("it is over")), 4),
    ],
)
def test_an_interrupt_of_an_agent_stops_all_its_turns_and_fails_only_if_none_could_be(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch, answers: tuple[object, ...], code: int
) -> None:
    monkeypatch.setattr(Beam, "running", lambda *_: ["bot-1", "bot-2"])
    told.replace("interrupt", *answers)
    assert inside("interrupt", "bot").code == code
    assert told.calls == [(("bot-1",), {}), (("bot-2",), {})]


def test_a_run_is_told_all_its_options(inside: Inside, told: Told) -> None:
    (inside.project / "talk.yaml").write_text("beam: 1\nsteps:\n  - send: bot\n    prompt: hi\n")
    told.replace("run", *[NotFoundError("played")] * 3)
    assert inside("run", "talk.yaml").code == 4
    _, named = told.calls[0]
    assert (named["ci"], named["fail_fast"], named["recording"]) == (None, False, Recording())
    assert [named[name] for name in ("repeat", "pass_rate", "budget_usd", "max_tokens")] == [None] * 4
    more = ("--replay", "turns", "--fail-fast", "--ci", "--repeat", "3", "--pass-rate", "0.5", "--budget", "2")
    assert inside("run", "talk.yaml", *more).code == 4
    _, named = told.calls[1]
    assert named["recording"] == Recording(replay=str(inside.project / "turns"))
    assert (named["ci"], named["fail_fast"], named["repeat"], named["pass_rate"]) == (True, True, 3, 0.5)
    assert named["budget_usd"] == 2
    assert inside("run", "talk.yaml", "--record", "turns", "--no-ci").code == 4
    _, named = told.calls[2]
    assert (named["ci"], named["recording"].record) == (False, str(inside.project / "turns"))


def test_a_chat_of_several_knows_who_takes_part() -> None:
    notes: list[str] = []
    chat: Any = SimpleNamespace(_chat=SimpleNamespace(agents=("ann", "bob")), _note=notes.append)
    assert TogetherChat._check_participant(chat, "ann") and notes == []
    assert not TogetherChat._check_participant(chat, "eve") and notes == ["eve does not take part; ann, bob do"]
