"""What a turn is asked to do: access that is never raised from afar, and scratch files that stay in their directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.turns.process import write_scratch


def test_a_launchs_files_are_private_and_in_its_scratch_directory(tmp_path: Path) -> None:
    write_scratch(tmp_path, {"settings.json": b"{}", "deep/er.txt": b"x"})
    assert (tmp_path / "deep" / "er.txt").read_bytes() == b"x"
    assert (tmp_path / "settings.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["/etc/beam-was-here", "../outside", "deep/../../outside"])
def test_a_scratch_file_can_lead_nowhere_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="leads elsewhere"):
        write_scratch(tmp_path / "scratch", {name: b"x"})
