"""Protects beam's own files from the agent of a turn: by the CLI's sandbox, by Landlock, or by a search for links.

Below full access an agent must not be able to write a queue, because then it could act as the person. Codex has its own
sandbox, which Landlock would break. All other CLIs run under Landlock. On a system without Landlock, beam searches the
agent's folder for links that lead to beam's files, and reports that nothing else protects them. Does not depend on the
content of the files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from beam.agents.base import Card, Face, Turn
from beam.base import files, own_program
from beam.base.errors import BeamError, DiskError
from beam.model import events
from beam.process.confinement import Confinement, aliases, is_within, reaches_into
from beam.root.directories import read_mountinfo
from beam.root.paths import config_dir, state_dir, user_home

if TYPE_CHECKING:
    from beam.process.links import LinkSearch

ConfinementMeans = Literal["", "own sandbox", "Landlock", "links"]
NOTICE_CODE = "unconfined"
OWN_MOVE = "install beam outside of the folder: pipx install beam-agents, or uv tool install beam-agents"
_XDG_DEFAULTS = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}
_MAX_NAMED_LINKS = 3


class TurnConfinement(Struct, frozen=True, kw_only=True):
    """How one turn's agent is confined. `held` names the means, "" for none. `confinement` is the value for its
    process, None without Landlock. `open` are beam's own paths that the agent could still write. `notice` is a text for
    a person, reported once per session. `makes` and `writes` are as in `Card`. `scratch` is the turn's private
    directory."""

    held: ConfinementMeans = ""
    confinement: Confinement | None = None
    open: tuple[str, ...] = ()
    notice: str = ""
    makes: Mapping[str, str | None] = {}
    writes: tuple[str, ...] | None = None
    scratch: str = ""

    def prepare(self, env: Mapping[str, str]) -> dict[str, str]:
        """Create the files and folders that the agent's process could not create itself; return the environment for the
        process.

        If the process could not write to TMPDIR, the environment has another TMPDIR, below `scratch`.
        """
        if self.confinement is None:
            return dict(env)
        closed = None if self.writes is not None else self.confinement.closed_folders()
        _create_paths(self.makes, env, closed)
        if closed is not None and os.path.realpath(env.get("TMPDIR") or "/tmp") not in closed:
            return dict(env)
        own = Path(self.scratch) / "tmp"
        files.make_directory(own)
        return {**env, "TMPDIR": str(own)}

    def confinement_for(self, env: Mapping[str, str]) -> Confinement | None:
        """Return the confinement for a process with this environment; None if there is none.

        With `writes`, everything is protected except the folders in `writes`, the agent's folder, its scratch
        directory, and /dev.
        """
        if self.confinement is None or self.writes is None:
            return self.confinement
        own = [os.path.realpath(path) for path in self.confinement.protected]
        places = [_expanded_path(name, env) for name in self.writes]
        real = [(str(place), os.path.realpath(place)) for place in places if place.is_dir()]
        free = [to for place, to in real if not any(is_within(path, to) or _leads_into(place, path) for path in own)]
        return Confinement(protected=("/",), allowed=(*self.confinement.allowed, *free, *_devices(own)))


class OwnDirectories(Struct, frozen=True):
    """beam's own directories, as absolute paths: `state`, `config`, and `root`, which may lie in `state`. `defaults`
    are the existing default directories that environment variables have replaced."""

    state: str
    config: str
    root: str
    defaults: tuple[str, ...] = ()

    @classmethod
    def of(cls, root: Path, environ: Mapping[str, str]) -> OwnDirectories:
        """Return beam's directories for the user with this environment, and with this root."""
        state, config = state_dir(environ), config_dir(environ)
        less = {name: value for name, value in environ.items() if name != "BEAM_STATE"}
        least = {name: value for name, value in environ.items() if name == "HOME"}
        defaults = {state_dir(less), state_dir(least), config_dir(least)} - {state, config}
        return cls(str(state), str(config), str(root), tuple(sorted(str(path) for path in defaults if path.is_dir())))

    def protected_paths(self) -> tuple[str, ...]:
        """Return the paths to protect: the directories, links in them, and other paths to all these through bind
        mounts."""
        places = (self.state, self.config, *self.defaults)
        own = (*places, *(link for place in places for link in _links_in(place)), self.root)
        return tuple(dict.fromkeys((*own, *aliases(own, read_mountinfo()))))

    def hard_linked_file(self) -> str | None:
        """Return one of beam's files that has a second name (a hard link); None if none was found.

        Searches the first few thousand entries only.
        """
        from beam.process.links import hard_linked_files

        return next(hard_linked_files((self.state, self.config, *self.defaults), below=self.root), None)


def confinement_means(card: Card, version: int | None = None) -> str:
    """Return what confines this CLI below full access, in the words of `beam doctor`; "" if it has full access only.

    `version` is the version of Landlock on this system (0: no Landlock; None: ask the system).
    """
    if not any(access != "full" for can in card.faces.values() for access in can.access):
        return ""
    if card.own_sandbox:
        return "own sandbox"
    version = _landlock_version() if version is None else version
    return f"Landlock (ABI {version})" if version else "looked for links only"


def _landlock_version() -> int:
    from beam.process import landlock

    return landlock.abi()


async def turn_confinement(
    card: Card,
    face: Face,
    turn: Turn,
    own: OwnDirectories | None,
    *,
    version: int | None = None,
) -> TurnConfinement:
    """Return how this turn's agent is confined. `version` is the version of Landlock (0: no Landlock; None: ask the
    system).

    Raises BeamError if the agent could write beam's files through a link in its folder, or by a second name of a file.
    """
    if own is None or turn.access == "full" or not card.faces[face].access:
        return TurnConfinement()
    cwd = os.path.realpath(turn.cwd)
    if card.own_sandbox:
        return _sandboxed_confinement(card, turn, own, cwd)
    paths = own.protected_paths()
    outside = tuple(path for path in paths if not reaches_into(path, cwd))
    inside = tuple(path for path in paths if path not in outside)
    _refuse_hard_links(own, card)
    notices = [_unprotected_notice(path, turn, card) for path in inside]
    version = _landlock_version() if version is None else version
    if not version:
        notices = [await _search_links(card, turn, outside), *notices]
    of_its_own = (turn.scratch, *(() if any(is_within(cwd, os.path.realpath(path)) for path in outside) else (cwd,)))
    return TurnConfinement(
        held="Landlock" if version else "links",
        confinement=Confinement(protected=outside, allowed=of_its_own) if version and outside else None,
        open=inside,
        notice="; ".join(notices),
        makes=card.makes,
        writes=card.writes,
        scratch=turn.scratch,
    )


def confinement_notice(confined: TurnConfinement, turn: Turn) -> events.Notice | None:
    """Return the notice about the confinement for the first turn of a session; None if there is nothing to report."""
    if not confined.notice or turn.session_id is not None:
        return None
    return events.Notice(code=NOTICE_CODE, text=confined.notice)


def program_notice(executable: str, card: Card, turn: Turn) -> events.Notice | None:
    """Return the notice that the agent can change beam's or its own program, for the first turn of a session; None if
    it can't, or with access `read` or `full`."""
    if turn.session_id is not None or turn.access not in ("edit", "ask"):
        return None
    own, its, moves = own_program.place_in(turn.cwd), "", []
    if executable and own_program.leads_through(executable, (os.path.realpath(turn.cwd),)):
        its = f"its own program ({executable})"
        moves.append(f"install {card.name} outside of the folder: {card.install}")
    if own:
        own = f"beam itself ({own}; this turn runs as beam was, and what you run there later as it is then)"
        moves.insert(0, OWN_MOVE)
    if not moves:
        return None
    what = " and ".join(filter(None, (own, its)))
    text = f"in the folder where it works, {card.name} may change {what}; {'; '.join(moves)}"
    return events.Notice(code="open_program", text=text)


def _sandboxed_confinement(card: Card, turn: Turn, own: OwnDirectories, cwd: str) -> TurnConfinement:
    """Return how a CLI with its own sandbox is confined. The sandbox lets it write only in its folder, with access
    `edit`.

    Raises BeamError if one of beam's files has a second name, because that may lie in the CLI's folder.
    """
    if turn.access != "edit":
        return TurnConfinement(held="own sandbox")
    _refuse_hard_links(own, card)
    inside = tuple(path for path in own.protected_paths() if is_within(os.path.realpath(path), cwd))
    notices = [_unprotected_notice(path, turn, card) for path in inside]
    return TurnConfinement(held="own sandbox", open=inside, notice="; ".join(notices))


def _unprotected_notice(path: str, turn: Turn, card: Card) -> str:
    return f"{path} lies in the folder where {card.name} works, and is not protected from it"


async def _search_links(card: Card, turn: Turn, protected: tuple[str, ...]) -> str:
    """Look for links from the agent's folder into a protected folder, on a system without Landlock.

    Return the text to report. Raises BeamError if there is such a link.
    """
    import asyncio

    from beam.process.links import find_links_into

    looked = await asyncio.to_thread(find_links_into, protected, turn.cwd)
    if looked.links:
        named = ", ".join(looked.links[:_MAX_NAMED_LINKS])
        more = f" and {rest} more" if (rest := len(looked.links) - _MAX_NAMED_LINKS) > 0 else ""
        raise BeamError(
            f"{named}{more} leads to beam's own files, and this system has no Landlock to keep {card.name} from them",
            "remove the link, or give --access full if the agent may write there",
            subject=looked.links[0],
            kind="link_out",
        )
    return link_search_report(card, looked)


def link_search_report(card: Card, looked: LinkSearch) -> str:
    """Return the text to report if beam found no link to its files, and has no other means to confine the agent."""
    notices = (
        f"this system has no Landlock: only {card.name}'s own limits keep it from beam's files; "
        "beam looked for links that lead to them and found none"
    )
    if not looked.skipped:
        return notices
    some = ", ".join(looked.skipped[:_MAX_NAMED_LINKS])
    more = f" and {rest} more" if (rest := len(looked.skipped) - _MAX_NAMED_LINKS) > 0 else ""
    return f"{notices}; after {looked.entries} entries it did not look into {some}{more}"


def _refuse_hard_links(own: OwnDirectories, card: Card) -> None:
    """Raise BeamError if one of beam's files has a second name (a hard link), by which the agent could write it."""
    found = own.hard_linked_file()
    if found is not None:
        import shlex

        file = shlex.quote(found)
        raise BeamError(
            f"{found} has a second name (a hard link), by which {card.name} could write it",
            f"look into it, then give it one name: cp -p {file} {file}.new && mv {file}.new {file}",
            subject=found,
            kind="second_name",
        )


def _leads_into(place: str, own: str) -> bool:
    """Return whether a link on the way to the place leads into beam's own directory, where the place is not itself."""
    return is_within(os.path.realpath(place), own) and not is_within(place, own)


def _links_in(folder: str) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        yield from [entry.path for entry in entries if entry.is_symlink()]


def _expanded_path(name: str, env: Mapping[str, str]) -> Path:
    """Return the path that `HOME/…` or `XDG_…/…` means in that environment."""
    variable, _, rest = name.partition("/")
    folder = env.get(variable, "")
    return (Path(folder) if folder.startswith("/") else user_home(env) / _XDG_DEFAULTS.get(variable, "")) / rest


def _create_paths(makes: Mapping[str, str | None], env: Mapping[str, str], closed: set[str] | None) -> None:
    """Create the folders and files that the CLI would otherwise create on first use, and that lie in a closed folder.

    If `closed` is None, create all of them. A failure is ignored, because the CLI itself will report it.
    """
    for name, content in makes.items():
        path = _expanded_path(name, env)
        with contextlib.suppress(DiskError, OSError):
            if closed is not None and os.path.realpath(_nearest_existing(path)) not in closed:
                continue
            if content is None:
                files.make_directory(path)
            else:
                _make_file(path, content.encode())


def _devices(own: list[str]) -> list[str]:
    """Return /dev. If beam's own paths lie in it (in /dev/shm, say), return the other entries of /dev."""
    inside = [path for path in own if is_within(path, "/dev")]
    if not inside:
        return ["/dev"]
    with os.scandir("/dev") as entries:
        beside = [entry.path for entry in entries if not entry.is_symlink()]
    return [path for path in beside if not any(is_within(each, path) for each in inside)]


def _nearest_existing(path: Path) -> Path:
    """Return the path itself if it exists, otherwise the nearest folder above it that exists."""
    return next(folder for folder in (path, *path.parents) if os.path.lexists(folder))


def _make_file(path: Path, content: bytes) -> None:
    """Create the file with all its content in one step. Raises FileExistsError if another process was quicker."""
    files.make_directory(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.beam")
    files.write_new(temporary, content)
    try:
        os.link(temporary, path)
    finally:
        temporary.unlink()
