"""Sending and waiting in one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from beam.api import Beam
from tests.support.context import Root


def test_who_is_cancelled_before_anything_was_put_puts_nothing(tmp_path: Path) -> None:
    root = Root(tmp_path)
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)

    async def inside() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await beam.send.aio("box", "hi")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(inside())
    assert beam.queue() == []
