"""What is refused in a root: links, other people's files; and no escape sequence gets to a terminal, whichever way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.claims import said_once
from tests.support.cli import Cli, Ended, eventually
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance

# Clears the screen, sets the title, both as C0 and as C1; and turns the direction of text around.
NASTY = "bad\x1b[2J\x1b]0;title\x07\x9b2J\x9d0;t\x9c\x7f\u202etxt"
FORBIDDEN = ("\x1b[2J", "\x1b]", "\x07", "\x9b", "\x9d", "\x7f", "\u202e")


def worker(cli: Cli, agent: str) -> Ended:
    """Runs the worker that would drain the agent's queue, to its end."""
    argv = [sys.executable, "-m", "beam.broker.serving.worker", str(cli.root), agent]
    done = subprocess.run(argv, cwd=cli.project, env=cli.env, capture_output=True, text=True, timeout=30, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def moved_and_linked(path: Path, to: Path) -> None:
    """The file or directory is elsewhere now, and a link to it in its place."""
    path.rename(to)
    path.symlink_to(to)


# -- links -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "linked",
    [
        "agents",
        "locks",
        *(f"agents/scripted{below}" for below in ("", "/queue", "/queue/new", "/control/new", "/journal")),
    ],
)
def test_a_link_in_the_place_of_a_directory_is_refused_by_all_who_write(beam: Cli, linked: str) -> None:
    assert beam("send", "scripted", "hello").code == 0
    before = beam.journal("scripted")
    moved_and_linked(beam.root / linked, beam.base / "elsewhere")
    sent = beam("send", "scripted", "again")
    assert sent.code == 74, sent
    said_once(sent, f"{beam.root / linked} is a symbolic link")
    put = beam("send", "scripted", "again", "--no-wait")
    assert (put.code, put.out) == (74, "")
    ended = worker(beam, "scripted")
    assert (ended.code, "symbolic link" in ended.err) == (74, True), ended
    assert "symbolic link" in (beam("status", "scripted", "--json").json["error"] or "")
    assert beam.journal("scripted") == before


def test_a_link_in_the_place_of_a_journals_file_is_neither_read_nor_written(beam: Cli) -> None:
    assert beam("send", "scripted", "hello").code == 0
    (segment,) = (beam.root / "agents" / "scripted" / "journal").glob("*.jsonl")
    moved_and_linked(segment, beam.base / "elsewhere")
    before = (beam.base / "elsewhere").read_bytes()
    for args in (["send", "scripted", "again"], ["log", "scripted"], ["log", "scripted", "--verify"]):
        done = beam(*args)
        assert done.code in (13, 74), (args, done)
        assert str(segment) in done.out + done.err, (args, done)
    assert (beam.base / "elsewhere").read_bytes() == before


def test_a_link_in_the_place_of_a_message_is_given_up_and_never_read(beam: Cli) -> None:
    message = beam("send", "scripted", "hello", "--json").json["message_id"]
    secret = beam.base / "secret"
    secret.write_text("the secret")
    name = f"{1:020d}-{message[:-4]}zzzz.json"
    (beam.root / "agents" / "scripted" / "queue" / "new" / name).symlink_to(secret)
    assert beam("send", "scripted", "next").out == "You said: next\n"
    assert beam.box("scripted", "new") == []
    assert b"the secret" not in beam.everything_written()
    assert secret.read_text() == "the secret"


def test_a_broker_leaves_an_agent_that_is_a_link_and_serves_the_others(beam: Cli) -> None:
    beam.config("agents:\n  a: {command: [cat]}\n  b: {command: [cat]}\n")
    for name in "ab":
        assert beam("send", name, "before").code == 0
    moved_and_linked(beam.root / "agents" / "a", beam.base / "elsewhere")
    assert beam("broker", "start").code == 0
    try:
        assert beam("send", "b", "after").out.strip() == "after"
        log = beam.root / "broker.log"
        eventually(lambda: "agents/a is a symbolic link" in log.read_text())
        assert beam("send", "a", "after").code == 74
    finally:
        assert beam("broker", "stop").code == 0


# -- owners and modes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["send", "put", "worker", "broker", "start", "status"])
def test_a_root_that_others_may_write_is_refused_by_everyone_who_starts(beam: Cli, who: str) -> None:
    assert beam("send", "scripted", "hello").code == 0
    beam.root.chmod(0o777)
    done = {
        "send": lambda: beam("send", "scripted", "x"),
        "put": lambda: beam("send", "scripted", "x", "--no-wait"),
        "worker": lambda: worker(beam, "scripted"),
        "broker": lambda: beam("broker"),
        "start": lambda: beam("broker", "start"),
        "status": lambda: beam("status"),
    }[who]()
    assert (done.code, done.out) == (74, "")
    assert f"chmod go-w {beam.root}" in done.err


def test_a_beam_yaml_that_others_may_write_is_refused_also_by_a_worker_and_a_running_broker(beam: Cli) -> None:
    beam.config("agents:\n  a: {command: [cat]}\n")
    assert beam("send", "a", "hello").code == 0
    assert beam("broker", "start").code == 0
    try:
        config = beam.project / "beam.yaml"
        config.write_text("agents:\n  a: {command: [echo, taken over]}\n")
        config.chmod(0o666)
        assert beam("send", "a", "x").code == 2
        assert worker(beam, "a").code == 2
        log = beam.root / "broker.log"
        eventually(lambda: "the old configuration stays" in log.read_text())
    finally:
        config.chmod(0o600)
        assert beam("broker", "stop").code == 0


def test_what_beam_makes_is_for_its_user_alone(beam: Cli) -> None:
    mask = os.umask(0)
    try:
        beam("send", "scripted", "hello")
        beam("send", "scripted", "hello", "--no-wait")
        assert beam("broker", "start").code == 0
        assert beam("broker", "stop").code == 0
    finally:
        os.umask(mask)
    open_ones = [path for path in beam.root.rglob("*") if path.lstat().st_mode & 0o077]
    assert open_ones == []


# -- the terminal ------------------------------------------------------------------------------------------------------


@pytest.fixture
def nasty(beam: Cli) -> Cli:
    """An agent that says escape sequences and fails with them, and one whose messages wait."""
    say = f"import sys; sys.stdin.read(); print({NASTY!r})"
    fail = f"import sys; sys.stdin.read(); sys.stderr.write({NASTY!r}); sys.exit(3)"
    (beam.project / "say.py").write_text(say)
    (beam.project / "fail.py").write_text(fail)
    beam.config(
        f"agents:\n  say: {{command: [{sys.executable}, say.py]}}\n  fail: {{command: [{sys.executable}, fail.py]}}\n"
        "  desk: {adapter: mailbox}\n  desk2: {adapter: mailbox}\n"
    )
    beam.env["PYTHONIOENCODING"] = "utf-8"
    for name in ("desk", "desk2"):
        beam("send", "say", NASTY, "--from", name, "--no-wait")
    beam("send", "scripted", NASTY)
    beam("send", "fail", "x")
    eventually(lambda: all(len(beam.box(name, "new")) == 1 for name in ("desk", "desk2")))
    return beam


WAYS = (
    ["send", "say", "x"],
    ["send", "say", "x", "--json"],
    ["send", "say", "x", "--events"],
    ["send", "fail", "x"],
    ["send", "fail", "x", "--json"],
    ["send", f"no{NASTY}", "x"],
    ["send", f"no{NASTY}", "x", "--json"],
    ["log", "say"],
    ["log", "say", "--json"],
    ["log", "scripted", "--raw"],
    ["log", "fail"],
    ["watch", "--now"],
    ["watch", "--now", "--json"],
    ["status"],
    ["status", "--json"],
    ["status", "--usage"],
    ["status", "--metrics"],
    ["queue", "list"],
    ["queue", "list", "--json"],
    ["agent", "show", "fail"],
    ["recv", "desk", "--json"],
    ["recv", "desk2"],
)


def test_escape_sequences_do_not_reach_a_terminal_on_any_way(nasty: Cli) -> None:
    for args in WAYS:
        terminal = Terminal(nasty, *args, env={"NO_COLOR": "1"})
        terminal.end()
        assert terminal.seen, args
        assert [sequence for sequence in FORBIDDEN if sequence in terminal.seen] == [], (args, terminal.seen)
