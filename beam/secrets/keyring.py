"""Reads and writes keys in the system's keyring. The package `keyring` is optional, and is imported when a key is
used."""

from __future__ import annotations

import importlib
import re
from typing import Any

from beam.base.errors import NotFoundError, UnsupportedError, UsageError

_SERVICE = "beam"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


def read(name: str) -> str:
    """Return the key with this name. Raises NotFoundError for an unknown name, UnsupportedError without a keyring."""
    found = _opened().get_password(_SERVICE, name)
    if not found:
        raise NotFoundError(f"the keyring has no key {name!r} of beam's", f"beam secret set {name}", subject=name)
    return str(found)


def is_name(name: str) -> bool:
    """Return whether a key may have this name."""
    return _NAME.match(name) is not None


def store(name: str, key: str) -> None:
    """Store a key under this name. Raises UsageError for an invalid name or key, UnsupportedError without a keyring."""
    if not is_name(name):
        raise UsageError(f"{name[:80]!r} is not a name for a key", "letters, digits, _ . and -", subject=name[:80])
    if not key or any(sign.isspace() or not sign.isprintable() for sign in key):
        raise UsageError("that is no key", "give it on stdin: beam secret set NAME < FILE")
    _opened().set_password(_SERVICE, name, key)


def remove(name: str) -> None:
    """Remove the key with this name. Raises NotFoundError for an unknown name, UnsupportedError without a keyring."""
    read(name)
    _opened().delete_password(_SERVICE, name)


def _opened() -> Any:
    try:
        found = importlib.import_module("keyring")
    except ImportError:
        raise UnsupportedError(
            "the package `keyring` is not installed", "pip install 'beam-agents[keyring]', or give --shield fd:3"
        ) from None
    if getattr(found.get_keyring(), "priority", 0) <= 0:
        raise UnsupportedError(
            "this system has no keyring", "give the key on a descriptor: --shield fd:3 3< <(a command that prints it)"
        )
    return found
