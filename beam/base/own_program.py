"""Starts and ends a process of beam's own (a command or a worker) cheaply, and keeps beam's program as it was, where it
lies in a folder in which agents may write (a project's `.venv`). The times in this file are CPU times, measured with
Python 3.11.

An agent that may edit there can rewrite beam's modules, while processes of beam import modules late and start further
processes. So each process of beam calls `hold` as soon as it knows where agents work. Modules that agents may write are
then read into memory, and from there on imported only from memory, in this process and in those that it starts. If beam
lies elsewhere, `hold` only looks where it lies. What a person runs afterwards is read from the files again.

This module is imported before all others, and itself imports only `gc`, `os` and `sys`.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, NoReturn

    from beam.base.held_modules import HeldModules


# Objects. With Python's own 700, collecting takes a tenth of a short command's time and finds nothing.
_SHORT_RUN_THRESHOLDS = 100_000, 20, 100
_LONG_RUN_THRESHOLDS = 2_000, 10, 10  # with the thresholds of a short command, garbage would stay in memory for days


def prepare() -> None:
    """Say that the process is beam's own, and collect garbage seldom. On Linux, also keep asyncio from loading OpenSSL
    (5 ms, 3 MB) until `allow_tls` is called.

    On other systems `beam watch` imports watchfiles, which imports anyio, which may need OpenSSL.
    """

    is_own_process()
    gc.set_threshold(*_SHORT_RUN_THRESHOLDS)
    if sys.platform == "linux":
        sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]


def allow_tls() -> None:
    """Let this process import `ssl` from now on. This is called before the process speaks TLS, or imports an adapter of
    another package."""
    if sys.modules.get("ssl", sys) is None:
        del sys.modules["ssl"]


def prepare_long_run() -> None:
    """Collect garbage as often as a long-lived process needs. Objects that exist already are never collected, because
    they stay in use."""
    gc.freeze()
    gc.set_threshold(*_LONG_RUN_THRESHOLDS)


def import_msgspec() -> None:
    """Import msgspec without `typing_extensions`. All names that msgspec takes from there are in `typing` since Python
    3.11.

    `typing_extensions` would also import `inspect`: 8 ms, which is a tenth of a short command.
    """
    name = "typing_extensions"
    is_hidden = name not in sys.modules
    if is_hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        if is_hidden:
            del sys.modules[name]


def exit_fast(code: int) -> NoReturn:
    """End the process without the interpreter's shutdown, which takes 15 ms to free memory. Flushes stderr only."""
    try:  # noqa: SIM105 - contextlib would be imported for it
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads stderr any more
    os._exit(code)


_MAX_LINKS = 40  # as many as the kernel follows

held: HeldModules | None = None  # None: agents can't write what this process imports
_folders: list[str] = []  # in which agents work, as far as this process knows
_is_own_process = False


def is_own_process() -> None:
    """Say that this process is beam's own, and not a program that uses beam: it imports nothing that agents may write,
    whoever made it."""
    global _is_own_process
    _is_own_process = True


def hold(*folders: str | os.PathLike[str]) -> None:
    """Keep agents that work in these folders from changing what this process imports.

    Begins to read all modules that this process may still import into memory, if agents may write them. One of beam's
    own processes imports nothing more from other folders of the import path that they may write.
    """
    global held
    reals = [real for real in map(os.path.realpath, folders) if real not in _folders]
    if not reals:
        return
    _folders.extend(reals)
    places = [place for place in _import_path() if leads_through(place, reals)]
    used = [place for place in places if _is_used(place)]
    if used:
        from beam.base.held_modules import HeldModules
        from beam.base.module_reader import ModuleReader

        held = held or HeldModules(is_own_process=_is_own_process)
        held.add(places if _is_own_process else used, reals, ModuleReader)
    elif places and _is_own_process:
        sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) not in places]  # noqa: PTH100


def wait_until_held() -> None:
    """Wait until what `hold` began is done. Call it before an agent acts, also one that another process starts: until
    then this process runs code of files that agents may write."""
    if held is not None:
        held.wait()


def place_in(folder: str | os.PathLike[str]) -> str:
    """Return a part of beam's program that whoever may write in this folder can change: the path of beam, of a package
    that it uses, or of Python's own library; "" if there is none."""
    real = os.path.realpath(folder)
    used = (_package(), sys.modules["msgspec"].__file__ or "", os.__file__)
    return next((path for path in map(os.path.abspath, used) if leads_through(path, (real,))), "")


def executable() -> str:
    """Return the program for a further process of beam's own: the interpreter of this one, also where agents may put
    another one in its place."""
    is_open = held is not None or leads_through(sys.executable, _folders)
    return "/proc/self/exe" if is_open and sys.platform == "linux" else sys.executable


def search_path(environ: Mapping[str, str]) -> str:
    """Return the folders of PATH in which beam looks for a program that it runs by itself (git, a notification's
    command): absolute ones, and none in which agents may write, whoever trusted it.

    A whole home directory does not count as such a folder, because all programs of a person may lie there.
    """
    home = os.path.realpath(environ.get("HOME") or "/")
    folders = [folder for folder in _folders if folder not in ("/", home)]
    path = environ.get("PATH", os.defpath).split(":")
    return ":".join(each for each in path if each[:1] == "/" and not leads_through(each, folders))


def command(module: str, *words: str, environ: Mapping[str, str]) -> tuple[list[str], dict[str, Any]]:
    """Return the command line that runs a module of beam as a process (`python -m MODULE WORDS…`), and arguments of
    `subprocess.Popen` that it needs, among them its environment. Nothing is imported from its current folder."""
    env = dict(environ)
    if held is not None:
        words_of_python, fd = held.command(module, *words)
        # Beside an interpreter's path there may be a file that says where its library is; beside this one is none.
        return [executable(), *words_of_python], {"env": env, "pass_fds": (fd,)}
    if "PYTHONPATH" in env:
        entries = env["PYTHONPATH"].split(":")
        env["PYTHONPATH"] = ":".join(each for each in entries if not leads_through(os.path.abspath(each), _folders))  # noqa: PTH100
    return [executable(), "-P", "-m", module, *words], {"env": env}


def leads_through(path: str, folders: Iterable[str]) -> bool:
    """Return whether an absolute path, or a link on the way to it, lies in one of the folders (real paths)."""
    inside = tuple(f"{folder.rstrip('/')}/" for folder in folders)
    at, rest, links = "/", [part for part in reversed(path.split("/")) if part], 0
    while rest and links <= _MAX_LINKS:
        part = rest.pop()
        if part in (".", ".."):
            at = os.path.dirname(at) if part == ".." else at  # noqa: PTH120 - strings: this runs for every command
            continue
        at = f"{at.rstrip('/')}/{part}"
        if f"{at}/".startswith(inside):
            return True
        try:
            target = os.readlink(at)  # noqa: PTH115
        except OSError:  # it is no link
            continue
        links += 1
        at = "/" if target.startswith("/") else os.path.dirname(at)  # noqa: PTH120
        rest += [part for part in reversed(target.split("/")) if part]
    return False


def _import_path() -> list[str]:
    """Return the folders of the import path, as absolute paths, and the one that contains beam."""
    entries = held.first_path if held is not None else sys.path
    return list(dict.fromkeys(map(os.path.abspath, (*entries, os.path.dirname(_package())))))  # noqa: PTH120


def _package() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120


def _is_used(place: str) -> bool:
    """Return whether this process has imported a module of beam's program from this folder."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return any(isinstance(file, str) and file.startswith(f"{place}/") for file in files)
