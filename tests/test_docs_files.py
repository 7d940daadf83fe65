"""docs/files.md names every file that beam makes, and no other: what lies there during real runs and after them."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.api.test_acceptance_diff import CLAUDE
from tests.support import asking
from tests.support.cli import Cli, eventually
from tests.support.markdown import rows
from tests.support.painter import PAINTER
from tests.support.repository import make_repository

pytestmark = pytest.mark.acceptance
PAGE = (Path(__file__).parents[1] / "docs" / "files.md").read_text()
PLACEHOLDERS = {
    "agent": r"[a-z0-9][a-z0-9_-]{0,63}(?:[@+][a-z0-9][a-z0-9_-]*)?",
    "n": r"\d{20}",
    "id": r"[a-z0-9][a-z0-9_@-]*",
    "seq": r"\d{12}",
    "pid": r"\d+",
    "key": r"[0-9a-f]{32}",
    "key24": r"[0-9a-f]{24}",
    "lane": r"[a-z0-9]+",
    "cursor": r"[a-z0-9][a-z0-9_-]{0,63}",
    "hour": r"\d{4}-\d\d-\d\dT\d\d",
    "turn": r"\d+",
    "adapter": r"[a-z]+",
    "session": r"[A-Za-z0-9_-]+",
    "tid": r"\d+",
    "name": r"[a-z0-9][a-z0-9_-]*",
    "slug": r"[a-z0-9_-]+",
    "digest": r"[0-9a-f]{16}",
    "thread": r"[a-z0-9][a-z0-9_@-]*",
    "suffix": r"png|jpg|gif|webp",
    "xx": r"[0-9a-f]{2}",
    "place": r"[0-9a-f]{8}",
    "object": r"(?:[0-9a-f]{38}|tmp_obj_\w+)",
}
AGENTS = """
policy: {{usage_limit: wait}}
agents:
  limited: {{adapter: scripted, script: limited.yaml, pace: 1s}}
  stuck: {{adapter: scripted, script: stuck.yaml}}
  failing: {{command: ["false"]}}
  fresh: {{adapter: scripted}}
  shell: {{adapter: bash, record: true}}
  editor: {{adapter: claude, executable: {editor}, access: edit}}
  painter: {{command: [{python}, {painter}], protocol: acp, access: ask}}
  newer: {{adapter: qwen, executable: {newer}}}
"""


def documented(where: str) -> dict[str, bool]:
    """The patterns of one table, and whether a file of each lies there only for a moment."""
    table = PAGE.partition(f"<!-- paths: {where} -->")[2].partition("<!-- /paths -->")[0]
    return {row[0].removesuffix(" *").strip("`"): row[0].endswith("*") for row in rows(table)}


def expression(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression. A lane has the same files as its agent."""
    text = re.escape(pattern)
    if "<lane>" not in pattern:
        text = text.replace("agents/<agent>/", "agents/<agent>/(?:once/<lane>/)?")
    return re.compile(re.sub(r"<(\w+)>", lambda match: f"(?:{PLACEHOLDERS[match[1]]})", text))


@dataclass
class Seen:
    """What lay under a directory at any look, relative to it; directories end with a slash. What is in a root is a
    table of its own."""

    top: Path
    found: set[str] = field(default_factory=set)

    def look(self) -> None:
        for folder, names, files in os.walk(self.top):
            here = Path(folder).relative_to(self.top)
            if here.as_posix() == "projects":
                self.found |= {f"projects/{name}/" for name in names if "." not in name}
                names[:] = [name for name in names if "." in name]
            self.found |= {(here / name).as_posix() for name in files}
            self.found |= {f"{(here / name).as_posix()}/" for name in names if here.parent.suffix == ".turns"}
            if here.parent.parent.suffix == ".turns":
                names.clear()  # what is in it is its adapter's

    def check(self, where: str) -> None:
        """Every file has its row, and every row that is not for a moment had a file."""
        rows = {row: (expression(row), is_rare) for row, is_rare in documented(where).items()}
        assert rows
        unnamed = [path for path in self.found if not any(row.fullmatch(path) for row, _ in rows.values())]
        unseen = [
            name for name, (row, is_rare) in rows.items() if not is_rare and not any(map(row.fullmatch, self.found))
        ]
        assert (sorted(unnamed), unseen) == ([], [])


def test_every_file_of_real_runs_is_named_and_every_name_has_a_file(beam: Cli) -> None:
    root, state = Seen(beam.root), Seen(beam.base / "home" / ".local" / "state" / "beam")

    def look() -> None:
        root.look()
        state.look()

    asking.place(beam)
    editor = beam.base / "claude"
    editor.write_text(CLAUDE)
    editor.chmod(0o755)
    newer = beam.base / "newer"
    newer.write_text("#!/bin/sh\necho 99.0.0\nexit 1\n")
    newer.chmod(0o755)
    painter = beam.base / "painter.py"
    painter.write_text(PAINTER)
    agents = AGENTS.format(editor=editor, newer=newer, python=sys.executable, painter=painter)
    beam.config(agents + (beam.project / "beam.yaml").read_text().partition("agents:\n")[2])
    (beam.project / "stuck.yaml").write_text("replies: [[{hang: true}]]\n")
    (beam.project / "limited.yaml").write_text("default: [{fail: {class: rate_limit, reason: try again in 9 h}}]\n")
    own = beam.base / "home" / ".config" / "beam" / "config.yaml"
    own.parent.mkdir(parents=True)
    tells = f"until [ -e {beam.base}/may-tell ]; do sleep 0.05; done"
    own.write_text(
        f"notify: [{{command: [sh, -c, '{tells}'], on: [idle]}}, {{webhook: {{env: NOT_SET}}, on: [idle]}}]\n"
    )
    assert beam("trust", "--yes").code == 0
    assert beam("agent", "add", "desk", "mailbox").code == 0

    assert beam("send", "scripted", "one").code == beam("send", "scripted", "two").code == 0
    assert beam("--root", "../named", "send", "scripted", "one").code == 0
    assert beam("send", "scripted", "three", "--once").code == 0
    later = beam("send", "scripted", "four", "--no-wait").out.strip()
    assert beam("wait", later).code == 0
    assert beam("search", "four").code == 0
    notify = beam.root / "notify"
    eventually(lambda: bool(list(notify.glob("new/*.json"))), what="nobody is told")
    look()
    (beam.base / "may-tell").touch()

    assert beam("send", "scripted@put-away", "one").code == 0
    assert beam("agent", "archive", "scripted@put-away").code == 0
    look()

    asked = beam("send", "desk", "ready?", "--no-wait").out.strip()
    assert beam("recv", "desk").out == "ready?\n"
    look()
    assert beam("reply", asked, "yes").code == 0

    told = beam("send", "scripted", "tell the desk", "--from", "desk", "--no-wait").out.strip()
    assert beam("wait", told).code == 0
    assert beam("recv", "desk").code == 0

    make_repository(beam.project, beam.base / "home")
    assert beam("send", "editor", "write one").code == beam("diff", "editor").code == 0
    look()
    assert beam("send", "newer", "x", "--keep", "1s").code == 1
    look()

    assert beam("send", "painter", "a picture").code == 0
    assert beam("send", "shell", "true").code == 0
    assert beam("send", "failing", "x").code == 1
    (dead,) = [line["id"] for line in beam("queue", "list", "failing", "--json").lines]
    assert beam("queue", "retry", dead).code == 0
    look()

    cut_short(beam, look)
    asked_for(beam, look)
    assert beam("broker", "start").code == 0
    look()
    assert beam("broker", "stop").code == 0
    assert beam("send", "scripted", "five", "--no-wait", env={"BEAM_CRASH_AT": "put.written"}).code == 137
    look()
    assert beam("send", "fresh", "x", env={"BEAM_CRASH_AT": "segment.written"}).code == 137
    look()

    late = beam("send", "limited", "x", "--no-wait").out.strip()
    eventually(lambda: "message.requeued" in beam.types("limited"))
    assert beam("queue", "drop", late).code == 0

    assert beam("watch", "--now", "--json", "--after", "mine", "--type", "none").code == 0
    assert beam("team", "hook", "--install").code == 0
    assert beam("team", "hook", stdin='{"hook_event_name": "Stop"}').code == 0
    for box in ("done", "dead"):
        eventually(lambda box=box: bool(list(notify.glob(f"{box}/*.json"))), what=f"nothing is in {box}")
    look()

    root.check("root")
    state.check("state")
    for name in ("queue/tmp/<n>-<id>.json", "journal/.<seq>.jsonl.tmp"):
        assert any(map(expression(f"agents/<agent>/{name}").fullmatch, root.found)), name
    scratch = "projects/<slug>-<digest>.turns/<agent>/<key>/"
    assert any(map(expression(scratch).fullmatch, state.found)), state.found


def cut_short(beam: Cli, look: Callable[[], None]) -> None:
    """A turn that hangs, a message behind it: looked at while the holder stands still, then interrupted."""
    running = beam.start("send", "stuck", "x")
    eventually(lambda: "status" in beam.types("stuck"), what="the agent hangs")
    os.kill(running.pid, signal.SIGSTOP)
    try:
        assert beam("send", "stuck", "y", "--no-wait").code == 0
        interrupting = beam.start("interrupt", "stuck")
        requests = beam.root / "agents" / "stuck" / "control" / "new"
        eventually(lambda: any(requests.iterdir()), what="the request is there")
        look()
    finally:
        os.kill(running.pid, signal.SIGCONT)
    assert interrupting.wait(20) == 0
    assert running.wait(20) == 9
    for process in (interrupting, running):
        process.communicate()
    (other,) = [line["id"] for line in beam("queue", "list", "stuck", "--json").lines]
    assert beam("interrupt", other).code == 0


def asked_for(beam: Cli, look: Callable[[], None]) -> None:
    """A turn that waits for a decision."""
    process, ask = asking.started(beam)
    look()
    assert beam("deny", ask["id"]).code == 0
    process.communicate()
    assert process.returncode == 0


def test_the_page_says_where_the_root_and_the_settings_are(beam: Cli) -> None:
    assert beam("send", "scripted", "x", "--root", "../elsewhere").code == 2
    assert beam("--root", "../elsewhere", "send", "scripted", "x").code == 0
    assert (beam.base / "elsewhere" / "agents" / "scripted").is_dir()
    assert beam("status", env={"BEAM_ROOT": "../nowhere"}).code == 0
    assert not (beam.base / "nowhere").exists()
