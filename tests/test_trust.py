"""Trust is for one folder, by one user, and says no when in doubt."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from beam import config, trust
from beam.errors import CorruptError, DiskError
from beam.home import Home, create

ADAPTERS = ("claude", "command")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "user")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def test_a_folder_is_trusted_until_it_is_not(folder: Path, environ: dict[str, str]) -> None:
    assert not trust.is_trusted(folder, environ)
    trust.trust(folder, environ)
    trust.trust(folder, environ)
    assert trust.is_trusted(folder, environ)
    assert trust.trusted(environ) == [folder]
    assert trust.untrust(folder, environ)
    assert not trust.untrust(folder, environ)
    assert not trust.is_trusted(folder, environ)


def test_trust_is_private_to_the_user(folder: Path, environ: dict[str, str]) -> None:
    trust.trust(folder, environ)
    stored = Path(environ["HOME"]) / ".local/state/beam/trust.json"
    assert stored.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in stored.parent.iterdir()) == ["trust.json", "trust.lock"]


def test_asking_writes_nothing(folder: Path, environ: dict[str, str]) -> None:
    assert not trust.is_trusted(folder, environ)
    assert not Path(environ["HOME"]).exists()


def test_trust_is_for_the_folder_itself_not_for_one_inside_or_around_it(folder: Path, environ: dict[str, str]) -> None:
    (folder / "inner").mkdir()
    trust.trust(folder, environ)
    assert not trust.is_trusted(folder / "inner", environ)
    assert not trust.is_trusted(folder.parent, environ)


def test_a_link_to_a_trusted_folder_is_that_folder(folder: Path, environ: dict[str, str]) -> None:
    trust.trust(folder, environ)
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert trust.is_trusted(link, environ)


def test_another_folder_in_its_place_is_not_trusted(folder: Path, environ: dict[str, str]) -> None:
    trust.trust(folder, environ)
    folder.rename(folder.parent / "moved")
    assert trust.trusted(environ) == []
    folder.mkdir()
    assert not trust.is_trusted(folder, environ)
    assert not trust.is_trusted(folder.parent / "moved", environ)


def test_the_variable_trusts_any_folder_only_when_it_is_1(folder: Path, environ: dict[str, str]) -> None:
    assert trust.is_trusted(folder, {**environ, "BEAM_TRUST": "1"})
    assert not trust.is_trusted(folder, {**environ, "BEAM_TRUST": "0"})


def test_a_folder_that_is_not_there_can_not_be_trusted(folder: Path, environ: dict[str, str]) -> None:
    with pytest.raises(DiskError, match="no folder"):
        trust.trust(folder / "absent", environ)


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b'{"folders": [1]}', b"\xff"])
def test_a_corrupt_store_is_named_not_guessed_at(folder: Path, environ: dict[str, str], junk: bytes) -> None:
    trust.trust(folder, environ)
    stored = Path(environ["HOME"]) / ".local/state/beam/trust.json"
    stored.write_bytes(junk)
    for use in (trust.is_trusted, trust.trust):
        with pytest.raises(CorruptError, match=r"trust\.json"):
            use(folder, environ)
    assert stored.read_bytes() == junk


def test_a_store_that_others_may_write_is_refused(folder: Path, environ: dict[str, str]) -> None:
    trust.trust(folder, environ)
    (Path(environ["HOME"]) / ".local/state/beam/trust.json").chmod(0o666)
    with pytest.raises(DiskError, match="other users"):
        trust.is_trusted(folder, environ)


def test_a_file_is_vouched_for_while_it_is_unchanged(folder: Path, environ: dict[str, str]) -> None:
    path = folder / "agent.json"
    assert not trust.is_remembered(path, "aa", environ)
    trust.remember(path, "aa", environ)
    assert trust.is_remembered(path, "aa", environ)
    assert not trust.is_remembered(path, "bb", environ)
    trust.forget(path, environ)
    assert not trust.is_remembered(path, "aa", environ)


def test_an_agent_that_runs_code_is_refused_until_its_folder_is_trusted(folder: Path, environ: dict[str, str]) -> None:
    (folder / "beam.yaml").write_text("agents: {a: {command: [make]}, b: {adapter: claude}}")
    loaded = config.load(Home(folder / ".beam"), environ=environ, adapters=ADAPTERS)
    assert trust.refusal(loaded.resolve("b"), environ) is None
    assert trust.refusal(loaded.resolve("a"), environ) == "beam.yaml has a run 'make'"
    trust.trust(folder, environ)
    assert trust.refusal(loaded.resolve("a"), environ) is None


def test_an_agent_json_that_beam_wrote_runs_until_someone_changes_it(folder: Path, environ: dict[str, str]) -> None:
    root = Home(folder / ".beam")
    place = root.agent("a")
    create(root, place)
    path = place.dir / "agent.json"
    path.write_bytes(b'{"command": ["make"]}')
    loaded = config.load(root, environ=environ, adapters=ADAPTERS)
    assert trust.refusal(loaded.resolve("a"), environ) == "agent.json has a run 'make'"
    trust.remember(path, hashlib.sha256(path.read_bytes()).hexdigest(), environ)
    assert trust.refusal(loaded.resolve("a"), environ) is None
    path.write_bytes(b'{"command": ["make", "all"]}')
    assert trust.refusal(loaded.resolve("a"), environ) is not None
