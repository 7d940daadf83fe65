"""From what a sender asks to a message: sender, thread, hops, chain, and what is refused at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam.base.errors import BeamError, LimitError, NotFoundError, UsageError
from beam.base.typed_values import replace_surrogates
from beam.broker.inbox.compose import Caller, check_text, compose
from beam.model.message import Message, Options, Payload, SessionContext, Spent, encode
from beam.model.settings import Limits
from tests.support.context import FakeClock

PERSON = Caller()
AGENT = Caller(name="a", thread="t-1", hops=2, chain=("human-root", "a"))


def made(to: str = "b", text: str = "hi", *, caller: Caller = PERSON, wait: bool = True, **options: object) -> Message:
    return compose(to, text, caller=caller, wait=wait, clock=FakeClock(), limits=Limits(), **options)  # type: ignore[arg-type]


def test_a_person_begins_a_thread() -> None:
    message = made()
    assert (message.sender, message.to, message.type, message.hops) == ("human", "b", "message", 0)
    assert (message.thread, message.reply, message.chain) == (message.id, "wait", ())


def test_a_person_who_does_not_wait_gets_no_reply_sent_and_an_agent_does() -> None:
    assert made(wait=False).reply == "none"
    assert made(wait=False, caller=AGENT).reply == "queue"


def test_an_agent_goes_on_with_its_thread_one_hop_further() -> None:
    message = made(caller=AGENT)
    assert (message.sender, message.thread, message.hops, message.chain) == ("a", "t-1", 3, AGENT.chain)


def test_only_who_waits_is_in_the_chain() -> None:
    assert made(caller=AGENT, wait=False).chain == ()


def test_waiting_for_ones_own_chain_is_refused_and_not_waiting_is_not() -> None:
    with pytest.raises(LimitError, match="human-root → a → a") as refused:
        made("a", caller=AGENT)
    assert "--no-wait" in refused.value.hint
    assert made("a", caller=AGENT, wait=False).hops == 3


def test_the_limit_of_hops_is_kept() -> None:
    at_limit = Caller(name="a", thread="t", hops=19)
    assert made(caller=at_limit).hops == 20
    with pytest.raises(LimitError, match="21 hops in thread t"):
        made(caller=Caller(name="a", thread="t", hops=20))


def test_from_another_is_an_inject_that_says_who() -> None:
    message = made(sender="planner")
    assert (message.sender, message.type, message.actor) == ("planner", "inject", "human")
    assert made(sender="human").type == "message"


def test_a_deadline_counts_from_now() -> None:
    assert made(deadline=1.5).deadline == "2023-11-14T22:13:21.500000Z"


def test_a_key_makes_the_id() -> None:
    assert made(key="k").id == made(key="k", text="other").id != made(key="l").id


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        made(text=text)


def test_the_size_is_counted_in_bytes() -> None:
    check_text("é" * 5, Limits(text_bytes=10))
    with pytest.raises(LimitError, match="12 bytes"):
        check_text("é" * 6, Limits(text_bytes=10))


def test_lone_surrogates_become_text_that_can_be_written() -> None:
    assert replace_surrogates("a\ud800b\U0001f600") == "a\ufffdb\U0001f600"
    assert b"\xef\xbf\xbd" in encode(made(text="x\udcff"))


@pytest.mark.parametrize("field", ["key", "model"])
def test_other_words_that_can_not_be_written_are_refused(field: str) -> None:
    from beam.model.message import Options

    given: dict[str, object] = {"key": "\udcff"} if field == "key" else {"options": Options(model="\udcff")}
    with pytest.raises(UsageError, match=f"--{field}"):
        made(**given)


def test_attachments_are_absolute_and_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").touch()
    monkeypatch.chdir(tmp_path)
    assert made(attach=[Path("a.png")]).payload.attach == (str(tmp_path / "a.png"),)
    with pytest.raises(NotFoundError, match=r"b\.png"):
        made(attach=[Path("b.png")])


def refused(**options: object) -> tuple[str, str, str, str | None]:
    with pytest.raises(BeamError) as error:
        made(**options)  # type: ignore[arg-type]
    return error.value.kind, error.value.message, error.value.hint, error.value.subject


def test_a_whole_message_is_made_of_what_was_asked() -> None:
    message = made(
        caller=AGENT,
        wait=False,
        options=Options(model="m"),
        deadline=2.0,
        replies=3,
        session_context=SessionContext(session_id="s", turn_number=1),
    )
    assert message == Message(
        id=message.id,
        timestamp="2023-11-14T22:13:20.000000Z",
        sender="a",
        to="b",
        payload=Payload(text="hi"),
        session_context=SessionContext(session_id="s", turn_number=1),
        reply="queue",
        replies=3,
        thread="t-1",
        hops=3,
        deadline="2023-11-14T22:13:22.000000Z",
        options=Options(model="m"),
    )


def test_what_a_thread_spent_goes_on_with_its_message() -> None:
    spent = Spent(turns=2, cost_usd=0.5)
    assert made(caller=Caller(name="a", thread="t", hops=0, spent=spent)).spent == spent
    assert made().spent == Spent()


def test_no_replies_means_that_nobody_gets_one() -> None:
    assert (made(caller=AGENT, wait=False, replies=0).reply, made(caller=AGENT, wait=False, replies=1).reply) == (
        "none",
        "queue",
    )
    assert made(sender="planner", wait=False, replies=1000).replies == 1000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"replies": 1}, "--replies is for messages that nobody waits for"),
        ({"replies": 1, "wait": False}, "--replies has no effect: a reply to you is routed to no agent"),
        ({"replies": 1001, "wait": False, "sender": "x"}, "--replies 1001 is not a number from 0 to 1000"),
        ({"replies": -1, "wait": False, "sender": "x"}, "--replies -1 is not a number from 0 to 1000"),
        ({"sender": "No Name"}, None),
        ({"key": " "}, "--key ' ' is not a word that a message can carry"),
        ({"key": "a\0"}, "--key 'a\\x00' is not a word that a message can carry"),
        ({"deadline": 1e300}, "--deadline is out of range"),
        ({"deadline": float("nan")}, "--deadline is out of range"),
        ({"options": Options(timeout=-1e300)}, "--timeout is out of range"),
        ({"options": Options(max_turns=10**5000)}, "--max-turns is out of range"),
        ({"options": Options(keep=float("inf"))}, "--keep is out of range"),
        ({"options": Options(budget_usd=0.0)}, "--budget 0 is out of range"),
        ({"options": Options(timeout=0.0)}, "--timeout 0 is out of range"),
        ({"options": Options(max_turns=0)}, "--max-turns 0 is out of range"),
        ({"options": Options(max_tokens=-5)}, "--max-tokens -5 is out of range"),
        ({"attach": [Path("/" + "a" * 300)]}, f"'/{'a' * 199}' can't be attached: File name too long"),
        ({"options": Options(via=" ")}, "--via ' ' is not a word that a message can carry"),
    ],
)
def test_what_a_message_can_not_say_is_refused(options: dict[str, object], said: str | None) -> None:
    kind, message, _, _ = refused(**options)
    assert (kind, message if said is not None else None) == ("usage", said)


def test_limits_are_reported_with_a_way_out() -> None:
    assert refused(text="") == ("usage", "the prompt is empty", "give a text, -f FILE, or something on stdin", "")
    assert refused(to="a", caller=AGENT) == (
        "limit",
        "a waits for this very message (human-root → a → a): the answer could never come",
        "send with --no-wait; the reply comes as a message of its own",
        "a",
    )
    assert refused(caller=Caller(name="a", thread="t", hops=20)) == (
        "limit",
        "21 hops in thread t: the limit is 20",
        "agents have been sending each other messages in a loop; start a new thread as a person",
        "b",
    )
    with pytest.raises(LimitError) as error:
        check_text("é" * 6, Limits(text_bytes=10))
    assert (error.value.message, error.value.hint) == (
        "the prompt is 12 bytes, the limit is 10",
        "put it into a file and name the file in the prompt",
    )


def test_a_file_that_can_not_be_attached_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert refused(attach=[missing]) == (
        "not_found",
        f"there is no file {missing} to attach",
        "give the path of a file",
        str(missing),
    )
    assert refused(attach=[tmp_path])[0] == "not_found"
    odd = tmp_path / os.fsdecode(b"\xff")
    odd.touch()
    assert refused(attach=[odd]) == (
        "usage",
        f"the name of {str(odd)!r} is not UTF-8",
        "give it another name",
        str(odd),
    )


def test_a_persons_reply_mode_is_none_also_where_the_name_is_given() -> None:
    assert made(sender="human", wait=False).reply == "none"
    assert (made(sender="planner", wait=False).reply, made(sender="planner").reply) == ("queue", "wait")
    assert made(sender="a", caller=AGENT).type == "message"
