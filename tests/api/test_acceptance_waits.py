"""Scripts that wait: for several messages, for a state of agents, for the end of all work; one message's journal."""

from __future__ import annotations

import signal

import pytest

from tests.support.asking import place, started
from tests.support.claims import refused, said_once
from tests.support.cli import Cli, Started, asleep, eventually

pytestmark = pytest.mark.acceptance

AGENTS = """
agents:
  quick: {command: [cat]}
  gated: {command: [sh, -c, "while ! test -e gate; do sleep 0.02; done; cat"]}
  bad: {command: [sh, -c, "exit 3"]}
  desk: {adapter: mailbox}
"""


@pytest.fixture
def crew(beam: Cli) -> Cli:
    beam.config(AGENTS)
    return beam


def put(beam: Cli, agent: str, text: str = "hi") -> str:
    return beam("send", agent, "--no-wait", text).out.strip()


def code_of(process: Started) -> int:
    process.communicate(timeout=20)
    return process.returncode


# -- several messages --------------------------------------------------------------------------------------------------


def test_any_prints_the_first_answer_and_the_others_go_on(crew: Cli) -> None:
    slow, quick = put(crew, "gated", "late"), put(crew, "quick", "early")
    done = crew("wait", "--any", slow, quick)
    assert (done.code, done.out) == (0, "early\n")
    (crew.project / "gate").touch()
    assert crew("wait", slow).out == "late\n"


def test_all_prints_each_answer_under_its_id_and_fails_if_one_failed(crew: Cli) -> None:
    (crew.project / "gate").touch()
    one, two, three = put(crew, "quick", "one"), put(crew, "gated", "two"), put(crew, "bad")
    done = crew("wait", one, two, three)
    assert done.code == 1
    assert f"==> {one} <==\none\n" in done.out
    assert f"==> {two} <==\ntwo\n" in done.out
    said_once(done, "bad: failed (crashed)")
    done = crew("wait", "--all", one, two, "--json")
    assert (done.code, {line["message_id"] for line in done.lines}) == (0, {one, two})


def test_the_same_message_named_twice_is_waited_for_once(crew: Cli) -> None:
    one = put(crew, "quick", "one")
    assert crew("wait", one, one[-6:], "--json").lines[0]["message_id"] == one
    assert len(crew("wait", one, one[-6:], "--json").lines) == 1


def test_a_time_limit_for_several_stops_nothing(crew: Cli) -> None:
    slow, quick = put(crew, "gated", "late"), crew("send", "quick", "early", "--json").json["message_id"]
    done = crew("wait", slow, quick, "--timeout", "200ms")
    assert (done.code, "early\n" in done.out) == (12, True)
    (crew.project / "gate").touch()
    assert crew("wait", slow).code == 0


def test_c_while_several_are_waited_for_leaves_them_running(crew: Cli) -> None:
    slow, quick = put(crew, "gated", "late"), put(crew, "quick", "early")
    waiting = crew.start("wait", slow, quick)
    assert waiting.stdout is not None
    while waiting.stdout.readline() != b"early\n":
        pass
    waiting.send_signal(signal.SIGINT)
    assert code_of(waiting) == -signal.SIGINT
    (crew.project / "gate").touch()
    assert crew("wait", slow).out == "late\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no message to wait for"),
        (("--any", "--all", "x"), "--any and --all don't go together"),
        (("--until", "idle"), "--until needs --agent"),
        (("--agent", "quick"), "--agent needs --until"),
        (("--agent", "quick", "--until", "done"), "--until done: unknown state"),
        (("--agent", "quick", "--until", "idle", "some-id"), "don't go together"),
    ],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], said: str, crew: Cli) -> None:
    refused(crew("wait", *words), 2, said)


def test_a_message_that_is_not_there_is_named(crew: Cli) -> None:
    refused(crew("wait", put(crew, "quick"), "quick-0000000000000000"), 4, "quick-0000000000000000")


# -- a state of agents -------------------------------------------------------------------------------------------------


def test_until_idle_waits_for_all_that_is_queued(crew: Cli) -> None:
    first, second = put(crew, "gated", "one"), put(crew, "gated", "two")
    waiting = crew.start("wait", "--agent", "gated", "--agent", "quick", "--until", "idle")
    asleep(waiting)
    (crew.project / "gate").touch()
    assert code_of(waiting) == 0
    assert [crew("show", each).out for each in (first, second)] == ["one\n", "two\n"]


def test_until_idle_counts_messages_of_temporary_sessions(crew: Cli) -> None:
    crew("send", "gated", "--once", "--no-wait", "one")
    refused(crew("wait", "--agent", "gated", "--until", "idle", "--timeout", "300ms"), 12, "gated is not idle")


def test_any_of_several_agents_is_enough_if_that_is_asked(crew: Cli) -> None:
    put(crew, "gated")
    done = crew("wait", "--any", "--agent", "gated", "--agent", "desk", "--until", "idle", "--json")
    assert done.lines == [{"agent": "desk", "state": "idle"}]


def test_until_finished_prints_the_next_answer_and_has_its_exit_code(crew: Cli) -> None:
    crew("send", "quick", "before")
    waiting = crew.start("wait", "--agent", "quick", "--until", "finished")
    asleep(waiting)
    crew("send", "quick", "--once", "after")
    assert waiting.communicate(timeout=20)[0] == b"after\n"
    message = put(crew, "gated")
    waiting = crew.start("wait", "--agent", "gated", "--until", "finished")
    asleep(waiting)
    crew("interrupt", message)
    assert code_of(waiting) == 9


def test_until_asking_ends_when_a_request_is_open(beam: Cli) -> None:
    place(beam)
    waiting = beam.start("wait", "--agent", "tui", "--until", "asking")
    process, ask = started(beam)
    assert code_of(waiting) == 0
    assert beam("deny", ask["id"]).code == 0
    code_of(process)
    refused(beam("wait", "--agent", "tui", "--until", "asking", "--timeout", "100ms"), 12, "tui is not asking")


def test_an_agent_that_is_not_there_is_named(crew: Cli) -> None:
    refused(crew("wait", "--agent", "nobody", "--until", "idle"), 4, "nobody")


def test_an_agent_that_is_removed_meanwhile_is_said_to_be_gone(crew: Cli) -> None:
    message = put(crew, "desk")
    waiting = crew.start("wait", "--agent", "desk", "--until", "idle")
    asleep(waiting)
    assert crew("agent", "rm", "desk", "--purge").code == 0, message
    out, err = waiting.communicate(timeout=20)
    assert (waiting.returncode, out, err) == (4, b"", b"beam: desk was removed; beam agent list\n")


# -- the end of all work -----------------------------------------------------------------------------------------------


def test_watch_until_idle_ends_with_the_work_and_tells_of_a_failure(crew: Cli) -> None:
    put(crew, "gated")
    watching = crew.start("watch", "--until-idle", "--json")
    asleep(watching)
    put(crew, "bad")
    eventually(lambda: [item["box"] for item in crew("queue", "list", "bad", "--json").lines] == ["dead"])
    (crew.project / "gate").touch()
    out = watching.communicate(timeout=20)[0]
    assert watching.returncode == 1
    assert out.count(b'"type":"turn.finished"') == 2


def test_watch_until_idle_ends_at_once_where_nothing_is_to_do(crew: Cli) -> None:
    crew("send", "bad", "hi")
    assert crew("watch", "--until-idle").code == 0
    assert crew("watch", "--until-idle", "--since", "1h").code == 1


@pytest.mark.parametrize("other", [("--all",), ("--now",), ("--event", "a:1")])
def test_watch_until_idle_goes_with_what_follows_this_root_alone(other: tuple[str, ...], crew: Cli) -> None:
    refused(crew("watch", "--until-idle", *other), 2, f"--until-idle and {other[0]} don't go together")


# -- journals and dead letters -----------------------------------------------------------------------------------------


def test_log_prints_what_happened_to_one_message(crew: Cli) -> None:
    crew("send", "quick", "other")
    message = crew("send", "quick", "mine", "--json").json["message_id"]
    found = crew("log", message, "--json").lines
    assert {event["message_id"] for event in found} == {message}
    assert (found[0]["type"], found[-1]["type"]) == ("message.queued", "turn.closed")
    assert "mine" in crew("log", message[-6:]).out
    once = crew("send", "quick", "--once", "alone", "--json").json["message_id"]
    assert crew("log", once, "--json").lines[-1]["type"] == "turn.closed"
    refused(crew("log", "quick-0000000000000000"), 4, "no agent is called")


def test_log_prints_the_last_events_and_those_of_a_time(crew: Cli) -> None:
    crew("send", "quick", "one")
    every = crew("log", "quick", "--json").lines
    assert crew("log", "quick", "--json", "-n", "2").lines == every[-2:]
    assert crew("log", "quick", "-n", "0").out == ""
    shown = crew("log", "quick").out.splitlines()
    assert crew("log", "quick", "-n", "3").out.splitlines() == shown[-3:]
    said = crew("log", "quick", "--raw").out.splitlines()
    assert crew("log", "quick", "--raw", "-n", "1").out.splitlines() == said[-1:]
    assert crew("log", "quick", "--json", "--since", "1h").lines == every
    assert crew("log", "quick", "--json", "--since", every[2]["ts"], "--until", every[3]["ts"]).lines == every[2:4]
    assert crew("log", "quick", "--until", "1d").out == ""
    refused(crew("log", "quick", "--since", "yesterday"), 2, "is no point in time")


def test_all_dead_letters_are_dropped_of_one_agent_or_of_all(crew: Cli) -> None:
    for _ in range(2):
        crew("send", "bad", "hi")
    kept = put(crew, "desk", "stays")
    said_once(crew("queue", "drop", "--dead", "desk"), "0 dead letters")
    said_once(crew("queue", "drop", "--dead", "bad"), "2 dead letters")
    said_once(crew("queue", "drop", "--dead"), "0 dead letters")
    assert [item["id"] for item in crew("queue", "list", "--json").lines] == [kept]
    refused(crew("queue", "drop"), 2, "no message to remove")
    refused(crew("queue", "drop", "--dead", "nobody"), 4, "nobody")
