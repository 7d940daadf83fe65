"""How exactly each real CLI is replayed: `python -m tests.proxy.exactness [CLI …]`.

Each does a task of ten model calls with tools that change files, once recorded from the scripted model and once
replayed, in another folder and another HOME, as another day's CI would. With `--write` the figures go into
beam/proxy/exactness.json, of which docs/proxy.md has its table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from beam.agents import registry
from beam.agents.masks import masks_of
from beam.proxy.options import ProxyCounts, ProxyOptions
from beam.proxy.served import ServedRequest
from beam.proxy.serving import Proxy
from beam.testing.fake_model import FakeModel
from beam.testing.fake_model.server import model_env
from tests.conformance.adapters import ADAPTERS, pinned
from tests.real.install import bin_directories
from tests.support.cli import Cli
from tests.support.repository import make_repository

RESULTS = Path(__file__).parents[2] / "beam" / "proxy" / "exactness.json"
CALLS = 10
TIMEOUT = 300
SCRIPT = {  # for a CLI that has no tools, but takes files out of the answer; the others' prompts say what is to be done
    "rules": [{"match": f"make file number {n}", "text": f"made-{n}.txt\n```\nfile {n}\n```\n"} for n in range(CALLS)],
    "directives": True,
}


def task(name: str, project: Path) -> str:
    """The prompt, which has the scripted model use the CLI's tools: it writes files and runs commands by turns."""
    data = ADAPTERS[name]
    steps = []
    for number in range(CALLS - 1):
        if number % 2 and data.shell is not None:
            command = f"echo step {number} >> log.txt; wc -l log.txt"
            steps.append(data.shell.prompt(command=command))
        else:
            path = f"made-{number}.txt" if name == "codex" else str(project / f"made-{number}.txt")
            steps.append(data.write.prompt(path=path, text=f"file {number}"))
    return " !then ".join([*steps, "!say all is done"])


def place(directory: Path, name: str, url: str) -> Cli:
    """A scratch project and HOME, in which the CLI asks the model at `url`."""
    directory.mkdir()
    cli = Cli(directory)
    home = directory / "home"
    home.mkdir(exist_ok=True)
    make_repository(cli.project, home)
    path = os.pathsep.join([*map(str, bin_directories()), os.environ["PATH"]])
    env = {"PATH": path, "HOME": str(home), **ADAPTERS[name].env, **model_env(name, url, home)}
    return cli.with_env(env)


def run(
    name: str, directory: Path, options: ProxyOptions
) -> tuple[ProxyCounts, list[ServedRequest], dict[str, str], Any]:
    """Run the task once; returns what the proxy counted, its calls, the files in the project, and the outcome."""
    places = {"cwd": str(directory / "project"), "home": str(directory / "home"), "tmp": str(directory)}
    served: list[ServedRequest] = []
    kept = {**{field: getattr(options, field) for field in options.__struct_fields__}, "places": places}
    with Proxy(ProxyOptions(**{**kept, "masks": masks_of(name), "agent": name}), served=served.append) as proxy:
        cli = place(directory, name, proxy.url)
        can = registry.adapter(name).card.faces["exec"]
        rights = ("--access", "full") if "full" in can.access else ()
        has_tools = name != "aider"
        texts = [task(name, cli.project)] if has_tools else [f"please make file number {n}" for n in range(CALLS)]
        for text in texts:
            done = cli("send", name, "--via", "exec", "--json", *rights, stdin=text, timeout=TIMEOUT)
            if done.code:
                break
    files = {
        str(path.relative_to(cli.project)): path.read_text(errors="replace")
        for path in sorted(cli.project.glob("*.txt"))
    }
    return proxy.counts, served, files, done


def measure(name: str, *, verbose: bool = False) -> dict[str, Any]:
    """Record and replay one CLI, and return the figures."""
    base = Path(tempfile.mkdtemp(prefix="beam-exact-"))
    try:
        began = time.monotonic()
        with FakeModel(SCRIPT) as model:
            options = ProxyOptions(upstream=model.url, record=str(base / "recording"))
            first, _, files, done = run(name, base / "one", options)
        recorded = time.monotonic() - began
        if done.code:
            return {
                "error": f"recording ended with {done.code}: {done.out[-300:]}{done.err[-300:]}",
                "calls": first.calls,
            }
        second, served, again, ended = run(name, base / "two", ProxyOptions(replay=str(base / "recording")))
        firsts = [
            f"{call.step} {call.number}→{call.nearest}: {each.path}: {each.recorded!r} ≠ {each.got!r}"
            for call in served
            if call.kind == "ask" and call.step != "exact"
            for each in call.differences[: 5 if verbose else 1]
        ]
        size = sum(path.stat().st_size for path in (base / "recording").rglob("*") if path.is_file())
        return {
            "calls": first.calls,
            "exact": second.exact,
            "minor": second.minor,
            "major": second.major,
            "unmatched": second.unmatched,
            "same_files": files == again and bool(files),
            "files": len(files),
            "exit_code": ended.code,
            "bytes": size,
            "seconds": round(recorded, 1),
            "first": firsts[: 10 if verbose else 1],
        }
    finally:
        if not os.environ.get("KEEP"):
            shutil.rmtree(base, ignore_errors=True)
        else:
            print(base)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cli", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    versions = pinned()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in asked.cli or ADAPTERS:
        found = measure(name, verbose=asked.verbose)
        print(name, json.dumps(found, indent=1 if asked.verbose else None, ensure_ascii=False), flush=True)
        results[name] = {"version": versions[name], **found}
        if asked.write:
            ordered = {name: results[name] for name in ADAPTERS if name in results}
            RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
