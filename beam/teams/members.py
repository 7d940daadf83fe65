"""The members of a team: who belongs to it, who works, who is idle, and which requests are open.

Five sources report a member's state, each with its own times. An observation that is older than the known state changes
nothing. Does not depend on files or clocks.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from beam.agents.base import raw_json
from beam.agents.fields import obj, string
from beam.model import events as all_events
from beam.model.events import Event
from beam.teams.event_factory import Deduplicator, EventFactory
from beam.teams.mail import Letter
from beam.teams.model import LEAD, Mail, Member, Roster

_REQUESTS = {
    "plan_approval_request": "plan",
    "permission_request": "permission",
    "sandbox_permission_request": "permission",
    "shutdown_request": "shutdown",
}
_ANSWERS = {
    "plan_approval_response": "plan",
    "permission_response": "permission",
    "sandbox_permission_response": "permission",
    "shutdown_approved": "shutdown",
    "shutdown_rejected": "shutdown",
}


class MemberState(Struct):
    """The activity of a member. `since_ns` is when the activity began; `said_ns` is the latest time that Claude Code
    itself recorded for the member."""

    activity: str = ""
    since_ns: int = 0
    said_ns: int = 0
    summary: str = ""


class Ask(Struct, frozen=True, kw_only=True):
    """A request that has no answer yet. `what`: plan, permission or shutdown."""

    what: str
    request_id: str
    sender: str
    to: str
    text: str
    at_ns: int
    tool: str = ""


class Members:
    """The members of one team. `known` are the last members of each name, also after they left: their transcripts may
    be read later."""

    def __init__(self, tell: EventFactory, once: Deduplicator) -> None:
        self._tell = tell
        self._once = once
        self.present: dict[str, Member] = {}
        self.known: dict[str, Member] = {}
        self.states: dict[str, MemberState] = {}
        self.asks: dict[str, Ask] = {}
        self._gone: set[str] = set()
        self._parted: set[tuple[str, int]] = set()  # and when they had joined

    def on_roster(self, roster: Roster, at_ns: int) -> list[Event]:
        """Apply the team's configuration."""
        events: list[Event] = []
        now = {member.name: member for member in roster.members}
        for name, member in now.items():
            before = self.present.get(name)
            if before is None and (name, member.joined_ns) in self._parted:
                continue  # the lead's transcript was quicker than this snapshot
            if before is not None and before.joined_ns not in (0, member.joined_ns):
                events += self.on_left(name, at_ns, "another took its name", "files")
            if before is None or before.joined_ns != member.joined_ns:
                events += self.on_joined(member, "files", at_ns)
            self.present[name] = self.known[name] = member
            if member.active is not None and (before is None or before.active != member.active):
                if member.active:
                    events += self.on_working(name, at_ns, "files", "its pane", is_said=False)
                else:
                    events += self.on_idle(name, at_ns, "files", is_said=False)
        for name in [name for name in self.present if name not in now]:
            events += self.on_left(name, at_ns, "", "files")
        self._parted = {(name, joined) for name, joined in self._parted if name in now}
        return events

    def on_joined(self, member: Member, source: str, at_ns: int) -> list[Event]:
        """Record that the member joined. `source` is "files" for the configuration, otherwise the kind of record that
        contains the call that created the member."""
        when = member.joined_ns or at_ns
        if source == "files" and not self._once.add_if_new(("joined", member.name, member.joined_ns)):
            return []
        if not self._once.count_report(("joined", member.name), source="files" if source == "files" else "record"):
            return []
        return [
            self._tell(
                all_events.MemberJoined,
                when,
                member.name,
                f"joined/{member.name}/{when // 1_000_000}",
                source,
                member=member.name,
                kind=member.kind,
                model=member.model,
                colour=member.colour,
                backend=member.backend,
                pane=member.pane,
                cwd=member.cwd,
                prompt=member.prompt,
            )
        ]

    def on_ended(self) -> None:
        """Record that the team ended, and forget which members left it: a new team of the same name has its own
        members."""
        self._parted.clear()

    def on_spawned(self, member: Member, source: str, at_ns: int) -> list[Event]:
        """Apply the record of the call that created a member that the configuration does not contain yet."""
        self.known.setdefault(member.name, member)
        if member.name not in self._gone:
            self.present.setdefault(member.name, member)
        return self.on_joined(member, source, at_ns)

    def on_left(self, name: str, at_ns: int, reason: str, source: str) -> list[Event]:
        """Record that the member left the team. Nothing happens if it was not in the team."""
        member = self.present.pop(name, None)
        self._gone.add(name)
        self.states.pop(name, None)
        for request_id in [key for key, ask in self.asks.items() if name in (ask.sender, ask.to)]:
            del self.asks[request_id]
        if member is None:
            return []
        self._parted.add((name, member.joined_ns))
        key = f"left/{name}/{member.joined_ns // 1_000_000}"
        return [self._tell(all_events.MemberLeft, at_ns, name, key, source, member=name, reason=reason)]

    def on_working(self, name: str, at_ns: int, source: str, why: str, *, is_said: bool = True) -> list[Event]:
        """Record that the member works. `is_said` is True if Claude Code itself recorded the time, False if it is the
        time of a file."""
        if not self._is_newer(name, "working", at_ns, is_said=is_said):
            return []
        key = f"working/{name}/{at_ns // 1_000_000}"
        return [self._tell(all_events.MemberWorking, at_ns, name, key, source, member=name, why=why)]

    def on_idle(self, name: str, at_ns: int, source: str, *, is_said: bool = True, **fields: Any) -> list[Event]:
        """Record that the member is idle."""
        if not self._is_newer(name, "idle", at_ns, is_said=is_said):
            return []
        self.states[name].summary = fields.get("summary", "")
        key = f"idle/{name}/{at_ns // 1_000_000}"
        return [self._tell(all_events.MemberIdle, at_ns, name, key, source, member=name, **fields)]

    def _is_newer(self, name: str, activity: str, at_ns: int, *, is_said: bool) -> bool:
        """Return whether the observation changes the member's activity, and store the new activity if it does. A time
        that Claude Code recorded is ignored if it is older than the known state. If several sources report the same
        activity for the same millisecond, only the first report counts."""
        if not name:
            return False
        state = self.states.setdefault(name, MemberState())
        if is_said and at_ns < max(state.said_ns, state.since_ns):
            return False
        if is_said:
            state.said_ns = at_ns
        if state.activity == activity or not self._once.add_if_new((activity, name, at_ns // 1_000_000)):
            return False
        state.activity, state.since_ns = activity, at_ns
        return True

    def assume_activity(self, name: str, activity: str, since_ns: int, said_ns: int) -> None:
        """Set a member's activity from the end of its transcript, unless an activity is known. Causes no event."""
        if activity and not self.states.get(name, MemberState()).activity:
            self.states[name] = MemberState(activity, since_ns, said_ns)

    def on_orphaned(self, found: dict[str, int | None], at_ns: int) -> list[Event]:
        """Record that the lead's process died.

        `found` maps each member whose own process may still run to the pid of that process (None: unknown). The other
        members died with the lead.
        """
        events: list[Event] = []
        for name, member in list(self.present.items()):
            if name in found:
                key = f"orphaned/{name}/{member.joined_ns // 1_000_000}"
                fields = {"member": name, "pid": found[name], "pane": member.pane}
                events.append(self._tell(all_events.MemberOrphaned, at_ns, name, key, "process", **fields))
            elif name != LEAD:
                events += self.on_left(name, at_ns, "its lead died", "process")
        return events

    # -- the team's own protocol ---------------------------------------------------------------------------------------

    def on_frame(self, letter: Letter, source: str) -> list[Event]:
        """Apply a frame of the team protocol: an idle notification, a request, an answer, or the end of a member. Any
        other message is ignored."""
        mail, at_ns = letter.mail, letter.at_ns
        if mail.kind == "idle_notification":
            return self.on_idle(
                mail.sender,
                at_ns,
                source,
                reason=string(mail.frame, "idleReason") or "available",
                summary=string(mail.frame, "summary"),
                failure=string(mail.frame, "failureReason"),
                task_id=string(mail.frame, "completedTaskId") or None,
                task_status=string(mail.frame, "completedStatus") or None,
            )
        if mail.kind in _REQUESTS:
            return self._asked(mail, letter.to, at_ns, source)
        if mail.kind in _ANSWERS:
            return self._answered(mail, at_ns, source)
        if mail.kind == "teammate_terminated":
            name = string(mail.frame, "message").partition(" has ")[0]
            return self.on_left(name, at_ns, string(mail.frame, "message"), source)
        return []

    def _asked(self, mail: Mail, to: str, at_ns: int, source: str) -> list[Event]:
        frame, what = mail.frame, _REQUESTS[mail.kind]
        request_id = string(frame, "requestId") or string(frame, "request_id") or mail.id
        text = string(frame, "planContent") or string(frame, "description") or string(frame, "reason")
        text = text or string(obj(frame, "hostPattern"), "host")
        tool = string(frame, "tool_name")
        return self.on_asked(
            Ask(what=what, request_id=request_id, sender=mail.sender, to=to, text=text, at_ns=at_ns, tool=tool),
            source,
            frame.get("input"),
        )

    def on_asked(self, ask: Ask, source: str, given: object = None) -> list[Event]:
        """Apply a request from any source. `given` is the input of the tool that the permission is requested for."""
        if not self._once.add_if_new(("asked", ask.request_id)):
            return []
        self.asks[ask.request_id] = ask
        return [
            self._tell(
                all_events.MemberAsked,
                ask.at_ns,
                ask.sender,
                f"asked/{ask.request_id}",
                source,
                what=ask.what,
                request_id=ask.request_id,
                sender=ask.sender,
                to=ask.to,
                text=ask.text,
                tool=ask.tool or None,
                input=raw_json(given),
            )
        ]

    def _answered(self, mail: Mail, at_ns: int, source: str) -> list[Event]:
        frame = mail.frame
        request_id = string(frame, "requestId") or string(frame, "request_id")
        approved = (
            frame.get("approved") is True
            or frame.get("allow") is True
            or mail.kind == "shutdown_approved"
            or (mail.kind.endswith("permission_response") and string(frame, "subtype") == "success")
        )
        text = string(frame, "feedback") or string(frame, "reason") or string(frame, "error")
        return self.on_answered(
            _ANSWERS[mail.kind], request_id, mail.sender, at_ns, source, approved=approved, text=text
        )

    def on_answered(
        self, what: str, request_id: str, sender: str, at_ns: int, source: str, *, approved: bool, text: str = ""
    ) -> list[Event]:
        """Apply the answer to a request, from any source."""
        self.asks.pop(request_id, None)
        if not self._once.add_if_new(("answered", request_id)):
            return []
        key = f"answered/{request_id}"
        fields = {"what": what, "request_id": request_id, "sender": sender, "approved": approved, "text": text}
        return [self._tell(all_events.MemberAnswered, at_ns, sender, key, source, **fields)]
