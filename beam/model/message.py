"""A message, which is one file in a queue: its fields, its JSON, its digest and its id.

Unknown fields of a message file are kept when the message is written again. Does not depend on where queues are, or on
who reads them.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, TypedDict, cast, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from beam.base import durations, typed_values
from beam.base.digest import sha256
from beam.base.errors import CorruptError, UsageError


class RuleLists(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Three lists of rules about tool calls: which calls are denied, asked about, and allowed. A rule is a text like
    `Bash(git log *)`, `Edit(src/**)` or `Read` (docs/access.md)."""

    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()

    def plus(self, other: "RuleLists") -> "RuleLists":
        """Return the rules of both, without duplicates."""
        return RuleLists(
            deny=tuple(dict.fromkeys((*self.deny, *other.deny))),
            ask=tuple(dict.fromkeys((*self.ask, *other.ask))),
            allow=tuple(dict.fromkeys((*self.allow, *other.allow))),
        )


VERSION = 1
PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9][a-z0-9_-]*(?:@[a-z0-9][a-z0-9_-]*)?\Z")  # AGENT, or AGENT@SESSION
ID = re.compile(r"(?=.{1,96}\Z)[a-z0-9][a-z0-9_-]*(?:@[a-z0-9][a-z0-9_-]*)?\Z")
_SESSION_ID = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z"
NAME_RULE = (
    "a name is up to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit; a session is like claude@review, "
    "up to 64 in all"
)
_LARGEST_COUNT = 10**9  # a larger count in a message is a mistake, and could overflow when it is increased
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: sorts like the number it writes

RUN_ACTOR = "run "  # how the `actor` of a scenario's message begins; its name follows

Access = Literal["read", "edit", "full", "ask"]
RANK: dict[Access, int] = {"read": 0, "ask": 1, "edit": 2, "full": 3}  # an access includes those below it
Kind = Literal["message", "inject", "reply"]
ReplyMode = Literal["wait", "queue", "none"]
Depth = Literal["turn", "model", "turn,model"]
OnMiss = Literal["stop", "live", "nearest"]


class Payload(Struct, frozen=True, kw_only=True):
    """The sender's text. `attach` has the absolute paths of the files that are attached to it."""

    text: str
    attach: tuple[str, ...] = ()


class SessionContext(Struct, frozen=True, kw_only=True):
    """The session and the turn in which the sending agent wrote the message. Both fields are None if the sender is a
    person."""

    session_id: str | None = None
    turn_number: int | None = None


class Spent(Struct, frozen=True, kw_only=True):
    """The turns and the cost that a thread used up to a message. `cost_usd` is the sum of the costs that agents
    reported."""

    turns: int = 0
    cost_usd: float = 0.0

    def plus(self, cost_usd: float | None) -> "Spent":
        """Return the sum after one more turn with this cost (None: unknown, counted as 0)."""
        return Spent(turns=self.turns + 1, cost_usd=self.cost_usd + (cost_usd or 0.0))


class Recording(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is recorded into a folder, or replayed from one (docs/record-replay.md).

    `record` and `replay` are the folder's path. `depth`: at `turn`, whole turns are recorded, and a replay runs no
    agent; at `model`, the model calls of turns are recorded, and a replay runs the agent without its model. Only
    `record` takes both at once. `on_miss` says what answers what was not recorded: `stop` ends the turn, `live` asks
    the agent or its model and adds the answer to the recording, `nearest` takes the agent's next recorded turn.
    """

    record: str = ""
    replay: str = ""
    depth: Depth = "turn"
    on_miss: OnMiss = "stop"

    @property
    def of_turns(self) -> bool:
        return bool(self.record or self.replay) and "turn" in self.depth

    @property
    def of_model(self) -> bool:
        return bool(self.record or self.replay) and "model" in self.depth

    @property
    def folder(self) -> str:
        """Return the folder that is written or read; "" if there is none."""
        return self.record or self.replay

    @property
    def needs_agents(self) -> bool:
        """Return whether an agent may run: a replay of turns runs one only for what was not recorded."""
        return not self.replay or self.of_model or self.on_miss == "live"


class Options(Struct, frozen=True, kw_only=True):
    """The options that the sender requests for the turn. An option that is None or absent is left to the agent's
    settings.

    `timeout` is in seconds; `schema` is the JSON Schema itself, as text; `via` is a mode (exec, dialogue, terminal).
    `require` is the kind of evidence that may end a turn in terminal mode (structured: the agent's own report; absent:
    any evidence). `tolerate` is the status that gets exit code 0 for this sender. `no_circuit`: the message runs even
    while the agent's circuit breaker is open. `rules` are added to the rules in the agent's settings. `keep` is the
    number of seconds for which the agent's process stays alive after the turn, for the next turn. `max_tokens` limits
    the tokens of the turn's model calls. `recording` says what of the turn is recorded or replayed. `shield`: the agent
    gets a dummy key, and the real key is in the keyring under this name, or is read from the sender's descriptor N
    (`fd:N`). `slash`: the text is a slash command of the agent CLI.
    """

    access: Access | None = None
    model: str | None = None
    new: bool = False
    once: bool = False
    schema: str | None = None
    via: str | None = None
    timeout: float | None = None
    max_turns: int | None = None
    budget_usd: float | None = None
    require: Literal["structured", "whole"] | UnsetType = UNSET
    tolerate: Literal["denied"] | UnsetType = UNSET
    no_circuit: bool | UnsetType = UNSET
    keep: float | UnsetType = UNSET
    rules: RuleLists | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    recording: Recording | UnsetType = UNSET
    shield: str | UnsetType = UNSET
    slash: bool | UnsetType = UNSET

    @property
    def is_proxied(self) -> bool:
        """Return whether these options lead the turn's model calls through a proxy of the turn."""
        is_recorded = self.recording is not UNSET and self.recording.of_model
        return is_recorded or self.shield is not UNSET or self.max_tokens is not UNSET


class OptionFields(TypedDict, total=False):
    """The fields of `Options` as keyword arguments, as in `send("claude", "hi", new=True)`. `timeout` and `keep` may be
    texts, such as "10m"."""

    access: Access | None
    model: str | None
    new: bool
    once: bool
    schema: str | None
    via: str | None
    timeout: float | str | None
    max_turns: int | None
    budget_usd: float | None
    require: Literal["structured", "whole"]
    tolerate: Literal["denied"]
    no_circuit: bool
    keep: float | str
    rules: RuleLists
    max_tokens: int
    recording: Recording
    shield: str
    slash: bool


class Message(Struct, frozen=True, kw_only=True):
    """One message, with the fields of its file.

    `timestamp` and `deadline` are RFC 3339 UTC. `chain` are the agents whose turns wait for this message, the outermost
    first. `revision` counts edits. `limited` counts the attempts that ended at a usage limit for whose end the message
    waits; they use up none of its attempts, nor do those after which another model or agent answers. `fallback` is the
    place of that one in the policy's list, from 1 (0: the agent itself answers). `for_session` is the receiver's
    session to which a reply belongs. `replies` is the number of answers that are still routed, including the answer to
    this message (None: as the limits say). `at_most` is the access of the agent that sent the message: the receiver's
    turn gets no wider access (None: the sender is a person, or a program without an access). `rules_at_most` are the
    rules of that agent: the receiver's turn may do nothing that the agent was not allowed to do or was denied (None: as
    with `at_most`). `environment` is a fingerprint of the sender's environment. A holder that keeps a process compares
    it with the fingerprint of its own environment (None: any environment is accepted). Nothing else about the
    environment can be learned from the fingerprint. `actor` is who sent it in the sender's name: a person, an agent, or
    a scenario (`run NAME`); None: the sender itself. `only_by` identifies the process of a run that alone may run the
    message, with the run's settings: if that process is gone, the message is dropped ("" or UNSET: any holder runs it).
    """

    v: int = VERSION
    id: str
    timestamp: str
    sender: str = field(name="from")
    to: str
    type: Kind = "message"
    payload: Payload
    session_context: SessionContext = SessionContext()
    reply_to: str | None = None
    reply: ReplyMode = "none"
    replies: int | None = None
    thread: str = ""
    hops: int = 0
    attempt: int = 1
    limited: int = 0
    fallback: int = 0
    revision: int = 0
    key: str | None = None
    actor: str | None = None
    deadline: str | None = None
    chain: tuple[str, ...] = ()
    for_session: str | None = None
    spent: Spent = Spent()
    at_most: Access | None = None
    environment: str | None = None
    rules_at_most: RuleLists | None = None
    only_by: str | UnsetType = UNSET
    options: Options = Options()
    original: bytes | UnsetType = UNSET  # the file as it was read, with the fields that beam does not know

    @property
    def text(self) -> str:
        return self.payload.text


_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_fields: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


def decode(data: bytes) -> Message:
    """Return the message in the bytes of a queue file. Raises CorruptError with the reason."""
    try:
        message = _decoder.decode(data)
        data.decode()  # unknown fields are kept as they are, so they must be UTF-8, too
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"not a message: {error}") from error
    if not NAME.match(message.to):
        raise CorruptError(f"not a message: `to` is not an agent's name: {message.to[:80]!r}")
    if not ID.match(message.id):
        raise CorruptError(f"not a message: bad id {message.id[:80]!r}")
    counts = (
        message.attempt - 1,
        message.limited,
        message.fallback,
        message.revision,
        message.hops,
        message.replies or 0,
        message.spent.turns,
    )
    if not all(0 <= count <= _LARGEST_COUNT for count in counts):
        raise CorruptError("not a message: attempt counts from 1, its other numbers from 0, all to a billion")
    return msgspec.structs.replace(message, original=data)


def encode(message: Message) -> bytes:
    """Return the bytes of the message's queue file: one JSON object. Unknown fields of the file from which the message
    was read are included."""
    plain = msgspec.to_builtins(msgspec.structs.replace(message, original=UNSET))
    if message.original is not UNSET:
        plain = _merge(message.original, plain)
    data = msgspec.json.encode(plain)
    return (msgspec.json.format(data, indent=-1) if b"\n" in data else data) + b"\n"


def _merge(old: bytes | Raw, new: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the JSON object `old`, updated with the fields of `new`. A field that is an object in both
    is merged in the same way."""
    merged: dict[str, Any] = dict(_fields.decode(old))
    for key, value in new.items():
        before: Raw | None = merged.get(key)
        is_object = before is not None and isinstance(value, dict) and bytes(before)[:1] == b"{"
        merged[key] = _merge(before, value) if before is not None and is_object else value
    return merged


def digest(message: Message) -> str:
    """Return the digest of the sender, the receiver, the text with its attachments, and the options (SHA-256, hex). Two
    messages with the same id are the same message if their digests are equal."""
    identity = (message.sender, message.to, message.payload, message.options)
    return sha256(msgspec.json.encode(identity)).hexdigest()


def with_fields(options: Options | None, fields: OptionFields, *, known: tuple[str, ...] = ()) -> Options:
    """Return the options (None: the default options) with these fields replaced.

    Raises TypeError for an unknown field name; its text suggests the most similar field name, or a name in `known`.
    Raises UsageError for a value of the wrong type, also in `options`.
    """
    options = Options() if options is None else _checked_options(options)
    for name in fields:
        if name not in Options.__struct_fields__:
            from beam.base.errors import nearest

            near = nearest(name, (*Options.__struct_fields__, *known))
            hint = f"; did you mean {near!r}?" if near else f"; the options are {', '.join(Options.__struct_fields__)}"
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")
    if not fields:
        return options
    checked = _convert_options(fields)
    return msgspec.structs.replace(options, **{name: getattr(checked, name) for name in fields})


def _checked_options(options: object) -> Options:
    """Return the options. Raises UsageError if they are not `Options`, or if a field has a value of the wrong type,
    which the struct itself accepts."""
    if not isinstance(options, Options):
        hint = "give beam.Options(new=True), or the fields as keywords: new=True"
        raise UsageError(f"the options are {type(options).__name__}, and not Options", hint)
    given = {name: getattr(options, name) for name in Options.__struct_fields__}
    checked = _convert_options({name: value for name, value in given.items() if value is not msgspec.UNSET})
    return options if checked == options else checked


def _convert_options(fields: Mapping[str, object]) -> Options:
    texts = {name: durations.seconds(cast(Any, fields[name])) for name in ("timeout", "keep") if name in fields}
    try:
        return typed_values.convert({**fields, **texts}, Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"not an option: {error}", "docs/python.md lists the options with their types") from error


def check_recording(recording: Recording) -> None:
    """Raise UsageError for a recording whose parts don't go together."""
    if recording.record and recording.replay:
        raise UsageError("a recording is made or replayed, not both", "--on-miss live adds what a replay lacks")
    if recording.replay and recording.depth == "turn,model":
        raise UsageError("a replay answers at one depth", "--depth turn, or --depth model")
    if recording.on_miss != "stop" and not recording.replay:
        raise UsageError("--on-miss is for --replay DIR", "add it, or leave --on-miss out")
    if recording.on_miss == "nearest" and recording.of_model:
        raise UsageError("--on-miss nearest is for turns", "--depth turn, or --on-miss stop or live")


def access_word(word: str | None) -> Access | None:
    """Return the access that a word in a journal names. An unknown word gives `read`, and None gives None."""
    if word is None or word in get_args(Access):
        return cast(Access | None, word)
    return "read"


def new_id(agent: str, now_ns: int, random: bytes) -> str:
    """Return a message id that sorts by time: the agent's name, the time in milliseconds, and six random characters.

    `random` has at least 4 bytes.
    """
    return f"{agent}-{_base32(now_ns // 1_000_000, 9)}{_base32(int.from_bytes(random[:4], 'big'), 6)[-6:]}"


def keyed_id(agent: str, key: str) -> str:
    """Return the message id for the idempotency key `--key KEY` at this agent. The same agent and key always give the
    same id."""
    return f"{agent}-k{_short_hash(key)}"


def reply_id(agent: str, message_id: str, attempt: int) -> str:
    """Return the id of the reply to one attempt of a message, in the queue of `agent`. The same attempt always gives
    the same id, so putting the reply is idempotent."""
    return f"{agent}-r{_short_hash(f'{message_id} {attempt}')}"


def sent_id(agent: str, turn_key: str, name: str) -> str:
    """Return the id of a message that a turn sends to `agent`. The same turn and request name always give the same id,
    so putting the message is idempotent."""
    return f"{agent}-s{_short_hash(f'{turn_key} {name}')}"


def _short_hash(text: str) -> str:
    number = int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:9], "big")
    return _base32(number, 15)[-14:]


def _base32(number: int, width: int) -> str:
    letters = ""
    while number:
        number, rest = divmod(number, 32)
        letters = _ALPHABET[rest] + letters
    return letters.rjust(width, "0")


def agent_of(message_id: str) -> str:
    """Return the agent's name in a complete message id: the part before the last dash."""
    return message_id.rpartition("-")[0]


def check_name(name: str, what: str = "agent") -> str:
    """Return the name if it may become part of a path. Raises UsageError if it may not."""
    if not (PLAIN if what == "lane" else NAME).match(name):
        raise UsageError(
            f"{name[:80]!r} is not {'an' if what[0] in 'aeiou' else 'a'} {what}'s name", NAME_RULE, subject=name[:80]
        )
    return name


def check_session_id(session_id: str) -> str:
    """Return the id of a CLI's session if it may become an argument of that CLI. Raises UsageError if it may not."""
    if not re.match(_SESSION_ID, session_id) or ".." in session_id:
        raise UsageError(
            f"{session_id[:80]!r} is not the id of a session",
            "an id is up to 128 letters, digits, _, . and -, and begins with a letter or a digit",
            subject=session_id[:80],
        )
    return session_id


def base_of(name: str) -> str:
    """Return the name of the agent whose settings this agent uses: `claude` for `claude@review`. For a name without
    `@`, return the name itself."""
    return name.partition("@")[0]
