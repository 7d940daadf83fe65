"""Decides whether an agent may run in its folder: which files there its CLI and its declaration in the configuration
would obey, and whether a person trusts them.

Combines the declarations (`beam.trust.declarations`, `Card.obeys`), the files found (`beam.trust.scan`,
`beam.trust.git_config`) and the trust ledger (`beam.trust.ledger`) into one answer, with a text that tells a person
what to do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from beam.agents import registry
from beam.agents.base import Card, Face
from beam.base.errors import BeamError, UntrustedError
from beam.broker.inbox.context import RootContext
from beam.config.resolve import AGENT_JSON, BEAM_YAML, ResolvedAgent
from beam.model.autoloaded import EVERY_ACCESS, Finding
from beam.model.message import Access, Message
from beam.root.paths import AgentPaths, user_home
from beam.store.queue import Entry, Queue
from beam.trust import git_config, ledger, scan
from beam.trust.declarations import AdapterFacts, findings_of_agent
from beam.trust.ledger import Change, Standing
from beam.turns.choice import possible_faces

_MOMENT_S = 0.05  # from the check of a message to its turn, in one process
_MAX_NAMED = 3  # items that a refusal names
_TOO_MUCH = f"more than beam looks through ({scan.MAX_FILES} files, {scan.MAX_BYTES >> 20} MiB)"


class FolderStanding(Struct, frozen=True, kw_only=True):
    """Whether an agent may run in its folder. `refusal`: why it may not run; None if it may. `no_protocol`: why it may
    run only headless, and not over its own protocol; "" if it may do both. `trusted`: the folder's files may take
    effect. `left_out`: files that the agent's CLI is made to ignore. `env`: variables that make git
    ignore the programs in its configuration. `by_variable`: the folder counts as trusted only because of BEAM_TRUST."""

    refusal: str | None = None
    no_protocol: str = ""
    hint: str = ""
    trusted: bool = False
    left_out: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    by_variable: bool = False


def check_folder(
    context: RootContext, resolved: ResolvedAgent, access: Access | None = None, via: str | None = None
) -> FolderStanding:
    """Check the folder now, and return the agent's standing in it, for a turn with this access level (default: the
    level in the agent's settings) and in this mode (default: the one that beam chooses).

    Where beam may choose the agent's own protocol, the files that the CLI obeys over it count, too. If a folder that
    was never trusted has such files, and the CLI obeys none of them headless, the turn runs headless.
    """
    access = access or resolved.settings.access or "read"
    planted = _planted_findings(context, resolved)
    if planted:
        return FolderStanding(
            refusal=f"{planted[0].name}, and the root lies where agents may write",
            hint="to write it yourself: beam agent set",
        )
    adapter = registry.adapter(resolved.settings.adapter)
    faces = possible_faces(adapter, via, access)
    stands = _standing_on(context, resolved, access, faces)
    if stands.refusal is None or len({adapter.card.obeys.get(face, ()) for face in faces}) == 1:
        return stands
    headless = _standing_on(context, resolved, access, faces[:1])
    if headless.refusal is not None or headless.trusted:
        return stands
    return structs.replace(headless, no_protocol=f"over its protocol it is not trusted here: {stands.refusal}")


def _standing_on(
    context: RootContext, resolved: ResolvedAgent, access: Access, faces: Collection[Face]
) -> FolderStanding:
    """Return the agent's standing for a turn that may run on each of these faces."""
    found, git = findings_for(context, resolved, access, faces)
    standing = ledger.standing_of(context.home.project, found, context.environ)
    if standing.trusted:
        return FolderStanding(trusted=True, by_variable=standing.by_variable)
    needed = [each for each in found if not each.ignored]
    if needed or (standing.once and standing.changes):
        return FolderStanding(refusal=_refusal_text(standing, needed), hint=_hint_text(context.home.project, standing))
    left_out = tuple(each.name for each in found if not each.quiet)
    env = git_config.override_variables(git.off, {**context.environ, **resolved.settings.env})
    return FolderStanding(left_out=left_out, env=env)


class FolderCheck(Struct, frozen=True, kw_only=True):
    """The result of a check of the folder for one message. `at` is the time of the check (monotonic seconds)."""

    message: Message
    context: RootContext
    resolved: ResolvedAgent
    standing: FolderStanding
    at: float


def check_for_message(context: RootContext, message: Message, *, before: FolderCheck | None = None) -> FolderCheck:
    """Check the folder now, and whether agents may write in the root, for the turn of this message.

    Return `before` instead if it is a check for the same message and configuration, made a moment ago: a message is
    checked before it is claimed, and its turn begins immediately afterwards. Raises BeamError.
    """
    now = time.monotonic()
    if (
        before is not None
        and now - before.at < _MOMENT_S
        and before.message == message
        and before.context.config is context.config
    ):
        return before
    context = context.recheck_exposure()
    resolved = context.config.resolve(message.to)
    found = check_folder(context, resolved, context.access_for(resolved, message), message.options.via)
    return FolderCheck(message=message, context=context, resolved=resolved, standing=found, at=now)


def check_trusted(
    context: RootContext, resolved: ResolvedAgent, access: Access | None = None, via: str | None = None
) -> FolderStanding:
    """Check the folder now. Raises UntrustedError if a person has to trust the folder before the agent may run."""
    found = check_folder(context, resolved, access, via)
    if found.refusal is not None:
        raise UntrustedError(found.refusal, found.hint, subject=str(context.home.project))
    return found


def _planted_findings(context: RootContext, resolved: ResolvedAgent) -> list[Finding]:
    """Return what an agent.json that beam did not write declares, if agents may write in the root; else an empty list.

    Trust in the folder does not cover that file.
    """
    if not context.exposed or AGENT_JSON in _vouched_files(resolved, context.environ):
        return []
    return findings_of_agent(context.config, resolved, _facts_about(resolved), vouched=(BEAM_YAML,))


def _vouched_files(resolved: ResolvedAgent, environ: Mapping[str, str]) -> tuple[str, ...]:
    own = resolved.agent_files
    return (AGENT_JSON,) if own and all(ledger.is_remembered(each.path, each.digest, environ) for each in own) else ()


def why_waits_for_trust(context: RootContext, queue: Queue, entry: Entry) -> str | None:
    """Return why this message waits until a person trusts the folder, or enables the agent's adapter. Return None if
    the message does not wait for that, or if this is unknown."""
    return check_before_claim(context, queue, entry)[0]


def check_before_claim(context: RootContext, queue: Queue, entry: Entry) -> tuple[str | None, FolderCheck | None]:
    """Return the result of `why_waits_for_trust`, and the check of the folder; None in place of the check if there was
    none."""
    try:
        message = queue.read(entry)
        context.config.resolve(message.to)
    except (BeamError, FileNotFoundError) as error:
        is_off = isinstance(error, BeamError) and error.kind == "switched_off"
        return (str(error) if is_off else None), None  # any other error is reported when the message is claimed
    try:
        found = check_for_message(context, message)
    except BeamError as error:
        return error.message, None
    return found.standing.refusal, found


def waiting_reason(context: RootContext, paths: AgentPaths) -> str | None:
    """Return why the agent's next message waits until a person does something; None if it does not."""
    queue = Queue(paths.queue, paths.put_lock)
    head = queue.first("new")
    if head is None or context.is_mailbox(paths.agent):
        return None
    return why_waits_for_trust(context, queue, head)


def all_findings(context: RootContext) -> list[Finding]:
    """Return all findings (files and declarations that need trust) that any agent, declared or not, would obey in the
    folder with any access level, in any mode."""
    found: dict[str, Finding] = {}
    for name in dict.fromkeys([*context.config.names(), *registry.NAMES]):
        try:
            resolved = context.config.resolve(name)
            faces = registry.adapter(resolved.settings.adapter).card.faces
        except BeamError:
            continue  # an agent that can't run needs no trust
        for access in EVERY_ACCESS:
            for each in findings_for(context, resolved, access, faces)[0]:
                before = found.get(each.name)
                by = dict.fromkeys((*(before.by if before is not None else ()), *each.by))
                found[each.name] = structs.replace(each, by=tuple(by))
    return sorted(found.values(), key=lambda each: (not each.says, each.name))


def findings_for(
    context: RootContext, resolved: ResolvedAgent, access: Access, faces: Collection[Face]
) -> tuple[list[Finding], git_config.GitFindings]:
    """Return the findings that this agent would obey in the folder with this access level, on one of these faces. The
    second value has the findings in git's configuration, and the settings that make git ignore them."""
    card = registry.adapter(resolved.settings.adapter).card
    vouched = _vouched_files(resolved, context.environ)
    found = findings_of_agent(context.config, resolved, _facts_about(resolved), vouched=vouched)
    if card.runs_code or not card.executable:
        return found, git_config.GitFindings()
    base, home = _real_path(context.home.project), _real_path(user_home(context.environ))
    cwd = _real_path(base / (resolved.settings.cwd or ""))
    ignoring = not _is_occupied(card, context.environ)
    obeyed = dict.fromkeys(one for face in faces for one in card.obeys.get(face, ()))
    found += scan.find_obeyed(base, cwd, obeyed, access=access, by=card.name, home=home, ignoring=ignoring)
    git = git_config.findings_of_git(base, cwd, access=access, home=home)
    return [*found, *git.found], git


def _facts_about(resolved: ResolvedAgent) -> AdapterFacts:
    card = registry.adapter(resolved.settings.adapter).card
    return AdapterFacts(adapters=tuple(registry.ADAPTERS), runs_text=card.runs_text, is_program=card.is_program)


def _is_occupied(card: Card, environ: Mapping[str, str]) -> bool:
    """Return whether files or variables of the machine's owner exist that beam would have to replace to make the CLI
    ignore the folder's files."""
    return any(environ.get(name[1:]) if name.startswith("$") else os.path.lexists(name) for name in card.occupied)


def _real_path(path: Path) -> Path:
    return Path(os.path.realpath(path))


# -- words -------------------------------------------------------------------------------------------------------------


def _refusal_text(standing: Standing, needed: Sequence[Finding]) -> str:
    for each in (*needed, *(change.found for change in standing.changes)):
        if not each.digest:
            return f"{each.name}, which {_names_text(each.by)} obeys, is {_TOO_MUCH}"
    if standing.once:
        return f"this folder is not as you trusted it: {_changes_text(standing.changes)}"
    another = "another folder is where the one that you trusted was: " if standing.another else ""
    return another + _findings_text(needed)


def _hint_text(base: Path, standing: Standing) -> str:
    shows = "beam trust --diff shows it" if standing.once else "look at it"
    return f"{shows}, then: beam trust {base}"


def _findings_text(found: Iterable[Finding]) -> str:
    """Return the findings as text: first what the declarations ask for, then the files and who obeys them."""
    everything = list(found)
    sentences = [each.name for each in everything if each.says]
    by: dict[tuple[str, ...], list[str]] = {}
    for each in everything:
        if not each.says and not (each.runs and sentences):
            by.setdefault(each.by, []).append(each.name)
    sentences += [f"{_names_text(who)} obeys {_names_text(names)} of this folder" for who, names in by.items()]
    return "; ".join(sentences[:_MAX_NAMED]) + (
        f"; and {len(sentences) - _MAX_NAMED} more" if len(sentences) > _MAX_NAMED else ""
    )


def _changes_text(changes: Sequence[Change]) -> str:
    words = [describe_change(change) for change in changes[:_MAX_NAMED]]
    return "; ".join(words) + (f"; and {len(changes) - _MAX_NAMED} more" if len(changes) > _MAX_NAMED else "")


def describe_change(change: Change) -> str:
    """Return a line that says what is new or changed in one finding."""
    found = change.found
    who = f" (obeyed by {_names_text(found.by)})" if found.by and not found.says and not found.runs else ""
    if change.before is None:
        return f"new: {found.name}{who}"
    lines, gone = ledger.new_lines(change)
    more = [one for one in (_line_count_text(len(lines), "new"), _line_count_text(gone, "gone")) if one]
    return f"changed: {found.name}{who}" + (f": {', '.join(more)}" if more else "")


def _line_count_text(number: int, what: str) -> str:
    return f"{number} line{'s are' if number != 1 else ' is'} {what}" if number else ""


def _names_text(names: Sequence[str]) -> str:
    first = list(names[:_MAX_NAMED])
    more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
    *before, last = first + more
    return f"{', '.join(before)} and {last}" if before else last
