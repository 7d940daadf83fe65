"""The parts of a scenario that take effect only after a person trusts the file: commands, programs, rights, files from
elsewhere.

A person who clones a folder did not write its scenarios. Trust covers the content of the file, and the programs that it
names.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from beam.agents import registry
from beam.base.digest import sha256
from beam.base.errors import BeamError, UntrustedError
from beam.broker.inbox.context import RootContext
from beam.config.resolve import SCENARIO
from beam.conversations.machine import with_scenario
from beam.conversations.scenario import (
    Chat,
    Command,
    Judge,
    Judging,
    Run,
    Scenario,
    Send,
    Step,
    TurnOptions,
    checks_of,
)
from beam.model.autoloaded import Finding
from beam.trust import ledger, scan
from beam.trust.declarations import (
    AdapterFacts,
    findings_of_code_files,
    findings_of_scenario_agent,
    own_bound,
    shown_value,
)
from beam.trust.effects import SETTINGS, Effect, harmless, needs_trust

_MAX_NAMED = 3

_WORDS = harmless("it is text for a model, and what that does its access bounds")
_NAMES = harmless("it is a name in the file")
_VERDICT = harmless("it decides what the file's own verdict is: a stranger's scenario proves what the stranger says")
_BOUND = harmless("nothing is bound without it, and --budget and --max-tokens of yours count in its place")
_PROGRAM = needs_trust("it is a program")

# What a key of a scenario that nobody trusted may do, wherever in the file it stands.
KEYS: dict[str, Effect] = {
    **dict.fromkeys(("beam", "name", "description", "id", "of"), _NAMES),
    "variables": harmless("where they are filled in needs trust, if anything does"),
    "agents": needs_trust("each setting in it has a row of its own"),
    "defaults": needs_trust("each option in it has a row of its own"),
    "model": SETTINGS["model"],
    "access": needs_trust("it is what the agent may do", "above `read`"),
    "via": harmless("each mode is held to the same access, and refused where the folder's files would act in it"),
    "timeout": SETTINGS["timeout"],
    "max_turns": SETTINGS["max_turns"],
    "budget_usd": SETTINGS["budget_usd"],
    **dict.fromkeys(("worktree", "keep", "from"), harmless("the run gets a copy of what is committed")),
    "branch": harmless("it is a new branch: one that exists is refused"),
    **dict.fromkeys(("limits", "until", "turns", "cost_usd", "tokens", "time"), _BOUND),
    **dict.fromkeys(("allow", "repeat", "times", "pass_rate", "expect", "check", "score"), _VERDICT),
    **dict.fromkeys(
        (
            *("contains", "not_contains", "equals", "regex", "not_regex", "status", "exit_code", "file_exists"),
            *("file_absent", "file_contains", "files_changed", "least", "most", "only", "never", "diff", "files"),
            *("lines", "added", "removed", "tool_used", "tool_sequence", "tool_args", "tool", "args", "no_tool"),
            "max_steps",
        ),
        _VERDICT,
    ),
    "command": _PROGRAM,
    "run": _PROGRAM,
    **dict.fromkeys(("steps", "parallel"), needs_trust("each step in it has a row of its own")),
    **dict.fromkeys(
        ("send", "chat", "judge", "moderator", "agent"),
        needs_trust(
            "the prompt is the stranger's",
            "an agent that may do more than read, or runs what it is sent, by your settings",
        ),
    ),
    **dict.fromkeys(("prompt", "text", "template", "reply", "rubric", "phrase", "order"), _WORDS),
    "file": needs_trust("the agent, and its vendor, would get it", "outside of the folder"),
    "schema": needs_trust("the agent, and its vendor, would get it", "a file outside of the folder"),
    **dict.fromkeys(("context_from", "context"), harmless("it is what agents did in this run")),
}


def findings_of_scenario(scenario: Scenario, context: RootContext) -> list[Finding]:
    """Return everything in the scenario that needs trust; an empty list if nothing does."""
    found = [
        *_agent_findings(scenario, context),
        *_step_findings(scenario, context),
        *_schema_findings(scenario, context),
    ]
    return list({each.name: each for each in found}.values())


def check_trusted(scenario: Scenario, context: RootContext) -> None:
    """Raise UntrustedError if the scenario needs trust and nobody trusts the file as it is."""
    found = findings_of_scenario(scenario, context)
    if not found or context.environ.get(ledger.TRUST_VARIABLE) == "1":
        return
    if ledger.is_remembered(_real_path(scenario), digest_of(scenario, found), context.environ):
        return
    said = [each.name if each.says else f"it runs {each.name}" for each in found]
    more = f"; and {len(said) - _MAX_NAMED} more" if len(said) > _MAX_NAMED else ""
    raise UntrustedError(
        f"nobody trusts {scenario.source.name} as it is: {'; '.join(said[:_MAX_NAMED])}{more}",
        f"look at it, then: beam trust {shlex.quote(scenario.source.name)}",
        subject=scenario.source.name,
    )


def trust(scenario: Scenario, context: RootContext) -> None:
    """Trust the file, and the programs that it names, as they are now."""
    found = findings_of_scenario(scenario, context)
    ledger.remember_file(_real_path(scenario), digest_of(scenario, found), context.environ)


def digest_of(scenario: Scenario, found: list[Finding]) -> str:
    """Return the digest of what is trusted: the bytes of the file, and of the programs that it names."""
    parts = [scenario.digest, *(f"{each.name}={each.digest}" for each in found if each.runs)]
    return sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _real_path(scenario: Scenario) -> Path:
    return Path(os.path.realpath(scenario.path))


def _agent_findings(scenario: Scenario, context: RootContext) -> Iterator[Finding]:
    context = with_scenario(context, scenario)
    for name in scenario.agents:
        try:
            resolved = context.config.resolve(name)
            card = registry.adapter(resolved.settings.adapter).card
        except BeamError:
            continue  # an agent that can't run needs no trust
        yield from findings_of_scenario_agent(
            context.config,
            resolved,
            AdapterFacts(adapters=tuple(registry.ADAPTERS), runs_text=card.runs_text, is_program=card.is_program),
        )


def _step_findings(scenario: Scenario, context: RootContext) -> Iterator[Finding]:
    with_agents = with_scenario(context, scenario)
    for step in scenario.all_steps():
        if isinstance(step, Run):
            yield from _command_findings(step.command, context)
        for each in checks_of(step):
            if each.kind == "command" and isinstance(each.value, (str, tuple)):
                yield from _command_findings(each.value, context)
        for options in _options_of(step):
            if options.access not in (None, "read"):
                yield _finding(f"it gives {_agents_text(step)} {options.access} access")
        yield from _option_findings(step, with_agents)
        yield from _prompt_findings(step, scenario, with_agents)
        for part in getattr(step, "prompt", ()):
            if part.kind == "file" and not _is_inside(Path(part.value), context.home.project):
                yield _finding(f"it puts {scan.shorten(part.value)}, which is outside of this folder, into a prompt")


def _option_findings(step: Step, context: RootContext) -> Iterator[Finding]:
    """Yield a finding for each option of a turn that takes effect only with trust, unless the agent has it without the
    scenario."""
    for name, options in _prompted(step):
        try:
            own = context.config.resolve(name).without({SCENARIO})
        except BeamError:
            continue  # an agent that can't run needs no trust
        for option in ("model", "timeout", "max_turns", "budget_usd"):
            value, before = getattr(options, option), own.get(option)
            if value is None or value == before:
                continue
            if KEYS[option].kind == "needs trust":
                yield _finding(f"it sets the {option} of {name}: {shown_value(option, value)}")
            elif value > (bound := own_bound(option, before)):
                values = f"from {shown_value(option, bound)} to {shown_value(option, value)}"
                yield _finding(f"it raises the {option} of {name} {values}")


def _prompt_findings(step: Step, scenario: Scenario, context: RootContext) -> Iterator[Finding]:
    """Yield a finding for each agent that runs its prompt as code, and for each one that gets a prompt of the step with
    more than `read` access or an allow rule by its own settings: what it does with that is what the prompt says."""
    for name, options in _prompted(step):
        try:
            resolved = context.config.resolve(name)
            card = registry.adapter(resolved.settings.adapter).card
        except BeamError:
            continue  # an agent that can't run needs no trust
        settings = resolved.settings
        if card.runs_text:  # whoever declared it; beam has such agents of its own
            who = name if name == settings.adapter else f"{name} ({settings.adapter})"
            yield _finding(f"it has {who} run its prompts as code")
        for rule in (rule for each in resolved.rules if each.whose != SCENARIO for rule in each.lists.allow):
            yield _finding(f"it prompts {name}, which is allowed {scan.shorten(rule)}")
        if options.access is not None or "access" in scenario.agents.get(name, {}):
            continue  # the scenario itself says the access, which is another finding
        if settings.access not in (None, "read"):
            yield _finding(f"it prompts {name}, which has {settings.access} access")


def _schema_findings(scenario: Scenario, context: RootContext) -> Iterator[Finding]:
    for path in scenario.schemas:
        if not _is_inside(Path(path), context.home.project):
            yield _finding(f"it shows an agent {scan.shorten(path)}, which is outside of this folder, as a schema")


def _command_findings(command: Command, context: RootContext) -> Iterator[Finding]:
    words = ("sh", "-c", command) if isinstance(command, str) else command
    text = command if isinstance(command, str) else " ".join(command)
    yield _finding(f"it runs {scan.shorten(repr(text.strip()))}")
    yield from findings_of_code_files(words, context.home.project, "the scenario")


def _options_of(step: Step) -> Iterator[TurnOptions]:
    if isinstance(step, (Send, Chat)):
        yield step.options
    if isinstance(step, Judge):
        yield step.judging.options
    for each in checks_of(step):
        if isinstance(each.value, Judging):
            yield each.value.options


def _prompted(step: Step) -> Iterator[tuple[str, TurnOptions]]:
    """Yield each agent that gets a prompt of the step, with the options of its turn."""
    if isinstance(step, (Send, Chat)):
        yield from ((name, step.options) for name in step.agents)
    if isinstance(step, Chat) and step.moderator is not None:
        yield step.moderator, step.options
    judgings = [step.judging] if isinstance(step, Judge) else []
    for judging in (*judgings, *(each.value for each in checks_of(step) if isinstance(each.value, Judging))):
        yield judging.agent, judging.options


def _agents_text(step: Step) -> str:
    if isinstance(step, (Send, Chat)):
        return ", ".join(step.agents)
    return step.judging.agent if isinstance(step, Judge) else "its judge"


def _is_inside(path: Path, base: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(base))


def _finding(text: str) -> Finding:
    return Finding(name=text, digest=scan.digest_of(text), says=True)
