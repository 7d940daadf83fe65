"""A folder that somebody else packed is looked through without waiting, and whatever changes in it changes a digest."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from beam.model.autoloaded import AutoloadedFile, Finding
from beam.model.message import Access
from beam.trust import scan
from beam.trust.scan import birth_ns, find_obeyed, scan_files


@pytest.fixture
def base(tmp_path: Path) -> Path:
    made = tmp_path / "home" / "work"
    made.mkdir(parents=True)
    return made


def found(
    base: Path, *obeyed: AutoloadedFile, cwd: Path | None = None, access: Access = "read", **more: bool
) -> list[Finding]:
    return find_obeyed(base, cwd or base, obeyed, access=access, by="cli", home=base.parent, **more)


def digest(base: Path, path: str) -> str:
    (seen,) = scan_files(base, path)
    return seen.digest


def test_an_empty_folder_has_nothing_to_trust(base: Path) -> None:
    assert found(base, AutoloadedFile(path=".env"), AutoloadedFile(path=".dir"), AutoloadedFile(path="a/b/c")) == []


def test_a_file_counts_by_its_content(base: Path) -> None:
    (base / ".env").write_text("A=1\n")
    (before,) = found(base, AutoloadedFile(path=".env"))
    assert (before.name, before.text, before.by, before.ignored) == (".env", "A=1\n", ("cli",), False)
    (base / ".env").write_text("A=2\n")
    assert found(base, AutoloadedFile(path=".env"))[0].digest != before.digest


def test_a_directory_counts_by_every_file_in_it(base: Path) -> None:
    (base / ".dir/deep").mkdir(parents=True)
    for name in ("a", "deep/b", "deep/.c"):
        (base / ".dir" / name).write_text(name)
    assert [each.name for each in found(base, AutoloadedFile(path=".dir"))] == [".dir/a", ".dir/deep/.c", ".dir/deep/b"]


def test_only_what_counts_with_this_access_is_found_and_some_of_it_can_be_ignored(base: Path) -> None:
    (base / ".env").write_text("")
    obeyed = AutoloadedFile(path=".env", at=("read", "edit"), ignored=("read",))
    assert [each.ignored for each in found(base, obeyed)] == [True]
    assert [each.ignored for each in found(base, obeyed, access="edit")] == [False]
    assert [each.ignored for each in found(base, obeyed, ignoring=False)] == [False]
    assert found(base, obeyed, access="full") == []


@pytest.mark.slow
def test_a_file_counts_only_with_a_word_in_it_where_its_adapter_says_so(base: Path) -> None:
    obeyed = AutoloadedFile(path="c.json", says=("plugin", "\\u"))
    for text, count in (("{}", 0), ('{"plugin": []}', 1), ('{"\\u0070lugin": []}', 1), ("x" * (1 << 20), 1)):
        (base / "c.json").write_text(text)
        assert len(found(base, obeyed)) == count, text[:30]


def test_a_cli_that_looks_upwards_finds_what_lies_above_but_not_in_the_persons_own_home(base: Path) -> None:
    inner = base / "sub/inner"
    inner.mkdir(parents=True)
    for place in (inner, base / "sub", base, base.parent, base.parent.parent):
        (place / ".env").write_text("")
    names = {
        reach: [each.name for each in found(base, AutoloadedFile(path=".env", reach=reach), cwd=inner)]
        for reach in ("here", "worktree", "upward")
    }
    assert names["here"] == names["worktree"] == ["sub/inner/.env"]
    assert names["upward"] == ["sub/inner/.env", "sub/.env", ".env", "../../.env"]
    (base / "sub/.git").mkdir()
    assert [each.name for each in found(base, AutoloadedFile(path=".env", reach="worktree"), cwd=inner)] == [
        "sub/inner/.env",
        "sub/.env",
    ]


def test_nothing_in_the_persons_own_home_is_somebody_elses(base: Path) -> None:
    (base / ".env").write_text("")
    obeyed = [AutoloadedFile(path=".env", reach=reach) for reach in ("here", "upward")]
    assert find_obeyed(base, base, obeyed, access="read", by="cli", home=base) == []


def test_a_link_counts_by_being_one_and_by_what_it_points_at(base: Path) -> None:
    (base / "target").write_text("one")
    (base / ".env").write_text("one")
    plain = digest(base, ".env")
    (base / ".env").unlink()
    (base / ".env").symlink_to("target")
    linked = digest(base, ".env")
    (base / "target").write_text("two")
    changed = digest(base, ".env")
    (base / "target").unlink()
    dangling = digest(base, ".env")
    (base / "other").write_text("one")
    (base / ".env").unlink()
    (base / ".env").symlink_to("other")
    assert len({plain, linked, changed, dangling, digest(base, ".env")}) == 5


def test_a_file_can_not_stand_for_a_link(base: Path) -> None:
    (base / "target").write_text("one")
    (base / ".env").symlink_to("target")
    linked = digest(base, ".env")
    (base / ".env").unlink()
    for text in ("7 target\0one", "target\0one"):
        (base / ".env").write_text(text)
        assert digest(base, ".env") != linked


def test_a_directory_that_is_a_link_counts_by_what_is_in_the_other(base: Path) -> None:
    (base / "real").mkdir()
    (base / "real/settings.json").write_text("{}")
    (base / ".dir").symlink_to("real")
    (seen,) = scan_files(base, ".dir")
    named = digest(base, ".dir/settings.json")
    (base / ".dir").unlink()
    (base / "real").rename(base / ".dir")
    assert seen.path == base / ".dir/settings.json"
    assert seen.digest == named != digest(base, ".dir/settings.json")


def test_a_link_to_itself_is_something(base: Path) -> None:
    (base / ".env").symlink_to(".env")
    assert digest(base, ".env")


def test_directories_that_are_links_to_those_around_them_end(base: Path) -> None:
    (base / ".dir").mkdir()
    (base / ".dir/again").symlink_to(".")
    (seen,) = scan_files(base, ".dir")
    assert seen.digest == ""


def test_what_is_no_regular_file_is_there_and_never_opened(base: Path) -> None:
    os.mkfifo(base / ".env")
    fifo = digest(base, ".env")
    (base / ".env").unlink()
    with contextlib.chdir(base), socket.socket(socket.AF_UNIX) as server:  # its name may be short, its path not
        server.bind(".env")
        other = digest(base, ".env")
        (base / ".env").unlink()
    (base / ".env").symlink_to("/dev/zero")
    assert len({fifo, other, digest(base, ".env"), ""}) == 4


@pytest.mark.slow
def test_more_than_beam_looks_through_has_no_digest(base: Path) -> None:
    with (base / ".env").open("wb") as file:
        file.truncate(8 << 30)
    assert digest(base, ".env") == ""
    (base / ".dir").mkdir()
    for number in range(scan.MAX_FILES + 1):
        (base / ".dir" / str(number)).touch()
    assert digest(base, ".dir") == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_can_not_be_read_is_there(base: Path) -> None:
    (base / ".env").write_text("")
    (base / ".env").chmod(0)
    assert digest(base, ".env")


def test_a_name_that_is_no_utf8_can_be_told(base: Path) -> None:
    (base / ".dir").mkdir()
    (base / os.fsdecode(b".dir/\xff")).write_text("")
    assert [each.name for each in found(base, AutoloadedFile(path=".dir"))] == [".dir/\\xff"]


def test_the_birth_of_a_folder_tells_it_from_one_that_got_its_inode(base: Path) -> None:
    born = scan.birth_ns(base, base.stat())
    if not born:
        pytest.skip("this file system does not tell")
    base.rmdir()
    base.mkdir()
    assert scan.birth_ns(base, base.stat()) != born


@pytest.mark.slow
def test_when_a_folder_was_created_is_what_the_system_says(base: Path) -> None:
    told = int(subprocess.run(["stat", "--printf", "%W", str(base)], capture_output=True, check=True).stdout)
    born = birth_ns(base, base.stat())
    assert (born or 0) // 1_000_000_000 == told, "0: unknown"


def test_when_a_folder_was_created_is_in_its_status_on_some_systems(base: Path) -> None:
    assert birth_ns(base, SimpleNamespace(st_birthtime=1.5)) == 1_500_000_000  # type: ignore[arg-type]
