"""`python -m bench.mutants [--lines N] [--seed S] [PACKAGE…]`: which mistakes in `beam/` its quick tests do not notice.

It takes lines at random, makes one small mistake in each, and runs the tests of that package's own directory: first the
unit tests that run the line, the quickest before the others, then the longer ones. Each mistake that no test notices is
shown: a line that needs a test, or one where the mistake changes nothing.

It works in a copy, in namespaces of its own: a mistake there can neither write to other files nor signal others.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench.mutations import Mutation, mutations

_HERE = Path(__file__).parent.parent
_COPIED = ("beam", "bench", "tests", "docs", "examples", "pyproject.toml", "README.md", "CHANGELOG.md", "Makefile")
_LONGER = "(slow or acceptance) and not real and not soak and not conformance"
_ISOLATED = (
    'mount --make-rprivate / && mount --bind "$0" "$0" && mount --bind /dev/shm /dev/shm && '
    'mount -o remount,ro,bind / && cd "$0" && exec "$@"'
)

Verdict = Literal["killed", "survived"]


@dataclass(frozen=True)
class Mutant:
    """One mistake in one file of `beam/`."""

    file: str
    mutation: Mutation

    @property
    def package(self) -> str:
        """The directory in `beam/` and in `tests/`; empty for the files beside them."""
        return self.file.partition("/")[0] if "/" in self.file else ""

    def lines(self, root: Path) -> Iterator[str]:
        """What is there and what is put there, for people."""
        source = (root / "beam" / self.file).read_bytes()
        at = source.rfind(b"\n", 0, self.mutation.start) + 1
        until = source.find(b"\n", self.mutation.end)
        rest = self.mutation.text.encode() + source[self.mutation.end : until]
        yield f"beam/{self.file}:{self.mutation.line}: {self.mutation.what}"
        yield from (f"    - {each.strip()}" for each in source[at:until].decode().split("\n"))
        yield from (f"    + {each.strip()}" for each in (source[at : self.mutation.start] + rest).decode().split("\n"))


def sample(beam: Path, packages: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """So many lines that can be mutated, one mutation of each."""
    lines: dict[tuple[str, int], list[Mutation]] = defaultdict(list)
    for path in sorted(beam.rglob("*.py")):
        file = str(path.relative_to(beam))
        if packages and file.partition("/")[0] not in packages:
            continue
        for each in mutations(path.read_bytes()):
            lines[file, each.line].append(each)
    chance = random.Random(seed)
    taken = chance.sample(sorted(lines), min(count, len(lines)))
    return sorted((Mutant(at[0], chance.choice(lines[at])) for at in taken), key=lambda it: (it.file, it.mutation.line))


class Tests:
    """The tests of each package: which of them run a line."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        self._traced: dict[str, dict[str, Any]] = {}

    def unit(self, mutant: Mutant) -> tuple[list[str], float]:
        """The unit tests that run the mutated line, quickest first, and what they take together without a mutation.

        What runs as a module is imported counts for all tests that run a line of that module, then for all others.
        """
        traced = self._of(mutant.package)
        span = range(mutant.mutation.first, mutant.mutation.last + 1)

        def runs(name: str) -> bool:
            return not set(traced[name]["lines"].get(mutant.file, ())).isdisjoint(span)

        names = sorted((name for name in traced if name), key=lambda name: traced[name]["seconds"])
        wanted = [name for name in names if runs(name)]
        if not wanted or runs(""):
            wanted += sorted(set(names) - set(wanted), key=lambda name: mutant.file not in traced[name]["lines"])
        return wanted, sum(traced[name]["seconds"] for name in wanted)

    def longer(self, mutant: Mutant) -> list[str]:
        """The files with longer tests, those first that name the module."""
        module = re.compile(rf"\b{re.escape(Path(mutant.file).stem)}\b")
        files = sorted(path for path in _directory(self._copy, mutant.package))
        return [str(each) for each in sorted(files, key=lambda path: not module.search(path.read_text()))]

    def _of(self, package: str) -> dict[str, Any]:
        if package not in self._traced:
            target = self._copy / "traced.json"
            target.unlink(missing_ok=True)
            files = [str(path) for path in _directory(self._copy, package)]
            if run(self._copy, ["--unit", *files], {"BEAM_TRACE": str(target)}, limit=600) not in {0, 1}:
                raise SystemExit(f"the tests of {package or 'beam'} don't run:\n{(self._copy / 'said').read_text()}")
            self._traced[package] = json.loads(target.read_text())
        return self._traced[package]


def _directory(copy: Path, package: str) -> list[Path]:
    return sorted((copy / "tests" / package).rglob("test_*.py")) if package else [copy / "tests/test_front_door.py"]


def verdict(copy: Path, tests: Tests, mutant: Mutant, *, longer: float) -> tuple[Verdict, str]:
    """Whether a test fails, and at which floor. The file is as before afterwards."""
    unit, seconds = tests.unit(mutant)
    path = copy / "beam" / mutant.file
    source = path.read_bytes()
    path.write_bytes(mutant.mutation.applied(source))
    try:
        files = list(dict.fromkeys(name.partition("::")[0] for name in unit))
        if unit and _fails(copy, ["--unit", *files], unit, limit=30 + 3 * seconds, over="killed"):
            return "killed", "unit"
        if longer and _fails(copy, ["-m", _LONGER, *tests.longer(mutant)], [], limit=longer, over="survived"):
            return "killed", "longer"
        return "survived", f"{len(unit)} unit tests"
    finally:
        path.write_bytes(source)


def _fails(copy: Path, arguments: list[str], wanted: list[str], *, limit: float, over: Verdict) -> bool:
    chosen = copy / "wanted.json"
    chosen.write_text(json.dumps(wanted))
    code = run(copy, ["-x", *arguments], {"BEAM_WANTED": str(chosen)} if wanted else {}, limit=limit)
    return over == "killed" if code is None else code not in {0, 5}


def run(copy: Path, arguments: list[str], env: dict[str, str], *, limit: float) -> int | None:
    """The exit code of pytest, run alone with the copy; nothing if the limit was reached."""
    (copy / "tmp").mkdir(exist_ok=True)
    unshare = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid():
        unshare += ["--user", "--map-root-user"]
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "bench.mutants_plugin", *arguments]
    child = subprocess.Popen(
        [*unshare, "sh", "-c", _ISOLATED, str(copy), *argv],
        cwd=copy,
        env={
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(copy / "tmp"),
            "TMPDIR": str(copy / "tmp"),
            "PYTHONPATH": str(copy),
            "PYTHONDONTWRITEBYTECODE": "1",
            **env,
        },
        stdin=subprocess.DEVNULL,
        stdout=(copy / "said").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return child.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        shutil.rmtree(copy / "tmp", ignore_errors=True)


def main(argv: list[str]) -> int:
    """The exit code: 0 also where mistakes survive; they are read one by one."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description="mistakes that no test notices")
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="directories of beam/ (default: all)")
    parser.add_argument("--lines", type=int, default=100, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which (default: %(default)s)")
    parser.add_argument("--longer", type=float, default=120, metavar="SECONDS", help="for the longer tests; 0: none")
    parser.add_argument("--only", metavar="FILE:LINE", action="append", help="of the sample only these")
    options = parser.parse_args(argv)
    mutants = sample(_HERE / "beam", options.packages, options.lines, options.seed)
    if options.only:
        mutants = [each for each in mutants if f"beam/{each.file}:{each.mutation.line}" in options.only]
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    whole = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copy = Path(scratch)
        for name in _COPIED:
            source = _HERE / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        tests = Tests(copy)
        for mutant in mutants:
            began = time.monotonic()
            result, why = verdict(copy, tests, mutant, longer=options.longer)
            counted[mutant.package][result] += 1
            whole[why if result == "killed" else "survived"] += 1
            at = f"beam/{mutant.file}:{mutant.mutation.line}"
            print(f"{result} ({why}, {time.monotonic() - began:.0f} s) {at}", flush=True)
            if result == "survived":
                print("\n".join(mutant.lines(_HERE)), flush=True)
    for package, them in sorted(counted.items()):
        print(f"{package or 'beam':15} {them['killed']} of {them.total()}")
    killed = whole.total() - whole["survived"]
    print(
        f"seed {options.seed}: {killed} of {whole.total()} killed "
        f"({killed / max(1, whole.total()):.0%}), {whole['unit']} of them by unit tests"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
