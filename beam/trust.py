"""Which folders this user trusts to run code, and which agent.json files beam itself wrote.

Kept in `$XDG_STATE_HOME/beam/trust.json`, outside every folder that it speaks of. Must not know: who asks the user.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from beam import files
from beam.config import AGENT_JSON, Resolved, wants_code
from beam.errors import CorruptError, DiskError
from beam.home import state_dir

VARIABLE = "BEAM_TRUST"


class Folder(Struct, frozen=True):
    """A trusted folder: its real path, and what tells it from another that is put in its place."""

    path: str
    device: int
    inode: int


class _Store(Struct, frozen=True):
    v: int = 1
    folders: tuple[Folder, ...] = ()
    files: dict[str, str] = {}  # real path -> SHA-256 of the content, hex


def refusal(resolved: Resolved, environ: Mapping[str, str]) -> str | None:
    """Why this agent may not run before its folder is trusted; None if it may.

    An agent.json that is still as `beam agent add` wrote it needs no trust.
    """
    if wants_code(resolved) is None:
        return None
    own = resolved.agent_file
    vouched = (AGENT_JSON,) if own and is_remembered(own.path, own.digest, environ) else ()
    reason = wants_code(resolved, vouched=vouched)
    return None if reason is None or is_trusted(resolved.base, environ) else reason


def is_trusted(base: Path, environ: Mapping[str, str]) -> bool:
    """Whether the user trusted this very folder; `BEAM_TRUST=1` trusts any."""
    if environ.get(VARIABLE) == "1":
        return True
    folders = _load(environ).folders
    return bool(folders) and _identity(base) in folders


def trust(base: Path, environ: Mapping[str, str]) -> None:
    """Trusts this folder from now on."""
    folder = _identity(base)
    if folder is None:
        raise DiskError(f"there is no folder {base}", "trust a folder that exists", subject=str(base))
    with _changing(environ) as store:
        others = tuple(other for other in store.folders if other.path != folder.path)
        _save(msgspec.structs.replace(store, folders=(*others, folder)), environ)


def untrust(base: Path, environ: Mapping[str, str]) -> bool:
    """Trusts this folder no longer; whether it was trusted."""
    path = _real(base)
    with _changing(environ) as store:
        others = tuple(folder for folder in store.folders if folder.path != path)
        if len(others) == len(store.folders):
            return False
        _save(msgspec.structs.replace(store, folders=others), environ)
    return True


def trusted(environ: Mapping[str, str]) -> list[Path]:
    """Every trusted folder that is still the one it was, sorted."""
    folders = _load(environ).folders
    return sorted(Path(folder.path) for folder in folders if _identity(Path(folder.path)) == folder)


def remember(path: Path, digest: str, environ: Mapping[str, str]) -> None:
    """Vouches for a file as long as its content has this SHA-256 (hex)."""
    with _changing(environ) as store:
        _save(msgspec.structs.replace(store, files={**store.files, _real(path): digest}), environ)


def forget(path: Path, environ: Mapping[str, str]) -> None:
    """Vouches for the file no longer."""
    real = _real(path)
    with _changing(environ) as store:
        if real in store.files:
            rest = {name: digest for name, digest in store.files.items() if name != real}
            _save(msgspec.structs.replace(store, files=rest), environ)


def is_remembered(path: Path, digest: str, environ: Mapping[str, str]) -> bool:
    """Whether beam wrote the file with this content."""
    return _load(environ).files.get(_real(path)) == digest


def _identity(base: Path) -> Folder | None:
    try:
        found = base.stat()
    except OSError:
        return None
    return Folder(_real(base), found.st_dev, found.st_ino)


def _real(path: Path) -> str:
    """The real path as JSON can hold it: bytes that are no UTF-8 become \\x escapes."""
    return os.fsencode(os.path.realpath(path)).decode(errors="backslashreplace")


def _file(environ: Mapping[str, str]) -> Path:
    return state_dir(environ) / "trust.json"


def _load(environ: Mapping[str, str]) -> _Store:
    path = _file(environ)
    try:
        data = files.read(path, follow=True)
        found = path.stat()
    except FileNotFoundError:
        return _Store()
    except OSError as error:
        raise files.disk_error("read", path, error) from error
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        hint = f"look into it; chmod 600 {path} if it is yours, else remove it and trust anew"
        raise DiskError(f"{path} can be written by other users", hint, subject=str(path))
    try:
        return msgspec.json.decode(data, type=_Store)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        hint = "remove it and trust your folders anew: beam trust"
        raise CorruptError(f"{path} is not what beam wrote: {error}", hint, subject=str(path)) from error


def _save(store: _Store, environ: Mapping[str, str]) -> None:
    files.replace(_file(environ), msgspec.json.format(msgspec.json.encode(store)) + b"\n")


@contextlib.contextmanager
def _changing(environ: Mapping[str, str]) -> Iterator[_Store]:
    """What is stored, while nobody else changes it."""
    path = _file(environ)
    files.make_directory(path.parent)
    with files.disk("lock", path):
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with files.disk("lock", path):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield _load(environ)
    finally:
        os.close(lock)
