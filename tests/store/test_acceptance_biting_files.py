"""Files that bite: pipes, devices, holes and monstrous JSON in the place of every file. No command waits or crashes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.claims import said_once
from tests.support.cli import Cli, Ended, eventually, processes_with

pytestmark = pytest.mark.acceptance

HANGS_S = 30  # no command here has anything to wait for
FIRST = f"{1:020d}-worker-x.json"
IN_ROOT = (
    ".gitignore",
    "locks/worker",
    "broker.json",
    "broker.lock",
    "broker.log",
    "agents/worker/agent.json",
    f"agents/worker/queue/new/{FIRST}",
    f"agents/worker/queue/cur/{FIRST}",
    f"agents/worker/queue/dead/{FIRST}",
    "agents/worker/put.lock",
    "agents/worker/reserve",
    "agents/worker/control/new/x.json",
    "agents/worker/journal/000000000001.jsonl",
    "agents/worker/journal/.000000000009.jsonl.tmp",
    "agents/worker/worker.log",
)
IN_STATE = ("trust.json", "trust.lock", "roots/x", "cursors/c.json", "hooks/2026-01-01.jsonl")
OF_CLAUDE = (
    "teams/t/config.json",
    "teams/t/inboxes/a.json",
    "sessions/7.json",
    "tasks/t/1.json",
    "projects/p/a.jsonl",
    "settings.json",
)
PLACES = (
    *(f"root/{path}" for path in IN_ROOT),
    *(f"home/.local/state/beam/{path}" for path in IN_STATE),
    *(f"home/.claude/{path}" for path in OF_CLAUDE),
    "project/beam.yaml",
    "home/.config/beam/config.yaml",
)
COMMANDS = (
    ("send", "worker", "hi"),
    ("status",),
    ("queue", "list"),
    ("watch", "--now", "--all", "--after", "c"),
    ("team", "list"),
    ("agent", "list"),
    ("broker", "status"),
    ("trust",),
    ("team", "hook", "--install"),
)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as bound:
        os.chdir(path.parent)  # its name may be short, its path not
        bound.bind(path.name)
        os.chdir(here)


def holes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 << 30)


def deep_json(path: Path) -> None:
    path.write_bytes(b'{"a":' * 150_000)


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def where(beam: Cli, place: str) -> Path:
    """The path of a place."""
    return beam.root / place.removeprefix("root/") if place.startswith("root/") else beam.base / place


def put(path: Path, make: Callable[[Path], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)


@pytest.fixture
def bitten(beam: Cli) -> Cli:
    """A project with an agent that has had a turn."""
    beam.config("agents:\n  worker: {adapter: scripted}\n")
    assert beam("send", "worker", "before").code == 0
    assert beam("watch", "--now", "--after", "c").code == 0
    return beam


def survived(done: Ended) -> None:
    assert done.code in (0, 1, 2, 4, 8, 12, 13, 74), done
    assert "Traceback" not in done.err and "a bug in beam" not in done.err, done


@pytest.mark.parametrize("place", PLACES)
def test_a_pipe_in_the_place_of_any_file_keeps_no_command_waiting(bitten: Cli, place: str) -> None:
    put(where(bitten, place), a_pipe)
    for command in COMMANDS:
        survived(bitten(*command, timeout=HANGS_S))


@pytest.mark.parametrize("make", [holes, deep_json, a_link_to_a_device, a_socket])
@pytest.mark.parametrize(
    "place",
    [
        "project/beam.yaml",
        "root/broker.json",
        "root/agents/worker/agent.json",
        f"root/agents/worker/queue/new/{FIRST}",
        "root/agents/worker/control/new/x.json",
        "root/agents/worker/journal/000000000001.jsonl",
        "home/.local/state/beam/trust.json",
        "home/.local/state/beam/cursors/c.json",
        "home/.claude/teams/t/inboxes/a.json",
    ],
)
def test_what_is_no_file_of_ours_in_a_place_that_is_read_ends_no_command(
    bitten: Cli, place: str, make: Callable[[Path], None]
) -> None:
    put(where(bitten, place), make)
    for command in (("send", "worker", "hi"), ("status",), ("watch", "--now", "--after", "c"), ("queue", "list")):
        survived(bitten(*command, timeout=HANGS_S))


def test_damage_behind_a_journals_last_line_is_said_and_nothing_is_read_for_ever(bitten: Cli) -> None:
    segment = next((bitten.root / "agents/worker/journal").glob("*.jsonl"))
    os.truncate(segment, 8 << 30)
    done = bitten("send", "worker", "hi", timeout=HANGS_S)
    assert done.code == 74
    said_once(done, "damaged at byte", "--verify")


def test_a_broker_buries_what_bites_and_goes_on_with_the_rest(bitten: Cli) -> None:
    bitten.config("agents:\n  worker: {adapter: scripted}\n  other: {adapter: scripted}\n")
    bitten("queue", "pause", "worker")
    place = bitten.root / "agents/worker"
    biting = (a_pipe, a_socket, holes, deep_json, a_link_to_a_device, Path.mkdir)
    for number, make in enumerate(biting):
        put(place / "queue/new" / f"{number:020d}-worker-b{number}.json", make)
        put(place / "control/new" / f"b{number}.json", make)
    assert bitten("broker", "start").code == 0
    try:
        assert bitten("queue", "resume", "worker", timeout=HANGS_S).code == 0
        assert bitten("send", "worker", "hi", timeout=HANGS_S).out == "You said: hi\n"
        assert bitten("send", "other", "hi", timeout=HANGS_S).out == "You said: hi\n"
        assert bitten("broker", "status").code == 0
    finally:
        bitten("broker", "stop")
    assert bitten.box("worker", "dead") == [f"{n:020d}-worker-b{n}.json" for n in range(len(biting))]
    assert not any((place / "control/new").iterdir())
    events = bitten.journal("worker")
    assert len([event for event in events if event["type"] == "message.dead"]) == len(biting)
    assert len([event for event in events if event.get("code") == "bad_request"]) == len(biting)


def test_a_put_lock_at_its_maximum_loses_no_message(bitten: Cli) -> None:
    place = bitten.root / "agents/worker"
    (place / "put.lock").write_bytes(b"9" * 20)
    assert bitten("send", "worker", "one").out == "You said: one\n"
    (place / "put.lock").write_bytes(b"%020d" % (2**63 - 1))
    assert bitten("send", "worker", "two").out == "You said: two\n"


def test_a_message_with_an_impossible_position_is_a_dead_letter_and_the_rest_goes_on(bitten: Cli) -> None:
    bitten("queue", "pause", "worker")
    message = bitten("send", "worker", "--no-wait", "first").out.strip()
    new = bitten.root / "agents/worker/queue/new"
    data = next(new.iterdir()).read_bytes()
    (new / f"{'9' * 20}-worker-late.json").write_bytes(data.replace(message.encode(), b"worker-late"))
    assert bitten("send", "worker", "--no-wait", "second").code == 0
    bitten("queue", "resume", "worker")
    assert bitten("send", "worker", "third", timeout=HANGS_S).out == "You said: third\n"
    assert bitten.box("worker", "dead") == [f"{'9' * 20}-worker-late.json"]


def test_times_at_the_ends_of_the_calendar_are_no_crash(bitten: Cli) -> None:
    bitten.config("agents:\n  worker: {adapter: scripted}\n  desk: {adapter: mailbox}\n")
    for at in ("0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2262-04-11T23:47:17Z", "9999-12-31T23:59:59Z"):
        for agent in ("worker", "desk"):
            bitten("send", agent, "--no-wait", "hi")
            new = bitten.root / f"agents/{agent}/queue/new"
            for path in new.iterdir():
                message = json.loads(path.read_bytes())
                path.write_text(json.dumps({**message, "timestamp": at, "deadline": at}))
        for command in (("queue", "list"), ("status",), ("status", "--metrics"), ("recv", "desk"), ("watch", "--now")):
            survived(bitten(*command, timeout=HANGS_S))
        survived(bitten("send", "worker", "go on", timeout=HANGS_S))


def test_a_root_whose_path_is_no_utf8_works(beam: Cli) -> None:
    odd = os.fsdecode(os.fsencode(beam.base / "project") + b"/\xff\xfe")
    Path(odd).mkdir()
    home = shutil.copytree(beam.base / "home", os.path.join(beam.base, "h\udcfe"))  # noqa: PTH118 - bytes that are no UTF-8
    (Path(odd) / "beam.yaml").write_text("agents:\n  here: {command: [sh, -c, pwd]}\n")
    env = {"HOME": str(home), "BEAM_TRUST": "1"}

    def run(command: str) -> Ended:
        return beam.shell(f"cd {odd!r} && beam {command}" if odd.isascii() else f'cd "$ODD" && beam {command}', env=env)

    env["ODD"] = odd
    assert run("send here hi").code == 0
    assert run("send scripted hi").out == "You said: hi\n"
    for command in ("status --json", "log here --json", "doctor --json", "agent show here --json", "watch --now --all"):
        survived(run(command))
    assert run("broker start").code == 0
    assert run("broker status --json").json["pid"]
    assert run("send scripted again").out == "You said: again\n"
    assert run("broker stop").code == 0


def test_a_umask_of_777_leaves_what_beam_makes_to_its_owner(beam: Cli) -> None:
    script = (
        "umask 777; beam agent add mine scripted; beam send mine hi; beam send mine --no-wait later; beam trust --yes"
    )
    done = beam.shell(script)
    assert done.code == 0, done
    eventually(lambda: not processes_with(str(beam.base)), what="the second message is still run")
    made = [*beam.root.rglob("*"), *(beam.base / "home").rglob("*")]
    assert made
    for path in made:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.lstat().st_mode) & wanted == wanted, path


def test_a_pipe_that_a_person_names_is_read(beam: Cli) -> None:
    done = beam.shell("beam send scripted see -f <(echo from a pipe)")
    assert (done.code, done.out) == (0, "You said: see\n\nfrom a pipe\n")
    done = beam.shell("echo one > a; cat a | beam send scripted - -f <(cat a)")
    assert (done.code, done.out) == (0, "You said: one\n\none\n")


def test_a_schema_without_an_end_is_refused(beam: Cli) -> None:
    done = beam("send", "scripted", "hi", "--schema", "/dev/zero", timeout=HANGS_S)
    assert done.code == 7
    said_once(done, "/dev/zero holds more than")


def test_a_hook_whose_spool_is_a_pipe_is_in_nobodys_way(bitten: Cli) -> None:
    spool = bitten.base / "home/.local/state/beam/hooks"
    spool.mkdir(parents=True)
    day = bitten.shell("date -u +%Y-%m-%d").out.strip()
    os.mkfifo(spool / f"{day}.jsonl")
    assert bitten("team", "hook", stdin='{"hook_event_name": "Stop"}', timeout=HANGS_S).code == 0


def test_who_waits_for_a_purged_agent_is_told_and_the_command_says_so(beam: Cli) -> None:
    beam.config("agents:\n  asker: {adapter: mailbox}\n")
    assert beam("agent", "add", "doomed", "scripted").code == 0
    beam("queue", "pause", "doomed")
    message = beam("send", "doomed", "--no-wait", "hi").out.strip()
    beam("send", "doomed", "--no-wait", "hi", "--from", "asker")
    waiting = [beam.start("wait", message), beam.start("send", "doomed", "and me")]
    eventually(lambda: len(beam.box("doomed", "new")) == 3)
    asleep = Path(f"/proc/{waiting[0].pid}/wchan")
    eventually(
        lambda: "nanosleep" in asleep.read_text() or asleep.read_text() == "0",
        what="it looks again and again, and sleeps between",
    )
    done = beam("agent", "rm", "doomed", "--purge", timeout=HANGS_S)
    assert done.code == 0
    said_once(done, "3 waited", "are told")
    for process in waiting:
        _, err = process.communicate(timeout=HANGS_S)
        assert process.returncode in (4, 9), err
        assert b"doomed was removed with all its messages" in err
    told = beam("recv", "asker")
    assert "was removed with all its messages" in told.out


def test_who_waits_is_told_where_somebody_else_removed_the_agents_files(beam: Cli) -> None:
    assert beam("agent", "add", "doomed", "scripted").code == 0
    beam("queue", "pause", "doomed")
    waiting = beam.start("send", "doomed", "hi")
    eventually(lambda: len(beam.box("doomed", "new")) == 1)
    (beam.root / "agents/doomed").rename(beam.base / "away")
    _, err = waiting.communicate(timeout=HANGS_S)
    assert waiting.returncode == 4, err
    assert b"doomed was removed with all its messages" in err
