"""The shipped table is whole, of the pinned versions, and the cards claim what it shows, no more and no less."""

from __future__ import annotations

import re

import pytest

from beam.agents import registry
from beam.agents.base import Capabilities
from beam.api import matrix
from tests.conformance import test_cells_reach, written
from tests.conformance.adapters import ADAPTERS, CLIS, COLUMNS, Column, columns, pinned
from tests.conformance.cases import FAILS
from tests.conformance.screens import SCREENS

CELLS = [(column, case) for case in written.all_cases().values() for column in columns(case.faces)]
UNSEEN = {
    "checkpoints",
    "commands",
    "edits",
    "outbox",
    "rewind",
    "system",
}  # the first ones, `edits` (by undo) and `rewind` are tried in tests/real, the others in cells of reach


def cell(column: Column, case: str) -> matrix.Cell:
    """The cell as the file has it."""
    (found,) = [one for one in written.read().adapters if (one.adapter, one.face) == (column.adapter, column.face)]
    return found.cells[case]


@pytest.mark.slow
def test_it_is_of_the_versions_that_the_lock_files_pin_and_the_cards_name() -> None:
    """Where this fails the CLIs are newer than the table: `make conformance`."""
    versions = pinned()
    assert {column.adapter: column.version for column in written.read().adapters}.items() <= versions.items()
    assert {name: registry.adapter(name).card.versions for name in CLIS} == {
        name: (version,) for name, version in versions.items()
    }


def test_every_headless_cli_of_the_registry_is_in_it() -> None:
    cards = [registry.adapter(name).card for name in registry.ADAPTERS]
    assert {card.name for card in cards if "exec" in card.faces and card.install} == set(ADAPTERS)


def test_every_cli_of_the_registry_with_a_screen_of_its_own_is_in_it() -> None:
    cards = [registry.adapter(name).card for name in registry.ADAPTERS]
    found = {card.name for card in cards if "terminal" in card.faces and card.install and not card.runs_text}
    assert found == set(SCREENS)
    assert {column.adapter for column in columns(("terminal",))} == set(SCREENS)


@pytest.mark.slow
def test_every_case_is_in_it_and_every_cell_names_the_test_that_makes_it() -> None:
    known, table = written.all_cases(), written.read()
    assert [case.name for case in table.cases] == list(known)
    assert [(case.title, case.capability, case.quick, case.faces) for case in table.cases] == [
        (case.title, case.capability, case.quick, case.faces) for case in known.values()
    ]
    named = {
        (Column(column.adapter, column.face).id, name): one.test
        for column in table.adapters
        for name, one in column.cells.items()
    }
    assert named == {(column.id, case.name): case.test_id(column) for column, case in CELLS}


def test_a_column_is_one_mode_of_a_cli_and_the_headless_one_has_its_name_alone() -> None:
    assert [COLUMNS[name] for name in ("codex", "codex-dialogue", "codex-acp-dialogue")] == [
        Column("codex", "exec"),
        Column("codex", "dialogue"),
        Column("codex-acp", "dialogue"),
    ]
    assert [column.adapter for column in columns(("exec",))] == list(ADAPTERS)
    assert "codex-acp" not in COLUMNS and len({*COLUMNS}) == len(columns(matrix.FACES))


def test_the_modes_follow_each_other_and_a_row_is_only_in_those_of_its_case() -> None:
    read = written.read()
    faces = [column.face for column in read.adapters]
    assert faces == sorted(faces, key=matrix.FACES.index)
    for face in matrix.FACES:
        cases, found = matrix.of_mode(read, face)
        assert all(set(column.cells) == {case.name for case in cases} for column in found), face


def test_every_capability_has_a_case() -> None:
    shown = {word for case in written.all_cases().values() for word in re.findall(r"\w+", case.capability)}
    assert {name for name in Capabilities.__struct_fields__ if name not in shown} == UNSEEN
    assert not [name for name in ADAPTERS if registry.adapter(name).card.faces["exec"].ask]


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_what_a_card_claims_works_and_what_works_is_claimed(name: str) -> None:
    column = COLUMNS[name]
    can = registry.adapter(column.adapter).card.faces[column.face]
    for case in written.all_cases().values():
        if case.capability and column.face in case.faces and (case.name, name) not in FAILS:
            assert (cell(column, case.name).status == "works") == case.claimed(column.adapter, can), case.name


@pytest.mark.slow
def test_a_cell_that_fails_has_its_reason_in_the_cases_and_no_other_fails() -> None:
    fails = {(case.name, column.id) for column, case in CELLS if cell(column, case.name).status == "fails"}
    assert fails == set(FAILS)
    assert all(cell(COLUMNS[name], case).evidence == written.told(reason) for (case, name), reason in FAILS.items())


@pytest.mark.slow
def test_what_every_cli_must_do_is_never_unsupported() -> None:
    musts = [(column, case.name) for column, case in CELLS if not case.capability]
    assert [(column.id, case) for column, case in musts if cell(column, case).status == "unsupported"] == []


def test_every_cli_that_can_do_less_than_all_names_its_settings() -> None:
    less = [name for name in ADAPTERS if set(registry.adapter(name).card.faces["exec"].access) != {"full"}]
    assert [name for name in less if not (ADAPTERS[name].settings and ADAPTERS[name].folder_settings)] == []


def test_make_test_runs_the_attempts_at_edit_of_one_cli() -> None:
    assert test_cells_reach.QUICK == ("claude",)


def test_its_evidence_names_no_machine() -> None:
    text = written.FILE.read_text()
    assert re.findall(r"(?:/(?:root|home|work|Users|tmp|venv)/[\w./-]+)|(?:localhost|127\.0\.0\.1):\d+", text) == []
    assert (
        written.told("at /tmp/x-1/project/a.txt: no\n http://127.0.0.1:3123/v1")
        == "at PATH: no http://the model's address/v1"
    )
