"""Conversations, comparisons and scenarios as a program has them, without any agent."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam import Conversation
from beam.api import Beam
from beam.api.conversation import Spoken
from beam.api.methods import coroutine_verb
from beam.base.errors import BeamError, ConfigError, LimitError, SignalledError, UnfinishedError, UsageError
from beam.conversations import comparing
from beam.model import events
from beam.model.message import Options, Recording
from beam.model.outcome import Outcome, Status, Usage
from tests.support.context import Root
from tests.support.journals import record
from tests.support.refused import refused

CONFIG = (
    "agents:\n  ann: {command: [cat]}\n  bob: {command: [cat]}\n  mod: {command: [cat]}\n  coder: {adapter: claude}\n"
)


class Talk:
    """A `Beam` whose messages are answered here: what was sent, and each answer."""

    def __init__(self, root: Root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (root.base / "beam.yaml").write_text(CONFIG)
        (tmp_path / "tools").mkdir()
        (tmp_path / "tools/claude").touch(0o755)
        environ = {**root.environ, "PATH": f"{tmp_path / 'tools'}:/usr/bin:/bin"}
        self.beam = Beam(root.context.home.root, cwd=root.base, environ=environ, clock=root.clock)
        self.sent: list[Any] = []
        self.asked: list[Any] = []
        self.answers: list[Outcome | Exception] = []
        self.during: Callable[[Any, Any], object] = lambda message, seen: None

        async def deliver(beam: Any, message: Any, seen: Any = None, *, on_ask: Any = None) -> Outcome:
            await asyncio.sleep(0)
            self.sent.append(message)
            self.asked.append(on_ask)
            answer = self.answers.pop(0) if self.answers else said(f"text {len(self.sent)}")
            found = self.during(message, seen)
            if asyncio.iscoroutine(found):
                await found
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(type(self.beam), "deliver", coroutine_verb(deliver))

    @property
    def turns(self) -> list[tuple[str, bool]]:
        return [(message.to, message.options.new) for message in self.sent]


def said(reply: str | None, status: Status = Status.COMPLETED, **fields: Any) -> Outcome:
    given = {"message_id": "m", "agent": "a", "turn": 1, "attempt": 1, "status": status, "reply": reply, **fields}
    return Outcome(**given)


@pytest.fixture
def talk(root: Root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Talk:
    return Talk(root, monkeypatch, tmp_path)


# -- conversations -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_agents_talk_by_turns_until_the_last_one(talk: Talk) -> None:
    on_ask: Any = object()
    talk.answers = [said("one", cost_usd=0.25, usage=Usage(input_tokens=3)), said("two"), said("three")]
    outcomes = list(talk.answers)
    made = Conversation(talk.beam, ["ann", "bob"], "Find a title.", turns=3, name="title", on_ask=on_ask, model="m")
    found = made.run()
    assert (found.why, found.exit_code, found.turns) == ("3 turns were taken", 0, 3)
    assert talk.turns == [("ann@title", True), ("bob@title", True), ("ann@title", True)]
    assert [message.options.model for message in talk.sent] == ["m"] * 3 and talk.asked == [on_ask] * 3
    assert found.said == (
        Spoken(agent="ann", text="one"),
        Spoken(agent="bob", text="two"),
        Spoken(agent="ann", text="three"),
    )
    assert list(found.outcomes) == outcomes and found.cost_usd == 0.25 and found.exit_code == 0
    with refused(UsageError, "this conversation was held before", "make another one"):
        made.run()


@pytest.mark.slow
def test_a_conversation_ends_with_a_phrase_a_test_or_a_failure(talk: Talk) -> None:
    heard: list[Spoken] = []

    def until(spoken: Spoken) -> bool:
        heard.append(spoken)
        return spoken.text == "text 2"

    found = Conversation(talk.beam, ["ann", "bob"], "x", until=until).run()
    assert (found.why, found.exit_code, found.turns) == ("bob's text meets `until`", 0, 2)
    assert heard == [Spoken(agent="ann", text="text 1"), Spoken(agent="bob", text="text 2")]
    assert Conversation(talk.beam, ["ann", "bob"], "x", phrase="3", until=until).run().why == "ann said '3'"
    talk.answers = [said(None, Status.FAILED, exit_code=1)]
    found = Conversation(talk.beam, ["ann", "bob"], "x", until=until).run()
    assert (found.why, found.exit_code, found.turns) == ("ann failed (failed)", 1, found.turns)
    assert len(heard) == 3


def test_a_turn_that_is_interrupted_ends_it_with_that_turns_code(talk: Talk) -> None:
    talk.answers = [said(None, Status.CANCELLED, exit_code=9)]
    found = Conversation(talk.beam, ["ann", "bob"], "x").run()
    assert (found.why, found.exit_code) == ("ann was interrupted", 9)


@pytest.mark.slow
def test_a_program_steps_in_gives_the_floor_and_ends_it(talk: Talk) -> None:
    made = Conversation(talk.beam, ["ann", "bob", "mod"], "x", turns=6)

    def during(message: Any, seen: Any) -> None:
        if len(talk.sent) == 1:
            made.say("I am here.")
            made.say("So am I.", "bob")
            made.give_floor("mod")
        if len(talk.sent) == 2:
            made.stop()

    talk.during = during
    found = made.run()
    assert talk.turns == [("ann@chat", True), ("mod@chat", True)]
    assert found.why == "the program ended it"
    assert Spoken(agent="human", text="I am here.", is_of_person=True) in found.said
    assert Spoken(agent="bob", text="So am I.", is_of_person=True) in found.said
    for act in (lambda: made.say("x", "zed"), lambda: made.give_floor("zed")):
        with refused(UsageError, "zed does not take part", "ann, bob, mod do", subject="zed"):
            act()
    with refused(UsageError, "the text is empty", "say something, or nothing at all"):
        made.say(" ")
    made.stop("enough")


def test_what_keeps_one_from_speaking_is_reported_before_anyone_does(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    message = type(talk.beam).message

    def check(beam: Any, agent: str, text: str, **options: Any) -> Any:
        made.append((agent, text, options["options"].new))
        if agent == "mod@chat":
            raise LimitError("no")
        return message(beam, agent, text, **options)

    monkeypatch.setattr(type(talk.beam), "message", check)
    with pytest.raises(LimitError):
        Conversation(talk.beam, ["ann", "bob"], "x", moderator="mod").run()
    assert made == [("ann@chat", "?", True), ("bob@chat", "?", True), ("mod@chat", "?", True)] and talk.sent == []


def test_each_event_is_seen_and_a_budget_interrupts_the_turn(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    interrupted: list[str] = []
    used = events.UsageSeen(usage=Usage(input_tokens=50, output_tokens=60), turn=1, message_id="m")

    async def interrupt(beam: Any, message_id: str) -> str:
        interrupted.append(message_id)
        raise UnfinishedError("it is over")

    monkeypatch.setattr(type(talk.beam), "interrupt", coroutine_verb(interrupt))

    def during(message: Any, show: Any) -> None:
        show(used)
        show(used)

    talk.during = during
    talk.answers = [said(None, Status.CANCELLED, exit_code=9)]
    found = Conversation(talk.beam, ["ann", "bob"], "x", tokens=100).run(seen.append)
    assert seen == [used, used] and interrupted == [talk.sent[0].id]
    assert found.exit_code == 7 and "100 tokens" in found.why


@pytest.mark.slow
def test_a_conversation_streams_and_who_leaves_it_ends_it(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted: list[str] = []
    ended = asyncio.Event()
    notice = events.Notice(text="x")

    async def interrupt(beam: Any, message_id: str) -> str:
        interrupted.append(message_id)
        ended.set()
        return "done"

    monkeypatch.setattr(type(talk.beam), "interrupt", coroutine_verb(interrupt))

    async def during(message: Any, show: Any) -> None:
        show(notice)
        if len(talk.sent) == 2:
            await ended.wait()

    talk.during = during
    stream = Conversation(talk.beam, ["ann", "bob"], "x").stream()
    for number, event in enumerate(stream):
        assert event == notice
        if number:
            break
    assert interrupted == [talk.sent[1].id] and stream.result.why == "the program left it"


def test_agents_have_no_conversations_of_their_own(talk: Talk) -> None:
    inside = Beam(talk.beam.home.root, cwd=talk.beam.home.project, environ={**talk.beam.environ, "BEAM_AGENT": "ann"})
    with pytest.raises(UsageError, match="only a person has agents talk with each other"):
        Conversation(inside, ["ann", "bob"], "x")
    with pytest.raises(TypeError):
        Conversation(talk.beam, ["ann", "bob"], "x", nonsense=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "said", "hint", "subject"),
    [
        ({"agents": ["ann", "ann"]}, "ann is named twice", "name each agent once", "ann"),
        ({"agents": ["ann", "bob"], "moderator": "bob"}, "bob is named twice", "name each agent once", "bob"),
        (
            {"agents": ["ann", "bob@x"]},
            "bob@x names a session; each agent speaks in one of the chat's own",
            "name the agent alone",
            "",
        ),
        ({"agents": ["ann"]}, "a conversation needs two agents", "beam chat A B --topic TEXT", ""),
        (
            {"agents": ["ann", "bob"], "by_address": True, "moderator": "mod"},
            "either a moderator names the next speaker, or the agents do",
            "leave one out",
            "",
        ),
        ({"agents": ["ann", "bob"], "topic": " "}, "the topic is empty", "say what it is about: --topic TEXT", ""),
    ],
)
def test_a_conversation_that_can_not_be_is_refused(
    given: dict[str, Any], said: str, hint: str, subject: str, talk: Talk
) -> None:
    with refused(UsageError, said, hint, subject=subject):
        talk.beam.live_chat(**{"topic": "x", **given})


@pytest.mark.slow
def test_a_conversation_has_its_order_and_its_limits(talk: Talk) -> None:
    chat = talk.beam.live_chat(["ann", "bob"], "x")
    assert (chat.agents, chat.moderator, chat.until.turns, chat._order) == (("ann", "bob"), None, 20, "round_robin")
    limits: dict[str, Any] = {"phrase": "p", "turns": 3, "cost_usd": 1.0, "tokens": 4, "time": 5.0}
    chat = talk.beam.live_chat(["ann", "bob"], "x", by_address=True, **limits)
    assert {name: getattr(chat.until, name) for name in limits} == limits and chat._order == "address"
    assert talk.beam.live_chat(["ann", "bob"], "x", moderator="mod").moderator == "mod"
    with pytest.raises(BeamError):
        talk.beam.live_chat(["ann", "nobody"], "x")


@pytest.mark.parametrize(
    ("agent", "via", "mode"),
    [("coder", None, "dialogue"), ("coder", "exec", "exec"), ("ann", None, None), ("ann", "terminal", "terminal")],
)
def test_a_chat_uses_an_agents_own_protocol(agent: str, via: str | None, mode: str | None, talk: Talk) -> None:
    assert talk.beam.chat_mode(agent, via) == mode


@pytest.mark.slow
def test_what_people_said_before_is_recalled_each_once(talk: Talk, root: Root) -> None:
    def queued(text: str, sender: str = "human") -> events.MessageQueued:
        return events.MessageQueued(message_id="m", sender=sender, text=text, digest="d")

    texts = [queued("a"), queued("b"), queued("a"), queued("c", "bob"), queued(""), queued("x" * 20_001)]
    record(root, "ann", *texts, queued("y" * 20_000))
    assert talk.beam.recalled("ann") == ["b", "a", "y" * 20_000]
    assert talk.beam.recalled("ann", 2) == ["a", "y" * 20_000] and talk.beam.recalled("bob") == []


def test_a_signal_ends_what_a_program_says(talk: Talk) -> None:
    ended: list[str] = []

    async def inside() -> list[Any]:
        with talk.beam.ending_signals(lambda: ended.append("ended")) as came:
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(100):
                await asyncio.sleep(0)
        return list(came)

    assert asyncio.run(inside()) == [signal.SIGTERM] and ended == ["ended"]


# -- several at once, and a judge --------------------------------------------------------------------------------------


def test_several_agents_answer_and_each_is_reported_in_the_order_of_its_message(talk: Talk) -> None:
    messages = [talk.beam.message(name, "x") for name in ("ann", "bob", "mod")]
    failure = LimitError("full")
    talk.answers = [said("one"), failure, said("three")]
    ended: list[Any] = []
    on_ask: Any = object()
    found = talk.beam.deliver_several(messages, ended=lambda *each: ended.append(each), on_ask=on_ask)
    assert found == [said("one"), failure, said("three")] and talk.asked == [on_ask] * 3
    assert ended == list(zip(messages, found, strict=True))
    with refused(UsageError, "ann is named twice", "name each agent once", subject="ann"):
        talk.beam.deliver_several([messages[0], messages[1], messages[0]])


@pytest.mark.slow
@pytest.mark.parametrize("outcome", [None, said(None, Status.CANCELLED)])
def test_a_signal_is_raised_once_all_are_over(outcome: Outcome | None, talk: Talk) -> None:
    messages = [talk.beam.message(name, "x") for name in ("ann", "bob", "mod")]
    first = SignalledError(signal.SIGINT, outcome)
    talk.answers = [first, SignalledError(signal.SIGTERM), said("three")]
    ended: list[Any] = []
    with pytest.raises(SignalledError) as error:
        talk.beam.deliver_several(messages, ended=lambda _, each: ended.append(each))
    assert error.value is first and ended[0] == (outcome or first) and ended[2] == said("three")


VERDICT = comparing.Comparison(judge="mod", best="ann", reason="r")


class Judge:
    """Stands in for what is sent to a judge, and the verdict that is read of its answer."""

    def __init__(self, talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[Any] = []
        self.outcome = said("scores", message_id="j-1")
        self.verdict = VERDICT
        self.answers: list[Any] = []

        async def send(beam: Any, judge: str, prompt: str, **options: Any) -> Outcome:
            self.given.append((judge, prompt, options))
            return self.outcome

        monkeypatch.setattr(type(talk.beam), "send", coroutine_verb(send))

        monkeypatch.setattr(comparing, "comparison_prompt", lambda *given: f"{given[0]}|{given[1]}|{len(given[2])}")

        def verdict_in(facts: Any, answers: Any) -> comparing.Comparison:
            self.answers = [(each.agent, each.text) for each in answers]
            assert facts.outcome is self.outcome
            return self.verdict

        monkeypatch.setattr(comparing, "verdict_in", verdict_in)


@pytest.fixture
def judge(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> Judge:
    return Judge(talk, monkeypatch)


OUTCOMES = [
    said("one", agent="ann"),
    said("two", Status.DENIED, agent="bob"),
    said(" ", agent="x"),
    said(None, agent="y"),
    said("three", Status.FAILED, agent="z"),
]


@pytest.mark.parametrize(("name", "access", "schema"), [("coder", "read", comparing.SCHEMA), ("mod", None, None)])
def test_a_judge_reads_only_and_gets_a_schema_where_it_can(
    name: str, access: str | None, schema: str | None, talk: Talk, judge: Judge
) -> None:
    found = talk.beam.compare(name, "which?", OUTCOMES, seen=print)
    assert judge.answers == [("ann", "one"), ("bob", "two")]
    options = {"once": True, "access": access, "schema": schema, "seen": print}
    assert judge.given == [(name, f"{comparing.RUBRIC}|which?|2", options)]
    assert (found.best, found.message_id, found.exit_code) == ("ann", "j-1", 13)
    judge.verdict = comparing.Comparison(judge="mod", scores=(comparing.AgentScore(agent="ann", score=1.0),))
    assert talk.beam.compare(name, "which?", OUTCOMES, rubric="own").exit_code == 0
    assert judge.given[1][1] == "own|which?|2"


@pytest.mark.parametrize(("reason", "text"), [(None, "failed"), ("why", "failed: why")])
def test_a_judge_that_fails_gives_no_verdict(reason: str | None, text: str, talk: Talk, judge: Judge) -> None:
    judge.outcome = said(None, Status.FAILED, reason=reason, message_id="j-1", exit_code=1)
    expected = comparing.Comparison(judge="mod", reason=text, message_id="j-1", exit_code=1)
    assert talk.beam.compare("mod", "which?", OUTCOMES) == expected


def test_one_answer_is_not_compared(talk: Talk, judge: Judge) -> None:
    with refused(UsageError, "there are fewer than two answers to compare", "a judge compares those that came"):
        talk.beam.compare("mod", "which?", OUTCOMES[:1] + OUTCOMES[2:])


# -- scenarios ---------------------------------------------------------------------------------------------------------

SCENARIO = "name: check\nsteps:\n  - ask: ann\n    prompt: hello ${who}\nvariables:\n  who: world\n"


class Played:
    """Stands in for what plays a scenario."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[Any] = []
        self.checked: list[Any] = []

        async def play(*given: Any) -> str:
            self.given.append(given)
            return "result"

        monkeypatch.setattr("beam.conversations.play.play", play)
        monkeypatch.setattr("beam.conversations.machine.check_machine", lambda *_, **given: self.checked.append(given))
        monkeypatch.setattr("beam.conversations.trusted.check_trusted", lambda *_: None)
        monkeypatch.setattr("beam.conversations.machine.plan", lambda scenario, context: ["step"])


def test_a_scenario_is_run_as_it_was_asked_for(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.conversations.play import RunOptions
    from beam.conversations.scenario import Spending

    played = Played(monkeypatch)
    scenario: Any = object()
    assert talk.beam.run(scenario) == "result"  # type: ignore[comparison-overlap]
    assert played.given[0][:3] == (scenario, talk.beam.context, RunOptions(ci=False))
    played.given[0][3]("progress")
    assert played.checked == [{"needs_agents": True, "needs_proxies": False}]
    talk.beam.run(
        scenario,
        ci=True,
        fail_fast=True,
        budget_usd=1.0,
        max_tokens=5,
        repeat=2,
        pass_rate=0.5,
        recording=Recording(replay="/p", on_miss="nearest"),
        seen=print,
    )
    assert played.given[1] == (
        scenario,
        talk.beam.context,
        RunOptions(
            ci=True,
            fail_fast=True,
            limits=Spending(cost_usd=1.0, tokens=5),
            repeat=2,
            pass_rate=0.5,
            recording=Recording(replay="/p", on_miss="nearest"),
        ),
        print,
    )
    talk.beam.run(scenario, recording=Recording(replay="/p", on_miss="live"))
    assert [each["needs_agents"] for each in played.checked] == [True, False, True]
    assert talk.beam.plan(scenario) == talk.beam.plan(scenario, replay=True) == ["step"]  # type: ignore[comparison-overlap]
    assert [each["needs_agents"] for each in played.checked[3:]] == [True, False]


@pytest.mark.parametrize(("value", "ci"), [("", False), ("0", False), ("false", False), ("1", True), ("true", True)])
def test_a_run_is_one_of_ci_where_the_environment_says_so(
    value: str, ci: bool, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(monkeypatch)
    environ = {**talk.beam.environ, "CI": value}
    there = Beam(talk.beam.home.root, cwd=talk.beam.home.project, environ=environ)
    scenario: Any = object()
    there.run(scenario)
    assert played.given[0][2].ci is ci


@pytest.mark.parametrize("name", ["budget_usd", "pass_rate"])
@pytest.mark.parametrize("number", [-0.1, float("inf"), float("nan")])
def test_a_limit_of_a_run_is_a_number_from_nothing(name: str, number: float, talk: Talk) -> None:
    with refused(UsageError, f"{name} is {number}", "give a number from 0", subject=name):
        talk.beam.run("x.yaml", **{name: number})


def test_a_file_that_is_no_scenario_is_an_error_and_a_variable_has_a_value(talk: Talk, root: Root) -> None:
    (root.base / "bad.yaml").write_text("steps: 5\n")
    with pytest.raises(ConfigError, match=r"bad\.yaml"):
        talk.beam.scenario("bad.yaml")
    with pytest.raises(BeamError):
        talk.beam.run("none.yaml")


def test_a_scenario_that_nobody_trusts_is_said_to_be_so(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.base.errors import UntrustedError

    scenario: Any = object()
    trusted: list[Any] = []

    def check(*given: Any) -> None:
        if not trusted:
            raise UntrustedError("it runs make", "beam trust")

    monkeypatch.setattr("beam.conversations.trusted.check_trusted", check)
    monkeypatch.setattr("beam.conversations.trusted.trust", lambda *given: trusted.append(given))
    wanted = [SimpleNamespace(name="full access", says="x"), SimpleNamespace(name="make", says="")]
    monkeypatch.setattr("beam.conversations.trusted.findings_of_scenario", lambda *given: wanted)
    assert talk.beam.untrusted_scenario(scenario) == "it runs make (beam trust)"
    assert talk.beam.scenario_wants(scenario) == ["full access", "it runs make"]
    talk.beam.trust_scenario(scenario)
    assert trusted == [(scenario, talk.beam.context)] and talk.beam.untrusted_scenario(scenario) is None


def test_options_of_a_conversation_are_those_of_each_turn(talk: Talk) -> None:
    made = Conversation(talk.beam, ["ann", "bob"], "x", turns=1, options=Options(timeout=5.0), model="m")
    made.run()
    assert (talk.sent[0].options.timeout, talk.sent[0].options.model) == (5.0, "m")
