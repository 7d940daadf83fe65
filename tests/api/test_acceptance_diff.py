"""`beam diff`: what changed in the work tree since a turn of an agent CLI began."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.repository import make_repository
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance
CLAUDE = """\
#!/bin/sh
prompt=$(cat)
while [ $# -gt 0 ]; do case "$1" in --session-id|--resume) session=$2;; esac; shift; done
case "$prompt" in write\\ *) echo "made by the agent" >> "${prompt#write }";; esac
printf '{"type":"system","subtype":"init","session_id":"%s","model":"m","tools":[]}\\n' "$session"
printf '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"%s"}\\n' "$session"
"""


@pytest.fixture
def shop(beam: Cli) -> Cli:
    """A git repository with an agent whose CLI appends a line to the file that its prompt names."""
    make_repository(beam.project, beam.base / "home")
    script = beam.base / "claude"
    script.write_text(CLAUDE)
    script.chmod(0o755)
    beam.config(f"agents: {{claude: {{executable: {script}, access: edit}}}}\n")
    return beam


def send(shop: Cli, text: str, *options: str) -> str:
    done = shop("send", "claude", text, "--json", *options)
    assert (done.code, done.json["status"]) == (0, "completed"), done
    found: str = done.json["message_id"]
    return found


def test_it_prints_what_changed_since_the_last_turn_began_the_session_a_turn_or_a_message(shop: Cli) -> None:
    (shop.project / "README.md").write_text("Changed by a person before.\n")
    first = send(shop, "write one")
    send(shop, "write two")
    (shop.project / "mine").write_text("by a person since\n")
    done = shop("diff", "claude")
    assert done.code == 0 and "+made by the agent" in done.out and "README" not in done.out
    assert (shop("diff").out, shop("diff", "--turn", "1").code, shop("diff", "--session").code) == (done.out, 2, 2)
    assert [line for line in done.out.splitlines() if line.startswith("+++")] == ["+++ b/mine", "+++ b/two"]
    for words in (("--session",), ("--turn", "1")):
        assert shop("diff", "claude", *words, "--stat").out.splitlines() == ["+1 -0\tmine", "+1 -0\tone", "+1 -0\ttwo"]
    found = shop("diff", first, "--json").json
    assert (found["agent"], found["turn"], found["folder"]) == ("claude", 1, str(shop.project))
    assert [file["path"] for file in found["files"]] == ["mine", "one", "two"]
    subprocess.run(["git", "apply", "--check", "--reverse"], cwd=shop.project, input=done.out.encode(), check=True)


def test_of_temporary_sessions_that_run_at_the_same_time_each_has_its_own(shop: Cli) -> None:
    one = send(shop, "write one", "--once")
    two = send(shop, "write two", "--once")
    assert shop("diff", two, "--stat").out == "+1 -0\ttwo\n"
    assert shop("diff", one, "--stat").out == "+1 -0\tone\n+1 -0\ttwo\n"


def test_nothing_changed_is_reported_and_is_no_failure(shop: Cli) -> None:
    send(shop, "nothing")
    done = shop("diff", "claude")
    assert (done.code, done.out) == (0, "") and "nothing changed" in done.err


def test_where_no_snapshot_was_made_the_reason_is_reported(shop: Cli) -> None:
    send(shop, "nothing", "--access", "read")
    assert (shop("diff", "claude").code, "access above `read`" in shop("diff", "claude").err) == (4, True)
    assert shop("diff", "claude", "--turn", "7").code == 4
    assert shop("diff", "claude", "--turn", "1", "--session").code == 2
    (shop.project / "large").write_bytes(b"x")
    (shop.root / "snapshots").write_text("in the way")
    send(shop, "write one")
    done = shop("diff", "claude")
    assert done.code == 4 and "no snapshot of the work tree was made then" in done.err


def test_a_name_that_a_terminal_would_obey_is_only_shown(shop: Cli) -> None:
    send(shop, "nothing")
    (shop.project / "a\x1b[31mb").write_text("x\x1b]0;title\x07\n")
    for words in ((), ("--stat",)):
        terminal = Terminal(shop, "diff", "claude", *words)
        assert terminal.end() == 0
        assert "\x1b[31m" not in terminal.seen and "title\x07" not in terminal.seen and "31mb" in terminal.seen


def test_old_snapshots_are_removed_with_gc(shop: Cli) -> None:
    send(shop, "write one")
    assert Path(shop.root / "snapshots" / "index-claude").exists()
    assert shop("doctor", "--gc", "--older-than", "0s").code == 0
    assert not (shop.root / "snapshots").exists()
    done = shop("diff", "claude")
    assert done.code != 0 and json.loads(shop("status", "claude", "--json").out)["agent"] == "claude"
    send(shop, "write two")
    assert shop("diff", "claude", "--stat").out == "+1 -0\ttwo\n"
