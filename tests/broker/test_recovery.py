"""Recovery: what a new holder makes of every message file, by what the journal says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.base import files
from beam.broker.inbox.context import Sender
from beam.broker.inbox.outbox import Outboxes
from beam.model import events
from beam.model.events import Owner
from beam.model.message import Message
from beam.model.outcome import Status
from beam.model.state import CLOSED, DEAD
from beam.process import tree
from beam.store.queue import Entry
from tests.support.context import Root

ELSEWHERE = Owner(pid=1, start_ticks=1, boot_id="another", pid_namespace="another", host="another.host")


def kinds(root: Root, agent: str = "worker") -> list[str]:
    return [type(event).__name__ for event in root.events(agent)]


def last(root: Root, kind: type[events.Event], agent: str = "worker") -> events.Event:
    return [event for event in root.events(agent) if isinstance(event, kind)][-1]


def died_at(root: Root, step: str, owner: Owner | None = None, **fields: object) -> tuple[Message, Entry]:
    """A message whose holder died right after this step."""
    message = root.put("worker", **fields)
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    bodies: list[tuple[str, events.Event]] = [
        (
            "started",
            events.TurnStarted(owner=owner or tree.this_process(), turn_key="k" * 32, adapter="command", via="exec"),
        ),
        ("sent", events.PromptSent()),
        ("finished", events.TurnFinished(status=Status.COMPLETED, reply="yes")),
        ("closed", events.TurnClosed()),
    ]
    if step != "claimed":
        for name, body in bodies:
            lease.log.record(body, turn=1, message_id=message.id, sync=True)
            if name == step:
                break
            if step == "asking" or (step == "asking_sent" and name == "sent"):
                asked = events.PermissionAsked(ask_id="worker-ask", tool="Bash")
                lease.log.record(asked, turn=1, message_id=message.id, sync=True)
                break
    lease.close()
    return message, claimed[0]


@pytest.mark.slow
@pytest.mark.parametrize("sent", [True, False])
def test_an_open_ask_of_a_dead_holder_is_cancelled_before_anything_else_and_its_file_goes(
    root: Root, sent: bool
) -> None:
    message, _ = died_at(root, "asking_sent" if sent else "asking")
    (file,) = (root.place("worker").asks).iterdir()
    stale = file.with_name("worker-stale.json")
    stale.write_text("{}")
    lease = root.hold("worker")
    cancelled = last(root, events.PermissionDecided)
    assert isinstance(cancelled, events.PermissionDecided) and cancelled.decision == "cancelled"
    assert (cancelled.ask_id, cancelled.message_id, cancelled.turn) == ("worker-ask", message.id, 1)
    assert cancelled.why == "its holder died" and not file.exists() and not stale.exists()
    assert ("TurnFinished" in kinds(root)[-4:]) == sent
    lease.close()


def test_the_file_of_an_open_ask_is_made_again_where_the_turn_is_on_another_host(root: Root) -> None:
    died_at(root, "asking", owner=ELSEWHERE)
    (file,) = (root.place("worker").asks).iterdir()
    file.unlink()
    lease = root.hold("worker")
    assert lease.blocked is not None and file.exists()
    lease.close()


@pytest.mark.parametrize("step", ["claimed", "started"])
def test_a_message_whose_prompt_was_not_sent_goes_back_to_its_place(root: Root, step: str) -> None:
    message, entry = died_at(root, step)
    later = root.put("worker", "later")
    lease = root.hold("worker")
    assert [each.id for each in lease.waiting.scan()] == [message.id, later.id]
    assert lease.log.queue.entries("new")[0].position == entry.position
    assert (lease.log.state.known[message.id].deaths, lease.log.state.known[message.id].attempt) == (1, 1)
    assert lease.log.state.open_turn is None


@pytest.mark.slow
def test_a_message_whose_prompt_was_sent_is_unknown_and_a_dead_letter(root: Root) -> None:
    message, _ = died_at(root, "sent", sender="asker", reply="queue")
    lease = root.hold("worker")
    assert root.boxes("worker") == {"dead": [message.id]}
    assert lease.log.state.known[message.id].status is Status.UNKNOWN
    assert last(root, events.TurnFinished).exit_code == 8  # type: ignore[attr-defined]
    assert len(root.boxes("asker")["new"]) == 1
    assert lease.waiting.scan() == []


@pytest.mark.slow
@pytest.mark.parametrize("key", ["k" * 32, "j" * 32])
def test_a_message_whose_agent_was_never_let_go_goes_back_if_the_guard_of_this_very_turn_says_so(
    root: Root, key: str
) -> None:
    message, _ = died_at(root, "sent")
    word = root.place("worker").unstarted_note(key)
    word.touch()
    lease = root.hold("worker")
    is_this_turn = key == "k" * 32
    assert root.boxes("worker") == {"new" if is_this_turn else "dead": [message.id]}
    assert lease.log.state.known[message.id].status is (None if is_this_turn else Status.UNKNOWN)
    assert not word.exists()


@pytest.mark.slow
def test_a_finished_message_is_closed_though_its_file_was_left(root: Root) -> None:
    message, _ = died_at(root, "finished", sender="asker", reply="queue")
    lease = root.hold("worker")
    assert root.boxes("worker") == {}
    assert lease.log.state.known[message.id].phase == CLOSED
    assert len(root.boxes("asker")["new"]) == 1
    lease.close()
    before = kinds(root)
    root.hold("worker")
    assert kinds(root) == before


def test_a_closed_message_is_removed_and_never_run(root: Root) -> None:
    died_at(root, "closed")
    lease = root.hold("worker")
    assert root.boxes("worker") == {}
    assert lease.waiting.scan() == []


@pytest.mark.slow
def test_the_third_death_before_the_prompt_is_the_last(root: Root) -> None:
    message, _ = died_at(root, "started", sender="asker", reply="queue")
    for deaths in (1, 2):
        lease = root.hold("worker")
        assert lease.log.state.known[message.id].deaths == deaths
        (entry,) = lease.waiting.scan()
        assert lease.waiting.claim(entry) is not None
        lease.close()
    lease = root.hold("worker")
    assert root.boxes("worker") == {"dead": [message.id]}
    assert last(root, events.MessageDead).detail == "holder died 3 times before the prompt was sent"  # type: ignore[attr-defined]
    assert len(root.boxes("asker")["new"]) == 1


def test_a_sent_message_whose_file_was_damaged_is_unknown_not_failed(root: Root) -> None:
    message, entry = died_at(root, "sent")
    root.queue("worker").path(entry).write_bytes(b"#")
    lease = root.hold("worker")
    assert (lease.log.state.known[message.id].phase, lease.log.state.known[message.id].status) == (DEAD, Status.UNKNOWN)
    assert lease.log.state.open_turn is None


@pytest.mark.parametrize(
    ("step", "status"), [("claimed", Status.FAILED), ("sent", Status.UNKNOWN), ("finished", Status.COMPLETED)]
)
def test_a_message_whose_file_was_taken_away_by_hand_has_an_outcome(root: Root, step: str, status: Status) -> None:
    message, entry = died_at(root, step)
    root.queue("worker").path(entry).unlink()
    lease = root.hold("worker")
    assert lease.log.state.known[message.id].phase in (CLOSED, DEAD)
    assert lease.log.state.known[message.id].status is status
    assert lease.log.state.open_turn is None


@pytest.mark.slow
def test_an_agent_whose_last_turn_ran_elsewhere_is_blocked_and_says_so_once(root: Root) -> None:
    message, _ = died_at(root, "sent", owner=ELSEWHERE)
    waiting = root.put("worker", "more")
    for _ in range(3):
        lease = root.hold("worker")
        assert "another.host" in (lease.blocked or "")
        assert lease.hand_over() is False
    notices = [event for event in root.events("worker") if isinstance(event, events.Notice)]
    assert [notice.code for notice in notices] == ["blocked"]
    assert lease.log.state.activity == "blocked"
    assert root.boxes("worker") == {"new": [waiting.id], "cur": [message.id]}


@pytest.mark.slow
def test_a_blocked_agent_goes_on_once_what_blocked_it_is_gone(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    message, _ = died_at(root, "sent", owner=ELSEWHERE)
    root.hold("worker").close()
    monkeypatch.setattr("beam.broker.holder.recovery.tree.is_alive", lambda owner: False)
    lease = root.hold("worker")
    assert (lease.blocked, lease.log.state.blocked) == (None, None)
    assert root.boxes("worker") == {"dead": [message.id]}
    assert "unblocked" in [event.code for event in root.events("worker") if isinstance(event, events.Notice)]


@pytest.mark.slow
def test_requests_that_a_dead_turn_left_and_nobody_can_carry_out_keep_no_message_from_being_recovered(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drain(boxes: Outboxes, sender: Sender) -> None:
        raise OverflowError("too much")

    message, _ = died_at(root, "sent")
    later = root.put("worker", "later")
    monkeypatch.setattr(Outboxes, "drain_leftovers", drain)
    lease = root.hold("worker")
    assert [each.id for each in lease.waiting.scan()] == [later.id]
    assert root.boxes("worker") == {"new": [later.id], "dead": [message.id]}
    assert "(OverflowError)" in last(root, events.Notice).text  # type: ignore[attr-defined]
    assert lease.log.state.open_turn is None


@pytest.mark.slow
def test_a_file_of_an_agent_that_is_dead_blocks_nothing(root: Root) -> None:
    message, _ = died_at(root, "sent")
    box = root.context.home.turns_of(root.place("worker")) / ("k" * 32) / "outbox"
    box.mkdir(parents=True)
    (box / "x.json").write_text('{"to":"box","text":"hi","deadline":1e300}')
    lease = root.hold("worker")
    assert root.boxes("worker") == {"dead": [message.id]} and lease.log.state.open_turn is None
    assert not box.exists()


@pytest.mark.slow
@pytest.mark.parametrize("cwd", ["own", "/"])
def test_a_request_that_a_dead_turn_left_attaches_only_files_of_the_agents_own_folder(
    root: Root, monkeypatch: pytest.MonkeyPatch, cwd: str
) -> None:
    """`/` stands for what the agent wrote into beam.yaml meanwhile: nobody trusts it."""
    (root.base / "own").mkdir()
    declared = (root.base / "beam.yaml").read_text()
    folders: list[Path] = []
    monkeypatch.setattr(Outboxes, "drain_leftovers", lambda boxes, sender: folders.append(sender.folder))
    died_at(root, "sent")
    (root.base / "beam.yaml").write_text(declared.replace("worker: {", f"worker: {{cwd: {cwd}, "))
    if cwd == "/":
        del root.environ["BEAM_TRUST"]
    root.reload()
    root.hold("worker").close()
    of_the_turn = root.context.home.turns_of(root.place("worker")) / ("k" * 32)
    assert folders == [of_the_turn if cwd == "/" else root.base / "own"]


def test_leftovers_of_dead_writers_and_turns_are_swept(root: Root) -> None:
    place = root.place("worker")
    (place.queue / "tmp" / "left").write_text("half")
    scratch = root.context.home.turns_of(place)
    (scratch / "key").mkdir(parents=True)
    root.hold("worker").close()
    assert files.names(place.queue / "tmp") == []
    assert not scratch.exists()


def test_a_terminal_that_was_kept_elsewhere_blocks_the_agent_until_a_person_says_it_is_gone(root: Root) -> None:
    root.put("worker")
    lease = root.hold("worker")
    begun = events.AgentStarted(pid=1, start_ticks=1, guard_pid=2, guard_start_ticks=2)
    for body in (
        events.TurnStarted(owner=ELSEWHERE, turn_key="k" * 32, adapter="command", via="terminal"),
        begun,
        events.AgentKept(pid=1),
        events.TurnClosed(),
    ):
        lease.log.record(body, turn=1, sync=True)
    lease.close()
    blocked = root.hold("worker")
    assert blocked.blocked is not None and "another.host" in blocked.blocked
    blocked.log.record(events.Notice(code="unblocked", text="a person said so"), sync=True)
    blocked.close()
    again = root.hold("worker")
    assert again.blocked is None and again.log.state.kept is None


@pytest.mark.slow
def test_a_terminal_that_a_dead_holder_kept_is_ended_and_reported(root: Root) -> None:
    lease = root.hold("worker")
    begun = events.AgentStarted(pid=2**22 + 1, start_ticks=1, guard_pid=2**22 + 2, guard_start_ticks=2)
    owner = tree.this_process()
    for body in (
        events.TurnStarted(owner=owner, turn_key="k" * 32, adapter="command", via="terminal"),
        begun,
        events.AgentKept(pid=begun.pid),
        events.TurnClosed(),
    ):
        lease.log.record(body, turn=1, sync=True)
    left = [lease.log.paths.dir / "terminal.sock", lease.log.paths.dir / f"{'a' * 32}.typing"]
    for file in left:
        file.touch()
    lease.close()
    again = root.hold("worker")
    gone = last(root, events.AgentExited)
    assert isinstance(gone, events.AgentExited)
    assert (gone.pid, gone.turn, gone.stopped_by) == (begun.pid, None, "its holder went")
    assert again.log.state.kept is None and not any(file.exists() for file in left)
