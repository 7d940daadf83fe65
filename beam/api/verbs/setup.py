"""Methods for the user's roots, for trust in a folder's files, and for the broker that serves a root."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from beam.api.verbs.opened import OpenedRoot
from beam.base import durations
from beam.base.errors import NotFoundError
from beam.root import discovery

if TYPE_CHECKING:
    from beam.api.adopt import Candidate
    from beam.api.broker import BrokerStatus
    from beam.api.root import RootLine
    from beam.api.trusting import FolderReview


class SetupVerbs(OpenedRoot):
    """List, adopt and remove roots, and trust a folder."""

    def roots(self) -> list[RootLine]:
        """Return all roots of this user, each with the project folder that it belongs to."""
        from beam.api import root

        return root.root_lines(self.environ)

    def root_notes(self) -> list[str]:
        """Return warnings about the location of this root, one sentence each; usually none."""
        false, project = self.home.project / discovery.FALSE_ROOT_NAME, self.home.root / discovery.PROJECT_JSON
        if os.path.lexists(project) and not os.path.lexists(false) and self._exposing_folder() is None:
            return []
        from beam.api import root

        return list(root.notes(self.home, self.environ))

    def adoptable(self) -> list[Candidate]:
        """Return other roots of this folder, each with everything that `adopt` would take over. A person should see it
        first."""
        from beam.api import adopt

        return adopt.candidates(self.home, self._folder, self.environ)

    def adopt(self, candidate: Candidate) -> list[str]:
        """Move the agents of another root of this folder into this one. Return what was done, as text."""
        from beam.api import adopt

        self.check_person("adopts a root")
        return adopt.adopt(self.home, candidate, self._folder, self.environ)

    def remove_root(self, path: Path, *, sure: bool = False) -> str:
        """Remove a root of this user with everything in it; with `sure` even if messages wait."""
        from beam.api import root

        self.check_person("removes a root")
        return root.remove(path, self.environ, sure=sure)

    def look_at_folder(self) -> FolderReview:
        """Return all files that agents would obey in this folder, and which of them are trusted. Raises
        NotFoundError."""
        from beam.api import trusting

        if not self.home.project.is_dir():
            raise NotFoundError(f"there is no folder {self.home.project}", "", subject=str(self.home.project))
        return trusting.review_folder(self.context)

    def trust(self, review: FolderReview | None = None) -> Path:
        """Trust this folder's files to run code, as they are in `review` (None: as they are now). Return the folder.

        Messages that waited for this trust then run.
        """
        from beam.api import trusting

        self.check_person("trusts a folder")
        trusting.trust(self.context, review or self.look_at_folder())
        return self.home.project

    def untrust(self) -> Path:
        """Revoke the trust in this folder. Return the folder."""
        self.check_person("trusts folders")
        from beam.trust import ledger

        ledger.untrust(self.home.project, self.environ)
        return self.home.project

    @property
    def _folder(self) -> Path:
        """Return the project folder around the current folder, regardless of the root."""
        return discovery.project_folder(Path(os.path.realpath(self._cwd)), self.environ)


class BrokerVerbs(OpenedRoot):
    """Run the broker, which serves all agents of a root."""

    def serve(
        self,
        *,
        cap: int | None = None,
        poll: float = 1.0,
        poll_only: bool = False,
        idle: float | str | None = None,
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
            idle=durations.seconds(idle),
            grace=grace,
            write=lambda line: log(blanked(line)),
        )

    def start_broker(
        self, *, cap: int | None = None, poll: float = 1.0, poll_only: bool = False, idle: float | str | None = None
    ) -> int:
        """Start a detached broker and return its pid. It ends after `idle` seconds without anything to do."""
        self.check_person("starts a broker")
        from beam.api import broker

        return broker.start(
            self.context, cap=cap, poll=poll, poll_only=poll_only, idle=durations.seconds(idle)
        ).owner.pid

    def stop_broker(self, *, grace: float = 30.0) -> int:
        """Ask the broker to stop, and after `grace` seconds to stop immediately. Return its pid."""
        self.check_person("stops a broker")
        from beam.api import broker

        return broker.stop(self.context, grace=grace).owner.pid

    def broker(self) -> BrokerStatus | None:
        """Return the status of this root's broker; None if none runs."""
        from beam.api import broker

        return broker.status(self.context)

    def broker_unit(self, *, awake: bool = False) -> str:
        """Return a systemd user unit for this root's broker. With `awake`, the machine does not sleep while the broker
        runs."""
        from beam.api import broker

        return broker.systemd_unit(self.context, awake=awake)
