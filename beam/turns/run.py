"""One message to its outcome: the durable order of a turn, whatever face runs it.

`turn.started` is on disk before anything is spawned, `prompt.sent` before the first byte of the prompt leaves, and
`turn.finished` before anyone is told. What comes before (claim) and after (routing, closing) is the holder's.
Must not know: queues, locks, other agents.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

import msgspec

from beam import durations, events, files
from beam.agents.base import Face, HasHistory, HasTerminal, Host, Turn, Verdict
from beam.clock import Clock
from beam.errors import BeamError, DiskError, LimitError, NotFoundError, UnsupportedError, UntrustedError
from beam.events import TurnFinished
from beam.faults import reached
from beam.outcome import Class, SessionNote, Status, exit_code
from beam.policy import is_answer
from beam.redact import redact_event
from beam.turns import exec as exec_face
from beam.turns.asks import Asks
from beam.turns.keeper import Keeper
from beam.turns.order import Order, Record, face_of, host_of, lasting, turn_of, why_not_better
from beam.turns.stop import Stop

STRUCTURED = frozenset({"history", "osc"})  # the agent's own word on where its turn stands


async def run(
    order: Order,
    record: Record,
    stop: Stop,
    clock: Clock,
    look: Callable[[], None],
    asks: Asks,
    keeper: Keeper | None = None,
) -> TurnFinished:
    """Runs the turn and returns its outcome as it stands in the journal, on disk.

    `look` is called ten times a second while the turn runs (control requests); there `asks` are decided. `keeper` has
    the agent's terminal between turns. Raises DiskError if the journal can't be written; then everything that was
    started is gone, and the next holder says what is known.
    """
    began = clock.monotonic()
    face = None
    try:
        face = face_of(order.adapter, order.message.options.via)
        started = events.TurnStarted(
            attempt=order.message.attempt,
            owner=order.owner,
            turn_key=order.turn_key,
            adapter=order.adapter_name,
            via=face,
            why=why_not_better(order.adapter, face, order.message.options.via),
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
        return _finish(order, record, refusal(error), stop, None, clock.monotonic() - began)
    reached("turn.before")
    record(started, sync=True)
    reached("turn.started")
    files.make_directory(order.scratch)
    try:
        verdict = await _verdict(order, face, record, stop, clock, look, asks, keeper)
        asks.close("the turn is over")
    finally:
        if keeper is None or not keeper.needs(order.scratch):
            shutil.rmtree(order.scratch, ignore_errors=True)
    return _finish(order, record, verdict, stop, face, clock.monotonic() - began)


async def _verdict(
    order: Order,
    face: Face,
    record: Record,
    stop: Stop,
    clock: Clock,
    look: Callable[[], None],
    asks: Asks,
    keeper: Keeper | None,
) -> Verdict:
    try:
        if order.untrusted is not None:
            raise UntrustedError(order.untrusted, f"look at it, then: beam trust {order.base}")
        turn = turn_of(order, face, str(order.scratch))
        host = host_of(order)
        if face == "terminal" and isinstance(order.adapter, HasTerminal):
            return await _on_terminal(order, order.adapter, turn, host, record, stop, clock, look, asks, keeper)
        if keeper is not None:
            await keeper.end(f"the next turn runs on the {face} face")
        if order.adapter.exec is None or face != "exec":
            raise UnsupportedError(f"{order.adapter_name} agents run no turns; a person or a script answers them")
        return await exec_face.play(
            exec_face.Play(
                exec=order.adapter.exec,
                turn=turn,
                host=host,
                turn_key=order.turn_key,
                limits=order.limits,
                environ=order.environ,
                child_env={**order.settings.env, **order.child_env},
                timeout=order.timeout,
                idle_timeout=order.idle_timeout,
            ),
            record,
            stop,
            clock,
            look,
        )
    except DiskError:
        raise
    except BeamError as error:
        return refusal(error)


async def _on_terminal(
    order: Order,
    adapter: HasTerminal,
    turn: Turn,
    host: Host,
    record: Record,
    stop: Stop,
    clock: Clock,
    look: Callable[[], None],
    asks: Asks,
    keeper: Keeper | None,
) -> Verdict:
    from beam.turns import terminal as terminal_face

    keep = order.limits.keep if order.settings.keep is None else order.settings.keep
    keeps = keeper is not None and keeper.keeps and keep > 0
    child_env = lasting(order.child_env) if keeps else order.child_env

    return await terminal_face.play(
        terminal_face.Play(
            terminal=adapter.terminal,
            history=adapter.transcripts if isinstance(adapter, HasHistory) else None,
            turn=turn,
            host=host,
            turn_key=order.turn_key,
            limits=order.limits,
            environ=order.environ,
            child_env={**order.settings.env, **child_env},
            timeout=order.timeout,
            idle_timeout=order.idle_timeout,
            commands=order.message.options.via == "terminal" and not order.from_agent,
            asks=asks,
            number=order.turn,
            keep=keep,
        ),
        record,
        stop,
        clock,
        look,
        keeper,
    )


def refusal(error: BeamError) -> Verdict:
    """The verdict for what beam could not even start: a limit, or failed, of a class."""
    if isinstance(error, LimitError):
        return Verdict(status=Status.LIMIT, reason=str(error))
    by_type = {UnsupportedError: Class.UNSUPPORTED, NotFoundError: Class.NOT_INSTALLED}
    class_ = next((word for kind, word in by_type.items() if isinstance(error, kind)), Class.BAD_REQUEST)
    if isinstance(error, NotFoundError) and error.kind != "not_installed":
        class_ = Class.BAD_REQUEST
    return Verdict(status=Status.FAILED, class_=class_, reason=str(error))


def held_to_structured(verdict: Verdict) -> Verdict:
    """The verdict of a turn on a screen whose sender takes the agent's own word only: what stood on its screen is no
    answer then."""
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
    order: Order, record: Record, verdict: Verdict, stop: Stop, face: Face | None, duration_s: float
) -> TurnFinished:
    if order.message.options.require == "structured" and face == "terminal":
        verdict = held_to_structured(verdict)
    finished, blanked = redact_event(finished_of(order, verdict, stop, face, duration_s))
    finished = msgspec.structs.replace(finished, redacted=blanked)
    reached("finish.before")
    written = record(finished, sync=True)
    reached("finish.recorded")
    assert isinstance(written, TurnFinished)
    return written


def finished_of(order: Order, verdict: Verdict, stop: Stop, face: Face | None, duration_s: float) -> TurnFinished:
    """The outcome: the adapter's verdict, and what only beam knows (who stopped it, how long it took)."""
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
        }[stop.reason]
    session: SessionNote | None = verdict.session
    if session is None and verdict.session_id is not None:
        session = "resumed" if order.session_id is not None and not order.fork else "new"
    return TurnFinished(
        attempt=order.message.attempt,
        status=status,
        class_=class_,
        reason=reason,
        reply=verdict.reply,
        session_id=verdict.session_id,
        session=session,
        via=face,
        model=verdict.model,
        usage=verdict.usage,
        cost_usd=verdict.cost_usd,
        duration_s=round(duration_s, 3),
        exit_code=exit_code(status, class_),
        denials=verdict.denials,
        structured=verdict.structured,
        lossy=verdict.lossy,
        evidence=verdict.evidence,
    )
