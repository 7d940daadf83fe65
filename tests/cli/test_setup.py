"""`beam trust`, `beam root` and `beam doctor`, called in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.api.adopt import Candidate, Finding
from beam.api.doctor import Check
from beam.api.gc import CollectResult, RemovedFile
from beam.api.root import RootLine
from beam.api.smoke import SmokeResult
from beam.cli import setup
from tests.support.inside import Inside, Told

pytestmark = pytest.mark.slow

SCENARIO = "beam: 1\nvariables:\n  who:\nsteps:\n  - run: echo ${who}\n"


# -- trust -------------------------------------------------------------------------------------------------------------


def test_a_folder_is_trusted_with_all_that_is_shown_and_trusted_no_longer(inside: Inside) -> None:
    trusted = inside("trust", "--yes")
    assert (trusted.code, trusted.out) == (0, "")
    assert trusted.err == f"beam: beam.yaml has worker run 'cat'\nbeam: trusted: {inside.project}\n"
    assert inside("trust", "--diff").err == "beam: nothing is new or changed\n"
    (inside.project / ".env").write_text("A_KEY=1\n")
    differs = inside("trust", "--diff")
    assert (differs.code, differs.err) == (0, "")
    assert ".env" in differs.out and "A_KEY=…" in differs.out
    assert inside("trust", "--no").err == f"beam: no longer trusted: {inside.project}\n"


def test_without_a_terminal_a_folder_or_a_scenario_is_trusted_with_yes_alone(inside: Inside) -> None:
    (inside.project / "talk.yaml").write_text(SCENARIO)
    for words, shown in (((), "beam.yaml has worker run 'cat'"), (("talk.yaml", "--set", "who=me"), "echo ${who}")):
        refused = inside("trust", *words)
        assert refused.code == 2 and shown in refused.err
        assert refused.err.endswith("there is no terminal to ask for consent; to agree beforehand, add --yes\n")
    assert inside("trust", "--diff").out.startswith("new: beam.yaml has worker run")


@pytest.mark.parametrize(("typed", "is_trusted"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_person_is_asked(inside: Inside, monkeypatch: pytest.MonkeyPatch, typed: str, is_trusted: bool) -> None:
    monkeypatch.setattr("beam.cli.setup.is_terminal", lambda _: True)
    asked = inside("trust", stdin=typed)
    assert f"Trust {inside.project} with all of this? [y/N] " in asked.err
    assert (asked.code, inside("trust", "--diff").out == "") == (0 if is_trusted else 2, is_trusted)
    (inside.project / "beam.yaml").unlink()
    assert "[y/N]" not in inside("trust").err, "nothing needs trust"


def test_another_folder_is_named_by_its_path(inside: Inside, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / ".env").write_text("A=1\n")
    trusted = inside("trust", "--yes", "../other")
    assert trusted.code == 0 and trusted.err.endswith(f"beam: trusted: {other}\n")
    assert inside("trust", "../other", "--no").err == f"beam: no longer trusted: {other}\n"


def test_a_terminal_gets_no_control_characters_of_the_files_that_differ(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inside.project / ".claude").mkdir()
    (inside.project / ".claude" / "settings.json").write_text('{"a": "\x1b]0;title\x07"}\n')
    assert "\x1b]0;title\x07" in inside("trust", "--diff").out
    monkeypatch.setattr("beam.cli.render.text.is_terminal", lambda _: True)
    shown = inside("trust", "--diff").out
    assert "␛]0;title␇" in shown and "\x1b" not in shown


def test_a_path_that_leads_nowhere_trusts_no_folder_around_it(inside: Inside, told: Told) -> None:
    told.replace("trust")
    told.replace("untrust")
    for words in (("nowhere",), ("nowhere", "--no"), ("nowhere/talk.yaml",)):
        refused = inside("trust", *words)
        assert (refused.code, refused.err) == (4, f"beam: there is no folder or scenario {words[0]}; check the path\n")
    assert told.calls == []


def test_a_scenario_is_trusted_by_itself(inside: Inside) -> None:
    (inside.project / "talk.yaml").write_text(SCENARIO)
    assert inside("trust", "--yes", "talk.yaml").code == 2, "a variable has no value"
    trusted = inside("trust", "--yes", "talk.yaml", "--set", "who=me")
    assert trusted.code == 0 and trusted.err.endswith(f"beam: trusted: {inside.project}/talk.yaml\n")
    assert "echo" in trusted.err and trusted.err.count("\n") > 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("talk.yaml", "--no"), "--diff and --no are for folders; a changed file is not trusted any more: talk.yaml"),
        (("talk.yaml", "--diff"), "--diff and --no are for folders; a changed file is not trusted any more: talk.yaml"),
        (("--no", "--diff"), "--diff and --no don't go together; beam trust --diff"),
    ],
)
def test_options_of_trust_that_make_no_sense_are_refused(inside: Inside, words: tuple[str, ...], said: str) -> None:
    (inside.project / "talk.yaml").write_text(SCENARIO)
    refused = inside("trust", *words)
    assert (refused.code, refused.err) == (2, f"beam: {said}\n")


def test_an_agent_trusts_nothing(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.api import Beam
    from beam.base.errors import UsageError

    def refuse(_: Beam, what: str) -> None:
        raise UsageError(f"an agent never {what}")

    monkeypatch.setattr(Beam, "check_person", refuse)
    told.replace("trust")
    refused = inside("trust", "--yes")
    assert refused.code != 0 and refused.err.startswith("beam: an agent never trusts a folder")
    assert told.calls == []


# -- root --------------------------------------------------------------------------------------------------------------


def test_a_root_is_printed_as_it_is_and_a_strange_name_as_json_can_have_it(inside: Inside) -> None:
    assert inside("root", "lost").err == "beam: beam root: unknown argument 'lost'; use beam root, or beam root list\n"
    strange = inside.project.parent / os.fsdecode(b"r\xff")
    assert inside("--root", str(strange), "root", "--json").json["root"].endswith("r\\xff")


def test_roots_are_listed_with_those_whose_folder_is_gone(inside: Inside, told: Told) -> None:
    lines = [
        RootLine(root="/s/a", project="/a", exists=True, agents=("x", "y"), waiting=2),
        RootLine(root="/s/b", project="/b", exists=False, agents=(), waiting=0),
    ]
    told.replace("roots", lines, lines)
    assert [line.split("\t") for line in inside("root", "list").out.splitlines()] == [
        ["ROOT", "FOLDER", "AGENTS", "WAITING"],
        ["/s/a", "/a", "x, y", "2"],
        ["/s/b", "/b (gone)", "", "0"],
    ]
    assert [line["exists"] for line in inside("root", "list", "--json").lines] == [True, False]


# -- doctor ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("claude", "--gc"), "names don't go with --gc, --adopt and --remove-root; beam doctor NAME"),
        (("claude", "--adopt"), "names don't go with --gc, --adopt and --remove-root; beam doctor NAME"),
        (("--smoke", "--gc"), "--smoke and --gc don't go together; beam doctor --smoke"),
        (("--gc", "--adopt"), "--smoke, --gc, --adopt and --remove-root don't go together; use one of them"),
        (
            ("--adopt", "--remove-root", "x"),
            "--smoke, --gc, --adopt and --remove-root don't go together; use one of them",
        ),
        (("--yes",), "--yes needs --adopt or --remove-root; beam doctor --adopt"),
        *(
            (words, "--older-than, --keep-bytes, --dead and --dry-run belong to --gc; beam doctor --gc --dry-run")
            for words in (
                ("--older-than", "3d"),
                ("--keep-bytes", "1"),
                ("--dead",),
                ("--dry-run",),
                ("--remove-root", "x", "--yes", "--dry-run"),
                ("--adopt", "--yes", "--dry-run"),
                ("--smoke", "--dead"),
            )
        ),
        (("--gc", "--keep-bytes", "5X"), "'5X' is not a size; write it like 1000000, 500M or 2G"),
        (("--gc", "--keep-bytes", "K"), "'K' is not a size; write it like 1000000, 500M or 2G"),
        (("--gc", "--keep-bytes", ""), "'' is not a size; write it like 1000000, 500M or 2G"),
    ],
)
def test_options_of_doctor_that_make_no_sense_are_refused(
    inside: Inside, told: Told, words: tuple[str, ...], said: str
) -> None:
    for verb in ("doctor", "smoke", "gc", "adoptable", "remove_root"):
        told.replace(verb)
    refused = inside("doctor", *words)
    assert (refused.code, refused.out, refused.err, told.calls) == (2, "", f"beam: {said}\n", [])


CHECKS = [
    Check(what="root", result="ok", summary="fine", detail="/root fine"),
    Check(what="agent claude", result="note", summary="old", detail="claude is old"),
]
BAD = [
    *CHECKS,
    Check(what="journal a", result="bad", summary="torn", detail="torn"),
    Check(what="disk", result="bad", summary="full", detail="full"),
]


def test_checks_are_a_table_and_those_that_failed_are_the_exit_code(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.replace("doctor", *((each for each in checks) for checks in (CHECKS, BAD, BAD, CHECKS, CHECKS, CHECKS)))
    fine = inside("doctor")
    assert (fine.code, fine.err) == (0, "")
    assert fine.out.splitlines() == ["RESULT\tWHAT\tDETAIL", "ok\troot\tfine", "note\tclaude\told"]
    bad = inside("doctor", "--all")
    said = "2 check(s) failed: journal a, disk; see above; beam log a --verify lists the damage of a journal"
    assert (bad.code, bad.err) == (13, f"beam: {said}\n")
    as_json = inside("doctor", "--json")
    assert (as_json.code, [line["result"] for line in as_json.lines]) == (13, ["ok", "note", "bad", "bad"])
    for words in (("-v", "doctor"), ("doctor", "claude,root")):
        assert inside(*words).out.splitlines()[1:] == ["ok\troot\t/root fine", "note\tclaude\tclaude is old"]
    asked = [[], [], [], [], ["claude", "root"]]
    assert told.calls == [((names,), {"all": number == 1}) for number, names in enumerate(asked)]
    monkeypatch.setattr(setup, "is_terminal", lambda stream: True)
    assert inside("doctor").err == "beam: more on each: beam doctor -v; a turn of each CLI: beam doctor --smoke\n"


SMOKED = [
    SmokeResult(agent="claude", result="ok", version="2.1", face="exec", seconds=1.5, got="hi"),
    SmokeResult(agent="codex", result="failed", status="failed", exit_code=3, reason="no key", got="hi"),
    SmokeResult(agent="cn", result="failed"),
    SmokeResult(agent="pi", result="missing", hint="npm install pi"),
]


def test_a_smoke_test_has_a_row_a_cli_and_fails_with_those_that_failed(inside: Inside, told: Told) -> None:
    def smoked(names: list[str]) -> Iterator[SmokeResult]:
        asked.append(names)
        yield from SMOKED if len(asked) < 3 else SMOKED[:1]

    asked: list[list[str]] = []
    told.replace("smoke", *[smoked] * 4)
    found = inside("doctor", "--smoke")
    assert [line.split("\t") for line in found.out.splitlines()] == [
        ["CLI", "VERSION", "MODE", "OUTCOME", "SECONDS", "MESSAGE"],
        ["claude", "2.1", "exec", "ok", "1.5", "the model got: hi"],
        ["codex", "", "", "failed: failed (exit 3)", "", "no key"],
        ["cn", "", "", "failed: no outcome (exit None)", "", ""],
        ["pi", "", "", "missing", "", "npm install pi"],
    ]
    assert (found.code, found.err) == (13, "beam: 2 CLI(s) failed: codex, cn; see above\n")
    as_json = inside("doctor", "--smoke", "codex,pi", "--json")
    assert (as_json.code, [line["agent"] for line in as_json.lines]) == (13, ["claude", "codex", "cn", "pi"])
    assert (inside("doctor", "--smoke").code, asked) == (0, [[], ["codex", "pi"], []])
    assert inside("-v", "doctor", "--smoke").err == "beam: claude: ok\n"


def test_what_is_collected_is_listed_with_what_remains(inside: Inside, told: Told) -> None:
    removed = (
        RemovedFile(path="agents/a/old", what="lane", bytes=100, age_s=90.0),
        RemovedFile(path="agents/b/old", what="log", bytes=23, age_s=60.0),
    )
    found = CollectResult(removed=removed, held=("busy",), bytes=7)
    told.replace("gc", found, found, CollectResult(removed=(), held=(), bytes=7))
    first = inside("doctor", "--gc")
    assert first.out.splitlines() == [
        "WHAT\tBYTES\tAGE\tPATH",
        "lane\t100\t1m30s\tagents/a/old",
        "log\t23\t1m00s\tagents/b/old",
    ]
    assert first.err == "beam: removed 123 bytes; 7 remain\nbeam: busy is in use and was left unchanged\n"
    words = ("--older-than", "2d", "--keep-bytes", "2k", "--dead", "--dry-run", "--json")
    second = inside("doctor", "--gc", *words)
    assert [line["bytes"] for line in second.lines] == [100, 23]
    assert second.err.startswith("beam: would remove 123 bytes; 7 remain\n")
    third = inside("doctor", "--gc")
    assert (third.code, third.out, third.err) == (0, "", "beam: removed 0 bytes; 7 remain\n")
    day = 86400
    assert [named for _, named in told.calls] == [
        {"older_than": 30 * day, "keep_bytes": None, "dead": False, "dry_run": False},
        {"older_than": 2 * day, "keep_bytes": 2048, "dead": True, "dry_run": True},
        {"older_than": 30 * day, "keep_bytes": None, "dead": False, "dry_run": False},
    ]


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("12", 12), ("1k", 1024), ("12K", 12 * 1024), ("1K", 1024), ("3m", 3 * 2**20), ("2G", 2 * 2**30)],
)
def test_a_size_has_a_unit_or_none(text: str, size: int) -> None:
    assert setup._parse_size(text) == size


# -- adopt and remove --------------------------------------------------------------------------------------------------

FOUND = [
    Candidate(
        root=Path(f"/s/{name}"),
        why="the folder was moved",
        agents=(Finding(agent=name, settings=None, session=None, waiting=(), taken=False),),
    )
    for name in "ab"
]
SHOWN = "/s/a: the folder was moved\n  a\n/s/b: the folder was moved\n  b\n"
NOBODY = "beam: nothing was changed: there is no terminal to ask for consent; to agree beforehand, add --yes\n"


def test_roots_are_adopted_after_a_person_agreed(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    told.replace("adoptable", *[FOUND] * 4, [])
    told.replace("adopt", *[lambda one: [f"{one.root} is here now"]] * 4)
    refused = inside("doctor", "--adopt")
    assert (refused.code, refused.out, refused.err) == (2, SHOWN, NOBODY)
    done = "beam: /s/a is here now\nbeam: /s/b is here now\n"
    agreed = inside("doctor", "--adopt", "--yes")
    assert (agreed.code, agreed.out, agreed.err) == (0, SHOWN, done)
    monkeypatch.setattr(setup, "is_terminal", lambda stream: True)
    question = "Go on with these agents, and run what waits? [y/N] "
    for answer, code, rest in (("n\n", 2, ""), ("Yes \n", 0, done)):
        asked = inside("doctor", "--adopt", stdin=answer)
        assert (asked.code, asked.out, asked.err) == (code, SHOWN, question + rest)
    none = inside("doctor", "--adopt")
    assert (none.code, none.out, none.err) == (0, "", "beam: there is no other root of this folder\n")


def test_a_root_is_removed_after_a_person_agreed(inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    told.replace("remove_root", *["it is gone"] * 3)
    assert (inside("doctor", "--remove-root", "old").code, told.calls) == (2, [])
    done = inside("doctor", "--remove-root", "old", "--yes")
    assert (done.code, done.err) == (0, "beam: it is gone\n")
    monkeypatch.setattr(setup, "is_terminal", lambda stream: True)
    asked = inside("doctor", "--remove-root", "old", stdin="y\n")
    assert (asked.code, asked.err) == (0, "Remove old with all that it holds? [y/N] beam: it is gone\n")
    assert inside("doctor", "--remove-root", "old", stdin="").code == 2
    old = inside.project / "old"
    assert told.calls == [((old,), {"sure": True}), ((old,), {"sure": False})]


@pytest.mark.parametrize("missing", ["stdin", "stderr"])
def test_nobody_is_asked_who_can_not_see_or_answer(
    inside: Inside, told: Told, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    import sys

    told.replace("remove_root")
    monkeypatch.setattr(setup, "is_terminal", lambda stream: stream is not getattr(sys, missing))
    refused = inside("doctor", "--remove-root", "old", stdin="y\n")
    assert (refused.code, refused.err) == (2, NOBODY)
    assert not told.calls
