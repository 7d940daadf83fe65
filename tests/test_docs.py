"""docs/ says what is so. `make docs` (BEAM_WRITE_DOCS=1) writes the generated parts anew."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beam.agents import registry
from beam.agents.base import Exit, Host, Turn
from beam.base import faults
from beam.config import file
from beam.model import events
from beam.model.outcome import Class, Status
from tests.support import console, made, made_agents, other_package, ruled
from tests.support.cli import Cli
from tests.support.markdown import blocks, broken_links, parts, rows, shell_lines, with_parts
from tests.support.typed import refused
from tests.test_docs_uses import USES

TOP = Path(__file__).parents[1]
PARTS = {**made.PARTS, **made_agents.PARTS, "rules": ruled.rules}
PAGES = sorted([TOP / "README.md", TOP / "CHANGELOG.md", *(TOP / "docs").glob("*.md")])
SHOWN = [*PAGES, *(TOP / "docs").glob("*.svg"), *(path for path in (TOP / "examples").rglob("*") if path.is_file())]


def page(name: str) -> str:
    return (TOP / "docs" / name).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_the_generated_parts_are_what_the_code_says(file: Path) -> None:
    text = file.read_text()
    fresh = with_parts(text, {name: PARTS[name]() for name in parts(text)})
    if os.environ.get("BEAM_WRITE_DOCS") and fresh != text:
        file.write_text(fresh)
        text = fresh
    assert text == fresh, f"{file.name} is not current: make docs"


def test_llms_txt_is_what_the_readme_says() -> None:
    file, fresh = TOP / "llms.txt", made.llms_txt((TOP / "README.md").read_text())
    if os.environ.get("BEAM_WRITE_DOCS"):
        file.write_text(fresh)
    assert file.read_text() == fresh, "llms.txt is not current: make docs"
    named = set(re.findall(r"\((docs/[^)]+)\)", fresh))
    assert named == {f"docs/{path.name}" for path in (TOP / "docs").glob("*.md")}


@pytest.mark.slow
def test_every_generated_part_is_somewhere() -> None:
    assert {name for file in PAGES for name in parts(file.read_text())} == set(PARTS)


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_its_links_lead_somewhere(file: Path) -> None:
    assert broken_links(file) == []


def test_every_page_is_linked_from_the_readme() -> None:
    readme = (TOP / "README.md").read_text()
    assert [path.name for path in (TOP / "docs").glob("*.md") if f"(docs/{path.name})" not in readme] == []


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.name)
def test_it_names_no_machine(file: Path) -> None:
    found = re.findall(
        r"(?:/(?:root|home|work|Users|tmp|venv)/[\w./-]+)|(?:localhost|127\.0\.0\.1):\d+", file.read_text()
    )
    assert found == []


@pytest.mark.slow
def test_every_command_and_option_is_in_the_page_of_commands() -> None:
    text = page("cli.md")
    for path, options in made.commands():
        section = text.partition(f"\n## {path}\n")[2].partition("\n## ")[0]
        assert section, path
        assert [option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", section)] == [], path


def test_every_event_type_has_its_heading() -> None:
    assert set(re.findall(r"^### ([a-z.]+)$", page("events.md"), re.MULTILINE)) == set(events.types())


def test_every_class_of_failure_is_explained() -> None:
    (explained,) = re.findall(r"\| class \| what it means \|\n.*?\n\n", page("exit-codes.md"), re.DOTALL)
    assert set(re.findall(r"`(\w+)`(?= [·|])", explained)) == {str(word) for word in Class}


def test_every_crash_point_is_in_the_page_of_files_in_its_order() -> None:
    table = page("files.md").partition("## The durable steps of a turn")[2]
    assert [row[0].strip("`") for row in rows(table)] == list(faults.CRASH_POINTS)


def test_the_yaml_example_of_the_page_of_files_is_understood() -> None:
    example, *others = blocks(page("beam-yaml.md"), "yaml")
    for other in others:
        file.parse(other.text.encode(), Path("beam.yaml"), adapters=tuple(registry.ADAPTERS))
    read = file.parse(example.text.encode(), Path("beam.yaml"), adapters=tuple(registry.ADAPTERS))
    assert set(read.agents) == {"planner", "linter", "desk"}
    assert (read.defaults["timeout"], read.limits["waiting"]) == (1200.0, 500)


def test_every_word_of_the_glossary_is_explained_once_and_the_states_are_true() -> None:
    found = [row[0] for row in rows(page("glossary.md"))]
    assert len(found) == len(set(found))
    faces = {face for name in registry.ADAPTERS for face in registry.adapter(name).card.faces}
    (line,) = [row[1] for row in rows(page("glossary.md")) if row[0] == "face"]
    assert [face for face in faces if f"`{face}`" not in line] == []


@pytest.mark.slow
def test_every_console_session_of_the_docs_is_played_by_a_test() -> None:
    played = {"README.md", "adding-an-agent.md", "first-steps.md"} | USES
    assert {file.name for file in PAGES if blocks(file.read_text(), "console")} == played


@pytest.mark.acceptance
def test_the_first_steps_print_what_they_promise(beam: Cli) -> None:
    assert console.play(beam, [block.text for block in blocks(page("first-steps.md"), "console")]) == []


def test_every_class_of_a_failed_turn_is_in_the_page_for_troubles() -> None:
    text = page("troubleshooting.md")
    own_codes = {Class.UNSUPPORTED, Class.NOT_INSTALLED}
    assert [each for each in Class if each not in own_codes and f"`{each}`" not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_each_command_of_a_page_is_taken_by_beam(file: Path, tmp_path: Path) -> None:
    assert refused(shell_lines(file.read_text()), tmp_path) == []


@pytest.mark.acceptance
def test_a_foreign_cli_becomes_an_agent_by_following_the_page(beam: Cli) -> None:
    sessions = [block.text for block in blocks(page("adding-an-agent.md"), "console")]
    assert len(sessions) == 3
    assert console.play(beam, sessions) == []


def test_the_adapter_of_the_page_is_complete_and_decodes_what_it_says() -> None:
    (source,) = [block.text for block in blocks(page("adding-an-agent.md"), "python") if block.note == "adapter"]
    module: dict[str, Any] = {"__name__": "oracle"}
    exec(compile(source, "oracle.py", "exec"), module)
    turn = Turn(text="Why?", message_id="oracle-1", agent="oracle", access="full", session_id="t1")

    launch = module["exec"].launch(turn, Host(executable="oracle"))
    assert (launch.argv, launch.stdin) == (("oracle", "--json", "--yes", "--resume", "t1"), b"Why?")

    output = [
        b'{"thread": "t1"}',
        b'{"call": "look", "id": "1"}',
        b'{"result": "", "id": "1"}',
        b"~",
        b'{"answer": "So."}',
    ]
    decoder = module["exec"].decoder(turn)
    types = [str(event.__struct_config__.tag) for line in output for event in decoder.line(line)]
    assert types == ["session.started", "tool.called", "tool.returned", "unknown", "text"]
    assert decoder.end(Exit(code=0))[1].reply == "So."

    failing = module["exec"].decoder(turn)
    failing.line(b'{"error": "who are you?", "code": "login"}')
    assert (failing.end(Exit(code=0))[1].status, failing.end(Exit(code=0))[1].class_) == (Status.FAILED, Class.AUTH)
    assert module["exec"].decoder(turn).end(Exit(signal="SIGKILL"))[1].class_ is Class.CRASHED


def oracle_program(folder: Path) -> None:
    """Writes the CLI that the page's adapter is for into the folder."""
    (folder / "oracle").write_text(
        '#!/bin/sh\nthread=t1; mode=$2\nfor word; do [ "$last" = --resume ] && thread=$word; last=$word; done\n'
        'echo "{\\"thread\\": \\"$thread\\"}"\nasked=$(cat)\n'
        '[ "$asked" = login ] && echo \'{"error": "who are you?", "code": "login"}\' && exit 0\n'
        'echo "{\\"answer\\": \\"$mode $asked\\"}"\n'
    )
    (folder / "oracle").chmod(0o755)


@pytest.mark.acceptance
def test_the_adapter_of_the_page_runs_turns_once_it_has_its_line_in_the_registry(beam: Cli) -> None:
    (beam.base / "oracle.py").write_text(other_package.oracle())
    oracle_program(beam.base)
    register = (
        f"import sys; sys.path.insert(0, {str(beam.base)!r})\n"
        "from beam.agents import registry; registry.ADAPTERS['oracle'] = 'oracle'\n"
        "from beam.cli.main import main; main()"
    )

    def run(*args: str) -> Any:
        path = f"{beam.base}:{beam.env['PATH']}"
        command = [sys.executable, "-c", register, *args]
        done = subprocess.run(
            command, cwd=beam.project, env={**beam.env, "PATH": path}, capture_output=True, timeout=60
        )
        return json.loads(done.stdout)

    first, second = run("send", "oracle", "Why?", "--json"), run("send", "oracle", "Why not?", "--json")
    assert (first["reply"], first["session"]) == ("--read-only Why?", "new")
    assert (second["reply"], second["session"], second["session_id"]) == ("--read-only Why not?", "resumed", "t1")
    failed = run("send", "oracle", "login", "--json")
    assert (failed["status"], failed["class"], failed["reply"]) == ("failed", "auth", None)


@pytest.mark.acceptance
def test_the_adapter_of_the_page_runs_turns_as_another_package_too(beam: Cli) -> None:
    site = other_package.installed(
        beam.base / "site", {"beam_oracle": other_package.oracle()}, {"oracle": "beam_oracle"}
    )
    oracle_program(beam.base)
    there = beam.with_env({"PYTHONPATH": str(site), "PATH": f"{beam.base}:{beam.env['PATH']}"})

    assert "oracle" not in [line["agent"] for line in beam("agent", "list", "--all", "--json").lines]
    (line,) = [line for line in there("agent", "list", "--all", "--json").lines if line["agent"] == "oracle"]
    assert (line["adapter"], line["face"], line["installed"]) == ("oracle", "exec", str(beam.base / "oracle"))
    first, second = there("send", "oracle", "Why?", "--json").json, there("send", "oracle", "Why not?", "--json").json
    assert (first["reply"], first["session"]) == ("--read-only Why?", "new")
    assert (second["reply"], second["session"], second["session_id"]) == ("--read-only Why not?", "resumed", "t1")

    assert there("agent", "add", "seer", "oracle", "--access", "full").code == 0
    put = there("send", "seer", "Go on", "--no-wait")
    assert put.code == 0, put
    assert there("wait", put.out.strip(), "--timeout", "40s").out == "--yes Go on\n"
    assert there("trust", "--yes").code == 0
    refused = beam("send", "seer", "x")
    assert (refused.code, "there is no adapter 'oracle'" in refused.err) == (2, True), refused


@pytest.mark.acceptance
def test_a_broken_package_is_named_and_keeps_no_other_agent_from_anything(beam: Cli) -> None:
    entries = {"oracle": "beam_oracle", "claude": "beam_oracle"}
    site = other_package.installed(beam.base / "site", {"beam_oracle": "import nowhere"}, entries)
    there = beam.with_env({"PYTHONPATH": str(site)})
    why = "adapter oracle of oracle-beam 1.0 can't be used: its import failed (No module named 'nowhere')"

    sent = there("send", "oracle", "x")
    assert (sent.code, why in sent.err, "Traceback" in sent.err) == (2, True, False), sent
    lines = {line["agent"]: line for line in there("agent", "list", "--all", "--json").lines}
    assert (lines["oracle"]["error"], lines["claude"]["error"]) == (why, None)
    assert there("send", "scripted", "hello").code == 0
    assert there("trust", "--yes").code == 0
    checks = {(check["what"], check["result"], check["detail"]) for check in there("doctor", "--json").lines}
    told = {detail.partition(";")[0] for what, _, detail in checks if what in ("agent oracle", "agent claude")}
    assert {why, "left out: oracle-beam 1.0 may not replace the built-in adapter claude"} <= told


def test_the_page_names_all_that_an_adapter_can_say() -> None:
    text = page("adding-an-agent.md")
    from beam.agents.base import Launch

    every = set(Launch.__struct_fields__) - {"argv", "stdin", "env"}
    assert {name for name in every if f"Launch.{name}" not in text} == set()
    words = ("error_line", "carried", "turn.fork", "terminals.md", "make conformance", "fake_model_env", "--smoke")
    assert [word for word in words if word not in text] == []


@pytest.mark.acceptance
@pytest.mark.parametrize("name", ["terminal.svg", "watch.svg", "board.svg"])
def test_the_picture_shows_what_beam_prints_now(name: str) -> None:
    from bench import picture

    def shown(svg: str) -> str:
        return html.unescape("\n".join(re.findall(r"<text[^>]*>(.*?)</text>", svg))).replace("\xa0", " ")

    fresh, kept = shown(picture.PICTURES[name.removesuffix(".svg")][1]()), shown((TOP / "docs" / name).read_text())
    assert "a bug in beam" not in kept
    assert kept == fresh, f"docs/{name} is not current: make picture"
