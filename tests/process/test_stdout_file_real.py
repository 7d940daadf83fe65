"""The agent that the file for stdout is there for: it ends with what a full pipe does not take unwritten."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from beam.process import spawn, tree
from beam.testing.fake_model import FakeModel
from tests.support.repository import make_repository

pytestmark = pytest.mark.real
PROMPT = "0123456789abcde " * 50_000


def test_a_long_answer_of_claude_is_whole_though_nobody_read_until_claude_was_gone(
    claude: Path, tmp_path: Path
) -> None:
    lines: list[bytes] = []
    folder = tmp_path / "folder"
    folder.mkdir()
    make_repository(folder, tmp_path)

    async def main(env: dict[str, str]) -> spawn.ProcessEnd:
        child = await spawn.start(
            [str(claude), "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"],
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **env},
            cwd=str(folder),
            turn_key="longanswer",
            on_line=lines.append,
            stdin=True,
            stdout_in=tmp_path,
        )
        child.go()
        await child.feed(PROMPT.encode())
        while tree.start_ticks(child.pid):
            time.sleep(0.05)  # the event loop is busy
        return await child.wait()

    with FakeModel() as model:
        ended = asyncio.run(main(dict(model.env("claude"))))
    result = json.loads(lines[-1])
    assert (ended.code, result["type"], result["is_error"]) == (0, "result", False)
    assert PROMPT.strip() in result["result"]
