"""`expect: files_changed` counts each file once, whoever names it and however, and no file that did not change."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.repository import make_repository

pytestmark = pytest.mark.acceptance
AGENT = """#!/bin/sh
# Changes a file, and names it as the words say: FILE NAME KIND.
cat > /dev/null
case $3 in delete) rm -f "$1" ;; claim) ;; *) echo more >> "$1" ;; esac
printf '{"type": "file.changed", "path": "%s", "kind": "%s"}\\n' "$2" "$3"
echo '{"reply": "done"}'
"""
ONE = "{least: 1, most: 1, only: [src/a.py]}"


@pytest.fixture
def place(beam: Cli) -> Cli:
    """A repository with src/a.py, a link to it, a link to its folder, and a link to the whole folder beside it."""
    (beam.project / "src").mkdir()
    (beam.project / "src" / "a.py").write_text("one\n")
    (beam.project / "linked").symlink_to("src")
    (beam.project / "b.py").symlink_to("src/a.py")
    (beam.project / ".gitignore").write_text("*.log\n")
    (beam.project / "old.log").write_text("old\n")
    (beam.base / "beside").symlink_to(beam.project)
    program = beam.base / "agent.sh"
    program.write_text(AGENT)
    program.chmod(0o755)
    make_repository(beam.project, beam.base / "home")
    for words in (["add", "."], ["commit", "-qm", "more"]):
        subprocess.run(["git", *words], cwd=beam.project, env=beam.env, check=True)
    return beam.with_env({"BEAM_TRUST": "1"})


def run(place: Cli, file: str, named: str, kind: str, check: str, *, head: str = "", settings: str = "") -> list[str]:
    """Runs one turn and the check; how each ended, and the files of the turn."""
    words = json.dumps([str(place.base / "agent.sh"), file, named, kind])
    (place.base / "s.yaml").write_text(
        f"beam: 1\n{head}agents: {{own: {{command: {words}, format: jsonl, reply_path: reply{settings}}}}}\n"
        f"steps: [{{send: own, prompt: x, expect: {{files_changed: {check}}}}}]\n"
    )
    done = place("run", str(place.base / "s.yaml"), "--json")
    assert "steps" in done.json, done
    (step,) = done.json["steps"]
    (turn,) = step["turns"]
    return [step["verdict"], step["why"], *turn["files"]]


NAMES: dict[str, Callable[[Cli], str]] = {
    "relative": lambda place: "src/a.py",
    "with dots": lambda place: "./src/../src/a.py",
    "absolute": lambda place: str(place.project / "src" / "a.py"),
    "through a link to the folder": lambda place: str(place.base / "beside" / "src" / "a.py"),
    "through a link in the folder": lambda place: "linked/a.py",
    "by a link to the file": lambda place: str(place.project / "b.py"),
}


@pytest.mark.parametrize("how", NAMES)
def test_a_file_is_counted_once_however_the_agent_names_it(place: Cli, how: str) -> None:
    assert run(place, "src/a.py", NAMES[how](place), "update", ONE) == ["passed", "", "src/a.py"]
    assert run(place, "src/a.py", NAMES[how](place), "update", "2")[0] == "failed"


def test_a_file_of_a_work_tree_is_counted_once(place: Cli) -> None:
    assert run(place, "src/a.py", "linked/a.py", "update", ONE, head="worktree: true\n") == ["passed", "", "src/a.py"]
    program = place.base / "agent.sh"
    program.write_text(AGENT.replace('"$2"', '"$PWD/$2"'))
    assert run(place, "src/a.py", "src/a.py", "update", ONE, head="worktree: true\n") == ["passed", "", "src/a.py"]


@pytest.mark.parametrize("head", ["", "worktree: true\n"])
def test_a_file_of_an_agent_that_works_in_a_folder_of_the_repository_is_counted_once(place: Cli, head: str) -> None:
    assert run(place, "a.py", "a.py", "update", ONE, head=head, settings=", cwd: src") == ["passed", "", "a.py"]


def test_a_change_that_is_only_told_is_none(place: Cli) -> None:
    for named in ("src/a.py", "src/new.py", str(place.project / "src" / "a.py")):
        assert run(place, "src/a.py", named, "claim", "1")[:2] == ["failed", "files_changed: 1: no file was changed"]


def test_what_git_does_not_look_at_counts_where_the_agent_names_it(place: Cli) -> None:
    outside = Path(place.base) / "outside.txt"
    for file in ("new.log", str(outside)):
        assert run(place, file, file, "update", "{least: 1, most: 1}")[0] == "passed"
        assert run(place, file, file, "update", "{only: [src]}")[1].endswith(f"{file} was changed, too")
    assert run(place, "old.log", "old.log", "delete", "{never: ['*.log']}")[1].endswith("old.log was changed")
