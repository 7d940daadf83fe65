"""The contract of an adapter: a module of pure functions and values for one agent CLI.

An adapter knows nothing about beam's files, starts no processes, reads no files and has no clock. It turns a `Turn`
into a `Launch`, and the CLI's output into events and one `Verdict`. A module satisfies `Adapter` by defining the names
in `Adapter`; there is no class to inherit from.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Raw, Struct

from beam.base.typed_values import replace_surrogates
from beam.model.autoloaded import AutoloadedFile
from beam.model.events import Event
from beam.model.message import Access
from beam.model.outcome import Class, Status, Total
from beam.model.outcome import Verdict as Verdict
from beam.model.settings import AgentSettings
from beam.rules.rule import Rule, ToolCall
from beam.rules.ruleset import Ruleset

if TYPE_CHECKING:
    from beam.model.screen_profile import Profile

Face = Literal["dialogue", "exec", "terminal", "mailbox"]


class Content(Struct, frozen=True, kw_only=True):
    """The content of an attached file. `image` is the media type of an image, "" for any other file."""

    path: str
    image: str = ""
    data: bytes


class Turn(Struct, frozen=True, kw_only=True):
    """One message for an adapter, with every option resolved.

    `session_id` is the id of the session to continue, None for a new session. `fresh_session_id` is a UUID that the CLI
    may use as the id of a new session; it is the same for each launch of one attempt. `fork`: continue in a copy of the
    session. `upto` is the CLI's own id of a message or turn: the session continues after it, without anything later.
    None keeps the whole session. `scratch` is an empty private directory that is removed after the turn. `outbox` is
    the directory for the agent's requests to beam, "" if the agent may send none. `schema` is a JSON Schema as text.

    `rules` decide some tool calls, whatever `access` says about these calls. It was checked before that the CLI or beam
    enforces each rule (`HasRules`).

    `once`: no later turn resumes this session. `slash`: the text is one of the CLI's own slash commands.
    `folder_trusted`: a person allowed this folder's own files, as they are now, to run code. `leave_out`: some files of
    `Card.obeys` are not trusted; the CLI must not read them. `carried` are the CLI's figures of the whole session
    before this turn, for a CLI that reports running totals; None if unknown. `told` is the digest of the last system
    prompt that began an earlier message of the session, None if no message began with one. `contents` are the attached
    files with their content, for a mode with `attach="inline"`.
    """

    text: str
    message_id: str
    agent: str
    sender: str = ""
    attempt: int = 1
    session_id: str | None = None
    fresh_session_id: str = ""
    fork: bool = False
    upto: str | None = None
    model: str | None = None
    access: Access = "read"
    cwd: str = ""
    scratch: str = ""
    outbox: str = ""
    attach: tuple[str, ...] = ()
    contents: tuple[Content, ...] = ()
    schema: str | None = None
    once: bool = False
    slash: bool = False
    max_turns: int | None = None
    budget_usd: float | None = None
    settings: AgentSettings = AgentSettings()
    folder_trusted: bool = False
    leave_out: bool = False
    carried: Total | None = None
    told: str | None = None
    rules: Ruleset = Ruleset()


class Host(Struct, frozen=True, kw_only=True):
    """The facts about this machine that an adapter needs. `executable` is the absolute path of the CLI, "" if none was
    found. `version` is the CLI's version, None if unknown. `home` is the user's HOME, and `python` the Python that runs
    beam."""

    executable: str = ""
    version: str | None = None
    home: str = ""
    python: str = ""


class Launch(Struct, frozen=True, kw_only=True):
    """How to run the CLI for one turn.

    `stdin` is the complete standard input of the process (None: /dev/null). `env` is added to the environment of the
    process. `files` maps names to contents; these files are written into `scratch` before the start. `prompt_in_argv`
    are the indexes of the arguments that contain the prompt; the journal leaves these arguments blank. `interrupt` is
    the signal that asks the CLI to end the turn and keep the session. `drops_output`: the CLI drops output if its
    stdout is full, so its stdout is a file. `retries` is the largest number of retries that the CLI may report: at the
    next one, beam ends the turn (None: the CLI itself limits its retries). `session_file` is the file of the requested
    session, for a CLI that would silently begin a new session without it. If the file is missing, the session is lost
    and the CLI is not started.
    """

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
    """How the agent's process ended.

    `code` is its exit code, or `signal` the name of the signal that ended it; both are None if beam's guard process was
    killed. `stopped_by` is beam's own reason to end the process: timeout, idle, cancelled, interrupted or retries; None
    if the process ended on its own.
    """

    code: int | None = None
    signal: str | None = None
    stderr_tail: str = ""
    stopped_by: str | None = None


class Decoder(Protocol):
    """Turns the output of one process of the CLI into events. Its methods take complete lines without their newline, in
    order."""

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line. A line that the decoder does not understand becomes `events.Unknown`. Never
        raises."""

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the events that are known only at the end, and the verdict. Called once, after the last line."""


@runtime_checkable
class ErrorReader(Protocol):
    """A decoder that also reads stderr, because its CLI reports some facts only there."""

    def error_line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line of stderr; most lines have none. Never raises."""


@runtime_checkable
class PieceReader(Protocol):
    """A decoder that also takes a long line of stdout in pieces: it needs no whole line to tell what it says."""

    def piece(self, data: bytes) -> Sequence[Event]:
        """Return the events of this part of a line that goes on. The rest of the line comes by `line`. Never raises."""


class Exec(Protocol):
    """The headless mode: one process per turn. A module with the functions `launch` and `decoder` is an `Exec`."""

    def launch(self, turn: Turn, host: Host) -> Launch:
        """Return how to run this turn. Raises UnsupportedError for what this CLI can't do."""

    def decoder(self, turn: Turn) -> Decoder:
        """Return a new decoder for one process of this turn."""


class Terminal(Protocol):
    """The terminal mode: the CLI's own screen, driven by beam. A module with the names `profile` and `launch` is a
    `Terminal`."""

    profile: "Profile"

    def launch(self, turn: Turn, host: Host) -> Launch:
        """Return how to start the CLI for this turn; the prompt is typed later.

        Raises UnsupportedError for what this CLI can't do.
        """


class Transcript(Protocol):
    """Reads the file of one conversation, which the CLI writes, line by line from the beginning of a turn.

    `state` is the state of the turn so far: "" (unknown), working, waiting (for the CLI's own background work) or done.
    `error` says why the turn failed, None if it did not fail.
    """

    state: str
    error: str | None

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line. Never raises."""

    def verdict(self) -> Verdict:
        """Return the verdict that follows from the lines so far."""


class History(Protocol):
    """The transcripts that the CLI itself writes.

    A module with these names is a `History`. `tells_end`: beam waits for the transcript to say that a turn is over.
    """

    @property
    def tells_end(self) -> bool: ...

    def where(self, turn: Turn, host: Host) -> str:
        """Return the absolute path of the conversation's file, which need not exist yet.

        If the CLI chooses the file's name, return a glob pattern with `*` in it (other wildcards are escaped). beam
        then reads the first matching file whose transcript mentions the turn.
        """

    def transcript(self, turn: Turn) -> Transcript:
        """Return a new reader for one turn."""


@runtime_checkable
class HasTerminal(Protocol):
    """An adapter with a terminal mode."""

    terminal: Terminal


@runtime_checkable
class HasHistory(Protocol):
    """An adapter that can read the CLI's transcripts."""

    transcripts: History


class Enforced(Struct, frozen=True):
    """Who enforces a rule. `by` is `agent` (the agent's own CLI, by flags or settings of the turn), `beam` (the CLI
    asks beam before such a call) or "" (nobody can). `why` explains the answer, "" if it needs no explanation."""

    by: Literal["agent", "beam", ""]
    why: str = ""


class Rules(Protocol):
    """The part of an adapter that handles rules. A module with the functions `enforced` and `call` is a `Rules`."""

    def enforced(self, rule: Rule, face: Face, access: Access) -> Enforced:
        """Return who enforces this rule in a turn with this face and access."""

    def call(self, tool: str, arguments: object) -> ToolCall | None:
        """Return a tool call in the terms of rules, from the CLI's own tool name and input; None if rules can't
        describe the call."""


@runtime_checkable
class HasRules(Protocol):
    """An adapter that can enforce rules. Its `launch` gives the CLI the rules that the CLI itself enforces."""

    tool_rules: Rules


class Capabilities(Struct, frozen=True, kw_only=True):
    """The abilities of a mode. Each field has a test.

    `access` lists the accesses that the mode can enforce. If the list is empty, beam can't limit what the program does;
    a person agrees to that by trusting the folder. `attach` says how attached files are passed on: `path` (by their
    path) or `inline` (with the content that beam read); None: not at all. `rewrites`: the mode changes blanks in some
    prompts, and a notice says in which places. `calls`: the outcome has the number of model calls that used the
    reported tokens. `models`: the outcome has the share of each model. `rewind`: the mode can continue from an earlier
    point of a session. `checkpoints`: the mode can restore the files of such a point. `system`: the mode takes a system
    prompt in addition to the CLI's own. `denials`: the CLI reports each call that was denied. `api_time`: the outcome
    says how long the model calls took. `lines`: the outcome says how many lines of files the turn changed. `edits`: the
    CLI names each file that one of its file tools changed. `steer`: a text can be passed to the running turn.
    `changes`: an approval can change the input of the call. `commands`: the CLI's own slash commands can be sent.
    `outbox` lists the accesses with which the CLI's file tool may write into the turn's outbox. `whole`: beam knows of
    each answer that the model's token limit cut off.
    """

    resume: bool = False
    fork: bool = False
    rewind: bool = False
    checkpoints: bool = False
    model: bool = False
    schema: bool = False
    system: bool = False
    max_turns: bool = False
    budget: bool = False
    deltas: bool = False
    tools: bool = False
    interrupt: bool = False
    ask: bool = False
    steer: bool = False
    changes: bool = False
    tokens: bool = False
    cost: bool = False
    calls: bool = False
    denials: bool = False
    models: bool = False
    api_time: bool = False
    lines: bool = False
    edits: bool = False
    commands: bool = False
    whole: bool = False
    attach: Literal["path", "inline"] | None = None
    access: tuple[Access, ...] = ()
    prompt_in_argv: bool = False
    rewrites: bool = False
    outbox: tuple[Access, ...] = ()


class Remembers(Struct, frozen=True, kw_only=True):
    """A JSON file of the folder in which a CLI stores permanent permissions.

    `keys` is the path of keys to the list to which the CLI adds permissions. `most` is the largest number of entries
    that one decision may add.
    """

    path: str
    keys: tuple[str, ...]
    most: int


class BrokenVersion(Struct, frozen=True, kw_only=True):
    """Versions of a CLI whose protocol does not work: from `first` to `last`, both included. If `last` is "", only
    `first` is meant. `what` says what does not work."""

    first: str
    last: str = ""
    what: str


class Card(Struct, frozen=True, kw_only=True):
    """The description of an adapter that users see, and the properties of its CLI that beam needs.

    `executable` is the program's name on PATH, "" for an adapter without a program of its own. `versions` are the
    versions of the CLI that beam's tests ran with. If the installed version is in `broken`, beam uses the CLI's
    protocol only if a message names that mode. `runs_code`: the agent is a person's own program, and its settings say
    what it runs. `runs_text`: the agent runs the message as code. `asks_model`: a model answers the message, so a turn
    without an answer is a failure (`turns.answer`). If a folder's beam.yaml defines an agent with
    `runs_code` or `runs_text`, that agent takes effect only after `beam trust`.

    `own_sandbox`: below full access the CLI confines itself, and Landlock would break that sandbox. `makes` maps the
    paths that the CLI creates on its first use to None (a folder) or to their first content (a file). beam creates
    them, because the CLI can't do so under Landlock. Each path begins with HOME or with an XDG variable. `writes` are
    the folders (named as in `makes`) that the CLI needs to write below full access, besides the agent's folder. All
    other folders are closed, because this CLI could leave its folder through a link. If `writes` is None, only beam's
    files are closed.

    `obeys` are, by mode, the files of a folder that the CLI obeys, unless switches make it ignore them. A CLI that is
    started in another way obeys other files, so each mode of a CLI has its own entry, which may be empty. `occupied`
    are files, or variables as `$NAME`, of the machine's owner that these switches would replace. If one of them exists,
    beam does not use the switches. `remembers` are the files in which the CLI stores what a person allowed with
    `--always`. `unverified` says why nobody has tested the CLI, and how to use it anyway; such an adapter has no mode
    and is only listed. beam uses a mode in `by_name` only if a message names it, if the access is `ask`, or (dialogue)
    if the process stays for the next turn. beam uses a mode in `never_auto` only if a message names it.
    `figures_in_files`: with its protocol the CLI reports the tokens of a turn only in its own files
    (`session_files.TellsCalls`, `TellsUsage`). `ends_in_files` are the modes in which only these files say that an
    answer was cut off (`TellsEnds`). `edits_in_files` are the modes in which only these files name the files that the
    turn changed. `ends_at_denial` are the modes in which a denied request may end the turn without another word of the
    model. `keeps` is a regular expression for the files that the CLI keeps for itself in its folder, such as its
    sessions: no turn's work, so `beam undo` leaves them. `teams`: `beam watch` shows the CLI's agent teams.
    """

    name: str
    summary: str
    executable: str = ""
    install: str = ""
    version_argv: tuple[str, ...] = ("--version",)
    versions: tuple[str, ...] = ()
    broken: tuple[BrokenVersion, ...] = ()
    faces: Mapping[Face, Capabilities]
    runs_code: bool = False
    own_sandbox: bool = False
    makes: Mapping[str, str | None] = {}
    writes: tuple[str, ...] | None = None
    runs_text: bool = False
    asks_model: bool = True
    obeys: Mapping[Face, tuple[AutoloadedFile, ...]] = {}
    occupied: tuple[str, ...] = ()
    remembers: tuple[Remembers, ...] = ()
    unverified: str = ""
    by_name: tuple[Face, ...] = ()
    never_auto: tuple[Face, ...] = ()
    figures_in_files: bool = False
    ends_in_files: tuple[Face, ...] = ()
    edits_in_files: tuple[Face, ...] = ()
    ends_at_denial: tuple[Face, ...] = ()
    keeps: str = ""
    teams: bool = False

    @property
    def is_program(self) -> bool:
        """Return whether the agent is a person's own program whose access beam can't limit."""
        return self.runs_code and not any(face.access for face in self.faces.values())


class Adapter(Protocol):
    """A module of the registry. `exec` is None if the CLI has no headless mode."""

    card: Card
    exec: Exec | None


class Native(Struct, frozen=True):
    """One line of a CLI that is a JSON object: `value` is the object, `line` the line itself."""

    value: dict[str, Any]
    line: bytes

    @property
    def text(self) -> str:
        """Return the line as text, for the field `raw` of an event. It is decoded only on request, because most lines,
        such as deltas, are not stored there."""
        return self.line.decode("utf-8", "replace")


_decode = msgspec.json.Decoder().decode  # made once: a line is decoded in half the time


# Marks of JSON that the strict decoder refuses and the tolerant one accepts. A refused line without a mark is not JSON.
_TOLERANT_ONLY = re.compile(rb"[^\x00-\x7f]|\\u|NaN|Infinity|\d{16}|[eE][+-]?\d{3}")
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def native(line: bytes) -> Native | None:
    """Return the JSON object of a line, None for any other line. Invalid UTF-8 and lone surrogates become U+FFFD."""
    value = json_object(line)
    return None if value is None else Native(value, line)


def json_object(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line, None for any other line. Invalid UTF-8 and lone surrogates become U+FFFD."""
    try:
        value = _decode(line)
    except _NOT_JSON:
        if not (line.lstrip().startswith(b"{") and _TOLERANT_ONLY.search(line)):
            return None
        try:
            value = _decode_tolerantly(line)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def document(data: bytes) -> Any:
    """Return the JSON value in the bytes. Invalid UTF-8 and lone surrogates become U+FFFD. Raises ValueError if the
    bytes are not JSON."""
    try:
        return _decode(data)
    except _NOT_JSON:
        return _decode_tolerantly(data)


def _decode_tolerantly(data: bytes) -> Any:
    """Return the JSON value in bytes that the strict decoder refuses. Raises ValueError if the bytes are not JSON."""
    import json  # only needed for such documents

    try:
        return _replace_surrogates(json.loads(data.decode("utf-8", "replace")))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    return value


def raw_json(value: object) -> Raw:
    """Return the value as the JSON text that events store. Whole numbers can have any size. A value that is nested too
    deeply becomes null."""
    try:
        return Raw(msgspec.json.encode(value))
    except OverflowError:
        import json

        return Raw(json.dumps(value).encode())
    except RecursionError:  # a value that was just read can be nested too deeply to be written
        return Raw(b"null")


def died(exit: Exit, name: str) -> Verdict:
    """Return the verdict on a process that ended without reporting a result."""
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
    """Return the last line that is not blank, cut at 500 characters; "" if all lines are blank."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""
