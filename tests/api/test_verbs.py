"""The verbs of `Beam` without any process: a person, and two mailboxes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam.api import Beam
from beam.api.messages import PendingMessage
from beam.base.errors import NotFoundError, UnfinishedError, UnsupportedError, UsageError
from beam.model import events
from beam.model.message import Message
from beam.model.settings import AgentSettings
from beam.root import discovery
from beam.store.journal import Journal

CONFIG = "agents:\n  box: {adapter: mailbox}\n  other: {adapter: mailbox}\n  bot: {adapter: scripted, script: echo}\n"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", **state}


@pytest.fixture
def beam(tmp_path: Path, environ: dict[str, str]) -> Beam:
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    (tmp_path / "project/beam.yaml").write_text(CONFIG)
    return Beam(cwd=tmp_path / "project", environ={**environ, "BEAM_TRUST": "1"})


def put(beam: Beam, text: str = "hi", to: str = "box") -> Message:
    """A message that waits."""
    message = beam.message(to, text, wait=False)
    beam.put(message)
    return message


def answered(beam: Beam, text: str = "yes", *, failed: bool = False) -> Message:
    """A message that has its answer."""
    message = put(beam)
    assert beam.recv("box") is not None
    beam.reply(message.id, text, failed=failed)
    return message


@pytest.mark.slow
def test_agents_are_declared_changed_and_removed(beam: Beam) -> None:
    path = beam.add_agent("mine", AgentSettings(adapter="scripted", script="echo"))
    assert path.name == "agent.json" and "mine" in [line.agent for line in beam.agents()]
    with pytest.raises(UsageError):
        beam.add_agent("mine", AgentSettings(adapter="scripted"))
    beam.set_agent("mine", {"model": "m1"})
    assert beam.agent("mine").settings.model == "m1" and beam.models() == ["m1"]
    beam.set_agent("mine", {"model": None})
    assert beam.agent("mine").settings.model is None
    assert "not declared any more" in beam.remove_agent("mine")
    with pytest.raises(NotFoundError):
        beam.agent("mine")
    with pytest.raises(NotFoundError):
        beam.remove_agent("mine")


@pytest.mark.slow
def test_with_purge_all_files_of_an_agent_go_and_a_waiting_sender_is_told(beam: Beam) -> None:
    beam.add_agent("mine", AgentSettings(adapter="mailbox"))
    message = put(beam, to="mine")
    done = beam.remove_agent("mine", purge=True)
    assert "1 waited" in done and not beam.context.agent_paths("mine").dir.exists()
    with pytest.raises(NotFoundError):
        beam.show(message.id)


@pytest.mark.slow
def test_an_archived_agent_takes_nothing_until_it_is_restored(beam: Beam) -> None:
    beam.add_agent("mine", AgentSettings(adapter="mailbox"))
    assert beam.archive_agent("mine").startswith("mine is archived")
    assert "mine" not in [line.agent for line in beam.agents()]
    with pytest.raises(UsageError):
        put(beam, to="mine")
    assert beam.archive_agent("mine", restore=True)
    put(beam, to="mine")
    with pytest.raises(UnfinishedError):
        beam.archive_agent("mine")
    with pytest.raises(NotFoundError):
        beam.archive_agent("nobody")


@pytest.mark.slow
def test_a_renamed_agent_keeps_its_messages(beam: Beam) -> None:
    beam.add_agent("mine", AgentSettings(adapter="mailbox"))
    message = put(beam, to="mine")
    with pytest.raises(UnfinishedError):
        beam.rename_agent("mine", "yours")
    beam.recv("mine")
    beam.reply(message.id, "yes")
    assert beam.rename_agent("mine", "yours") == "mine is called yours now"
    assert len(list(beam.events("yours"))) > 1
    for taken in ("box", "yours"):
        with pytest.raises((UsageError, NotFoundError)):
            beam.rename_agent("yours", taken)


@pytest.mark.slow
def test_a_mailbox_has_no_sessions(beam: Beam) -> None:
    answered(beam)
    (line,) = beam.sessions(["box"])
    assert (line.agent, line.state, line.session_id, line.turns) == ("box", "none", None, 0)
    assert beam.reset("box") == "no session"
    with pytest.raises(NotFoundError):
        beam.resume_session("box", "abcdef")
    with pytest.raises(UnsupportedError):
        beam.fork_agent("box", "twin")
    with pytest.raises(UsageError):
        beam.adopt_session("twin", "nonsense", AgentSettings())
    with pytest.raises(UsageError):
        beam.unblock("box")


def test_a_session_of_a_cli_becomes_an_agents_first(beam: Beam) -> None:
    assert "scripted" in beam.adopt_session("twin", "scripted:11111111-2222-4333-8444-555555555555", AgentSettings())
    (line,) = beam.sessions(["twin"])
    assert (line.session_id, line.state) == ("11111111-2222-4333-8444-555555555555", "current")
    with pytest.raises(UsageError):
        beam.adopt_session("twin", "scripted:11111111-2222-4333-8444-555555555555", AgentSettings())


def test_what_an_adopted_session_contained_comes_into_the_journal_once(beam: Beam, environ: dict[str, str]) -> None:
    session_id = "0b0e6f9c-4d5e-4f6a-8b7c-9d0e1f2a3b4c"
    path = Path(environ["HOME"]) / ".claude/projects/-p" / f"{session_id}.jsonl"
    path.parent.mkdir(parents=True)
    lines = [
        {"type": "user", "uuid": str(number), "timestamp": f"2026-11-2{number}T10:00:00Z", "message": {"content": "hi"}}
        for number in (1, 1, 2, 3)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    paths = beam.context.agent_paths("twin")
    discovery.create(beam.home, paths)
    journal = Journal.open(paths.journal, "twin", beam.context.clock, beam.context.config.limits)
    journal.append(events.SessionPrompted(text="hi", imported="2026-11-21T10:00:00.000000Z"))
    journal.close()  # a try that was killed got that far
    said = beam.adopt_session("twin", f"claude:{session_id}", AgentSettings())
    found = list(beam.events("twin"))
    prompts = [event for event in found if isinstance(event, events.SessionPrompted)]
    assert [event.imported[:10] for event in prompts if event.imported] == ["2026-11-21", "2026-11-22", "2026-11-23"]
    assert [str(event.__struct_config__.tag) for event in found[3:]] == ["session.imported", "session.selected"]
    assert "3 events of it are in the journal" in said
    assert all(event.turn is None and event.ts > "2026-11-25" for event in found)
    (line,) = beam.sessions(["twin"])
    assert (line.session_id, line.state, line.turns) == (session_id, "current", 0)


def test_a_session_without_files_is_adopted_and_said_to_have_none(beam: Beam) -> None:
    assert "no files of it were found" in beam.adopt_session("twin", "claude:0b0e6f9c-4d5e", AgentSettings())
    (imported, _) = beam.events("twin")
    assert isinstance(imported, events.SessionImported) and (imported.events, imported.left_out) == (0, None)


@pytest.mark.slow
def test_a_queue_is_changed_by_its_messages_ids(beam: Beam) -> None:
    first, second = put(beam, "one"), put(beam, "two")
    assert [(item.id, item.box) for item in beam.queue(["box"])] == [(first.id, "waiting"), (second.id, "waiting")]
    assert beam.edit(first.id, "eins") == "revision 1"
    assert beam.drop(second.id) == "dropped"
    assert beam.pause("box") == "paused" and beam.recv("box") is None
    assert beam.resume("box") == "resumed"
    taken = beam.recv("box")
    assert taken is not None and taken.payload.text == "eins"
    outcome = beam.show(second.id)
    assert not isinstance(outcome, PendingMessage) and outcome.status == "cancelled"
    with pytest.raises(NotFoundError):
        beam.edit("box-zzzzzz", "x")


@pytest.mark.slow
def test_dead_letters_are_run_again_or_dropped(beam: Beam) -> None:
    message = answered(beam, "no", failed=True)
    assert [(item.id, item.box) for item in beam.queue()] == [(message.id, "dead")]
    beam.retry(message.id)
    assert [(item.id, item.box, item.attempt) for item in beam.queue()] == [(message.id, "waiting", 2)]
    beam.recv("box")
    beam.reply(message.id, "no", failed=True)
    assert beam.drop_dead(["box"]) == [message.id]
    assert list(beam.queue()) == []


@pytest.mark.slow
def test_a_waiting_message_is_withdrawn(beam: Beam) -> None:
    message = put(beam)
    beam.interrupt(message.id)
    outcome = beam.wait(message.id)
    assert (outcome.status, outcome.turn) == ("cancelled", None)


@pytest.mark.slow
def test_an_outcome_is_waited_for_and_shown(beam: Beam) -> None:
    waiting = put(beam)
    pending = beam.show(waiting.id)
    assert isinstance(pending, PendingMessage) and (pending.status, pending.position) == ("waiting", 0)
    with pytest.raises(UnfinishedError):
        beam.wait(waiting.id, timeout=0.01)
    beam.recv("box")
    beam.reply(waiting.id, "yes")
    assert beam.wait(waiting.id[-6:]).reply == "yes"
    second = answered(beam, "also")
    ended = []
    outcomes = beam.wait_several([waiting.id, second.id], ended=ended.append)
    assert {each.reply for each in outcomes} == {"yes", "also"} and len(ended) == 2
    assert len(beam.wait_several([waiting.id, second.id], only_first=True)) == 1


@pytest.mark.slow
def test_agents_are_waited_for_until_they_are_idle(beam: Beam) -> None:
    answered(beam)
    assert beam.are_idle(["box"]) and beam.are_idle([])
    assert list(beam.wait_until(["box"], "idle")) == ["box"]
    put(beam)
    assert not beam.are_idle(["box"])
    with pytest.raises(UnfinishedError):
        beam.wait_until(["box"], "idle", timeout=0.01)
    with pytest.raises(NotFoundError):
        beam.wait_until(["nobody"], "idle")


@pytest.mark.slow
def test_states_events_and_usage_are_looked_up(beam: Beam) -> None:
    message = answered(beam)
    (status,) = beam.status(["box"])
    assert (status.state, status.waiting, status.turn, status.dead) == ("idle", 0, 1, 0)
    assert status.last is not None and status.last.status == "completed"
    assert [event.seq for event in beam.events("box", after=2)] == list(range(3, 3 + len(list(beam.events("box"))) - 2))
    assert [line.turns for line in beam.usage()] == [1, 1]
    assert beam.folder("box") == str(beam.home.project)
    assert beam.agent_of("box") == "box" and beam.find_message(message.id[-6:]) == ("box", message.id)
    assert beam.message_ids(5) == [message.id] and beam.verify("box") == []
    with pytest.raises(UsageError):
        beam.running("box")
    with pytest.raises(NotFoundError):
        beam.agent_of("nobody")


@pytest.mark.slow
def test_nothing_is_asked_and_no_process_is_there_to_be_asked(beam: Beam) -> None:
    answered(beam)
    assert list(beam.asks()) == [] and not beam.is_live("box")
    for call in (
        lambda: beam.approve("box-123456"),
        lambda: beam.deny("box-123456"),
        lambda: beam.steer("box", "text"),
        lambda: beam.set_live("box", "model", "m"),
        lambda: beam.ask_live("box"),
        lambda: beam.attach("box"),
    ):
        with pytest.raises((NotFoundError, UnsupportedError)):
            call()
    assert "kept" in beam.release_agent("box")


@pytest.mark.slow
def test_rules_are_added_tried_and_removed(beam: Beam) -> None:
    beam.add_rule("bot", "deny", "Bash(rm *)")
    (line,) = beam.rules("bot")
    assert (line.decision, line.rule, line.whose) == ("deny", "Bash(rm *)", "agent.json")
    assert beam.try_rules("bot", "Bash(rm x)").decision == "deny"
    assert beam.try_rules("bot", "Bash(ls)").decision is None
    beam.remove_rule("bot", "deny", "Bash(rm *)")
    assert list(beam.rules("bot")) == []
    with pytest.raises(NotFoundError):
        beam.remove_rule("bot", "deny", "Bash(rm *)")
    with pytest.raises(UsageError):
        beam.add_rule("bot", "deny", "Nonsense(")


def test_the_roots_of_a_user_are_listed_and_one_is_removed_with_its_messages(beam: Beam) -> None:
    put(beam)
    (line,) = beam.roots()
    assert (line.root, line.project, list(line.agents), line.waiting) == (
        str(beam.home.root),
        str(beam.home.project),
        ["box"],
        1,
    )
    with pytest.raises(UsageError):
        beam.remove_root(beam.home.root)
    beam.remove_root(beam.home.root, sure=True)
    assert not beam.home.root.exists() and list(beam.roots()) == []
    with pytest.raises(NotFoundError):
        beam.remove_root(beam.home.root)


@pytest.mark.slow
def test_the_agents_of_a_moved_folder_are_adopted_in_its_new_place(
    beam: Beam, environ: dict[str, str], tmp_path: Path
) -> None:
    message = answered(beam)
    (tmp_path / "project").rename(tmp_path / "moved")
    moved = Beam(cwd=tmp_path / "moved", environ=environ)
    (candidate,) = moved.adoptable()
    assert [each.agent for each in candidate.agents] == ["box"] and not candidate.agents[0].taken
    moved.adopt(candidate)
    outcome = moved.show(message.id)
    assert not isinstance(outcome, PendingMessage) and outcome.reply == "yes"
    assert moved.adoptable() == []


@pytest.mark.slow
def test_a_folder_is_trusted_as_it_was_shown_and_no_longer(beam: Beam, environ: dict[str, str]) -> None:
    careful = Beam(cwd=beam.home.project, environ=environ)
    (beam.home.project / "beam.yaml").write_text(CONFIG + "  sh: {command: [sh, -c, ls]}\n")
    looked = careful.look_at_folder()
    assert looked.found and not looked.standing.trusted
    assert careful.trust(looked) == beam.home.project
    assert careful.look_at_folder().standing.trusted
    assert careful.untrust() == beam.home.project
    assert not careful.look_at_folder().standing.trusted


def test_no_broker_serves_and_its_unit_names_the_root(beam: Beam) -> None:
    assert beam.broker() is None
    assert str(beam.home.root) in beam.broker_unit()
    with pytest.raises(NotFoundError):
        beam.stop_broker()


@pytest.mark.slow
def test_what_is_over_is_removed_and_only_told_of_in_a_dry_run(beam: Beam) -> None:
    answered(beam, "no", failed=True)
    planned = beam.gc(older_than=0, dead=True, dry_run=True)
    assert planned.removed
    assert [item.path for item in beam.gc(older_than=0, dead=True).removed] == [item.path for item in planned.removed]
    assert beam.gc(older_than=0, dead=True).removed == ()
