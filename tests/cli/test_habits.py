"""What people type by habit is told what to type instead, in one line, with exit code 2."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from beam.cli import habits
from tests.support import made
from tests.support.cli import Cli
from tests.support.inside import Inside
from tests.support.markdown import rows
from tests.support.typed import refused

TYPED = (
    # claude -p, codex exec, gemini
    ("beam -p 'why does it fail?'", "beam send claude TEXT"),
    ("beam claude -p 'why does it fail?'", "beam send claude 'why does it fail?'"),
    ("beam 'why does it fail?'", "beam send claude 'why does it fail?'"),
    ("beam send 'why does it fail?'", "beam send claude 'why does it fail?'"),
    ("beam exec claude hi", "beam send claude hi"),
    ("beam send claude hi --continue", "--new starts a new one"),
    ("beam send claude hi --resume 0b9f", "continues the agent's session"),
    ("beam send claude hi --output-format json", "--json prints the outcome"),
    ("beam send claude hi --dangerously-skip-permissions", "--access read, edit, full or ask"),
    ("beam send codex hi --full-auto", "--access read, edit, full or ask"),
    ("beam send gemini hi --yolo", "--access read, edit, full or ask"),
    ("beam send claude hi --allowedTools Bash", "--access read, edit, full or ask"),
    ("beam send claude hi --system-prompt brief", "beam agent set claude system=TEXT"),
    ("beam send claude hi --max-budget-usd 1", "--budget USD"),
    ("beam send codex hi --output-schema s.json", "--schema FILE"),
    ("beam send codex hi -i a.png", "--attach PATH"),
    # llm
    ("beam -m opus hi", "beam send claude --model NAME TEXT"),
    ("beam --model opus send codex hi", "beam send codex --model NAME TEXT"),
    ("beam resume codex 0b9f", "beam agent resume codex SESSION"),
    ("beam set codex@review model=x", "beam agent set codex@review KEY=VALUE"),
    ("beam send --cwd / codex hi", "beam -C DIR send codex TEXT"),
    ("beam send --to codex hi", "beam send codex TEXT"),
    ("beam init", "there is nothing to set up: beam send claude TEXT"),
    ("beam prompt hi", "beam send hi"),
    ("beam logs claude", "beam log claude"),
    ("beam models", "model=NAME"),
    ("beam keys set claude", "log in with the agent's own CLI"),
    ("beam send claude hi -s brief", "beam agent set claude system=TEXT"),
    # acpx
    ("beam claude sessions list", "beam send claude sessions list"),
    ("beam sessions list", "beam agent sessions"),
    ("beam cancel claude", "beam interrupt claude"),
    ("beam send claude hi --approve-all", "--access read, edit, full or ask"),
    ("beam send claude hi --format json", "--json prints the outcome"),
    ("beam send claude hi --cwd /", "beam -C DIR send"),
    # gh, docker
    ("beam auth login", "log in with the agent's own CLI"),
    ("beam version", "beam --version"),
    ("beam run claude", "beam send claude TEXT"),
    ("beam run claude hi", "type: beam send claude hi"),
    ("beam run claude why not", "type: beam send claude 'why not'"),
    ("beam -V", "type: beam --version"),
    ("beam send -d claude hi", "--no-wait"),
    ("beam ps", "beam status"),
    ("beam agents", "beam agent list"),
    ("beam stop claude", "beam interrupt claude"),
    ("beam rm claude", "beam agent rm claude"),
    ("beam agent set claude --set model=opus", "type: beam agent set claude KEY=VALUE"),
    ("beam agent create critic claude", "beam agent add critic claude"),
    ("beam agent delete critic", "beam agent rm critic"),
    ("beam queue ls", "beam queue list"),
    ("beam queue clear", "beam queue drop --dead"),
    ("beam broker restart", "beam broker stop && beam broker start"),
    # an earlier broker of scripts
    ("beam inject --as planner --to claude 'use tabs'", "type: beam send claude --from planner 'use tabs'"),
    ("beam inject claude hi --as=planner", "type: beam send claude --from planner hi"),
    ("beam inject", "type: beam send claude --from NAME TEXT"),
    ("beam send claude hi --as planner", "type: beam send claude hi --from planner"),
    ("beam send --all hi", "--to-all TEXT, without an agent's name"),
    ("beam broadcast hi", "type: beam send --to-all TEXT"),
    ("beam send claude - --batch", "--each sends each line of stdin"),
    # typing
    ("beam sned claude hi", "beam send"),
    ("beam send cluade hi", "did you mean claude?"),
    ("beam send claude hi --shcema x", "--schema"),
)


@pytest.mark.acceptance
@pytest.mark.parametrize(("typed", "instead"), TYPED, ids=[typed for typed, _ in TYPED])
def test_what_is_typed_by_habit_is_told_what_to_type_instead(beam: Cli, typed: str, instead: str) -> None:
    done = beam(*shlex.split(typed)[1:])
    assert done.code in (2, 4), done
    assert (done.out, len(done.err.splitlines())) == ("", 1), done
    assert instead in done.err
    assert not (beam.root / "agents").exists(), "nothing was sent"


@pytest.mark.slow
@pytest.mark.parametrize("path", habits.OLD_OPTIONS)
def test_a_former_option_is_answered_with_what_says_it_now(inside: Inside, path: str) -> None:
    taken = set(dict(made.commands())[path])
    for option, instead in habits.OLD_OPTIONS[path].items():
        done = inside(*path.split()[1:], option, "x")
        assert (done.code, done.out) == (2, "")
        instead = instead.replace("{agent}", "claude")
        assert done.err == f"beam: no such option: {option}; {instead}\n"
        assert set(re.findall(r"--[a-z-]+", instead)) <= taken, "it names options of this command"


@pytest.mark.slow
def test_no_command_or_option_of_beam_is_taken_for_a_habit() -> None:
    commands = dict(made.commands())
    for path, words in habits.COMMAND_HINTS.items():
        assert [word for word in words if f"{path} {word}" in commands] == []
    assert set(habits.OPTION_HINTS) & set(commands["beam send"]) <= {"-m", "--model"}, (
        "these are told at `beam -m` alone"
    )


@pytest.mark.slow
def test_what_to_type_instead_names_commands_of_beam() -> None:
    commands = {path for path, _ in made.commands()}
    said = [text for words in habits.COMMAND_HINTS.values() for text in words.values()] + list(
        habits.OPTION_HINTS.values()
    )
    for text in said:
        for typed in re.findall(r"\bbeam (?:-C DIR )?((?:[a-z]+ ?){1,2})", text):
            words = typed.split()
            named = [f"beam {' '.join(words[:count])}" for count in (1, 2)]
            assert not words or words[0] in ("has",) or commands.intersection(named), text


@pytest.mark.slow
def test_what_the_page_for_people_of_other_tools_says_is_taken_by_beam(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
    told = [line for row in rows(page) for line in re.findall(r"`([^`]*\bbeam [^`]*)`", row[1])]
    assert len(told) >= 50
    assert refused([line.replace("\\|", "|").replace(" ID", " claude-7k2m") for line in told], tmp_path) == []
