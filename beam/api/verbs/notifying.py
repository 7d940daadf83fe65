"""The targets that are told when something happens: a command, a webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam.api.verbs.opened import OpenedRoot

if TYPE_CHECKING:
    from beam.api.notify import TargetLine, TargetTried


class NotifyVerbs(OpenedRoot):
    """List and try the targets of `notify:`."""

    def notify_targets(self) -> list[TargetLine]:
        """Return every target that is configured here, with what waits for it and what was given up."""
        from beam.api import notify

        return notify.listed(self.context)

    def test_notify(self) -> list[TargetTried]:
        """Send a notification to every target, once each, and return how each try ended.

        Raises NotFoundError if there is no target, UsageError for an agent inside its turn.
        """
        self.check_person("tries notifications")
        from beam.api import notify

        return notify.try_targets(self.context, agent=self.me)
