"""What an adapter is: pure things that know everything about one agent CLI and nothing about beam's files.

An adapter spawns nothing, reads no files and knows no clock. It turns a `Turn` into a `Launch`, and the bytes that come
back into events and one `Verdict`. A module satisfies `Adapter` by its names; there is no class to inherit from.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from beam.model.autoloaded import AutoloadedFile
from beam.model.events import Event
from beam.model.message import Access
from beam.model.outcome import Class, Denial, Evidence, ModelUsage, SessionNote, Status, Total, Unfinished, Usage
from beam.model.screen_profile import Profile
from beam.model.settings import AgentSettings

Face = Literal["dialogue", "exec", "terminal", "mailbox"]


class Turn(Struct, frozen=True, kw_only=True):
    """One message for an adapter, every option settled.

    `session_id` is the resume id to go on with, null for a new session; `fresh_session_id` is a UUID that a CLI
    which takes one may use for a new session (the same for each launch of one attempt); `fork`: go on in a copy of
    it. `scratch` is an empty private directory that is removed after the turn; `outbox` is where the agent may write
    requests to beam, "" where it may not. `schema` is a JSON Schema as text.
    `once`: nobody will resume this session. `folder_trusted`: a person said that this folder's own files, as they are
    now, may run code. `leave_out`: there are files of `Card.obeys` that nobody trusted; the CLI must be kept from them.
    `carried` is what the CLI had counted over the whole session before this turn, for one whose figures go on
    growing; null where beam does not know.
    """

    text: str
    message_id: str
    agent: str
    sender: str = ""
    attempt: int = 1
    session_id: str | None = None
    fresh_session_id: str = ""
    fork: bool = False
    model: str | None = None
    access: Access = "read"
    cwd: str = ""
    scratch: str = ""
    outbox: str = ""
    attach: tuple[str, ...] = ()
    schema: str | None = None
    once: bool = False
    max_turns: int | None = None
    budget_usd: float | None = None
    settings: AgentSettings = AgentSettings()
    folder_trusted: bool = False
    leave_out: bool = False
    carried: Total | None = None


class Host(Struct, frozen=True, kw_only=True):
    """What beam found out about this machine for an adapter. `executable` is absolute, or "" where none was found."""

    executable: str = ""
    version: str | None = None
    home: str = ""
    python: str = ""


class Launch(Struct, frozen=True, kw_only=True):
    """How to run the CLI for one turn. `stdin` is everything it reads there (null: nothing, /dev/null). `env` is added
    to the child's environment. `files` (relative name -> bytes) are written into `scratch` first. `prompt_in_argv`:
    which arguments hold the prompt (their indexes), blanked in the journal. `interrupt`: the signal that asks it to end
    the turn and keep the session. `drops_output`: it does not wait when its stdout is full, so it gets a file there.
    `retries`: after how many retries that it says beam ends the turn (null: the CLI itself was told). `session_file`:
    the file that is the asked session, for a CLI that would begin it anew in silence; without it the session is lost,
    and this is not run."""

    argv: tuple[str, ...]
    stdin: bytes | None = None
    env: dict[str, str] = {}
    files: dict[str, bytes] = {}
    prompt_in_argv: tuple[int, ...] = ()
    interrupt: Literal["SIGINT", "SIGTERM"] = "SIGINT"
    drops_output: bool = False
    retries: int | None = None
    session_file: str | None = None


class Exit(Struct, frozen=True, kw_only=True):
    """How the agent's process ended. `code` or `signal` (a name), neither where the guard was killed. `stopped_by` is
    beam's own reason to end it: timeout, idle, cancelled, interrupted, retries; null where it ended by itself."""

    code: int | None = None
    signal: str | None = None
    stderr_tail: str = ""
    stopped_by: str | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    """What the adapter says of the turn, from the CLI's own words; the turn adds what beam knows (times, stops)."""

    status: Status
    class_: Class | None = None
    reason: str | None = None
    reply: str | None = None
    session_id: str | None = None
    session: SessionNote | None = None
    model: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    models: tuple[ModelUsage, ...] | None = None
    denials: tuple[Denial, ...] = ()
    unfinished: tuple[Unfinished, ...] = ()
    structured: Raw | UnsetType = UNSET
    lossy: bool | UnsetType = UNSET
    evidence: Evidence | None = None


class Decoder(Protocol):
    """The CLI's output of one process, turned into events. Fed whole lines without their newline, in order."""

    def line(self, line: bytes) -> Sequence[Event]:
        """Bodies of what this line says; a line that nobody understands becomes `events.Unknown`. Never raises."""

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Called once, after the last line: bodies that only the end tells, and the verdict."""


@runtime_checkable
class ErrorReader(Protocol):
    """A decoder that reads stderr as well, because its CLI says there what its output leaves out."""

    def error_line(self, line: bytes) -> Sequence[Event]:
        """Bodies of what this line of stderr says; most say nothing. Never raises."""


class Exec(Protocol):
    """The headless face: one process a turn. A module may be one."""

    def launch(self, turn: Turn, host: Host) -> Launch:
        """How to run this turn. Raises UnsupportedError for what this CLI can't do."""

    def decoder(self, turn: Turn) -> Decoder:
        """A new decoder for one process of this turn."""


class Terminal(Protocol):
    """The terminal face: the CLI's own screen, driven by beam. A module may be one."""

    profile: Profile

    def launch(self, turn: Turn, host: Host) -> Launch:
        """How to start it for this turn; the prompt is typed. Raises UnsupportedError for what this CLI can't do."""


class Transcript(Protocol):
    """One conversation's file as the CLI writes it, read line by line from where a turn begins. `word` is what it says
    of the turn so far: "" (nothing), working, waiting (for work of its own in the background), done; `error` why it
    failed, null if it did not."""

    word: str
    error: str | None

    def line(self, line: bytes) -> Sequence[Event]:
        """Bodies of what this line says. Never raises."""

    def verdict(self) -> Verdict:
        """What the lines so far say of the turn."""


class History(Protocol):
    """The history face: the CLI's own transcripts. A module may be one. `tells_end`: a transcript says when a turn is
    over, so it is waited for."""

    @property
    def tells_end(self) -> bool: ...

    def where(self, turn: Turn, host: Host) -> str:
        """The absolute path of the conversation's file; it need not exist yet. Where the CLI chooses its name: a
        pattern of it with `*` in it (`glob`'s; what is no wildcard is escaped). Of the files that fit, that one counts
        whose transcript first says anything of the turn."""

    def transcript(self, turn: Turn) -> Transcript:
        """A new reader for one turn."""


@runtime_checkable
class HasTerminal(Protocol):
    """An adapter with a terminal face."""

    terminal: Terminal


@runtime_checkable
class HasHistory(Protocol):
    """An adapter with a history face."""

    transcripts: History


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a face really does; each has a test. `access` lists the words that it can enforce; empty: it has no access
    of its own, and trusting the folder covers it. `attach`: how files go along (null: not at all). `rewrites`: it
    changes the blanks of some prompts, and a notice says where. `calls`: its outcome says of how many calls of a model
    its tokens are; `models`: of which models. `system`: it takes a system prompt beside its own. `denials`: its CLI
    tells of each call that was denied. `outbox`: with which access its file tool can write into the outbox of the
    turn."""

    resume: bool = False
    fork: bool = False
    model: bool = False
    schema: bool = False
    system: bool = False
    max_turns: bool = False
    budget: bool = False
    deltas: bool = False
    tools: bool = False
    interrupt: bool = False
    ask: bool = False
    tokens: bool = False
    cost: bool = False
    calls: bool = False
    denials: bool = False
    models: bool = False
    attach: Literal["path", "inline"] | None = None
    access: tuple[Access, ...] = ()
    prompt_in_argv: bool = False
    rewrites: bool = False
    outbox: tuple[Access, ...] = ()


class Remembers(Struct, frozen=True, kw_only=True):
    """A JSON file of the folder into which a CLI writes what a person allowed for ever. `keys` lead to the list that it
    adds to, and `most` is how many entries one decision may add."""

    path: str
    keys: tuple[str, ...]
    most: int


class Card(Struct, frozen=True, kw_only=True):
    """What people see of an adapter. `executable` is the program's name on PATH ("" for none of its own). `versions`
    are those that its tests ran. `runs_code`: it is a program of the person's own, whose settings say what it runs.
    `runs_text`: what it is sent is run as code. An agent of either in a folder's beam.yaml counts only after `beam
    trust`. `own_sandbox`: below full access the system holds it by its own doing, and Landlock would break that.
    `makes`: the folders (null) and files (their first content) that it makes when it is first used, which it can't
    under Landlock; a path begins with HOME or with an XDG variable. `writes`: the folders (as in `makes`) that it needs
    to write besides its own, below full access; all others are closed to a CLI that a link leads out of its folder.
    Null: only beam's files are. `obeys` are the files of a folder that the CLI
    obeys. `occupied` are files (or `$NAME`: variables) of the machine's owner in whose place its switches against them
    would come; where one is there they are not used. `remembers` are the files into which it writes what a person
    allowed it `--always`.
    `unverified` says why nobody has seen it run, and how to use it all the same: then it has no face, and is only
    listed."""

    name: str
    summary: str
    executable: str = ""
    install: str = ""
    version_argv: tuple[str, ...] = ("--version",)
    versions: tuple[str, ...] = ()
    faces: Mapping[Face, Capabilities]
    runs_code: bool = False
    own_sandbox: bool = False
    makes: Mapping[str, str | None] = {}
    writes: tuple[str, ...] | None = None
    runs_text: bool = False
    obeys: tuple[AutoloadedFile, ...] = ()
    occupied: tuple[str, ...] = ()
    remembers: tuple[Remembers, ...] = ()
    unverified: str = ""


class Adapter(Protocol):
    """A module of the registry. `exec` is None where the CLI has no headless mode."""

    card: Card
    exec: Exec | None


class Native(Struct, frozen=True):
    """One parsed line of a CLI: `value` is the JSON object, `text` the line itself as it goes into `raw`."""

    value: dict[str, Any]
    text: str


_decode = msgspec.json.Decoder().decode  # made once: a line is decoded in half the time


def native(line: bytes) -> Native | None:
    """The JSON object of a line, tolerantly: invalid UTF-8 and lone surrogates become U+FFFD. None
    for anything else."""
    value = json_object(line)
    return None if value is None else Native(value, line.decode("utf-8", "replace"))


def json_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object that the line is, as tolerantly as `native`, which also gives its text. None
    for anything else."""
    try:
        value = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            value = document(line)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def document(data: bytes) -> Any:
    """The JSON value that the bytes are, as tolerantly as `native`. Raises ValueError."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return _scrubbed(json.loads(data.decode("utf-8", "replace")))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_scrubbed(item) for item in value]
    if isinstance(value, dict):
        return {_scrubbed(key): _scrubbed(item) for key, item in value.items()}
    return value


def raw_json(value: object) -> Raw:
    """A JSON value as an event keeps it, whole numbers of any size included."""
    try:
        return Raw(msgspec.json.encode(value))
    except OverflowError:
        return Raw(json.dumps(value).encode())


def died(exit: Exit, name: str) -> Verdict:
    """The verdict on a process that ended without saying how the turn went."""
    tail = last_line(exit.stderr_tail)
    how = (
        f"was ended by {exit.signal}"
        if exit.signal
        else f"exited with {exit.code}"
        if exit.code is not None
        else "was lost"
    )
    return Verdict(
        status=Status.FAILED,
        class_=Class.CRASHED,
        reason=f"{name} {how} before it answered" + (f": {tail}" if tail else ""),
    )


def last_line(text: str) -> str:
    """The last line of a text that is not blank, cut at 500 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""
