"""The command that Claude Code runs as a hook: it records the hook call for `beam watch` and ends as fast as possible.

Claude Code runs this file as a script (see `hooks_install.py`). The script imports only `posix`, `sys` and `time`; it
imports the patterns of secrets only for a call that may contain a secret. It never prints, and it never exits with code
2, which Claude Code takes for a veto. Does not depend on the meaning of a call.
"""

import posix
import sys
import time

TYPE_CHECKING = False  # `typing` is slow
if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST = 1024 * 1024
KEPT_S = 24 * 3600

# A call without any of these signs contains no secret, unless it contains COMMON_SIGN or a URL with a password. A test
# compares the signs with `beam.secrets`. SIGNS_ANY_CASE are searched in the lower-cased call: names, and escapes that
# may be used within a secret.
SIGNS = (
    *(
        b"-----BEGIN",
        b"AIza",
        b"ya29.",
        b"xai-",
        b"gsk_",
        b"hf_",
        b"pplx-",
        b"ghp_",
        b"gho_",
        b"ghu_",
        b"ghs_",
        b"ghr_",
    ),
    *(
        b"github_pat_",
        b"glpat-",
        b"AKIA",
        b"ASIA",
        b"xox",
        b"xapp-",
        b"hooks.slack.com",
        b"npm_",
        b"pypi-",
        b"sk_live_",
    ),
    *(b"rk_live_", b"eyJ", b"\x1b", b"\xc2\x9b", b"\xe2\x94", b"\xe2\x95", b"\xe2\x96"),
)
SIGNS_ANY_CASE = (
    *(b"secret_access_key", b"secretaccesskey", b"secret-access-key", b"aws_secret_key", b"aws_session_token"),
    *(b"sessiontoken", b"authorization", b"api-key", b"bearer ", b"bearer\t", b"bearer\\", b"\\u00", b"\\u25", b"\\/"),
    *(b"x1b[", b"x9b[", b"033[", b"\\e["),
)
COMMON_SIGN = b"sk-"
_TOKEN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


def main(environ: "dict[bytes, bytes]" = posix.environ) -> int:
    """Read a hook call from stdin and append it to the current hour's file in the spool.

    Always return 0: a hook must not interfere with Claude Code.
    """
    posix.umask(0o077)  # whatever Claude Code has: the next call must be able to write there, too
    try:
        write(read(0), directory(environ), time.time_ns())
    except OSError:
        return 0
    return 0


def directory(environ: "dict[bytes, bytes]") -> bytes:
    """Return the spool directory: `$BEAM_STATE/hooks`, else `$XDG_STATE_HOME/beam/hooks`, else
    `~/.local/state/beam/hooks`."""
    own = environ.get(b"BEAM_STATE", b"")
    if own.startswith(b"/"):
        return own + b"/hooks"
    state = environ.get(b"XDG_STATE_HOME", b"")
    if not state.startswith(b"/"):
        state = _home(environ) + b"/.local/state"
    return state + b"/beam/hooks"


def _home(environ: "dict[bytes, bytes]") -> bytes:
    home = environ.get(b"HOME", b"")
    if home.startswith(b"/"):
        return home
    import pwd

    try:
        return pwd.getpwuid(posix.getuid()).pw_dir.encode()
    except KeyError as error:
        raise OSError("this user has no home directory") from error


def read(fd: int) -> bytes:
    """Return all bytes that can be read from the descriptor; b"" if there are more than LARGEST."""
    parts, size = [], 0
    while part := posix.read(fd, 65536):
        size += len(part)
        if size <= LARGEST:
            parts.append(part)
    return b"".join(parts) if size <= LARGEST else b""


def write(payload: bytes, spool: bytes, now_ns: int) -> None:
    """Append the call, without its secrets, as one line to the current hour's file in the spool. Anything but a JSON
    object is ignored. When a new file is begun, files older than a day are removed.

    Raises OSError.
    """
    payload = payload.strip().replace(b"\n", b" ").replace(b"\r", b" ")
    if not (payload.startswith(b"{") and payload.endswith(b"}")):
        return
    if may_hold_secret(payload):
        payload = redacted(payload)
        if not payload:
            return
    path = spool + b"/" + file_name(now_ns)
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK
    try:
        handle = posix.open(path, flags)
    except FileNotFoundError:
        make_directory(spool)
        handle = posix.open(path, flags | posix.O_CREAT, 0o600)
        sweep(spool, now_ns)
    try:
        posix.write(handle, b'{"at_ns":%d,"payload":%s}\n' % (now_ns, payload))
    finally:
        posix.close(handle)


def may_hold_secret(payload: bytes) -> bool:
    """Return whether the call may contain a secret. False means that it certainly contains none."""
    lowered = payload.lower()
    if any(sign in payload for sign in SIGNS) or any(sign in lowered for sign in SIGNS_ANY_CASE):
        return True
    if b"://" in payload and b"@" in payload:
        return True
    at = payload.find(COMMON_SIGN)
    while at >= 0:
        if not payload[at + 3 : at + 19].translate(None, _TOKEN):
            return True
        at = payload.find(COMMON_SIGN, at + 1)
    return False


def redacted(payload: bytes) -> bytes:
    """Return the call without its secrets. Return b"" if they can't be removed; nothing is written in this case."""
    try:
        redact = _redactor()
        return redact(payload.decode("utf-8", "replace"))[0].encode("utf-8", "replace")
    except Exception:  # noqa: BLE001 - a hook must not disturb Claude Code
        return b""


def _redactor() -> "Callable[[str], tuple[str, int]]":
    try:
        from beam.secrets.redact import redact_json
    except ImportError:  # run as a file: without the packages of its interpreter
        import site

        site.main()
        here = __file__.rpartition("/beam/")[0]
        if here.startswith("/"):
            sys.path.append(here)
        from beam.secrets.redact import redact_json
    return redact_json


def file_name(now_ns: int) -> bytes:
    """Return the name of the spool file for the hour (UTC) that contains this time."""
    return time.strftime("%Y-%m-%dT%H.jsonl", time.gmtime(now_ns // 1_000_000_000)).encode()


def make_directory(path: bytes) -> None:
    """Create the directory and its parents, private to the user."""
    try:
        posix.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directory(path.rpartition(b"/")[0])
        posix.mkdir(path, 0o700)


def sweep(spool: bytes, now_ns: int) -> None:
    """Remove spool files older than a day."""
    last = file_name(now_ns - KEPT_S * 1_000_000_000)
    for name in posix.listdir(spool):
        if name.endswith(b".jsonl") and name < last:
            posix.unlink(spool + b"/" + name)


if __name__ == "__main__":
    sys.exit(main())
