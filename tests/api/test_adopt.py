"""The limits on what is copied from somebody else's root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam.api import adopt
from beam.base.errors import DiskError


def copied(source: Path, target: Path) -> Path:
    adopt._copy(source, target, adopt._CopyLimits())
    return target


@pytest.mark.slow
def test_holes_of_a_file_take_no_room_in_its_copy(tmp_path: Path) -> None:
    source = tmp_path / "agent"
    source.mkdir()
    with (source / "journal").open("wb") as file:
        file.write(b"begin")
        file.truncate(64 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"end")
    copy = copied(source, tmp_path / "copy") / "journal"
    assert copy.read_bytes() == (source / "journal").read_bytes()
    assert copy.stat().st_blocks * 512 < 8 << 20


def test_what_is_larger_than_the_limit_is_refused_with_its_size_before_it_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "agent"
    source.mkdir()
    with (source / "journal").open("wb") as file:
        file.truncate(5 << 30)
    with pytest.raises(DiskError, match=r"journal has 5368709120 bytes: 4294967296 of one agent are adopted"):
        copied(source, tmp_path / "copy")
    assert not (tmp_path / "copy" / "journal").exists()


@pytest.mark.slow
def test_folders_deeper_than_beam_makes_them_are_refused(tmp_path: Path) -> None:
    (tmp_path / "agent" / "/".join("d" * 600)).mkdir(parents=True)
    with pytest.raises(DiskError, match="33 folders deep"):
        copied(tmp_path / "agent", tmp_path / "copy")
