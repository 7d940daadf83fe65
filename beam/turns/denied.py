"""Finds out who denied a turn's requests, and words the reason of an outcome `denied`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from beam.agents.base import Capabilities, Verdict
from beam.model.message import Access
from beam.model.outcome import BY_DEFAULT, BY_RULE, Denial, Status, denial_text

_RANK: dict[Access, int] = {"read": 0, "ask": 1, "edit": 2, "full": 3}


def with_denial_reason(verdict: Verdict, can: Capabilities, access: Access | None) -> Verdict:
    """Return the verdict. If its status is `denied`, its reason names the denied calls, and the access that would allow
    them.

    `access` is the access of the turn, None if the agent has none.
    """
    calls = dict.fromkeys(denial_text(denial) for denial in verdict.denials if denial.by == BY_DEFAULT)
    if verdict.status is not Status.DENIED or not calls:
        return verdict
    who = "nobody decided on" if access == "ask" else "not permitted:"
    reason = f"{who} {', '.join(calls)}; the answer may be incomplete"
    return msgspec.structs.replace(verdict, reason=reason + _wider_access_hint(can, access))


def mark_rule_denials(verdict: Verdict, is_denied_by_rule: Callable[[Denial], bool]) -> Verdict:
    """Return the verdict, in which `by` names a rule for each denial that a rule of the turn demands.

    A CLI that enforces a rule itself reports only that it denied the request. If a person or a rule decided all
    denials, a status `denied` becomes `completed`, because a denial by a rule is an ordinary answer.
    """
    denials = tuple(
        msgspec.structs.replace(denial, by=BY_RULE) if denial.by == BY_DEFAULT and is_denied_by_rule(denial) else denial
        for denial in verdict.denials
    )
    if denials == verdict.denials:
        return verdict
    verdict = msgspec.structs.replace(verdict, denials=denials)
    if verdict.status is not Status.DENIED or any(denial.by == BY_DEFAULT for denial in denials):
        return verdict
    return msgspec.structs.replace(verdict, status=Status.COMPLETED, reason=None)


def denials_to_report(denials: Sequence[Denial], can: Capabilities, access: Access | None) -> tuple[Denial, ...] | None:
    """Return the denials; None (unknown) if there are none and the agent's CLI does not report denials.

    With access `ask` the agent asks before everything that it may not do. Each request was answered here, so no denial
    is missing.
    """
    return tuple(denials) if denials or can.denials or access == "ask" else None


def _wider_access_hint(can: Capabilities, access: Access | None) -> str:
    if access is None or access not in can.access:
        return ""
    wider = [wider_access for wider_access in can.access if _RANK[wider_access] > _RANK[access]]
    if wider:
        words = " or ".join(filter(None, (", ".join(wider[:-1]), wider[-1])))
        return f"; it ran with access `{access}`: --access {words} allows more"
    if access == "ask":
        return "; it ran with access `ask`: a request that waits is answered with beam approve or beam deny"
    return f"; it ran with access `{access}`, the widest it has: what denied it is a setting of its own"
