"""What `make test` keeps of each agent CLI, whatever moves to `make conformance` or `make soak`."""

from __future__ import annotations

import importlib

import pytest

from tests.conformance import written
from tests.conformance.adapters import ADAPTERS, MAIN, TWINS, Column, columns

EVERY_CLI = {"first_turn"}  # cells of the table, headless
EVERY_PROTOCOL = {"warm_turn", "warm_deltas", "approve", "deny"}  # … over the CLI's own protocol, but those of `TWINS`
MAIN_PROTOCOL = {*EVERY_PROTOCOL, "interrupt_text"}
MAIN_CELLS = {"resume", "api_401", "killed_cli"}
MAIN_CLIS = {
    "claude": {
        "a tool call": "real.test_claude_turns::test_a_tool_call_and_its_result_are_events",
        "denied": "real.test_claude_turns::test_what_read_access_does_not_allow_is_denied_and_said",
        "access": "agents.test_claude_real::test_access_edit_changes_files_in_the_folder_only",
        "an interrupt": "conformance.test_cells_dialogue_claude::test_interrupt_text",
        "a timeout": "real.test_claude_turns::test_a_turn_over_its_time_is_stopped_and_keeps_its_session",
        "an ask": "conformance.test_cells_screen_acts::test_screen_deny[claude-terminal]",
        "its screen": "real.test_terminal_turns::test_claude_turns_in_a_row_keep_their_context_and_answer_verbatim",
    },
    "codex": {
        "a tool call": "real.test_codex_turns::test_a_tool_call_and_its_result_are_events",
        "denied": "real.test_codex_turns::test_access_read_changes_nothing_and_a_denied_tool_is_said",
        "access": "real.test_codex_turns::test_access_read_holds_against_the_persons_own_rules",
        "an interrupt": "conformance.test_cells_dialogue_codex::test_interrupt_text",
        "a timeout": "real.test_codex_turns::test_a_turn_that_runs_out_of_time_is_stopped_with_all_that_it_started",
        "an ask": "conformance.test_cells_screen_acts::test_screen_deny[codex-terminal]",
        "its screen": "real.test_terminal_turns::test_codex_tells_its_end_itself_and_leaves_no_server",
    },
    "gemini": {
        "a tool call and denied": "real.test_gemini_turns::"
        "test_access_read_changes_nothing_whatever_the_persons_own_rules_say_and_a_denied_tool_is_said",
        "an interrupt": "conformance.test_cells_dialogue_gemini::test_interrupt_text",
        "a timeout": "real.test_gemini_turns::"
        "test_a_turn_that_runs_out_of_time_is_cancelled_though_gemini_exits_with_0",
    },
}


def test_make_test_has_a_first_turn_of_every_cli_and_a_resume_a_failing_api_and_a_kill_of_the_main_ones() -> None:
    cases = {name: case for name, case in written.all_cases().items() if "exec" in case.faces}
    assert {name for name, case in cases.items() if case.quick} == EVERY_CLI
    for name in EVERY_CLI | MAIN_CELLS:
        path, _, function = cases[name].test.partition("::")
        quick = _quick(path.removesuffix(".py").replace("/", "."), function)
        assert quick == list(ADAPTERS if name in EVERY_CLI else MAIN)


@pytest.mark.parametrize("column", columns(["dialogue"]), ids=lambda column: column.adapter)
def test_make_test_has_a_warm_turn_and_decisions_of_every_protocol_and_an_interrupt_of_the_main_ones(
    column: Column,
) -> None:
    cases = {name: case for name, case in written.all_cases().items() if "{cli}" in case.test}
    for name in cases:
        module = f"tests.conformance.test_cells_dialogue_{column.file}"
        wanted = () if column.adapter in TWINS else MAIN_PROTOCOL if column.adapter in MAIN else EVERY_PROTOCOL
        assert _quick(module, f"test_{name}") == ([column.id] if name in wanted else []), name


@pytest.mark.slow
@pytest.mark.parametrize("cli", MAIN_CLIS)
def test_make_test_has_what_a_turn_can_come_to_with_the_main_clis(cli: str) -> None:
    for what, test in MAIN_CLIS[cli].items():
        module, _, name = test.partition("::")
        marks = {mark.name for mark in _marks(f"tests.{module}", name)}
        assert not marks & {"soak", "conformance"}, f"{cli}: {what} is no more in `make test` ({test})"


def _quick(module: str, function: str) -> list[object]:
    """The columns with which `make test` runs that cell."""
    (parameters,) = [mark for mark in _marks(module, function) if mark.args[1:]]
    return [param.values[0] for param in parameters.args[1] if not param.marks]


def _marks(module: str, name: str) -> list[pytest.Mark]:
    found = importlib.import_module(module)
    assert "soak" not in {mark.name for mark in _listed(getattr(found, "pytestmark", []))}
    name, _, column = name.removesuffix("]").partition("[")
    marks = _listed(getattr(getattr(found, name), "pytestmark", []))
    if not column:
        return marks
    (columns,) = [mark for mark in marks if mark.args[1:]]
    (param,) = [param for param in columns.args[1] if param.values[0] == column]
    return [*marks, *_listed(param.marks)]


def _listed(marks: object) -> list[pytest.Mark]:
    return [getattr(mark, "mark", mark) for mark in (marks if isinstance(marks, (list, tuple)) else [marks])]
