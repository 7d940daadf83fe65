"""A team in which something happens, and its events as lines: when, what, who, the key, the source, and all that the
event says and is not a default."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from beam.agents.claude.history import TranscriptLine, read
from beam.model.events import Event
from beam.teams.diff import Diff, Team
from beam.teams.model import HookCall, Mail, Member, Roster

H, T = "/home", "session-1"
S = 1_000_000_000
LEAD = Member(name="team-lead", agent_id="team-lead@x", cwd="/p", joined_ns=S)
BOB = Member(
    name="bob",
    agent_id="bob@x",
    kind="tester",
    model="haiku",
    colour="blue",
    backend="tmux",
    pane="%2",
    cwd="/q",
    prompt="test it",
    joined_ns=2 * S,
)
_CLOCK = re.compile(r"\d{13}$")
_HEADER = ("ts", "agent", "team", "home", "key", "source")


def told(events: Iterable[Event]) -> list[str]:
    """Return a line for each event; the time is minutes and seconds, "now" for one of the real clock."""
    return [_line_of(event) for event in events]


def _line_of(event: Event) -> str:
    rest = {
        field.encode_name: _shown(getattr(event, field.name))
        for field in msgspec.structs.fields(event)
        if field.name not in _HEADER and getattr(event, field.name) != field.default
    }
    team = getattr(event, "team", "") or "?"
    ts = event.ts[14:].removesuffix("Z").removesuffix(".000000") if event.ts.startswith("1970") else "now"
    who = (event.agent or "").removesuffix(f"@{team}")
    key = str(getattr(event, "key", "")).removeprefix(f"{team}/")
    if ts == "now":
        key = _CLOCK.sub("now", key)
    said = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in rest.items())
    return " ".join(
        [ts, str(event.__struct_config__.tag), who or "-", key or "-", getattr(event, "source", "") or "-", *said]
    )


def _shown(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    if isinstance(value, msgspec.Struct):
        return {name: got for name, got in msgspec.structs.asdict(value).items() if got is not None}
    return value


def tags(events: Iterable[Event]) -> list[str]:
    """Return only what happened."""
    return [str(event.__struct_config__.tag) for event in events]


def roster(*members: Member, **given: Any) -> Roster:
    """Return the configuration of the team."""
    fields = {"name": T, "created_ns": S, "lead_id": "team-lead@x", "session_id": "sid", **given}
    return Roster(**fields, members=members)


def started(*members: Member) -> tuple[Diff, Team]:
    """Return a team with these members beside its lead, whose start was told."""
    diff = Diff()
    diff.config(H, T, roster(LEAD, *members), S)
    diff.begin(S)
    return diff, diff.teams[H, T]


def frame(number: int, sender: str = "bob", at: int = 3, **value: Any) -> Mail:
    """Return a message of the team's own protocol."""
    text = json.dumps(value)
    return Mail(id=f"id-{number}", sender=sender, text=text, kind=value["type"], frame=value, sent_ns=at * S)


def line(second: int, kind: str = "user", content: object = "", **more: Any) -> TranscriptLine:
    """Return a line of a transcript."""
    message = {"content": content, **more.pop("message", {})}
    value = {"type": kind, "timestamp": f"1970-01-01T00:00:{second:02}.000Z", "message": message, **more}
    found = read(json.dumps(value).encode())
    assert found is not None
    return found


def hook(event: str, **given: Any) -> HookCall:
    """Return a call of a hook in the lead's session."""
    return HookCall(**{"at_ns": 4 * S, "event": event, "session_id": "sid", **given})
