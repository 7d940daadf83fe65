"""Installs the pinned agent CLIs into a cache outside the tree: `python -m tests.real.install`.

The cache is `$BEAM_AGENTS_CACHE`, else `$XDG_CACHE_HOME/beam-agents`, else `~/.cache/beam-agents`; in it one directory
a version of the lock file. Installed once, whole or not at all. Without npm it says so, and ends well unless
`BEAM_REQUIRE_REAL_AGENTS` is set.
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
    named = os.environ.get("BEAM_AGENTS_CACHE")
    root = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beam-agents"
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in LOCKED)).hexdigest()[:16]
    return root / digest


def bin_directory() -> Path | None:
    """The directory that holds the CLIs' commands; None if they are not installed."""
    directory = cache() / "node_modules" / ".bin"
    return directory if (cache() / "installed").exists() else None


def main() -> int:
    """Installs them if they are not; the exit code."""
    if bin_directory() is not None:
        return 0
    if shutil.which("npm") is None:
        required = bool(os.environ.get("BEAM_REQUIRE_REAL_AGENTS"))
        sys.stderr.write(f"npm is not here: the tests with real agent CLIs {'fail' if required else 'are left out'}\n")
        return 1 if required else 0
    target = cache()
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        for name in LOCKED:
            shutil.copy(HERE / name, partial)
        subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=partial,
            check=True,
            stdout=sys.stderr,
        )
        # The one install script that is needed: it puts the native binary of this platform in place.
        package = partial / "node_modules" / "@anthropic-ai" / "claude-code"
        subprocess.run(["node", "install.cjs"], cwd=package, check=True, stdout=sys.stderr)
        (partial / "installed").touch()
        try:
            partial.rename(target)
        except OSError:
            if bin_directory() is None:
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sys.stderr.write(f"the pinned agent CLIs are in {target}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
