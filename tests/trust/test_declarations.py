"""What a folder's declarations ask for is found whole, and only what the folder itself says counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.config.resolve import Config
from beam.model.autoloaded import Finding
from beam.trust.declarations import AdapterFacts, findings_of_agent
from tests.config.test_resolve import ADAPTERS, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def found(
    config: Config,
    agent: str = "x",
    *,
    runs_text: bool = False,
    is_program: bool = False,
    vouched: tuple[str, ...] = (),
) -> list[Finding]:
    told = AdapterFacts(adapters=ADAPTERS, runs_text=runs_text, is_program=is_program)
    return findings_of_agent(config, config.resolve(agent), told, vouched=vouched)


def said(config: Config, agent: str = "x", **more: bool) -> list[str]:
    return [each.name for each in found(config, agent, **more)]


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ("command: [make, all]", "beam.yaml has x run 'make all'"),
        ("adapter: claude, executable: ./evil", "beam.yaml has x run './evil'"),
        ("adapter: claude, env: {LD_PRELOAD: e.so}", "beam.yaml sets LD_PRELOAD in the environment of x"),
        ("script: ./s.yaml", "beam.yaml has x play './s.yaml'"),
        ("adapter: claude, access: full", "beam.yaml gives x full access"),
        ("adapter: claude, access: edit", "beam.yaml gives x edit access"),
        ("adapter: claude, access: ask", "beam.yaml gives x ask access"),
        ("adapter: claude, cwd: ../other", "beam.yaml has x work outside this folder, in '../other'"),
        ("adapter: claude, screen: {rows: 50}", "beam.yaml says which keys beam types into x"),
        ("adapter: claude, envelope: none", "beam.yaml changes how x is told who speaks"),
        ("adapter: claude, envelope: 'the person says by {{from}}:'", "beam.yaml changes how x is told who speaks"),
    ],
)
def test_what_a_folder_says_needs_trust_where_it_runs_code_or_raises_rights(
    folder: Folder, agent: str, reason: str
) -> None:
    assert said(folder.yaml(f"agents: {{x: {{{agent}}}}}").load()) == [reason]


@pytest.mark.parametrize(
    "agent",
    [
        "script: demo",
        "adapter: claude, access: read, timeout: 3m, budget_usd: 5",
        "adapter: claude, cwd: src/deep, envelope: short",
        "adapter: mailbox",
    ],
)
def test_what_runs_nothing_needs_no_trust(folder: Folder, agent: str) -> None:
    assert said(folder.yaml(f"agents: {{x: {{{agent}}}}}").load()) == []


@pytest.mark.parametrize("agent", ["adapter: command, command: [sh]", "adapter: mailbox", "script: demo"])
def test_a_known_agents_name_that_stands_for_another_agent_needs_trust(folder: Folder, agent: str) -> None:
    config = folder.yaml(f"agents: {{claude: {{{agent}}}}}").load()
    assert any(line.startswith("beam.yaml makes claude another agent: ") for line in said(config, "claude"))


def test_defaults_that_make_every_agent_another_one_need_trust(folder: Folder) -> None:
    config = folder.yaml("defaults: {adapter: scripted}").load()
    assert said(config, "claude") == ["beam.yaml makes claude another agent: scripted"]


def test_an_agent_that_runs_what_it_is_sent_needs_trust(folder: Folder) -> None:
    config = folder.yaml("agents: {x: {adapter: scripted}}").load()
    assert said(config, runs_text=True) == ["beam.yaml has x run what it is sent, by scripted"]


def test_a_program_that_is_said_to_do_no_more_than_read_needs_trust(folder: Folder) -> None:
    """With that access agents may send it messages, which `bash` runs. One for all agents says nothing of a program."""
    config = folder.yaml("agents: {x: {adapter: claude, access: read}}").load()
    assert said(config, "x", is_program=True) == ["beam.yaml says that x, a program, does no more than read"]
    assert said(config, "x") == []
    assert said(folder.yaml("defaults: {access: read}").load(), "claude", is_program=True) == []


def test_a_default_agent_of_the_folder_needs_trust_unless_it_is_the_persons_own(folder: Folder) -> None:
    config = folder.yaml("defaults: {agent: claude}\nagents: {x: {adapter: claude}}").load()
    assert said(config) == said(config, "claude") == ["beam.yaml gives messages that name no agent to claude"]
    folder.user_config("defaults: {agent: claude}")
    assert said(folder.load()) == []


def test_a_policy_of_the_folder_needs_trust_for_every_agent(folder: Folder) -> None:
    config = folder.yaml("policy: {retry_unknown: 3}\nagents: {x: {adapter: claude}}").load()
    assert said(config) == said(config, "claude") == ["beam.yaml sets the policy retry_unknown: 3"]
    (before,) = found(config)
    (after,) = found(folder.yaml("policy: {retry_unknown: 4}\nagents: {x: {adapter: claude}}").load())
    assert before.digest != after.digest


def test_all_that_an_agent_asks_for_is_found(folder: Folder) -> None:
    config = folder.yaml('agents: {x: {adapter: claude, executable: e, access: full, env: {A: "1", B: "2"}}}').load()
    assert len(found(config)) == 4


def test_a_value_that_is_not_shown_whole_counts_whole(folder: Folder) -> None:
    before, after = (
        found(folder.yaml(f"agents: {{x: {{command: [sh, -c, {'x' * 2000}{end}]}}}}").load())[0] for end in "ab"
    )
    assert before.name == after.name
    assert before.digest != after.digest


def test_the_value_of_a_variable_counts_and_is_not_shown(folder: Folder) -> None:
    before, after = (
        found(folder.yaml(f"agents: {{x: {{adapter: claude, env: {{A: {value}}}}}}}").load())[0]
        for value in ("sesame", "poppy")
    )
    assert before.digest != after.digest
    assert "sesame" not in before.name


@pytest.mark.parametrize(
    "agent",
    ["command: [python3, run.py]", "command: [./run.py]", "script: ./run.py", "adapter: claude, executable: ./run.py"],
)
def test_a_file_of_the_folder_that_is_run_counts_with_its_content(folder: Folder, agent: str) -> None:
    config = folder.yaml(f"agents: {{x: {{{agent}}}}}").load()
    digests = []
    for text in ("one", "two"):
        (folder.root.project / "run.py").write_text(text)
        (file,) = (each for each in found(config) if not each.says)
        assert (file.name, file.text, file.by) == ("run.py", text, ("x",))
        digests.append(file.digest)
    assert digests[0] != digests[1]


def test_a_file_that_a_command_only_reads_or_writes_does_not_count(folder: Folder) -> None:
    config = folder.yaml("agents: {x: {command: [cat, data.txt, out.log]}}").load()
    for name in ("data.txt", "out.log", "cat"):
        (folder.root.project / name).write_text("")
    assert said(config) == ["beam.yaml has x run 'cat data.txt out.log'"]


def test_what_the_user_says_needs_no_trust(folder: Folder) -> None:
    folder.user_config('agents: {x: {command: [make], env: {A: "1"}}}\ndefaults: {access: full}\npolicy: {attempts: 3}')
    assert said(folder.load()) == []
    assert said(folder.load(BEAM_ACCESS="full"), "claude") == []


def test_defaults_of_a_folder_need_trust_for_agents_of_the_users_too(folder: Folder) -> None:
    config = folder.user_config("agents: {x: {adapter: claude}}").yaml("defaults: {env: {PATH: /evil}}").load()
    assert said(config) == ["beam.yaml sets PATH in the environment of x"]
    assert said(config, "claude") == ["beam.yaml sets PATH in the environment of claude"]


def test_an_agent_json_needs_trust_unless_it_is_vouched_for(folder: Folder) -> None:
    config = folder.agent_json("x", '{"command": ["make"]}').load()
    assert said(config) == ["agent.json has x run 'make'"]
    assert found(config, vouched=("agent.json",)) == []
    (agent_file,) = config.resolve("x").agent_files
    assert len(agent_file.digest) == 64


def test_what_is_trusted_for_an_agent_is_trusted_for_its_sessions_and_their_own_words_are_asked_about(
    folder: Folder,
) -> None:
    config = folder.yaml(
        "agents:\n  x: {adapter: claude, access: full, env: {A: b}}\n  x@own: {access: edit, env: {C: d}}\n"
    ).load()
    assert found(config, "x@any") == found(config, "x")
    assert set(said(config, "x@own")) == {
        "beam.yaml sets A in the environment of x",
        "beam.yaml sets C in the environment of x@own",
        "beam.yaml gives x@own edit access",
    }


def test_a_session_of_a_known_agents_name_for_another_agent_needs_the_same_trust(folder: Folder) -> None:
    config = folder.yaml("agents: {scripted: {adapter: claude}}").load()
    assert said(config, "scripted@x") == said(config, "scripted") == ["beam.yaml makes scripted another agent: claude"]


def test_a_link_by_which_an_agent_would_work_elsewhere_needs_trust_whoever_declared_the_agent(
    folder: Folder, tmp_path: Path
) -> None:
    config = folder.user_config("agents: {x: {adapter: claude, cwd: sub}}").load()
    project = config.home.project
    (project / "sub").mkdir()
    assert said(config) == []
    (project / "sub").rmdir()
    places = (tmp_path / "elsewhere", tmp_path / "further")
    digests = set()
    for place in places:
        place.mkdir()
        (project / "sub").unlink(missing_ok=True)
        (project / "sub").symlink_to(place)
        (only,) = found(config)
        assert only.name == f"a link has x work outside this folder, in '{place}'"
        digests.add(only.digest)
    assert len(digests) == 2, "a link that leads elsewhere later is asked about again"


def test_a_trusted_folder_outside_is_another_one_once_its_link_leads_elsewhere(folder: Folder, tmp_path: Path) -> None:
    config = folder.yaml("agents: {x: {adapter: claude, cwd: sub}}").load()
    link = config.home.project / "sub"
    link.symlink_to(tmp_path / "a")
    (before,) = found(config)
    link.unlink()
    link.symlink_to(tmp_path / "b")
    (after,) = found(config)
    assert before.name == after.name == "beam.yaml has x work outside this folder, in 'sub'"
    assert before.digest != after.digest


@pytest.mark.parametrize(
    ("limits", "reasons"),
    [
        ("{sends: 101}", ["beam.yaml raises the limit sends from 100 to 101"]),
        ("{hops: 6}", ["beam.yaml raises the limit hops from 5 to 6"]),
        ("{sends: 100, hops: 5, waiting: 30, text_bytes: 9000}", []),
    ],
)
def test_a_bound_on_what_agents_send_that_a_folder_raises_needs_trust(
    folder: Folder, limits: str, reasons: list[str]
) -> None:
    config = (
        folder.user_config("limits: {hops: 5}").yaml(f"agents: {{x: {{adapter: claude}}}}\nlimits: {limits}").load()
    )
    assert said(config) == reasons
    assert found(config, vouched=("beam.yaml",)) == []
