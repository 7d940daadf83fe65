"""Keys in the system's own keyring, which a module of that name plays here."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from beam.base.errors import NotFoundError, UsageError
from beam.secrets import keyring


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}

    class Backend:
        priority = 1

    played = SimpleNamespace(
        get_keyring=Backend,
        get_password=lambda *name: found.get(name),
        set_password=lambda service, name, key: found.update({(service, name): key}),
        delete_password=lambda *name: found.pop(name),
        errors=SimpleNamespace(KeyringError=OSError, NoKeyringError=OSError),
    )
    monkeypatch.setitem(sys.modules, "keyring", played)
    monkeypatch.setitem(sys.modules, "keyring.errors", played.errors)
    return found


@pytest.mark.parametrize("name", ["a", "work", "A.b_c-9", "9", "x" * 64])
def test_a_key_is_kept_read_and_removed_by_its_name(kept: dict[tuple[str, str], str], name: str) -> None:
    keyring.store(name, "k-1")
    assert kept == {("beam", name): "k-1"} and keyring.read(name) == "k-1"
    keyring.remove(name)
    assert kept == {}
    with pytest.raises(NotFoundError):
        keyring.read(name)


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a/b", "a\n", "x" * 65])
def test_what_is_no_name_keeps_nothing(kept: dict[tuple[str, str], str], name: str) -> None:
    with pytest.raises(UsageError, match="not a name"):
        keyring.store(name, "k-1")
    assert kept == {}


@pytest.mark.parametrize("key", ["", "two words", "a\nb", "a\x00"])
def test_what_is_no_key_is_not_kept(kept: dict[tuple[str, str], str], key: str) -> None:
    with pytest.raises(UsageError, match="no key"):
        keyring.store("work", key)
    assert kept == {}
