"""What a dialog asks for: from recorded screens, and the tool calls that the transcript told of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace

from beam.agents.aider.screen import profile as AIDER
from beam.agents.claude.screen import profile as CLAUDE
from beam.agents.codex.screen import profile as CODEX
from beam.agents.copilot.screen import profile as COPILOT
from beam.agents.gemini.screen import profile as GEMINI
from beam.agents.opencode.screen import profile as OPENCODE
from beam.agents.qwen.screen import profile as QWEN
from beam.model.events import ToolCalled
from beam.model.screen_profile import Dialog, Profile
from beam.pty_adapter import profile as profiles
from beam.pty_adapter.block import Block
from beam.pty_adapter.screen import View
from beam.turns.terminal.question import Question, question_of, suggestions

RECORDED = Path(__file__).parents[2] / "recordings" / "pty" / "claude-perm.busy.txt"
CODEX_SCREEN = """\
› !tool exec_command
◦ Running touch made

  Would you like to run the following command?

  Environment: local

  Reason: Make it?

  $ touch made

› 1. Yes, proceed (y)
  2. Yes, and don't ask again for commands that start with `touch made` (p)
  3. No, and tell Codex what to do differently (esc)

  Press enter to confirm or esc to cancel
"""


def view_of(text: str) -> View:
    return View(rows=tuple(text.splitlines()), columns=100, takes_pastes=True)


def dialog_of(profile: Profile) -> Dialog:
    return next(dialog for dialog in profile.dialogs if dialog.name == "permission")


def block_of(profile: Profile, text: str) -> Block:
    block = profiles.read(profile, view_of(text)).block
    assert block is not None, "its dialog was not found"
    return block


def asked(text: str, profile: Profile, *calls: ToolCalled) -> Question:
    return question_of(block_of(profile, text), calls)


def call(name: str, input: str, call_id: str = "c1") -> ToolCalled:
    return ToolCalled(call_id=call_id, name=name, input=Raw(input.encode()))


def test_a_recorded_dialog_of_claudes_says_its_request_and_its_offer_and_nothing_around_it() -> None:
    question = asked(RECORDED.read_text(), CLAUDE)
    assert question.tool == "Bash command"
    assert question.description == "touch /lab/pty/work/zz && rm -f zz\nTouch a file"
    offer = "Yes, and don't ask again for touch /lab/pty/work/zz and rm -f zz commands in /lab/pty/work"
    assert question.always == offer
    assert bytes(suggestions(question)) == f'["{offer}"]'.encode()


def test_a_dialog_of_codexs_says_its_request_and_its_offer() -> None:
    question = asked(CODEX_SCREEN, CODEX)
    assert (question.tool, question.description) == (
        "touch made",
        "Environment: local\nReason: Make it?\n$ touch made",
    )
    assert question.always == "Yes, and don't ask again for commands that start with `touch made` (p)"


def test_always_is_offered_with_the_key_that_the_screen_shows_and_no_other() -> None:
    edit = (RECORDED.parents[1] / "screens" / "codex-edit.dialog.txt").read_text()
    question = asked(edit, CODEX)
    assert question.always == "Yes, and don't ask again for these files (a)" and question.dialog.always == ("a",)
    assert asked(edit.replace("(a)", "(z)"), CODEX).always == ""
    other = replace(CODEX, dialogs=tuple(replace(dialog, always=("p",)) for dialog in CODEX.dialogs))
    assert asked(edit, other).always == ""


def test_a_rule_above_the_dialog_is_no_part_of_it() -> None:
    text = f"{'─' * 60}\n a heading\n\n{RECORDED.read_text()}"
    assert asked(text, CLAUDE).description == "touch /lab/pty/work/zz && rm -f zz\nTouch a file"


def test_the_tool_call_that_stands_on_the_screen_is_what_is_asked_for() -> None:
    other = call("Bash", '{"command":"rm -rf /","description":"Remove it all"}', "other")
    this = call("Bash", '{"command":"touch /lab/pty/work/zz && rm -f zz"}', "this")
    question = asked(RECORDED.read_text(), CLAUDE, other, this)
    assert (question.tool, question.call_id, question.input) == ("Bash", "this", this.input)
    assert asked(RECORDED.read_text(), CLAUDE, other).call_id is None


def test_a_call_that_only_stands_elsewhere_on_the_screen_is_not_the_one_asked_for() -> None:
    text = RECORDED.read_text().replace("TOOLTURN please", "run sleep 100 first")
    running = call("Bash", '{"command":"sleep 100"}', "running")
    asked_for = call("Bash", '{"command":"touch /lab/pty/work/zz && rm -f zz"}', "asked")
    assert asked(text, CLAUDE, running, asked_for).call_id == "asked"


def test_of_several_calls_that_stand_in_the_dialog_the_one_that_says_most_is_asked_for() -> None:
    reading = call("Read", '{"file_path":"/lab/pty/work/zz"}', "reading")
    task = call("Task", '{"description":"Touch a file","prompt":"Make the file zz, then remove it"}', "task")
    this = call("Bash", '{"command":"touch /lab/pty/work/zz && rm -f zz","description":"Touch a file"}', "this")
    for calls in ((reading, task, this), (this, task, reading)):
        assert asked(RECORDED.read_text(), CLAUDE, *calls).call_id == "this"
    same = call("Bash", '{"command":"touch /lab/pty/work/zz && rm -f zz"}', "same")
    assert asked(RECORDED.read_text(), CLAUDE, this, same).call_id == "this", "the oldest of the same"


def test_a_file_is_known_by_its_name_where_the_dialog_shows_a_relative_path() -> None:
    rule = "╌" * 60
    rows = ("─" * 60, " Create file", " ../zz/note.txt", rule, "  1 {", "  2 }", rule)
    text = "\n".join((*rows, " Do you want to create note.txt?", " ❯ 1. Yes", ""))
    question = asked(text, CLAUDE, call("Write", '{"file_path":"/tmp/zz/note.txt","content":"hi"}'))
    assert (question.tool, question.description) == ("Write", "../zz/note.txt\n 1 {\n 2 }")


@pytest.mark.parametrize("input", ["null", "{}", '{"n":7}', '{"a":["zz"]}', '{"path":"no"}'])
def test_a_call_without_a_telling_word_is_not_taken_for_the_one_asked_for(input: str) -> None:
    assert asked(RECORDED.read_text(), CLAUDE, call("Edit", input)).call_id is None


def test_a_call_whose_input_is_nested_too_deeply_is_not_taken_for_the_one_asked_for() -> None:
    this = call("Bash", '{"command":"touch /lab/pty/work/zz && rm -f zz"}', "this")
    limit = sys.getrecursionlimit()
    for depth in (*range(limit - 120, limit + 5), 100_000):
        deep = call("Edit", '{"a":' * depth + "1" + "}" * depth, "deep")
        assert asked(RECORDED.read_text(), CLAUDE, deep, this).call_id == "this"


def test_two_looks_at_one_dialog_are_one_request_and_another_request_is_another() -> None:
    first = asked(RECORDED.read_text(), CLAUDE)
    moved = asked("\n\n" + RECORDED.read_text().replace("Touch a file", "Touch  a file "), CLAUDE)
    other = asked(RECORDED.read_text().replace("rm -f zz\n", "rm -f yy\n"), CLAUDE)
    assert first.request == moved.request != other.request and first.own == moved.own != other.own


def test_the_choice_between_the_answers_is_no_part_of_the_request() -> None:
    text = RECORDED.read_text()
    moved = text.replace("❯ 1. Yes", "  1. Yes").replace("  2. Yes", "❯ 2. Yes")
    assert moved != text and asked(moved, CLAUDE).request == asked(text, CLAUDE).request


@pytest.mark.parametrize(
    ("profile", "harmless"),
    [
        (AIDER, "\ntouch harmless\nRun shell command? (Y)es/(N)o/(D)on't ask again [Yes]: "),
        (COPILOT, "╭──\n│ Bash │\n│ touch harmless │\n│ Do you want to run this? │\n│ ❯ 1. Yes │"),
        (GEMINI, "╭──\n│ ? Shell cd x && │\n│ touch harmless │\n│ Allow execution of: 'cd'? │\n│ ● 1. Allow once │"),
        (QWEN, "╭──\n│ ? Shell cd x && │\n│ touch harmless │\n│ Allow execution of: 'cd'? │\n│ ● 1. Yes │"),
        (OPENCODE, "┃ △ Permission required\n┃ $ cd x &&\n┃ touch harmless\n┃ Allow once  Allow always  Reject"),
    ],
)
def test_the_same_question_about_something_else_is_another_request(profile: Profile, harmless: str) -> None:
    first, other = asked(harmless, profile), asked(harmless.replace("touch harmless", "rm -rf precious"), profile)
    assert first.request != other.request
    assert "Allow" in first.request or "1.Yes" in first.request or "(Y)es" in first.request, "its dialog was found"


def test_where_a_profile_says_nothing_of_the_request_the_screen_is_shown() -> None:
    bare = replace(dialog_of(CLAUDE), subject="", detail="", always=(), first="", body="")
    question = question_of(block_of(replace(CLAUDE, dialogs=(bare,)), RECORDED.read_text()))
    assert (question.tool, question.always) == ("permission", "")
    assert "Do you want to proceed?" in question.description and bytes(suggestions(question)) == b"[]"
