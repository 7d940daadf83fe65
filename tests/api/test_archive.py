"""Agents are archived, restored and renamed while nothing of theirs is under way."""

from __future__ import annotations

from typing import Any

import pytest

from beam.api import archive, lock_wait, manage
from beam.base.clock import rfc3339
from beam.base.errors import NotFoundError, UnfinishedError, UsageError
from beam.broker.holder.control import answer_requests
from beam.broker.holder.duty import step
from beam.broker.inbox import closing, standing
from beam.model import events
from beam.model.outcome import Status
from beam.model.settings import AgentSettings
from beam.store import control, lanes
from beam.store.lock import try_lock
from beam.store.queue import Queue
from tests.support.context import SECOND_NS, Root
from tests.support.journals import closed, finished, record, result, started
from tests.support.refused import refused


@pytest.fixture
def root(root: Root, monkeypatch: pytest.MonkeyPatch) -> Root:
    """With an agent `mine` that had no message yet."""
    monkeypatch.setattr(lock_wait, "_TIMEOUT_S", 0.0)
    manage.add_agent(root.context, "mine", AgentSettings(adapter="scripted"))
    root.reload()
    return root


def archived(root: Root, name: str = "mine") -> str:
    done: str = result(archive.archive(root.context, name, by="ann"))
    return done


def restored(root: Root, name: str = "mine") -> str:
    done: str = result(archive.restore(root.context, name, by="ann"))
    return done


def renamed(root: Root, new: str = "yours", name: str = "mine") -> str:
    done: str = result(archive.rename(root.context, name, new, by="ann"))
    return done


def test_an_agent_is_archived_once_and_restored_once(root: Root) -> None:
    assert archived(root) == "mine is archived; to bring it back: beam agent archive --restore mine"
    place = root.context.agent_paths("mine")
    assert place.archived.read_text() == "2023-11-14T22:13:20.000000Z\n"
    root.clock.sleep(1)
    assert archived(root) == "mine is archived already"
    assert place.archived.read_text() == "2023-11-14T22:13:20.000000Z\n"
    assert restored(root) == "mine takes messages again" and not place.archived.exists()
    with refused(NotFoundError, "mine is not archived", "beam agent sessions", subject="mine"):
        restored(root)


@pytest.mark.parametrize("act", [archived, restored, lambda root, name: renamed(root, name=name)])
def test_an_agent_that_was_never_used_is_not_found(act: Any, root: Root) -> None:
    for name in ("worker", "nobody"):
        with refused(NotFoundError, f"{name} has no files here", "beam agent sessions; beam agent list", subject=name):
            act(root, name)
    with pytest.raises(UsageError):
        act(root, "No Name")


def waits(root: Root) -> str:
    root.put("mine")
    return "has messages that wait"


def waits_and_was_seen(root: Root) -> str:
    why = waits(root)
    lease = root.hold("mine")
    assert step(lease).entries
    lease.close()
    return why


def is_claimed(root: Root) -> str:
    root.put("mine")
    (waiting,) = (root.place("mine").queue / "new").iterdir()
    waiting.rename(waiting.parent.parent / "cur" / waiting.name)
    return "has messages that wait"


def is_asked(root: Root) -> str:
    wish = control.ControlRequest(
        id="mine-1", verb="pause", timestamp="2026-01-01T00:00:00Z", expires="2030-01-01T00:00:00Z"
    )
    control.publish(root.place("mine").control, wish)
    return "has messages that wait"


def runs(root: Root) -> str:
    record(root, "mine", started())
    return "has an unfinished turn"


def is_not_closed(root: Root) -> str:
    record(root, "mine", events.MessageQueued(message_id="mine-1", sender="human", text="x", digest="d"))
    return "has an unfinished turn"


def keeps(root: Root) -> str:
    record(root, "mine", started(), events.AgentKept(pid=1, turn=1, message_id="m-1"), finished(), closed())
    return "has an unfinished turn"


def is_blocked(root: Root) -> str:
    record(root, "mine", started(), finished(), closed(), events.Notice(code="blocked", text="why"))
    return "has an unfinished turn"


def has_a_lane(root: Root) -> str:
    lane = root.context.agent_paths("mine", "aaaa")
    from beam.root import discovery

    discovery.create(root.context.home, lane)
    lanes.add_to_index(lane)
    assert Queue(lane.queue, lane.put_lock).put(root.message("mine"), root.clock, root.context.config.limits)
    return "has --once messages that are not over"


def is_owed(root: Root) -> str:
    message = root.put("box", sender="mine", reply="queue")
    return f"is owed an answer to {message.id} by box"


@pytest.mark.slow
@pytest.mark.parametrize(
    "busy",
    [waits, waits_and_was_seen, is_claimed, is_asked, runs, is_not_closed, keeps, is_blocked, has_a_lane, is_owed],
)
@pytest.mark.parametrize("act", [archived, renamed])
def test_an_agent_is_left_as_it_is_while_something_of_it_is_under_way(act: Any, busy: Any, root: Root) -> None:
    why = busy(root)
    hint = "wait for it: beam wait --agent mine --until idle"
    with refused(UnfinishedError, f"mine {why}", hint, subject="mine"):
        act(root)
    assert not root.context.agent_paths("mine").archived.exists() and root.context.agent_paths("mine").dir.exists()


def test_a_lane_that_somebody_holds_is_not_over(root: Root) -> None:
    lane = root.context.agent_paths("mine", "aaaa")
    from beam.root import discovery

    discovery.create(root.context.home, lane)
    lanes.add_to_index(lane)
    assert archived(root).startswith("mine is archived")
    restored(root)
    lock = try_lock(lane.lock)
    assert lock is not None
    with lock, pytest.raises(UnfinishedError, match="has --once messages that are not over"):
        archived(root)


@pytest.mark.slow
def test_what_does_not_wait_for_an_answer_keeps_nobody(root: Root) -> None:
    root.put("box", sender="mine")
    root.put("asker", sender="another", reply="queue")
    broken = root.put("box", "broken", sender="mine", reply="queue")
    queue = root.queue("box")
    entry = queue.find(broken.id)
    assert entry is not None
    queue.path(entry).write_bytes(b"junk")
    assert archived(root).startswith("mine is archived")


@pytest.mark.slow
@pytest.mark.parametrize("act", [archived, renamed])
def test_an_agent_that_is_held_is_in_a_turn(act: Any, root: Root) -> None:
    lock = try_lock(root.place("mine").lock)
    assert lock is not None
    with lock, refused(UnfinishedError, "mine is in a turn", "wait for it, or interrupt it", subject="mine"):
        act(root)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_renamed_agent_has_its_settings_its_trust_and_its_journal_under_its_new_name(root: Root) -> None:
    root.environ.pop("BEAM_TRUST")
    manage.add_agent(root.context, "shell", AgentSettings(command=("cat",)))
    root.reload()
    turns = root.context.home.turns_of(root.place("shell"))
    turns.mkdir(parents=True)
    assert renamed(root, "pipe", "shell") == "shell is called pipe now"
    assert root.context.home.agents() == ["mine", "pipe"] and not turns.exists()
    (*_, last) = root.events("pipe")
    assert isinstance(last, events.Notice) and (last.code, last.text) == (
        "renamed",
        "shell is called pipe from here on",
    )
    assert standing.check_folder(root.context, root.reload().config.resolve("pipe")).refusal is None


@pytest.mark.slow
def test_what_nobody_vouched_for_is_not_trusted_under_a_new_name(root: Root) -> None:
    root.environ.pop("BEAM_TRUST")
    path = manage.add_agent(root.context, "shell", AgentSettings(command=("cat",)))
    path.write_bytes(path.read_bytes().replace(b"cat", b"dog"))
    root.reload()
    renamed(root, "pipe", "shell")
    assert standing.check_folder(root.context, root.reload().config.resolve("pipe")).refusal is not None


@pytest.mark.parametrize("new", ["mine", "worker", "claude"])
def test_a_name_that_is_taken_is_refused(new: str, root: Root) -> None:
    with refused(UsageError, f"there is already an agent {new} here", "choose another name", subject=new):
        renamed(root, new)


@pytest.mark.slow
def test_an_agent_of_a_file_is_renamed_there(root: Root) -> None:
    root.put("worker")
    said = f"worker has settings in {root.base / 'beam.yaml'}"
    with refused(UsageError, said, "rename it there, and then its files", subject="worker"):
        renamed(root, "yours", "worker")


@pytest.mark.slow
def test_a_built_in_agent_keeps_its_name(root: Root) -> None:
    for name in ("claude", "codex"):
        root.place(name)
    manage.change_agent(root.context, "codex", {"model": "m"})
    root.reload()
    for name in ("claude", "codex"):
        hint = f"beam agent add yours {name} declares another agent of its kind"
        with refused(UsageError, f"{name} is built in, and keeps its name", hint, subject=name):
            renamed(root, "yours", name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "own", [{"adapter": "mailbox"}, {"command": ("cat",)}, {"script": "echo", "adapter": "scripted"}]
)
def test_an_agent_that_says_what_it_is_can_be_renamed(own: dict[str, Any], root: Root) -> None:
    manage.add_agent(root.context, "another", AgentSettings(**own))
    root.reload()
    assert renamed(root, "yours", "another") == "another is called yours now"


@pytest.mark.slow
def test_a_session_keeps_its_agent_and_an_agent_its_sessions(root: Root) -> None:
    root.place("mine@review")
    with refused(UsageError, "mine has sessions: mine@review", "rename or remove them first", subject="mine"):
        renamed(root)
    for new in ("yours", "worker@review"):
        said = f"mine@review can't become {new}: a session keeps its agent"
        with refused(UsageError, said, "beam agent rename mine@review mine@NAME", subject=new):
            renamed(root, new, "mine@review")
    said = "mine can't become mine@new: a session keeps its agent"
    with refused(UsageError, said, "give it a plain name", subject="mine@new"):
        renamed(root, "mine@new")
    assert renamed(root, "mine@final", "mine@review") == "mine@review is called mine@final now"
    assert archive.session_names(root.context, "mine") == ["mine@final"]


# -- dead letters ------------------------------------------------------------------------------------------------------


def give_up(root: Root, agent: str) -> str:
    """The id of a message that waited for the agent, and is a dead letter of it now."""
    (message_id,) = root.boxes(agent)["new"]
    lease = root.hold(agent)
    (entry,) = lease.waiting.scan()
    message = lease.waiting.read(entry)
    assert message is not None
    closing.dead_letter(lease.log, entry, message, "failed", "nobody knows", status=Status.UNKNOWN)
    lease.close()
    return message_id


def retried(root: Root, agent: str, message_id: str) -> tuple[bool, str]:
    """The answer to a request to retry the message, and what it says."""
    expires = rfc3339(root.clock.now_ns() + 60 * SECOND_NS)
    wish = control.ControlRequest(id=f"{agent}-1", verb="retry", timestamp="t", expires=expires, target=message_id)
    control.publish(root.place(agent).control, wish)
    lease = root.hold(agent)
    answer_requests(lease)
    lease.close()
    done = [event for event in root.events(agent) if isinstance(event, events.ControlDone)]
    return done[-1].ok, done[-1].message


def dead(root: Root, agent: str) -> list[Status]:
    """The statuses of the dead letters in the agent's journal."""
    return [event.status for event in root.events(agent) if isinstance(event, events.MessageDead)]


def test_a_dead_letter_of_a_renamed_agent_is_retried_under_its_new_name(root: Root) -> None:
    root.put("mine", "again")
    message_id = give_up(root, "mine")
    renamed(root)
    assert retried(root, "yours", message_id) == (True, "attempt 2")
    assert root.boxes("yours") == {"new": [message_id]} and dead(root, "yours") == [Status.UNKNOWN]
    lease = root.hold("yours")
    claimed = lease.waiting.claim(lease.waiting.scan()[0])
    assert claimed is not None
    message = claimed[1]
    assert (message.to, message.text, message.attempt) == ("yours", "again", 2)
    lease.close()


@pytest.mark.slow
def test_a_dead_letter_is_retried_after_each_new_name(root: Root) -> None:
    root.put("mine")
    message_id = give_up(root, "mine")
    for attempt, (name, new) in enumerate([("mine", "yours"), ("yours", "ours"), ("ours", "mine")], 2):
        renamed(root, new, name)
        assert retried(root, new, message_id) == (True, f"attempt {attempt}")
        assert root.boxes(new) == {"new": [message_id]}
        assert give_up(root, new) == message_id
    assert dead(root, "mine") == [Status.UNKNOWN] * 4


@pytest.mark.slow
def test_a_dead_letter_that_the_journal_has_forgotten_is_retried_under_the_new_name(root: Root) -> None:
    root.put("mine")
    message_id = give_up(root, "mine")
    for segment in root.place("mine").journal.iterdir():
        segment.unlink()
    renamed(root)
    assert retried(root, "yours", message_id) == (True, "attempt 2")
    assert root.boxes("yours") == {"new": [message_id]} and dead(root, "yours") == []
