"""Methods to run the broker of a root here, start it detached, stop it, and read its status."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from beam.api.verbs.opened import OpenedRoot

if TYPE_CHECKING:
    from beam.api.broker import BrokerStatus


class BrokerVerbs(OpenedRoot):
    """Run the broker, which serves all agents of a root."""

    def serve(
        self,
        *,
        cap: int | None = None,
        poll: float = 1.0,
        poll_only: bool = False,
        idle: float | None = None,
        grace: float = 30.0,
        write: Callable[[str], object] | None = None,
    ) -> None:
        """Serve all agents of this root in this process, until a signal asks to stop, or until there was nothing to do
        for `idle` seconds.

        `cap` is the largest number of concurrent turns (None: a default for this machine). `poll` is the poll interval,
        and `grace` is how long running turns may take to end after a signal (seconds). `write` is called with each line
        of the broker's log (None: stderr). Raises UsageError if a broker serves the root already.
        """
        self.check_person("serves a root")
        from beam.api import broker
        from beam.secrets.shown import blanked

        log = write or sys.stderr.write
        broker.serve(
            self.context,
            cap=cap,
            poll=poll,
            poll_only=poll_only,
            idle=idle,
            grace=grace,
            write=lambda line: log(blanked(line)),
        )

    def start_broker(
        self, *, cap: int | None = None, poll: float = 1.0, poll_only: bool = False, idle: float | None = None
    ) -> int:
        """Start a detached broker and return its pid. It ends after `idle` seconds without anything to do."""
        self.check_person("starts a broker")
        from beam.api import broker

        return broker.start(self.context, cap=cap, poll=poll, poll_only=poll_only, idle=idle).owner.pid

    def stop_broker(self, *, grace: float = 30.0) -> int:
        """Ask the broker to stop, and after `grace` seconds to stop immediately. Return its pid."""
        self.check_person("stops a broker")
        from beam.api import broker

        return broker.stop(self.context, grace=grace).owner.pid

    def broker(self) -> BrokerStatus | None:
        """Return the status of this root's broker; None if none runs."""
        from beam.api import broker

        return broker.status(self.context)

    def broker_unit(self) -> str:
        """Return a systemd user unit for this root's broker."""
        from beam.api import broker

        return broker.systemd_unit(self.context)
