"""Methods to declare, change, rename, archive and remove the agents of a root, to choose their sessions, and for their
rules and the targets of notifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from beam.agents import registry
from beam.api.methods import check_is_settings, waiting_verb
from beam.api.verbs.opened import OpenedRoot
from beam.base.clock import Steps
from beam.model.message import Access, RuleLists

if TYPE_CHECKING:
    from beam.api.agents import AgentLine, AgentShown
    from beam.api.notify import TargetLine, TargetTried
    from beam.api.rewind import RewindResult
    from beam.api.rules import RuleLine, RuleTried
    from beam.api.sessions import SessionLine
    from beam.model.settings import AgentSettings
    from beam.rules.rule import Behavior


class AgentVerbs(OpenedRoot):
    """Declare agents, change them, and choose their sessions."""

    def agents(self, *, all: bool = False) -> list[AgentLine]:
        """Return the agents that are declared or were used here. With `all`, also return those of scenarios, and then
        the other adapters: first the usable ones, then those whose CLI is missing, then those that beam was never
        tested with."""
        from beam.api import agents, find

        declared = find.agent_names(self.context, of_runs=all)
        lines = [agents.agent_line(self.context, name) for name in declared]
        others = (
            [agents.agent_line(self.context, name) for name in registry.NAMES if name not in declared] if all else []
        )
        return lines + sorted(others, key=lambda line: (line.face == "unverified", line.installed is None))

    def agent(self, name: str) -> AgentShown:
        """Return everything about one agent: its settings and their sources, its capabilities, and its state."""
        from beam.api import agents

        return agents.agent_details(self.context, name)

    def models(self) -> list[str]:
        """Return the models that agents here are configured with or have used, sorted."""
        from beam.api import find
        from beam.store.segment import read_state

        set_to = {line.model for line in self.agents() if line.model}
        used = {model for paths in find.all_paths(self.context) for model in read_state(paths.journal).totals.by_model}
        return sorted(set_to | used)

    def add_agent(self, name: str, settings: AgentSettings) -> Path:
        """Declare an agent and return the path of its agent.json. Raises UsageError if it is declared already."""
        self.check_person("declares agents")
        check_is_settings(settings)
        from beam.api import manage

        return manage.add_agent(self.context, name, settings, by=self.me)

    def set_agent(self, name: str, changes: Mapping[str, str | None]) -> Path:
        """Change settings of an agent and return the path of its agent.json. `changes` has the new values by key; None
        resets a setting."""
        self.check_person("changes agents")
        from beam.api import manage

        return manage.change_agent(self.context, name, changes, by=self.me)

    @waiting_verb
    def set_live(self, agent: str, name: str, value: str, *, is_declared: bool = False) -> Steps[str]:
        """Change a setting of the agent's running or kept process; the agent's declaration stays unchanged.

        `is_declared`: the agent's settings have the same value, so its next turns can continue in this process. Return
        the process's answer. Raises NotFoundError if there is no process, UnsupportedError if the process can't change
        the setting.
        """
        self.check_person("changes agents")
        from beam.api import live

        paths = self._existing_paths(agent)
        return (yield from live.set_live(self.context, paths, name, value, by=self.me, is_declared=is_declared))

    @waiting_verb
    def ask_live(self, agent: str) -> Steps[dict[str, object]]:
        """Return information that the agent's process reports: account, models, modes, commands, MCP servers, use of
        its context.

        The result has only the parts that the process can report. Raises NotFoundError if no process is kept or runs a
        turn, UnsupportedError if the process reports nothing.
        """
        self.check_person("asks an agent's process")
        from beam.api import live

        return (yield from live.ask_all(self.context, self._existing_paths(agent), by=self.me))

    @waiting_verb
    def mcp_servers(self, agent: str) -> Steps[object]:
        """Return the MCP servers that the agent's process reports: a list with the name, status, tools and error of
        each.

        Raises NotFoundError if no process is kept or runs a turn, UnsupportedError if the process reports no MCP
        servers.
        """
        self.check_person("asks an agent's process")
        from beam.api import live

        return (yield from live.ask_question(self.context, self._existing_paths(agent), "mcp", by=self.me))

    @waiting_verb
    def act_live(self, agent: str, name: str, given: Mapping[str, object]) -> Steps[object]:
        """Have the agent's process carry out an action that is not a turn, such as `mcp.reconnect`; return the
        process's answer.

        Raises NotFoundError if no process is kept or runs a turn, UnsupportedError if the process can't carry out the
        action.
        """
        self.check_person("controls an agent's process")
        from beam.api import live

        return (yield from live.run_action(self.context, self._existing_paths(agent), name, given, by=self.me))

    def is_live(self, agent: str) -> bool:
        """Return whether a process of the agent is kept or runs a turn."""
        from beam.api import live
        from beam.store.journal import read_state

        return live.is_live(read_state(self._existing_paths(agent).journal))

    def fork_agent(self, name: str, new: str, *, at: str | None = None) -> str:
        """Declare the agent `new` with the settings of `name`. Its first turn continues in a copy of the session of
        `name`.

        `at`: the copy ends after that turn (its number) or message (its id). Return the session's id. Raises
        NotFoundError (no session yet), UnsupportedError, UntrustedError, UsageError.
        """
        self.check_person("makes agents")
        from beam.api import manage

        return manage.fork_agent(self.context, name, new, by=self.me, at=at)

    @waiting_verb
    def rewind_agent(
        self, agent: str, to: str | None = None, *, what: str = "conversation", dry_run: bool = False
    ) -> Steps[RewindResult]:
        """Take back the last turns of an agent's session. `what` is `conversation`, `files` (the changes of files in
        these turns) or `both`.

        `to` is the last turn that stays (its number, or its message's id); None: only the last turn is taken back. With
        `dry_run` nothing changes. Return what is taken back. Raises NotFoundError, UnsupportedError, UnfinishedError
        while a turn runs.
        """
        self.check_person("rewinds agents")
        from beam.api import rewind

        paths = self._existing_paths(agent)
        return (yield from rewind.rewind(self.context, paths, to, what, dry_run=dry_run, by=self.me))

    def remove_agent(self, name: str, *, purge: bool = False) -> str:
        """Remove an agent's agent.json; with `purge` also its queue and journal. Return what was done, as text."""
        self.check_person("removes agents")
        from beam.api import manage

        return manage.remove_agent(self.context, name, purge=purge, by=self.me)

    @waiting_verb
    def rename_agent(self, agent: str, new: str) -> Steps[str]:
        """Rename an agent, or a named session of an agent. Return what was done, as text."""
        self.check_person("renames agents")
        from beam.api import archive

        return (yield from archive.rename(self.context, agent, new, by=self.me))

    @waiting_verb
    def archive_agent(self, agent: str, *, restore: bool = False) -> Steps[str]:
        """Archive an agent, so that it takes no messages, or restore it. Return what was done, as text."""
        self.check_person("archives agents")
        from beam.api import archive

        act = archive.restore if restore else archive.archive
        return (yield from act(self.context, agent, by=self.me))

    def unblock(self, agent: str) -> str:
        """Record a person's statement that no process of the agent's last turn is left. This is needed if beam can't
        check that itself (for a process on another host or in a container). Return what was done, as text."""
        self.check_person("says that processes are gone")
        from beam.api import manage

        return manage.unblock_agent(self.context, self._existing_paths(agent).agent)

    def sessions(self, agents: Sequence[str] = ()) -> list[SessionLine]:
        """Return the sessions of these agents (default: of all agents) and of their named sessions: current, earlier
        and archived ones."""
        from beam.api import sessions

        return sessions.sessions(self.context, self._existing_names(agents))

    @waiting_verb
    def resume_session(self, agent: str, session_id: str) -> Steps[str]:
        """Make the agent's next turn continue in one of the agent's earlier sessions; return the session's whole id."""
        self.check_person("chooses an agent's session")
        from beam.api import sessions

        return (yield from sessions.resume(self.context, self._existing_paths(agent).agent, session_id, by=self.me))

    def adopt_session(self, name: str, session: str, settings: AgentSettings) -> str:
        """Declare an agent whose first turn continues an existing session of its CLI. `session` is like `claude:ID`.

        Return what was done, as text. If `name` is a named session, such as `claude@review`, it has the settings of its
        agent, `claude`.
        """
        self.check_person("adopts a session")
        check_is_settings(settings)
        from beam.api import manage

        return manage.adopt_session(self.context, name, session, settings, by=self.me)

    @waiting_verb
    def release_agent(self, agent: str) -> Steps[str]:
        """Close the process that is kept for the agent's next message, so that a person can use its session elsewhere.
        Return what was closed, as text, or that no process is kept.

        Raises UnfinishedError while a turn runs.
        """
        self.check_person("releases agents")
        from beam.broker.asking.requests import request
        from beam.broker.holder.control import NO_KEPT_PROCESS
        from beam.store.journal import read_state

        paths = self._existing_paths(agent)
        state = read_state(paths.journal)
        if state.kept is None and state.open_turn is None:
            return NO_KEPT_PROCESS.format(paths.agent)
        return (yield from request(self.context, paths, "close", by=self.me))

    @waiting_verb
    def reset(self, agent: str) -> Steps[str]:
        """Archive the agent's current session, so that its next turn starts a new one.

        Return the old session's id, or "no session".
        """
        self.check_person("puts a session aside")
        from beam.broker.asking.requests import request

        paths = self._existing_paths(agent)
        return (yield from request(self.context, paths, "reset", by=self.me))


class RuleVerbs(OpenedRoot):
    """List, try, add and remove the rules of agents."""

    def rules(self, agent: str) -> list[RuleLine]:
        """Return the agent's rules in their order of precedence, each with its author."""
        from beam.api import rules

        return rules.list_rules(self.context, agent)

    def try_rules(
        self,
        agent: str,
        call: str,
        *,
        access: Access | None = None,
        via: str | None = None,
        more: RuleLists | None = None,
    ) -> RuleTried:
        """Return which rule decides a call (`Bash(git push)`), who wrote it, and who enforces it.

        `more` are rules that a message would add. Raises UsageError for an invalid call.
        """
        from beam.api import rules

        return rules.try_rules(self.context, agent, call, access=access, via=via, more=more)

    def add_rule(self, agent: str, behavior: Behavior, rule: str) -> Path:
        """Add a rule to the agent's own settings, and return the path of its agent.json. Raises UsageError for an
        invalid rule."""
        self.check_person("changes rules")
        from beam.api import rules

        return rules.add(self.context, agent, behavior, rule, by=self.me)

    def remove_rule(self, agent: str, behavior: Behavior, rule: str) -> Path:
        """Remove a rule from the agent's own settings, and return the path of its agent.json. Raises NotFoundError if
        the rule is not in them."""
        self.check_person("changes rules")
        from beam.api import rules

        return rules.remove(self.context, agent, behavior, rule, by=self.me)


class NotifyVerbs(OpenedRoot):
    """List and try the targets of `notify:`."""

    def notify_targets(self) -> list[TargetLine]:
        """Return every target that is configured here, with the numbers of its waiting, delivered and given-up
        notifications."""
        from beam.api import notify

        return notify.list_targets(self.context)

    def test_notify(self) -> list[TargetTried]:
        """Send a test notification to every target, once each, and return the result for each target.

        Raises NotFoundError if there is no target, UsageError for an agent inside its turn.
        """
        self.check_person("tries notifications")
        from beam.api import notify

        return notify.try_targets(self.context, agent=self.me)
