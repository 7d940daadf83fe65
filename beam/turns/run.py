"""Runs one message to its outcome: the durable order of a turn, for all faces.

`turn.started` is on disk before anything is spawned, `prompt.sent` before the agent can act on the message (headless:
before it is executed at all), and `turn.finished` before anyone is told. The holder does what comes before (claiming)
and after (routing, closing). Does not depend on queues, locks or other agents.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec
from msgspec import UNSET

from beam.agents.base import Capabilities, Face, HasHistory, HasTerminal, Host, Turn, Verdict
from beam.base import durations, files
from beam.base.errors import (
    BeamError,
    DiskError,
    LimitError,
    NotFoundError,
    ShortageError,
    UnsupportedError,
    UntrustedError,
)
from beam.base.faults import crash_point
from beam.model import events
from beam.model.events import Event, TurnFinished
from beam.model.outcome import Class, SessionNote, Status, exit_code
from beam.model.policy import is_answer
from beam.model.rule_lists import RuleLists
from beam.secrets.redact import redact_event
from beam.turns import confine, denied
from beam.turns import exec as exec_face
from beam.turns.choice import KEPT
from beam.turns.claimed import Claims
from beam.turns.cli_version import looked_at
from beam.turns.confine import Confined
from beam.turns.handle import TurnHandle, TurnServices
from beam.turns.input import TurnInput
from beam.turns.keeper import ProcessKeeper
from beam.turns.login import Heard, link_in
from beam.turns.pieces import Pieces
from beam.turns.replay import VIA, replay_turn
from beam.turns.request import (
    Record,
    TurnRequest,
    env_for_kept_process,
    face_for,
    host_of,
    most_of,
    turn_of,
    why_this_face,
)
from beam.turns.ruled import is_denied_by_rule
from beam.turns.stop import Stop

if TYPE_CHECKING:
    from beam.turns.model_proxy import Proxied

F = TypeVar("F")

_NAMED = 5  # files that a notice names
_BREAKS = (Class.CRASHED, Class.UNSUPPORTED)  # of a protocol: it does not begin, or not as it did when it was tested
STRUCTURED = frozenset({"history", "osc"})  # the agent's own word on where its turn stands


async def run(order: TurnRequest, services: TurnServices, handle: TurnHandle) -> TurnFinished:
    """Run the turn and return its outcome as it is in the journal, on disk.

    Raises DiskError if the journal can't be written; then every started process is gone, and the next holder
    records the outcome. Raises ShortageError if the system had no room for the agent's process; then nothing ran.
    """
    clock, stop = services.clock, handle.stop
    began = clock.monotonic()
    face, why = None, None
    record = pieces = Pieces(_with_images(order, Claims(services.record)), clock)

    def poll() -> None:
        pieces.look()
        services.poll()

    cli = await looked_at(order, clock)
    if cli is not None:
        order = msgspec.structs.replace(order, unfit=cli.unfit, is_broken=cli.is_broken)
    try:
        face = face_for(order)
        why = why_this_face(order, face)
        started = events.TurnStarted(
            attempt=order.message.attempt,
            owner=order.owner,
            turn_key=order.turn_key,
            adapter=order.adapter_name,
            via=_via(order, face) or face,
            why=why,
            at_most=most_of(order),
            rules=_rules_told(order),
        )
    except UnsupportedError as error:
        started = events.TurnStarted(
            attempt=order.message.attempt,
            owner=order.owner,
            turn_key=order.turn_key,
            adapter=order.adapter_name,
            via=order.message.options.via or "auto",
        )
        record(started, sync=True)
        files.remove_tree(order.scratch, ignore_errors=True)
        return _finish(order, record, refusal(error), stop, None, clock.monotonic() - began)
    crash_point("turn.before")
    record(started, sync=True)
    crash_point("turn.started")
    if order.recorded is None:
        files.make_directory(order.scratch)
    keeper = services.keeper
    sent = _Sent(record, None if cli is None or face != "dialogue" else cli.works)
    try:
        within = msgspec.structs.replace(services, record=sent, poll=poll)
        verdict = await _verdict(order, face, within, handle)
        if order.is_kept and not sent.is_sent and _is_broken(verdict, stop) and started.why == KEPT:
            why = f"without its own protocol, which failed: {verdict.reason}"
            record(events.Notice(code="headless", text=why))
            if cli is not None:
                cli.fails(verdict.reason or "")
                sent.works = None
            order, face = msgspec.structs.replace(order, is_kept=False), "exec"
            verdict = await _verdict(order, face, within, handle)
        handle.asks.close("the turn is over")
        handle.calls.close("the turn is over")
        await services.poll_last()
    finally:
        if order.recorded is None and (keeper is None or not keeper.needs(order.scratch)):
            files.remove_tree(order.scratch, ignore_errors=True)
            with contextlib.suppress(OSError):  # each --once message would leave one
                order.scratch.parent.rmdir()
    took = clock.monotonic() - began
    return _finish(order, record, verdict, stop, face, took, why=why, heard=sent.heard.texts)


def _with_images(order: TurnRequest, record: Record) -> Record:
    if order.images is None or order.agent_dir is None:
        return record
    from beam.turns.images import ImageFiles

    return ImageFiles(order.images, order.agent_dir, record)


class _Sent:
    """Records events; `is_sent`: one of them says that the agent was sent the message; `heard` is what its CLI said.
    Before that one, `works` is told that the protocol works."""

    def __init__(self, record: Record, works: Callable[[], Event | None] | None) -> None:
        self.is_sent = False
        self.heard = Heard()
        self._record = record
        self.works = works

    def __call__(self, body: Event, *, sync: bool = False) -> Event:
        """Return the event as it was recorded."""
        self.heard.event(body)
        if isinstance(body, events.PromptSent) and not self.is_sent:
            self.is_sent = True
            notice = self.works() if self.works is not None else None
            if notice is not None:
                self._record(notice)
        return self._record(body, sync=sync)


def _is_broken(verdict: Verdict, stop: Stop) -> bool:
    """Return whether the agent's process or its protocol failed by itself."""
    return stop.reason is None and verdict.status is Status.FAILED and verdict.class_ in _BREAKS


async def _verdict(order: TurnRequest, face: Face, services: TurnServices, handle: TurnHandle) -> Verdict:
    try:
        if order.recorded is not None:
            return replay_turn(order.recorded, services.record)
        if order.untrusted is not None:
            raise UntrustedError(order.untrusted, f"look at it, then: beam trust {order.base}")
        if order.left_out:
            names = ", ".join(order.left_out[:_NAMED]) + (", …" if len(order.left_out) > _NAMED else "")
            text = f"{order.adapter_name} runs without {names}, which nobody trusted: beam trust"
            services.record(events.Notice(code="left_out", text=text))
        capabilities = order.adapter.card.faces[face]
        if _needs_proxy(order, capabilities):
            return await _proxied_verdict(order, face, services, handle)
        return await _verdict_of(order, face, services, handle)
    except (DiskError, ShortageError):
        raise
    except BeamError as error:
        return refusal(error)


def _needs_proxy(order: TurnRequest, capabilities: Capabilities) -> bool:
    """Return whether a proxy stands between the agent and its model: it was asked for, or a budget is set that the CLI
    itself can't keep."""
    options = order.message.options
    if options.model_calls is not UNSET or options.max_tokens is not UNSET:
        return True
    if (options.budget_usd or order.settings.budget_usd) is None or capabilities.budget:
        return False
    from beam.agents.model_route import router_of

    return router_of(order.adapter_name) is not None


async def _proxied_verdict(order: TurnRequest, face: Face, services: TurnServices, handle: TurnHandle) -> Verdict:
    from beam.turns import model_proxy

    if services.keeper is not None:
        await services.keeper.end("the next turn has a proxy of its own")
    order = msgspec.structs.replace(order, is_proxied=True)
    async with model_proxy.running(order, handle) as proxied:

        def poll() -> None:
            model_proxy.write(proxied, services)
            services.poll()

        within = msgspec.structs.replace(services, keeper=None, poll=poll)
        verdict = await _verdict_of(proxied.order, face, within, handle, proxied)
    model_proxy.write(proxied, services)
    return model_proxy.judged(verdict, proxied)


async def _verdict_of(
    order: TurnRequest, face: Face, services: TurnServices, handle: TurnHandle, proxied: Proxied | None = None
) -> Verdict:
    turn = turn_of(order, face, str(order.scratch))
    host = host_of(order)
    confined = await confine.confined(order.adapter.card, face, turn, order.own, version=order.landlock)
    if (confinement_notice := confine.notice(confined, turn)) is not None:
        services.record(confinement_notice)
    if order.snapshots is not None and turn.access != "read":
        from beam.turns.snapshot import recorded

        once = order.message.options.once
        services.record(await recorded(order.snapshots, Path(turn.cwd), order.environ, turn.agent, beside=once))
    if face == "terminal" and isinstance(order.adapter, HasTerminal):
        from beam.turns import terminal as terminal_face

        history = order.adapter.transcripts if isinstance(order.adapter, HasHistory) else None
        input = _input_of(order, turn, host, confined, services.keeper)
        return await terminal_face.run_turn(_led(order.adapter.terminal, proxied), history, input, services, handle)
    if face == "dialogue":
        from beam.agents.link import HasDialogue
        from beam.turns import dialogue as dialogue_face

        if isinstance(order.adapter, HasDialogue):
            if turn.attach and order.adapter.card.faces[face].attach == "inline":
                from beam.turns.attached import with_contents

                turn = with_contents(turn, follow=not order.from_agent)
            input = _input_of(order, turn, host, confined, services.keeper)
            began_ns = services.clock.now_ns()
            verdict = await dialogue_face.run_turn(_led(order.adapter.dialogue, proxied), input, services, handle)
            return _counted(order, verdict, services, began_ns)
    if services.keeper is not None:
        await services.keeper.end(f"the next turn runs on the {face} face")
    if order.adapter.exec is None or face != "exec":
        raise UnsupportedError(f"{order.adapter_name} agents run no turns; a person or a script answers them")
    input = _input_of(order, turn, host, confined, None)
    return await exec_face.run_turn(_led(order.adapter.exec, proxied), input, services, handle)


def _counted(order: TurnRequest, verdict: Verdict, services: TurnServices, began_ns: int) -> Verdict:
    """Return the verdict with the tokens that the CLI tells only in its own files, if it ran on this machine."""
    if order.settings.runner or not order.adapter.card.figures_in_files:
        return verdict
    from beam.turns.told_in_files import with_tokens

    environ = {**order.environ, **order.settings.env}
    counted = with_tokens(verdict, order.adapter_name, environ, since_ns=began_ns)
    if counted is not verdict:
        services.record(events.UsageSeen(usage=counted.usage, cost_usd=counted.cost_usd))
    return counted


def _led(face: F, proxied: Proxied | None) -> F:
    """Return the adapter's face; with a proxy, one whose launches lead there."""
    if proxied is None:
        return face
    from beam.turns.model_proxy import Rerouted

    return cast(F, Rerouted(face, proxied.route))


def _input_of(
    order: TurnRequest, turn: Turn, host: Host, confined: Confined, keeper: ProcessKeeper | None
) -> TurnInput:
    """Return the input for the turn's face; `keeper` is None if processes end with their turns."""
    keep = order.limits.keep if order.settings.keep is None else order.settings.keep
    keep = 0.0 if keeper is None else keeper.idle_s(keep)
    keeps = keep > 0
    child_env = env_for_kept_process(order.child_env) if keeps else order.child_env
    return TurnInput(
        turn=turn,
        host=host,
        turn_key=order.turn_key,
        limits=order.limits,
        environ=order.environ,
        child_env={**order.settings.env, **order.folder_env, **child_env},
        timeout=order.timeout,
        idle_timeout=order.idle_timeout,
        number=order.turn,
        confined=confined,
        unstarted=order.unstarted,
        commands=order.message.options.via == "terminal" and not order.from_agent,
        keep=keep,
        folder_env=order.folder_env,
    )


def refusal(error: BeamError) -> Verdict:
    """Return the verdict on a turn that beam could not start: `limit`, or `failed` with a class."""
    if isinstance(error, LimitError):
        return Verdict(status=Status.LIMIT, reason=str(error))
    by_type = {
        UnsupportedError: Class.UNSUPPORTED,
        NotFoundError: Class.NOT_INSTALLED,
        ShortageError: Class.UNKNOWN,
    }
    class_ = next((word for kind, word in by_type.items() if isinstance(error, kind)), Class.BAD_REQUEST)
    if isinstance(error, NotFoundError) and error.kind != "not_installed":
        class_ = Class.BAD_REQUEST
    return Verdict(status=Status.FAILED, class_=class_, reason=str(error))


def held_to_structured(verdict: Verdict) -> Verdict:
    """Return the verdict for a sender that requires structured evidence, for whom text from a screen is no answer."""
    if not is_answer(verdict.status) or verdict.evidence in STRUCTURED:
        return verdict
    known = f"only its {verdict.evidence} said" if verdict.evidence is not None else "nothing said"
    return msgspec.structs.replace(
        verdict,
        status=Status.FAILED,
        class_=Class.UNSUPPORTED,
        reason=f"{known} that the turn was over, and structured evidence was required; `beam log` has what it wrote",
        reply=None,
    )


def _finish(
    order: TurnRequest,
    record: Record,
    verdict: Verdict,
    stop: Stop,
    face: Face | None,
    duration_s: float,
    *,
    why: str | None = None,
    heard: Sequence[str] = (),
) -> TurnFinished:
    if order.message.options.require == "structured" and face == "terminal":
        verdict = held_to_structured(verdict)
    outcome = msgspec.structs.replace(finished_of(order, verdict, stop, face, duration_s), why=why)
    link = link_in((outcome.reason or "", *reversed(heard))) if outcome.class_ is Class.AUTH else None
    if link is not None:
        outcome = msgspec.structs.replace(outcome, login_url=link)
    finished, blanked = redact_event(outcome)
    finished = msgspec.structs.replace(finished, redacted=blanked)
    crash_point("finish.before")
    written = record(finished, sync=True)
    crash_point("finish.recorded")
    if order.unstarted is not None:
        with contextlib.suppress(OSError):
            order.unstarted.unlink(missing_ok=True)
    assert isinstance(written, TurnFinished)
    return written


def tolerates(order: TurnRequest, status: Status) -> bool:
    """Return whether the sender, or else the agent's settings, count this status as success."""
    asked = order.message.options.tolerate
    return status == (order.settings.tolerate if asked is msgspec.UNSET else asked)


def _can(order: TurnRequest, face: Face | None) -> Capabilities:
    return Capabilities() if face is None else order.adapter.card.faces[face]


def finished_of(order: TurnRequest, verdict: Verdict, stop: Stop, face: Face | None, duration_s: float) -> TurnFinished:
    """Return the outcome: the adapter's verdict, plus beam's own knowledge (who stopped the turn, how long it took)."""
    can, access = _can(order, face), most_of(order)
    verdict = denied.explain(denied.name_rules(verdict, functools.partial(is_denied_by_rule, order)), can, access)
    status, class_, reason = verdict.status, verdict.class_, verdict.reason
    if stop.reason is not None and status is not Status.COMPLETED:
        limit, idle = durations.show(order.timeout), durations.show(order.idle_timeout)
        status, class_, reason = {
            "timeout": (Status.TIMEOUT, None, f"stopped after {limit}, the turn's timeout"),
            "idle": (Status.TIMEOUT, Class.STALLED, f"stopped: no sign of life for {idle}"),
            "cancelled": (Status.CANCELLED, None, f"stopped by {stop.by or 'a request'}"),
            "interrupted": (Status.CANCELLED, None, f"stopped by {stop.by or 'a signal'}"),
            "retries": (status, class_, reason),
            "broken": (status, class_, reason),
            "budget": (Status.LIMIT, None, f"the turn's budget is used up: {stop.why}"),
            "unmatched": (Status.FAILED, Class.BAD_REQUEST, stop.why),
        }[stop.reason]
    session: SessionNote | None = verdict.session
    if session is None and verdict.session_id is not None:
        session = "resumed" if order.session_id is not None and not order.fork else "new"
    model = verdict.model
    if model is None and verdict.usage.output_tokens:  # a CLI that names no model took the one that it was given
        model = order.message.options.model or order.settings.model
    verdict = msgspec.structs.replace(
        verdict, status=status, class_=class_, reason=reason, session=session, model=model
    )
    return events.turn_finished(
        verdict,
        attempt=order.message.attempt,
        via=_via(order, face),
        duration_s=round(duration_s, 3),
        exit_code=0 if tolerates(order, status) else exit_code(status, class_),
        denials=denied.denials_to_report(verdict.denials, can, access),
        at_most=access,
        rules=_rules_told(order),
    )


def _via(order: TurnRequest, face: Face | None) -> str | None:
    return face if order.recorded is None else VIA


def _rules_told(order: TurnRequest) -> RuleLists | msgspec.UnsetType:
    """Return the rules that bind what this turn sends; left out where there are none."""
    return order.rules.lists if order.rules.rules else msgspec.UNSET
