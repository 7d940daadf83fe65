"""`beam send A,B,C`: one text to several agents at the same time, answers in a fixed order, and a judge's verdict."""

from __future__ import annotations

import signal

import pytest

from tests.support.claims import refused, said_once
from tests.support.cli import Cli, asleep, eventually
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance

AGENTS = """
agents:
  gated: {command: [sh, -c, "touch begun; while ! test -e gate; do sleep 0.02; done; cat"]}
  opens: {command: [sh, -c, "while ! test -e begun; do sleep 0.02; done; touch gate; echo opened"]}
  quick: {command: [cat]}
  evil: {command: [printf, 'red \\033[31m\\033]0;title\\007 text']}
  bad: {command: [sh, -c, "exit 3"]}
  judge: {command: [sh, -c, "cat > judged; echo '{\\"scores\\": [2, 8.5], \\"reason\\": \\"answer 2 is kind\\"}'"]}
  mute: {command: [sh, -c, "cat > /dev/null; echo hm"]}
"""


@pytest.fixture
def crew(beam: Cli) -> Cli:
    beam.config(AGENTS)
    return beam


def test_they_answer_at_the_same_time_and_are_printed_in_the_order_of_their_names(crew: Cli) -> None:
    done = crew("send", "gated,opens,quick", "hello")  # the first one ends only because the second one runs
    assert (done.code, done.out) == (0, "==> gated <==\nhello\n==> opens <==\nopened\n==> quick <==\nhello\n")


@pytest.fixture
def begun(crew: Cli) -> Cli:
    (crew.project / "begun").touch()
    return crew


def test_the_verdict_stands_below_the_answers_and_the_judge_knows_no_names(begun: Cli) -> None:
    done = begun("send", "quick,opens", "hello", "--judge", "judge", "--rubric", "Which one is kind?")
    assert done.code == 0
    assert done.out.endswith("==> judge judges <==\n 8.5  opens\n 2.0  quick\nbest: opens; answer 2 (opens) is kind\n")
    told = (begun.project / "judged").read_text()
    assert "Which one is kind?" in told
    assert "opened" in told
    assert "quick" not in told


def test_as_json_each_outcome_is_a_line_and_the_verdict_is_the_last(begun: Cli) -> None:
    done = begun("send", "quick,opens", "hello", "--judge", "judge", "--json")
    assert done.code == 0
    first, second, verdict = done.lines
    assert (first["agent"], second["agent"]) == ("quick", "opens")
    assert verdict["judge"] == "judge"
    assert verdict["best"] == "opens"
    assert [each["score"] for each in verdict["scores"]] == [2.0, 8.5]


def test_a_judge_without_a_verdict_ends_with_13_and_the_answers_are_printed(begun: Cli) -> None:
    done = begun("send", "quick,opens", "hello", "--judge", "mute")
    assert (done.code, done.out) == (13, "==> quick <==\nhello\n==> opens <==\nopened\n")
    said_once(done, "mute gave no verdict: the answer is no JSON")


def test_one_that_fails_gives_the_exit_code_and_keeps_no_answer_back(crew: Cli) -> None:
    done = crew("send", "bad,quick", "hello", "--judge", "judge")
    assert (done.code, done.out) == (1, "==> bad <==\n==> quick <==\nhello\n")
    assert "bad: failed (crashed)" in done.err
    assert "judge was not asked" in done.err


def test_no_agent_is_sent_anything_if_one_of_them_is_unknown(crew: Cli) -> None:
    refused(crew("send", "quick,nobody", "hello"), 4, "nobody")
    assert not crew("queue", "list", "--json").lines
    assert not crew("log", "quick", "--json").out


def test_all_declared_agents_get_a_text_that_names_none(beam: Cli) -> None:
    beam.config("agents:\n  b: {command: [sed, s/^/b:/]}\n  a: {command: [sed, s/^/a:/]}\n  a@review: {timeout: 1m}\n")
    assert beam("agent", "add", "c", "--command", "cat").code == 0
    assert beam("agent", "add", "old", "--command", "cat").code == 0
    assert beam("send", "old", "x").code == beam("agent", "archive", "old").code == 0
    done = beam("send", "--to-all", "all", "of you")
    assert (done.code, done.out) == (0, "==> a <==\na:all of you\n==> b <==\nb:all of you\n==> c <==\nall of you\n")
    assert beam("send", "--to-all", stdin="piped").out.count("piped") == 3
    ids = beam("send", "--to-all", "hi", "--no-wait").out.split()
    assert [each.partition("-")[0] for each in ids] == ["a", "b", "c"]
    assert beam("wait", *ids).code == 0


def test_without_declared_agents_there_is_nobody_to_send_to(beam: Cli) -> None:
    refused(beam("send", "--to-all", "hi"), 2, "no agent is declared here")


def test_without_waiting_their_ids_are_printed_in_order(crew: Cli) -> None:
    ids = crew("send", "quick,mute", "hello", "--no-wait").out.split()
    assert [each.partition("-")[0] for each in ids] == ["quick", "mute"]
    assert crew("wait", ids[0]).out == "hello\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["quick,quick", "x"], "quick is named twice"),
        (["--to-all", "quick", "x"], "--to-all sends to every agent, and quick is named"),
        (["--to-all", "x", "--steer"], "--steer and --to-all don't go together"),
        (["--to-all", "--each"], "--to-all sends a TEXT"),
        (["--to-all", "--message", '{"to": "quick", "payload": {"text": "x"}}'], "--to-all sends a TEXT"),
        (["quick,,mute", "x"], "there is no agent between two commas"),
        (["quick,mute", "x", "--steer"], "--steer is for one agent"),
        (["quick,mute", "x", "--judge", "judge", "--no-wait"], "the judge needs the answers"),
        (["quick", "x", "--judge", "judge"], "--judge compares the answers of several agents"),
        (["quick,mute", "x", "--rubric", "r"], "--rubric is for --judge"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_sent(crew: Cli, words: list[str], said: str) -> None:
    refused(crew("send", *words), 2, said)
    assert not crew("queue", "list", "--json").lines


def test_c_stops_all_of_them_and_each_says_so(crew: Cli) -> None:
    process = crew.start("send", "gated,quick", "hello")
    eventually(lambda: (crew.project / "begun").exists())
    eventually(lambda: "turn.closed" in crew.types("quick"))
    asleep(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert b"gated: cancelled" in err
    assert b"==> quick <==\nhello\n" in out
    assert not crew("queue", "list", "--json").lines


def test_on_a_terminal_no_escape_code_of_an_agent_is_obeyed(crew: Cli) -> None:
    shown = Terminal(crew, "send", "evil,quick", "hello")
    shown.until("==> quick <==")
    assert shown.end() == 0
    assert "red ␛[31m␛]0;title␇ text" in shown.seen
    assert "\x1b]0;" not in shown.seen
