"""Modules in memory: reads them from folders that agents may write, and imports them, in this process and in those that
it starts.

This file is also the first code of the processes that it starts, before they can import anything of beam. So at its
top it imports nothing of beam.
"""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType, ModuleType
    from typing import Any

SOURCE, CODE, EXTENSION = 0, 1, 2  # what a module's content is
_RESUME = (
    "import marshal, posix, sys; fd = int(sys.argv[1]); size = posix.fstat(fd).st_size; "
    "start = int.from_bytes(posix.pread(fd, 8, size - 8), 'little'); posix.set_inheritable(fd, False); "
    "own = sys.modules['beam.base.held_modules'] = type(sys)('beam.base.held_modules'); "
    "exec(marshal.loads(posix.pread(fd, size, start))[0], own.__dict__); held = own.resumed(fd, sys.argv[2]); "
    "from beam.base import own_program; own_program.held = held; own.run(*sys.argv[3:])"
)
_LINUX = sys.platform == "linux"
Entry = tuple[str, bool, int, int, int]  # path, whether it is a package, kind, where its content begins, its length


class HeldModules:
    """The modules that this process holds, and a finder that imports them. `places` are the folders of the import path
    that agents may write; `first_path` is the import path as it was.

    Reading takes some 20 ms of CPU. If this process has one thread, a fork of it reads, while this one goes on; until
    that is done, modules are imported from their files. Afterwards, in one of beam's own processes, nothing is imported
    from `places`. In another program, which uses beam, this concerns only the packages that are held.
    """

    def __init__(self, *, is_own_process: bool) -> None:
        self.first_path = list(sys.path)
        self._is_own_process = is_own_process
        self._folders: list[str] = []
        self._places: list[str] = []
        self._executable = sys.executable
        self._fd = -1  # of an unnamed file: what `ModuleReader` copied
        self._index: dict[str, Entry] = {}
        self._distributions: list[dict[str, str]] = []
        self._reader: Any
        self._reading: tuple[int, int, int] | None = None  # the fork, the descriptor that tells its end, its file
        self._looks = _thread.allocate_lock()
        sys.meta_path.insert(0, self)

    def add(self, places: Sequence[str], folders: Sequence[str], reader: Callable[..., Any]) -> None:
        """Read the modules in these places, which lie in these folders (real paths), and all that was read before.
        `reader` is the class `ModuleReader`."""
        self.wait()
        self._folders += folders
        if all(place in self._places for place in places):
            return
        self._reader = reader(
            self.first_path,
            places,
            old=self._places,
            old_file=self._fd,
            old_index=self._index,
            old_distributions=self._distributions,
        )
        file = os.memfd_create("beam", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING) if _LINUX else _temporary_file()
        if not self._is_own_process or len(sys._current_frames()) > 1:
            self._reader.copy_all(file)
            self._use(file)
            return
        told, tell = os.pipe()
        fork = os.fork()
        if fork == 0:
            try:
                for fd in (0, 1, 2):
                    os.close(fd)  # whoever reads this process's output does not wait for the fork
                self._reader.copy_all(file)
                os.write(tell, b"1")
            finally:
                os._exit(0)
        os.close(tell)
        os.set_blocking(told, False)
        self._reading = (fork, told, file)

    def wait(self) -> None:
        """Wait until all is read, and import from memory from then on."""
        with self._looks:
            if self._reading is not None:
                os.set_blocking(self._reading[1], True)
                self._look()

    def _look(self) -> None:
        """Import from memory from now on, if all is read. The caller has the lock `_looks`."""
        if self._reading is None:
            return
        fork, told, file = self._reading
        try:
            is_whole = os.read(told, 1) == b"1"
        except BlockingIOError:
            return
        os.close(told)
        try:  # noqa: SIM105 - contextlib might be imported from where agents write
            os.waitpid(fork, 0)
        except ChildProcessError:  # somebody else in this process has waited for it
            pass
        if not is_whole:
            os.ftruncate(file, 0)
            self._reader.copy_all(file)
        self._use(file)
        self._reading = None

    def command(self, module: str, *words: str) -> tuple[list[str], int]:
        """Return the arguments of the interpreter that run the module in a further process, and the descriptor that it
        needs."""
        self.wait()
        utf8 = ["-X", "utf8"] if sys.flags.utf8_mode else []
        return ["-I", "-S", *utf8, "-c", _RESUME, str(self._fd), self._executable, module, *words], self._fd

    def source_of(self, *names: str) -> str | None:
        """Return Python source that imports these modules, in this order, as top-level modules with the last part of
        their names. Return None while they are still read from their files, or if they lie where no agent may write."""
        if self._reading is not None or not self._index.keys() >= set(names):
            return None
        import marshal

        codes = marshal.dumps([(name.rpartition(".")[2], self.get_code(name)) for name in names]).hex()
        return (
            f"import marshal\nfor name, code in marshal.loads(bytes.fromhex('{codes}')):\n"
            "    sys.modules[name] = module = type(sys)(name)\n    exec(code, module.__dict__)\n"
        )

    def _use(self, file: int) -> None:
        """Import from this file from now on."""
        import marshal

        size = os.fstat(file).st_size
        start = int.from_bytes(os.pread(file, 8, size - 8), "little")
        _, (self._index, self._distributions, self._places, path) = marshal.loads(os.pread(file, size, start))
        before, self._fd = self._fd, file  # from here on other threads import from it
        if before >= 0:
            os.close(before)
        if self._is_own_process:
            sys.path[:] = path
        if _LINUX:
            import fcntl

            fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
            if os.path.dirname(os.__file__) in self._places:  # noqa: PTH120
                self._import_extensions()
            _detach_mapped_files(self._folders)

    def _import_extensions(self) -> None:
        """Import the extensions of Python's own library, which may need shared libraries that lie beside it."""
        for name, (path, _, kind, *_) in self._index.items():
            if kind == EXTENSION and "/lib-dynload/" in path and name not in sys.modules:
                try:
                    __import__(name)
                except ImportError:  # it would have failed later as well
                    continue

    # -- imports -------------------------------------------------------------------------------------------------------

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> Any:
        """Return how to import the module; None if another finder has to look for it."""
        if self._reading is not None:
            if self._looks.acquire(blocking=False):  # else another thread looks, or this one imports while it does
                try:
                    self._look()
                finally:
                    self._looks.release()
            if self._reading is not None and self._fd < 0:  # nothing is held yet
                return None
        held = self._index.get(name)
        if held is not None:
            from _frozen_importlib import ModuleSpec  # `importlib` itself may be held

            spec = ModuleSpec(name, self, origin=held[0], is_package=held[1])  # type: ignore[arg-type]
            spec.has_location = True
            if held[1]:
                spec.submodule_search_locations = [os.path.dirname(held[0])]  # noqa: PTH120
            return spec
        if self._is_own_process:
            is_missing = path is not None and any(is_below(entry, self._places) for entry in path)
        else:
            is_missing = name.partition(".")[0] in self._index
        if is_missing:
            raise ModuleNotFoundError(f"No module named {name!r} when beam started", name=name)
        return None

    def create_module(self, spec: Any) -> ModuleType | None:
        """Return the module if it is an extension; None if it is an ordinary one."""
        path, _, kind, start, size = self._index[spec.name]
        if kind != EXTENSION:
            return None
        import _imp
        from _frozen_importlib import ModuleSpec

        # The descriptor stays open, because the system takes a later file at the same path for this one.
        fd = os.memfd_create(spec.name, os.MFD_CLOEXEC) if _LINUX else _temporary_file()
        write(fd, os.pread(self._fd, size, start))
        found: ModuleType = _imp.create_dynamic(ModuleSpec(spec.name, None, origin=f"/dev/fd/{fd}"))
        found.__file__ = path
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        assert module.__spec__ is not None
        name = module.__spec__.name  # an extension may set another `__name__`
        if self._index[name][2] == EXTENSION:
            import _imp

            _imp.exec_dynamic(module)
        else:
            exec(self.get_code(name), module.__dict__)

    def get_code(self, name: str) -> CodeType:
        """Return the module's code."""
        path, _, kind, start, size = self._index[name]
        return code_of(path, kind, os.pread(self._fd, size, start))

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """Yield the packages whose entry points are held, for `importlib.metadata`."""
        from importlib.metadata import Distribution

        class Held(Distribution):
            def __init__(self, texts: dict[str, str]) -> None:
                self._texts = texts

            def read_text(self, filename: str) -> str | None:
                return self._texts.get(filename)

            def locate_file(self, path: object) -> Any:
                return path

        wanted = getattr(context, "name", None)
        for found in map(Held, self._distributions):
            if wanted is None or _normalized(found.metadata["Name"]) == _normalized(wanted):
                yield found


def resumed(fd: int, executable: str) -> HeldModules:
    """Return what the process that started this one by `HeldModules.command` held, and import from it from now on. `fd`
    is the descriptor of the file with the modules."""
    held = HeldModules(is_own_process=True)
    own_path = list(sys.path)
    held._use(fd)
    held.first_path = sys.path[:] = list(dict.fromkeys([*sys.path, *own_path]))
    held._executable = sys.executable = executable
    return held


def run(module: str, *words: str) -> None:
    """Run the module as the main program, with these words as its arguments."""
    from importlib.util import find_spec

    spec = find_spec(module)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{module}.__main__")
    assert spec is not None
    main = sys.modules["__main__"]
    main.__spec__, main.__file__ = spec, spec.origin
    sys.argv = [str(spec.origin), *words]
    exec(spec.loader.get_code(spec.name), main.__dict__)  # type: ignore[union-attr]


def code_of(path: str, kind: int, content: bytes) -> CodeType:
    import marshal

    code: CodeType = marshal.loads(content) if kind == CODE else compile(content, path, "exec", dont_inherit=True)
    return code


def _temporary_file() -> int:
    """Return a descriptor of an unnamed file, on a system other than Linux. (Never tested.)"""
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def write(fd: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _detach_mapped_files(folders: Sequence[str]) -> None:
    """Give this process its own copy of what it has mapped of files below these folders. These are shared libraries,
    and whoever writes into such a file would change the code that runs here."""
    with open("/proc/self/maps", "rb") as maps:  # noqa: PTH123
        lines = [line.split(None, 5) for line in os.fsdecode(maps.read()).splitlines()]
    mapped = [words for words in lines if len(words) == 6 and words[1][3] == "p" and is_below(words[5], folders)]
    if not mapped:
        return
    memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        for area, rights, *_ in mapped:
            first, _, last = area.partition("-")
            start, size = int(first, 16), int(last, 16) - int(first, 16)
            if rights[1] == "w" and len(sys._current_frames()) > 1:  # another thread could write there meanwhile
                _copy_pages(start, size)
            else:
                os.pwrite(memory, os.pread(memory, size, start), start)
    finally:
        os.close(memory)


def _copy_pages(start: int, size: int) -> None:
    """Have the kernel copy these pages as if something were written to each."""
    import ctypes

    populate_write = 23
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), populate_write)


def _is_importable(entry: os.DirEntry[str], names: set[str], suffixes: tuple[str, ...]) -> bool:
    """Return whether the entry of a folder is a package or module with one of these names."""
    name, dot, rest = entry.name.partition(".")
    return name in names and ((dot + rest).endswith((".py", *suffixes)) if dot else entry.is_dir())


def is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _normalized(name: str) -> str:
    import re

    return re.sub(r"[-_.]+", "-", name).lower()
