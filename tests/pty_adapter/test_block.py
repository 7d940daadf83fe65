"""A dialog is the lowest block on a screen: one that is only quoted is none."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from msgspec.structs import replace

from beam.agents import registry
from beam.agents.base import HasTerminal
from beam.model.screen_profile import GENERIC_PROFILE, Dialog, Profile
from beam.pty_adapter import profile as profiles
from beam.pty_adapter.screen import View
from beam.turns.terminal.question import question_of

SCREENS = Path(__file__).parents[1] / "recordings" / "screens"
RULE = "─" * 100
QUOTES = {
    name: text.rstrip("\n")
    for section in (SCREENS / "quotes.txt").read_text().split("== ")[1:]
    for name, _, text in [section.partition("\n")]
}
IDLE = {
    "qwen": f"  > hello\n\n  ✦ hi\n\n\n\n{RULE}\n>   Type your message or @path/to/file\n{RULE}\n  ? for shortcuts",
    "copilot": f" ❯ hello\n\n ● hi\n\n\n /p\n{RULE}\n❯\n{RULE}\n ← open sidebar · / commands · ? help",
    "aider": "Applied edit to made\n\n\n\n\nmade\n>",
}
PROFILES = {
    name: adapter.terminal.profile
    for name in registry.ADAPTERS
    if isinstance(adapter := registry.adapter(name), HasTerminal) and adapter.terminal.profile.dialogs
}


def view_of(text: str) -> View:
    rows = text.rstrip("\n").split("\n")
    return View(rows=tuple(rows), columns=140, row=len(rows) - 1, column=2, takes_pastes=True)


def idle(name: str) -> str:
    return IDLE.get(name) or (SCREENS / f"{name}-long.idle.txt").read_text()


def quoting(screen: str, profile: Profile, quote: str, margin: str) -> str:
    """The idle screen with the quotation above its composer."""
    rows = screen.rstrip("\n").split("\n")
    prompt = profiles.read(profile, view_of(screen)).prompt
    assert prompt is not None
    at = prompt - 3
    return "\n".join((*rows[:at], *(f"{margin}{row}" for row in quote.split("\n")), *rows[at:]))


@pytest.mark.parametrize(
    ("name", "screen"),
    [
        ("qwen", "╭───╮\n│ Connect a Provider   │\n│                      │\n│ › Alibaba ModelStudio │\n╰───╯"),
        ("aider", "no API keys were provided.\nLogin to OpenRouter or create a free account? (Y)es/(N)o [Yes]: "),
    ],
)
def test_a_cli_that_nobody_logged_in_to_shows_a_login_dialog(name: str, screen: str) -> None:
    dialog = profiles.read(PROFILES[name], view_of(screen)).dialog
    assert dialog is not None and dialog.kind == "login"


@pytest.mark.slow
@pytest.mark.parametrize("quote", QUOTES)
def test_a_dialog_that_is_quoted_above_the_place_where_one_types_is_none(quote: str) -> None:
    for (name, profile), margin in itertools.product(PROFILES.items(), ("", "  ", "  │ ")):
        reading = profiles.read(profile, view_of(quoting(idle(name), profile, QUOTES[quote], margin)))
        assert reading.dialog is None and reading.idle, (name, margin)


def test_a_dialog_without_a_box_that_is_quoted_above_the_place_where_one_types_is_none() -> None:
    quote = (SCREENS / "qwen-two.dialog.txt").read_text().partition("false}\n")[2].rstrip("\n")
    for margin in ("", "  "):
        screen = view_of(quoting(idle("qwen"), PROFILES["qwen"], quote, margin))
        assert profiles.read(PROFILES["qwen"], screen).dialog is None


def test_a_request_before_other_calls_is_reported_with_them_and_none_of_them_is_picked_out() -> None:
    block = profiles.read(PROFILES["qwen"], view_of((SCREENS / "qwen-two.dialog.txt").read_text())).block
    assert block is not None and block.is_doubtful
    question = question_of(block)
    assert question.tool == "permission"
    assert "WriteFile Writing to made-by-reading" in question.description
    assert "Shell touch '/p/made-by-reading-2'" in question.description


@pytest.mark.slow
def test_every_screen_without_a_quotation_is_idle() -> None:
    assert set(PROFILES) == {"claude", "codex", "gemini", "opencode", "qwen", "copilot", "aider"}
    for name, profile in PROFILES.items():
        assert profiles.read(profile, view_of(idle(name))).idle, name


ASKED = sorted(path.name.removesuffix(".dialog.txt") for path in SCREENS.glob("*.dialog.txt"))


@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_for_is_what_will_run_and_not_what_was_quoted_above(name: str) -> None:
    text = (SCREENS / f"{name}.dialog.txt").read_text()
    block = profiles.read(PROFILES[name.partition("-")[0]], view_of(text)).block
    assert block is not None
    question = question_of(block)
    assert "made" in question.description and "harmless" not in question.tool
    assert "and go on:" not in question.description and "QUOTE" not in question.request


@pytest.mark.parametrize("name", [name for name in ASKED if name.endswith("long")])
def test_all_that_will_run_is_shown_even_if_it_quotes_a_dialog(name: str) -> None:
    text = (SCREENS / f"{name}.dialog.txt").read_text()
    block = profiles.read(PROFILES[name.partition("-")[0]], view_of(text)).block
    assert block is not None
    rows = [row.strip() for row in question_of(block).description.split("\n")]
    assert any(row.endswith("touch made") for row in rows) and any("echo harmless" in row for row in rows)


def test_if_no_row_is_known_to_begin_a_request_all_of_it_is_shown_and_nothing_picked_out() -> None:
    codex = PROFILES["codex"]
    reply = f"• I show:\n{QUOTES['codex permission'].replace('› 1.', '  1.')}\n\n"
    real = QUOTES["codex permission"].replace("echo harmless", "touch made")
    block = profiles.read(codex, view_of(reply + real)).block
    assert block is not None and block.is_doubtful
    question = question_of(block)
    assert question.tool == "permission" and question.call_id is None
    assert "$ echo harmless" in question.description and "$ touch made" in question.description


CODEX_ANSWERS = """› 1. Yes, proceed (y)
  2. Yes, and don't ask again for these (a) (p)
  3. No

  Press enter to confirm or esc to cancel"""
CODEX_HEADS = {
    "command": "  Would you like to run the following command?\n\n  $ touch made\n",
    "edit": "  Would you like to make the following edits?\n\n  Destination: /p/harmless\n",
    "network": '  Do you want to approve network access to "harmless.example"?\n',
}


@pytest.mark.parametrize("real", CODEX_HEADS)
@pytest.mark.parametrize("quoted", CODEX_HEADS)
def test_a_request_with_the_head_of_another_kind_in_or_above_it_is_told_whole_and_none_of_it_picked_out(
    real: str, quoted: str
) -> None:
    if real == quoted:
        return
    for rows in ((CODEX_HEADS[real], CODEX_HEADS[quoted]), (CODEX_HEADS[quoted], CODEX_HEADS[real])):
        text = "\n".join((*rows, CODEX_ANSWERS))
        block = profiles.read(PROFILES["codex"], view_of(text)).block
        assert block is not None and block.is_doubtful and block.row == 0
        question = question_of(block)
        assert question.tool == block.dialog.name and question.dialog.kind == "permission"
        assert (question.always, question.call_id) == ("", None)
        for head in rows:
            (row,) = [row for row in head.split("\n")[-2:] if row.strip()]
            assert row.strip() in question.description


def test_a_request_of_codex_for_the_network_names_the_host() -> None:
    block = profiles.read(PROFILES["codex"], view_of(f"• I look.\n\n\n{CODEX_HEADS['network']}\n{CODEX_ANSWERS}")).block
    assert block is not None and not block.is_doubtful
    question = question_of(block)
    assert (question.tool, question.always) == ("harmless.example", "")
    assert question.description == 'Do you want to approve network access to "harmless.example"?'


def test_a_dialog_that_is_quoted_inside_a_request_of_claude_is_not_answered() -> None:
    asked = QUOTES["claude permission"].replace(
        "echo harmless", "echo '\n  Do you want to use this API key?\n\n    1. Yes\n  ❯ 2. No'"
    )
    block = profiles.read(PROFILES["claude"], view_of(asked)).block
    assert block is not None and block.dialog.name == "permission"


DESCRIBED = replace(GENERIC_PROFILE, dialogs=(Dialog(name="run", match=r"^Run (\S+)\? 1\. Yes", allow=("1",)),))


def test_a_dialog_that_a_person_described_without_its_rows_begins_where_it_matches() -> None:
    text = "hello\nRun it? 1. Yes\nno\nRun that? 1. Yes  2. No"
    block = profiles.read(DESCRIBED, view_of(text)).block
    assert block is not None and (block.row, block.found) == (3, "Run that? 1. Yes")
    composer = replace(DESCRIBED, prompt=r"^❯(?: (.*))?$", above=r"^─{20,}", below=r"^─{20,}")
    assert profiles.read(composer, view_of(text)).block is not None
    assert profiles.read(composer, view_of(f"{text}\n{RULE}\n❯\n{RULE}")).block is None


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_dialog_that_is_known_by_the_form_of_its_rows_begins_with_the_first_of_them(rows: int) -> None:
    boxed = replace(GENERIC_PROFILE, dialogs=(Dialog(name="run", match=r"1\. Yes", body=r"^\|"),))
    asked = ("| Run it?", "| ls", "| 1. Yes")[-rows:]
    block = profiles.read(boxed, view_of("\n".join(("hello", "| quoted", "bye", *asked)))).block
    assert block is not None and (block.row, block.text) == (3, "\n".join(asked))
