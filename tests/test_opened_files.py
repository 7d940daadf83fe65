"""One module opens files. What is opened elsewhere is in a list, with its reason."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import beam as package

ROOT = Path(package.__file__).parent
OPENER = "base/files.py"
METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "touch"}
MODULES = {"os", "io", "posix", "codecs", "fileinput", "mmap"}
# What has an `open` that opens no file, or opens it so.
OURS = {"Journal", "TerminalProcess", "cls", "link", "opener", "viewers", "webbrowser"}

# (module, call): why it may.
REASONS = {
    ("api/matrix.py", "read_bytes"): "a file of the package itself",
    ("cli/attach.py", "write_text"): "a person names it in this command, and may mean a pipe",
    ("cli/dev.py", "open"): "a person names it in this command, and may mean a pipe",
    ("cli/dev.py", "read_text"): "a file of the package itself",
    ("cli/prompt.py", "open"): "a person names it in this command, and may mean a pipe",
    ("cli/prompt.py", "read_bytes"): "/proc",
    ("cli/prompt.py", "read_text"): "/proc",
    ("cli/queue.py", "read_text"): "what the person's own editor left in a directory made for it",
    ("cli/queue.py", "write_text"): "in a directory made for it a line before",
    ("cli/reporter.py", "open"): "the CI system names it for this step",
    ("cli/report_file.py", "write_bytes"): "a person names it in this command, and it is a pipe",
    ("cli/report_file.py", "os.open"): "a temporary file of its own, renamed then",
    ("cli/streams.py", "open"): "the standard streams, by their numbers",
    ("cli/streams.py", "os.open"): "/dev/null",
    ("config/resolve.py", "read_bytes"): "beam.config.file's own, which takes plain files only",
    ("api/manage.py", "read_bytes"): "beam.config.file's own, which takes plain files only",
    (
        "trust/scan.py",
        "os.open",
    ): "links are followed, as each counts by being one; plain files only, without waiting",
    (
        "root/directories.py",
        "os.open",
    ): "directories, and .gitignore without waiting or following",
    ("root/directories.py", "read_text"): "/proc",
    ("base/held_modules.py", "open"): "/proc",
    ("base/held_modules.py", "os.open"): "/proc",
    ("base/module_reader.py", "os.open"): "modules, which the interpreter itself would open so; links are followed",
    ("base/directory_tree.py", "os.open"): "directories, by name in one that is held open, following no link",
    ("process/guard.py", "posix.open"): "runs alone, without beam's modules: its terminal, and /dev/null",
    ("process/landlock.py", "posix.open"): "runs in the guard, without beam's modules; O_PATH opens no file's content",
    ("process/table.py", "posix.open"): "/proc",
    ("proxy/doors.py", "open"): "/proc",
    ("proxy/place.py", "os.open"): "new files and folders, by name in a folder that is held open, following no link",
    ("worktree/restore.py", "os.open"): "by name in a folder that is held open, following no link and without waiting",
    ("teams/hook.py", "posix.open"): "runs alone, without beam's modules; it never waits and follows no link",
    ("testing/fake_model/script.py", "open"): "a person names it in this command, and may mean a pipe",
    ("testing/fake_model/server.py", "open"): "a log that a person names in this command",
    ("testing/fake_model/server.py", "touch"): "a log that a person names in this command",
    ("testing/fake_model/server.py", "write_bytes"): "in a scratch home made for it",
    ("testing/conformance/subject.py", "write_text"): "in a scratch folder made for it",
    ("testing/conformance/subject.py", "read_bytes"): "/proc",
    ("testing/conformance/subject.py", "read_text"): "/proc",
    ("testing/scripted.py", "write_text"): "a temporary file of its own, renamed then",
}


def opens(source: str) -> set[str]:
    """The calls in a module that open a file."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id == "open":
            found.add("open")
        if not isinstance(called, ast.Attribute):
            continue
        owner = called.value.attr if isinstance(called.value, ast.Attribute) else getattr(called.value, "id", "")
        if called.attr in ("open", "mmap", "input") and owner in MODULES:
            found.add(f"{owner}.{called.attr}")
        elif (called.attr == "open" and owner not in OURS) or called.attr in METHODS:
            found.add(called.attr)
    return found


def modules() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


@pytest.mark.slow
def test_files_are_opened_by_one_module_only_or_for_a_reason() -> None:
    used = {(module, call) for module in modules() for call in opens((ROOT / module).read_text(encoding="utf-8"))}
    elsewhere = {(module, call) for module, call in used if module != OPENER}
    assert elsewhere - set(REASONS) == set(), "use beam.base.files, or give a reason here"
    assert set(REASONS) - used == set(), "no longer needed"


@pytest.mark.parametrize(
    "source",
    ["open(p)", "p.open()", "Path(p).open('rb')", "os.open(p, 0)", "self.os.open(p)", "a.b.read_text()", "p.touch()"],
)
def test_every_way_to_open_a_file_is_seen(source: str) -> None:
    assert opens(source)


def test_what_opens_no_file_is_left_alone() -> None:
    assert opens("Journal.open(d)\nfiles.open_reader(p)\nos.fdopen(3)\nself.viewers.open(s)") == set()
