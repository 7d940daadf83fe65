"""Which agents and messages the methods of `Beam` that take several of them are about: each once."""

from __future__ import annotations

import inspect
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from beam.api import Beam
from beam.api.verbs.opened import ignore

Given = tuple[tuple[Any, ...], dict[str, Any]]


def place(beam: Beam, agent: str = "box") -> Any:
    return beam.context.agent_paths(agent)


class Asked:
    """Stands in for a function of that name; the answer is the same `answer` each time."""

    def __init__(self, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer = object()
        self.given: list[Given] = []
        module, _, name = target.rpartition(".")
        before = getattr(__import__(module, fromlist=[name]), name)
        returns = str(inspect.signature(before).return_annotation)

        def plain(*args: Any, **kwargs: Any) -> Any:
            self.given.append((args, kwargs))
            return self.answer

        def steps(*args: Any, **kwargs: Any) -> Generator[float, None, Any]:
            yield from ()
            return plain(*args, **kwargs)

        async def later(*args: Any, **kwargs: Any) -> Any:
            return plain(*args, **kwargs)

        stands = steps if returns.startswith("Steps[") else later if inspect.iscoroutinefunction(before) else plain
        monkeypatch.setattr(target, stands)


@pytest.fixture(scope="module")
def beam(tmp_path_factory: pytest.TempPathFactory) -> Beam:
    """A root with three agents, which no test here changes."""
    tmp_path = tmp_path_factory.mktemp("asked")
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    (tmp_path / "project/beam.yaml").write_text(
        "agents:\n  box: {adapter: mailbox}\n  other: {adapter: mailbox}\n  bot: {adapter: scripted, script: echo}\n"
    )
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    environ = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "BEAM_TRUST": "1", **state}
    return Beam(cwd=tmp_path / "project", environ=environ)


@pytest.fixture(scope="module")
def message_id(beam: Beam) -> str:
    """A message that waits in `box`."""
    message = beam.message("box", "hi", wait=False)
    return beam.put(message)


def test_states_are_those_of_the_named_agents_or_of_all_that_are_declared(
    beam: Beam, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked("beam.api.status.status_of", monkeypatch)
    assert beam.status(["box"]) == [asked.answer]
    assert beam.status(all=True) == [asked.answer] * 3
    agents = ("box", "bot", "box", "other")
    assert asked.given == [((beam.context, place(beam, agent)), {}) for agent in agents]


def test_waiting_for_a_state_is_of_each_agent_once(
    beam: Beam, message_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked("beam.api.waits.wait_for_state", monkeypatch)
    assert beam.wait_until(["box", "other", "box"], "asking", timeout=2) == {
        "box": asked.answer,
        "other": asked.answer,
    }
    expected = {"timeout": 2, "looks_only": False}
    assert asked.given == [((beam.context, place(beam, name), "asking"), expected) for name in ("box", "other")]
    assert beam.wait_until(["box", "other"], "asking", only_first=True) == {"box": asked.answer}


def test_waiting_for_several_messages_is_of_each_once_however_it_is_named(
    beam: Beam, message_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = beam.put(beam.message("box", "second", wait=False))
    asked = Asked("beam.broker.asking.follow.follow", monkeypatch)
    ended: list[Any] = []
    found = beam.wait_several([message_id, message_id[-6:], second], timeout=2, ended=ended.append)
    assert found == ended == [asked.answer, asked.answer]
    expected = {"seen": ignore, "timeout": 2, "looks_only": False, "is_sender": False}
    assert asked.given == [((beam.context, place(beam), each), expected) for each in (message_id, second)]
    assert beam.wait_several([message_id, second], only_first=True) == [asked.answer]


def test_a_batch_is_watched_event_by_event(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    class One(NamedTuple):
        event: int

    def watched(*args: Any, **kwargs: Any) -> list[list[One]]:
        given.append((args, kwargs))
        return [[One(1), One(2)], [], [One(3)]]

    monkeypatch.setattr("beam.api.watch.watch_root", watched)
    assert list(beam.watch()) == list(beam.watch(["box"], follow=False, history=True)) == [1, 2, 3]
    assert given == [
        ((beam.context,), {"agents": [], "follow": True, "history": False}),
        ((beam.context,), {"agents": ["box"], "follow": False, "history": True}),
    ]


def test_all_clis_but_those_that_are_switched_off_are_tried(
    beam: Beam, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked("beam.api.smoke.smoke", monkeypatch)
    monkeypatch.setattr("beam.api.smoke.smoke_test_names", lambda: ["claude", "codex"])
    assert beam.smoke() is asked.answer
    (tmp_path / "beam.yaml").write_text("disable: [claude]\n")
    assert Beam(cwd=tmp_path, environ=beam.environ).smoke() is asked.answer
    assert [args[1] for args, _ in asked.given] == [["claude", "codex"], ["codex"]]


def test_what_was_looked_at_is_trusted_or_the_folder_as_it_is(beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = Asked("beam.api.trusting.trust", monkeypatch)
    looked = Asked("beam.api.trusting.review_folder", monkeypatch)
    review: Any = object()
    assert beam.trust(review) == beam.trust() == beam.home.project
    assert trusted.given == [((beam.context, review), {}), ((beam.context, looked.answer), {})]
