"""What the options of `beam send` say is what the message has; options that make no sense are refused."""

from __future__ import annotations

import contextlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from beam.api import Beam
from beam.base.errors import DiskError, NotFoundError, SignalledError, UntrustedError
from beam.cli import printer as printing
from beam.cli import send as sending
from beam.conversations.comparing import AgentScore, Comparison
from beam.model import events
from beam.model.message import Options, Recording, RuleLists
from beam.model.outcome import Status
from tests.support.chatting import message, outcome
from tests.support.inside import Inside, Told

NOTHING: dict[str, Any] = {
    "wait": False, "sender": None, "attach": [], "options": Options(), "key": None, "deadline": None, "replies": None,
}  # fmt: skip


@pytest.fixture
def made(told: Told) -> Told:
    """Every message that is made is put, and nothing else happens."""
    told.replace("message", *[lambda name, text, **_: message(f"{name}-1", name, text)] * 9)
    return told


def options_of(inside: Inside, made: Told, *words: str) -> Options:
    """The options of the one message of `beam send bot hi WORDS`."""
    made.calls.clear()
    inside("send", "bot", "hi", "--no-wait", *words)
    assert len(made.calls) == 1, words
    found: Options = made.calls[0][1]["options"]
    return found


@pytest.fixture
def no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Beam, "put", lambda _, message: message.id)
    monkeypatch.setattr(Beam, "notes", lambda *_, **__: [])


@pytest.mark.usefixtures("no_queue")
@pytest.mark.parametrize(
    ("words", "options"),
    [
        ((), Options()),
        (("-m", "opus"), Options(model="opus")),
        (("--access", "read"), Options(access="read")),
        (("--new",), Options(new=True)),
        (("--once",), Options(once=True)),
        (("--via", "terminal"), Options(via="terminal")),
        (("--timeout", "90s"), Options(timeout=90.0)),
        (("--max-turns", "1"), Options(max_turns=1)),
        (("--budget", "0.5"), Options(budget_usd=0.5)),
        (("--require", "structured"), Options(require="structured")),
        (("--tolerate", "denied"), Options(tolerate="denied")),
        (("--no-circuit",), Options(no_circuit=True)),
        (("--keep", "2m"), Options(keep=120.0)),
        (
            ("--allow", "A", "--ask", "B", "--deny", "C", "--deny", "D"),
            Options(rules=RuleLists(allow=("A",), ask=("B",), deny=("C", "D"))),
        ),
        (("--max-tokens", "7"), Options(max_tokens=7)),
        (("--record", "/r"), Options(recording=Recording(record="/r"))),
        (("--record", "/r", "--depth", "turn,model"), Options(recording=Recording(record="/r", depth="turn,model"))),
        (("--replay", "/r", "--on-miss", "nearest"), Options(recording=Recording(replay="/r", on_miss="nearest"))),
        (("--shield", "fd:3"), Options(shield="fd:3")),
    ],
)
def test_an_option_is_in_the_message(inside: Inside, made: Told, words: tuple[str, ...], options: Options) -> None:
    assert options_of(inside, made, *words) == options


@pytest.mark.slow
@pytest.mark.usefixtures("no_queue")
def test_what_is_no_option_of_the_turn_goes_with_the_message(inside: Inside, made: Told) -> None:
    (inside.project / "a.png").touch()
    (inside.project / "s.json").write_text('{"type":"object"}')
    sent = inside("send", "bot", "hi", "--no-wait")
    assert (sent.code, sent.out, sent.err) == (0, "bot-1\n", "")
    assert made.taken() == [(("bot", "hi"), NOTHING)]
    words = ["--attach", "a.png", "--key", "k", "--from", "ann", "--deadline", "5m", "--replies", "0"]
    inside("send", "bot", "hi", "--no-wait", "--schema", "s.json", *words)
    options = Options(schema='{"type":"object"}')
    more = {"sender": "ann", "key": "k", "deadline": 300.0, "replies": 0, "attach": [inside.project / "a.png"]}
    assert made.taken() == [(("bot", "hi"), {**NOTHING, **more, "options": options})]
    inside("send", "bot", "/compact", "--slash", "--no-wait")
    assert made.taken()[0][1]["options"] == Options(slash=True)


@pytest.mark.usefixtures("no_queue")
def test_where_a_message_works_and_what_is_noted_of_it_is_reported(
    inside: Inside, made: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[bool] = []

    def notes(_: Beam, message: object, *, waits: bool) -> list[str]:
        noted.append(waits)
        return ["it waits"]

    monkeypatch.setattr(Beam, "notes", notes)
    monkeypatch.setattr(Beam, "folder", lambda _, name: f"/of/{name}")
    assert inside("send", "bot", "hi", "--no-wait").err == "beam: it waits\n"
    assert inside("-v", "send", "bot", "hi", "--no-wait").err == "beam: bot works in /of/bot\nbeam: it waits\n"
    monkeypatch.setattr(Beam, "is_agent", True)
    assert inside("-v", "send", "bot", "hi", "--no-wait").err == "beam: it waits\n"
    assert noted == [False, False, False]


@pytest.mark.slow
def test_a_history_is_quoted_below_the_prompt(inside: Inside, made: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(Beam, "put", lambda _, message: message.id)
    monkeypatch.setattr(Beam, "history", lambda _, *given: asked.append(given) or "> before")
    for words in ((), ("--context", "full")):
        inside("send", "bot", "hi", "--context-from", "ann", "--no-wait", *words)
    assert asked == [("ann", "recent"), ("ann", "full")]
    assert [words for words, _ in made.calls] == [("bot", "hi\n\n> before")] * 2
    inside("send", "bot", " ", "--context-from", "ann", "--no-wait")
    assert made.calls[-1][0] == ("bot", " ")
    refused = inside("send", "bot", "hi", "--context", "full", "--no-wait")
    assert refused.err == "beam: --context is for --context-from; add it, or leave --context out\n"
    alone = "--context-from and --slash or --key don't go together"
    for word in (("--slash",), ("--key", "k")):
        assert inside("send", "bot", "/x", "--context-from", "ann", "--no-wait", *word).err.startswith(f"beam: {alone}")


TOGETHER = "don't go together"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--json", "--events"), f"--json and --events {TOGETHER}; use --events alone: its last line is the outcome"),
        (("--no-wait", "--events"), f"--no-wait and --events {TOGETHER}; beam wait ID --events"),
        (("--judge", "c"), "--judge compares the answers of several agents; beam send A,B TEXT --judge C"),
        (("--rubric", "x"), "--judge compares the answers of several agents; beam send A,B TEXT --judge C"),
        (("--on-miss", "live"), "--on-miss is for --record DIR and --replay DIR; add one, or leave --on-miss out"),
        (("--depth", "model"), "--depth is for --record DIR and --replay DIR; add one, or leave --depth out"),
        (("--record", "x", "--depth", "all"), "--depth all: unknown word; --depth turn|model|turn,model"),
        (("--replay", "x", "--on-miss", "fill"), "--on-miss fill: unknown word; --on-miss stop|live|nearest"),
        (("--slash",), "'hi' is no slash command; for example: beam send claude --slash /compact"),
        (("--require", "x"), "--require x: unknown word; --require structured|whole"),
        (("--tolerate", "x"), "--tolerate x: unknown word; --tolerate denied"),
        *(
            (
                ("--steer", *words),
                f"--steer and --{name} {TOGETHER}; a text for the running turn is no message of its own",
            )
            for words, name in (
                (("--json",), "json"),
                (("-m", "x"), "model"),
                (("--max-turns", "1"), "max-turns"),
                (("--deny", "x"), "deny"),
            )
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(inside: Inside, made: Told, words: tuple[str, ...], said: str) -> None:
    refused = inside("send", "bot", "hi", *words)
    assert (refused.code, refused.err) == (2, f"beam: {said}\n")


@pytest.mark.parametrize(
    ("agent", "words", "code", "said"),
    [
        (
            *("fix it", (), 2),
            (
                "no agent is named; declared here: asker, bot, box, worker; name it first: beam send asker 'fix it'; "
                "or write `defaults: {agent: NAME}`"
            ),
        ),
        (
            *("codex~0abc", ("hi",), 10),
            (
                "codex~0abc is a session that beam did not start, and its program takes messages from its person "
                "alone; type there; a member of a Claude team has an inbox (beam team send); once it has ended, "
                "beam agent add NAME --session codex:0abc continues in it"
            ),
        ),
    ],
)
def test_what_is_no_agents_name_is_refused(
    inside: Inside, agent: str, words: tuple[str, ...], code: int, said: str
) -> None:
    refused = inside("send", agent, *words)
    assert (refused.code, refused.err) == (code, f"beam: {said}\n")


@pytest.mark.slow
def test_a_text_for_the_running_turn_is_given_to_it(inside: Inside, told: Told) -> None:
    told.replace("steer", "it was read", "it was read")
    done = inside("send", "bot", "look", "--steer")
    assert (done.code, done.out, done.err) == (0, "", "beam: it was read\n")
    inside("send", "bot", "look", "-f", "-", "--steer", stdin="there\n")
    assert told.calls == [(("bot", "look"), {}), (("bot", "look\n\nthere"), {})]
    refused = inside("send", "bot,cat", "look", "--steer")
    assert refused.err == "beam: --steer is for one agent; steer them one after the other\n"


# -- one answer --------------------------------------------------------------------------------------------------------


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, made: Told) -> Told:
    """A message is delivered at once."""
    monkeypatch.setattr(Beam, "notes", lambda *_, **__: [])
    monkeypatch.setattr(Beam, "progress", lambda *_: None)
    return made


def test_the_answer_is_printed_and_its_code_is_the_exit_code(inside: Inside, alone: Told) -> None:
    failed = outcome(status=Status.FAILED, reason="no key", exit_code=1)
    alone.replace("deliver", outcome(reply="hello"), failed, outcome(reply="hello"))
    done = inside("send", "bot", "hi")
    assert (done.code, done.out, done.err) == (0, "hello\n", "")
    assert alone.calls[0][1]["wait"] is True
    done = inside("send", "bot", "hi")
    assert (done.code, done.out, done.err) == (1, "", "beam: bot: failed: no key [bot-1]\n")
    assert inside("send", "bot", "hi", "--json").json["reply"] == "hello"


def test_a_turn_that_a_signal_ended_is_printed_before_that(
    inside: Inside, alone: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.cli import errors

    died: list[int] = []
    monkeypatch.setattr(errors, "die_by_signal", lambda number: died.append(number) or 128 + number)
    ended = outcome(status=Status.CANCELLED, reason="a signal", exit_code=9)
    alone.replace("deliver", SignalledError(15, ended), SignalledError(2))
    done = inside("send", "bot", "hi")
    assert (done.code, done.err) == (143, "beam: bot: cancelled: a signal [bot-1]\n")
    assert (inside("send", "bot", "hi").code, died) == (130, [15, 2])


@pytest.mark.parametrize(
    ("words", "asks"),
    [((), True), (("--access", "read"), False), (("--no-wait",), False), (("--key", "k"), False)],
)
def test_a_person_at_a_terminal_is_asked_where_nobody_said_what_is_allowed(
    inside: Inside, alone: Told, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], asks: bool
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(sending, "is_interactive", lambda *streams: streams == (sys.stdin, sys.stderr))
    monkeypatch.setattr(Beam, "default_access", lambda _, *words: given.append(words) or "ask")
    monkeypatch.setattr(Beam, "put", lambda _, message: message.id)
    alone.replace("deliver", outcome())
    more = ("-m", "opus", "--budget", "1", "--max-turns", "2", "--via", "dialogue")
    inside("send", "bot", "hi", *more, *words)
    assert given == ([("bot", "dialogue", ["budget", "max_turns", "model"])] if asks else [])
    access = alone.calls[0][1]["options"].access
    assert access == ("ask" if asks else "read" if "--access" in words else None)


def test_an_option_is_known_to_the_default_of_the_access(
    inside: Inside, alone: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inside.project / "s").write_text("{}")
    given: list[Any] = []
    monkeypatch.setattr(sending, "is_interactive", lambda *_: True)
    monkeypatch.setattr(Beam, "default_access", lambda _, *words: given.append(words[2]) or "ask")
    alone.replace("deliver", outcome(), outcome(), outcome())
    inside("send", "bot", "hi")
    inside("send", "bot", "hi", "--attach", "s")
    inside("send", "bot", "hi", "--schema", "s")
    assert given == [[], ["attach"], ["schema"]]


def test_who_must_trust_the_folder_first_is_asked_at_a_terminal(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = UntrustedError("beam.yaml is not trusted", "beam trust")
    answers: list[Any] = [wrong, wrong, wrong, "acted"]
    trusted: list[Any] = []

    def act() -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    looked = SimpleNamespace()
    beam: Any = SimpleNamespace(
        look_at_folder=lambda: looked, trust=trusted.append, home=SimpleNamespace(project="/p\x1b")
    )
    call: Any = SimpleNamespace(beam=beam)
    import beam.api.trusting as review

    monkeypatch.setattr(review, "allowed", lambda _: iter(["run cat", "\x1b[2J"]))
    import io

    def asked(answer: str) -> str:
        err = io.StringIO()
        with monkeypatch.context() as streams:
            streams.setattr(sys, "stdin", io.StringIO(answer))
            streams.setattr(sys, "stderr", err)
            with contextlib.suppress(UntrustedError):
                err.write(f"{sending.with_folder_trust(call, act)}")
        return err.getvalue()

    assert (asked("y\n"), len(answers)) == ("", 3), "nobody is there"
    monkeypatch.setattr(sending, "is_interactive", lambda *_: True)
    question = "beam: beam.yaml is not trusted\n  run cat\n  ␛[2J\nTrust /p␛ with all of this? [y/N] "
    assert (asked("n\n"), trusted) == (question, [])
    assert (asked(" YES\n"), trusted) == (f"{question}acted", [looked])


# -- several answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agents", "words", "said"),
    [
        ("a,b,a", (), "a is named twice; name each agent once"),
        ("a,,b,", (), "an empty name is named twice; name each agent once"),
        ("a,", (), "there is no agent between two commas; like this: beam send A,B,C TEXT"),
        ("a,b", ("--events",), "--events is for one agent; beam watch shows all of them"),
        (
            "a,b",
            ("--shield", "fd:3"),
            "--shield fd:N is for one agent; a descriptor is read once; use --shield NAME",
        ),
        ("a,b", ("--no-wait", "--judge", "c"), "--judge and --no-wait don't go together; the judge needs the answers"),
        ("a,b", ("--rubric", "x"), "--rubric is for --judge; add it, or leave --rubric out"),
    ],
)
def test_receivers_that_can_not_stand_together_are_refused(
    inside: Inside, made: Told, agents: str, words: tuple[str, ...], said: str
) -> None:
    refused = inside("send", agents, "hi", *words)
    assert (refused.code, refused.err, made.calls) == (2, f"beam: {said}\n", [])


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch, made: Told) -> Told:
    """Messages to several whose results the test names; `made.results` by the name of the agent."""
    monkeypatch.setattr(Beam, "notes", lambda _, message, waits: [f"{message.to} waits"] if waits else [])
    monkeypatch.setattr(Beam, "progress", lambda _, message: lambda: None)
    made.results = {}  # type: ignore[attr-defined]
    waited: list[str] = []
    made.waited = waited  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def waiting(_: Any, message_id: str, look: Any) -> Any:
        waited.append(f"for {message_id}")
        yield
        waited.append(f"not for {message_id}")

    monkeypatch.setattr(printing.Printer, "waiting", waiting)

    def deliver(messages: Any, *, seen: Any, ended: Any) -> list[Any]:
        found = [made.results[each.to] for each in messages]  # type: ignore[attr-defined]
        for each, result in zip(messages, found, strict=True):
            ended(each, result)
        return found

    made.replace("deliver_several", *[deliver] * 9)
    return made


def test_several_answer_in_the_order_of_their_names(inside: Inside, side: Told) -> None:
    side.results = {"a": outcome(agent="a", reply="one"), "b": outcome(agent="b", reply="two")}  # type: ignore[attr-defined]
    done = inside("send", "a,b", "hi")
    assert (done.code, done.out) == (0, "==> a <==\none\n==> b <==\ntwo\n")
    assert done.err == "beam: a waits\nbeam: b waits\n"
    assert side.waited == ["for a-1", "not for a-1", "for b-1", "not for b-1"]  # type: ignore[attr-defined]
    as_json = inside("send", "a,b", "hi", "--json")
    assert [line["reply"] for line in as_json.lines] == ["one", "two"]


def test_no_answer_of_several_is_printed_as_it_is_written(
    inside: Inside, side: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "is_interactive", lambda *found: found == (sys.stdout,))

    def deliver(messages: Any, *, seen: Any, ended: Any) -> list[Any]:
        seen(events.TextDelta(text="half of the second"))
        for each in messages:
            ended(each, outcome(agent=each.to, reply=f"of {each.to}"))
        return []

    side.replace("deliver_several", deliver)
    assert inside("send", "a,b", "hi").out == "==> a <==\nof a\n==> b <==\nof b\n"


def test_the_first_failure_is_the_exit_code_and_each_is_reported(inside: Inside, side: Told) -> None:
    side.results = {  # type: ignore[attr-defined]
        "a": outcome(agent="a", reply="one"),
        "b": NotFoundError("no such agent", "beam agent list"),
        "c": SignalledError(15),
        "d": DiskError("full"),
    }
    done = inside("send", "a,b,c,d", "hi")
    assert (done.code, done.out) == (4, "==> a <==\none\n==> b <==\n==> c <==\n==> d <==\n")
    assert done.err.splitlines()[4:] == [
        "beam: b: no such agent; beam agent list",
        "beam: c: ended by signal 15",
        "beam: d: full",
    ]
    as_json = inside("send", "b,c", "hi", "--json")
    assert [line["error"]["kind"] for line in as_json.lines] == ["not_found", "signalled"]
    assert inside("send", "c,b", "hi").code == 143


def test_ids_of_several_are_printed_at_once_and_one_that_fails_keeps_none_of_the_others(
    inside: Inside, side: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    side.replace("put", "a-1", NotFoundError("archived"), DiskError("full"), "d-1")
    done = inside("send", "a,b,c,d", "hi", "--no-wait")
    assert (done.code, done.out) == (4, "a-1\nd-1\n")
    assert done.err == "beam: b: archived\nbeam: c: full\n"
    lost = DiskError("a-1 was sent", subject="a-1")
    side.replace("put", lost, "b-1")
    assert inside("send", "a,b", "hi", "--no-wait").code == int(lost.exit_code)


VERDICT = Comparison(
    judge="c",
    best="b",
    scores=(AgentScore(agent="a", score=5.0), AgentScore(agent="b", score=10.0)),
    reason="it is\n\x1b[2Jshort",
)


@pytest.mark.slow
def test_a_judge_scores_the_answers(inside: Inside, side: Told) -> None:
    side.results = {"a": outcome(agent="a", reply="one"), "b": outcome(agent="b", reply="two")}  # type: ignore[attr-defined]
    tie = Comparison(judge="c", scores=VERDICT.scores)
    none = Comparison(judge="c", reason="it\nfailed", message_id="c-1", exit_code=13)
    side.replace("compare", VERDICT, tie, none, VERDICT)
    done = inside("send", "a,b", "hi", "--judge", "c", "--rubric", "brevity")
    assert (done.code, done.out.splitlines()[4:]) == (
        0,
        ["==> c judges <==", "10.0  b", " 5.0  a", "best: b; it is ␛[2Jshort"],
    )
    words, named = side.calls[-1]
    assert words == ("c", "hi", list(side.results.values())) and named["rubric"] == "brevity"  # type: ignore[attr-defined]
    assert inside("send", "a,b", "hi", "--judge", "c").out.splitlines()[-1] == "several are best"
    done = inside("send", "a,b", "hi", "--judge", "c")
    assert (done.code, done.out.count("\n")) == (13, 4)
    assert done.err.splitlines()[-1] == "beam: c gave no verdict: it failed; see beam show c-1"
    assert inside("send", "a,b", "hi", "--judge", "c", "--json").lines[-1]["best"] == "b"


@pytest.mark.parametrize(
    "second",
    [
        outcome(agent="b"),
        outcome(agent="b", reply=" "),
        outcome(agent="b", status=Status.FAILED, reply="x", exit_code=1),
    ],
)
def test_a_judge_is_not_asked_about_one_answer(inside: Inside, side: Told, second: Any) -> None:
    side.results = {"a": outcome(agent="a", reply="one"), "b": second}  # type: ignore[attr-defined]
    done = inside("send", "a,b", "hi", "--judge", "c")
    assert done.code == second.exit_code
    assert done.err.splitlines()[-1] == "beam: c was not asked: there are fewer than two answers to compare"


def test_a_failure_counts_more_than_the_judges(inside: Inside, side: Told) -> None:
    bad = outcome(agent="c", status=Status.FAILED, reason="x", exit_code=3)
    side.results = {"a": outcome(agent="a", reply="1"), "b": outcome(agent="b", reply="2"), "d": bad}  # type: ignore[attr-defined]
    side.replace("compare", Comparison(judge="c", reason="no", exit_code=13))
    assert inside("send", "a,b,d", "hi", "--judge", "c").code == 3


@pytest.mark.parametrize(
    ("words", "stdin", "text"),
    [
        (("why not?",), "", "why not?"),
        (("-",), "piped\n", "piped"),
        ((), "piped\n", "piped"),
        (("Review this:", "-"), "piped", "Review this:\n\npiped"),
        (("two\nlines", "and", "more"), "", "two\nlines and more"),
    ],
)
def test_what_names_no_agent_goes_to_the_default_agent(
    inside: Inside, words: tuple[str, ...], stdin: str, text: str
) -> None:
    with (inside.project / "beam.yaml").open("a") as config:
        config.write("defaults: {agent: box}\n")
    assert inside("send", "--no-wait", *words, stdin=stdin).code == 0
    assert inside("recv", "box").out.strip() == text


def test_without_a_default_agent_who_is_there_is_told(inside: Inside) -> None:
    refused = inside("send", "-", stdin="piped")
    said = "no agent is named; declared here: asker, bot, box, worker; name it first: beam send asker -; or write"
    assert (refused.code, refused.err) == (2, f"beam: {said} `defaults: {{agent: NAME}}`\n")
    assert "name it first: beam chat asker;" in inside("chat").err


def test_a_chat_without_a_name_is_one_with_the_default_agent(inside: Inside) -> None:
    with (inside.project / "beam.yaml").open("a") as config:
        config.write("defaults: {agent: bot}\n")
    assert inside("chat").err == "beam: beam chat needs a terminal; in a script: beam send bot TEXT\n"


MESSAGE = '{"to": "box", "from": "asker", "payload": {"text": "hi"}, "mine": 1}'


@pytest.mark.parametrize("place", ["file", "stdin", "word"])
def test_a_message_as_an_object_is_put_as_it_says(inside: Inside, place: str) -> None:
    (inside.project / "m.json").write_text(MESSAGE)
    given = {"file": "m.json", "stdin": "-", "word": MESSAGE}[place]
    assert inside("send", "--message", given, "--no-wait", stdin=MESSAGE).code == 0
    found = inside("recv", "box", "--json").json
    assert (found["from"], found["payload"]["text"], found["mine"], found["reply"]) == ("asker", "hi", 1, "queue")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("hi", "--message", "m"), "--message and a TEXT don't go together"),
        (("--message", "m", "-f", "x"), "--message and --file don't go together"),
        (("--message", "m", "--steer"), "--message and --steer don't go together"),
        (("--message", "m", "--slash"), "--message and --slash don't go together"),
        (("--message", "m", "--context-from", "box"), "--message and --context-from don't go together"),
        (("--message", "-", "--schema", "-"), "`-` is given twice, and stdin can be read once"),
    ],
)
def test_what_does_not_go_with_an_object_is_refused(inside: Inside, words: tuple[str, ...], said: str) -> None:
    refused = inside("send", "box", *words, stdin="{}")
    assert (refused.code, refused.err.partition(";")[0]) == (2, f"beam: {said}")


def test_an_object_is_for_one_agent(inside: Inside) -> None:
    refused = inside("send", "box,bot", "--message", '{"payload": {"text": "hi"}}')
    assert (refused.code, refused.err.partition(";")[0]) == (2, "beam: --message is for one agent")
    refused = inside("send", "--message", '{"payload": {"text": "hi"}}')
    assert "name it first: beam send asker --message FILE; or" in refused.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("hi", "--each"), "--each and a TEXT don't go together"),
        (("--each", "-f", "x"), "--each and --file don't go together"),
        (("--each", "--message", "x"), "--each and --message don't go together"),
        (("--each", "--events"), "--each and --events don't go together"),
        (("--each", "--judge", "box"), "--each and --judge don't go together"),
        (("--each", "--schema", "-"), "--each and --schema - don't go together"),
        (("--each", "--shield", "fd:3"), "--each and --shield fd:N don't go together"),
        (("hi", "--on-failure", "next"), "--on-failure is for --each"),
        (("--each", "--on-failure", "never"), "--on-failure never: unknown word"),
    ],
)
def test_what_does_not_go_with_lines_is_refused(inside: Inside, words: tuple[str, ...], said: str) -> None:
    refused = inside("send", "box", *words, stdin="hi")
    assert (refused.code, refused.err.splitlines()[-1].partition(";")[0]) == (2, f"beam: {said}")
    assert "waits" not in inside("queue", "list").out


def test_lines_are_for_one_agent_and_a_dash_is_stdin(inside: Inside) -> None:
    refused = inside("send", "box,bot", "--each", stdin="hi")
    assert refused.err.partition(";")[0] == "beam: --each is for one agent"
    assert inside("send", "box", "-", "--each", "--no-wait", stdin="one\n\ntwo\n").out.count("box-") == 2
