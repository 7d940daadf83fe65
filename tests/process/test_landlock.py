"""A real confined process under a real guard can change nothing in protected folders, and everything beside them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.base.errors import BeamError
from beam.process import guard, landlock, spawn
from beam.process.confinement import Confinement

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(landlock.abi() == 0, reason="left out: this system has no Landlock"),
]

# Each is run by itself in the confined process, in the folder `project`. `state` is protected, `free` is not.
REFUSED = {
    "write_a_file_by_its_absolute_path": "open(f'{state}/file', 'w').write('x')",
    "append_to_a_file": "open(f'{state}/file', 'a').write('x')",
    "write_a_file_by_dots": "open('../home/.local/state/beam/file', 'w').write('x')",
    "write_a_file_through_a_link_to_the_folder": "open('folder/file', 'w').write('x')",
    "write_a_file_through_a_link_to_the_top": "open(f'top{state}/file', 'w').write('x')",
    "write_a_file_through_a_link_of_proc": "open(f'/proc/self/root{state}/file', 'w').write('x')",
    "write_a_file_through_a_descriptor_of_its_folder": (
        "os.write(os.open('file', os.O_WRONLY, dir_fd=os.open(state, os.O_RDONLY)), b'x')"
    ),
    "write_a_descriptor_that_it_opened_for_reading": (
        "os.write(os.open(f'/proc/self/fd/{os.open(f\"{state}/file\", os.O_RDONLY)}', os.O_WRONLY), b'x')"
    ),
    "empty_a_file": "os.truncate(f'{state}/file', 0)",
    "empty_a_file_by_opening_it": "os.open(f'{state}/file', os.O_RDONLY | os.O_TRUNC)",
    "make_a_file": "open(f'{state}/new', 'x')",
    "make_a_file_through_a_dangling_link": "open('dangling', 'w').write('x')",
    "make_a_link": "os.symlink('x', f'{state}/new')",
    "make_a_second_name_in_there": "os.link(f'{free}/file', f'{state}/new')",
    "make_a_second_name_of_a_file_in_there": "os.link(f'{state}/file', f'{free}/second')",
    "make_a_folder": "os.mkdir(f'{state}/new')",
    "make_a_pipe": "os.mkfifo(f'{state}/new')",
    "move_a_file_in": "os.rename(f'{free}/file', f'{state}/new')",
    "move_a_file_over_one": "os.replace(f'{free}/file', f'{state}/file')",
    "move_a_file_out": "os.rename(f'{state}/file', f'{free}/taken')",
    "give_a_file_another_name": "os.rename(f'{state}/file', f'{state}/new')",
    "remove_a_file": "os.unlink(f'{state}/file')",
    "remove_a_folder": "os.rmdir(f'{state}/empty')",
    "move_a_folder_on_the_way_aside": "os.rename(f'{home}/.local/state', f'{home}/.local/other')",
    "move_the_folder_itself_aside": "os.rename(state, f'{home}/.local/state/other')",
    "put_another_link_on_the_way": "os.unlink(f'{home}/.config'); os.symlink(free, f'{home}/.config')",
    "write_where_a_link_on_the_way_leads": "open(f'{elsewhere}/beam/config.yaml', 'w').write('x')",
    "make_what_is_not_there_yet": "os.makedirs(f'{home}/.data/beam')",
    "mount_something_over_it": "mount(free, state)",
    "write_by_a_process_that_it_starts": "run(['sh', '-c', f'echo x > {state}/file'])",
    "write_by_a_process_of_a_session_of_its_own": "run(['setsid', 'sh', '-c', f'echo x > {state}/file'])",
    "write_by_a_thread": "thread(lambda: open(f'{state}/file', 'w').write('x'))",
    "look_into_its_guard": "os.readlink(f'/proc/{os.getppid()}/cwd')",
    "make_a_file_directly_in_a_folder_on_the_way": "open(f'{home}/new', 'x')",
}
DONE = {
    "reads_what_is_protected": "assert open(f'{state}/file').read() == 'as it was'",
    "writes_a_folder_inside_that_is_allowed": "open(f'{state}/turns/1/made', 'w').write('x')",
    "moves_a_file_into_that": "os.rename(f'{free}/moved', f'{state}/turns/1/moved')",
    "makes_a_file_in_the_project": "open('made', 'x')",
    "makes_a_file_in_a_folder_beside": "open(f'{home}/.cache/made', 'x')",
    "writes_a_file_that_was_in_a_folder_on_the_way": "open(f'{home}/.claude.json', 'w').write('x')",
    "moves_between_folders_beside": "os.rename(f'{free}/other', f'{home}/.cache/other')",
    "writes_a_device": "open('/dev/null', 'w').write('x')",
    "writes_what_it_inherited": "open('/dev/stderr', 'w').write('')",
    "makes_a_file_in_shared_memory": "os.close(os.open('/dev/shm', os.O_TMPFILE | os.O_RDWR))",
}
# What Landlock does not know: docs/security.md says so.
NOT_STOPPED = {
    "changes_the_mode_of_a_file": "os.chmod(f'{state}/mode', 0o640)",
    "writes_a_file_by_a_second_name_that_it_had_before": "open(f'{free}/hard', 'w').write('x')",
}
PROGRAM = """
import ctypes, json, os, subprocess, sys, threading
def mount(source, target):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), None, 4096, None):
        raise OSError(ctypes.get_errno(), "mount")
def run(words):
    if subprocess.run(words, stderr=subprocess.DEVNULL).returncode:
        raise PermissionError(13, "refused")
def thread(work):
    failed = []
    def body():
        try: work()
        except OSError as error: failed.append(error)
    one = threading.Thread(target=body); one.start(); one.join()
    if failed: raise failed[0]
for name, code, given in json.loads(sys.argv[1]):
    os.chdir(given["project"])
    try:
        exec(code, {**globals(), **given})
        print(json.dumps([name, ""]))
    except OSError as error:
        print(json.dumps([name, type(error).__name__ + " " + str(error.errno)]))
"""


def look(folder: Path) -> dict[str, str]:
    """All that is below the folder."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "" for path in sorted(folder.rglob("*"))
    }


class Place:
    """A home with beam's state in it, a project with links into that, and a folder beside both."""

    def __init__(self, base: Path) -> None:
        self.home, self.project, self.free, self.elsewhere = (
            base / name for name in ("home", "project", "free", "elsewhere")
        )
        self.state = self.home / ".local/state/beam"
        for folder in (self.state / "turns/1", self.state / "empty", self.home / ".cache", self.project, self.free):
            folder.mkdir(parents=True)
        for file in (self.state / "file", self.state / "mode", self.state / "hard"):
            file.write_text("as it was")
        for file in (self.free / "file", self.free / "other", self.free / "moved", self.home / ".claude.json"):
            file.write_text("free")
        (self.elsewhere / "beam").mkdir(parents=True)
        (self.elsewhere / "beam/config.yaml").write_text("as it was")
        (self.home / ".config").symlink_to(self.elsewhere)
        (self.project / "folder").symlink_to(self.state)
        (self.project / "dangling").symlink_to(self.state / "new")
        (self.project / "top").symlink_to("/")
        (self.free / "hard").hardlink_to(self.state / "hard")

    @property
    def confinement(self) -> Confinement:
        protected = (self.state, self.home / ".config/beam", self.home / ".data/beam")
        return Confinement(protected=tuple(map(str, protected)), allowed=(str(self.state / "turns/1"),))

    @property
    def names(self) -> dict[str, str]:
        """The folders, by the names that the attempts use."""
        return {name: str(getattr(self, name)) for name in ("home", "project", "free", "elsewhere", "state")}

    def tries(self, tries: dict[str, str]) -> dict[str, str]:
        """The result of each attempt: "" if it succeeded, else the error."""
        return came_of([(name, code, self.names) for name, code in tries.items()], self.confinement)


def came_of(tries: list[tuple[str, str, dict[str, str]]], confinement: Confinement | None) -> dict[str, str]:
    lines: list[bytes] = []
    run(confinement, [sys.executable, "-I", "-c", PROGRAM, json.dumps(tries)], lines)
    return dict(json.loads(line) for line in lines)


def run(confinement: Confinement | None, argv: list[str], lines: list[bytes]) -> spawn.ProcessEnd:
    async def main() -> spawn.ProcessEnd:
        async with asyncio.timeout(60):
            child = await spawn.start(
                argv,
                env={"PATH": os.environ["PATH"]},
                cwd="/",
                turn_key=f"landlocktest{os.getpid()}",  # another worker's guard ends what carries its key
                on_line=lines.append,
                confinement=confinement,
            )
            child.go()
            return await child.wait()

    return asyncio.run(main())


class Tried:
    """The results of all attempts of one process, and the files before and after them."""

    def __init__(self, base: Path) -> None:
        self.place = Place(base)
        before, outside = look(self.place.state), look(self.place.elsewhere)
        self.refused = self.place.tries(REFUSED)
        self.is_as_before = (look(self.place.state), look(self.place.elsewhere)) == (before, outside)
        self.done = self.place.tries(DONE)
        self.not_stopped = self.place.tries(NOT_STOPPED)


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    yield Tried(tmp_path_factory.mktemp("landlock"))


@pytest.mark.parametrize("name", REFUSED)
def test_a_confined_process_can_not(name: str, tried: Tried) -> None:
    assert tried.refused[name].split()[0] in ("PermissionError", "OSError")


def test_nothing_that_is_protected_changed(tried: Tried) -> None:
    assert tried.is_as_before


@pytest.mark.parametrize("name", DONE)
def test_a_confined_process_still(name: str, tried: Tried) -> None:
    assert tried.done[name] == ""


@pytest.mark.parametrize("name", NOT_STOPPED)
def test_landlock_does_not_stop_a_process_that(name: str, tried: Tried) -> None:
    assert tried.not_stopped[name] == ""


def test_what_is_refused_to_a_confined_process_is_done_by_one_that_is_not(tmp_path: Path) -> None:
    able = {name: code for name, code in REFUSED.items() if "mount" not in name}
    came = came_of([(name, code, Place(tmp_path / name).names) for name, code in able.items()], None)
    assert came == dict.fromkeys(able, "")


def test_a_process_on_a_terminal_is_confined_as_one_without(tmp_path: Path) -> None:
    place = Place(tmp_path)

    async def main() -> spawn.ProcessEnd:
        child = await spawn.start_in_terminal(
            ["sh", "-c", f"echo x >{place.state}/file || exit 9"],
            env={"PATH": os.environ["PATH"]},
            cwd="/",
            turn_key=f"landlocktest{os.getpid()}",  # another worker's guard ends what carries its key
            columns=80,
            rows=24,
            on_data=lambda data: None,
            confinement=place.confinement,
        )
        child.go()
        return await child.wait()

    assert asyncio.run(main()).code not in (0, None)
    assert (place.state / "file").read_text() == "as it was"


def test_a_confined_process_gets_no_rights_by_a_setuid_program(tmp_path: Path) -> None:
    lines: list[bytes] = []
    run(Place(tmp_path).confinement, ["grep", "NoNewPrivs", "/proc/self/status"], lines)
    assert lines == [b"NoNewPrivs:\t1"]


def test_the_guard_still_ends_a_confined_tree(tmp_path: Path) -> None:
    ended = run(Place(tmp_path).confinement, ["sh", "-c", "setsid sleep 600 & exit 3"], [])
    assert (ended.code, ended.swept, ended.left) == (3, 1, 0)


def test_an_agent_that_can_not_be_confined_is_not_started(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    gone = Confinement(protected=(str(tmp_path / "state"),), allowed=(str(tmp_path / "no such folder"),))
    with pytest.raises(BeamError, match="beam's own files could not be protected"):
        run(gone, ["touch", str(ran)], [])
    assert not ran.exists()


@pytest.mark.parametrize("version", range(1, landlock.abi() + 1))
def test_every_version_of_landlock_protects_from_what_it_knows(version: int, tmp_path: Path) -> None:
    place = Place(tmp_path)
    unknown = "empty_" if version < 3 else "-"
    tries = {name: code for name, code in REFUSED.items() if not name.startswith(unknown)}
    confine = (
        "from beam.process import landlock\n"
        f"landlock.confine({[os.fsencode(path) for path in place.confinement.protected]!r}, [], {version})\n"
    )
    before = look(place.state)
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            confine + PROGRAM,
            json.dumps([(name, code, place.names) for name, code in tries.items()]),
        ],
        cwd=place.project,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=True,
    )
    assert all(json.loads(line)[1] for line in done.stdout.splitlines()), done.stdout
    assert look(place.state) == before


# -- what is on the way ------------------------------------------------------------------------------------------------


def way(*paths: Path) -> tuple[set[str], set[str]]:
    folders, ends = landlock.folders_leading_to([os.fsencode(path) for path in paths])
    return {os.fsdecode(folder) for folder in folders}, {os.fsdecode(end) for end in ends}


def test_the_way_to_a_folder_has_the_folders_of_every_link_on_it(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    (base / "a").mkdir()
    (base / "b/real").mkdir(parents=True)
    (base / "a/link").symlink_to("../b/second")
    (base / "b/second").symlink_to(base / "b/real")
    folders, ends = way(base / "a/link/beam")
    assert ends == {str(base / "b/real/beam")}
    assert {str(base), str(base / "a"), str(base / "b"), str(base / "b/real")} <= folders


def test_a_folder_inside_a_protected_one_is_not_on_the_way(tmp_path: Path) -> None:
    folders, _ = way(tmp_path / "state", tmp_path / "state/projects/one")
    assert str(tmp_path / "state") not in folders
    assert str(tmp_path / "state/projects") not in folders


def test_links_in_a_ring_are_an_error_and_no_endless_loop(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="too many links"):
        way(tmp_path / "a/beam")


PATHS = st.lists(st.binary(min_size=1, max_size=9).filter(lambda name: b"\0" not in name), max_size=4)


@pytest.mark.slow
@given(PATHS, PATHS)
def test_paths_of_any_bytes_reach_the_guard_as_they_are(protected: list[bytes], allowed: list[bytes]) -> None:
    assert landlock.decode_paths(landlock.encode_paths(protected, allowed)) == (protected, allowed)


def test_landlock_costs_nothing_where_nobody_asks_for_it() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import guard; print('landlock' in sys.modules)"
    words = [sys.executable, "-I", "-S", "-c", code, str(Path(guard.__file__).parent)]
    assert subprocess.run(words, capture_output=True, check=True).stdout == b"False\n"
