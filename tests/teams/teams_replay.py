"""Replays a recording of a team into a scratch home, at any speed, and says what it proves."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from beam.model.events import Event
from beam.process import tree
from beam.teams import hook
from beam.teams.watch import Teams

_TIME = re.compile(
    r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|(?<="joinedAt": )\d{13}|(?<="createdAt": )\d{13}'
    r'|(?<="startedAt":)\d{13}|(?<="statusUpdatedAt":)\d{13}'
)
RECORDINGS = Path(__file__).parent.parent / "recordings" / "claude-teams" / "2.1.197"
ALL = ("i1", "p1", "e1", "in-process", "tmux")
WITH_TRANSCRIPTS = ("in-process", "tmux")
MIN_PAUSE = 0.1  # seconds: a message may be in its inbox for so short a time, and the watcher must see it


@dataclass
class Proved:
    """What a recording's own files, hooks and transcripts prove to have happened."""

    mails: Counter[str] = field(default_factory=Counter)  # ids in inboxes, ever
    sent: set[str] = field(default_factory=set)  # ids that a sender's record has
    joined: set[tuple[str, int]] = field(default_factory=set)
    left: Counter[str] = field(default_factory=Counter)
    created: Counter[tuple[str, str]] = field(default_factory=Counter)
    completed: Counter[tuple[str, str]] = field(default_factory=Counter)
    started: Counter[tuple[str, str]] = field(default_factory=Counter)
    deleted: Counter[tuple[str, str]] = field(default_factory=Counter)
    claims: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    spawned: set[str] = field(default_factory=set)  # who a hook saw made


def lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        yield json.loads(line)


def hooks(name: str) -> list[tuple[float, dict[str, Any]]]:
    """(time, payload) of each hook call."""
    return [(line["t"], json.loads(line["raw"])) for line in lines(RECORDINGS / name / "hooks.jsonl")]


def first_value(text: str) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except ValueError:
        return None


def proved(name: str) -> Proved:
    """Read without beam: from versions and hooks."""
    found = Proved()
    tasks: dict[str, dict[str, Any]] = {}
    members: dict[str, set[tuple[str, int]]] = {}
    for line in lines(RECORDINGS / name / "versions.jsonl"):
        path, op, content = line["path"], line["op"], line["content"]
        parts = path.split("/")
        if ".lock" in path or ".highwatermark" in path:
            continue
        value = first_value(content) if op == "write" and content else None
        if parts[0] == "teams" and len(parts) == 4 and isinstance(value, list):
            for mail in value:
                found.mails[mail.get("msg_id", mail["text"])] = 1
        elif parts[0] == "teams" and parts[-1] == "config.json" and value:
            now = {(m["name"], m["joinedAt"]) for m in value["members"]}
            before = members.get(path, set())
            found.joined |= now - before
            for gone in before - now:
                found.left[gone[0]] += 1
            members[path] = now
        elif parts[0] == "teams" and parts[-1] == "config.json" and op == "delete":
            for gone in members.pop(path, set()):
                found.left[gone[0]] += 1
        elif parts[0] == "tasks" and len(parts) == 3 and op == "delete":
            found.deleted[parts[1], tasks.pop(path)["id"]] += 1
        elif parts[0] == "tasks" and len(parts) == 3 and value:
            old, task = tasks.get(path, {}), (parts[1], value["id"])
            found.created[task] += not old
            found.started[task] += value["status"] == "in_progress" != old.get("status")
            found.completed[task] += value["status"] == "completed" != old.get("status")
            if value.get("owner") and value["owner"] != old.get("owner"):
                found.claims[(*task, value["owner"])] += 1
            tasks[path] = value
    for _, payload in hooks(name):
        if payload.get("tool_name") == "SendMessage" and "msg_id" in payload.get("tool_response", ()):
            found.sent.add(payload["tool_response"]["msg_id"])
        if payload.get("tool_name") == "Agent" and payload["hook_event_name"] == "PostToolUse":
            found.spawned |= {payload["tool_response"]["name"]} if "team_name" in payload["tool_response"] else set()
    assert found.sent <= set(found.mails)
    return found


@dataclass
class Scratch:
    """A home that a recording is replayed into, and who watches it. `is_now`: its times are moved to those of the
    replay, as if it happened."""

    base: Path
    name: str
    is_now: bool = False
    seen: list[Event] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home = self.base / "claude"
        self.spool = self.base / "hooks"
        self.home.mkdir(parents=True)
        self.spool.mkdir()

    def teams(self, **given: Any) -> Teams:
        return Teams([str(self.home)], spool=self.spool, **given)

    def steps(self) -> list[tuple[float, dict[str, Any] | None, dict[str, Any] | None]]:
        """(time, version, hook payload) in order."""
        steps: list[tuple[float, dict[str, Any] | None, dict[str, Any] | None]] = [
            (line["t"], line, None) for line in lines(RECORDINGS / self.name / "versions.jsonl")
        ]
        steps += [(at, None, payload) for at, payload in hooks(self.name)]
        return sorted(steps, key=lambda step: step[0])

    def replay(
        self,
        speed: float | None,
        *,
        with_hooks: bool = True,
        skip: str = "",
        until: float = 1e12,
        pause: float = 3.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Does what the recording did; `speed` None is as fast as it goes. Pauses are cut to `pause` seconds of the
        recording, and waited for by `sleep`. A speed makes no pause shorter than `MIN_PAUSE`: on a busy machine, the
        watcher's thread may wait longer for a processor than the tenth of the time that a message was there."""
        last = None
        for at, version, payload in self.steps():
            if at > until:
                return
            if speed is not None and last is not None:
                took = min(at - last, pause)
                sleep(max(took / speed, min(took, MIN_PAUSE)))
            last = at
            if version is not None and not (skip and version["path"].startswith(skip)):
                self.do(version, at)
            elif payload is not None and with_hooks:
                self.call(payload, at)

    def do(self, version: dict[str, Any], at: float) -> None:
        name, op, content = version["path"], version["op"], self.here(version["content"], at)
        if name.startswith("sessions/"):
            name = f"sessions/{os.getpid()}.json"
        path = self.home / name
        match op:
            case "mkdir":
                path.mkdir(parents=True, exist_ok=True)
                if re.fullmatch("teams/[^/]*", name) and self.name not in WITH_TRANSCRIPTS:
                    self.lead(name.removeprefix("teams/session-"))
            case "append":
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as file:
                    file.write(content)
            case "write" if "/inboxes/" in name and content and path.exists():
                temporary = path.with_name(path.name + ".tmp.12345678")
                temporary.write_text(content)
                temporary.rename(path)
            case "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
            case "delete" if path.is_dir():
                path.rmdir()
            case "delete":
                path.unlink(missing_ok=True)

    def lead(self, session_id: str) -> None:
        """A living lead for a team whose recording has no register of sessions."""
        (self.home / "sessions").mkdir(exist_ok=True)
        ids = {p["session_id"] for _, p in hooks(self.name)}
        ids |= set(
            re.findall(
                '"leadSessionId": "([^"]*)"',
                json.dumps([v["content"] for _, v, _ in self.steps() if v]).replace('\\\\"', '"').replace('\\"', '"'),
            )
        )
        whole = next(one for one in ids if one.startswith(session_id))
        line = {"pid": os.getpid(), "sessionId": whole, "procStart": str(tree.start_ticks(os.getpid()))}
        (self.home / "sessions" / f"{session_id}.json").write_text(json.dumps(line))
        (self.home / "sessions" / f"{os.getpid()}.json").write_text(json.dumps(line))

    def here(self, content: str | None, at: float) -> str:
        text = (content or "").replace(f"/lab/runs/{self.name}/home/.claude", str(self.home))
        if self.is_now:
            text = _TIME.sub(lambda match: self.move(match[0], at), text)
        if '"procStart"' in text:
            text = re.sub(r'"pid":\d+', f'"pid":{os.getpid()}', text)
            text = re.sub(r'"procStart":"\d+"', f'"procStart":"{tree.start_ticks(os.getpid())}"', text)
        return text

    def call(self, payload: dict[str, Any], at: float) -> None:
        text = json.dumps({"at_ns": time.time_ns() if self.is_now else int(at * 1e9), "payload": payload})
        with (self.spool / hook.file_name(time.time_ns()).decode()).open("a") as file:
            file.write(self.here(text, at) + "\n")

    def move(self, when: str, at: float) -> str:
        """A time of the recording as it is in this replay, whose present is `at`; the same whenever it comes again."""
        if when not in self.moved:
            if when.isdigit():
                self.moved[when] = str(int(when) + int((time.time() - at) * 1000))
            else:
                then = datetime.fromisoformat(when) + timedelta(seconds=time.time() - at)
                self.moved[when] = then.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return self.moved[when]


def drain(teams: Teams, seen: list[Event], quiet: float = 0.3) -> None:
    """Takes events until none came for a while."""
    last = time.monotonic()
    while time.monotonic() - last < quiet:
        teams.wait(0.02)
        found = teams.poll()
        if found:
            seen += found
            last = time.monotonic()
    seen += teams.take_held_events()
