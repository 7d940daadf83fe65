"""Runs one message to its outcome: the durable order of a turn, for all faces.

`turn.started` is on disk before anything is spawned, `prompt.sent` before the agent can act on the message (headless:
before it is executed at all), and `turn.finished` before anyone is told. The holder claims the message before the turn,
and routes the answer after it. If a proxy is needed, the turn runs through it. Does not depend on queues, locks or
other agents.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

from beam.agents.base import Capabilities, Face, HasHistory, HasTerminal, Host, Turn, Verdict
from beam.base import files, own_program
from beam.base.directory_tree import remove_tree
from beam.base.errors import BeamError, DiskError, ShortageError, UnsupportedError, UntrustedError
from beam.base.faults import crash_point
from beam.model import events
from beam.model.events import Event, TurnFinished
from beam.model.outcome import Class, Status
from beam.turns import confine
from beam.turns import exec as exec_face
from beam.turns.choice import REASON_KEPT, choose_face
from beam.turns.confine import TurnConfinement
from beam.turns.handle import Stop, TurnHandle, TurnServices
from beam.turns.input import TurnInput, folder_of, turn_of
from beam.turns.outcome import (
    CliTexts,
    is_blank,
    is_work,
    outcome_to_record,
    passed_budget,
    refusal_verdict,
    turn_started_event,
)
from beam.turns.process import ProcessKeeper, ReuseKey
from beam.turns.record import EventChange, FigureFilter, ImageChange, PieceRecorder
from beam.turns.request import Record, TurnRequest, env_for_kept_process, host_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beam.turns.model_proxy import ProxiedTurn


_PROTOCOL_FAILURES = (Class.CRASHED, Class.UNSUPPORTED)  # it does not begin, or not as it did when it was tested


async def run(order: TurnRequest, services: TurnServices, handle: TurnHandle) -> TurnFinished:
    """Run the turn and return its outcome as it is in the journal, on disk.

    Raises DiskError if the journal can't be written; then every started process is gone, and the next holder
    records the outcome. Raises ShortageError if the system had no room for the agent's process; then nothing ran.
    """
    clock, stop = services.clock, handle.stop
    began = clock.monotonic()
    face, why = None, None
    record = pieces = PieceRecorder(services.record, clock, _event_changes(order, services.record))

    def poll() -> None:
        pieces.record_overdue()
        services.poll()

    cli = None
    if order.adapter.card.versions:
        from beam.turns.cli_version import version_for_turn

        cli = await version_for_turn(order, clock)
    if cli is not None:
        order = msgspec.structs.replace(order, unfit=cli.unfit, is_broken=cli.is_broken)
    try:
        mode = choose_face(order)
        face, why = mode.face, mode.why
        started = turn_started_event(order, face, why)
    except UnsupportedError as error:
        record(turn_started_event(order, order.message.options.via or "auto", None), sync=True)
        remove_tree(order.scratch, ignore_errors=True)
        return _finish(
            order, record, outcome_to_record(order, refusal_verdict(error), stop, None, clock.monotonic() - began)
        )
    crash_point("turn.before")
    record(started, sync=True)
    crash_point("turn.started")
    if order.recorded is None:
        files.make_directory(order.scratch)
    keeper = services.keeper
    sent = _SendRecorder(record, None if cli is None or face != "dialogue" else cli.record_success)
    try:
        within = msgspec.structs.replace(services, record=sent, poll=poll)
        verdict = await run_for_verdict(order, face, within, handle)
        if order.is_kept and not sent.is_sent and _is_broken(verdict, stop) and started.why == REASON_KEPT:
            why = f"without its own protocol, which failed: {verdict.reason}"
            record(events.Notice(code="headless", text=why))
            if cli is not None:
                cli.record_failure(verdict.reason or "")
                sent.on_sent = None
            order, face = msgspec.structs.replace(order, is_kept=False), "exec"
            verdict = await run_for_verdict(order, face, within, handle)
        handle.asks.close("the turn is over")
        handle.calls.close("the turn is over")
        await services.poll_last()
    finally:
        if order.recorded is None and (keeper is None or not keeper.uses_scratch(order.scratch)):
            remove_tree(order.scratch, ignore_errors=True)
            with contextlib.suppress(OSError):  # otherwise each --once message would leave a folder
                order.scratch.parent.rmdir()
    took = clock.monotonic() - began
    has_changed = await _record_work_tree(order, record, sent.recorded if sent.is_sent else None)
    is_silent = verdict.status is Status.COMPLETED and is_blank(verdict.reply)
    is_unseen = is_silent and not order.adapter.card.faces[face].tools  # its mode reports no tool calls
    worked = sent.has_worked or (is_unseen and has_changed)
    if passed := passed_budget(order, verdict):
        record(events.Notice(code="budget_passed", text=passed))
    outcome = outcome_to_record(
        order, verdict, stop, face, took, why=why, heard=sent.heard.texts, worked=worked, now_ns=clock.now_ns()
    )
    return _finish(order, record, outcome)


async def _record_work_tree(order: TurnRequest, record: Record, before: events.WorkTreeRecorded | None) -> bool:
    """Record what the work tree contains after the turn, if it was recorded before. Return whether it has changed;
    False if nobody can know."""
    if before is None or before.tree is None or order.snapshots is None:
        return False
    from beam.turns.snapshot import snapshot_event

    folder, agent, once = Path(before.folder), order.message.to, order.message.options.once
    after = await snapshot_event(order.snapshots, folder, order.environ, agent, beside=once, at="end")
    record(after)
    return after.tree not in (None, before.tree)


def _event_changes(order: TurnRequest, record: Record) -> list[EventChange]:
    """Return the changes that are made to the turn's events before they are recorded."""
    changes: list[EventChange] = [FigureFilter(record)]
    if order.images is not None and order.agent_dir is not None:
        changes.append(ImageChange(order.images, order.agent_dir))
    return changes


class _SendRecorder:
    """Records events. `is_sent`: an event reported that the message was sent to the agent. `has_worked`: an event was
    work of the agent. `recorded` says what the work tree contained before the turn. `heard`
    are the texts of its CLI.

    `on_sent` is called just before the first such event is recorded, because the protocol has worked then. The notice
    that it returns is recorded, too.
    """

    def __init__(self, record: Record, on_sent: Callable[[], Event | None] | None) -> None:
        self.is_sent = False
        self.has_worked = False
        self.recorded: events.WorkTreeRecorded | None = None
        self.heard = CliTexts()
        self._record = record
        self.on_sent = on_sent

    def __call__(self, body: Event, *, sync: bool = False) -> Event:
        """Return the event as it was recorded."""
        if isinstance(body, CliTexts.types):
            self.heard.add_text(body)
        self.has_worked = self.has_worked or is_work(body)
        if isinstance(body, events.WorkTreeRecorded):
            self.recorded = body
        if isinstance(body, events.PromptSent) and not self.is_sent:
            self.is_sent = True
            notice = self.on_sent() if self.on_sent is not None else None
            if notice is not None:
                self._record(notice)
        return self._record(body, sync=sync)


def _is_broken(verdict: Verdict, stop: Stop) -> bool:
    """Return whether the agent's process or its protocol failed for another reason than a stop."""
    return stop.reason is None and verdict.status is Status.FAILED and verdict.class_ in _PROTOCOL_FAILURES


def _finish(order: TurnRequest, record: Record, outcome: TurnFinished) -> TurnFinished:
    crash_point("finish.before")
    written = record(outcome, sync=True)
    crash_point("finish.recorded")
    if order.unstarted is not None:
        with contextlib.suppress(OSError):
            order.unstarted.unlink(missing_ok=True)
    assert isinstance(written, TurnFinished)
    return written


F = TypeVar("F")

_MAX_NAMED_FILES = 5  # files that a notice names


async def run_for_verdict(order: TurnRequest, face: Face, services: TurnServices, handle: TurnHandle) -> Verdict:
    """Run the turn on this face and return the verdict on it. A turn that can't begin gets a verdict, too.

    Raises DiskError and ShortageError.
    """
    try:
        if order.recorded is not None:
            from beam.turns.replay import replay_turn

            return replay_turn(order.recorded, services.record)
        own_program.hold(folder_of(order))
        if order.untrusted is not None:
            raise UntrustedError(order.untrusted, f"look at it, then: beam trust {order.base}")
        notice = _left_out_notice(order.left_out)
        if notice is not None and notice.text != order.left_out_told:
            services.record(notice)
        capabilities = order.adapter.card.faces[face]
        if _needs_proxy(order, capabilities):
            return await _run_through_proxy(order, face, services, handle)
        return await _run_on_face(order, face, services, handle)
    except (DiskError, ShortageError):
        raise
    except BeamError as error:
        return refusal_verdict(error)


def _left_out_notice(files: Sequence[str]) -> events.Notice | None:
    """Return the notice that the CLI is kept from these untrusted files; None if there are none."""
    if not files:
        return None
    more = ", …" if len(files) > _MAX_NAMED_FILES else ""
    text = f"runs without {', '.join(files[:_MAX_NAMED_FILES])}{more}, which nobody trusted; beam trust shows them"
    return events.Notice(code="left_out", text=text)


def may_run_in_kept_process(order: TurnRequest, key: ReuseKey) -> bool:
    """Return whether the kept process with this key may run the turn, or the turn is refused in any case. The answer is
    the one that the turn itself comes to, except for what only its start shows: the version of the CLI."""
    order = msgspec.structs.replace(order, is_kept=True)
    try:
        face = choose_face(order).face
        if _needs_proxy(order, order.adapter.card.faces[face]):
            return False
        turn = turn_of(order, face, str(order.scratch))
    except BeamError:
        return True
    return key == ReuseKey.of_turn(turn, face, order.session_id, key.executable, order.folder_env)


def _needs_proxy(order: TurnRequest, capabilities: Capabilities) -> bool:
    """Return whether the model calls go through a proxy: the message asks for one, or only a proxy can keep the budget
    or knows whether the answer is whole."""
    options = order.message.options
    if options.is_proxied:
        return True
    has_budget = (options.budget_usd or order.settings.budget_usd) is not None
    lacks_budget = has_budget and not capabilities.budget
    lacks_whole = options.require == "whole" and not capabilities.whole
    if not (lacks_budget or lacks_whole):
        return False
    from beam.agents.model_route import router_of

    return router_of(order.adapter_name) is not None


async def _run_through_proxy(order: TurnRequest, face: Face, services: TurnServices, handle: TurnHandle) -> Verdict:
    from beam.turns import model_proxy

    if services.keeper is not None:
        await services.keeper.end("the next turn has a proxy of its own")
    order = msgspec.structs.replace(order, is_proxied=True)
    async with model_proxy.running_proxy(order, handle) as proxied:

        def poll() -> None:
            model_proxy.record_model_calls(proxied, services)
            services.poll()

        within = msgspec.structs.replace(services, keeper=None, poll=poll)
        verdict = await _run_on_face(proxied.order, face, within, handle, proxied)
    model_proxy.record_model_calls(proxied, services)
    return model_proxy.with_proxy_findings(verdict, proxied)


async def _run_on_face(
    order: TurnRequest, face: Face, services: TurnServices, handle: TurnHandle, proxied: ProxiedTurn | None = None
) -> Verdict:
    began_ns = services.clock.now_ns()
    verdict = await _drive_face(order, face, services, handle, proxied)
    return _with_facts_in_files(order, face, verdict, services, began_ns)


async def _drive_face(
    order: TurnRequest, face: Face, services: TurnServices, handle: TurnHandle, proxied: ProxiedTurn | None
) -> Verdict:
    turn = turn_of(order, face, str(order.scratch))
    host = host_of(order)
    confined = await confine.turn_confinement(order.adapter.card, face, turn, order.own, version=order.landlock)
    if (confinement_notice := confine.confinement_notice(confined, turn)) is not None:
        services.record(confinement_notice)
    if (program_notice := confine.program_notice(host.executable, order.adapter.card, turn)) is not None:
        services.record(program_notice)
    if order.snapshots is not None and turn.access != "read":
        from beam.turns.snapshot import snapshot_event

        once = order.message.options.once
        services.record(await snapshot_event(order.snapshots, Path(turn.cwd), order.environ, turn.agent, beside=once))
    if face == "terminal" and isinstance(order.adapter, HasTerminal):
        from beam.turns import terminal as terminal_face

        history = order.adapter.transcripts if isinstance(order.adapter, HasHistory) else None
        input = _input_of(order, turn, host, confined, services.keeper)
        return await terminal_face.run_turn(
            _face_through_proxy(order.adapter.terminal, proxied), history, input, services, handle
        )
    if face == "dialogue":
        from beam.agents.link import HasDialogue
        from beam.turns import dialogue as dialogue_face

        if isinstance(order.adapter, HasDialogue):
            if turn.attach and order.adapter.card.faces[face].attach == "inline":
                from beam.turns.attached import with_contents

                turn = with_contents(turn, follow=not order.from_agent)
            input = _input_of(order, turn, host, confined, services.keeper)
            return await dialogue_face.run_turn(
                _face_through_proxy(order.adapter.dialogue, proxied), input, services, handle
            )
    if services.keeper is not None:
        await services.keeper.end(f"the next turn runs on the {face} face")
    if order.adapter.exec is None or face != "exec":
        raise UnsupportedError(f"{order.adapter_name} agents run no turns; a person or a script answers them")
    input = _input_of(order, turn, host, confined, None)
    return await exec_face.run_turn(_face_through_proxy(order.adapter.exec, proxied), input, services, handle)


def _with_facts_in_files(
    order: TurnRequest, face: Face, verdict: Verdict, services: TurnServices, began_ns: int
) -> Verdict:
    """Return the verdict with the facts that the CLI reports only in its own files, if it ran on this machine. Record
    the files that the turn changed, if only these files name them."""
    card = order.adapter.card
    has_figures, has_end = card.figures_in_files and face == "dialogue", face in card.ends_in_files
    has_edits = face in card.edits_in_files
    if order.settings.runner or not (has_figures or has_end or has_edits):
        return verdict
    from beam.turns import told_in_files
    from beam.turns.engine import name_in_folder

    environ = {**order.environ, **order.settings.env}
    if has_edits:
        found = told_in_files.file_changes(verdict.session_id, order.adapter_name, environ, since_ns=began_ns)
        for event in found:
            path = name_in_folder(event.path, str(folder_of(order)))
            services.record(events.FileChanged(path=path, kind=event.kind))
    if has_figures:
        counted = told_in_files.with_tokens(verdict, order.adapter_name, environ, since_ns=began_ns)
        if counted is not verdict:
            services.record(events.UsageSeen(usage=counted.usage, cost_usd=counted.cost_usd))
        verdict = counted
    return (
        told_in_files.with_answer_end(verdict, order.adapter_name, environ, since_ns=began_ns) if has_end else verdict
    )


def _face_through_proxy(face: F, proxied: ProxiedTurn | None) -> F:
    """Return the adapter's face; with a proxy, a face whose launches go through it."""
    if proxied is None:
        return face
    from beam.turns.model_proxy import ReroutedFace

    return cast(F, ReroutedFace(face, proxied.route))


def _input_of(
    order: TurnRequest, turn: Turn, host: Host, confined: TurnConfinement, keeper: ProcessKeeper | None
) -> TurnInput:
    """Return the input for the turn's face; `keeper` is None if processes end with their turns."""
    keep = 0.0 if keeper is None else keeper.idle_s(order.keep)
    keeps = keep > 0
    child_env = env_for_kept_process(order.child_env) if keeps else order.child_env
    return TurnInput(
        turn=turn,
        scratch=order.scratch,
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
