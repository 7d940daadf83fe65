"""From what a sender asks to a message: sender, thread, hops, chain, and what is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.base.errors import LimitError, NotFoundError, UsageError
from beam.broker.compose import Caller, check_text, compose, replace_surrogates
from beam.model.limits import Limits
from beam.model.message import Message, encode
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
