"""The input of a turn for all faces: its options resolved, its prompt below the envelope, and its command line behind
the agent's runner.

The envelope is the first lines of a prompt from another agent. They name the sender and the receiver of the answer, and
say how to send a message; they are made from the holder's knowledge, never from the message's text. A runner is a
program that runs the agent elsewhere, as ssh does. beam can't control a process there: the process gets neither
variables nor files of the turn, and no Landlock. So an agent whose access beam would have to limit can't have one. Does
not depend on queues. Of the file system, it checks only whether the folder and the attached files exist.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from beam.agents.base import Capabilities, Card, Face, Host, Launch, Turn
from beam.agents.options import check_options, check_rules
from beam.base.errors import NotFoundError, UnsupportedError
from beam.model.message import Access, Message
from beam.model.settings import ENVELOPES, AgentSettings, Limits
from beam.process.program import environment
from beam.turns.choice import access_of, needed_features
from beam.turns.confine import TurnConfinement
from beam.turns.request import TurnRequest


def add_envelope(
    message: Message,
    *,
    settings: AgentSettings,
    card: Card,
    capabilities: Capabilities,
    access: str,
    outbox: str,
) -> str:
    """Return the prompt: the text, below the envelope if the message has one.

    `outbox` is the folder of the turn, which is mentioned to an agent whose file tool can write there.
    """
    lines = _envelope_lines(message, settings, card, outbox if access in capabilities.outbox else "")
    return "\n".join((*lines, "", message.text)) if lines else message.text


def _envelope_lines(message: Message, settings: AgentSettings, card: Card, outbox: str) -> list[str]:
    wanted = settings.envelope
    between_agents = message.hops > 0
    if wanted == "none" or (wanted is None and card.runs_code):
        return []
    if wanted is not None and wanted not in ENVELOPES:
        return [_fill_placeholders(wanted, message, outbox)] if between_agents else []
    lines = [_sender_line(message)] if between_agents else []
    if outbox and (wanted == "full" or (wanted is None and between_agents)):
        lines.append(f'[to write to an agent, save {{"to": "NAME", "text": "..."}} as {outbox}/ANY-NAME.json]')
    return lines


def _sender_line(message: Message) -> str:
    who = f"from {message.sender}"
    if message.type == "reply" and message.reply_to is not None:
        who += f", answering {message.reply_to}"
    ending = "; to end say nothing or END" if message.reply == "queue" else ""
    return f"[{who}; your answer goes to {_answer_receiver(message)}{ending}]"


def _fill_placeholders(text: str, message: Message, outbox: str) -> str:
    """Return the person's own envelope with its placeholders filled in."""
    filled = text.replace("{from}", message.sender).replace("{answer}", _answer_receiver(message))
    return filled.replace("{about}", message.reply_to or "").replace("{outbox}", outbox)


def _answer_receiver(message: Message) -> str:
    """Return the receiver of the answer to this message."""
    return "nobody" if message.reply == "none" else message.sender


COMMAND, CWD = "{command}", "{cwd}"
_PLACEHOLDERS = r"\{(?:command|cwd)\}"


def with_runner(launch: Launch, turn: Turn) -> Launch:
    """Return the launch with the agent's runner before it.

    In a word of the runner that contains `{command}`, this placeholder is replaced by the whole command line, and
    `{cwd}` by the folder, both quoted for a shell. In the runner's other words, `{cwd}` is replaced without quoting. If
    no word contains `{command}`, the words of the command line follow the words of the runner.
    """
    runner, cwd = turn.settings.runner, turn.cwd
    if not runner:
        return launch
    import shlex  # few agents have a runner

    if not any(COMMAND in word for word in runner):
        argv = (*(word.replace(CWD, cwd) for word in runner), *launch.argv)
        hidden = tuple(index + len(runner) for index in launch.prompt_in_argv)
    else:
        values = {COMMAND: shlex.join(launch.argv), CWD: shlex.quote(cwd)}
        argv = tuple(
            re.sub(_PLACEHOLDERS, lambda found: values[found[0]], word) if COMMAND in word else word.replace(CWD, cwd)
            for word in runner
        )
        hidden = tuple(n for n, word in enumerate(runner) if COMMAND in word and launch.prompt_in_argv)
    return structs.replace(launch, argv=argv, prompt_in_argv=hidden, session_file=None)


def check_runner(
    settings: AgentSettings, agent: str, face: Face, access: Access, *, has_access: bool, is_proxied: bool
) -> None:
    """Raise UnsupportedError for a turn that a runner can't run as requested.

    `has_access`: beam can limit the access of the agent's CLI, by variables, files and confinement.
    """
    if not settings.runner:
        return
    if has_access and access != "full":
        raise UnsupportedError(
            f"{agent} has a runner, and beam can't limit what runs there to access {access}: neither its variables and "
            "files for that nor its confinement get there",
            "limit it by the runner itself (a container), and give it full access: --access full",
            subject=agent,
        )
    if face == "terminal":
        raise UnsupportedError(
            f"{agent} has a runner, and there is no terminal mode with one", "leave --via terminal out", subject=agent
        )
    if is_proxied:
        raise UnsupportedError(
            f"{agent} has a runner, and beam's proxy for model calls can't be reached from there",
            "leave the options about model calls out",
            subject=agent,
        )


def turn_of(order: TurnRequest, face: Face, scratch: str) -> Turn:
    """Return the turn in the form that the adapter gets.

    Raises UnsupportedError for an option that this face can't apply, and NotFoundError if the folder or an attached
    file is missing.
    """
    card = order.adapter.card
    capabilities = card.faces[face]
    if order.settings.runner and face in card.ends_in_files:  # the CLI's files are where the runner runs it
        capabilities = msgspec.structs.replace(capabilities, whole=False)
    options, settings, name = order.message.options, order.settings, order.adapter_name
    schema = options.schema or settings.schema
    turns = options.max_turns or settings.max_turns
    budget = options.budget_usd or settings.budget_usd
    only_typed = face == "terminal" and not capabilities.access  # settings for all agents don't stop a program
    given = msgspec.structs.replace(settings, model=None, system=None) if only_typed else settings
    asked = set(needed_features(options, given, attaches=bool(order.message.payload.attach)))
    if order.is_proxied:
        asked -= {"budget", "whole"}
    if order.session_id is not None and not only_typed:
        asked.add("resume")
    check_options(name, capabilities, asked, card.faces)
    if order.fork and not capabilities.fork:
        raise UnsupportedError(
            f"{name} can't continue in a copy of a session with --via {face}",
            _other_mode_hint(order, "fork"),
            subject=name,
        )
    if order.upto is not None and not capabilities.rewind:
        raise UnsupportedError(
            f"{name} can't go on from an earlier point of its session with --via {face}",
            _other_mode_hint(order, "rewind"),
            subject=name,
        )
    cwd = folder_of(order)
    if not os.path.isdir(cwd):  # noqa: PTH112 - pathlib's raises for a name that can't be
        why = f"`cwd` of agent {order.message.to} names it" if settings.cwd else "it is the project folder"
        raise NotFoundError(f"{cwd} is not a directory", why, subject=str(cwd))
    if order.from_agent:
        _check_attached_files(order.message.payload.attach)
    access, outbox = access_of(order, capabilities), f"{scratch}/outbox"
    check_rules(order.adapter, face, access, order.rules.rules)
    if settings.runner:
        has_access = bool(capabilities.access)
        check_runner(settings, order.message.to, face, access, has_access=has_access, is_proxied=options.is_proxied)
    return Turn(
        text=add_envelope(
            order.message,
            settings=settings,
            card=card,
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


def _other_mode_hint(order: TurnRequest, able: Literal["fork", "rewind"]) -> str:
    """Return a hint: which other mode can fork or rewind a session, or how to go on without that."""
    other = next((face for face, can in order.adapter.card.faces.items() if getattr(can, able)), None)
    return f"--via {other} can" if other else f"start with an empty session: beam agent reset {order.message.to}"


def folder_of(order: TurnRequest) -> Path:
    """Return the folder in which the agent works in this turn."""
    cwd = order.settings.cwd
    return Path(os.path.realpath(order.base / cwd)) if cwd else order.base


def _check_attached_files(paths: Sequence[str]) -> None:
    """Raise NotFoundError if a file that an agent attached was replaced since.

    Its real path was checked when the message was sent. Since then it may have become a link.
    """
    for path in paths:
        if os.path.realpath(path) != path or not os.path.isfile(path):  # noqa: PTH113 - any text may be a path here
            raise NotFoundError(f"{path} is not the file that was attached", "send it again", subject=path)


class TurnInput(Struct, frozen=True, kw_only=True):
    """The input of one turn. Times are in seconds. `scratch` is the turn's private directory, and `number` is the
    turn's number. `unstarted` is the file by which the guard reports that the agent was never started. `commands`: a
    text like `/context` is a command for the agent's own screen, not a message. `keep` is how long the process may stay
    after the turn. `folder_env` are the environment variables that depend on the folder's files."""

    turn: Turn
    scratch: Path
    host: Host
    turn_key: str
    limits: Limits
    environ: Mapping[str, str]
    child_env: Mapping[str, str]
    timeout: float
    idle_timeout: float
    number: int = 0
    confined: TurnConfinement = TurnConfinement()
    unstarted: Path | None = None
    commands: bool = False
    keep: float = 0.0
    folder_env: Mapping[str, str] = {}

    def environment(self, launch: Launch) -> dict[str, str]:
        """Return the environment for a process with this launch, without the confinement's variables."""
        return environment(self.environ, {**self.child_env, **launch.env})

    def in_new_session(self) -> TurnInput:
        """Return the same turn in a new session."""
        return structs.replace(self, turn=as_new_session(self.turn))

    def with_text(self, text: str) -> TurnInput:
        """Return the same turn with another text of its message."""
        return structs.replace(self, turn=structs.replace(self.turn, text=text))

    def with_fresh_id(self, fresh_session_id: str) -> TurnInput:
        """Return the same turn with another id for a new session."""
        return structs.replace(self, turn=structs.replace(self.turn, fresh_session_id=fresh_session_id))


def as_new_session(turn: Turn) -> Turn:
    """Return the same turn in a new session, whose id is always the same for this turn."""
    fresh = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{turn.fresh_session_id} afresh"))
    return structs.replace(
        turn, session_id=None, fresh_session_id=fresh, fork=False, upto=None, carried=None, told=None
    )
