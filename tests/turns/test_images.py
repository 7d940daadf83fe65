"""An image that an agent sends is a file of its own, and what can't be kept is told."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from beam.agents.images import image_event
from beam.base import files
from beam.model import events
from beam.model.events import Event, ImageSeen
from beam.model.outcome import Status
from beam.turns import images
from beam.turns.images import ImageFiles
from beam.turns.record import PieceRecorder
from tests.support.context import FakeClock
from tests.support.secrets import PLANTED

PNG = b"\x89PNG\r\n\x1a\n" + bytes(900)


class Kept:
    """The images of one turn."""

    def __init__(self, agent_dir: Path) -> None:
        self.agent_dir = agent_dir
        self.events: list[Event] = []
        self.record = PieceRecorder(self._record, FakeClock(), [ImageFiles(agent_dir / "images", agent_dir)])

    def _record(self, body: Event, *, sync: bool = False) -> Event:
        self.events.append(body)
        return body

    def see(self, data: bytes, media_type: str = "image/png") -> ImageSeen:
        event = self.record(image_event(data=base64.b64encode(data).decode(), media_type=media_type))
        assert isinstance(event, ImageSeen) and not event.path.startswith("data:")
        return event

    def names(self) -> list[str]:
        return files.names(self.agent_dir / "images")


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "agent")


def test_the_file_is_private_and_named_by_its_content_and_its_first_bytes(kept: Kept) -> None:
    event = kept.see(PNG, "image/../../x.sh")
    path = kept.agent_dir / event.path
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (PNG, 0o600)
    assert path.parent == kept.agent_dir / "images" and path.suffix == ".png" and len(path.stem) == 32
    assert (event.media_type, event.bytes, event.unkept) == ("image/png", len(PNG), "")


@pytest.mark.parametrize(
    ("data", "suffix"), [(b"\xff\xd8\xff\xe0", "jpg"), (b"GIF89a", "gif"), (b"RIFF0000WEBPVP8 ", "webp")]
)
def test_each_known_type_has_its_suffix_whatever_it_calls_itself(kept: Kept, data: bytes, suffix: str) -> None:
    assert kept.see(data).path.endswith(f".{suffix}")


def test_what_is_no_picture_is_not_kept_whatever_it_calls_itself(kept: Kept) -> None:
    for data in (b"#!/bin/sh\nrm -r ~\n", b"<svg onload='x()'/>", b"\x7fELF"):
        event = kept.see(data)
        assert (event.path, event.unkept) == ("", "it is no PNG, JPEG, GIF or WebP")
    assert kept.names() == []


def test_the_same_image_is_one_file_and_the_outcome_names_it_once(kept: Kept) -> None:
    first, second = kept.see(PNG), kept.see(PNG)
    other = kept.see(PNG + b"1")
    finished = kept.record(events.TurnFinished(status=Status.COMPLETED))
    assert isinstance(finished, events.TurnFinished)
    assert first.path == second.path and finished.images == (first.path, other.path) and len(kept.names()) == 2


def test_a_turn_without_images_says_nothing_of_them(kept: Kept) -> None:
    finished = kept.record(events.TurnFinished(status=Status.COMPLETED))
    assert b"images" not in events.encode(finished) and not (kept.agent_dir / "images").exists()


def test_an_image_with_a_secret_written_in_it_is_not_kept(kept: Kept) -> None:
    text, secret = PLANTED["anthropic-key"]
    event = kept.see(PNG + b"\x00tEXt" + text.encode() + bytes(9))
    assert (event.path, event.unkept) == ("", "a secret is written in it") and kept.names() == []
    assert secret not in event.unkept


def test_too_large_images_and_too_many_of_a_turn_are_not_kept(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_IMAGE_BYTES", 1000)
    monkeypatch.setattr(images, "MAX_TURN_BYTES", 2000)
    assert kept.see(PNG + bytes(200)).path == ""
    assert kept.see(PNG).path and kept.see(PNG + b"1").path
    assert kept.see(PNG + b"2").unkept.startswith("the turn's images") and len(kept.names()) == 2


def test_content_that_is_no_base64_is_reported(kept: Kept) -> None:
    event = kept.record(ImageSeen(path="data:image/png;base64,no base64"))
    assert isinstance(event, ImageSeen) and (event.path, event.unkept) == ("", "its content is damaged")


def test_no_link_is_followed(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    kept.agent_dir.mkdir()
    (kept.agent_dir / "images").symlink_to(tmp_path / "elsewhere")
    event = kept.see(PNG)
    assert event.path == "" and "can't open" in event.unkept and files.names(tmp_path / "elsewhere") == []


def test_on_a_full_disk_the_turn_goes_on_without_the_file(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_all", full)
    event = kept.see(PNG)
    assert event.path == "" and "No space left on device" in event.unkept
    assert kept.events == [event] and kept.names() == []
