"""The contract of an adapter: pure functions and values that know one agent CLI, and nothing about beam's files.

An adapter starts no processes, reads no files and has no clock. It turns a `Turn` into a `Launch`, and the CLI's output
into events and one `Verdict`. A module satisfies `Adapter` by defining its names; there is no class to inherit from.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Raw, Struct

from beam.model.autoloaded import AutoloadedFile
from beam.model.events import Event
from beam.model.message import Access
from beam.model.outcome import Class, Status, Total
from beam.model.outcome import Verdict as Verdict
from beam.model.screen_profile import Profile
from beam.model.settings import AgentSettings
from beam.rules.call import ToolCall
from beam.rules.rule import Rule
from beam.rules.ruleset import Ruleset

Face = Literal["dialogue", "exec", "terminal", "mailbox"]


class Content(Struct, frozen=True, kw_only=True):
    """The content of an attached file. `image` is the media type of an image, "" for any other file."""

    path: str
    image: str = ""
    data: bytes


class Turn(Struct, frozen=True, kw_only=True):
    """One message for an adapter, with every option resolved.

    `session_id` is the resume id of the session to continue, None for a new session; `fresh_session_id` is a UUID that
    a CLI may use for a new session, if it takes one (the same for each launch of one attempt); `fork`: continue in a
    copy of the session; `upto`: continue with the session only up to that message (the CLI's own id of it), None for
    all of the session. `scratch` is an empty private directory that is removed after the turn; `outbox` is the
    directory for the agent's requests to beam, "" if it may send none. `schema` is a JSON Schema as text.

    `rules` decide about some tool calls, whatever `access` says of them. Each was checked before: the CLI or beam
    enforces it (`HasRules`).

    `once`: this session is never resumed. `slash`: the text is one of the CLI's own slash commands. `folder_trusted`: a
    person allowed this folder's own files, as they are now, to run code. `leave_out`: some files of `Card.obeys` are
    not trusted; the CLI must not read them. `carried` are the CLI's figures of the whole session before this turn, for
    a CLI that reports running totals; None if unknown. `told` is the digest of the system prompt that an earlier
    message of the session began with, None if none did. `contents` are the attached files with their content, for a
    mode with `attach="inline"`.
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
    """What beam found on this machine for an adapter. `executable` is absolute, or "" if none was found."""

    executable: str = ""
    version: str | None = None
    home: str = ""
    python: str = ""


class Launch(Struct, frozen=True, kw_only=True):
    """How to run the CLI for one turn.

    `stdin` is everything that the CLI reads there (None: /dev/null). `env` is added to the child's environment. `files`
    (relative name -> bytes) are written into `scratch` first. `prompt_in_argv`: the indexes of arguments that hold the
    prompt, which the journal leaves blank. `interrupt`: the signal that asks the CLI to end the turn and keep the
    session. `drops_output`: the CLI drops output if its stdout is full, so its stdout is a file. `retries`: beam ends
    the turn after that many reported retries (None: the CLI itself limits them). `session_file`: the file of the
    requested session, for a CLI that would silently begin a new one; if it is missing, the session is lost and the CLI
    is not started.
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

    Has `code` or `signal` (a name), or neither if the guard was killed. `stopped_by` is beam's own reason to end it:
    timeout, idle, cancelled, interrupted, retries; None if the process ended on its own.
    """

    code: int | None = None
    signal: str | None = None
    stderr_tail: str = ""
    stopped_by: str | None = None


class Decoder(Protocol):
    """Turns the output of one process of the CLI into events. Takes complete lines without their newline, in order."""

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line; a line that the decoder does not understand becomes `events.Unknown`. Never
        raises."""

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the events that are known only at the end, and the verdict. Called once, after the last line."""


@runtime_checkable
class ErrorReader(Protocol):
    """A decoder that also reads stderr, where its CLI reports what its output leaves out."""

    def error_line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line of stderr; most lines have none. Never raises."""


class Exec(Protocol):
    """The headless mode: one process per turn. A module with these names satisfies it."""

    def launch(self, turn: Turn, host: Host) -> Launch:
        """Return how to run this turn. Raises UnsupportedError for what this CLI can't do."""

    def decoder(self, turn: Turn) -> Decoder:
        """Return a new decoder for one process of this turn."""


class Terminal(Protocol):
    """The terminal mode: the CLI's own screen, driven by beam. A module with these names satisfies it."""

    profile: Profile

    def launch(self, turn: Turn, host: Host) -> Launch:
        """Return how to start the CLI for this turn; the prompt is typed later.

        Raises UnsupportedError for what this CLI can't do.
        """


class Transcript(Protocol):
    """One conversation's file as the CLI writes it, read line by line from where a turn begins.

    `state` is the state of the turn so far: "" (unknown), working, waiting (for background work of its own), done;
    `error` is why it failed, None if it did not.
    """

    state: str
    error: str | None

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line. Never raises."""

    def verdict(self) -> Verdict:
        """Return the verdict that the lines so far give."""


class History(Protocol):
    """The CLI's own transcripts.

    A module with these names satisfies it. `tells_end`: beam waits for the transcript to say that a turn is over.
    """

    @property
    def tells_end(self) -> bool: ...

    def where(self, turn: Turn, host: Host) -> str:
        """Return the absolute path of the conversation's file, which need not exist yet.

        If the CLI chooses the name, return a pattern with `*` in it (`glob`'s; other wildcards are escaped). Of the
        files that match, the first whose transcript mentions the turn is taken.
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
    """Who enforces a rule: the agent's own CLI (by flags or settings of the turn), or beam, because the CLI asks
    beam first. "" if neither can; `why` explains that."""

    by: Literal["agent", "beam", ""]
    why: str = ""


class Rules(Protocol):
    """How an adapter handles rules. A module with these names satisfies it."""

    def enforced(self, rule: Rule, face: Face, access: Access) -> Enforced:
        """Return who enforces this rule in a turn with that face and access."""

    def call(self, tool: str, arguments: object) -> ToolCall | None:
        """Return a tool call, given by the CLI's own name and input, in the terms of rules; None if rules can't
        describe it."""


@runtime_checkable
class HasRules(Protocol):
    """An adapter that can enforce rules. Its launch passes on those that the CLI itself enforces."""

    tool_rules: Rules


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a mode can do; each entry has a test.

    `access` lists the values that the mode can enforce. If it is empty, beam can't limit what the program does; a
    person agrees to that by trusting the folder. `attach`: how attached files are passed on: by their path, or read by
    beam (`inline`); None: not at all. `rewrites`: it changes blanks in some prompts, and a notice says where. `calls`:
    its outcome has the number of model calls that its tokens are for; `models`: it has each model's share. `rewind`: it
    can continue from an earlier point of a session; `checkpoints`: it can restore the files of that point. `system`: it
    takes a system prompt in addition to its own. `denials`: its CLI reports each call that was denied. `api_time`: its
    outcome tells how long the model calls took; `lines`: how many lines of files the turn changed. `steer`: a text can
    be given to the turn that runs; `changes`: an approval can change the input of the call. `commands`: the CLI's own
    slash commands can be sent. `outbox` lists the accesses with which its file tool may write into the turn's outbox.
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
    commands: bool = False
    attach: Literal["path", "inline"] | None = None
    access: tuple[Access, ...] = ()
    prompt_in_argv: bool = False
    rewrites: bool = False
    outbox: tuple[Access, ...] = ()


class Remembers(Struct, frozen=True, kw_only=True):
    """A JSON file of the folder in which a CLI stores permanent permissions.

    `keys` is the path of keys to the list that the CLI adds to. `most` is the largest number of entries that one
    decision may add.
    """

    path: str
    keys: tuple[str, ...]
    most: int


class BrokenVersion(Struct, frozen=True, kw_only=True):
    """Versions of a CLI whose protocol was seen broken: from `first` to `last` (both included; "": `first` alone).
    `what` says what does not work."""

    first: str
    last: str = ""
    what: str


class Card(Struct, frozen=True, kw_only=True):
    """What users see of an adapter.

    `executable` is the program's name on PATH ("" if it has none of its own). `versions` are those that its tests ran
    with; with a version in `broken`, its protocol is used only if a message names that mode. `runs_code`: it is a
    program of the person's own, and its settings say what it runs. `runs_text`: it runs the message as code. An agent
    of either kind in a folder's beam.yaml takes effect only after `beam trust`. `own_sandbox`: below full access the
    CLI confines itself, and Landlock would break that. `makes`: the folders (None) and files (with their first content)
    that the CLI creates on first use. beam makes them, because the CLI can't do so under Landlock. A path begins with
    HOME or with an XDG variable. `writes`: the folders (as in `makes`) that the CLI needs to write below full access,
    besides the agent's folder. All others are closed, because this CLI could leave its folder through a link. None:
    only beam's files are closed. `obeys` are the files of a folder that the CLI obeys. Switches can make the CLI ignore
    them. `occupied` are files (or `$NAME`: variables) of the machine's owner that these switches would replace; if one
    of them exists, the switches are not used. `remembers` are the files in which it stores what a person allowed with
    `--always`. `unverified` says why nobody has tested it, and how to use it anyway: it then has no mode and is only
    listed. `by_name` are modes that are used only if a message names them, for access `ask`, or (dialogue) if the
    process stays for the next turn; `never_auto` are modes that are used only if a message names them.
    `figures_in_files`: over its protocol the CLI reports the tokens of a turn only in its own files
    (`session_files.TellsCalls`). `teams`: `beam watch` shows its agent teams.
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
    obeys: tuple[AutoloadedFile, ...] = ()
    occupied: tuple[str, ...] = ()
    remembers: tuple[Remembers, ...] = ()
    unverified: str = ""
    by_name: tuple[Face, ...] = ()
    never_auto: tuple[Face, ...] = ()
    figures_in_files: bool = False
    teams: bool = False


class Adapter(Protocol):
    """A module of the registry. `exec` is None if the CLI has no headless mode."""

    card: Card
    exec: Exec | None


class Native(Struct, frozen=True):
    """One parsed line of a CLI: `value` is the JSON object, `line` the line itself."""

    value: dict[str, Any]
    line: bytes

    @property
    def text(self) -> str:
        """Return the line as text, for the field `raw` of an event; most lines, such as deltas, are not kept there."""
        return self.line.decode("utf-8", "replace")


_decode = msgspec.json.Decoder().decode  # made once: a line is decoded in half the time


# What the strict decoder refuses and the tolerant one takes; whatever else is refused is no JSON.
_ODD = re.compile(rb"[^\x00-\x7f]|\\u|NaN|Infinity|\d{16}|[eE][+-]?\d{3}")
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def native(line: bytes) -> Native | None:
    """Return the JSON object of a line, None for any other line. Invalid UTF-8 and lone surrogates become U+FFFD."""
    value = json_object(line)
    return None if value is None else Native(value, line)


def json_object(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line, None for any other line, as tolerantly as `native`."""
    try:
        value = _decode(line)
    except _NOT_JSON:
        if not (line.lstrip().startswith(b"{") and _ODD.search(line)):
            return None
        try:
            value = _decode_odd(line)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def document(data: bytes) -> Any:
    """Return the JSON value in the bytes, as tolerantly as `native`. Raises ValueError."""
    try:
        return _decode(data)
    except _NOT_JSON:
        return _decode_odd(data)


def _decode_odd(data: bytes) -> Any:
    """Return the JSON value in bytes that the strict decoder refuses. Raises ValueError."""
    import json  # for odd documents alone

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
    """Return a JSON value as an event keeps it, including whole numbers of any size; null for one nested too deeply."""
    try:
        return Raw(msgspec.json.encode(value))
    except OverflowError:
        import json

        return Raw(json.dumps(value).encode())
    except RecursionError:  # what could just be read may be too deep to be written
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
    """Return the last line of a text that is not blank, cut at 500 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""
