"""Installs acpx, and the Node that it needs, into a cache outside the tree; pinned by bench/package-lock.json.

The cache is `$BEAM_BENCH_CACHE`, else `$XDG_CACHE_HOME/beam-bench`, else `~/.cache/beam-bench`; in it one directory a
version of the lock file. Installed once, whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LOCKED = ("package.json", "package-lock.json")


def cache() -> Path:
    """Where this version of the lock file is, or would be, installed."""
    named = os.environ.get("BEAM_BENCH_CACHE")
    root = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beam-bench"
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in LOCKED)).hexdigest()[:16]
    return root / digest


def acpx() -> tuple[str, ...] | None:
    """The command that runs acpx, installed now if it is not; None, said on stderr, where that can't be done."""
    target = cache()
    if not (target / "installed").exists():
        try:
            _install(target)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.stderr.write(f"acpx can't be installed here, its rows are left out: {error}\n")
            return None
    modules = target / "node_modules"
    return str(modules / "node" / "bin" / "node"), str(modules / "acpx" / "dist" / "cli.js")


def _install(target: Path) -> None:
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        for name in LOCKED:
            shutil.copy(HERE / name, partial)
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        subprocess.run(["npm", "ci", *options], cwd=partial, check=True, stdout=sys.stderr)
        # The one install script that is needed: it fetches Node for this platform.
        node = partial / "node_modules" / "node"
        subprocess.run(["node", "installArchSpecificPackage.js"], cwd=node, check=True, stdout=sys.stderr)
        (partial / "installed").touch()
        try:
            partial.rename(target)
        except OSError:
            if not (target / "installed").exists():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
