"""The command for Claude Code's hooks: writes the call down for `beam watch`, and is gone before anyone notices.

Run as a file it imports nothing but `posix` and `time` (see `hooks_install.py`); it never prints, and it never exits 2,
which Claude Code takes for a veto. Must not know: what a call means.
"""

import posix
import sys
import time

LARGEST = 1024 * 1024
KEPT_DAYS = 7


def main() -> int:
    """Takes the call from stdin and appends it to today's file of the spool. Always 0: a hook is in nobody's way."""
    try:
        write(read(0), directory(posix.environ), time.time_ns())
    except OSError:
        return 0
    return 0


def directory(environ: "dict[bytes, bytes]") -> bytes:
    """The spool: `$XDG_STATE_HOME/beam/hooks`."""
    state = environ.get(b"XDG_STATE_HOME", b"")
    if not state.startswith(b"/"):
        state = environ.get(b"HOME", b"") + b"/.local/state"
    return state + b"/beam/hooks"


def read(fd: int) -> bytes:
    """What the hook was called with, b"" if that is too much to keep."""
    parts, size = [], 0
    while part := posix.read(fd, 65536):
        size += len(part)
        if size <= LARGEST:
            parts.append(part)
    return b"".join(parts) if size <= LARGEST else b""


def write(payload: bytes, spool: bytes, now_ns: int) -> None:
    """One line in today's file, in one write; files of last week go. Raises OSError."""
    payload = payload.strip().replace(b"\n", b" ").replace(b"\r", b" ")
    if not (payload.startswith(b"{") and payload.endswith(b"}")):
        return
    day = time.strftime("%Y-%m-%d", time.gmtime(now_ns // 1_000_000_000)).encode()
    path = spool + b"/" + day + b".jsonl"
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CLOEXEC | posix.O_NOFOLLOW
    try:
        handle = posix.open(path, flags)
    except FileNotFoundError:
        make(spool)
        handle = posix.open(path, flags | posix.O_CREAT, 0o600)
        sweep(spool, now_ns)
    try:
        posix.write(handle, b'{"at_ns":%d,"payload":%s}\n' % (now_ns, payload))
    finally:
        posix.close(handle)


def make(path: bytes) -> None:
    """The directory and those above it, private."""
    try:
        posix.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make(path.rpartition(b"/")[0])
        posix.mkdir(path, 0o700)


def sweep(spool: bytes, now_ns: int) -> None:
    """Removes the files of more than a week ago."""
    oldest = time.gmtime(now_ns // 1_000_000_000 - KEPT_DAYS * 86400)
    last = time.strftime("%Y-%m-%d.jsonl", oldest).encode()
    for name in posix.listdir(spool):
        if name.endswith(b".jsonl") and name < last:
            posix.unlink(spool + b"/" + name)


if __name__ == "__main__":
    sys.exit(main())
