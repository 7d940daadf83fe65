"""What an agent may ask for in its turn, and how each other request is refused."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from beam.base.errors import BeamError, DiskError
from beam.broker.asking import mailbox, requests
from beam.broker.asking.agent_requests import carry_out
from beam.broker.inbox import launch
from beam.broker.inbox.context import Sender
from beam.model import events
from beam.model.message import (
    Message,
    Options,
    Payload,
    Recording,
    RuleLists,
    SessionContext,
    Spent,
    decode,
    keyed_id,
    sent_id,
)
from beam.model.outcome import Status
from beam.process import tree
from beam.store.outbox import Answer, Request
from tests.support.context import Root, ended


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No worker is started; which would have been."""
    started: list[str] = []
    monkeypatch.setattr(launch, "start_worker", lambda context, paths: started.append(paths.lane or paths.agent))
    return started


def sender(root: Root, **fields: Any) -> Sender:
    """A turn of `asker`, whose message came from `human`."""
    message = root.message("asker", thread="t-9", hops=3, spent=Spent(turns=4, cost_usd=0.5), chain=("worker",))
    given: dict[str, Any] = {
        "agent": "asker",
        "message": message,
        "turn_key": "k1",
        "at_most": "edit",
        "context": SessionContext(session_id="s-1", turn_number=7),
        "folder": root.base,
    }
    return Sender(**{**given, **fields})


def failing(error: Exception) -> Callable[..., None]:
    """A function that raises the error."""

    def fail(*_: object) -> None:
        raise error

    return fail


def carried_out(
    root: Root, request: Request, who: Sender | None = None, accept: Callable[[Answer], None] = lambda answer: None
) -> Answer:
    answer = ended(carry_out(root.context, request, "n1", who or sender(root), accept))
    assert isinstance(answer, Answer)
    return answer


def refused(root: Root, request: Request, who: Sender | None = None) -> tuple[str, str, str, str | None]:
    with pytest.raises(BeamError) as error:
        for _ in carry_out(root.context, request, "n1", who or sender(root), lambda answer: None):
            pass
    return error.value.kind, error.value.message, error.value.hint, error.value.subject


def queued(root: Root, agent: str) -> Message:
    (path,) = (root.place(agent).queue / "new").iterdir()
    return decode(path.read_bytes())


def test_a_message_of_an_agent_is_of_its_turn_whatever_the_request_says(root: Root, no_worker: list[str]) -> None:
    (root.base / "a.txt").write_text("x")
    rules = RuleLists(deny=("Bash(rm *)",))
    who = sender(root, rules=rules)
    request = Request(to="worker", text="do it", attach=("a.txt",), deadline=2.0, replies=3, options=Options(model="m"))
    answer = carried_out(root, request, who)
    message_id = sent_id("worker", "k1", "n1")
    assert answer == Answer(accepted=message_id)
    message = queued(root, "worker")
    assert (message.id, message.sender, message.to, message.type) == (message_id, "asker", "worker", "message")
    assert message.payload == Payload(text="do it", attach=(str(root.base / "a.txt"),))
    assert message.session_context == SessionContext(session_id="s-1", turn_number=7)
    assert (message.reply, message.replies, message.thread, message.hops) == ("queue", 3, "t-9", 4)
    assert (message.key, message.actor, message.chain) == (None, None, ())
    assert message.deadline == "2023-11-14T22:13:22.000000Z"
    assert message.spent == Spent(turns=5, cost_usd=0.5)
    assert (message.at_most, message.rules_at_most, message.options) == ("edit", rules, Options(model="m"))
    assert no_worker == ["worker"]


def test_a_message_without_a_thread_begins_one_with_its_own_id(root: Root) -> None:
    who = sender(root, message=root.message("asker", thread="", hops=0))
    carried_out(root, Request(to="worker", text="x"), who)
    assert (queued(root, "worker").thread, queued(root, "worker").hops) == (who.message.id, 1)


def test_the_same_request_puts_one_message_however_often_it_is_carried_out(root: Root) -> None:
    first = carried_out(root, Request(to="worker", text="x"))
    assert carried_out(root, Request(to="worker", text="x")) == first
    assert root.boxes("worker") == {"new": [first.accepted]}


@pytest.mark.parametrize("error", [DiskError("can't start a process in x"), OSError(24, "Too many open files")])
def test_a_queued_message_is_accepted_although_no_process_can_be_started_for_it(
    root: Root, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(launch, "start_worker", failing(error))
    answer = carried_out(root, Request(to="worker", text="x"))
    assert answer == Answer(accepted=sent_id("worker", "k1", "n1")), "refused, it would be sent once more"
    assert root.boxes("worker") == {"new": [answer.accepted]}


def test_a_queued_message_that_can_not_be_waited_for_is_unfinished_and_not_refused(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "start_worker", failing(DiskError("can't start a process in x", "wait a little")))
    accepted: list[Answer] = []
    message_id = sent_id("other", "k1", "n1")
    with pytest.raises(BeamError) as error:
        carried_out(root, Request(to="other", text="x", wait=True), accept=accepted.append)
    assert accepted == [Answer(accepted=message_id)]
    assert (error.value.kind, error.value.subject, error.value.hint) == (
        "unfinished",
        message_id,
        f"don't send it again; beam wait {message_id}",
    )
    assert error.value.message == f"{message_id} was sent; its outcome is not known yet: can't start a process in x"
    assert root.boxes("other") == {"new": [message_id]}


def test_a_key_makes_the_id_of_an_agents_message(root: Root) -> None:
    answer = carried_out(root, Request(to="worker", text="x", key="k"))
    assert answer.accepted == keyed_id("worker", "k")
    assert queued(root, "worker").key == "k"


def test_a_message_with_once_is_put_into_a_lane_of_its_own(root: Root, no_worker: list[str]) -> None:
    answer = carried_out(root, Request(to="worker", text="x", options=Options(once=True)))
    assert answer.accepted is not None
    lane = answer.accepted.rpartition("-")[2]
    assert no_worker == [lane]
    assert [path.name for path in (root.context.agent_paths("worker", lane).queue / "new").iterdir()] != []
    assert root.boxes("worker") == {}


@pytest.mark.slow
def test_who_waits_is_told_of_the_acceptance_first_and_then_of_the_outcome(root: Root) -> None:
    accepted: list[Answer] = []
    who = sender(root)
    steps = carry_out(root.context, Request(to="box", text="well?", wait=True), "n1", who, accepted.append)
    next(steps)
    message_id = sent_id("box", "k1", "n1")
    assert accepted == [Answer(accepted=message_id)]
    assert queued(root, "box").chain == ("worker", "asker")
    assert mailbox.recv(root.context, root.place("box"), None) is not None
    mailbox.reply(root.context, root.place("box"), message_id, "yes", failed=False)
    answer = ended(steps)
    assert (answer.accepted, answer.outcome.status, answer.outcome.reply) == (message_id, Status.COMPLETED, "yes")


@pytest.mark.parametrize(
    ("request_", "fields", "said"),
    [
        (
            Request(to="worker", text="x", options=Options(slash=True)),
            {},
            ("usage", "asker is an agent, and sends no slash commands", "leave --slash out", "asker"),
        ),
        (
            Request(to="worker", text="x", options=Options(recording=Recording(record="/r"))),
            {},
            (
                "usage",
                "asker is an agent, and records and replays nothing: it would write where it may not",
                "leave --record, --replay and --shield out",
                "asker",
            ),
        ),
        (
            Request(to="worker", text="x", options=Options(rules=RuleLists(allow=("Bash(git *)", "Read")))),
            {},
            (
                "usage",
                "asker is an agent, and allows nobody anything: 'Bash(git *)'",
                "leave --allow out; a person adds a rule with beam rules add",
                "asker",
            ),
        ),
        (
            Request(to="nobody", text="x"),
            {},
            None,
        ),
        (
            Request(verb="interrupt", target="worker-none"),
            {},
            ("not_found", "worker-none has ended, or never existed", "beam show ID", "worker-none"),
        ),
        (
            Request(verb="interrupt", target="stranger-1"),
            {},
            ("not_found", "'stranger-1' names no message of this root", "give the whole id", "stranger-1"),
        ),
        (
            Request(verb="interrupt", target="x" * 130),
            {},
            ("not_found", f"'{'x' * 120}' names no message of this root", "give the whole id", "x" * 120),
        ),
    ],
    ids=["a slash command", "model calls", "an allow rule", "no agent", "no message", "no agents id", "a long id"],
)
def test_what_an_agent_may_not_ask_for_is_refused(
    root: Root, request_: Request, fields: dict[str, Any], said: tuple[str, str, str, str | None] | None
) -> None:
    root.place("worker")
    found = refused(root, request_, sender(root, **fields))
    assert found == said if said is not None else found[0] == "not_found"
    assert root.boxes("worker") == {}


def test_a_rule_that_is_none_is_refused_and_one_that_denies_is_sent(root: Root) -> None:
    kind, message, _, _ = refused(root, Request(to="worker", text="x", options=Options(rules=RuleLists(deny=("(",)))))
    assert (kind, message) == ("usage", "'(' is not a rule")
    denies = RuleLists(deny=("Bash(rm *)",))
    carried_out(root, Request(to="worker", text="x", options=Options(rules=denies)))
    assert queued(root, "worker").options.rules == denies


@pytest.mark.parametrize("named", ["../secret", "/etc/passwd", "link", "a\0b"])
def test_a_file_outside_the_agents_folder_is_not_attached(root: Root, tmp_path: Path, named: str) -> None:
    (tmp_path / "secret").write_text("x")
    (root.base / "link").symlink_to(tmp_path / "secret")
    assert refused(root, Request(to="worker", text="x", attach=(named,))) == (
        "usage",
        f"{named!r} lies outside {root.base}: an agent attaches only files of its own folder",
        "put its content into the message, or copy the file there",
        named,
    )


def test_the_name_of_a_file_that_is_refused_is_cut(root: Root) -> None:
    named = "/" + "n" * 300
    _, message, _, subject = refused(root, Request(to="worker", text="x", attach=(named,)))
    assert (subject, message.partition(" lies")[0]) == (named[:200], repr(named[:200]))


@pytest.mark.slow
def test_an_agent_interrupts_only_what_it_sent_itself(root: Root) -> None:
    own = root.put("worker", sender="asker")
    foreign = root.put("worker", sender="other")
    injected = root.put("worker", sender="asker", actor="ann")
    for message, whose in ((foreign, "other"), (injected, "ann")):
        assert refused(root, Request(verb="interrupt", target=message.id)) == (
            "usage",
            f"{message.id} is {whose}'s message: an agent ends only what it sent itself",
            f"a person can: beam interrupt {message.id}",
            message.id,
        )
    assert carried_out(root, Request(verb="interrupt", target=own.id)) == Answer(said="withdrawn")
    assert root.boxes("worker") == {"new": [foreign.id, injected.id]}


def test_a_message_that_can_not_be_read_is_over_for_who_interrupts_it(root: Root) -> None:
    own = root.put("worker", sender="asker")
    (path,) = (root.place("worker").queue / "new").iterdir()
    path.write_bytes(b"{")
    found = refused(root, Request(verb="interrupt", target=own.id))
    assert found == ("not_found", f"{own.id} has ended", "", own.id)


@pytest.mark.slow
def test_an_agent_answers_a_message_of_a_mailbox_with_no_more_rights_than_its_own(root: Root) -> None:
    question = root.put("box", "well?", sender="other", reply="queue")
    assert mailbox.recv(root.context, root.place("box"), None) is not None
    answer = carried_out(root, Request(verb="reply", target=question.id, text="yes"), sender(root, at_most="read"))
    assert answer.outcome is not None and (answer.outcome.status, answer.outcome.reply) == (Status.COMPLETED, "yes")
    assert (queued(root, "other").text, queued(root, "other").at_most) == ("yes", "read")


def test_an_agents_answer_for_a_mailbox_is_bound_by_the_rules_of_its_turn(root: Root) -> None:
    question = root.put("box", "well?", sender="other", reply="queue")
    assert mailbox.recv(root.context, root.place("box"), None) is not None
    rules = RuleLists(deny=("Bash(git push *)",))
    who = sender(root, at_most="full", rules=rules)
    carried_out(root, Request(verb="reply", target=question.id, text="git push"), who)
    assert queued(root, "other").rules_at_most == rules


def test_an_agent_says_that_it_has_no_answer(root: Root) -> None:
    question = root.put("box", "well?")
    assert mailbox.recv(root.context, root.place("box"), None) is not None
    answer = carried_out(root, Request(verb="reply", target=question.id, text="no idea", failed=True))
    assert answer.outcome is not None and answer.outcome.status is Status.FAILED
    assert (answer.accepted, answer.said) == (None, "")


def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Requests to a holder are noted, and answered with `done`."""
    made: list[tuple[Any, ...]] = []

    def request(context: object, paths: Any, verb: str, target: str, **fields: Any) -> Generator[float, None, str]:
        made.append((paths.agent, verb, target, fields))
        yield 0.0
        return "done"

    monkeypatch.setattr(requests, "request", request)
    return made


def test_an_agent_denies_an_ask_in_its_own_name(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    made = asked(monkeypatch)
    root.place("worker")
    assert carried_out(root, Request(verb="deny", target="worker-1", text="not now")) == Answer(said="done")
    assert carried_out(root, Request(verb="deny", target="worker-1")) == Answer(said="done")
    assert made == [
        ("worker", "deny", "worker-1", {"by": "asker", "text": "[from asker] not now", "stop": False}),
        ("worker", "deny", "worker-1", {"by": "asker", "text": None, "stop": False}),
    ]


@pytest.mark.parametrize(("whose", "is_ended"), [("asker", True), ("other", False)])
def test_an_agent_ends_with_a_denial_only_a_turn_of_its_own_message(
    root: Root, monkeypatch: pytest.MonkeyPatch, whose: str, is_ended: bool
) -> None:
    made = asked(monkeypatch)
    message = root.put("worker", sender=whose)
    lease = root.hold("worker")
    lease.waiting.scan()
    started = events.TurnStarted(owner=tree.this_process(), turn_key="k", adapter="command", via="exec")
    for body in (started, events.PermissionAsked(ask_id="worker-ask", tool="Bash")):
        lease.log.record(body, turn=1, message_id=message.id, sync=True)
    with lease._lock:
        if is_ended:
            assert carried_out(root, Request(verb="deny", target="worker-ask", stop=True)) == Answer(said="done")
            assert made[0][3]["stop"] is True
        else:
            kind, said, _, _ = refused(root, Request(verb="deny", target="worker-ask", stop=True))
            assert (kind, said) == (
                "usage",
                f"{message.id} is other's message: an agent ends only what it sent itself",
            )
            assert carried_out(root, Request(verb="deny", target="worker-ask")) == Answer(said="done")


def test_an_id_with_a_lane_leads_to_that_lane(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str | None] = []

    def request(context: object, paths: Any, *_: object, **__: Any) -> Generator[float, None, str]:
        made.append(paths.lane)
        yield 0.0
        return "done"

    monkeypatch.setattr(requests, "request", request)
    sent = carried_out(root, Request(to="worker", text="x", options=Options(once=True)))
    assert sent.accepted is not None
    lane = sent.accepted.rpartition("-")[2]
    carried_out(root, Request(verb="interrupt", target=sent.accepted))
    carried_out(root, Request(verb="deny", target="worker-elsewhere"))
    assert made == [lane, None]
