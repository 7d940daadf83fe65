"""Which source of a setting wins, and which source is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beam.base.errors import ConfigError, NotFoundError, UsageError
from beam.config import resolve
from beam.config.resolve import Config, parse_agent_json
from beam.model.settings import AgentSettings, Limits
from beam.root.directories import create
from beam.root.paths import RootPaths

ADAPTERS = ("claude", "command", "scripted", "mailbox")


class Folder:
    """A folder with a user, whose files a test writes in one line."""

    def __init__(self, path: Path) -> None:
        self.root = RootPaths(path / "root", path / "work")
        self.root.project.mkdir()
        self.user = path / "user"

    def yaml(self, text: str) -> Folder:
        self.root.config_file.write_text(text)
        return self

    def user_config(self, text: str) -> Folder:
        (self.user / "beam").mkdir(parents=True)
        (self.user / "beam" / "config.yaml").write_text(text)
        return self

    def agent_json(self, name: str, text: str) -> Folder:
        create(self.root, self.root.agent(name))
        (self.root.agent(name).dir / "agent.json").write_text(text)
        return self

    def load(self, **environ: str) -> Config:
        return resolve.load(self.root, environ={"XDG_CONFIG_HOME": str(self.user), **environ}, adapters=ADAPTERS)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_each_layer_beats_the_one_below_and_is_named(folder: Folder) -> None:
    folder.user_config("defaults: {model: a, access: read, timeout: 1m, retries: 1, max_turns: 1}")
    folder.yaml(
        "defaults: {model: b, access: edit, timeout: 2m}\nagents: {x: {adapter: claude, timeout: 3m, retries: 2}}"
    )
    folder.agent_json("x", '{"model": "c", "access": "ask"}')
    resolved = folder.load(BEAM_MODEL="d").resolve("x")
    settings = resolved.settings
    assert (settings.model, settings.access, settings.timeout) == ("d", "ask", 180.0)
    assert (settings.retries, settings.max_turns, settings.cwd) == (2, 1, None)
    assert {name: resolved.origin[name] for name in ("model", "access", "timeout", "retries", "max_turns", "cwd")} == {
        "model": "BEAM_MODEL",
        "access": "agent.json",
        "timeout": "beam.yaml",
        "retries": "beam.yaml",
        "max_turns": "user config",
        "cwd": "default",
    }
    assert resolved.declared_in == "agent.json"


def test_variables_of_env_add_up_and_each_keeps_its_origin(folder: Folder) -> None:
    folder.user_config('defaults: {env: {A: "1", B: "1"}}').yaml('agents: {x: {adapter: claude, env: {B: "2"}}}')
    resolved = folder.load().resolve("x")
    assert resolved.settings.env == {"A": "1", "B": "2"}
    assert (resolved.origin["env.A"], resolved.origin["env.B"]) == ("user config", "beam.yaml")


def test_a_default_agent_is_the_folders_or_else_the_persons(folder: Folder) -> None:
    assert folder.load().default_agent is None
    folder.user_config("defaults: {agent: codex}")
    assert folder.load().default_agent == "codex"
    folder.yaml("defaults: {agent: claude@docs, timeout: 1m}")
    assert folder.load().default_agent == "claude@docs"
    assert folder.load().resolve("claude").settings.timeout == 60.0


def test_limits_are_merged(folder: Folder) -> None:
    folder.user_config("limits: {hops: 3, grace: 1s}\nallow_fs: [nfs]").yaml("limits: {hops: 4}")
    loaded = folder.load()
    assert loaded.limits == Limits(hops=4, grace=1.0)
    assert loaded.allow_fs == ("nfs",)


@pytest.mark.parametrize("text", ["allow_fs: [nfs]", "state_dir: /tmp/x"])
def test_what_is_about_the_persons_own_state_no_folder_says(folder: Folder, text: str) -> None:
    with pytest.raises(ConfigError, match="only your own configuration can say this"):
        folder.yaml(text).load()


def test_an_adapters_name_is_an_agent_without_configuration(folder: Folder) -> None:
    loaded = folder.load()
    resolved = loaded.resolve("claude")
    assert resolved.settings == AgentSettings(adapter="claude")
    assert (resolved.declared_in, loaded.path, loaded.names()) == ("built in", None, [])


def test_the_adapter_may_be_left_out_where_something_implies_it(folder: Folder) -> None:
    folder.yaml("agents: {a: {command: [x]}, b: {script: s.yaml}, c: {adapter: mailbox}, claude: {model: m}}")
    loaded = folder.load()
    assert [loaded.agents[name].adapter for name in ("a", "b", "c", "claude")] == [
        *("command", "scripted", "mailbox", "claude")
    ]


def test_an_agent_without_an_adapter_is_a_complaint_when_it_is_used(folder: Folder) -> None:
    loaded = folder.yaml("agents: {x: {model: m}}").load()
    with pytest.raises(ConfigError, match=r"beam\.yaml: agents\.x: says no adapter.*claude, command"):
        loaded.resolve("x")


@pytest.mark.parametrize(
    ("name", "near"), [("claud", "claude"), ("Claude", "claude"), ("planer", "planner"), ("adde", "added")]
)
def test_an_unknown_agent_gets_the_nearest_name(folder: Folder, name: str, near: str) -> None:
    loaded = folder.yaml("agents: {planner: {adapter: claude}}").agent_json("added", '{"adapter": "claude"}').load()
    with pytest.raises(NotFoundError, match=f"no agent is called '{name}' .did you mean {near}"):
        loaded.resolve(name)


@pytest.mark.parametrize("name", ["claude@", "claude@A b", "claude@a@b"])
def test_a_session_of_an_agent_that_can_have_no_such_name_is_told_the_rule(folder: Folder, name: str) -> None:
    with pytest.raises(UsageError, match="not an agent's name"):
        folder.yaml("agents: {claude: {model: m}}").load().resolve(name)


def test_what_is_no_name_is_not_looked_for(folder: Folder) -> None:
    with pytest.raises(UsageError, match="not an agent's name"):
        folder.load().resolve("../../etc")


def test_a_directory_without_agent_json_declares_nothing(folder: Folder) -> None:
    create(folder.root, folder.root.agent("gone"))
    assert folder.load().names() == []
    with pytest.raises(NotFoundError):
        folder.load().resolve("gone")


def test_a_bad_agent_json_is_that_agents_trouble_alone(folder: Folder) -> None:
    loaded = folder.agent_json("bad", "{").agent_json("odd", '{"adapter": "claude", "modle": 1}').load()
    assert loaded.resolve("claude").settings.adapter == "claude"
    with pytest.raises(ConfigError, match=r"bad/agent\.json: not JSON"):
        loaded.resolve("bad")
    with pytest.raises(ConfigError, match=r"odd/agent\.json: modle: unknown key .did you mean model"):
        loaded.resolve("odd")


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("BEAM_TIMEOUT", "soon", "BEAM_TIMEOUT: 'soon' is not a duration"),
        ("BEAM_ACCESS", "all", "BEAM_ACCESS: 'all' is not one of"),
        ("BEAM_MAX_TURNS", "many", "BEAM_MAX_TURNS: expected a whole number, got 'many'"),
        ("BEAM_BUDGET_USD", "inf", "BEAM_BUDGET_USD: inf is out of range"),
    ],
)
def test_a_bad_variable_is_named(folder: Folder, variable: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        folder.load(**{variable: text})


def test_variables_are_read_and_empty_ones_are_not_there(folder: Folder) -> None:
    said = {
        "BEAM_TIMEOUT": "5m",
        "BEAM_MAX_TURNS": "3",
        "BEAM_BUDGET_USD": "0.5",
        "BEAM_RETRIES": "0",
        "BEAM_MODEL": "",
    }
    settings = folder.load(**said).resolve("claude").settings
    assert settings == AgentSettings(adapter="claude", timeout=300.0, max_turns=3, budget_usd=0.5, retries=0)


def test_agent_json_holds_what_differs_and_reads_back(tmp_path: Path) -> None:
    settings = AgentSettings(
        adapter="command", command=("cat", ("-n", "é")), env={"A": "b"}, timeout=90.0, record=False
    )
    data = resolve.encode_agent_json(settings)
    assert parse_agent_json(data, tmp_path) == settings
    assert set(resolve.msgspec.json.decode(data)) == {"v", "adapter", "command", "env", "timeout"}
    assert b'"v": 1' in data
    assert parse_agent_json(data.replace(b'"v": 1,', b""), tmp_path) == settings, "without a version it is of this one"
    for version in (b"2", b'"1"', b"null"):
        with pytest.raises(ConfigError, match=r"of version .* reads up to 1"):
            parse_agent_json(data.replace(b'"v": 1', b'"v": ' + version), tmp_path)


@pytest.mark.slow
def test_yaml_is_imported_only_where_there_is_a_file(folder: Folder) -> None:
    code = (
        "import sys; from pathlib import Path; from beam.config import resolve; from beam.root import paths\n"
        "from beam.secrets import redact; from beam.trust import ledger\n"
        f"where = paths.RootPaths(Path({str(folder.root.root)!r}), Path({str(folder.root.project)!r}))\n"
        "resolve.load(where, environ={'HOME': '/nowhere'}, adapters=[])\n"
        "print(sorted({'yaml', 'asyncio', 'subprocess', 'socket'}.intersection(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_adapter_is_switched_off_by_a_file_or_a_variable_and_says_by_which(folder: Folder) -> None:
    folder.yaml("disable: [claude]\nagents:\n  mine: {adapter: claude}\n  fine: {adapter: scripted}\n")
    loaded = folder.user_config("disable: [command]\n").load(BEAM_DISABLE="mailbox, ")
    assert loaded.disabled == {"claude": "beam.yaml", "command": "user config", "mailbox": "BEAM_DISABLE"}
    for name, who in (("claude", "beam.yaml"), ("mine", "beam.yaml"), ("command", "user config")):
        with pytest.raises(ConfigError, match=f"is switched off by {who}"):
            loaded.resolve(name)
    assert loaded.resolve("fine").settings.adapter == "scripted"


@pytest.mark.parametrize("text", ["disable: claude\n", "disable: [cluade]\n", "disable: [1]\n"])
def test_what_is_switched_off_is_a_list_of_adapters_that_there_are(folder: Folder, text: str) -> None:
    with pytest.raises(ConfigError, match="disable"):
        folder.yaml(text).load()
    with pytest.raises(ConfigError, match="BEAM_DISABLE"):
        folder.yaml("").load(BEAM_DISABLE="cluade")


def test_an_agent_has_the_variables_of_its_environment_profile_and_its_own_win(folder: Folder) -> None:
    folder.user_config("env_profiles: {work: {A: 1, B: 1}}").yaml(
        'agents: {x: {adapter: claude, env_profile: work, env: {B: "2"}}}'
    )
    resolved = folder.load().resolve("x")
    assert resolved.settings.env == {"A": "1", "B": "2"}
    assert (resolved.origin["env.A"], resolved.origin["env.B"]) == ("user config", "beam.yaml")
    assert resolved.origin["env_profile"] == "beam.yaml"


def test_a_variable_of_a_profile_that_a_folder_changes_is_the_folders(folder: Folder) -> None:
    folder.user_config(
        "env_profiles: {work: {A: '1', B: '1'}}\nagents: {x: {adapter: claude, env_profile: work}}"
    ).yaml("env_profiles: {work: {A: '2'}}")
    resolved = folder.load().resolve("x")
    assert resolved.settings.env == {"A": "2", "B": "1"}
    assert (resolved.origin["env.A"], resolved.origin["env.B"]) == ("beam.yaml", "user config")


def test_a_profile_that_does_not_exist_is_an_error_with_the_nearest(folder: Folder) -> None:
    folder.yaml("env_profiles: {work: {A: '1'}}\nagents: {x: {adapter: claude, env_profile: wrok}}")
    with pytest.raises(ConfigError, match=r"no environment profile 'wrok' .did you mean work"):
        folder.load().resolve("x")


@pytest.mark.parametrize("text", ["[a]", "{work: 1}", "{'a b': {A: x}}", "{work: {'A=B': x}}", "{work: {A: [x]}}"])
def test_a_bad_profile_is_refused(folder: Folder, text: str) -> None:
    with pytest.raises(ConfigError, match="env_profiles"):
        folder.yaml(f"env_profiles: {text}").load()
