"""A file of Claude Code's that is larger than any that is read is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.base.errors import RefusedFileError
from beam.teams import claude_files, disk, hooks_install

MIB = 1 << 20


def large(path: Path, size: int) -> Path:
    """A sparse file of that size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_a_file_of_one_byte_more_is_refused_or_told_to_be_large(tmp_path: Path) -> None:
    with pytest.raises(RefusedFileError, match="16 MiB"):
        claude_files.read(str(large(tmp_path / "config.json", 16 * MIB + 1)))
    with pytest.raises(RefusedFileError, match="4 MiB"):
        hooks_install.install(large(tmp_path / "settings.json", 4 * MIB + 1))
    path = large(tmp_path / "teams/t/inboxes/bob.json", 16 * MIB + 1)
    file = disk.team_file_of(str(tmp_path), str(path))
    assert file is not None
    snapshot, _ = disk.read(file, 5)
    assert (snapshot.data, snapshot.is_large) == (None, True)


@pytest.mark.parametrize(("name", "is_session"), [("1" * 10, True), ("1" * 11, False), ("²", False), ("x", False)])
def test_a_session_is_named_by_a_number_that_a_process_may_have(tmp_path: Path, name: str, is_session: bool) -> None:
    assert (disk.team_file_of("/h", f"/h/sessions/{name}.json") is not None) is is_session
