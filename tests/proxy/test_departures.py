"""What the model is asked for an agent that left is ended, and nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from beam.proxy import handling
from beam.proxy.handling import DisconnectWatcher


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[DisconnectWatcher]:
    monkeypatch.setattr(handling, "_WATCH_PAUSE_S", 0.001)
    made = DisconnectWatcher()
    yield made
    made.stop()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket, socket.socket, socket.socket]]:
    """The agent, its connection here, the connection to the model, and the model."""
    made = (*socket.socketpair(), *socket.socketpair())
    for each in made:
        each.settimeout(5)
    yield made
    for each in made:
        each.close()


Ends = tuple[socket.socket, socket.socket, socket.socket, socket.socket]


def test_the_connection_to_the_model_is_ended_once_the_agent_left(watched: DisconnectWatcher, ends: Ends) -> None:
    agent, here, to_model, model = ends
    watched.watch(1, here, to_model)
    agent.close()
    assert model.recv(1) == b""


def test_an_agent_that_sends_more_or_whose_call_is_over_ends_nothing(watched: DisconnectWatcher, ends: Ends) -> None:
    agent, here, to_model, model = ends
    watched.watch(1, here, to_model)
    agent.sendall(b"more")
    watched.unwatch(1)
    agent.close()
    to_model.sendall(b"x")
    assert (model.recv(1), here.recv(4)) == (b"x", b"more")


def test_a_proxy_that_stops_ends_all_that_waits(watched: DisconnectWatcher, ends: Ends) -> None:
    _, here, to_model, model = ends
    watched.watch(1, here, to_model)
    watched.stop()
    assert model.recv(1) == b""
