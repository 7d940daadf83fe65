"""Methods for the targets of notifications, each of which is a command or a webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam.api.verbs.opened import OpenedRoot

if TYPE_CHECKING:
    from beam.api.notify import TargetLine, TargetTried


class NotifyVerbs(OpenedRoot):
    """List and try the targets of `notify:`."""

    def notify_targets(self) -> list[TargetLine]:
        """Return every target that is configured here, with the numbers of its waiting, delivered and given-up
        notifications."""
        from beam.api import notify

        return notify.list_targets(self.context)

    def test_notify(self) -> list[TargetTried]:
        """Send a test notification to every target, once each, and return the result for each target.

        Raises NotFoundError if there is no target, UsageError for an agent inside its turn.
        """
        self.check_person("tries notifications")
        from beam.api import notify

        return notify.try_targets(self.context, agent=self.me)
