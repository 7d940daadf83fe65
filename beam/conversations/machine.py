"""Checks before a run whether this machine can run the scenario (its agents, their CLIs and capabilities, git), and
makes the plan of the run."""

from __future__ import annotations

from msgspec import Struct

from beam.agents import registry
from beam.agents.model_route import router_of
from beam.agents.options import check_options
from beam.base.errors import BeamError, UnsupportedError, UsageError
from beam.broker.inbox.context import RootContext
from beam.config.fields import check_adapter
from beam.conversations.changes import FolderChanges
from beam.conversations.run_worktree import RunWorktrees
from beam.conversations.scenario import (
    At,
    Chat,
    CheckStep,
    Judge,
    Judging,
    Parallel,
    Run,
    Scenario,
    Send,
    Step,
    TurnOptions,
    agents_of,
    checks_of,
)
from beam.secrets.redact import redact_event
from beam.turns.choice import face_of
from beam.turns.request import find_executable


class PlanStep(Struct, frozen=True, kw_only=True):
    """A step as `beam run --dry-run` shows it. `agents` are the names of the agents, each with its adapter and mode.
    `does` says in words what the step does."""

    id: str
    kind: str
    line: int
    does: str
    agents: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    parallel_in: str | None = None


def with_place(scenario: Scenario, at: At, error: BeamError) -> BeamError:
    """Return the error with the place in the file before its message. The kind and the exit code of the error stay."""
    made = scenario.source.error(at, error.message, error.hint)
    return type(error)(
        made.message, made.hint or "beam agent list", subject=error.subject, kind=error.kind, exit_code=error.exit_code
    )


def with_scenario(context: RootContext, scenario: Scenario) -> RootContext:
    """Return the context with the settings that the scenario itself gives to agents."""
    from msgspec.structs import replace

    agents = {name: dict(fields) for name, fields in scenario.agents.items()}
    return replace(context, config=context.config.with_scenario(scenario.path, agents))


def check_machine(
    scenario: Scenario, context: RootContext, *, needs_agents: bool = True, needs_proxies: bool = False
) -> None:
    """Raise an error, with the place in the file, for the first thing on this machine that would keep a step from
    running.

    Without `needs_agents`, the turns are replayed, and the agents' CLIs need not be installed. With `needs_proxies`,
    each agent's model calls must go through a proxy.
    """
    context = with_scenario(context, scenario)
    for name, fields in scenario.agents.items():
        check_adapter(name, fields, ("agents", name), source=scenario.source, adapters=registry.NAMES)
    for step in scenario.all_steps():
        for name, at in agents_of(step):
            options, schema = _options_for(step, name)
            try:
                _check_agent(context, name, options, schema=schema, needs_agents=needs_agents)
                if needs_proxies:
                    _check_proxied(context, name)
            except BeamError as error:
                raise with_place(scenario, at, error) from error
            if context.exposed and options.access not in (None, "read"):
                hint = "keep the root elsewhere (no --root, or one outside), or leave `access` out"
                raise scenario.source.error((*step.at, "access"), "the root lies where agents may write", hint)
    _check_git(scenario, context)


def _options_for(step: Step, name: str) -> tuple[TurnOptions, bool]:
    match step:
        case Send() if name in step.agents:
            return step.options, step.schema is not None
        case Chat() if name in (*step.agents, step.moderator):
            return step.options, False
        case Judge() if name == step.judging.agent:
            return step.judging.options, False
    for each in checks_of(step):
        if isinstance(each.value, Judging) and each.value.agent == name:
            return each.value.options, False
    return TurnOptions(), False


def _check_agent(context: RootContext, name: str, options: TurnOptions, *, schema: bool, needs_agents: bool) -> None:
    resolved = context.config.resolve(name)
    adapter = registry.adapter(resolved.settings.adapter)
    if "mailbox" in adapter.card.faces:
        raise UsageError(f"{name} is a mailbox: nobody knows when it answers", "name an agent that runs", subject=name)
    if not needs_agents:
        return
    find_executable(adapter, resolved.settings, context.environ, context.home.project)
    can = adapter.card.faces[face_of(adapter, options.via)]
    asked = {
        "schema": schema,
        "max_turns": options.max_turns is not None,
        "budget": options.budget_usd is not None and router_of(resolved.settings.adapter) is None,
        "model": options.model is not None,
    }
    check_options(resolved.settings.adapter, can, [each for each, is_asked in asked.items() if is_asked])
    if can.access and options.access is not None and options.access not in can.access:
        raise UsageError(
            f"{name} can't enforce access {options.access}", f"it can: {', '.join(can.access)}", subject=name
        )


def _check_proxied(context: RootContext, name: str) -> None:
    adapter = context.config.resolve(name).settings.adapter
    if router_of(adapter) is None:
        raise UnsupportedError(
            f"beam can't lead the model calls of {name} ({adapter}) through a proxy of the turn",
            "leave out --depth model, or name an agent whose calls it can lead: docs/proxy.md",
            subject=name,
        )


def _check_git(scenario: Scenario, context: RootContext) -> None:
    if scenario.worktree is None:
        return
    place = (context.home.project, context.environ)
    try:
        is_in_repository = FolderChanges(*place, store=context.home.root).is_in_repository()
    except UsageError as error:
        raise scenario.source.error(("worktree",), error.message, error.hint) from error
    if not is_in_repository:
        raise scenario.source.error(
            ("worktree",),
            f"{context.home.project} is no git repository with a commit",
            "git init, then commit something",
        )
    worktrees = RunWorktrees(*place, store=context.home.root)
    if not worktrees.has_commit(scenario.worktree.start):
        start = scenario.worktree.start
        raise scenario.source.error(("worktree", "from"), f"there is no commit {start!r}", "git log shows them")
    if scenario.worktree.branch and worktrees.has_commit(f"refs/heads/{scenario.worktree.branch}"):
        branch = scenario.worktree.branch
        raise scenario.source.error(
            ("worktree", "branch"), f"there is a branch {branch} already", "give it another name"
        )


# -- the plan ----------------------------------------------------------------------------------------------------------


def plan(scenario: Scenario, context: RootContext) -> list[PlanStep]:
    """Return the steps that would be run, in the order of the file."""
    context = with_scenario(context, scenario)
    known: dict[str, str] = {}
    found = []
    for step in scenario.steps:
        found.append(_plan_step(scenario, step, context, known, None))
        if isinstance(step, Parallel):
            found += [_plan_step(scenario, each, context, known, step.id) for each in step.steps]
    return [redact_event(each)[0] for each in found]


def _plan_step(
    scenario: Scenario, step: Step, context: RootContext, known: dict[str, str], inside: str | None
) -> PlanStep:
    names = list(dict.fromkeys(name for name, _ in agents_of(step)))
    for name in names:
        if name not in known:
            known[name] = _agent_label(context, name)
    return PlanStep(
        id=step.id,
        kind="check" if isinstance(step, CheckStep) else type(step).__name__.lower(),
        line=scenario.source.lines.get(step.at, 1),
        does=_step_text(step),
        agents=tuple(known[name] for name in names),
        checks=tuple(each.kind for each in step.expect),
        parallel_in=inside,
    )


def _agent_label(context: RootContext, name: str) -> str:
    try:
        settings = context.config.resolve(name).settings
        face = face_of(registry.adapter(settings.adapter), None)
    except BeamError:
        return name
    model = f", {settings.model}" if settings.model else ""
    return f"{name} ({settings.adapter}, {face}{model})"


def _step_text(step: Step) -> str:
    match step:
        case Send():
            size = sum(len(part.value) for part in step.prompt if part.kind == "text")
            parts = [f"{size} characters"] if size else []
            parts += [f"{part.kind} {part.value}" for part in step.prompt if part.kind not in ("text", "diff")]
            parts += ["the diff" for part in step.prompt if part.kind == "diff"]
            if step.context_from is not None:
                parts.append(f"what {step.context_from} did ({step.context})")
            return f"sends {' and '.join(parts) or 'a prompt'}"
        case Chat():
            return f"talk {step.order.replace('_', ' ')}, at most {step.until.turns} turns"
        case Judge():
            return f"scores step {step.of}; {step.judging.score:g} of 10 passes"
        case Run():
            return step.command if isinstance(step.command, str) else " ".join(step.command)
        case CheckStep():
            return f"checks step {step.of}" if step.of else "checks the files"
        case Parallel():
            return f"runs {len(step.steps)} steps at the same time"
    return ""
