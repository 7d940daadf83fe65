"""What is stored of an exchange while it passes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beam.proxy.budget import AnswerMeter
from beam.proxy.private import Blanker
from beam.proxy.recording import split_events
from beam.proxy.tape import ExchangeRecorder

STREAM = b"\n\nevent: a\ndata: 1\n\nevent: b\ndata: 2\n\nevent: c"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_each_event_is_stored_as_soon_as_it_is_whole_also_an_empty_one(size: int, line_end: bytes) -> None:
    data = STREAM.replace(b"\n", line_end)
    stored: list[bytes] = []
    file = SimpleNamespace(path=Path("000001.sse"), add=stored.append)
    recorder = SimpleNamespace(begin=lambda request: 1, answer=lambda number, suffix: file)
    tape = ExchangeRecorder(cast(Any, recorder), cast(Any, None), Blanker())
    tape.begin("sse", cast(Any, None), AnswerMeter(0))
    for at in range(0, len(data), size):
        tape.add(data[at : at + size])
        whole = [event for event in split_events(data[: at + size]) if event.endswith(2 * line_end)]
        assert stored == whole
    assert len(stored) == 3
