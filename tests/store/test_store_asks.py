"""Open asks as files: what the journal says, for people, and never in the way of a turn."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from beam.base import files
from beam.base.errors import DiskError
from beam.model import events
from beam.store import control

ASKED = events.PermissionAsked(seq=7, agent="a", ask_id="a-1", tool="Bash", description="ls")


def test_an_ask_has_its_file_until_it_is_decided_or_cancelled(tmp_path: Path) -> None:
    for over in (
        events.PermissionDecided(ask_id="a-1", decision="allow"),
        events.PermissionDecided(ask_id="a-1", decision="cancelled"),
    ):
        control.update_ask_files(tmp_path, ASKED)
        assert msgspec.json.decode((tmp_path / "a-1.json").read_bytes(), type=events.PermissionAsked) == ASKED
        control.update_ask_files(tmp_path, over)
        control.update_ask_files(tmp_path, over)
        assert files.names(tmp_path) == []


def test_other_events_touch_nothing(tmp_path: Path) -> None:
    control.update_ask_files(tmp_path, ASKED)
    control.update_ask_files(tmp_path, events.Text(text="hi"))
    assert files.names(tmp_path) == ["a-1.json"]


def test_the_files_are_made_again_from_what_is_open(tmp_path: Path) -> None:
    for name in ("a-over.json", ".a-1.json.99.tmp"):
        (tmp_path / name).touch()
    control.rebuild_ask_files(tmp_path, {"a-1": ASKED})
    assert files.names(tmp_path) == ["a-1.json"]
    control.rebuild_ask_files(tmp_path, {})
    assert files.names(tmp_path) == []


@pytest.mark.parametrize("ask_id", ["../out", "", "A/b", "x" * 200])
def test_an_id_that_is_no_name_gets_no_file(tmp_path: Path, ask_id: str) -> None:
    inner = tmp_path / "asks"
    inner.mkdir()
    control.update_ask_files(inner, msgspec.structs.replace(ASKED, ask_id=ask_id))
    assert (files.names(inner), files.names(tmp_path)) == ([], ["asks"])


def test_a_file_that_can_not_be_written_does_not_end_the_turn(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(DiskError):
        files.replace(gone / "x", b"")
    control.update_ask_files(gone, ASKED)
    control.update_ask_files(gone, events.PermissionDecided(ask_id="a-1", decision="cancelled"))
