"""What is said of roots, their directories and their owners, whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam.base.errors import ConfigError, CorruptError, DiskError, UsageError
from beam.root import directories, discovery, paths
from beam.root.git_place import GitPlace, git_directory, git_place
from beam.root.paths import ELSEWHERE_HINT, AgentPaths, RootPaths, disk_error
from tests.support.refused import refused


@pytest.fixture
def home(tmp_path: Path) -> RootPaths:
    (tmp_path / "project").mkdir()
    return RootPaths(tmp_path / "root", tmp_path / "project")


# -- paths -------------------------------------------------------------------------------------------------------------


def test_every_file_of_an_agent_and_of_a_root_has_its_place(home: RootPaths) -> None:
    agent, root = home.agent("box"), home.root
    lane = agent.lane_of("aaaa")
    boxes = ("queue", "control", "images", "asks", "journal")
    names = (*boxes, "lock", "archived", "put_lock", "reserve", "log", "cli_version_file")
    assert [str(getattr(agent, name).relative_to(root)) for name in names] == [
        "agents/box/queue",
        "agents/box/control",
        "agents/box/images",
        "agents/box/asks",
        "agents/box/journal",
        "agents/locks/box" if agent.lock.parent.parent.name == "agents" else "locks/box",
        f"agents/box/{agent.archived.name}",
        "agents/box/put.lock",
        "agents/box/reserve",
        "agents/box/worker.log",
        "agents/box/cli.json",
    ]
    assert (lane.lock, lane.reserve, lane.agent_dir) == (lane.dir / "lock", agent.reserve, agent.dir)
    assert agent.agent_dir == agent.dir and agent.unstarted_note("k") == agent.dir / "k.unstarted"
    places = ("threads", "notify", "snapshots", "search")
    assert [getattr(home, name).name for name in places] == ["threads", "notify", "snapshots", "search.sqlite3"]
    assert home.turns == root.with_name("root.turns") and home.config_file == home.project / "beam.yaml"
    session = home.agent("box@a")
    assert [home.turns_of(each).name for each in (agent, lane, session, session.lane_of("b"))] == [
        "box",
        "box.aaaa",
        "box+a",
        "box+a.b",
    ]
    assert home.agent("box") is agent and home.agents() == [] and agent.lanes() == []
    for name in ("zed", "box", "No Name", ".hidden"):
        (root / "agents" / name).mkdir(parents=True)
    (root / "agents/file").touch()
    (agent.dir / "once/aaaa").mkdir(parents=True)
    (agent.dir / "once/.removed-b").mkdir()
    assert home.agents() == ["box", "zed"] and agent.lanes() == [AgentPaths("box", agent.dir / "once/aaaa", "aaaa")]


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EROFS, f"keep beam's state on a disk that can be written: {ELSEWHERE_HINT}"),
        (errno.ENOSPC, f"free some space, or keep beam's state on another disk: {ELSEWHERE_HINT}"),
        (errno.EDQUOT, f"free some space, or keep beam's state on another disk: {ELSEWHERE_HINT}"),
        (errno.EACCES, f"keep beam's state in a folder of your own: {ELSEWHERE_HINT}"),
        (errno.EPERM, f"keep beam's state in a folder of your own: {ELSEWHERE_HINT}"),
        (errno.ENOTDIR, "a part of that path is a file; move it away"),
        (errno.EMFILE, "close some programs, or raise the limit of open files: ulimit -n 4096"),
        (errno.ENFILE, "close some programs, or raise the limit of open files: ulimit -n 4096"),
        (errno.EAGAIN, "end some processes, or raise the limit of processes (ulimit -u)"),
        (errno.ENOMEM, "free some memory"),
        (errno.ENAMETOOLONG, f"use a shorter path: {ELSEWHERE_HINT}"),
        (errno.EIO, f"look at the disk, or keep beam's state elsewhere: {ELSEWHERE_HINT}"),
    ],
)
def test_a_place_that_can_not_be_made_is_reported_with_what_to_do(number: int, hint: str) -> None:
    found = disk_error(OSError(number, os.strerror(number)), Path("/x"), "create")
    said = f"can't create /x: {os.strerror(number).lower()}"
    assert (found.message, found.hint, found.subject) == (said, hint, "/x")
    assert disk_error(OSError("Odd"), Path("/x"), "read").message == "can't read /x: odd"


# -- directories -------------------------------------------------------------------------------------------------------


def test_a_root_and_an_agent_have_their_directories(home: RootPaths) -> None:
    directories.create(home)
    assert (home.root / ".gitignore").read_bytes() == b"*\n"
    assert home.root.stat().st_mode & 0o777 == 0o700
    lane = home.agent("box").lane_of("aaaa")
    directories.create(home, lane)
    parts = ("queue", "queue/tmp", "queue/new", "queue/cur", "queue/dead", "control", "control/tmp", "control/new")
    for name in (*parts, "asks", "journal"):
        assert (lane.dir / name).is_dir() and not (home.agent("box").dir / name).exists()
    directories.check_paths(home, lane)


def test_what_stands_in_a_directorys_place_is_reported(home: RootPaths) -> None:
    agent = home.agent("box")
    directories.create(home, agent)
    (agent.dir / "asks").rmdir()
    (agent.dir / "asks").symlink_to("/tmp")
    said = f"{agent.dir / 'asks'} is a symbolic link; beam uses real directories only"
    hint = "replace the link by the directory itself"
    for act in (directories.check_paths, directories.create):
        with refused(DiskError, said, hint, subject=str(agent.dir / "asks")):
            act(home, agent)
    (agent.dir / "asks").unlink()
    (agent.dir / "asks").touch()
    said = f"{agent.dir / 'asks'} is a file; beam needs a directory there"
    with refused(DiskError, said, "move the file away", subject=str(agent.dir / "asks")):
        directories.check_paths(home, agent)


def test_a_half_written_list_for_git_is_removed(home: RootPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    home.root.mkdir()

    def fails(handle: int, mode: str) -> Any:
        os.close(handle)
        raise OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr(directories.os, "fdopen", fails)
    with pytest.raises(DiskError, match=r"^can't create .*\.gitignore: no space left"):
        directories.create(home)
    assert list(home.root.iterdir()) == []


@pytest.mark.parametrize(("name", "verb"), [("lstat", "look at"), ("mkdir", "create"), ("exists", "read")])
def test_a_disk_that_fails_is_reported_with_what_was_tried(
    name: str, verb: str, home: RootPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.root.mkdir()

    def fails(self: Path, *_: object, **__: object) -> Any:
        if self.name in (".gitignore", "agents"):
            raise OSError(errno.EIO, "Input/output error")
        return os.path.exists(self)  # noqa: PTH110

    monkeypatch.setattr(Path, name, fails)
    with pytest.raises(DiskError, match=f"^can't {verb} .*: input/output error"):
        directories.check_paths(home, home.agent("box")) if name == "lstat" else directories.create(home)


# -- owners and file systems -------------------------------------------------------------------------------------------


def test_what_is_not_ones_own_is_reported_with_the_ways_out(home: RootPaths) -> None:
    directories.create(home)
    me = os.getuid()
    directories.check_owner(home, uid=me)
    directories.check_filesystem(home, mountinfo="")
    hint = f"take it over with chown if you trust what is in it, or keep beam's state elsewhere: {ELSEWHERE_HINT}"
    with refused(DiskError, f"{home.root} belongs to another user (uid {me})", hint, subject=str(home.root)):
        directories.check_owner(home, uid=me + 1)
    home.root.chmod(0o720)
    said = f"{home.root} can be written by other users"
    with refused(DiskError, said, f"take that away: chmod go-w {home.root}", subject=str(home.root)):
        directories.check_owner(home, uid=me)
    home.root.chmod(0o700)
    file = home.config_file
    file.mkdir()
    with refused(ConfigError, f"{file} is not a file", "move it away", subject=str(file)):
        directories.check_owner(home, uid=me)
    file.rmdir()
    file.touch()
    file.chmod(0o622)
    with refused(
        ConfigError, f"{file} can be written by other users", f"take that away: chmod go-w {file}", subject=str(file)
    ):
        directories.check_owner(home, uid=me)
    link = RootPaths(home.root.with_name("link"), home.project)
    link.root.symlink_to(home.root)
    said = f"{link.root} is a symbolic link; beam uses real directories only"
    with refused(DiskError, said, f"use the directory itself: --root {home.root}", subject=str(link.root)):
        directories.check_owner(link, uid=me)


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        *((kind, "nfs") for kind in ("nfs", "nfs4")),
        *((kind, "smb") for kind in ("cifs", "smb2", "smb3", "smbfs", "ncpfs")),
        *((kind, "9p") for kind in ("9p", "v9fs")),
        *((kind, "fuse") for kind in ("fuse", "fuseblk", "fuse.sshfs", "virtiofs", "osxfs", "grpcfuse", "fakeowner")),
        *(
            (kind, kind)
            for kind in ("afs", "ceph", "lustre", "glusterfs", "beegfs", "coda", "vboxsf", "prl_fs", "vmhgfs")
        ),
    ],
)
def test_a_shared_file_system_is_refused_unless_it_is_allowed(kind: str, family: str, home: RootPaths) -> None:
    mounts = f"1 2 3:4 / / rw - {kind} x rw\n"
    with refused(
        DiskError,
        f"{home.root} is on a file system without dependable locks ({kind})",
        f"keep beam's state on a local disk ({ELSEWHERE_HINT}), or write `allow_fs: [{kind}]` into your config.yaml",
        subject=str(home.root),
    ):
        directories.check_filesystem(home, mountinfo=mounts)
    for allowed in (kind, family):
        directories.check_filesystem(home, allow_fs=[allowed], mountinfo=mounts)
    directories.check_filesystem(home, mountinfo=mounts.replace(kind, "ext4"))


def test_lines_that_are_no_mounts_say_nothing() -> None:
    mounts = "short - ext4\n1 2 3:4 / / rw no dash\n1 2 3:4 / /a\\040b rw - xfs x\n1 2 3:4 / / rw - ext4 x\n"
    assert directories.filesystem_of(Path("/a b/c"), mounts) == "xfs"
    assert directories.filesystem_of(Path("/c"), mounts) == "ext4" and directories.filesystem_of(Path("/c"), "") == ""


# -- finding -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state")}


def test_a_name_that_is_no_root_is_reported(tmp_path: Path, environ: dict[str, str]) -> None:
    hint = "use the path of a directory for beam's files alone"
    for named in ("", "a\0b"):
        with refused(UsageError, "--root names no directory", hint):
            discovery.find_root(named, cwd=tmp_path, environ=environ)
    with refused(UsageError, "BEAM_ROOT is /", hint, subject="/"):
        discovery.find_root(None, cwd=tmp_path, environ={**environ, "BEAM_ROOT": "/"})
    (tmp_path / "code").mkdir()
    (tmp_path / "code/main.py").touch()
    said = f"--root {tmp_path / 'code'} is not a root of beam: it contains other files"
    hint = f"use a directory of its own for beam: {tmp_path / 'code/beam'}"
    with refused(UsageError, said, hint, subject=str(tmp_path / "code")):
        discovery.find_root("code", cwd=tmp_path, environ=environ)


def test_a_root_without_its_folder_is_reported(home: RootPaths, environ: dict[str, str]) -> None:
    root = home.root
    hint = f"cd to the project folder, then: beam --root {root} status"
    with refused(CorruptError, f"{root} does not say which folder it belongs to", hint, subject=str(root)):
        discovery.root_at(root, environ)
    discovery.create(home)
    assert discovery.root_at(root, environ) == home
    home.project.rmdir()
    for named, given in ((f"--root {root} ", root), ("", paths.state_dir(environ) / "projects/x")):
        with refused(
            DiskError,
            f"the folder {home.project} is gone, to which the root {given} belongs",
            f"if it was moved, go to where it is now: beam {named}doctor --adopt; "
            f"if not: beam doctor --remove-root {given}",
            subject=str(home.project),
        ):
            discovery.check_folder(RootPaths(given, home.project), environ)
    path = root / "project.json"
    path.write_text('{"path":"relative","device":1,"inode":1}')
    with refused(CorruptError, f"{path} names no folder", "remove it", subject=str(path)):
        discovery.read_project(root)
    path.write_text("{")
    with pytest.raises(CorruptError) as damaged:
        discovery.read_project(root)
    assert damaged.value.message.startswith(f"{path} is damaged: ")
    assert (damaged.value.hint, damaged.value.subject) == ("remove it", str(path))
    assert discovery.read_project(path) is None


def test_a_root_that_another_folder_may_have_written_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "there/.git").mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    planted = RootPaths(tmp_path / "there/root", tmp_path / "mine")
    discovery.create(planted)
    said = f"the root {planted.root} is in {tmp_path / 'there'}, but makes agents work in {tmp_path / 'mine'}"
    hint = "anybody who may write there could have set that; use a root outside of both"
    with refused(UsageError, said, hint, subject=str(planted.root)):
        discovery.root_at(planted.root, environ)


@pytest.mark.parametrize(
    ("name", "slug"), [("My Shop!", "my-shop"), ("___", "___"), ("…", "folder"), ("a" * 40, "a" * 32), ("-x-", "x")]
)
def test_a_root_is_named_by_its_folder(name: str, slug: str, environ: dict[str, str]) -> None:
    found = discovery.root_of(Path("/p") / name, environ)
    assert found.parent == Path(environ["XDG_STATE_HOME"]) / "beam/projects"
    assert found.name[:-17] == slug and len(found.name.rpartition("-")[2]) == 16


def test_the_directories_of_a_user_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    at = {"HOME": "/h"}
    assert paths.state_dir(at) == Path("/h/.local/state/beam") and paths.config_dir(at) == Path("/h/.config/beam")
    assert paths.data_dir(at) == Path("/h/.local/share/beam")
    assert paths.state_dir({**at, "BEAM_STATE": "/s"}) == Path("/s")
    assert paths.state_dir({**at, "BEAM_STATE": "s", "XDG_STATE_HOME": "/x"}) == Path("/x/beam")
    assert paths.data_dir({**at, "XDG_DATA_HOME": "x"}) == Path("/h/.local/share/beam")
    import pwd

    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=f"/home/{uid == os.getuid()}"))
    assert paths.user_home({"HOME": "h"}) == Path("/home/True")

    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with refused(DiskError, "this user has no home directory", "set HOME to a folder of your own"):
        paths.user_home({})


# -- git ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "branch", "commit"),
    [
        ("ref: refs/heads/main\n", "main", None),
        ("ref: refs/remotes/x\nmore", "refs/remotes/x", None),
        ("0123456789abcdef\n", None, "0123456789ab"),
    ],
)
def test_a_folders_place_in_git_is_read_from_its_files(
    head: str, branch: str | None, commit: str | None, tmp_path: Path
) -> None:
    work, deep = tmp_path / "work", tmp_path / "work/a/b"
    deep.mkdir(parents=True)
    (work / ".git").mkdir()
    assert git_place(deep) is None
    (work / ".git/HEAD").write_text(head)
    place = GitPlace(branch=branch, commit=commit, work_tree=str(work), repository=str(work / ".git"))
    assert git_place(deep) == git_place(work) == place
    (work / ".git/HEAD").write_text("")
    assert git_place(work) is None and git_directory(work) == work / ".git"


def test_a_linked_work_tree_names_its_repository(tmp_path: Path) -> None:
    own = tmp_path / "main/.git/worktrees/x"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/x\n")
    (own / "commondir").write_text("../..\n")
    (tmp_path / "x").mkdir()
    (tmp_path / "x/.git").write_text(f"gitdir: {own}\n")
    found = git_place(tmp_path / "x")
    assert found is not None and (found.branch, found.repository) == ("x", str(tmp_path / "main/.git"))
    (tmp_path / "x/.git").write_text("other: y\n")
    assert git_directory(tmp_path / "x") is None
