"""Named sessions beside an agent: each has its own context; they are listed, renamed, archived and returned to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.claims import refused
from tests.support.cli import Cli, eventually
from tests.support.crash import KILLED

pytestmark = pytest.mark.acceptance

SCRIPT = 'replies: ["turn {turn} of {session}"]\n'


@pytest.fixture
def counting(beam: Cli) -> Cli:
    """A project whose agent `boss` says which turn of which session this is."""
    (beam.project / "counting.yaml").write_text(SCRIPT)
    beam.config("agents:\n  boss: {script: ./counting.yaml, description: counts}\n")
    return beam


def told(beam: Cli, agent: str, *args: str) -> tuple[str, str]:
    """Which turn it is, of which session, as the agent says."""
    done = beam("send", agent, "hi", *args)
    assert done.code == 0, done
    turn, _, session = done.out.strip().removeprefix("turn ").partition(" of ")
    return turn, session


def lines(beam: Cli, *agents: str) -> list[Any]:
    return beam("agent", "sessions", *agents, "--json").lines


def test_each_session_goes_on_in_its_own_context_and_is_made_by_its_first_message(counting: Cli) -> None:
    first, review = told(counting, "boss"), told(counting, "boss@review")
    assert (first[0], review[0]) == ("1", "1")
    assert first[1] != review[1]
    assert told(counting, "boss") == ("2", first[1])
    assert told(counting, "boss@review") == ("2", review[1])
    assert [(line["agent"], line["session_id"], line["turns"], line["first"]) for line in lines(counting)] == [
        ("boss", first[1], 2, "hi"),
        ("boss@review", review[1], 2, "hi"),
    ]
    assert [line["agent"] for line in counting("status", "--json").lines] == ["boss", "boss@review"]
    assert counting("log", "boss@review", "--verify").code == 0
    assert counting("doctor").code == 0


def test_two_sessions_of_one_agent_run_at_the_same_time(beam: Cli) -> None:
    meet = beam.base / "meet.sh"
    meet.write_text(
        f'mkfifo "{beam.base}/pipe" 2>/dev/null\n'
        f'case $BEAM_AGENT in both) echo met > "{beam.base}/pipe";; *) cat "{beam.base}/pipe";; esac\necho over\n'
    )
    beam.config(f"agents:\n  both: {{command: [sh, {meet}], timeout: 30s}}\n")
    one = beam("send", "both", "hi", "--no-wait").out.strip()
    other = beam("send", "both@other", "hi", "--no-wait").out.strip()
    done = [beam("wait", each, "--json").json for each in (one, other)]
    assert [each["status"] for each in done] == ["completed", "completed"], "each waited for the other's turn"
    assert done[1]["reply"].strip() == "met\nover"


def test_a_change_of_the_agents_settings_holds_for_the_next_turn_of_its_session(beam: Cli) -> None:
    beam.config("agents:\n  boss: {command: [printenv, WHO], env: {WHO: a}}\n")
    assert beam("send", "boss@x", "hi").out == "a\n"
    beam.config("agents:\n  boss: {command: [printenv, WHO], env: {WHO: b}}\n  boss@y: {env: {WHO: c}}\n")
    assert beam("send", "boss@x", "hi").out == "b\n"
    assert beam("send", "boss@y", "hi").out == "c\n"
    assert beam("agent", "set", "boss@x", "access=full").code == 0
    assert beam("agent", "show", "boss@x", "--json").json["settings"]["access"] == "read", "no more than its agent has"
    refused(beam("agent", "set", "boss@x", "adapter=claude"), 2, "runs what its agent runs")


@pytest.mark.parametrize(
    "name", ["boss@", "boss@..", "boss@a/b", "boss@a@b", "boss@A", "boss@\u0430", "boss@" + "x" * 80]
)
def test_what_is_no_name_of_a_session_is_refused_and_makes_nothing(counting: Cli, name: str) -> None:
    done = counting("send", name, "hi")
    assert (done.code, done.out) in ((2, ""), (4, "")), done
    assert not counting.root.exists() or list((counting.root / "agents").glob("*")) == []


def test_a_session_of_an_agent_that_does_not_exist_is_refused(counting: Cli) -> None:
    refused(counting("send", "bos@review", "hi"), 4, "no agent is called 'bos@review'")


def test_a_session_before_new_is_listed_and_returned_to(counting: Cli) -> None:
    first, second = told(counting, "boss"), told(counting, "boss", "--new")
    assert [(line["session_id"], line["state"]) for line in lines(counting, "boss")] == [
        (first[1], "earlier"),
        (second[1], "current"),
    ]
    assert first[1] in counting("agent", "resume", "boss", first[1][:12]).err
    assert told(counting, "boss") == ("2", first[1])
    assert [line["state"] for line in lines(counting, "boss")] == ["current", "earlier"]
    assert counting("agent", "resume", "boss", second[1]).code == 0
    assert told(counting, "boss") == ("2", second[1])
    assert counting.types("boss").count("session.selected") == 2
    assert counting("log", "boss", "--verify").code == 0
    refused(counting("agent", "resume", "boss", "elsewhere"), 4, "boss was never in a session elsewhere")
    refused(counting("agent", "resume", "boss", "--", "--model"), 4, "never in a session --model")


def test_the_sessions_of_one_agent_are_not_anothers(counting: Cli) -> None:
    first = told(counting, "boss")
    told(counting, "boss@review")
    refused(counting("agent", "resume", "boss@review", first[1]), 4, "never in a session")


def test_a_session_that_its_cli_has_is_adopted_by_its_id(counting: Cli) -> None:
    first = told(counting, "boss")
    assert counting("agent", "add", "boss@again", "--session", f"scripted:{first[1]}").code == 0
    assert told(counting, "boss@again") == ("2", first[1])
    added = counting("agent", "add", "other", "--session", f"scripted:{first[1]}", "--set", "script=./counting.yaml")
    assert added.code == 0, added
    assert told(counting, "other") == ("3", first[1])
    refused(
        counting("agent", "add", "other", "--session", f"scripted:{first[1]}"), 2, "there is already an agent other"
    )
    refused(counting("agent", "add", "boss@b", "--session", "claude:abcdef"), 2, "is one of claude")


@pytest.mark.parametrize(
    "given", ["abc", "nobody:abc", "claude:", "claude:--help", "claude:../x", "claude:a b", "claude:a\n"]
)
def test_what_is_no_session_of_a_cli_is_refused_before_it_is_an_argument(counting: Cli, given: str) -> None:
    done = counting("agent", "add", "other", "--session", given)
    assert (done.code, done.out) == (2, ""), done
    assert not (counting.root / "agents" / "other").exists()


def test_an_archived_session_takes_no_messages_and_comes_back_as_it_was(counting: Cli) -> None:
    before = told(counting, "boss@old")
    assert counting("agent", "archive", "boss@old").code == 0
    refused(counting("send", "boss@old", "hi"), 2, "boss@old is archived")
    assert [line["agent"] for line in counting("status", "--json").lines] == ["boss"]
    assert [(line["agent"], line["archived"]) for line in lines(counting)] == [("boss@old", True)]
    assert counting("status", "boss@old", "--json").json["state"] == "archived"
    assert "archived already" in counting("agent", "archive", "boss@old").err
    assert counting("agent", "archive", "--restore", "boss@old").code == 0
    assert told(counting, "boss@old") == ("2", before[1])
    refused(counting("agent", "archive", "--restore", "boss@old"), 4, "is not archived")
    refused(counting("agent", "archive", "boss@never"), 4, "has no files here")


def test_a_renamed_session_keeps_its_context_its_events_and_its_settings(counting: Cli) -> None:
    before = told(counting, "boss@old")
    assert counting("agent", "set", "boss@old", "timeout=5m").code == 0
    message = counting.journal("boss@old")[0]["message_id"]
    assert counting("agent", "rename", "boss@old", "boss@new").code == 0
    assert told(counting, "boss@new") == ("2", before[1])
    assert counting("agent", "show", "boss@new", "--json").json["settings"]["timeout"] == 300
    assert counting("show", message).code == 0, "a message is found by the id that it had"
    assert counting("log", "boss@new", "--verify").code == 0
    assert not (counting.root / "agents" / "boss@old").exists()
    assert told(counting, "boss@old")[0] == "1", "the old name is free"
    refused(counting("agent", "rename", "boss@old", "boss@new"), 2, "there is already an agent boss@new here")
    refused(counting("agent", "rename", "boss@old", "scripted@old"), 2, "a session keeps its agent")
    refused(counting("agent", "rename", "boss@old", "plain"), 2, "a session keeps its agent")
    refused(counting("agent", "rename", "boss@old", "boss@../x"), 2, "is not an agent's name")


def test_an_agent_that_was_added_by_command_is_renamed_and_one_of_beam_yaml_is_not(counting: Cli) -> None:
    assert counting("agent", "add", "mine", "scripted", "--set", "script=./counting.yaml").code == 0
    before = told(counting, "mine")
    told(counting, "boss")
    refused(counting("agent", "rename", "boss", "chief"), 2, "has settings in")
    told(counting, "mine@x")
    refused(counting("agent", "rename", "mine", "yours"), 2, "mine has sessions: mine@x")
    assert "its sessions stay, and run no more without mine: mine@x" in counting("agent", "rm", "mine").err
    assert counting("agent", "add", "mine", "scripted", "--set", "script=./counting.yaml").code == 0
    assert counting("agent", "rm", "mine@x", "--purge").code == 0
    assert counting("agent", "rename", "mine", "yours").code == 0
    assert told(counting, "yours") == ("2", before[1])
    told(counting, "scripted")
    refused(counting("agent", "rename", "scripted", "other"), 2, "is built in, and keeps its name")


@pytest.fixture
def waiting(beam: Cli) -> Iterator[Cli]:
    """A project whose agent `slow` runs until its pipe is written to."""
    pipe = beam.base / "pipe"
    os.mkfifo(pipe)
    beam.config(f"agents:\n  slow: {{command: [sh, -c, 'cat {pipe}; echo done'], timeout: 60s}}\n")
    yield beam


def release(beam: Cli) -> None:
    (beam.base / "pipe").write_text("on\n")


@pytest.mark.parametrize(
    "command", [("archive", "slow@x"), ("rename", "slow@x", "slow@y"), ("resume", "slow@x", "abcd")]
)
def test_nothing_of_a_session_is_moved_while_its_turn_runs(waiting: Cli, command: tuple[str, ...]) -> None:
    message = waiting("send", "slow@x", "hi", "--no-wait").out.strip()
    eventually(lambda: "prompt.sent" in waiting.types("slow@x"))
    done = waiting("agent", *command)
    assert done.code == (4 if command[0] == "resume" else 12), done
    release(waiting)
    assert waiting("wait", message).code == 0
    assert waiting.types("slow@x").count("turn.finished") == 1


@pytest.mark.parametrize("command", [("archive", "scripted@x"), ("rename", "scripted@x", "scripted@y")])
def test_nothing_is_moved_while_messages_wait(beam: Cli, command: tuple[str, ...]) -> None:
    assert beam("send", "scripted@x", "one").code == 0
    assert beam("queue", "pause", "scripted@x").code == 0
    message = beam("send", "scripted@x", "two", "--no-wait").out.strip()
    done = beam("agent", *command)
    assert done.out == "" and "has messages that wait" in done.err
    assert beam("queue", "resume", "scripted@x").code == 0
    assert beam("wait", message).code == 0
    assert beam("agent", *command).code == 0


def test_nothing_is_moved_while_an_answer_is_due_to_it(beam: Cli) -> None:
    beam.config("agents:\n  box: {adapter: mailbox}\n")
    assert beam("send", "scripted@x", "one").code == 0
    asked = beam("send", "box", "a question", "--from", "scripted@x", "--no-wait").out.strip()
    done = beam("agent", "archive", "scripted@x")
    assert f"is owed an answer to {asked} by box" in done.err
    beam("recv", "box")
    assert beam("reply", asked, "the answer").code == 0
    assert beam("wait", "--agent", "scripted@x", "--until", "idle").code == 0
    assert beam("agent", "archive", "scripted@x").code == 0


CRASHES = (
    ("archive.before", ("archive", "boss@x")),
    ("archive.done", ("archive", "boss@x")),
    ("restore.before", ("archive", "--restore", "boss@x")),
    ("restore.done", ("archive", "--restore", "boss@x")),
    ("rename.before", ("rename", "boss@x", "boss@y")),
    ("rename.moved", ("rename", "boss@x", "boss@y")),
    ("rename.recorded", ("rename", "boss@x", "boss@y")),
)


@pytest.mark.parametrize(("point", "command"), CRASHES)
def test_a_session_is_there_once_and_whole_wherever_its_mover_is_killed(
    counting: Cli, point: str, command: tuple[str, ...]
) -> None:
    before = told(counting, "boss@x")
    assert counting("agent", "set", "boss@x", "timeout=5m").code == 0
    if "--restore" in command:
        assert counting("agent", "archive", "boss@x").code == 0
    assert counting("agent", *command, env={"BEAM_CRASH_AT": point}).code == KILLED
    found = [line["agent"] for line in lines(counting)]
    assert len(found) == 1
    name = found[0]
    if counting("status", name, "--json").json["state"] == "archived":
        assert counting("agent", "archive", "--restore", name).code == 0
    if point == "rename.before":
        assert counting("agent", *command).code == 0
        name = "boss@y"
    assert told(counting, name) == ("2", before[1])
    assert counting("agent", "show", name, "--json").json["settings"]["timeout"] == 300
    assert counting("log", name, "--verify").code == 0
    assert counting("doctor").code == 0


@pytest.mark.parametrize("point", ["control.published", "control.before", "control.done", "control.removed"])
def test_a_return_whose_carrier_is_killed_happens_once_or_not_at_all(counting: Cli, point: str) -> None:
    first = told(counting, "boss")
    second = told(counting, "boss", "--new")
    assert counting("agent", "resume", "boss", first[1], env={"BEAM_CRASH_AT": point}).code == KILLED
    assert told(counting, "boss") == ("2", first[1]), "the next holder answers what waits"
    assert counting.types("boss").count("session.selected") == 1
    assert counting("agent", "resume", "boss", second[1]).code == 0
    assert told(counting, "boss") == ("2", second[1])


def test_a_broker_serves_sessions_like_agents(counting: Cli) -> None:
    assert counting("broker", "start").code == 0
    try:
        first = told(counting, "boss@x")
        told(counting, "boss")
        assert counting("agent", "rename", "boss@x", "boss@y").code == 0
        assert told(counting, "boss@y") == ("2", first[1])
        assert counting("agent", "archive", "boss@y").code == 0
        assert counting("agent", "archive", "--restore", "boss@y").code == 0
        assert told(counting, "boss@y") == ("3", first[1])
    finally:
        assert counting("broker", "stop").code == 0


def test_an_agent_in_its_turn_makes_a_session_with_no_more_than_its_own_access_and_moves_none(beam: Cli) -> None:
    script = beam.base / "ask.sh"
    script.write_text(
        'beam="$BEAM_BIN"; "$beam" send scripted@made "do it" --access full --no-wait </dev/null >/dev/null; '
        '"$beam" agent archive scripted@made 2>&1; "$beam" agent add x --session scripted:abcd 2>&1; '
        '"$beam" agent set scripted@made access=full 2>&1; true\n'
    )
    beam.config(f"agents:\n  asker: {{command: [sh, {script}], access: edit}}\n  scripted: {{access: full}}\n")
    done = beam("send", "asker", "go")
    assert done.out.count("only a person") == 3, done
    assert beam("wait", "--agent", "scripted@made", "--until", "idle").code == 0
    (started,) = [event for event in beam.journal("scripted@made") if event["type"] == "turn.started"]
    assert started["at_most"] == "edit"


@pytest.mark.real
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_real_cli_returns_to_the_session_before_new_with_its_context(beam: Cli, agents_path: str, name: str) -> None:
    with FakeModel() as model:
        cli = beam.with_env({"PATH": agents_path, **model.env(name, beam.base / "home")})

        def send(agent: str, text: str, *args: str) -> Any:
            return cli("send", agent, "--json", text, *args, timeout=120).json

        def sent() -> str:
            return json.dumps([request.body for request in model.requests if request.asked is not None][-1])

        first = send(f"{name}@fruit", "remember plums")["session_id"]
        assert send(name, "and you pears")["session_id"] not in (None, first)
        second = send(f"{name}@fruit", "begin anew", "--new")["session_id"]
        assert second not in (None, first) and "plums" not in sent()
        assert cli("agent", "resume", f"{name}@fruit", first).code == 0
        again = send(f"{name}@fruit", "what was it?")
        assert (again["status"], again["session"], again["session_id"]) == ("completed", "resumed", first), again
        assert "remember plums" in sent() and "pears" not in sent() and "begin anew" not in sent()
        assert Path(cli.root / "agents" / f"{name}@fruit").is_dir()
