"""`python -m bench [--only NAME …] [--quick]`: the speeds that beam holds, measured here.

It says what is over its limit and ends well; only a row that breaks makes it fail.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from bench import (
    install,
    rows_agents,
    rows_board,
    rows_broker,
    rows_control,
    rows_decode,
    rows_dialogue,
    rows_mailbox,
    rows_process,
    rows_proxy,
    rows_read,
    rows_run,
    rows_start,
    rows_store,
    rows_terminal,
    rows_watch,
)
from bench.measure import Bench, Figure

# One function a row; its name is what `--only` takes, its docstring what `--list` says.
ROWS: tuple[Callable[[Bench], list[Figure]], ...] = (
    rows_start.version,
    rows_start.no_wait,
    rows_start.cold_send,
    rows_process.guard_cost,
    rows_process.confined,
    rows_process.stdout_file,
    rows_store.put,
    rows_store.writers,
    rows_store.append,
    rows_broker.dispatch,
    rows_broker.many_agents,
    rows_broker.idle_broker,
    rows_control.control_effect,
    rows_dialogue.frames,
    rows_dialogue.warm_share,
    rows_dialogue.warm_agents,
    rows_mailbox.waiting,
    rows_read.decode_fold,
    rows_read.million,
    rows_read.claude_output,
    rows_read.watch,
    rows_run.scenario_turns,
    rows_run.scenario_plan,
    rows_run.beside_promptfoo,
    rows_watch.teams,
    rows_watch.foreign,
    rows_watch.teams_big,
    rows_board.board,
    rows_terminal.screen,
    rows_terminal.end_noticed,
    rows_decode.decode,
    rows_proxy.proxy_first_byte,
    rows_proxy.proxy_replay,
    rows_proxy.proxy_recording,
    rows_proxy.proxy_beside_a_turn,
    *rows_agents.OVER_CLIS,
)
_WITH_ACPX = {"version", "no_wait", "cold_send"}


def main(argv: list[str]) -> int:
    """The exit code: 0 unless a row broke."""
    names = [row.__name__ for row in ROWS]
    parser = argparse.ArgumentParser(prog="python -m bench", description="measure, as ratios in one run")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="a fifth of the samples, a tenth of the large agent")
    parser.add_argument("--no-acpx", action="store_true", help="leave acpx out")
    parser.add_argument("--promptfoo", action="store_true", help="measure promptfoo too (it installs half a gigabyte)")
    parser.add_argument(
        "--dir", type=Path, default=Path(tempfile.gettempdir()), help="on whose disk (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    wanted = [row for row in ROWS if not options.only or row.__name__ in options.only]
    needs_acpx = not options.no_acpx and any(row.__name__ in _WITH_ACPX for row in wanted)
    scratch = Path(tempfile.mkdtemp(prefix="beam-bench-", dir=options.dir))
    bench = Bench(scratch, quick=options.quick, acpx=install.acpx() if needs_acpx else None)
    bench.promptfoo = install.promptfoo() if options.promptfoo else None
    system = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    print(f"{system}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {scratch}")
    figures: list[Figure] = []
    broken = []
    try:
        for row in wanted:
            try:
                found = row(bench)
            except Exception:
                traceback.print_exc()
                broken.append(row.__name__)
                continue
            for figure in found:
                print("\n".join(figure.lines()), flush=True)
            figures += found
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"\n{table(figures)}")
    if broken:
        print(f"broken: {', '.join(broken)}")
    return 1 if broken else 0


def table(figures: list[Figure]) -> str:
    """All figures, one a line."""
    rows = [("what", "measured", "limit", "", "this", "over")]
    rows += [
        (each.name, each.shown, each.limit, each.verdict, each.series.what, each.baseline.what if each.baseline else "")
        for each in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
