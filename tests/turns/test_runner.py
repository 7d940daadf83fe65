"""The command line of an agent with a runner, and what a runner can't do."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beam.agents.base import Face, Launch, Turn
from beam.base.errors import ConfigError, UnsupportedError
from beam.config.file import parse
from beam.model.message import Access
from beam.model.settings import AgentSettings
from beam.turns import input

LAUNCH = Launch(argv=("claude", "-p", "it's $(x)"), prompt_in_argv=(2,), session_file="/home/s.jsonl")


def placed(*words: str, cwd: str = "/srv/p") -> Launch:
    return input.with_runner(LAUNCH, cast(Turn, SimpleNamespace(settings=AgentSettings(runner=words), cwd=cwd)))


def test_an_agent_without_a_runner_runs_as_it_is() -> None:
    assert placed() is LAUNCH


def test_the_words_of_the_agent_follow_those_of_the_runner_and_the_prompt_stays_hidden() -> None:
    found = placed("docker", "exec", "-w", "{cwd}", "box")
    assert found.argv == ("docker", "exec", "-w", "/srv/p", "box", "claude", "-p", "it's $(x)")
    assert (found.prompt_in_argv, found.session_file) == ((7,), None)


def test_a_word_with_the_command_holds_it_quoted_for_a_shell_and_is_hidden_as_the_prompt_is() -> None:
    found = placed("ssh", "host", "exec {command}")
    assert shlex.split(found.argv[2]) == ["exec", *LAUNCH.argv]
    assert found.prompt_in_argv == (2,)


def test_a_folder_whose_name_is_code_is_quoted_where_a_shell_reads_it_and_nowhere_else() -> None:
    folder = "/srv/$(x) {command}"
    assert shlex.split(placed("ssh", "host", "cd {cwd} && {command}", cwd=folder).argv[2])[:3] == ["cd", folder, "&&"]
    assert placed("docker", "{cwd}", "exec {command}", cwd=folder).argv[1] == folder
    assert placed("docker", "{cwd}", cwd=folder).argv[1] == folder


@pytest.mark.parametrize(
    ("face", "access", "has_access", "is_proxied", "words"),
    [
        ("exec", "read", True, False, "can't limit"),
        ("exec", "edit", True, False, "can't limit"),
        ("dialogue", "ask", True, False, "can't limit"),
        ("terminal", "full", True, False, "no terminal mode"),
        ("exec", "full", True, True, "proxy"),
    ],
)
def test_what_a_runner_can_not_keep_is_refused(
    face: Face, access: Access, has_access: bool, is_proxied: bool, words: str
) -> None:
    settings = AgentSettings(runner=("x",))
    with pytest.raises(UnsupportedError, match=words):
        input.check_runner(settings, "a", face, access, has_access=has_access, is_proxied=is_proxied)
    input.check_runner(AgentSettings(), "a", face, access, has_access=has_access, is_proxied=is_proxied)


def test_full_access_and_a_program_are_accepted() -> None:
    settings = AgentSettings(runner=("x",))
    input.check_runner(settings, "a", "exec", "full", has_access=True, is_proxied=False)
    input.check_runner(settings, "a", "exec", "read", has_access=False, is_proxied=False)


def read(text: str) -> Any:
    config = f"agents: {{x: {{adapter: claude, runner: {text}}}}}"
    return parse(config.encode(), Path("beam.yaml"), adapters=("claude",)).agents["x"]["runner"]


@pytest.mark.parametrize("text", ["[ssh, host]", "[/usr/bin/ssh, host, claude]", "[sh, -c]", "[bash, -lc, 'x']"])
def test_a_shell_that_would_read_a_prompt_as_code_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="as code"):
        read(text)


@pytest.mark.parametrize("text", ["ssh", "['']", "[1]"])
def test_what_is_no_runner_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read(text)


def test_a_runner_is_a_list_of_words() -> None:
    assert read("[ssh, host, 'exec {command}']") == ("ssh", "host", "exec {command}")
    assert read("[docker, exec, box]") == ("docker", "exec", "box")
