"""Stores which folders this user trusts to run code, with digests of the trusted content, and which agent.json files
beam wrote.

Trust covers one folder (its path, device, inode and time of birth) with the content that the folder had when it was
trusted. New or changed content is not trusted. The store is `$XDG_STATE_HOME/beam/trust.json`, outside of every trusted
folder. Does not depend on how a folder is searched, or on how the user is asked.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from beam.base import files, typed_values
from beam.base.errors import CorruptError, DiskError
from beam.model.autoloaded import Finding
from beam.root.paths import state_dir
from beam.trust.scan import birth_ns, digest_of

TRUST_VARIABLE = "BEAM_TRUST"
_VERSION = 1
_MAX_BYTES = 64 << 20
_MAX_LINES = 400  # largest number of lines of a file whose digests are stored


class TrustedFinding(Struct, frozen=True, omit_defaults=True):
    """The trusted state of one finding. `digest` is the digest of its content. `lines` has a short digest of each of
    its lines, separated by blanks; "" if it has no text, or too many lines. `by` is the id of the person's decision
    that changed the finding after the folder was trusted; "" if there was no such decision."""

    digest: str
    lines: str = ""
    by: str = ""


class TrustedFolder(Struct, frozen=True):
    """A trusted folder: its real path, its identity (device, inode and time of birth), and its trusted findings by name
    (`held`)."""

    path: str
    device: int
    inode: int
    birth_ns: int | None = None
    held: dict[str, TrustedFinding] = {}


class _Store(Struct, frozen=True):
    v: int = _VERSION
    folders: tuple[TrustedFolder, ...] = ()
    files: dict[str, str] = {}  # real path -> SHA-256 of the content, hex


class Change(Struct, frozen=True, kw_only=True):
    """A finding that differs from its trusted state. `before` is the trusted state; None if the finding is new."""

    found: Finding
    before: TrustedFinding | None


class Standing(Struct, frozen=True, kw_only=True):
    """Whether the findings in a folder are trusted.

    `trusted`: all of them may take effect. If not, `changes` are the differences from the trusted state. `once`: the
    user has trusted this folder before. `another`: the user has trusted a different folder that had this path before.
    `by_variable`: the findings are trusted only because of BEAM_TRUST.
    """

    trusted: bool
    once: bool = False
    another: bool = False
    changes: tuple[Change, ...] = ()
    by_variable: bool = False


def standing_of(base: Path, found: Iterable[Finding], environ: Mapping[str, str]) -> Standing:
    """Return whether these findings in the folder are trusted, compared with the stored state. With `BEAM_TRUST=1` in
    `environ`, everything is trusted."""
    standing = _stored_standing(base, tuple(found), environ)
    if environ.get(TRUST_VARIABLE) == "1" and not standing.trusted:
        return Standing(trusted=True, by_variable=bool(standing.changes))
    return standing


def _stored_standing(base: Path, found: tuple[Finding, ...], environ: Mapping[str, str]) -> Standing:
    real = _real_path(base)
    folder = next((each for each in _load(environ).folders if each.path == real), None)
    if folder is None:
        return Standing(trusted=False, changes=_changes(found, {}))
    if not _is_same_folder(folder, base):
        return Standing(trusted=False, another=True, changes=_changes(found, {}))
    changes = _changes(found, folder.held)
    return Standing(trusted=not changes, once=True, changes=changes)


def _changes(found: Iterable[Finding], held: Mapping[str, TrustedFinding]) -> tuple[Change, ...]:
    return tuple(
        Change(found=each, before=before)
        for each in found
        if (before := held.get(each.name)) is None or before.digest != each.digest or not each.digest
    )


def trust(base: Path, found: Iterable[Finding], environ: Mapping[str, str]) -> None:
    """Record that this folder is trusted with these findings. Raises DiskError if there is no such folder."""
    folder = _identity(base)
    if folder is None:
        raise DiskError(f"there is no folder {base}", "trust a folder that exists", subject=str(base))
    held = {each.name: _trusted_finding(each) for each in found}
    with _locked_store(environ) as store:
        _save(_with_folder(store, structs.replace(folder, held=held)), environ)


def renew_finding(base: Path, found: Finding, by: str, environ: Mapping[str, str]) -> None:
    """Record the present state of one finding in a trusted folder as trusted, because a person's decision changed it.
    `by` is the id of that decision. If the folder is not trusted, nothing changes."""
    with _locked_store(environ) as store:
        folder = next((each for each in store.folders if each.path == _real_path(base)), None)
        if folder is not None and _is_same_folder(folder, base):
            held = {**folder.held, found.name: structs.replace(_trusted_finding(found), by=by)}
            _save(_with_folder(store, structs.replace(folder, held=held)), environ)


def untrust(base: Path, environ: Mapping[str, str]) -> bool:
    """Revoke the trust in this folder; return whether the folder was trusted."""
    real = _real_path(base)
    with _locked_store(environ) as store:
        others = tuple(folder for folder in store.folders if folder.path != real)
        if len(others) == len(store.folders):
            return False
        _save(structs.replace(store, folders=others), environ)
    return True


def new_lines(change: Change) -> tuple[list[str], int]:
    """Return the lines that were added to a changed file, and the number of removed lines. Return an empty list and 0
    if beam recorded no lines of the file."""
    text, before = change.found.text, change.before
    if text is None or (before is not None and not before.lines):
        return [], 0
    had = set(before.lines.split()) if before is not None else set()
    lines = text.splitlines()
    now = {_line_digest(line) for line in lines}
    return [line for line in lines if _line_digest(line) not in had], len(had - now)


def _trusted_finding(found: Finding) -> TrustedFinding:
    lines = [] if found.text is None else found.text.splitlines()
    return TrustedFinding(
        digest=found.digest, lines=" ".join(map(_line_digest, lines)) if len(lines) <= _MAX_LINES else ""
    )


def _line_digest(text: str) -> str:
    return digest_of(text)[:12]


def _with_folder(store: _Store, folder: TrustedFolder) -> _Store:
    others = tuple(other for other in store.folders if other.path != folder.path)
    return structs.replace(store, folders=(*others, folder))


# -- agent.json files --------------------------------------------------------------------------------------------------


def remember_file(path: Path, digest: str, environ: Mapping[str, str]) -> None:
    """Record that beam wrote this file. The record is valid as long as the file's content has this SHA-256 digest
    (hex)."""
    with _locked_store(environ) as store:
        _save(structs.replace(store, files={**store.files, _real_path(path): digest}), environ)


def is_remembered(path: Path, digest: str, environ: Mapping[str, str]) -> bool:
    """Return whether beam is recorded as the writer of this file with this digest."""
    return _load(environ).files.get(_real_path(path)) == digest


# -- the store ---------------------------------------------------------------------------------------------------------


def _identity(base: Path) -> TrustedFolder | None:
    try:
        found = base.stat()
    except OSError:
        return None
    return TrustedFolder(_real_path(base), found.st_dev, found.st_ino, birth_ns(base, found))


def _is_same_folder(folder: TrustedFolder, base: Path) -> bool:
    """Return whether the folder at `base` is the trusted folder, and not another one with the same path.

    An inode may be reused as soon as a folder is removed, so the time of birth is compared, too, if the file system
    provides it.
    """
    try:
        found = base.stat()
    except OSError:
        return False
    now = (_real_path(base), found.st_dev, found.st_ino, birth_ns(base, found))
    return (folder.path, folder.device, folder.inode, folder.birth_ns) == now


def _real_path(path: Path) -> str:
    """Return the path with all links resolved, as text that JSON can hold: bytes that are not UTF-8 become \\x
    escapes."""
    return os.fsencode(os.path.realpath(path)).decode(errors="backslashreplace")


def store_path(environ: Mapping[str, str]) -> Path:
    """Return the path of trust.json."""
    return state_dir(environ) / "trust.json"


def _load(environ: Mapping[str, str]) -> _Store:
    file = store_path(environ)
    try:
        data = files.read(file, _MAX_BYTES, follow=True)
        found = file.stat()
    except FileNotFoundError:
        return _Store()
    except OSError as error:
        raise files.disk_error("read", file, error) from error
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        hint = f"look into it; chmod 600 {file} if it is yours, else remove it and trust anew"
        raise DiskError(f"{file} can be written by other users", hint, subject=str(file))
    try:
        store = typed_values.decode(data, _Store)
    except (ValueError, RecursionError) as error:
        hint = "remove it and trust your folders anew: beam trust"
        raise CorruptError(f"{file} is not what beam wrote: {error}", hint, subject=str(file)) from error
    if store.v != _VERSION:
        what = f"{file} is of version {store.v}, and this beam reads version {_VERSION}"
        raise CorruptError(what, "use the beam that wrote it", subject=str(file))
    return store


def _save(store: _Store, environ: Mapping[str, str]) -> None:
    files.replace(store_path(environ), msgspec.json.format(msgspec.json.encode(store)) + b"\n")


@contextlib.contextmanager
def _locked_store(environ: Mapping[str, str]) -> Iterator[_Store]:
    """Yield the stored content, and hold the store's lock until the caller's block ends."""
    file = store_path(environ)
    files.make_directory(file.parent)
    with files.disk_action("lock", file):
        lock = files.open_to_write(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    try:
        with files.disk_action("lock", file):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield _load(environ)
    finally:
        os.close(lock)
