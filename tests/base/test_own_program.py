"""What a process of beam may still import is all read, wherever it comes from, and only where agents may write."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from pathlib import Path

import pytest

import beam
from beam.base import module_reader, own_program

_READ = {
    *module_reader.PACKAGES,
    *module_reader.PACKAGES_ELSEWHERE,
    *module_reader.EXTRA_PACKAGES,
    *module_reader.BOARD_PACKAGES,
}


def imported_by_beam() -> set[str]:
    """The first names of all modules that some line of beam imports."""
    found = set()
    for path in Path(beam.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def with_requirements(names: set[str]) -> set[str]:
    """The distributions with these names, where they are installed, and those that they require."""
    found: set[str] = set()
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        if name in found:
            continue
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(name)
        names |= {match[0] for each in requires if "extra ==" not in each and (match := re.match(r"[\w.-]+", each))}
    return found


@pytest.mark.slow
def test_all_that_beam_imports_and_what_that_requires_is_read() -> None:
    guards_own = {"table", "landlock", "guard"}
    of_other_versions = {"_frozen_importlib_external", "_sha2"}  # of Python, too
    direct = imported_by_beam() - set(sys.stdlib_module_names) - guards_own - of_other_versions
    assert direct <= _READ
    of_top = importlib.metadata.packages_distributions()
    needed = with_requirements({name for top in direct for name in of_top.get(top, ())})
    tops = {
        top
        for top, distributions in of_top.items()
        if top.isidentifier() and any(re.sub(r"[-_.]+", "-", each).lower() in needed for each in distributions)
    }
    assert tops - {"_editable_impl_beam_agents"} <= _READ


@pytest.mark.slow
def test_a_folder_is_led_through_by_its_own_paths_and_by_links_in_it_and_to_it(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    (folder / "in").mkdir(parents=True)
    (elsewhere / "in").mkdir(parents=True)
    (folder / "out").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to("../folder")
    (elsewhere / "round").symlink_to("round")
    leads = {
        path: own_program.leads_through(f"{tmp_path}/{path}", [str(folder)])
        for path in ("folder/in", "folder/out/in", "elsewhere/back/in", "elsewhere/../folder/x", "elsewhere/in")
    }
    assert [path for path, is_led in leads.items() if not is_led] == ["elsewhere/in"]
    assert not own_program.leads_through(f"{tmp_path}/elsewhere/round", [str(folder)])
    assert not own_program.leads_through(f"{folder}s/in", [str(folder)])
    assert own_program.leads_through("/anything", ["/"])


def test_an_interpreter_that_agents_may_replace_is_not_run_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "python"
    there.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(there))
    monkeypatch.setattr(own_program, "_folders", [str(tmp_path.parent)])
    argv, _ = own_program.command("platform", environ={"PATH": "/usr/bin:/bin"})
    assert argv[0] == own_program.executable() != str(there)


def test_agents_may_write_in_no_folder_where_beam_looks_for_its_programs_but_in_a_whole_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "home" / "project"
    (project / "bin").mkdir(parents=True)
    (home / "bin").symlink_to(project / "bin")
    monkeypatch.setattr(own_program, "_folders", [str(project), str(home), "/"])
    path = f"bin::{project}/bin:/{project}//x/../bin/:{home}/bin:{project}:{home}/.local/bin:/usr/bin"
    found = own_program.search_path({"HOME": str(home), "PATH": path})
    assert found == f"{home}/.local/bin:/usr/bin"
    assert own_program.search_path({"PATH": f"{home}/.local/bin:/usr/bin"}) == "/usr/bin"
