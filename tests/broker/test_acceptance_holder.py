"""`beam send --keep`: a holder that `status` shows keeps the agent's process for the next message, and gives way."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cli import Cli, eventually, is_held, processes_with
from tests.support.warm_agent import exits, kept, place, reasons, send, started

pytestmark = pytest.mark.acceptance


@pytest.fixture
def worker(beam: Cli) -> Iterator[Cli]:
    """beam with an agent `worker` whose process can be kept; nothing of it is left after the test."""
    place(beam)
    yield beam
    beam("agent", "release", "worker")
    beam("broker", "stop", "--grace", "0s")
    eventually(lambda: not processes_with(str(beam.base)), what="a process is left")


def until_gone(beam: Cli) -> None:
    """Wait until nobody holds the agent, and nothing of it runs."""
    eventually(lambda: not is_held(beam, "worker") and not processes_with(str(beam.base)))


def test_the_next_message_is_run_by_the_same_process_and_status_says_who_keeps_it(worker: Cli) -> None:
    first = send(worker, "--keep", "5m", "one")
    assert (first.code, first.out, first.err) == (0, "1 one small\n", "")
    held = kept(worker)
    assert held is not None and held["via"] == "dialogue" and held["until"] is not None
    assert held["holder"] in processes_with("beam.broker.serving.worker")
    assert f"by pid {held['holder']}" in worker("status", "worker").out
    assert send(worker, "two").out == "2 two small\n"
    assert [since for _, since in started(worker)] == [None, 1]
    assert {pid for pid, _ in started(worker)} == {held["pid"]}
    again = kept(worker)
    assert again is not None and again["holder"] == held["holder"]
    assert again["until"][:16] == held["until"][:16], "a message without --keep changes nothing"


def test_when_its_time_is_over_nothing_is_left(worker: Cli) -> None:
    send(worker, "--keep", "1s", "one")
    until_gone(worker)
    assert reasons(worker) == ["its time is over"] and kept(worker) is None


def test_a_later_keep_counts_from_then(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one")
    send(worker, "--keep", "1s", "two")
    until_gone(worker)
    assert reasons(worker) == ["its time is over"]
    assert [since for _, since in started(worker)] == [None, 1]


def test_release_closes_it_and_says_so_and_says_where_there_is_none(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one")
    ((pid, _),) = started(worker)
    done = worker("agent", "release", "worker")
    assert (done.code, done.out) == (0, "") and f"closed process {pid} of session" in done.err
    assert reasons(worker) == ["human released it"]
    until_gone(worker)
    again = worker("agent", "release", "worker")
    assert (again.code, again.err) == (0, "beam: no process of worker is kept\n")
    assert worker("agent", "release", "nobody").code == 4


def test_release_is_refused_while_a_turn_runs(worker: Cli) -> None:
    running = worker.start("send", "worker", "--via", "dialogue", "--keep", "5m", "hang")
    eventually(lambda: "prompt.sent" in worker.types("worker"))
    assert worker("agent", "release", "worker").code == 12
    assert worker("interrupt", "worker").code == 0
    running.communicate(timeout=30)
    until_gone(worker)


def test_a_sender_with_another_environment_gets_its_own(worker: Cli) -> None:
    assert send(worker, "--keep", "5m", "who", env={"WHO": "ann"}).out == "[ann]\n"
    assert send(worker, "who", env={"WHO": "bob"}).out == "[bob]\n"
    assert send(worker, "--keep", "5m", "who", env={"WHO": "cleo"}).out == "[cleo]\n"
    waits = send(worker, "--no-wait", "who", env={"WHO": "dora"}).out.strip()
    eventually(lambda: worker.box("worker", "new") == [])  # else who waits for it may run it, in an environment without
    assert worker("wait", waits).out == "[dora]\n"
    assert reasons(worker)[0] == reasons(worker)[2] == "the next turn comes from another environment"


def test_where_a_command_was_typed_is_no_other_environment(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one", env={"SHLVL": "1", "WINDOWID": "7"})
    send(worker, "two", env={"SHLVL": "2", "SSH_TTY": "/dev/pts/9"})
    assert [since for _, since in started(worker)] == [None, 1]


@pytest.mark.parametrize("words", [("--model", "big"), ("--new",), ("--via", "exec")])
def test_a_message_that_wants_another_process_is_left_to_its_sender(worker: Cli, words: tuple[str, ...]) -> None:
    send(worker, "--keep", "5m", "one")
    assert send(worker, *words, "two").code == 0
    assert [since for _, since in started(worker)] == [None, None]
    assert reasons(worker)[0] == "the next turn wants another session or other settings"
    until_gone(worker)


def test_a_changed_beam_yaml_counts_for_the_next_message(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one")
    worker.config("agents:\n  worker: {adapter: scripted, script: ./script.yaml, model: large}\n")
    assert send(worker, "two").out == "2 two large\n"
    assert [since for _, since in started(worker)] == [None, None]


def test_one_that_nobody_waits_for_is_run_after_a_while_and_said_where_its_environment_is_gone(worker: Cli) -> None:
    """Its sender is killed before it could start a worker of its own."""
    send(worker, "--keep", "5m", "who", env={"WHO": "ann"})
    holder = kept(worker)
    assert holder is not None
    sent = send(worker, "--no-wait", "who", env={"WHO": "bob", "BEAM_CRASH_AT": "put.published"})
    assert sent.code == 137
    eventually(lambda: worker.types("worker").count("turn.closed") == 2)
    notices = [event for event in worker.journal("worker") if event["type"] == "notice"]
    assert [notice["code"] for notice in notices] == ["environment"]
    until_gone(worker)


def test_it_gives_way_to_a_broker_which_keeps_its_own(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one")
    before = kept(worker)
    assert before is not None
    assert worker("broker", "start").code == 0
    eventually(lambda: reasons(worker) == ["a broker serves the agent from now on"])
    eventually(
        lambda: before["holder"] not in processes_with("beam.broker.serving.worker") and is_held(worker, "worker")
    )
    broker = worker("broker", "status", "--json").json["pid"]
    assert "own limits" in send(worker, "--keep", "5m", "two").err
    held = kept(worker)
    assert held is not None and held["holder"] == broker
    done = worker("agent", "release", "worker")
    assert done.code == 0 and "closed process" in done.err
    assert reasons(worker)[1] == "human released it" and kept(worker) is None


def test_a_terminal_is_kept_just_so(beam: Cli) -> None:
    beam.env["BEAM_TRUST"] = "1"
    assert beam("send", "python", "--keep", "5m", "x = 41").code == 0
    assert beam("send", "python", "x + 1").out == "42\n"
    held = kept(beam, "python")
    assert held is not None and held["via"] == "terminal"
    assert beam("agent", "release", "python").code == 0
    eventually(lambda: not processes_with(str(beam.base)))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--via", "exec"), 10, "exec mode has no process to keep; it has one with --via dialogue"),
        (("--via", "dialogue", "--once"), 2, "don't go together"),
    ],
)
def test_keep_is_refused_where_nothing_could_be_kept(worker: Cli, words: Any, code: int, said: str) -> None:
    done = worker("send", "worker", "--keep", "5m", *words, "one")
    assert done.code == code and said in done.err
    assert worker.box("worker", "new") == []


def test_an_agent_in_its_turn_keeps_no_process(worker: Cli) -> None:
    worker.config("agents:\n  worker: {adapter: scripted, script: ./script.yaml}\n  sh: {command: [sh]}\n")
    asked = worker("send", "sh", '"$BEAM_BIN" send worker --via dialogue --keep 5m hello; echo $?')
    assert asked.out == "2\n" and worker.journal("worker") == []


# -- killed ------------------------------------------------------------------------------------------------------------


def test_a_holder_that_is_killed_leaves_nothing_and_the_next_one_says_so(worker: Cli) -> None:
    send(worker, "--keep", "5m", "stray")
    held = kept(worker)
    assert held is not None
    os.kill(held["holder"], signal.SIGKILL)
    eventually(lambda: not processes_with(str(worker.base)))
    eventually(lambda: kept(worker) is None)  # its lock goes a moment after its memory
    assert exits(worker) == []
    assert send(worker, "two").out == "2 two small\n"
    first = exits(worker)[0]
    assert (first["pid"], first["turn"], first["stopped_by"]) == (held["pid"], None, "its holder went")


def test_a_holder_that_is_killed_in_a_turn_leaves_it_unknown_and_nothing_runs(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one")
    held = kept(worker)
    running = worker.start("send", "worker", "--via", "dialogue", "--json", "hang")
    eventually(lambda: worker.types("worker").count("prompt.sent") == 2)
    assert held is not None
    os.kill(held["holder"], signal.SIGKILL)
    running.communicate(timeout=30)
    assert running.returncode == 8
    until_gone(worker)
    assert send(worker, "two").code == 0


def test_a_process_that_is_killed_between_two_turns_is_replaced_by_the_next_sender(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one")
    ((pid, _),) = started(worker)
    os.kill(pid, signal.SIGKILL)
    until_gone(worker)
    (gone,) = exits(worker)
    assert (gone["turn"], gone["signal"], gone["stopped_by"]) == (None, "SIGKILL", None)
    assert send(worker, "two").out == "2 two small\n"


def test_a_process_that_dies_in_its_turn_is_a_crash_and_the_holder_goes(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one")
    assert send(worker, "--json", "die").json["class"] == "crashed"
    until_gone(worker)
    assert [since for _, since in started(worker)] == [None, 1]


def test_a_sender_that_is_interrupted_takes_its_message_along_and_the_process_goes(worker: Cli) -> None:
    running = worker.start("send", "worker", "--via", "dialogue", "--keep", "5m", "hang")
    eventually(lambda: "prompt.sent" in worker.types("worker"))
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert running.returncode == -signal.SIGINT
    until_gone(worker)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_holder_ends_politely_by_a_signal(worker: Cli, number: signal.Signals) -> None:
    send(worker, "--keep", "5m", "one")
    held = kept(worker)
    assert held is not None
    os.kill(held["holder"], number)
    until_gone(worker)
    assert reasons(worker) == ["its holder ends"]


def test_a_root_that_is_removed_ends_its_holder(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one")
    shutil.rmtree(worker.root)
    eventually(lambda: not processes_with(str(worker.base)))


BEFORE_THE_PROMPT = ("put.published", "claim.recorded", "turn.started", "agent.spawned", "agent.started")
NOBODY_KNOWS = ("prompt.sent", "prompt.written")
FINISHED = ("finish.recorded", "close.recorded", "removed")


@pytest.mark.parametrize("point", [*BEFORE_THE_PROMPT, *NOBODY_KNOWS, *FINISHED])
def test_a_holder_that_dies_at_a_step_leaves_what_the_table_says(worker: Cli, point: str) -> None:
    sent = worker(
        "send", "worker", "--via", "dialogue", "--keep", "5m", "--no-wait", "one", env={"BEAM_CRASH_AT": point}
    )
    assert sent.code in (0, 137)
    eventually(lambda: not processes_with(str(worker.base)))
    assert send(worker, "--keep", "1s", "two").code == 0
    until_gone(worker)
    statuses = [event["status"] for event in worker.journal("worker") if event["type"] == "turn.finished"]
    assert statuses == ["unknown" if point in NOBODY_KNOWS else "completed", "completed"]
