"""Agents declared by command."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.api import manage
from beam.errors import BeamError, ConfigError, NotFoundError, UnfinishedError, UsageError
from beam.settings import AgentSettings
from tests.support.world import Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_an_added_agent_resolves_and_needs_no_trust(root: Root) -> None:
    root.environ.pop("BEAM_TRUST")
    path = manage.add(root.world, "mine", AgentSettings(command=("cat", "-n")))
    assert path == root.world.home.root / "agents/mine/agent.json"
    resolved = root.reload().resolve("mine")
    assert resolved.settings.command == ("cat", "-n")
    assert root.world.why_untrusted(resolved) is None
    path.write_text(path.read_text().replace("-n", "-e"))
    assert root.world.why_untrusted(root.reload().resolve("mine")) is not None


def test_an_agent_that_would_not_resolve_is_not_kept(root: Root) -> None:
    with pytest.raises(BeamError):
        manage.add(root.world, "mine", AgentSettings())
    assert root.world.home.agents() == []


def test_what_an_agent_left_here_before_stays_when_adding_it_again_fails(root: Root) -> None:
    root.put("mine")
    with pytest.raises(BeamError):
        manage.add(root.world, "mine", AgentSettings())
    assert len(root.boxes("mine")["new"]) == 1


def test_a_change_that_would_not_resolve_is_taken_back(root: Root) -> None:
    path = manage.add(root.world, "mine", AgentSettings(adapter="scripted"))
    before = path.read_bytes()
    with pytest.raises(BeamError):
        manage.change(root.world, "mine", {"adapter": "nothing"})
    assert path.read_bytes() == before


def test_a_change_sets_and_takes_back(root: Root) -> None:
    manage.change(root.world, "worker", {"timeout": "90s", "description": "it"})
    assert root.reload().resolve("worker").settings.timeout == 90
    manage.change(root.world, "worker", {"timeout": None})
    settings = root.reload().resolve("worker").settings
    assert (settings.timeout, settings.description) == (None, "it")


def test_adding_twice_and_removing_twice_are_refused(root: Root) -> None:
    manage.add(root.world, "mine", AgentSettings(adapter="scripted"))
    with pytest.raises(UsageError, match="already"):
        manage.add(root.world, "mine", AgentSettings(adapter="scripted"))
    manage.remove(root.world, "mine", purge=False)
    with pytest.raises(NotFoundError, match="not added by command"):
        manage.remove(root.world, "mine", purge=False)


def test_an_agent_that_is_held_is_not_removed(root: Root) -> None:
    manage.add(root.world, "mine", AgentSettings(adapter="scripted"))
    holder = root.hold("mine")
    with pytest.raises(UnfinishedError, match="in a turn"):
        manage.remove(root.world, "mine", purge=True)
    holder.release()
    assert "gone" in manage.remove(root.world, "mine", purge=True)
    assert not root.world.place("mine").dir.exists()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("command", "sh -c 'a b'", ("sh", "-c", "a b")),
        ("max_turns", "3", 3),
        ("budget_usd", "1.5", 1.5),
        ("timeout", "2m", 120.0),
        ("mailbox", "yes", True),
        ("model", "3", "3"),
    ],
)
def test_a_setting_is_parsed_from_its_text(key: str, text: str, value: object) -> None:
    assert manage.parsed(key, text) == value


@pytest.mark.parametrize(("key", "text"), [("modl", "x"), ("access", "root"), ("timeout", "soon"), ("max_turns", "x")])
def test_a_setting_that_is_wrong_is_named(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key):
        manage.parsed(key, text)
