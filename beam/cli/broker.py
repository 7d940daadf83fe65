"""`beam broker`: one process that serves all agents of a root, in the foreground or detached."""

from __future__ import annotations

import sys

from beam import ExitCode, UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import option
from beam.cli.render.text import safe, write, write_json

_POLL = option("1s", "--poll", metavar="D", help="How often to check all agents even without a file notification.")
_POLL_ONLY = option(False, "--poll-only", help="Only poll; use no file notifications (for network file systems).")
_CAP = option(
    None, "--cap", metavar="N", min=1, help="How many turns may run at a time; default: 2 per core, at least 4."
)
_IDLE = option(None, "--idle", metavar="D", help="End after having nothing to do for this long.")

app = App(help="Serve all agents of this root: in the foreground, or detached with `start`.")


@app.without_command
def broker(
    call: Context,
    poll: str = _POLL,
    poll_only: bool = _POLL_ONLY,
    cap: int | None = _CAP,
    grace: str = option("30s", "--grace", metavar="D", help="How long running turns may continue after a stop."),
    idle: str | None = _IDLE,
) -> None:
    """Serve all agents of this root until ^C.

    ^C or SIGTERM starts no new turns and gives running ones --grace before it interrupts them. A second ^C interrupts
    them immediately.
    """
    from beam import durations

    call.beam.serve(
        cap=cap,
        poll=durations.parse(poll),
        poll_only=poll_only,
        idle=_parse_idle(idle),
        grace=durations.parse(grace),
        write=_log,
    )


def _parse_idle(idle: str | None) -> float | None:
    from beam import durations

    if idle is None:
        return None
    seconds = durations.parse(idle)
    if not seconds:
        raise UsageError("--idle 0 ends the broker before it began", "for example: --idle 30m", subject="--idle")
    return seconds


def _log(text: str) -> None:
    write(sys.stderr, safe(text, sys.stderr))
    sys.stderr.flush()


@app.verb()
def start(
    call: Context,
    poll: str = _POLL,
    poll_only: bool = _POLL_ONLY,
    cap: int | None = _CAP,
    idle: str | None = _IDLE,
) -> None:
    """Start a detached broker and print its pid."""
    from beam import durations

    pid = call.beam.start_broker(cap=cap, poll=durations.parse(poll), poll_only=poll_only, idle=_parse_idle(idle))
    sys.stdout.write(f"{pid}\n")


@app.verb()
def stop(
    call: Context,
    grace: str = option(
        "30s", "--grace", metavar="D", help="How long running turns may continue; then they are interrupted."
    ),
) -> None:
    """Stop the broker and wait until it is gone."""
    from beam import durations

    call.note(f"stopped the broker (pid {call.beam.stop_broker(grace=durations.parse(grace))})")


@app.verb()
def status(call: Context, as_json: bool = option(False, "--json", help="Print one JSON object.")) -> int:
    """Show whether a broker serves this root; exit 4 if none does."""
    from beam import NotFoundError, durations
    from beam.cli.render.tables import ago, print_pairs

    found = call.beam.broker()
    if found is None:
        raise NotFoundError(f"no broker serves {call.beam.home.root}", "start one: beam broker start", subject="broker")
    if as_json:
        write_json(found)
        return int(ExitCode.COMPLETED)
    print_pairs(
        [
            ("pid", f"{found.pid} on {found.host}"),
            ("since", f"{found.started_at} ({ago(found.started_at)})"),
            ("version", found.version + (" - not this one; stop and start it" if found.skew else "")),
            ("turns", f"up to {found.cap} at a time"),
            ("poll", f"{found.poll:g} s"),
            ("keeps", f"up to {found.kept} processes"),
            ("ends", f"after {durations.show(found.idle)} without work" if found.idle else "when it is stopped"),
            ("memory", f"{found.rss_mb} MB" if found.rss_mb is not None else "?"),
            ("log", found.log),
        ]
    )
    return int(ExitCode.COMPLETED)


@app.verb()
def service(
    call: Context,
    awake: bool = option(False, "--awake", help="Keep the machine from sleeping while the broker runs."),
) -> None:
    """Print a systemd user unit for this root's broker."""
    sys.stdout.write(call.beam.broker_unit(awake=awake))
