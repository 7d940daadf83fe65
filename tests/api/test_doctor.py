"""Checks of a root."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.api.doctor import checks, damage
from tests.support.world import Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_a_whole_journal_has_no_damage_and_a_damaged_one_is_told_line_by_line(root: Root) -> None:
    for number in range(3):
        root.put("box", str(number))
    holder = root.hold("box")
    holder.look_at_queue()
    holder.release()
    journal = root.place("box").journal
    assert damage(journal) == []
    (segment,) = journal.glob("*.jsonl")
    lines = segment.read_bytes().split(b"\n")
    lines[1] = b"junk"
    lines[2] = lines[2][:20]
    segment.write_bytes(b"\n".join(lines))
    assert len(damage(journal)) >= 2


def test_a_gap_in_the_numbers_is_damage(root: Root) -> None:
    for number in range(3):
        root.put("box", str(number))
    holder = root.hold("box")
    holder.look_at_queue()
    holder.release()
    (segment,) = root.place("box").journal.glob("*.jsonl")
    lines = segment.read_bytes().split(b"\n")
    segment.write_bytes(b"\n".join([*lines[:2], *lines[3:]]))
    assert any("stands where" in line for line in damage(root.place("box").journal))


def test_a_place_without_a_root_is_a_note_and_stays_without_one(root: Root) -> None:
    found = {check.what: check for check in checks(root.world)}
    assert found["root"].result == "note"
    assert not root.world.home.root.exists()


def test_a_declared_agent_without_its_cli_is_bad_and_another_adapter_a_note(root: Root) -> None:
    (root.base / "beam.yaml").write_text("agents:\n  mine: {adapter: claude}\n")
    found = {check.what: check for check in checks(root.reload())}
    assert (found["agent mine"].result, found["agent claude"].result) == ("bad", "note")
    assert "install" in found["agent mine"].detail


def test_an_untrusted_agent_is_a_note(root: Root) -> None:
    root.environ.pop("BEAM_TRUST")
    (root.base / "beam.yaml").write_text("agents:\n  mine: {command: [cat]}\n")
    found = {check.what: check for check in checks(root.reload())}
    assert (found["agent mine"].result, "beam trust" in found["agent mine"].detail) == ("note", True)
