"""A conversation that a person may join: whose turn is next, what each is told, when and why it ends. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from beam.conversations.live_chat import LiveChat
from beam.conversations.scenario import Until
from beam.model.events import TurnStarted, UsageSeen
from beam.model.outcome import Outcome, Status, Usage


def ended(chat: LiveChat, reply: str = "so it is", status: Status = Status.COMPLETED, **more: Any) -> None:
    """Run the next turn, and end it with this outcome."""
    turn = chat.next()
    assert turn is not None
    seconds = more.pop("seconds", 1.0)
    code = more.pop("exit_code", 0 if status is Status.COMPLETED else 1)
    chat.on_ended(
        Outcome(
            message_id="m-1", agent=turn.agent, turn=1, attempt=1, status=status, reply=reply, exit_code=code, **more
        ),
        seconds,
    )


def speaker(chat: LiveChat) -> str:
    turn = chat.next()
    assert turn is not None
    return turn.agent


def told(chat: LiveChat) -> str:
    turn = chat.next()
    assert turn is not None
    return turn.prompt


def begun(chat: LiveChat) -> None:
    owner: Any = None
    chat.event(TurnStarted(turn=1, owner=owner, turn_key="k", adapter="scripted", via="exec"))


def test_agents_take_turns_until_the_number_of_turns_and_it_says_why() -> None:
    chat = LiveChat(["a", "b"], "Tabs or spaces?", until=Until(turns=3))
    speakers = []
    while (turn := chat.next()) is not None:
        speakers.append(turn.agent)
        ended(chat)
    assert (speakers, chat.why, chat.code) == (["a", "b", "a"], "3 turns were taken", 0)
    assert chat.hops == 3


@pytest.mark.parametrize(
    ("until", "more", "why"),
    [
        (Until(phrase="AGREED"), {"reply": "AGREED, then"}, "a said 'AGREED'"),
        (Until(time=60), {"seconds": 61.0}, "it took 60 s"),
        (Until(), {"reply": " \n"}, "a fell silent"),
    ],
)
def test_each_limit_ends_it_after_the_turn_that_reaches_it(until: Until, more: dict[str, Any], why: str) -> None:
    chat = LiveChat(["a", "b"], "x", until=until)
    ended(chat, **more)
    assert (chat.next(), chat.why, chat.code) == (None, why, 0)


BUDGETS = [
    (Until(cost_usd=0.5), {"cost_usd": 0.6}, "it cost $0.5"),
    (Until(tokens=100), {"usage": Usage(input_tokens=90, output_tokens=20)}, "it used 100 tokens"),
]


@pytest.mark.parametrize(("until", "used", "why"), BUDGETS)
@pytest.mark.parametrize("status", [Status.COMPLETED, Status.CANCELLED])
def test_a_budget_ends_it_with_exit_code_7_also_inside_of_a_turn(
    until: Until, used: dict[str, Any], why: str, status: Status
) -> None:
    for moderator in (None, "m"):
        chat = LiveChat(["a", "b"], "x", until=until, moderator=moderator)
        assert chat.next() is not None
        assert not chat.must_stop
        chat.event(UsageSeen(usage=used.get("usage", Usage()), cost_usd=used.get("cost_usd")))
        assert chat.must_stop
        assert not chat.why  # the turn is not over
        outcome = Outcome(message_id="m", agent="a", turn=1, attempt=1, status=status, reply="b", exit_code=0, **used)
        chat.on_ended(outcome, 1.0)
        assert (chat.next(), chat.why, chat.code, chat.must_stop) == (None, why, 7, False)
        chat = LiveChat(["a", "b"], "x", until=until, moderator=moderator)
        ended(chat, "b", **used)  # a CLI that tells it at the end alone
        assert (chat.next(), chat.why, chat.code) == (None, why, 7)


def test_what_was_to_be_said_counts_even_if_it_used_up_the_budget() -> None:
    chat = LiveChat(["a", "b"], "x", until=Until(phrase="AGREED", cost_usd=0.5))
    ended(chat, "AGREED", cost_usd=0.6)
    assert (chat.why, chat.code) == ("a said 'AGREED'", 0)


def test_a_turn_that_fails_ends_it_with_its_exit_code() -> None:
    chat = LiveChat(["a", "b"], "x")
    ended(chat, status=Status.REFUSED, exit_code=6)
    assert (chat.next(), chat.why, chat.code) == (None, "a failed (refused)", 6)


def test_a_turn_that_was_cancelled_is_no_end_and_the_same_agent_speaks_again() -> None:
    chat = LiveChat(["a", "b"], "x", until=Until(turns=2))
    ended(chat)
    before = told(chat)
    ended(chat, status=Status.CANCELLED, cost_usd=0.25)
    assert (chat.hops, chat.cost_usd) == (1, 0.25)  # it cost something all the same
    assert (speaker(chat), told(chat)) == ("b", before)


def test_everybody_hears_a_person_once() -> None:
    chat = LiveChat(["a", "b"], "x")
    ended(chat, "one")
    chat.step_in("And tea?")
    assert told(chat).endswith("a:\n| one\n\nhuman:\n| And tea?")
    ended(chat, "two")
    assert told(chat) == "human:\n| And tea?\n\nb:\n| two"
    ended(chat, "three")
    assert told(chat) == "a:\n| three"


def test_a_person_speaks_as_an_agent_which_is_its_turn_and_that_agent_hears_of_it() -> None:
    chat = LiveChat(["a", "b"], "x")
    ended(chat, "one")
    ended(chat, "two")
    assert speaker(chat) == "a"
    chat.step_in("I was wrong.", "a")
    assert speaker(chat) == "b"
    assert told(chat) == "a:\n| I was wrong."
    ended(chat, "three")
    assert told(chat) == "b:\n| two\n\nA person, in your name:\n| I was wrong.\n\nb:\n| three"


@pytest.mark.parametrize(
    ("text", "next_one"), [("@b you?", "b"), ("ask @C please", "c"), ("@nobody", "a"), ("no", "a")]
)
def test_a_person_who_names_an_agent_gives_it_the_floor(text: str, next_one: str) -> None:
    chat = LiveChat(["a", "b", "c"], "x")
    chat.step_in(text)
    assert speaker(chat) == next_one
    chat.give_floor("c")
    assert speaker(chat) == "c"


@pytest.mark.parametrize(("more", "then"), [({}, "a"), ({"order": "address"}, "b"), ({"moderator": "m"}, "m")])
def test_who_is_given_the_floor_while_another_speaks_is_next_and_only_once(more: dict[str, Any], then: str) -> None:
    chat = LiveChat(["a", "b", "c"], "x", **more)
    if "moderator" in more:
        speaker_once(chat, "a")
    assert speaker_once(chat, "to nobody", floor="c") == "a"
    assert speaker_once(chat, "@b") == "c"
    assert speaker(chat) == then


def test_who_is_given_the_floor_while_the_moderator_chooses_is_next() -> None:
    chat = LiveChat(["a", "b"], "x", moderator="m")
    assert speaker_once(chat, "a", floor="b") == "m"
    assert speaker(chat) == "b"


def test_by_address_it_ends_when_nobody_is_named_but_a_person_may_speak_without_a_name() -> None:
    chat = LiveChat(["a", "b"], "x", order="address")
    chat.step_in("In a's name, to nobody.", "a")
    assert speaker(chat) == "a"
    ended(chat, "@b?")
    assert speaker(chat) == "b"
    ended(chat, "Nothing more.")
    assert chat.why == "nobody was addressed"


def test_a_moderator_names_the_speakers_and_ends_it_and_its_own_turns_do_not_count() -> None:
    chat = LiveChat(["a", "b", "c", "d"], "x", moderator="m", until=Until(turns=9))
    said = []
    for word in ("d", "b", "DONE"):
        assert speaker_once(chat, word) == "m"
        if not chat.why:
            said.append(speaker_once(chat, "hm"))
    assert (said, chat.why, chat.hops) == (["d", "b"], "m said that it is settled", 2)


def speaker_once(chat: LiveChat, reply: str, *, floor: str = "") -> str:
    turn = chat.next()
    assert turn is not None
    if floor:
        chat.give_floor(floor)
    outcome = Outcome(message_id="m-1", agent=turn.agent, turn=1, attempt=1, status=Status.COMPLETED, reply=reply)
    chat.on_ended(outcome, 1.0)
    return turn.agent


def test_a_moderator_that_is_asked_again_after_its_turn_was_cancelled_hears_what_was_said_since() -> None:
    chat = LiveChat(["a", "b"], "x", moderator="m")
    ended(chat, "a")
    ended(chat, "one")
    question = told(chat)
    assert "a:\n| one" in question
    ended(chat, status=Status.CANCELLED)
    assert told(chat) == question
    chat.step_in("And tea?")
    assert told(chat).startswith(f"{question}\n\nhuman:\n| And tea?\n\nWho speaks next?")
    assert told(chat).count("And tea?") == 1
    ended(chat, status=Status.CANCELLED)
    chat.give_floor("b")
    ended(chat, "two")
    assert "b:\n| two" in told(chat)
    ended(chat, "a")
    ended(chat, "three")
    assert told(chat).startswith("a:\n| three\n\nWho speaks next?")


def test_a_moderator_who_names_nobody_ends_it() -> None:
    chat = LiveChat(["a", "b"], "x", moderator="m")
    ended(chat, "I can't say")
    assert chat.why.startswith("m named nobody")


def test_only_the_first_turn_of_an_agent_that_began_is_its_first() -> None:
    chat = LiveChat(["a", "b"], "x")
    turn = chat.next()
    assert turn is not None
    assert turn.is_first
    chat.on_ended(
        Outcome(message_id="m", agent="a", turn=None, attempt=1, status=Status.CANCELLED, exit_code=9), 1.0
    )  # it was withdrawn before it began
    again = chat.next()
    assert again is not None
    assert again.is_first
    begun(chat)
    chat.on_ended(Outcome(message_id="m", agent="a", turn=1, attempt=1, status=Status.CANCELLED, exit_code=9), 1.0)
    later = chat.next()
    assert later is not None
    assert not later.is_first


def test_the_figures_include_the_turn_that_runs() -> None:
    chat = LiveChat(["a", "b"], "x")
    assert (chat.cost_usd, chat.tokens) == (None, None)
    ended(chat, cost_usd=0.1, usage=Usage(input_tokens=1, output_tokens=2))
    chat.next()
    chat.event(UsageSeen(usage=Usage(output_tokens=7), cost_usd=0.2))
    assert chat.tokens == 10
    assert chat.cost_usd == pytest.approx(0.3)


def test_a_person_ends_it() -> None:
    chat = LiveChat(["a", "b"], "x")
    chat.stop("a person ended it")
    assert (chat.next(), chat.why, chat.code) == (None, "a person ended it", 0)
