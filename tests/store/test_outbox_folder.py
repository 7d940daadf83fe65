"""The outbox as a folder: what each side reads of the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.base.errors import RefusedFileError
from beam.store.outbox import answered


@pytest.mark.parametrize("data", [b"", b"[]", b'{"v":', b'{"a":' * 20_000, b'{"said":"\xff"}'])
def test_an_answer_that_is_none_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.answer").write_bytes(data)
    with pytest.raises(RefusedFileError, match="the answer to x is damaged"):
        answered(tmp_path, "x")
