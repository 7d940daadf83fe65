"""A file that is larger than anything beam writes there is not read, however it came there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beam.base.errors import RefusedFileError
from beam.store import control, outbox
from beam.store.thread import ThreadUsage

MIB = 1 << 20


def large(path: Path, size: int) -> Path:
    """A sparse file of that size."""
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.parametrize(
    ("name", "size", "read"),
    [
        ("t-1", 16 * MIB, lambda folder: ThreadUsage(folder, "t-1").spent()),
        ("r.answer", 256 * MIB, lambda folder: outbox.read_answer(folder, "r")),
        ("new/c-1.json", 16 * MIB, lambda folder: control.read(folder, "c-1.json")),
    ],
)
def test_a_file_of_one_byte_more_than_beam_writes_is_refused(
    tmp_path: Path, name: str, size: int, read: Callable[[Path], object]
) -> None:
    large(tmp_path / name, size + 1)
    with pytest.raises(RefusedFileError, match=f"{size // MIB} MiB"):
        read(tmp_path)
