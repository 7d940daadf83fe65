"""`python -m beam.testing.conformance NAME [CASE...]`: runs the cases for one adapter's CLI, and prints a line for
each.

The exit code is 0 if each case works or is refused as the card says, and 1 if a case fails. If the cases can't run (an
unknown adapter or case, a CLI that is not installed or can't use the scripted model), the exit code is the error's own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from beam.base.errors import BeamError, NotFoundError, UsageError
from beam.testing.conformance import conversation, failures, outcomes, prompts, stops
from beam.testing.conformance.cells import Cell
from beam.testing.conformance.subject import Subject, scratch_subject

GROUPS = (conversation, prompts, stops, outcomes, failures)
_SHOWN = ("status", "case", "evidence")


def cells(group: ModuleType) -> list[Cell]:
    """Return the cases of one module, in source order. They share one scratch folder."""
    return [value for value in vars(group).values() if isinstance(value, Cell)]


def run(name: str, wanted: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the result of each wanted case (of all cases, if none is wanted): `case`, `title`, `capability`, `status`,
    `evidence`.

    Raises NotFoundError for an unknown case, and the errors of `placed`.
    """
    known = [cell.name for group in GROUPS for cell in cells(group)]
    for case in wanted:
        if case not in known:
            raise NotFoundError(f"there is no case called {case!r}", f"there are: {', '.join(known)}", subject=case)
    for group in GROUPS:
        chosen = [cell for cell in cells(group) if not wanted or cell.name in wanted]
        if not chosen:
            continue
        with (
            tempfile.TemporaryDirectory(prefix="beam-cases-", ignore_cleanup_errors=True) as base,
            scratch_subject(name, Path(base)) as subject,
        ):
            for cell in chosen:
                yield _result(cell, subject)


def _result(cell: Cell, subject: Subject) -> dict[str, str]:
    status: str
    try:
        status, evidence = cell.run(subject)
    except (AssertionError, subprocess.TimeoutExpired, ValueError, LookupError, TypeError, OSError) as error:
        status, evidence = "fails", f"{type(error).__name__}: {error}"
    result = {"case": cell.name, "title": cell.title, "capability": cell.capability}
    return {**result, "status": status, "evidence": " ".join(evidence.split())}


def main(argv: Sequence[str]) -> int:
    """Run the cases that the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m beam.testing.conformance", description="Try an adapter's CLI.")
    parser.add_argument("name", metavar="NAME", help="an adapter, built in or another package's")
    parser.add_argument("case", nargs="*", metavar="CASE", help="only these")
    parser.add_argument("--json", action="store_true", help="print one JSON object a case")
    given = parser.parse_args(argv)
    failed = False
    try:
        if not __debug__:
            raise UsageError("the cases are assertions, which `python -O` leaves out", "run it without -O")
        for result in run(given.name, given.case):
            failed = failed or result["status"] == "fails"
            line = json.dumps(result) if given.json else "\t".join(result[key] for key in _SHOWN)
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    except BeamError as error:
        sys.stderr.write(f"conformance: {error}\n")
        return int(error.exit_code)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
