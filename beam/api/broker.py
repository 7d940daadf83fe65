"""Controls the broker of a root from another process: start it detached, stop it, return its status, print a systemd
unit for it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from beam.base import __version__, files, own_program
from beam.base.errors import DiskError, ExitCode, NotFoundError, UnfinishedError, UnsupportedError
from beam.broker.holder import registry
from beam.broker.holder.registry import BrokerFile
from beam.broker.inbox.context import RootContext
from beam.process import tree
from beam.process.load import rss_bytes
from beam.root import discovery
from beam.secrets.shown import blanked
from beam.store.lock import is_free

_LOG_BYTES = 1024 * 1024
_TAIL_BYTES = 64 * 1024  # where the last line of the log is looked for
_START_S = 15.0
_END_S = 20.0


class BrokerStatus(Struct, frozen=True, kw_only=True):
    """The result of `beam broker status`. `skew`: the broker runs another version of beam than the caller. `poll` is
    its poll interval (seconds), and `cap` is the largest number of concurrent turns. The broker ends after `idle`
    seconds without work; null: it never ends for that reason. It keeps at most `kept` processes of agents. `rss_mb` is
    null if the system does not report it."""

    pid: int
    host: str
    version: str
    skew: bool
    started_at: str
    poll: float
    cap: int
    idle: float | None
    kept: int
    rss_mb: float | None
    log: str


def start(
    context: RootContext, *, cap: int | None, poll: float, poll_only: bool, idle: float | None = None
) -> BrokerFile:
    """Start a detached broker, and return its entry (`BrokerFile`) as soon as it serves the root.

    Raises UsageError if another broker serves the root, UnfinishedError if the new broker does not start in time,
    DiskError if the project folder is gone.
    """
    discovery.check_folder(context.home, context.environ)
    discovery.create(context.home)
    discovery.remember_root(context.home, context.environ)
    log = registry.log_path(context.home)
    _rotate(log)
    words = ["--root", str(context.home.root), "broker", "--poll", f"{poll:g}"]
    words += ["--cap", str(cap)] if cap is not None else []
    words += ["--poll-only"] if poll_only else []
    words += ["--idle", f"{idle:g}s"] if idle is not None else []
    argv, options = own_program.command("beam", *words, environ=context.environ)
    before = registry.running_broker(context.home)
    if before is not None:
        registry.claim_root(context.home, before).release()
    with files.disk_action("open", log):
        handle = files.open_stream(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        started = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=handle,
            cwd=context.home.project,
            start_new_session=True,
            **options,
        )
    finally:
        os.close(handle)
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        running = registry.running_broker(context.home)
        if running is not None and running.owner.pid == started.pid:
            started.returncode = 0  # it outlives this process on purpose
            return running
        if (code := started.poll()) is not None:
            if code == ExitCode.USAGE and not is_free(context.home.root / "broker.lock"):
                raise registry.already_served(context.home)  # another one was started at the same moment
            break
        time.sleep(0.02)
    raise UnfinishedError(
        f"the broker did not start: {_last_line(log)}", f"read its log: {log}", subject=str(log), kind="broker"
    )


def _rotate(log: Path) -> None:
    try:
        if log.stat().st_size > _LOG_BYTES:
            log.rename(log.with_name(log.name + ".1"))
    except FileNotFoundError:
        return
    except OSError as error:
        raise files.disk_error("rotate", log, error) from error


def _last_line(log: Path) -> str:
    try:
        start = max(0, log.stat().st_size - _TAIL_BYTES)
        lines = b"".join(files.read_pieces(log, start)).decode(errors="replace").strip().splitlines()
    except (OSError, DiskError):
        return "it said nothing"
    return lines[-1] if lines else "it said nothing"


def stop(context: RootContext, *, grace: float) -> BrokerFile:
    """Ask the broker to stop, and after `grace` seconds to stop immediately. Return when the broker's process is gone.

    Raises NotFoundError if no broker runs, UnsupportedError if it runs on another host, UnfinishedError if it does not
    end.
    """
    running = registry.running_broker(context.home)
    if running is None:
        raise NotFoundError(
            f"no broker serves {context.home.root}", "there is nothing to stop", subject=str(context.home.root)
        )
    if tree.is_alive(running.owner) is None:
        raise UnsupportedError(
            f"the broker of {context.home.root} runs on {running.owner.host} (pid {running.owner.pid})", "stop it there"
        )
    os.kill(running.owner.pid, signal.SIGTERM)
    if _wait_until_gone(running, grace):
        return running
    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        # Two signals in quick succession are one to the kernel, so the second is sent until it counts.
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.owner.pid, signal.SIGTERM)
        if _wait_until_gone(running, 0.5):
            return running
    raise UnfinishedError(
        f"the broker (pid {running.owner.pid}) did not end", f"kill -9 {running.owner.pid}", kind="broker"
    )


def _wait_until_gone(running: BrokerFile, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while tree.is_alive(running.owner):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def status(context: RootContext) -> BrokerStatus | None:
    """Return the status of the broker; None if none runs."""
    running = registry.running_broker(context.home)
    if running is None:
        return None
    return BrokerStatus(
        pid=running.owner.pid,
        host=running.owner.host,
        version=running.version,
        skew=running.version != __version__,
        started_at=running.started_at,
        poll=running.poll,
        cap=running.cap,
        idle=running.idle,
        kept=context.config.limits.kept,
        rss_mb=_megabytes(rss_bytes(running.owner.pid)) if tree.is_alive(running.owner) else None,
        log=str(registry.log_path(context.home)),
    )


def _megabytes(size: int | None) -> float | None:
    return None if size is None else round(size / 2**20, 1)


def version_skew(context: RootContext) -> str | None:
    """Return a sentence for the user if the broker runs another version of beam than this process; None if it does
    not."""
    running = registry.running_broker(context.home)
    if running is None or running.version == __version__:
        return None
    return f"the broker runs beam {running.version}, this is {__version__}; beam broker stop, then start"


_AWAKE = {  # the program that keeps a machine awake as long as the one behind it runs
    "darwin": ["/usr/bin/caffeinate", "-is"],
    "linux": ["/usr/bin/systemd-inhibit", "--what=sleep:idle", "--who=beam", "--why=agents work", "--mode=block"],
}


def systemd_unit(context: RootContext, *, awake: bool = False) -> str:
    """Return the text of a systemd user unit that runs a broker for this root. With `awake`, the machine does not sleep
    while the broker runs.

    No part of a path can add a line to the unit, be split at a space or be filled in by systemd. A project folder that
    `WorkingDirectory=` can't hold, because that has no escapes, is given to beam itself.
    """
    folder = str(context.home.project)
    is_plain = folder.isprintable() and folder == folder.strip() and not folder.endswith("\\")
    where = [] if is_plain else ["-C", folder]
    words = [sys.executable, "-P", "-m", "beam", *where, "--root", str(context.home.root), "broker"]
    words = [words[0], *(word.replace("$", "$$") for word in words[1:])]  # systemd fills in ${VARIABLES}
    state = context.environ.get("BEAM_STATE")
    before = _AWAKE.get(sys.platform, _AWAKE["linux"]) if awake else []
    service = [
        f"ExecStart={' '.join(map(_unit_word, [*before, *words]))}",
        # systemd would kill the broker as soon as the program before it, which is told to end, is gone
        *([f"ExecStop={' '.join(map(_unit_word, [*words, 'stop']))}"] if awake else []),
        *([f"WorkingDirectory={folder.replace('%', '%%')}"] if is_plain else []),
        *([f"Environment={_unit_word(f'BEAM_STATE={state}')}"] if state else []),
    ]
    shown = "".join(each if each.isprintable() and each != "\\" else "?" for each in blanked(folder)).replace("%", "%%")
    name = re.sub(r"[^\w.-]", "_", blanked(context.home.project.name), flags=re.ASCII)
    return f"""\
# ~/.config/systemd/user/beam-{name}.service
[Unit]
Description=beam broker of {shown}

[Service]
{chr(10).join(service)}
Restart=on-failure
KillMode=mixed
TimeoutStopSec=60

[Install]
WantedBy=default.target
"""


def _unit_word(word: str) -> str:
    """Return the word as systemd reads it from a unit (systemd.syntax(7)): quoted and escaped, unless it is plain."""
    if re.fullmatch(r"[\w@+=:,./-]+", word, re.ASCII):
        return word
    return '"' + "".join(map(_unit_character, word)) + '"'


def _unit_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character.replace("%", "%%")
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def serve(
    context: RootContext,
    *,
    cap: int | None,
    poll: float,
    poll_only: bool,
    idle: float | None,
    grace: float,
    write: Callable[[str], object],
) -> None:
    """Run the broker in this process until a signal asks it to stop, or until there was nothing to do for `idle`
    seconds. `write` is called with each line of the broker's log; the line begins with the time."""
    import asyncio

    from beam.broker.serving import broker

    discovery.check_folder(context.home, context.environ)
    discovery.create(context.home)
    discovery.remember_root(context.home, context.environ)

    def say(text: str) -> None:
        write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} beam broker: {text}\n")

    at_once = cap or default_cap()
    asyncio.run(broker.run(context, cap=at_once, poll=poll, poll_only=poll_only, idle=idle, grace=grace, say=say))


def default_cap() -> int:
    """Return the default limit of concurrent turns. It exceeds the number of cores, because a turn mostly waits for the
    model's provider."""
    return max(4, 2 * (os.cpu_count() or 1))
