"""The shipped table is whole, of the pinned versions, and the cards claim what it shows, no more and no less."""

from __future__ import annotations

import re

import pytest

from beam.agents import registry
from beam.agents.base import Capabilities
from beam.api import matrix
from tests.conformance import test_cells_reach, written
from tests.conformance.adapters import ADAPTERS, pinned
from tests.conformance.cases import FAILS

CELLS = [(name, case) for name in ADAPTERS for case in written.all_cases().values()]
UNSEEN = {
    "ask",
    "checkpoints",
    "commands",
    "outbox",
    "rewind",
    "system",
}  # no headless face claims the first; the next ones and `rewind` are tried in tests/real, the others in cells of reach


def cell(adapter: str, case: str) -> matrix.Cell:
    """The cell as the file has it."""
    (column,) = [column for column in written.read().adapters if column.adapter == adapter]
    return column.cells[case]


def test_it_is_of_the_versions_that_the_lock_files_pin_and_the_cards_name() -> None:
    """Where this fails the CLIs are newer than the table: `make conformance`."""
    assert {column.adapter: column.version for column in written.read().adapters} == pinned()
    assert {name: registry.adapter(name).card.versions for name in ADAPTERS} == {
        name: (version,) for name, version in pinned().items()
    }


def test_every_headless_cli_of_the_registry_is_in_it() -> None:
    cards = [registry.adapter(name).card for name in registry.ADAPTERS]
    assert {card.name for card in cards if "exec" in card.faces and card.install} == set(ADAPTERS)


def test_every_case_is_in_it_and_every_cell_names_the_test_that_makes_it() -> None:
    known, table = written.all_cases(), written.read()
    assert [case.name for case in table.cases] == list(known)
    assert [(case.title, case.capability, case.quick) for case in table.cases] == [
        (case.title, case.capability, case.quick) for case in known.values()
    ]
    named = {(column.adapter, name): one.test for column in table.adapters for name, one in column.cells.items()}
    assert named == {(name, case.name): case.test_id(name) for name, case in CELLS}


def test_every_capability_has_a_case() -> None:
    shown = {word for case in written.all_cases().values() for word in re.findall(r"\w+", case.capability)}
    assert {name for name in Capabilities.__struct_fields__ if name not in shown} == UNSEEN
    assert not [name for name in ADAPTERS if registry.adapter(name).card.faces["exec"].ask]


@pytest.mark.slow
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_what_a_card_claims_works_and_what_works_is_claimed(adapter: str) -> None:
    can = registry.adapter(adapter).card.faces["exec"]
    for case in written.all_cases().values():
        if case.capability and (case.name, adapter) not in FAILS:
            assert (cell(adapter, case.name).status == "works") == case.claimed(adapter, can), (adapter, case.name)


@pytest.mark.slow
def test_a_cell_that_fails_has_its_reason_in_the_cases_and_no_other_fails() -> None:
    fails = {(case.name, name) for name, case in CELLS if cell(name, case.name).status == "fails"}
    assert fails == set(FAILS)
    assert all(cell(name, case).evidence == written.told(reason) for (case, name), reason in FAILS.items())


@pytest.mark.slow
def test_what_every_cli_must_do_is_never_unsupported() -> None:
    musts = [(name, case) for name, case in CELLS if not case.capability]
    assert [(name, case.name) for name, case in musts if cell(name, case.name).status == "unsupported"] == []


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
