"""Makes a message from the request of a sender: sets its sender, its thread and its number of hops, and refuses an
invalid request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from beam.base.clock import Clock, rfc3339
from beam.base.errors import LimitError, NotFoundError, UsageError
from beam.base.typed_values import replace_surrogates
from beam.model.message import (
    Kind,
    Message,
    Options,
    Payload,
    ReplyMode,
    SessionContext,
    Spent,
    check_name,
    keyed_id,
    new_id,
)
from beam.model.settings import Limits

HUMAN = "human"
MAX_REPLIES = 1000  # more turns than a thread may have, unless its policy says otherwise
_LARGEST_NUMBER = 2**53  # that a sender may give: a float holds it exactly, and as seconds it is finite in ns
_LIMITS = ("timeout", "max_turns", "budget_usd", "max_tokens")


class Caller(Struct, frozen=True, kw_only=True):
    """The caller of `compose`: a person, or an agent in its turn. The values of an agent come from the holder of its
    turn, not from the agent itself. `hops` is -1 for a person. `chain` are the agents whose turns would wait for the
    message, the caller included."""

    name: str = HUMAN
    thread: str = ""
    hops: int = -1
    chain: tuple[str, ...] = ()
    spent: Spent = Spent()

    @property
    def is_agent(self) -> bool:
        return self.hops >= 0


def compose(
    to: str,
    text: str,
    *,
    caller: Caller,
    wait: bool,
    clock: Clock,
    limits: Limits,
    sender: str | None = None,
    attach: Sequence[Path] = (),
    options: Options = Options(),
    key: str | None = None,
    deadline: float | None = None,
    replies: int | None = None,
    session_context: SessionContext = SessionContext(),
) -> Message:
    """Return the message, after all checks. `deadline` is in seconds from now. `replies` is the number of successive
    replies that are routed between sender and receiver (None: the configured limit).

    Raises UsageError for an empty text or an invalid option, NotFoundError for an attached file that does not exist.
    Raises LimitError for a text that is too long, for too many hops, and for a waiting send to an agent that itself
    waits for the caller, because that send could never end.
    """
    text = replace_surrogates(text)
    check_text(text, limits)
    _check_words(key=key, model=options.model, via=options.via)
    _check_numbers(options)
    from_agent = caller.is_agent
    if from_agent and wait and to in caller.chain:
        ring = " → ".join((*caller.chain, to))
        raise LimitError(
            f"{to} waits for this very message ({ring}): the answer could never come",
            "send with --no-wait; the reply comes as a message of its own",
            subject=to,
        )
    hops = caller.hops + 1 if from_agent else 0
    if hops > limits.hops:
        raise LimitError(
            f"{hops} hops in thread {caller.thread}: the limit is {limits.hops}",
            "agents have been sending each other messages in a loop; start a new thread as a person",
            subject=to,
        )
    name = check_name(sender, "sender") if sender is not None else caller.name
    mode = _reply_mode(wait=wait, to_agent=name != HUMAN)
    if replies is not None:
        check_replies(replies, mode)
    now = clock.now_ns()
    message_id = new_id(to, now, clock.random(4)) if key is None else keyed_id(to, key)
    kind: Kind = "inject" if sender is not None and sender != caller.name else "message"
    return Message(
        id=message_id,
        timestamp=rfc3339(now),
        sender=name,
        to=to,
        type=kind,
        payload=Payload(text=text, attach=_attachments(attach)),
        session_context=session_context,
        reply="none" if replies == 0 else mode,
        replies=replies,
        thread=caller.thread or message_id,
        hops=hops,
        key=key,
        actor=caller.name if kind == "inject" else None,
        deadline=deadline_at(deadline, now) if deadline is not None else None,
        chain=caller.chain if wait else (),
        spent=caller.spent,
        options=options,
    )


def check_text(text: str, limits: Limits) -> None:
    """Raise UsageError if the text is empty, LimitError if it is longer than the limit."""
    if not text.strip():
        raise UsageError("the prompt is empty", "give a text, -f FILE, or something on stdin")
    size = len(text.encode("utf-8", "replace"))
    if size > limits.text_bytes:
        raise LimitError(
            f"the prompt is {size} bytes, the limit is {limits.text_bytes}",
            "put it into a file and name the file in the prompt",
        )


def check_replies(replies: int, mode: ReplyMode) -> None:
    """Raise UsageError if messages with this reply mode have no routed replies, or if the number is out of range."""
    if mode == "wait":
        raise UsageError("--replies is for messages that nobody waits for", "add --no-wait, or leave it out")
    if mode == "none":
        raise UsageError(
            "--replies has no effect: a reply to you is routed to no agent",
            "name the agent that asks with --from, or leave it out",
        )
    if not 0 <= replies <= MAX_REPLIES:
        raise UsageError(f"--replies {replies} is not a number from 0 to {MAX_REPLIES}")


def deadline_at(seconds: float, now_ns: int) -> str:
    """Return the time `seconds` after `now_ns`, in the format of a message. Raises UsageError if `seconds` is out of
    range."""
    _check_number("deadline", seconds)
    return rfc3339(now_ns + int(seconds * 1e9))


def _check_words(**words: str | None) -> None:
    for name, label in words.items():
        if label is None:
            continue
        if label != replace_surrogates(label) or not label.strip() or "\0" in label:
            raise UsageError(
                f"--{name} {label!r} is not a word that a message can carry", "use plain text", subject=name
            )


def _check_numbers(options: Options) -> None:
    """Raise UsageError for a number that is out of range."""
    for name in options.__struct_fields__:
        value = getattr(options, name)
        if isinstance(value, int | float):
            _check_number(name, value)
            if name in _LIMITS and value <= 0:  # 0 would count as no limit
                option = name.removesuffix("_usd").replace("_", "-")
                hint = "give a number above 0; leave it out for the agent's own limit"
                raise UsageError(f"--{option} {value:g} is out of range", hint, subject=option)


def _check_number(name: str, value: float) -> None:
    if not abs(value) <= _LARGEST_NUMBER:  # also refuses NaN; the number is not shown, because it may be too long
        option = name.removesuffix("_usd").replace("_", "-")
        raise UsageError(f"--{option} is out of range", f"give a number of at most {_LARGEST_NUMBER}", subject=option)


def _reply_mode(*, wait: bool, to_agent: bool) -> ReplyMode:
    if wait:
        return "wait"
    return "queue" if to_agent else "none"


def _attachments(paths: Sequence[Path]) -> tuple[str, ...]:
    for path in paths:
        try:
            is_file = path.is_file()
        except OSError as error:
            named = str(path)[:200]
            raise UsageError(
                f"{named!r} can't be attached: {error.strerror}", "give the path of a file", subject=named
            ) from error
        if not is_file:
            raise NotFoundError(f"there is no file {path} to attach", "give the path of a file", subject=str(path))
        if replace_surrogates(str(path)) != str(path):
            raise UsageError(f"the name of {str(path)!r} is not UTF-8", "give it another name", subject=str(path))
    return tuple(str(path.absolute()) for path in paths)
