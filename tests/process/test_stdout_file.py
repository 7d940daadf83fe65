from __future__ import annotations

import asyncio
import gc
import os
import stat
from pathlib import Path

import pytest

from beam.base.errors import DiskError
from beam.process.stdout_file import READ_BYTES, StdoutFile


async def followed(folder: Path, seen: list[bytes], *, notified: bool = True) -> StdoutFile:
    return StdoutFile(asyncio.get_running_loop(), folder, seen.append, lambda: seen.append(b"<end>"), notified=notified)


@pytest.mark.parametrize("notified", [True, False], ids=["by the kernel", "by polling"])
def test_what_is_written_is_delivered_while_the_file_is_open(notified: bool, tmp_path: Path) -> None:
    async def main() -> list[bytes]:
        seen: list[bytes] = []
        arrived = asyncio.Event()

        def on_data(data: bytes) -> None:
            seen.append(data)
            arrived.set()

        file = StdoutFile(
            asyncio.get_running_loop(), tmp_path, on_data, lambda: seen.append(b"<end>"), notified=notified
        )
        for word in (b"one", b"two"):
            os.write(file.sink, word)
            await asyncio.wait_for(arrived.wait(), 5)
            arrived.clear()
        file.close_sink()
        file.finish()
        await file.closed
        return seen

    assert asyncio.run(main()) == [b"one", b"two", b"<end>"]


@pytest.mark.slow
def test_all_that_was_written_before_the_end_is_delivered_in_pieces_after_it(tmp_path: Path) -> None:
    async def main() -> list[bytes]:
        seen: list[bytes] = []
        file = await followed(tmp_path, seen)
        os.write(file.sink, b"x" * (2 * READ_BYTES + 1))
        file.close_sink()
        file.finish()
        await file.closed
        return seen

    assert [len(data) for data in asyncio.run(main())] == [READ_BYTES, READ_BYTES, 1, len("<end>")]


def test_writers_that_share_the_file_do_not_overwrite_each_other(tmp_path: Path) -> None:
    async def main() -> list[bytes]:
        seen: list[bytes] = []
        file = await followed(tmp_path, seen)
        again = os.open(f"/proc/self/fd/{file.sink}", os.O_WRONLY | os.O_APPEND)
        for fd, word in ((file.sink, b"a"), (again, b"b"), (file.sink, b"c")):
            os.write(fd, word)
        os.close(again)
        file.close_sink()
        file.finish()
        await file.closed
        return seen

    assert b"".join(asyncio.run(main())) == b"abc<end>"


def test_the_file_is_private_and_has_no_name(tmp_path: Path) -> None:
    async def main() -> None:
        file = await followed(tmp_path, [])
        found = os.fstat(file.sink)
        assert (stat.S_IMODE(found.st_mode), found.st_nlink, list(tmp_path.iterdir())) == (0o600, 0, [])
        file.close_sink()
        file.close()

    asyncio.run(main())


@pytest.mark.slow
def test_after_its_close_nothing_is_delivered_and_no_descriptor_is_left(tmp_path: Path) -> None:
    async def main() -> list[bytes]:
        gc.collect()  # what earlier tests left open
        before = len(list(Path("/proc/self/fd").iterdir()))
        seen: list[bytes] = []
        file = await followed(tmp_path, seen)
        os.write(file.sink, b"late")
        file.close_sink()
        file.close()
        file.finish()
        await file.closed
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        return seen

    assert asyncio.run(main()) == [b"<end>"]


def test_a_planned_read_is_given_up_when_the_file_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        file = await followed(tmp_path, [], notified=False)
        file.close_sink()
        file._schedule_read(3600)
        planned = file._next
        file.close()
        assert planned is not None and planned.cancelled()

    asyncio.run(main())


def test_a_file_that_cannot_be_read_any_more_is_reported_and_does_not_hang(tmp_path: Path) -> None:
    async def main() -> None:
        file = await followed(tmp_path, [])
        os.write(file.sink, b"x")
        file.close_sink()
        file.finish()
        os.close(file._source)
        with pytest.raises(DiskError, match="can't read"):
            await file.closed
        file.close()

    asyncio.run(main())


def test_a_directory_that_cannot_hold_it_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "stdout").touch()
    with pytest.raises(DiskError, match="stdout"):
        asyncio.run(followed(tmp_path, []))
