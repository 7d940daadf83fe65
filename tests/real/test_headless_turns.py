"""What is peculiar to one headless CLI, through the real `beam`, against the scripted model.

What all of them must do alike is in tests/conformance.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.subject import Subject, place
from tests.support.cli import processes_with
from tests.support.repository import files

pytestmark = [pytest.mark.real, pytest.mark.acceptance]


@pytest.fixture
def agent(request: pytest.FixtureRequest, tmp_path: Path, agents_path: str) -> Iterator[Subject]:
    """The CLI that the test is for."""
    yield from place(request.param, tmp_path, agents_path)


def each(*names: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("agent", names, indirect=True)


# -- rights ------------------------------------------------------------------------------------------------------------


@each("kimi", pytest.param("cn", marks=pytest.mark.soak), pytest.param("cline", marks=pytest.mark.soak))
def test_a_cli_that_asks_nobody_runs_only_with_an_explicit_full(agent: Subject) -> None:
    done = agent.cli("send", agent.name, "--json", "hello")
    assert (done.code, done.json["class"]) == (10, "unsupported")
    assert "it can: full" in done.json["reason"]
    assert agent.model.requests == []


@pytest.mark.soak
@each("opencode")
def test_a_folders_configuration_gives_opencode_no_rights_and_starts_no_servers_under_access_read(
    agent: Subject,
) -> None:
    folder = agent.cli.project
    rights = {"bash": "allow", "edit": "allow", "*": "allow"}
    ran = folder / "mcp-ran"
    server = {"type": "local", "command": ["touch", str(ran)]}
    config = {"permission": rights, "agent": {"build": {"permission": rights}}, "mcp": {"x": server}}
    (folder / "opencode.json").write_text(json.dumps(config))
    agent.send(agent.data.write.prompt(path=str(folder / "made"), text="x"))
    assert files(folder) == ["opencode.json"]


@pytest.mark.soak
@each("opencode", "kilo")
def test_access_edit_of_opencode_and_kilo_writes_in_the_folder_and_neither_outside_of_it_nor_by_a_command(
    agent: Subject,
) -> None:
    inside, outside = agent.cli.project / "inside", agent.cli.base / "outside"
    write, shell = agent.data.write, agent.data.shell
    assert shell
    (agent.cli.project / "way-out").symlink_to(agent.cli.base)
    tries = (
        write.prompt(path=str(outside), text="x"),
        write.prompt(path="../outside", text="x"),
        shell.prompt(command="touch by-command"),
        shell.prompt(command=f"touch '{outside}'"),
    )
    for wanted in tries:
        done = agent.send(wanted, "--new", access="edit").json
        assert done["status"] in ("completed", "denied"), done
        returned = agent.events("tool.returned", done["turn"])
        assert [event["is_error"] for event in returned] == [True], wanted
    assert not outside.exists()
    assert agent.send(write.prompt(path=str(inside), text="x"), "--new", access="edit").json["status"] == "completed"
    assert files(agent.cli.project) == ["inside", "way-out"]


@pytest.mark.soak
@each("kilo")
def test_a_folders_configuration_gives_kilo_no_rights_and_starts_no_servers_under_access_edit(agent: Subject) -> None:
    folder = agent.cli.project
    rights = {"bash": "allow", "external_directory": "allow", "*": "allow"}
    ran, outside = agent.cli.base / "mcp-ran", agent.cli.base / "outside"
    server = {"type": "local", "command": ["touch", str(ran)]}
    profiles = {name: {"permission": rights} for name in ("code", "beam-edit")}
    config = json.dumps({"permission": rights, "agent": profiles, "mcp": {"x": server}})
    for name in ("kilo.json", "opencode.json", ".kilo/kilo.json", ".kilocode/kilo.json", ".opencode/opencode.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(config)
    shell = agent.data.shell
    assert shell
    done = agent.send(shell.prompt(command=f"touch '{outside}'"), access="edit").json
    assert done["status"] in ("completed", "denied"), done
    assert not outside.exists()
    assert not ran.exists()


# -- pitfalls of one CLI -----------------------------------------------------------------------------------------------


@pytest.mark.soak
@each("opencode")
def test_a_bad_model_poisons_an_opencode_session_and_naming_a_good_one_recovers_it(agent: Subject) -> None:
    first = agent.send("hello").json
    bad = agent.send("x", "--model", "fake/none").json
    assert (bad["status"], bad["session_id"]) == ("failed", first["session_id"])
    assert "--model" in bad["reason"]
    good = agent.send("y", "--model", "fake/scripted").json
    assert (good["status"], good["session_id"]) == ("completed", first["session_id"])


@pytest.mark.soak
@each("aider")
def test_a_prompt_that_is_an_aider_command_is_only_text_to_the_model(agent: Subject) -> None:
    assert agent.send(f"/run touch {agent.cli.project}/made", access="full").json["status"] == "completed"
    assert not (agent.cli.project / "made").exists()
    assert "/run touch" in agent.last_request()


@pytest.mark.soak
@each("aider")
def test_aider_says_when_the_history_of_its_session_is_gone(agent: Subject) -> None:
    agent.send("one")
    (history,) = agent.cli.project.glob(".aider.chat.history.*.md")
    history.unlink()
    done = agent.send("two").json
    assert (done["status"], done["session"]) == ("completed", "lost")
    assert any(event["type"] == "session.lost" for event in agent.cli.journal("aider"))


@pytest.mark.soak
@each("cline")
def test_clines_hub_daemon_does_not_survive_the_turn(agent: Subject) -> None:
    before = time.time()
    assert agent.send("hello there").json["status"] == "completed"
    assert [pid for pid in processes_with("--cline-hub-daemon") if _born(pid) >= before - 1] == []


@pytest.mark.soak
@each("cline")
def test_a_prompt_that_is_a_subcommand_of_cline_reaches_the_model(agent: Subject) -> None:
    assert agent.send("history").json["reply"] == "ECHO[history] turns=1"


@pytest.mark.soak
@each("kimi")
def test_kimis_prompt_is_not_in_the_journals_argv(agent: Subject) -> None:
    agent.send("a private prompt")
    started = next(event for event in agent.cli.journal("kimi") if event["type"] == "agent.started")
    assert "<prompt>" in started["argv"]
    assert not any("private" in word for word in started["argv"])


def _born(pid: int) -> float:
    """When a process began, seconds since 1970."""
    return Path(f"/proc/{pid}").stat().st_mtime
