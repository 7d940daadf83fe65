"""What a user sees of a turn in which something was denied: through the real `beam`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.asking import SEND, place
from tests.support.cli import Cli
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance


def scripted(beam: Cli, step: str, *, setting: str = "", said: str = "the rest") -> None:
    """Declares `agent`, which has something denied and then says the rest."""
    script = Path(beam.base / "script.yaml")
    script.write_text(f"replies:\n- [{step}{f', {said}' if said else ''}]\n")
    beam.config(f"agents:\n  agent: {{adapter: scripted, script: {script}{setting}}}\n")


DENIED = "{deny: {tool: rm, input: {path: a.txt}}}"
BY_ANN = "{deny: {tool: rm, input: {path: a.txt}, by: ann}}"


def test_what_nobody_allowed_is_exit_code_5_and_named_with_its_argument(beam: Cli) -> None:
    scripted(beam, DENIED)
    done = beam("send", "agent", "hi")
    assert done.code == 5
    assert done.err.startswith("beam: agent: denied: not permitted: rm (a.txt); the answer may be incomplete")
    assert "--access" not in done.err, "this agent has no access to widen"


def test_a_tolerated_denial_is_exit_code_0_and_still_said(beam: Cli) -> None:
    scripted(beam, DENIED)
    done = beam("send", "agent", "hi", "--tolerate", "denied")
    assert done.code == 0 and "not permitted: rm (a.txt)" in done.err
    outcome = beam("send", "agent", "hi", "--tolerate", "denied", "--json")
    assert (outcome.code, outcome.json["status"], outcome.json["exit_code"]) == (0, "denied", 0)
    assert [denial["tool"] for denial in outcome.json["denials"]] == ["rm"]
    assert beam("wait", outcome.json["message_id"]).code == 0


def test_an_agent_s_setting_tolerates_for_all_its_messages(beam: Cli) -> None:
    scripted(beam, DENIED, setting=", tolerate: denied")
    sent = beam("send", "agent", "hi", "--no-wait").out.strip()
    assert beam("wait", sent).code == 0
    assert beam("show", sent, "--json").json["status"] == "denied"


def test_nothing_else_can_be_tolerated(beam: Cli) -> None:
    assert beam("send", "scripted", "hi", "--tolerate", "failed").code == 2
    scripted(beam, DENIED, setting=", tolerate: failed")
    assert beam("send", "agent", "hi").code == 2


def test_a_failure_is_not_tolerated_with_it(beam: Cli) -> None:
    beam.config('agents:\n  agent: {adapter: command, command: ["false"], tolerate: denied}\n')
    assert beam("send", "agent", "hi").code == 1


@pytest.mark.parametrize(("said", "rest"), [("the rest", "the answer may be incomplete"), ("", "it gave no answer")])
def test_what_a_person_denied_is_exit_code_0_and_said(beam: Cli, said: str, rest: str) -> None:
    scripted(beam, BY_ANN, said=said)
    done = beam("send", "agent", "hi")
    assert (done.code, done.err) == (0, f"beam: agent: rm (a.txt) was denied by ann; {rest}\n")


def test_n_at_the_question_says_what_happened(beam: Cli) -> None:
    place(beam)
    terminal = Terminal(beam, *SEND, "zz")
    terminal.until("Allow it?", 40)
    terminal.type("n\n")
    terminal.until("Bash command", 40)
    terminal.until("was denied by human; the answer may be incomplete", 40)
    assert terminal.end() == 0


def test_denials_are_null_where_the_agent_would_not_tell(beam: Cli) -> None:
    beam.config("agents:\n  agent: {adapter: command, command: [cat]}\n")
    assert beam("send", "agent", "hi", "--json").json["denials"] is None
    assert beam("send", "scripted", "hi", "--json").json["denials"] == []
