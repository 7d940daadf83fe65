"""What an agent CLI is told of a message: who speaks, what its answer does, and where it can write to others."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.cli import BEAM_WORDS, Cli, eventually, processes_with

pytestmark = pytest.mark.acceptance
CODEX = """#!/bin/sh
cat > ../prompt
echo '{"type":"thread.started","thread_id":"01a200e3-58ec-7ca0-a937-ca868a2044c0"}'
echo '{"type":"item.completed","item":{"id":"0","type":"agent_message","text":"done"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}'
"""


@pytest.fixture
def place(beam: Cli) -> Cli:
    """`bob` sends what it is sent on to `coder`, a stand-in of Codex that keeps its prompt."""
    stand_in = beam.project / "codex"
    stand_in.write_text(CODEX)
    stand_in.chmod(0o700)
    agents(beam, "")
    return beam


def agents(beam: Cli, more: str) -> None:
    send = json.dumps(f"[ $BEAM_HOPS = 0 ] && exec {BEAM_WORDS} send coder - --no-wait")
    beam.config(
        f"agents:\n  bob: {{command: [sh, -c, {send}]}}\n"
        f"  coder: {{adapter: codex, executable: ./codex, access: edit{more}}}\n"
    )


def prompt(beam: Cli) -> str:
    """What the CLI was prompted with last."""
    eventually(lambda: not processes_with(str(beam.base)), 60, "processes are left")
    return (beam.base / "prompt").read_text()


def test_a_cli_is_told_who_speaks_what_its_answer_does_and_where_it_can_write(place: Cli) -> None:
    assert place("send", "bob", "/hello").code == 0
    who, where, blank, *text = prompt(place).splitlines()
    assert (who, blank, text) == ("[from bob; your answer goes to bob; to end say nothing or END]", "", ["/hello"])
    told = re.fullmatch(r"\[to write to an agent, save (\{.*\}) as (/.*/outbox)/ANY-NAME\.json\]", where)
    assert told is not None
    assert set(json.loads(told[1])) == {"to", "text"}
    assert told[2].startswith(f"{place.root}.turns/coder/")


def test_a_person_s_message_has_no_envelope_also_in_another_s_name(place: Cli) -> None:
    assert place("send", "coder", "hello").out == "done\n"
    assert prompt(place) == "hello"
    assert place("send", "coder", "hello again", "--from", "bob", "--no-wait").code == 0
    assert prompt(place) == "hello again"


def test_envelope_none_switches_it_off_and_a_text_replaces_it(place: Cli) -> None:
    agents(place, ", envelope: none")
    assert place("send", "bob", "hello").code == 0
    assert prompt(place) == "hello"
    agents(place, ", envelope: '<{from}>'")
    assert place("send", "bob", "hello").code == 0
    assert prompt(place) == "<bob>\n\nhello"


def test_an_answer_that_comes_back_says_what_it_answers_and_that_nobody_gets_another(place: Cli) -> None:
    sent = place("send", "bob", "hello", "--from", "coder", "--no-wait").out.strip()
    assert place("wait", sent).code == 0
    said = prompt(place).splitlines()
    assert said[0] == f"[from bob, answering {sent}; your answer goes to nobody]"
