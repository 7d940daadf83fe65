"""Turns observations of teams (files, transcripts, hook calls, processes) into events.

Callers pass each value when they have read it. They skip a value that could not be read, and the last good value stays
valid. An event carries the time at which it happened, even if it was observed later. Does not depend on the disk or the
system clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import reduce

from beam.agents.claude import history
from beam.agents.fields import obj, string
from beam.model import events as all_events
from beam.model.events import Event
from beam.model.outcome import Usage
from beam.model.prices import Tokens, cost_usd
from beam.teams.event_factory import Deduplicator, EventFactory, KeyOwners
from beam.teams.mail import Letter, TeamMail
from beam.teams.members import Ask, Members
from beam.teams.model import LEAD, HookCall, Mail, Roster, Session, Task, digest, frame_of, when_ns
from beam.teams.records import Call, proof
from beam.teams.tasks import Tasks
from beam.teams.usage import Turns

CONFIG_GONE_NS = 2_000_000_000
STARTING_NS = 10_000_000_000
_NEAR_NS = 15_000_000_000
_CALLS = 5_000
_EARLY_MAILS = 100

Key = tuple[str, str]  # home, team


class Team:
    """The known state of one team.

    `session_id` is the id of the lead's current session; after a resume it differs from the id in the configuration.
    `lead_pid` is None unless a running process of the lead is known. `early_mail` holds messages that the lead sent,
    found in the transcripts of recipients that were not yet known as members.
    """

    def __init__(self, home: str, name: str, once: Deduplicator, mail_ids: KeyOwners) -> None:
        self.home = home
        self.name = name
        self.tell = EventFactory(name, home)
        self.post = TeamMail(self.tell, once, mail_ids)
        self.tasks = Tasks(self.tell, once)
        self.members = Members(self.tell, once)
        self.turns = Turns()
        self.roster: Roster | None = None
        self.session_id = ""
        self.lead_pid: int | None = None
        self.is_stale = False
        self.is_ended = False
        self.ended_ns = 0
        self.config_gone_ns = 0
        self.said_gone = False
        self.calls: dict[str, tuple[str, dict[str, object]]] = {}
        self.early_mail: deque[tuple[str, Mail, int]] = deque(maxlen=_EARLY_MAILS)

    def is_of(self, call: HookCall) -> bool:
        """Return whether the call may concern this team: the team has not ended, or ended after the call."""
        return not self.is_ended or call.at_ns <= self.ended_ns

    @property
    def is_live(self) -> bool:
        """Return whether the team has a configuration, has not ended, and its lead was not found dead."""
        return self.roster is not None and not self.is_stale and not self.is_ended


class Diff:
    """The state of all teams of some homes (configuration directories of Claude Code).

    Each method applies one observation and returns the events that it causes, in no particular order. Until `begin` is
    called, task changes from before `from_ns` cause no events.
    """

    def __init__(self, from_ns: int = 0) -> None:
        self.teams: dict[Key, Team] = {}
        self.sessions: dict[tuple[str, int], Session] = {}
        self._onces: dict[Key, Deduplicator] = {}
        self._mail_ids: dict[str, KeyOwners] = {}
        self._speakers: dict[tuple[str, str], tuple[str, str]] = {}
        self._calls_done = Deduplicator()
        self._began_ns = 0
        self._from_ns = from_ns

    def team(self, home: str, name: str) -> Team:
        """Return the team of that name in that home; add the team if it is unknown."""
        key = (home, name)
        if key not in self.teams:
            mail_ids = self._mail_ids.setdefault(home, KeyOwners())
            self.teams[key] = Team(home, name, self._onces.setdefault(key, Deduplicator()), mail_ids)
            self.teams[key].tasks.baseline_ns = self._began_ns
            self.teams[key].tasks.from_ns = self._from_ns
        return self.teams[key]

    def begin(self, at_ns: int) -> None:
        """End the initial reading. From now on the files determine the state of tasks, and records of calls only add
        changes that the files did not show."""
        self._began_ns = at_ns
        for team in self.teams.values():
            team.tasks.baseline_ns = at_ns

    # -- files ---------------------------------------------------------------------------------------------------------

    def config(self, home: str, name: str, roster: Roster, at_ns: int) -> list[Event]:
        """Apply a team's configuration."""
        team = self.team(home, name)
        events: list[Event] = []
        if team.is_ended:  # another team has its name now, and another lead
            team.session_id, team.lead_pid, team.is_stale = "", None, False
        team.config_gone_ns, team.said_gone, team.is_ended = 0, False, False
        if team.roster is None:
            lead = roster.lead
            team.session_id = team.session_id or roster.session_id
            fields = {
                "lead": lead.name if lead else "",
                "session_id": roster.session_id,
                "cwd": lead.cwd if lead else "",
            }
            when = roster.created_ns or at_ns
            key = f"started/{when // 1_000_000}"
            events.append(team.tell(all_events.TeamStarted, when, "", key, "files", **fields))
        team.roster = roster
        self._speakers[home, roster.session_id] = (name, lead.name if (lead := roster.lead) else LEAD)
        events += team.members.on_roster(roster, at_ns)
        return events + self._early_mail(team)

    def config_gone(self, home: str, name: str, at_ns: int) -> None:
        """Record that a team's configuration file is missing. The last known configuration stays valid until
        `team_gone` or `tick` ends the team."""
        team = self.teams.get((home, name))
        if team is not None and team.roster is not None and not team.config_gone_ns:
            team.config_gone_ns = at_ns

    def team_gone(self, home: str, name: str, at_ns: int) -> list[Event]:
        """Record that a team's directory is gone: the team has ended."""
        team = self.teams.get((home, name))
        if team is None or team.is_ended:
            return []
        return self._end(team, at_ns, "its lead left" if team.roster else "its directory is gone")

    def _end(self, team: Team, at_ns: int, reason: str) -> list[Event]:
        events: list[Event] = []
        for to in team.post.inboxes():
            events += team.post.on_gone(to, at_ns, "the team ended before it was read")
        if team.roster is not None:
            for name in list(team.members.present):
                events += team.members.on_left(name, at_ns, "the team ended", "files")
            created = (team.roster.created_ns or at_ns) // 1_000_000
            events.append(team.tell(all_events.TeamEnded, at_ns, "", f"ended/{created}", "files", reason=reason))
            team.members.on_ended()
        team.early_mail.clear()
        team.is_ended, team.ended_ns = True, at_ns
        team.roster = None
        return events

    def inbox(self, home: str, name: str, to: str, mails: Sequence[Mail], at_ns: int) -> list[Event]:
        """Apply the content of an inbox."""
        team = self.team(home, name)
        events, fresh = team.post.inbox(to, mails, at_ns)
        for letter in fresh:
            events += team.members.on_frame(letter, "files")
        for event in list(events):
            if isinstance(event, all_events.MailDelivered) and to in team.members.present and to != LEAD:
                events += team.members.on_working(to, when_ns(event.ts), "files", "mail", is_said=False)
        return events

    def inbox_gone(self, home: str, name: str, to: str, at_ns: int) -> list[Event]:
        """Record that an inbox's file is gone while the team still exists."""
        return self.team(home, name).post.on_gone(to, at_ns, "its inbox was deleted")

    def task(self, home: str, name: str, task: Task, at_ns: int) -> list[Event]:
        """Apply the content of a task's file."""
        return self.team(home, name).tasks.on_file(task, at_ns)

    def task_gone(self, home: str, name: str, task_id: str, at_ns: int) -> list[Event]:
        """Record that a task's file is gone."""
        return self.team(home, name).tasks.on_gone(task_id, at_ns)

    # -- processes -----------------------------------------------------------------------------------------------------

    def session(self, home: str, session: Session) -> list[Event]:
        """Apply an entry of Claude Code's register of sessions. If the session leads a team, the entry says whether the
        lead works or is idle."""
        self.sessions[home, session.pid] = session
        team = next((t for t in self.teams.values() if t.home == home and t.lead_pid == session.pid), None)
        lead = team.roster.lead if team is not None and team.roster is not None else None
        if team is None or lead is None or not session.status_ns:
            return []
        if session.status == "idle":
            return team.members.on_idle(lead.name, session.status_ns, "process")
        return team.members.on_working(lead.name, session.status_ns, "process", session.status)

    def session_gone(self, home: str, pid: int) -> None:
        """Record that a process is no longer in the register of sessions."""
        self.sessions.pop((home, pid), None)

    def lead_of(self, team: Team) -> Session | None:
        """Return the session that leads the team. It is found by its id or, after a resume, by its working directory
        and start time. Return None if there is none."""
        roster = team.roster
        if roster is None:
            return None
        here = [session for (home, _), session in self.sessions.items() if home == team.home]
        exact = next((session for session in here if session.session_id in (roster.session_id, team.session_id)), None)
        if exact is not None:
            return exact
        taken = {one.roster.session_id for one in self.teams.values() if one.roster is not None}
        cwd = roster.lead.cwd if roster.lead else ""
        near = [
            session
            for session in here
            if session.cwd == cwd
            and session.session_id not in taken
            and abs(session.started_ns - roster.created_ns) < _NEAR_NS
        ]
        return near[0] if len(near) == 1 else None

    def lead_lives(self, team: Team, session: Session) -> list[Event]:
        """Record that the lead's process was found alive."""
        team.lead_pid, team.session_id, team.is_stale = session.pid, session.session_id, False
        self._speakers[team.home, session.session_id] = (team.name, LEAD)
        return self.session(team.home, session)

    def lead_died(self, team: Team, at_ns: int, *, orphans: Mapping[str, int | None]) -> list[Event]:
        """Record that no living process leads the team.

        `orphans` maps each member whose own process may still run to the pid of that process (None: unknown).
        """
        if team.is_stale or team.roster is None:
            return []
        pid, team.lead_pid, team.is_stale = team.lead_pid, None, True
        created = (team.roster.created_ns or at_ns) // 1_000_000
        reason = f"its lead (pid {pid}) is gone" if pid else "no process leads it"
        fields = {"reason": reason, "pid": pid}
        stale = team.tell(all_events.TeamStale, at_ns, "", f"stale/{created}", "process", **fields)
        return [stale, *team.members.on_orphaned(dict(orphans), at_ns)]

    def tick(self, team: Team, at_ns: int) -> list[Event]:
        """Return the events that are due because a team's configuration file has been missing for two seconds: the end
        of the team, or a notice if its lead still runs."""
        if not team.config_gone_ns or at_ns - team.config_gone_ns < CONFIG_GONE_NS or team.said_gone:
            return []
        team.said_gone = True
        if team.is_stale or team.lead_pid is None:
            return self._end(team, at_ns, "its config.json is gone and nobody leads it")
        text = f"team {team.name} has no config.json any more; its lead still runs"
        return [team.tell.body(all_events.Notice(text=text, code="team_config_gone"), at_ns, "")]

    # -- transcripts ---------------------------------------------------------------------------------------------------

    def line(self, team: Team, member: str, line: history.TranscriptLine, *, is_member: bool = True) -> list[Event]:
        """Apply one line of a member's transcript. If `is_member` is False, the line is from the transcript of a
        subagent that the member started."""
        at_ns = when_ns(line.at)
        if line.session_id and line.member:
            self._speakers[team.home, line.session_id] = (team.name, line.member)
        events: list[Event] = [team.tell.body(body, at_ns, member) for body in line.bodies if at_ns]
        if used := team.turns.add(member, line, is_member=is_member):
            events.append(self._member_used(team, member, f"used/{line.reply_id}", at_ns, used))
        if not is_member:
            return events
        if line.kind in ("user", "assistant") and at_ns and member != LEAD:
            events += team.members.on_working(member, at_ns, "transcript", "transcript")
        for called in line.called:
            team.calls[called.call_id] = (called.name, called.input)
            if len(team.calls) > _CALLS:
                del team.calls[next(iter(team.calls))]
        for back in line.returned:
            called_before = team.calls.pop(back.call_id, None)
            if called_before is None:  # the call is older than the watch; a hook may still report it
                continue
            name, given = called_before
            call = Call(
                name=name,
                call_id=back.call_id,
                by=member,
                at_ns=at_ns,
                source="transcript",
                input=given,
                record=back.record,
            )
            events += self._apply_call(team, call)
        for received in line.received:
            frame = frame_of(received.text)
            timestamp = string(frame, "timestamp")
            mail = Mail(
                id=digest(received.sender, timestamp or line.at, received.text),
                sender=received.sender,
                text=received.text,
                summary=received.summary,
                sent_ns=when_ns(timestamp) or at_ns,
                kind=string(frame, "type") or "message",
                frame=frame,
            )
            events += self._message_received(team, member, mail, at_ns)
        return events

    def _member_used(self, team: Team, member: str, key: str, at_ns: int, used: Mapping[str, Tokens]) -> Event:
        costs = {model: cost_usd(model, tokens) for model, tokens in used.items()}
        tokens = reduce(Tokens.plus, used.values())
        usage = Usage(
            input_tokens=tokens.total - tokens.output,
            output_tokens=tokens.output,
            cached_tokens=tokens.cache_read,
        )
        fields = {
            "usage": usage,
            "cost_usd": None if None in costs.values() else sum(filter(None, costs.values())),
            "unpriced": tuple(model for model, cost in costs.items() if cost is None),
        }
        return team.tell(all_events.MemberUsed, at_ns, member, key, "transcript", member=member, **fields)

    def _message_received(self, team: Team, member: str, mail: Mail, at_ns: int) -> list[Event]:
        if mail.kind == "teammate_terminated":
            return team.members.on_frame(Letter(mail, member, at_ns), "transcript")
        is_proof = bool(mail.frame) or mail.sender not in (LEAD, *team.members.present)
        me = team.members.known.get(member)
        if me is not None and me.prompt.strip() == mail.text.strip():
            is_proof = me.has_own_process
        events, letter = team.post.on_received(member, mail, "transcript", is_proof=is_proof)
        if letter is not None:
            events += team.members.on_frame(letter, "transcript")
        if me is None and mail.sender == LEAD and not is_proof and not events:
            team.early_mail.append((member, mail, at_ns))
        return events

    def _early_mail(self, team: Team) -> list[Event]:
        """Apply the messages in `early_mail` that are the initial prompts of members known by now, and return the
        events. Other messages to known members are dropped."""
        events: list[Event] = []
        waiting, team.early_mail = team.early_mail, deque(maxlen=_EARLY_MAILS)
        for member, mail, at_ns in waiting:
            me = team.members.known.get(member)
            if me is None:
                team.early_mail.append((member, mail, at_ns))
            elif me.prompt.strip() == mail.text.strip():
                events += self._message_received(team, member, mail, at_ns)
        return events

    def _apply_call(self, team: Team, call: Call) -> list[Event]:
        if not self._calls_done.add_if_new((team.home, team.name, call.call_id)):
            return []
        found = proof(call)
        if found.change is not None:
            return team.tasks.on_proof(found.change)
        if found.spawned is not None:
            if found.spawned.name in team.members.present:
                return []
            return team.members.on_spawned(found.spawned, call.source, call.at_ns) + self._early_mail(team)
        if found.mail is not None and found.failed:
            return team.post.on_failed(found.to, found.mail, found.failed, call.source)
        if found.mail is not None:
            return team.post.on_sent(found.to, found.mail, call.source)
        return []

    # -- hooks ---------------------------------------------------------------------------------------------------------

    def hook(self, home: str, call: HookCall, *, may_guess: bool = False) -> list[Event] | None:
        """Apply one call of a hook and return its events; None if the call's team is unknown.

        With `may_guess`, the team of a call from an unknown session is guessed: a sent message belongs to the one team
        that has both its sender and its recipient, any other call to the team that is named after the session.
        """
        name, speaker = self._speakers.get((home, call.session_id), ("", ""))
        named = call.team or string(call.response, "team_name")
        team = self.teams.get((home, named or name))
        if team is not None and not named and not team.is_of(call):
            team = None  # a session that was resumed leads another team now; its calls say nothing of this one
        if team is None and may_guess:
            team = self.team(home, named) if named else self._guess_team(home, call)
        if team is None:
            return None
        member = call.member or speaker or LEAD
        match call.event:
            case "PostToolUse":
                made = Call(
                    name=call.tool,
                    call_id=call.call_id,
                    by=member,
                    at_ns=call.at_ns,
                    source="hook",
                    input=call.input,
                    record=call.response,
                )
                return [*self._permission_granted(team, member, call), *self._apply_call(team, made)]
            case "PostToolUseFailure":
                return self._permission_granted(team, member, call)
            case "PermissionRequest":
                return self._permission_requested(team, member, call)
            case "TeammateIdle":
                return team.members.on_idle(member, call.at_ns, "hook")
            case "SubagentStart" if member in team.members.present:
                return team.members.on_working(member, call.at_ns, "hook", "a turn")
        return []

    def _guess_team(self, home: str, call: HookCall) -> Team | None:
        """Return the probable team of a call whose session no file and no transcript mentioned yet; None if there is
        none. A member in a terminal pane has such a session of its own."""
        own = f"session-{call.session_id[:8]}"
        if mail_id := string(call.response, "msg_id"):
            routing = obj(call.response, "routing")
            sender, to = string(routing, "sender"), string(routing, "target").removeprefix("@")
            owner = self._mail_ids.setdefault(home, KeyOwners()).owner((to, mail_id))
            here = [team for team in self.teams.values() if team.home == home and team.is_live]
            both = [team.name for team in here if {sender, to} <= team.members.present.keys()]
            return self.team(home, owner or (both[0] if len(both) == 1 else own))
        found = (
            self.teams.get((home, name)) for name in (own, call.session_id)
        )  # a headless team is named after the whole id
        return next((team for team in found if team is not None and team.is_of(call)), None)

    def _permission_requested(self, team: Team, member: str, call: HookCall) -> list[Event]:
        text = string(call.input, "description") or string(call.input, "command")
        request_id = f"{member}-{call.tool}-{call.at_ns // 1_000_000}"
        ask = Ask(
            what="permission",
            request_id=request_id,
            sender=member,
            to=LEAD,
            text=text,
            at_ns=call.at_ns,
            tool=call.tool,
        )
        return team.members.on_asked(ask, "hook", call.input)

    def _permission_granted(self, team: Team, member: str, call: HookCall) -> list[Event]:
        """Return the events of the member's open permission request for this tool, if there is one. The tool ran, so
        the request was permitted."""
        for request_id, ask in list(team.members.asks.items()):
            if ask.what == "permission" and ask.sender == member and ask.tool == call.tool:
                return team.members.on_answered("permission", request_id, LEAD, call.at_ns, "hook", approved=True)
        return []
