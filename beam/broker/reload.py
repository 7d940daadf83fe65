"""Rereads the configuration of a long-lived process when its files change.

Does not depend on who uses it, or when.
"""

from __future__ import annotations

from collections.abc import Callable

from beam.base.errors import BeamError
from beam.broker.context import RootContext
from beam.broker.served import stamp_of
from beam.root.user_dirs import config_dir
from beam.trust import ledger


class ConfigWatch:
    """Watches the files that a root's configuration comes from. `say` takes lines for a log."""

    def __init__(self, context: RootContext, say: Callable[[str], None]) -> None:
        environ = context.environ
        self._paths = context.home.config_file, config_dir(environ) / "config.yaml", ledger.store_path(environ)
        self._say = say
        self._stamps = self._now()
        self._problem = ""  # why the files could not be read last time

    def _now(self) -> tuple[object, ...]:
        return tuple(stamp_of(path) for path in self._paths)

    def read_again(self, context: RootContext, *, retry: bool) -> RootContext | None:
        """Return the context with the new configuration if a file changed; None if no file changed, or it can't be
        read.

        With `retry`, a configuration that could not be read is tried again, because the cause may be fixed without a
        change to these files.
        """
        now = self._now()
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
