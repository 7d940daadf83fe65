"""Renews the trust in a settings file to which an agent's CLI added a permission, because a person allowed a call with
`--always`.

The trust is renewed only if no other trusted file changed during the turn, and if the settings file changed only by new
entries in its list of permissions, up to a fixed number per decision. After any other change, a person must review the
folder again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from beam.agents.base import Remembers
from beam.broker.inbox import standing
from beam.model import events
from beam.trust import ledger, scan
from beam.turns.request import TurnRequest

if TYPE_CHECKING:
    from beam.broker.inbox.log import AgentLog


class Renewal:
    """The renewal of trust after one turn. It is made before the turn, to remember the content of the settings files.
    `renew_trust` is called after the turn."""

    def __init__(self, log: AgentLog, order: TurnRequest) -> None:
        self._log = log
        self._order = order
        context = log.context
        is_trusted = order.folder_trusted and context.environ.get(ledger.TRUST_VARIABLE) != "1"
        remembers = order.adapter.card.remembers if is_trusted else ()
        self._cwd = (
            Path(os.path.realpath(context.home.project / (order.settings.cwd or "")))
            if remembers
            else context.home.project
        )
        self._before = {one: _read_content(self._cwd, one) for one in remembers}

    def renew_trust(self, decisions: Sequence[str]) -> None:
        """Renew the trust in each settings file that changed only by permissions from these decisions, and record that.
        `decisions` are the ids of the asks that a person allowed with `--always`."""
        if not decisions or not self._before:
            return
        context = self._log.context
        resolved = context.config.resolve(self._order.message.to)
        card = self._order.adapter.card
        found, _ = standing.findings_for(context, resolved, "ask", card.faces)
        changes = ledger.standing_of(context.home.project, found, context.environ).changes
        for one, before in self._before.items():
            name = scan.relative_name(self._cwd / one.path, Path(os.path.realpath(context.home.project)))
            if [change.found.name for change in changes] != [name]:
                continue
            if not only_adds_entries(before, _read_content(self._cwd, one), one.keys, one.most * len(decisions)):
                continue
            ids = ", ".join(decisions)
            ledger.renew_finding(context.home.project, changes[0].found, ids, context.environ)
            self._log.record(
                events.Notice(code="trust_renewed", text=f"{name} was changed by decision {ids}, and is still trusted"),
                message_id=self._order.message.id,
                sync=True,
            )


def only_adds_entries(before: bytes | None, after: bytes | None, keys: Sequence[str], limit: int) -> bool:
    """Return whether the JSON document `after` equals `before`, except for at most `limit` new entries at the end of
    the list at the path `keys`."""
    try:
        had, has = (msgspec.json.decode(data) if data is not None else {} for data in (before, after))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    old, new = _take_list(had, keys), _take_list(has, keys)
    if not isinstance(old, list) or not isinstance(new, list) or had != has:
        return False
    added = new[len(old) :]
    return new[: len(old)] == old and len(added) <= limit and all(isinstance(entry, str) for entry in added)


def _take_list(document: Any, keys: Sequence[str]) -> Any:
    """Remove the list at the path `keys` from the document, remove objects that become empty, and return the list.

    Return an empty list if the document has no such path. Return None if a value on the path is not an object.
    """
    if not isinstance(document, dict):
        return None
    first, *rest = keys
    if first not in document:
        return []
    taken = _take_list(document[first], rest) if rest else document.pop(first)
    if rest and not document[first]:
        del document[first]
    return taken


def _read_content(cwd: Path, one: Remembers) -> bytes | None:
    found_file = scan.scan_files(cwd, one.path)
    return found_file[0].content if found_file else None
