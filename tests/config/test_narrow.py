"""A session follows its agent's settings as they are now, and never gets more rights than they give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beam.base.errors import ConfigError, NotFoundError, UsageError
from beam.config.resolve import Config, load
from beam.model.message import NAME, base_of, check_name
from beam.model.settings import AgentSettings, limit_to_agent
from beam.root.paths import AgentPaths, RootPaths

ADAPTERS = ("claude", "codex", "scripted")
Load = Callable[..., Config]


@pytest.fixture
def loaded(tmp_path: Path) -> Load:
    """The configuration of a root with this beam.yaml and these agent.json files."""

    def make(yaml: str = "", **own: str) -> Config:
        home = RootPaths(tmp_path / "root", tmp_path)
        home.config_file.write_text(yaml)
        for name, text in own.items():
            place = home.agent(name.replace("__", "@"))
            place.dir.mkdir(parents=True, exist_ok=True)
            (place.dir / "agent.json").write_text(text)
        return load(home, environ={"HOME": str(tmp_path)}, adapters=ADAPTERS)

    return make


@pytest.mark.slow
def test_a_session_of_an_agent_that_nobody_declared_has_the_settings_of_its_adapter(loaded: Load) -> None:
    assert loaded().resolve("claude@review").settings == AgentSettings(adapter="claude")
    with pytest.raises(NotFoundError):
        loaded().resolve("nobody@review")


def test_a_session_has_its_agents_settings_from_every_file_and_its_own_win(loaded: Load) -> None:
    yaml = "agents:\n  boss: {adapter: claude, model: a, timeout: 1m}\n  boss@b: {model: b}\n"
    config = loaded(yaml, boss='{"model": "c", "system": "x"}', boss__d='{"model": "d"}')
    assert config.resolve("boss@a").settings == config.resolve("boss").settings
    assert config.resolve("boss@b").settings.model == "b"
    assert config.resolve("boss@b").settings.system == "x"
    resolved = config.resolve("boss@d")
    assert (resolved.settings.model, resolved.settings.timeout, resolved.own) == ("d", 60.0, {"model"})
    assert len(resolved.agent_files) == 2, "trust asks about both"


@pytest.mark.parametrize("key", ["adapter: codex", "command: [sh]", "executable: x", "script: x", "adapter: mailbox"])
def test_what_runs_is_the_agents_own(loaded: Load, key: str) -> None:
    with pytest.raises(ConfigError, match="claude@a is a session and runs what its agent runs"):
        loaded(f"agents:\n  claude@a: {{{key}}}\n")


def test_an_agent_json_of_a_session_can_name_no_program_either(loaded: Load) -> None:
    config = loaded(claude__a='{"command": ["sh"]}')
    with pytest.raises(ConfigError, match="runs what its agent runs"):
        config.resolve("claude@a")


@pytest.mark.parametrize(
    ("agent", "own", "access"),
    [
        ("full", "edit", "edit"),
        ("edit", "full", "edit"),
        (None, "full", "read"),
        (None, "edit", "read"),
        ("ask", "read", "read"),
        ("full", "ask", "ask"),
    ],
)
def test_a_session_has_no_more_access_than_its_agent(agent: str | None, own: str, access: str) -> None:
    kept = limit_to_agent(AgentSettings(access=own), AgentSettings(access=agent))  # type: ignore[arg-type]
    assert kept.access == access


def test_a_session_has_no_higher_bound_than_its_agent() -> None:
    agent = AgentSettings(budget_usd=1.0, max_turns=3)
    kept = limit_to_agent(AgentSettings(budget_usd=5.0, max_turns=2, retries=4), agent)
    assert (kept.budget_usd, kept.max_turns, kept.retries) == (1.0, 2, 4)


@pytest.mark.parametrize(
    "name",
    [
        "a@",
        "@a",
        "a@b@c",
        "a@..",
        "a@b/c",
        "a@-b",
        "a@_",
        "a@B",
        "a@\u0430",
        "a@b\n",
        "a@b\0",
        "a\uff20b",
        "a@" + "b" * 63,
    ],
)
def test_what_is_no_name_of_a_session_is_refused_before_it_is_a_path(name: str) -> None:
    assert not NAME.match(name)
    with pytest.raises(UsageError, match="is not an agent's name"):
        check_name(name)


def test_a_session_is_no_lane_and_its_agent_is_the_part_before_the_sign() -> None:
    assert check_name("claude@review") == "claude@review"
    assert base_of("claude@review") == base_of("claude") == "claude"
    with pytest.raises(UsageError):
        AgentPaths("a", Path("/nowhere")).lane_of("a@b")


def test_a_turns_folder_has_no_sign_that_an_agent_would_read_a_file_by(tmp_path: Path) -> None:
    home = RootPaths(tmp_path / "root", tmp_path)
    assert home.turns_of(home.agent("claude@review")) == tmp_path / "root.turns" / "claude+review"
