"""Installs acpx and promptfoo, and the Node that they need, into a cache outside the tree.

acpx is pinned by bench/package-lock.json; promptfoo, which is half a gigabyte with all it needs, by its version alone.
The cache is `$BEAM_BENCH_CACHE`, else `$XDG_CACHE_HOME/beam-bench`, else `~/.cache/beam-bench`; in it one directory a
version of these files. Installed once, whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
LOCKED = ("package.json", "package-lock.json")


def cache(names: Sequence[str] = LOCKED) -> Path:
    """Where this version of these files is, or would be, installed."""
    named = os.environ.get("BEAM_BENCH_CACHE")
    root = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beam-bench"
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in names)).hexdigest()[:16]
    return root / digest


def acpx() -> tuple[str, ...] | None:
    """The command that runs acpx, installed now if it is not; None, said on stderr, where that can't be done."""
    return _command("acpx", LOCKED, "ci")


def promptfoo() -> tuple[str, ...] | None:
    """The command that runs promptfoo, as `acpx` does."""
    return _command("promptfoo", ("promptfoo.json",), "install", "--omit=optional", "--no-package-lock")


def _command(name: str, files: Sequence[str], *words: str) -> tuple[str, ...] | None:
    target = cache(files)
    if not (target / "installed").exists():
        try:
            _install(target, files, words)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.stderr.write(f"{name} can't be installed here, its rows are left out: {error}\n")
            return None
    modules = target / "node_modules"
    return str(modules / "node" / "bin" / "node"), str((modules / ".bin" / name).resolve())


def _install(target: Path, files: Sequence[str], words: Sequence[str]) -> None:
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        for name in files:
            shutil.copy(HERE / name, partial / (name if name in LOCKED else "package.json"))
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        subprocess.run(["npm", *words, *options], cwd=partial, check=True, stdout=sys.stderr)
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
