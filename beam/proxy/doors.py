"""Decides which requests a proxy on 127.0.0.1 accepts: only those of this user's processes. Requests from web pages and
ambiguous requests are refused.

Any user of the machine can connect to a port on 127.0.0.1. A web page in a browser can do so, too, through a host name
that resolves to this address. Linux tells which user a connection belongs to; other systems do not. Does not depend on
the content that is served.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

from beam.proxy.http import RequestError

# A fragment, which a server may cut off; a step upwards; a separator that only some servers know.
_DOUBTFUL = re.compile(r"#|\\|^[^?]*(?:/\.{1,2}(?:[/?]|\Z)|%(?:2e|2f|5c|23|3f|3b|00)|;)", re.IGNORECASE)
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F")  # 127.0.0.1, and the same within IPv6


def check_request(path: str, headers: Message[str, str]) -> None:
    """Raise RequestError for a request that comes from a web page, or whose path or headers are ambiguous."""
    if not path.startswith("/") or not path.isascii() or not path.isprintable() or _DOUBTFUL.search(path):
        raise RequestError(400, "a path of this server is needed")
    if headers.defects or headers.get_payload():  # the parser stopped there: all headers behind it are ignored
        raise RequestError(400, "a header can't be read")
    if any("\r" in value or "\n" in value for value in headers.values()):
        raise RequestError(400, "a header goes over several lines")
    for host in headers.get_all("host", []):
        if not is_loopback(f"//{host}"):
            raise RequestError(403, f"this server is not {host[:100]!r}")
    for origin in headers.get_all("origin", []):
        if not is_loopback(origin):
            raise RequestError(403, "a web page asks nothing here")


def is_loopback(url: str) -> bool:
    """Return whether a URL names this machine by an address or a name that no other machine can have."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1") or (host.startswith("127.") and host.replace(".", "").isdecimal())


def is_own_connection(client: tuple[str, int], port: int) -> bool:
    """Return whether the connection from the address `client` to the proxy's port belongs to this user or to root.
    Return True if the system does not tell."""
    ours, theirs = f":{port:04X}", f":{client[1]:04X}"
    is_told = False
    for local, remote, uid, inode in _connections():
        is_told = is_told or (local.endswith(ours) and remote.endswith(theirs))
        if local.endswith(theirs) and remote.endswith(ours) and local.partition(":")[0] in _LOOPBACK:
            return inode != 0 and uid in (0, os.getuid())  # no inode: the client has disconnected
    return not is_told


def _connections() -> Iterator[tuple[str, str, int, int]]:
    for table in _TABLES:
        with contextlib.suppress(OSError, ValueError, IndexError), table.open() as lines:
            next(lines, None)
            for line in lines:
                row = line.split()
                yield row[1], row[2], int(row[7]), int(row[9])
