"""Each headless agent CLI for real, through the real `beam`, against the scripted model."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli, Ended, eventually, processes_with

pytestmark = [pytest.mark.real, pytest.mark.acceptance]

READ = ("opencode", "kilo", "qwen", "aider", "pi", "copilot")
FULL_ONLY = ("kimi", "cn", "cline")
CANT_RESUME = ("cn", "cline")
RESUMING = tuple(name for name in (*READ, *FULL_ONLY) if name not in CANT_RESUME)
VERBATIM = '- "quoted" `ticks` $HOME é\n/second line, it\'s <b>'


class Agent:
    """One CLI in its scratch place, with the model that it talks to."""

    def __init__(self, name: str, beam: Cli, path: str, model: FakeModel) -> None:
        self.name = name
        self.model = model
        home = beam.base / "home"
        self.cli = beam.with_env({"PATH": path, **model.env(name, home)})

    def send(self, text: str, *options: str, access: str | None = None) -> Ended:
        wanted = access or ("full" if self.name in FULL_ONLY else "read")
        return self.cli("send", self.name, "--json", "--access", wanted, *options, "--", text, timeout=120)

    def asked(self) -> list[str]:
        """The messages of each request that had tools, as JSON: of what the CLI asked for the turn itself."""
        return [json.dumps(body["messages"], ensure_ascii=False) for body in self.bodies()]

    def bodies(self) -> list[dict[str, Any]]:
        found = [request.body for request in self.model.requests if request.asked is not None]
        return [body for body in found if isinstance(body, dict) and (body.get("tools") or self.name == "aider")]

    def gone(self) -> None:
        """Nothing that has this place in its command or environment runs any more."""
        eventually(lambda: processes_with(str(self.cli.base)) == [], what=f"{self.name} left processes behind")


@pytest.fixture
def agent(request: pytest.FixtureRequest, beam: Cli, agents_path: str) -> Any:
    """The CLI that the test is for."""
    if shutil.which(request.param, path=agents_path) is None:
        pytest.skip(f"left out: {request.param} does not install here")
    with FakeModel() as model:
        yield Agent(request.param, beam, agents_path, model)


def each(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("agent", names, indirect=True)


# -- every CLI ---------------------------------------------------------------------------------------------------------


@each(*RESUMING)
def test_the_prompt_arrives_verbatim_and_the_second_turn_has_the_context_of_the_first(agent: Agent) -> None:
    first = agent.send(VERBATIM).json
    assert (first["status"], first["session"], first["reason"]) == ("completed", "new", None)
    assert json.dumps(VERBATIM, ensure_ascii=False)[1:-1] in agent.asked()[-1]
    assert first["reply"].startswith("ECHO[")
    second = agent.send("and again").json
    assert (second["status"], second["session"]) == ("completed", "resumed")
    assert second["session_id"] == first["session_id"] is not None
    assert json.dumps(VERBATIM, ensure_ascii=False)[1:-1] in agent.asked()[-1]
    agent.gone()


@each(*CANT_RESUME)
def test_without_a_way_to_resume_each_turn_is_a_new_session_and_says_so(agent: Agent) -> None:
    first = agent.send(VERBATIM).json
    assert (first["status"], first["session"], first["session_id"]) == ("completed", "new", None)
    assert json.dumps(VERBATIM, ensure_ascii=False)[1:-1] in agent.asked()[-1]
    second = agent.send("and again").json
    assert (second["status"], second["session"], second["session_id"]) == ("completed", "new", None)
    assert "quoted" not in agent.asked()[-1]
    agent.gone()


@each(*READ, *FULL_ONLY)
def test_a_failing_api_is_a_failure_whatever_the_exit_code(agent: Agent) -> None:
    done = agent.send("!error 401")
    assert (done.code, done.json["status"], done.json["class"], done.json["reply"]) == (1, "failed", "auth", None)
    assert "401" in done.json["reason"]


@each(*READ, *FULL_ONLY)
def test_a_killed_cli_is_a_crash_and_leaves_nothing_behind(agent: Agent) -> None:
    access = "full" if agent.name in FULL_ONLY else "read"
    process = agent.cli.start("send", agent.name, "--json", "--access", access, "!stall")
    eventually(lambda: agent.model.prompts() != [], timeout=60)
    started = next(event for event in agent.cli.journal(agent.name) if event["type"] == "agent.started")
    os.kill(started["pid"], 9)
    out, _ = process.communicate(timeout=30)
    outcome = json.loads(out)
    assert (outcome["status"], outcome["class"], outcome["reply"]) == ("failed", "crashed", None)
    agent.gone()


@each(*FULL_ONLY)
def test_a_cli_that_asks_nobody_runs_only_with_an_explicit_full(agent: Agent) -> None:
    done = agent.cli("send", agent.name, "--json", "hello")
    assert (done.code, done.json["class"]) == (10, "unsupported")
    assert "it can: full" in done.json["reason"]
    assert agent.model.requests == []


# -- access ------------------------------------------------------------------------------------------------------------

WRITES = {
    "opencode": ("write", "filePath", "content"),
    "kilo": ("write", "filePath", "content"),
    "qwen": ("write_file", "file_path", "content"),
    "pi": ("write", "path", "content"),
    "copilot": ("create", "path", "file_text"),
}


def writing(name: str, path: Path) -> str:
    tool, where, what = WRITES[name]
    return f"!tool {tool} {json.dumps({where: str(path), what: 'x'})}"


@each(*WRITES)
def test_access_read_writes_nothing_and_access_full_does(agent: Agent) -> None:
    made = agent.cli.project / "made"
    done = agent.send(writing(agent.name, made)).json
    assert done["status"] in ("completed", "denied")
    assert not made.exists()
    assert agent.send(writing(agent.name, made), access="full").json["status"] == "completed"
    assert made.read_text() == "x"


@each("opencode", "copilot")
def test_access_edit_writes_in_the_folder_only(agent: Agent) -> None:
    inside, outside = agent.cli.project / "inside", agent.cli.base / "outside"
    assert agent.send(writing(agent.name, inside), access="edit").json["status"] == "completed"
    changed = [event["path"] for event in agent.cli.journal(agent.name) if event["type"] == "file.changed"]
    assert changed == [str(inside)]
    agent.send(writing(agent.name, outside), access="edit")
    assert (inside.exists(), outside.exists()) == (True, False)


@each("opencode")
def test_a_folders_configuration_gives_opencode_no_rights_and_starts_no_servers_under_access_read(agent: Agent) -> None:
    folder = agent.cli.project
    rights = {"bash": "allow", "edit": "allow", "*": "allow"}
    ran = folder / "mcp-ran"
    server = {"type": "local", "command": ["touch", str(ran)]}
    config = {"permission": rights, "agent": {"build": {"permission": rights}}, "mcp": {"x": server}}
    (folder / "opencode.json").write_text(json.dumps(config))
    agent.send(writing("opencode", folder / "made"))
    assert sorted(path.name for path in folder.iterdir()) == [".beam", "opencode.json"]


# -- pitfalls of one CLI -----------------------------------------------------------------------------------------------


@each("opencode")
def test_a_bad_model_poisons_an_opencode_session_and_naming_a_good_one_recovers_it(agent: Agent) -> None:
    first = agent.send("hello").json
    bad = agent.send("x", "--model", "fake/none").json
    assert (bad["status"], bad["session_id"]) == ("failed", first["session_id"])
    assert "--model" in bad["reason"]
    good = agent.send("y", "--model", "fake/scripted").json
    assert (good["status"], good["session_id"]) == ("completed", first["session_id"])


@each("aider")
def test_a_prompt_that_is_an_aider_command_is_only_text_to_the_model(agent: Agent) -> None:
    assert agent.send(f"/run touch {agent.cli.project}/made", access="full").json["status"] == "completed"
    assert not (agent.cli.project / "made").exists()
    assert "/run touch" in agent.asked()[-1]


@each("aider")
def test_aider_says_when_the_history_of_its_session_is_gone(agent: Agent) -> None:
    agent.send("one")
    (history,) = agent.cli.project.glob(".aider.chat.history.*.md")
    history.unlink()
    done = agent.send("two").json
    assert (done["status"], done["session"]) == ("completed", "lost")
    assert "session_lost" in [event.get("code") for event in agent.cli.journal("aider")]


@each("qwen")
def test_qwens_figures_are_the_turns_own_after_a_resume(agent: Agent) -> None:
    first, second = agent.send("!usage 1000 20").json, agent.send("!usage 100 7").json
    assert first["usage"]["input_tokens"] == 1000
    assert (second["usage"]["input_tokens"], second["usage"]["output_tokens"]) == (100, 7)


@each("cline")
def test_clines_hub_daemon_does_not_survive_the_turn(agent: Agent) -> None:
    before = time.time()
    assert agent.send("hello there").json["status"] == "completed"
    assert [pid for pid in processes_with("--cline-hub-daemon") if _born(pid) >= before - 1] == []


@each("cline")
def test_a_prompt_that_is_a_subcommand_of_cline_reaches_the_model(agent: Agent) -> None:
    assert agent.send("history").json["reply"] == "ECHO[history] turns=1"


@each("kimi")
def test_kimis_prompt_is_not_in_the_journals_argv(agent: Agent) -> None:
    agent.send("a private prompt")
    started = next(event for event in agent.cli.journal("kimi") if event["type"] == "agent.started")
    assert "<prompt>" in started["argv"]
    assert not any("private" in word for word in started["argv"])


def _born(pid: int) -> float:
    """When a process began, seconds since 1970."""
    return Path(f"/proc/{pid}").stat().st_mtime
