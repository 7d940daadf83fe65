"""A cloned folder whose beam.yaml wants to run code gets nothing before its owner says so."""

from __future__ import annotations

import json

import pytest

from tests.support.claims import refused
from tests.support.cli import Cli
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance

EVIL = "agents:\n  evil: {command: [touch, ran-code]}\n"


@pytest.fixture
def cloned(beam: Cli) -> Cli:
    beam.config(EVIL, trusted=False)
    return beam


def ran(beam: Cli) -> bool:
    return (beam.project / "ran-code").exists()


def test_code_of_a_cloned_folder_is_refused_with_the_way_to_trust_it(cloned: Cli) -> None:
    refused(cloned("send", "evil", "hi"), 2, "evil", "touch", "beam trust")
    assert not ran(cloned)
    assert not cloned.root.exists()


def test_the_refusal_in_json_has_its_own_kind(cloned: Cli) -> None:
    error = cloned("send", "evil", "hi", "--json").json["error"]
    assert (error["kind"], error["exit_code"]) == ("untrusted", 2)


def test_no_wait_is_refused_just_the_same(cloned: Cli) -> None:
    refused(cloned("send", "evil", "hi", "--no-wait"), 2, "beam trust")


@pytest.mark.parametrize(
    "settings",
    [
        "{adapter: scripted, env: {LD_PRELOAD: ./x.so}}",
        "{adapter: claude, access: full}",
        "{adapter: scripted, script: ./s.yaml}",
    ],
)
def test_each_way_to_run_code_needs_trust(beam: Cli, settings: str) -> None:
    beam.config(f"agents:\n  sly: {settings}\n", trusted=False)
    done = beam("send", "sly", "hi", env={"PATH": beam.env["PATH"]})
    assert done.code in (2, 4), done
    assert beam("agent", "show", "sly", "--json").json["untrusted"]


def test_an_adapter_of_the_same_folder_that_runs_no_code_of_it_needs_no_trust(cloned: Cli) -> None:
    assert cloned("send", "scripted", "hi").out == "You said: hi\n"


def test_beam_trust_says_what_it_allows_and_no_takes_it_back(cloned: Cli) -> None:
    given = cloned("trust")
    assert given.code == 0
    assert "touch" in given.err
    assert str(cloned.project) in given.err
    assert cloned("send", "evil", "hi").code == 0
    assert ran(cloned)
    assert cloned("trust", "--no").code == 0
    refused(cloned("send", "evil", "again"), 2, "beam trust")


def test_trust_can_name_the_folder(cloned: Cli) -> None:
    assert cloned("-C", "/", "trust", str(cloned.project)).code == 0
    assert cloned("send", "evil", "hi").code == 0


def test_a_variable_trusts_in_ci(cloned: Cli) -> None:
    assert cloned("send", "evil", "hi", env={"BEAM_TRUST": "1"}).code == 0
    assert ran(cloned)


@pytest.mark.parametrize("value", ["0", "", "no", "nonsense"])
def test_any_other_value_of_the_variable_does_not(cloned: Cli, value: str) -> None:
    assert cloned("send", "evil", "hi", env={"BEAM_TRUST": value}).code == 2
    assert not ran(cloned)


def test_on_a_terminal_it_is_asked_once_and_yes_is_remembered(cloned: Cli) -> None:
    terminal = Terminal(cloned, "send", "evil", "hi")
    terminal.until("[y/N]")
    assert "touch" in terminal.seen
    terminal.type("y\n")
    assert terminal.end() == 0, terminal.seen
    assert ran(cloned)
    again = Terminal(cloned, "send", "evil", "hi")
    assert again.end() == 0
    assert "[y/N]" not in again.seen


def test_on_a_terminal_the_default_is_no(cloned: Cli) -> None:
    terminal = Terminal(cloned, "send", "evil", "hi")
    terminal.until("[y/N]")
    terminal.type("\n")
    assert terminal.end() == 2
    assert not ran(cloned)
    assert "beam trust" in terminal.seen


def test_on_a_terminal_of_ci_nobody_is_asked(cloned: Cli) -> None:
    terminal = Terminal(cloned, "send", "evil", "hi", env={"CI": "true"})
    assert terminal.end() == 2
    assert "[y/N]" not in terminal.seen


def test_trust_is_the_folders_not_its_names(cloned: Cli) -> None:
    assert cloned("trust").code == 0
    away = cloned.base / "away"
    cloned.project.rename(away)
    cloned.project.mkdir()
    (cloned.project / "beam.yaml").write_text(EVIL)
    refused(cloned("send", "evil", "hi"), 2, "beam trust")


def test_an_agent_json_that_beam_did_not_write_needs_trust_too(beam: Cli) -> None:
    folder = beam.root / "agents" / "planted"
    folder.mkdir(parents=True, mode=0o700)
    beam.root.chmod(0o700)
    (folder / "agent.json").write_text(json.dumps({"adapter": "command", "command": ["touch", "ran-code"]}))
    assert beam("send", "planted", "hi").code == 2
    assert not ran(beam)


def test_an_agent_added_by_command_needs_no_trust(beam: Cli) -> None:
    assert beam("agent", "add", "mine", "--command", "cat").code == 0
    assert beam("send", "mine", "hi").out == "hi\n"
