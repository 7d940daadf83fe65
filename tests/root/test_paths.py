"""What is made in a root, and which roots are refused."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from beam.base.errors import ConfigError, DiskError, UsageError
from beam.root import directories, paths
from beam.root.paths import RootPaths

MOUNTINFO = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /proc rw - proc proc rw
40 22 0:44 / /beam-n rw,relatime - nfs4 server:/x rw
41 40 0:45 / /beam-n/local rw - btrfs /dev/sdb rw
42 22 0:46 / /beam-m/two\040words rw - fuse.sshfs host: rw
43 22 0:47 / /beam-o rw - ext4 /dev/sdc rw
44 43 0:48 / /beam-o rw - 9p share rw
a torn line
"""


@pytest.fixture
def root(tmp_path: Path) -> RootPaths:
    made = RootPaths(tmp_path / "root", tmp_path / "work")
    made.project.mkdir()
    directories.create(made)
    return made


def check(root: RootPaths, **more: object) -> None:
    directories.check_owner(root, uid=os.getuid())
    directories.check_filesystem(root, mountinfo=MOUNTINFO, **more)  # type: ignore[arg-type]


# -- creating


def test_creating_makes_private_directories_once(root: RootPaths) -> None:
    place = root.agent("planner")
    for _ in range(2):
        directories.create(root, place)
        directories.create(root, place.lane_of("k1"))
    assert (root.root / ".gitignore").read_text() == "*\n"
    for folder in (
        "queue/tmp",
        "queue/new",
        "queue/cur",
        "queue/dead",
        "control/tmp",
        "control/new",
        "asks",
        "journal",
    ):
        for where in (place, place.lane_of("k1")):
            assert (where.dir / folder).stat().st_mode & 0o777 == 0o700
    assert root.agents() == ["planner"]
    assert place.lanes() == [place.lane_of("k1")]


def test_a_gitignore_of_the_users_stays(root: RootPaths) -> None:
    (root.root / ".gitignore").write_text("!agents\n")
    directories.create(root)
    assert (root.root / ".gitignore").read_text() == "!agents\n"


def test_places_of_an_agent_and_its_lanes(tmp_path: Path) -> None:
    place = RootPaths(tmp_path / "root", tmp_path).agent("a")
    assert place.lock == tmp_path / "root/locks/a"
    assert place.lane_of("x").lock == tmp_path / "root/agents/a/once/x/lock"
    assert (place.queue, place.put_lock) == (place.dir / "queue", place.dir / "put.lock")


@pytest.mark.parametrize("name", ["", "../x", "A", "a/b", "a" * 65, "a\n"])
def test_a_path_is_never_built_of_what_is_no_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        RootPaths(tmp_path, tmp_path).agent(name)
    with pytest.raises(UsageError):
        RootPaths(tmp_path, tmp_path).agent("a").lane_of(name)


def test_junk_among_the_agents_is_not_an_agent(root: RootPaths) -> None:
    (root.root / "agents" / "a file").write_text("")
    (root.root / "agents" / "file").write_text("")
    for name in ("b", "a", "Capital", ".hidden"):
        (root.root / "agents" / name).mkdir()
    assert root.agents() == ["a", "b"]


def test_a_file_where_a_directory_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("")
    with pytest.raises(DiskError, match="root is a file"):
        directories.create(RootPaths(tmp_path / "root", tmp_path))
    with pytest.raises(DiskError, match="root is a file"):
        check(RootPaths(tmp_path / "root", tmp_path))


def test_a_disk_that_does_not_take_the_root_is_a_disk_error_with_a_next_step() -> None:
    with pytest.raises(DiskError, match=r"can't create /proc/nowhere.*--root DIR"):
        directories.create(RootPaths(Path("/proc/nowhere/root"), Path("/")))


# -- checking


def test_a_root_of_ones_own_passes(root: RootPaths) -> None:
    root.config_file.write_text("")
    root.config_file.chmod(0o644)
    check(root)
    check(RootPaths(root.root.parent / "absent", root.project))


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o702, 0o777])
def test_a_root_that_others_may_write_is_refused(root: RootPaths, mode: int) -> None:
    root.root.chmod(mode)
    with pytest.raises(DiskError, match="chmod go-w"):
        check(root)


def test_a_beam_yaml_that_others_may_write_is_refused(root: RootPaths) -> None:
    root.config_file.write_text("")
    root.config_file.chmod(0o646)
    with pytest.raises(ConfigError, match="chmod go-w"):
        check(root)


@pytest.mark.parametrize(
    ("uid", "gid", "members", "private"),
    [
        (1000, 1000, [], True),
        (1000, 1000, ["ann"], True),
        (1000, 1000, ["bob"], False),
        (1000, 5, [], False),
        (0, 0, [], False),
    ],
)
def test_a_group_counts_as_ones_own_only_where_nobody_else_is_in_it(
    uid: int, gid: int, members: list[str], private: bool
) -> None:
    user = pwd.struct_passwd(("ann", "x", uid, uid, "", "/home/ann", "/bin/sh"))
    assert directories.is_private_group(grp.struct_group(("ann", "x", gid, members)), user) is private


def test_roots_and_configurations_of_another_user_are_refused(root: RootPaths) -> None:
    with pytest.raises(DiskError, match="belongs to another user"):
        directories.check_owner(root, uid=os.getuid() + 1)
    bare = RootPaths(root.root.parent / "bare-root", root.root.parent / "bare")
    bare.project.mkdir()
    bare.config_file.write_text("")
    with pytest.raises(ConfigError, match="belongs to another user"):
        directories.check_owner(bare, uid=os.getuid() + 1)


def test_a_linked_root_is_refused_and_its_target_named(root: RootPaths, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root.root)
    with pytest.raises(DiskError, match=f"--root {root.root}"):
        check(RootPaths(tmp_path / "link", tmp_path))


def test_a_linked_beam_yaml_is_checked_where_it_lies(root: RootPaths, tmp_path: Path) -> None:
    target = tmp_path / "shared.yaml"
    target.write_text("")
    target.chmod(0o600)
    root.config_file.symlink_to(target)
    check(root)
    target.chmod(0o606)
    with pytest.raises(ConfigError, match="can be written by other users"):
        check(root)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        *(
            ("/x", "ext4"),
            ("/beam-n", "nfs4"),
            ("/beam-n/a", "nfs4"),
            ("/beam-ns", "ext4"),
            ("/beam-n/local/a", "btrfs"),
        ),
        *(("/beam-m/two words/a", "fuse.sshfs"), ("/beam-o/a", "9p")),
    ],
)
def test_the_file_system_is_that_of_the_nearest_topmost_mount(path: str, kind: str) -> None:
    assert directories.filesystem_of(Path(path), MOUNTINFO) == kind
    assert directories.filesystem_of(Path(path), "") == ""


@pytest.mark.parametrize(
    ("where", "kind"), [("/beam-n/a", "nfs4"), ("/beam-m/two words", "fuse.sshfs"), ("/beam-o", "9p")]
)
def test_file_systems_without_dependable_locks_are_refused_unless_allowed(where: str, kind: str) -> None:
    shared = RootPaths(Path(where) / "root", Path("/"))
    with pytest.raises(DiskError, match=f"allow_fs: .{kind}"):
        directories.check_filesystem(shared, mountinfo=MOUNTINFO)
    directories.check_filesystem(shared, mountinfo=MOUNTINFO, allow_fs=[kind])
    directories.check_filesystem(shared, mountinfo=MOUNTINFO, allow_fs=["nfs", "fuse", "9p"])
    with pytest.raises(DiskError):
        directories.check_filesystem(shared, mountinfo=MOUNTINFO, allow_fs=["smb"])


# -- the user's directories


def test_xdg_directories_are_absolute_or_the_default() -> None:
    assert paths.state_dir({"HOME": "/h"}) == Path("/h/.local/state/beam")
    assert paths.state_dir({"HOME": "/h", "XDG_STATE_HOME": "/s"}) == Path("/s/beam")
    assert paths.config_dir({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == Path("/h/.config/beam")
    assert paths.config_dir({}).is_absolute()


def test_each_part_of_an_agent_has_its_own_place(root: RootPaths) -> None:
    agent = root.agent("planner")
    names = ("asks", "journal", "control")
    found = {name: getattr(agent, name) for name in names}
    assert len(set(found.values())) == len(names)
    assert all(path.is_relative_to(agent.dir) for path in found.values())
    assert found["journal"] == agent.dir / "journal"
