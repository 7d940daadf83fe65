"""Runs one message to its outcome: the durable order of a turn, for all faces.

`turn.started` is on disk before anything is spawned, `prompt.sent` before the agent can act on the message (headless:
before it is executed at all), and `turn.finished` before anyone is told. The holder claims the message before the turn,
and routes the answer after it. Does not depend on queues, locks or other agents.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec

from beam.agents.base import Face, Verdict
from beam.base import files
from beam.base.directory_tree import remove_tree
from beam.base.errors import UnsupportedError
from beam.base.faults import crash_point
from beam.model import events
from beam.model.events import Event, TurnFinished
from beam.model.outcome import Class, Status
from beam.turns.answer import is_blank, is_work
from beam.turns.choice import REASON_KEPT, choose_face
from beam.turns.claimed import FigureFilter
from beam.turns.cli_version import version_for_turn
from beam.turns.handle import TurnHandle, TurnServices
from beam.turns.login import CliTexts
from beam.turns.outcome import outcome_to_record, refusal_verdict, turn_started_event
from beam.turns.pieces import EventChange, PieceRecorder
from beam.turns.request import Record, TurnRequest
from beam.turns.stop import Stop
from beam.turns.verdict import run_for_verdict

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
    worked = sent.has_worked or await _has_changed_files(order, face, verdict, sent.recorded)
    outcome = outcome_to_record(order, verdict, stop, face, took, why=why, heard=sent.heard.texts, worked=worked)
    return _finish(order, record, outcome)


async def _has_changed_files(
    order: TurnRequest, face: Face, verdict: Verdict, before: events.WorkTreeRecorded | None
) -> bool:
    """Return whether files changed in a turn without an answer, if its mode reports no tool calls. `before` is what was
    recorded before the turn."""
    is_silent = verdict.status is Status.COMPLETED and is_blank(verdict.reply)
    if not is_silent or before is None or order.snapshots is None or order.adapter.card.faces[face].tools:
        return False
    from beam.turns.snapshot import has_changed

    return await has_changed(order.snapshots, before, order.environ, order.message.to)


def _event_changes(order: TurnRequest, record: Record) -> list[EventChange]:
    """Return the changes that are made to the turn's events before they are recorded."""
    changes: list[EventChange] = [FigureFilter(record)]
    if order.images is not None and order.agent_dir is not None:
        from beam.turns.images import ImageFiles

        changes.append(ImageFiles(order.images, order.agent_dir))
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
