"""What settings files were parsed to is remembered for the same bytes, and never trusted where it may be wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beam.base.errors import ConfigError
from beam.config import resolve
from beam.config.source import PARSED_JSON, ParsedFiles
from beam.root.paths import RootPaths

YAML = b"agents:\n  x: {command: [cat, -u], retries: 2, timeout: 1.5}\ndefaults: {access: read}\n"
WHERE = Path("/p/beam.yaml")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def remembered(root: Path, data: bytes = YAML) -> tuple[object, object]:
    """What parsing returned; the root remembers it now, if it may."""
    parsed = ParsedFiles(root)
    found = parsed.parse(data, WHERE)
    parsed.remember()
    return found


@pytest.mark.slow
def test_the_same_bytes_are_not_parsed_again(root: Path) -> None:
    first = remembered(root)
    code = (
        "import sys; from pathlib import Path; from beam.config.source import ParsedFiles\n"
        f"found = ParsedFiles(Path({str(root)!r})).parse({YAML!r}, Path({str(WHERE)!r}))\n"
        "assert 'yaml' not in sys.modules\nprint(repr(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr(first)
    assert (root / PARSED_JSON).stat().st_mode & 0o077 == 0


def test_other_bytes_are_parsed_and_take_its_place(root: Path) -> None:
    remembered(root)
    changed = YAML.replace(b"retries: 2", b"retries: 3")
    assert remembered(root, changed)[0] != remembered(root)[0]
    assert remembered(root, changed) == ParsedFiles().parse(changed, WHERE)


def test_an_error_names_the_line_though_nothing_is_parsed(root: Path, tmp_path: Path) -> None:
    home = RootPaths(root, tmp_path)
    home.config_file.write_text("agents:\n  x:\n    command: [cat]\n    nonsense: 1\n")

    def load() -> None:
        resolve.load(home, environ={"HOME": str(tmp_path)}, adapters=("command",), remembers=True)

    with pytest.raises(ConfigError, match="line 4") as first:
        load()
    remembered(root, home.config_file.read_bytes())
    with pytest.raises(ConfigError) as second:
        load()
    assert str(second.value) == str(first.value)


@pytest.mark.parametrize(
    "data",
    [
        b"agents: {x: {command: [cat], env: {TOKEN: abc}}}",
        b"agents: {x: {command: [curl, 'https://me:hunter2hunter2@example.com']}}",
        b"agents: {x: {command: [cat], timeout: .inf}}",
        b"agents: {x: {command: [cat], timeout: 2001-01-01}}",
    ],
    ids=["variables", "a key", "an infinity", "a date"],
)
def test_what_may_be_a_secret_or_changes_in_json_is_not_remembered(root: Path, data: bytes) -> None:
    remembered(root, data)
    assert not (root / PARSED_JSON).exists()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"v":"0 0.0.0","files":{}}', b"\0" * 300])
def test_a_damaged_file_is_as_none(root: Path, damage: bytes) -> None:
    first = remembered(root)
    (root / PARSED_JSON).write_bytes(damage)
    assert remembered(root) == first


def test_a_link_in_its_place_is_not_followed(root: Path, tmp_path: Path) -> None:
    remembered(root)
    elsewhere = tmp_path / "elsewhere"
    (root / PARSED_JSON).rename(elsewhere)
    elsewhere.write_bytes(elsewhere.read_bytes().replace(b"cat", b"rm "))
    (root / PARSED_JSON).symlink_to(elsewhere)
    assert remembered(root) == ParsedFiles().parse(YAML, WHERE)


def test_no_root_is_made_for_it(tmp_path: Path) -> None:
    remembered(tmp_path / "none")
    assert not (tmp_path / "none").exists()
