"""Agents that always answer each other stop at the hop limit, and a sender is never left waiting for nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.cli import BEAM_WORDS, Cli, eventually, processes_with
from tests.support.crash import check_numbers

pytestmark = pytest.mark.acceptance
TREE_TURNS = 12  # of a thread that doubles with every turn


def settle(beam: Cli) -> None:
    eventually(lambda: not processes_with(str(beam.base)), 60, "processes are left")


ECHO = "[sh, -c, 'echo $BEAM_AGENT $BEAM_HOPS >> ../runs; cat']"
PAIR = f"agents:\n  ping: {{command: {ECHO}}}\n  pong: {{command: {ECHO}}}\n"


def turns_of(beam: Cli) -> list[str]:
    """The turns of PAIR in order: the agent and its hops.

    Messages are waited for first: a process that just begins shows no environment yet. One may move behind the look to
    the queue that was looked at already: it takes a second look, and no turn between the two.
    """
    runs = beam.base / "runs"

    def is_over() -> bool:
        before = runs.read_text() if runs.exists() else ""
        left = [*_waiting(beam), *_waiting(beam)]
        return before != "" and not left and runs.read_text() == before

    eventually(is_over, 120, "messages are left")
    settle(beam)
    return runs.read_text().splitlines()


def _waiting(beam: Cli) -> list[Path]:
    return list((beam.root / "agents").glob("p[io]ng/queue/[nc]*/*.json"))


def test_an_answer_is_not_answered_so_one_message_between_two_agents_costs_two_turns(beam: Cli) -> None:
    beam.config(PAIR)
    sent = beam("send", "ping", "hello", "--from", "pong", "--no-wait").out.strip()
    assert beam("wait", sent).code == 0
    assert turns_of(beam) == ["ping 0", "pong 1"]
    (closed,) = [event for event in beam.journal("pong") if event["type"] == "turn.closed"]
    assert (closed["reply"], closed["detail"]) == ("none", "the exchange is over")


@pytest.mark.parametrize("replies", [6, pytest.param(20, marks=pytest.mark.soak)])
def test_a_message_says_how_many_answers_are_routed(beam: Cli, replies: int) -> None:
    beam.config(PAIR)
    assert beam("send", "ping", "hello", "--from", "pong", "--no-wait", "--replies", str(replies)).code == 0
    assert turns_of(beam) == [f"{'pong' if hop % 2 else 'ping'} {hop}" for hop in range(replies + 1)]


def test_a_message_whose_answer_nobody_wants_is_one_turn(beam: Cli) -> None:
    beam.config(PAIR)
    assert beam("send", "ping", "hello", "--from", "pong", "--no-wait", "--replies", "0").code == 0
    assert turns_of(beam) == ["ping 0"]


def test_an_agent_says_how_many_answers_it_wants(beam: Cli) -> None:
    asks = json.dumps(f"cat; [ $BEAM_HOPS = 0 ] || exit 0; {BEAM_WORDS} send ping hello --no-wait --replies 3")
    beam.config(f"{PAIR}  asker: {{command: [sh, -c, {asks}]}}\n")
    assert beam("send", "asker", "go").code == 0
    assert turns_of(beam) == ["ping 1", "ping 3"]


@pytest.mark.parametrize("said", ["END", "**END**", "END.\n", "\n"])
def test_who_says_end_or_nothing_ends_the_exchange(beam: Cli, said: str) -> None:
    (beam.project / "said").write_text(said)
    beam.config(PAIR.replace("cat']", "[ $BEAM_HOPS = 0 ] && cat || cat said']"))
    assert beam("send", "ping", "hello", "--from", "pong", "--no-wait", "--replies", "20").code == 0
    assert turns_of(beam) == ["ping 0", "pong 1"]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--replies", "2"), "nobody waits for"),
        (("--replies", "2", "--no-wait"), "routed to no agent"),
        (("--replies", "1001", "--no-wait", "--from", "pong"), "from 0 to 1000"),
    ],
)
def test_a_number_of_replies_that_can_t_be_is_refused(beam: Cli, args: tuple[str, ...], why: str) -> None:
    beam.config(PAIR)
    refused = beam("send", "ping", "hello", *args)
    assert (refused.code, refused.out) == (2, "")
    assert why in refused.err


@pytest.mark.parametrize("hops", [pytest.param(20, marks=pytest.mark.soak), 3])
def test_two_agents_that_always_answer_each_other_stop_at_the_limit_and_say_why(beam: Cli, hops: int) -> None:
    runs = beam.base / "runs"
    agent = f'[sh, -c, "echo $BEAM_AGENT $BEAM_HOPS >> {runs}; cat"]'
    beam.config(
        f"agents:\n  ping: {{command: {agent}}}\n  pong: {{command: {agent}}}\nlimits: {{hops: {hops}, replies: 100}}\n"
    )
    assert beam("send", "ping", "hello", "--from", "pong", "--no-wait").code == 0
    settle(beam)
    turns = [line.split() for line in runs.read_text().splitlines()]
    assert turns == [["ping" if hop % 2 == 0 else "pong", str(hop)] for hop in range(hops + 1)]
    last = "ping" if hops % 2 == 0 else "pong"
    other = "pong" if last == "ping" else "ping"
    closed = [event for event in beam.journal(last) if event["type"] == "turn.closed"]
    assert closed[-1]["reply"] == "dead"
    assert f"over the limit of {hops}" in closed[-1]["detail"]
    (dead,) = [event for event in beam.journal(other) if event["type"] == "message.dead"]
    assert (dead["reason"], dead["status"]) == ("hops", "limit")
    assert f"over the limit of {hops}" in dead["detail"]
    assert beam("show", dead["message_id"]).code == 7
    for agent in ("ping", "pong"):
        assert beam.box(agent, "new") == beam.box(agent, "cur") == []
        check_numbers(beam, agent)


def test_agents_whose_every_turn_sends_two_messages_stop_when_the_thread_used_up_its_turns(beam: Cli) -> None:
    refused = beam.base / "refused"
    script = beam.project / "two.sh"
    script.write_text(
        'for to in one two three; do\n  [ "$to" = "$BEAM_AGENT" ] && continue\n'
        f'  {BEAM_WORDS} send "$to" more --no-wait 2>> {refused} || echo "exit $?" >> {refused}\ndone\n'
    )
    names = ("one", "two", "three")
    agents = "".join(f"  {name}: {{command: [sh, two.sh]}}\n" for name in names)
    beam.config(f"policy: {{thread_turns: {TREE_TURNS}}}\nagents:\n{agents}")
    thread = beam("send", "one", "go", "--from", "two", "--no-wait").out.strip()
    settle(beam)
    journals = {name: beam.journal(name) for name in names}
    turns = [event for said in journals.values() for event in said if event["type"] == "turn.started"]
    assert len(turns) == TREE_TURNS
    assert (beam.root / "threads" / thread).read_text().count("turn ") == TREE_TURNS - 1, (
        "a person's message is the first"
    )
    dead = [event for said in journals.values() for event in said if event["type"] == "message.dead"]
    assert {(event["reason"], event["status"]) for event in dead} == {("budget", "limit")}
    assert f"thread_turns is {TREE_TURNS}" in dead[0]["detail"]
    assert beam("show", dead[0]["message_id"]).code == 7
    said = refused.read_text()
    assert set(re.findall(r"^exit (\d+)$", said, re.MULTILINE)) == {"7"}
    assert f"the budget of thread {thread} is used up: thread_turns is {TREE_TURNS}" in said
    for name in names:
        assert beam.box(name, "new") == beam.box(name, "cur") == []
        check_numbers(beam, name)
    assert beam("send", "one", "a person goes on").code == 0


def test_a_reply_to_a_mailbox_waits_there_for_whoever_asks_for_it(beam: Cli) -> None:
    beam.config("agents:\n  cat: {command: [cat]}\n  box: {adapter: mailbox}\n")
    message_id = beam("send", "cat", "hello", "--from", "box", "--no-wait").out.strip()
    assert beam("wait", message_id).code == 0
    settle(beam)
    assert beam("recv", "box").out == "hello\n"


def test_a_reply_to_an_agent_that_was_removed_meanwhile_is_said_in_both_journals(beam: Cli) -> None:
    beam.config("agents:\n  cat: {command: [sh, -c, 'cat; sleep 0.5']}\n  asker: {command: [cat]}\n")
    assert beam("send", "asker", "first").code == 0
    message_id = beam("send", "cat", "hello", "--from", "asker", "--no-wait").out.strip()
    beam.config("agents:\n  cat: {command: [sh, -c, 'cat; sleep 0.5']}\n")
    settle(beam)
    beam("wait", message_id)
    closed = [event for event in beam.journal("cat") if event["type"] == "turn.closed"]
    assert [event["reply"] for event in closed] in (["dead"], ["queued"])  # the worker may have read the old beam.yaml
    assert beam("send", "cat", "more").code == 0
    settle(beam)
    assert [event["type"] for event in beam.journal("asker")][-1] == "message.dead"
    assert len(beam.box("asker", "dead")) == 1


def test_a_message_to_an_agent_that_was_removed_ends_and_is_not_tried_for_ever(beam: Cli) -> None:
    beam.config("agents:\n  slow: {command: [sh, -c, 'cat; sleep 1']}\n")
    ids = [beam("send", "slow", text, "--no-wait").out.strip() for text in ("1", "2")]
    (beam.project / "beam.yaml").write_text("agents: {}\n")
    assert beam("wait", ids[1], timeout=30).code in (0, 1)
    settle(beam)
    assert beam.box("slow", "new") == beam.box("slow", "cur") == []
