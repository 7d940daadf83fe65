"""From what a sender asks to a message: who sends, in which thread, how far from a person; what is refused at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from beam.clock import Clock, rfc3339
from beam.errors import LimitError, NotFoundError, UsageError
from beam.limits import Limits
from beam.message import (
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

HUMAN = "human"


class Caller(Struct, frozen=True, kw_only=True):
    """Who calls beam: a person, or an agent inside its turn (then from the variables that the turn gave it).

    `chain` are the agents whose turns wait for what the caller does. `is_open`: its process lives longer than a turn,
    and which turn it sends in is known to the agent's journal alone (`beam.api.caller`).
    """

    name: str = HUMAN
    thread: str = ""
    hops: int = -1
    chain: tuple[str, ...] = ()
    spent: Spent = Spent()
    root: str = ""
    is_open: bool = False

    @property
    def is_agent(self) -> bool:
        return self.hops >= 0


def caller_of(environ: Mapping[str, str]) -> Caller:
    """The caller, from BEAM_* variables. Damaged ones are errors: guessing would hide a ring."""
    if not environ.get("BEAM_AGENT"):
        return Caller()
    if environ.get("BEAM_CALLER") == "journal":
        name, root = check_name(environ["BEAM_AGENT"]), environ.get("BEAM_ROOT", "")
        return Caller(name=name, hops=0, root=root, is_open=True)
    hops = environ.get("BEAM_HOPS", "0")
    if not hops.isdigit():
        raise UsageError(
            f"BEAM_HOPS is {hops!r}, not a number", "unset BEAM_AGENT if you are not inside an agent's turn"
        )
    chain = tuple(name for name in environ.get("BEAM_CHAIN", "").split(",") if name)
    return Caller(
        name=check_name(environ["BEAM_AGENT"]),
        thread=environ.get("BEAM_THREAD", ""),
        hops=int(hops),
        chain=chain,
        root=environ.get("BEAM_ROOT", ""),
        spent=_spent(environ.get("BEAM_SPENT", "")),
    )


def _spent(text: str) -> Spent:
    turns, _, cost = text.partition(" ")
    try:
        return Spent(turns=int(turns or 0), cost_usd=float(cost or 0.0))
    except ValueError as error:
        hint = "unset BEAM_AGENT if you are not inside an agent's turn"
        raise UsageError(f"BEAM_SPENT is {text!r}, not two numbers", hint) from error


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
    session_context: SessionContext = SessionContext(),
) -> Message:
    """The message, checked. `deadline` is seconds from now.

    Raises UsageError for an empty text, LimitError for too long a text, too many hops, or a waiting send into the
    caller's own chain (it could never end).
    """
    text = sayable(text)
    check_text(text, limits)
    _check_words(key=key, model=options.model, via=options.via)
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
        reply=_reply_mode(wait=wait, to_agent=name != HUMAN),
        thread=caller.thread or message_id,
        hops=hops,
        key=key,
        actor=caller.name if kind == "inject" else None,
        deadline=rfc3339(now + int(deadline * 1e9)) if deadline is not None else None,
        chain=caller.chain if wait else (),
        spent=caller.spent,
        options=options,
    )


def check_text(text: str, limits: Limits) -> None:
    """Refuses an empty text and one over the limit."""
    if not text.strip():
        raise UsageError("the prompt is empty", "give a text, -f FILE, or something on stdin")
    size = len(text.encode("utf-8", "replace"))
    if size > limits.text_bytes:
        raise LimitError(
            f"the prompt is {size} bytes, the limit is {limits.text_bytes}",
            "put it into a file and name the file in the prompt",
        )


def sayable(text: str) -> str:
    """The text with U+FFFD for every lone surrogate, which no file and no agent could take."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _check_words(**words: str | None) -> None:
    for name, word in words.items():
        if word is None:
            continue
        if word != sayable(word) or not word.strip() or "\0" in word:
            raise UsageError(
                f"--{name} {word!r} is not a word that a message can carry", "use plain text", subject=name
            )


def _reply_mode(*, wait: bool, to_agent: bool) -> ReplyMode:
    if wait:
        return "wait"
    return "queue" if to_agent else "none"


def _attachments(paths: Sequence[Path]) -> tuple[str, ...]:
    for path in paths:
        if not path.is_file():
            raise NotFoundError(f"there is no file {path} to attach", "give the path of a file", subject=str(path))
        if sayable(str(path)) != str(path):
            raise UsageError(f"the name of {str(path)!r} is not UTF-8", "give it another name", subject=str(path))
    return tuple(str(path.absolute()) for path in paths)
