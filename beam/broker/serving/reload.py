"""Rereads the configuration of a long-lived process when a file of the configuration changes.

Does not depend on what the process does, or on when it calls this.
"""

from __future__ import annotations

from collections.abc import Callable

from beam.base.digest import Stamp, stamp_of
from beam.base.errors import BeamError
from beam.broker.inbox.context import RootContext
from beam.config.resolve import stamps_of
from beam.trust import ledger


class ConfigWatch:
    """Watches the files of a root's configuration. `say` is called with each line for the log."""

    def __init__(self, context: RootContext, say: Callable[[str], None]) -> None:
        self._say = say
        self._stamps = (*context.config.stamps, _trust_stamp(context))
        self._problem = ""  # why the files could not be read last time

    def read_again(self, context: RootContext, *, retry: bool) -> RootContext | None:
        """Return the context with the new configuration if a file changed; None if no file changed, or if the
        configuration can't be read.

        With `retry`, a configuration that could not be read is tried again, because the cause may be fixed without a
        change to these files.
        """
        now = (*stamps_of(context.home, context.environ), _trust_stamp(context))
        if now == self._stamps and not (retry and self._problem):
            return None
        self._stamps = now
        try:
            reloaded = context.reload_config()
        except BeamError as error:
            if str(error) != self._problem:
                self._say(f"the old configuration stays: {error}")
            self._problem = str(error)
            return None
        self._problem = ""
        self._say("read the configuration again")
        return reloaded


def _trust_stamp(context: RootContext) -> Stamp:
    """Return the stamp of the trust ledger's file, which decides whether the folder is trusted."""
    return stamp_of(ledger.store_path(context.environ))
