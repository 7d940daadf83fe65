"""The request for one turn with all options resolved, and its conversion to the adapter's `Turn`.

Only reads (PATH, the working directory), starts nothing, and writes only the turn's scratch files.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import UNSET, Struct

from beam.agents.base import Adapter, Capabilities, Face, Host, Turn
from beam.agents.options import check
from beam.agents.ruled import check_rules
from beam.base import files
from beam.base.errors import NotFoundError, UnsupportedError
from beam.model import events
from beam.model.events import Event
from beam.model.limits import Limits
from beam.model.message import RANK, Access, Message
from beam.model.outcome import Total
from beam.model.settings import AgentSettings
from beam.process.environment import absolute_folders
from beam.rules.ruleset import Ruleset
from beam.turns.choice import ASKS, BY_AUTO, KEPT, NOT_KEPT, asked_of, why_not_kept
from beam.turns.confine import Own
from beam.turns.envelope import add_envelope
from beam.turns.replay import RecordedTurn


class Record(Protocol):
    """Record an event of this turn; return it as it is in the journal."""

    def __call__(self, body: Event, *, sync: bool = False) -> Event: ...


class TurnRequest(Struct, frozen=True, kw_only=True):
    """Everything that one turn needs. `environ` is the environment of the process that runs the turn; `child_env`
    what beam itself tells the child (BEAM_*); `base` the project folder; `scratch` where a private directory for the
    turn may be made; `own` are beam's places, which the agent may not write below full access, and `landlock` the
    version that keeps it from them (0: none; null: as this system has it); `untrusted` says why the folder must be
    trusted first, `folder_trusted` whether it was; `left_out` are files in it that nobody trusted and that the CLI
    is kept from, and `folder_env` keeps git from others; `unstarted` is the file by which its guard says that the
    agent never was; `images` is where images are kept that the agent sends, in its own directory `agent_dir` in the
    root (null: nowhere); `at_most` lowers what the settings and the message give, null does not; `fork`: the turn
    continues in a copy of the session; `upto`: the CLI's own id of the last message of it that counts, null for all;
    `carried` is the CLI's own running total of tokens before the turn, where it keeps one; `told` the digest of the
    system prompt that is in the session as a part of a message, null if none is; `rules` say what is
    denied, asked about and allowed beside that; `snapshots` is the store for what the work tree contains before the
    turn, null if it is not recorded; `recorded` is the turn that is replayed in its place; `is_proxied`: its
    model calls go through a proxy, which keeps its budget; `is_kept`: its process may stay for the next turn;
    `cli_file` is where it is kept which version the CLI has, null if nobody asks; `unfit` says why the agent's protocol
    is not used without being named, and `is_broken` that its CLI's version is known for that."""

    message: Message
    turn: int
    turn_key: str
    session_id: str | None
    fresh_session_id: str
    adapter: Adapter
    adapter_name: str
    settings: AgentSettings
    limits: Limits
    environ: Mapping[str, str]
    child_env: Mapping[str, str]
    base: Path
    scratch: Path
    owner: events.Owner
    own: Own | None = None
    snapshots: Path | None = None
    landlock: int | None = None
    unstarted: Path | None = None
    images: Path | None = None
    agent_dir: Path | None = None
    untrusted: str | None = None
    folder_trusted: bool = False
    left_out: tuple[str, ...] = ()
    folder_env: Mapping[str, str] = {}
    from_agent: bool = False
    at_most: Access | None = None
    fork: bool = False
    upto: str | None = None
    carried: Total | None = None
    told: str | None = None
    rules: Ruleset = Ruleset()
    recorded: RecordedTurn | None = None
    is_proxied: bool = False
    is_kept: bool = False
    cli_file: Path | None = None
    unfit: str = ""
    is_broken: bool = False

    @property
    def timeout(self) -> float:
        """Return how many seconds the turn may take."""
        return self.message.options.timeout or self.settings.timeout or self.limits.timeout

    @property
    def idle_timeout(self) -> float:
        """Return after how many seconds without output or other activity the turn is stopped."""
        return self.settings.idle_timeout or self.limits.idle_timeout


def env_for_kept_process(child_env: Mapping[str, str]) -> dict[str, str]:
    """Return beam's variables for a process that outlives its turn: nothing about one message."""
    of_the_agent = {name: child_env[name] for name in child_env if name in _OF_THE_AGENT}
    return {**dict.fromkeys(child_env, ""), **of_the_agent}


_OF_THE_AGENT = ("BEAM_ROOT", "BEAM_PROJECT", "BEAM_AGENT", "BEAM_LANE", "BEAM_OUTBOX", "BEAM_BIN")


def face_of(adapter: Adapter, via: str | None, access: Access | None = None) -> Face:
    """Return the face that runs a turn with this access. Raises UnsupportedError for a face that this agent does not
    have.

    With access `ask` the agent's own protocol is chosen without being named, because there it can ask.
    """
    faces = adapter.card.faces
    if adapter.card.unverified:
        raise UnsupportedError(
            f"beam was never tested with {adapter.card.name}, and does not run it",
            adapter.card.unverified,
            subject=adapter.card.name,
        )
    if via in BY_AUTO:
        can = faces.get("dialogue")
        if access == "ask" and can is not None and "ask" in can.access and "dialogue" not in adapter.card.never_auto:
            return "dialogue"
        for face in ("dialogue", "exec", "terminal", "mailbox"):
            if face in faces and face not in adapter.card.by_name:
                return face
    for face in faces:
        if face == via:
            return face
    raise UnsupportedError(
        f"{adapter.card.name} can't be run with --via {via}", f"it has: {', '.join(faces)}", subject=str(via)
    )


def why_this_face(order: TurnRequest, face: Face) -> str | None:
    """Return why `auto` chose this face; None if it had no choice, or a face was requested."""
    if order.message.options.via not in BY_AUTO or order.recorded is not None:
        return None
    faces = order.adapter.card.faces
    if face == "terminal":
        return f"{order.adapter.card.name} has no protocol and no headless mode, only a screen"
    if not ("dialogue" in faces and "exec" in faces):
        return None
    if face == "exec":
        return _why_not_kept(order) if order.is_kept else NOT_KEPT
    return KEPT if face_of(order.adapter, None, _granted(order)) == "exec" else ASKS


def lowest(*bounds: Access | None) -> Access | None:
    """Return the lowest of these accesses, ignoring None."""
    return min((bound for bound in bounds if bound is not None), key=RANK.__getitem__, default=None)


def granted_access(
    configured: Access | None, asked: Access | None, *, from_agent: bool = False, at_most: Access | None = None
) -> Access:
    """Return the access that results from the settings and the message.

    A message from an agent may lower what the settings give, never raise it; `at_most` bounds both.
    """
    granted: Access = configured or "read"
    if asked is not None and not (from_agent and RANK[asked] >= RANK[granted]):
        granted = asked
    return lowest(granted, at_most) or granted


def access_of(order: TurnRequest, capabilities: Capabilities) -> Access:
    """Return the access of the turn. Raises UnsupportedError for one that the agent can't enforce."""
    asked, configured = order.message.options.access, order.settings.access
    if not capabilities.access:
        if asked is not None:
            raise UnsupportedError(
                f"{order.adapter_name} agents have no access that could be set to {asked!r}",
                "what they may do is what their program does; leave --access out",
                subject=asked,
            )
        own = configured or "full"
        if lowest(own, order.at_most) != own:
            raise UnsupportedError(
                f"{order.message.to} may do what its program does ({own}), and this message has access "
                f"{order.at_most} at the most",
                f"if the program does no more than that, say so: beam agent set {order.message.to} "
                f"access={order.at_most}",
                subject=order.message.to,
            )
        return own
    granted = granted_access(configured, asked, from_agent=order.from_agent, at_most=order.at_most)
    if granted not in capabilities.access:
        raise UnsupportedError(
            f"{order.adapter_name} can't enforce --access {granted} here",
            f"it can: {', '.join(capabilities.access)}",
            subject=granted,
        )
    return granted


def face_for(order: TurnRequest) -> Face:
    """Return the face that runs this turn. Raises UnsupportedError for a face that this agent does not have."""
    via = order.message.options.via
    face = face_of(order.adapter, via, _granted(order))
    if face == "dialogue" and via in BY_AUTO and order.is_broken:
        raise UnsupportedError(
            f"{order.adapter_name} asks only over its protocol: {order.unfit}",
            "install another version of it, or name another --access",
            subject=order.adapter_name,
        )
    may_choose = face == "exec" and via in BY_AUTO and order.is_kept
    return "dialogue" if may_choose and not _why_not_kept(order) else face


def _why_not_kept(order: TurnRequest) -> str:
    if order.unfit:
        return order.unfit
    can = order.adapter.card.faces.get("dialogue")
    if can is not None and ((order.fork and not can.fork) or (order.upto is not None and not can.rewind)):
        return "its protocol can't make this copy of a session"
    return why_not_kept(
        order.adapter,
        order.message.options,
        order.settings,
        _granted(order),
        order.rules.rules,
        attaches=bool(order.message.payload.attach),
    )


def _granted(order: TurnRequest) -> Access:
    asked = order.message.options.access
    return granted_access(order.settings.access, asked, from_agent=order.from_agent, at_most=order.at_most)


def most_of(order: TurnRequest) -> Access | None:
    """Return the highest access for messages that this turn sends: the turn's own.

    For a program it is the one in its settings, None if they name none.
    """
    try:
        capabilities = order.adapter.card.faces[face_for(order)]
        return access_of(order, capabilities) if capabilities.access else lowest(order.settings.access, order.at_most)
    except UnsupportedError:
        return "read"


def folder_of(order: TurnRequest) -> Path:
    """Return the folder in which the agent works in this turn."""
    cwd = order.settings.cwd
    return Path(os.path.realpath(order.base / cwd)) if cwd else order.base


def turn_of(order: TurnRequest, face: Face, scratch: str) -> Turn:
    """Return the message as the adapter gets it. Raises UnsupportedError for an option that this face can't apply."""
    capabilities = order.adapter.card.faces[face]
    options, settings, name = order.message.options, order.settings, order.adapter_name
    schema = options.schema or settings.schema
    turns = options.max_turns or settings.max_turns
    budget = options.budget_usd or settings.budget_usd
    only_typed = face == "terminal" and not capabilities.access  # a program: settings for all agents don't stop it
    given = msgspec.structs.replace(settings, model=None, system=None) if only_typed else settings
    asked = set(asked_of(options, given, attaches=bool(order.message.payload.attach)))
    if order.is_proxied:
        asked.discard("budget")
    if order.session_id is not None and not only_typed:
        asked.add("resume")
    check(name, capabilities, asked, order.adapter.card.faces)
    if order.fork and not capabilities.fork:
        raise UnsupportedError(
            f"{name} can't continue in a copy of a session with --via {face}",
            f"start with an empty session: beam agent reset {order.message.to}",
            subject=name,
        )
    if order.upto is not None and not capabilities.rewind:
        raise UnsupportedError(
            f"{name} can't go on from an earlier point of its session with --via {face}",
            "beam send --via dialogue can, if any",
            subject=name,
        )
    cwd = folder_of(order)
    if not os.path.isdir(cwd):  # noqa: PTH112 - pathlib's raises for a name that can't be
        why = f"`cwd` of agent {order.message.to} names it" if settings.cwd else "it is the project folder"
        raise NotFoundError(f"{cwd} is not a directory", why, subject=str(cwd))
    if order.from_agent:
        _check_attached(order.message.payload.attach)
    access, outbox = access_of(order, capabilities), f"{scratch}/outbox"
    check_rules(order.adapter, face, access, order.rules.rules)
    if settings.runner:
        from beam.turns import runner

        has_access, calls = bool(capabilities.access), options.model_calls is not UNSET
        runner.check(settings, order.message.to, face, access, has_access=has_access, is_proxied=calls)
    return Turn(
        text=add_envelope(
            order.message,
            settings=settings,
            card=order.adapter.card,
            capabilities=capabilities,
            access=access,
            outbox=outbox,
        ),
        sender=order.message.sender,
        message_id=order.message.id,
        agent=order.message.to,
        attempt=order.message.attempt,
        session_id=order.session_id,
        fresh_session_id=order.fresh_session_id,
        fork=order.fork,
        upto=order.upto,
        model=options.model or settings.model,
        access=access,
        cwd=str(cwd),
        scratch=scratch,
        outbox=outbox,
        attach=order.message.payload.attach,
        schema=schema,
        once=options.once,
        slash=options.slash is True,
        max_turns=turns,
        budget_usd=budget if capabilities.budget else None,
        settings=settings,
        folder_trusted=order.folder_trusted,
        leave_out=bool(order.left_out),
        carried=order.carried,
        told=order.told,
        rules=order.rules,
    )


def _check_attached(paths: Sequence[str]) -> None:
    """Raise NotFoundError if a file that an agent attached was replaced.

    Its real path was checked when the message was sent; since then it may have become a link.
    """
    for path in paths:
        if os.path.realpath(path) != path or not os.path.isfile(path):  # noqa: PTH113 - any text may be a path here
            raise NotFoundError(f"{path} is not the file that was attached", "send it again", subject=path)


def host_of(order: TurnRequest) -> Host:
    """Return the adapter's `Host` on this machine. Raises NotFoundError (kind not_installed) if its CLI is missing."""
    import sys

    return Host(
        executable=find_executable(order.adapter, order.settings, order.environ, order.base),
        home=order.environ.get("HOME", ""),
        python=sys.executable,
    )


def find_executable(adapter: Adapter, settings: AgentSettings, environ: Mapping[str, str], base: Path) -> str:
    """Return the absolute path of the adapter's CLI, "" if it needs none. Relative folders of PATH are not searched.

    Raises NotFoundError (kind not_installed) with the way to install it.
    """
    wanted = settings.executable or adapter.card.executable
    if not wanted:
        return ""
    if settings.runner:
        return wanted  # it is looked for where the runner runs it
    if "/" in wanted:
        path = os.path.realpath(base / os.path.expanduser(wanted))  # noqa: PTH111 - as below
        found = path if os.path.isfile(path) else None  # noqa: PTH113 - pathlib's raise for names that can't be
    else:
        import shutil  # 2 ms: bz2 and lzma are imported with it

        found = shutil.which(wanted, path=absolute_folders(environ.get("PATH", os.defpath)))
    if found is None:
        raise NotFoundError(
            f"{wanted} is not installed here", adapter.card.install, subject=adapter.card.name, kind="not_installed"
        )
    return found


def write_scratch(scratch: Path, contents: Mapping[str, bytes]) -> None:
    """Write the launch's files, private, into the turn's scratch directory."""
    for name, data in contents.items():
        path = scratch / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise ValueError(f"a scratch file's name leads elsewhere: {name}")
        files.make_directory(path.parent)
        files.write_new(path, data)


def as_new_session(turn: Turn) -> Turn:
    """Return the same turn in a new session, whose id is always the same for this turn."""
    fresh = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{turn.fresh_session_id} afresh"))
    return msgspec.structs.replace(
        turn, session_id=None, fresh_session_id=fresh, fork=False, upto=None, carried=None, told=None
    )
