"""Putting a message into its queue: once, and only where it can run."""

from __future__ import annotations

import shutil
from typing import Any

import msgspec
import pytest

from beam.base.errors import BeamError, DiskError, NotFoundError
from beam.broker.inbox import closing
from beam.broker.inbox.put import find_receiver, put
from beam.model.message import keyed_id
from beam.store import lanes
from beam.store.queue import Queue
from tests.support.context import Root


def refused(call: Any, *args: Any, **fields: Any) -> tuple[str, str, str, str | None]:
    with pytest.raises(BeamError) as error:
        call(*args, **fields)
    return error.value.kind, error.value.message, error.value.hint, error.value.subject


def test_a_receiver_is_the_agent_with_its_settings_and_its_standing(root: Root) -> None:
    root.clock.elapsed = 5.0
    found = find_receiver(root.context, "worker")
    assert (found.resolved.settings.adapter, found.adapter.card.name, found.looked_at) == ("command", "command", 5.0)
    assert (found.stands.trusted, found.stands.refusal) == (True, None)


def test_an_agent_whose_cli_is_missing_gets_messages_only_if_none_is_needed(root: Root) -> None:
    root.environ["PATH"] = "/nonexistent"
    root.reload()
    kind, message, _, subject = refused(find_receiver, root.context, "claude")
    assert (kind, subject) == ("not_found", "claude") or "claude" in message
    assert kind != ""
    assert find_receiver(root.context, "claude", needs_cli=False).adapter.card.name == "claude"


def test_an_agent_that_is_not_there_and_one_in_a_folder_without_trust_are_refused(root: Root) -> None:
    assert refused(find_receiver, root.context, "nobody")[0] == "not_found"
    root.environ.pop("BEAM_TRUST")
    assert refused(find_receiver, root.context, "worker")[0] == "untrusted"


def test_an_agent_that_is_archived_is_refused(root: Root) -> None:
    archived = root.place("worker").archived
    archived.parent.mkdir(parents=True, exist_ok=True)
    archived.symlink_to("nowhere")
    kind, message, hint, subject = refused(find_receiver, root.context, "worker")
    assert (kind, "worker" in message, hint != "", subject) == (kind, True, True, "worker")
    assert "archived" in message


def test_a_message_is_put_once_by_its_key(root: Root) -> None:
    message = root.message("worker", id=keyed_id("worker", "k"), key="k")
    paths = root.place("worker")
    assert put(root.context, paths, message)
    assert not put(root.context, paths, message)
    assert root.boxes("worker") == {"new": [message.id]}
    other = msgspec.structs.replace(message, payload=msgspec.structs.replace(message.payload, text="other"))
    assert refused(put, root.context, paths, other) == (
        "usage",
        "key 'k' was used for another message to worker",
        f"beam show {message.id} shows it; choose another one",
        message.id,
    )


@pytest.mark.parametrize("is_over", [False, True])
def test_a_message_is_put_once_by_its_id_also_after_it_ended(root: Root, is_over: bool) -> None:
    message, paths = root.message("worker"), root.place("worker")
    assert put(root.context, paths, message, once=True)
    if is_over:
        lease = root.hold("worker")
        (entry,) = lease.waiting.scan()
        closing.dead_letter(lease.log, entry, message, "dropped", "done")
        lease.close()
    assert not put(root.context, paths, message, once=True)
    other = msgspec.structs.replace(message, payload=msgspec.structs.replace(message.payload, text="other"))
    assert refused(put, root.context, paths, other, once=True)[:2] == (
        "usage",
        "that name was used for another message to worker",
    )
    assert root.boxes("worker") == ({} if is_over else {"new": [message.id]})


def test_a_message_without_a_key_is_put_as_often_as_it_is_sent(root: Root) -> None:
    paths = root.place("worker")
    assert put(root.context, paths, root.message("worker"))
    assert put(root.context, paths, root.message("worker"))
    assert len(root.boxes("worker")["new"]) == 2


def test_a_lane_is_entered_and_a_mailbox_has_none(root: Root) -> None:
    lane = root.context.agent_paths("worker", "l1")
    assert put(root.context, lane, root.message("worker"))
    assert [each.lane for each in lanes.indexed_lanes(root.place("worker"))] == ["l1"]
    assert refused(put, root.context, root.context.agent_paths("box", "l1"), root.message("box"))[:3] == (
        "usage",
        "box is a mailbox, and has no sessions",
        "send without --once",
    )


def test_a_lane_that_was_taken_out_of_the_list_meanwhile_is_entered_again(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = root.context.agent_paths("worker", "l1")
    real = Queue.put

    def then_left(queue: Queue, *args: Any, **fields: Any) -> bool:
        lanes.remove_from_index(lane)
        return real(queue, *args, **fields)

    monkeypatch.setattr(Queue, "put", then_left)
    assert put(root.context, lane, root.message("worker"))
    assert [each.lane for each in lanes.indexed_lanes(root.place("worker"))] == ["l1"]


def test_an_agents_message_in_a_thread_without_budget_is_refused(tmp_path: Any) -> None:
    root = Root(tmp_path)
    (root.base / "beam.yaml").write_text("agents: {worker: {command: [cat]}}\npolicy: {thread_turns: 3}\n")
    root.reload()
    from beam.model.message import Spent

    message = root.message("worker", sender="asker", hops=1, spent=Spent(turns=3))
    kind, said, hint, subject = refused(put, root.context, root.place("worker"), message)
    assert (kind, subject) == ("limit", "worker")
    assert said.startswith("the budget of thread t is used up: ")
    assert hint == "a person may start a new thread; `policy:` in beam.yaml has the bounds"
    assert put(root.context, root.place("worker"), root.message("worker", spent=Spent(turns=2), hops=1, sender="asker"))


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_disk_error_means_a_removed_agent_only_where_its_files_are_gone(
    root: Root, monkeypatch: pytest.MonkeyPatch, is_removed: bool
) -> None:
    message, paths = root.message("worker"), root.place("worker")

    def fails(*_: object, **__: object) -> bool:
        if is_removed:
            shutil.rmtree(paths.dir)
        raise DiskError("can't write")

    monkeypatch.setattr(Queue, "put", fails)
    if not is_removed:
        with pytest.raises(DiskError, match="can't write"):
            put(root.context, paths, message)
        return
    with pytest.raises(NotFoundError) as error:
        put(root.context, paths, message)
    assert (error.value.message, error.value.hint, error.value.subject) == (
        f"{message.id} is gone: worker was removed with all its messages",
        "nothing will answer it; send it to another agent",
        message.id,
    )
