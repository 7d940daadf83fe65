"""Agents declared by command."""

from __future__ import annotations

from threading import Timer

import pytest

from beam.api import manage
from beam.base.errors import (
    BeamError,
    ConfigError,
    NotFoundError,
    UnfinishedError,
    UnsupportedError,
    UntrustedError,
    UsageError,
)
from beam.broker import standing
from beam.model import events
from beam.model.settings import AgentSettings
from beam.store.journal import read_state
from beam.store.lock import try_lock
from tests.support.context import Root


def test_an_added_agent_resolves_and_needs_no_trust(root: Root) -> None:
    root.environ.pop("BEAM_TRUST")
    path = manage.add(root.context, "mine", AgentSettings(command=("cat", "-n")))
    assert path == root.context.home.root / "agents/mine/agent.json"
    resolved = root.reload().config.resolve("mine")
    assert resolved.settings.command == ("cat", "-n")
    assert standing.check_folder(root.context, resolved).refusal is None
    path.write_text(path.read_text().replace("-n", "-e"))
    assert standing.check_folder(root.context, root.reload().config.resolve("mine")).refusal is not None


def test_an_agent_that_would_not_resolve_is_not_kept(root: Root) -> None:
    with pytest.raises(BeamError):
        manage.add(root.context, "mine", AgentSettings())
    assert root.context.home.agents() == []


def test_what_an_agent_left_here_before_stays_when_adding_it_again_fails(root: Root) -> None:
    root.put("mine")
    with pytest.raises(BeamError):
        manage.add(root.context, "mine", AgentSettings())
    assert len(root.boxes("mine")["new"]) == 1


def test_a_change_that_would_not_resolve_is_taken_back(root: Root) -> None:
    path = manage.add(root.context, "mine", AgentSettings(adapter="scripted"))
    before = path.read_bytes()
    with pytest.raises(BeamError):
        manage.change(root.context, "mine", {"adapter": "nothing"})
    assert path.read_bytes() == before


def test_a_change_sets_and_takes_back(root: Root) -> None:
    manage.change(root.context, "worker", {"timeout": "90s", "description": "it"})
    assert root.reload().config.resolve("worker").settings.timeout == 90
    manage.change(root.context, "worker", {"timeout": None})
    settings = root.reload().config.resolve("worker").settings
    assert (settings.timeout, settings.description) == (None, "it")


def test_adding_twice_and_removing_twice_are_refused(root: Root) -> None:
    manage.add(root.context, "mine", AgentSettings(adapter="scripted"))
    with pytest.raises(UsageError, match="already"):
        manage.add(root.context, "mine", AgentSettings(adapter="scripted"))
    manage.remove(root.context, "mine", purge=False)
    with pytest.raises(NotFoundError, match="not added by `beam agent add`"):
        manage.remove(root.context, "mine", purge=False)


@pytest.mark.slow
def test_an_agent_that_is_held_is_not_removed(root: Root) -> None:
    manage.add(root.context, "mine", AgentSettings(adapter="scripted"))
    lease = root.hold("mine")
    with pytest.raises(UnfinishedError, match="in a turn"):
        manage.remove(root.context, "mine", purge=True)
    lease.close()
    assert "gone" in manage.remove(root.context, "mine", purge=True)
    assert not root.context.agent_paths("mine").dir.exists()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("command", "sh -c 'a b'", ("sh", "-c", "a b")),
        ("max_turns", "3", 3),
        ("budget_usd", "1.5", 1.5),
        ("timeout", "2m", 120.0),
        ("mailbox", "yes", True),
        ("record", "off", False),
        ("record", "1", True),
        ("model", "3", "3"),
    ],
)
def test_a_setting_is_read_from_its_text(key: str, text: str, value: object) -> None:
    assert manage.settings_of_flags({key: text}) == {key: value}


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("modl", "x", "modl: unknown key .did you mean model"),
        ("access", "root", "access: 'root' is not one of"),
        ("timeout", "soon", "timeout: 'soon' is not a duration"),
        ("max_turns", "x", "max_turns: expected a whole number, got 'x'"),
        ("max_turns", "-1", "max_turns: -1 is out of range"),
        ("mailbox", "maybe", "mailbox: expected true or false, got 'maybe'"),
        ("command", "sh 'a", 'command: "sh \'a" is no command line'),
    ],
)
def test_a_setting_that_is_wrong_is_named(key: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        manage.settings_of_flags({key: text})


def in_session(root: Root, name: str, adapter: str = "codex") -> None:
    """The agent has a session `s1`."""
    owner = events.Owner(pid=1, start_ticks=1)
    lease = root.hold(name)
    lease.log.record(events.TurnStarted(owner=owner, turn_key="k", adapter=adapter, via="exec"), turn=1)
    lease.log.record(events.SessionStarted(session_id="s1"), turn=1)
    lease.close()


def declare(root: Root, settings: str) -> None:
    (root.base / "beam.yaml").write_text(f"agents:\n  coder: {settings}\n")
    root.reload()


def test_a_fork_has_the_settings_and_begins_in_a_copy_of_the_session(root: Root) -> None:
    declare(root, "{adapter: codex, model: gpt-5, system: be brief}")
    in_session(root, "coder")
    assert manage.fork(root.context, "coder", "twin", by="human") == "s1"
    settings = root.reload().config.resolve("twin").settings
    assert (settings.adapter, settings.model, settings.system) == ("codex", "gpt-5", "be brief")
    state = read_state(root.place("twin").journal)
    assert state.session is None
    assert state.fork is not None and (state.fork.session_id, state.fork.of) == ("s1", "coder")
    again = manage.fork(root.context, "twin", "third", by="human")
    assert again == "s1", "a fork that has not begun is a copy of the same session"


def test_a_variable_of_the_caller_is_no_setting_of_the_fork(root: Root) -> None:
    root.environ["BEAM_MODEL"] = "only-today"
    declare(root, "{adapter: codex}")
    in_session(root, "coder")
    manage.fork(root.context, "coder", "twin", by="human")
    root.environ.pop("BEAM_MODEL")
    assert root.reload().config.resolve("twin").settings.model is None


def test_without_a_session_there_is_nothing_to_copy(root: Root) -> None:
    declare(root, "{adapter: codex}")
    with pytest.raises(NotFoundError, match="no session yet"):
        manage.fork(root.context, "coder", "twin", by="human")
    assert root.context.home.agents() == []


def test_an_agent_that_can_not_copy_a_session_is_refused_before_anything_is_written(root: Root) -> None:
    declare(root, "{adapter: gemini}")
    in_session(root, "coder", "gemini")
    with pytest.raises(UnsupportedError, match="copy of its session"):
        manage.fork(root.context, "coder", "twin", by="human")
    assert root.context.home.agents() == ["coder"]


def test_a_fork_takes_no_name_that_is_used_and_launders_no_untrusted_setting(root: Root) -> None:
    declare(root, "{adapter: codex, access: full}")
    in_session(root, "coder")
    with pytest.raises(UsageError, match="already"):
        manage.fork(root.context, "coder", "coder", by="human")
    root.environ.pop("BEAM_TRUST")
    with pytest.raises(UntrustedError, match="full access"):
        manage.fork(root.reload(), "coder", "twin", by="human")
    assert root.context.home.agents() == ["coder"]


@pytest.mark.slow
def test_an_agent_is_removed_though_somebody_looks_for_a_moment_whether_it_is_free(root: Root) -> None:
    manage.add(root.context, "doomed", AgentSettings(adapter="scripted"))
    place = root.context.agent_paths("doomed")
    held = try_lock(place.lock)
    assert held is not None
    letting_go = Timer(0.2, held.release)
    letting_go.start()
    assert "are gone" in manage.remove(root.context, "doomed", purge=True)
    letting_go.join()
    assert not place.dir.exists()


# -- variables ---------------------------------------------------------------------------------------------------------


def test_a_variable_is_set_changed_and_removed_beside_the_others(root: Root) -> None:
    settings = manage.settings_of_flags({"adapter": "claude", "env.IS_SANDBOX": "1", "env.A": "x=y"})
    manage.add(root.context, "mine", AgentSettings(**settings))  # type: ignore[arg-type]
    assert root.reload().config.resolve("mine").settings.env == {"IS_SANDBOX": "1", "A": "x=y"}
    manage.change(root.context, "mine", {"env.A": None, "env.B": "2"})
    assert root.reload().config.resolve("mine").settings.env == {"IS_SANDBOX": "1", "B": "2"}
    manage.change(root.context, "mine", {"env.never": None})
    assert root.reload().config.resolve("mine").settings.env == {"IS_SANDBOX": "1", "B": "2"}


@pytest.mark.parametrize("key", ["env.", "env.A=B"])
def test_a_variable_without_a_name_is_refused(key: str, root: Root) -> None:
    with pytest.raises(ConfigError, match="a variable's name"):
        manage.settings_of_flags({"adapter": "claude", key: "1"})
    with pytest.raises(ConfigError, match="a variable's name"):
        manage.change(root.context, "claude", {key: "1"})
