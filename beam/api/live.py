"""Sends requests to an agent's process while a turn runs in that process, or while the process is kept between
turns."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from beam.base.clock import Steps
from beam.base.errors import BeamError, NotFoundError, UnsupportedError
from beam.broker.asking.requests import request, request_answer
from beam.broker.holder.calls import STEER_TIMEOUT_S
from beam.broker.inbox.context import RootContext
from beam.model.state import State
from beam.root.paths import AgentPaths
from beam.store.journal import read_state
from beam.turns.asks import CALL_TIMEOUT_S

QUESTIONS = ("account", "models", "modes", "commands", "mcp", "context")
_MARGIN_S = 5.0  # for the holder to say that the process did not answer


def steer(context: RootContext, paths: AgentPaths, text: str, *, by: str) -> Steps[str]:
    """Pass a text to the running turn; return once the agent has read it.

    Raises NotFoundError if no turn runs, UnsupportedError if the turn takes no text, UnfinishedError if the turn was
    over before the agent read it.
    """
    state = read_state(paths.journal)
    turn = state.open_turn
    if turn is None or turn.message_id is None or turn.finished:
        raise NotFoundError(
            f"no turn of {paths.agent} runs that could take a text",
            f"beam send {paths.agent}",
            subject=paths.agent,
        )
    _check_via(paths, turn.via, "turn")
    yield from request(context, paths, "steer", turn.message_id, by=by, text=text, timeout=STEER_TIMEOUT_S + _MARGIN_S)
    return f"the agent has read the text in the turn of {turn.message_id}"


def is_live(state: State) -> bool:
    """Return whether the agent in this state has a process that can answer requests: one that is kept, or one that runs
    a turn."""
    return state.kept is not None or (state.open_turn is not None and not state.open_turn.finished)


def set_live(
    context: RootContext, paths: AgentPaths, name: str, value: str, *, by: str, is_declared: bool = False
) -> Steps[str]:
    """Change a setting of the agent's process. Return the process's answer, "" if it has none. `is_declared`: the
    agent's settings have the same value, so its next turns can continue in this process.

    Raises NotFoundError if there is no process, UnsupportedError if the process can't change the setting.
    """
    _check_live(paths)
    text, timeout = f"{name}={value}", CALL_TIMEOUT_S + _MARGIN_S
    return (yield from request(context, paths, "set", by=by, text=text, always=is_declared, timeout=timeout))


def run_action(
    context: RootContext, paths: AgentPaths, name: str, given: Mapping[str, object], *, by: str
) -> Steps[object]:
    """Make the agent's process carry out an action that is not a turn. Return the process's answer.

    Raises NotFoundError if there is no process, UnsupportedError if it does not support the action.
    """
    _check_live(paths)
    text, timeout = msgspec.json.encode({"name": name, "given": given}).decode(), CALL_TIMEOUT_S + _MARGIN_S
    done = yield from request_answer(context, paths, "act", by=by, text=text, timeout=timeout)
    return msgspec.json.decode(done.result)


def ask_question(context: RootContext, paths: AgentPaths, question: str, *, by: str) -> Steps[object]:
    """Ask the agent's process one question and return its answer. Raises the same errors as `run_action`."""
    _check_live(paths)
    done = yield from request_answer(context, paths, "query", by=by, text=question, timeout=CALL_TIMEOUT_S + _MARGIN_S)
    return msgspec.json.decode(done.result)


def ask_all(context: RootContext, paths: AgentPaths, *, by: str) -> Steps[dict[str, object]]:
    """Ask the agent's process every question in `QUESTIONS`. Return the answers by question, without questions that the
    process can't answer.

    Raises NotFoundError if there is no process, UnsupportedError if it answers no question.
    """
    _check_live(paths)
    answers: dict[str, object] = {}
    for question in QUESTIONS:
        try:
            done = yield from request_answer(
                context, paths, "query", by=by, text=question, timeout=CALL_TIMEOUT_S + _MARGIN_S
            )
        except BeamError as error:
            if error.kind not in (UnsupportedError.kind, BeamError.kind):
                raise
            continue
        answers[question] = msgspec.json.decode(done.result)
    if not answers:
        raise UnsupportedError(
            f"{paths.agent} reports nothing about its process", "beam agent show", subject=paths.agent
        )
    return answers


def _check_live(paths: AgentPaths) -> None:
    state = read_state(paths.journal)
    if not is_live(state):
        raise NotFoundError(
            f"no process of {paths.agent} is kept or in a turn",
            f"beam send {paths.agent} --via dialogue --keep 10m …",
            subject=paths.agent,
        )
    if state.kept is not None:
        _check_via(paths, state.kept.via or "terminal", "process")
    elif state.open_turn is not None:
        _check_via(paths, state.open_turn.via, "turn")


def _check_via(paths: AgentPaths, via: str, what: str) -> None:
    if via != "dialogue":
        raise UnsupportedError(
            f"a {what} of {paths.agent} in {via} mode takes no such request",
            "one in dialogue mode does: beam send --via dialogue",
            subject=paths.agent,
        )
