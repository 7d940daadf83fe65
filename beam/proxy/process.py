"""Runs a proxy in a process of its own: `python -m beam.proxy.process`.

The process reads one line of JSON from stdin, an `Order`. It then serves until stdin ends, which also happens when its
owner dies. It writes each `Report` to stdout as a line of JSON: the URL where it listens (`url`) or why it can't listen
(`error`), each request (`served`), and its counts at the end (`counts`). Before it reads a key, it makes its memory
unreadable for other processes of its user.

Before it serves, it reads a recording that anybody may have made. Meanwhile the kernel ends the process when its owner
dies or when this takes too long, because Python itself may be kept from noticing either. Does not depend on any CLI.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading

import msgspec
from msgspec import Struct

from beam.base import typed_values
from beam.base.errors import BeamError, NotFoundError
from beam.proxy.options import ProxyCounts, ProxyOptions
from beam.proxy.served import ServedRequest
from beam.proxy.serving import Proxy
from beam.secrets import keyring

READY_S = 60.0  # until it listens
_END_S = 10.0  # after the end of stdin
_KEY_BYTES = 16 * 1024
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
# The variables that the process needs from its owner's environment. None of them holds a key.
ENVIRONMENT = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "PYTHONPATH", "VIRTUAL_ENV"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"}
    | {"XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS", "PYTHON_KEYRING_BACKEND"}
)


class Order(Struct, frozen=True, kw_only=True):
    """The order to the process: the proxy's options, the pid of its `owner`, and where the real key is. The key is read
    from the descriptor `key_fd`, or from the keyring under the name `secret`."""

    options: ProxyOptions
    owner: int
    key_fd: int | None = None
    secret: str = ""


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line that the process writes: exactly one field is set. `error` is (message, hint, name of the error's
    class)."""

    url: str = ""
    error: tuple[str, str, str] | None = None
    served: ServedRequest | None = None
    counts: ProxyCounts | None = None


def main() -> int:
    """Read the order from stdin, serve until stdin ends, and return the exit code."""
    signal.setitimer(signal.ITIMER_REAL, READY_S)  # SIGALRM ends the process
    _end_with_owner(signal.SIGKILL)
    make_unreadable()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the owner ends this process by closing stdin
    out = sys.stdout.buffer
    mutex = threading.Lock()

    def say(said: Report) -> None:
        with mutex, contextlib.suppress(OSError):
            out.write(msgspec.json.encode(said) + b"\n")
            out.flush()

    try:
        order = typed_values.decode(sys.stdin.buffer.readline(), Order)
        if os.getppid() != order.owner:  # it died before the kernel was asked
            return 1
        key = key_of(order)
        with Proxy(order.options, served=lambda served: say(Report(served=served)), key=key) as proxy:
            signal.setitimer(signal.ITIMER_REAL, 0)
            _end_with_owner(0)  # the kernel looks at the thread that started this process, and that may end first
            say(Report(url=proxy.url))
            while sys.stdin.buffer.read(4096):
                pass
            signal.setitimer(signal.ITIMER_REAL, _END_S)
        say(Report(counts=proxy.counts))
    except BeamError as error:
        say(Report(error=(error.message, error.hint, type(error).__name__)))
        return 1
    return 0


def make_unreadable() -> None:
    """Keep other processes of this user from reading this process's memory and environment (on Linux only), and keep
    the system from writing them to a core dump. A process with the right to trace any process, like those of root, is
    not kept out."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prctl(_PR_SET_DUMPABLE, 0)


def _end_with_owner(number: int) -> None:
    """Let the kernel send this signal to the process when its owner dies; 0: no signal."""
    _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def key_of(order: Order) -> str | None:
    """Return the real key; None if the order names none. Raises NotFoundError if the key is missing, UnsupportedError
    if the keyring can't be used."""
    if order.key_fd is not None:
        try:
            with os.fdopen(order.key_fd, "rb") as file:
                key = file.read(_KEY_BYTES).decode("utf-8", "replace").strip()
        except OSError:  # the descriptor is not open, or can't be read
            key = ""
        if not key or any(sign.isspace() or not sign.isprintable() for sign in key):
            raise NotFoundError("no key came on the descriptor", "--shield fd:3 3< <(a command that prints the key)")
        return key
    if not order.secret:
        return None
    return keyring.read(order.secret)


if __name__ == "__main__":
    sys.exit(main())
