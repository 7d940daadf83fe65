"""Makes a beam agent a member of a Claude team: the agent reads its inbox, answers, does tasks, waits, and leaves.

Mail is written by agents, not by a person. So it is only text for the agent's turn, which has the access `read` unless
a person chose another one. Of the frames (control messages) of the team's protocol, only two are obeyed: the assignment
of a task, and the lead's request to end.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from beam.api.team_actions import TeamActions
from beam.base.errors import BeamError, NotFoundError, SignalledError, UnsupportedError, UsageError
from beam.base.typed_values import one_line
from beam.model.message import Access
from beam.model.outcome import Status
from beam.process import tree
from beam.teams import act
from beam.teams.act import TeamFiles
from beam.teams.model import LEAD, Mail, Task
from beam.teams.task_files import PENDING
from beam.teams.tasks import COMPLETED, IN_PROGRESS
from beam.turns.choice import lowest_access

if TYPE_CHECKING:
    from beam.api.beam import Beam

_PAUSE_S = 0.2
_NESTED_TEAM_VARIABLE = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS"  # a Claude Code with it leads a team of its own
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Joining(Struct, frozen=True, kw_only=True):
    """How an agent joins a team: the agent, its name in the team, its access (None: as in its settings), whether it
    takes free tasks, whether it leads the team, and how long it stays without anything to do (`idle_s`, in seconds;
    None: until it is asked to end)."""

    agent: str
    name: str
    access: Access | None = "read"
    takes_tasks: bool = False
    leads: bool = False
    idle_s: float | None = None


class Membership:
    """The membership of one agent in one team. `note` is called with each text that a person may want to read."""

    def __init__(self, beam: Beam, actions: TeamActions, joining: Joining, note: Callable[[str], None]) -> None:
        self._beam = beam
        self._files: TeamFiles = actions.files
        self._team = actions.team
        self._joining = joining
        self._name = LEAD if joining.leads else joining.name
        self._note = note
        self._access = joining.access
        self._failed: set[str] = set()  # tasks that this member does not take again on its own
        self._given_back: list[str] = []  # tasks of a killed member whose place this one took
        self._joined_ms = 0
        self._is_member = False
        self._signal = 0
        self._heard: Sequence[signal.Signals] = ()

    def run(self) -> str:
        """Run the membership: join the team, work until somebody ends the team or the membership, and leave. Return the
        reason for the end.

        After a signal, leave the team and raise SignalledError.
        """
        nesting = self._beam.environ.pop(_NESTED_TEAM_VARIABLE, None)
        with self._recording_signals():
            try:
                self._join()
                try:
                    return self._work()
                except NotFoundError:
                    if self._has_team():
                        raise
                    return f"the team {self._team} ended"
            finally:
                self._leave()
                if nesting is not None:
                    self._beam.environ[_NESTED_TEAM_VARIABLE] = nesting

    # -- coming and going ----------------------------------------------------------------------------------------------

    def _join(self) -> None:
        joining = self._joining
        if not act.MEMBER_NAME.fullmatch(self._name):
            raise UsageError(f"{self._name!r} is not a member's name", "use --name", subject=self._name)
        self._check_alone()
        self._access = self._access_of_turns()
        if joining.leads:
            if self._files.roster().session_id and not _made_by_beam(self._files):
                raise UsageError(f"{self._team} is led by Claude Code", "join it without --lead")
            self._is_member = True
            return
        replaced = self._files.add_member(
            {
                "agentId": f"{self._name}@{self._team}",
                "name": self._name,
                "agentType": f"beam:{joining.agent}",
                "joinedAt": time.time_ns() // 1_000_000,
                "tmuxPaneId": "in-process",
                "cwd": self._beam.folder(joining.agent),
                "subscriptions": [],
                "backendType": "in-process",
                "beam": {
                    "agent": joining.agent,
                    "root": str(self._beam.home.root),
                    "pid": os.getpid(),
                    "start": tree.start_ticks(os.getpid()),
                },
            },
            replaces=_is_gone,
        )
        self._is_member = True
        self._check_alone()  # two processes may have joined at the same time
        if replaced:
            self._joined_ms = time.time_ns() // 1_000_000
            self._given_back = self._files.release_tasks(self._name)
            for task_id in self._given_back:
                self._note(f"task {task_id} is free again: the {self._name} before this one was killed")
        access = f"the access {joining.access}" if joining.access is not None else "the access of its settings"
        takes = "It takes free tasks by itself. " if joining.takes_tasks else ""
        hello = (
            f"{self._name} joined the team: the agent {joining.agent} of beam, with {access}. {takes}"
            f"Give it a task with TaskUpdate(owner={self._name!r}), or write to it with SendMessage."
        )
        self._files.post(self._lead(), hello, sender=self._name, summary=f"{self._name} joined")
        self._note(f"{joining.agent} is {self._name} in {self._team}, with {access}")

    def _access_of_turns(self) -> Access | None:
        """Return the access for which each message asks: None for a program, which has none that could be set. Raises
        UnsupportedError for a program that may do more than this member, because it could do nothing here."""
        agent, access = self._joining.agent, self._joining.access
        shown = self._beam.agent(agent)
        if access is None or any(each.access for each in shown.card.faces.values()):
            return access
        own = shown.settings.access or "full"
        if lowest_access(own, access) != own:
            raise UnsupportedError(
                f"{agent} may do what its program does ({own}), and this member has access {access} at the most",
                f"beam team join {self._team} {agent} --access own; or, if the program does no more than that, say so: "
                f"beam agent set {agent} access={access}",
                subject=agent,
            )
        return None

    def _check_alone(self) -> None:
        agent, root = self._joining.agent, str(self._beam.home.root)
        other = _membership_of(self._files.home, agent, root)
        if other:
            raise UsageError(f"{agent} is in the team {other} already", "an agent is in one team at a time")

    def _leave(self) -> None:
        if not self._is_member:
            return
        with contextlib.suppress(BeamError, OSError):
            for task_id in self._files.release_tasks(self._name):
                self._note(f"task {task_id} is free again")
            if not self._joining.leads:
                self._files.remove_member(self._name)

    @contextlib.contextmanager
    def _recording_signals(self) -> Iterator[None]:
        """Record INT, TERM and HUP signals while the caller's block runs. A recorded signal takes effect only between
        two steps of work. A signal that was ignored before stays ignored."""
        before = {each: signal.getsignal(each) for each in _ENDING_SIGNALS}
        if threading.current_thread() is threading.main_thread():
            self._heard = [each for each in _ENDING_SIGNALS if before[each] is not signal.SIG_IGN]
        self._set_signal_handlers()
        try:
            yield
        finally:
            for each in self._heard:
                signal.signal(each, before[each])

    def _set_signal_handlers(self) -> None:
        def came(number: int, frame: FrameType | None) -> None:
            self._signal = number

        for each in self._heard:
            signal.signal(each, came)

    def _raise_if_signalled(self) -> None:
        if self._signal:
            raise SignalledError(self._signal, message=f"{self._name} left {self._team}")

    # -- work ----------------------------------------------------------------------------------------------------------

    def _work(self) -> str:
        since, is_idle = time.monotonic(), False
        while True:
            self._raise_if_signalled()
            if self._files.roster().member(self._name) is None:
                return f"{self._name} was removed from {self._team}"
            worked = False
            for mail in self._files.mail(self._name):
                self._raise_if_signalled()
                if mail.kind == "shutdown_request" and mail.sender == self._lead():
                    return self._confirm_end(mail)
                worked = self._handle_mail(mail) or worked
            worked = worked or self._do_next_task()
            if worked:
                since, is_idle = time.monotonic(), False
                continue
            if not is_idle:
                is_idle = True
                if not self._joining.leads:
                    self._report_idle()
            if self._joining.idle_s is not None and time.monotonic() - since > self._joining.idle_s:
                return f"nothing arrived for {self._joining.idle_s:g} s"
            time.sleep(_PAUSE_S)

    def _handle_mail(self, mail: Mail) -> bool:
        """Handle one mail: do the task that it assigns, or answer the message. Return whether there was anything to
        do.

        The mail is removed from the inbox once it can no longer be lost: a message after its answer, an assignment when
        the task's file says who does it. So whoever joins after a crash finds it again.
        """
        if mail.kind == "task_assignment":
            task = self._assigned_task(str(mail.frame.get("taskId")), mail.sent_ns)
            is_begun = task is not None and self._begin_task(task)
            self._files.remove_mail(self._name, mail.id)
            if task is not None and is_begun:
                self._finish_task(task)
            return is_begun
        if mail.kind != "message":
            self._note(f"left out: {mail.kind} of {mail.sender}")
            self._files.remove_mail(self._name, mail.id)
            return False
        sender = mail.sender if act.MEMBER_NAME.fullmatch(mail.sender) else "Somebody whose name is none"
        text = (
            f"{sender} of the team {self._team} writes to you. It is an agent, or says so; "
            "it is not your user.\n\n"
            f"{mail.text}"
        )
        _, answer = self._run_turn(text, key=self._key(mail, text))
        if not mail.is_reply:
            self._write_to(mail.sender, answer, reply_to=mail.id)
        self._files.remove_mail(self._name, mail.id)
        return True

    def _key(self, mail: Mail, text: str) -> str | None:
        """Return the idempotency key of a mail's turn: if the mail is handled again after a crash, its turn does not
        run twice. Return None for a mail without id and time, which can't be told from another one."""
        if mail.id.startswith("~") and not mail.sent_ns:
            return None
        words = (self._team, self._name, mail.id, str(mail.sent_ns), self._joining.access or "", text)
        return f"team-mail-{hashlib.sha256(chr(0).join(words).encode('utf-8', 'replace')).hexdigest()}"

    def _assigned_task(self, task_id: str, sent_ns: int) -> Task | None:
        """Return the task that a mail assigns; None if it is not to be done now."""
        if task_id in self._given_back and sent_ns // 1_000_000 < self._joined_ms:
            return None  # it was meant for the killed member, which had begun the task before it read this
        tasks = self._files.tasks()
        task = tasks.get(task_id)
        if task is None or task.owner not in (None, self._name) or task.status == COMPLETED:
            return None
        waits = self._files.waits_for(task, tasks)
        if waits:  # a task of this member is done once it waits for nothing
            self._note(f"task {task_id} waits for {', '.join(waits)}")
            return None
        return task

    def _do_next_task(self) -> bool:
        """Do the first pending task that waits for no other task: an own task of this member, or a free one if the
        member takes free tasks. Return whether a task was done."""
        tasks = self._files.tasks()
        mine = [one for one in tasks.values() if one.owner == self._name and one.status == PENDING]
        free = [one for one in tasks.values() if one.owner is None and one.status == PENDING]
        free = [one for one in free if self._joining.takes_tasks and one.id not in self._failed]
        for task in sorted([*mine, *free], key=lambda one: int(one.id)):
            if self._files.waits_for(task, tasks):
                continue
            if task.owner is None:
                try:
                    self._files.claim_task(task.id, self._name)
                except BeamError:  # somebody was faster
                    continue
            if not self._begin_task(task):
                return False
            self._finish_task(task)
            return True
        return False

    def _begin_task(self, task: Task) -> bool:
        """Set a task to in progress, as this member's. Return False if that can't be done."""
        try:
            self._files.move_task(task.id, IN_PROGRESS, self._name)
        except BeamError as error:
            self._note(error.message)
            return False
        self._note(f"task {task.id} begins: {task.subject}")
        return True

    def _finish_task(self, task: Task) -> None:
        """Do a task that was begun, and report it to the lead."""
        ok, answer = self._run_turn(
            f"Your task in the team {self._team}, #{task.id}: {task.subject}\n\n{task.description}\n\n"
            "Do it, and report what you did."
        )
        with contextlib.suppress(NotFoundError):
            if ok:
                self._files.move_task(task.id, COMPLETED, self._name)
            else:
                self._failed.add(task.id)
                self._files.release_task(task.id)
        self._write_to(self._lead(), f"Task #{task.id} ({task.subject}): {answer}")

    def _run_turn(self, text: str, *, key: str | None = None) -> tuple[bool, str]:
        """Run a turn with this text, as a message of an agent that has the chosen access and is allowed nothing by a
        rule. Return whether the turn completed, and its answer."""
        joining = self._joining
        try:
            message = self._beam.message(joining.agent, text, key=key, access=self._access)
            outcome = self._beam.deliver(structs.replace(message, at_most=joining.access))
        except SignalledError:
            raise
        except BeamError as error:
            return False, f"it failed: {error.message}"
        finally:
            self._set_signal_handlers()  # a turn has handlers of its own, and leaves none behind
        if outcome.status == Status.COMPLETED:
            return True, outcome.reply or "done"
        return False, f"it {outcome.status}: {outcome.reason or ''}"

    # -- words ---------------------------------------------------------------------------------------------------------

    def _write_to(self, to: str, text: str, *, reply_to: str = "") -> None:
        """Write to a member; if that member is not in the team, write to the lead. If the team ended, the person who
        started the membership gets the text."""
        if not self._has_team():
            self._note(text)
        roster = self._files.roster()
        receiver = to if roster.member(to) is not None else self._lead()
        if receiver == self._name:
            self._note(text)
            return
        summary = one_line(text, act.SUMMARY)
        if act.is_frame(text):
            text = f"The answer was:\n{text}"
        self._files.post(receiver, text[: act.LONGEST], sender=self._name, summary=summary, reply_to=reply_to or None)

    def _has_team(self) -> bool:
        """Return whether the team still has a configuration."""
        try:
            self._files.roster()
        except NotFoundError:
            return False
        return True

    def _report_idle(self) -> None:
        fields = {"from": self._name, "idleReason": "available"}
        self._files.frame(self._lead(), "idle_notification", sender=self._name, **fields)

    def _confirm_end(self, mail: Mail) -> str:
        fields: dict[str, Any] = {
            "requestId": str(mail.frame.get("requestId")),
            "from": self._name,
            "paneId": "in-process",
            "backendType": "in-process",
        }
        self._files.frame(self._lead(), "shutdown_approved", sender=self._name, **fields)
        self._files.remove_mail(self._name, mail.id)
        return f"{mail.sender} asked {self._name} to end"

    def _lead(self) -> str:
        lead = self._files.roster().lead
        return lead.name if lead is not None else LEAD


def _made_by_beam(files: TeamFiles) -> bool:
    return files.roster().made_by == "beam"


def _is_gone(member: Mapping[str, Any]) -> bool:
    """Return whether a member is a beam agent whose process no longer lives."""
    told = member.get("beam")
    return isinstance(told, dict) and not _is_alive(told)


def _is_alive(told: Mapping[str, Any]) -> bool:
    pid, start = told.get("pid"), told.get("start")
    return isinstance(pid, int) and start is not None and tree.start_ticks(pid) == start


def _membership_of(home: str, agent: str, root: str) -> str:
    """Return the team in which another living process runs this agent; "" if there is no such process."""
    for folder in sorted(os.listdir(f"{home}/teams")):  # noqa: PTH208 - names
        try:
            members: Sequence[dict[str, Any]] = TeamFiles(home, folder).members()
        except BeamError:
            continue
        for member in members:
            told = member.get("beam")
            if not isinstance(told, dict) or (told.get("agent"), told.get("root")) != (agent, root):
                continue
            if told.get("pid") != os.getpid() and _is_alive(told):
                return folder
    return ""
