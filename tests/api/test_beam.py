"""`Beam`: the typed verbs, the same with and without an event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import msgspec
import pytest

from beam.api import Beam
from beam.api.messages import PendingMessage
from beam.base.errors import LimitError, NotFoundError, UnsupportedError, UntrustedError, UsageError
from beam.model import message as messages
from beam.model.message import Options
from beam.model.outcome import Outcome
from beam.root import discovery
from tests.support.context import FakeClock


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "BEAM_TRUST": "1"}


@pytest.fixture
def beam(tmp_path: Path, environ: dict[str, str]) -> Beam:
    (tmp_path / "beam.yaml").write_text("agents:\n  box: {adapter: mailbox}\n  echo: {command: [cat]}\n")
    return Beam(cwd=tmp_path, environ=environ)


def test_a_root_that_comes_within_agents_reach_before_the_first_message_is_noticed(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    project, where, clock = tmp_path / "project", tmp_path / "elsewhere", FakeClock()
    project.mkdir()
    (project / "beam.yaml").write_text("agents: {box: {adapter: mailbox}}\n")
    beam = Beam(where / "root", cwd=project, environ=environ, clock=clock)
    discovery.create(beam.home)
    assert beam.root_notes() == []
    (where / ".git").mkdir()
    clock.sleep(2)
    assert beam.context.exposed == where


def answering(beam: Beam, text: str) -> threading.Thread:
    """Somebody who answers one message of `box`."""

    def answer() -> None:
        message = beam.recv("box", timeout=20)
        assert message is not None
        beam.reply(message.id, text)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def same(left: Outcome, right: Outcome) -> bool:
    """Whether two outcomes are equal except for their message, turn and time."""
    return all(
        getattr(left, name) == getattr(right, name)
        for name in Outcome.__struct_fields__
        if name not in ("message_id", "turn", "duration_s", "session_id", "session")
    )


@pytest.mark.acceptance
def test_send_gives_the_same_in_a_loop_and_without(beam: Beam) -> None:
    async def inside() -> Outcome:
        return await beam.send.aio("echo", "hi")

    blocking = beam.send("echo", "hi")
    assert (blocking.reply, blocking.exit_code) == ("hi", 0)
    assert same(blocking, asyncio.run(inside()))


@pytest.mark.acceptance
def test_events_are_seen_as_they_are_recorded(beam: Beam) -> None:
    seen: list[str] = []
    beam.send("echo", "hi", seen=lambda event: seen.append(type(event).__name__))
    assert seen[0] == "MessageQueued"
    assert seen[-2:] == ["TurnFinished", "TurnClosed"]
    assert [type(event).__name__ for event in beam.events("echo")] == seen
    assert next(event.seq for event in beam.events("echo", after=3)) == 4


@pytest.mark.slow
def test_wait_gives_the_same_in_a_loop_and_without(beam: Beam) -> None:
    message = beam.put(beam.message("box", "question", wait=False))
    thread = answering(beam, "answer")
    outcome = beam.wait(message, timeout=20)
    thread.join()

    async def inside() -> Outcome:
        return await beam.wait.aio(message, timeout=20)

    assert outcome == asyncio.run(inside()) == beam.show(message)
    assert outcome.reply == "answer"


@pytest.mark.slow
def test_two_senders_can_wait_in_one_loop(beam: Beam) -> None:
    async def inside() -> list[Outcome]:
        first, second = (
            asyncio.create_task(beam.send.aio("box", text, seen=lambda event: None)) for text in ("one", "two")
        )
        return [await first, await second]

    threads = threading.Thread(target=lambda: [answering(beam, text).join() for text in ("1", "2")])
    threads.start()
    outcomes = asyncio.run(inside())
    threads.join()
    assert sorted(str(outcome.reply) for outcome in outcomes) == ["1", "2"]


@pytest.mark.slow
def test_a_message_is_checked_before_it_is_put(beam: Beam) -> None:
    with pytest.raises(NotFoundError, match="did you mean echo"):
        beam.message("ehco", "hi")
    with pytest.raises(UsageError, match="empty"):
        beam.message("echo", "")
    with pytest.raises(LimitError, match="bytes"):
        beam.message("echo", "x" * (1024 * 1024 + 1))
    with pytest.raises(UsageError, match="--once and --key"):
        beam.message("echo", "hi", options=Options(once=True), key="k")
    assert not beam.home.exists()


@pytest.mark.slow
def test_an_untrusted_folder_is_refused_and_can_be_trusted(beam: Beam, environ: dict[str, str]) -> None:
    environ = {name: value for name, value in environ.items() if name != "BEAM_TRUST"}
    careful = Beam(cwd=beam.home.project, environ=environ)
    with pytest.raises(UntrustedError, match="echo"):
        careful.message("echo", "hi")
    assert [each.name for each in careful.look_at_folder().found] != []
    assert careful.trust() == careful.home.project
    assert careful.message("echo", "hi").to == "echo"
    careful.untrust()
    with pytest.raises(UntrustedError):
        Beam(cwd=beam.home.project, environ=environ).message("echo", "hi")


@pytest.mark.slow
def test_put_returns_the_id_and_show_says_where_it_is(beam: Beam) -> None:
    ident = beam.put(beam.message("box", "hi", wait=False))
    assert messages.agent_of(ident) == "box"
    shown = beam.show(ident[-5:])
    assert isinstance(shown, PendingMessage)
    assert (shown.status, shown.message_id) == ("waiting", ident)


@pytest.mark.slow
def test_the_same_key_is_one_message_and_another_text_is_refused(beam: Beam) -> None:
    first = beam.put(beam.message("box", "hi", wait=False, key="k"))
    assert beam.put(beam.message("box", "hi", wait=False, key="k")) == first
    assert len(beam.queue()) == 1
    with pytest.raises(UsageError, match="another message"):
        beam.put(beam.message("box", "ho", wait=False, key="k"))


def test_recv_of_an_agent_with_a_program_is_unsupported(beam: Beam) -> None:
    with pytest.raises(UnsupportedError, match="is not a mailbox"):
        beam.recv("echo")


@pytest.mark.slow
def test_edit_drop_and_reset_go_through_the_holder(beam: Beam) -> None:
    ident = beam.put(beam.message("box", "hi", wait=False))
    assert beam.edit(ident, "edited") == "revision 1"
    assert [item.text for item in beam.queue(["box"])] == ["edited"]
    assert beam.drop(ident) == "dropped"
    assert beam.reset("box") == "no session"


def test_looking_creates_nothing(beam: Beam) -> None:
    assert (beam.status(), beam.queue(), list(beam.events("echo"))) is not None
    assert {line.agent for line in beam.agents()} == {"box", "echo"}
    assert beam.agent("echo").adapter == "command"
    assert not beam.home.exists()


@pytest.mark.slow
def test_values_can_be_written_as_json(beam: Beam) -> None:
    beam.put(beam.message("box", "hi", wait=False))
    for value in (*beam.status(), *beam.queue(), *beam.agents(all=True), beam.agent("box"), *beam.doctor()):
        assert msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("agent", "via", "access"),
    [
        ("claude", None, "ask"),
        ("opencode", "auto", "ask"),
        ("claude", "terminal", "ask"),
        ("claude", "exec", None),
        ("kimi", None, None),
        ("gemini", None, None),
        ("echo", None, None),
        ("careful", "terminal", None),
    ],
)
def test_a_person_is_asked_where_the_face_can_ask_and_nothing_else_is_reported(
    beam: Beam, environ: dict[str, str], agent: str, via: str | None, access: str | None
) -> None:
    declared = beam.home.project / "beam.yaml"
    declared.write_text(declared.read_text() + "  careful: {adapter: claude, access: read}\n")
    assert beam.default_access(agent, via) == access
    inside = Beam(cwd=beam.home.project, environ={**environ, "BEAM_AGENT": "planner"})
    assert inside.default_access(agent, via) is None


def test_a_person_is_not_asked_where_the_mode_that_can_ask_lacks_an_option(beam: Beam) -> None:
    assert beam.default_access("qwen", None, ["model"]) == "ask"
    assert beam.default_access("qwen", None, ["budget"]) is None


def test_an_agent_can_not_approve(beam: Beam, environ: dict[str, str]) -> None:
    inside = Beam(cwd=beam.home.project, environ={**environ, "BEAM_AGENT": "planner"})
    with pytest.raises(UsageError, match="planner is an agent"):
        inside.approve("echo-ask")
    with pytest.raises(NotFoundError):
        inside.deny("echo-ask")
    assert beam.asks() == []
