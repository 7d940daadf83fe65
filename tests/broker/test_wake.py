"""What appears in a watched directory wakes, and it is known which directory it was."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from beam.broker.serving.wake import Wake

LONG_S = 20.0


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_a_file_that_appears_wakes_and_names_its_directory(tmp_path: Path) -> None:
    async def story() -> None:
        for name in ("a", "b", "elsewhere"):
            (tmp_path / name).mkdir()
        (tmp_path / "elsewhere" / "file").touch()
        wake = Wake()
        for name in ("a", "b", "gone"):
            wake.watch(tmp_path / name)
        assert wake.can_notify
        (tmp_path / "elsewhere" / "file").rename(tmp_path / "b" / "file")
        async with asyncio.timeout(LONG_S):
            await wake.wait(LONG_S * 2)
        assert wake.take_changed() == {tmp_path / "b"}
        assert wake.take_changed() == set()
        wake.forget(tmp_path / "b")
        (tmp_path / "b" / "other").touch()
        (tmp_path / "a" / "other").touch()
        await wake.wait(LONG_S)
        assert wake.take_changed() == {tmp_path / "a"}
        wake.close()

    asyncio.run(story())


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_a_directory_that_was_removed_and_made_again_can_be_watched_again(tmp_path: Path) -> None:
    async def story() -> None:
        directory = tmp_path / "a"
        directory.mkdir()
        wake = Wake()
        wake.watch(directory)
        directory.rmdir()
        await wake.wait(LONG_S)
        directory.mkdir()
        wake.take_changed()
        wake.watch(directory)
        (directory / "file").touch()
        await wake.wait(LONG_S)
        assert wake.take_changed() == {directory}
        wake.close()

    asyncio.run(story())


def test_who_only_polls_is_woken_by_time_or_by_hand(tmp_path: Path) -> None:
    async def story() -> None:
        wake = Wake(poll_only=True)
        wake.watch(tmp_path)
        assert not wake.can_notify
        await wake.wait(0.001)
        wake.end_wait()
        async with asyncio.timeout(LONG_S):
            await wake.wait(LONG_S * 2)
        assert wake.take_changed() == set()
        wake.close()

    asyncio.run(story())
