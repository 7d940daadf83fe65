"""Programs with a screen and bad manners, through the real `beam`: an answer that is one, or none."""

from __future__ import annotations

import pytest

from tests.support import tui
from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance

DESCRIBED = r"""
agents:
  tui:
    command: [python3, {tui}, {manner}]
    screen:
      prompt: '^❯(?: (.*))?$'
      above: '^─{{20,}}'
      below: '^─{{20,}}'
      busy_rows: ['^\s+esc to interrupt', '^✻ \S+…']
      echo_rows: '^❯ (.*)$'
      bullet: '^● '
      indent: 2
      bracketed: true
      stall_seconds: 60
"""
# It pauses for 6 s at most; what is known of its screen is only when to give up.
PLAIN = "agents:\n  tui:\n    command: [python3, {tui}, {manner}]\n    screen: {{stall_seconds: 8}}\n"
SEND = ("send", "tui", "--via", "terminal", "--json", "hello")
ANSWERS = {
    **dict.fromkeys(("pause", "quiet", "repaint", "alternate", "blank", "drop", "late"), "ECHO[hello]"),
    "lookalike": "\n".join([*tui.LOOKALIKE, "the end"]),
    "crawl": "one two three",
}


def config(beam: Cli, text: str, manner: str) -> None:
    beam.config(text.format(tui=tui.__file__, manner=manner))


@pytest.mark.parametrize("manner", sorted(ANSWERS))
def test_a_program_that_beam_yaml_describes_is_done_when_it_is_and_answers_whole(beam: Cli, manner: str) -> None:
    config(beam, DESCRIBED, manner)
    outcome = beam(*SEND, timeout=90).json
    assert (outcome["status"], outcome["reason"], outcome["reply"]) == ("completed", None, ANSWERS[manner])
    assert outcome["lossy"] is True


@pytest.mark.parametrize(
    ("manner", "why"),
    [
        (
            "quiet",
            "the agent did not show the text that was typed",
        ),  # no Enter is pressed: how it answers is never seen
        ("late", "the agent did not show the text that was typed"),
        ("alternate", "nothing changed for 8 s"),
    ],
)
def test_a_full_screen_that_nobody_described_gives_no_answer_and_is_shown(beam: Cli, manner: str, why: str) -> None:
    config(beam, PLAIN, manner)
    outcome = beam(*SEND, timeout=90).json
    assert (outcome["status"], outcome["reply"]) == ("failed", None)
    assert f"{why}; its screen:" in outcome["reason"]


def test_a_bad_pattern_is_a_configuration_error_that_names_its_place(beam: Cli) -> None:
    for given, words in (
        ("busy_rows: ['esc ([a-z']", "not a regular expression"),
        ("prompt: '^> '", "exactly one group"),
        ("busy_row: ['x']", "did you mean busy_rows?"),
        ("busy_rows: ['^(a+)+$']", "takes too long"),
        ("name: x", "unknown key"),
        ("dialogs: [{name: x, match: y, keys: z}]", "unknown key"),
    ):
        beam.config(f"agents:\n  tui:\n    command: [cat]\n    screen:\n      {given}\n")
        ended = beam(*SEND)
        assert ended.code == 2 and words in ended.json["error"]["message"] + str(ended.json["error"]["hint"]), ended
        assert "line 5" in ended.json["error"]["message"]


def test_agent_show_says_what_is_different_on_the_screen(beam: Cli) -> None:
    beam.config("agents:\n  x:\n    adapter: claude\n    screen: {busy_rows: ['^working'], rows: 50}\n")
    shown = beam("agent", "show", "x").out
    assert "busy_rows" in shown and "^working" in shown and "rows" in shown


def test_a_screen_in_beam_yaml_counts_only_in_a_trusted_folder(beam: Cli) -> None:
    beam.config("agents:\n  x:\n    adapter: claude\n    screen: {rows: 50}\n", trusted=False)
    ended = beam("send", "x", "hello")
    assert ended.code == 2 and "which keys beam types" in ended.err
