"""Finds the root that belongs to a folder, and lists this user's roots.

A root is a directory in the user's state directory, and its name is made from the real path of its project folder. So
no file of a cloned folder, and no file that an agent with few rights writes, is part of beam's state. `project.json` in
the root names the project folder. Does not depend on the other content of a root.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from beam.base import files, typed_values
from beam.base.digest import sha256
from beam.base.errors import CorruptError, DiskError, UsageError
from beam.root import directories
from beam.root.paths import CONFIG_NAME, ROOT_DIRS, AgentPaths, RootPaths, state_dir, user_home
from beam.secrets.shown import blanked

FALSE_ROOT_NAME = ".beam"  # in a project folder it looks like state of beam, is named to a person, and never read
PROJECT_JSON = "project.json"
_PROJECTS = "projects"
_NAMED_ROOTS = "roots"  # one small file for each root that was named by --root or BEAM_ROOT
_NOT_IN_A_SLUG = r"[^a-z0-9_]+"
_SLUG_LETTERS = 32
_DIGEST_LETTERS = 16
_PROJECT_BYTES = 64 * 1024  # a path has 4 KiB at the most


class Project(Struct, frozen=True, kw_only=True):
    """The content of project.json: the real path of the project folder, and the device and inode that identify the
    folder if it was moved or is mounted twice.

    `path` is the path as text; `raw` is the path's bytes in hex if they are not UTF-8, else "".
    """

    v: int = 1
    path: str
    raw: str = ""
    device: int
    inode: int

    @property
    def folder(self) -> Path:
        """Return the project folder."""
        return Path(os.fsdecode(bytes.fromhex(self.raw))) if self.raw else Path(self.path)


# -- finding -----------------------------------------------------------------------------------------------------------


def find_root(named: str | None, *, cwd: Path, environ: Mapping[str, str]) -> RootPaths:
    """Return the root for a command that runs in `cwd`; create nothing.

    The root is `named` (--root), else `$BEAM_ROOT`, else the root of the project folder around `cwd`. Raises UsageError
    if a named directory contains other files, or lies in one project folder and says that it belongs to another;
    DiskError if the user's state directory is unknown.
    """
    here = Path(os.path.realpath(cwd))
    if named is not None or environ.get("BEAM_ROOT"):
        root = (
            _named_root(named, cwd, "--root")
            if named is not None
            else _named_root(environ["BEAM_ROOT"], cwd, "BEAM_ROOT")
        )
        known = read_project(root)
        folder = known.folder if known is not None else project_folder(here, environ)
        return _check_plausible(RootPaths(root, folder), environ)
    folder = project_folder(here, environ)
    return RootPaths(root_of(folder, environ), folder)


def root_at(root: Path, environ: Mapping[str, str]) -> RootPaths:
    """Return the root at that path, with its project folder.

    Raises CorruptError if the root has no project.json that names the folder, and UsageError as `find_root` does.
    """
    project = read_project(root)
    if project is None:
        hint = f"cd to the project folder, then: beam --root {root} status"
        raise CorruptError(f"{root} does not say which folder it belongs to", hint, subject=str(root))
    return _check_plausible(RootPaths(root, project.folder), environ)


def check_folder(home: RootPaths, environ: Mapping[str, str]) -> None:
    """Raise DiskError if the root's project folder is gone, because its agents would have nowhere to work."""
    if os.path.isdir(home.project):  # noqa: PTH112 - Path.is_dir raises where it may not look
        return
    named = "" if is_in_state_dir(home.root, environ) else f"--root {home.root} "
    raise DiskError(
        f"the folder {home.project} is gone, to which the root {home.root} belongs",
        f"if it was moved, go to where it is now: beam {named}doctor --adopt; "
        f"if not: beam doctor --remove-root {home.root}",
        subject=str(home.project),
    )


def exposing_folder(home: RootPaths, environ: Mapping[str, str]) -> Path | None:
    """Return the project folder that contains the root, so that agents may write to the root; None if there is no such
    folder.

    It is the root's own project folder, or another one, in which the agents of that other project may write. A root in
    the user's state directory is not exposed if its project folder is the whole home directory: an agent that may edit
    there can change the shell's own files as well.
    """
    root, project = files.real_directory(home.root), files.real_directory(home.project)
    is_inside = root == project or root.startswith(project.rstrip("/") + "/")
    if is_inside and not (is_in_state_dir(home.root, environ) and is_too_wide(home.project, environ)):
        return home.project
    return _folder_around(root, environ)


def _folder_around(real: str, environ: Mapping[str, str]) -> Path | None:
    """Return the nearest folder above the root at `real` (a real path) that has a beam.yaml or a git work tree; None if
    there is none. `/` and the home directory do not count."""
    folder = os.path.dirname(real)  # noqa: PTH120 - strings, not paths, as this runs for every message
    while True:
        if _is_marked(folder) and not is_too_wide(Path(folder), environ):
            return Path(folder)
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            return None
        folder = above


def _check_plausible(home: RootPaths, environ: Mapping[str, str]) -> RootPaths:
    """Return the root if its project.json is credible.

    Raises UsageError for a root that lies in one project folder and names another, because anybody who may write in the
    first could have made the whole root.
    """
    around = _folder_around(os.path.realpath(home.root), environ)
    if around is None or around == home.project or root_of(home.project, environ) == home.root:
        return home
    raise UsageError(
        f"the root {home.root} is in {around}, but makes agents work in {home.project}",
        "anybody who may write there could have set that; use a root outside of both",
        subject=str(home.root),
    )


def project_folder(here: Path, environ: Mapping[str, str]) -> Path:
    """Return the project folder around `here`, a real path.

    It is the nearest folder upwards with a beam.yaml or a git work tree; else the nearest that has a root; else `here`
    itself. `/` and the home directory count only if they are `here`.
    """
    around = [folder for folder in (here, *here.parents) if folder == here or not is_too_wide(folder, environ)]
    for folder in around:
        if _is_marked(folder):
            return folder
    for folder in around:
        if root_of(folder, environ).is_dir():
            return folder
    return here


def outermost_folder(project: Path, environ: Mapping[str, str]) -> Path:
    """Return the topmost folder that has a beam.yaml or a git work tree and contains this project folder; the project
    folder itself if there is none. `/` and the home directory do not count."""
    above = [each for each in project.parents if _is_marked(each) and not is_too_wide(each, environ)]
    return above[-1] if above else project


def _is_marked(folder: Path | str) -> bool:
    return os.path.lexists(f"{folder}/{CONFIG_NAME}") or os.path.lexists(f"{folder}/.git")


def root_of(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the path of the root of `folder`, which is the real path of a project folder. The digest in the root's
    name is not a secret."""
    digest = sha256(os.fsencode(folder)).hexdigest()[:_DIGEST_LETTERS]
    slug = re.sub(_NOT_IN_A_SLUG, "-", blanked(folder.name).lower()).strip("-")[:_SLUG_LETTERS] or "folder"
    return state_dir(environ) / _PROJECTS / f"{slug}-{digest}"


def is_too_wide(folder: Path, environ: Mapping[str, str]) -> bool:
    """Return whether the folder is `/` or the home directory, in which everything of the user's lies."""
    if folder == folder.parent:
        return True
    try:
        return folder.samefile(user_home(environ))
    except (OSError, DiskError):
        return False


def _named_root(named: str, cwd: Path, source: str) -> Path:
    if not named or "\0" in named:
        raise UsageError(f"{source} names no directory", "use the path of a directory for beam's files alone")
    root = Path(os.path.abspath(cwd / named))  # noqa: PTH100 - a root that is a link is refused, not followed
    if root == root.parent:
        raise UsageError(f"{source} is {root}", "use the path of a directory for beam's files alone", subject=str(root))
    if not _may_be_a_root(root):
        raise UsageError(
            f"{source} {root} is not a root of beam: it contains other files",
            f"use a directory of its own for beam: {root / 'beam'}",
            subject=str(root),
        )
    return root


def _may_be_a_root(folder: Path) -> bool:
    """Return whether the folder is a root, a root that a crash left unfinished, or empty.

    A project folder that has an `agents/` of its own is not a root. A folder that can't be listed counts as a root.
    """
    try:
        names = {name for name in os.listdir(folder) if not name.startswith(".")}  # noqa: PTH208 - names, not paths
    except OSError:
        return True  # whoever uses the folder reports the error
    return PROJECT_JSON in names or names.issuperset(ROOT_DIRS) or names.issubset(ROOT_DIRS)


# -- which folder a root belongs to ------------------------------------------------------------------------------------


def read_project(root: Path) -> Project | None:
    """Return the content of the root's project.json; None if there is no such file. Raises CorruptError, DiskError."""
    path = root / PROJECT_JSON
    try:
        project = typed_values.decode(files.read(path, _PROJECT_BYTES), Project)
        folder = project.folder
    except FileNotFoundError:
        return None
    except DiskError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            return None
        raise
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{path} is damaged: {error}", "remove it", subject=str(path)) from error
    if not folder.is_absolute() or "\0" in str(folder):
        raise CorruptError(f"{path} names no folder", "remove it", subject=str(path))
    return project


def project_of(folder: Path) -> Project:
    """Return the content that a project.json for this folder has. Raises DiskError if the folder is gone."""
    with files.disk_action("look at", folder):
        found = folder.stat()
    name = os.fsencode(folder)
    text = name.decode(errors="backslashreplace")
    return Project(
        path=text,
        raw="" if text.encode() == name else name.hex(),
        device=found.st_dev,
        inode=found.st_ino,
    )


def create(home: RootPaths, paths: AgentPaths | None = None) -> None:
    """Create the root and the directories of an agent, durably, and record in the root which folder it belongs to.

    Existing directories, and an existing record, stay. Raises DiskError.
    """
    directories.create(home, paths)
    if not (home.root / PROJECT_JSON).exists():
        record_project(home.root, home.project)


def record_project(root: Path, folder: Path) -> None:
    """Record in the root that it belongs to this folder from now on."""
    from threading import get_ident

    temporary = root / f".{PROJECT_JSON}.{os.getpid()}-{get_ident()}.tmp"  # several threads may do this at once
    files.publish(temporary, root / PROJECT_JSON, msgspec.json.encode(project_of(folder)) + b"\n")


def remember_root(home: RootPaths, environ: Mapping[str, str]) -> None:
    """Add a root that was named by --root or BEAM_ROOT to the list of this user's roots.

    If the root is in the list already, this only looks for one file.
    """
    if is_in_state_dir(home.root, environ):
        return
    data = os.fsencode(home.root)
    listed = state_dir(environ) / _NAMED_ROOTS / sha256(data).hexdigest()[:32]
    if listed.exists():
        return
    with contextlib.suppress(DiskError, FileNotFoundError):  # the list is only an aid; another thread was quicker
        files.make_directory(listed.parent)
        files.replace(listed, data + b"\n")


# -- all of them -------------------------------------------------------------------------------------------------------


def known_roots(environ: Mapping[str, str]) -> list[RootPaths]:
    """Return this user's roots, sorted by path, without damaged ones. A root that was named by --root or BEAM_ROOT and
    is gone is removed from the list on disk."""
    found = {}
    for root in (*_own_roots(environ), *_listed_roots(environ)):
        with contextlib.suppress(DiskError, UsageError):  # a damaged one is reported where it is used
            found[root] = root_at(root, environ)
    return [found[root] for root in sorted(found)]


def roots_of_same_folder(home: RootPaths, environ: Mapping[str, str]) -> list[RootPaths]:
    """Return the other roots that have the same project folder under another path, because the folder was moved, or is
    mounted twice."""
    try:
        here = project_of(home.project)
    except DiskError:
        return []
    found = []
    for root in _own_roots(environ):
        with contextlib.suppress(DiskError):
            other = read_project(root)
            if other is not None and root != home.root and (other.device, other.inode) == (here.device, here.inode):
                found.append(RootPaths(root, other.folder))
    return found


def is_in_state_dir(root: Path, environ: Mapping[str, str]) -> bool:
    """Return whether the root is in the directory in which beam itself puts roots."""
    return root.parent == state_dir(environ) / _PROJECTS


def _own_roots(environ: Mapping[str, str]) -> list[Path]:
    folder = state_dir(environ) / _PROJECTS
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if "." not in entry.name)
    except OSError:
        return []


def _listed_roots(environ: Mapping[str, str]) -> Iterator[Path]:
    try:
        with os.scandir(state_dir(environ) / _NAMED_ROOTS) as entries:
            paths = [Path(entry.path) for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return
    for path in paths:
        try:
            root = Path(os.fsdecode(files.read(path, _PROJECT_BYTES).rstrip(b"\n")))
            if root.is_absolute() and root.is_dir():
                yield root
            else:
                path.unlink()
        except (OSError, ValueError, DiskError):
            continue
