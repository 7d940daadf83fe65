"""`beam agent`: agents are declared, changed, looked at and removed."""

from __future__ import annotations

import json

import pytest

from tests.support.claims import refused, said_once
from tests.support.cli import Cli

pytestmark = pytest.mark.acceptance


def test_an_agent_is_added_used_changed_and_removed(beam: Cli) -> None:
    added = beam("agent", "add", "planner", "scripted", "--set", "script=planner")
    assert added.code == 0
    said_once(added, "agent.json")
    assert beam("send", "planner", "hi").code == 0
    assert beam("agent", "set", "planner", "description=plans things", "timeout=90s").code == 0
    shown = beam("agent", "show", "planner", "--json").json
    assert (shown["settings"]["description"], shown["settings"]["timeout"]) == ("plans things", 90)
    assert beam("agent", "set", "planner", "description=").code == 0
    assert beam("agent", "show", "planner", "--json").json["settings"]["description"] is None
    assert beam("agent", "rm", "planner").code == 0
    refused(beam("agent", "rm", "planner"), 4, "planner")
    assert beam("log", "planner").code == 0, "its journal stays"
    assert beam("agent", "rm", "planner", "--purge").code == 0
    assert not (beam.root / "agents" / "planner").exists()


def test_adding_twice_is_refused(beam: Cli) -> None:
    assert beam("agent", "add", "planner", "scripted").code == 0
    refused(beam("agent", "add", "planner", "scripted"), 2, "planner", "already")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["add", "planner", "scriptd"], ["scriptd", "scripted"]),
        (["add", "Bad Name", "scripted"], ["Bad Name"]),
        (["add", "planner", "scripted", "--set", "modl=x"], ["modl", "model"]),
        (["add", "planner", "scripted", "--set", "novalue"], ["novalue", "KEY=VALUE"]),
        (["add", "planner", "scripted", "--access", "root"], ["root"]),
        (["add", "planner"], ["planner"]),
    ],
)
def test_a_declaration_that_is_wrong_is_refused_and_not_kept(beam: Cli, args: list[str], words: list[str]) -> None:
    done = beam("agent", *args)
    assert done.code in (2, 4), done
    said_once(done, *words)
    assert not list(beam.project.rglob("agent.json"))


def test_a_change_that_is_wrong_leaves_what_was(beam: Cli) -> None:
    beam("agent", "add", "planner", "scripted")
    before = (beam.root / "agents/planner/agent.json").read_bytes()
    for change in ("adapter=nothing", "access=root", "timeout=soon", "tmeout=3"):
        done = beam("agent", "set", "planner", change)
        assert done.code in (2, 4), done
        said_once(done)
    assert (beam.root / "agents/planner/agent.json").read_bytes() == before


def test_agents_are_listed(beam: Cli) -> None:
    beam.config("agents:\n  b: {adapter: scripted}\n  a: {command: [cat], description: echoes}\n")
    listed = beam("agent", "list", "--json")
    assert [line["agent"] for line in listed.lines] == ["a", "b"]
    assert beam("agent", "list").out.splitlines()[0].startswith("AGENT\tADAPTER")
    assert {"claude", "scripted"} <= {line["agent"] for line in beam("agent", "list", "--all", "--json").lines}


def test_where_there_is_none_the_list_says_what_could_be_one(beam: Cli) -> None:
    assert {"claude", "scripted", "mailbox"} <= {line["agent"] for line in beam("agent", "list", "--json").lines}


def test_show_says_where_each_setting_comes_from(beam: Cli) -> None:
    beam.config("defaults: {timeout: 5m}\nagents:\n  a: {command: [cat]}\n")
    beam("agent", "set", "a", "model=x")
    shown = beam("agent", "show", "a", "--origin")
    assert shown.code == 0
    assert "beam.yaml" in shown.out
    assert "agent.json" in shown.out
    origin = json.loads(beam("agent", "show", "a", "--json").out)["origin"]
    assert {"command", "timeout", "model"} <= set(origin)


def test_reset_starts_another_session(beam: Cli) -> None:
    first = beam("send", "scripted", "hi", "--json").json["session_id"]
    done = beam("agent", "reset", "scripted")
    assert done.code == 0
    said_once(done, first)
    second = beam("send", "scripted", "hi", "--json").json
    assert (second["session"], second["session_id"] == first) == ("new", False)


def test_reset_of_an_agent_without_a_session_says_so(beam: Cli) -> None:
    done = beam("agent", "reset", "scripted")
    assert done.code == 0
    said_once(done, "no session")


def test_an_agent_in_a_turn_is_not_removed(beam: Cli) -> None:
    beam("agent", "add", "slow", "--command", "sleep 5")
    process = beam.start("send", "slow", "hi")
    beam.shell('until beam status --json | grep -q \'"state":"running"\'; do sleep 0.1; done', timeout=20)
    refused(beam("agent", "rm", "slow", "--purge"), 12, "slow", "in a turn")
    process.send_signal(2)
    process.communicate(timeout=30)


def test_the_table_has_what_can_be_used_here_and_one_line_each_for_what_is_missing_and_what_was_never_seen(
    beam: Cli,
) -> None:
    done = beam.with_env({"PATH": "/usr/bin:/bin"})("agent", "list")
    shown = [line.split("\t")[0] for line in done.out.splitlines()[1:]]
    assert "scripted" in shown and "mailbox" in shown
    assert not {"claude", "amp"} & set(shown)
    missing, unverified = done.err.splitlines()
    assert "Not installed: claude, codex" in missing
    assert "amp" in unverified and "beam agent list --all" in unverified
    every = beam("agent", "list", "--all")
    assert {"claude", "amp", "scripted"} <= {line.split("\t")[0] for line in every.out.splitlines()}
    assert every.out.splitlines()[-1].split("\t")[2] == "unverified"
