"""The scripted agent's link: orders out, frames in."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.agents import scripted
from beam.agents.base import Exit, Host, Turn
from beam.agents.link import (
    Acknowledged,
    Answered,
    Broken,
    Close,
    Decide,
    Eof,
    Interrupt,
    Link,
    Over,
    Prompt,
    Query,
    Ready,
    Say,
    Send,
    Set,
    Steer,
    Step,
)
from beam.model import events
from beam.model.outcome import Status
from tests.support.dialogue import Conversation, Feed, in_pieces, spoilt, whole, wrong_ends, wrong_in

TURN = Turn(text="hi", message_id="s-1", agent="s", sender="me")


def opened() -> Link:
    link = scripted.dialogue.link(TURN, Host())
    assert not link.open(0.0) and link.due is not None
    return link


def hear(link: Link, frame: str, **fields: Any) -> list[Step]:
    return list(link.line(json.dumps({"frame": frame, **fields}).encode(), 1.0))


def sent(steps: Any) -> list[Any]:
    return [json.loads(step.data) for step in steps if isinstance(step, Send)]


def test_it_launches_the_program_so_that_it_stays() -> None:
    launch = scripted.dialogue.launch(TURN, Host(python="python3"))
    assert launch.argv[-1] == "--serve" and launch.stdin is None


def test_a_turn_is_acknowledged_by_its_first_frame_and_over_with_its_result() -> None:
    link = opened()
    assert hear(link, "ready") == [Ready()] and link.due is None
    assert sent(link.do(Prompt(turn=TURN), 1.0)) == [{"do": "prompt", "text": "hi", "sender": "me"}]
    assert link.busy and link.due is not None
    first, begun = hear(link, "init", session_id="s1", turn=1, model="m")
    assert isinstance(first, Acknowledged) and isinstance(begun, Say) and link.due is None
    (said,) = hear(link, "text", text="hello")
    assert isinstance(said, Say) and isinstance(said.event, events.Text)
    (over,) = hear(link, "result", status="completed", reply="hello")
    assert isinstance(over, Over) and over.fit and not link.busy
    assert (over.verdict.status, over.verdict.reply, over.verdict.session_id) == (Status.COMPLETED, "hello", "s1")
    assert hear(link, "text", text="late") == []


def test_each_call_is_one_order_and_its_answer_comes_back() -> None:
    link = opened()
    calls = (Steer(id="a", text="go\ud800"), Set(id="b", name="model", value="m"), Query(id="c", name="models"))
    assert [sent(link.do(call, 1.0))[0]["do"] for call in calls] == ["steer", "set", "query"]
    (told,) = hear(link, "answer", id="c", ok=True, result=["m"])
    assert isinstance(told, Answered) and (told.id, told.ok, bytes(told.result)) == ("c", True, b'["m"]')
    (refused,) = hear(link, "answer", id="b", ok=False, code="unsupported", message="no")
    assert isinstance(refused, Answered) and (refused.ok, refused.code) == (False, "unsupported")


def test_an_interrupt_is_an_order_and_the_end_of_all_turns_is_the_end_of_its_input() -> None:
    link = opened()
    assert sent(link.do(Interrupt(), 1.0)) == [{"do": "interrupt"}]
    assert link.do(Close(), 1.0) == (Eof(),)


def test_a_turn_without_an_answer_in_time_breaks_and_one_whose_process_ends_crashed() -> None:
    link = opened()
    assert [type(step) for step in link.on_due(99.0)] == [Broken]
    link.do(Prompt(turn=TURN), 100.0)
    (over,) = link.end(Exit(code=3, stderr_tail="out of luck"))
    assert isinstance(over, Over) and not over.fit and over.verdict.status is Status.FAILED
    assert link.end(Exit(code=3)) == ()


def test_a_session_that_is_gone_is_lost() -> None:
    link = opened()
    link.do(Prompt(turn=TURN), 1.0)
    (lost,) = hear(link, "lost", session_id="s1")
    assert isinstance(lost, Say) and isinstance(lost.event, events.SessionLost)
    (over,) = link.end(Exit(code=1))
    assert isinstance(over, Over) and over.verdict.session == "lost"


@pytest.mark.slow
@given(st.lists(st.binary() | st.sampled_from([b'{"frame":"answer"}', b'{"frame":"result"}', b"[]", b'{"frame":1}'])))
def test_no_line_raises(lines: list[bytes]) -> None:
    link = opened()
    link.do(Prompt(turn=TURN), 1.0)
    for line in lines:
        link.line(line, 1.0)
    link.end(Exit(code=0))


FRAMES = [
    {"frame": "ready"},
    {"frame": "init", "session_id": "s1", "turn": 1, "model": "m"},
    {"frame": "delta", "text": "é"},
    {"frame": "text", "text": "hello"},
    {"frame": "tool_call", "id": "c", "name": "Bash", "input": {"command": "ls"}},
    {"frame": "ask", "key": "k", "tool": "Bash", "input": {}},
    {"frame": "withdrawn", "key": "k"},
    {"frame": "answer", "id": "1", "ok": True, "result": 1},
    {"frame": "usage", "usage": {"input_tokens": 1}},
    {"frame": "lost", "session_id": "s1"},
    {"frame": "result", "status": "completed", "reply": "hello"},
]
INTENTS = [
    Prompt(turn=TURN),
    Interrupt(),
    Steer(id="1", text="x"),
    Set(id="1", name="model", value="m"),
    Query(id="1", name="models"),
    Decide(key="k", decision="allow"),
]


def test_any_split_of_the_bytes_gives_the_same_steps() -> None:
    data = b"".join(json.dumps(frame, ensure_ascii=False).encode() + b"\n" for frame in FRAMES)

    def played(feed: Feed[Conversation]) -> list[Step]:
        talk = Conversation(scripted.dialogue.link(TURN, Host()))
        talk.do(Prompt(turn=TURN))
        for line in [data] if feed is not whole else data.splitlines():
            feed(talk, line)
        return talk.steps

    expected = played(whole)
    assert any(isinstance(step, Over) for step in expected)
    assert all(played(in_pieces(size)) == expected for size in (1, 2, 7, 4096))


def one_sequence(seed: int, frames: list[dict[str, Any]]) -> Iterator[str]:
    """Play the random sequence of one seed; return what is wrong with it."""
    rng = random.Random(seed)
    talk, prompts = Conversation(scripted.dialogue.link(TURN, Host())), 0
    for _ in range(rng.randrange(40)):
        if rng.random() < 0.3:
            intent = rng.choice([one for one in INTENTS if not (isinstance(one, Prompt) and talk.link.busy)])
            prompts += isinstance(intent, Prompt)
            talk.do(intent)
        elif rng.random() < 0.1:
            talk.wake(talk.now + rng.choice([0.1, 5, 100]))
        else:
            frame = rng.choice(frames)
            talk.hear(spoilt(frame, rng) if rng.random() < 0.3 else frame)
    talk.keep(talk.link.end(Exit(code=rng.choice([0, 1]))))
    yield from wrong_ends(talk, prompts)


@pytest.mark.slow
def test_no_sequence_of_intents_and_frames_raises_or_leaves_a_turn_open() -> None:
    assert wrong_in(one_sequence, FRAMES, range(500)) == []


@pytest.mark.soak
def test_no_long_run_of_sequences_raises_or_leaves_a_turn_open() -> None:
    seed = random.randrange(1 << 30)
    assert wrong_in(one_sequence, FRAMES, range(seed, seed + 10_000)) == []
