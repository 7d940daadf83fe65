"""Copies the modules that a process may still import from the folders where they lie into one file.

The file has the contents of the modules; then, marshalled, the code of `held_modules` and what `HeldModules` reads;
then where that begins, in eight bytes.
"""

from __future__ import annotations

import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER
from collections.abc import Iterable, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from types import CodeType

from beam.base import held_modules
from beam.base.held_modules import CODE, EXTENSION, SOURCE, Entry, code_of, is_below

# What beam may import, with what those packages need themselves.
PACKAGES = (
    *("annotated_doc", "attr", "attrs", "beam", "click", "jsonschema", "jsonschema_specifications", "markdown_it"),
    *("mdurl", "msgspec", "prompt_toolkit", "referencing", "rich", "rpds", "shellingham", "typer", "typing_extensions"),
    *("wcwidth", "yaml", "_yaml"),
)
PACKAGES_ELSEWHERE = ("anyio", "idna", "watchfiles")  # on systems without inotify
EXTRA_PACKAGES = (  # of beam's extras, where they are installed
    *("_cffi_backend", "backports", "cffi", "cryptography", "importlib_metadata", "jaraco", "jeepney", "keyring"),
    *("more_itertools", "secretstorage", "zipp", "zstandard"),
)
BOARD = "beam.board"  # a process that has imported this also needs the packages below
BOARD_PACKAGES = ("linkify_it", "mdit_py_plugins", "platformdirs", "pygments", "textual", "uc_micro")
_ENTRY_POINT_GROUPS = ("[beam.agents]", "[keyring.backends]")
_NOT_OF_THE_LIBRARY = frozenset(
    {"__pycache__", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test", "tkinter", "turtledemo"}
)
_NO_USUAL_EXTENSIONS = ("_ctypes_test", "_test", "_tkinter", "_xx", "xx")
_SUFFIXES = tuple(EXTENSION_SUFFIXES)
_HEADER_BYTES = 16  # of cached code: what it is valid for
_VALID_FOR_A_TIME = bytes(4)  # the flags in the header of code that counts as long as its source has the same time


class ModuleReader:
    """Copies the modules of `new` folders of the import path. `old` are folders that were read before: agents may have
    changed the files there, so their modules come from the file `old_file` (-1: none) with that `old_index`.

    `first_path` is the whole import path of the process at its start.
    """

    def __init__(
        self,
        first_path: Sequence[str],
        new: Sequence[str],
        *,
        old: Sequence[str],
        old_file: int,
        old_index: dict[str, Entry],
        old_distributions: Sequence[dict[str, str]],
    ) -> None:
        self._first_path = first_path
        self._new = [place for place in new if place not in old]
        self._places = [*old, *self._new]
        self._old_file, self._old_index = old_file, old_index
        self._distributions = list(old_distributions)
        self._index: dict[str, Entry] = {}
        self._file = -1
        self._end = 0

    def copy_all(self, file: int) -> None:
        """Copy all modules into the file, which is empty."""
        self._file = file
        for name, (path, is_package, kind, start, size) in self._old_index.items():
            self._index[name] = (path, is_package, kind, self._append(self._old_file, start, size), size)
        elsewhere = () if sys.platform == "linux" else PACKAGES_ELSEWHERE
        board = BOARD_PACKAGES if BOARD in sys.modules else ()
        self._copy_packages((*PACKAGES, *elsewhere, *EXTRA_PACKAGES, *board))
        for place in self._new:
            self._copy_packages(self._offered_modules(place))
        library = os.path.dirname(os.__file__)  # noqa: PTH120
        if library in self._new:
            self._copy_library(library)
        code = self._code_of_held_modules()
        left = [entry for entry in self._first_path if not is_below(os.path.abspath(entry), self._places)]  # noqa: PTH100
        end = marshal.dumps((code, (self._index, self._distributions, self._places, left)))
        held_modules.write(file, end + self._end.to_bytes(8, "little"))

    def _code_of_held_modules(self) -> CodeType:
        name = held_modules.__name__
        if name not in self._index:  # beam itself lies elsewhere
            return compile(_read_text(held_modules.__file__), held_modules.__file__, "exec", dont_inherit=True)
        path, _, kind, start, size = self._index[name]
        return code_of(path, kind, os.pread(self._file, size, start))

    def _copy_packages(self, names: Iterable[str]) -> None:
        """Copy these packages, each from the first folder of the import path that has it, if that is a new one."""
        missing = {name for name in names if name not in self._index}
        for place in dict.fromkeys(map(os.path.abspath, (*self._first_path, *self._places))):
            try:
                with os.scandir(place) as entries:
                    here = [entry for entry in entries if _is_importable(entry, missing)]
            except OSError:
                continue
            missing -= {entry.name.partition(".")[0] for entry in here}
            for entry in here if place in self._new else ():
                name, dot, rest = entry.name.partition(".")
                if not dot:
                    self._copy_folder(entry.path, f"{name}.")
                elif rest == "py":
                    self._copy_source(name, entry.path, entry.stat())
                else:
                    self._copy_file(name, entry.path, kind=EXTENSION)

    def _offered_modules(self, place: str) -> list[str]:
        """Keep what packages in this folder say about the adapters and keyrings that they offer. Return the names of
        the packages with these."""
        found = []
        for info in os.listdir(place) if os.path.isdir(place) else ():  # noqa: PTH112, PTH208
            if not info.endswith(".dist-info"):
                continue
            try:
                entry_points = _read_text(f"{place}/{info}/entry_points.txt")
                if not any(group in entry_points for group in _ENTRY_POINT_GROUPS):
                    continue
                texts = {"entry_points.txt": entry_points, "METADATA": _read_text(f"{place}/{info}/METADATA")}
            except (OSError, ValueError):
                continue
            self._distributions.append(texts)
            values = [line.partition("=")[2].strip() for line in entry_points.splitlines()]
            found += [value.partition(":")[0].partition(".")[0] for value in values if value]
        return found

    def _copy_library(self, library: str) -> None:
        """Copy Python's own library."""
        self._copy_folder(library, "", without=_NOT_OF_THE_LIBRARY)
        folder = f"{library}/lib-dynload"
        for file in os.listdir(folder) if os.path.isdir(folder) else ():  # noqa: PTH112, PTH208
            if file.endswith(_SUFFIXES) and not file.startswith(_NO_USUAL_EXTENSIONS):
                self._copy_file(file.partition(".")[0], f"{folder}/{file}", kind=EXTENSION)

    def _copy_folder(self, folder: str, prefix: str, without: frozenset[str] = frozenset({"__pycache__"})) -> None:
        """Copy all modules in and below the folder. `prefix` is the beginning of their names."""
        before, folders = len(self._index), []
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name == "__init__.py":
                    self._copy_source(prefix[:-1], entry.path, entry.stat(), is_package=True)
                elif name.endswith(".py"):
                    self._copy_source(prefix + name[:-3], entry.path, entry.stat())
                elif name.endswith(_SUFFIXES):
                    self._copy_file(prefix + name.partition(".")[0], entry.path, kind=EXTENSION)
                elif "." not in name and name not in without and entry.is_dir():
                    folders.append((entry.path, name))
        for path, name in folders:
            self._copy_folder(path, f"{prefix}{name}.")
        if prefix and prefix[:-1] not in self._index and len(self._index) > before:  # a package without a file
            self._index[prefix[:-1]] = (f"{folder}/__init__.py", True, SOURCE, 0, 0)

    def _copy_source(self, name: str, path: str, stat: os.stat_result, *, is_package: bool = False) -> None:
        """Copy a module: its cached code if that is valid, else its source."""
        source = (int(stat.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little") + stat.st_size.to_bytes(4, "little")
        folder, _, file = path.rpartition("/")
        cached = f"{folder}/__pycache__/{file[:-2]}{sys.implementation.cache_tag}.pyc"
        if not self._copy_file(name, path, cached, MAGIC_NUMBER + _VALID_FOR_A_TIME + source, is_package, kind=CODE):
            self._copy_file(name, path, is_package=is_package, kind=SOURCE)

    def _copy_file(
        self, name: str, path: str, file: str = "", header: bytes = b"", is_package: bool = False, *, kind: int
    ) -> bool:
        """Copy the module at `path`: what follows the header of `file`. Return whether that was there."""
        try:
            fd = os.open(file or path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if header and os.pread(fd, _HEADER_BYTES, 0) != header:
                return False
            size = os.fstat(fd).st_size - len(header)
            self._index[name] = (path, is_package, kind, self._append(fd, len(header), size), size)
            return True
        finally:
            os.close(fd)

    def _append(self, fd: int, start: int, size: int) -> int:
        """Copy a part of a file to the end, and return where it begins there."""
        begin = self._end
        self._end += size
        while size > 0:
            if sys.platform == "linux":
                done = os.sendfile(self._file, fd, start, size)
            else:
                done = os.write(self._file, os.pread(fd, size, start))
            if not done:
                raise OSError("a module became shorter while it was read")
            start, size = start + done, size - done
        return begin


def _is_importable(entry: os.DirEntry[str], names: set[str]) -> bool:
    """Return whether the entry of a folder is a package or module with one of these names."""
    name, dot, rest = entry.name.partition(".")
    return name in names and (rest == "py" or f".{rest}" in _SUFFIXES if dot else entry.is_dir())


def _read_text(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, os.fstat(fd).st_size + 1).decode()
    finally:
        os.close(fd)
