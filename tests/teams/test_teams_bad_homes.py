"""The real `beam watch` over homes that are damaged, huge or hostile: it goes on, tells what is right, obeys none."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from beam.process import tree
from tests.support.cli import BEAM, Cli, eventually
from tests.teams.test_teams_watch import put, write_config

pytestmark = pytest.mark.acceptance
TEAM = "session-1"
BOB = {"name": "bob", "agentId": f"bob@{TEAM}", "joinedAt": 1}


class Watched:
    """A home with a living team, and `beam watch` over it, as JSON into a file and as text into another."""

    def __init__(self, beam: Cli, base: Path, lead: int) -> None:
        self.home = base / "claude"
        self._texts = (base / "json", base / "text")
        for folder in ("teams", "tasks/session-1", "sessions", "projects"):
            (self.home / folder).mkdir(parents=True)
        session = {"pid": lead, "procStart": str(tree.start_ticks(lead)), "sessionId": "sid"}
        (self.home / "sessions" / f"{lead}.json").write_text(json.dumps(session))
        write_config(self.home, TEAM, [BOB])
        self.processes = []
        for path, options in zip(self._texts, (["--json"], []), strict=True):
            with path.open("wb") as file:
                argv = [*BEAM, "watch", *options, "--claude-home", str(self.home)]
                self.processes.append(
                    subprocess.Popen(argv, cwd=beam.project, env=beam.env, stdout=file, stderr=subprocess.PIPE)
                )
        number = 0

        def watches() -> bool:
            nonlocal number
            number += 1
            self.task(f"ready-{number}")
            return all(b"ready-" in path.read_bytes() for path in self._texts)

        eventually(watches, 60, "beam watch does not begin")

    def task(self, task_id: str, **fields: Any) -> None:
        name = task_id.replace("/", "-")
        (self.home / f"tasks/session-1/{name}.json").write_text(json.dumps({"id": task_id, "subject": "s", **fields}))

    @property
    def events(self) -> list[dict[str, Any]]:
        data = self._texts[0].read_bytes()
        return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]

    @property
    def text(self) -> str:
        return self._texts[1].read_bytes().decode()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    def says(self, words: str) -> None:
        """The watch that prints text comes to these words, too."""
        eventually(lambda: words in self.text, 30, f"no {words!r} as text")

    def goes_on(self, mark: str) -> None:
        """Both still tell what comes next."""
        self.task(mark)
        eventually(lambda: any(one["task_id"] == mark for one in self.of("task.created")), 30, f"no {mark}")
        self.says(f"#{mark}")
        assert [process.poll() for process in self.processes] == [None, None]

    def end(self) -> list[int]:
        """Interrupts both: their exit codes. Nothing of theirs may be a traceback."""
        for process in self.processes:
            process.send_signal(signal.SIGINT)
        errors = [process.communicate(timeout=30)[1] for process in self.processes]
        assert not [error for error in errors if b"Traceback" in error or b"bug" in error]
        return [process.returncode for process in self.processes]

    def kill(self) -> None:
        """Ends what a test that failed left running."""
        for process in self.processes:
            if process.returncode is None:
                process.kill()
                process.communicate()


@pytest.fixture
def watched(beam: Cli, tmp_path: Path) -> Iterator[Watched]:
    found = Watched(beam, tmp_path / "watched", os.getpid())
    yield found
    found.kill()


def test_a_2_mb_inbox_of_a_thousand_messages_is_told_whole(watched: Watched) -> None:
    put(watched.home, "bob", [{"from": "a", "msg_id": f"m{n}", "text": f"{n} " + "x" * 2000} for n in range(1000)])
    assert (watched.home / "teams/session-1/inboxes/bob.json").stat().st_size > 2_000_000
    eventually(lambda: len(watched.of("mail.sent")) >= 1000, 60)
    put(watched.home, "bob", [])
    eventually(lambda: len(watched.of("mail.delivered")) >= 1000, 60)
    assert [event["mail_id"] for event in watched.of("mail.sent")] == [f"m{n}" for n in range(1000)]
    watched.goes_on("after")
    assert watched.end() == [-signal.SIGINT, -signal.SIGINT]


def test_a_configuration_that_vanishes_is_reported_and_ends_nothing(watched: Watched) -> None:
    (watched.home / "teams/session-1/config.json").unlink()
    eventually(lambda: "team_config_gone" in [event.get("code") for event in watched.events], 30)
    write_config(watched.home, TEAM, [BOB])
    watched.goes_on("after")
    assert watched.of("team.ended") == []
    shutil.rmtree(watched.home / "teams/session-1")
    eventually(lambda: len(watched.of("team.ended")) == 1, 30)
    watched.goes_on("later")


BROKEN: dict[str, bytes] = {
    "half": b'[{"from": "a", "te',
    "no list": b'{"from": 1}',
    "empty": b"",
    "zeros": b"\0" * 5000,
    "not utf-8": b'[{"from": "a\xff\xfe", "text": "\xc3"}]',
    "deep": b"[" * 100_000,
    "odd": b'[1, null, [], {"from": [], "text": {"a": 1}, "timestamp": 7, "msg_id": {}}]',
    "huge number": b'[{"timestamp": ' + b"9" * 10_000 + b"}]",
    "surrogate": b'[{"from": "\\ud800", "text": "\\udfff"}]',
}


def test_files_of_nonsense_are_left_alone_until_they_make_sense(watched: Watched) -> None:
    for number, data in enumerate(BROKEN.values()):
        (watched.home / f"teams/session-1/inboxes/n{number}.json").write_bytes(data)
        (watched.home / f"tasks/session-1/n{number}.json").write_bytes(data)
        (watched.home / f"sessions/{900_000 + number}.json").write_bytes(data)
        (watched.home / f"teams/t{number}").mkdir()
        (watched.home / f"teams/t{number}/config.json").write_bytes(data)
        (watched.home / f"projects/p{number}").mkdir()
        (watched.home / f"projects/p{number}/sid{number}.jsonl").write_bytes(data + b"\n")
    (watched.home / "teams/session-1/config.json").write_bytes(b'{"name": "session-1", "mem')
    watched.goes_on("between")
    put(watched.home, "n0", [{"from": "a", "msg_id": "m", "text": "right again"}])
    eventually(lambda: any(event["text"] == "right again" for event in watched.of("mail.sent")), 30)
    assert watched.of("team.ended") == [] and watched.of("member.left") == []


EVIL = (
    "../../../etc/passwd",
    "..",
    "/etc/passwd",
    "\x1b]0;owned\x07",
    "\x1b[2J\x9b31m",
    "a\nb\r\n@x",
    "\u202eevil",
    "$(id)",
    "",
)


def test_names_that_climb_and_texts_that_command_a_terminal_only_show(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    evil = [{"name": name, "agentId": name, "joinedAt": 5, "color": name, "prompt": name} for name in EVIL]
    write_config(watched.home, TEAM, [BOB, *evil])
    put(watched.home, "--", [{"from": name, "msg_id": f"m{n}", "text": name} for n, name in enumerate(EVIL)])
    for folder in ("esc\x1b[31m", "..."):
        (watched.home / "teams" / folder / "inboxes").mkdir(parents=True)
        value = {"name": "../../x", "leadSessionId": "../../../etc/passwd", "createdAt": 1}
        member = {"name": "x", "cwd": str(tmp_path / "outside")}
        (watched.home / "teams" / folder / "config.json").write_text(json.dumps({**value, "members": [member]}))
    watched.task("../../up", owner="\x1b[31m", description="\x07")
    (watched.home / "projects/-p").mkdir()
    said = {"type": "assistant", "timestamp": "2026-01-01T00:00:00.000Z", "message": {"content": []}}
    said["message"] = {"content": [{"type": "text", "text": "\x1b]52;c;aGk=\x07 \x1b[2J \r\nmy own line"}]}
    (watched.home / "projects/-p/sid.jsonl").write_text(json.dumps(said) + "\n")
    eventually(lambda: len(watched.of("mail.sent")) == len(EVIL), 30)
    eventually(lambda: any(event["text"].endswith("my own line") for event in watched.of("text")), 30)
    watched.goes_on("after")
    assert {event["member"] for event in watched.of("member.joined")} >= {*EVIL[:-1], "x"}
    assert not [char for char in watched.text if (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0]
    assert "\u202e" not in watched.text and "owned" in watched.text
    lines = [line for line in watched.text.splitlines() if not re.fullmatch(r"── [\d-]{10} ──", line)]
    assert all(line[2:3] == ":" and line[5:6] == ":" for line in lines)


def test_a_lead_that_is_killed_leaves_a_stale_team_and_orphans_with_their_names(beam: Cli, tmp_path: Path) -> None:
    lead = subprocess.Popen(["sleep", "600"])
    orphan = subprocess.Popen(["sh", "-c", "sleep 600; :", "x", "--agent-id", f"eve@{TEAM}"])
    with ExitStack() as left:
        left.callback(end, lead)
        left.callback(end, orphan)
        watched = Watched(beam, tmp_path / "watched", lead.pid)
        left.callback(watched.kill)
        eve = {"name": "eve", "agentId": f"eve@{TEAM}", "joinedAt": 2, "backendType": "tmux", "tmuxPaneId": "%1"}
        write_config(watched.home, TEAM, [BOB, eve])
        eventually(lambda: any(event["member"] == "eve" for event in watched.of("member.joined")), 30)
        end(lead)
        eventually(lambda: [event["pid"] for event in watched.of("team.stale")] == [lead.pid], 30)
        eventually(lambda: [event["pid"] for event in watched.of("member.orphaned")] == [orphan.pid], 30)
        watched.says("team is stale")
        watched.says("orphaned: its lead is gone and it runs on")
        (line,) = beam("team", "list", "--json", "--claude-home", str(watched.home)).lines
        assert line["state"] == "stale"
        watched.end()


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
