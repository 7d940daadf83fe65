"""Where a root lies, whose it is, and that nothing in a folder is state: with the real beam, and hostile folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec import UNSET, structs

from beam import Beam, UnfinishedError
from beam.model.message import Message, Options, Payload, Recording, RuleLists, decode, encode
from tests.support.claims import refused
from tests.support.cli import Cli, eventually, is_held
from tests.support.moved import moved_root
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance

ECHO = "agents:\n  echo: {command: [sh, -c, 'echo ran >> \"$HOME/ran\"; pwd; cat']}\n"
SIX = "agents:\n  echo: {command: [cat]}\n"


def planted(root: Path, agent: str, text: str, *, access: str | None = "full", sender: str = "human") -> Path:
    """A message in the queue of a root, as somebody else would put it there."""
    for box in ("tmp", "new", "cur", "dead"):
        (root / "agents" / agent / "queue" / box).mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in (root, *(each for each in root.rglob("*") if each.is_dir())):
        path.chmod(0o700)
    message = Message(
        id=f"{agent}-planted1",
        timestamp="2026-01-01T00:00:00.000000Z",
        sender=sender,
        to=agent,
        payload=Payload(text=text, attach=("/etc/hostname",)),
        thread="t",
        options=Options(access=access),  # type: ignore[arg-type]
    )
    path = root / "agents" / agent / "queue" / "new" / f"{1:020d}-{message.id}.json"
    path.write_bytes(encode(message))
    return path


def ran(beam: Cli) -> int:
    """How often the agent `echo` ran."""
    path = beam.base / "home" / "ran"
    return len(path.read_text().splitlines()) if path.exists() else 0


def old(beam: Cli) -> Path:
    """What looks like state of beam in the project folder."""
    return beam.project / ".beam"


def was_moved(beam: Cli) -> Path:
    """The root that the project folder had under another name."""
    return moved_root(None, beam.project, beam.env)


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


# -- a folder that somebody else packed --------------------------------------------------------------------------------


def test_a_message_that_came_with_a_cloned_repository_is_never_run(beam: Cli) -> None:
    """The attack of the trial: a clone holds a queue, and the first `beam send` in it ran what was planted."""
    packed = beam.base / "packed"
    packed.mkdir()
    planted(packed / ".beam", "echo", "PLANTED")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main"]
    for args in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *args], cwd=packed, check=True, env={**beam.env})
    beam.project.rmdir()
    subprocess.run([*git, "clone", "-q", packed, beam.project], check=True, env={**beam.env})
    beam.config(ECHO)
    done = beam("send", "echo", "mine", "--json")
    assert (done.code, done.json["reply"].splitlines()[-1]) == (0, "mine")
    assert ran(beam) == 1
    assert "PLANTED" not in done.out + "".join(map(str, beam.journal("echo")))
    assert list((old(beam) / "agents" / "echo" / "queue" / "new").iterdir())


@pytest.mark.parametrize("args", [("status",), ("queue", "list"), ("watch", "--now"), ("agent", "list"), ("asks",)])
def test_a_root_that_came_with_a_folder_is_named_and_read_by_nothing(beam: Cli, args: tuple[str, ...]) -> None:
    planted(old(beam), "scripted", "PLANTED")
    (old(beam) / "agents" / "scripted" / "agent.json").write_text('{"adapter": "command", "command": ["PLANTED"]}')
    before = files_of(old(beam))
    done = beam(*args)
    assert done.code == 0, done
    assert f"{old(beam)} is not read" in done.err
    assert beam("doctor", "--adopt", "--yes").code == 0 and not beam.box("scripted", "new")
    assert "PLANTED" not in done.out + done.err
    assert files_of(old(beam)) == before


def test_an_old_root_that_may_not_be_looked_into_is_no_crash(beam: Cli) -> None:
    old(beam).write_text("a file")
    assert beam("status").code == 0
    old(beam).unlink()
    old(beam).symlink_to(old(beam))
    assert beam("status").code == 0


# -- doctor --adopt ----------------------------------------------------------------------------------------------------


def test_adopt_shows_all_that_would_run_asks_and_then_copies_it(beam: Cli) -> None:
    beam.config(ECHO)
    text = "first line\n" + "x" * 3000 + "\n\x1b[2Jrm -rf\u202e evil"
    before = was_moved(beam)
    planted(before, "echo", text, sender="a\nforged")
    settings = '{"adapter": "command",\n "command": ["cat", "\x1b[31m"]}'
    (before / "agents" / "echo" / "agent.json").write_text(settings)
    there = Terminal(beam, "doctor", "--adopt", columns=200)
    there.until("run what waits? [y/N] ")
    for shown in (
        f"{before}: it is of this very folder, under the name /before",
        '    agent.json:  "command": ["cat", "␛[31m"]}',
        "    waits, from a forged, with access full, attaching /etc/hostname:",
        "      | first line",
        "      | " + "x" * 3000,
        "      | ␛[2Jrm -rf<U+202E> evil",
    ):
        assert shown in there.seen, (shown, there.seen)
    assert "\x1b[2J" not in there.seen and "\u202e" not in there.seen
    there.type("n\n")
    assert there.end() == 2
    assert beam.box("echo", "new") == [] and before.is_dir()

    there = Terminal(beam, "doctor", "--adopt", columns=200)
    there.until("[y/N] ")
    there.type("y\n")
    assert there.end() == 0, there.seen
    assert beam.box("echo", "new") == [f"{1:020d}-echo-planted1.json"]
    assert not before.exists()
    assert ran(beam) == 0


def test_adopt_shows_the_rules_and_the_recording_that_a_waiting_message_brings(beam: Cli) -> None:
    beam.config(ECHO)
    before = was_moved(beam)
    path = planted(before, "echo", "Look at the README.", access="read")
    message = decode(path.read_bytes())
    rules = RuleLists(allow=("Bash(*)",))
    options = structs.replace(message.options, rules=rules, recording=Recording(replay="/tmp/theirs\x1b[8m"))
    path.write_bytes(encode(structs.replace(message, options=options, original=UNSET)))
    there = Terminal(beam, "doctor", "--adopt", columns=200)
    there.until("[y/N] ")
    assert '      rules: {"deny": [], "ask": [], "allow": ["Bash(*)"]}' in there.seen, there.seen
    assert '"replay": "/tmp/theirs' in there.seen and "\x1b[8m" not in there.seen
    there.type("n\n")
    assert there.end() == 2


def test_a_message_that_changed_since_it_was_shown_is_not_adopted(beam: Cli) -> None:
    beam.config(ECHO)
    before = was_moved(beam)
    path = planted(before, "echo", "Look at the README.", access="read")
    with Beam(cwd=beam.project, environ=beam.env) as there:
        (candidate,) = there.adoptable()
        message = decode(path.read_bytes())
        options = structs.replace(message.options, rules=RuleLists(allow=("Bash(*)",)))
        path.write_bytes(encode(structs.replace(message, options=options, original=UNSET)))
        with pytest.raises(UnfinishedError, match="was changed since it was shown"):
            there.adopt(candidate)
    assert beam.box("echo", "new") == [] and path.exists()


def test_adopt_without_a_terminal_does_nothing_but_with_yes(beam: Cli) -> None:
    before = was_moved(beam)
    planted(before, "scripted", "hello")
    done = beam("doctor", "--adopt")
    assert (done.code, "      | hello" in done.out) == (2, True)
    assert before.is_dir() and not beam.root.exists()
    assert beam("doctor", "--adopt", "--yes").code == 0
    assert not before.exists() and len(beam.box("scripted", "new")) == 1


def test_an_agent_that_is_adopted_goes_on_and_its_settings_need_no_new_trust(beam: Cli) -> None:
    assert beam("agent", "add", "shout", "--command", "tr a-z A-Z").code == 0
    assert beam("send", "shout", "one").out == "ONE\n"
    beam.project.rename(beam.base / "again")
    beam.project.mkdir()
    again = ("-C", "../again")
    done = beam(*again, "doctor", "--adopt", "--yes")
    assert (done.code, "adopted shout" in done.err) == (0, True), done
    assert beam(*again, "send", "shout", "two", "--json").json["turn"] == 2
    assert not beam.root.exists()


def test_a_name_that_is_taken_is_left_where_it_is(beam: Cli) -> None:
    assert beam("send", "scripted", "mine").code == 0
    before = was_moved(beam)
    planted(before, "scripted", "other")
    planted(before, "second", "other")
    done = beam("doctor", "--adopt", "--yes")
    assert (done.code, "left scripted" in done.err, "adopted second" in done.err) == (0, True, True), done
    assert beam.box("scripted", "new") == [] and beam.box("second", "new")
    assert [path.name for path in (before / "agents").iterdir()] == ["scripted"]


@pytest.mark.parametrize("what", ["link", "linked agent", "fifo", "fifo in a queue", "linked message", "linked locks"])
def test_what_beam_does_not_make_is_refused_and_named(beam: Cli, what: str) -> None:
    before = was_moved(beam)
    message = planted(before, "scripted", "hello")
    agent = before / "agents" / "scripted"
    secret = beam.base / "secret"
    secret.mkdir()
    (secret / "key").write_text("the secret")
    made = {
        "link": agent / "note",
        "linked agent": before / "agents" / "other",
        "fifo": agent / "pipe",
        "fifo in a queue": message.with_name(f"{2:020d}-scripted-planted2.json"),
        "linked message": message.with_name(f"{2:020d}-scripted-planted2.json"),
        "linked locks": before / "locks",
    }[what]
    if "fifo" in what:
        os.mkfifo(made)
    else:
        made.symlink_to(secret / "key" if what == "linked message" else secret)
    done = beam("doctor", "--adopt", "--yes", timeout=20)
    assert done.code == 74, done
    assert str(made) in done.err, done
    assert beam.box("scripted", "new") == []
    assert b"the secret" not in beam.everything_written()
    assert message.exists()


def test_an_agent_that_is_held_is_not_adopted(beam: Cli) -> None:
    beam.config("agents:\n  slow: {command: [sleep, '60']}\n")
    moved = beam.base / "moved"
    running = beam.start("send", "slow", "x")
    eventually(lambda: beam.root.exists() and "prompt.sent" in beam.types("slow"))
    beam.project.rename(moved)
    beam.project.mkdir()
    refused_ = beam("-C", str(moved), "doctor", "--adopt", "--yes")
    assert (refused_.code, "slow is held" in refused_.err) == (12, True), refused_
    assert is_held(beam, "slow")
    running.terminate()
    running.communicate()


# -- folders that move -------------------------------------------------------------------------------------------------


def test_a_moved_folder_is_named_by_the_next_command_and_merged_by_doctor_alone(beam: Cli) -> None:
    assert beam("send", "scripted", "hello").code == 0
    beam.project.rename(beam.base / "after")
    beam.project.mkdir()
    said = beam("-C", "../after", "status")
    assert f"this folder was known as {beam.project}" in said.err and "beam doctor --adopt" in said.err
    assert "scripted" not in said.out
    assert beam("-C", "../after", "send", "other", "x", "--no-wait").code == 4
    assert beam("-C", "../after", "send", "bash", "true").code in (0, 4)
    assert "known as" in beam("-C", "../after", "doctor", "--adopt", "--yes").out + said.err
    assert beam("-C", "../after", "log", "scripted").out.count("hello") >= 1


def test_a_folder_that_is_mounted_twice_is_named_by_its_inode(beam: Cli) -> None:
    assert beam("send", "scripted", "hello").code == 0
    mounted = beam.base / "mounted"
    mounted.mkdir()
    run = f'mount --bind "{beam.project}" "{mounted}" && exec "$0" -m beam -C "{mounted}" status'
    import sys

    done = subprocess.run(
        ["unshare", "--mount", "--user", "--map-root-user", "sh", "-c", run, sys.executable],
        cwd=beam.project, env=beam.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode and "beam" not in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr.strip()}")
    assert f"this folder was known as {beam.project}" in done.stderr, done
    assert "scripted" not in done.stdout


def test_two_worktrees_have_two_roots_and_their_agents_work_in_their_own_tree(beam: Cli) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    for args in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", "sub/tree"]):
        subprocess.run([*git, *args], cwd=beam.project, check=True, env=beam.env)
    assert beam("agent", "add", "where", "--command", "pwd").code == 0
    tree = beam.project / "sub" / "tree"
    assert beam("-C", str(tree), "agent", "add", "where", "--command", "pwd").code == 0
    assert beam("-C", str(beam.project / "sub"), "send", "where", "x").out == f"{beam.project}\n"
    assert beam("-C", str(tree), "send", "where", "x").out == f"{tree}\n"
    roots = {beam("-C", str(each), "root").out for each in (beam.project, beam.project / "sub", tree)}
    assert len(roots) == 2


def test_agents_of_two_worktrees_work_side_by_side_and_each_command_names_the_folder(beam: Cli) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    for args in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", "sub/tree"]):
        subprocess.run([*git, *args], cwd=beam.project, check=True, env=beam.env)
    trees = [beam.project, beam.project / "sub" / "tree"]
    here = "touch here; until [ -e {other}/here ]; do sleep 0.05; done; git rev-parse --show-toplevel"
    for tree, other in zip(trees, reversed(trees), strict=True):
        run = ["sh", "-c", here.format(other=other)]
        (tree / "beam.yaml").write_text(f"agents:\n  where: {{command: {json.dumps(run)}}}\n")
    beam.env["BEAM_TRUST"] = "1"
    sent = [beam.start("-C", str(tree), "send", "where", "x") for tree in trees]
    for tree, process in zip(trees, sent, strict=True):
        out, _ = process.communicate(timeout=60)
        assert out.decode() == f"{tree}\n", "each waits for the other, so both ran at once, in their own tree"
        told = beam("-v", "-C", str(tree), "send", "where", "again")
        assert (told.out, f"where works in {tree}\n" in told.err) == (f"{tree}\n", True)
        (tree / "below").mkdir()
        for args in (["-v", "-C", str(tree)], ["-C", str(tree / "below")], ["-C", str(tree)]):
            assert beam(*args, "status").err.startswith(f"beam: the agents of {tree} on branch ")
        assert beam("-C", str(tree), "status", "--json").json["folder"] == str(tree)
        assert re.search(rf"^folder\s+{tree}$", beam("-C", str(tree), "agent", "show", "where").out, re.MULTILINE)


def test_an_agent_with_a_folder_of_its_own_is_told_with_it(beam: Cli) -> None:
    (beam.project / "sub").mkdir()
    beam.config("agents:\n  deep: {command: [pwd], cwd: sub}\n  top: {command: [pwd]}\n")
    for agent, folder in (("deep", beam.project / "sub"), ("top", beam.project)):
        assert beam("send", agent, "x").out == f"{folder}\n"
        assert beam("status", agent, "--json").json["folder"] == str(folder)
    deep, top = beam("status").out.splitlines()[1:]
    assert f"in {beam.project / 'sub'}" in deep
    assert str(beam.project) not in top


# -- beam root ---------------------------------------------------------------------------------------------------------


def test_beam_root_prints_the_path_and_list_those_whose_folder_is_gone(beam: Cli) -> None:
    assert beam("root").out == f"{beam.root}\n"
    assert not beam.root.exists()
    assert beam("send", "scripted", "hello").code == 0
    assert beam.shell("ls $(beam root)/agents").out == "scripted\n"
    other = beam.base / "other"
    other.mkdir()
    assert beam("-C", str(other), "send", "scripted", "x").code == 0
    shutil.rmtree(other)
    lines = {line["project"]: line for line in beam("root", "list", "--json").lines}
    assert {path: line["exists"] for path, line in lines.items()} == {str(beam.project): True, str(other): False}
    assert f"{other} (gone)" in beam("root", "list").out
    assert beam("root", "lost").code == 2


def test_remove_root_removes_a_root_of_ones_own_and_nothing_else(beam: Cli) -> None:
    assert beam("send", "scripted", "hello").code == 0
    (beam.base / "kept").mkdir()
    (beam.base / "kept" / "agents").mkdir()
    assert beam("doctor", "--remove-root", str(beam.base / "kept"), "--yes").code == 4
    assert beam("doctor", "--remove-root", str(beam.root)).code == 2
    assert beam.root.is_dir()
    there = Terminal(beam, "doctor", "--remove-root", str(beam.root))
    there.until("[y/N] ")
    there.type("y\n")
    assert there.end() == 0
    assert not beam.root.exists()
    assert beam("root", "list").out.count("\n") <= 1


def test_remove_root_keeps_waiting_messages_unless_it_is_sure_and_what_is_not_beams(beam: Cli) -> None:
    named = beam.base / "cache"
    assert beam("--root", str(named), "send", "desk", "x", "--no-wait").code == 4
    assert beam("--root", str(named), "agent", "add", "desk", "mailbox").code == 0
    assert beam("--root", str(named), "send", "desk", "x", "--no-wait").code == 0
    (named / "notes.txt").write_text("mine")
    there = Terminal(beam, "doctor", "--remove-root", str(named))
    there.until("[y/N] ")
    there.type("y\n")
    assert there.end() == 2 and "1 messages wait" in there.seen
    done = beam("doctor", "--remove-root", f"{named}/../cache", "--yes")
    assert (done.code, "what else is in it stays" in done.err) == (0, True), done
    assert [path.name for path in named.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("verb", ["--adopt", "--remove-root"])
def test_an_agent_neither_adopts_nor_removes_a_root(beam: Cli, verb: str) -> None:
    before = was_moved(beam)
    planted(before, "scripted", "hello")
    assert beam("send", "scripted", "x").code == 0
    args = [verb, "--yes"] if verb == "--adopt" else [verb, str(beam.root), "--yes"]
    env = {"BEAM_AGENT": "a", "BEAM_ROOT": str(beam.root), "BEAM_HOPS": "0"}
    done = beam("doctor", *args, env=env)
    assert (done.code, "only a person" in done.err) == (2, True), done
    assert before.is_dir() and beam.root.is_dir()


# -- moved by the user -------------------------------------------------------------------------------------------------


def test_state_dir_in_ones_own_configuration_and_beam_state_move_the_state(beam: Cli) -> None:
    own = beam.base / "home" / ".config" / "beam"
    own.mkdir(parents=True)
    (own / "config.yaml").write_text("state_dir: ~/elsewhere\n")
    assert beam("send", "scripted", "hello").code == 0
    where = beam.base / "home" / "elsewhere" / "projects"
    assert Path(beam("root").out.strip()).parent == where
    assert len([path for path in where.iterdir() if "." not in path.name]) == 1
    later = beam("send", "scripted", "later", "--no-wait").out.strip()
    assert beam("wait", later).out == "You said: later\n"
    assert not (beam.base / "home" / ".local").exists()
    env = {"BEAM_STATE": str(beam.base / "third")}
    assert beam("send", "scripted", "hello", env=env).code == 0
    assert (beam.base / "third" / "projects").is_dir()
    assert beam("status", env={"BEAM_STATE": "relative"}).code == 2


def test_a_folders_own_configuration_can_not_move_the_state(beam: Cli) -> None:
    beam.config("state_dir: /tmp/x\n")
    done = beam("send", "scripted", "hello")
    assert (done.code, "only your own configuration" in done.err, "BEAM_STATE" in done.err) == (2, True, True), done


def test_a_home_that_can_not_be_written_is_refused_and_nothing_is_written_elsewhere(beam: Cli) -> None:
    before = files_of(beam.base)
    env = {"HOME": "/proc", "TMPDIR": str(beam.base)}
    for args in (("send", "scripted", "x"), ("send", "scripted", "x", "--no-wait"), ("agent", "add", "d", "mailbox")):
        done = beam(*args, env=env)
        assert done.code == 74, done
        assert "/proc/" in done.err and "--root" in done.err and "BEAM_STATE" in done.err, done
    assert files_of(beam.base) == before
    assert beam("status", env=env).code == 0
    assert beam("send", "scripted", "x", env={**env, "BEAM_STATE": str(beam.base / "state")}).code == 0


# -- a root that is named ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["wait", "worker", "broker"])
def test_a_turn_with_a_root_elsewhere_works_in_the_project_folder(beam: Cli, how: str) -> None:
    beam.config('agents:\n  where: {command: [sh, -c, \'pwd; echo "$BEAM_PROJECT"; echo "$BEAM_ROOT"\']}\n')
    (beam.base / "elsewhere").mkdir()
    root = beam.base / "elsewhere" / "cache"
    named = ("--root", str(root))
    if how == "broker":
        assert beam(*named, "broker", "start").code == 0
    if how == "wait":
        done = beam(*named, "send", "where", "x")
    else:
        done = beam(*named, "wait", beam(*named, "send", "where", "x", "--no-wait").out.strip())
    if how == "broker":
        assert beam(*named, "broker", "stop").code == 0
    assert done.out == f"{beam.project}\n{beam.project}\n{root}\n", done
    assert {path.name for path in (beam.base / "elsewhere").iterdir()} <= {"cache", "cache.turns"}
    assert [path.name for path in beam.project.iterdir()] == ["beam.yaml"]


def test_a_root_in_the_project_folder_is_said_and_gives_read_at_the_most(beam: Cli) -> None:
    beam.config("agents:\n  echo: {command: [cat]}\n  calm: {command: [cat], access: read}\n")
    inside = ("--root", "state")
    done = beam(*inside, "send", "echo", "hello")
    assert done.code == 10, done
    assert f"the root {beam.project}/state lies in {beam.project}, where agents may write" in done.err
    assert "access read at the most" in done.err
    assert beam(*inside, "send", "calm", "hello").out == "hello\n"
    assert beam(*inside, "-q", "status").err == ""


def test_what_an_agent_plants_in_an_exposed_root_is_not_run(beam: Cli) -> None:
    beam.config(ECHO)
    inside = ("--root", "state")
    assert beam(*inside, "send", "desk", "x").code == 4
    assert beam(*inside, "agent", "add", "desk", "mailbox").code == 0
    planted(beam.project / "state", "echo", "PLANTED")
    beam(*inside, "send", "echo", "mine")
    assert ran(beam) == 0
    settings = {"adapter": "command", "access": "read", "command": ["touch", str(beam.base / "planted")]}
    (beam.project / "state" / "agents" / "sly").mkdir(mode=0o700)
    (beam.project / "state" / "agents" / "sly" / "agent.json").write_text(json.dumps(settings))
    done = beam(*inside, "send", "sly", "x")
    assert (done.code, "where agents may write" in done.err) == (2, True), done
    assert not (beam.base / "planted").exists()
    (beam.project / "state" / "agents" / "bash").mkdir(mode=0o700)
    (beam.project / "state" / "agents" / "bash" / "agent.json").write_text('{"access": "read"}')
    done = beam(*inside, "send", "bash", f"touch {beam.base}/planted")
    assert (done.code, "where agents may write" in done.err) == (2, True), done
    assert not (beam.base / "planted").exists()


@pytest.mark.parametrize("access", ["ask", "edit", "full"])
def test_an_access_that_an_exposed_root_would_lower_is_refused_at_once(beam: Cli, access: str) -> None:
    done = beam("-q", "--root", "state", "send", "claude", "x", "--access", access, env={"PATH": fake_claude(beam)})
    refused(done, 2, f"--access {access}", "where agents may write", "BEAM_STATE")
    assert not (beam.project / "state").exists()


def fake_claude(beam: Cli) -> str:
    """A PATH with a `claude` that must not run."""
    folder = beam.base / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "claude").write_text("#!/bin/sh\ntouch ran-claude\n")
    (folder / "claude").chmod(0o700)
    return f"{folder}:{beam.env['PATH']}"


def test_a_root_that_came_with_a_folder_does_not_send_agents_elsewhere(beam: Cli) -> None:
    beam.config(SIX)
    elsewhere = beam.base / "elsewhere"
    elsewhere.mkdir()
    root = beam.project / "ci" / "state"
    planted(root, "echo", "PLANTED")
    (root / "locks").mkdir()
    (root / "threads").mkdir()
    claim = {"path": str(elsewhere), "device": 1, "inode": 1}
    (root / "project.json").write_text(json.dumps(claim))
    done = beam("--root", "ci/state", "send", "echo", "x")
    refused(done, 2, str(elsewhere), "outside of both")


def test_a_project_with_a_folder_called_agents_is_not_taken_for_a_root(beam: Cli) -> None:
    (beam.project / "agents").mkdir()
    (beam.project / "main.py").write_text("")
    refused(beam("--root", ".", "send", "scripted", "x"), 2, "not a root of beam")
    assert files_of(beam.project) == {"agents", "main.py"}


# -- a folder that is gone ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["send", "put", "broker", "start"])
def test_a_root_whose_folder_is_gone_is_refused_with_the_way_out(beam: Cli, verb: str) -> None:
    named = ("--root", str(beam.base / "cache"))
    other = beam.base / "other"
    other.mkdir()
    assert beam("-C", str(other), *named, "send", "scripted", "x").code == 0
    other.rename(beam.base / "moved")
    args = {
        "send": ("send", "scripted", "x"),
        "put": ("send", "scripted", "x", "--no-wait"),
        "broker": ("broker",),
        "start": ("broker", "start"),
    }[verb]
    refused(beam(*named, *args), 74, f"the folder {other} is gone", "doctor --adopt", "--remove-root")
    assert beam(*named, "status").code == 0
    done = beam("-C", str(beam.base / "moved"), *named, "doctor", "--adopt", "--yes")
    assert (done.code, f"it is of {other}, which is gone" in done.out) == (0, True), done
    assert beam(*named, "send", "scripted", "x").code == 0
    assert json.loads((beam.base / "cache" / "project.json").read_text())["path"] == str(beam.base / "moved")


def test_doctor_says_that_a_folder_was_replaced_by_another(beam: Cli) -> None:
    assert beam("send", "scripted", "x").code == 0
    beam.project.rename(beam.base / "before")
    beam.project.mkdir()
    assert "is not the folder for which" in beam("doctor").out
    assert beam("doctor", "--adopt", "--yes").code == 0
    assert "is another folder" not in beam("doctor").out


# -- what a turn has for itself ----------------------------------------------------------------------------------------


def test_the_folder_of_a_turn_lies_beside_the_root_and_goes_with_it_or_with_its_agent(beam: Cli) -> None:
    beam.config("agents:\n  slow: {command: [sleep, '60']}\n")
    assert beam("send", "scripted", "x", "--once").code == 0
    assert list(beam.home.turns.rglob("*")) == []
    running = beam.start("send", "slow", "x")
    eventually(lambda: beam.root.exists() and "prompt.sent" in beam.types("slow"))
    (folder,) = (beam.home.turns / "slow").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not list(beam.root.rglob(folder.name))
    running.kill()
    running.communicate()
    assert folder.is_dir()
    eventually(lambda: beam("agent", "rm", "slow", "--purge").code == 0)
    assert not folder.parent.exists()


def test_status_of_all_roots_knows_the_agents_that_each_folder_declares(beam: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "beam.yaml").write_text("agents:\n  theirs: {command: [cat]}\n")
    added = (("agent", "add", "mine", "--command", "cat"), ("send", "mine", "hi"), ("send", "theirs", "hi"))
    assert [beam("-C", str(other), *words, env={"BEAM_TRUST": "1"}).code for words in added] == [0, 0, 0]
    lines = {line["agent"]: line for line in beam("status", "--all", "--json").lines if "agent" in line}
    assert [(lines[name]["adapter"], lines[name].get("error")) for name in ("mine", "theirs")] == [
        ("command", None)
    ] * 2
    (other / "beam.yaml").write_text("agents: [\n")
    assert beam("status", "--all").code == 0
