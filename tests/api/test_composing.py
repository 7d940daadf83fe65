"""Messages as they are made, what a person is told before one is sent, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET

from beam.api import Beam
from beam.api.verbs.sending import SendVerbs
from beam.base.errors import BeamError, DiskError, NotFoundError, UnsupportedError, UsageError
from beam.broker.holder.control import NO_KEPT_PROCESS
from beam.model import events
from beam.model.message import Message, Options, Payload, Recording, RuleLists, SessionContext, encode, keyed_id
from beam.process.program import fingerprint
from tests.support.context import Root
from tests.support.journals import closed, finished, record, started, turn
from tests.support.refused import refused

NOW = "2023-11-14T22:13:20.000000Z"


def opened(root: Root, **environ: str) -> Beam:
    return Beam(root.context.home.root, cwd=root.base, environ={**root.environ, **environ}, clock=root.clock)


@pytest.fixture
def beam(root: Root, tmp_path: Path) -> Beam:
    """`box` is a mailbox, `worker` is `cat`, `coder` Claude Code; `asker` had a turn in a session."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("claude", "opencode", "pi"):
        (tools / name).touch(0o755)
    root.environ["PATH"] = f"{tools}:/usr/bin:/bin"
    (root.base / "beam.yaml").write_text(
        "agents:\n  box: {adapter: mailbox}\n  worker: {command: [cat]}\n  coder: {adapter: claude}\n"
        "  asker: {adapter: claude}\n  pi: {adapter: pi}\n"
        "  loaded: {command: [cat], env: {LD_PRELOAD: /x.so, LD_AUDIT: /y, A: '1'}}\n"
    )
    return opened(root)


def test_a_message_is_what_was_asked_for(beam: Beam, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    plain = beam.message("box", "hi")
    assert plain == Message(
        id=plain.id,
        timestamp=NOW,
        sender="human",
        to="box",
        payload=Payload(text="hi"),
        thread=plain.thread,
        reply="wait",
        session_context=SessionContext(),
        environment=fingerprint(beam.environ, plain.id),
    )
    assert list(beam._receivers) == [plain.id]
    full = beam.message(
        "box", "hi", wait=False, key="k", deadline=2.0, options=Options(model="m"), new=True, replies=None
    )
    assert (full.reply, full.key, full.deadline, full.options) == (
        "none",
        "k",
        "2023-11-14T22:13:22.000000Z",
        Options(model="m", new=True),
    )
    assert list(beam._receivers) == [full.id]


def test_a_message_as_an_object_is_the_message_that_it_says(beam: Beam, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (beam._cwd / "a.txt").touch()
    plain = beam.message_from('{"to": "box", "payload": {"text": "hi"}}')
    assert (plain.to, plain.text, plain.sender, plain.reply, plain.key) == ("box", "hi", "human", "wait", None)
    said = {
        "id": "t-1", "to": "box", "from": "worker", "type": "inject", "timestamp": "1970-01-01T00:00:00Z",
        "payload": {"text": "hi", "attach": ["a.txt"], "cost": 1}, "session_context": {"session_id": "s"},
        "deadline": "2023-11-14T22:13:22Z", "replies": 3, "hops": 9, "mine": [1],
    }  # fmt: skip
    full = beam.message_from(json.dumps(said).encode(), "box", attach=[tmp_path / "a.txt"], model="m")
    assert (full.id, full.key, full.timestamp, full.type, full.actor) == (
        keyed_id("box", "t-1"),
        "t-1",
        NOW,
        "inject",
        "human",
    )
    assert (full.sender, full.reply, full.replies, full.hops) == ("worker", "queue", 3, 0)
    assert full.payload == Payload(text="hi", attach=(str(beam._cwd / "a.txt"), str(tmp_path / "a.txt")))
    assert (full.session_context.session_id, full.deadline) == ("s", "2023-11-14T22:13:22.000000Z")
    assert full.options == Options(model="m")
    written = json.loads(encode(full))
    assert (written["mine"], written["payload"]["cost"]) == ([1], 1)
    assert beam.message_from(json.dumps({**said, "reply": "none", "replies": None})).reply == "none"
    assert beam.message_from(json.dumps({**said, "replies": None}), sender="human", key="k").key == "k"


def test_an_object_without_a_turn_of_its_sender_has_the_one_that_is_known(root: Root, beam: Beam) -> None:
    record(root, "asker", *turn(1, "s1"))
    said = {"to": "box", "from": "asker", "payload": {"text": "hi"}}
    assert beam.message_from(json.dumps(said)).session_context == SessionContext(session_id="s1", turn_number=1)
    said["session_context"] = {"turn_number": 5}
    assert beam.message_from(json.dumps(said)).session_context == SessionContext(session_id="s1", turn_number=5)


def test_an_object_that_does_not_fit_is_refused(beam: Beam) -> None:
    hint = "name that agent, or leave `to` out"
    with refused(UsageError, "the message is to 'worker', and not to box", hint):
        beam.message_from('{"to": "worker", "payload": {"text": "hi"}}', "box")
    with pytest.raises(UsageError, match="no agent is named; declared here: asker, box"):
        beam.message_from('{"payload": {"text": "hi"}}')
    with pytest.raises(UsageError, match="not a sender's name"):
        beam.message_from('{"to": "box", "from": "../x", "payload": {"text": "hi"}}')
    with pytest.raises(UsageError, match="`deadline` is 'soon', and not a time"):
        beam.message_from('{"to": "box", "deadline": "soon", "payload": {"text": "hi"}}')


@pytest.mark.slow
def test_in_an_agents_name_a_message_has_that_agents_session(root: Root, beam: Beam) -> None:
    assert beam.message("box", "hi", wait=False, sender="worker").session_context == SessionContext()
    record(root, "asker", *turn(1, "s1"))
    root.place("worker")
    found = beam.message("box", "hi", wait=False, sender="asker")
    assert (found.sender, found.session_context) == ("asker", SessionContext(session_id="s1", turn_number=1))
    assert beam.message("box", "hi", wait=False, sender="worker").session_context == SessionContext()
    assert beam._session_of("No Name") == beam._session_of("human") == SessionContext()


def test_what_does_not_go_together_is_refused(beam: Beam) -> None:
    hint = "a --once message has a session of its own each time, and no first outcome to return"
    with refused(UsageError, "--once and --key don't go together", hint):
        beam.message("worker", "hi", once=True, key="k")
    with refused(UsageError, "--keep and --once don't go together", "a throw-away session has no next turn"):
        beam.message("coder", "hi", once=True, keep=5.0)
    with pytest.raises(UsageError):
        beam.message("coder", "hi", rules=RuleLists(deny=("Bash(",)))


@pytest.mark.parametrize(
    ("schema", "why", "reference"),
    [
        ('{"items": {"$ref": "#/$defs/n"}}', "'#/$defs/n' is no place in the schema", "#/$defs/n"),
        (
            '{"$ref": "http://127.0.0.1:9/s.json"}',
            "'http://127.0.0.1:9/s.json' is no place in the schema",
            "http://127.0.0.1:9/s.json",
        ),
        ('{"$ref": "#/title", "title": "no schema"}', "'#/title' is no place in the schema", "#/title"),
        ('{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "b.json"}}}', "'b.json' is no place in the schema", "b.json"),
        ('{"$ref": ', "the schema is no JSON", ""),
        ("[]", "the schema is no JSON object", ""),
    ],
)
def test_a_schema_that_no_answer_can_be_checked_with_is_refused(
    schema: str, why: str, reference: str, beam: Beam
) -> None:
    inside = "a `$ref` leads to a place in the same schema, as #/$defs/NAME does; no other schema is fetched"
    hint = inside if reference else "a JSON Schema is a JSON object, as text"
    with refused(UsageError, why, hint, subject=reference):
        beam.message("coder", "hi", schema=schema)


@pytest.mark.parametrize(
    "schema",
    [
        '{"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#"}}}}',
        '{"$ref": "#n", "$defs": {"n": {"$anchor": "n"}, "unused": true}}',
        '{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#n", "definitions": {"n": {"$id": "#n"}}}',
        '{"$ref": "https://json-schema.org/draft/2020-12/schema"}',
        '{"const": {"$ref": "#/nowhere"}, "properties": {"$ref": {"type": "string"}}}',
        '{"items": [{"type": "string"}], "properties": []}',
    ],
)
def test_a_schema_that_leads_to_no_other_is_sent(schema: str, beam: Beam) -> None:
    assert beam.message("coder", "hi", schema=schema).options.schema == schema


@pytest.mark.parametrize(
    ("agent", "via", "hint"),
    [
        ("coder", "exec", "it has one with --via dialogue or terminal"),
        ("worker", None, "it has one with --via terminal"),
        ("pi", None, "leave --keep out"),
    ],
)
def test_a_mode_without_a_process_keeps_none(agent: str, via: str | None, hint: str, beam: Beam) -> None:
    with refused(UnsupportedError, f"{agent}'s exec mode has no process to keep", hint, subject=agent):
        beam.message(agent, "hi", keep=5.0, via=via)


@pytest.mark.parametrize("via", ["dialogue", "terminal", "auto", None])
def test_a_mode_with_a_process_keeps_it(via: str | None, beam: Beam) -> None:
    assert beam.message("coder", "hi", keep=5.0, via=via).options.keep == 5.0
    assert beam.message("coder", "hi", via=via).options.keep is UNSET


@pytest.mark.slow
def test_where_agents_may_write_no_more_than_read_is_asked_for(root: Root, beam: Beam) -> None:
    inside = Beam(root.base / "state", cwd=root.base, environ=root.environ, clock=root.clock)
    where = inside.home.root
    end = "write messages in your name"
    with refused(
        UsageError,
        f"--access edit is refused in the root {where}: it is in {root.base}, where agents may {end}",
        "keep the root elsewhere (no --root, or one outside; BEAM_STATE), or leave --access out",
        subject=str(where),
    ):
        inside.message("box", "hi", access="edit")
    with refused(
        UsageError,
        f"no rule allows anything in the root {where}: it lies in {root.base}, where agents may {end}",
        "keep the root elsewhere (no --root, or one outside; BEAM_STATE), or leave --allow out",
        subject=str(where),
    ):
        inside.message("box", "hi", rules=RuleLists(allow=("Bash(ls)",)))
    for allowed in ({"access": "read"}, {}, {"rules": RuleLists(deny=("Bash(ls)",))}):
        assert inside.message("box", "hi", **allowed).to == "box"  # type: ignore[arg-type]
    assert beam.message("box", "hi", access="edit", rules=RuleLists(allow=("Bash(ls)",))).to == "box"


def test_who_only_says_to_be_an_agent_sends_nothing(root: Root, beam: Beam) -> None:
    inside = opened(root, BEAM_AGENT="planner")
    said = "BEAM_AGENT is planner, but this process does not belong to an agent's turn"
    with refused(UsageError, said, "unset BEAM_AGENT if you are not inside an agent"):
        inside.message("box", "hi")
    with refused(
        UsageError, "only a person keeps an agent's process; this is a process of planner", "use a shell of your own"
    ):
        inside.message("box", "hi", keep=1.0)


def test_in_a_turn_the_message_is_the_turns(beam: Beam) -> None:
    given: list[Any] = []
    beam.__dict__["turn"] = SimpleNamespace(
        agent="writer", message=lambda *args, **options: given.append((args, options)) or "made"
    )
    assert beam.message("box", "hi") == "made"  # type: ignore[comparison-overlap]
    file = Path("/a")
    asked: dict[str, Any] = {"sender": "writer", "key": "k", "deadline": 2.0, "replies": 3}
    beam.message("box", "hi", wait=False, attach=[file], options=Options(model="m"), **asked)
    plain = {"sender": None, "key": None, "deadline": None, "replies": None, "clock": beam._clock}
    assert given == [
        (("box", "hi"), {**plain, "wait": True, "attach": (), "options": Options()}),
        (
            ("box", "hi"),
            {**plain, **asked, "wait": False, "attach": (file,), "options": Options(model="m")},
        ),
    ]
    assert beam.notes("any") == [] and beam.progress("any") is None  # type: ignore[arg-type]


# -- what a person is told ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_in_a_trusted_folder_a_message_has_no_notes(root: Root, beam: Beam) -> None:
    root.environ.pop("BEAM_TRUST")
    trusting = opened(root)
    trusting.trust()
    assert trusting.notes(trusting.message("worker", "hi")) == []


def test_what_a_person_should_know_is_a_sentence_each(root: Root, beam: Beam) -> None:
    by_variable = "BEAM_TRUST=1: this folder's files take effect although nobody trusted them as they are"
    message = beam.message("loaded", "hi")
    assert beam.notes(message) == [
        by_variable,
        "LD_AUDIT of loaded's `env` is not set: it would run code in each process",
        "LD_PRELOAD of loaded's `env` is not set: it would run code in each process",
    ]
    beam._receivers.clear()
    assert len(beam.notes(message)) == 3
    mail = beam.message("box", "hi")
    is_mailbox = "box is a mailbox; it answers when somebody does: beam recv box"
    assert beam.notes(mail) == [is_mailbox] and beam.notes(mail, waits=False) == []


@pytest.mark.slow
def test_why_messages_do_not_run_now_is_reported(root: Root, beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    message = beam.message("worker", "hi")
    assert len(beam.notes(message)) == 1
    assert beam._read.message_id == message.id and beam._read.paths == root.context.agent_paths("worker")
    record(root, "worker", events.QueuePaused(by="x"))
    assert beam.notes(message)[1:] == ["the queue of worker is paused; beam queue resume worker"]
    record(root, "worker", events.QueueResumed(by="x"))
    monkeypatch.setattr(
        "beam.broker.inbox.standing.waiting_reason", lambda context, paths: f"no trust in {paths.agent}"
    )
    assert beam.notes(message)[1:] == ["what waits for worker keeps waiting: no trust in worker"]
    once = beam.message("worker", "hi", once=True)
    beam.notes(once)
    assert beam._read.paths == root.context.agent_paths("worker", once.id.rpartition("-")[2])


@pytest.mark.parametrize(("keep", "runs"), [(UNSET, True), (5.0, False), (5.0, True)])
def test_a_broker_keeps_by_its_own_limits(
    keep: Any, runs: bool, root: Root, beam: Beam, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.place("worker")
    (root.context.home.root / "broker.json").touch()
    monkeypatch.setattr("beam.api.broker.status", lambda context: object() if runs else None)
    monkeypatch.setattr("beam.api.broker.version_skew", lambda context: "it is old" if runs else None)
    message = beam.message("coder", "hi", options=Options(keep=keep, via="dialogue"))
    said = "a broker serves this root; it keeps processes by its own limits, whatever --keep says"
    expected = [*([said] if runs and keep is not UNSET else []), *(["it is old"] if runs else [])]
    assert beam.notes(message, waits=False) == expected


# -- putting and delivering --------------------------------------------------------------------------------------------


class Put:
    """What becomes of a message that is put."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.did: list[Any] = []

        def steps(name: str) -> Any:
            def made(*args: Any) -> Any:
                yield 0.0
                self.did.append((name, args[1].agent))

            return made

        monkeypatch.setattr("beam.broker.holder.registry.yield_to_broker", steps("yields"))
        monkeypatch.setattr("beam.broker.asking.requests.wait_until_released", steps("waits"))
        monkeypatch.setattr(
            "beam.broker.inbox.launch.ensure_worker", lambda context, paths: self.did.append(("runs", paths.lane))
        )


@pytest.mark.slow
def test_somebody_runs_what_was_put(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    put = Put(monkeypatch)
    message = beam.message("worker", "hi", wait=False)
    assert beam.put(message) == message.id
    assert put.did == [("yields", "worker"), ("waits", "worker"), ("runs", None)]
    put.did.clear()
    once = beam.message("worker", "hi", wait=False, once=True)
    beam.put(once)
    assert put.did == [("runs", once.id.rpartition("-")[2])]
    put.did.clear()
    beam.put(beam.message("box", "hi", wait=False))
    assert put.did == []
    beam._keeping = SimpleNamespace(hold_now=lambda paths: put.did.append(("held", paths.agent)))  # type: ignore[assignment]
    beam.put(beam.message("worker", "hi", wait=False))
    beam._keeping = None
    assert put.did == [("yields", "worker"), ("waits", "worker"), ("held", "worker"), ("runs", None)]


@pytest.mark.parametrize(
    "part",
    [
        "broker.holder.registry.yield_to_broker",
        "broker.asking.requests.wait_until_released",
        "broker.inbox.launch.start_worker",
    ],
)
def test_a_queued_message_has_its_id_although_no_process_can_be_started_for_it(
    root: Root, beam: Beam, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def fail(*_: object) -> None:
        raise DiskError("can't start a process in x")

    monkeypatch.setattr("beam.broker.inbox.launch.start_worker", lambda context, paths: None)
    fine, waiting = (beam.message("worker", text, wait=False) for text in ("one", "two"))
    assert beam.put(fine) == fine.id
    monkeypatch.setattr(f"beam.{part}", fail)
    assert beam.put(waiting) == waiting.id, "without it, it would be sent once more"
    assert root.boxes("worker") == {"new": [fine.id, waiting.id]}
    assert (beam.unstarted_reason(fine.id), beam.unstarted_reason("worker-1")) == ("", "")
    assert beam.unstarted_reason(waiting.id) == "can't start a process in x"


class Sent:
    """Stands in for what sends a message and waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[Any] = []

        async def send(*args: Any, **options: Any) -> str:
            self.given.append((args, options))
            args[3]("event")
            return "outcome"

        monkeypatch.setattr("beam.api.send.send", send)


def test_a_message_is_sent_with_what_was_read_of_its_agent(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(monkeypatch)
    message = beam.message("worker", "hi")
    looked_at = beam._receivers[message.id].looked_at
    beam.notes(message)
    read = beam._read
    seen: list[Any] = []
    assert beam.deliver(message, seen.append) == "outcome"  # type: ignore[comparison-overlap]
    assert beam.deliver(message) == "outcome"  # type: ignore[comparison-overlap]
    (first, options), (second, plain) = sent.given
    assert first[:3] == (beam.context, beam.context.agent_paths("worker"), message) and first[4] is read.fold
    assert options == {"looked_at": looked_at, "hold": None} and seen == ["event"]
    assert second[:3] == first[:3] and second[4] is None and plain == {"looked_at": None, "hold": None}


def test_what_was_read_for_another_message_does_not_count(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(monkeypatch)
    beam.notes(beam.message("coder", "hi"))
    beam._keeping = SimpleNamespace(hold="hold")  # type: ignore[assignment]
    beam.deliver(beam.message("worker", "hi"))
    beam._keeping = None
    ((args, options),) = sent.given
    assert args[1] == beam.context.agent_paths("worker") and args[4] is None and options["hold"] == "hold"


def test_who_decides_and_who_records_see_each_event(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(monkeypatch)
    did: list[Any] = []

    class AskDecider:
        def __init__(self, *given: Any, by: str) -> None:
            did.append((given[0] is beam.context, given[1], by))
            self.seen = given[2]

        def event(self, event: Any) -> None:
            did.append("decided")
            self.seen(event)

        async def close(self) -> None:
            did.append("closed")

    monkeypatch.setattr("beam.api.deciding.AskDecider", AskDecider)
    recorder = SimpleNamespace(
        beside=lambda seen: lambda event: (did.append("recorded"), seen(event)), check=lambda: did.append("checked")
    )
    monkeypatch.setattr("beam.conversations.recording.Recorder", lambda *given, **more: did.append(given) or recorder)
    seen: list[Any] = []
    on_ask: Any = object()
    beam.deliver(beam.message("worker", "hi", recording=Recording(record="r")), seen.append, on_ask=on_ask)
    folder = beam.home.project / "r"
    assert did == [(True, on_ask, "human"), (folder,), "recorded", "decided", "checked", "closed"] and seen == ["event"]
    ((args, _),) = sent.given
    assert args[2].options == Options(), "the sender alone records"
    inside = Beam(beam.home.root, cwd=beam.home.project, environ={**beam.environ, "BEAM_AGENT": "planner"})
    with pytest.raises(UsageError, match="only a person decides what an agent asks for"):
        inside.deliver("message", on_ask=on_ask)  # type: ignore[arg-type]


def test_a_send_is_a_message_that_is_delivered(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(monkeypatch)
    seen: list[Any] = []
    assert beam.send("box", "hi", key="k", deadline=2.0, seen=seen.append, model="m") == "outcome"  # type: ignore[comparison-overlap]
    ((args, _),) = sent.given
    made = args[2]
    assert (made.to, made.text, made.key, made.deadline, made.options) == (
        "box",
        "hi",
        "k",
        "2023-11-14T22:13:22.000000Z",
        Options(model="m"),
    )
    assert seen == ["event"] and (made.reply, made.sender) == ("wait", "human")


def test_a_stream_has_the_events_and_then_the_outcome(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(monkeypatch)
    stream = beam.stream("box", "hi", key="k", deadline=2.0, sender="asker", model="m")
    assert list(stream) == ["event"] and stream.result == "outcome"  # type: ignore[comparison-overlap]
    ((args, _),) = sent.given
    assert (args[2].key, args[2].sender, args[2].options.model, args[2].deadline is None) == ("k", "asker", "m", False)


@pytest.mark.slow
def test_who_leaves_a_stream_ends_its_turn(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = asyncio.Event()
    asked: list[Any] = []

    async def send(*args: Any, **options: Any) -> str:
        args[3]("event")
        await ended.wait()
        return "outcome"

    def request(context: Any, paths: Any, verb: str, target: str, *, by: str) -> Any:
        yield 0.0
        asked.append((paths.agent, verb, target, by))
        ended.set()
        return "done"

    monkeypatch.setattr("beam.api.send.send", send)
    monkeypatch.setattr("beam.broker.asking.requests.request", request)
    monkeypatch.setattr(SendVerbs, "_find", lambda self, given: (self.context.agent_paths("box"), given))
    for _ in beam.stream("box", "hi"):
        break
    ((agent, verb, target, by),) = asked
    assert (agent, verb, by) == ("box", "interrupt", "human") and target.startswith("box-")

    def gone(self: Any, given: str) -> Any:
        ended.set()
        raise NotFoundError("it is over")

    ended.clear()
    monkeypatch.setattr(SendVerbs, "_find", gone)
    for _ in beam.stream("box", "hi"):
        break


def test_a_key_is_read_from_an_open_descriptor_alone(
    beam: Beam, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent: list[Any] = []
    monkeypatch.setattr("beam.turns.lent.lend_descriptor", lambda *given: lent.append(given))
    handle = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(handle, True)
    message = beam.message("box", "hi", shield=f"fd:{handle}")
    assert lent == [(message.id, handle)] and not os.get_inheritable(handle)
    os.close(handle)
    hint = "like this: --shield fd:3 3< <(a command that prints the key)"
    with refused(UsageError, f"descriptor {handle} is not open", hint):
        beam.message("box", "hi", shield=f"fd:{handle}")
    for where in ("fd:x", "fd:2", f"fd:{10**30}", "--key-fd", "Read this.", ""):
        with pytest.raises(UsageError, match=f"^--shield '{where}' says no place of a key"):
            beam.message("box", "hi", shield=where)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (Options(recording=Recording(record="r")), "--no-wait and a recording of turns don't go together"),
        (Options(recording=Recording(replay="r")), "--no-wait and a recording of turns don't go together"),
    ],
)
def test_what_only_a_waiting_sender_can_do_is_not_queued(options: Options, said: str, beam: Beam) -> None:
    with pytest.raises(UsageError, match=said):
        beam.put(beam.message("box", "hi", options=options))


def test_a_key_on_a_descriptor_is_for_a_sender_that_waits(beam: Beam, tmp_path: Path) -> None:
    with (tmp_path / "key").open("x") as key, pytest.raises(UsageError, match="--no-wait and --shield fd:N don't go"):
        beam.put(beam.message("box", "hi", options=Options(shield=f"fd:{key.fileno()}")))


@pytest.mark.parametrize(
    ("recording", "said"),
    [
        (Recording(record="r", replay="p"), "a recording is made or replayed, not both"),
        (Recording(replay="p", depth="turn,model"), "a replay answers at one depth"),
        (Recording(replay="p", depth="model", on_miss="nearest"), "--on-miss nearest is for turns"),
        (Recording(record="r", on_miss="live"), "--on-miss is for --replay DIR"),
    ],
)
def test_parts_of_a_recording_that_do_not_go_together_are_refused(recording: Recording, said: str, beam: Beam) -> None:
    with pytest.raises(UsageError, match=said):
        beam.message("box", "hi", recording=recording)
    with pytest.raises(UsageError, match=said):
        beam.run("s.yaml", recording=recording)


def test_the_turns_of_a_recording_answer_one_after_the_other(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    async def deliver_here(context: Any, _: Any, message: Message, __: Any) -> str:
        given.append((context.recordings, message.options))
        return "outcome"

    monkeypatch.setattr("beam.conversations.held.deliver_here", deliver_here)
    (beam.home.project / "p").mkdir()
    for on_miss in ("stop", "stop", "nearest"):
        beam.send("worker", "hi", recording=Recording(replay="p", on_miss=on_miss))
    (first, options), (second, _), (other, _) = given
    assert (first is second, first is other, other.on_miss) == (True, False, "nearest")
    assert (first.folder, options) == (beam.home.project / "p", Options())


def test_progress_is_looked_up_where_the_message_waits(beam: Beam, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class QueueProgress:
        def __init__(self, where: Any, clock: Any) -> None:
            made.append((where(), clock))

        def look(self) -> str:
            return "progress"

    monkeypatch.setattr("beam.api.progress.QueueProgress", QueueProgress)
    message = beam.message("worker", "hi")
    look = beam.progress(message)
    assert look is not None and made == []
    assert [look(), look()] == ["progress", "progress"] and made == [(root.context.agent_paths("worker"), root.clock)]
    waiting = root.put("box")
    look = beam.progress(waiting.id[-6:])
    assert look is not None and look() == "progress" and made[1][0] == root.context.agent_paths("box")  # type: ignore[comparison-overlap]


@pytest.mark.slow
def test_a_process_is_released_only_where_one_is_kept_or_a_turn_runs(
    beam: Beam, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def request(context: Any, paths: Any, verb: str, *, by: str) -> Any:
        yield 0.0
        asked.append((paths.agent, verb, by))
        return "closed"

    monkeypatch.setattr("beam.broker.asking.requests.request", request)
    assert beam.release_agent("worker") == NO_KEPT_PROCESS.format("worker") and asked == []
    record(root, "worker", started())
    assert beam.release_agent("worker") == "closed"
    record(root, "box", started(), events.AgentKept(pid=1, turn=1, message_id="m-1"), finished(), closed())
    assert beam.release_agent("box") == "closed"
    assert asked == [("worker", "close", "human"), ("box", "close", "human")]


@pytest.mark.slow
def test_a_text_that_is_too_long_or_empty_is_neither_edited_nor_told(beam: Beam) -> None:
    message_id = beam.put(beam.message("box", "hi", wait=False))
    for text in ("", "x" * (beam.context.config.limits.text_bytes + 1)):
        with pytest.raises(BeamError):
            beam.edit(message_id, text)
        with pytest.raises(BeamError, match=r"empty|bytes"):
            beam.steer("box", text)


def test_a_send_is_in_the_name_that_was_given_with_its_files(
    beam: Beam, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, object]] = []

    def message(self: Beam, agent: str, text: str, **given: object) -> object:
        made.append(given)
        raise UsageError("enough")

    monkeypatch.setattr(Beam, "message", message)
    given: dict[str, Any] = {
        "sender": "asker",
        "attach": [tmp_path],
        "options": Options(model="m"),
        "key": "k",
        "deadline": 2.0,
        "new": True,
    }
    for act in (beam.send, beam.stream):
        with pytest.raises(UsageError, match="enough"):
            act("box", "hi", **given)
    assert made == [given, given]
