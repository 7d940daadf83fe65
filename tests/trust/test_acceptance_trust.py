"""A cloned folder whose beam.yaml wants to run code gets nothing before its owner says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from beam.trust import scan
from tests.support.claims import refused
from tests.support.cli import Cli, eventually
from tests.support.repository import make_repository
from tests.support.terminal import Terminal

pytestmark = pytest.mark.acceptance

EVIL = "agents:\n  evil: {command: [touch, ran-code]}\n"


@pytest.fixture
def cloned(beam: Cli) -> Cli:
    beam.config(EVIL, trusted=False)
    return beam


def ran(beam: Cli) -> bool:
    return (beam.project / "ran-code").exists()


def test_code_of_a_cloned_folder_is_refused_with_the_way_to_trust_it(cloned: Cli) -> None:
    refused(cloned("send", "evil", "hi"), 2, "evil", "touch", "beam trust")
    assert not ran(cloned)
    assert not cloned.root.exists()


def test_the_refusal_in_json_has_its_own_kind(cloned: Cli) -> None:
    error = cloned("send", "evil", "hi", "--json").json["error"]
    assert (error["kind"], error["exit_code"]) == ("untrusted", 2)


def test_an_agent_whose_folder_is_a_link_to_itself_is_refused_and_no_bug(beam: Cli) -> None:
    (beam.project / "loop").symlink_to("loop")
    beam.config("agents:\n  x: {adapter: scripted, cwd: loop}\n", trusted=False)
    done = beam("send", "x", "hi")
    assert done.code == 1 and "loop is not a directory (`cwd` of agent x names it)" in done.err
    assert beam("rules", "test", "x", "Bash(ls)").code == 0
    assert beam("trust", "--diff").code == 0


def test_no_wait_is_refused_just_the_same(cloned: Cli) -> None:
    refused(cloned("send", "evil", "hi", "--no-wait"), 2, "beam trust")


@pytest.mark.parametrize(
    "settings",
    [
        "{adapter: scripted, env: {LD_PRELOAD: ./x.so}}",
        "{adapter: claude, access: full}",
        "{adapter: claude, access: edit}",
        "{adapter: scripted, script: ./s.yaml}",
        "{adapter: bash}",
    ],
)
def test_each_way_to_run_code_needs_trust(beam: Cli, settings: str) -> None:
    beam.config(f"agents:\n  sly: {settings}\n", trusted=False)
    done = beam("send", "sly", "hi", env={"PATH": beam.env["PATH"]})
    assert done.code in (2, 4), done
    assert beam("agent", "show", "sly", "--json").json["untrusted"]


def test_an_adapter_of_the_same_folder_that_runs_no_code_of_it_needs_no_trust(cloned: Cli) -> None:
    assert cloned("send", "scripted", "hi").out == "You said: hi\n"


def test_beam_trust_says_what_it_allows_and_no_takes_it_back(cloned: Cli) -> None:
    given = cloned("trust", "--yes")
    assert given.code == 0
    assert "touch" in given.err
    assert str(cloned.project) in given.err
    assert cloned("send", "evil", "hi").code == 0
    assert ran(cloned)
    assert cloned("trust", "--no").code == 0
    refused(cloned("send", "evil", "again"), 2, "beam trust")


def test_trust_can_name_the_folder(cloned: Cli) -> None:
    assert cloned("-C", "/", "trust", "--yes", str(cloned.project)).code == 0
    assert cloned("send", "evil", "hi").code == 0


def test_a_variable_trusts_in_ci(cloned: Cli) -> None:
    assert cloned("send", "evil", "hi", env={"BEAM_TRUST": "1"}).code == 0
    assert ran(cloned)


@pytest.mark.parametrize("value", ["0", "", "no", "nonsense"])
def test_any_other_value_of_the_variable_does_not(cloned: Cli, value: str) -> None:
    assert cloned("send", "evil", "hi", env={"BEAM_TRUST": value}).code == 2
    assert not ran(cloned)


def test_on_a_terminal_it_is_asked_once_and_yes_is_remembered(cloned: Cli) -> None:
    terminal = Terminal(cloned, "send", "evil", "hi")
    terminal.until("[y/N]")
    assert "touch" in terminal.seen
    terminal.type("y\n")
    assert terminal.end() == 0, terminal.seen
    assert ran(cloned)
    again = Terminal(cloned, "send", "evil", "hi")
    assert again.end() == 0
    assert "[y/N]" not in again.seen


def test_on_a_terminal_the_default_is_no(cloned: Cli) -> None:
    terminal = Terminal(cloned, "send", "evil", "hi")
    terminal.until("[y/N]")
    terminal.type("\n")
    assert terminal.end() == 2
    assert not ran(cloned)
    assert "beam trust" in terminal.seen


def test_on_a_terminal_of_ci_nobody_is_asked(cloned: Cli) -> None:
    terminal = Terminal(cloned, "send", "evil", "hi", env={"CI": "true"})
    assert terminal.end() == 2
    assert "[y/N]" not in terminal.seen


def test_trust_is_the_folders_not_its_names(cloned: Cli) -> None:
    assert cloned("trust", "--yes").code == 0
    away = cloned.base / "away"
    cloned.project.rename(away)
    cloned.project.mkdir()
    (cloned.project / "beam.yaml").write_text(EVIL)
    refused(cloned("send", "evil", "hi"), 2, "beam trust")


def test_an_agent_json_that_beam_did_not_write_needs_trust_too(beam: Cli) -> None:
    folder = beam.root / "agents" / "planted"
    folder.mkdir(parents=True, mode=0o700)
    beam.root.chmod(0o700)
    (folder / "agent.json").write_text(json.dumps({"adapter": "command", "command": ["touch", "ran-code"]}))
    assert beam("send", "planted", "hi").code == 2
    assert not ran(beam)


def test_an_agent_added_by_command_needs_no_trust(beam: Cli) -> None:
    assert beam("agent", "add", "mine", "--command", "cat").code == 0
    assert beam("send", "mine", "hi").out == "hi\n"


# -- trust is of content -----------------------------------------------------------------------------------------------


@pytest.fixture
def trusted(cloned: Cli) -> Cli:
    """The same folder, trusted as it was."""
    (cloned.project / "beam.yaml").write_text("agents:\n  evil: {command: [touch, harmless]}\n")
    assert cloned("trust", "--yes").code == 0
    assert cloned("send", "evil", "hi").code == 0
    return cloned


def test_a_beam_yaml_that_was_changed_after_it_was_trusted_is_asked_about_again(trusted: Cli) -> None:
    (trusted.project / "beam.yaml").write_text(EVIL)
    refused(trusted("send", "evil", "hi"), 2, "not as you trusted it", "new: beam.yaml has evil run 'touch ran-code'")
    assert not ran(trusted)
    assert trusted("trust", "--yes").code == 0
    assert trusted("send", "evil", "hi").code == 0
    assert ran(trusted)


def test_a_change_that_runs_nothing_else_is_not_asked_about(trusted: Cli) -> None:
    text = (trusted.project / "beam.yaml").read_text()
    (trusted.project / "beam.yaml").write_text(f"# a comment\n{text}  other: {{adapter: scripted}}\n")
    assert trusted("send", "evil", "hi").code == 0


def test_a_script_that_was_changed_after_it_was_trusted_is_asked_about_again(beam: Cli) -> None:
    beam.config("agents:\n  mine: {command: [sh, run.sh]}\n", trusted=False)
    (beam.project / "run.sh").write_text("echo one\n")
    assert beam("trust", "--yes").code == 0
    assert beam("send", "mine", "hi").out == "one\n"
    (beam.project / "run.sh").write_text("echo one\ntouch ran-code\n")
    refused(beam("send", "mine", "hi"), 2, "changed: run.sh: 1 line is new")
    assert not ran(beam)


def test_diff_shows_what_changed_without_the_values_of_variables_and_trusts_nothing(trusted: Cli) -> None:
    assert trusted("trust", "--diff").out == ""
    (trusted.project / ".env").write_text("OPENAI_API_BASE=http://10.0.0.1/sesame\n")
    (trusted.project / ".aider.conf.yml").write_text("test-cmd: touch ran-code\n")
    shown = trusted("trust", "--diff")
    assert shown.code == 0
    for line in (
        "new: .env (obeyed by ",
        "  + OPENAI_API_BASE=…",
        "new: .aider.conf.yml",
        "  + test-cmd: touch ran-code",
    ):
        assert line in shown.out
    assert "sesame" not in shown.out
    assert trusted("trust", "--diff").out == shown.out
    given = trusted("trust", "--yes")
    assert "test-cmd: touch ran-code" in given.err
    assert trusted("trust", "--diff").out == ""


def test_a_link_or_a_fifo_in_the_place_of_a_file_neither_hangs_nor_passes(trusted: Cli) -> None:
    os.mkfifo(trusted.project / ".env")
    os.mkfifo(trusted.project / ".aider.conf.yml")
    (trusted.project / ".qwen").symlink_to("/proc/self")
    for words in (("trust", "--diff"), ("agent", "show", "aider", "--json"), ("status",), ("doctor",)):
        assert trusted(*words, env={"PATH": os.environ["PATH"]}).code in (0, 13)
    assert (
        "aider obeys" in trusted("agent", "show", "aider", "--json").json["untrusted"]
        or "new: .env" in (trusted("agent", "show", "aider", "--json").json["untrusted"])
    )


def test_a_file_that_an_agent_cli_obeys_is_refused_before_the_cli_is_looked_for(beam: Cli) -> None:
    (beam.project / ".aider.conf.yml").write_text("test: true\ntest-cmd: touch ran-code\n")
    refused(beam("send", "aider", "hi"), 2, "aider obeys .aider.conf.yml of this folder", "beam trust")
    assert beam("send", "scripted", "hi").out == "You said: hi\n"


def test_the_policy_of_a_cloned_folder_needs_trust(beam: Cli) -> None:
    beam.config("policy: {retry_unknown: 3}\n", trusted=False)
    refused(beam("send", "scripted", "hi"), 2, "beam.yaml sets the policy retry_unknown: 3")


def test_a_known_agents_name_that_a_cloned_folder_gives_to_a_shell_needs_trust(beam: Cli) -> None:
    beam.config("agents:\n  claude: {adapter: bash}\n", trusted=False)
    refused(beam("send", "claude", "touch ran-code"), 2, "beam.yaml has claude run what it is sent, by bash")
    beam.config("defaults: {adapter: bash}\n", trusted=False)
    refused(beam("send", "codex", "touch ran-code"), 2, "beam.yaml has codex run what it is sent, by bash")


def test_another_folder_with_the_same_inode_and_the_same_files_is_not_trusted(trusted: Cli) -> None:
    text = (trusted.project / "beam.yaml").read_bytes()
    shutil.rmtree(trusted.project)
    trusted.project.mkdir()
    (trusted.project / "beam.yaml").write_bytes(text)
    if not scan.birth_ns(trusted.project, trusted.project.stat()):
        pytest.skip("this file system does not tell when a folder was made")
    refused(trusted("send", "evil", "hi"), 2, "another folder is where the one that you trusted was")


def test_the_variable_is_said_once_where_it_makes_a_difference(cloned: Cli) -> None:
    env = {"BEAM_TRUST": "1"}
    assert cloned("send", "evil", "hi", env=env).err.count("BEAM_TRUST=1") == 1
    assert cloned("send", "scripted", "hi", env=env).err == ""
    assert cloned("trust", "--yes").code == 0
    assert cloned("send", "evil", "hi", env=env).err == ""


def test_an_agent_trusts_no_folder(cloned: Cli) -> None:
    done = cloned("trust", "--yes", env={"BEAM_AGENT": "claude", "BEAM_HOPS": "0"})
    refused(done, 2, "only a person trusts a folder")
    assert cloned("send", "evil", "hi").code == 2


# -- messages that wait ------------------------------------------------------------------------------------------------


def state(beam: Cli, agent: str) -> dict[str, Any]:
    (line,) = (line for line in beam("status", "--json").lines if line["agent"] == agent)
    return dict(line)


def lapsed(beam: Cli) -> list[str]:
    """Two messages that waited when the folder's file was changed; their ids."""
    assert beam("queue", "pause", "evil").code == 0
    ids = [beam("send", "evil", text, "--no-wait").out.strip() for text in ("one", "two")]
    (beam.project / "beam.yaml").write_text(EVIL)
    assert beam("queue", "resume", "evil").code == 0
    return ids


def test_messages_wait_while_trust_lapsed_and_say_why_and_go_on_once_it_is_given(trusted: Cli) -> None:
    ids = lapsed(trusted)
    waiting = trusted("wait", ids[0], "--timeout", "2s")
    assert waiting.code == 12, waiting
    status = state(trusted, "evil")
    assert (status["state"], status["waiting"], status["dead"]) == ("untrusted", 2, 0)
    assert "not as you trusted it" in status["untrusted"]
    assert "beam trust" in trusted("status").out
    assert not ran(trusted)
    assert trusted("trust", "--yes").code == 0
    for message in ids:
        assert trusted("wait", message, "--timeout", "30s").code == 0
    assert ran(trusted)
    assert state(trusted, "evil")["state"] == "idle"


def test_messages_go_on_once_the_file_is_as_it_was(trusted: Cli) -> None:
    text = (trusted.project / "beam.yaml").read_text()
    ids = lapsed(trusted)
    assert trusted("wait", ids[0], "--timeout", "1s").code == 12
    (trusted.project / "beam.yaml").write_text(text)
    for message in ids:
        assert trusted("wait", message, "--timeout", "30s").code == 0
    assert not ran(trusted)


def test_a_broker_leaves_messages_waiting_while_trust_lapsed_and_goes_on_once_it_is_given(trusted: Cli) -> None:
    assert trusted("broker", "start").code == 0
    ids = lapsed(trusted)
    eventually(lambda: state(trusted, "evil")["state"] == "untrusted")
    assert trusted("trust", "--yes").code == 0
    for message in ids:
        assert trusted("wait", message, "--timeout", "30s").code == 0
    assert ran(trusted)
    assert trusted("broker", "stop", "--grace", "0s").code == 0


# -- modules of the folder ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serve", [["send", "scripted", "hi", "--no-wait"], ["broker", "start"]], ids=" ".join)
def test_no_process_of_beams_own_imports_a_module_of_the_folder(beam: Cli, serve: list[str]) -> None:
    """A worker and a broker start in the project folder, and Python would look there for modules."""
    for name in ("msgspec", "asyncio", "yaml", "queue"):
        (beam.project / f"{name}.py").write_text(f"open({str(beam.project / 'ran-code')!r}, 'w')\n")
    safe = [sys.executable, "-P", "-m", "beam"]
    done = subprocess.run([*safe, *serve], cwd=beam.project, env=beam.env, capture_output=True, timeout=60)
    assert done.returncode == 0, done
    done = subprocess.run([*safe, "send", "scripted", "hi"], cwd=beam.project, env=beam.env, capture_output=True)
    assert done.returncode == 0, done
    subprocess.run([*safe, "broker", "stop"], cwd=beam.project, env=beam.env, capture_output=True, timeout=60)
    assert not ran(beam)


def test_a_program_of_a_cloned_folder_that_a_relative_path_leads_to_is_not_run(beam: Cli) -> None:
    folder, mark = beam.project / "node_modules/.bin", beam.project / "mark"
    folder.mkdir(parents=True)
    for name in ("claude", "cat"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (folder / name).chmod(0o755)
    env = {"PATH": ":node_modules/.bin:/usr/bin:/bin"}
    for words in (("status",), ("agent", "list", "--all"), ("doctor",), ("send", "claude", "hi")):
        said = beam(*words, env=env)
        assert not mark.exists(), words
    assert (said.code, "claude is not installed here" in said.err) == (4, True), said
    beam.config("agents:\n  echo: {command: [cat]}\n")
    assert beam("send", "echo", "hi", env=env).out == "hi\n"
    assert not mark.exists(), "what a person declared is looked for elsewhere"


@pytest.mark.parametrize("spelled", ["{project}/node_modules/.bin", "{project}/x/../node_modules/.bin", "{base}/link"])
def test_a_program_of_a_cloned_folder_that_an_absolute_path_leads_to_is_run_after_beam_trust_alone(
    spelled: str, beam: Cli
) -> None:
    make_repository(beam.project, beam.base / "home")
    folder, mark = beam.project / "node_modules/.bin", beam.project / "mark"
    folder.mkdir(parents=True)
    (beam.project / "x").mkdir()
    (beam.base / "link").symlink_to(folder)
    for name in ("claude", "git", "cat"):
        (folder / name).write_text(f'#!/bin/sh\ntouch {mark}\nexec /usr/bin/env -i PATH=/usr/bin:/bin {name} "$@"\n')
        (folder / name).chmod(0o755)
    place = spelled.format(project=beam.project, base=beam.base)
    env = {"PATH": f"{place}:/usr/bin:/bin"}
    for words in (("status",), ("agent", "list", "--all"), ("doctor",), ("diff", "bash"), ("send", "claude", "hi")):
        said = beam(*words, env=env)
        assert not mark.exists(), words
        is_named = f"PATH names {place}, and nobody trusted this folder" in said.out + said.err
        assert is_named == (words[0] in ("doctor", "send")), words
    assert (said.code, "claude is not installed here" in said.err) == (4, True), said
    assert beam("send", "bash", "echo $PATH; git --version", env=env).out != ""
    assert not mark.exists(), "agents don't inherit it"
    beam.config("agents:\n  echo: {command: [cat]}\n")
    assert beam("send", "echo", "hi", env=env).out == "hi\n"
    assert mark.exists(), "who trusts the folder trusts its programs"


def test_a_program_of_the_repository_around_a_folder_is_run_after_beam_trust_alone(beam: Cli) -> None:
    make_repository(beam.project, beam.base / "home")
    folder, mark, inner = beam.project / "node_modules/.bin", beam.project / "mark", beam.project / "packages/inner"
    folder.mkdir(parents=True)
    inner.mkdir(parents=True)
    (inner / "beam.yaml").write_text("agents:\n  echo: {command: [cat]}\n")
    (folder / "cat").write_text(f"#!/bin/sh\ntouch {mark}\n/bin/cat\n")
    (folder / "cat").chmod(0o755)
    env = {"PATH": f"{folder}:/usr/bin:/bin"}
    for words in (("doctor",), ("send", "bash", "cat </dev/null")):
        said = beam("-C", str(inner), *words, env=env)
        assert f"PATH names {folder}, and nobody trusted this folder" in said.out + said.err
        assert not mark.exists(), words
    assert beam("-C", str(inner), "trust", "--yes", env=env).code == 0
    assert beam("-C", str(inner), "send", "echo", "hi", env=env).out == "hi\n"
    assert mark.exists(), "who trusts the folder trusts its programs"


def test_doctor_asks_a_cli_for_its_version_outside_of_the_folder(beam: Cli) -> None:
    shown = beam.base / "bin"
    shown.mkdir()
    (shown / "cline").write_text('#!/bin/sh\necho "3.0.65 in $PWD with ${NODE_OPTIONS-nothing}"\n')
    (shown / "cline").chmod(0o755)
    env = {"PATH": f"{shown}:{beam.env['PATH']}", "NODE_OPTIONS": "--require ./x.js"}
    checked = beam("doctor", "--json", env=env).lines
    (about,) = (each["detail"] for each in checked if each["what"] == "agent cline")
    assert "3.0.65 in / with nothing" in about


CLAUDE = """#!/bin/sh
case $1 in --version) echo '2.1.0 (Claude Code)'; exit;; esac
cat >/dev/null
id='"session_id":"0b0e6f9c-6a30-4f1c-9a65-0d3b1f6b1d0a"'
echo '{"type":"system","subtype":"init",'"$id"',"model":"m"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"hi",'"$id"'}'
"""


def test_the_first_message_that_runs_without_untrusted_files_says_so_and_again_when_they_change(beam: Cli) -> None:
    programs = beam.base / "bin"
    programs.mkdir()
    (programs / "claude").write_text(CLAUDE)
    (programs / "claude").chmod(0o755)
    beam = beam.with_env({"PATH": f"{programs}:{beam.env['PATH']}"})
    make_repository(beam.project, beam.base / "home")
    assert beam("agent", "set", "claude", "access=edit").code == 0
    (beam.project / ".claude").mkdir()
    (beam.project / ".claude/settings.json").write_text('{"hooks":{}}')

    def said() -> str:
        done = beam("send", "claude", "hi")
        assert (done.code, done.out) == (0, "hi\n"), done
        return done.err

    notice = "beam: claude: runs without .claude/settings.json{}, which nobody trusted; beam trust shows them\n"
    assert [said(), said()] == [notice.format(""), ""]
    (beam.project / ".mcp.json").write_text('{"mcpServers":{"db":{"command":"true"}}}')
    assert [said(), said()] == [notice.format(", .mcp.json"), ""]
    assert "it runs without .claude/settings.json, .mcp.json" in beam("agent", "show", "claude").out
    assert beam("trust", "--yes").code == 0
    assert said() == ""
