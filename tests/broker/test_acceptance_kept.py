"""With a broker an agent's terminal lives from turn to turn: the same process, and nothing of it left in the end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cli import BEAM_WORDS, Cli, eventually, is_held, processes_with

pytestmark = pytest.mark.acceptance


@pytest.fixture
def broker(beam: Cli) -> Iterator[Cli]:
    """beam with a broker that has the agents `python` and `bash`."""
    beam.env["BEAM_TRUST"] = "1"
    for agent in ("python", "bash"):
        assert beam("queue", "pause", agent).code == 0
        assert beam("queue", "resume", agent).code == 0
    assert beam("broker", "start").code == 0
    eventually(lambda: is_held(beam, "python") and is_held(beam, "bash"))
    yield beam
    beam("broker", "stop", "--grace", "0s")


def processes(beam: Cli, agent: str) -> list[tuple[int, int | None]]:
    """The agent's process in each turn: its pid, and the turn that started it where it was kept."""
    return [(event["pid"], event["since"]) for event in beam.journal(agent) if event["type"] == "agent.started"]


def exits(beam: Cli, agent: str) -> list[dict[str, Any]]:
    return [event for event in beam.journal(agent) if event["type"] == "agent.exited"]


def test_the_next_turn_types_into_the_same_process(broker: Cli) -> None:
    assert broker("send", "python", "x = 41").code == 0
    assert broker("send", "python", "x + 1").out == "42\n"
    (first, since), again = processes(broker, "python")
    assert (since, again) == (None, (first, 1))
    assert broker.types("python").count("agent.kept") == 2
    assert exits(broker, "python") == []
    line = broker("status", "python", "--json").json
    assert (line["state"], line["kept"]["pid"], line["kept"]["turn"]) == ("idle", first, 1)
    assert "terminal kept" in broker("status", "python").out


def test_the_broker_asks_it_to_quit_when_it_stops(broker: Cli) -> None:
    broker("send", "python", "import atexit; atexit.register(lambda: open('left', 'w').close())")
    assert broker("broker", "stop").code == 0
    (gone,) = exits(broker, "python")
    assert (gone["turn"], gone["code"], gone["stopped_by"]) == (None, 0, "the broker stops")
    assert (broker.project / "left").exists()
    assert not (broker.root / "agents" / "python" / "terminal.sock").exists()
    assert not processes_with(str(broker.base))


@pytest.mark.parametrize("how", ["pause", "reset", "setting", "new"])
def test_what_wants_another_one_ends_it(broker: Cli, how: str) -> None:
    broker("send", "python", "x = 41")
    if how == "pause":
        assert broker("queue", "pause", "python").code == 0
        eventually(lambda: len(exits(broker, "python")) == 1)
        assert broker("queue", "resume", "python").code == 0
    elif how == "reset":
        assert broker("agent", "reset", "python").code == 0
        eventually(lambda: len(exits(broker, "python")) == 1)
    elif how == "setting":
        assert broker("agent", "set", "python", "description=another").code == 0
    new = ("--new",) if how == "new" else ()
    assert "NameError" in broker("send", "python", *new, "x + 1").out
    pids = {pid for pid, _ in processes(broker, "python")}
    assert len(pids) == 2
    assert exits(broker, "python")[0]["stopped_by"] not in (None, "quit")


def test_one_that_exits_between_turns_is_said_and_the_next_turn_begins_afresh(broker: Cli) -> None:
    broker("send", "python", "import os, threading, time; y = 5")
    (pid, _), *_ = processes(broker, "python")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: len(exits(broker, "python")) == 1)
    (gone,) = exits(broker, "python")
    assert (gone["turn"], gone["pid"], gone["signal"], gone["stopped_by"]) == (None, pid, "SIGKILL", None)
    assert "NameError" in broker("send", "python", "y").out


def test_one_that_is_idle_too_long_ends(broker: Cli) -> None:
    (broker.project / "beam.yaml").write_text("agents: {python: {keep: 1s}}\n")
    broker("send", "python", "x = 1")
    eventually(lambda: len(exits(broker, "python")) == 1)
    assert exits(broker, "python")[0]["stopped_by"] == "no turn for 1s"


def test_one_that_may_not_be_kept_ends_with_its_turn(broker: Cli) -> None:
    (broker.project / "beam.yaml").write_text("agents: {python: {keep: 0}}\n")
    broker("send", "python", "x = 1")
    assert [event["turn"] for event in exits(broker, "python")] == [1]
    assert "agent.kept" not in broker.types("python")


def test_a_turn_that_was_stopped_keeps_nothing(broker: Cli) -> None:
    assert broker("send", "python", "--timeout", "2s", "import time; time.sleep(60)").code == 3
    assert "agent.kept" not in broker.types("python") and len(exits(broker, "python")) == 1


def test_a_broker_that_is_killed_leaves_nothing_and_the_next_holder_says_so(broker: Cli) -> None:
    broker("send", "bash", "(setsid sleep 300 &) ; x=41")
    ((pid, _),) = processes(broker, "bash")
    pid_of_broker = broker("broker", "status", "--json").json["pid"]
    os.kill(pid_of_broker, signal.SIGKILL)
    eventually(lambda: not processes_with(str(broker.base)))
    assert exits(broker, "bash") == []
    assert broker("send", "bash", "echo x=$x").out == "x=\n"
    gone = exits(broker, "bash")
    assert (gone[0]["pid"], gone[0]["turn"], gone[0]["stopped_by"]) == (pid, None, "its holder went")
    assert broker("status", "bash", "--json").json["kept"] is None


def test_what_runs_on_it_sends_for_the_turn_that_is_open(broker: Cli) -> None:
    broker.config("agents:\n  box: {adapter: mailbox}\n")
    broker("send", "bash", "true")
    asked = broker("send", "bash", f"{BEAM_WORDS} send box --no-wait one", "--json").json["message_id"]
    told = broker("recv", "box", "--json").json
    assert (told["from"], told["hops"], told["thread"]) == ("bash", 1, asked)
    said = broker("send", "bash", "echo [$BEAM_MESSAGE_ID$BEAM_HOPS] $BEAM_AGENT")
    assert said.out == "[] bash\n", "nothing of one message"


def test_what_runs_on_it_between_turns_may_not_send(broker: Cli) -> None:
    broker.config("agents:\n  box: {adapter: mailbox}\n")
    (broker.project / "later.sh").write_text(
        f"while [ ! -e go ]; do sleep 0.05; done\n{BEAM_WORDS} send box --no-wait hello > out 2>&1\necho $? > code\n"
    )
    broker("send", "bash", "sh later.sh > /dev/null 2>&1 &")
    eventually(lambda: "turn.closed" in broker.types("bash"))
    (broker.project / "go").touch()
    eventually(lambda: (broker.project / "code").exists() and (broker.project / "code").read_text() != "")
    assert (broker.project / "code").read_text() == "7\n"
    assert "not in a turn" in (broker.project / "out").read_text()


def test_what_waits_on_it_for_an_answer_is_told_when_the_turn_ends(broker: Cli) -> None:
    broker.config("agents:\n  box: {adapter: mailbox}\n")
    (broker.project / "ask.sh").write_text(f"{BEAM_WORDS} send box well? > out 2>&1\necho $? > code\n")
    box = broker.root / "agents" / "box" / "queue" / "new"
    is_waiting = f"ls {box}/* > is_waiting 2>&1"
    broker("send", "bash", f"sh ask.sh > /dev/null 2>&1 & until {is_waiting}; do sleep 0.05; done")
    eventually(lambda: (broker.project / "code").exists() and (broker.project / "code").read_text() != "")
    assert (broker.project / "code").read_text() == "12\n"
    assert "was sent; the turn that waited is over" in (broker.project / "out").read_text()
    assert len(broker.box("box", "new")) == 1


def test_another_face_ends_it_first(broker: Cli) -> None:
    broker.config("agents:\n  db: {command: [python3, db.py]}\n")
    (broker.project / "db.py").write_text(
        "import sys\nwhile sys.stdin.isatty(): print(eval(input('(db) ')))\nprint('piped', sys.stdin.read())"
    )
    broker("queue", "pause", "db")
    broker("queue", "resume", "db")
    eventually(lambda: is_held(broker, "db"))
    assert broker("send", "db", "--via", "terminal", "6 * 7").out == "42\n"
    assert broker("send", "db", "hello").out == "piped hello\n"
    first, _ = exits(broker, "db")
    assert first["stopped_by"] == "the next turn runs on the exec face"


def test_without_a_broker_it_ends_with_its_turn(beam: Cli) -> None:
    beam.env["BEAM_TRUST"] = "1"
    assert "NameError" in (beam("send", "python", "x = 1"), beam("send", "python", "x"))[1].out
    assert "agent.kept" not in beam.types("python")
    assert [event["turn"] for event in exits(beam, "python")] == [1, 2]
