"""Made-up data for the board's tests: snapshots, events, and a feed without threads."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from msgspec import Raw

from beam import AskLine, events
from beam.api.status import AgentStatus, LastOutcome
from beam.api.turns_now import OpenAsk, OpenCall, Running
from beam.board.feed import ReceivedEvent
from beam.board.rows import Snapshot, agent_key
from beam.board.teams import TeamSnapshot
from beam.foreign.standing import ForeignStatus
from beam.model.outcome import Status, Usage
from beam.model.state import Totals
from beam.teams.board import MailLine, MemberLine, TaskLine, TeamLine, TeamShown
from beam.teams.stuck import Wait
from tests.support.statuses import agent_status

NOW_S = 1_750_000_000.0
PROJECT = Path("/home/me/parser")
HOSTILE = (
    "\x1b[2J\x1b]0;mine\x07[red]x[/red] \u202eevil\u202c [@click=app.quit]y[/] "
    "a\u0301\u0301\u0301\u0301 \x9b31m\u2066\ufeff"
)


def ts(before_s: float) -> str:
    """The time that many seconds before now."""
    from beam import clock

    return clock.rfc3339(int((NOW_S - before_s) * 1e9))


def agent(name: str, state: str = "idle", **more: Any) -> AgentStatus:
    """An agent's status."""
    given: dict[str, Any] = {
        "adapter": "claude",
        "turn": 1,
        "last": LastOutcome(message_id="m", turn=1, status=Status.COMPLETED, at=ts(300)),
        "totals": Totals(turns=1, usage=Usage(input_tokens=1000, output_tokens=200), cost_usd=0.25),
    }
    return agent_status(name, state=state, **{**given, **more})


def running(**more: Any) -> Running:
    """A running turn."""
    return Running(message_id="builder-1m88", turn=2, since=ts(75), pid=7, host="here", alive=True, **more)


ASK = AskLine(
    id="ask-1m88pwg81mbywqt",
    agent="asker",
    tool="Bash",
    input=Raw(b'{"command":"rm -rf build\\nmake clean all","timeout":5}'),
    description="Remove the build folder",
    suggestions=Raw(b'["Yes, and do not ask again for make"]'),
    asked=ts(12),
    expires=ts(-600),
)


def snapshot(*more: AgentStatus, before_s: float = 0.0, **other: Any) -> Snapshot:
    """Everyone: an agent at work, one that asks, one that is idle, a session of another, a team's member."""
    call = OpenCall(name="Bash", input=Raw(b'{"command":"pytest -q tests/parser"}'), since=ts(20))
    ask = OpenAsk(id=ASK.id, tool="Bash", expires=ASK.expires)
    lines = [
        agent("builder", "running", running=running(call=call)),
        agent("asker", "waiting", running=running(asks=(ask,))),
        agent("writer"),
        *more,
    ]
    session = ForeignStatus(
        cli="codex",
        session_id="0198aaaa-0000-4000-8000-00000000c0de",
        pid=42,
        folder="/home/me/site",
        since=ts(4000),
        state="working",
        state_since=ts(8),
        doing="shell npm test",
        tokens=45_600,
        cost_usd=1.5,
        is_estimate=True,
    )
    given: dict[str, Any] = {"sessions": [session], "teams": [team().shown], "asks": [(PROJECT, ASK)]}
    given["agents"] = [(PROJECT, lines)]
    return Snapshot(ts=ts(before_s), **{**given, **other})


def team() -> TeamSnapshot:
    """A team with tasks that wait for each other, and mail."""
    line = TeamLine(team="docs", home="/h", state="live", lead="lead", tasks={"in_progress": 1, "pending": 1})

    def member(name: str, state: str, doing: str) -> MemberLine:
        return MemberLine(
            member=name, state=state, since=ts(30), kind="", model="opus", colour=None, backend="", pane="",
            doing=doing, last_words="", tasks=(), unread=0, tokens=4200, cost_usd=0.02,
        )  # fmt: skip

    def task(number: str, status: str, subject: str, owner: str | None, *by: str) -> TaskLine:
        return TaskLine(
            team="docs", id=number, status=status, subject=subject, owner=owner, is_ready=False, blocked_by=by,
            blocks=(), since=None,
        )  # fmt: skip

    mail = MailLine(
        team="docs", mail_id="1", at=ts(90), sender="alice", to="bob", kind="message", summary="parser ready",
        text="the parser is ready", state="waiting", thread="alice · bob",
    )  # fmt: skip
    return TeamSnapshot(
        shown=TeamShown(
            team=line,
            members=(member("alice", "working", 'Bash {"command":"make parser"}'), member("bob", "idle", "")),
            waits=(Wait(team="docs", who="bob", on="alice", what="task #1 blocks his", since=ts(120), seconds=120.0),),
            usage=(),
        ),
        tasks=(
            task("1", "in_progress", "Write the parser", "alice"),
            task("2", "pending", "Test the parser", "bob", "1"),
        ),
        mail=(mail,),
    )


def received(event: events.AnyEvent, name: str = "builder") -> ReceivedEvent:
    """An event of an agent, as it comes to the board."""
    return ReceivedEvent(event, agent_key(PROJECT, name), name)


_SEQ = itertools.count(1)


def head(name: str, before_s: float) -> dict[str, Any]:
    """The header of an event."""
    return {"seq": next(_SEQ), "ts": ts(before_s), "agent": name, "turn": 2, "message_id": "builder-1m88"}


def story(words: str = HOSTILE) -> list[ReceivedEvent]:
    """A turn of builder, from its message to a failed test, of which it says these words."""
    call = Raw(b'{"command":"pytest -q tests/parser"}')
    return [
        received(events.MessageQueued(**head("builder", 80), sender="human", text="fix the parser")),
        received(
            events.TurnStarted(
                **head("builder", 75),
                owner=events.Owner(pid=7, start_ticks=1),
                turn_key="k",
                adapter="claude",
                via="dialogue",
            )
        ),
        received(events.Thinking(**head("builder", 70), text="A first look.")),
        received(events.ToolCalled(**head("builder", 60), call_id="c1", name="Bash", input=call)),
        received(events.ToolReturned(**head("builder", 50), call_id="c1", output="1 failed", is_error=True)),
        received(events.Text(**head("builder", 40), text="One test fails: " + words)),
    ]


class FakeFeed:
    """A feed that has everything at once, and remembers what it was told."""

    here = PROJECT

    def __init__(self) -> None:
        self.looks: list[Snapshot] = [snapshot(before_s=100)]
        self.events: list[ReceivedEvent] = story()
        self.team: TeamSnapshot | None = team()
        self.teams = [team().shown.team]
        self.wanted_team: str | None = None
        self.trouble = ""
        self.did: list[str] = []

    def start(self) -> None:
        """Begin."""
        self.did.append("start")

    def close(self) -> None:
        """End."""
        self.did.append("close")

    def refresh_soon(self) -> None:
        """Remember it."""
        self.did.append("look")

    def drain(self) -> list[ReceivedEvent]:
        """Everything, once."""
        found, self.events = self.events, []
        return found

    def take_snapshot(self) -> Snapshot | None:
        """The look, once."""
        return self.looks.pop() if self.looks else None

    def take_team(self) -> TeamSnapshot | None:
        """The team, once."""
        found, self.team = self.team, None
        return found


class FakeActions:
    """Actions that only remember."""

    def __init__(self) -> None:
        self.did: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def action(*given: object) -> str:
            self.did.append((name, *(_name(each) for each in given)))
            return f"{name} done"

        return action


def _name(given: object) -> object:
    for field in ("name", "id", "team"):
        if hasattr(given, field):
            return getattr(given, field)
    return given
