"""The verdict on a turn on a screen: from the agent's own transcript, else from what its screen showed. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from msgspec import Struct, structs

from beam.agents.base import Verdict
from beam.agents.failures import class_of, is_refusal
from beam.model.outcome import SCREEN, Class, Denial, Evidence, Status
from beam.process.spawn import ProcessEnd
from beam.pty_adapter.block import pattern
from beam.pty_adapter.screen import View
from beam.pty_adapter.turn_end import State, TurnEnd
from beam.turns.asks import with_denials

_SHOWN_ROWS = 12
_CLASSES_OF_SCREEN = (Class.AUTH, Class.EMPTY, Class.STOPPED)  # none is retried


class TurnEvidence(Struct, frozen=True, kw_only=True):
    """What is known about a turn that is over. `transcript` is the transcript's verdict, None if there is no transcript
    or it says nothing. `reply` is the answer on the screen. `failed` is the verdict if beam gave up. `stopped`: the
    turn was asked to end. `cut_short`: that left a request undecided. `session_id` is the session, None if it is
    unknown. `command`: the text was a command, which may have no answer. `ended` is how the process ended, None if it
    still runs."""

    end: TurnEnd
    view: View
    reply: str = ""
    transcript: Verdict | None = None
    failed: Verdict | None = None
    stopped: bool = False
    cut_short: bool = False
    session_id: str | None = None
    command: bool = False
    denials: tuple[Denial, ...] = ()
    ended: ProcessEnd | None = None


def verdict_of(seen: TurnEvidence) -> Verdict:
    """Return the verdict on the turn. It has an answer only if evidence shows that the turn completed."""
    state = seen.end.state
    if seen.failed is not None and not seen.stopped:
        return _unanswered_verdict(seen.failed, seen)
    if state in (State.DONE, State.ERROR):
        verdict = structs.replace(_answered_verdict(seen), evidence=evidence_of(seen.end))
        if seen.cut_short and verdict.status is Status.COMPLETED:
            verdict = structs.replace(verdict, status=Status.CANCELLED)
        if seen.stopped and verdict.status is Status.CANCELLED:  # the stop caused this, not the denial
            return structs.replace(verdict, denials=(*verdict.denials, *seen.denials))
        return with_denials(verdict, seen.denials)
    if seen.stopped:
        stopped = _unanswered_verdict(Verdict(status=Status.CANCELLED, reason="stopped"), seen)
        return structs.replace(stopped, session_id=seen.session_id)
    if state is State.EXITED and seen.ended is not None:
        return _unanswered_verdict(_exited_verdict(seen, seen.ended), seen)
    return _unanswered_verdict(stalled_verdict(seen.end.reason or "nobody knows what it waits for", seen.view), seen)


def _unanswered_verdict(verdict: Verdict, seen: TurnEvidence) -> Verdict:
    """Return the verdict on a turn that ended without an answer, with the figures and denials that are known."""
    told = seen.transcript
    if told is not None:
        verdict = structs.replace(
            verdict,
            session_id=seen.session_id,
            model=told.model,
            usage=told.usage,
            cost_usd=told.cost_usd,
            models=told.models,
        )
    return structs.replace(verdict, denials=seen.denials)


def _exited_verdict(seen: TurnEvidence, ended: ProcessEnd) -> Verdict:
    how = f"was ended by {ended.signal}" if ended.signal else f"exited with {ended.code}"
    reason = f"the agent {how} before its turn was over{SCREEN}{informative_rows(seen.view.rows)}"
    return Verdict(status=Status.FAILED, class_=Class.CRASHED, reason=reason)


def _answered_verdict(seen: TurnEvidence) -> Verdict:
    verdict = seen.transcript
    is_told = seen.end.via == "history" and not seen.command  # then the screen shows no answer, whatever it shows
    if verdict is None or (verdict.status is Status.COMPLETED and verdict.reply is None and not is_told):
        known = verdict or Verdict(status=Status.COMPLETED)
        verdict = structs.replace(known, reply=_without_notices(seen), lossy=True)
        if seen.end.state is State.ERROR:
            verdict = _failed_verdict(verdict, seen.end.reason)
        elif seen.transcript is None and not (seen.reply or seen.end.profile.at_cursor or seen.command):
            verdict = structs.replace(
                verdict,
                status=Status.FAILED,
                class_=Class.EMPTY,
                reason=f"it is idle again, and no answer was found on its screen:\n{informative_rows(seen.view.rows)}",
                reply=None,
            )
    if (
        verdict.class_ is Class.STOPPED and verdict.lossy is True and seen.reply
    ):  # the screen alone has the hook's words
        verdict = structs.replace(verdict, reason=f"{verdict.reason}{SCREEN}{seen.reply}")
    if verdict.status is Status.COMPLETED and _is_cut(seen):
        return structs.replace(verdict, status=Status.TRUNCATED, reason="the answer was cut off by its token limit")
    return verdict


def _failed_verdict(verdict: Verdict, reason: str) -> Verdict:
    """Return the verdict on a turn of which only the screen shows that it failed.

    The model may have written the words on the screen. So no class is returned for which `retry` would run the message
    again.
    """
    found = class_of(None, reason)
    if found is not Class.STOPPED and is_refusal(reason):
        return structs.replace(verdict, status=Status.REFUSED, reason=reason, reply=None)
    class_ = found if found in _CLASSES_OF_SCREEN else Class.UNKNOWN
    return structs.replace(verdict, status=Status.FAILED, class_=class_, reason=reason, reply=None)


def _is_cut(seen: TurnEvidence) -> bool:
    """Return whether the last row of the answer is the notice that the token limit cut it off. A row above the last is
    about a part of the answer that the model went on with."""
    rows = seen.reply.split("\n")
    return _is_notice(seen, rows[-1])


def _without_notices(seen: TurnEvidence) -> str:
    rows = [row for row in seen.reply.split("\n") if not _is_notice(seen, row)]
    return "\n".join(rows).strip("\n")


def _is_notice(seen: TurnEvidence, row: str) -> bool:
    return any(pattern(each).search(row) for each in seen.end.profile.cut_rows)


def evidence_of(end: TurnEnd) -> Evidence | None:
    """Return the evidence for the turn's end; None if there is none."""
    match end.via:
        case "history" | "title":
            return end.via
        case "osc7501" | "osc133":
            return "osc" if end.is_structured else "prompt"
        case "screen":
            return "prompt" if end.profile.at_cursor else "screen"
    return None


def stalled_verdict(why: str, view: View) -> Verdict:
    """Return the verdict on an agent that waits for something unknown, with its screen in the reason."""
    return Verdict(status=Status.FAILED, class_=Class.STALLED, reason=f"{why}{SCREEN}{informative_rows(view.rows)}")


def informative_rows(rows: Sequence[str]) -> str:
    """Return the informative part of a screen: the last rows with a letter or a digit, without their common indent."""
    told = [row.rstrip() for row in rows if any(character.isalnum() for character in row)]
    return textwrap.dedent("\n".join(told[-_SHOWN_ROWS:]))
