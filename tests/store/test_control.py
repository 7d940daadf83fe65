"""Requests to a holder, as files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam.base import files
from beam.base.errors import CorruptError, LimitError
from beam.store import control
from beam.store.control import ControlRequest


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in ("tmp", "new"):
        (tmp_path / name).mkdir()
    return tmp_path


def request(name: str, **fields: object) -> ControlRequest:
    return ControlRequest(id=f"a-{name}", verb="drop", timestamp="t", expires="2026-01-01T00:00:00Z", **fields)  # type: ignore[arg-type]


def test_a_request_is_read_as_it_was_published_and_then_gone(directory: Path) -> None:
    published = request("1", target="a-x", sender="ann")
    control.publish(directory, published)
    assert control.waiting_names(directory) == ["a-1.json"]
    assert control.read(directory, "a-1.json") == published
    control.remove(directory, "a-1.json")
    control.remove(directory, "a-1.json")
    assert control.read(directory, "a-1.json") is None
    assert control.waiting_names(directory) == []


def test_requests_wait_in_the_order_of_their_ids(directory: Path) -> None:
    for name in "312":
        control.publish(directory, request(name))
    assert control.waiting_names(directory) == ["a-1.json", "a-2.json", "a-3.json"]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff", b'{"id":"a-1"}', b'{"id":"a-1","verb":"fly","timestamp":"t","expires":"t"}',
     b'{"id":"a-1","verb":"drop","timestamp":"t","expires":"soon"}'],
)  # fmt: skip
def test_what_is_no_request_is_corrupt(directory: Path, data: bytes) -> None:
    (directory / "new" / "a-1.json").write_bytes(data)
    with pytest.raises(CorruptError, match="is no request"):
        control.read(directory, "a-1.json")


def test_only_old_leftovers_are_swept(directory: Path) -> None:
    for name, age in (("old", 10), ("young", 100)):
        (directory / "tmp" / name).touch()
        os.utime(directory / "tmp" / name, (age, age))
    control.sweep(directory, 50 * 10**9)
    assert files.names(directory / "tmp") == ["young"]


@pytest.mark.parametrize("data", [b'{"id":' * 100_000, b"[" * 1_000_000, b'{"id":"a-1","v":' + b"9" * 5000 + b"}"])
def test_monstrous_json_is_no_request(directory: Path, data: bytes) -> None:
    (directory / "new" / "a-1.json").write_bytes(data)
    with pytest.raises(CorruptError, match="is no request"):
        control.read(directory, "a-1.json")


@pytest.mark.slow
def test_a_request_that_no_holder_would_read_is_not_published(directory: Path) -> None:
    with pytest.raises(LimitError, match="the limit is"):
        control.publish(directory, request("1", text="x" * (17 << 20)))
    assert files.names(directory / "tmp") == files.names(directory / "new") == []


def test_a_directory_in_the_place_of_a_request_is_put_out_of_the_way(directory: Path) -> None:
    (directory / "new" / "a-1.json").mkdir()
    control.remove_invalid(directory, "a-1.json")
    assert control.waiting_names(directory) == []
