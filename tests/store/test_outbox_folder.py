"""The outbox as a folder: what each side reads of the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.base.errors import RefusedFileError
from beam.store.outbox import Answer, OutboxFolder, read_answer


@pytest.mark.parametrize("data", [b"", b"[]", b'{"v":', b'{"a":' * 20_000, b'{"said":"\xff"}'])
def test_an_answer_that_is_none_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.answer").write_bytes(data)
    with pytest.raises(RefusedFileError, match="the answer to x is damaged"):
        read_answer(tmp_path, "x")


def test_the_asking_process_reads_the_holders_answer_which_is_never_partial(tmp_path: Path) -> None:
    folder = OutboxFolder.make(tmp_path / "box")
    try:
        assert read_answer(tmp_path / "box", "x") is None
        folder.answer("x", Answer(said="done"))
        assert read_answer(tmp_path / "box", "x") == Answer(said="done")
        assert [path.name for path in (tmp_path / "box").iterdir()] == ["x.answer"]
    finally:
        folder.close()
