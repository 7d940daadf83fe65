"""A recording on disk is read with suspicion: names are checked, and what a kill left is readable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from beam.base.errors import CorruptError, NotFoundError
from beam.proxy.recording import Recording

REQUEST = {"line": "request", "n": 1, "at": "x", "format": "anthropic", "kind": "ask", "method": "POST", "path": "/v1"}
STREAM = b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n"


def recorded(directory: Path, *answers: dict[str, Any], **files: bytes) -> Recording:
    """A recording of one call: these answers' lines, and these files of `answers/` (`n000001_sse` is 000001.sse)."""
    (directory / "answers").mkdir(parents=True)
    (directory / "recording.json").write_bytes(b'{"v": 1}')
    lines = [REQUEST, *({"line": "answer", "n": 1, "status": 200, **answer} for answer in answers)]
    (directory / "model.exchanges.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    for name, data in files.items():
        (directory / "answers" / name.removeprefix("n").replace("_", ".")).write_bytes(data)
    return Recording(directory)


def test_an_answer_is_read_from_its_own_file(tmp_path: Path) -> None:
    (found,) = recorded(tmp_path / "r", {"file": "000001.sse"}, n000001_sse=STREAM).exchanges
    assert (found.answer.end, len(found.events), b"".join(found.events), found.data) == ("complete", 2, STREAM, b"")
    (found,) = recorded(tmp_path / "s", {"file": "000001.json"}, n000001_json=b"{}").exchanges
    assert (found.events, found.data) == ((), b"{}")


@pytest.mark.parametrize("name", ["000002.sse", "../recording.json", "/etc/hostname", "000001.txt"])
def test_a_file_that_is_not_the_calls_own_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorruptError, match=r"call 1 names a file .* that is not its own"):
        recorded(tmp_path / "r", {"file": name}, n000002_sse=STREAM, n000001_txt=b"x")


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": 0}, {"status": -5}, {"status": 1000}, {"headers": {"content-type": "a\r\nX-Evil: 1"}},
        {"headers": {"retry-after": "\u2603"}}, {"headers": {"retry-after": "1\0"}, "end": "cut"},
    ],
)  # fmt: skip
def test_an_answer_that_no_api_sends_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(CorruptError, match=r"the answer to call 1 has a status or a header that no API sends"):
        recorded(tmp_path / "r", {**wrong, "file": "000001.json"}, n000001_json=b"{}")


def test_headers_that_are_not_recorded_are_not_replayed(tmp_path: Path) -> None:
    given = {"content-type": "text/plain", "content-length": "3", "transfer-encoding": "chunked", "location": "/x"}
    (found,) = recorded(tmp_path / "r", {"headers": given}).exchanges
    assert found.answer.headers == {"content-type": "text/plain"}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match=r"answers/000001.sse is missing"):
        recorded(tmp_path / "r", {"file": "000001.sse"})


@pytest.mark.parametrize(
    ("left", "events", "data"), [({"n000001_sse": STREAM}, 2, b""), ({"n000001_json": b"{"}, 0, b"{"), ({}, 0, b"")]
)
def test_a_call_whose_recorder_was_killed_is_cut_with_what_is_there(
    tmp_path: Path, left: dict[str, bytes], events: int, data: bytes
) -> None:
    (found,) = recorded(tmp_path / "r", **left).exchanges
    assert (found.answer.end, len(found.events), found.data) == ("cut", events, data)


def test_a_torn_last_line_is_left_out_and_any_other_is_an_error_with_its_number(tmp_path: Path) -> None:
    index = (recorded(tmp_path / "r").directory) / "model.exchanges.jsonl"
    index.write_bytes(index.read_bytes() + b'{"line": "ans')
    assert len(Recording(index.parent).exchanges) == 1
    index.write_bytes(index.read_bytes() + b"\n")
    with pytest.raises(CorruptError, match=r"line 2 of model.exchanges.jsonl is not a call"):
        Recording(index.parent)


def test_a_folder_without_calls_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is no recording"):
        Recording(tmp_path)
