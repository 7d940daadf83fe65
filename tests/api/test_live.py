"""Requests to the process of an agent: what is sent to its holder, and who can't be asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from beam.api import live
from beam.base.clock import Steps
from beam.base.errors import BeamError, LimitError, NotFoundError, UnsupportedError
from beam.model import events
from beam.store.segment import read_state
from tests.support.context import Root
from tests.support.journals import closed, finished, record, result, started
from tests.support.refused import refused

NO_PROCESS = ("no process of worker is kept or in a turn", "beam send worker --via dialogue --keep 10m …")
IN_DIALOGUE = "one in dialogue mode does: beam send --via dialogue"


class Holder:
    """Stands in for the holder: what it was asked, and its answers by question; an error is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Any] = []
        self.answers: dict[str, object] = {}

        def request(context: object, paths: Any, verb: str, *target: str, **given: Any) -> Steps[str]:
            yield 0.0
            self.asked.append((paths.agent, verb, *target, given))
            return "done"

        def answer(context: object, paths: Any, verb: str, **given: Any) -> Steps[Any]:
            yield from request(context, paths, verb, **given)
            found = self.answers.get(given["text"], {"is": given["text"]})
            if isinstance(found, Exception):
                raise found
            return SimpleNamespace(result=msgspec.json.encode(found))

        monkeypatch.setattr(live, "request", request)
        monkeypatch.setattr(live, "request_answer", answer)


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> Holder:
    return Holder(monkeypatch)


@pytest.fixture
def paths(root: Root) -> Any:
    return root.place("worker")


def kept(root: Root, via: str = "dialogue") -> None:
    record(root, "worker", started(via=via), events.AgentKept(pid=1, turn=1, message_id="m-1"), finished(), closed())


def test_a_text_goes_to_the_turn_that_runs(root: Root, paths: Any, holder: Holder) -> None:
    record(root, "worker", started(via="dialogue"))
    assert result(live.steer(root.context, paths, "left", by="ann")) == "the agent has read the text in the turn of m-1"
    from beam.broker.holder.calls import STEER_TIMEOUT_S

    assert holder.asked == [("worker", "steer", "m-1", {"by": "ann", "text": "left", "timeout": STEER_TIMEOUT_S + 5.0})]


@pytest.mark.parametrize("bodies", [(), (started(via="dialogue"), finished())])
def test_where_no_turn_runs_nobody_is_told(bodies: Any, root: Root, paths: Any, holder: Holder) -> None:
    record(root, "worker", *bodies)
    with refused(NotFoundError, "no turn of worker runs that could take a text", "beam send worker", subject="worker"):
        result(live.steer(root.context, paths, "left", by="ann"))
    assert holder.asked == []


@pytest.mark.parametrize("via", ["exec", "terminal"])
def test_a_turn_in_another_mode_takes_no_text_and_answers_no_question(
    via: str, root: Root, paths: Any, holder: Holder
) -> None:
    record(root, "worker", started(via=via))
    for steps in (
        live.steer(root.context, paths, "left", by="ann"),
        live.ask_all(root.context, paths, by="ann"),
    ):
        said = f"a turn of worker in {via} mode takes no such request"
        with refused(UnsupportedError, said, IN_DIALOGUE, subject="worker"):
            result(steps)
    assert holder.asked == []


def test_a_process_answers_while_it_is_kept_or_in_a_turn(root: Root, paths: Any) -> None:
    assert not live.is_live(read_state(paths.journal))
    record(root, "worker", started(via="dialogue"))
    assert live.is_live(read_state(paths.journal))
    record(root, "worker", finished())
    assert not live.is_live(read_state(paths.journal))
    record(root, "worker", closed())
    assert not live.is_live(read_state(paths.journal))


def test_a_kept_process_answers(root: Root, paths: Any) -> None:
    kept(root)
    assert live.is_live(read_state(paths.journal))


def test_a_setting_an_action_and_a_question_go_to_a_kept_process(root: Root, paths: Any, holder: Holder) -> None:
    from beam.turns.asks import CALL_TIMEOUT_S

    kept(root)
    timed = {"by": "ann", "timeout": CALL_TIMEOUT_S + 5.0}
    assert result(live.set_live(root.context, paths, "model", "m", by="ann")) == "done"
    result(live.set_live(root.context, paths, "model", "m", by="ann", is_declared=True))
    assert result(live.ask_question(root.context, paths, "mcp", by="ann")) == {"is": "mcp"}
    action = '{"name":"mcp.reconnect","given":{"name":"x"}}'
    assert result(live.run_action(root.context, paths, "mcp.reconnect", {"name": "x"}, by="ann")) == {"is": action}
    assert holder.asked == [
        ("worker", "set", {**timed, "text": "model=m", "always": False}),
        ("worker", "set", {**timed, "text": "model=m", "always": True}),
        ("worker", "query", {**timed, "text": "mcp"}),
        ("worker", "act", {**timed, "text": action}),
    ]


def test_all_questions_are_asked_and_those_without_an_answer_left_out(root: Root, paths: Any, holder: Holder) -> None:
    from beam.turns.asks import CALL_TIMEOUT_S

    kept(root)
    holder.answers = {"modes": UnsupportedError("none"), "mcp": BeamError("none"), "models": ["a"]}
    assert result(live.ask_all(root.context, paths, by="ann")) == {
        "account": {"is": "account"},
        "models": ["a"],
        "commands": {"is": "commands"},
        "context": {"is": "context"},
    }
    assert holder.asked == [
        ("worker", "query", {"by": "ann", "text": each, "timeout": CALL_TIMEOUT_S + 5.0})
        for each in ("account", "models", "modes", "commands", "mcp", "context")
    ]
    holder.answers = {each: UnsupportedError("none") for each in live.QUESTIONS}
    with refused(UnsupportedError, "worker reports nothing about its process", "beam agent show", subject="worker"):
        result(live.ask_all(root.context, paths, by="ann"))
    holder.answers = {"modes": LimitError("full")}
    with pytest.raises(LimitError):
        result(live.ask_all(root.context, paths, by="ann"))


def test_without_a_process_nothing_is_asked(root: Root, paths: Any, holder: Holder) -> None:
    for steps in (
        live.set_live(root.context, paths, "model", "m", by="ann"),
        live.run_action(root.context, paths, "x", {}, by="ann"),
        live.ask_question(root.context, paths, "mcp", by="ann"),
        live.ask_all(root.context, paths, by="ann"),
    ):
        with refused(NotFoundError, *NO_PROCESS, subject="worker"):
            result(steps)
    assert holder.asked == []


@pytest.mark.parametrize("via", ["terminal", ""])
def test_a_kept_terminal_takes_no_request(via: str, root: Root, paths: Any, holder: Holder) -> None:
    kept(root, via)
    said = "a process of worker in terminal mode takes no such request"
    for steps in (
        live.set_live(root.context, paths, "model", "m", by="ann"),
        live.run_action(root.context, paths, "x", {}, by="ann"),
        live.ask_question(root.context, paths, "mcp", by="ann"),
        live.ask_all(root.context, paths, by="ann"),
    ):
        with refused(UnsupportedError, said, IN_DIALOGUE, subject="worker"):
            result(steps)
    assert holder.asked == []
