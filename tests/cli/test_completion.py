"""What may follow on a command line, in each shell's own completion."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from beam.cli.completion import _split_line
from tests.support.cli import Cli
from tests.support.terminal import Terminal

CONFIG = "agents:\n  coder: {adapter: scripted, model: m-1}\n  echo: {command: [cat]}\n"


@pytest.fixture
def here(beam: Cli) -> Cli:
    beam.config(CONFIG)
    return beam


def words(beam: Cli, *typed: str) -> list[str]:
    return beam("completion", "words", "--", *typed).out.splitlines()


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (("se",), ["send", "search", "secret"]),
        (("queue", "p"), ["pause"]),
        (("send", "cod"), ["coder", "codex", "codex-acp"]),
        (("send", "coder", ""), []),
        (("send", "coder", "--acc"), ["--access"]),
        (("send", "coder", "--access", ""), ["read", "edit", "full", "ask"]),
        (("send", "coder", "--access", "e"), ["edit"]),
        (("send", "-m", ""), ["m-1"]),
        (("send", "coder", "-f", ""), [":"]),
        (("send", "coder", "--", "--acc"), []),
        (("watch", "coder", "ec"), ["echo"]),
        (("-q", "send", "cod"), ["coder", "codex", "codex-acp"]),
        (("--root", "nowhere", "sta"), ["status"]),
        (("wait", "--agent", "cod"), ["coder", "codex", "codex-acp"]),
        (("nonsense", "x"), []),
        (("completion", ""), ["bash", "zsh", "fish"]),
    ],
)
def test_what_may_follow_is_told(typed: tuple[str, ...], found: list[str], here: Cli) -> None:
    assert words(here, *typed) == found


@pytest.mark.acceptance
def test_ids_of_messages_follow_where_one_is_wanted_the_newest_first(here: Cli) -> None:
    first, second = (here("send", "echo", text, "--json").json["message_id"] for text in ("one", "two"))
    assert words(here, "wait", "echo-") == [second, first]
    assert words(here, "show", "") == [second, first]
    assert words(here, "log", second[:-2]) == [second]


@pytest.mark.acceptance
def test_a_configuration_that_can_not_be_read_completes_commands_all_the_same(beam: Cli) -> None:
    beam.config("agents: [")
    assert words(beam, "sen") == ["send"]
    assert beam("completion", "words", "--", "send", "").err == ""


@pytest.mark.acceptance
def test_a_model_that_a_shell_could_take_for_more_is_left_out(beam: Cli) -> None:
    models = {"a": '"$(touch made)"', "b": "good/m:1"}
    lines = [f"  {name}: {{adapter: scripted, model: {model}}}\n" for name, model in models.items()]
    beam.config("agents:\n" + "".join(lines))
    assert words(beam, "send", "a", "--model", "") == ["good/m:1"]


@pytest.mark.parametrize(
    ("line", "split"),
    [
        ("beam ", ["beam", ""]),
        ("beam se", ["beam", "se"]),
        ("beam send 'a b", ["beam", "send", "a b"]),
        ('beam send "a b" c', ["beam", "send", "a b", "c"]),
        ("beam send a\\", ["beam", "send", "a"]),
    ],
)
def test_an_unfinished_line_is_parted(line: str, split: list[str]) -> None:
    assert _split_line(line) == split


# -- in the shells themselves ------------------------------------------------------------------------------------------

BASH = """
source <(beam completion bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \\t\\n"\\'@><=;|&(:'
_beam 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = "beam completion fish | source; complete --do-complete {line}"
ZSH = """
autoload -Uz compinit && compinit -D -u
source <(beam completion zsh)
compadd() {{ shift; print -l -- "$@"; }}
words=({words}) CURRENT={current}
_beam
"""


def run(beam: Cli, shell: str, script: str, *args: str) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"left out: there is no {shell} here")
    option = ["--norc", "--noprofile"] if shell == "bash" else ["-f"] if shell == "zsh" else ["--no-config"]
    command = [shell, *option, "-c", script, shell, *args] if shell == "bash" else [shell, *option, "-c", script]
    done = subprocess.run(
        command,
        cwd=beam.project,
        env=with_beam(beam),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == b"", done.stderr
    return [line for line in done.stdout.decode().splitlines() if line]


def with_beam(beam: Cli) -> dict[str, str]:
    return {**beam.env, "PATH": f"{Path(sys.executable).parent}:{beam.env['PATH']}", "TERM": "dumb"}


@pytest.mark.acceptance
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("beam sta", ["status"]),
        ("beam send cod", ["coder", "codex", "codex-acp"]),
        ("beam send coder --access ", ["read", "edit", "full", "ask"]),
        ("beam queue re", ["retry", "resume"]),
    ],
)
def test_a_shell_completes(shell: str, line: str, found: list[str], here: Cli) -> None:
    parts = line.split(" ")
    quoted = " ".join(f'"{part}"' for part in parts)
    if shell == "bash":
        got = run(here, shell, BASH, line)
    elif shell == "fish":
        got = run(here, shell, FISH.format(line=f"'{line}'"))
    else:
        got = run(here, shell, ZSH.format(words=quoted, current=len(parts)))
    assert sorted(got) == sorted(found)


# A shell's own word may be another than ours: bash parts words at `:`, `=` and `@`, and leaves the last in its word.
POSIX = "beam() { printf '[%s]' \"$@\"; echo; }; echo rea''dy\r"
TYPED = {
    "bash": (f"source <(beam completion bash); {POSIX}", ["--norc", "-i"]),
    "zsh": (f"autoload -Uz compinit && compinit -D -u; source <(beam completion zsh); {POSIX}", ["-f", "-i"]),
    "fish": (
        "beam completion fish | source; function beam; printf '[%s]' $argv; echo; end; echo rea''dy\r",
        ["--no-config", "-i"],
    ),
}


@pytest.mark.acceptance
@pytest.mark.parametrize("shell", TYPED)
def test_the_tab_key_completes_where_somebody_types(shell: str, beam: Cli) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"left out: there is no {shell} here")
    beam.config(f"{CONFIG}  coder@review: {{}}\n  other: {{adapter: scripted, model: vendor/m:1}}\n")
    setup, options = TYPED[shell]
    terminal = Terminal(beam, *options, program=[shell], columns=200, env=with_beam(beam))
    terminal.type(setup)
    terminal.until("ready", 30)
    for typed, given in (
        ("beam sen\tec\thi", "[send][echo][hi]"),
        ("beam send coder@\thi", "[send][coder@review][hi]"),
        ("beam send coder@re\thi", "[send][coder@review][hi]"),
        ("beam send other --model vendor/m:\thi", "[send][other][--model][vendor/m:1][hi]"),
        ("beam send other --access f\thi", "[send][other][--access][full][hi]"),
    ):
        terminal.seen = ""
        terminal.type(f"{typed}\r")
        terminal.until(given, 30)
    terminal.type("exit\r")
    assert terminal.end() == 0
