"""Conversations: one place a CLI, in which a first turn was taken; the cells look at it, or go on in it."""

from __future__ import annotations

from beam.agents import registry
from beam.testing.conformance import conversation
from beam.testing.conformance.conversation import complete_turn, first_outcome
from tests.conformance.cases import MAIN, case, refused, shared
from tests.conformance.subject import Subject

test_first_turn = shared(__name__, conversation.first_turn)
test_deltas = shared(__name__, conversation.deltas)
test_resume = shared(__name__, conversation.resume, quick_for=MAIN)
test_tokens = shared(__name__, conversation.tokens)
test_calls = shared(__name__, conversation.calls)
test_models = shared(__name__, conversation.models)
test_cost = shared(__name__, conversation.cost)
test_api_time = shared(__name__, conversation.api_time)
test_access_switch = shared(__name__, conversation.access_switch)


@case("model switch", "model", otherwise=refused("--model", "other"))
def test_model(subject: Subject) -> str:
    before = first_outcome(subject)
    outcome = complete_turn(subject, "and now?", "--model", subject.data.other_model)
    wanted = subject.data.other_model.rpartition("/")[2]
    models = [request.asked.model for request in subject.model.requests if request.asked is not None]
    assert wanted in models[-2:]
    if subject.can.resume:
        assert outcome["session_id"] == before["session_id"]
        assert "remember plums" in subject.last_request()
    return f"the model `{wanted}` was asked" + (", in the same session" if subject.can.resume else "")


def _no_fork(subject: Subject) -> str:
    first_outcome(subject)
    done = subject.cli("agent", "fork", subject.name, "twin")
    if any(can.fork for can in registry.adapter(subject.name).card.faces.values()):  # by its protocol
        assert done.code == 0, done
        asked = len(subject.model.requests)
        done = subject.send("hello", agent="twin")
        assert (done.code, len(subject.model.requests)) == (10, asked), done
        return f"exit code 10: {done.json['reason']}"
    assert (done.code, done.out) == (10, ""), done
    assert not (subject.cli.root / "agents" / "twin").exists()
    return f"exit code 10: {done.err.removeprefix('beam: ')}"


@case("fork", "fork", otherwise=_no_fork)
def test_fork(subject: Subject) -> str:
    before = first_outcome(subject)
    done = subject.cli("agent", "fork", subject.name, "twin")
    assert done.code == 0, done
    twin = complete_turn(subject, "only the twin knows kumquats", agent="twin")
    assert twin["session"] == "new"
    assert twin["session_id"] not in (None, before["session_id"])
    assert "remember plums" in subject.last_request()
    after = complete_turn(subject, "and you?")
    assert after["session_id"] == before["session_id"]
    assert "remember plums" in subject.last_request()
    assert "kumquats" not in subject.last_request()
    return "the copy has the context and an id of its own; its parent goes on and knows nothing of it"


test_interrupt = shared(__name__, conversation.interrupt)


@case("unknown resume id", "resume")
def test_unknown_id(subject: Subject) -> str:
    """The CLI is asked for a session that it has not: in another HOME, where it was never used."""
    before = first_outcome(subject)
    for path in subject.cli.project.glob(subject.data.session_files or "nothing"):
        path.unlink()
    asked = len(subject.model.requests)
    done = subject.send("who are you?", cli=subject.at_home("elsewhere"))
    outcome = done.json
    assert "remember plums" not in str([request.body for request in subject.model.requests[asked:]])
    if outcome["status"] == "completed":
        assert (outcome["session"], outcome["session_id"] != before["session_id"]) == ("lost", True), outcome
        told = [event for event in subject.cli.journal(subject.name) if event["type"] == "session.lost"]
        told += [event for event in subject.events("notice") if event["code"] == "session_lost"]
        assert told != []
        return "`session: lost`, said in the journal, and the turn ran once, in a new one"
    assert (done.code, outcome["status"], outcome["reply"]) == (1, "failed", None), outcome
    return f"failed ({outcome['class']}): {outcome['reason']}"
