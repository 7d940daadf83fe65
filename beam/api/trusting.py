"""Shows a person what trusting a folder allows, and records the person's trust."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from msgspec import Struct

from beam.api.find import all_paths, queue_of
from beam.broker.inbox import launch, standing
from beam.broker.inbox.context import RootContext
from beam.model.autoloaded import Finding
from beam.secrets.redact import redact
from beam.trust import ledger
from beam.trust.ledger import Change, Standing
from beam.trust.scan import shorten

_MAX_LINES = 40  # of one file
_VARIABLE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=")


class FolderReview(Struct, frozen=True, kw_only=True):
    """The findings in a folder at one moment, mostly files that agents would obey. `standing` compares them with the
    trusted state."""

    found: tuple[Finding, ...]
    standing: Standing


def review_folder(context: RootContext) -> FolderReview:
    """Return a review of all files in the folder that any agent, declared or only known to beam, would obey with any
    access. `BEAM_TRUST` is ignored."""
    found = tuple(standing.all_findings(context))
    environ = {name: value for name, value in context.environ.items() if name != ledger.TRUST_VARIABLE}
    return FolderReview(found=found, standing=ledger.standing_of(context.home.project, found, environ))


def trust(context: RootContext, review: FolderReview) -> None:
    """Trust the folder's files as the review has them, and start the agents whose messages waited for this."""
    ledger.trust(context.home.project, review.found, context.environ)
    for paths in all_paths(context):
        if queue_of(paths).entries("new"):
            launch.ensure_worker(context, paths)


def allowed(review: FolderReview) -> Iterator[str]:
    """Yield a line for each thing that trusting the folder allows; new and changed things come first."""
    changed = {change.found.name for change in review.standing.changes}
    if review.standing.once:
        yield from differences(review)
    else:
        changed = set()
    for found in review.found:
        if found.name not in changed:
            yield _one_line(f"{found.name}{_who_obeys(found)}")


def differences(review: FolderReview) -> Iterator[str]:
    """Yield a line for each thing that differs from the trusted state, followed by the new lines of a short file."""
    for change in review.standing.changes:
        yield _one_line(standing.describe_change(change))
        lines, _ = ledger.new_lines(change)
        for line in lines[:_MAX_LINES]:
            yield f"  + {_redacted_line(change, line)}"
        if len(lines) > _MAX_LINES:
            yield f"  + … {len(lines) - _MAX_LINES} more lines"


def _one_line(text: str) -> str:
    """Return the text with its line breaks and other control characters written as escapes, because a name with a line
    break could pass for a second line."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _redacted_line(change: Change, line: str) -> str:
    """Return the line without secrets. For a file of variables return only the names, because any value may be a
    secret."""
    if PurePath(change.found.name).name.startswith(".env"):
        named = _VARIABLE.match(line)
        return f"{named[1]}=…" if named else "…"
    return shorten(redact(line)[0])


def _who_obeys(found: Finding) -> str:
    if found.says or not found.by:
        return ""
    return f": {', '.join(found.by)} {'runs' if found.runs else 'obeys'} it"
