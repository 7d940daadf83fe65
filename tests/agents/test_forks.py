"""What each adapter asks its CLI for where a turn goes on in a copy of a session, and what it makes of the answer."""

from __future__ import annotations

import pytest

from beam.agents import registry
from beam.agents.base import Exit, Host, Turn
from beam.agents.oneshot import OutputSummary, verdict
from beam.model import events
from beam.model.outcome import Status

UUID = "01a200ca-3dd4-7ca1-84d9-c4ba42d49a14"
FRESH = "5b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b10"
ASKED = {
    "claude": (UUID, ("--resume", UUID, "--fork-session", "--session-id", FRESH)),
    "codex": (UUID, ("fork", UUID)),
    "opencode": ("ses_dff3492c1ffe2tw8gp1AW5Le6T", ("-s", "ses_dff3492c1ffe2tw8gp1AW5Le6T", "--fork")),
    "kilo": ("ses_dff3492c1ffe2tw8gp1AW5Le6T", ("-s", "ses_dff3492c1ffe2tw8gp1AW5Le6T", "--fork")),
    "pi": (UUID, ("--fork", UUID)),
}


def turn(name: str, session_id: str) -> Turn:
    access = registry.adapter(name).card.faces["exec"].access
    return Turn(
        text="hi",
        message_id="m",
        agent=name,
        session_id=session_id,
        fresh_session_id=FRESH,
        fork=True,
        access=access[0],
        scratch="/scratch",
    )


def test_every_adapter_that_claims_to_fork_is_here() -> None:
    claims = {name for name in registry.ADAPTERS if _claims(name)}
    assert claims == set(ASKED)


def _claims(name: str) -> bool:
    """Headless: the agent's own protocol asks for a copy in another way."""
    can = registry.adapter(name).card.faces.get("exec")
    return can is not None and can.fork


@pytest.mark.parametrize("name", ASKED)
def test_the_cli_is_asked_for_a_copy_of_that_session(name: str) -> None:
    session_id, words = ASKED[name]
    face = registry.adapter(name).exec
    assert face is not None
    argv = face.launch(turn(name, session_id), Host()).argv
    start = argv.index(words[0])
    assert argv[start : start + len(words)] == words


def test_a_copy_is_a_new_session_and_going_on_in_the_session_itself_is_a_failure() -> None:
    summary = OutputSummary(name="x")
    (started,) = summary.on_opened(turn("pi", UUID), FRESH)
    assert isinstance(started, events.SessionStarted)
    summary.ended = "stop"
    assert verdict(turn("pi", UUID), Exit(code=0), summary)[1].session == "new"

    summary = OutputSummary(name="x", ended="stop")
    assert not any(isinstance(body, events.SessionStarted) for body in summary.on_opened(turn("pi", UUID), UUID))
    found = verdict(turn("pi", UUID), Exit(code=0), summary)[1]
    assert (found.status, found.session_id) == (Status.FAILED, None)
