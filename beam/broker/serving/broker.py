"""Runs a broker's process: it claims the root, serves it until a signal or a lack of work ends it, and releases the
root."""

from __future__ import annotations

import math
import os
import sys

from beam.base import __version__, files, own_program
from beam.base.clock import rfc3339
from beam.base.errors import DiskError
from beam.broker.holder import registry
from beam.broker.inbox.context import RootContext
from beam.broker.serving.kind import BROKER
from beam.broker.serving.server import Say, Server
from beam.process import tree
from beam.root import discovery
from beam.turns.handle import on_stop_signals


async def run(
    context: RootContext, *, cap: int, poll: float, poll_only: bool, idle: float | None = None, grace: float, say: Say
) -> None:
    """Run a broker: claim the root, serve it, release it.

    `cap` limits concurrent turns; `poll`, `idle` (None: no limit) and `grace` are in seconds; `say` is called with each
    line for the log (see `Server`). Raises UsageError if another broker serves the root, DiskError if the root was
    removed or replaced meanwhile.
    """
    discovery.check_folder(context.home, context.environ)
    discovery.create(context.home)
    held = files.HELD_AGENT_DESCRIPTORS * (len(context.home.agents()) + cap)
    files.check_descriptors(files.TURN_DESCRIPTORS + files.EXTRA_TURN_DESCRIPTORS * (cap - 1) + held)
    entry = registry.BrokerFile(
        owner=tree.this_process(),
        version=__version__,
        started_at=rfc3339(context.clock.now_ns()),
        poll=poll,
        cap=cap,
        idle=idle,
    )
    forever = math.inf if idle is None else idle
    server = Server(context, BROKER, cap=cap, poll=poll, poll_only=poll_only, idle=forever, say=say)
    own_program.prepare_long_run()
    with on_stop_signals(server.ask_to_stop):  # a reader of broker.json may send a signal immediately
        claimed = registry.claim_root(context.home, entry)
        try:
            server.why_lost = claimed.why_lost
            say(f"serving {context.home.root} (pid {os.getpid()}, up to {cap} turns at once)")
            await server.serve(grace=grace)
        finally:
            registry.release_root(context.home, claimed)
            say("stopped")
            sys.stderr.flush()
    if server.lost:
        raise DiskError(server.lost, "beam broker start, where the agents are now", subject=str(context.home.root))
