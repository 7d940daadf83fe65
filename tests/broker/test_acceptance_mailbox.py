"""A shell script as an agent: `beam recv` takes a message, `beam reply` answers it."""

from __future__ import annotations

import time

import pytest

from tests.support.claims import refused, said_once
from tests.support.cli import Cli, eventually

pytestmark = pytest.mark.acceptance


@pytest.fixture
def desk(beam: Cli) -> Cli:
    beam.config("agents:\n  desk: {adapter: mailbox}\n", trusted=False)
    return beam


def test_a_script_takes_messages_and_answers_those_who_wait(desk: Cli) -> None:
    sender = desk.start("send", "desk", "2 + 2")
    script = """
        set -e
        message=$(beam recv desk --wait --json)
        id=$(python3 -c 'import json,sys; print(json.load(sys.stdin)["id"])' <<< "$message")
        text=$(python3 -c 'import json,sys; print(json.load(sys.stdin)["payload"]["text"])' <<< "$message")
        echo $((text)) | beam reply "$id"
    """
    done = desk.shell(script)
    assert (done.code, done.out, done.err) == (0, "", ""), done
    out, err = sender.communicate(timeout=30)
    assert (sender.returncode, out) == (0, b"4\n")
    assert err.count(b"\n") == 1
    assert b"beam recv desk" in err, "who waits is told that somebody must answer"


def test_recv_prints_the_text_and_says_the_id_aside(desk: Cli) -> None:
    message = desk("send", "desk", "--no-wait", "hello").out.strip()
    taken = desk("recv", "desk")
    assert (taken.code, taken.out) == (0, "hello\n")
    said_once(taken, "from human", f"beam reply {message}")


def test_an_answer_may_come_from_arguments(desk: Cli) -> None:
    message = desk("send", "desk", "--no-wait", "hello").out.strip()
    desk("recv", "desk")
    assert desk("reply", message[-5:], "fine,", "thanks").code == 0
    assert desk("wait", message).out == "fine, thanks\n"


def test_an_empty_mailbox_is_not_finished_yet(desk: Cli) -> None:
    refused(desk("recv", "desk"), 12, "desk", "--wait")
    refused(desk("recv", "desk", "--wait", "--timeout", "300ms"), 12, "desk")


def test_an_empty_mailbox_in_json_is_an_error_object(desk: Cli) -> None:
    done = desk("recv", "desk", "--json")
    assert (done.code, done.json["error"]["kind"]) == (12, "unfinished")


def test_one_message_is_out_at_a_time(desk: Cli) -> None:
    desk("send", "desk", "--no-wait", "one")
    desk("send", "desk", "--no-wait", "two")
    assert desk("recv", "desk").out == "one\n"
    refused(desk("recv", "desk"), 12, "must be answered", "beam reply")


def test_a_reply_that_failed_tells_the_sender_why(desk: Cli) -> None:
    sender = desk.start("send", "desk", "do it")
    message = desk("recv", "desk", "--wait", "--json").json["id"]
    assert desk("reply", message, "--failed", "no hands").code == 0
    out, err = sender.communicate(timeout=30)
    assert (sender.returncode, out) == (1, b"")
    assert b"no hands" in err


def test_an_answer_is_given_once(desk: Cli) -> None:
    message = desk("send", "desk", "--no-wait", "hello").out.strip()
    desk("recv", "desk")
    assert desk("reply", message, "one").code == 0
    refused(desk("reply", message, "two"), 4, message, "not waiting")
    assert desk("wait", message).out == "one\n"


def test_a_message_that_is_not_answered_within_its_lease_is_offered_again(desk: Cli) -> None:
    message = desk("send", "desk", "--no-wait", "hello").out.strip()
    assert desk("recv", "desk", "--lease", "500ms").out == "hello\n"
    time.sleep(0.6)
    again = desk("recv", "desk", "--json")
    assert (again.code, again.json["id"], again.json["attempt"]) == (0, message, 2), again
    assert desk("reply", message, "late").code == 0
    assert desk("wait", message, "--json").json["attempt"] == 2


def test_an_answer_after_its_lease_is_refused(desk: Cli) -> None:
    message = desk("send", "desk", "--no-wait", "hello").out.strip()
    desk("recv", "desk", "--lease", "300ms")
    time.sleep(0.5)
    refused(desk("reply", message, "late"), 4, message, "lease")


def test_an_agent_with_a_program_is_no_mailbox(desk: Cli) -> None:
    refused(desk("recv", "scripted"), 10, "scripted", "mailbox")


def test_status_and_show_say_that_it_is_out(desk: Cli) -> None:
    message = desk("send", "desk", "--no-wait", "hello").out.strip()
    refused(desk("show", message), 12, "waiting")
    desk("recv", "desk")
    refused(desk("show", message), 12, "running")
    assert desk("status", "--json").json["running"]["message_id"] == message


def test_a_waiting_sender_can_be_told_by_interrupt(desk: Cli) -> None:
    sender = desk.start("send", "desk", "never mind")
    eventually(lambda: len(desk.box("desk", "new")) == 1)
    message = desk("queue", "list", "--json").json["id"]
    assert desk("interrupt", message).code == 0
    out, err = sender.communicate(timeout=30)
    assert (sender.returncode, out) == (9, b"")
    assert b"cancelled" in err
