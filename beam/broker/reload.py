"""Rereads the configuration of a long-lived process when its files change.

Does not depend on who uses it, or when.
"""

from __future__ import annotations

from collections.abc import Callable

from beam.base.errors import BeamError
from beam.broker.context import RootContext, config_stamps


class ConfigWatch:
    """Watches the files that a root's configuration comes from. `say` takes lines for a log."""

    def __init__(self, context: RootContext, say: Callable[[str], None]) -> None:
        self._say = say
        self._stamps = context.stamps
        self._problem = ""  # why the files could not be read last time

    def read_again(self, context: RootContext, *, retry: bool) -> RootContext | None:
        """Return the context with the new configuration if a file changed; None if no file changed, or it can't be
        read.

        With `retry`, a configuration that could not be read is tried again, because the cause may be fixed without a
        change to these files.
        """
        now = config_stamps(context.home, context.environ)
        if now == self._stamps and not (retry and self._problem):
            return None
        self._stamps = now
        try:
            reloaded = context.reloaded()
        except BeamError as error:
            if str(error) != self._problem:
                self._say(f"the old configuration stays: {error}")
            self._problem = str(error)
            return None
        self._problem = ""
        self._say("read the configuration again")
        return reloaded
