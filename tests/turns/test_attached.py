"""Attached files are read for an agent that is sent their content: plain files only, and not without limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam.agents.base import Turn
from beam.base.errors import UnsupportedError
from beam.turns import attached
from beam.turns.attached import image_media_type, with_contents


def turn(*paths: Path) -> Turn:
    return Turn(text="look", message_id="m", agent="x", attach=tuple(str(path) for path in paths))


def test_a_file_is_what_its_first_bytes_say_and_not_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\x89PNG\r\n\x1a\nrest")
    (tmp_path / "b.png").write_text("words")
    first, second = with_contents(turn(tmp_path / "a.txt", tmp_path / "b.png"), follow=True).contents
    assert (first.image, first.data[:4], second.image, second.data) == ("image/png", b"\x89PNG", "", b"words")


@pytest.mark.parametrize(
    ("data", "media"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", ""),
        (b"", ""),
    ],
)
def test_the_image_formats_that_models_take_are_known(data: bytes, media: str) -> None:
    assert image_media_type(data) == media


def test_what_an_agent_attached_is_not_read_through_a_link_on_its_way(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "last").symlink_to(tmp_path / "real" / "a")
    for path in (tmp_path / "link" / "a", tmp_path / "last"):
        assert with_contents(turn(path), follow=True).contents[0].data == b"secret"
        with pytest.raises(UnsupportedError, match="can't attach"):
            with_contents(turn(path), follow=False)


def test_what_is_no_plain_file_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none"):
        with pytest.raises(UnsupportedError, match="can't attach"):
            with_contents(turn(path), follow=True)
    (tmp_path / "big").write_bytes(bytes(100))
    monkeypatch.setattr(attached, "MAX_TOTAL_BYTES", 150)
    with pytest.raises(UnsupportedError, match="larger than"):
        with_contents(turn(tmp_path / "big", tmp_path / "big"), follow=True)
    monkeypatch.setattr(attached, "MAX_FILE_BYTES", 50)
    with pytest.raises(UnsupportedError, match="can't attach"):
        with_contents(turn(tmp_path / "big"), follow=True)
