"""Installs the pinned agent CLIs into a cache outside the tree: `python -m tests.real.install`.

The cache is `$BEAM_AGENTS_CACHE`, else `$XDG_CACHE_HOME/beam-agents`, else `~/.cache/beam-agents`; in it one directory
a version of the lock files. Installed once, whole or not at all. Without npm it says so, and ends well unless
`BEAM_REQUIRE_REAL_AGENTS` is set. No package's install scripts run but those that are needed, which are named below.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LOCKED = ("package.json", "package-lock.json", "requirements.txt")
SCRIPTS = {  # they put the native binary of this platform in place
    "@anthropic-ai/claude-code": "install.cjs",
    "opencode-ai": "postinstall.mjs",
}
AIDER_PYTHON = ((3, 10), (3, 13))  # from, and the first that is too new
WRAPPER = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/../../aider/bin/python" -m aider "$@"
"""


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
        # Not `npm ci`, which wants every platform's native package in the lock file: a registry may not have them all.
        subprocess.run(
            ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=partial,
            check=True,
            stdout=sys.stderr,
        )
        for package, script in SCRIPTS.items():
            subprocess.run(["node", script], cwd=partial / "node_modules" / package, check=True, stdout=sys.stderr)
        _install_aider(partial)
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


def _install_aider(target: Path) -> None:
    """aider in a virtual environment of its own, with a command beside the others' that works once it is moved."""
    if not AIDER_PYTHON[0] <= sys.version_info[:2] < AIDER_PYTHON[1]:
        sys.stderr.write(f"aider does not run on Python {sys.version_info[0]}.{sys.version_info[1]}: left out\n")
        return
    subprocess.run([sys.executable, "-m", "venv", target / "aider"], check=True, stdout=sys.stderr)
    pip = [target / "aider" / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", target / "requirements.txt"], check=True, stdout=sys.stderr)
    command = target / "node_modules" / ".bin" / "aider"
    command.write_text(WRAPPER)
    command.chmod(0o755)


if __name__ == "__main__":
    raise SystemExit(main())
