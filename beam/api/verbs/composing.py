"""Methods to make and check a message, and to return notes that a person should read before the message is sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType, structs

from beam.agents import registry
from beam.api import methods
from beam.api.verbs.opened import OpenedRoot
from beam.base import durations
from beam.base.clock import rfc3339
from beam.base.errors import NotFoundError, UnsupportedError, UsageError
from beam.broker.inbox.compose import HUMAN, Caller, compose
from beam.broker.inbox.context import path_note
from beam.model.message import NAME, Access, Message, Options, RuleLists, SessionContext, with_fields
from beam.process.program import fingerprint
from beam.root import discovery
from beam.root.paths import AgentPaths

if TYPE_CHECKING:
    from typing import Unpack

    from beam.broker.inbox.put import Receiver
    from beam.model.message import OptionFields
    from beam.store.segment import Fold


class ReceiverLog(Struct, frozen=True, kw_only=True):
    """The paths and the journal of a message's receiver, as `notes` read them."""

    message_id: str
    paths: AgentPaths
    fold: Fold


class ComposeVerbs(OpenedRoot):
    """Make messages, and check them."""

    _read: ReceiverLog  # what `notes` read, for the `deliver` that follows

    def message(
        self,
        agent: str,
        text: str,
        *,
        wait: bool = True,
        sender: str | None = None,
        attach: Sequence[Path | str] = (),
        options: Options | None = None,
        key: str | None = None,
        deadline: float | str | None = None,
        replies: int | None = None,
        **more: Unpack[OptionFields],
    ) -> Message:
        """Return the message that `send` would send, after all checks that are possible before sending.

        Takes the parameters of `send`, and `wait`: whether the sender waits for the answer. `replies` is the number of
        successive answers that are routed if the sender is an agent (None: as the limits say).

        Raises NotFoundError (no such agent; its CLI is missing), UntrustedError, UsageError, LimitError, DiskError, and
        TypeError for a keyword that is not a field of `Options`.
        """
        from beam.broker.inbox.put import find_receiver

        methods.check_is_text(agent=agent, text=text, sender=sender or "", key=key or "")
        deadline = durations.seconds(deadline)
        methods.check_is_number(deadline=deadline, replies=replies)
        attach = methods.file_paths("attach", attach)
        wanted = with_fields(options, more, known=("sender", "attach", "options", "key", "deadline"))
        self._check_schema(wanted.schema)
        if self.is_agent and wanted.keep is not UNSET:
            self.check_person("keeps an agent's process")
        if wanted.recording is not UNSET:
            wanted = structs.replace(wanted, recording=self._checked_recording(wanted.recording))
        if self.turn is not None:
            return self.turn.message(
                agent,
                text,
                wait=wait,
                sender=sender,
                attach=attach,
                options=wanted,
                key=key,
                deadline=deadline,
                replies=replies,
                clock=self._clock,
            )
        if self.is_agent:
            raise UsageError(
                f"BEAM_AGENT is {self.me}, but this process does not belong to an agent's turn",
                "unset BEAM_AGENT if you are not inside an agent",
            )
        context = self._context_now()
        discovery.check_folder(self.home, self.environ)
        try:
            receiver = find_receiver(context, agent, wanted.access, wanted.via, needs_cli=_needs_cli(wanted))
        except NotFoundError as error:
            if error.kind != "not_installed" or not context.untrusted_path:
                raise
            hint = "; ".join((error.hint, *map(path_note, context.untrusted_path)))
            raise NotFoundError(error.message, hint, subject=error.subject, kind=error.kind) from error
        if wanted.once and key is not None:
            raise UsageError(
                "--once and --key don't go together",
                "a --once message has a session of its own each time, and no first outcome to return",
            )
        self._check_access(wanted.access, context.exposed)
        self._check_rules(wanted.rules, context.exposed)
        if wanted.keep is not UNSET:
            self._check_keep(receiver, wanted, attaches=bool(attach))
        made = compose(
            agent,
            text,
            caller=Caller(),
            wait=wait,
            clock=self._clock,
            limits=context.config.limits,
            sender=sender,
            attach=attach,
            options=wanted,
            key=key,
            deadline=deadline,
            replies=replies,
            session_context=self._session_of(sender or HUMAN),
        )
        self._receivers = {made.id: receiver}
        _lend_key(made)
        return structs.replace(made, environment=fingerprint(self.environ, made.id))

    def message_from(
        self,
        given: str | bytes,
        agent: str | None = None,
        *,
        wait: bool = True,
        sender: str | None = None,
        attach: Sequence[Path | str] = (),
        options: Options | None = None,
        key: str | None = None,
        deadline: float | str | None = None,
        replies: int | None = None,
        **more: Unpack[OptionFields],
    ) -> Message:
        """Return the message that `send` would send for a JSON object with the fields of a message file, after all
        checks that are possible before sending: `beam.deliver(beam.message_from(line))`.

        The object has at least `{"payload": {"text": "…"}}`. Its `to`, `from`, `key` (or else `id`), `session_context`,
        `deadline` and `replies` count as the parameters of `message` do, and the parameters take precedence. The answer
        to a message in the name of another agent is routed to that agent. Fields that beam does not know are kept. All
        other fields of a message are given by beam.

        Takes the parameters of `message`, and raises the same errors. Raises UsageError for an object that is no
        message, that has options of its turn, or that is for another agent than `agent`.
        """
        from beam.model.given import decode_given, unknown_fields

        methods.check_is_text(given=given.decode(errors="replace") if isinstance(given, bytes) else given)
        said = decode_given(given)
        if agent is not None and said.to not in (None, agent):
            raise UsageError(
                f"the message is to {str(said.to)[:80]!r}, and not to {agent}", "name that agent, or leave `to` out"
            )
        who = sender or said.sender
        is_routed = not self.is_agent and who not in (None, HUMAN)
        if replies is None:
            replies = 0 if is_routed and said.reply == "none" and said.replies is None else said.replies
        made = self.message(
            agent or said.to or self.default_agent(),
            said.payload.text,
            wait=wait and not is_routed,
            sender=who,
            attach=[*(self._cwd / path for path in said.payload.attach), *methods.file_paths("attach", attach)],
            options=options,
            key=said.own_key if key is None else key,
            deadline=deadline,
            replies=replies,
            **more,
        )
        if deadline is None and said.deadline is not None:
            made = structs.replace(made, deadline=rfc3339(methods.time_ns("deadline", said.deadline)))
        context = SessionContext(
            session_id=said.session_context.session_id or made.session_context.session_id,
            turn_number=said.session_context.turn_number or made.session_context.turn_number,
        )
        return structs.replace(made, session_context=context, original=unknown_fields(given))

    def default_access(self, agent: str, via: str | None, options: Collection[str] = ()) -> Access | None:
        """Return the access of a message for which the person at a terminal named none. It is `ask` if the turn's mode
        supports `ask` and these options of the message (`agents.options.OPTIONS`). None leaves the access to the
        agent's settings."""
        from beam.turns.choice import face_of

        settings = self.context.config.resolve(agent).settings
        if settings.access is not None or self.is_agent or self.context.exposed:
            return None
        adapter = registry.adapter(settings.adapter)
        can = adapter.card.faces[face_of(adapter, via, "ask")]
        by_settings = (name for name in ("schema", "max_turns", "system") if getattr(settings, name) is not None)
        wanted = {*options, *by_settings, *(("budget",) if settings.budget_usd is not None else ())}
        return "ask" if "ask" in can.access and all(getattr(can, name) for name in wanted) else None

    def declared(self) -> list[str]:
        """Return the agents that beam.yaml, the user's own configuration or a command declares here, sorted. Sessions,
        archived agents and the caller itself are left out."""
        names = [name for name in self.context.config.names() if "@" not in name and name != self.me]
        return [name for name in names if not self.home.agent(name).archived.exists()]

    def default_agent(self) -> str:
        """Return the agent of messages that name none: `defaults: {agent: NAME}` in beam.yaml or the user's own
        configuration. Raises UsageError if there is none."""
        config = self.context.config
        if config.default_agent is None:
            declared = ", ".join(config.names())
            raise UsageError(
                f"no agent is named; declared here: {declared or 'none'}",
                "name one, or write `defaults: {agent: NAME}` into beam.yaml",
            )
        return config.default_agent

    def notes(self, message: Message, *, waits: bool = True) -> list[str]:
        """Return notes that a person should read before this message is sent, one sentence each; usually none.

        With `waits`, include the reason if the agent's messages do not run automatically now.
        """
        if self.turn is not None:
            return []
        from beam.broker.inbox.put import find_receiver
        from beam.process.program import LOADER_VARIABLES

        found = []
        agent, receiver = message.to, self._receivers.get(message.id)
        if receiver is None:
            asked = message.options
            receiver = find_receiver(self._context_now(), agent, asked.access, asked.via, needs_cli=_needs_cli(asked))
        if receiver.stands.by_variable:
            found.append("BEAM_TRUST=1: this folder's files take effect although nobody trusted them as they are")
        folders = self.context.untrusted_path
        if folders and not self._receiver_paths(message).journal.exists():  # said once: with the first message
            found += map(path_note, folders)
        refused = sorted(LOADER_VARIABLES.intersection(receiver.resolved.settings.env))
        found += [f"{name} of {agent}'s `env` is not set: it would run code in each process" for name in refused]
        if (self.home.root / "broker.json").exists():
            from beam.api import broker

            if message.options.keep is not UNSET and broker.status(self.context) is not None:
                found.append("a broker serves this root; it keeps processes by its own limits, whatever --keep says")
            found += filter(None, [broker.version_skew(self.context)])
        if waits:
            found += filter(None, [self._waiting_reason(message, receiver)])
        return found

    def _waiting_reason(self, message: Message, receiver: Receiver) -> str | None:
        """Return the reason why this agent's messages do not run automatically now, for a person who waits; None if
        they do."""
        if "mailbox" in receiver.adapter.card.faces:
            return f"{message.to} is a mailbox; it answers when somebody does: beam recv {message.to}"
        from beam.broker.inbox import standing
        from beam.store.segment import Fold

        paths = self._receiver_paths(message)
        fold = Fold(paths.journal)
        self._read = ReceiverLog(message_id=message.id, paths=paths, fold=fold)
        if fold.state().paused:
            return f"the queue of {message.to} is paused; beam queue resume {message.to}"
        why = standing.waiting_reason(self.context, paths)
        return None if why is None else f"what waits for {message.to} keeps waiting: {why}"

    @staticmethod
    def _check_keep(receiver: Receiver, wanted: Options, *, attaches: bool) -> None:
        """Raise UsageError or UnsupportedError if no process can be kept after a turn with these options."""
        from beam.turns.choice import AUTO_MODES, face_of, why_protocol_not_chosen

        if wanted.once:
            raise UsageError("--keep and --once don't go together", "a throw-away session has no next turn")
        agent, adapter = receiver.resolved.name, receiver.adapter
        settings = receiver.resolved.settings
        access: Access = wanted.access or settings.access or "read"
        face = face_of(adapter, wanted.via, access)
        if face not in ("dialogue", "terminal"):
            if wanted.via in AUTO_MODES and not why_protocol_not_chosen(
                adapter, wanted, settings, access, attaches=attaches
            ):
                return
            others = [name for name in adapter.card.faces if name in ("dialogue", "terminal")]
            raise UnsupportedError(
                f"{agent}'s {face} mode has no process to keep",
                f"it has one with --via {' or '.join(others)}" if others else "leave --keep out",
                subject=agent,
            )

    def _check_access(self, access: Access | None, where: Path | None) -> None:
        """Raise UsageError if agents may write in this root (in the folder `where`), because the requested access would
        then be lowered silently."""
        if access not in (None, "read") and where is not None:
            raise UsageError(
                f"--access {access} is refused in the root {self.home.root}: it is in {where}, where agents may "
                "write messages in your name",
                "keep the root elsewhere (no --root, or one outside; BEAM_STATE), or leave --access out",
                subject=str(self.home.root),
            )

    @staticmethod
    def _check_schema(schema: str | None) -> None:
        """Raise UsageError if the schema is not a JSON object, or has a reference that leads nowhere. Otherwise the
        error would be found only when the answer is checked, after the model was paid."""
        if not schema:
            return
        from beam.agents.schema import REFERENCE_HINT, first_unresolved

        try:
            reference = first_unresolved(schema)
        except ValueError as error:
            raise UsageError(str(error), "a JSON Schema is a JSON object, as text") from error
        if reference:
            raise UsageError(f"{reference!r} is no place in the schema", REFERENCE_HINT, subject=reference)

    def _check_rules(self, lists: RuleLists | UnsetType, where: Path | None) -> None:
        """Raise UsageError for an invalid rule, and for an allow rule in a root in which agents may write."""
        if lists is UNSET:
            return
        from beam.rules.ruleset import rules_of

        rules_of(lists, "")
        if lists.allow and where is not None:
            raise UsageError(
                f"no rule allows anything in the root {self.home.root}: it lies in {where}, where agents may write "
                "messages in your name",
                "keep the root elsewhere (no --root, or one outside; BEAM_STATE), or leave --allow out",
                subject=str(self.home.root),
            )

    def _session_of(self, sender: str) -> SessionContext:
        if sender == HUMAN or not NAME.match(sender) or sender not in self.home.agents():
            return SessionContext()
        from beam.store.segment import read_state

        state = read_state(self.home.agent(sender).journal)
        return SessionContext(
            session_id=state.session.session_id if state.session else None, turn_number=state.turn or None
        )

    def _receiver_paths(self, message: Message) -> AgentPaths:
        lane = message.id.rpartition("-")[2] if message.options.once else None
        return self.context.agent_paths(message.to, lane)


def _needs_cli(options: Options) -> bool:
    return options.recording is UNSET or options.recording.needs_agents


def _lend_key(message: Message) -> None:
    """Let the message's turn read its API key from the open descriptor of this process that `shield` names. Raises
    UsageError if the descriptor is not open."""
    if message.options.shield is UNSET:
        return
    import os

    from beam.turns import lent

    descriptor = lent.descriptor_of(message.options.shield)
    if descriptor is None:
        return
    try:
        os.set_inheritable(descriptor, False)
    except OSError:
        hint = "like this: --shield fd:3 3< <(a command that prints the key)"
        raise UsageError(f"descriptor {descriptor} is not open", hint) from None
    lent.lend_descriptor(message.id, descriptor)
