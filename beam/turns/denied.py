"""The reason of a turn's outcome if a request was denied by default. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from beam.agents.base import Capabilities, Verdict
from beam.model.message import Access
from beam.model.outcome import BY_DEFAULT, Denial, Status, denial_text

_RANK: dict[Access, int] = {"read": 0, "ask": 1, "edit": 2, "full": 3}


def explain(verdict: Verdict, can: Capabilities, access: Access | None) -> Verdict:
    """Return the verdict, with the denied calls and what would allow them in the reason of a denial.

    `access` is what the turn had, None if the agent has none.
    """
    calls = dict.fromkeys(denial_text(denial) for denial in verdict.denials if denial.by == BY_DEFAULT)
    if verdict.status is not Status.DENIED or not calls:
        return verdict
    who = "nobody decided on" if access == "ask" else "not permitted:"
    reason = f"{who} {', '.join(calls)}; the answer may be incomplete"
    return msgspec.structs.replace(verdict, reason=reason + _wider(can, access))


def denials_to_report(denials: Sequence[Denial], can: Capabilities, access: Access | None) -> tuple[Denial, ...] | None:
    """Return the denials; None if there are none and the agent's CLI would not report one.

    An agent that asks before everything it may not do had each request answered here, so none is missing.
    """
    return tuple(denials) if denials or can.denials or access == "ask" else None


def _wider(can: Capabilities, access: Access | None) -> str:
    if access is None or access not in can.access:
        return ""
    wider = [wider_access for wider_access in can.access if _RANK[wider_access] > _RANK[access]]
    if wider:
        return f"; it ran with access `{access}`: --access {' or '.join(wider)} allows more"
    return f"; it ran with access `{access}`, the widest it has: what denied it is a setting of its own"
