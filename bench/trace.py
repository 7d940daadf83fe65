"""`python -m bench.trace [--tree DIR] [--calls N] [COMMAND …]`: one message's way through the files of beam.

It runs `beam send echo hi`, or another command, once in a scratch project with the agent `cat`, which was used twice,
and counts what the command's own process does. A call counts if a function of one file of `beam/` calls a function of
another one directly. What runs while a module is imported doesn't count, nor does going on in a coroutine or generator.
`to stdin` is what comes from the entry of `cli` until the prompt is first written into a pipe; `whole` goes on to the
process's end. `--tree` measures another checkout, by its own .venv, with this file.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

HERE = Path(__file__).resolve().parent.parent
PROMPT = "hi, along its way"
_CONFIG = "agents:\n  echo:\n    command: [cat]\n"
_PACKAGE = f"{os.sep}beam{os.sep}"

Function = tuple[str, str, int]  # file, name, line


def main(argv: list[str]) -> int:
    """Trace, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.trace", description="calls from file to file in beam/")
    parser.add_argument("--tree", type=Path, default=HERE, help="a checkout with a .venv (default: this one)")
    parser.add_argument("--calls", type=int, default=0, metavar="N", help="show also the N most frequent calls")
    parser.add_argument("command", nargs="*", default=["send", "echo", PROMPT], help="default: %(default)s")
    options = parser.parse_args(argv)
    tree = options.tree.resolve()
    print(f"beam {' '.join(options.command)}, in {tree}")
    rows: list[tuple[str, ...]] = [("", "calls", "distinct", "file pairs", "functions", "files")]
    for part, found in traced(tree, options.command).items():
        calls = Counter({(tuple(call[0]), tuple(call[1])): count for call, count in found["calls"]})
        pairs = {(caller[0], callee[0]) for caller, callee in calls}
        figures = calls.total(), len(calls), len(pairs), found["functions"], len(found["files"])
        rows.append((part, *map(str, figures)))
        for (caller, callee), count in calls.most_common(options.calls):
            print(f"{part:9} {count:4}  {caller[0]}:{caller[1]} -> {callee[0]}:{callee[1]}")
    for row in rows:
        print("  ".join(cell.rjust(10) for cell in row))
    return 0


def traced(tree: Path, command: list[str]) -> dict[str, dict[str, Any]]:
    """Return what is counted of a command, `to stdin` and `whole`, in a project where the agent worked once."""
    with tempfile.TemporaryDirectory(prefix="beam-trace-") as name:
        scratch = Path(name)
        project, home, out = scratch / "project", scratch / "home", scratch / "out"
        project.mkdir()
        home.mkdir()
        (project / "beam.yaml").write_text(_CONFIG)
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
        env |= {"TMPDIR": str(scratch), "BEAM_TRUST": "1"}
        python = tree / ".venv/bin/python"
        for _ in range(3):  # the first ones make directories, bytecode and what is remembered of beam.yaml
            argv = [str(python), "-P", __file__, "--inside", str(out), *command]
            done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if done.returncode:
                raise SystemExit(f"the command ended with {done.returncode}: {done.stdout}{done.stderr}")
        found: dict[str, dict[str, Any]] = json.loads(out.read_text())
        return found


class Tracer:
    """Counts the calls of this thread."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[CodeType, CodeType]] = Counter()
        self.functions: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if event != "call":
            return
        code, caller = frame.f_code, frame.f_back
        if not _name_in_beam(code.co_filename) or _goes_on(frame) or _is_import(frame):
            return
        self.functions.add(code)
        if caller is None or not _name_in_beam(caller.f_code.co_filename):
            return
        if caller.f_code.co_filename != code.co_filename:
            self.calls[caller.f_code, code] += 1

    def counted(self) -> dict[str, object]:
        """Return the figures up to now, as JSON holds them."""
        calls = [((_function(caller), _function(callee)), count) for (caller, callee), count in self.calls.items()]
        files = sorted({_name_in_beam(code.co_filename) for code in self.functions})
        return {"calls": calls, "functions": len(self.functions), "files": files}


def _goes_on(frame: FrameType) -> bool:
    """Return whether a coroutine or generator goes on: it stands at a RESUME that is not its first."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return at >= 0 and code[at + 1] != 0


def _is_import(frame: FrameType) -> bool:
    """Return whether a module's body is among those that called it."""
    back: FrameType | None = frame
    while back is not None:
        if back.f_code.co_name == "<module>" and _name_in_beam(back.f_code.co_filename):
            return True
        back = back.f_back
    return False


def _function(code: CodeType) -> Function:
    return _name_in_beam(code.co_filename), code.co_qualname, code.co_firstlineno


@cache
def _name_in_beam(path: str) -> str:
    """Return the file's path in the package; "" for any other."""
    before, package, name = path.rpartition(_PACKAGE)
    return name if package and Path(f"{before}{_PACKAGE}__init__.py").is_file() and name != "trace.py" else ""


def inside(out: Path, command: list[str]) -> None:
    """Run the command in this process, and write what it did."""
    from beam.cli import main as cli

    tracer = Tracer()
    parts: dict[str, dict[str, object]] = {}
    write, leave, text = os.write, os._exit, command[-1].encode()

    def noting(fd: int, data: bytes) -> int:
        if "to stdin" not in parts and text in bytes(data) and stat.S_ISFIFO(os.fstat(fd).st_mode):
            sys.setprofile(None)
            parts["to stdin"] = tracer.counted()
            sys.setprofile(tracer)
        return write(fd, data)

    def writing(code: int) -> None:
        sys.setprofile(None)
        parts["whole"] = tracer.counted()
        out.write_text(json.dumps(parts))
        leave(code)

    os.write, os._exit = noting, writing  # type: ignore[assignment]
    sys.argv = ["beam", *command]
    sys.setprofile(tracer)
    cli.main()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(Path(sys.argv[2]), sys.argv[3:])
    sys.exit(main(sys.argv[1:]))
