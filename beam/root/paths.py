"""Names the files of a root and of an agent in it, and the directories of this user: state, configuration, home (XDG
base directory specification).

Reads directory listings, but no files. Does not depend on any setting or on how a folder gets its root
(`beam.root.discovery`).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from beam.base.errors import DiskError
from beam.model.message import NAME, PLAIN, check_name


def state_dir(environ: Mapping[str, str]) -> Path:
    """Return beam's state directory of this user: `$BEAM_STATE`, else `$XDG_STATE_HOME/beam`."""
    if environ.get("BEAM_STATE", "").startswith("/"):
        return Path(environ["BEAM_STATE"])
    return _xdg(environ, "XDG_STATE_HOME", ".local/state")


def config_dir(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_CONFIG_HOME/beam`, the directory of this user's settings for all folders."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config")


def data_dir(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_DATA_HOME/beam`, the directory of the work trees of scenarios. Agents may write in these work
    trees."""
    return _xdg(environ, "XDG_DATA_HOME", ".local/share")


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> Path:
    named = environ.get(variable, "")
    if named.startswith("/"):  # the XDG specification has relative paths ignored
        return Path(named) / "beam"
    return user_home(environ) / default / "beam"


def user_home(environ: Mapping[str, str]) -> Path:
    """Return `$HOME`, else the home directory in the user database. Raises DiskError if both are unknown."""
    if environ.get("HOME", "").startswith("/"):
        return Path(environ["HOME"])
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError as error:
        raise DiskError("this user has no home directory", "set HOME to a folder of your own") from error


CONFIG_NAME = "beam.yaml"


REMOVED_PREFIX = ".removed-"  # of the name of an agent's or lane's directory that was moved away to be removed


ARCHIVED = "archived"


ROOT_DIRS = ("agents", "locks", "threads")


class AgentPaths(Struct, frozen=True, dict=True):
    """The directories and files of one agent, or of one of its lanes.

    A lane is a temporary session beside the agent's queue (`--once`).
    """

    agent: str
    dir: Path
    lane: str | None = None

    @cached_property
    def queue(self) -> Path:
        return self.dir / "queue"

    @cached_property
    def control(self) -> Path:
        return self.dir / "control"

    @cached_property
    def images(self) -> Path:
        """Return the directory of the images that the agent sent."""
        return self.dir / "images"

    @property
    def agent_dir(self) -> Path:
        """Return the agent's directory. The directory of a lane is inside that of its agent."""
        return self.dir if self.lane is None else self.dir.parent.parent

    @cached_property
    def asks(self) -> Path:
        return self.dir / "asks"

    @cached_property
    def journal(self) -> Path:
        return self.dir / "journal"

    @cached_property
    def lock(self) -> Path:
        """Return the file whose flock decides who holds the agent."""
        return self.dir.parent.parent / "locks" / self.agent if self.lane is None else self.dir / "lock"

    @cached_property
    def archived(self) -> Path:
        """Return the file that exists as long as the agent is archived."""
        return self.dir / ARCHIVED

    @cached_property
    def put_lock(self) -> Path:
        """Return the file whose flock lets only one process at a time put a message into the queue."""
        return self.dir / "put.lock"

    @cached_property
    def reserve(self) -> Path:
        """Return the file that is deleted on a full disk to make room for an outcome; lanes share their agent's."""
        return self.agent_dir / "reserve"

    @cached_property
    def log(self) -> Path:
        """Return the file for a detached worker's stderr."""
        return self.dir / "worker.log"

    @cached_property
    def cli_version_file(self) -> Path:
        """Return the file that records the version of the agent's CLI, as beam last saw it."""
        return self.dir / "cli.json"

    def unstarted_note(self, turn_key: str) -> Path:
        """Return the file that the guard of that turn creates to report that it never executed the agent's program.

        The file is in the root, where no agent can write. An agent that could create it could make its message run
        twice.
        """
        return self.dir / f"{turn_key}.unstarted"

    def lane_of(self, suffix: str) -> AgentPaths:
        """Return the paths of the agent's lane with the name `suffix`. Raises UsageError for an invalid name."""
        return AgentPaths(self.agent, self.dir / "once" / check_name(suffix, "lane"), suffix)

    def lanes(self) -> list[AgentPaths]:
        """Return the paths of the agent's existing lanes, sorted by name."""
        names = _named_dirs(self.dir / "once", PLAIN)
        return [AgentPaths(self.agent, self.dir / "once" / name, name) for name in names]


class RootPaths(Struct, frozen=True, dict=True):
    """One root, which need not exist yet, and the project folder that it belongs to. Both are absolute paths.

    beam never reads state from `project`, only declarations: beam.yaml and the files that it names.
    """

    root: Path
    project: Path

    @property
    def config_file(self) -> Path:
        return self.project / CONFIG_NAME

    def agent(self, name: str) -> AgentPaths:
        """Return the paths of an agent. Raises UsageError for an invalid name."""
        found = self._agents.get(name)
        if found is None:
            found = self._agents[name] = AgentPaths(check_name(name), self.root / "agents" / name)
        return found

    @cached_property
    def _agents(self) -> dict[str, AgentPaths]:
        return {}

    def agents(self) -> list[str]:
        """Return the names of the agents that have a directory, sorted."""
        return _named_dirs(self.root / "agents", NAME)

    @property
    def threads(self) -> Path:
        """Return the directory with the usage of each thread."""
        return self.root / "threads"

    @property
    def notify(self) -> Path:
        """Return the directory of notifications that wait, were delivered, or were given up."""
        return self.root / "notify"

    @property
    def snapshots(self) -> Path:
        """Return the git object store with the content of work trees before turns."""
        return self.root / "snapshots"

    @property
    def search(self) -> Path:
        """Return the full-text index over the journals, a cache."""
        return self.root / "search.sqlite3"

    @property
    def turns(self) -> Path:
        """Return the directory that has a folder for each turn. The directory is outside the root, because agents may
        write in it."""
        return self.root.with_name(f"{self.root.name}.turns")

    def turns_of(self, paths: AgentPaths) -> Path:
        """Return the directory for the turns of one agent, or of one lane.

        Agents are told the path, and some CLIs take a word with @ for the name of a file to read. So the path has `+`
        in place of each `@` of the agent's name.
        """
        name = paths.agent.replace("@", "+")
        return self.turns / (name if paths.lane is None else f"{name}.{paths.lane}")

    def exists(self) -> bool:
        return self.root.is_dir()


def _named_dirs(folder: Path, pattern: re.Pattern[str]) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if pattern.match(entry.name) and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise disk_error(error, folder, "read") from error


ELSEWHERE_HINT = "BEAM_STATE=DIR, `state_dir:` in your own configuration, or --root DIR"


_DESCRIPTORS_HINT = "close some programs, or raise the limit of open files: ulimit -n 4096"
_HINTS = {
    errno.EROFS: f"keep beam's state on a disk that can be written: {ELSEWHERE_HINT}",
    errno.ENOSPC: f"free some space, or keep beam's state on another disk: {ELSEWHERE_HINT}",
    errno.EDQUOT: f"free some space, or keep beam's state on another disk: {ELSEWHERE_HINT}",
    errno.EACCES: f"keep beam's state in a folder of your own: {ELSEWHERE_HINT}",
    errno.EPERM: f"keep beam's state in a folder of your own: {ELSEWHERE_HINT}",
    errno.EMFILE: _DESCRIPTORS_HINT,
    errno.ENFILE: _DESCRIPTORS_HINT,
    errno.EAGAIN: "end some processes, or raise the limit of processes (ulimit -u)",  # from fork
    errno.ENOMEM: "free some memory",
    errno.ENOTDIR: "a part of that path is a file; move it away",
    errno.ENAMETOOLONG: f"use a shorter path: {ELSEWHERE_HINT}",
}


def disk_error(error: OSError, path: Path, verb: str) -> DiskError:
    reason = (error.strerror or str(error)).lower()
    hint = _HINTS.get(error.errno or 0, f"look at the disk, or keep beam's state elsewhere: {ELSEWHERE_HINT}")
    return DiskError(f"can't {verb} {path}: {reason}", hint, subject=str(path))
