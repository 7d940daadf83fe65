"""The submodules of a work tree are those that real git has in its index, however that is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.trust.git_index import submodules
from tests.trust.test_git_config import git

NAMES = ("a/b/deep", "a/b/deeper", "with space", "ünï", "x" * 200)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A work tree with files before, between and after its submodules."""
    made = tmp_path / "work"
    made.mkdir()
    git(made, "init", "-q")
    for name in ("0", "a.txt", "b.txt", "zz"):
        (made / name).write_text("x\n")
    git(made, "add", "-A")
    for name in NAMES:
        git(made, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{name}")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("how", ["2", "3", "4"])
def test_submodules_are_found_in_every_version_of_an_index(work: Path, how: str) -> None:
    if how == "3":
        git(work, "update-index", "--skip-worktree", "0", "zz")
    else:
        git(work, "update-index", "--index-version", how)
    data = (work / ".git/index").read_bytes()
    assert int.from_bytes(data[4:8], "big") == int(how)
    assert sorted(submodules(data)) == sorted(NAMES)


@pytest.mark.slow
def test_submodules_are_found_where_names_of_objects_are_longer(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 64},sub")
    git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{'2' * 64},sub2/a")
    assert submodules((tmp_path / ".git/index").read_bytes()) == ["sub", "sub2/a"]


@pytest.mark.slow
def test_a_work_tree_without_any_has_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("x")
    git(tmp_path, "add", "-A")
    assert submodules((tmp_path / ".git/index").read_bytes()) == []


def index(*names: str, mode: int = 0o160000, tail: bytes = b"") -> bytes:
    """An index of version 2 with these entries."""
    data = b"DIRC" + (2).to_bytes(4, "big") + len(names).to_bytes(4, "big")
    for name in names:
        entry = bytes(24) + mode.to_bytes(4, "big") + bytes(12) + bytes(20) + bytes(2) + name.encode()
        data += entry + bytes(8 - len(entry) % 8)
    return data + tail + bytes(20)


def test_entries_and_extensions_of_an_index_are_read_to_its_end() -> None:
    extension = b"TREE" + (3).to_bytes(4, "big") + b"abc"
    assert submodules(index("a", "b/c")) == ["a", "b/c"]
    assert submodules(index("a", tail=extension * 2)) == ["a"]


@pytest.mark.parametrize("tail", [b"x", b"TREE", b"TREE" + (9).to_bytes(4, "big") + b"abc", bytes(7)])
def test_what_stands_after_the_entries_and_is_no_extension_makes_it_no_index(tail: bytes) -> None:
    with pytest.raises(ValueError, match="its entries can't be read"):
        submodules(index("a", tail=tail))


@pytest.mark.parametrize("data", [b"", b"DIRC", b"nothing of the kind", b"DIRC\0\0\0\x09\0\0\0\x01\0\0\xe0\0"])
def test_what_is_no_index_is_reported(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it is no index|can't be read"):
        submodules(data)


@pytest.mark.slow
@given(st.binary(max_size=300), st.integers(0, 5), st.integers(0, 9))
def test_any_bytes_are_read_or_refused(data: bytes, version: int, count: int) -> None:
    head = b"DIRC" + version.to_bytes(4, "big") + count.to_bytes(4, "big") + b"\0" * 24 + b"\0\0\xe0\0"
    try:
        assert all(isinstance(name, str) for name in submodules(head + data))
    except ValueError as error:
        assert str(error) == "its entries can't be read"


# -- an index, byte by byte ------------------------------------------------------------------------------------------


def entry(
    name: bytes, *, mode: int = 0o160000, size: int = 20, flags: int = 0, version: int = 2, gone: bytes = b""
) -> bytes:
    """One entry as git writes it."""
    extended = b"\0\0" if flags & 0x4000 else b""
    data = bytes(24) + mode.to_bytes(4, "big") + bytes(12) + bytes(size) + flags.to_bytes(2, "big") + extended
    if version == 4:
        return data + gone + name + b"\0"
    data += name
    return data + bytes(8 - len(data) % 8)


def whole(version: int, *entries: bytes, size: int = 20, count: int | None = None) -> bytes:
    head = b"DIRC" + version.to_bytes(4, "big") + (len(entries) if count is None else count).to_bytes(4, "big")
    return head + b"".join(entries) + bytes(size)


@pytest.mark.parametrize("size", [20, 32])
@pytest.mark.parametrize("name", [b"a" * length for length in range(1, 10)])
def test_a_path_of_any_length_is_read_to_its_end(name: bytes, size: int) -> None:
    data = whole(2, entry(name, size=size), entry(b"z/" + name, size=size), size=size)
    assert submodules(data) == [name.decode(), f"z/{name.decode()}"]


def test_only_submodules_are_reported_and_names_that_are_no_utf_8_are_kept() -> None:
    kinds = [entry(b"a", mode=mode) for mode in (0o100644, 0o120000, 0o40000)]
    assert submodules(whole(2, *kinds, entry(b"b\xff"), entry(b"b\xff"))) == ["b\udcff"]
    assert submodules(whole(2, *kinds)) == []
    assert submodules(whole(3, entry(b"a", flags=0x4000), entry(b"b", flags=1))) == ["a", "b"]


@pytest.mark.parametrize(
    ("names", "gone"),
    [
        ([b"dir/a", b"b"], [b"\0", b"\1"]),
        ([b"x" * 200, b"y"], [b"\0", b"\x80\x48"]),
        ([b"x" * 17000, b"y"], [b"\0", b"\x80\x83\x68"]),
    ],
)
def test_of_version_4_each_path_has_only_what_differs_from_the_one_before(
    names: list[bytes], gone: list[bytes]
) -> None:
    data = whole(4, *[entry(name, version=4, gone=less) for name, less in zip(names, gone, strict=True)])
    kept = {b"\1": 4, b"\x80\x48": 0, b"\x80\x83\x68": 0}[gone[1]]
    assert submodules(data) == [names[0].decode(), (names[0][:kept] + names[1]).decode()]


@pytest.mark.parametrize(
    "data",
    [
        whole(1, entry(b"a")),
        whole(5, entry(b"a")),
        whole(2, entry(b"a"), count=2),
        whole(2, entry(b"a", mode=0o160000), entry(b"b", mode=0o10000)),
        whole(2, entry(b"")),
        whole(4, entry(b"a", version=4, gone=b"\1")),
        whole(4, entry(b"a", version=4, gone=b"\0"))[:-22] + b"aa",
    ],
    ids=range(7),
)
def test_entries_that_make_no_sense_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="its entries can't be read"):
        submodules(data)
