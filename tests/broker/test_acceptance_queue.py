"""`beam queue`: what waits can be seen, changed and dropped; what was given up on can be run again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.claims import refused, said_once
from tests.support.cli import BEAM_WORDS, Cli, eventually

pytestmark = pytest.mark.acceptance


@pytest.fixture
def desk(beam: Cli) -> Cli:
    beam.config(
        "agents:\n  desk: {adapter: mailbox}\n  flaky: {command: [sh, flaky.sh]}\n"
        "  asker: {command: [sh, turn.sh]}\n  echo: {command: [cat]}\n"
    )
    (beam.project / "flaky.sh").write_text("test -e ready && cat\n")
    return beam


def put(beam: Cli, text: str) -> str:
    return beam("send", "desk", "--no-wait", text).out.strip()


def test_an_empty_queue_is_a_note(beam: Cli) -> None:
    done = beam("queue", "list")
    assert (done.code, done.out) == (0, "")
    said_once(done, "the queues are empty")
    assert beam("queue", "list", "--json").out == ""


def test_what_waits_is_listed_in_order_for_people_and_programs(desk: Cli) -> None:
    first, second = put(desk, "one\nmore"), put(desk, "two")
    rows = [line.split("\t") for line in desk("queue", "list").out.splitlines()]
    assert rows[0] == ["ID", "WHERE", "FROM", "AGE", "TEXT"]
    assert [(row[0], row[1], row[2], row[4]) for row in rows[1:]] == [
        (first, "waiting", "human", "one more"),
        (second, "waiting", "human", "two"),
    ]
    assert [item["text"] for item in desk("queue", "list", "desk", "--json").lines] == ["one\nmore", "two"]


def test_a_dropped_message_is_cancelled_and_its_sender_is_told(desk: Cli) -> None:
    message = put(desk, "one")
    assert desk("queue", "drop", message[-6:]).code == 0
    assert desk("queue", "list", "--json").out == ""
    refused(desk("wait", message), 9, "cancelled", "dropped by human")
    assert desk("queue", "drop", message).code == 4


def test_a_message_that_failed_is_kept_and_runs_again_by_hand(desk: Cli) -> None:
    failed = desk("send", "flaky", "hi", "--json")
    assert failed.code == 1
    message = failed.json["message_id"]
    assert [(item["id"], item["box"], item["reason"]) for item in desk("queue", "list", "--json").lines] == [
        (message, "dead", "failed")
    ]
    (desk.project / "ready").touch()
    assert desk("queue", "retry", message).code == 0
    done = desk("wait", message, "--json")
    assert (done.code, done.json["attempt"], done.json["reply"]) == (0, 2, "hi")
    assert desk("queue", "list", "--json").out == ""


def step(beam: Cli) -> None:
    (beam.project / "s.yaml").write_text("beam: 1\nsteps:\n  - {send: flaky, prompt: hi}\n")
    assert beam("trust", "s.yaml", "--yes").code == 0
    assert beam("run", "s.yaml").code == 1


def by_agent(beam: Cli, more: str) -> None:
    (beam.project / "turn.sh").write_text(f"{BEAM_WORDS} send flaky hi {more}; true\n")
    assert beam("send", "asker", "go").code == 0


def too_late(beam: Cli) -> None:
    beam("send", "desk", "hi", "--no-wait", "--deadline", "1ms")
    assert beam("recv", "desk").code == 12


# How a message to `flaky` or `desk` is sent that becomes a dead letter, and how many dead letters `beam status` counts.
WAYS: dict[str, tuple[Callable[[Cli], object], int]] = {
    "a person waits": (lambda beam: beam("send", "flaky", "hi"), 0),
    "a person waits for --once": (lambda beam: beam("send", "flaky", "hi", "--once"), 0),
    "a person waits for several": (lambda beam: beam("send", "flaky,echo", "hi"), 0),
    "a person waits for a mailbox": (lambda beam: beam("send", "desk", "hi", "--deadline", "100ms"), 0),
    "a run waits": (step, 0),
    "an agent waits": (lambda beam: by_agent(beam, ""), 0),
    "nobody waits": (lambda beam: beam("send", "flaky", "hi", "--no-wait"), 1),
    "nobody waits for --once": (lambda beam: beam("send", "flaky", "hi", "--once", "--no-wait"), 1),
    "nobody waits for a mailbox": (too_late, 1),
    "an agent goes on": (lambda beam: by_agent(beam, "--no-wait"), 1),
}


@pytest.mark.parametrize("way", WAYS)
def test_status_counts_the_dead_letters_for_which_nobody_waited(desk: Cli, way: str) -> None:
    sent, count = WAYS[way]
    sent(desk)

    def dead() -> list[str]:
        return [item["id"] for item in desk("queue", "list", "--json").lines if item["box"] == "dead"]

    eventually(lambda: len(dead()) == 1)
    assert sum(line["dead"] for line in desk("status", "--json").lines) == count
    assert desk("queue", "drop", *dead()).code == 0
    assert sum(line["dead"] for line in desk("status", "--json").lines) == 0


def test_a_retry_that_fails_again_counts_because_nobody_may_have_waited_for_it(desk: Cli) -> None:
    message = desk("send", "flaky", "hi", "--json").json["message_id"]
    assert desk("status", "flaky", "--json").json["dead"] == 0
    assert desk("queue", "retry", message).code == 0
    assert desk("wait", message, "--json").json["attempt"] == 2
    assert desk("status", "flaky", "--json").json["dead"] == 1


def test_a_message_whose_sender_was_killed_counts(desk: Cli) -> None:
    assert desk.cold("send", "flaky", "hi", env={"BEAM_CRASH_AT": "agent.running"}).code == 137
    assert desk("wait", desk("queue", "list", "--json").json["id"]).code == 8
    assert desk("status", "flaky", "--json").json["dead"] == 1


def test_only_what_was_given_up_on_can_be_retried(desk: Cli) -> None:
    refused(desk("queue", "retry", put(desk, "one")), 2, "not a dead letter")


def test_a_waiting_message_gets_another_text_from_arguments(desk: Cli) -> None:
    message = put(desk, "one")
    assert desk("queue", "edit", message, "another", "text").code == 0
    assert desk("recv", "desk").out == "another text\n"


def test_a_waiting_message_is_edited_in_the_editor(desk: Cli) -> None:
    message = put(desk, "first line\nsecond")
    (desk.project / "editor.sh").write_text('#!/bin/sh\nsed -i s/second/edited/ "$1"\n')
    (desk.project / "editor.sh").chmod(0o755)
    done = desk("queue", "edit", message[-6:], env={"EDITOR": str(desk.project / "editor.sh")})
    assert done.code == 0, done
    assert desk("recv", "desk").out == "first line\nedited\n"


def test_an_editor_that_changes_nothing_or_fails_changes_nothing(desk: Cli) -> None:
    message = put(desk, "one")
    for editor in ("true", "false"):
        done = desk("queue", "edit", message, env={"EDITOR": editor})
        assert done.code == 0
        said_once(done, "nothing was changed")
    assert desk("queue", "list", "--json").json["text"] == "one"


def test_an_editor_that_is_not_there_is_named(desk: Cli) -> None:
    refused(desk("queue", "edit", put(desk, "one"), env={"EDITOR": "no-such-editor"}), 2, "no-such-editor", "EDITOR")


def test_an_empty_edit_is_refused_and_the_message_stays(desk: Cli) -> None:
    message = put(desk, "one")
    refused(desk("queue", "edit", message, " "), 2, "empty")
    assert desk("queue", "list", "--json").json["text"] == "one"


def test_a_message_that_is_over_can_not_be_edited(desk: Cli) -> None:
    message = desk("send", "scripted", "hi", "--json").json["message_id"]
    refused(desk("queue", "edit", message, "x"), 4, message)


def test_an_ending_that_is_too_short_or_names_two_messages_is_refused(desk: Cli) -> None:
    for position, message in enumerate((put(desk, "one"), put(desk, "two"))):
        (waiting,) = (desk.root / "agents/desk/queue/new").glob(f"*-{message}.json")
        text = waiting.read_text().replace(message, f"desk-{position}-same")
        waiting.with_name(waiting.name.replace(message, f"desk-{position}-same")).write_text(text)
        waiting.unlink()
    refused(desk("show", "ame"), 2, "too short")
    refused(desk("show", "same"), 2, "matches 2 messages", "desk-0-same", "desk-1-same")


@pytest.mark.parametrize("verb", ["retry", "drop", "edit"])
def test_a_message_that_is_nowhere_is_said(desk: Cli, verb: str) -> None:
    args = ["text"] if verb == "edit" else []
    refused(desk("queue", verb, "desk-nothing", *args), 4, "desk-nothing")


def test_interrupt_ends_a_running_turn_and_never_another(beam: Cli) -> None:
    (beam.project / "tester.yaml").write_text("default: [{hang: true}]\n")
    beam.config("agents:\n  tester: {adapter: scripted, script: ./tester.yaml}\n")
    message = beam("send", "tester", "--no-wait", "go").out.strip()
    beam.shell('until beam status --json | grep -q \'"state":"running"\'; do sleep 0.1; done', timeout=20)
    done = beam("interrupt", "tester")
    assert done.code == 0
    said_once(done, message)
    assert beam("wait", message).code == 9
    refused(beam("interrupt", message), 4, "not running")
    refused(beam("interrupt", "tester"), 2, "not in a turn")


def test_who_waits_for_a_paused_agent_or_a_mailbox_is_told_why(beam: Cli) -> None:
    beam("send", "scripted", "hi")
    beam("queue", "pause", "scripted")
    paused = beam("send", "scripted", "x", "--deadline", "200ms")
    assert "beam queue resume scripted" in paused.err
    beam("agent", "add", "desk", "mailbox")
    unanswered = beam("send", "desk", "x", "--deadline", "200ms")
    assert "beam recv desk" in unanswered.err
