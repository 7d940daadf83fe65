"""Trust is of one folder with the content that it had, by one user, and says no when in doubt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam.base.errors import CorruptError, DiskError
from beam.model.autoloaded import Finding
from beam.trust import ledger
from beam.trust import scan as folders
from tests.support.trusted import trusted_folders

ENV, SETTINGS = Finding(name=".env", digest="aa", text="A=1\nB=2\n"), Finding(name=".cli/settings.json", digest="bb")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "user")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def store(environ: dict[str, str]) -> Path:
    return Path(environ["HOME"]) / ".local/state/beam/trust.json"


def is_trusted(folder: Path, environ: dict[str, str], *found: Finding) -> bool:
    return ledger.standing_of(folder, found, environ).trusted


def test_a_folder_is_trusted_until_it_is_not(folder: Path, environ: dict[str, str]) -> None:
    assert not is_trusted(folder, environ)
    ledger.trust(folder, [], environ)
    ledger.trust(folder, [], environ)
    assert is_trusted(folder, environ)
    assert trusted_folders(environ) == [folder]
    assert ledger.untrust(folder, environ)
    assert not ledger.untrust(folder, environ)
    assert not is_trusted(folder, environ)


def test_only_what_was_there_is_trusted(folder: Path, environ: dict[str, str]) -> None:
    ledger.trust(folder, [ENV], environ)
    assert is_trusted(folder, environ, ENV)
    assert is_trusted(folder, environ)
    standing = ledger.standing_of(folder, [ENV, SETTINGS], environ)
    assert (standing.trusted, standing.once) == (False, True)
    assert [(change.found.name, change.before) for change in standing.changes] == [(".cli/settings.json", None)]


def test_what_was_changed_is_not_trusted_and_its_new_lines_are_reported(folder: Path, environ: dict[str, str]) -> None:
    ledger.trust(folder, [ENV], environ)
    changed = Finding(name=".env", digest="cc", text="B=2\nC=3\n")
    (change,) = ledger.standing_of(folder, [changed], environ).changes
    assert ledger.new_lines(change) == (["C=3"], 1)
    assert "A=1" not in store(environ).read_text()
    ledger.trust(folder, [changed], environ)
    assert is_trusted(folder, environ, changed)
    assert not is_trusted(folder, environ, ENV)


def test_what_nobody_can_look_through_is_never_trusted(folder: Path, environ: dict[str, str]) -> None:
    monster = Finding(name=".env", digest="")
    ledger.trust(folder, [monster], environ)
    assert not is_trusted(folder, environ, monster)


def test_a_decision_renews_the_trust_in_what_it_changed(folder: Path, environ: dict[str, str]) -> None:
    ledger.trust(folder, [ENV, SETTINGS], environ)
    changed = Finding(name=".cli/settings.json", digest="cc")
    ledger.renew_finding(folder, changed, "ask-1", environ)
    assert is_trusted(folder, environ, ENV, changed)
    assert json.loads(store(environ).read_text())["folders"][0]["held"][".cli/settings.json"]["by"] == "ask-1"


def test_a_decision_renews_nothing_where_nothing_was_trusted(folder: Path, environ: dict[str, str]) -> None:
    ledger.renew_finding(folder, SETTINGS, "ask-1", environ)
    assert not is_trusted(folder, environ, SETTINGS)


def test_a_store_of_a_later_beam_is_refused_and_left_as_it_is(folder: Path, environ: dict[str, str]) -> None:
    ledger.trust(folder, [ENV], environ)
    later = store(environ).read_text().replace('"v": 1', '"v": 2')
    store(environ).write_text(later)
    for use in (lambda: is_trusted(folder, environ, ENV), lambda: ledger.trust(folder, [SETTINGS], environ)):
        with pytest.raises(CorruptError, match="of version 2, and this beam reads version 1"):
            use()
    assert store(environ).read_text() == later


def test_trust_is_private_to_the_user(folder: Path, environ: dict[str, str]) -> None:
    ledger.trust(folder, [], environ)
    assert store(environ).stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in store(environ).parent.iterdir()) == ["trust.json", "trust.lock"]


def test_asking_writes_nothing(folder: Path, environ: dict[str, str]) -> None:
    assert not is_trusted(folder, environ, ENV)
    assert not Path(environ["HOME"]).exists()


def test_trust_is_for_the_folder_itself_not_for_one_inside_or_around_it(folder: Path, environ: dict[str, str]) -> None:
    (folder / "inner").mkdir()
    ledger.trust(folder, [], environ)
    assert not is_trusted(folder / "inner", environ)
    assert not is_trusted(folder.parent, environ)


def test_a_link_to_a_trusted_folder_is_that_folder(folder: Path, environ: dict[str, str]) -> None:
    ledger.trust(folder, [], environ)
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert is_trusted(link, environ)


def test_another_folder_in_its_place_is_not_trusted(folder: Path, environ: dict[str, str]) -> None:
    ledger.trust(folder, [ENV], environ)
    folder.rename(folder.parent / "moved")
    assert trusted_folders(environ) == []
    folder.mkdir()
    assert ledger.standing_of(folder, [ENV], environ).another
    assert not is_trusted(folder.parent / "moved", environ, ENV)


def test_another_folder_that_got_the_inode_and_the_content_is_not_trusted(
    folder: Path, environ: dict[str, str]
) -> None:
    if not folders.birth_ns(folder, folder.stat()):
        pytest.skip("this file system does not tell when a folder was made")
    ledger.trust(folder, [ENV], environ)
    inode = folder.stat().st_ino
    folder.rmdir()
    folder.mkdir()
    if folder.stat().st_ino != inode:
        pytest.skip("this file system gives inodes but once")
    assert ledger.standing_of(folder, [ENV], environ).another


def test_the_variable_trusts_any_folder_only_when_it_is_1(folder: Path, environ: dict[str, str]) -> None:
    standing = ledger.standing_of(folder, [ENV], {**environ, "BEAM_TRUST": "1"})
    assert (standing.trusted, standing.by_variable) == (True, True)
    assert not is_trusted(folder, {**environ, "BEAM_TRUST": "0"}, ENV)
    ledger.trust(folder, [ENV], environ)
    assert not ledger.standing_of(folder, [ENV], {**environ, "BEAM_TRUST": "1"}).by_variable


def test_a_folder_that_is_not_there_can_not_be_trusted(folder: Path, environ: dict[str, str]) -> None:
    with pytest.raises(DiskError, match="no folder"):
        ledger.trust(folder / "absent", [], environ)


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b'{"folders": [1]}', b"\xff"])
def test_a_corrupt_store_is_named_not_guessed_at(folder: Path, environ: dict[str, str], junk: bytes) -> None:
    ledger.trust(folder, [], environ)
    store(environ).write_bytes(junk)
    for use in (ledger.standing_of, ledger.trust):
        with pytest.raises(CorruptError, match=r"trust\.json"):
            use(folder, [], environ)
    assert store(environ).read_bytes() == junk


def test_a_store_that_others_may_write_is_refused(folder: Path, environ: dict[str, str]) -> None:
    ledger.trust(folder, [], environ)
    store(environ).chmod(0o666)
    with pytest.raises(DiskError, match="other users"):
        ledger.standing_of(folder, [], environ)


def test_a_file_is_vouched_for_while_it_is_unchanged(folder: Path, environ: dict[str, str]) -> None:
    path = folder / "agent.json"
    assert not ledger.is_remembered(path, "aa", environ)
    ledger.remember_file(path, "aa", environ)
    assert ledger.is_remembered(path, "aa", environ)
    assert not ledger.is_remembered(path, "bb", environ)
