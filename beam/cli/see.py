"""`beam watch` and `beam status`: what agents do, and the state of each agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from beam import UsageError, events
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.text import write_json, write_json_lines
from beam.cli.streams import is_terminal

if TYPE_CHECKING:
    from beam import AnyEvent, Beam, ForeignSessions, Teams, Wanted
    from beam.cli.render.stream import EventLine, Stream

app = App()

_STUCK_S = 60.0  # when `watch` begins, it lists team members that have waited for longer
_MAX_TEAMS = 10  # `watch` lists the waiting members of at most this many teams, the newest ones
_BEGINNING = "1970-01-01T00:00:00Z"


@app.verb()
def watch(
    call: Context,
    agent: list[str] | None = argument(None, metavar="[AGENT]...", help="Limit the output to these agents."),
    now: bool = option(False, "--now", help="Print what has happened so far, and exit."),
    since: str | None = option(None, "--since", metavar="D", help="Start with the events of the last D."),
    team: list[str] | None = option(None, "--team", metavar="T", help="Only teams whose name contains T."),
    member: list[str] | None = option(None, "--agent", metavar="A", help="Only this agent or team member."),
    types: list[str] | None = option(
        None, "--type", metavar="P", help="Only events whose type matches, like 'task.*'."
    ),
    stuck: str | None = option(None, "--stuck", metavar="D", help="Print who has waited longer than D, and exit."),
    claude_home: list[str] | None = option(None, "--claude-home", metavar="DIR", help="Claude Code's directory."),
    every: bool = option(False, "--all", help="All agents of all your folders, and sessions that beam did not start."),
    until_idle: bool = option(False, "--until-idle", help="Exit once no turn runs and nothing waits."),
    event: str | None = option(None, "--event", metavar="ID", help="Print this event in full, and exit."),
    after: str | None = option(None, "--after", metavar="CURSOR", help="Continue where this cursor stopped."),
    plain: bool = option(False, "--plain", help="No colour, ASCII only."),
    as_json: bool = option(False, "--json", help="Print events as JSON Lines."),
    follow: bool = option(False, "-f", "--follow", help="Go on until ^C, as without it."),
) -> int:
    """Print what all agents of this folder and your Claude teams do, as it happens.

    A line that was cut ends with its event's id: `beam watch --event ID` prints it in full. --after names a cursor,
    which beam stores: started again with the same cursor, watch continues without gaps or repeats. With --until-idle
    the exit code is that of the first message that ended without success among the events printed, else 0.
    """
    from beam import ForeignSessions, Wanted, durations, open_cursor, team_views
    from beam import since as since_time
    from beam.cli.render.stream import Stream

    for problem in _unmatched_patterns(types or ()):
        call.note(problem)
    if stuck is not None:
        _check_stuck_options(
            {"names of agents": agent, "--agent": member, "--type": types, "--since": since, "--all": every,
             "--until-idle": until_idle, "--event": event, "--after": after}
        )  # fmt: skip
        if not _print_waits(call, durations.parse(stuck), team or (), claude_home or (), as_json=as_json):
            call.note(f"no member of your teams has waited for longer than {stuck}")
        return 0
    if every and agent:
        raise UsageError("--all and names of agents don't go together", "--agent NAME picks one of all")
    if follow and (now or event is not None or stuck is not None):
        other = "--now" if now else "--event" if event is not None else "--stuck"
        raise UsageError(f"--follow and {other} don't go together", "leave one out")
    if until_idle and (every or now or event is not None):
        other = "--all" if every else "--now" if now else "--event"
        raise UsageError(f"--until-idle and {other} don't go together", "leave one out")
    stream = Stream(sys.stdout, as_json=as_json, plain=plain, verbose=call.verbose)
    codes, was_idle = ExitCodes(), False
    cursor = open_cursor(after, call.environ) if after is not None else None
    seconds = durations.parse(since) if since is not None else None
    begin = since_time(seconds) if seconds is not None else cursor.since if cursor is not None else ""
    now = now or event is not None
    history = now or begin != ""
    names = [line.agent for line in call.beam.status(agent)] if agent else []
    wanted = Wanted(agents=tuple(member or ()), teams=tuple(team or ()), types=tuple(types or ()))
    live, foreign = None, None
    if not names:
        journals = call.beam.home.root / "agents"
        from_when = begin if begin or not now else _BEGINNING
        gone = event is not None or begin != ""
        live = team_views.teams(
            call.environ, claude_homes=claude_home or (), since=from_when, with_gone=gone, also=[journals]
        )
    if every and live is not None:
        foreign = ForeignSessions(call.environ, live, since=from_when)
    if not now and not as_json:
        folders = "all folders" if every else call.beam.home.project
        call.note(f"watching the agents of {folders} and your Claude teams; ^C ends it")
    if not (every or names or member or team or as_json or until_idle or event is not None):
        _note_other_folders(call)
    if live is not None and not now and not as_json and not begin and not types:
        _print_stuck_teams(stream, live, wanted)
    if not now and not as_json and not begin and not types and not every:
        _print_running_turns(call.beam, stream, names, wanted)
    try:
        for batch in _batches(call.beam, names, live, foreign, follow=not now, history=history, every=every):
            fitting = [one for one in batch if wanted.fits(one.event) and not (one.event.seq and one.event.ts < begin)]
            if event is not None:
                return stream.print_event_in_full(fitting, event)
            if cursor is not None:
                fitting = [one for one in fitting if cursor.passes(one.qualified_event)]
            if cursor is not None:
                cursor.record_before_print([one.qualified_event for one in fitting], sys.stdout, lines=as_json)
            stream.batch(fitting)
            if not now:
                stream.tick(since_time(0))
            stream.flush()
            if cursor is not None:
                cursor.record_after_print()
            if until_idle:
                codes.record_outcomes(one.event for one in batch)
                is_idle = call.beam.are_idle(names)
                if is_idle and was_idle:  # everything that happened before the first check is printed by now
                    break
                was_idle = is_idle
        stream.end()
    finally:
        if foreign is not None:
            foreign.close()
        if live is not None:
            live.close()
    return codes.first


def _check_stuck_options(others: Mapping[str, object]) -> None:
    """Raise UsageError for an option that would have no effect beside --stuck."""
    given = next((name for name, value in others.items() if value not in (None, False, [])), None)
    if given is not None:
        raise UsageError(f"--stuck and {given} don't go together", "--team picks the teams that --stuck looks at")


class ExitCodes:
    """Collects the exit codes of messages from the outcomes in a stream of events. If a message is retried, its last
    exit code counts."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def record_outcomes(self, batch: Iterable[AnyEvent]) -> None:
        """Record the outcomes among these events."""
        for event in batch:
            if isinstance(event, events.TurnFinished | events.MessageDead) and event.message_id is not None:
                self._codes[event.message_id] = events.outcome_of(event).exit_code

    @property
    def first(self) -> int:
        """Return the first exit code that is not 0; 0 if there is none."""
        return next((code for code in self._codes.values() if code), 0)


def _print_stuck_teams(stream: Stream, live: Teams, wanted: Wanted) -> None:
    """Print the state of the teams in which a member is stuck, which means that it has waited for more than a
    minute."""
    import time

    from beam import clock, team_views

    now_ns = time.time_ns()
    for shown in team_views.standing(live, now_ns=now_ns, longer_than_s=_STUCK_S)[:_MAX_TEAMS]:
        if not wanted.agents and (not wanted.teams or any(part in shown.team.team for part in wanted.teams)):
            stream.print_team_state(shown, clock.rfc3339(now_ns))
    stream.flush()


def _print_running_turns(beam: Beam, stream: Stream, names: Sequence[str], wanted: Wanted) -> None:
    """Print the turns that were running when `watch` began, and their progress."""
    from beam import begun
    from beam import since as since_time
    from beam.cli.render.stream import EventLine

    if wanted.teams:
        return
    for name in names or beam.home.agents():
        place = beam.home.agent(name)
        for each in (place, *place.lanes()):
            lines = [EventLine(event, lane=each.lane) for event in begun(each)]
            if lines and wanted.fits(lines[0].event):
                stream.print_running_turn(lines, since_time(0))
    stream.flush()


def _batches(
    beam: Beam,
    names: list[str],
    teams: Teams | None,
    foreign: ForeignSessions | None,
    *,
    follow: bool,
    history: bool,
    every: bool,
) -> Iterator[list[EventLine]]:
    from beam import watch_root
    from beam.cli.render.stream import EventLine

    if every and teams is not None:
        for placed in beam.stream_all(teams, follow=follow, history=history, foreign=foreign):
            yield [
                EventLine(one.event, one.home.root, one.home.project, one.lane, agent_dir=one.agent_dir)
                if one.home is not None
                else EventLine(one.event, session=one.session)
                for one in placed
            ]
        return
    for placed in watch_root(beam.context, agents=names, follow=follow, history=history, teams=teams):
        yield [EventLine(one.event, lane=one.lane, agent_dir=one.agent_dir) for one in placed]


def _unmatched_patterns(patterns: Sequence[str]) -> Iterator[str]:
    """Yield a message for each pattern that matches no event type."""
    from fnmatch import fnmatchcase

    for pattern in patterns:
        if not any(fnmatchcase(tag, pattern) for tag in events.types()):
            groups = ", ".join(sorted({f"{tag.partition('.')[0]}.*" if "." in tag else tag for tag in events.types()}))
            yield f"no event type matches {pattern!r}; there are {groups} (docs/events.md)"


def _print_waits(
    call: Context, seconds: float, names: Sequence[str], claude_homes: Sequence[str], *, as_json: bool
) -> int:
    """Print the team members that have waited for longer than `seconds`, and return their number."""
    from beam import TeamsHere
    from beam.cli.render import team as render

    waits = TeamsHere(call.environ, claude_homes=claude_homes).stuck(seconds, names=names)
    if as_json:
        write_json_lines(waits)
    elif waits:
        render.print_waits(waits)
    return len(waits)


@app.verb()
def status(
    call: Context,
    agent: list[str] | None = argument(None, metavar="[AGENT]...", help="Limit the output to these agents."),
    usage: bool = option(
        False, "--usage", help="Print turns, tokens and cost by agent and model, with a total; ~ is an estimate."
    ),
    by: str | None = option(
        None, "--by", metavar="WORD", help="With --usage: `tool` prints the calls of each tool instead."
    ),
    metrics: bool = option(False, "--metrics", help="Print all figures in Prometheus' text format."),
    every: bool = option(
        False, "--all", help="Show the agents of all folders and of scenarios, and sessions that beam did not start."
    ),
    as_json: bool = option(False, "--json", help="Print JSON Lines, one object per line."),
) -> None:
    """Show the current state of each agent."""
    from beam.cli.render import status as render

    if every and (metrics or usage or agent):
        raise UsageError("--all goes with no agents, --metrics or --usage", "beam status --all")
    if metrics and (as_json or usage):
        raise UsageError("--metrics goes with neither --json nor --usage", "use it alone: it has all figures")
    if by is not None and (not usage or by != "tool"):
        raise UsageError("--by is for --usage, and there is `tool`", "beam status --usage --by tool")
    if metrics:
        import time

        found, used = call.beam.status(agent or [], all=True), call.beam.usage(agent or [])
        render.print_metrics(found, used, broker=call.beam.broker() is not None, now=time.time())
        return
    if usage and by is not None:
        found = call.beam.status(agent or [], all=True)
        if as_json:
            for line in found:
                for name, tool in line.totals.by_tool.items():
                    write_json({"agent": line.agent, "tool": name, "calls": tool.calls, "failed": tool.failed})
        else:
            render.print_tools(found)
        return
    if usage:
        used = call.beam.usage(agent or [])
        if as_json:
            write_json_lines(used)
        else:
            is_shown = is_terminal(sys.stdout)
            render.print_usage(used, activity=call.beam.activity(agent or []) if is_shown else {})
        if not as_json and used[-1].estimated_usd is not None:
            call.note(f"~ is estimated from list prices of {used[-1].prices_as_of}; that agent's CLI reports no cost")
        return
    if every:
        _print_everything(call, as_json=as_json)
        return
    found = call.beam.status(agent or [])
    if as_json:
        write_json_lines(found)
    elif found:
        render.print_table(found, call.beam.home.project)
        sys.stdout.flush()
        is_elsewhere = os.path.realpath(call.cwd) != os.path.realpath(call.beam.home.project)
        write_note = call.note if is_elsewhere or any(line.git is not None for line in found) else call.detail
        write_note(f"the agents of {render.project_line(call.beam.home.project, found)}")
    elif call.beam.status(all=True):
        call.note(f"only scenarios used agents in {call.beam.home.project}; beam status --all shows them")
    else:
        call.note(f'no agent was used in {call.beam.home.project} yet; beam send claude "hello"')
    if not as_json and not agent:
        _note_other_folders(call)


def _note_other_folders(call: Context) -> None:
    """Say how many agents other folders have, if there are any."""
    count = call.beam.agents_elsewhere()
    if count:
        call.note(f"{count} more in other folders: --all")


def _print_everything(call: Context, *, as_json: bool) -> None:
    """Print the agents of all folders that have agents, then the running sessions that beam did not start."""
    from beam.cli.render import foreign as render_foreign
    from beam.cli.render import status as render

    roots = call.beam.status_all()
    foreign = call.beam.foreign([line for _, lines in roots for line in lines])
    if as_json:
        write_json_lines(line for _, lines in roots for line in lines)
        write_json_lines(foreign)
        return
    for project, lines in roots:
        render.print_table(lines, project)
        sys.stdout.flush()
        call.note(f"the agents of {render.project_line(project, lines)}")
    if foreign:
        render_foreign.print_table(foreign)
    elif not roots:
        call.note("no agent was used yet, and no session of an agent's CLI runs")
