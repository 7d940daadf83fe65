"""Compares the newest version of each agent CLI with the pinned one: `python -m tests.real.newest [CLI[@VERSION] …]`.

A version that is not the pinned one is installed beside it, in the cache; where that fails it says why. Then both print
their help and generate their schemas, and the new one is put through three conformance cells. All of it happens in a
scratch HOME, against the scripted model. Lists what changed; nothing in the tree is written.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conformance.adapters import ADAPTERS, pinned
from tests.real import drift
from tests.real.install import NEWER_PYTHON, bin_directories, cache, newer_bin, put_in_place
from tests.support.cli import Cli as Place

CELLS = ("conversation.py::test_first_turn", "conversation.py::test_resume", "tools.py::test_denied_tool")
SECONDS = 120
_PYPI = ("aider", *NEWER_PYTHON)
# Bridges that speak ACP for a CLI: they have no help and no cells; what they answer to `initialize` is their schema.
_BRIDGES = {
    "claude-agent-acp": "@agentclientprotocol/claude-agent-acp",
    "codex-acp": "@agentclientprotocol/codex-acp",
}
_HELP = {  # the words of a CLI's help that beam's adapters depend on; all others: `--help`
    "codex": (("--help",), ("exec", "--help"), ("exec", "resume", "--help")),
    "opencode": (("--help",), ("run", "--help")),
    "kilo": (("--help",), ("run", "--help")),
}
_PRINTED = {"opencode": ("generate",), "kilo": ("generate",)}  # it prints its schema
_WRITTEN = {"codex": ("app-server", "generate-json-schema", "--out")}  # it writes its schemas into a folder
_INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}\n'


class NotHereError(Exception):
    """That version can't be had or run here; the text says why."""


def main(asked: Sequence[str]) -> int:
    """Tells of these CLIs, or of all; the exit code says only whether they could be asked for."""
    if not bin_directories():
        sys.stderr.write("the pinned agent CLIs are not installed: make agents\n")
        return 1
    versions = _pinned()
    words = [word.partition("@") for word in asked or versions]
    if unknown := {name for name, _, _ in words} - versions.keys():
        sys.stderr.write(f"not pinned: {', '.join(sorted(unknown))}\n")
        return 2
    for name, _, version in words:
        try:
            told = _compared(name, versions[name], version or _newest(name))
        except NotHereError as found:
            told = [str(found)]
        except (OSError, subprocess.SubprocessError, ValueError) as found:  # the others are compared all the same
            told = [f"could not be compared: {type(found).__name__}: {found}"]
        print("\n  ".join([f"{name} {versions[name]}: {told[0]}", *told[1:]]), flush=True)
    return 0


def _pinned() -> dict[str, str]:
    packages = json.loads((Path(__file__).parent / "package-lock.json").read_text())["packages"]
    return {**pinned(), **{name: packages[f"node_modules/{package}"]["version"] for name, package in _BRIDGES.items()}}


def _package(name: str) -> str:
    return _BRIDGES.get(name) or ADAPTERS[name].package


def _compared(name: str, now: str, other: str) -> list[str]:
    """What there is to tell of that other version: first in a few words, then each change."""
    if other == now:
        return ["the newest"]
    where = _installed(name, other)
    before = _seen(name, os.pathsep.join(map(str, bin_directories())))
    lines = drift.changes(before, _seen(name, os.pathsep.join(map(str, [where, *bin_directories()]))))
    said = f"{len(lines) or 'no'} changes in the help and schemas of {other}"
    return [said, *lines, *(_cells(name, where) if name in ADAPTERS else [])]


# -- what there is, and how it comes here ------------------------------------------------------------------------------


def _newest(name: str) -> str:
    if name not in _PYPI:
        return _said(["npm", "view", _package(name), "dist-tags.latest"], "the registry did not tell")
    line = _said([_python(name), "-m", "pip", "index", "versions", _package(name)], "the index did not tell")
    found = re.match(r"\S+ \((\S+)\)", line)
    if found is None:
        raise NotHereError(f"the index did not tell its newest version: {line[:80]}")
    return found[1]


def _python(name: str) -> str:
    """The interpreter that runs the pinned one."""
    where = newer_bin(name) if name in NEWER_PYTHON else None
    return str((where.parent / "venv" if where is not None else cache() / name) / "bin" / "python")


def _installed(name: str, version: str) -> Path:
    """The directory that holds the command of that version, installed if it was not."""
    target = cache().parent / "drift" / f"{name}-{version}"
    if not (target / "installed").exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        try:
            _install(name, version, target)
        except (NotHereError, subprocess.CalledProcessError) as found:
            shutil.rmtree(target, ignore_errors=True)
            raise NotHereError(str(found)) from found
        (target / "installed").touch()
    return target / "bin"


def _install(name: str, version: str, target: Path) -> None:
    otherwise = f"{version} does not install here"
    if name in _PYPI:
        _said([_python(name), "-m", "venv", str(target / "venv")], otherwise)
        pip = [str(target / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _said([*pip, f"{_package(name)}=={version}"], otherwise)
        (target / "bin").mkdir()
        (target / "bin" / name).symlink_to(target / "venv" / "bin" / name)
    else:
        (target / "package.json").write_text('{"private": true}\n')
        npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        _said([*npm, f"{_package(name)}@{version}"], otherwise, cwd=target)
        put_in_place(_package(name), target)
        (target / "bin").symlink_to(target / "node_modules" / ".bin")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        # A package may come without the native one of this platform.
        env = _env(name, Path(place), os.pathsep.join(map(str, [target / "bin", *bin_directories()])))
        _said([str(target / "bin" / name), "--version"], f"{version} does not run here", env=env)


def _said(argv: Sequence[str], otherwise: str, *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """The first line that it prints. Raises NotHereError where it fails, with its reason."""
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as found:
        raise NotHereError(f"{otherwise}: {found}") from found
    if done.returncode != 0:
        raise NotHereError(f"{otherwise}: {_reason(done.stderr)}")
    return done.stdout.strip().partition("\n")[0]


def _reason(text: str) -> str:
    """The line of an installer's that says why it failed."""
    rows = [row.strip() for row in text.splitlines() if row.strip()]
    telling = [row for row in rows if "No matching" in row or "not compatible" in row]
    return ([*telling, *(row for row in rows if "rror" in row), *rows] or ["it did not say why"])[0][:200]


# -- what a version shows ----------------------------------------------------------------------------------------------


def _env(name: str, place: Path, path: str) -> dict[str, str]:
    more = ADAPTERS[name].env if name in ADAPTERS else {}
    return {**Place(place).env, "PATH": os.pathsep.join([path, os.environ["PATH"]]), "COLUMNS": "200", **more}


def _seen(name: str, path: str) -> drift.Seen:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        env = _env(name, place, path)
        command = shutil.which(name, path=env["PATH"])
        if command is None:
            raise NotHereError("it is not installed")
        if name in _BRIDGES:
            return drift.Seen(schemas={"initialize": _initialized(command, env, place)})
        schemas: dict[str, object] = {}
        if name in _PRINTED:
            schemas[" ".join(_PRINTED[name])] = json.loads(_printed([command, *_PRINTED[name]], env, place))
        if name in _WRITTEN:
            _printed([command, *_WRITTEN[name], str(place / "schemas")], env, place)
            for file in sorted((place / "schemas").rglob("*.json")):
                schemas[str(file.relative_to(place / "schemas"))] = json.loads(file.read_bytes())
        help = {" ".join(words): _printed([command, *words], env, place) for words in _HELP.get(name, (("--help",),))}
        return drift.Seen(help={f"{name} {words}": text for words, text in help.items()}, schemas=schemas)


def _printed(argv: Sequence[str], env: Mapping[str, str], place: Path) -> str:
    """What it prints on stdout, or, where that is nothing, on stderr; without the paths of the scratch place."""
    done = subprocess.run(
        argv, env=env, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
    )
    text = (done.stdout.strip() or done.stderr).decode("utf-8", "replace")
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace(str(place), "/place")


def _initialized(command: str, env: Mapping[str, str], place: Path) -> object:
    """The answer of an ACP bridge to `initialize`. Its stdin stays open until then: else some end without a word."""
    process = subprocess.Popen(
        [command], env=env, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(_INITIALIZE)
        process.stdin.flush()
        said = b""
        while b"\n" not in said and select.select([process.stdout], [], [], SECONDS)[0]:
            piece = os.read(process.stdout.fileno(), 1 << 16)
            if not piece:
                break
            said += piece
    finally:
        process.kill()
        process.communicate()
    if b"\n" not in said:
        raise NotHereError("it did not answer `initialize`")
    answer: Any = json.loads(said.partition(b"\n")[0])
    return answer.get("result", answer)


def _cells(name: str, where: Path) -> list[str]:
    """What three cells came to with the command in that directory."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "cells.xml"
        tests = [f"tests/conformance/test_cells_{cell}[{name}]" for cell in CELLS]
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "-o",
                "junit_family=xunit1",
                f"--junitxml={file}",
                *tests,
            ],
            env={**os.environ, "BEAM_AGENTS_FIRST": str(where), "BEAM_WRITE_CONFORMANCE": ""},
            cwd=Path(__file__).parents[2],
            stdout=subprocess.DEVNULL,
            check=False,
        )
        return drift.of_cells(file.read_text() if file.exists() else "", ran=len(tests))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
