"""Requests to the process of an agent from any shell: in its turn, and while it is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cli import Cli, eventually, processes_with
from tests.support.warm_agent import kept, place, send, started

pytestmark = pytest.mark.acceptance


@pytest.fixture
def worker(beam: Cli) -> Iterator[Cli]:
    """beam with an agent `worker` that takes such requests."""
    place(beam)
    yield beam
    beam("agent", "release", "worker")
    beam("broker", "stop", "--grace", "0s")
    eventually(lambda: not processes_with(str(beam.base)), what="a process is left")


def answers(beam: Cli, verb: str) -> list[tuple[bool, str]]:
    """The answers to requests of that kind: whether it was done, and the code."""
    found = [event for event in beam.journal("worker") if event["type"] == "control.done"]
    return [(event["ok"], event["code"]) for event in found if event["verb"] == verb]


@pytest.mark.parametrize("holder", ["sender", "keep", "broker"])
def test_a_text_for_the_running_turn_is_read_in_it(worker: Cli, holder: str) -> None:
    if holder == "broker":
        assert worker("broker", "start").code == 0
    keep = ("--keep", "5m") if holder == "keep" else ()
    running = worker.start("send", "worker", "--via", "dialogue", *keep, "listen")
    eventually(lambda: "text.delta" in worker.types("worker"))
    told = worker("send", "worker", "--steer", "mind the tests")
    assert (told.code, told.out) == (0, "") and "the agent has read the text" in told.err
    out, _ = running.communicate(timeout=60)
    assert out == b"told mind the tests\n"
    assert answers(worker, "steer") == [(True, "")]


def test_a_text_that_the_turn_never_came_to_is_not_said_to_be_read(worker: Cli) -> None:
    running = worker.start("send", "worker", "--via", "dialogue", "hang")
    eventually(lambda: "status" in " ".join(worker.types("worker")))
    telling = worker.start("send", "worker", "--steer", "never read")
    control = worker.root / "agents" / "worker" / "control" / "new"
    eventually(lambda: any(control.iterdir()))
    assert worker("interrupt", "worker").code == 0
    _, err = telling.communicate(timeout=60)
    assert telling.returncode == 12, err
    running.communicate(timeout=60)
    assert answers(worker, "steer") == [(False, "unfinished")]
    assert not any(control.iterdir())


def test_a_text_without_a_turn_that_takes_it_is_refused(worker: Cli) -> None:
    assert worker("send", "worker", "--steer", "hello").code == 4
    running = worker.start("send", "worker", "--via", "exec", "hang")
    eventually(lambda: "prompt.sent" in worker.types("worker"))
    refused = worker("send", "worker", "--steer", "hello")
    assert refused.code == 10 and "exec mode" in refused.err
    worker("interrupt", "worker")
    running.communicate(timeout=60)


def test_an_option_of_a_message_is_refused_beside_steer(worker: Cli) -> None:
    refused = worker("send", "worker", "--steer", "--model", "big", "hello")
    assert refused.code == 2 and "--steer and --model don't go together" in refused.err


def test_another_model_is_given_to_the_kept_process_which_stays(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one")
    done = worker("agent", "set", "worker", "model=big")
    assert done.code == 0 and "the running process has it from the next turn on" in done.err
    assert send(worker, "two").out == "2 two big\n"
    assert [since for _, since in started(worker)] == [None, 1]
    assert worker("agent", "show", "worker", "--live", "--json").json == {"models": ["big"]}
    assert "big" in worker("agent", "show", "worker", "--live").out


def test_another_model_of_the_process_alone_stays_with_it(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one")
    assert worker("agent", "set", "worker", "--live", "model=big").code == 0
    assert send(worker, "two").out == "2 two big\n"
    assert [since for _, since in started(worker)] == [None, 1]


def test_another_model_in_a_turn_is_that_of_the_next_one_in_the_same_process(worker: Cli) -> None:
    running = worker.start("send", "worker", "--via", "dialogue", "--keep", "5m", "listen")
    eventually(lambda: "text.delta" in worker.types("worker"))
    assert worker("agent", "set", "worker", "model=big").code == 0
    assert worker("send", "worker", "--steer", "go on").code == 0
    running.communicate(timeout=60)
    assert send(worker, "two").out == "2 two big\n"
    assert [since for _, since in started(worker)] == [None, 1]


def test_what_the_process_has_not_is_refused_and_changes_nothing(worker: Cli) -> None:
    send(worker, "--keep", "5m", "one")
    before = kept(worker)
    refused = worker("agent", "set", "worker", "--live", "effort=high")
    assert refused.code == 10 and "no 'effort'" in refused.err
    assert kept(worker) == before
    assert not (worker.root / "agents" / "worker" / "agent.json").exists()


@pytest.mark.parametrize("words", [("show", "worker", "--live"), ("set", "worker", "--live", "model=big")])
def test_without_a_process_there_is_nobody_to_ask(worker: Cli, words: tuple[str, ...]) -> None:
    assert send(worker, "one").code == 0
    refused = worker("agent", *words)
    assert refused.code == 4 and "--keep" in refused.err


def test_a_process_with_a_terminal_takes_no_such_request(beam: Cli) -> None:
    beam.env["BEAM_TRUST"] = "1"
    beam("send", "python", "--keep", "5m", "x = 41")
    assert beam("agent", "show", "python", "--live").code == 10
    assert beam("agent", "release", "python").code == 0
    eventually(lambda: not processes_with(str(beam.base)))


def test_an_agent_in_its_turn_tells_no_other_turn_anything(worker: Cli) -> None:
    worker.config("agents:\n  worker: {adapter: scripted, script: ./script.yaml}\n  sh: {command: [sh]}\n")
    assert worker("send", "sh", '"$BEAM_BIN" send worker --steer hello; echo $?').out == "2\n"
