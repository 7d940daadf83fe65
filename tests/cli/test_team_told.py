"""The commands of `beam team` with stand-ins for the teams: what is passed on, printed and refused."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct

import beam
from beam.api import Beam
from beam.base.errors import UsageError
from beam.teams.model import Task
from tests.support.inside import Inside

NONE = "there are no teams; Claude Code makes them with CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1"


class Posted(Struct):
    """A message that was put into an inbox."""

    mail_id: str
    to: str
    sender: str
    unread_because: str = ""


ANN, BOB = Posted(mail_id="m1", to="ann", sender="human"), Posted(mail_id="m2", to="bob", sender="human")


class Stand:
    """Stands in for `TeamActions` and `TeamsHere`; keeps each call, with the names and homes that it was made with."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, environ: dict[str, str], *team: str, claude_homes: Any) -> Any:
        assert environ["HOME"]
        self.calls.append((*team, list(claude_homes)))
        return self

    def __getattr__(self, verb: str) -> Any:
        def called(*words: Any, **named: Any) -> Any:
            self.calls.append((verb, *words, *sorted(named.items())))
            return self.answers[verb]

        return called


@pytest.fixture
def acts(monkeypatch: pytest.MonkeyPatch) -> Stand:
    task = Task(id="3", subject="Write", status="pending", owner="bob")
    verbs = ("add_task", "claim_task", "start_task", "finish_task", "block_task")
    found = Stand({"send": ANN, "shut_down": [ANN, BOB], "approve": ANN, **dict.fromkeys(verbs, task)})
    monkeypatch.setattr(beam, "TeamActions", found, raising=False)
    return found


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Stand:
    found = Stand({"teams": [], "tasks": [], "mail": []})
    monkeypatch.setattr(beam, "TeamsHere", found, raising=False)
    return found


@pytest.mark.parametrize(
    ("words", "stdin", "called", "out"),
    [
        (
            *(("send", "t", "ann", "hi", "you"), "", ("send", "ann", "hi you", ("sender", "human"))),
            "m1 lies in ann's inbox, from human (not authenticated)",
        ),
        (
            *(
                ("send", "t", "ann", "-", "--from", "eve"),
                "all of\nit",
                ("send", "ann", "all of\nit", ("sender", "eve")),
            ),
            "m1 lies in ann's inbox, from human (not authenticated)",
        ),
        (
            *(("send", "t", "ann", "-", "x"), "unread", ("send", "ann", "- x", ("sender", "human"))),
            "m1 lies in ann's inbox, from human (not authenticated)",
        ),
        (
            *(("task", "add", "t", "Write"), "", ("add_task", "Write", ("after", ()), ("description", ""))),
            "#3 Write: pending, bob's",
        ),
        (
            ("task", "add", "t", "Write", "--description", "all", "--after", "1", "--after", "2"),
            *("", ("add_task", "Write", ("after", ["1", "2"]), ("description", "all")), "#3 Write: pending, bob's"),
        ),
        (("task", "claim", "t", "3"), "", ("claim_task", "3", "human"), "#3 Write: pending, bob's"),
        (("task", "claim", "t", "3", "--as", "bob"), "", ("claim_task", "3", "bob"), "#3 Write: pending, bob's"),
        (("task", "start", "t", "3"), "", ("start_task", "3"), "#3 Write: pending, bob's"),
        (("task", "done", "t", "3"), "", ("finish_task", "3"), "#3 Write: pending, bob's"),
        (("task", "block", "t", "3", "--after", "1"), "", ("block_task", "3", "1"), "#3 Write: pending, bob's"),
        (("shutdown", "t"), "", ("shut_down", "", ("reason", "")), "asked: ann, bob"),
        (("shutdown", "t", "bob", "--reason", "late"), "", ("shut_down", "bob", ("reason", "late")), "asked: ann, bob"),
        (("approve", "t", "ann", "perm-1"), "", ("approve", "ann", "perm-1", ("deny", None)), "allowed: perm-1 of ann"),
        (
            *(("approve", "t", "ann", "perm-1", "--deny", ""), "", ("approve", "ann", "perm-1", ("deny", ""))),
            "denied: perm-1 of ann",
        ),
    ],
)
def test_what_is_done_to_a_team_is_passed_on_and_said(
    inside: Inside, acts: Stand, words: tuple[str, ...], stdin: str, called: tuple[Any, ...], out: str
) -> None:
    done = inside("team", *words, "--claude-home", "/h", stdin=stdin)
    assert (done.code, done.err, done.out) == (0, "", f"{out}\n")
    assert acts.calls == [("t", ["/h"]), called]
    acts.calls.clear()
    as_json = inside("team", *words, "--json", stdin=stdin)
    assert as_json.code == 0 and as_json.lines[0].get("mail_id", "m1") == "m1"
    assert len(as_json.lines) == (2 if words[0] == "shutdown" else 1)
    assert acts.calls == [("t", []), called]


def test_a_task_that_waits_for_several_is_blocked_by_each(inside: Inside, acts: Stand) -> None:
    inside("team", "task", "block", "t", "3", "--after", "1", "--after", "2")
    assert acts.calls[1:] == [("block_task", "3", "1"), ("block_task", "3", "2")]


AFTER = "--after goes with add and block, and block needs it; beam team task block T 2 --after 1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eat", "t", "3"), "'eat' is no action; add, claim, start, done or block"),
        (("block", "t", "3"), AFTER),
        *(((action, "t", "3", "--after", "1"), AFTER) for action in ("claim", "start", "done")),
    ],
)
def test_what_can_not_be_done_to_a_task_is_refused(
    inside: Inside, acts: Stand, words: tuple[str, ...], said: str
) -> None:
    refused = inside("team", "task", *words)
    assert (refused.code, refused.err, acts.calls) == (2, f"beam: {said}\n", [])


def test_a_team_of_its_lead_alone_has_nobody_to_ask(inside: Inside, acts: Stand) -> None:
    acts.answers["shut_down"] = []
    done = inside("team", "shutdown", "t")
    assert (done.code, done.out, done.err) == (0, "", "beam: t has no members but its lead\n")


def test_an_agent_may_not_change_a_team(inside: Inside, acts: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(_: Beam, what: str) -> None:
        asked.append(what)
        raise UsageError("only a person does that")

    monkeypatch.setattr(Beam, "check_person", refuse)
    made: list[Any] = []
    monkeypatch.setattr(beam, "create_team", lambda *given, **_: made.append(given), raising=False)
    monkeypatch.setattr(beam, "install_hooks", lambda *given, **_: made.append(given), raising=False)
    for words in (("send", "t", "ann", "x"), ("shutdown", "t"), ("create", "t"), ("hook", "--install")):
        assert inside("team", *words).code == 2
    assert asked == ["acts on a team", "acts on a team", "makes a team", "changes Claude Code's settings"]
    assert (acts.calls, made) == ([], [])


@pytest.mark.parametrize(
    ("words", "called", "said"),
    [
        (("list",), ("teams",), NONE),
        (("tasks", "t"), ("tasks", "t"), "t has no tasks"),
        (("mail", "t"), ("mail", "t", ("by_thread", False)), "t has no mail on record"),
        (("mail", "t", "--thread"), ("mail", "t", ("by_thread", True)), "t has no mail on record"),
    ],
)
def test_where_there_is_nothing_that_is_reported(
    inside: Inside, here: Stand, words: tuple[str, ...], called: tuple[Any, ...], said: str
) -> None:
    shown = inside("team", *words, "--claude-home", "/h", "--claude-home", "/i")
    assert (shown.code, shown.out, shown.err) == (0, "", f"beam: {said}\n")
    assert here.calls == [(["/h", "/i"],), called]
    as_json = inside("team", *words, "--json")
    assert (as_json.code, as_json.out, as_json.err) == (0, "", "")
    assert here.calls[2:] == [([],), called]


def test_a_team_and_its_parts_are_shown_as_tables_or_as_json(
    inside: Inside, here: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.cli.render import team as render

    class Row(Struct):
        name: str

    row = Row(name="x")
    here.answers = {"teams": [row], "tasks": [row], "mail": [row], "show": row}
    drawn: list[Any] = []
    for name in ("print_teams", "print_tasks", "print_mail", "print_team"):
        monkeypatch.setattr(render, name, lambda *given, name=name, **more: drawn.append((name, *given, more)))
    for words in (("list",), ("tasks", "t"), ("mail", "t", "--thread"), ("show", "t")):
        assert inside("team", *words).out == ""
        assert inside("team", *words, "--json").json == {"name": "x"}
    assert drawn == [
        *(("print_teams", [row], {}), ("print_tasks", [row], {}), ("print_mail", [row], {"by_thread": True})),
        ("print_team", row, {}),
    ]


def test_a_team_is_made_for_this_folder(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(
        beam, "create_team", lambda environ, *given, **named: made.append((given, named)), raising=False
    )
    done = inside("team", "create", "blue", "--claude-home", "/h")
    assert done.out == "made the team blue; to add an agent, such as codex: beam team join blue codex\n"
    assert made == [(("blue",), {"claude_homes": ["/h"], "cwd": str(inside.project)})]
    inside("team", "create", "red")
    assert made[1][1]["claude_homes"] == ()


@pytest.mark.parametrize(
    ("words", "joining"),
    [
        (
            ("box",),
            {"agent": "box", "name": "box", "access": "read", "takes_tasks": False, "leads": False, "idle_s": None},
        ),
        (
            ("box@x", "--access", "own", "--take", "--lead", "--idle", "2m"),
            {"agent": "box@x", "name": "box-x", "access": None, "takes_tasks": True, "leads": True, "idle_s": 120.0},
        ),
        (
            ("box", "--name", "me", "--access", "full"),
            {"agent": "box", "name": "me", "access": "full", "takes_tasks": False, "leads": False, "idle_s": None},
        ),
    ],
)
def test_an_agent_joins_a_team_as_the_options_say(
    inside: Inside, acts: Stand, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], joining: dict[str, Any]
) -> None:
    made: list[Any] = []

    def membership(of: Beam, actions: Any, given: Any, note: Any) -> Any:
        made.append((actions, {name: getattr(given, name) for name in joining}))
        note("it began")
        return SimpleNamespace(run=lambda: "it left")

    monkeypatch.setattr(beam, "Membership", membership, raising=False)
    monkeypatch.setattr(Beam, "agent", lambda _, name: SimpleNamespace(agent=name))
    done = inside("team", "join", "t", *words)
    assert (done.code, done.err) == (0, "beam: it began\nbeam: it left\n")
    assert made == [(acts, joining)] and acts.calls == [("t", [])]


# -- hook --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "code", "err"), [((), 0, ""), (("--veto", "wait"), 2, "wait\n")])
def test_a_hooks_call_is_recorded_and_vetoed_if_somebody_says_so(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, err: str
) -> None:
    seen: list[dict[bytes, bytes]] = []
    monkeypatch.setattr(beam, "team_hook", SimpleNamespace(main=seen.append), raising=False)
    done = inside("team", "hook", *words)
    assert (done.code, done.out, done.err) == (code, "", err)
    assert seen[0][b"HOME"] == os.fsencode(inside.project.parent / "home")


def test_a_configuration_that_is_wrong_keeps_no_hook_from_its_call(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[dict[bytes, bytes]] = []
    monkeypatch.setattr(beam, "team_hook", SimpleNamespace(main=seen.append), raising=False)
    (tmp_path / "config" / "beam").mkdir(parents=True)
    (tmp_path / "config" / "beam" / "config.yaml").write_text("nonsense: [")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert inside("team", "hook").code == 0
    assert seen[0][b"BEAM_TRUST"] == b"1"


CHOOSE = "choose one of --install and --uninstall, and one of --user and --project"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--install", "--uninstall"), CHOOSE),
        (("--install", "--user", "--project"), CHOOSE),
        (
            ("--install", "--veto", "x"),
            "--veto is for a hook's call; write the command with it into Claude Code's settings",
        ),
    ],
)
def test_options_of_a_hook_that_make_no_sense_are_refused(inside: Inside, words: tuple[str, ...], said: str) -> None:
    refused = inside("team", "hook", *words)
    assert (refused.code, refused.err) == (2, f"beam: {said}\n")


@pytest.mark.parametrize(
    ("words", "scope", "remove", "changed", "said"),
    [
        (("--install",), "user", False, ("Stop", "PreToolUse"), "done: Stop, PreToolUse (/settings.json)"),
        (("--install", "--user"), "user", False, (), "done: nothing to do (/settings.json)"),
        (("--uninstall", "--project"), "project", True, ("Stop",), "done: Stop (/settings.json)"),
    ],
)
def test_the_hook_is_put_into_the_settings_and_removed(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], scope: str, remove: bool,
    changed: tuple[str, ...], said: str,
) -> None:  # fmt: skip
    calls: list[Any] = []

    def install(where: str, *, environ: dict[str, str], project: Path, remove: bool) -> Any:
        calls.append((where, project, remove))
        return SimpleNamespace(action="done", changed=changed, path="/settings.json")

    monkeypatch.setattr(beam, "install_hooks", install, raising=False)
    done = inside("team", "hook", *words)
    assert (done.code, done.out, calls) == (0, f"{said}\n", [(scope, inside.project, remove)])


@pytest.mark.slow
def test_a_terminal_gets_no_control_characters_of_a_task_or_a_name(
    inside: Inside, acts: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts.answers["start_task"] = Task(id="3", subject="a\x1b]0;t\x07", status="pending", owner="b\x9bob")
    acts.answers["shut_down"] = [Posted(mail_id="m1", to="a\x1b[2Jnn", sender="human")]
    assert "\x1b" in inside("team", "task", "start", "t", "3").out
    monkeypatch.setattr("beam.cli.render.text.is_terminal", lambda _: True)
    assert inside("team", "task", "start", "t", "3").out == "#3 a␛]0;t␇: pending, b<U+009B>ob's\n"
    assert inside("team", "shutdown", "t").out == "asked: a␛[2Jnn\n"


@pytest.mark.slow
def test_mail_that_is_no_text_is_sent_with_signs_in_place_of_its_bytes(
    inside: Inside, acts: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam.cli.prompt._read_stdin", lambda _: b"a\xffb")
    sent = inside("team", "send", "t", "ann", "-")
    assert (sent.code, acts.calls[1]) == (0, ("send", "ann", "a\ufffdb", ("sender", "human")))
    assert sent.err == "beam: warning: stdin is not valid UTF-8; invalid bytes were replaced by U+FFFD\n"
