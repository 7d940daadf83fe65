"""A key of each kind, planted in each field that a person or a program names, stands in no output of beam."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from beam.secrets import shown
from beam.secrets.kinds import SECRET_FORMS
from beam.secrets.redact import redact
from beam.secrets.shown import blanked
from tests.support.cli import Cli, Ended, eventually
from tests.support.secrets import PLANTED, SECRETS

ONE_LINE = {kind: (text, piece) for kind, (text, piece) in PLANTED.items() if "\n" not in text}
IN_A_NAME = {kind: pair for kind, pair in ONE_LINE.items() if "/" not in pair[0] and len(pair[0]) < 200}
OUTPUTS = [
    *(["status"], ["status", "--json"], ["status", "--metrics"], ["status", "--usage"], ["agent", "list"]),
    *(["agent", "list", "--json"], ["agent", "show", "x"], ["agent", "show", "x", "--json"], ["queue", "list"]),
    *(["agent", "show", "x", "--origin"], ["queue", "list", "--json"], ["log", "x"], ["log", "x", "--json"]),
    *(
        ["log", "x", "--format", "html"],
        ["log", "x", "--format", "md"],
        ["watch", "--now"],
        ["watch", "--now", "--json"],
        ["report"],
    ),
    *(["report", "--json"], ["search", "hello"], ["doctor"], ["doctor", "--json"], ["trust", "--diff"], ["root"]),
    *(["notify", "list"], ["notify", "list", "--json"], ["team", "list"], ["asks"], ["asks", "--json"]),
]


def found_in(text: str) -> list[str]:
    """The kinds of keys that stand in this text."""
    return [kind for kind, (_, piece) in ONE_LINE.items() if piece in text]


def everything(done: Ended) -> str:
    return done.out + done.err


@pytest.mark.parametrize("text", [text for text, _, _ in SECRETS.values()], ids=SECRETS)
def test_what_is_shown_is_blanked_as_what_is_recorded(text: str) -> None:
    assert blanked(f"say {text} now") == redact(f"say {text} now")[0]


def test_the_beginnings_that_are_looked_for_are_those_of_all_kinds() -> None:
    assert [form.prefix for form in SECRET_FORMS if not shown._may_have_secret(form.prefix)] == []
    assert all(len(text) >= shown._SHORTEST for text, _, _ in SECRETS.values())


def test_a_json_object_with_a_secret_stays_one() -> None:
    for kind, (text, piece) in PLANTED.items():
        line = json.dumps({"a": text, "b": [text], text: 1, "c": 'quote " and \\'}) + "\n"
        written = blanked(line)
        assert piece not in written, kind
        assert written.endswith("\n")
        assert json.loads(written)["c"] == 'quote " and \\'


@pytest.mark.acceptance
def test_a_value_of_a_scenarios_variable_stands_in_no_output_of_a_run(beam: Cli) -> None:
    names = {f"v{number}": text for number, (text, _) in enumerate(ONE_LINE.values())}
    words = ", ".join(f'"${{{name}}}"' for name in names)
    parts = ", ".join(f'{{template: "${{{name}}}"}}' for name in names)
    (beam.project / "s.yaml").write_text(
        f"beam: 1\nvariables: {json.dumps(dict.fromkeys(names, 'none'))}\nsteps:\n"
        "  - send: scripted\n    id: a\n"
        f"    prompt: [{parts}]\n"
        f"    expect: [{{command: [sh, -c, 'echo $*; exit 1', x, {words}]}}, {{contains: nothing like that}}]\n"
        f"  - run: [sh, -c, 'echo $*; exit 1', x, {words}]\n"
        f"  - run: echo $BEAM_VAR_v0; exit 1\n"
        f"  - send: scripted\n    prompt: [{{reply: a}}]\n    expect: {{equals: nothing}}\n"
    )
    given = [part for name, text in names.items() for part in ("--set", f"{name}={text}")]
    summary = beam.base / "summary.md"
    env = {"BEAM_TRUST": "1", "CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    junit = beam.base / "junit.xml"
    for more in (
        *(["--dry-run"], ["--dry-run", "--json"], ["--json"], ["--format", "text"], ["--format", "gitlab"]),
        ["--format", "github", "--junit", str(junit)],
    ):
        done = beam("run", "s.yaml", *given, *more, env=env)
        assert done.code == (0 if "--dry-run" in more else 13), done
        assert found_in(everything(done)) == [], more
    assert "[redacted:" in junit.read_text()
    assert found_in(junit.read_text() + summary.read_text()) == []
    refused = beam("run", "s.yaml", *given, env={"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTIONS": "true"})
    assert refused.code == 2 and "[redacted:" in refused.err
    assert found_in(everything(refused) + summary.read_text()) == []


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", IN_A_NAME)
def test_a_key_in_a_folders_name_is_no_part_of_its_roots_name(beam: Cli, kind: str) -> None:
    text, piece = IN_A_NAME[kind]
    folder = beam.base / f"work {text}"
    folder.mkdir()
    (folder / "beam.yaml").write_text("")
    assert beam("-C", str(folder), "send", "scripted", "hello").code == 0
    root = beam("-C", str(folder), "root")
    slug = re.sub("[^a-z0-9]+", "-", piece.lower())
    assert slug not in root.out and piece not in everything(root)
    for args in (["status"], ["status", "--json"], ["doctor"], ["log", "scripted"], ["agent", "list"]):
        assert piece not in everything(beam("-C", str(folder), *args)), args
    assert [path.name for path in Path(root.out.strip()).parent.iterdir() if slug in path.name] == []
    unit = beam("-C", str(folder), "broker", "service").out.splitlines()
    assert [line.partition("=")[0] for line in unit if piece in line or slug in line.lower()] == ["WorkingDirectory"]


@pytest.mark.acceptance
def test_a_key_in_a_field_of_the_settings_stands_in_no_output(beam: Cli) -> None:
    keys = " ".join(text for text, _ in ONE_LINE.values())
    beam.config(
        json.dumps(
            {
                "agents": {
                    "x": {
                        "adapter": "scripted",
                        "description": keys,
                        "system": keys,
                        "model": keys,
                        "env": {"A": keys},
                        "envelope": f"{{from}} {keys}",
                        "schema": keys,
                    },
                    "program": {"command": ["echo", *(text for text, _ in ONE_LINE.values())]},
                },
                "notify": [{"on": ["finished"], "command": ["sh", "-c", f"cat; echo {json.dumps(keys)}", keys]}],
            }
        )
    )
    assert beam("send", "program", f"hello {keys}").code == 0
    beam("send", "x", f"hello {keys}")
    for agent in ("x", "program"):
        for args in OUTPUTS:
            named = [agent if word == "x" else word for word in args]
            done = beam(*named)
            assert done.code != 2, done  # it is a command of beam
            assert found_in(everything(done)) == [], named
    assert found_in(everything(beam("send", "nobody", keys, "--model", keys))) == []
    for args in (["send", "x", "hello", "--access", keys], ["agent", "show", keys[:300]], ["run", keys[:200]]):
        assert found_in(everything(beam(*args))) == [], args
    log = beam.root / "notify/log"
    eventually(lambda: log.exists() and "[redacted:" in log.read_text())
    for path, _, names in os.walk(beam.root / "notify"):
        for name in names:
            assert found_in((Path(path) / name).read_text()) == [], name
