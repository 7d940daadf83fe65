"""A stand-in for beam: runs an agent under a guard and waits. `python holder.py holder TURN_KEY argv...`"""

from __future__ import annotations

import asyncio
import os
import sys

from beam.process import spawn, tree


async def main(turn_key: str, argv: list[str]) -> None:
    child = await spawn.start(
        argv, env=dict(os.environ), cwd="/", turn_key=turn_key, on_line=lambda line: print(line.decode(), flush=True)
    )
    print(f"pids {child.guard_pid} {child.guard_start_ticks} {child.pid} {child.start_ticks}", flush=True)
    child.go()
    print(await child.wait(), flush=True)


if __name__ == "__main__":
    tree.become_subreaper()
    asyncio.run(main(sys.argv[2], sys.argv[3:]))
